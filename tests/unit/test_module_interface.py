# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options become an interpreter, a plan becomes a diff, a result becomes a table."""

from __future__ import annotations

import math
import pathlib
import re

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import (
    diff_of,
    interpreter_of,
    lock_timeout,
    probe_timeout,
    shadowed_by,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.option_names import option
from ansible_collections.gpu_node.tuning.plugins.module_utils.read_back_table import table
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import FileState

PARAMS = {
    "interpreter": "/opt/venv/bin/python",
    "scope": "system",
    "service_dir": None,
    "service_user": None,
    "service_environment": {},
    "probe_timeout": 20.0,
}


def test_interpreter_of():
    params = {**PARAMS, "service_user": "sglang", "service_environment": {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": 8}}
    interpreter = interpreter_of(params)
    assert (interpreter.executable, interpreter.timeout) == ("/opt/venv/bin/python", 20.0)
    assert interpreter.service == ({"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "8"}, "sglang", True)


def test_the_service_directory_is_on_pythonpath_unless_the_service_says_otherwise():
    params = {**PARAMS, "scope": "service", "service_dir": "/opt/tuning"}
    assert interpreter_of(params).service.environment == {"PYTHONPATH": "/opt/tuning"}
    params["service_environment"] = {"PYTHONPATH": "/a:/opt/tuning"}
    assert interpreter_of(params).service.environment == {"PYTHONPATH": "/a:/opt/tuning"}
    assert "PYTHONPATH" not in interpreter_of({**PARAMS, "service_dir": "/opt/tuning"}).service.environment


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"interpreter": "python3"}, "interpreter 'python3': legal: an absolute path"),
        ({"scope": "service"}, "service_dir None: legal: an absolute path"),
        ({"service_dir": "/opt:/x"}, "service_dir '/opt:/x': legal: .* without ':'"),
        ({"service_dir": "tuning"}, "service_dir 'tuning': legal: an absolute path"),
        ({"service_environment": {"A": True}}, "service_environment: A=True is bool; legal: text"),
        ({"service_environment": {"A": 1.5}}, r"service_environment: A=1\.5 is float"),
        ({"service_environment": {"A": None}}, "service_environment: A=None is NoneType"),
        ({"service_environment": {"A": ["x"]}}, "is list"),
        ({"service_environment": {"A": "x\0y"}}, "no NUL character|neither with a NUL"),
        ({"service_environment": {"A\0": "x"}}, "no NUL character|neither with a NUL"),
        ({"service_environment": {"A=B": "x"}}, "legal: a name without '='"),
        ({"service_environment": {"": "x"}}, "legal: a name without '='"),
    ],
)
def test_interpreter_of_refuses(change, message):
    with pytest.raises(TuningError, match=message):
        interpreter_of({**PARAMS, **change})


@pytest.mark.parametrize(
    ("ask", "value", "legal"),
    [(lock_timeout, -1.0, "from 0 to 86400"), (probe_timeout, 0.0, r"from 0\.1 to"), (probe_timeout, math.nan, "from")],
)
def test_a_time_limit_that_is_none_is_refused(ask, value, legal):
    name = ask.__name__
    with pytest.raises(TuningError, match=rf"^{name}: .*; legal: a number {legal}"):
        ask({name: value})
    assert ask({name: 20.0}) == 20.0


def test_an_option_is_named_as_the_module_and_as_the_role_have_it():
    assert option("state_dir") == "state_dir (role variable nccl_env_state_dir)"
    assert option("takeover", "replace") == "takeover: replace (role variable nccl_env_takeover)"
    root = pathlib.Path(__file__).resolve().parents[2]
    sources = "".join(
        path.read_text(encoding="utf-8") for path in sorted((root / "plugins" / "module_utils").glob("*.py"))
    )
    named = set(re.findall(r"""option\(['"](\w+)['"]""", sources))
    specs = (root / "roles" / "nccl_env" / "meta" / "argument_specs.yml").read_text(encoding="utf-8")
    assert {"state_dir", "precedence", "interpreter"} <= named
    assert [name for name in sorted(named) if f" nccl_env_{name}:" not in specs] == []


def test_shadowed_by(tmp_path):
    real, link, other = tmp_path / "real.py", tmp_path / "sitecustomize.py", tmp_path / "b" / "sitecustomize.py"
    real.touch()
    link.symlink_to(real)
    candidates = [str(link), str(other), str(tmp_path / "c" / "sitecustomize")]
    assert shadowed_by(str(link), {"candidates": candidates}) == [str(other)]
    assert shadowed_by(str(real), {"candidates": candidates}) == [str(other)]


def test_diff_of_has_the_file_and_one_line_for_each_variable():
    state = FileState("/x/s.py", "/etc/s.py", None, b"old \xe9\n", 0o644, 0, 0)
    file, variables = diff_of(
        state, b"new\n", {"NCCL_PROTO": "Simple", "NCCL_DEBUG": None}, {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring"}
    )
    assert file == {"before_header": "/x/s.py", "before": "old \\xe9\n", "after_header": "/x/s.py", "after": "new\n"}
    assert variables["prepared"].splitlines() == [
        "NCCL_ALGO: (not set) -> Ring",
        "NCCL_DEBUG: (not set) -> (not set)",
        "NCCL_PROTO: Simple -> LL",
    ]


def test_diff_of_absence():
    state = FileState("/x/s.py", "/x/s.py", None, None, None, None, None)
    file, variables = diff_of(state, b"new\n", {}, {"NCCL_PROTO": "LL"})
    assert (file["before"], file["after"]) == ("", "new\n")
    assert variables["prepared"] == "NCCL_PROTO: (not set) -> LL\n"
    file, variables = diff_of(state._replace(content=b"new\n"), None, {"NCCL_PROTO": "LL"}, {})
    assert (file["before"], file["after"]) == ("new\n", "")
    assert variables["prepared"] == "NCCL_PROTO: LL -> (not set)\n"


def variable(**changes):
    return {
        "name": "NCCL_PROTO",
        "declared": "LL",
        "interpreter": "LL",
        "state": "effective",
        "origin": "/x/s.py:4",
        **changes,
    }


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_table():
    lines = table(
        {
            "node-a": {
                "read_back": {
                    "variables": [
                        variable(),
                        variable(name="NCCL_ALGO", declared="Ring", interpreter=None, state="absent"),
                    ]
                }
            },
            "b": {"read_back": {"variables": [variable(interpreter="", state="overridden", origin="environment")]}},
            "checked": {"changed": True, "path": "/x/s.py"},
            "odd": {},
            "none": {"read_back": {"variables": []}, "path": "/x/s.py"},
        }
    )
    assert cells(lines[0]) == ["node", "variable", "declared", "effective", "state", "from"]
    assert len(lines[1].replace(" ", "").strip("=-")) == 0
    assert cells(lines[2]) == ["node-a", "NCCL_PROTO", "LL", "LL", "effective", "/x/s.py:4"]
    assert cells(lines[3]) == ["node-a", "NCCL_ALGO", "Ring", "-", "absent", "/x/s.py:4"]
    assert cells(lines[4]) == ["b", "NCCL_PROTO", "LL", '""', "overridden", "environment"]
    assert cells(lines[5]) == ["checked", "-", "-", "-", "check mode: would change", "/x/s.py"]
    assert cells(lines[6]) == ["odd", "-", "-", "-", "not read back", "-"]
    assert cells(lines[7]) == ["none", "-", "-", "-", "nothing declared", "/x/s.py"]
    assert len(lines) == 8
    column = lines[0].index("state")
    assert all(line[column - 2 : column] == "  " for line in lines)
    assert not [line for line in lines if line != line.rstrip()]


def test_an_empty_table_has_its_head():
    assert len(table({})) == 2
