#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time the all-reduce library beside NCCL on the GPUs of this machine, in one run, and print tables as they are ready.

A graph of 122 calls, as many as a verify step of the first customer's model makes; bf16, rows of 7168; the median of the replays of the slowest rank,
in microseconds a call by the host's clock as in latency_rank.py; before each replay one call outside of the graph brings the ranks together. The
library is timed over peer memory and host-staged for every algorithm and number of blocks; NCCL as it is, with profile known_good, and with P2P
off, by latency_rank.py (needs torch: --interpreter). A figure counts beside the others of its own run only.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import rank_processes
from allreduce_library import HOST_STAGED, ISLANDS, PEER, TRANSPORTS, TWO_SHOT, Library, Rank, algorithms, build_all
from cuda_driver import Driver

HIDDEN = 7168
ROWS = (1, 2, 3, 4, 8, 16, 32, 64)
CALLS, WARM, REPLAYS = 122, 3, 20
BLOCKS = (1, 2, 4, 8, 16, 32, 64)
THREADS = (128, 256, 512)
WORD = 16
SLOT = ROWS[-1] * HIDDEN * 2


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--interpreter", default="/usr/bin/python3", help="the Python that has torch (%(default)s)")
    options.add_argument("--nvcc", help="path of nvcc, where it is not found by itself")
    options.add_argument("--library", help="a libpcie_allreduce.so that is built already")
    options.add_argument("--helper", help="a liballreduce_helper.so that is built already")
    options.add_argument("--no-nccl", action="store_true", help="the library only")
    options.add_argument("--json", type=Path, help="write every figure here")
    arguments = options.parse_args()
    gpus, driver, sms = listed("name"), listed("driver_version"), listed("compute_cap")
    if len(gpus) < 2:
        sys.exit(f"allreduce_latency: {len(gpus)} GPU found; an all-reduce needs two or more.")
    world = min(len(gpus), 8)
    figures: dict[str, dict] = {}
    complaints: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.library and arguments.helper:
            paths = (arguments.library, arguments.helper)
        else:
            paths = tuple(str(path) for path in build_all(Path(scratch), sms, arguments.nvcc))
        for transport, name in TRANSPORTS.items():
            figures[name], said = time_library(world, transport, paths)
            complaints += said
            print(table_of_library(name, figures[name], world), flush=True)
    if not arguments.no_nccl:
        figures["NCCL"], said = time_nccl(arguments.interpreter)
        complaints += said
    print(comparison(figures))
    date = datetime.datetime.now(datetime.UTC).date()
    print(f"{date}, {world}x {gpus[0]}, driver {driver[0]}, graph of {CALLS} calls, median of {REPLAYS}, slowest rank")
    for complaint in complaints:
        print(f"FAILED  {complaint}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return 1 if complaints else 0


def listed(field: str) -> list[str]:
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"]
    return [
        line.strip() for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    ]


# --- the library -----------------------------------------------------------------------------------------------------


def time_library(world: int, transport: int, paths: tuple) -> tuple[dict, list[str]]:
    """Microseconds by rows and by (algorithm, blocks, threads)."""
    figures: dict = {}

    def line(_number: int, told: tuple) -> None:
        rows, way, wall, events = told
        best = figures.setdefault(rows, {}).setdefault(" ".join(map(str, way)), [0.0, 0.0])
        best[0], best[1] = max(best[0], wall), max(best[1], events)

    given = [(rank, world, transport, paths) for rank in range(world)]
    complaints = rank_processes.run(one_rank, given, 100, line)
    return figures, [f"{TRANSPORTS[transport]}: {complaint}" for complaint in complaints]


def one_rank(group, number: int, world: int, transport: int, paths: tuple) -> None:
    rank = Rank(Library(*paths), Driver(), number, world, number, SLOT)
    blobs = group.gather(rank.join(SLOT, transport, 20))
    rank.communicator.connect(blobs)
    group.gather(0)
    for rows in ROWS:
        for way in ways(rows, world):
            group.tell((rows, way, *time_one(rank, rows * HIDDEN, *way)))
    if rank.found()[1]:
        raise AssertionError(f"{rank.found()[1]} elements were wrong")


def ways(rows: int, world: int) -> list[tuple]:
    """Grids that neither leave most threads idle nor give one thread dozens of words."""
    found = []
    for algorithm in algorithms(world):
        words = rows * HIDDEN * 2 // WORD
        items = -(-words // {TWO_SHOT: world, ISLANDS: world // 2}.get(algorithm, 1))
        for blocks in BLOCKS:
            found += [
                (algorithm, blocks, threads)
                for threads in THREADS
                if items / 12 <= blocks * threads < items * 2 + threads
                or (blocks == BLOCKS[-1] and threads == THREADS[-1])
            ]
    return found


def time_one(rank: Rank, count: int, algorithm: int, blocks: int, threads: int) -> tuple[float, float]:
    """By the host's clock, and between two events on the GPU; the second has no launch in it."""
    call = (count, 0, algorithm, (blocks, threads))
    rank.checked(*call)
    rank.stream.wait()
    graph = rank.stream.capture(lambda: [rank.reduce(*call) for _ in range(CALLS)])
    before, after = rank.stream.event(), rank.stream.event()
    walls, events = [], []
    for _replay in range(WARM + REPLAYS):
        rank.reduce(*call)
        rank.stream.wait()
        started = time.perf_counter()
        before.record()
        graph.launch()
        after.record()
        rank.stream.wait()
        walls.append((time.perf_counter() - started) / CALLS * 1e6)
        events.append(after.microseconds_since(before) / CALLS)
    graph.destroy()
    before.destroy()
    after.destroy()
    return statistics.median(walls[WARM:]), statistics.median(events[WARM:])


def best(figures: dict, rows: int, algorithm: int | None = None) -> tuple[float, float, str]:
    found = [
        (wall, events, way)
        for way, (wall, events) in figures.get(rows, {}).items()
        if algorithm is None or way.startswith(f"{algorithm} ")
    ]
    return min(found, default=(float("nan"), float("nan"), "0 0 0"))


def table_of_library(name: str, figures: dict, world: int) -> str:
    lines = [f"\n{name}, microseconds a call (between events on the GPU), blocks x threads of the best"]
    lines += [
        "| rows | KiB | " + " | ".join(algorithms(world).values()) + " |",
        "|---|---|" + "---|" * len(algorithms(world)),
    ]
    for rows in ROWS:
        cells = []
        for algorithm in algorithms(world):
            wall, events, way = best(figures, rows, algorithm)
            blocks, threads = way.split()[1:]
            cells.append(f"{wall:.2f} ({events:.2f}), {blocks}x{threads}")
        lines.append(f"| {rows} | {rows * HIDDEN * 2 // 1024} | {' | '.join(cells)} |")
    return "\n".join(lines)


# --- NCCL ------------------------------------------------------------------------------------------------------------


def time_nccl(interpreter: str) -> tuple[dict, list[str]]:
    import profile_latency

    figures, complaints = {}, []
    sizes = tuple(rows * HIDDEN * 2 // 1024 for rows in ROWS)
    wanted = {
        "default": dict,
        "known_good": lambda: profile_latency.environment_of("known_good"),
        "P2P off": lambda: profile_latency.NO_P2P,
    }
    for name, environment in wanted.items():
        try:
            ranks = profile_latency.measure(interpreter, {**environment(), "LATENCY_CALLS": str(CALLS)}, sizes)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - what could be measured is still printed
            complaints.append(f"NCCL {name} was not measured: {error}")
            continue
        figures[name] = {
            rows: max(rank["microseconds"][str(size)] for rank in ranks) for rows, size in zip(ROWS, sizes, strict=True)
        }
        print(f"NCCL {name}: {figures[name]}", flush=True)
    return figures, complaints


def comparison(figures: dict) -> str:
    ways_of_nccl = figures.get("NCCL", {})
    head = [
        "rows",
        "KiB",
        *(f"library, {TRANSPORTS[one]}" for one in (PEER, HOST_STAGED)),
        *(f"NCCL {name}" for name in ways_of_nccl),
    ]
    lines = ["\nmicroseconds a call", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for rows in ROWS:
        cells = [f"{best(figures[TRANSPORTS[one]], rows)[0]:.2f}" for one in (PEER, HOST_STAGED)]
        cells += [f"{one[rows]:.1f}" for one in ways_of_nccl.values()]
        lines.append(f"| {rows} | {rows * HIDDEN * 2 // 1024} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "32"
    sys.exit(main())
