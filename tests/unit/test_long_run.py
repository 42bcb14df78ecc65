# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work beside a module: its lines and its result arrive, and nothing is left of it however it or the controller ends."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import time
import types

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import bounded_command, long_run
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError


@pytest.fixture(autouse=True)
def _own_scratch(tmp_path, monkeypatch):
    monkeypatch.setattr(long_run.tempfile, "tempdir", str(tmp_path))


class Failed(Exception):
    pass


class Module:
    """As much of AnsibleModule as is asked for."""

    def __init__(self, **params):
        self.params = {"progress": True, "run": None, "seen": 0} | params

    def fail_json(self, **result):
        raise Failed(result)


def everything(folder: str) -> long_run.News:
    """All lines, and the result."""
    lines, seen = [], 0
    while True:
        said, seen, result = long_run.news(folder, seen)
        lines += said
        if result is not None:
            return long_run.News(lines, seen, result)


def soon(condition) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def steps(path: str) -> dict:
    say = long_run.say_into(path)
    for number in range(3):
        say(f"step {number}")
        time.sleep(0.1)
    return {"changed": True}


def test_lines_and_result_arrive_and_the_folder_goes(tmp_path):
    folder = long_run.start(steps, True)
    first = long_run.news(folder, 0)
    assert (first.lines[0], first.result) == ("step 0", None)
    rest = everything(folder)
    assert (rest.lines, rest.result) == (["step 0", "step 1", "step 2"], {"value": {"changed": True}})
    assert soon(lambda: list(tmp_path.iterdir()) == [])


def test_a_whole_conversation_of_action_and_module():
    shown = []

    def ask(options: dict) -> dict:
        module = Module(**options)
        if module.params["run"]:
            return long_run.answer(module, module.params["run"], module.params["seen"])
        return long_run.carry_out(module, steps, True)

    assert long_run.follow(ask, shown.extend) == {"changed": True}
    assert shown == ["step 0", "step 1", "step 2"]


def test_nobody_asks_for_a_playbook_that_is_gone(monkeypatch):
    parents = [100, 100, 1]
    monkeypatch.setattr(long_run.os, "getppid", lambda: parents.pop(0))
    asked = []

    def ask(options: dict) -> dict:
        asked.append(options)
        return {"said": [], "running": {"run": "x", "seen": 0}}

    assert long_run.follow(ask, lambda lines: None)["failed"]
    assert asked == [{"progress": True}, {"run": "x", "seen": 0}]


def test_what_does_not_run_beside_is_shown_nothing_of():
    shown = []
    assert long_run.follow(lambda options: {"failed": True, "msg": "no"}, shown.extend) == {"failed": True, "msg": "no"}
    assert long_run.carry_out(Module(progress=False), steps, True) == {"changed": True}
    assert shown == []


@pytest.mark.parametrize(
    ("error", "words"), [(TuningError("nvcc: absent"), "nvcc: absent"), (KeyError("sm"), "KeyError: 'sm'")]
)
def test_work_that_fails_fails_the_module(error, words):
    def work(path: str) -> dict:
        long_run.say_into(path)("began")
        raise error

    module, folder = Module(), long_run.start(work, True)
    assert soon(lambda: os.path.exists(os.path.join(folder, long_run.RESULT)))
    with pytest.raises(Failed) as failed:
        long_run.answer(module, folder, 0)
    assert failed.value.args[0] == {"msg": words, "said": ["began"]}


def test_work_that_is_killed_is_no_endless_wait(tmp_path):
    folder = long_run.start(lambda path: time.sleep(60) or {}, True)
    os.kill(int(pathlib.Path(folder, long_run.PROCESS).read_text()), signal.SIGKILL)
    assert "ended without a word" in everything(folder).result["error"]
    assert list(tmp_path.iterdir()) == []


def test_work_of_a_controller_that_is_gone_ends_with_all_that_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr(long_run, "LEASE", 0.5)
    note = tmp_path / "pid"

    def work(path: str) -> dict:
        bounded_command.run(["sh", "-c", f"echo $$ > {note}; sleep 60"], 60, {})
        return {}

    folder = long_run.start(work, True)
    assert soon(lambda: note.exists() and note.read_text().strip())
    assert soon(lambda: not os.path.exists(folder))
    assert soon(lambda: not os.path.exists(f"/proc/{note.read_text().strip()}"))


def test_work_that_must_not_be_stopped_comes_to_its_end_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(long_run, "LEASE", 0.5)
    note = tmp_path / "done"

    def work(path: str) -> dict:
        time.sleep(2)
        note.write_text("x")
        return {}

    folder = long_run.start(work, False)
    assert soon(note.exists)
    assert soon(lambda: not os.path.exists(folder))


def test_a_pipe_of_the_module_is_not_held(tmp_path):
    """ssh ends when nobody holds the module's output any more."""
    code = (
        "import sys, time; sys.path.insert(0, 'tests/unit'); import conftest\n"
        "from ansible_collections.gpu_node.tuning.plugins.module_utils import long_run\n"
        "long_run.LEASE = 3\n"
        "print(long_run.start(lambda path: time.sleep(5) or {}, False))\n"
    )
    started = time.monotonic()
    root = pathlib.Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [os.sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert time.monotonic() - started < 4
    os.kill(int(pathlib.Path(done.stdout.strip(), long_run.PROCESS).read_text()), signal.SIGKILL)


@pytest.mark.parametrize("kind", ["absent", "another name", "a link", "open to others"])
def test_a_folder_that_no_run_made_is_refused(tmp_path, kind):
    real = tmp_path / "gpu_node_tuning-run-x"
    real.mkdir(mode=0o700)
    asked = {"absent": tmp_path / "gpu_node_tuning-run-y", "another name": tmp_path / "other"}.get(kind, real)
    if kind == "another name":
        asked.mkdir(mode=0o700)
    elif kind == "a link":
        asked = tmp_path / "gpu_node_tuning-run-link"
        asked.symlink_to(real)
    elif kind == "open to others":
        real.chmod(0o770)
    with pytest.raises(TuningError, match="no such run on this node; legal: "):
        long_run.news(str(asked), 0)
    assert real.exists()


def test_an_interrupted_command_ends_with_its_children(tmp_path, monkeypatch):
    note = tmp_path / "pid"

    class Interrupted(BaseException):
        pass

    def communicate(process, timeout):
        assert soon(lambda: note.exists() and note.read_text().strip())
        raise Interrupted

    monkeypatch.setattr(bounded_command.subprocess.Popen, "communicate", communicate)
    with pytest.raises(Interrupted):
        bounded_command.run(["sh", "-c", f"sleep 60 & echo $! > {note}; wait"], 60, {})
    pid = note.read_text().strip()
    dead = types.SimpleNamespace(states=("Z", ""))
    assert soon(lambda: _state(pid) in dead.states)


def _state(pid: str) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
