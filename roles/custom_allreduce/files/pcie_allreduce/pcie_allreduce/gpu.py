# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the communicator asks of torch and CUDA, in one place, so that everything else can be tried without either."""

from __future__ import annotations

import functools
import socket
from typing import Any

ALIGNMENT = 16  # bytes; the kernels move whole words of this size


class TorchGpu:
    """One GPU, and the process group that its rank belongs to."""

    def __init__(self, group, device):
        import torch
        import torch.distributed

        self._torch = torch
        self.group = group
        self.device = torch.device(device) if not isinstance(device, int) else torch.device("cuda", device)
        self.rank = torch.distributed.get_rank(group)
        self.world = torch.distributed.get_world_size(group)
        self.host = _boot_id()
        # torch.cuda.current_stream makes an object first, which takes longer than all the rest of a call; compiled graphs ask like this too.
        self._raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or self._stream_by_object

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda" and self._torch.version.cuda is not None

    @functools.cached_property
    def index(self) -> int:
        return self._torch.cuda.current_device() if self.device.index is None else self.device.index

    @property
    def name(self) -> str:
        return self._torch.cuda.get_device_name(self.index)

    def exchange(self, mine: Any) -> list:
        answers = [None] * self.world
        self._torch.distributed.all_gather_object(answers, mine, group=self.group)
        return answers

    def synchronize(self) -> None:
        self._torch.cuda.synchronize(self.index)

    def stream(self) -> int:
        return self._raw_stream(self.index)

    def _stream_by_object(self, index: int) -> int:
        return self._torch.cuda.current_stream(index).cuda_stream

    def result_for(self, tensor):
        return self._torch.empty_like(tensor)

    def aligned(self, tensor):
        """The tensor, or a copy of it where a view begins between two words."""
        return tensor if tensor.data_ptr() % ALIGNMENT == 0 else tensor.clone()

    def integers(self, count: int, dtype: str, seed: int):
        """A tensor of small whole numbers that repeat with a prime period: a word in the wrong place is a wrong sum."""
        places = self._torch.arange(count, device=self.device, dtype=self._torch.int64)
        return ((places * 7 + seed * 13) % 31 - 15).to(getattr(self._torch, dtype))

    def equal(self, one, other) -> bool:
        return bool(self._torch.equal(one, other))

    def reduce(self, tensor, number: int, launch):
        """By the operator where torch.compile traces; elsewhere straight to ``launch``, as the dispatcher would only add to the CPU's time."""
        if not self._torch.compiler.is_compiling():
            return launch(tensor)
        from . import torch_op

        return torch_op.all_reduce(tensor, number)

    def register(self, communicator) -> int:
        from . import torch_op

        return torch_op.number_of(communicator)


def dtype_name(tensor) -> str:
    """``bfloat16`` for torch.bfloat16."""
    return _name(tensor.dtype)


@functools.cache
def _name(dtype) -> str:
    return str(dtype).rpartition(".")[2]


def _boot_id() -> str:
    """The same for two processes on one running host, containers included, and for no others."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return socket.gethostname()
