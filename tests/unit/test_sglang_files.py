# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of SGLang's instances, and the starts that are kept, on a played node below a scratch folder."""

from __future__ import annotations

import json
import os
import pathlib
import stat

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    sglang_before_start,
    sglang_files,
    sglang_starts,
    sglang_unit_text,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_record import manifest_path
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_files import Tuning
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_instance import planned
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_lines import sglang_lines
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_read_back import read_back
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_unit_text import Settings
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory

INSTANCE = {"name": "kimi", "model": "/models/kimi", "port": 30000, "args": {"mem_fraction_static": 0.85}}
NO_TUNING = Tuning(None, {}, None)


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Every path of the role below ``tmp_path``, and the group of whoever runs the tests."""
    units = tmp_path / "units"
    units.mkdir()
    monkeypatch.setattr(sglang_unit_text, "UNIT", str(units / "sglang@.service"))
    monkeypatch.setattr(sglang_unit_text, "DEVICES_UNIT", str(units / "sglang-devices.service"))
    monkeypatch.setattr(sglang_files, "CONFIGURATION", str(tmp_path / "etc"))
    monkeypatch.setattr(sglang_files, "PROGRAM", str(tmp_path / "before_start.py"))
    monkeypatch.setattr(sglang_files, "RUNTIME", str(tmp_path / "run"))
    monkeypatch.setattr(sglang_files, "drop_in_of", lambda name: str(units / f"sglang@{name}.service.d" / "own.conf"))
    monkeypatch.setattr(sglang_files, "_owner", lambda name, check: os.geteuid())
    monkeypatch.setattr(sglang_files, "_group", lambda name, check: os.getegid())
    return tmp_path


@pytest.fixture
def settings(played):
    return Settings("/opt/sglang/bin/python", sglang_files.PROGRAM, "sglang", "sglang", 3600, 120)


@pytest.fixture
def files(settings):
    """A function: the files of an instance whose plan has other values, or other keys, tuning or version."""

    def made(keys="", tuning=NO_TUNING, version="0.5.23", **changed):
        plan = planned({**INSTANCE, **changed}, {}, "0.5.23", {"interpreter": "/opt/sglang/bin/python"})
        of_instance = sglang_files.files_of_instance(plan, keys, settings, tuning, version)
        return sglang_files.common_files(settings) + of_instance

    return made


def written(files):
    sglang_files.apply(sglang_files.changes(files, []))


def paths_of(changes):
    return [os.path.basename(change.before.path) for change in changes]


def test_a_second_look_finds_nothing_to_do(files):
    assert len(sglang_files.changes(files(), [])) == 6
    written(files())
    assert sglang_files.changes(files(), []) == []


def test_what_the_tuning_declares_of_nccl_s_log_wins_over_the_unit(files):
    """The unit sets NCCL_DEBUG for the read-back, and a start refuses where a declared variable has another value."""
    found = {os.path.basename(file.path): file.content.decode() for file in files(tuning=Tuning(None, {}, 1))}
    assert "NCCL" not in found["own.conf"]
    tuning = Tuning(None, {"NCCL_DEBUG": "WARN", "NCCL_PROTO": "LL"}, 1)
    found = {os.path.basename(file.path): file.content.decode() for file in files(tuning=tuning)}
    assert "\nEnvironment=NCCL_DEBUG=WARN\n" in found["own.conf"]
    assert "NCCL_PROTO" not in found["own.conf"]
    assert json.loads(found["kimi.json"])["environment"]["NCCL_DEBUG"] == "WARN"


def test_modes_are_part_of_a_file(files, played):
    written(files(keys="api-key: one\n"))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (played / "etc").iterdir()}
    assert modes == {"kimi.yaml": 0o640, "kimi.json": 0o640, "kimi.keys.yaml": 0o600}
    (played / "etc" / "kimi.keys.yaml").chmod(0o644)
    assert paths_of(sglang_files.changes(files(keys="api-key: one\n"), [])) == ["kimi.keys.yaml"]


def test_keys_are_in_one_file_alone(files):
    found = files(keys=sglang_files.keys_text("the-key", ""))
    assert [os.path.basename(file.path) for file in found if b"the-key" in file.content] == ["kimi.keys.yaml"]
    assert [os.path.basename(file.path) for file in found if file.secret] == ["kimi.keys.yaml"]


@pytest.mark.parametrize("key", ["zebra\nlion", " zebra", "zebra ", "zebr\u00e4", "zebra\tlion"])
def test_a_key_that_no_header_carries_is_refused_and_not_shown(key):
    with pytest.raises(TuningError) as caught:
        sglang_files.keys_text(key, "")
    assert "api_key: has a line end" in str(caught.value)
    assert key not in str(caught.value)


def test_what_is_edited_by_hand_is_known_and_kept(files, played):
    written(files())
    config = played / "etc" / "kimi.yaml"
    config.write_text(config.read_text().replace("0.85", "0.9"))
    (change,) = sglang_files.changes(files(), [])
    assert change.by_hand
    (kept,) = sglang_files.keep_aside(str(played / "state"), [change])
    assert "0.9" in pathlib.Path(kept).read_text()
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(kept)).st_mode) == 0o700


def test_a_byte_that_is_no_text_is_an_edit_by_hand(files):
    written(files())
    with open(sglang_unit_text.UNIT, "ab") as stream:
        stream.write(b"# M\xfcller was here\n")
    (change,) = sglang_files.changes(files(), [])
    assert change.by_hand


def test_what_is_edited_by_hand_is_kept_before_it_is_removed(files, played):
    written(files())
    config = played / "etc" / "kimi.yaml"
    gone = list(sglang_files.paths_of("kimi").values())
    assert not any(change.by_hand for change in sglang_files.changes([], gone))
    config.write_text(config.read_text() + "# a note\n")
    edited = [change.before.path for change in sglang_files.changes([], gone) if change.by_hand]
    assert edited == [str(config)]


def test_no_copy_replaces_another(files, played):
    """The drop-ins of all instances have the same name, and all of it happens within a second."""
    changes = []
    for name in ("a", "b"):
        path = played / name / "gpu_node_tuning.conf"
        path.parent.mkdir()
        path.write_text(f"of {name}")
        changes.append(sglang_files.Change(sglang_files.sitecustomize_file.look(str(path)), None, True))
    kept = sglang_files.keep_aside(str(played / "state"), [*changes, changes[0]])
    assert [pathlib.Path(path).read_text() for path in kept] == ["of a", "of b", "of a"]


def test_nothing_is_replaced_where_no_copy_can_be_kept(files, played):
    written(files())
    config = played / "etc" / "kimi.yaml"
    config.write_text("mine")
    (played / "state").write_text("a file where the state directory should be")
    with pytest.raises(TuningError, match=r"state: no copy .* can be kept: File exists\. Nothing was changed"):
        sglang_files.keep_aside(str(played / "state"), sglang_files.changes(files(), []))
    assert config.read_text() == "mine"


def test_a_changed_inventory_is_no_edit_by_hand(files):
    written(files())
    changes = sglang_files.changes(files(port=30001), [])
    assert sorted(paths_of(changes)) == ["kimi.json", "kimi.yaml", "own.conf"]
    assert not any(change.by_hand for change in changes)


def test_what_fails_half_way_is_taken_back(files, played, monkeypatch):
    written(files())
    before = {path: path.read_bytes() for path in (played / "etc").iterdir()}
    changes = sglang_files.changes(files(port=30001), [])
    real, calls = sglang_files.sitecustomize_file.write, []

    def second_fails(state, content, mode=0o644):
        calls.append(state.path)
        if len(calls) == 2:
            raise TuningError("the disk is full")
        return real(state, content, mode)

    monkeypatch.setattr(sglang_files.sitecustomize_file, "write", second_fails)
    with pytest.raises(TuningError, match="the disk is full"):
        sglang_files.apply(changes)
    assert {path: path.read_bytes() for path in (played / "etc").iterdir()} == before


@pytest.mark.parametrize(
    ("changed", "reasons"),
    [
        ({}, []),
        ({"args": {"mem_fraction_static": 0.8}}, ["configuration changed"]),
        ({"environment": {"A": "1"}}, ["unit changed"]),
        ({"keys": "api-key: one\n"}, ["keys changed"]),
        ({"version": "0.5.24"}, ["version of SGLang changed"]),
        ({"tuning": Tuning(None, {"NCCL_PROTO": "LL"}, 4)}, ["tuning changed"]),
        ({"tuning": Tuning(None, {}, 4)}, []),
    ],
)
def test_only_what_matters_is_a_reason_to_restart(files, played, changed, reasons):
    written(files())
    (played / "run" / "kimi").mkdir(parents=True)
    declared = json.loads((played / "etc" / "kimi.json").read_text())
    declared["instance_unit"] = str(played / "units" / "sglang@kimi.service")
    parts = sglang_before_start.parts_of(declared)
    (played / "run" / "kimi" / "started.json").write_text(json.dumps({"parts": parts}))
    wanted = files(**changed)
    for file in wanted:
        if file.path.endswith("kimi.json"):
            content = dict(json.loads(file.content), instance_unit=declared["instance_unit"])
            wanted[wanted.index(file)] = file._replace(content=json.dumps(content).encode())
    assert (
        sglang_files.reasons(sglang_files.started_parts("kimi"), sglang_files.parts_wanted("kimi", wanted)) == reasons
    )


@pytest.mark.parametrize("mode", [0o755, 0o750])
def test_a_start_with_these_files_is_no_reason_to_restart(files, played, mode):
    """Whoever may list the folder of the drop-in: the start and the play see the same of it."""
    written(files())
    declared = json.loads((played / "etc" / "kimi.json").read_text())
    declared["instance_unit"] = str(played / "units" / "sglang@kimi.service")
    (played / "units" / "sglang@kimi.service.d").chmod(mode)
    started = sglang_before_start.parts_of(declared)
    wanted = [
        file._replace(content=json.dumps(declared).encode()) if file.path.endswith(".json") else file
        for file in files()
    ]
    assert sglang_files.reasons(started, sglang_files.parts_wanted("kimi", wanted)) == []


def test_an_unknown_start_is_a_reason(played):
    assert sglang_files.started_parts("kimi") is None
    assert sglang_files.reasons(None, {"unit": "1"}) == ["it is not known what it was started with"]


@pytest.mark.parametrize("content", ["[]", '{"parts": 3}', "[" * 100000, '"', "{}"])
def test_a_record_of_a_start_that_makes_no_sense_is_none(played, content):
    (played / "run" / "kimi").mkdir(parents=True)
    (played / "run" / "kimi" / "started.json").write_text(content)
    assert sglang_files.started_parts("kimi") is None


def test_a_fifo_in_the_service_s_own_directory_keeps_nobody_waiting(played):
    (played / "run" / "kimi").mkdir(parents=True)
    os.mkfifo(played / "run" / "kimi" / "started.json")
    assert sglang_files.started_parts("kimi") is None


def test_instances_of_earlier_plays_are_known(files):
    assert sglang_files.instances_on_node() == []
    written(files())
    assert sglang_files.instances_on_node() == ["kimi"]


@pytest.mark.parametrize("name", ["../etc", "Kimi", "a_b", "", "-a", "a" * 33])
def test_no_name_leads_elsewhere(name, tmp_path):
    with pytest.raises(TuningError, match="legal: a to z"):
        sglang_starts.folder_of(str(tmp_path), name)
    with pytest.raises(TuningError, match="legal: a to z"):
        sglang_files.paths_of(name)


# --- starts that are kept

FACTS = {"generation": 1, "profile": "known_good", "profile_status": "known_good", "version": "0.5.23", "proof": {}}
PARTS = {"unit": "1", "configuration": "1"}


@pytest.fixture
def state(played):
    return StateDirectory(str(played / "state"), "a test")


def test_a_good_start_is_kept_once_and_comes_back(files, played, state):
    written(files())
    assert sglang_starts.record(state, "kimi", FACTS, PARTS, True, 1) == (1, True)
    assert not (played / "state").exists(), "a check writes nothing"
    assert sglang_starts.record(state, "kimi", FACTS, PARTS, False, 1) == (1, True)
    assert sglang_starts.record(state, "kimi", FACTS, PARTS, False, 1) == (1, False)
    good = {path: path.read_bytes() for path in (played / "etc").iterdir()}
    written(files(port=30001))
    start, _note = sglang_starts.choose(state, "kimi", dict(PARTS, configuration="2"), 2)
    assert start.number == 1
    assert sglang_starts.address_of(start) == ("127.0.0.1", 30000), "not the port of what failed"
    assert sorted(os.path.basename(path) for path in sglang_starts.restore(start)) == [
        "kimi.json",
        "kimi.yaml",
        "own.conf",
    ]
    assert {path: path.read_bytes() for path in (played / "etc").iterdir()} == good
    assert sglang_starts.restore(start) == []


def test_a_start_without_its_files_is_none_to_go_back_to(files, played, state):
    written(files())
    (played / "etc" / "kimi.json").unlink()
    with pytest.raises(TuningError, match=r"kimi\.json: is not there, so this is no start to go back to"):
        sglang_starts.record(state, "kimi", FACTS, PARTS, False, 1)
    assert sglang_starts.good_starts(state.path, "kimi") == ([], [])


def test_keys_are_in_no_record(files, played, state):
    written(files(keys="api-key: the-key\n"))
    sglang_starts.record(state, "kimi", FACTS, PARTS, False, 1)
    kept = [path for path in (played / "state").rglob("*") if path.is_file()]
    assert kept
    assert [path for path in kept if b"the-key" in path.read_bytes()] == []
    assert {stat.S_IMODE(path.stat().st_mode) for path in (played / "state").rglob("*") if path.is_dir()} == {0o700}


def test_a_start_whose_keys_are_gone_is_no_way_back(files, played, state):
    written(files(keys="api-key: the-key\n"))
    sglang_starts.record(state, "kimi", FACTS, PARTS, False, 1)
    assert sglang_starts.choose(state, "kimi", {}, 2)[0].number == 1
    (played / "etc" / "kimi.keys.yaml").unlink()
    start, why = sglang_starts.choose(state, "kimi", {}, 2)
    assert start is None
    assert "had keys, which are in no record" in why
    assert "Set api_key of the instance again" in why


def test_an_edited_record_is_not_used(files, played, state):
    written(files())
    sglang_starts.record(state, "kimi", FACTS, PARTS, False, 1)
    path = pathlib.Path(manifest_path(str(played / "state" / "sglang" / "kimi" / "starts" / "0001")))
    path.write_text(path.read_text().replace('"known_good"', '"candidate"'))
    start, why = sglang_starts.choose(state, "kimi", {}, 2)
    assert start is None
    assert "has no good start on record" in why
    assert "its checksum does not fit" in why


@pytest.mark.parametrize(
    ("facts", "parts", "generation", "said"),
    [
        (
            dict(FACTS, profile_status="experimental"),
            {},
            2,
            "None of the 1 good starts on record was under a known-good profile",
        ),
        (FACTS, PARTS, 1, "The same unit, configuration and tuning worked on"),
    ],
)
def test_there_is_no_way_back_to(files, state, facts, parts, generation, said):
    written(files())
    sglang_starts.record(state, "kimi", facts, PARTS, False, 1)
    start, why = sglang_starts.choose(state, "kimi", parts, generation)
    assert start is None
    assert said in why


def test_a_start_of_another_machine_is_not_used(files, state):
    written(files())
    sglang_starts.record(state, "kimi", FACTS, PARTS, False, 1)
    state.machine_id = "of another"
    start, why = sglang_starts.choose(state, "kimi", {}, 2)
    assert start is None
    assert "another machine" in why


def test_old_starts_go_and_the_known_good_one_stays(files, state):
    written(files())
    sglang_starts.record(state, "kimi", FACTS, PARTS, False, 1)
    for number in range(8):
        facts = dict(FACTS, profile=f"p{number}", profile_status="experimental")
        sglang_starts.record(state, "kimi", facts, PARTS, False, 1)
    kept, damaged = sglang_starts.good_starts(state.path, "kimi")
    assert [start.number for start in kept] == [9, 8, 7, 6, 5, 1]
    assert damaged == []


def test_what_a_failed_start_said_is_kept_with_its_generation(state, played):
    os.makedirs(played / "state" / "generations" / "0003")
    kept = sglang_starts.keep_failure(state, "kimi", 3, {"journal.txt": "it failed\n"}, 1)
    assert os.path.dirname(kept) == str(played / "state" / "generations" / "0003" / "failed_starts")
    assert sorted(os.listdir(kept)) == ["checksums.json", "journal.txt"]
    without = sglang_starts.keep_failure(state, "kimi", None, {"journal.txt": "it failed\n"}, 1)
    assert without.startswith(str(played / "state" / "sglang" / "kimi" / "failed_starts"))


# --- the ranks

NCCL = "host:12:34 [0] NCCL INFO NCCL_PROTO set by environment to {value}\n"
ON = "[2026-11-30 06:00:00 TP{rank}] pcie_allreduce: rank {rank} of 2 on, up to 524288 bytes, table auto\n"


def logs(folder, *values):
    folder.mkdir()
    for number, value in enumerate(values):
        (folder / f"nccl.host.{number}.log").write_text(NCCL.format(value=value))
    return str(folder)


def test_ranks_that_say_what_is_declared(tmp_path):
    found = read_back(logs(tmp_path / "run", "LL", "LL"), "", {"NCCL_PROTO": "LL"}, 2, "nccl")
    assert (found.drift, found.unproved, found.logs) == ([], [], 2)


@pytest.mark.parametrize(
    ("values", "ranks", "drift", "unproved"),
    [
        (["LL", "Simple"], 2, ["NCCL_PROTO is LL and Simple for NCCL, declared LL"], []),
        (["LL"], 2, [], ["1 of 2 ranks left a log"]),
        ([], 2, [], ["NCCL left no log in"]),
        ([], 1, [], ["one rank exchanges no data"]),
    ],
)
def test_what_the_ranks_do_not_say_is_no_proof(tmp_path, values, ranks, drift, unproved):
    found = read_back(logs(tmp_path / "run", *values), "", {"NCCL_PROTO": "LL"}, ranks, "nccl")
    assert found.drift == drift
    assert len(found.unproved) == len(unproved)
    assert all(part in said for part, said in zip(unproved, found.unproved, strict=True))


def test_a_variable_that_nccl_does_not_name_is_unproved(tmp_path):
    found = read_back(logs(tmp_path / "run", "LL", "LL"), "", {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring"}, 2, "nccl")
    assert found.unproved == ["Layer 3: NCCL did not say which NCCL_ALGO it read."]


def test_the_custom_allreduce_has_to_be_on_in_every_rank(tmp_path):
    folder = logs(tmp_path / "run", "LL", "LL")
    both = "".join(ON.format(rank=rank) for rank in range(2))
    assert read_back(folder, both, {}, 2, "bundled").drift == []
    assert read_back(folder, both, {}, 2, "bundled").allreduce_ranks == [0, 1]
    off = ON.format(rank=0) + "pcie_allreduce: rank 1 of 2 off, because the table is older\n"
    (drift,) = read_back(folder, off, {}, 2, "bundled").drift
    assert "not on in rank 1 of 2; it says: the table is older" in drift
    (drift,) = read_back(folder, "server_args=ServerArgs(tp_size=2)\n", {}, 2, "bundled").drift
    assert "build_allreduce.yml" in drift
    assert read_back(folder, "", {}, 2, "nccl").drift == []


BUILT = "[2026-11-30 06:00:00 TP{rank}] FlashInfer PCIe-IPC workspace built (world=2, max_numel=1146880, hidden=7168)\n"
STARTED = "[2026-11-30 05:59:00] server_args=ServerArgs(tp_size=2)\n"


@pytest.mark.parametrize(
    ("journal", "on", "drift", "unproved"),
    [
        (BUILT.format(rank=0) + BUILT.format(rank=1), [0, 1], "", ""),
        (BUILT.format(rank=0), [0], "", "said nothing in rank 1 of 2"),
        ("", [], "", "said nothing in rank 0, 1 of 2"),
        (
            "[2026-11-30 06:00:00 TP1] FlashInfer PCIe-IPC workspace (max_numel=9) failed: no peer access; reductions stay on NCCL\n",
            [],
            "it says: FlashInfer PCIe-IPC workspace (max_numel=9) failed: no peer access",
            "",
        ),
        (
            "Deterministic inference is on; leaving PCIe-IPC all-reduce off. Its\n",
            [],
            "Deterministic inference is on",
            "",
        ),
    ],
)
def test_sglang_s_own_allreduce_is_asked_for_too(tmp_path, journal, on, drift, unproved):
    """Lines in the words of the released source; no server with GPUs has written them."""
    found = read_back(logs(tmp_path / "run", "LL", "LL"), STARTED + journal, {}, 2, "sglang_pcie_ipc")
    assert found.allreduce_ranks == on
    assert drift in "".join(found.drift)
    assert bool(found.drift) == bool(drift)
    assert unproved in "".join(found.unproved)
    assert bool(found.unproved) == bool(unproved)


def test_a_journal_that_lost_the_start_is_no_drift(tmp_path):
    """It rotates, and the server runs for weeks: what is not there any more is unproved."""
    found = read_back(logs(tmp_path / "run", "LL", "LL"), "", {}, 2, "bundled")
    assert found.drift == []
    assert "whether the custom all-reduce is on was not seen" in found.unproved[0]


def test_the_table_names_what_is_not_proved():
    found = {
        "unit": "sglang@kimi.service",
        "started": True,
        "why": "unit changed",
        "elapsed": "612.43",
        "spec_verify_ct": 5,
    }
    lines = sglang_lines({"gpu-01": {"kimi": dict(found, unproved=["Layer 3: nothing."])}, "gpu-02": "undefined"})
    assert "gpu-01" in lines[2]
    assert "612.4 s" in lines[2]
    assert "on, 5 verifications" in lines[2]
    assert lines[-1] == "  gpu-01, sglang@kimi.service: Layer 3: nothing."
    assert len([line for line in lines if "gpu-02" in line]) == 0
