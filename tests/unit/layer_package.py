# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python package of role custom_allreduce, importable from a checkout, and stand-ins for what it talks to: tensors, GPUs, the library."""

from __future__ import annotations

import pathlib
import sys
import threading

PROJECT = pathlib.Path(__file__).resolve().parents[2] / "roles" / "custom_allreduce" / "files" / "pcie_allreduce"
sys.path.insert(0, str(PROJECT))

from pcie_allreduce import abi, settings  # noqa: E402

GPU = "Stand-in GPU"


def row(size: int, us: float, nccl_us: float, **more) -> dict:
    return {"bytes": size, "algorithm": "one_shot", "blocks": 8, "threads": 256, "us": us, "nccl_us": nccl_us} | more


def table(**changes) -> dict:
    """A table of two ranks: faster than NCCL at 14336 and 43008 bytes, slower at 114688."""
    whole = {
        "schema_version": 1,
        "enabled": True,
        "reason": "faster than NCCL at every required size",
        "build": settings.UNSTAMPED,
        "world": 2,
        "gpu": GPU,
        "transport": "peer",
        "margin": 0.05,
        "rows": [
            row(14336, 2.5, 12.0),
            row(43008, 2.9, 12.5, algorithm="two_shot", blocks=16),
            row(114688, 20.0, 13.0),
        ],
    }
    return whole | changes


class Tensor:
    """As much of a torch tensor as the package looks at. The address stands for the data."""

    def __init__(self, values: list, dtype: str = "bfloat16", contiguous: bool = True):
        self.values, self.dtype, self.shape = values, f"torch.{dtype}", (len(values),)
        self._contiguous = contiguous

    def numel(self) -> int:
        return len(self.values)

    def is_contiguous(self) -> bool:
        return self._contiguous

    def data_ptr(self):
        return self

    def __radd__(self, zero: int) -> Tensor:
        return self  # sum() begins with it

    def __add__(self, other: Tensor) -> Tensor:
        return Tensor([one + two for one, two in zip(self.values, other.values, strict=True)])


class Ranks:
    """So many ranks as threads, with an all-gather between them and slots that they share."""

    def __init__(self, world: int):
        self.world = world
        self._barrier = threading.Barrier(world, timeout=10)
        self._answers = [None] * world

    def exchange(self, rank: int, mine) -> list:
        self._answers[rank] = mine
        self._barrier.wait()
        answers = list(self._answers)
        self._barrier.wait()
        return answers

    def run(self, work) -> list:
        """What `work(rank)` returned on each rank."""
        results: list = [None] * self.world

        def one(rank: int) -> None:
            results[rank] = work(rank)

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(self.world)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads), "a rank waits for ever"
        return results


class Gpu:
    """What gpu.TorchGpu offers, without torch."""

    index, is_cuda, name, host = 0, True, GPU, "one host"
    cannot_register = ""

    def __init__(self, ranks: Ranks, rank: int):
        self._ranks, self.rank, self.world = ranks, rank, ranks.world
        self._registered = {}

    def exchange(self, mine) -> list:
        return self._ranks.exchange(self.rank, mine)

    def synchronize(self) -> None:
        pass

    def stream(self) -> int:
        return 0

    def result_for(self, tensor: Tensor) -> Tensor:
        return Tensor([None] * tensor.numel())

    def aligned(self, tensor: Tensor) -> Tensor:
        return tensor

    def integers(self, count: int, dtype: str, seed: int) -> Tensor:
        return Tensor([(place * 7 + seed * 13) % 31 - 15 for place in range(count)], dtype)

    def equal(self, one: Tensor, other: Tensor) -> bool:
        return one.values == other.values

    def register(self, communicator) -> int:
        if self.cannot_register:
            raise RuntimeError(self.cannot_register)
        self._registered[1] = communicator
        return 1

    def reduce(self, tensor: Tensor, number: int, launch) -> Tensor:
        return self._registered[number].launch(tensor)


class Library:
    """What abi.Library offers. `call` plays the C functions; `faults` names those that fail, on which rank, and how."""

    handle_bytes = 8

    def __init__(self, ranks: Ranks, rank: int, faults: dict | None = None):
        self._ranks, self._rank = ranks, rank
        self.faults = faults or {}
        self.calls: list[str] = []
        self.watchdogs: list[float] = []
        self.late_peer = -1

    def call(self, name: str, *arguments) -> None:
        self.calls.append(name)
        if self.faults.get(name) == "fails":
            raise abi.LibraryError(f"{name}: as the test wants (-1)")
        getattr(self, name, lambda *_arguments: None)(*arguments)

    def pcar_create(self, pointer, _rank, _world, _slot_bytes, _transport, _device, watchdog) -> None:
        pointer._obj.value = 1
        self.watchdogs.append(watchdog)

    def pcar_probe(self, _self, _seconds, missing, wrong) -> None:
        fault = self.faults.get("pcar_probe", "")
        missing._obj.value = 0b101 if fault == "loses" else 0
        wrong._obj.value = 0b10 if fault == "changes" else 0

    def pcar_all_reduce(self, _self, source, target, *_launch) -> None:
        answers = self._ranks.exchange(self._rank, source.values)
        total = [sum(values) for values in zip(*answers, strict=True)]
        target.values = total if self.faults.get("pcar_all_reduce") != "is wrong" else [*total[:-1], total[-1] + 1]

    def pcar_status(self, _self, code, peer, epoch) -> None:
        if self.faults.get("pcar_status") == "timed out" or self.late_peer >= 0:
            code._obj.value, peer._obj.value, epoch._obj.value = -5, max(self.late_peer, 0), 77
