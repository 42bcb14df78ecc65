# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rank of check, bench and tune: ``python -m pcie_allreduce.rank FOLDER RANK``, started by processes.py."""

from __future__ import annotations

import json
import os
import sys

from . import measure, proof
from .abi import Library
from .gpu import TorchGpu
from .together import Off, Together

WORK = {"check": proof.run, "bench": measure.bench, "tune": measure.tune}


def main(folder: str, rank: int) -> None:
    import torch
    import torch.distributed as dist

    with open(os.path.join(folder, "job.json"), encoding="utf-8") as stream:
        job = json.load(stream)
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=job["world"],
        device_id=torch.device("cuda", rank),
    )
    gpu = TorchGpu(dist.new_group(backend="gloo"), torch.device("cuda", rank))
    ranks = Together(gpu.exchange)
    try:
        answer = WORK[job["work"]](job, ranks, gpu, ranks.local("library", Library))
    except Off as off:
        answer = {"error": str(off)}
    new = os.path.join(folder, f"{rank}.new")
    with open(new, "w", encoding="utf-8") as stream:
        json.dump(answer, stream)
    os.replace(new, os.path.join(folder, f"{rank}.json"))
    sys.stdout.flush()
    os._exit(0)  # the orderly end of a process group hangs while a graph holds its calls


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
