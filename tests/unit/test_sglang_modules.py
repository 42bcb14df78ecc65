# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outer edge of sglang_diagnose and sglang_ready: options, check mode, secrets, and the rounds of the controller."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpu_node.tuning.plugins.action.sglang_ready import ActionModule
from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_progress, sglang_unit
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_phase import Phase
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_ready import Look
from ansible_collections.gpu_node.tuning.plugins.modules import sglang_diagnose, sglang_ready

LOGS = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "sglang_logs"
UNIT = sglang_unit.Unit(
    "sglang@kimi.service", "active", "running", "success", 0, None, 4711, "/x", "aa", "Mon 2026-11-30 10:00:00 UTC"
)


@pytest.fixture
def run(capsys):
    """Function that runs a module with options: its answer."""

    def run(module, **options):
        with patch_module_args(options), pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out)

    return run


# --- sglang_diagnose --------------------------------------------------------------------------------------


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_saved_log(run, check_mode):
    answer = run(
        sglang_diagnose, path=str(LOGS / "corrupt_weights.txt"), exit_status=137, _ansible_check_mode=check_mode
    )
    assert [finding["name"] for finding in answer["findings"]] == ["weights_corrupt", "child_failed"]
    assert set(answer["findings"][0]) == {"name", "cause", "lines", "advice", "setting", "kind"}
    assert answer["lines"][0].startswith("1. A file of the weights is cut off or damaged")
    assert (answer["phase"]["name"], answer["truncated"], answer["exit_status"], answer["changed"]) == (
        "failed",
        False,
        137,
        False,
    )


def test_no_secret_of_a_log_is_returned(run, tmp_path):
    """Also not where a line that shows the cause has the key in it."""
    log = (LOGS / "secrets.txt").read_text(
        encoding="utf-8"
    ) + "\nValueError: Model architectures ['sk-first-secret'] are not supported\n"
    (tmp_path / "log").write_text(log, encoding="utf-8")
    answer = json.dumps(run(sglang_diagnose, path=str(tmp_path / "log")))
    assert "unsupported_model" in answer
    assert "sk-first" not in answer
    assert "second" not in answer


def test_a_healthy_log(run):
    answer = run(sglang_diagnose, path=str(LOGS / "healthy.txt"))
    assert answer["findings"] == []
    assert answer["lines"] == ["No cause of a failed start was found in the log."]


def test_a_large_log_says_that_it_was_cut(run, tmp_path, monkeypatch):
    monkeypatch.setattr(sglang_diagnose.sglang_log.read_log, "__defaults__", (1000,))
    (tmp_path / "log").write_bytes(b"x" * 5000 + b"\nOddError: why\n")
    answer = run(sglang_diagnose, path=str(tmp_path / "log"), exit_status=1)
    assert (answer["truncated"], answer["findings"][0]["name"]) == (True, "unrecognised")
    assert "Only the end of the log was read" in answer["lines"][-1]


def test_the_journal_of_a_unit(run, monkeypatch):
    failed = UNIT._replace(active="failed", sub="failed", result="signal", exit_status=137)
    monkeypatch.setattr(sglang_unit, "unit_of", lambda name: failed)
    monkeypatch.setattr(
        sglang_unit,
        "journal",
        lambda unit, since: ("torch.AcceleratorError: CUDA error: unspecified launch failure\n", since == "today"),
    )
    monkeypatch.setattr(
        sglang_unit, "kernel_words", lambda unit: "NVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus.\n"
    )
    answer = run(sglang_diagnose, unit="sglang@kimi", since="today")
    assert answer["findings"][0]["cause"] == "A GPU or a kernel failed (Xid 79 on PCI:0000:81:00)."
    assert (answer["exit_status"], answer["truncated"], answer["unit_state"]) == (137, True, failed.words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"path": "/nonexistent/log"},
            "path /nonexistent/log: cannot be read: No such file or directory. Legal: a plain file",
        ),
        ({"path": "/"}, "path /: cannot be read: a directory, not a plain file"),
        ({"path": "/x", "since": "today"}, "since: 'today' goes with unit"),
        ({"unit": "-x"}, "unit: '-x'; legal: the name of a service"),
        ({}, "one of the following is required: path, unit"),
        ({"path": "/x", "unit": "y"}, "mutually exclusive: path|unit"),
        ({"path": "/x", "causes": [{"name": "y"}]}, "causes[0]: lacks patterns"),
    ],
)
def test_a_bad_option_of_diagnose(run, options, words):
    answer = run(sglang_diagnose, **options)
    assert answer["failed"]
    assert words in answer["msg"]


# --- sglang_ready, on the node ----------------------------------------------------------------------------


@pytest.fixture
def seen(monkeypatch):
    """Function that says what a round sees; returns what the module asked."""
    asked = []

    def sees(look):
        monkeypatch.setattr(sglang_ready.sglang_ready, "one_round", lambda *arguments: asked.append(arguments) or look)
        monkeypatch.setattr(sglang_ready.sglang_ready, "gpu_memory", list)
        monkeypatch.setattr(sglang_ready.sglang_ready, "diagnosis", lambda *_arguments: [])
        return asked

    return sees


LOADING = Phase("weights", 3, 64, "weights 3/64")


def test_check_mode_asks_nobody(run, seen):
    asked = seen(None)
    answer = run(sglang_ready, unit="sglang@kimi", _ansible_check_mode=True)
    assert (answer["ready"], answer["changed"], asked) == (None, False, [])
    assert answer["msg"] == "In check mode the server is not asked."


def test_a_round_that_is_not_the_last(run, seen):
    seen(Look(UNIT, LOADING, "refused", False, "", []))
    answer = run(sglang_ready, unit="sglang@kimi", port=31100)
    assert (answer["ready"], answer["over"], answer["health"]) == (False, "", "refused")
    assert answer["phase"] == {"name": "weights", "done": 3, "total": 64, "sentence": "weights 3/64"}
    assert answer["followed"] == {"invocation": "aa", "restarts": 0, "phase": "weights: weights 3/64"}
    assert answer["unit_state"]["main_pid"] == 4711
    assert "failed" not in answer


def test_what_earlier_rounds_saw_is_kept(run, seen):
    asked = seen(Look(UNIT._replace(invocation="bb", restarts=2), LOADING, "", False, "ended", []))
    answer = run(
        sglang_ready, unit="sglang@kimi", followed={"invocation": "aa", "restarts": 1, "phase": "x", "last": False}
    )
    assert asked[0][2] == ("aa", 1, "x")
    assert (answer["followed"]["invocation"], answer["followed"]["restarts"]) == ("aa", 1)


def test_a_proof_that_fails(run, seen, monkeypatch):
    seen(Look(UNIT, LOADING._replace(name="ready"), "status 200", True, "", []))

    def fail(*_arguments):
        raise sglang_ready.NotProved("speculation is off")

    monkeypatch.setattr(sglang_ready.sglang_ready, "prove", fail)
    answer = run(sglang_ready, unit="sglang@kimi", port=31100, speculative=True)
    assert (answer["ready"], answer["over"]) == (False, "http://127.0.0.1:31100 answers, but speculation is off")


def test_the_key_is_not_in_the_answer(run, seen):
    seen(Look(UNIT, LOADING, "no sk-secret-key here", False, "", []))
    assert "sk-secret-key" not in json.dumps(run(sglang_ready, unit="sglang@kimi", api_key="sk-secret-key"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": 0}, "port: 0; legal: a number from 1 to 65535."),
        ({"timeout": 0}, "timeout: 0.0; legal: a number from 1 to 86400."),
        ({"timeout": "nan"}, "timeout: nan; legal: a number from 1 to 86400."),
        ({"interval": 61}, "interval: 61.0; legal: a number from 0.5 to 60."),
        ({"host": "http://x"}, "host: 'http://x'; legal: an address or a name"),
        ({"unit": "a b"}, "unit: 'a b'; legal: the name of a service"),
        ({"api_key": "a\nb"}, "api_key: has a character that no header can carry"),
        ({"causes": [{"name": "y"}]}, "causes[0]: lacks patterns"),
    ],
)
@pytest.mark.parametrize("check_mode", [False, True])
def test_a_bad_option_of_ready(run, seen, options, words, check_mode):
    asked = seen(None)
    answer = run(sglang_ready, _ansible_check_mode=check_mode, **options)
    assert answer["failed"]
    assert words in answer["msg"]
    assert asked == []


# --- sglang_ready, on the controller ----------------------------------------------------------------------


class Clock:
    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


class Action(ActionModule):
    """The action without Ansible around it: rounds are taken from a list, each takes ``seconds``."""

    def __init__(self, rounds, clock, seconds=10.0, **arguments):
        self._rounds, self._clock, self._seconds = list(rounds), clock, seconds
        self._task = type("Task", (), {"args": arguments})()
        self.said, self.asked = [], []
        self._display = type("Display", (), {"display": lambda _self, text: self.said.append(text)})()

    def _execute_module(self, module_name, module_args, task_vars):
        self.asked.append(module_args)
        self._clock.time += self._seconds
        return dict(self._rounds.pop(0) if len(self._rounds) > 1 else self._rounds[0])


@pytest.fixture
def act(monkeypatch):
    """Function that runs the action over rounds: (result, action)."""
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda *_arguments, **_options: {})

    def act(*rounds, **arguments):
        action = Action(rounds, clock, **arguments)
        return action.run(task_vars={"inventory_hostname": "node1"}), action

    return act


def answer(name, sentence, **more):
    return {
        "ready": False,
        "over": "",
        "health": "refused",
        "phase": {"name": name, "done": None, "total": None, "sentence": sentence},
        "gpu_memory": [{"used_mib": 1024, "total_mib": 98304}, {"used_mib": 2048, "total_mib": 98304}],
        "followed": {"invocation": "aa", "restarts": 0, "phase": sentence},
        "diagnosis": [],
        "remarks": [],
        "unit_state": {"active": "active"},
        **more,
    }


def test_a_line_for_each_phase(act):
    result, action = act(
        answer("weights", "weights 1/64"),
        answer("weights", "weights 2/64"),
        answer("ready", "the server answers", ready=True),
        unit="sglang@kimi",
    )
    assert action.said == [
        "node1 sglang@kimi: 0:10 weights: weights 1/64; GPU memory 1.0 to 2.0 of 96.0 GiB (2 GPUs)",
        "node1 sglang@kimi: 0:20 weights: weights 2/64; GPU memory 1.0 to 2.0 of 96.0 GiB (2 GPUs)",
        "node1 sglang@kimi: 0:30 ready: the server answers; GPU memory 1.0 to 2.0 of 96.0 GiB (2 GPUs)",
    ]
    assert (result["ready"], result["elapsed"], result.get("failed")) == (True, 30.0, None)
    assert [phase["since"] for phase in result["phases"]] == [10.0, 20.0, 30.0]
    assert "followed" not in result
    assert "over" not in result


def test_a_line_at_least_every_30_seconds(act):
    rounds = [answer("weights", "weights 1/64")] * 12 + [answer("ready", "the server answers", ready=True)]
    _result, action = act(*rounds)
    assert [line.split(" ")[1] for line in action.said] == ["0:10", "0:40", "1:10", "1:40", "2:10"]


def test_each_round_knows_what_the_last_one_saw(act):
    _result, action = act(
        answer("weights", "weights 1/64"),
        answer("ready", "the server answers", ready=True),
        followed={"invocation": "forged"},
    )
    assert action.asked[0]["followed"] == {"last": False}
    assert action.asked[1]["followed"] == {"invocation": "aa", "restarts": 0, "phase": "weights 1/64", "last": False}


def test_a_failed_unit_ends_the_wait_with_its_cause(act):
    finding = {
        "name": "fraction_too_low",
        "cause": "Not one token fits.",
        "lines": ["RuntimeError: Not enough memory."],
        "advice": "Raise it.",
        "setting": "args.mem_fraction_static (higher)",
        "kind": "root",
    }
    result, action = act(
        answer("weights", "weights 1/64"),
        answer("failed", "it failed after: weights 1/64", over="a.service is failed.", diagnosis=[finding]),
    )
    assert result["failed"]
    assert result["msg"] == (
        "a.service is failed. After 0:20 (it failed after: weights 1/64). Not one token fits. Raise it. Setting: args.mem_fraction_static (higher). "
        "The log says: RuntimeError: Not enough memory."
    )
    assert len(action.asked) == 2


def test_a_failure_without_a_known_cause_says_so(act):
    result, _action = act(answer("failed", "x", over="a.service is failed."))
    assert "No cause that is known here was found in its log." in result["msg"]


def test_the_time_is_over(act):
    result, action = act(answer("weights", "weights 1/64"), timeout="25")
    assert result["failed"]
    assert (
        "not ready within 25 s; the last phase was weights (weights 1/64), and /health: refused. "
        "Where the GPU memory still grows, the storage is slow: raise timeout."
    ) in result["msg"]
    assert [asked["followed"]["last"] for asked in action.asked] == [False, False, False, True]


def test_without_a_unit_no_log_is_spoken_of(act):
    result, _action = act(answer("starting", "x", unit_state=None), timeout=5)
    assert result["msg"] == "not ready within 5 s; /health: refused. With unit, the journal would say how far it came."


def test_a_refused_option_and_check_mode_are_handed_on(act):
    result, action = act({"failed": True, "msg": "port: 0"})
    assert (result["failed"], result["msg"], action.said) == (True, "port: 0", [])
    result, action = act({"ready": None, "changed": False})
    assert (result["ready"], len(action.asked)) == (None, 1)


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ([], ""),
        ([{"used_mib": 512, "total_mib": 1024}], "GPU memory 0.5 of 1.0 GiB (1 GPU)"),
        ([{"used_mib": 512, "total_mib": 1024}] * 2, "GPU memory 0.5 of 1.0 GiB (2 GPUs)"),
    ],
)
def test_words_for_memory(gpus, words):
    assert sglang_progress.memory_words(gpus) == words
