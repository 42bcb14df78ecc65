# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SGLang's own small-message all-reduce for PCIe (FlashInfer's pcie_ipc), measured beside the launches of a table in the same processes.

It waits without a limit, so it is measured by a command of its own, whose end decides nothing about the table: see the caller's time limit.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
from typing import Callable, NamedTuple

from . import crossover, measure
from .abi import ITEM_BYTES
from .progress import Progress
from .together import Off

WORLDS = (2, 4, 8)
# By the number of ranks, the names of FlashInfer's IpcVariant. Copy engines are for megabytes.
VARIANTS = {
    2: ("UNSTAGED", "STAGED"),
    4: ("UNSTAGED", "STAGED", "STAGED_RING"),
    8: ("UNSTAGED", "STAGED", "STAGED_RING", "FLAT_STAGED"),
}
BLOCKS = (4, 8, 16, 32, 64, 96, 128)  # the staged kernels of eight ranks take multiples of four only
THREADS = (128, 256, 512, 1024)


def is_there() -> bool:
    """Whether this Python has a FlashInfer with the kernel. Looks for files: to import it takes seconds."""
    spec = importlib.util.find_spec("flashinfer")
    folders = spec.submodule_search_locations if spec else None
    return any(os.path.exists(os.path.join(folder, "comm", "pcie_ipc_ar.py")) for folder in folders or [])


class Launch(NamedTuple):
    variant: str
    blocks: int
    threads: int


class PcieIpc:
    """FlashInfer's workspace. ``most`` is the largest number of bf16 elements. Raises ImportError or ValueError where it cannot be had."""

    def __init__(self, group, world: int, most: int):
        from flashinfer.comm import pcie_ipc_ar, pcie_ipc_policy

        self._policy = pcie_ipc_policy
        self._world = world
        self._workspace = pcie_ipc_ar.PcieIpcAllReduceWorkspace(group, most)

    def launches(self, count: int) -> list:
        """Those that neither idle nor overload a thread, in the same order on every rank."""
        words = -(-count * 2 // measure.WORD)
        return [
            Launch(variant, blocks, threads)
            for variant in VARIANTS[self._world]
            for blocks in BLOCKS
            for threads in THREADS
            if blocks <= self._workspace.max_blocks
            and words / measure.MOST_WORDS <= blocks * threads < 2 * words + threads
        ]

    def call(self, tensor, launch: Launch) -> Callable[[], object]:
        variant = self._policy.IpcVariant[launch.variant]
        config = self._policy.IpcLaunchConfig(launch.blocks, launch.threads, variant)
        self._workspace.rebind_stream()
        return lambda: self._workspace.all_reduce(tensor, config=config)


def compare(job: dict, ranks, gpu, library) -> dict:
    """``{"rows": [{bytes, us, pcie_ipc_us, pcie_ipc}], ...}`` for the rows of ``job["table"]``. Raises Off where pcie_ipc cannot be had."""
    table = job["table"]
    rows = [row for row in table["rows"] if row["bytes"] in job["sizes"]]
    if gpu.world not in WORLDS:
        raise Off(f"pcie_ipc is for {', '.join(map(str, WORLDS))} ranks, not for {gpu.world}")
    if not rows:
        raise Off("the table has none of the sizes that count")
    most = max(row["bytes"] for row in rows)
    theirs = ranks.local("pcie_ipc", lambda: PcieIpc(gpu.group, gpu.world, most // 2))
    workspace = measure.open_workspace(ranks, gpu, library, table["transport"], most, measure.WATCHDOG_SECONDS)
    progress, found = Progress(job.get("progress", ""), gpu.rank), []
    for row in rows:
        found.append(_row(ranks, gpu, workspace, theirs, row))
        progress.say("{bytes} bytes: {us} us, pcie_ipc {pcie_ipc_us} us".format(**found[-1]))
    return {"rows": found, **measure.about(gpu)}


def _row(ranks, gpu, workspace, theirs: PcieIpc, row: dict) -> dict:
    tensor = gpu.integers(row["bytes"] // ITEM_BYTES["bfloat16"], "bfloat16", gpu.rank)

    def time(launch: Launch, calls: int, replays: int) -> float:
        work = measure.Work(theirs.call(tensor, launch), lambda: None)
        return measure.time_work(ranks, gpu, work, calls, replays)

    launches = theirs.launches(tensor.numel())
    best = measure.fastest(launches, lambda one: time(one, *measure.SEARCH), lambda one: time(one, *measure.FINAL))
    mine = crossover.Launch(row["algorithm"], row["blocks"], row["threads"])
    ours = measure.ours({"dtype": "bfloat16"}, gpu, workspace, row["bytes"], mine)
    samples = [
        (measure.time_work(ranks, gpu, ours, *measure.FINAL), time(best, *measure.FINAL))
        for _round in range(measure.ROUNDS)
    ]
    us, pcie_ipc_us = (round(statistics.median(one), 2) for one in zip(*samples))
    return {"bytes": row["bytes"], "us": us, "pcie_ipc_us": pcie_ipc_us, "pcie_ipc": list(best)}
