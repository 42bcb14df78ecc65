"""What the checks started has ended: no container, no mount and no process of this checkout is left. Runs last."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from common import ROOT, CheckFailed, main, say

PODMAN = str(ROOT / "tests" / "systems" / "podman")
CONTAINERS = "gpu_node_tuning."


def check() -> None:
    left = containers() + mounts() + processes()
    if left:
        raise CheckFailed("\n".join(left))
    say("0 left")


def containers() -> list[str]:
    listed = subprocess.run(
        [PODMAN, "ps", "--all", "--format", "{{.Names}}"], check=True, capture_output=True, text=True
    ).stdout.split()
    subprocess.run([PODMAN, "leave"], check=True)  # the question itself may have needed the namespace
    return [f"container {name}" for name in listed if name.startswith(CONTAINERS)]


def mounts() -> list[str]:
    table = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    places = [line.split()[1].replace("\\040", " ") for line in table]
    return [f"mount {place}" for place in places if Path(place).is_relative_to(ROOT) or CONTAINERS[:-1] in place]


def processes() -> list[str]:
    """Programs of the checkout's own .venv and scratch folders, but for this one and those that wait for it."""
    mine = ancestors(os.getpid())
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) not in mine:
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it has ended meanwhile
            if any(word.startswith((str(ROOT / ".venv").encode(), str(ROOT / ".cache").encode())) for word in words):
                found.append(f"process {entry.name}: {b' '.join(words).decode(errors='replace')[:200]}")
    return found


def ancestors(pid: int) -> set[int]:
    found = set()
    while pid > 1:
        found.add(pid)
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        pid = int(status.rpartition(")")[2].split()[1])
    return found


if __name__ == "__main__":
    main(check)
