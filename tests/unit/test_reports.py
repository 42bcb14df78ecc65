# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of several nodes as data, tables and metrics."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import re
import stat

import pytest
from ansible.errors import AnsibleFilterError
from ansible.playbook.task import Task
from ansible_collections.gpu_node.tuning.plugins.action import drift_report as drift_report_action
from ansible_collections.gpu_node.tuning.plugins.action import history_report as history_report_action
from ansible_collections.gpu_node.tuning.plugins.module_utils.drift_report import (
    as_json,
    as_metrics,
    as_table,
    drift_report,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_tables import (
    history_json,
    history_table,
    rollback_table,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.text_table import quoted, shown, text_table

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "verify_json.md"
PATH = "/usr/lib/python3.12/sitecustomize.py"
ORIGINS = {"variables": {}, "sitecustomize": [], "remarks": []}


def variable(name="NCCL_PROTO", value="LL", **changes):
    return {
        "name": name,
        "declared": "LL",
        "file": "LL",
        "interpreter": value,
        "spawn": value,
        "isolated": value,
        "state": "effective" if value == "LL" else "overridden",
        "origin": f"{PATH}:4" if value == "LL" else "environment",
        **changes,
    }


def answered(*variables, **changes):
    return {
        "path": PATH,
        "file": {"managed": True},
        "shadowed": [],
        "read_back": {"variables": list(variables), "imported": PATH, "expected": PATH},
        "library": None,
        "origins": ORIGINS,
        "drift": [
            f"{entry['name']}: declared 'LL', the interpreter has {entry['interpreter']!r}"
            for entry in variables
            if entry["interpreter"] != "LL"
        ],
        "problems": [],
        **changes,
    }


SILENT = answered(path=None, file=None, read_back=None, drift=None, problems=["interpreter /x: cannot be started"])


def cells(line):
    return re.split(r" {2,}", line.strip())


# --- verify.json


def test_the_report_has_the_documented_shape():
    results = {"a": answered(variable()), "b": SILENT}
    report = drift_report(results)
    page = PAGE.read_text(encoding="utf-8")
    keys = set(re.findall(r"`nodes\.NAME\.(\w+)", page)) | {"imported"}
    assert set(report["nodes"]["a"]) == set(report["nodes"]["b"]) == keys
    (row,) = re.findall(r"^\| `nodes\.NAME\.variables\[\]` \|(.*)\|$", page, re.MULTILINE)
    assert set(report["nodes"]["a"]["variables"][0]) == set(re.findall(r"`(\w+)`", row))
    assert set(report) == {"schema", "drift", "nodes", "differences"}
    assert report["schema"] == 1
    text = as_json(report)
    assert json.loads(text) == report
    assert text.endswith("}\n")


def test_without_drift():
    results = {"a": answered(variable()), "b": answered(variable())}
    report = drift_report(results)
    assert (report["drift"], report["differences"]) == (False, {})
    assert report["nodes"]["a"]["variables"][0] == {
        "name": "NCCL_PROTO",
        "declared": "LL",
        "file": "LL",
        "interpreter": "LL",
        "spawn": "LL",
        "library": None,
        "state": "effective",
        "origin": f"{PATH}:4",
        "drift": False,
    }
    lines = as_table(drift_report(results))
    assert cells(lines[0]) == ["node", "variable", "declared", "on disk", "effective", "NCCL says", "state", "from"]
    assert cells(lines[2]) == ["a", "NCCL_PROTO", "LL", "LL", "LL", "-", "effective", f"{PATH}:4"]
    assert len(lines) == 4


def test_drift_names_the_variable_and_not_one_that_begins_alike():
    results = {"a": answered(variable(value="Simple"), variable("NCCL_PROTO_X"), variable("NCCL_P"))}
    report = drift_report(results)
    assert report["drift"] is report["nodes"]["a"]["drift"] is True
    assert [entry["drift"] for entry in report["nodes"]["a"]["variables"]] == [True, False, False]
    assert as_table(drift_report(results))[-1] == "a: NCCL_PROTO: declared 'LL', the interpreter has 'Simple'"


def test_a_node_without_an_answer_drifts_and_is_not_counted_as_unset():
    results = {"a": answered(variable()), "b": SILENT}
    report = drift_report(results)
    assert report["drift"] is True
    assert report["nodes"]["b"]["variables"] == []
    assert report["nodes"]["b"]["sentences"] == ["interpreter /x: cannot be started"]
    assert report["differences"] == {}
    lines = as_table(drift_report(results))
    assert cells(lines[3]) == ["b", "-", "-", "-", "-", "-", "not known", "-"]
    assert lines[-1] == "b: interpreter /x: cannot be started"


def test_a_node_where_nothing_is_declared():
    results = {"a": answered()}
    report = drift_report(results)
    assert report["drift"] is False
    assert cells(as_table(drift_report(results))[2]) == ["a", "-", "-", "-", "-", "-", "nothing declared", PATH]


def test_differences_between_the_nodes():
    results = {
        "a": answered(variable(), variable("NCCL_ALGO", "LL")),
        "b": answered(variable(value="Simple"), variable("NCCL_ALGO", "LL")),
        "c": answered(variable(value=None), variable("NCCL_ALGO", "LL")),
        "d": answered(variable(), variable("NCCL_ALGO", "LL")),
    }
    report = drift_report(results)
    assert report["differences"] == {"NCCL_PROTO": {"LL": ["a", "d"], "Simple": ["b"], "": ["c"]}}
    assert (
        as_table(drift_report(results))[-1] == "NCCL_PROTO differs between the nodes: LL on a, d; Simple on b; - on c"
    )


def test_a_variable_that_is_set_to_nothing_is_not_shown_as_unset():
    results = {"a": answered(variable(value=""))}
    assert cells(as_table(drift_report(results))[2])[:5] == ["a", "NCCL_PROTO", "LL", "LL", '""']


def test_what_nccl_says():
    said = {"NCCL_PROTO": ["LL", "Simple"], "NCCL_ALGO": ["Ring"]}
    drift = ["NCCL_PROTO: declared 'LL', but NCCL says in /x.log that it read 'Simple'"]
    results = {"a": answered(variable(), library=said, drift=drift)}
    report = drift_report(results)
    assert report["nodes"]["a"]["variables"][0]["library"] == ["LL", "Simple"]
    assert report["nodes"]["a"]["variables"][0]["drift"] is True
    assert cells(as_table(drift_report(results))[2])[5] == "LL, Simple"


# --- metrics


def test_metrics():
    results = {"a": answered(variable(), variable("NCCL_ALGO", "Tree")), "b": SILENT, "c": answered()}
    assert as_metrics(drift_report(results)).splitlines() == [
        "# HELP gpu_node_tuning_drift 1 when what is in effect on the node is not what the inventory declares.",
        "# TYPE gpu_node_tuning_drift gauge",
        'gpu_node_tuning_drift{node="a",variable=""} 1',
        'gpu_node_tuning_drift{node="a",variable="NCCL_PROTO"} 0',
        'gpu_node_tuning_drift{node="a",variable="NCCL_ALGO"} 1',
        'gpu_node_tuning_drift{node="b",variable=""} 1',
        'gpu_node_tuning_drift{node="c",variable=""} 0',
    ]
    assert as_metrics(drift_report(results)).endswith("\n")


def test_a_node_that_could_not_be_reached_is_in_the_report():
    report = drift_report({"a": answered(variable()), "far": {"unreachable": True, "msg": "Connection refused"}})
    assert report["drift"] is True
    assert report["nodes"]["far"]["drift"] is True
    assert report["nodes"]["far"]["sentences"] == ["Connection refused"]
    assert report["differences"] == {}


def test_labels_are_escaped():
    text = as_metrics(drift_report({'a"\\\nb': answered(variable())}))
    assert text.splitlines()[3] == 'gpu_node_tuning_drift{node="a\\"\\\\\\nb",variable="NCCL_PROTO"} 0'


# --- rollbacks and histories


def activated(**changes):
    return {"changed": True, "generation": 1, "files": [PATH], "stale_processes": [], "read_back": None, **changes}


def test_rollback_table():
    running = [
        {"pid": 7, "started": "2026-01-02T03:04:05Z", "command": "python -c import os\nprint(1)", "unit": None},
        {"pid": 8, "started": "2026-01-02T03:04:06Z", "command": "python -m sglang", "unit": "sglang.service"},
    ]
    lines = rollback_table(
        {"a": activated(stale_processes=running), "b": activated(changed=False, generation=0, files=[])}
    )
    assert cells(lines[0]) == ["node", "generation", "changed", "files", "still running with old values"]
    assert cells(lines[2]) == ["a", "1", "yes", PATH, "7 since 2026-01-02T03:04:05Z: python -c import os print(1)"]
    assert cells(lines[3]) == ["8 (sglang.service) since 2026-01-02T03:04:06Z: python -m sglang"]
    assert cells(lines[4]) == ["b", "0", "no", "-", "none"]
    assert len(lines) == 5


def listed(**changes):
    return {
        "changed": False,
        "current": 1,
        "known_good": 1,
        "generations": [],
        "history": [],
        "problems": [],
        **changes,
    }


def test_history_table():
    history = [
        {"outcome": "found", "generation": 0, "time": "T0", "reason": "the node as it was found", "by": "ops@c"},
        {
            "outcome": "applied",
            "generation": 1,
            "time": "T1",
            "profile": "known_good",
            "profile_status": "known_good",
            "evidence": [{"metric": "tok/s", "value": 91, "unit": "1/s"}],
        },
        {"outcome": "failed", "time": "T2", "reason": "it is\nso"},
        {"outcome": "unreadable", "reason": "line 4 of history.jsonl cannot be read"},
    ]
    lines = history_table({"a": listed(history=history, problems=["x:\ndamaged"]), "b": listed()})
    assert cells(lines[0]) == [
        "node",
        "time",
        "generation",
        "outcome",
        "profile",
        "status",
        "by",
        "evidence and reason",
    ]
    assert [cells(line) for line in lines[2:]] == [
        ["a", "T0", "0", "found", "-", "-", "ops@c", "the node as it was found"],
        ["a", "T1", "1", "applied", "known_good", "known_good", "-", "tok/s 91 1/s"],
        ["a", "T2", "-", "failed", "-", "-", "-", "it is so"],
        ["a", "-", "-", "unreadable", "-", "-", "-", "line 4 of history.jsonl cannot be read"],
        ["a", "-", "-", "damaged", "-", "-", "-", "x: damaged"],
        ["b", "-", "-", "never tuned", "-", "-", "-", "-"],
    ]


def test_history_json():
    text = history_json({"a": listed(invocation={"secret": 1})})
    assert json.loads(text) == {
        "schema": 1,
        "nodes": {"a": {"current": 1, "known_good": 1, "generations": [], "history": [], "problems": []}},
    }
    assert text.endswith("}\n")


# --- cells, filters


def test_text_table_and_cells():
    assert text_table(("a", "bb"), [("ccc", ""), ("", "d")]) == ["a    bb", "===  ==", "ccc", "     d"]
    assert [shown(value) for value in (None, "", 0, False, " a \n b ")] == ["-", "-", "0", "False", "a b"]
    assert [quoted(value) for value in (None, "", "0")] == ["-", '""', "0"]


FILTERS = ["rollback_table"]


def filter_of(name):
    module = importlib.import_module(f"ansible_collections.gpu_node.tuning.plugins.filter.{name}")
    return module.FilterModule().filters()[name]


@pytest.mark.parametrize("name", FILTERS)
def test_filters_refuse_what_is_no_dictionary(name):
    for value in (None, [], "a", 3):
        with pytest.raises(AnsibleFilterError, match=f"^{name}: .*legal: a dictionary, node name to result"):
            filter_of(name)(value)


class FakeConnection:
    """The action reaches no node, but its base class looks at the shell of a connection."""

    class _shell:
        tmpdir = "-"


def run_drift_report(monkeypatch, **options):
    """The result of the action, and what it printed."""
    printed = []
    monkeypatch.setattr(drift_report_action.display, "display", printed.append)
    task = Task()
    task.args = options
    action = drift_report_action.ActionModule(task, FakeConnection(), None, None, None, None)
    return action.run(), printed


def test_one_report_goes_to_the_screen_into_the_file_and_to_the_collector(monkeypatch, tmp_path):
    results = {"a": answered(variable(value="Simple")), "b": SILENT, "c": answered(variable())}
    dest = tmp_path / "verify.json"
    dest.write_text("of the last run")
    said, printed = run_drift_report(monkeypatch, results=results, dest=str(dest), textfile_dir=str(tmp_path))
    assert said == {"changed": False, "drift": True, "drifting": ["a", "b"]}
    report = drift_report(results)
    assert printed == ["\n".join(as_table(report))]
    assert dest.read_text() == as_json(report)
    assert (tmp_path / "gpu_node_tuning.prom").read_text() == as_metrics(report)
    assert stat.S_IMODE(dest.stat().st_mode) == 0o644
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu_node_tuning.prom", "verify.json"]
    quiet, _printed = run_drift_report(monkeypatch, results={"c": answered(variable())}, dest=str(dest))
    assert quiet == {"changed": False, "drift": False, "drifting": []}


def test_a_link_is_followed_and_a_device_stays_a_device(monkeypatch, tmp_path):
    real = tmp_path / "real.json"
    (tmp_path / "link.json").symlink_to(real)
    results = {"a": answered(variable())}
    for place in (tmp_path / "link.json", "/dev/null"):
        assert run_drift_report(monkeypatch, results=results, dest=str(place))[0]["drift"] is False
    assert json.loads(real.read_text())["schema"] == 1
    assert (tmp_path / "link.json").is_symlink()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_the_history_goes_to_the_screen_and_into_the_file(monkeypatch, tmp_path):
    results, printed = {"a": listed()}, []
    monkeypatch.setattr(history_report_action.display, "display", printed.append)
    task = Task()
    task.args = {"results": results, "dest": str(tmp_path / "history.json")}
    said = history_report_action.ActionModule(task, FakeConnection(), None, None, None, None).run()
    assert said == {"changed": False}
    assert printed == ["\n".join(history_table(results))]
    assert (tmp_path / "history.json").read_text() == history_json(results)


@pytest.mark.parametrize("place", ["missing/verify.json", "folder", "pipe", "nul\0"])
def test_a_report_that_cannot_be_written_names_the_option_and_the_file(monkeypatch, tmp_path, place):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    said, printed = run_drift_report(monkeypatch, results={"a": answered(variable())}, dest=str(tmp_path / place))
    assert said["failed"] is True
    assert said["msg"].startswith(f"dest: {str(tmp_path / place)!r} cannot be written on the controller")
    assert len(printed) == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "pipe"]
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
