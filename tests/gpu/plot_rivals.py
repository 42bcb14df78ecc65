#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the figures that allreduce_rivals.py --json wrote: latency against size, both axes logarithmic.

python tests/gpu/plot_rivals.py rivals.json docs/allreduce_latency.svg      needs matplotlib, which nothing else here does
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HIDDEN, BYTES = 7168, 2


def main() -> int:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "the same picture from the same figures"
    from matplotlib import pyplot

    answer = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    figures = {int(rows): found for rows, found in answer["figures"].items()}
    _figure, axes = pyplot.subplots(figsize=(8, 5))
    for name in dict.fromkeys(name for found in figures.values() for name in found):
        if name == "library, C interface":
            continue
        points = [(rows * HIDDEN * BYTES / 1024, found[name]) for rows, found in figures.items() if name in found]
        axes.loglog(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    axes.set_xlabel("KiB a call (bf16)")
    axes.set_ylabel("microseconds a call")
    axes.set_xticks([rows * HIDDEN * BYTES / 1024 for rows in figures], [f"{rows * 14}" for rows in figures])
    axes.minorticks_off()
    axes.set_yticks([2, 3, 5, 10, 20, 50], ["2", "3", "5", "10", "20", "50"])
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    pyplot.savefig(sys.argv[2], metadata={"Date": None}, bbox_inches="tight")
    return 0


if __name__ == "__main__":
    sys.exit(main())
