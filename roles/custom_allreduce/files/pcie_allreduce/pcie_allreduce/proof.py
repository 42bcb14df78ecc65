# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove on the GPUs that sums are right: every algorithm, dtype and kind of length, eager and in replayed graphs, bit by bit on all ranks."""

from __future__ import annotations

import ctypes
import hashlib
import os

from . import crossover, settings
from .abi import ITEM_BYTES, Workspace
from .communicator import Communicator
from .measure import ALGORITHMS, WATCHDOG_SECONDS, captured, open_workspace, refuse_time_out
from .progress import Progress
from .together import Off, probe_stores

BYTES = (16, 18, 1024, 14336, 43008, 43010, 114688)  # around one word, odd lengths, and rows of 7168 in bf16
SHAPES = ((1, 256), (4, 256), (16, 512))  # blocks and threads change between calls, as they do between sizes of a table
# No common factor with 3 inboxes and 4 outboxes: each replay begins in another one, and all have their turn.
CALLS, REPLAYS = 5, 7


def run(job: dict, ranks, gpu, library) -> dict:
    """``{"algorithms": {name: number of right results}, "error": None}``. A wrong result raises Off on all ranks."""
    workspace = open_workspace(ranks, gpu, library, job["transport"], max(BYTES), WATCHDOG_SECONDS)
    try:
        probe_stores(ranks, workspace)
    except Off as off:
        return {"error": str(off), "stores_arrive": False}
    progress = Progress(job.get("progress", ""), gpu.rank)
    built = [name for name in ALGORITHMS if all(ranks.step("algorithms", lambda name=name: _built(workspace, name)))]
    ranks.step("algorithms", lambda: _refuse_none(built))
    cases = [
        (size // width, dtype, crossover.Launch(name, *shape))
        for name in built
        for size in BYTES
        for dtype, width in ITEM_BYTES.items()
        for shape in SHAPES
    ]
    proved = dict.fromkeys(built, 0)
    for done, (count, dtype, launch) in enumerate(cases, 1):
        proved[launch.algorithm] += _case(ranks, gpu, workspace, count, dtype, launch)
        progress.count("proof, cases with right sums", done, len(cases))
    _communicator(job, ranks, gpu, built[0])
    progress.say("proof: the way that an engine goes is right, too")
    return {"error": None, "transport": job["transport"], "algorithms": proved}


def _built(workspace: Workspace, algorithm: str) -> bool:
    try:
        return workspace.max_bytes(algorithm) >= max(BYTES)
    except Exception:  # noqa: BLE001 - an algorithm that was not built says so with an error
        return False


def _refuse_none(built: list) -> None:
    if not built:
        raise RuntimeError("the library has no algorithm for this transport and number of GPUs")


def _communicator(job: dict, ranks, gpu, algorithm: str) -> None:
    """The way that an engine goes: table, start-up, the questions it asks, torch.compile, a graph."""
    size = 43008
    path = os.path.join(job["folder"], f"table-{gpu.rank}.json")
    ranks.step("table", lambda: crossover.write(path, _table(job, gpu, algorithm, size)))
    communicator = Communicator(gpu=gpu, environment={"PCIE_ALLREDUCE": "1", "PCIE_ALLREDUCE_TABLE": path})
    ranks.step("communicator", lambda: _questions(communicator, gpu, size))
    ranks.step("communicator, torch.compile", lambda: _compiled(communicator, gpu, size // 2))
    ranks.step("communicator, graph", lambda: _captured(communicator, gpu, size // 2))
    ranks.step("communicator, two streams", lambda: _two_streams(communicator, gpu, size // 2))
    ranks.step("communicator, two streams of a capture", lambda: _two_captured(communicator, gpu, size // 2))
    ranks.step("communicator, end", communicator.close)


def _table(job: dict, gpu, algorithm: str, size: int) -> dict:
    row = {"bytes": size, "algorithm": algorithm, "blocks": 8, "threads": 256, "us": 1.0, "nccl_us": 2.0}
    return {
        "schema_version": crossover.SCHEMA_VERSION,
        "enabled": True,
        "reason": "for the proof",
        "build": settings.build_of(settings.stamp()),
        "world": gpu.world,
        "gpu": gpu.name,
        "transport": job["transport"],
        "margin": 0,
        "rows": [row],
    }


def _questions(communicator: Communicator, gpu, size: int) -> None:
    if communicator.disabled:
        raise RuntimeError(f"off, because {communicator.off_reason}")
    whole, too_long = gpu.integers(size // 2, "bfloat16", 0), gpu.integers(size // 2 + 1, "bfloat16", 0)
    answers = [communicator.should_custom_ar(tensor) for tensor in (whole, too_long, whole[::2], whole.long())]
    if answers != [True, False, False, False]:
        raise RuntimeError(
            f"should_custom_ar says {answers} of a message that fits, is too long, has gaps, is of integers"
        )


def _compiled(communicator: Communicator, gpu, count: int) -> None:
    import torch

    doubled = torch.compile(
        lambda tensor: communicator.custom_all_reduce(tensor) * 2, backend="aot_eager", fullgraph=True
    )
    _refuse(_wrong(gpu, doubled(gpu.integers(count, "bfloat16", gpu.rank)) / 2, count, "bfloat16", 0))


def _captured(communicator: Communicator, gpu, count: int) -> None:
    source, found = gpu.integers(count, "bfloat16", gpu.rank), []
    graph = captured(lambda: found.append(communicator.custom_all_reduce(source)), CALLS)
    wrong = []
    for turn in range(REPLAYS):
        source.copy_(_tensors(gpu, count, "bfloat16", turn)[0])
        graph.replay()
        gpu.synchronize()
        wrong += _wrong(gpu, found[-1], count, "bfloat16", turn)
    _refuse(wrong)


def _two_streams(communicator: Communicator, gpu, count: int) -> None:
    """Calls that take turns on two streams share their slots, so they have to come one after the other."""
    import torch

    streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
    sources = [_tensors(gpu, count, "bfloat16", turn)[0] for turn in range(REPLAYS)]
    gpu.synchronize()
    found = []
    for turn, source in enumerate(sources):
        with torch.cuda.stream(streams[turn % 2]):
            found.append(communicator.custom_all_reduce(source))
    gpu.synchronize()
    _refuse([late for turn, result in enumerate(found) for late in _wrong(gpu, result, count, "bfloat16", turn)])


def _two_captured(communicator: Communicator, gpu, count: int) -> None:
    """Their order in a graph would not be known, so the second stream is refused. The graph is never launched."""
    import torch

    source, other, said = gpu.integers(count, "bfloat16", gpu.rank), torch.cuda.Stream(), ""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        communicator.custom_all_reduce(source)
        main = torch.cuda.current_stream()
        other.wait_stream(main)
        with torch.cuda.stream(other):
            try:
                communicator.custom_all_reduce(source)
            except RuntimeError as error:
                said = str(error)
        main.wait_stream(other)
    if "two streams of one capture" not in said:
        raise RuntimeError(f"a capture took calls on two streams; it said: {said or 'nothing'}")


def _case(ranks, gpu, workspace: Workspace, count: int, dtype: str, launch: crossover.Launch) -> int:
    where = f"{launch.algorithm}, {count} x {dtype}, {launch.blocks} blocks of {launch.threads} threads"
    ranks.step(where, lambda: _eager(gpu, workspace, count, dtype, launch))
    ranks.step(where + ", graph", lambda: _graph(gpu, workspace, count, dtype, launch))
    ranks.same(where + ", bits of a sum that has to be rounded", _bits(ranks, gpu, workspace, count, dtype, launch))
    return 3


def _eager(gpu, workspace, count, dtype, launch) -> None:
    wrong = []
    for turn in range(3):
        source, target = _tensors(gpu, count, dtype, turn)
        _call(gpu, workspace, source, target, dtype, launch)
        gpu.synchronize()
        wrong += _wrong(gpu, target, count, dtype, turn)
    refuse_time_out(workspace)
    _refuse(wrong)


def _graph(gpu, workspace, count, dtype, launch) -> None:
    """Other data for each replay: a result of the replay before would pass otherwise."""
    source, target = _tensors(gpu, count, dtype, 0)
    graph = captured(lambda: _call(gpu, workspace, source, target, dtype, launch), CALLS)
    wrong = []
    for turn in range(REPLAYS):
        source.copy_(_tensors(gpu, count, dtype, turn)[0])
        graph.replay()
        gpu.synchronize()
        wrong += _wrong(gpu, target, count, dtype, turn)
    refuse_time_out(workspace)
    _refuse(wrong)


def _bits(ranks, gpu, workspace, count, dtype, launch) -> str:
    def digest() -> str:
        source, target = _tensors(gpu, count, dtype, 0)
        source.mul_(0.1)  # tenths have no end in binary, so the order of the additions shows
        _call(gpu, workspace, source, target, dtype, launch)
        gpu.synchronize()
        refuse_time_out(workspace)
        copy = target.cpu()
        return hashlib.sha256(ctypes.string_at(copy.data_ptr(), copy.numel() * copy.element_size())).hexdigest()

    return ranks.local("rounded sum", digest)


def _tensors(gpu, count, dtype, turn) -> tuple:
    source = gpu.integers(count, dtype, gpu.rank + turn * gpu.world)
    return source, gpu.result_for(source)


def _call(gpu, workspace, source, target, dtype, launch) -> None:
    workspace.all_reduce(source.data_ptr(), target.data_ptr(), source.numel(), dtype, *launch, gpu.stream())


def _wrong(gpu, found, count, dtype, turn) -> list:
    """The turn, where its sum is wrong. Nothing is raised between calls: the other ranks make all of them, and would wait."""
    wanted = sum(gpu.integers(count, dtype, rank + turn * gpu.world) for rank in range(gpu.world))
    return [] if gpu.equal(found, wanted) else [turn]


def _refuse(wrong: list) -> None:
    if wrong:
        raise ArithmeticError(f"wrong sums in call {', '.join(str(turn) for turn in wrong)}")
