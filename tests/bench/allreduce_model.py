# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the all-reduce should take on eight GPUs over PCIe: a MODEL, no measurement. Prints the table of docs/custom_allreduce.md.

    python3 tests/bench/allreduce_model.py

A call takes what every call takes, one crossing after the other, and the bytes that leave (or, for a pull, enter) one GPU over its link.
"""

from __future__ import annotations

from typing import NamedTuple

WORLD, ISLAND = 8, 4
# Measured with two H200 (2026-11-29): 8 bytes took 1.98 us, of which about 0.7 are the way; two-shot took 0.82 us more than one-shot.
EVERY_CALL, EVERY_FURTHER_HOP = 1.28, 0.12
KIB = 1024


class Host(NamedTuple):
    """Microseconds for a store to be seen in the own island and across, and GB/s of a GPU's link: stores, loads, and what crosses."""

    name: str
    near: float
    far: float
    stores: float
    loads: float
    across: float


# Published by others for such hosts; none of it was measured for this project.
BEST = Host("one switch fabric, a link to itself", 0.45, 0.45, 50.0, 42.8, 50.0)
WORST = Host("two sockets, all GPUs at once", 0.7, 1.3, 25.4, 20.6, 23.75)


def microseconds(algorithm: str, size: float, host: Host) -> float:
    """`size` in bytes of bf16."""
    hops, sent, across = {
        "one-shot": ([host.far], (WORLD - 1) * size, ISLAND * size),
        "two-shot": ([host.far] * 2, 2 * (WORLD - 1) / WORLD * size, size),
        # Parts, island sums in float32 (twice the bytes), sums.
        "islands": (
            [host.near, host.far, host.near],
            (2 * (ISLAND - 1) / ISLAND + 2 / ISLAND) * size,
            2 / ISLAND * size,
        ),
        "one-shot pull": ([2 * host.far], (WORLD - 1) * size, ISLAND * size),
    }[algorithm]
    link = host.loads if algorithm == "one-shot pull" else host.stores
    wire = max(sent / link, across / host.across) / 1000
    return EVERY_CALL + sum(hops) + EVERY_FURTHER_HOP * (len(hops) - 1) + wire


def table() -> list[str]:
    names = ("one-shot", "two-shot", "islands", "one-shot pull")
    lines = [f"| KiB | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for kib in (12, 14, 42, 96, 112):
        cells = [" to ".join(f"{microseconds(name, kib * KIB, host):.1f}" for host in (BEST, WORST)) for name in names]
        lines.append(f"| {kib} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
