# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What SGLang gets from the plugin. tests/checks/sglang_contract.py looks at the released SGLang; here its parts are stand-ins."""

from __future__ import annotations

import enum
import sys
import types

import pytest

from .layer_package import table

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


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((), {"group": "g", "device": "d"})], ids=["0.5.11", "later"])
def test_ours_where_it_is_on(node, args, kwargs):
    made = node()
    seen = []

    def dispatch(*args, **kwargs):
        seen.append((args, kwargs))
        return Stock

    offered = sglang_plugin.around_dispatch(dispatch, *args, **kwargs)
    assert seen == [(args, kwargs)]
    assert isinstance(offered, type)
    assert offered(group="g", device="d") is made


def test_stock_where_the_ranks_did_not_agree(node):
    node(disabled=True)
    found = sglang_plugin.around_dispatch(lambda: Stock)(group="g", device="d", max_size=1)
    assert isinstance(found, Stock)
    assert found.made_with == ("g", "d", {"max_size": 1})


def test_a_group_of_another_size_exchanges_nothing(node, monkeypatch):
    node(world=4)
    monkeypatch.setattr(
        communicator, "Communicator", lambda **_arguments: pytest.fail("ranks would wait for each other")
    )
    assert isinstance(sglang_plugin.around_dispatch(lambda: Stock)(group="g", device="d"), Stock)


@pytest.mark.parametrize(
    ("changes", "environment", "words"),
    [
        ({"enabled": False, "reason": "lost by 3 %"}, {}, "it is not enabled on this node: lost by 3 %"),
        ({}, {"PCIE_ALLREDUCE": "off"}, "PCIE_ALLREDUCE is off"),
        ({}, {"PCIE_ALLREDUCE": "perhaps"}, "PCIE_ALLREDUCE='perhaps'; legal: 1 or 0"),
        ({}, {"PCIE_ALLREDUCE_TABLE": "/nowhere.json"}, "no table /nowhere.json"),
    ],
)
def test_the_original_class_where_it_does_not_apply(node, monkeypatch, caplog, changes, environment, words):
    node(**changes)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    caplog.set_level("INFO", "pcie_allreduce")
    assert sglang_plugin.around_dispatch(lambda: Stock) is Stock
    assert f"pcie_allreduce: off, because {words}" in caplog.text


def test_stock_where_the_start_raises(node, monkeypatch, caplog):
    node()

    def raises(**_arguments):
        raise ConnectionError("gloo is gone")

    monkeypatch.setattr(communicator, "Communicator", raises)
    assert isinstance(sglang_plugin.around_dispatch(lambda: Stock)(group="g", device="d"), Stock)
    assert "pcie_allreduce: off, because ConnectionError: gloo is gone" in caplog.text


def test_an_error_of_sglang_itself_stays_one(node):
    node()
    with pytest.raises(ZeroDivisionError):
        sglang_plugin.around_dispatch(lambda: 1 / 0)
