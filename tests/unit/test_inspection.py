# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking never raises and never writes: what cannot be had is said, and hides nothing else."""

from __future__ import annotations

import os
import pathlib
import pwd
import subprocess

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import inspection, managed_block
from ansible_collections.gpu_node.tuning.plugins.module_utils.inspection import Question, inspect
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Service

from .interpreters import make_venv, tree
from .nodes import ENV, HOOK, PlayedInterpreter, PlayedNode
from .rendering import rendered
from .test_tuning_transaction import usual_python

KEYS = {"path", "file", "shadowed", "read_back", "library", "origins", "drift", "problems"}
BLOCK = managed_block.join(HOOK, rendered(ENV), b"")


@pytest.fixture
def node(tmp_path):
    return PlayedNode(tmp_path)


def look(node, declared=ENV, precedence="respect", unit=None, log=None, preset=None):
    interpreter = PlayedInterpreter(node.executable(), Service(preset or {}, None), 5)
    before = tree(node.root)
    answer = inspect(interpreter, Question("system", None, declared, precedence, unit, log and str(log), None))
    assert tree(node.root) == before
    assert set(answer) == KEYS
    return answer


def states(answer):
    return {entry["name"]: entry["state"] for entry in answer["read_back"]["variables"]}


def test_as_declared(node):
    node.put(BLOCK, mode=0o640)
    answer = look(node)
    assert (answer["path"], answer["drift"], answer["library"]) == (str(node.path()), [], None)
    assert answer["file"]["managed"] is True
    assert answer["file"]["variables"] == ENV
    assert answer["file"]["mode"] == "0640"
    assert states(answer) == dict.fromkeys(ENV, "effective")


def test_without_a_declaration_the_block_is_asked_for(node):
    node.put(BLOCK)
    assert states(look(node, declared=None)) == dict.fromkeys(ENV, "effective")
    node.put(HOOK)
    answer = look(node, declared=None)
    assert (answer["read_back"]["variables"], answer["drift"], answer["file"]["managed"]) == ([], [], False)


def test_drift_names_the_variable_both_values_and_the_line(node):
    node.put(BLOCK.replace(b"'LL'", b"'Simple'"))
    answer = look(node)
    (sentence,) = answer["drift"]
    assert sentence.startswith("NCCL_PROTO: declared 'LL', the interpreter has 'Simple': overridden")
    assert answer["file"]["variables"] == {**ENV, "NCCL_PROTO": "Simple"}


def test_an_absent_file_is_drift(node):
    answer = look(node)
    assert answer["file"]["exists"] is False
    assert len(answer["drift"]) == 2
    assert all("shadowed (no sitecustomize is imported" in sentence for sentence in answer["drift"])


def test_a_preset_is_a_remark_or_drift(node):
    node.put(BLOCK)
    answer = look(node, preset={"NCCL_PROTO": "Simple"})
    assert answer["drift"] == []
    assert any(
        "NCCL_PROTO: the environment of the service presets 'Simple'" in problem for problem in answer["problems"]
    )
    assert len(look(node, preset={"NCCL_PROTO": "Simple"}, precedence="force")["drift"]) == 1


def test_code_of_others_is_listed_with_its_line(node):
    node.put(b"import os\nos.environ['NCCL_DEBUG'] = 'WARN'\n" + BLOCK)
    assert look(node)["file"]["foreign_variables"] == [{"name": "NCCL_DEBUG", "value": "WARN", "line": 2}]


def directory(path):
    path.mkdir()


def dangling(path):
    path.symlink_to("nowhere")


def loop(path):
    path.symlink_to(path.name)


def no_python(path):
    path.write_bytes(b"x = = 1\n")


def no_python_in_the_block(path):
    path.write_bytes(managed_block.join(HOOK, b"x = = 1\n", b""))


def unpaired(path):
    path.write_bytes(managed_block.BEGIN + b"\n")


def not_text(path):
    path.write_bytes(b"name = '\xe9'\n")


def huge(path):
    path.touch()
    os.truncate(path, 50 * 1024 * 1024)


def fifo(path):
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage",
    [directory, dangling, loop, no_python, no_python_in_the_block, unpaired, not_text, huge, fifo],
    ids=lambda damage: damage.__name__,
)
@pytest.mark.parametrize("declared", [ENV, None], ids=["declared", "asked"])
def test_damage_is_a_problem_that_names_the_file(node, damage, declared):
    node.path().parent.mkdir()
    damage(node.path())
    answer = look(node, declared)
    assert answer["path"] == str(node.path())
    assert (answer["file"], answer["read_back"], answer["drift"]) == (None, None, None)
    (problem,) = answer["problems"]
    assert problem.startswith(str(node.path()))


def test_an_interpreter_that_is_missing(node):
    pathlib.Path(node.executable()).unlink()
    answer = look(node)
    assert (answer["path"], answer["drift"]) == (None, None)
    assert answer["problems"] == [f"interpreter {node.executable()}: cannot be started: No such file or directory."]


def test_a_real_interpreter_that_hangs_or_ends(tmp_path):
    venv = make_venv(usual_python(), tmp_path / "venv")
    if venv.python.has_system_file:
        pytest.skip("every interpreter of this machine brings a sitecustomize.py of the system")
    question = Question("system", None, ENV, "respect", None, None, None)
    venv.file.write_text("import time\ntime.sleep(60)\n")
    answer = inspect(venv.asked(timeout=1), question)
    assert (answer["path"], answer["drift"]) == (str(venv.file), None)
    assert "gave no answer within 1 s" in answer["problems"][0]
    venv.file.write_text("import os\nos._exit(3)\n")
    answer = inspect(venv.asked(), question)
    assert answer["drift"] is None
    assert "ended (exit status 3) without an answer" in answer["problems"][0]
    assert answer["file"]["sha256"]


def test_an_unknown_user_is_a_problem(node):
    node.put(BLOCK)
    answer = inspect(
        PlayedInterpreter(node.executable(), Service({}, "no-such-user"), 5),
        Question("system", None, ENV, "respect", None, None, None),
    )
    assert answer["drift"] == []
    assert any("service_user 'no-such-user': no such user" in problem for problem in answer["problems"])


# --- origins


def test_where_a_value_comes_from(node):
    node.put(BLOCK + b"os.environ['NCCL_PROTO'] = 'Simple'\n")
    answer = look(node)
    (proto,) = [entry for entry in answer["read_back"]["variables"] if entry["name"] == "NCCL_PROTO"]
    line = BLOCK.count(b"\n") + 1
    assert proto["state"] == "overridden"
    assert f"{node.path()}:{line}" in proto["origin"]
    (found,) = answer["origins"]["variables"]["NCCL_PROTO"]
    assert (found["where"], found["line"], found["value"], found["standing"]) == (
        str(node.path()),
        line,
        "Simple",
        "wins",
    )


SHOWN = "LoadState=loaded\nEnvironment=NCCL_PROTO=Simple\nFragmentPath=\nDropInPaths=\nUser=\nNeedDaemonReload=no\n"


def played_systemctl(monkeypatch, answer):
    def run(command, **options):
        if isinstance(answer, BaseException):
            raise answer
        return subprocess.CompletedProcess(command, *answer)

    monkeypatch.setattr(inspection.subprocess, "run", run)


def test_the_unit_is_an_origin(node, monkeypatch):
    node.put(BLOCK)
    played_systemctl(monkeypatch, (0, SHOWN, ""))
    found = look(node, unit="sglang.service")["origins"]["variables"]["NCCL_PROTO"]
    assert [(entry["value"], entry["reach"]) for entry in found] == [("Simple", "environment of the unit")]


@pytest.mark.parametrize(
    ("value", "precedence", "preset", "drift", "problem"),
    [
        ("Simple", "respect", {}, "the unit sglang.service presets 'Simple'", ""),
        ("LL", "respect", {}, "", ""),
        ("Simple", "force", {}, "declared 'LL', the interpreter has 'Simple'", ""),
        ("Simple", "respect", {"NCCL_PROTO": "Simple"}, "", "the unit sglang.service presets 'Simple'"),
        (
            "Simple",
            "respect",
            {"NCCL_PROTO": "Tree"},
            "the unit sglang.service presets 'Simple'",
            "service_environment says",
        ),
        ("LL", "respect", {"NCCL_PROTO": "Simple"}, "", "service_environment says NCCL_PROTO='Simple'"),
    ],
    ids=[
        "another value",
        "the same value",
        "force",
        "the inventory knows it",
        "it knows another",
        "the inventory is wrong",
    ],
)
def test_the_interpreter_is_asked_with_the_environment_of_the_unit(
    node, monkeypatch, value, precedence, preset, drift, problem
):
    node.put(BLOCK)
    played_systemctl(monkeypatch, (0, f"LoadState=loaded\nUser={os.geteuid()}\nEnvironment=NCCL_PROTO={value}\n", ""))
    answer = look(node, unit="sglang.service", precedence=precedence, preset=preset)
    (proto,) = [variable for variable in answer["read_back"]["variables"] if variable["name"] == "NCCL_PROTO"]
    assert proto["interpreter"] == value
    assert [drift in sentence for sentence in answer["drift"]] == ([True] if drift else [])
    assert any(problem in sentence for sentence in answer["problems"]) is True if problem else answer["problems"] == []


def test_a_unit_that_does_not_name_the_service_directory_is_drift(node, monkeypatch):
    """PYTHONPATH of the inventory is not what systemd starts the engine with."""
    service = node.root / "svc"
    service.mkdir()
    (service / "sitecustomize.py").write_bytes(BLOCK)
    interpreter = PlayedInterpreter(node.executable(), Service({"PYTHONPATH": str(service)}, None), 5)
    question = Question("service", str(service), ENV, "respect", "sglang.service", None, None)
    for environment, drifting in ((f"PYTHONPATH={service}", False), ("NCCL_DEBUG=WARN", True)):
        played_systemctl(monkeypatch, (0, f"LoadState=loaded\nEnvironment={environment}\n", ""))
        answer = inspect(interpreter, question)
        assert bool(answer["drift"]) is drifting
    assert any("the unit does not set it" in problem for problem in answer["problems"])


def test_the_user_of_the_unit_is_the_one_who_is_asked(node, monkeypatch):
    played_systemctl(monkeypatch, (0, "LoadState=loaded\nUser=nobody\n", ""))
    shown = inspection._show("sglang.service")
    asked = inspection._as_the_unit_starts_it(PlayedInterpreter(node.executable(), Service({}, "daemon"), 5), shown)
    assert asked.service == Service({}, "nobody", True)
    assert asked.home == pwd.getpwnam("nobody").pw_dir
    unnamed = inspection._as_the_unit_starts_it(asked, SHOWN)
    assert unnamed.service == Service({"NCCL_PROTO": "Simple"}, "nobody", False)
    assert "HOME" not in unnamed._environment({})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((0, "LoadState=not-found\n", ""), "systemd has not loaded such a unit"),
        ((1, "", "Failed to connect to bus\n"), r"Failed to connect to bus"),
        ((1, "", ""), "no answer"),
        (FileNotFoundError(2, "No such file or directory"), "systemctl cannot be asked"),
        (subprocess.TimeoutExpired("systemctl", 20), "systemctl cannot be asked"),
    ],
)
def test_a_unit_that_cannot_be_asked_hides_neither_drift_nor_the_log(node, monkeypatch, tmp_path, answer, words):
    node.put(BLOCK)
    log = tmp_path / "nccl.log"
    log.write_text("node1:7:7 [0] NCCL INFO NCCL_PROTO set by environment to LL\n")
    played_systemctl(monkeypatch, answer)
    found = look(node, unit="sglang.service", log=log)
    assert found["drift"] == []
    assert found["library"] == {"NCCL_PROTO": ["LL"]}
    (problem,) = found["problems"]
    assert problem.startswith("unit 'sglang.service': ")
    assert words in problem


# --- layer 3


def test_another_word_of_nccl_is_drift(node, tmp_path):
    node.put(BLOCK)
    log = tmp_path / "nccl.log"
    log.write_text(
        "n:7:7 [0] NCCL INFO NCCL_PROTO set by environment to LL\n"
        "n:8:8 [1] NCCL INFO NCCL_PROTO set by environment to Simple\n"
        "n:8:8 [1] NCCL INFO NCCL_DEBUG_X set by environment to 1.\n"
    )
    answer = look(node, log=log)
    assert answer["library"]["NCCL_PROTO"] == ["LL", "Simple"]
    assert answer["drift"] == [f"NCCL_PROTO: declared 'LL', but NCCL says in {log} that it read 'Simple'"]


def test_a_log_that_is_missing_is_a_problem(node, tmp_path):
    node.put(BLOCK)
    answer = look(node, log=tmp_path / "missing.log")
    assert (answer["library"], answer["drift"]) == (None, [])
    assert answer["problems"] == [
        f"nccl_log {tmp_path}/missing.log: cannot be read: No such file or directory. Layer 3 was not read back."
    ]
