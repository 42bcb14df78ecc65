# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time the kernel and NCCL on the ranks of a node, as an engine calls them: many calls in one CUDA graph.

A figure is the median over replays, and of the ranks the slowest: a collective call is over when its last rank is.
"""

from __future__ import annotations

import itertools
import os
import statistics
from typing import Callable, NamedTuple

from . import crossover
from .abi import ITEM_BYTES, Workspace
from .progress import Progress
from .together import Off

BLOCKS = (1, 2, 4, 8, 16, 32, 64, 96, 128)
THREADS = (128, 256, 512)
WORD = 16  # bytes that a thread moves at once
MOST_WORDS = 12  # for one thread in a candidate
FINALISTS, ROUNDS = 8, 3
ALGORITHMS = ("one_shot", "two_shot", "one_shot_pull", "islands")
SEARCH = (61, 7)  # calls in a graph, replays: enough to rank the candidates
FINAL = (122, 15)  # two calls for each of 61 layers, the forward pass that this was made for
WATCHDOG_SECONDS = 10.0


class Work(NamedTuple):
    """One call, and what raises where the calls so far did not go well."""

    call: Callable[[], None]
    check: Callable[[], None]


def bench(job: dict, ranks, gpu, library) -> dict:
    """The rows of one launch, beside NCCL."""
    launch = crossover.Launch(job["algorithm"], job["blocks"], job["threads"])
    sizes = sizes_of(job)
    workspace = open_workspace(ranks, gpu, library, job["transport"], max(sizes), WATCHDOG_SECONDS)
    progress, rows = Progress(job.get("progress", ""), gpu.rank), []
    for done, size in enumerate(sizes, 1):
        rows.append(_row(job, ranks, gpu, workspace, size, launch))
        progress.count("sizes measured", done, len(sizes))
    return {"rows": rows, **about(gpu)}


def tune(job: dict, ranks, gpu, library) -> dict:
    """The rows of the best launch for each size, beside NCCL."""
    sizes = sizes_of(job)
    workspace = open_workspace(ranks, gpu, library, job["transport"], max(sizes), WATCHDOG_SECONDS)
    progress, rows = Progress(job.get("progress", ""), gpu.rank), []
    for number, size in enumerate(sizes, 1):
        progress.say(f"measures size {number} of {len(sizes)}: {size} bytes")
        best = _best(job, ranks, gpu, workspace, size, progress)
        if best is not None:
            rows.append(_row(job, ranks, gpu, workspace, size, best))
            progress.say(
                "measured {bytes} bytes: {us} us ({algorithm}, {blocks}x{threads}), NCCL {nccl_us} us".format(
                    **rows[-1]
                )
            )
    return {"rows": rows, **about(gpu)}


def sizes_of(job: dict) -> list:
    width = ITEM_BYTES[job["dtype"]]
    return [rows * job["hidden"] * width for rows in sorted(set(job["rows"]))]


def open_workspace(ranks, gpu, library, transport: str, slot_bytes: int, watchdog: float) -> Workspace:
    """A workspace that is joined to those of the other ranks. Raises Off."""

    def create():
        return Workspace(library, gpu.rank, gpu.world, slot_bytes, transport, gpu.index, watchdog)

    workspace = ranks.local("workspace", create)
    handles = ranks.step("workspace", workspace.handle)
    ranks.step("peers", lambda: workspace.join(handles))
    return workspace


def about(gpu) -> dict:
    """What the figures depend on, and what a reader of the table wants to know."""
    import torch

    return {
        "gpu": gpu.name,
        "torch": torch.__version__,
        "nccl": ".".join(str(part) for part in torch.cuda.nccl.version()),
        "nccl_environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith("NCCL_")},
    }


def _candidates(workspace: Workspace, ranks, size: int) -> list:
    """Launches that every rank can do. The order is the same everywhere, because all ranks run them together."""
    able = [
        name for name in ALGORITHMS if all(ranks.step("algorithms", lambda name=name: _able(workspace, name, size)))
    ]
    return [crossover.Launch(name, *grid) for name in able for grid in grids(name, size, workspace.world)]


def grids(algorithm: str, size: int, world: int) -> list:
    """(blocks, threads) that leave not most of the threads idle, and give none of them more than a dozen words. Never empty."""
    items = -(-size // (WORD * {"two_shot": world, "islands": max(world // 2, 1)}.get(algorithm, 1)))
    every = [(blocks, threads) for blocks in BLOCKS for threads in THREADS]
    fit = [
        (blocks, threads) for blocks, threads in every if items / MOST_WORDS <= blocks * threads < 2 * items + threads
    ]
    return fit or every[-1:]


def _able(workspace: Workspace, algorithm: str, size: int) -> bool:
    try:
        return workspace.max_bytes(algorithm) >= size
    except Exception:  # noqa: BLE001 - an algorithm that was not built says so with an error
        return False


def fastest(launches: list, search: Callable, final: Callable):
    """Of ``launches`` the one with the least time, or None. ``search`` and ``final`` time one; None is a launch that cannot be done.

    Two graphs of the same calls differ by some percent, as much as two launches do. So a short look at each tells which ones are near, and
    those are timed in rounds, each time in a graph of their own.
    """
    first = {launch: us for launch, us in ((launch, search(launch)) for launch in launches) if us is not None}
    near = sorted(first, key=first.get)[:FINALISTS]
    rounds = [{launch: final(launch) for launch in near} for _round in range(ROUNDS)]
    return min(near, key=lambda launch: statistics.median(found[launch] for found in rounds), default=None)


def _best(job: dict, ranks, gpu, workspace: Workspace, size: int, progress: Progress):
    candidates = _candidates(workspace, ranks, size)
    tried = itertools.count()

    def search(launch: crossover.Launch):
        progress.count(f"{size} bytes, launches tried", next(tried), len(candidates))
        try:
            return time_work(ranks, gpu, ours(job, gpu, workspace, size, launch), *SEARCH)
        except Off as off:
            if "did not answer" in str(off):
                raise  # the peers' calls no longer match
            return None

    return fastest(candidates, search, lambda one: time_work(ranks, gpu, ours(job, gpu, workspace, size, one), *FINAL))


def _row(job: dict, ranks, gpu, workspace: Workspace, size: int, launch: crossover.Launch) -> dict:
    """One row of a table. NCCL goes first and last, so that a clock that climbs or falls favours neither."""
    before = time_work(ranks, gpu, _nccl(job, gpu, size), *FINAL)
    mine = time_work(ranks, gpu, ours(job, gpu, workspace, size, launch), *FINAL)
    after = time_work(ranks, gpu, _nccl(job, gpu, size), *FINAL)
    return {"bytes": size, **launch._asdict(), "us": round(mine, 2), "nccl_us": round(min(before, after), 2)}


def ours(job: dict, gpu, workspace: Workspace, size: int, launch: crossover.Launch) -> Work:
    count = size // ITEM_BYTES[job["dtype"]]
    source = gpu.integers(count, job["dtype"], gpu.rank)
    target = gpu.result_for(source)

    def call() -> None:
        workspace.all_reduce(source.data_ptr(), target.data_ptr(), count, job["dtype"], *launch, gpu.stream())

    return Work(call, lambda: refuse_time_out(workspace))


def _nccl(job: dict, gpu, size: int) -> Work:
    import torch.distributed as dist

    tensor = gpu.integers(size // ITEM_BYTES[job["dtype"]], job["dtype"], gpu.rank)
    tensor.zero_()  # so that many sums in place stay finite
    return Work(lambda: dist.all_reduce(tensor), lambda: None)


def refuse_time_out(workspace: Workspace) -> None:
    status = workspace.status()
    if status.code != 0:
        raise TimeoutError(f"rank {status.peer} did not answer in call {status.epoch}")


def time_work(ranks, gpu, work: Work, calls: int, replays: int) -> float:
    """Microseconds for one call: median of the replays, slowest rank."""
    graph = ranks.local("capture", lambda: captured(work.call, calls))
    ranks.step("start", lambda: None)
    samples = [_replay(graph, gpu) / calls * 1e3 for _replay_number in range(replays + 2)]
    return ranks.slowest("timing", lambda: work.check() or statistics.median(samples[2:]))


def _replay(graph, gpu) -> float:
    """Milliseconds. The ranks meet on their GPUs first; a meeting on the CPUs would leave them further apart than a call takes."""
    import torch
    import torch.distributed as dist

    start, end = (torch.cuda.Event(enable_timing=True) for _event in range(2))
    dist.all_reduce(torch.zeros(1, device=gpu.device))
    start.record()
    graph.replay()
    end.record()
    gpu.synchronize()
    return start.elapsed_time(end)


def captured(call, calls: int):
    """A CUDA graph of so many calls, after one outside of it."""
    import torch

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _call in range(calls):
            call()
    return graph
