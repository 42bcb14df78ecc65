# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rank of check, bench and tune: ``python -m pcie_allreduce.rank FOLDER RANK``, started by processes.py."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

from . import measure, proof, rival
from .abi import Library
from .gpu import TorchGpu
from .together import Off, Together

WORK = {"check": proof.run, "bench": measure.bench, "tune": measure.tune, "compare": rival.compare}


PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(folder: str, rank: int) -> None:
    with open(os.path.join(folder, "job.json"), encoding="utf-8") as stream:
        job = json.load(stream)
    end_with(job["parent"])
    import torch
    import torch.distributed as dist

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


def end_with(parent: int) -> None:
    """The kernel kills this process when ``parent``, which started it, is gone in whatever way."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was gone before the kernel was asked
        os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
