# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of a test that exchange messages through their parent. All of them are bounded in time, and one may die."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from multiprocessing.connection import Connection, wait


class Group:
    """What a child has of the others."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe

    def gather(self, value) -> list:
        """What every process gave, in their order; None for one that has ended."""
        self.pipe.send(("gather", value))
        return self.pipe.recv()

    def tell(self, line) -> None:
        self.pipe.send(("line", line))


def run(target, arguments: list[tuple], seconds: float, on_line, orderly: bool = False) -> list[str]:
    """Start `target(group, *arguments[n])` in one process each; the complaints of those that failed or took too long.

    `orderly`: the processes end as a program does, for tools that have a last word.
    """
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for given in arguments:
        ours, theirs = context.Pipe()
        process = context.Process(target=_child, args=(target, theirs, given, orderly), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        return _serve(pipes, time.monotonic() + seconds, on_line)
    finally:
        for process in processes:
            process.join(20 if orderly else 2)
            if process.is_alive():
                process.kill()
                process.join(10)


def _child(target, pipe: Connection, arguments: tuple, orderly: bool) -> None:
    try:
        target(Group(pipe), *arguments)
        pipe.send(("done", ""))
    except BaseException:  # noqa: BLE001 - the parent reports it
        pipe.send(("done", traceback.format_exc()))
    pipe.close()
    if not orderly:
        os._exit(0)  # the orderly end of a process waits for GPUs that may wait for a rank that is gone


def _serve(pipes: list[Connection], end: float, on_line) -> list[str]:
    live, gathered, complaints = set(range(len(pipes))), {}, []
    while live:
        waiting = [pipes[number] for number in live if number not in gathered]
        ready = wait(waiting, timeout=max(0.0, end - time.monotonic()))
        if not ready:
            return [*complaints, f"processes {sorted(live)} were not done in time"]
        for pipe in ready:
            number = pipes.index(pipe)
            try:
                kind, value = pipe.recv()
            except (EOFError, ConnectionResetError):
                kind, value = "done", ""
            if kind == "line":
                on_line(number, value)
            elif kind == "gather":
                gathered[number] = value
            else:
                live.discard(number)
                if value:
                    complaints.append(f"process {number}:\n{value}")
        if gathered and live <= gathered.keys():
            values = [gathered.get(number) for number in range(len(pipes))]
            gathered = {}
            for number in live:
                try:
                    pipes[number].send(values)
                except (BrokenPipeError, ConnectionResetError):
                    live = live - {number}
    return complaints
