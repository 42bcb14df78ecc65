# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first calls of a new workspace, with sums that are known: a host that loses or reorders stores must not serve anybody."""

from __future__ import annotations

from .abi import ITEM_BYTES, Workspace
from .crossover import Plan

ROUNDS = 8  # each of 3 inboxes and of 4 outboxes is written twice, so once after it was cleared


def run(workspace: Workspace, gpu, plan: Plan) -> int:
    """How many sums were right. Raises ArithmeticError for a wrong one, TimeoutError where a peer did not answer.

    A wrong sum does not end it: the other ranks make all calls, and would wait for this one.
    """
    calls, wrong = 0, []
    for size, launch in _cases(plan):
        for dtype, width in ITEM_BYTES.items():
            for turn in range(ROUNDS):
                calls += 1
                if not _is_right(workspace, gpu, max(size // width, 1), dtype, launch, turn):
                    wrong.append(f"{size // width} x {dtype}, {launch}, call {turn}")
    if wrong:
        raise ArithmeticError(f"{len(wrong)} of {calls} sums are wrong, first {wrong[0]}")
    return calls


def _cases(plan: Plan) -> list:
    """Every launch at the size that it is for, and at an odd length just below, where the last word is not full."""
    return [case for size, launch in plan.launches for case in ((size, launch), (max(size - 4, 4), launch))]


def _is_right(workspace, gpu, count, dtype, launch, turn) -> bool:
    seeds = [rank + gpu.world * turn for rank in range(gpu.world)]
    mine = gpu.integers(count, dtype, seeds[gpu.rank])
    wanted = gpu.integers(count, dtype, seeds[0])
    for seed in seeds[1:]:
        wanted = wanted + gpu.integers(count, dtype, seed)  # whole numbers below 128: exact in every dtype
    found = gpu.result_for(mine)
    workspace.all_reduce(mine.data_ptr(), found.data_ptr(), count, dtype, *launch, gpu.stream())
    gpu.synchronize()
    status = workspace.status()
    if status.code != 0:
        raise TimeoutError(f"rank {status.peer} did not answer in call {status.epoch} ({launch.algorithm})")
    return gpu.equal(found, wanted)
