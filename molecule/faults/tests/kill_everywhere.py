"""Runs on the node: kill the module, as Ansible sent it, at every system call that writes to one of our places.

    python3 -B - SPECIFICATION.json < kill_everywhere.py

The specification: module (the program that Ansible left on the node), link and file (the sitecustomize.py that counts),
state (the state directory), kept (bytes, as text, that must never be lost). The node stands as before the module's run.
Prints {calls, kills, lost_bytes, broken} as JSON and leaves the node as after an undisturbed run.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys

WRITERS = """openat open creat write pwrite64 pwritev writev rename renameat renameat2 unlink unlinkat mkdir mkdirat rmdir symlink
symlinkat link linkat chmod fchmod fchmodat chown fchown lchown fchownat fsync fdatasync truncate ftruncate setxattr lsetxattr
fsetxattr utimensat copy_file_range sendfile"""
LINE = re.compile(r"^(\w+)\((.*?)(?:\)\s+= |\s*<unfinished)")
RANDOM = [
    (re.compile(r"(\.gpu_node\.tuning\.)\w+"), r"\1*"),
    (re.compile(r"\b\d+<"), "*<"),
    (re.compile(r", \d+"), ", *"),
]
SHOW = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('NCCL_')}))"
ASIDE = "/root/aside"
LOG = "/root/strace.log"


class Node:
    def __init__(self, specification: dict):
        self.module = specification["module"]
        self.link, self.file, self.state = (specification[key] for key in ("link", "file", "state"))
        self.kept = specification["kept"].encode()

    def keep(self) -> None:
        shutil.rmtree(ASIDE, ignore_errors=True)
        os.mkdir(ASIDE)
        subprocess.run(["cp", "-a", self.file, f"{ASIDE}/file"], check=True)
        if os.path.exists(self.state):
            subprocess.run(["cp", "-a", self.state, f"{ASIDE}/state"], check=True)

    def again(self) -> None:
        """The node as it was kept, without leftovers."""
        shutil.rmtree(self.state, ignore_errors=True)
        for path in self.leftovers():
            os.unlink(path)
        subprocess.run(["cp", "-a", "--remove-destination", f"{ASIDE}/file", self.file], check=True)
        if os.path.exists(f"{ASIDE}/state"):
            subprocess.run(["cp", "-a", f"{ASIDE}/state", self.state], check=True)
        # The start of the module would write the bytecode otherwise, in some runs and in others not.
        subprocess.run(["/usr/bin/python3", "-c", "pass"], check=True)

    def run(self, inject: str | None = None) -> tuple:
        """(exit status, its output, calls about our places as (name, nth, arguments))."""
        strace = [
            "strace",
            "-y",
            "-s",
            "0",
            "-o",
            LOG,
            "-e",
            "signal=none",
            "-e",
            "trace=" + ",".join(f"?{name}" for name in WRITERS.split()),
        ]
        words = [*strace, *(["-e", f"inject={inject}"] if inject else []), "/usr/bin/python3", self.module]
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr, self.calls()

    def calls(self) -> list:
        found, counted = [], {}
        with open(LOG, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                match = LINE.match(line)
                if match:
                    name, arguments = match.groups()
                    counted[name] = counted.get(name, 0) + 1
                    if self.is_ours(name, arguments):
                        found.append((name, counted[name], arguments))
        return found

    def is_ours(self, name: str, arguments: str) -> bool:
        places = (self.link, self.file, self.state, os.path.dirname(self.file), "/__pycache__/sitecustomize.")
        writes = not name.startswith("open") or re.search(r"O_CREAT|O_TRUNC|O_WRONLY|O_RDWR", arguments)
        return bool(writes) and any(place in arguments for place in places)

    def look(self) -> tuple:
        with open(self.file, "rb") as stream:
            content = stream.read()
        status = os.stat(self.file)
        return os.readlink(self.link), status.st_mode, status.st_uid, status.st_gid, content

    def values(self) -> dict:
        done = subprocess.run(
            ["env", "-i", "/usr/bin/python3", "-c", SHOW], check=False, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, ""), f"Python does not start as it should: {done}"
        return json.loads(done.stdout)

    def leftovers(self) -> list:
        folders = {os.path.dirname(self.file), os.path.dirname(self.link)}
        return [path for folder in folders for path in glob.glob(f"{folder}/*.gpu_node.tuning.*")]

    def numbers(self) -> list:
        return sorted(int(os.path.basename(path)) for path in glob.glob(f"{self.state}/generations/*[0-9]"))

    def is_lost(self) -> bool:
        """The bytes that must never be lost are nowhere: neither in their place nor in a generation."""
        records = glob.glob(f"{self.state}/generations/*[0-9]/**/sitecustomize.py", recursive=True)
        return not any(self.kept in open(path, "rb").read() for path in [self.file, *records])

    def records_are_whole(self) -> None:
        for number in self.numbers():
            folder = f"{self.state}/generations/{number:04d}"
            with open(f"{folder}/manifest.json", encoding="utf-8") as stream:
                manifest = json.load(stream)
            checksum = manifest.pop("checksum")
            text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
            assert hashlib.sha256(text.encode()).hexdigest() == checksum, f"generation {number}: half a manifest"
            for record in manifest["files"]:
                for side in ("before", "after"):
                    if record[side]["kind"] == "file":
                        with open(f"{folder}/{side}{record['path']}", "rb") as stream:
                            assert hashlib.sha256(stream.read()).hexdigest() == record[side]["sha256"], (
                                f"generation {number}: half a file"
                            )
        if os.path.lexists(f"{self.state}/current"):
            assert os.path.exists(f"{self.state}/current/manifest.json"), "current names no generation"

    def history_is_whole(self) -> None:
        with open(f"{self.state}/history.jsonl", encoding="utf-8") as stream:
            lines = [json.loads(line) for line in stream]
        recorded = [line["generation"] for line in lines if line["outcome"] in ("found", "applied", "adopted")]
        assert recorded == self.numbers(), f"the history has generations {recorded}, there are {self.numbers()}"


def alike(arguments: str) -> str:
    for pattern, replacement in RANDOM:
        arguments = pattern.sub(replacement, arguments)
    return arguments


def checks_after_kill(node: Node, allowed: list, allowed_values: list) -> None:
    look = node.look()
    assert look in allowed, f"the file is neither the old nor the new one: {look}"
    values = node.values()
    assert values in allowed_values, f"a fresh interpreter has {values}"
    assert not node.is_lost(), "bytes are lost"
    node.records_are_whole()


def checks_after_next_run(node: Node, new: tuple, new_values: dict) -> None:
    done = subprocess.run(["/usr/bin/python3", node.module], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"the next run fails: {done.stdout}{done.stderr}"
    assert (node.look(), node.values()) == (new, new_values), "the next run does not bring what was asked for"
    assert node.leftovers() == [], "temporary files stay"
    partial = glob.glob(f"{node.state}/**/*.partial", recursive=True)
    assert partial == [], f"half a generation stays: {partial}"
    node.records_are_whole()
    node.history_is_whole()


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as stream:
        node = Node(json.load(stream))
    node.keep()
    node.again()
    old, old_values = node.look(), node.values()
    status, said, calls = node.run()
    assert status == 0, said
    new, new_values = node.look(), node.values()
    assert new != old, "the module changed nothing, so there is nothing to interrupt"
    report = {"calls": len(calls), "kills": 0, "lost_bytes": 0, "broken": []}
    for name, nth, arguments in calls:
        node.again()
        try:
            status, said, met = node.run(f"{name}:signal=KILL:when={nth}")
            assert status in (-signal.SIGKILL, 128 + signal.SIGKILL), f"not killed: {status} {said}"
            assert (met[-1][0], alike(met[-1][2])) == (name, alike(arguments)), f"killed at {met[-1]} instead"
            checks_after_kill(node, [old, new], [old_values, new_values])
            checks_after_next_run(node, new, new_values)
            report["kills"] += 1
        except (AssertionError, OSError, ValueError, KeyError) as error:
            report["lost_bytes"] += len(node.kept) if node.is_lost() else 0
            report["broken"].append(f"killed at {name} {nth} ({arguments}): {error}")
    node.again()
    status, said, calls = node.run()
    assert status == 0, said
    print(json.dumps(report))


main()
