# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start one process for each rank, wait for a bounded time, and collect what each one found. No torch here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Optional

POLL_SECONDS = 0.05
TAIL = 2000  # characters of a failed rank's last words


class LaunchError(Exception):
    """Which rank failed and its last words, or that the time was over."""


def run(job: dict, world: int, timeout: float, program: Optional[list] = None) -> list:
    """The answers of all ranks, in rank order. ``job`` goes to each of them as JSON; every process is gone on return.

    A rank of this package ends with this process too: of a session of its own it would not hear otherwise, and it would keep its GPU busy.
    """
    program = program or [sys.executable, "-m", "pcie_allreduce.rank"]
    with tempfile.TemporaryDirectory(prefix="pcie_allreduce-") as folder:
        job = dict(job, world=world, folder=folder, parent=os.getpid())
        with open(os.path.join(folder, "job.json"), "w", encoding="utf-8") as stream:
            json.dump(job, stream)
        processes = []
        try:
            for rank in range(world):
                processes.append(_start(program, folder, rank))
            _wait(processes, folder, time.monotonic() + timeout, timeout)
        finally:
            for process in processes:
                _end(process)
        return [_answer(folder, rank) for rank in range(world)]


def _start(program: list, folder: str, rank: int) -> subprocess.Popen:
    with open(os.path.join(folder, f"{rank}.log"), "wb") as log:
        return subprocess.Popen(
            program + [folder, str(rank)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_environment(),
            start_new_session=True,
        )


def _environment() -> dict:
    """This process's own; gloo on the loopback interface, because a host name need not resolve and all ranks are here."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.pathsep.join([package, os.environ["PYTHONPATH"]]) if os.environ.get("PYTHONPATH") else package
    return {"GLOO_SOCKET_IFNAME": "lo", **os.environ, "PYTHONPATH": path}


def _wait(processes: list, folder: str, deadline: float, timeout: float) -> None:
    """Returns when all have ended well. The first that fails ends the wait: the others would only wait for it."""
    while True:
        codes = [process.poll() for process in processes]
        for rank, code in enumerate(codes):
            if code not in (None, 0):
                raise LaunchError(f"rank {rank} ended with status {code}; its last words: {_last_words(folder, rank)}")
        if all(code == 0 for code in codes):
            return
        if time.monotonic() > deadline:
            late = [rank for rank, code in enumerate(codes) if code is None]
            raise LaunchError(
                f"rank {', '.join(str(rank) for rank in late)}: no result within {timeout:g} s, so all ranks were stopped; "
                f"last words of rank {late[0]}: {_last_words(folder, late[0])}"
            )
        time.sleep(POLL_SECONDS)


def _end(process: subprocess.Popen) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended, with all its children
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        pass  # it waits inside the driver, where no signal reaches it


def _last_words(folder: str, rank: int) -> str:
    with open(os.path.join(folder, f"{rank}.log"), encoding="utf-8", errors="replace") as stream:
        lines = stream.read()[-TAIL:].strip().splitlines()
    return lines[-1] if lines else "nothing"


def _answer(folder: str, rank: int) -> dict:
    try:
        with open(os.path.join(folder, f"{rank}.json"), encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError) as error:
        raise LaunchError(f"rank {rank} ended without a readable answer: {error}") from error
