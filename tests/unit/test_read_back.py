# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the interpreter's answers are judged. The interpreter itself is a stand-in here; test_interpreter.py asks real ones."""

from __future__ import annotations

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import managed_block
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Service
from ansible_collections.gpu_node.tuning.plugins.module_utils.read_back import (
    faults,
    read_back,
    remarks,
    same_file,
    values_in_block,
)

PATH = "/x/sitecustomize.py"
CONTENT = managed_block.join(b"import sys\n", b"import os\nos.environ['NCCL_PROTO'] = 'LL'\n", b"")
OURS = f"{PATH}:4"


class Answers:
    """An interpreter with canned answers, None for a variable that it does not have."""

    def __init__(self, value, spawn="same", file=PATH, isolated=None, preset=None):
        self.value, self.file, self.isolated = value, file, isolated
        self.spawn = value if spawn == "same" else spawn
        self.service = Service({} if preset is None else {"NCCL_PROTO": preset}, None)
        self.asked = []

    def read_back(self, names, isolated=False, writes_bytecode=False):
        self.asked.append((isolated, writes_bytecode))
        return {
            "file": self.file,
            "env": self._env(self.isolated if isolated else self.value),
            "spawn": {"file": self.file, "env": self._env(self.spawn)},
        }

    @staticmethod
    def _env(value):
        return {} if value is None else {"NCCL_PROTO": value}


def judged(answers, declared="LL", before_site=None, content=CONTENT, **options):
    resolution = {
        "executable": "/x/python",
        "version": "3.12.1",
        "env": {"NCCL_PROTO": before_site} if before_site else {},
    }
    return read_back(answers, resolution, PATH, content, {"NCCL_PROTO": declared}, **options)


BESIDE = f"code that runs at the start beside the managed block of {PATH}"
PTH = "a .pth file that runs before sitecustomize"
# answers, declared, value before site -> state, origin, is a fault under respect, is a fault under force
VERDICTS = {
    "as declared": (Answers("LL"), "LL", None, "effective", OURS, False, False),
    "preset to the declared value": (Answers("LL", preset="LL"), "LL", None, "effective", "environment", False, False),
    "preset to another": (Answers("Simple", preset="Simple"), "LL", None, "overridden", "environment", False, True),
    "preset to nothing": (Answers("", preset=""), "LL", None, "overridden", "environment", False, True),
    "preset, and forced": (Answers("LL", preset="Simple"), "LL", None, "effective", OURS, False, False),
    "a .pth file set it": (Answers("Simple"), "LL", "Simple", "overridden", PTH, True, True),
    "other code set it": (Answers("Simple"), "LL", None, "overridden", BESIDE, True, True),
    "other code set it in spite of a preset": (
        Answers("Tree", preset="Simple"),
        "LL",
        None,
        "overridden",
        BESIDE,
        True,
        True,
    ),
    "not set": (Answers(None), "LL", None, "absent", f"not set after {PATH} ran", True, True),
    "another file wins": (
        Answers(None, file="/y/sitecustomize.py"),
        "LL",
        None,
        "shadowed",
        f"/y/sitecustomize.py is imported instead of {OURS}",
        True,
        True,
    ),
    "another file wins and sets the same": (
        Answers("LL", file="/y/sitecustomize.py"),
        "LL",
        None,
        "shadowed",
        f"/y/sitecustomize.py is imported instead of {OURS}",
        True,
        True,
    ),
    "no file": (
        Answers(None, file=None),
        "LL",
        None,
        "shadowed",
        f"no sitecustomize is imported, not even {OURS}",
        True,
        True,
    ),
    "looked at, gone": (Answers(None), None, None, "absent", "not set", False, False),
    "looked at, preset": (Answers("LL", preset="LL"), None, None, "overridden", "environment", False, False),
    "looked at, set by code": (
        Answers("LL"),
        None,
        None,
        "overridden",
        f"{PATH}:4",
        False,
        False,
    ),
    "looked at, child differs": (Answers(None, spawn="LL"), None, None, "absent", "not set", False, False),
}


@pytest.mark.parametrize(
    ("answers", "declared", "before_site", "state", "origin", "fault_if_respect", "fault_if_force"),
    VERDICTS.values(),
    ids=VERDICTS,
)
def test_verdict(answers, declared, before_site, state, origin, fault_if_respect, fault_if_force):
    result = judged(answers, declared, before_site)
    (variable,) = result.variables
    assert (variable.state, variable.origin) == (state, origin)
    assert (variable.declared, variable.interpreter, variable.spawn) == (declared, answers.value, answers.spawn)
    assert bool(faults(result, "respect")) is fault_if_respect
    assert bool(faults(result, "force")) is fault_if_force


@pytest.mark.parametrize("precedence", ["respect", "force"])
def test_a_child_that_differs_is_a_fault_that_names_both_values(precedence):
    (fault,) = faults(judged(Answers("LL", spawn=None)), precedence)
    assert fault == "NCCL_PROTO: the interpreter has 'LL', but its spawned child None"


def test_a_fault_names_variable_values_state_and_origin():
    (fault,) = faults(judged(Answers("Simple"), before_site="Simple"), "force")
    assert fault == f"NCCL_PROTO: declared 'LL', the interpreter has 'Simple': overridden ({PTH})"


def test_what_the_environment_presets_is_a_remark():
    (remark,) = remarks(judged(Answers("", preset="")))
    assert "NCCL_PROTO" in remark
    assert "''" in remark
    assert "'LL'" in remark
    assert remarks(judged(Answers("LL", preset="LL"))) == []
    assert remarks(judged(Answers("Simple"))) == []
    assert remarks(judged(Answers("LL", preset="LL"), declared=None)) == []


def test_the_answer_has_every_layer():
    answers = Answers("LL", isolated="Simple")
    assert judged(answers, writes_bytecode=True).as_dict() == {
        "executable": "/x/python",
        "version": "3.12.1",
        "expected": PATH,
        "imported": PATH,
        "variables": [
            {
                "name": "NCCL_PROTO",
                "declared": "LL",
                "file": "LL",
                "interpreter": "LL",
                "spawn": "LL",
                "isolated": "Simple",
                "state": "effective",
                "origin": OURS,
            }
        ],
    }
    assert answers.asked == [(False, True), (True, False)]


def test_variables_come_in_the_order_of_their_names():
    result = read_back(
        Answers("LL"),
        {"executable": "", "version": "", "env": {}},
        PATH,
        None,
        {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring"},
    )
    assert [variable.name for variable in result.variables] == ["NCCL_ALGO", "NCCL_PROTO"]


def test_without_a_block_the_file_has_no_value():
    (variable,) = judged(Answers("LL"), content=b"import os\nos.environ['NCCL_PROTO'] = 'LL'\n").variables
    assert variable.file is None
    assert variable.origin == PATH


def test_values_in_block():
    loop = b"import os\nfor _name, _value in (\n    ('A', '1'),\n    ('B', '2'),\n):\n    os.environ[_name] = _value\n"
    assert values_in_block(managed_block.join(b"# one\n# two\n", loop, b""), PATH) == {"A": ("1", 6), "B": ("2", 7)}
    assert values_in_block(b"import os\nos.environ['A'] = '1'\n", PATH) == {}
    assert values_in_block(None, PATH) == {}


def test_a_broken_block_is_refused_with_the_line_of_the_file():
    with pytest.raises(TuningError, match=f"^{PATH}, line 5: not valid Python"):
        values_in_block(managed_block.join(b"# one\n# two\n", b"x = 1\nx = = 1\n", b""), PATH)


def test_same_file_follows_links(tmp_path):
    target = tmp_path / "etc.py"
    target.write_text("")
    link = tmp_path / "sitecustomize.py"
    link.symlink_to(target)
    assert same_file(str(link), str(target))
    assert not same_file(str(tmp_path / "other.py"), str(target))
    assert not same_file(None, str(target))
