"""The nodes of a scenario together, and the checkout's own playbooks run on all of them at once."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
TREE_HASH = (ROOT / "tests" / "systems" / "tree_hash.py").read_text()

STATE = "/var/lib/gpu_node_tuning"
# What the hash of a tree leaves out, and why:
#   /proc /sys /dev   the kernel's own, no files of the node
#   /run /tmp         in memory; systemd's state, and where Ansible unpacks its modules
EXCLUDED = ("proc", "sys", "dev", "run", "tmp")
# What a comparison over a rollback leaves out besides: the records, to which a rollback adds, and the bytecode of this one file,
# which the tune deletes and Python writes anew at its next start as root. No other bytecode is left out.
OF_THE_STATE = re.compile(rf"'{STATE[1:]}(/.*)?'$")
BYTECODE = re.compile(r"/__pycache__/sitecustomize\.cpython-\d+\.pyc'$")
# The two times are the last fields before the path, which is quoted, as the target of a link is.
TIMES = re.compile(r"""^(\S+ \S+ \S+ \S+ (?:'[^']*'|"[^"]*"|\S+)) \d+ \d+ (['"])""")

ACTIONS = {
    "tune": "gpu_node.tuning.sitecustomize",
    "rollback": "gpu_node.tuning.generation",
    "verify": "gpu_node.tuning.sitecustomize_info",
    "history": "gpu_node.tuning.generation_info",
}


@dataclasses.dataclass
class Play:
    """One run of ansible-playbook. ``results``: every task result; ``playbook``: its name without .yml."""

    playbook: str
    rc: int
    stdout: str
    stderr: str
    results: list

    def __getitem__(self, node) -> dict:
        """What the playbook's one module returned for the node."""
        found = [entry["result"] for entry in self._of(node, "ok") if entry["action"] == ACTIONS[self.playbook]]
        assert len(found) == 1, f"{node.suite}: no result of {ACTIONS[self.playbook]}\n{self}"
        return found[0]

    def message(self, node) -> str:
        """The one message that the node failed with."""
        failed = self._of(node, "failed", "unreachable")
        assert [entry["status"] for entry in failed] == ["failed"], f"{node.suite}: {failed}\n{self}"
        said = failed[0]["result"]["msg"]
        return said if isinstance(said, str) else "\n".join(said)

    def changed(self, node) -> int:
        line = re.search(rf"^{re.escape(node.suite)} +: .*\bchanged=(\d+)", self.stdout, re.MULTILINE)
        assert line, f"no recap of {node.suite}\n{self}"
        return int(line[1])

    def warnings(self, node) -> str:
        return "\n".join(str(warning) for warning in self[node].get("warnings", []))

    def _of(self, node, *statuses: str) -> list:
        return [entry for entry in self.results if entry["host"] == node.suite and entry["status"] in statuses]

    def __str__(self) -> str:
        return f"{self.playbook}.yml: exit status {self.rc}\n{self.stdout}\n{self.stderr}"


class Fleet:
    """``nodes``: those of the scenario; ``inventory``: its inventory; ``scratch``: an empty folder on this machine."""

    def __init__(self, nodes: list, inventory: Path, scratch: Path):
        self.nodes = nodes
        self.inventory = inventory
        self.scratch = scratch
        self.timeout = 300  # seconds for one run

    def tune(self, *options: str, rc: int = 0, **extra) -> Play:
        return self.play("tune", *options, rc=rc, **extra)

    def rollback(self, *options: str, rc: int = 0, **extra) -> Play:
        return self.play("rollback", *options, rc=rc, **extra)

    def verify(self, *options: str, rc: int = 0, **extra) -> tuple[Play, dict]:
        """The run, and what it wrote into verify.json."""
        report = self.scratch / "verify.json"
        report.unlink(missing_ok=True)
        play = self.play("verify", *options, rc=rc, verify_file=str(report), **extra)
        return play, json.loads(report.read_text())

    def history(self, **extra) -> tuple[Play, dict]:
        """The run, and what it wrote into history.json."""
        report = self.scratch / "history.json"
        report.unlink(missing_ok=True)
        play = self.play("history", rc=0, history_file=str(report), **extra)
        return play, json.loads(report.read_text())

    def play(self, playbook: str, *options: str, rc: int, settings: dict | None = None, **extra) -> Play:
        """Run a playbook on all nodes. ``extra``: variables for -e; ``settings``: of Ansible. Its exit status must be ``rc``."""
        log = self.scratch / "results"
        log.write_text("")
        words = ["ansible-playbook", str(ROOT / "playbooks" / f"{playbook}.yml"), *options]
        done = self._run([*words, *(["--extra-vars", json.dumps(extra)] if extra else [])], log, settings)
        results = [json.loads(line) for line in log.read_text().splitlines()]
        play = Play(playbook, done.returncode, done.stdout, done.stderr, results)
        assert play.rc == rc, f"expected exit status {rc}\n{play}"
        return play

    def ad_hoc(self, module: str, **arguments) -> None:
        """One module on all nodes, as somebody types it."""
        words = ["ansible", "gpu_nodes", "--module-name", module, "--args", json.dumps(arguments)]
        done = self._run(words, self.scratch / "results")
        assert done.returncode == 0, done

    def _run(self, words: list, log: Path, settings: dict | None = None) -> subprocess.CompletedProcess:
        limit = ",".join(node.suite for node in self.nodes)
        command = [str(BIN / words[0]), *words[1:], "--inventory", str(self.inventory), "--limit", limit + ",localhost"]
        environment = {
            # podman as this host needs it. The NCCL variable is a trap: no value of the controller may reach a read-back.
            "PATH": f"{ROOT / 'tests' / 'systems'}:{BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.scratch),
            "LC_ALL": "C.UTF-8",
            "NCCL_PROTO": "Simple",
            "ANSIBLE_CONFIG": str(ROOT / "playbooks" / "ansible.cfg"),
            "ANSIBLE_HOME": str(self.scratch / "ansible"),
            "ANSIBLE_LOCAL_TEMP": str(self.scratch / "ansible" / "tmp"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests" / "integration" / "callbacks"),
            "ANSIBLE_CALLBACKS_ENABLED": "results_log",
            "RESULTS_LOG": str(log),
            **(settings or {}),
        }
        return subprocess.run(
            command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment, timeout=self.timeout,
            cwd=self.scratch,
        )  # fmt: skip


def times(node) -> list[str]:
    """One line for everything on the node, with all times, the state directory and all bytecode: equal means that nothing was written."""
    words = ["python3", "-B", "-", "/", *(f"--exclude={path}" for path in EXCLUDED), "--times"]
    return node.feed(TREE_HASH, *words).splitlines()[:-1]


def tree(lines: list[str]) -> list[str]:
    """The lines of times() without the times, the state directory and the bytecode of sitecustomize."""
    kept = (line for line in lines if not BYTECODE.search(line) and not OF_THE_STATE.search(line))
    return [TIMES.sub(r"\1 \2", line) for line in kept]


def difference(before: list[str], after: list[str]) -> list[str]:
    """Lines that are in one tree only, marked - and +."""
    gone, new = set(before) - set(after), set(after) - set(before)
    return sorted(["-" + line for line in gone] + ["+" + line for line in new], key=lambda line: (line[::-1], line))


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{ROOT / 'tests' / 'systems'}:{os.environ['PATH']}"}
