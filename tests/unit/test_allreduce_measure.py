# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proof and measurement as far as they go without a GPU: ranks are threads, library and clock are stand-ins."""

from __future__ import annotations

import math
import re

import pytest

from .layer_package import GPU, PROJECT, Gpu, Library, Ranks

from pcie_allreduce import abi, measure, progress, proof, self_test  # isort: skip
from pcie_allreduce.crossover import Launch  # isort: skip
from pcie_allreduce.together import Off, Together  # isort: skip

JOB = {"rows": [3, 1, 3], "hidden": 7168, "dtype": "bfloat16", "transport": "peer"}


@pytest.mark.parametrize(("name", "number"), [("BUFFERS", 3), ("OUTBOXES", 4)])
def test_proof_and_self_test_reach_every_buffer_of_the_kernels(name, number):
    found = re.search(rf"constexpr uint32_t {name} = (\d+);", (PROJECT / "csrc" / "protocol.h").read_text())
    assert int(found[1]) == number
    assert math.gcd(proof.CALLS, number) == 1, (
        "every replay would begin with the same turn, or not all turns would be first"
    )
    assert number <= proof.REPLAYS
    assert 2 * number <= self_test.ROUNDS


class TwoAlgorithms(Library):
    """As the library is: two algorithms are built, and every call is of some length."""

    def pcar_max_bytes(self, _self, algorithm, most) -> None:
        if algorithm > 1:
            raise abi.LibraryError("not built")
        most._obj.value = 1 << 20


def on_ranks(work, world: int = 2, faults: dict | None = None) -> list:
    """What `work(together, gpu, library)` returned on each rank, or the reason for being off."""
    ranks = Ranks(world)

    def one(rank: int):
        gpu = Gpu(ranks, rank)
        try:
            return work(Together(gpu.exchange), gpu, TwoAlgorithms(ranks, rank, (faults or {}).get(rank)))
        except Off as off:
            return str(off)

    return ranks.run(one)


@pytest.fixture
def clock(monkeypatch):
    """Two-shot with 2 blocks of 512 is the fastest; 16 blocks cannot be launched on rank 1; one launch is lucky once; NCCL takes 10 us, then 9."""
    nccl = {}

    def time(ranks, gpu, work, calls, replays):
        if work == "nccl":
            nccl[gpu.rank] = 19.0 - nccl.get(gpu.rank, 9.0)
            return ranks.slowest("timing", lambda: nccl[gpu.rank])
        ranks.local("capture", lambda: 1 / (gpu.rank != 1 or work.blocks != 16))
        lucky = work == Launch("one_shot", 4, 256) and (calls, replays) == measure.SEARCH
        best = work == Launch("two_shot", 2, 512)
        return ranks.slowest("timing", lambda: (1.0 if lucky else 2.0 if best else 3.0) + gpu.rank / 2)

    monkeypatch.setattr(measure, "time_work", time)
    monkeypatch.setattr(measure, "ours", lambda job, gpu, workspace, size, launch: launch)
    monkeypatch.setattr(measure, "_nccl", lambda job, gpu, size: "nccl")
    monkeypatch.setattr(measure, "about", lambda gpu: {"gpu": gpu.name})


def test_tune_finds_the_fastest_of_the_slowest_rank(clock):
    def row(size):
        return {"bytes": size, "algorithm": "two_shot", "blocks": 2, "threads": 512, "us": 2.5, "nccl_us": 9.0}

    answers = on_ranks(lambda *arguments: measure.tune(JOB, *arguments))
    assert answers == [{"rows": [row(14336), row(43008)], "gpu": GPU}] * 2


def test_rank_0_alone_says_how_far_it_is(clock, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0)
    path = tmp_path / "lines"
    on_ranks(lambda *arguments: measure.tune(JOB | {"progress": str(path)}, *arguments))
    lines = path.read_text().splitlines()
    assert [line for line in lines if line.startswith("measure")] == [
        "measures size 1 of 2: 14336 bytes",
        "measured 14336 bytes: 2.5 us (two_shot, 2x512), NCCL 9.0 us",
        "measures size 2 of 2: 43008 bytes",
        "measured 43008 bytes: 2.5 us (two_shot, 2x512), NCCL 9.0 us",
    ]
    tried = sum(len(measure.grids(name, 14336, 2)) for name in ("one_shot", "two_shot"))
    assert lines[2] == f"14336 bytes, launches tried: 1 of {tried}"


@pytest.mark.parametrize("algorithm", measure.ALGORITHMS)
@pytest.mark.parametrize("size", [2, 16, 14336, 43008, 917504, 1 << 26])
@pytest.mark.parametrize("world", range(2, 9))
def test_candidates_neither_idle_nor_overload(algorithm, size, world):
    found = measure.grids(algorithm, size, world)
    assert 1 <= len(found) <= len(measure.BLOCKS) * len(measure.THREADS)
    words = -(-size // 16)
    for blocks, threads in found:
        assert blocks * threads < 2 * words + threads
        assert words <= measure.MOST_WORDS * blocks * threads * world or (blocks, threads) == (128, 512)


def test_a_file_that_nobody_reads_any_more_stops_nothing(tmp_path):
    watched = progress.Progress(str(tmp_path / "gone" / "lines"))
    watched.say("one")
    watched.count("two", 2, 2)


def test_a_count_is_said_at_its_end_and_seldom_before(tmp_path):
    path = tmp_path / "lines"
    watched = progress.Progress(str(path))
    for done in range(1, 101):
        watched.count("proof", done, 100)
    assert path.read_text() == "proof: 100 of 100\n"
    progress.Progress(str(path), rank=1).say("of another rank")
    assert path.read_text() == "proof: 100 of 100\n"


def test_bench_times_one_launch(clock):
    job = JOB | {"algorithm": "one_shot", "blocks": 4, "threads": 256}
    answers = on_ranks(lambda *arguments: measure.bench(job, *arguments))
    assert [(row["bytes"], row["algorithm"], row["us"]) for row in answers[0]["rows"]] == [
        (14336, "one_shot", 3.5),
        (43008, "one_shot", 3.5),
    ]


def test_a_time_out_ends_the_search(monkeypatch, clock):
    def time(ranks, *_arguments):
        raise Off("timing, rank 0: rank 1 did not answer in call 3")

    monkeypatch.setattr(measure, "time_work", time)
    assert (
        on_ranks(lambda *arguments: measure.tune(JOB, *arguments))
        == ["timing, rank 0: rank 1 did not answer in call 3"] * 2
    )


@pytest.mark.parametrize("name", ["pcar_create", "pcar_export", "pcar_import"])
def test_a_workspace_that_cannot_be_opened(name):
    answers = on_ranks(lambda *arguments: measure.tune(JOB, *arguments), faults={1: {name: "fails"}})
    assert answers[0] == answers[1]
    assert f"rank 1: {name}: as the test wants" in answers[0]


def eager(ranks, gpu, library):
    workspace = measure.open_workspace(ranks, gpu, library, "peer", 1024, 10.0)
    return ranks.step("eager", lambda: proof._eager(gpu, workspace, 32, "bfloat16", Launch("one_shot", 1, 256)))


def test_a_wrong_sum_on_one_rank_is_told_to_all_and_leaves_none_waiting():
    assert on_ranks(eager, 3) == [[None, None, None]] * 3
    wrong = on_ranks(eager, 3, {1: {"pcar_all_reduce": "is wrong"}})
    assert wrong == ["eager, rank 1: wrong sums in call 0, 1, 2"] * 3


def test_a_time_out_counts_before_a_wrong_sum():
    faults = {"pcar_all_reduce": "is wrong", "pcar_status": "timed out"}
    assert on_ranks(eager, 2, {0: faults, 1: faults}) == ["eager, rank 0: rank 0 did not answer in call 77"] * 2
