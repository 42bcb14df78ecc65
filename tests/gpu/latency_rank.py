#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rank that times all_reduce in bf16 over NCCL, as an engine calls it: many calls captured into one CUDA graph.

Usage: latency_rank.py RANK WORLD PORT KIB... Prints one JSON line: microseconds per call for each size in KiB (median of replays), GPU memory
that the first calls took in MiB, whether every sum was right, and versions.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

CALLS = int(os.environ.get("LATENCY_CALLS", "50"))  # in one graph
REPLAYS = 15


def main() -> None:
    rank, world, port = (int(argument) for argument in sys.argv[1:4])
    sizes = [int(argument) for argument in sys.argv[4:]]
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    torch.zeros(1, device="cuda")
    before = torch.cuda.mem_get_info()[0]
    dist.init_process_group(
        "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world, device_id=torch.device("cuda", rank)
    )
    times, right = {}, True
    for size in sizes:
        tensor = torch.full((size * 512,), float(rank + 1), dtype=torch.bfloat16, device="cuda")
        dist.all_reduce(tensor)
        torch.cuda.synchronize()
        right = right and bool((tensor == world * (world + 1) / 2).all())
        tensor.zero_()  # so that fifty sums in place stay finite
        times[size] = time_graph(torch, dist, tensor)
    memory = (before - torch.cuda.mem_get_info()[0] - torch.cuda.memory_reserved()) // 2**20
    answer = {
        "rank": rank,
        "microseconds": times,
        "memory_mib": memory,
        "sum_is_right": right,
        "torch": torch.__version__,
        "nccl": ".".join(str(part) for part in torch.cuda.nccl.version()),
        "gpu": torch.cuda.get_device_name(rank),
    }
    print(json.dumps(answer), flush=True)
    os._exit(0)  # the orderly end of a process group hangs while a graph holds its calls


def time_graph(torch, dist, tensor) -> float:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _call in range(CALLS):
            dist.all_reduce(tensor)
    samples = []
    for _replay in range(REPLAYS + 3):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        started = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        samples.append((time.perf_counter() - started) / CALLS * 1e6)
    return round(statistics.median(samples[3:]), 2)


if __name__ == "__main__":
    main()
