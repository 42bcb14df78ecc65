# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start-up and calls of the communicator: ranks are threads, GPU and library are stand-ins. Whatever fails on one rank is off on all."""

from __future__ import annotations

import logging
import signal
import threading
import time

import pytest

from .layer_package import Gpu, Library, Ranks, Tensor, table

from pcie_allreduce import communicator, crossover  # isort: skip
from pcie_allreduce.communicator import Communicator  # isort: skip
from pcie_allreduce.together import Off, Together  # isort: skip

SMALL = [("rows", [{"bytes": 64, "algorithm": "one_shot", "blocks": 1, "threads": 32, "us": 1.0, "nccl_us": 9.0}])]


@pytest.fixture
def start(tmp_path):
    """start(world=.., faults={rank: {...}}, gpu={rank: {...}}, environment={...}, table changes) -> communicators"""
    running = []

    def start(world=2, faults=None, gpu=None, environment=None, tables=None, **changes):
        ranks, libraries = Ranks(world), {}

        def one(rank):
            path = tmp_path / f"table-{rank}.json"
            mine = table(**(dict(SMALL) | {"world": world} | changes | (tables or {}).get(rank, {})))
            crossover.write(str(path), mine)
            device = Gpu(ranks, rank)
            for name, value in (gpu or {}).get(rank, {}).items():
                setattr(device, name, value)
            libraries[rank] = Library(ranks, rank, (faults or {}).get(rank))
            return Communicator(
                gpu=device,
                environment={"PCIE_ALLREDUCE": "1", "PCIE_ALLREDUCE_TABLE": str(path)} | (environment or {}),
                library=lambda: libraries[rank],
            )

        found = ranks.run(one)
        running.extend(found)
        return ranks, libraries, found

    yield start
    for one in running:
        one.close()


def test_sums_are_right_on_every_rank(start, caplog):
    caplog.set_level(logging.INFO, "pcie_allreduce")
    ranks, libraries, found = start(world=3)
    assert [one.disabled for one in found] == [one.original_disabled for one in found] == [False] * 3
    sums = ranks.run(lambda rank: found[rank].custom_all_reduce(Tensor([rank, 10 * rank])).values)
    assert sums == [[3, 30]] * 3
    said = sorted(record.getMessage() for record in caplog.records)
    assert [line.partition(", table ")[0] for line in said] == [
        f"pcie_allreduce: rank {rank} of 3 on, up to 64 bytes" for rank in range(3)
    ]
    with found[0].capture():
        pass
    # The workspace that is proved is an impatient one, and gone before the lasting one serves.
    assert libraries[0].watchdogs == [10.0, 300.0]
    assert libraries[0].calls.count("pcar_destroy") == 1


def test_should_custom_ar_depends_on_shape_dtype_and_contiguity_alone(start):
    _ranks, _libraries, found = start()
    cases = {
        Tensor([0] * 32): True,
        Tensor([0] * 33): False,
        Tensor([0] * 16, "float32"): True,
        Tensor([0] * 17, "float32"): False,
        Tensor([0] * 8, contiguous=False): False,
        Tensor([0] * 8, "float64"): False,
        Tensor([0] * 8, "int32"): False,
        Tensor([]): False,
    }
    for one in found:
        assert [one.should_custom_ar(tensor) for tensor in cases] == list(cases.values())


@pytest.mark.parametrize(
    ("situation", "words"),
    [
        ({"faults": {1: {"pcar_create": "fails"}}}, "workspace, rank 1: pcar_create: as the test wants"),
        ({"faults": {0: {"pcar_export": "fails"}}}, "workspace, rank 0: pcar_export"),
        ({"faults": {1: {"pcar_import": "fails"}}}, "peers, rank 1: pcar_import"),
        ({"faults": {1: {"pcar_probe": "loses"}}}, "probe, rank 1: stores of rank 0, 2 do not arrive here within 2 s"),
        ({"faults": {0: {"pcar_probe": "changes"}}}, "probe, rank 0: stores of rank 1 arrive changed"),
        ({"faults": {0: {"pcar_probe": "fails"}}}, "probe, rank 0: pcar_probe: as the test wants"),
        ({"faults": {1: {"pcar_reset_status": "fails"}}}, "probe, rank 1: pcar_reset_status"),
        ({"faults": {1: {"pcar_all_reduce": "is wrong"}}}, "self test, rank 1: 48 of 48 sums are wrong, first 32 x"),
        (
            {"faults": {rank: {"pcar_status": "timed out"} for rank in (0, 1)}},
            "self test, rank 0: rank 0 did not answer in call 77",
        ),
        (
            {"gpu": {1: {"cannot_register": "the operator is there already"}}},
            "start, rank 1: the operator is there already",
        ),
        ({"gpu": {1: {"host": "another host"}}}, "hosts: rank 0 has 'one host', rank 1 has 'another host'"),
        ({"gpu": {1: {"is_cuda": False}}}, "GPU, rank 1: the device is not an NVIDIA GPU"),
        (
            {"gpu": {1: {"name": "Other"}}},
            "table, rank 1: its table was measured with GPU 'Stand-in GPU', and this is 'Other'",
        ),
        ({"tables": {1: {"margin": 0.2}}}, "table: rank 0 has"),
        ({"tables": {1: {"world": 4}}}, "table, rank 1: its table was measured with number of ranks 4, and this is 2"),
        ({"build": "abc"}, "build 'abc', and this is 'not built by the role'"),
        ({"enabled": False, "reason": "3 % slower"}, "it is not enabled on this node: 3 % slower"),
        ({"margin": 0.9}, "no size in its table is faster than NCCL"),
        ({"environment": {"PCIE_ALLREDUCE": "0"}}, "PCIE_ALLREDUCE is not 1"),
        ({"environment": {"PCIE_ALLREDUCE": ""}}, "PCIE_ALLREDUCE is not 1"),
        ({"environment": {"PCIE_ALLREDUCE": "maybe"}}, "PCIE_ALLREDUCE='maybe'; legal: 1 or 0"),
        ({"environment": {"PCIE_ALLREDUCE_WATCHDOG_SECONDS": "0"}}, "legal: seconds from 0.1 to 86400"),
        (
            {"environment": {"SGLANG_ENABLE_DETERMINISTIC_INFERENCE": "1"}},
            "SGLANG_ENABLE_DETERMINISTIC_INFERENCE is on",
        ),
        ({"environment": {"PCIE_ALLREDUCE_TABLE": "/nowhere/t.json"}}, "no table /nowhere/t.json"),
    ],
)
def test_off_on_all_ranks_for_one_reason(start, caplog, situation, words):
    _ranks, libraries, found = start(**situation)
    assert [one.disabled for one in found] == [True, True]
    assert found[0].off_reason == found[1].off_reason
    assert words in found[0].off_reason
    assert not any(one.should_custom_ar(Tensor([0] * 8)) for one in found)
    said = [record.getMessage() for record in caplog.records if "off, because" in record.getMessage()]
    assert sorted(said) == [f"pcie_allreduce: rank {rank} of 2 off, because {found[0].off_reason}" for rank in (0, 1)]
    for library in libraries.values():
        assert library.calls.count("pcar_destroy") == len(library.watchdogs), "a workspace was left behind"


def test_off_on_all_ranks_where_one_cannot_watch(start, monkeypatch):
    class NoThread(threading.Thread):
        def start(self):
            if self.name == "pcie_allreduce" and self._args[0]().who.startswith("pcie_allreduce: rank 0"):
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr(communicator.threading, "Thread", NoThread)
    _ranks, _libraries, found = start()
    assert [(one.disabled, one.off_reason) for one in found] == [(True, "start, rank 0: can't start new thread")] * 2


def test_a_call_that_should_not_be_raises(start):
    _ranks, _libraries, found = start()
    for tensor, words in (
        (Tensor([0] * 33), "a tensor of 66 bytes; legal: 2 to 64, the crossover of the table"),
        (Tensor([]), "a tensor of 0 bytes; legal: 2 to 64"),
        (Tensor([0], "int32"), "a tensor of int32; legal: bfloat16, float16, float32"),
        (
            Tensor([0], contiguous=False),
            r"a tensor of shape \(1,\) with gaps or in another order; legal: a contiguous one",
        ),
    ):
        with pytest.raises(
            RuntimeError, match=f"rank 0 of 2: {words}.*Ask should_custom_ar first; NCCL takes what this refuses"
        ):
            found[0].custom_all_reduce(tensor)
    found[0].close()
    with pytest.raises(RuntimeError, match="off, because it was closed"):
        found[0].custom_all_reduce(Tensor([0]))


@pytest.mark.parametrize("abort", ["1", "0"])
def test_a_time_out_ends_the_process_rather_than_serving_wrong_sums(start, monkeypatch, caplog, abort):
    signals = []
    monkeypatch.setattr(communicator, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(communicator.os, "kill", lambda _pid, number: signals.append(number))
    _ranks, libraries, _found = start(environment={"PCIE_ALLREDUCE_ABORT": abort})
    libraries[1].late_peer = 0
    deadline = time.monotonic() + 10
    while "did not answer" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "rank 1 of 2: rank 0 did not answer in call 77" in caplog.text
    time.sleep(0.05)
    assert signals == ([signal.SIGABRT] if abort == "1" else [])


def test_close_twice_and_by_dropping(start):
    _ranks, libraries, found = start()
    found[0].close()
    found[0].close()
    assert libraries[0].calls.count("pcar_destroy") == 2  # the proved workspace and the lasting one


def test_together_hands_out_values_and_the_slowest():
    ranks = Ranks(3)
    together = [Together(lambda mine, rank=rank: ranks.exchange(rank, mine)) for rank in range(3)]
    assert ranks.run(lambda rank: together[rank].step("x", lambda: rank * 2)) == [[0, 2, 4]] * 3
    assert ranks.run(lambda rank: together[rank].slowest("x", lambda: float(rank))) == [2.0] * 3
    kept = ranks.run(lambda rank: together[rank].local("x", lambda: lambda: rank))  # a function cannot be pickled
    assert [function() for function in kept] == [0, 1, 2]

    def fails(rank):
        try:
            together[rank].step("x", lambda: 1 / (rank - 1))
        except Off as off:
            return str(off)

    assert ranks.run(fails) == ["x, rank 1: division by zero"] * 3
