#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tune the GPU machine that this runs on, for real, and ask NCCL itself; then roll back.

1. gpu_facts names every GPU that nvidia-smi lists, and the NCCL that torch loads; nothing is loaded onto a GPU for it.
2. NCCL's all-reduce before the tune names none of the managed variables.
3. Where the machine is not what profile known_good is for, playbooks/tune.yml refuses it and touches nothing; a dead end is refused everywhere.
4. playbooks/tune.yml with profile known_good (hardware_check=warn) writes the system's sitecustomize.py (root) and reads it back.
5. NCCL's all-reduce, started with an environment without them, says `NCCL_X set by environment to Y` for every managed variable.
6. A second tune changes nothing; playbooks/rollback.yml to generation 0 leaves the files as they were, and NCCL names none of them.

Needs root, two GPUs or more, a Python with torch (--interpreter) and ansible-core in the Python that runs this script.
Exit status 0 only when every step held. Every figure printed is read from the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from holding import Checks

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "playbooks" / "collections"))
KEPT = ("NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS", "LD_LIBRARY_PATH")
# Whatever this machine is, the way of the values from the file to NCCL is what is proved here.
ON_ANY_HARDWARE = ("hardware_check=warn",)
ANSWER = re.compile(r'\{"rank": .*\}')  # NCCL writes to the same stream, sometimes without a newline before it
SET_BY = re.compile(r"NCCL INFO (NCCL_\w+) set by environment to (\S+?)\.?$", re.MULTILINE)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--interpreter", default="/usr/bin/python3", help="the Python that has torch (default: %(default)s)"
    )
    options.add_argument("--ansible-playbook", default=str(Path(sys.executable).with_name("ansible-playbook")))
    arguments = options.parse_args()
    if os.geteuid() != 0:
        print("tune_this_machine: root is needed, because sitecustomize.py of the system is written.", file=sys.stderr)
        return 2
    declared = {name: str(value) for name, value in known_good().items()}
    checks = Checks()
    with tempfile.TemporaryDirectory() as scratch:
        inventory = write_inventory(Path(scratch), arguments.interpreter)
        facts = gather_facts(arguments, inventory)
        print(json.dumps(facts, indent=2, sort_keys=True))
        checks.hold("gpu_facts names every GPU", [gpu["uuid"] for gpu in facts["gpus"]] == listed_uuids())
        before, said_before = tree(), ask_nccl(arguments.interpreter, Path(scratch))
        checks.hold(
            "gpu_facts names the NCCL that torch loads",
            {rank["nccl"] for rank in said_before["ranks"]} == {facts["software"]["nccl"]},
        )
        checks.hold("NCCL names no managed variable before the tune", not set(said_before["set"]) & set(declared))
        for profile, words in (("known_good", "is not for this node"), ("fewer_channels", "is a dead end")):
            refused = play(arguments, inventory, "tune.yml", f"profile={profile}", rc=2)
            print(refused)
            checks.hold(f"tune.yml refuses {profile} here and touches nothing", words in refused and tree() == before)
        first = play(arguments, inventory, "tune.yml", "profile=known_good", *ON_ANY_HARDWARE)
        print(first)
        checks.hold("tune.yml applied known_good", changed_tasks(first) == 1)
        said = ask_nccl(arguments.interpreter, Path(scratch))
        for name, value in sorted(declared.items()):
            checks.hold(f"NCCL: {name} set by environment to {value}", said["set"].get(name) == value)
        checks.hold("the all-reduce is right on every rank", all(rank["sum_is_right"] for rank in said["ranks"]))
        second = play(arguments, inventory, "tune.yml", "profile=known_good", *ON_ANY_HARDWARE)
        checks.hold("a second tune changes nothing", changed_tasks(second) == 0)
        verified = play(arguments, inventory, "verify.yml", f"verify_file={scratch}/verify.json")
        checks.hold("verify.yml finds no drift", "failed=0" in verified)
        play(arguments, inventory, "rollback.yml", "generation=0")
        checks.hold("after a rollback to generation 0 every file is byte-identical", tree() == before)
        checks.hold(
            "NCCL names no managed variable after it",
            not set(ask_nccl(arguments.interpreter, Path(scratch))["set"]) & set(declared),
        )
    describe(said["ranks"])
    return checks.finish()


def known_good() -> dict:
    import yaml

    profile = yaml.safe_load((ROOT / "roles/profile/vars/profiles/known_good.yml").read_text(encoding="utf-8"))
    return {name: entry["value"] for name, entry in profile["env"].items()}


def write_inventory(scratch: Path, interpreter: str) -> Path:
    path = scratch / "inventory.json"
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "nccl_env_interpreter": interpreter,
        "nccl_env_state_dir": str(scratch / "state"),
    }
    path.write_text(json.dumps({"gpu_nodes": {"hosts": {"this-machine": variables}}}), encoding="utf-8")
    return path


def play(arguments: argparse.Namespace, inventory: Path, playbook: str, *extra: str, rc: int = 0) -> str:
    """Output of the playbook; ends the program where its exit status is another one."""
    command = [arguments.ansible_playbook, str(ROOT / "playbooks" / playbook), "-i", str(inventory)]
    return run_ansible([*command, *(word for pair in extra for word in ("-e", pair))], rc)


def gather_facts(arguments: argparse.Namespace, inventory: Path) -> dict:
    """The dictionary gpu_node, as `ansible -m gpu_node.tuning.gpu_facts` gives it."""
    command = [str(Path(arguments.ansible_playbook).with_name("ansible")), "this-machine", "-i", str(inventory), "-o"]
    options = json.dumps({"interpreter": arguments.interpreter})
    said = run_ansible([*command, "-m", "gpu_node.tuning.gpu_facts", "-a", options], 0)
    answer, _end = json.JSONDecoder().raw_decode(said.partition("=>")[2].lstrip())  # warnings may stand behind it
    return answer["ansible_facts"]["gpu_node"]


def run_ansible(command: list, rc: int) -> str:
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=300)
    if ran.returncode != rc:
        print(ran.stdout, ran.stderr, file=sys.stderr)
        sys.exit(f"tune_this_machine: exit status {ran.returncode} where {rc} was expected: {command}")
    return ran.stdout + ran.stderr


def listed_uuids() -> list:
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def changed_tasks(output: str) -> int:
    return int(re.search(r"^this-machine +:.* changed=(\d+)", output, re.MULTILINE)[1])


def tree() -> str:
    """The system's Python as lines of text. Bytecode of sitecustomize is left out: it holds the source's time, and Python renews it."""
    roots = sorted(
        str(path)
        for pattern in ("usr/lib/python3.*", "etc/python3.*")
        for path in Path("/").glob(pattern)
        if path.is_dir()
    )
    listings = [
        subprocess.run(
            [sys.executable, str(ROOT / "tests/systems/tree_hash.py"), root], capture_output=True, text=True, check=True
        )
        for root in roots
    ]
    lines = [
        line for listing in listings for line in listing.stdout.splitlines() if "sitecustomize.cpython" not in line
    ]
    return "\n".join(line for line in lines if not line.startswith("total "))


def ask_nccl(interpreter: str, scratch: Path) -> dict:
    """One all-reduce over every GPU in a clean environment: {set: variables that NCCL names, ranks: what each rank printed}."""
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    world = sum(line.startswith("GPU ") for line in listed.splitlines())
    if world < 2:
        sys.exit(f"tune_this_machine: {world} GPU found; an all-reduce needs two or more.")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ENV",
    }
    environment.update({name: os.environ[name] for name in KEPT if name in os.environ})
    rank_program = [interpreter, str(ROOT / "tests/gpu/nccl_rank.py")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    ranks = [
        subprocess.Popen([*rank_program, str(rank), str(world), str(port)], env=environment, cwd=scratch, **pipes)
        for rank in range(world)
    ]
    logs = [rank.communicate(timeout=240)[0] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        sys.exit("tune_this_machine: the all-reduce failed:\n" + "\n".join(logs))
    answers = [json.loads(found) for log in logs for found in ANSWER.findall(log)]
    if len(answers) != world:
        sys.exit(f"tune_this_machine: {len(answers)} of {world} ranks answered:\n" + "\n".join(logs))
    named = [dict(SET_BY.findall(log)) for log in logs]
    return {
        "set": {name: value for name, value in named[0].items() if all(other.get(name) == value for other in named)},
        "ranks": answers,
    }


def describe(ranks: list) -> None:
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    )
    system = platform.freedesktop_os_release()["PRETTY_NAME"]
    print(
        f"{len(ranks)}x {ranks[0]['gpu']}, driver {driver.stdout.splitlines()[0]}, {system}, torch {ranks[0]['torch']}, NCCL {ranks[0]['nccl']}"
    )


if __name__ == "__main__":
    sys.exit(main())
