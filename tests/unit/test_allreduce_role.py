# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before the custom all-reduce is built: may this node have it, can this compiler build it, is the installed build current."""

from __future__ import annotations

import json
import os
import re

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    allreduce_nvcc,
    allreduce_preflight,
    allreduce_project,
    allreduce_proof,
    allreduce_stamp,
    bounded_command,
    gpu_processes,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_lines import allreduce_lines, verdict
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_nvcc import Nvcc
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_preflight import preflight
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_proof import (
    Wanted,
    judged,
    reasons_to_measure,
    signed,
    switched,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_question import question_of
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

from .recorded_nodes import NAMES, facts_of

LONGEST = 917504
SAID = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Cuda compilation tools, release 13.0, V13.0.88
Build cuda_13.0.r13.0/compiler.36424714_0
"""


def facts(name: str = "rtx-pro-6000-x8-switch", **changes) -> dict:
    found = facts_of(name)
    found["software"].update({"interpreter": "/opt/python", "torch": "2.11.0"})
    return found | changes


def judge(found: dict, transport: str = "auto", nvlink: bool = False, **environment: str):
    return preflight(found, environment, node_wanted(transport, nvlink))


def node_wanted(transport: str = "auto", nvlink: bool = False, world: int = 0) -> allreduce_preflight.Wanted:
    return allreduce_preflight.Wanted(transport, nvlink, LONGEST, world)


# The node


def test_a_node_that_fits():
    verdict = judge(facts())
    assert verdict == ([], [], "peer", "12.0", 8, "NVIDIA RTX PRO 6000 Blackwell Server Edition")


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_node_gets_a_verdict_with_the_way_on(name):
    verdict = judge(facts(name))
    for refusal in verdict.refusals:
        assert "legal: " in refusal
    if not verdict.refusals:
        assert verdict.transport in ("peer", "host_staged")
        assert verdict.capability


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("one-gpu", "GPUs: 1 with a working driver; legal: 2 to 8"),
        ("no-driver", "GPUs: 0 with a working driver"),
        ("driver-hangs", "no answer within"),
        (
            "h100-x16",
            "GPUs: 16 are to exchange data; legal: 2 to 8, and the engine sees 16. Set custom_allreduce_world",
        ),
        ("mixed-models", "GPUs of different"),
        ("mig", "GPUs: in MIG mode"),
        ("h200-x2", "interconnect nvlink: legal: pcie.*custom_allreduce_nvlink: true"),
    ],
)
def test_a_node_that_does_not(name, words):
    assert re.search(words, "\n".join(judge(facts(name)).refusals))


@pytest.mark.parametrize(
    ("world", "environment", "found"),
    [
        (0, {}, 8),
        (4, {}, 4),
        (0, {"CUDA_VISIBLE_DEVICES": "0, 1,2,3"}, 4),
        (8, {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, "GPUs: 8 are to exchange data; legal: 2 to 8, and the engine sees 4."),
        (0, {"CUDA_VISIBLE_DEVICES": ""}, "GPUs: 0 are to exchange data"),
    ],
)
def test_how_many_gpus_exchange_data(world, environment, found):
    verdict = preflight(facts(), environment, node_wanted(world=world))
    if isinstance(found, int):
        assert (verdict.refusals, verdict.world) == ([], found)
    else:
        assert verdict.refusals[0].startswith(found)


def test_nvlink_on_request():
    assert judge(facts("h200-x2"), nvlink=True).refusals == []


def test_no_torch():
    found = facts()
    found["software"]["torch"] = None
    assert judge(found).refusals == [
        "interpreter /opt/python: has no torch; legal: the Python that runs the engine. Name it in custom_allreduce_interpreter."
    ]


def without_p2p() -> dict:
    found = facts()
    found["p2p"]["write"]["0"]["1"] = "CNS"
    return found


def test_without_p2p_data_goes_through_the_host():
    verdict = judge(without_p2p())
    assert verdict.transport == "host_staged"
    assert verdict.remarks == ["the driver offers no P2P (CNS): data goes through the host's memory"]
    forced = judge(without_p2p(), "peer")
    assert (
        "transport peer: the driver offers no P2P between all GPUs (CNS); legal on this node: host_staged"
        in forced.refusals[0]
    )
    assert judge(facts(), "host_staged").transport == "host_staged"


def test_a_driver_that_says_nothing_of_p2p():
    verdict = judge(facts(p2p={"read": {}, "write": {}, "atomics": {}}))
    assert (verdict.refusals, verdict.transport) == ([], "host_staged")


@pytest.mark.parametrize(("mib", "refused"), [(64, True), (195, True), (196, False), (None, False)])
def test_shared_memory_has_to_hold_the_messages(mib, refused):
    verdict = judge(facts(dev_shm_mib=mib), "host_staged")
    assert bool(verdict.refusals) is refused
    if refused:
        assert f": {mib} MiB; legal: 196 or more for 8 GPUs" in verdict.refusals[0]
    assert judge(facts(dev_shm_mib=mib)).refusals == []


@pytest.mark.parametrize("name", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_expandable_segments_are_remarked(name):
    verdict = judge(facts(), **{name: "max_split_size_mb:64, expandable_segments:True"})
    assert verdict.refusals == []
    assert verdict.remarks[0].startswith(f"{name} has expandable_segments on")
    assert judge(facts(), **{name: "expandable_segments:False"}).remarks == []


# The compiler


def test_the_version_of_a_compiler():
    assert allreduce_nvcc.parse_version("/nvcc", SAID) == (13, 0, 88)


@pytest.mark.parametrize("text", ["", "clang version 18", "release 13, V13"])
def test_no_cuda_compiler(text):
    with pytest.raises(TuningError, match="/nvcc: is no CUDA compiler"):
        allreduce_nvcc.parse_version("/nvcc", text)


@pytest.mark.parametrize(
    ("capability", "oldest"),
    [
        ("8.0", (11, 8)),
        ("8.6", (11, 8)),
        ("9.0", (11, 8)),
        ("10.0", (12, 8)),
        ("12.0", (12, 8)),
        ("12.1", (12, 9)),
        ("13.0", (12, 9)),
    ],
)
def test_the_oldest_compiler_for_a_gpu(capability, oldest):
    before = (oldest[0], oldest[1] - 1) if oldest[1] else (oldest[0] - 1, 9)
    assert allreduce_nvcc.refusal(Nvcc("/nvcc", (*oldest, 1)), capability) is None
    said = allreduce_nvcc.refusal(Nvcc("/nvcc", (*before, 1)), capability)
    assert f"too old for GPUs of compute capability {capability}; legal: CUDA {oldest[0]}.{oldest[1]} or newer" in said


def test_a_gpu_that_is_too_old():
    assert "legal: 8.0 or newer" in allreduce_nvcc.refusal(Nvcc("/nvcc", (12, 9, 1)), "7.5")
    with pytest.raises(TuningError, match="two numbers"):
        allreduce_nvcc.refusal(Nvcc("/nvcc", (12, 9, 1)), "sm_90")


def nvcc(folder, text: str):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "nvcc"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_compiler_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(allreduce_nvcc, "FOLDERS", str(tmp_path / "cuda"))
    with pytest.raises(TuningError, match=r"nvcc: not found in .*custom_allreduce_nvcc"):
        allreduce_nvcc.find("", str(tmp_path))
    wheel = nvcc(tmp_path / "nvidia" / "cu13" / "bin", f"cat <<'E'\n{SAID}E")
    assert allreduce_nvcc.find("", str(tmp_path)) == Nvcc(str(wheel), (13, 0, 88))
    toolkit = nvcc(tmp_path / "cuda", f"cat <<'E'\n{SAID}E")
    assert allreduce_nvcc.find("", str(tmp_path)).path == str(toolkit)
    assert allreduce_nvcc.find(str(wheel), "").path == str(wheel)


@pytest.mark.parametrize(
    ("text", "words"), [("exit 3", "exit status 3"), ("sleep 60", "no end within"), ("echo gcc", "is no CUDA compiler")]
)
def test_a_compiler_that_does_not_answer(tmp_path, monkeypatch, text, words):
    monkeypatch.setattr(allreduce_nvcc, "ANSWER_SECONDS", 0.5)
    with pytest.raises(TuningError, match=words):
        allreduce_nvcc.find(str(nvcc(tmp_path, text)), "")
    with pytest.raises(TuningError, match="no such program"):
        allreduce_nvcc.find(str(tmp_path), "")


# The build

FILES = {"build.py": b'FLAGS = ("-O3", "-shared")\n', "pyproject.toml": b"[project]\n", "csrc/a.cu": b"kernel"}


def stamp(files=None, **changes) -> dict:
    made = {"nvcc": "13.0.88", "driver": "580.95.05", "torch": "2.11.0", "sm": "12.0", "date": "2026-11-29T12:00:00Z"}
    return allreduce_stamp.stamp(files or FILES, **(made | changes))


def test_a_build_is_current_whatever_its_date():
    assert stamp()["flags"] == "-O3 -shared"
    assert allreduce_stamp.reasons_to_build(stamp(), stamp(date="2027-01-01T00:00:00Z")) == []
    assert stamp()["digest"] == stamp(date="2027-01-01T00:00:00Z")["digest"]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (stamp(nvcc="13.1.2"), "nvcc: was 13.0.88, is 13.1.2"),
        (stamp(driver="590.1"), "driver: was 580.95.05, is 590.1"),
        (stamp(torch="2.12.0"), "torch: was 2.11.0, is 2.12.0"),
        (stamp(sm="9.0"), "sm: was 12.0, is 9.0"),
        (stamp(FILES | {"build.py": b'FLAGS = ("-O2",)\n'}), "flags: was -O3 -shared, is -O2"),
        (stamp(FILES | {"csrc/a.cu": b"another"}), "source: was "),
        (stamp(FILES | {"csrc/b.cu": b""}), "source: was "),
    ],
)
def test_the_reason_to_build_again(wanted, reason):
    reasons = allreduce_stamp.reasons_to_build(stamp(), wanted)
    assert any(found.startswith(reason) for found in reasons), reasons
    assert wanted["digest"] != stamp()["digest"]


def test_nothing_and_a_damaged_stamp():
    assert allreduce_stamp.reasons_to_build(None, stamp()) == ["nothing is installed"]
    for damaged in ({}, [], "x", stamp() | {"nvcc": "1.0"}):
        assert allreduce_stamp.reasons_to_build(damaged, stamp()) == ["the stamp of the installed build is damaged"]


def test_names_and_contents_are_told_apart():
    one, other = {"a": b"bc", "d": b""}, {"ab": b"c", "d": b""}
    assert allreduce_stamp.source_digest(one) != allreduce_stamp.source_digest(other)


def test_a_project_travels_whole_and_without_what_was_made_of_it(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "csrc" / "__pycache__").mkdir()
    for made in ("csrc/__pycache__/x.pyc", "libx.so", "table.json", "stamp.json", ".hidden"):
        (tmp_path / made).write_bytes(b"made")
    packed = allreduce_project.pack(allreduce_project.read(str(tmp_path)))
    assert packed == allreduce_project.pack(FILES)
    assert allreduce_project.unpack(packed) == FILES


@pytest.mark.parametrize(
    "text", ["", "!", "aGVsbG8=", allreduce_project.pack({"../x": b""}), allreduce_project.pack({"/x": b""})]
)
def test_no_project(tmp_path, text):
    with pytest.raises(TuningError, match=r"source: .*[Ll]egal: "):
        allreduce_project.unpack(text)
    with pytest.raises(TuningError, match=r"has no pyproject\.toml"):
        allreduce_project.read(str(tmp_path))


def test_a_command_is_bounded_and_quoted():
    assert bounded_command.run(
        ["/bin/sh", "-c", "echo out; echo 'fatal: x' >&2; echo y >&2; exit 3"], 10, {}
    ).failure == ("exit status 3; it said: fatal: x")
    assert (
        bounded_command.run(["/bin/sh", "-c", "sleep 60 & wait"], 0.3, {}).failure
        == "no end within 0.3 s; it was stopped"
    )
    assert bounded_command.run(["/nowhere"], 1, {}).failure == "cannot be started: No such file or directory"


# The measurement

WANTED = Wanted([3, 1], 7168, 0.05, "peer", True)


def table(**changes) -> dict:
    row = {"bytes": 14336, "algorithm": "one_shot", "blocks": 8, "threads": 256, "us": 2.5, "nccl_us": 12.0}
    whole = {
        "enabled": True,
        "reason": "it won",
        "build": "abc",
        "transport": "peer",
        "hidden": 7168,
        "margin": 0.05,
        "required_rows": [1, 3],
        "rows": [row],
        "pcie_ipc": {"rows": [], "reason": "no FlashInfer"},
    }
    return signed(whole | changes)


def test_figures_are_kept_as_long_as_they_answer_the_question():
    assert reasons_to_measure(table(), "abc", WANTED) == []
    assert reasons_to_measure(None, "abc", WANTED) == ["nothing was measured yet"]
    assert reasons_to_measure(table(), "def", WANTED) == ["build: was abc, is def"]
    other = Wanted([1, 2], 5120, 0.1, "host_staged", True)
    assert [reason.partition(":")[0] for reason in reasons_to_measure(table(), "abc", other)] == [
        "transport",
        "hidden",
        "margin",
        "required_rows",
    ]


def test_a_table_without_a_look_at_sglangs_own_kernel_is_measured_anew():
    without = table()
    del without["pcie_ipc"]
    without = signed(without)
    assert reasons_to_measure(without, "abc", WANTED) == ["SGLang's own pcie_ipc was not looked at, and shall be"]
    assert reasons_to_measure(without, "abc", WANTED._replace(pcie_ipc=False)) == []
    assert reasons_to_measure(table(), "abc", WANTED._replace(pcie_ipc=False)) == [
        "SGLang's own pcie_ipc was looked at, and shall not be"
    ]


def rivalled(us: float, pcie_ipc_us: float, **changes) -> dict:
    rows = [{"bytes": 43008, "us": us, "pcie_ipc_us": pcie_ipc_us, "pcie_ipc": ["UNSTAGED", 16, 128]}]
    return table(pcie_ipc={"rows": rows, "reason": None}, **changes)


def test_who_loses_against_sglangs_own_kernel_stays_off_and_hears_by_how_much():
    lost = judged(rivalled(3.0, 2.5))
    assert (lost["enabled"], lost["reason"]) == (
        False,
        "43008 bytes: 3.00 us, 20 % slower than SGLang's own pcie_ipc with 2.50 us. Profile pcie_ipc is the faster one here",
    )
    assert switched(lost, True)["won"] is False
    assert verdict(lost)[-1] == "   43008 bytes:    3.00 us, SGLang's own pcie_ipc 2.50 us in the same run"
    for within in (rivalled(2.6, 2.5), rivalled(2.0, 2.5), table()):
        assert judged(within) == within
    off = rivalled(3.0, 2.5, enabled=False, reason="slower than NCCL")
    assert judged(off)["reason"] == "slower than NCCL"


def test_where_sglangs_own_kernel_is_not_the_reason_is_shown():
    assert verdict(table())[-1] == "SGLang's own pcie_ipc was not measured: no FlashInfer"


class Place:
    interpreter = "/opt/python"

    def __init__(self, folder):
        self.folder = str(folder)


def proof_that_says(monkeypatch, folder, answers: list) -> tuple:
    """A proof whose command line says these, and the words it was asked with."""
    asked = []

    def run(argv, _timeout, _environment):
        asked.append(argv[3:])
        return bounded_command.Ended(0, json.dumps(answers.pop(0)), "", "")

    monkeypatch.setattr(allreduce_proof.bounded_command, "run", run)
    return allreduce_proof.Proof(Place(folder), {}, 5, "/lines"), asked


LOST = {"error": "probe, rank 1: stores of rank 0 do not arrive here within 2 s", "stores_arrive": False}


def test_where_stores_do_not_arrive_the_hosts_memory_is_taken_and_said(monkeypatch, tmp_path):
    proof, asked = proof_that_says(
        monkeypatch, tmp_path, [LOST, {"error": None}, table(transport="host_staged"), {"error": "none"}]
    )
    wanted = WANTED._replace(fallback=True)
    proved = proof.check(wanted)
    assert proved.transport == "host_staged"
    measured = proof.tune(proved)
    assert asked[-1][0] == "compare"  # whose transport is that of the table
    words = [argv[argv.index("--transport") + 1] for argv in asked[:-1]]
    assert words == ["peer", "host_staged", "host_staged"]
    assert all(argv[argv.index("--progress") + 1] == "/lines" for argv in asked)
    assert verdict(measured)[1] == (
        "peer memory cannot be used: probe, rank 1: stores of rank 0 do not arrive here within 2 s. Data goes through the host's memory"
    )
    # It is not measured again because of it, until somebody asks for peer memory by name.
    assert reasons_to_measure(measured, "abc", wanted) == []
    assert reasons_to_measure(measured, "abc", WANTED) == ["transport: was host_staged, is peer"]


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (LOST, WANTED),
        ({"error": "a wrong sum"}, WANTED._replace(fallback=True)),
        (LOST, WANTED._replace(fallback=True, transport="host_staged")),
    ],
)
def test_nothing_else_falls_back(monkeypatch, tmp_path, answer, wanted):
    proof, asked = proof_that_says(monkeypatch, tmp_path, [answer])
    (tmp_path / "table.json").write_text("{}")
    with pytest.raises(TuningError, match=r"not proved on this node: .* It is installed and off"):
        proof.check(wanted)
    assert len(asked) == 1
    assert not (tmp_path / "table.json").exists()


def test_a_table_that_is_not_the_one_that_was_written_is_measured_anew(monkeypatch, tmp_path):
    proof, _asked = proof_that_says(monkeypatch, tmp_path, [table(), {"error": "none"}])
    proof.tune(WANTED)
    whole = proof.table()
    assert reasons_to_measure(whole, "abc", WANTED) == []
    damaged = ["the table is damaged, or not the one that was written here"]
    for name in whole:
        assert reasons_to_measure({key: whole[key] for key in whole if key != name}, "abc", WANTED) == damaged
    faster = dict(whole, rows=[dict(whole["rows"][0], us=0.1)])
    assert reasons_to_measure(faster, "abc", WANTED) == damaged
    for text in ("", "[1]", "null", '"x"', "7", "[" * 100000, '{"a":' * 100000, "\udcff"):
        (tmp_path / "table.json").write_bytes(text.encode("utf-8", "surrogateescape"))
        assert reasons_to_measure(proof.table(), "abc", WANTED) == damaged


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("/nowhere", path)])
def test_what_stands_in_the_place_of_a_table_gives_way(monkeypatch, tmp_path, make):
    path = tmp_path / "table.json"
    proof, _asked = proof_that_says(monkeypatch, tmp_path, [table(), {"error": "none"}, {"error": "a wrong sum"}])
    make(path)
    assert reasons_to_measure(proof.table(), "abc", WANTED) == [
        "the table is damaged, or not the one that was written here"
    ]
    proof.tune(WANTED)
    assert [entry.name for entry in tmp_path.iterdir()] == ["table.json"]
    assert (proof.table()["enabled"], path.is_symlink(), path.stat().st_mode & 0o777) == (True, False, 0o644)
    path.unlink()
    make(path)
    with pytest.raises(TuningError, match="a wrong sum"):
        proof.check(WANTED)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_on_before_the_verdict_is_there(monkeypatch, tmp_path):
    seen = []

    def run(argv, _timeout, _environment):
        if "compare" in argv:
            seen.append(json.loads((tmp_path / "table.json").read_text()))
        return bounded_command.Ended(0, json.dumps({"error": "none"} if "compare" in argv else table()), "", "")

    monkeypatch.setattr(allreduce_proof.bounded_command, "run", run)
    proof = allreduce_proof.Proof(Place(tmp_path), {}, 5)
    assert proof.tune(WANTED)["enabled"] is True
    assert [found["enabled"] for found in seen] == [False]
    for pcie_ipc in (True, False):  # as long as it is not measured again, it stays off
        assert reasons_to_measure(seen[0], "abc", WANTED._replace(pcie_ipc=pcie_ipc)) == [
            "the comparison with SGLang's own pcie_ipc has not ended"
        ]


def test_a_folder_that_cannot_be_written_is_told_before_it_is_measured(monkeypatch, tmp_path):
    proof, _asked = proof_that_says(monkeypatch, tmp_path, [])
    proof.refuse_unwritable()
    monkeypatch.setattr(allreduce_proof.os, "access", lambda _path, _mode: False)
    with pytest.raises(TuningError, match=r"cannot be written; legal: .* Add become: true"):
        proof.refuse_unwritable()

    def full(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(allreduce_proof.os, "replace", full)
    with pytest.raises(TuningError, match=r"table\.json: cannot be written: No space left on device; legal: "):
        proof.switch(table(), False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ('hello\n{\n  "error": null\n}\n', None),
        ('{greeting}\n{"error": "x"}\n', "x"),
        ("{}", "exit status 0; it said: {}"),
        ("", "exit status 0; it said: nothing"),
        ("[1]", "exit status 0; it said: [1]"),
    ],
)
def test_what_a_command_line_says_behind_other_words(monkeypatch, tmp_path, said, error):
    ended = bounded_command.Ended(0, said, "", "")
    monkeypatch.setattr(allreduce_proof.bounded_command, "run", lambda *_arguments: ended)
    assert allreduce_proof.Proof(Place(tmp_path), {}, 5)._ask(["check"], WANTED)["error"] == error


def test_processes_on_the_gpus_are_named():
    text = "4242, 70000, /opt/python\n4242, 69000, /opt/python\n17, [N/A], [Not Found]\nNo running processes found\n"
    assert gpu_processes.parse(text) == [
        "process 17 ([Not Found]) with 0 MiB",
        "process 4242 (/opt/python) with 139000 MiB",
    ]
    assert gpu_processes.parse("") == []
    many = gpu_processes.Users([f"process {number}" for number in range(11)], None)
    assert many.words.endswith("process 7; and 3 more")


def test_without_nvidia_smi_it_is_not_known_who_uses_the_gpus(monkeypatch):
    monkeypatch.setattr(bounded_command, "PATH", "/nowhere")
    found = gpu_processes.users()
    assert (found.found, found.unknown) == ([], "nvidia-smi: cannot be started: No such file or directory")


def test_other_gpus_are_measured_anew():
    eight = WANTED._replace(world=8, gpu="G")
    measured = table(world=8, model="G")
    assert reasons_to_measure(measured, "abc", eight) == []
    assert reasons_to_measure(measured, "abc", eight._replace(world=4)) == ["world: was 8, is 4"]
    assert reasons_to_measure(measured, "abc", eight._replace(gpu="H")) == ["model: was G, is H"]


ASKED = {"rows": [1, 2, 3], "hidden": 7168, "margin": 0.05, "world": 0, "timeout": 300}


@pytest.mark.parametrize(
    "changes", [{}, {"rows": "1,2,3"}, {"rows": ["1", 2, 3]}, {"hidden": "7168", "margin": "0.05", "world": "0"}]
)
def test_a_question_may_come_from_a_command_line(changes):
    question = question_of(ASKED | changes)
    assert question == ([1, 2, 3], 7168, 0.05, 0)
    assert question.longest_bytes == 64 * 7168 * 2
    assert question_of(ASKED | changes | {"rows": "128"}).longest_bytes == 128 * 7168 * 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"rows": []},
            r"custom_allreduce_rows: \[\]; legal: one whole number or more\. Set it, for instance, to \[1, 2, 3\]",
        ),
        ({"rows": ""}, "custom_allreduce_rows: ''; legal: one whole number or more"),
        ({"rows": [0]}, "custom_allreduce_rows: 0; legal: a whole number from 1 to 65536"),
        ({"rows": "[1, 2]"}, r"custom_allreduce_rows: '\[1'; legal: a whole number"),
        ({"rows": [1.5]}, "custom_allreduce_rows: 1.5; legal: a whole number"),
        ({"rows": [65536], "hidden": 1 << 20}, "legal: messages up to 1073741824 bytes"),
        ({"hidden": 4}, "custom_allreduce_hidden: 4; legal: a whole number from 8 to 1048576"),
        ({"hidden": "many"}, "custom_allreduce_hidden: 'many'"),
        ({"hidden": True}, "custom_allreduce_hidden: True"),
        ({"margin": 1}, "custom_allreduce_margin: 1; legal: a number from 0 to 0.9"),
        ({"margin": "nan"}, "custom_allreduce_margin: 'nan'"),
        ({"world": 1}, "custom_allreduce_world: 1; legal: 2 to 8, or 0 for all GPUs"),
        ({"timeout": 0}, "custom_allreduce_tune_timeout: 0; legal: a whole number from 1 to 86400"),
    ],
)
def test_a_question_that_makes_no_sense(changes, words):
    with pytest.raises(TuningError, match=words):
        question_of(ASKED | changes)


def test_on_only_where_it_won_and_is_wanted():
    lost = table(enabled=False, reason="it lost by 3 %")
    assert [switched(made, True)["enabled"] for made in (table(), lost)] == [True, False]
    off = switched(table(), False)
    assert (off["enabled"], off["reason"]) == (False, "custom_allreduce_enable is false")
    assert (switched(off, True)["enabled"], switched(off, True)["reason"]) == (True, "it won")
    assert switched(switched(lost, False), True)["reason"] == "it lost by 3 %"
    assert switched(switched(table(), True), True) == switched(table(), True)


def test_what_is_printed():
    builds = {
        "a": {"reasons": ["nothing is installed"], "remarks": ["through the host"], "changed": True},
        "b": {"reasons": [], "remarks": []},
        "c": {"changed": True},
    }
    assert allreduce_lines(builds, {"a": {"lines": ["custom all-reduce on: it won"]}, "c": {"skipped": True}}) == [
        "",
        "a: built, because nothing is installed",
        "a: through the host",
        "a: custom all-reduce on: it won",
        "b: the build is current",
        "c: custom all-reduce removed",
    ]
    assert allreduce_lines({}, {}) == []
