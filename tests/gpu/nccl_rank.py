#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rank of a real all-reduce over NCCL: 3 rows x 7168 x bf16 (42 KiB), the message of the first customer's verify step.

Usage: nccl_rank.py RANK WORLD PORT. Prints one JSON line with the library's version and whether the sum was right.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    rank, world, port = (int(argument) for argument in sys.argv[1:4])
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world, device_id=torch.device("cuda", rank)
    )
    tensor = torch.full((3, 7168), float(rank + 1), dtype=torch.bfloat16, device="cuda")
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    right = bool((tensor == world * (world + 1) / 2).all())
    answer = {
        "rank": rank,
        "sum_is_right": right,
        "torch": torch.__version__,
        "nccl": ".".join(str(part) for part in torch.cuda.nccl.version()),
        "gpu": torch.cuda.get_device_name(rank),
    }
    print(json.dumps(answer), flush=True)
    os._exit(0 if right else 1)  # the orderly end of a process group can hang; nothing is left to do


if __name__ == "__main__":
    main()
