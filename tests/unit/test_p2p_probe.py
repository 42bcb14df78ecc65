# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe with played programs in the place of the real one: they hang, die, and print nonsense; nothing of them may stay."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import sys
import time

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import p2p_probe_program, process_group
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.p2p_probe import Limits, probe, reports
from ansible_collections.gpu_node.tuning.plugins.module_utils.process_group import living_members

LIMIT = 3  # seconds for a pair that hangs: enough for a busy machine to start a Python and let it print
SLACK = 3
PATIENT = Limits(60, 300)
PLAYED = """
import json, os, signal, subprocess, sys, time
request = json.loads(sys.argv[1])
def say(stage, status="ok", detail="", **more):
    print(json.dumps(dict(more, stage=stage, status=status, detail=detail)), flush=True)
if "source" not in request:
    LIST
    sys.exit()
pair = tuple(int(request[side][-1]) for side in ("source", "destination"))
with open(NOTES, "a") as notes:
    notes.write(json.dumps({"pair": pair, "group": os.getpgrp(), "env": dict(os.environ)}) + "\\n")
def behave():
    BEHAVIOUR
behave()
say("open"); say("copy"); say("store")
"""
GPUS = 'say("list", gpus=[{{"index": n, "name": "Played", "pci_address": "0000:00:00.%d" % n}} for n in range({})])'
HANG = "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(120)"


class Played:
    """Runs the probe with a program that behaves as told in the pairs of ``only`` (without: in all)."""

    def __init__(self, folder):
        self.notes = folder / "notes"

    def program(self, behaviour="pass", gpus=2, only=None, listing=None):
        behaviour = behaviour.replace("\n", "\n    ")
        if only is not None:
            behaviour = f"if pair not in {only!r}: return\n    " + behaviour
        text = PLAYED.replace("NOTES", repr(str(self.notes))).replace("BEHAVIOUR", behaviour)
        return text.replace("LIST", listing or GPUS.format(gpus))

    def probe(self, *arguments, limits=PATIENT, **named):
        began = time.monotonic()
        result = probe(sys.executable, limits, self.program(*arguments, **named))
        self.seconds = time.monotonic() - began
        return result

    @property
    def noted(self):
        return [json.loads(line) for line in self.notes.read_text().splitlines()]

    def alive(self):
        return [process for note in self.noted for process in living_members(note["group"])]


@pytest.fixture
def played(tmp_path):
    played = Played(tmp_path)
    yield played
    if played.notes.exists():
        assert played.alive() == []


def stages(result):
    return {(p["source"], p["destination"]): (p["stage_copy"], p["stage_store"]) for p in result["pairs"]}


def test_every_ordered_pair_is_tried_in_a_process_group_of_its_own(played):
    result = played.probe(gpus=3)
    assert result["verdict"] == "ok"
    assert result["problems"] == []
    assert list(stages(result)) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert set(stages(result).values()) == {("ok", "ok")}
    assert [tuple(note["pair"]) for note in played.noted] == list(stages(result))
    groups = {note["group"] for note in played.noted}
    assert len(groups) == 6
    assert os.getpgrp() not in groups
    assert all(pair["seconds"] > 0 for pair in result["pairs"])


def test_the_environment_is_clean_and_shows_the_two_gpus_alone(played, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setenv("NCCL_PROTO", "LL")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64")
    played.probe(gpus=2)
    environment = played.noted[1]["env"]
    assert environment["CUDA_VISIBLE_DEVICES"] == "1,0"
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert environment["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64"
    assert "NCCL_PROTO" not in environment


@pytest.mark.parametrize(
    ("before", "expected", "words"),
    [
        ("", ("hung", "not_tried"), "the GPUs were being opened"),
        ('say("open")', ("hung", "not_tried"), "a copy was under way"),
        ('say("open"); say("copy")', ("ok", "hung"), "stores were under way"),
        ('say("open"); say("copy"); say("store")', ("ok", "hung"), "the GPUs were being closed"),
    ],
)
def test_a_hang_ends_at_the_limit_with_the_pair_and_the_stage_named(played, before, expected, words):
    result = played.probe(f"{before or 'pass'}\n{HANG}", only=[(0, 1)], limits=Limits(LIMIT, 60))
    assert LIMIT <= played.seconds < LIMIT + SLACK
    assert result["verdict"] == "failed"
    assert stages(result)[0, 1] == expected
    assert re.fullmatch(
        rf"GPU 0 -> GPU 1: .*hung, and was stopped after [34]\.\d s, while {words}\.", result["problems"][0]
    )
    assert stages(result)[1, 0] == ("not_tried", "not_tried")
    assert result["problems"][1] == "GPU 1 -> GPU 0: not tried, because GPU 1 hung in GPU 0 -> GPU 1."
    assert result["left_running"] == []


def test_pairs_without_the_gpus_of_a_hang_are_still_tried(played):
    result = played.probe(HANG, only=[(1, 3)], gpus=4, limits=Limits(LIMIT, 120))
    tried = [tuple(note["pair"]) for note in played.noted]
    assert tried == [(0, 1), (0, 2), (0, 3), (1, 0), (1, 2), (1, 3), (2, 0)]
    assert [pair for pair, both in stages(result).items() if both == ("ok", "ok")] == [p for p in tried if p != (1, 3)]
    assert len(result["pairs"]) == 12
    assert "GPU 3 -> GPU 2: not tried, because GPU 3 hung in GPU 1 -> GPU 3." in result["problems"]


def test_the_limit_of_the_whole_holds(played):
    result = played.probe('say("open"); say("copy"); time.sleep(4)', gpus=3, limits=Limits(60, 6))
    assert 6 <= played.seconds < 6 + SLACK
    assert result["verdict"] == "failed"
    assert stages(result)[0, 1] == ("ok", "ok")
    # The second was under way. That it hangs was not shown.
    assert stages(result)[0, 2] == ("ok", "not_tried")
    assert re.search(
        r"0 -> GPU 2: store: stopped after .* s, because the time for the whole probe was over", result["problems"][0]
    )
    assert stages(result)[2, 1] == ("not_tried", "not_tried")
    assert result["problems"][-1] == "GPU 2 -> GPU 1: not tried, because the 6 s for the whole probe were over."


def test_a_grandchild_that_keeps_the_pipe_is_ended_and_delays_nothing(played):
    result = played.probe("subprocess.Popen(['sleep', '100'])")
    assert result["verdict"] == "ok"
    assert played.seconds < 30
    assert played.alive() == []


def test_a_grandchild_of_a_hang_is_ended_too(played):
    played.probe(f"subprocess.Popen(['sleep', '100'])\n{HANG}", limits=Limits(LIMIT, 60))
    assert played.seconds < LIMIT + SLACK
    assert played.alive() == []


def test_an_endless_output_is_bounded(played):
    result = played.probe("while True: print('x' * 1000)", only=[(0, 1)], limits=Limits(LIMIT, 60))
    assert stages(result)[0, 1] == ("hung", "not_tried")
    assert played.seconds < LIMIT + SLACK


@pytest.mark.parametrize(
    ("behaviour", "expected", "words"),
    [
        (
            'say("open"); os.kill(os.getpid(), signal.SIGSEGV)',
            ("error", "not_tried"),
            r"signal 11\).*nothing.*a copy was under way",
        ),
        (
            'say("open"); say("copy"); sys.exit("sorry")',
            ("ok", "error"),
            r"store: .*exit status 1\); its last words: sorry",
        ),
        ('say("open"); say("copy"); say("store"); sys.exit(3)', ("ok", "error"), "exit status 3.*being closed"),
        (
            'say("open"); print(\'{"stage": "copy", "sta\', end=""); sys.exit(0)',
            ("error", "not_tried"),
            "exit status 0.*sta,",
        ),
        ('say("open", "refused", "no way"); sys.exit()', ("refused", "refused"), "open: no way"),
        ('say("open", "error", "cuInit: E (1)"); sys.exit()', ("error", "not_tried"), "open: cuInit: E"),
        ('say("open"); say("copy", "error", "cuX: E (1)"); sys.exit()', ("error", "not_tried"), "copy: cuX: E"),
        ('say("open"); say("copy", "wrong", "3 words"); say("store"); sys.exit()', ("wrong", "ok"), "copy: 3 words"),
        ('say("open"); say("copy"); say("store", "wrong", "9 words"); sys.exit()', ("ok", "wrong"), "store: 9 words"),
    ],
)
def test_what_a_pair_says_or_fails_to_say(played, behaviour, expected, words):
    result = played.probe(behaviour, only=[(1, 0)])
    assert stages(result) == {(0, 1): ("ok", "ok"), (1, 0): expected}
    assert len(result["problems"]) == 1
    assert result["problems"][0].startswith("GPU 1 -> GPU 0: ")
    assert re.search(words, result["problems"][0])
    assert result["verdict"] == ("not_possible" if expected[0] == "refused" else "failed")


def test_garbage_is_passed_over(played):
    garbage = [
        "os.write(1, bytes(range(256)))",
        "print('[' * 100000)",
        "print('null'); print('[1]'); print('NaN'); print('{}')",
        'say("open", "splendid"); say("copy", ["ok"]); say(["copy"]); say("store", detail=7)',
    ]
    result = played.probe(
        "; ".join(garbage) + '; print(); say("open"); say("copy"); say("store"); sys.exit()', only=[(0, 1)]
    )
    # The long line fills what is kept of the output: what comes behind it is not seen, and that is said.
    assert stages(result)[0, 1] == ("error", "not_tried")
    del garbage[1]
    result = played.probe("; ".join(garbage) + '; print(); say("open"); say("copy"); say("store"); sys.exit()')
    assert result["verdict"] == "ok"


def test_reports_take_whole_and_known_lines_only():
    line = '{"stage": "copy", "status": "ok", "detail": ""}'
    assert reports(line) == {"copy": {"stage": "copy", "status": "ok", "detail": ""}}
    assert reports(line[:-1]) == reports(line.replace("ok", "fine")) == reports(line.replace("copy", "x")) == {}
    assert reports("noise\n" + line + "\nmore") == reports(line)


@pytest.mark.parametrize(
    ("listing", "verdict", "words"),
    [
        (GPUS.format(0), "no_gpus", "CUDA shows no GPU."),
        (GPUS.format(1), "not_possible", "one GPU; a pair needs two"),
        (
            'say("list", "error", "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)")',
            "not_possible",
            "No pair could be tried: cuInit: CUDA_ERROR_SYS",
        ),
        ('say("list", "unavailable", "no library")', "not_possible", "No pair could be tried: no library."),
        ('say("list", gpus=[{"index": "0"}, 7])', "no_gpus", "no GPU"),
        ("os.kill(os.getpid(), signal.SIGABRT)", "failed", r"could not be listed: the process ended \(signal 6\)"),
        (
            "time.sleep(100)",
            "failed",
            r"could not be listed: hung, and was stopped after [34]\.\d s. No pair was tried",
        ),
    ],
)
def test_where_no_pair_can_be_tried_the_reason_is_said(played, listing, verdict, words):
    result = played.probe(listing=listing, limits=Limits(LIMIT, 60))
    assert (result["verdict"], result["pairs"], len(result["problems"])) == (verdict, [], 1)
    assert re.search(words, result["problems"][0])


@pytest.mark.filterwarnings("ignore:Exception ignored in. <function Popen")
def test_a_process_that_cannot_be_ended_is_named(played, monkeypatch):
    """As one in state D, which waits inside the driver: played by a signal that does not reach it."""
    monkeypatch.setattr(process_group, "GRACE", 0.5)
    monkeypatch.setattr(process_group.os, "killpg", lambda group, number: None)
    result = played.probe(HANG, only=[(0, 1)], limits=Limits(LIMIT, 60))
    monkeypatch.undo()
    (pid,) = result["left_running"]
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert played.seconds < LIMIT + SLACK
    assert re.search(rf"hung.*; process {pid} \(state [SR]\) could not be ended within", result["problems"][0])


def test_without_the_drivers_library_it_is_not_possible():
    program = inspect.getsource(p2p_probe_program).replace('"libcuda.so.1"', '"libcuda.so.none"')
    result = probe(sys.executable, PATIENT, program)
    assert result["verdict"] == "not_possible"
    assert result["problems"][0].startswith("No pair could be tried: libcuda.so.none: cannot be loaded: ")


def test_an_interpreter_that_cannot_be_started_is_refused():
    with pytest.raises(TuningError, match=r"interpreter '/no/python': cannot be started: .* Legal: "):
        probe("/no/python", PATIENT)
