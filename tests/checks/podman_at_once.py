"""tests/systems/podman for several calls at once, as a playbook on several nodes makes them: none may hinder another."""

from __future__ import annotations

import subprocess

from common import ROOT, CheckFailed, main, say

WRAPPER = str(ROOT / "tests" / "systems" / "podman")
ROUNDS = 15
# A round of calls that begin together. The last word of the first two is a container that does not exist.
CALLS = [
    [WRAPPER, "rm", "--force", "--ignore", "gpu_node_tuning.none.a"],
    [WRAPPER, "rm", "--force", "--ignore", "gpu_node_tuning.none.b"],
    [WRAPPER, "leave"],
]


def at_once(commands: list[list[str]]) -> None:
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for command in commands
    ]
    for command, process in zip(commands, running, strict=True):
        said, _ = process.communicate()
        if process.returncode:
            raise CheckFailed(f"exit status {process.returncode}: {' '.join(command)}\n{said}")


def check() -> None:
    for _round in range(ROUNDS):
        at_once(CALLS)
        at_once([[WRAPPER, "leave"]])  # the next round makes the namespace anew
    say(f"{ROUNDS * len(CALLS)} calls")


if __name__ == "__main__":
    main(check)
