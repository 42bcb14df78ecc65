# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison with SGLang's own kernel as far as it goes without a GPU: ranks are threads, FlashInfer and the clock are stand-ins."""

from __future__ import annotations

import json
import sys
import types

import pytest

from .layer_package import Gpu, Library, Ranks, table

from pcie_allreduce import __main__ as command_line, measure, rival  # isort: skip
from pcie_allreduce.together import Off, Together  # isort: skip


class Sized(Library):
    def pcar_max_bytes(self, _self, _algorithm, most) -> None:
        most._obj.value = 1 << 20


class PlayedIpc(rival.PcieIpc):
    """A workspace of at most 64 blocks."""

    def __init__(self, group, world, most):
        self._world, self._workspace = world, types.SimpleNamespace(max_blocks=64)

    def call(self, tensor, launch):
        return lambda: launch


BEST = rival.Launch("STAGED", 8, 256)


@pytest.fixture
def clock(monkeypatch):
    def time(ranks, gpu, work, calls, replays):
        launch = work.call()
        mine = 2.0 if launch is None else 1.9 if launch == BEST else 3.0
        return ranks.slowest("timing", lambda: mine + gpu.rank / 10)

    monkeypatch.setattr(measure, "time_work", time)
    monkeypatch.setattr(measure, "ours", lambda *_arguments: measure.Work(lambda: None, lambda: None))
    monkeypatch.setattr(measure, "about", lambda gpu: {})
    monkeypatch.setattr(rival, "PcieIpc", PlayedIpc)


def on_ranks(job: dict, world: int = 2) -> list:
    ranks = Ranks(world)

    def one(rank: int):
        gpu = Gpu(ranks, rank)
        gpu.group = None
        try:
            return rival.compare(job, Together(gpu.exchange), gpu, Sized(ranks, rank))
        except Off as off:
            return str(off)

    return ranks.run(one)


def test_only_the_sizes_that_count_are_compared_with_the_fastest_launch(clock):
    answers = on_ranks({"table": table(), "sizes": [43008]})
    row = {"bytes": 43008, "us": 2.1, "pcie_ipc_us": 2.0, "pcie_ipc": list(BEST)}
    assert answers == [{"rows": [row]}] * 2


def test_what_cannot_be_compared_says_why_on_every_rank(clock, monkeypatch):
    assert on_ranks({"table": table(), "sizes": [43008]}, 3) == ["pcie_ipc is for 2, 4, 8 ranks, not for 3"] * 3
    assert on_ranks({"table": table(), "sizes": [1]}) == ["the table has none of the sizes that count"] * 2

    def broken(*_arguments):
        raise ValueError("no compiler")

    monkeypatch.setattr(rival, "PcieIpc", broken)
    assert on_ranks({"table": table(), "sizes": [43008]}) == ["pcie_ipc, rank 0: no compiler"] * 2


@pytest.mark.parametrize("world", rival.WORLDS)
@pytest.mark.parametrize("count", [8, 7168, 21504, 458752])
def test_candidates_are_such_that_its_kernels_take(world, count):
    for launch in PlayedIpc(None, world, count).launches(count):
        assert launch.blocks <= 64
        assert launch.blocks % 4 == 0
        assert launch.variant in rival.VARIANTS[world]


def test_without_flashinfer_nothing_is_started(tmp_path, monkeypatch, capsys):
    path = tmp_path / "table.json"
    path.write_text(json.dumps(table(hidden=7168, required_rows=[1])))
    assert not rival.is_there()
    assert command_line.main(["compare", "--table", str(path), "--json"]) == 2
    assert "has no FlashInfer with pcie_ipc (0.7 or newer)" in json.loads(capsys.readouterr().out)["error"]
    older = tmp_path / "flashinfer" / "comm"
    older.mkdir(parents=True)
    (older.parent / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not rival.is_there()
    (older / "pcie_ipc_ar.py").write_text("")
    assert rival.is_there()
    assert "flashinfer" not in sys.modules
    path.write_text(json.dumps(table()))
    assert command_line.main(["compare", "--table", str(path), "--json"]) == 2
    assert "does not say what it was measured for" in json.loads(capsys.readouterr().out)["error"]
