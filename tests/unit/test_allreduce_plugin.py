# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What SGLang gets from the plugin. tests/checks/sglang_contract.py looks at the released SGLang; here its parts are stand-ins."""

from __future__ import annotations

import enum
import os
import sys
import threading
import types
from collections.abc import Mapping

import pytest

from .layer_package import Gpu, Library, Ranks, row, table

from pcie_allreduce import communicator, crossover, sglang_plugin  # isort: skip


class Stock:
    def __init__(self, group, device, **more):
        self.made_with = (group, device, more)


def module(monkeypatch, name: str, **content) -> None:
    stand_in = types.ModuleType(name)
    vars(stand_in).update(content)
    monkeypatch.setitem(sys.modules, name, stand_in)


@pytest.fixture
def node(monkeypatch, tmp_path):
    """node(world, **changes of the table): the environment of a node with that table, and torch with groups of that many ranks."""

    def node(world=2, disabled=False, **changes):
        path = tmp_path / "table.json"
        crossover.write(str(path), table(**changes))
        monkeypatch.setenv("PCIE_ALLREDUCE_TABLE", str(path))
        distributed = types.ModuleType("torch.distributed")
        distributed.get_world_size = lambda group: world
        module(monkeypatch, "torch", distributed=distributed)
        monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
        made = types.SimpleNamespace(disabled=disabled)
        monkeypatch.setattr(communicator, "Communicator", lambda group, device: made)
        return made

    return node


def test_the_entry_point_hooks_around_the_dispatch(monkeypatch):
    registered = []

    class HookRegistry:
        @classmethod
        def register(cls, target, hook, hook_type):
            registered.append((target, hook, hook_type))

    kinds = enum.Enum("HookType", {"AROUND": "around"})
    for name in ("sglang", "sglang.srt", "sglang.srt.plugins"):
        module(monkeypatch, name)
    module(monkeypatch, "sglang.srt.plugins.hook_registry", HookRegistry=HookRegistry, HookType=kinds)
    sglang_plugin.register()
    assert registered == [(sglang_plugin.TARGET, sglang_plugin.around_dispatch, kinds.AROUND)]


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((), {"group": "g", "device": "cuda:0"})], ids=["0.5.11", "later"]
)
def test_ours_where_it_is_on(node, args, kwargs):
    made = node()
    seen = []

    def dispatch(*args, **kwargs):
        seen.append((args, kwargs))
        return Stock

    offered = sglang_plugin.around_dispatch(dispatch, *args, **kwargs)
    assert seen == [(args, kwargs)]
    assert isinstance(offered, type)
    assert offered(group="g", device="cuda:0") is made


def test_stock_where_the_ranks_did_not_agree(node):
    node(disabled=True)
    found = sglang_plugin.around_dispatch(lambda: Stock)(group="g", device="cuda:0", max_size=1)
    assert isinstance(found, Stock)
    assert found.made_with == ("g", "cuda:0", {"max_size": 1})


@pytest.mark.parametrize(
    ("world", "device", "words"),
    [
        (1, "cuda:0", "the group has 1 ranks; legal: 2 to 8"),
        (9, "cuda:0", "the group has 9 ranks; legal: 2 to 8"),
        (2, "cpu", "the device is cpu, not an NVIDIA GPU"),
    ],
)
def test_what_is_the_same_on_all_ranks_needs_no_exchange(node, monkeypatch, caplog, world, device, words):
    node(world=world)
    monkeypatch.setattr(
        communicator, "Communicator", lambda **_arguments: pytest.fail("ranks would wait for each other")
    )
    caplog.set_level("INFO", "pcie_allreduce")
    assert isinstance(sglang_plugin.around_dispatch(lambda: Stock)(group="g", device=device), Stock)
    assert f"pcie_allreduce: off, because {words}" in caplog.text


class OwnEnvironment(Mapping):
    """os.environ for ranks that are threads: each has its own."""

    def __init__(self):
        self._common, self._own = dict(os.environ), threading.local()

    def give(self, changes: dict) -> None:
        self._own.whole = self._common | changes

    def _whole(self) -> dict:
        return getattr(self._own, "whole", self._common)

    def __getitem__(self, name):
        return self._whole()[name]

    def __iter__(self):
        return iter(self._whole())

    def __len__(self):
        return len(self._whole())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"PCIE_ALLREDUCE": "0"}, "settings, rank 1: PCIE_ALLREDUCE is not 1"),
        ({"PCIE_ALLREDUCE": "perhaps"}, "settings, rank 1: PCIE_ALLREDUCE='perhaps'; legal: 1 or 0"),
        ({"PCIE_ALLREDUCE_TABLE": "/nowhere.json"}, "table, rank 1: no table /nowhere.json"),
    ],
    ids=["same", "off", "nonsense", "no table"],
)
def test_a_rank_of_another_environment_answers_like_the_others(node, monkeypatch, caplog, changes, words):
    """Each rank says afterwards what stock SGLang would exchange first: an answer that is paired with another one's shows here."""
    ranks, start = Ranks(2), communicator.Communicator
    node(rows=[row(64, 1.0, 9.0)])
    environment = OwnEnvironment()

    def real(group, device):
        return start(gpu=Gpu(ranks, group), library=lambda: Library(ranks, group))

    monkeypatch.setattr(communicator, "Communicator", real)

    def one(rank):
        environment.give({"PCIE_ALLREDUCE": "1"} | (changes if rank == 1 else {}))
        made = sglang_plugin.around_dispatch(lambda: Stock)(group=rank, device="cuda:0")
        return made, ranks.exchange(rank, "the first message of the engine")

    with monkeypatch.context() as only_here:
        only_here.setattr(os, "environ", environment)
        found = ranks.run(one)
    assert [heard for _made, heard in found] == [["the first message of the engine"] * 2] * 2
    kinds = {type(made) for made, _heard in found}
    assert kinds == ({start} if words is None else {Stock})
    for made, _heard in found:
        if words is None:
            made.close()
    said = [record.getMessage() for record in caplog.records if "off, because" in record.getMessage()]
    assert [line.partition("because ")[2].startswith(words or "") for line in said] == [True] * (2 if words else 0)


def test_stock_where_the_start_raises(node, monkeypatch, caplog):
    node()

    def raises(**_arguments):
        raise ConnectionError("gloo is gone")

    monkeypatch.setattr(communicator, "Communicator", raises)
    assert isinstance(sglang_plugin.around_dispatch(lambda: Stock)(group="g", device="cuda:0"), Stock)
    assert "pcie_allreduce: off, because ConnectionError: gloo is gone" in caplog.text


def test_an_error_of_sglang_itself_stays_one(node):
    node()
    with pytest.raises(ZeroDivisionError):
        sglang_plugin.around_dispatch(lambda: 1 / 0)
