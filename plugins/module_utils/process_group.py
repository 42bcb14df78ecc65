# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a program that may hang, in a process group of its own: it gets a hard time limit, and nothing of the group is left behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from typing import NamedTuple, Optional

TICK = 0.05  # seconds between two looks at a program that prints nothing
GRACE = 10  # seconds that killed processes get to end; the driver tears down what ran on a GPU meanwhile
LARGEST = 64 * 1024  # bytes kept of what it prints


class Remaining(NamedTuple):
    """A process that SIGKILL did not end. ``state``: the kernel's letter; D waits inside the kernel or a driver, where no signal arrives."""

    pid: int
    state: str


class Ended(NamedTuple):
    """How a program ended. ``status``: None where it cannot be ended; negative where a signal ended it.

    ``output``: standard output and standard error, also of a program that was stopped. ``remaining``: list of Remaining.
    """

    output: str
    status: Optional[int]
    in_time: bool
    seconds: float
    remaining: list


def run_in_group(argv: list, environment: dict, limit: float) -> Ended:
    """Returns at most ``limit`` + GRACE seconds later. Raises OSError or ValueError where the program cannot be started."""
    began = time.monotonic()
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",
        env=environment,
        start_new_session=True,
    )
    output, in_time = bytearray(), False
    try:
        in_time = _listen(process, output, began + limit)
    finally:
        remaining = _end(process)
        process.stdout.close()
    return Ended(output.decode("utf-8", "replace"), process.poll(), in_time, time.monotonic() - began, remaining)


def _listen(process: subprocess.Popen, output: bytearray, deadline: float) -> bool:
    """Collect what the program prints until it ends. False: it had not ended at ``deadline``."""
    streams = [process.stdout]
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        # Ended comes before readable: what was printed before the end is then all there to be read.
        ended = _has_ended(process)
        readable, _writable, _failed = select.select(streams, [], [], 0 if ended else min(TICK, left))
        if not readable:
            if ended:
                return True
            if not streams:
                time.sleep(min(TICK, left))
            continue
        chunk = os.read(process.stdout.fileno(), LARGEST)
        output += chunk[: LARGEST - len(output)]
        if not chunk:
            streams = []


def _has_ended(process: subprocess.Popen) -> bool:
    """Without reaping it: until then its number cannot become another process group's."""
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True  # where SIGCHLD is ignored, the kernel has reaped it


def _end(process: subprocess.Popen) -> list:
    """Kill the group, whether or not the program has ended: what it started may live on. List of Remaining."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nothing is there; or somebody else's, which is then in what remains
    deadline = time.monotonic() + GRACE
    while True:
        process.poll()
        remaining = living_members(process.pid)
        if not remaining or time.monotonic() >= deadline:
            return remaining
        time.sleep(TICK)


def living_members(group: int, proc: str = "/proc") -> list:
    """List of Remaining: the processes of a group that have not ended. One that has, and is not reaped yet, holds nothing any more."""
    found = []
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            with open(os.path.join(proc, name, "stat"), encoding="utf-8", errors="replace") as stream:
                # The name of the program, in brackets, may hold blanks and brackets.
                state, _parent, its_group = stream.read().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        if int(its_group) == group and state not in "ZX":
            found.append(Remaining(int(name), state))
    return sorted(found)
