# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the GPU memory leaves room for the KV cache: SGLang's own arithmetic, before it has loaded anything. Numbers in, words out.

SGLang sizes the cache after the weights are there: what is free then, less what ``mem_fraction_static`` f keeps back (free before the
load x (1 - f)), less what multimodal models reserve. At 0 or below it ends, after all of the load.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

LARGEST = 0.99  # of mem_fraction_static; 1 would leave nothing for activations and graphs
SMALLEST_SLACK = 1.5  # GiB; what SGLang itself keeps back at least when it chooses f


class Budget(NamedTuple):
    """``kv_gib``: None where f is not known; ``smallest_fraction``: None where no fraction works; ``works``: None where it cannot be told."""

    kv_gib: Optional[float]
    smallest_fraction: Optional[float]
    works: Optional[bool]
    sentence: str


def budget(
    free_before_gib: float,
    weights_gib: Optional[float] = None,
    free_after_gib: Optional[float] = None,
    fraction: Optional[float] = None,
    reservation_gib: float = 0,
    draft_gib: float = 0,
) -> Budget:
    """The budget of one GPU. Give ``weights_gib`` (and ``draft_gib``), or ``free_after_gib``, which has both in it.

    ``fraction``: mem_fraction_static; None leaves it to SGLang, and the smallest that works is told all the same.
    """
    if free_before_gib <= 0 or (weights_gib is None) == (free_after_gib is None):
        raise ValueError("free_before_gib is a positive number, and one of weights_gib and free_after_gib is given")
    after = free_before_gib - weights_gib - draft_gib if free_after_gib is None else free_after_gib
    smallest = smallest_fraction(free_before_gib, after - reservation_gib)
    head = f"free before {free_before_gib:.2f} GiB, free after the weights {after:.2f} GiB"
    if fraction is None:
        kv = None
        works = None if smallest else False
        told = f"{head}; mem_fraction_static is not set, and SGLang chooses it from the model and the GPU"
    else:
        kv = after - free_before_gib * (1 - fraction) - reservation_gib
        works = kv > 0
        less = f" - {reservation_gib:.2f}" if reservation_gib else ""
        told = f"{head}: {after:.2f} - {free_before_gib:.2f} x (1 - {fraction:g}){less} = {kv:.2f} GiB for the KV cache"
    return Budget(kv, smallest, works, f"{told}. {_way_on(after, smallest, works)}")


def smallest_fraction(free_before_gib: float, left_gib: float) -> Optional[float]:
    """The smallest mem_fraction_static, in hundredths, that leaves more than nothing of ``left_gib``; None where none does."""
    # Rounded first: 1 - 0.23 is a little above 0.77, and 0.77 exactly leaves nothing.
    hundredths = math.floor(round((1 - left_gib / free_before_gib) * 100, 6)) + 1
    return None if hundredths > round(LARGEST * 100) else max(hundredths, 1) / 100


def _way_on(after: float, smallest: Optional[float], works: Optional[bool]) -> str:
    if after <= 0:
        return "The weights alone do not fit; use more GPUs (tp_size) or a smaller model."
    if smallest is None:
        return f"No mem_fraction_static up to {LARGEST:g} leaves anything; use more GPUs (tp_size) or a smaller model."
    if works is False:
        return f"It cannot start, whatever NCCL does; smallest mem_fraction_static that works: {smallest:.2f}."
    return f"Smallest mem_fraction_static that works: {smallest:.2f}."
