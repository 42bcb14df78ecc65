# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""build.py of the all-reduce, and what the check of its kernels reads out of the compiler's words."""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load(path: str, *folders: str):
    for folder in folders:
        sys.path.insert(0, str(ROOT / folder))
    try:
        spec = importlib.util.spec_from_file_location(Path(path).stem + "_under_test", ROOT / path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        for folder in folders:
            sys.path.remove(str(ROOT / folder))


build = load("roles/custom_allreduce/files/pcie_allreduce/build.py")
check = load("tests/checks/allreduce_compile.py", "tests/checks")
reference = load("tests/gpu/allreduce_reference.py")
machine = load("tests/gpu/allreduce_this_machine.py", "tests/gpu")


@pytest.mark.parametrize(
    ("written", "number"), [("12.0", 120), ("120", 120), ("sm_90", 90), (" 8.0", 80), ("10.3", 103)]
)
def test_compute_capability(written, number):
    assert build.sm_number(written) == number


@pytest.mark.parametrize(
    ("written", "words"), [("twelve", "legal are forms like"), ("7.5", "8.0 or newer"), ("", "legal are forms")]
)
def test_compute_capability_is_refused(written, words):
    with pytest.raises(build.BuildError, match=words):
        build.sm_number(written)


def test_command_names_every_target_once():
    command = build.command("nvcc", ["12.0", "9.0", "sm_120"], "out.so")
    assert [word for word in command if word.startswith("-gencode")] == [
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_120,code=sm_120",
    ]
    assert command[0] == "nvcc"
    assert command[command.index("-o") + 1] == "out.so"


def test_command_needs_a_target():
    with pytest.raises(build.BuildError, match="name one with --sm"):
        build.command("nvcc", [], "out.so")


def stand_in(folder: Path, status: int) -> str:
    """A program in the place of nvcc, which writes its output file only when it succeeds."""
    path = folder / "nvcc"
    path.write_text(
        f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n[ {status} = 0 ] && echo library > "$2"\necho told\nexit {status}\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    return str(path)


def test_build_replaces_the_library(tmp_path, capsys):
    output = tmp_path / "library.so"
    assert build.build(stand_in(tmp_path, 0), ["9.0"], str(output)) == "told\n"
    assert output.read_text(encoding="utf-8") == "library\n"
    assert "-gencode=arch=compute_90" in capsys.readouterr().out


def test_failed_build_leaves_the_old_library(tmp_path):
    output = tmp_path / "library.so"
    output.write_text("old", encoding="utf-8")
    with pytest.raises(build.BuildError, match="nvcc ended with 3:\ntold"):
        build.build(stand_in(tmp_path, 3), ["9.0"], str(output))
    assert output.read_text(encoding="utf-8") == "old"
    assert sorted(os.listdir(tmp_path)) == ["library.so", "nvcc"]


def test_nvcc_that_was_named_is_not_replaced_by_another(tmp_path):
    assert build.find_nvcc(stand_in(tmp_path, 0)) == str(tmp_path / "nvcc")
    with pytest.raises(build.BuildError, match="name another with --nvcc"):
        build.find_nvcc(str(tmp_path / "absent"))


def test_nvcc_of_cuda_home_comes_first(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert build.find_nvcc(stand_in(tmp_path, 0)) == str(tmp_path / "nvcc")
    stand_in(tmp_path / "bin", 0)
    assert build.find_nvcc() == str(tmp_path / "bin" / "nvcc")


PTXAS = """\
ptxas info    : Compiling entry function '_Zkernel{number}' for 'sm_90'
ptxas info    : Function properties for _Zkernel{number}
    {stack} bytes stack frame, {spills} bytes spill stores, {spills} bytes spill loads
ptxas info    : Used {registers} registers, used 1 barriers
"""


def said(stack=0, spills=0, registers=40) -> str:
    good = [
        PTXAS.format(number=number, stack=0, spills=0, registers=40)
        for number in range(check.KERNELS * len(check.SMS) - 1)
    ]
    return "".join([*good, PTXAS.format(number="_last", stack=stack, spills=spills, registers=registers)])


def test_kernels_without_local_memory_pass():
    assert check.findings(said()) == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"stack": 16}, "16 bytes of local memory"),
        ({"spills": 8}, "8 + 8 bytes of spills"),
        ({"registers": 129}, "129 registers"),
    ],
)
def test_kernel_that_breaks_a_rule_is_named(wrong, words):
    (finding,) = check.findings(said(**wrong))
    assert "_Zkernel_last for sm_90" in finding
    assert words in finding


def test_missing_kernel_is_noticed():
    (finding,) = check.findings(said().split("ptxas info    : Compiling entry function '_Zkernel_last'")[0])
    assert f"{check.KERNELS * len(check.SMS) - 1} kernels" in finding


@pytest.mark.parametrize(
    ("dtype", "lanes", "output"),
    [
        (reference.BF16, [0x3F80, 0x3F80], 0x4000),
        (reference.BF16, [0x3F80, 0x3B80], 0x3F80),  # 1 + 1/256: half way, to even
        (reference.BF16, [0x3F81, 0x3B80], 0x3F82),
        (reference.BF16, [0x8000, 0x8000], 0x0000),  # sums start at +0.0
        (reference.FP16, [0x7BFF, 0x7BFF], 0x7C00),
        (reference.FP32, [0x3F800000, 0x33800000, 0x33800000], 0x3F800000),  # each rounds on its own, in order
        (reference.FP32, [0x33800000, 0x33800000, 0x3F800000], 0x3F800001),
    ],
)
def test_reference(dtype, lanes, output):
    assert reference.lane_of(dtype, reference.total_of(dtype, lanes)) == output
    inputs = [[lane] for lane in lanes]
    assert reference.difference(dtype, inputs, [output]) == ""
    assert "element 0" in reference.difference(dtype, inputs, [output ^ 1])


def test_reference_of_islands_adds_in_halves():
    lanes = [0x3F800000, 0x33800000, 0x33800000, 0x33800000]
    assert reference.lane_of(reference.FP32, reference.total_of(reference.FP32, lanes)) == 0x3F800000
    assert reference.lane_of(reference.FP32, reference.total_of(reference.FP32, lanes, islands=True)) == 0x3F800001


def test_reference_takes_any_nan_for_nan():
    infinities = [[0x7F80], [0xFF80]]
    assert reference.difference(reference.BF16, infinities, [0x7FFF]) == ""
    assert reference.difference(reference.BF16, infinities, [0x7F80]) != ""


SANITIZER = """========= COMPUTE-SANITIZER
2 processes, peer memory:
ok      probe: stores of every rank arrive at every other ({0: (0, 0)} after 0.01 s)
========= ERROR SUMMARY: 0 errors
=========
========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)
"""
FINDINGS = (
    "========= Invalid __global__ write of size 16 bytes",
    "========= ERROR SUMMARY: 3 errors",
    "========= ERROR SUMMARY: 10 errors",
    "========= Error: Race reported between Write access",
    "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)",
    "========= Error: process didn't terminate successfully",
)


def sanitized(monkeypatch, said: str, status: int | None):
    """(properties that hold, those that do not) where the tool says this."""
    monkeypatch.setattr(machine, "sanitizer_beside", lambda nvcc: "/opt/compute-sanitizer")
    monkeypatch.setattr(machine, "bounded", lambda command, seconds: (said, status))
    report = machine.Report()
    machine.under_sanitizer(report, ("l.so", "h.so"), types.SimpleNamespace(nvcc=None, sanitizer="memcheck"))
    return report.passed, len(report.failed)


def test_a_sanitizer_without_findings_holds(monkeypatch):
    assert sanitized(monkeypatch, SANITIZER, 0) == (2, 0)


@pytest.mark.parametrize("line", FINDINGS)
def test_every_finding_of_a_sanitizer_counts(monkeypatch, line):
    assert sanitized(monkeypatch, SANITIZER + line + "\n", 0) == (1, 1)


@pytest.mark.parametrize(("said", "status"), [("", 0), (SANITIZER, None), (SANITIZER, 86)])
def test_a_sanitizer_that_did_not_look_or_did_not_end_is_no_proof(monkeypatch, said, status):
    assert sanitized(monkeypatch, said, status) == (1, 1)


def test_without_a_sanitizer_it_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(machine, "sanitizer_beside", lambda nvcc: None)
    report = machine.Report()
    machine.under_sanitizer(report, ("l.so", "h.so"), types.SimpleNamespace(nvcc=None, sanitizer="memcheck"))
    assert report.failed
    assert "not run: compute-sanitizer is neither beside nvcc nor on PATH" in capsys.readouterr().out


def test_the_sanitizer_is_found_beside_the_nvcc_that_a_link_names(monkeypatch, tmp_path):
    folder = tmp_path / "cuda" / "bin"
    folder.mkdir(parents=True)
    for name in ("nvcc", "compute-sanitizer"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    (tmp_path / "nvcc").symlink_to(folder / "nvcc")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.sanitizer_beside(None) == str(folder / "compute-sanitizer")


def test_a_command_that_takes_too_long_ends(tmp_path):
    said, status = machine.bounded(["sh", "-c", "echo began; sleep 60 & wait"], 0.5)
    assert (said, status) == ("began\n", None)


def test_the_documented_prediction_is_the_models():
    model = load("tests/bench/allreduce_model.py")
    page = (ROOT / "docs" / "custom_allreduce.md").read_text(encoding="utf-8")
    assert "\n".join(model.table()) in page
