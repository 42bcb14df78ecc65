#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove the all-reduce library on the GPUs of this machine.

1. Built with nvcc for these GPUs.
2. Two processes, and as many more as there are GPUs, one a GPU, over peer memory and then host-staged: exact sums of whole numbers; the bits of
   random numbers, zeros, infinities and NaN; every length from one element to the slot; graphs; many replays; ranks that are late, silent,
   killed; a thousand communicators.
3. World sizes 2 to 8 with several ranks a GPU in one process, each on its own stream.

--sanitizer memcheck|racecheck runs a reduced suite instead, every kernel in two processes and as ranks of one process, under NVIDIA's
compute-sanitizer, which comes with nvcc; half a minute to two.

Needs nvcc (or --library and --helper, built elsewhere) and, for 2, two GPUs. Standard library only. One line a property; exit status 0 only when
every one held. No run waits longer than its limit.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import rank_processes
from allreduce_library import HOST_STAGED, PEER, TRANSPORTS, build_all
from allreduce_suite import one_process, own_processes, reduced

SANITIZER_SECONDS = 240
# What it prints where all is well; every other line that begins with ========= is a finding.
WELL = re.compile(
    r"=========( COMPUTE-SANITIZER| ERROR SUMMARY: 0 errors| RACECHECK SUMMARY: 0 hazards displayed \(0 errors, 0 warnings\)"
    r"| Target application returned .*)?\s*$"
)


class Report:
    def __init__(self) -> None:
        self.failed: list[str] = []
        self.passed = 0

    def hold(self, title: str, what: str, holds: bool, note: str = "", brief: bool = False) -> None:
        if holds:
            self.passed += 1
        else:
            self.failed.append(f"{title}: {what}")
        if not holds or not brief:
            print(f"{'ok    ' if holds else 'FAILED'}  {what}{f' ({note})' if note else ''}", flush=True)


class Run:
    """A property holds when every process that sees it says so; it is printed when the last one has spoken."""

    def __init__(self, report: Report, title: str, brief: bool) -> None:
        self.report, self.title, self.brief = report, title, brief
        self.waiting: dict[str, list] = {}

    def line(self, _number: int, told: tuple) -> None:
        what, holds, note, processes = told
        so_far = self.waiting.setdefault(what, [])
        so_far.append((holds, note))
        if len(so_far) == processes:
            wrong = [note for holds, note in self.waiting.pop(what) if not holds]
            self.report.hold(self.title, what, not wrong, wrong[0] if wrong else note, self.brief)

    def finish(self, complaints: list[str]) -> None:
        for what in self.waiting:
            self.report.hold(self.title, what, False, "not every process came so far")
        for complaint in complaints:
            self.report.hold(self.title, complaint, False)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nvcc", help="path of nvcc, where it is not found by itself")
    options.add_argument("--library", help="a libpcie_allreduce.so that is built already")
    options.add_argument("--helper", help="a liballreduce_helper.so that is built already")
    options.add_argument(
        "--replays", type=int, default=1_000_000, help="calls over peer memory (%(default)s); the other runs make fewer"
    )
    options.add_argument("--rounds", type=int, default=1000, help="create and destroy (%(default)s)")
    options.add_argument("--verbose", action="store_true", help="a line for every property of every world size, too")
    options.add_argument(
        "--sanitizer", choices=("memcheck", "racecheck"), help="run a reduced suite under compute-sanitizer"
    )
    options.add_argument("--reduced", action="store_true", help="the reduced suite alone")
    arguments = options.parse_args()
    gpus, driver = listed("name"), listed("driver_version")
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "32"  # ranks of one process must not share a queue of the GPU
    report = Report()
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.library and arguments.helper:
            paths = (arguments.library, arguments.helper)
        else:
            paths = build_all(Path(scratch), listed("compute_cap"), arguments.nvcc)
        paths = tuple(str(path) for path in paths)
        if arguments.sanitizer:
            under_sanitizer(report, paths, arguments)
        elif arguments.reduced:
            few(report, paths, len(gpus))
        else:
            everything(report, paths, len(gpus), arguments)
    print(f"{datetime.datetime.now(datetime.UTC).date()}, {len(gpus)}x {gpus[0]}, driver {driver[0]}")
    print(f"{report.passed} passed, {len(report.failed)} failed")
    for what in report.failed:
        print(f"failed: {what}")
    return 1 if report.failed or not report.passed else 0


def everything(report: Report, paths: tuple, gpus: int, arguments: argparse.Namespace) -> None:
    runs = []
    for transport, replays in ((PEER, arguments.replays), (HOST_STAGED, arguments.replays // 10)):
        for world in range(2, min(gpus, 8) + 1):
            given = [(process, world, transport, paths, replays, arguments.rounds) for process in range(world)]
            runs.append((f"{world} processes, {TRANSPORTS[transport]}", own_processes, given, 150))
    if gpus < 2:
        report.hold("2 processes", "not run: this machine has one GPU", False)
    for world, transport in [(world, PEER) for world in range(2, 9)] + [(3, HOST_STAGED), (8, HOST_STAGED)]:
        title = f"{world} ranks in one process, {TRANSPORTS[transport]}"
        runs.append(
            (title, one_process, [(world, min(gpus, 2), transport, paths, max(50, arguments.replays // 100))], 60)
        )
    for title, target, given, seconds in runs:
        one_run(report, title, target, given, seconds, brief=len(given) == 1 and not arguments.verbose)


def few(report: Report, paths: tuple, gpus: int) -> None:
    """What the sanitizer looks at."""
    runs = [(f"{world} ranks in one process", [(0, 1, world, min(gpus, 2), PEER, paths)]) for world in (2, 3, 8)]
    if gpus > 1:
        both = [
            (f"2 processes, {TRANSPORTS[way]}", [(process, 2, 2, 2, way, paths) for process in range(2)])
            for way in (PEER, HOST_STAGED)
        ]
        runs = both + runs
    for title, given in runs:
        one_run(report, title, reduced, given, 60, brief=False, orderly=True)


def under_sanitizer(report: Report, paths: tuple, arguments: argparse.Namespace) -> None:
    """The reduced suite once more, as a program under the tool."""
    tool = sanitizer_beside(arguments.nvcc)
    if tool is None:
        report.hold(
            "sanitizer",
            "not run: compute-sanitizer is neither beside nvcc nor on PATH; it is in CUDA's package cuda-sanitizer",
            False,
        )
        return
    options = [
        "--tool",
        arguments.sanitizer,
        "--target-processes",
        "all",
        "--report-api-errors",
        "no",
        "--error-exitcode",
        "86",
    ]
    program = [sys.executable, __file__, "--reduced", "--library", paths[0], "--helper", paths[1]]
    said, status = bounded([tool, *options, *program], SANITIZER_SECONDS)
    for line in said.splitlines():
        print(f"        {line}")
    findings = [line for line in said.splitlines() if line.startswith("=========") and not WELL.match(line)]
    looked = len(re.findall(r"SUMMARY: ", said))
    report.hold(
        "sanitizer",
        f"{arguments.sanitizer}: the reduced suite holds under it, in time",
        status == 0,
        f"exit status {status}",
    )
    report.hold(
        "sanitizer",
        f"{arguments.sanitizer}: no finding, and the tool has looked",
        not findings and looked > 0,
        findings[0] if findings else f"{looked} processes",
    )


def sanitizer_beside(nvcc: str | None) -> str | None:
    """nvcc may be a link, or a script on PATH that starts the one of the toolkit."""
    named = shutil.which(nvcc or "nvcc")
    folders = [Path(named).resolve().parent] if named else []
    homes = [
        os.environ.get("CUDA_HOME"),
        "/usr/local/cuda",
        *sorted(map(str, Path("/usr/local").glob("cuda-*")), reverse=True),
    ]
    folders += [Path(home) / part for home in homes if home for part in ("bin", "compute-sanitizer")]
    found = [
        str(folder / "compute-sanitizer") for folder in folders if os.access(folder / "compute-sanitizer", os.X_OK)
    ]
    files = [path for path in found if Path(path).is_file()]
    return files[0] if files else shutil.which("compute-sanitizer")


def bounded(command: list[str], seconds: float) -> tuple[str, int | None]:
    """What it printed, and its exit status; None where its time was over. It ends with all that it started."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        return process.communicate(timeout=seconds)[0], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0], None


def one_run(
    report: Report, title: str, target, given: list[tuple], seconds: float, brief: bool, orderly: bool = False
) -> None:
    print(f"{title}:", flush=True)
    started, passed, failed = time.monotonic(), report.passed, len(report.failed)
    run = Run(report, title, brief)
    run.finish(rank_processes.run(target, given, seconds, run.line, orderly))
    held, broken = report.passed - passed, len(report.failed) - failed
    print(f"        {held} properties hold, {broken} do not, {time.monotonic() - started:.1f} s", flush=True)


def listed(field: str) -> list[str]:
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"]
    return [
        line.strip() for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    ]


if __name__ == "__main__":
    sys.exit(main())
