#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rank that times several all-reduces in turn in one process, each in a CUDA graph of its own.

Usage: rival_rank.py RANK WORLD PORT HIDDEN ROWS... with PYTHONPATH naming the folder of pcie_allreduce, and TABLE_PEER, TABLE_HOST_STAGED its
tables. Rank 0 prints one JSON line. A rival that cannot start on every rank is left out, with the reason.

Each sum is compared before it is timed. The rounds go through all rivals in turn, so that a slow moment of the machine hits all of them. Before
each replay the ranks meet on their GPUs. A sample lies between two events on the GPU; of the ranks the slowest counts.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import sys
import time

CALLS = 122  # two for each of 61 layers
GRAPHS, ROUNDS, REPLAYS = 4, 6, 5
COLD_CALLS = 20
EAGER_CALLS = 2000
SEARCH_CALLS = 61


def main() -> None:
    number, world, port, hidden, *rows = (int(argument) for argument in sys.argv[1:])
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(number)
    where = {"init_method": f"tcp://127.0.0.1:{port}", "rank": number, "world_size": world}
    dist.init_process_group("cpu:gloo,cuda:nccl", device_id=torch.device("cuda", number), **where)
    ranks = Ranks(torch, dist, number, world)
    most = max(rows) * hidden
    rivals, left_out = ranks.start(list(RIVALS.items()), most, hidden, tuple(rows))
    figures = {row: ranks.compare(rivals, row * hidden) for row in rows}
    cold = {row: ranks.compare_cold(rivals, row * hidden) for row in rows if row <= 8}
    eager = ranks.eager(rivals, 3 * hidden)
    if number == 0:
        chosen = {
            count // hidden: str(found)
            for count, found in getattr(rivals.get("FlashInfer pcie_ipc"), "chosen", {}).items()
        }
        answer = {
            "figures": figures,
            "cold": cold,
            "eager": eager,
            "left_out": left_out,
            "chosen": chosen,
            **versions(torch),
        }
        print(json.dumps(answer), flush=True)
    dist.barrier()
    os._exit(0)  # the orderly end of a process group hangs while a graph holds its calls


def versions(torch) -> dict:
    found = {"torch": torch.__version__, "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    flashinfer = sys.modules.get("flashinfer")
    return found | ({"flashinfer": flashinfer.__version__} if flashinfer else {})


# --- the rivals. Each is made with (ranks, most elements, hidden, rows) and has prepare(count) -> (call, output of call). --------------------


class Nccl:
    """In place, as an engine calls it."""

    def __init__(self, ranks, most, hidden, rows):
        self.ranks = ranks

    def prepare(self, tensor):
        self.ranks.dist.all_reduce(tensor.clone())
        work = tensor.clone()
        return (lambda: self.ranks.dist.all_reduce(work)), lambda: work


class Ours:
    """The Python layer as SGLang would use it: the communicator, its table, the torch operator."""

    transport = "peer"

    def __init__(self, ranks, most, hidden, rows):
        from pcie_allreduce.communicator import Communicator

        table = os.environ[f"TABLE_{self.transport.upper()}"]
        environment = {"PCIE_ALLREDUCE": "1", "PCIE_ALLREDUCE_TABLE": table, "PCIE_ALLREDUCE_WATCHDOG_SECONDS": "20"}
        self.communicator = Communicator(ranks.dist.group.WORLD, ranks.number, environment=environment)
        if self.communicator.disabled:
            raise RuntimeError(self.communicator.off_reason)

    def prepare(self, tensor):
        if not self.communicator.should_custom_ar(tensor):
            return None
        result = {}

        def call():
            result["tensor"] = self.communicator.custom_all_reduce(tensor)

        return call, lambda: result["tensor"]


class OursHostStaged(Ours):
    transport = "host_staged"


class OursBare(Ours):
    """The same launch through the C interface, with its result in place: what the Python layer and torch add is the difference."""

    def prepare(self, tensor):
        start, stream = self.communicator._start_of(tensor), self.communicator._gpu.stream
        if start is None:
            return None
        output = tensor.clone()
        addresses = (tensor.data_ptr(), output.data_ptr())
        return (lambda: start(*addresses, stream())), lambda: output


class PcieIpc:
    """FlashInfer's all-reduce for PCIe with the fastest of its launches, found as the package's own comparison does.

    Its own tuning is not used: in a run of 2026-11-30 what that chose was up to 3.7 times slower (896 KiB) than what this search finds.
    """

    def __init__(self, ranks, most, hidden, rows):
        from pcie_allreduce import measure, rival

        self.ranks, self.fastest, self.chosen = ranks, measure.fastest, {}
        self.kernel = rival.PcieIpc(ranks.dist.group.WORLD, ranks.world, most)

    def prepare(self, tensor):
        count = tensor.numel()
        if count not in self.chosen:
            search, final = (
                functools.partial(self.time, tensor, SEARCH_CALLS),
                functools.partial(self.time, tensor, CALLS),
            )
            self.chosen[count] = self.fastest(self.kernel.launches(count), search, final)
        launch, result = self.kernel.call(tensor, self.chosen[count]), {}

        def call():
            result["tensor"] = launch()

        return call, lambda: result["tensor"]

    def time(self, tensor, calls: int, launch) -> float:
        call = self.kernel.call(tensor, launch)
        call()
        captured = {("", 0): self.ranks.capture(call, self, calls)}
        return self.ranks.timed(captured, calls)[""]


class VllmKernel:
    """vLLM's custom all-reduce, in the copy that FlashInfer ships."""

    def __init__(self, ranks, most, hidden, rows):
        from flashinfer.comm import vllm_ar
        from flashinfer.comm.cuda_ipc import create_shared_buffer

        self.ranks, self.kernel = ranks, vllm_ar
        group = ranks.dist.group.WORLD
        self.signals = create_shared_buffer(vllm_ar.meta_size() + 2 * most, group=group)
        self.buffers = create_shared_buffer(2 * most, group=group)
        self.most = 2 * most
        self.rank_data = ranks.torch.empty(8 << 20, dtype=ranks.torch.uint8, device="cuda")
        self.handle = vllm_ar.init_custom_ar(self.signals, self.rank_data, ranks.number, True)
        vllm_ar.register_buffer(self.handle, self.buffers)

    def prepare(self, tensor):
        output = self.ranks.torch.empty_like(tensor)

        def call():
            # Captured: the kernel reads the tensor itself, which captured() registers. Otherwise it copies it into its buffer first.
            captured = self.ranks.torch.cuda.is_current_stream_capturing()
            where = (0, 0) if captured else (self.buffers[self.ranks.number], self.most)
            self.kernel.all_reduce(self.handle, tensor, output, *where, 36)

        return call, lambda: output

    def captured(self):
        mine = self.kernel.get_graph_buffer_ipc_meta(self.handle)
        told = [tuple(map(list, one)) for one in self.ranks.exchange([list(part) for part in mine])]
        self.kernel.register_graph_buffers(self.handle, [one[0] for one in told], [one[1] for one in told])


class SymmetricMemory:
    """torch's symmetric memory, one-shot: the input lies in the shared buffer already, which an engine has to see to."""

    operator = "one_shot_all_reduce"

    def __init__(self, ranks, most, hidden, rows):
        import torch.distributed._symmetric_memory as symmetric

        self.ranks = ranks
        self.buffer = symmetric.empty(most, dtype=ranks.torch.bfloat16, device=ranks.torch.device("cuda", ranks.number))
        self.group = ranks.dist.group.WORLD.group_name
        symmetric.rendezvous(self.buffer, self.group)

    def prepare(self, tensor):
        work = self.buffer[: tensor.numel()]
        work.copy_(tensor)
        result = {}

        def call():
            result["tensor"] = getattr(self.ranks.torch.ops.symm_mem, self.operator)(work, "sum", self.group)

        return call, lambda: result["tensor"]


class SymmetricMemoryTwoShot(SymmetricMemory):
    operator = "two_shot_all_reduce_"


RIVALS = {
    "library, peer memory": Ours,
    "FlashInfer pcie_ipc": PcieIpc,
    "vLLM kernel": VllmKernel,
    "torch one-shot": SymmetricMemory,
    "torch two-shot": SymmetricMemoryTwoShot,
    "library, host-staged": OursHostStaged,
    "library, C interface": OursBare,
    "NCCL": Nccl,
}


# --- the ranks together ----------------------------------------------------------------------------------------------------------------------


class Ranks:
    def __init__(self, torch, dist, number: int, world: int) -> None:
        self.torch, self.dist, self.number, self.world = torch, dist, number, world
        self.meeting = torch.zeros(1, device="cuda")
        dist.all_reduce(self.meeting)

    def exchange(self, mine) -> list:
        answers = [None] * self.world
        self.dist.all_gather_object(answers, mine)
        return answers

    def start(self, makers: list, most: int, hidden: int, rows: tuple) -> tuple[dict, dict]:
        rivals, left_out = {}, {}
        for name, maker in makers:
            rival, reason = None, None
            try:
                rival = maker(self, most, hidden, rows)
            except Exception as error:  # noqa: BLE001 - the others are still measured
                reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            reasons = [one for one in self.exchange(reason) if one]
            if reasons:
                left_out[name] = reasons[0]
            else:
                rivals[name] = rival
        return rivals, left_out

    def integers(self, count: int):
        """Small whole numbers with a prime period: every sum is exact in bf16."""
        places = self.torch.arange(count, device="cuda", dtype=self.torch.int64)
        return ((places * 7 + self.number * 13) % 31 - 15).to(self.torch.bfloat16)

    def prepared(self, rivals: dict, count: int) -> dict:
        """name -> (call, rival) of those that take this size and add up rightly."""
        tensor = self.integers(count)
        expected = tensor.clone()
        self.dist.all_reduce(expected)
        found = {}
        for name, rival in rivals.items():
            pair = rival.prepare(tensor)
            if pair is None:
                continue
            call, output = pair
            call()
            self.torch.cuda.synchronize()
            right = all(self.exchange(bool(self.torch.equal(output(), expected))))
            if not right:
                raise SystemExit(f"{name}: a sum of {count} elements is wrong")
            output().zero_() if name in ("NCCL", "torch two-shot") else None  # in place: many sums must stay finite
            found[name] = (call, rival)
        return found

    def capture(self, call, rival, calls: int, between=None):
        torch = self.torch
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _call in range(calls):
                if between is not None:
                    between()
                if call is not None:
                    call()
        if hasattr(rival, "captured"):
            rival.captured()
        return graph

    def compare(self, rivals: dict, count: int) -> dict:
        """Several graphs of each, because two graphs of the same calls differ by some percent, whatever they call."""
        pairs = self.prepared(rivals, count)
        graphs = {
            (name, number): self.capture(*pair, CALLS) for number in range(GRAPHS) for name, pair in pairs.items()
        }
        return self.timed(graphs, CALLS)

    def compare_cold(self, rivals: dict, count: int) -> dict:
        """With the second-level cache overwritten before each call: the difference to a graph that only overwrites."""
        cache = self.torch.cuda.get_device_properties(self.number).L2_cache_size
        waste = self.torch.empty(2 * cache, dtype=self.torch.uint8, device="cuda")
        pairs = {"": (None, None), **self.prepared(rivals, count)}
        graphs = {
            (name, number): self.capture(*pair, COLD_CALLS, waste.zero_)
            for number in range(GRAPHS)
            for name, pair in pairs.items()
        }
        times = self.timed(graphs, COLD_CALLS)
        nothing = times.pop("")
        return {name: round(time - nothing, 2) for name, time in times.items()}

    def timed(self, graphs: dict, calls: int) -> dict:
        """name -> microseconds a call: median of all replays of its graphs, slowest rank. ``graphs``: (name, number) -> graph."""
        samples = {name: [] for name, _number in graphs}
        for _round in range(ROUNDS):
            for (name, _number), graph in graphs.items():
                self.exchange(0)
                samples[name] += [self.replay(graph) / calls * 1e3 for _ in range(REPLAYS + 1)][1:]
        mine = {name: statistics.median(found) for name, found in samples.items()}
        told = self.exchange(mine)
        return {name: round(max(one[name] for one in told), 3) for name in mine}

    def replay(self, graph) -> float:
        torch = self.torch
        start, end = (torch.cuda.Event(enable_timing=True) for _event in range(2))
        self.dist.all_reduce(self.meeting)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end)

    def eager(self, rivals: dict, count: int) -> dict:
        """Microseconds of CPU time that one call outside of a graph costs, with the GPU never more than a few calls behind."""
        found = {}
        for name, (call, _rival) in self.prepared(rivals, count).items():
            self.exchange(0)
            spent = []
            for _block in range(EAGER_CALLS // 100):
                started = time.perf_counter()
                for _call in range(100):
                    call()
                spent.append((time.perf_counter() - started) / 100 * 1e6)
                self.torch.cuda.synchronize()
            found[name] = statistics.median(spent)
        told = self.exchange(found)
        return {name: round(max(one[name] for one in told), 2) for name in found}


if __name__ == "__main__":
    main()
