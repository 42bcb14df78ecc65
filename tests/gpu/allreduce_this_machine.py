#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove the all-reduce library on the GPUs of this machine.

1. Built with nvcc for these GPUs.
2. Two processes, one a GPU, over peer memory and then host-staged: exact sums of whole numbers; the bits of random numbers, zeros, infinities and
   NaN; every length from one element to the slot; graphs; many replays; ranks that are late, silent, killed; a thousand communicators.
3. World sizes 2 to 8 with several ranks a GPU in one process, each on its own stream.

Needs nvcc (or --library and --helper, built elsewhere) and, for 2, two GPUs. Standard library only. One line a property; exit status 0 only when
every one held. No run waits longer than its limit.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import rank_processes
from allreduce_library import HOST_STAGED, PEER, TRANSPORTS, build_all
from allreduce_suite import one_process, two_processes


class Report:
    """A property holds when every process says so; it is printed when the last one has spoken."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.passed = 0

    def of(self, title: str):
        said: dict[str, list] = {}

        def line(_number: int, told: tuple) -> None:
            what, holds, note, processes = told
            told_so_far = said.setdefault(what, [])
            told_so_far.append((holds, note))
            if len(told_so_far) == processes:
                wrong = [note for holds, note in told_so_far if not holds]
                self.hold(f"{title}: {what}", not wrong, wrong[0] if wrong else told_so_far[0][1])

        return line

    def hold(self, what: str, holds: bool, note: str = "") -> None:
        print(f"{'ok    ' if holds else 'FAILED'}  {what}{f' ({note})' if note else ''}", flush=True)
        if holds:
            self.passed += 1
        else:
            self.failed.append(what)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nvcc", help="path of nvcc, where it is not found by itself")
    options.add_argument("--library", help="a libpcie_allreduce.so that is built already")
    options.add_argument("--helper", help="a liballreduce_helper.so that is built already")
    options.add_argument(
        "--replays", type=int, default=1_000_000, help="calls over peer memory (%(default)s); the other runs make fewer"
    )
    options.add_argument("--rounds", type=int, default=1000, help="create and destroy (%(default)s)")
    arguments = options.parse_args()
    gpus, driver = listed("name"), listed("driver_version")
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "32"  # ranks of one process must not share a queue of the GPU
    report = Report()
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.library and arguments.helper:
            paths = (arguments.library, arguments.helper)
        else:
            paths = build_all(Path(scratch), listed("compute_cap"), arguments.nvcc)
        everything(report, [str(path) for path in paths], len(gpus), arguments)
    print(f"{datetime.datetime.now(datetime.UTC).date()}, {len(gpus)}x {gpus[0]}, driver {driver[0]}")
    print(f"{report.passed} passed, {len(report.failed)} failed")
    for what in report.failed:
        print(f"failed: {what}")
    return 1 if report.failed or not report.passed else 0


def everything(report: Report, paths: list[str], gpus: int, arguments: argparse.Namespace) -> None:
    paths = tuple(paths)
    runs = []
    if gpus >= 2:
        for transport, replays in ((PEER, arguments.replays), (HOST_STAGED, arguments.replays // 10)):
            given = [(process, 2, transport, paths, replays, arguments.rounds) for process in range(2)]
            runs.append((f"2 processes, {TRANSPORTS[transport]}", two_processes, given, 150))
    else:
        report.hold("two processes, one a GPU: not run, this machine has one GPU", False)
    few = arguments.replays // 50
    worlds = [(world, PEER) for world in range(2, 9)] + [(3, HOST_STAGED), (8, HOST_STAGED)]
    for world, transport in worlds:
        title = f"{world} ranks in one process, {TRANSPORTS[transport]}"
        runs.append((title, one_process, [(world, min(gpus, 2), transport, paths, few)], 60))
    for title, target, given, seconds in runs:
        started = time.monotonic()
        complaints = rank_processes.run(target, given, seconds, report.of(title))
        for complaint in complaints:
            report.hold(f"{title}: {complaint}", False)
        print(f"        {title}: {time.monotonic() - started:.1f} s", flush=True)


def listed(field: str) -> list[str]:
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"]
    return [
        line.strip() for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    ]


if __name__ == "__main__":
    sys.exit(main())
