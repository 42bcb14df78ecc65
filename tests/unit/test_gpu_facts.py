# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts as a whole: what a recorded answer may look like, and that no single source decides over the others."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import node_sources
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.gpu_facts import COMMANDS, SHARED_MEMORY, gather
from ansible_collections.gpu_node.tuning.plugins.module_utils.gpu_facts_schema import (
    empty_facts,
    empty_gpu,
    from_recording,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import Sources
from ansible_collections.gpu_node.tuning.plugins.modules.gpu_facts import facts_for

from .recorded_nodes import PATIENCE, facts_of, lay_out

PARAMS = {
    "interpreter": None,
    "scope": "system",
    "service_dir": None,
    "service_user": None,
    "service_environment": {},
    "probe_timeout": 20.0,
    "timeout": 15.0,
    "recorded": None,
}


def test_facts_that_were_gathered_are_a_recorded_answer():
    for name in ("h200-x2", "no-driver"):
        facts = facts_of(name)
        assert from_recording(facts) == dict(facts, source="recorded")


def test_what_a_recorded_answer_leaves_out_is_empty():
    matrix = {"0": {"1": "PIX"}, "1": {"0": "PIX"}}
    facts = from_recording({"schema_version": 1, "driver": {"version": "580.1"}, "topology": {"matrix": matrix}})
    expected = empty_facts()
    expected.update(source="recorded", driver={**expected["driver"], "version": "580.1"})
    expected["topology"]["matrix"] = matrix
    assert facts == expected


@pytest.mark.parametrize(
    ("recorded", "message"),
    [
        ({}, "recorded: schema_version is None; legal: 1"),
        ({"schema_version": 2}, "recorded: schema_version is 2; legal: 1"),
        ({"schema_version": "1"}, "recorded: schema_version is '1'; legal: 1"),
        ({"schema_version": True}, "recorded: schema_version is True; legal: 1"),
        ({"schema_version": 1, "gpu": []}, "recorded: gpu is no fact; legal: schema_version, .* did you mean gpus?"),
        ({"schema_version": 1, "gpus": {}}, "recorded: gpus is a mapping; legal: a list"),
        ({"schema_version": 1, "gpus": ["H200"]}, r"recorded: gpus\[0\] is a string; legal: a mapping"),
        ({"schema_version": 1, "driver": "580"}, "recorded: driver is a string; legal: a mapping"),
        (
            {"schema_version": 1, "driver": {"versoin": "580"}},
            r"recorded\.driver: versoin is no fact; .* did you mean version?",
        ),
        ({"schema_version": 1, "topology": {"matrix": []}}, r"recorded\.topology: matrix is a list; legal: a mapping"),
    ],
)
def test_what_is_no_recorded_answer(recorded, message):
    with pytest.raises(TuningError, match=f"^{message}"):
        from_recording(recorded)


def test_options():
    recorded = {"schema_version": 1, "dev_shm_mib": 64}
    assert facts_for({**PARAMS, "recorded": recorded})["dev_shm_mib"] == 64
    assert facts_for(PARAMS)["source"] == "node"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"timeout": 0.0}, r"timeout: 0\.0; legal: a number from 0\.1 to 86400"),
        ({"timeout": float("nan")}, "timeout: nan; legal"),
        ({"interpreter": "python3"}, "interpreter 'python3': legal: an absolute path"),
        ({"recorded": {"schema_version": 0}}, "schema_version is 0"),
    ],
)
def test_options_that_are_refused(change, message):
    with pytest.raises(TuningError, match=message):
        facts_for({**PARAMS, **change})


def test_a_driver_that_hangs_costs_its_limit_once(tmp_path):
    root = lay_out("driver-hangs", tmp_path / "node")
    begin = time.monotonic()
    facts = gather(Sources(str(root)), None, 1)
    assert time.monotonic() - begin < 5
    assert [entry["source"] for entry in facts["missing"][:-1]] == list(COMMANDS)


@pytest.mark.parametrize("file", ["nvidia-smi-q.xml", "compute-cap.csv", "topo-m.txt", "topo-p2p-r.txt"])
@pytest.mark.parametrize("content", [None, b"", b"\xff\x00garbage\n"])
def test_one_source_that_gives_nothing_takes_only_its_own_facts(tmp_path, file, content):
    root = lay_out("rtx-pro-6000-x8-switch", tmp_path / "node")
    recording = root / "usr" / "bin" / "recording" / file
    recording.unlink()
    if content is not None:
        recording.write_bytes(content)
    facts, whole = gather(Sources(str(root)), None, PATIENCE), facts_of("rtx-pro-6000-x8-switch")
    assert len(facts["missing"]) == len(whole["missing"]) + 1
    own = {
        "nvidia-smi-q.xml": {"gpus", "driver", "acs"},
        "compute-cap.csv": {"gpus"},
        "topo-m.txt": {"topology"},
        "topo-p2p-r.txt": {"p2p"},
    }[file]
    different = {key for key in facts if facts[key] != whole[key]} - {"missing"}
    assert different == own


def test_an_empty_node(tmp_path):
    """A directory with nothing in it: no source at all."""
    facts = gather(Sources(str(tmp_path)), None, PATIENCE)
    assert len(facts["missing"]) == 9
    assert facts == dict(empty_facts(), missing=facts["missing"])


def test_a_node_without_a_pci_bus_has_no_gpu(tmp_path):
    (tmp_path / "sys" / "bus").mkdir(parents=True)
    facts = gather(Sources(str(tmp_path)), None, PATIENCE)
    assert facts["topology"]["interconnect"] == "none"
    assert facts["missing"][0]["reason"].endswith("; GPUs on the PCI bus: none")


def test_memory_of_the_shared_file_system(tmp_path, monkeypatch):
    asked = []

    def statvfs(path):
        asked.append(path)
        return SimpleNamespace(f_blocks=1000, f_frsize=1024 * 1024)

    monkeypatch.setattr(os, "statvfs", statvfs)
    root = lay_out("one-gpu", tmp_path / "node")
    assert gather(Sources(str(root)), None, PATIENCE)["dev_shm_mib"] == 1000
    assert asked == [f"{root}{SHARED_MEMORY}"]


def test_a_command_that_prints_without_end_is_stopped():
    answer = node_sources.run_bounded(["/bin/sh", "-c", "exec yes"], 60)
    assert answer == ("", f"it printed more than {node_sources.LARGEST_OUTPUT} bytes; it was stopped")


def test_a_command_that_closes_its_output_and_stays_is_stopped():
    answer = node_sources.run_bounded(["/bin/sh", "-c", "exec >&- 2>&-; sleep 60"], 60)
    assert answer == ("", "it closed its output and did not end; it was stopped")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"gpus": [{}]}, None),
        ({"gpus": [{"name": 5}]}, "recorded.gpus[0]: name is an integer; legal: text"),
        ({"gpus": [{"nmae": "x"}]}, "recorded.gpus[0]: nmae is no fact"),
        ({"p2p": {"read": {"0": "OK"}}}, "recorded.p2p.read: '0' is 'OK'; legal: a mapping of GPU to word"),
        ({"p2p": {"read": {"0": {"1": None}}}}, "recorded.p2p.read: '0' is"),
    ],
)
def test_a_recorded_answer_is_completed_or_refused(given, words):
    recorded = {"schema_version": 1, **given}
    if words is None:
        assert from_recording(recorded)["gpus"][0] == empty_gpu(0)
        return
    with pytest.raises(TuningError) as caught:
        from_recording(recorded)
    assert words in str(caught.value)
