# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""build_allreduce.yml without a GPU. The compiler, the facts and the figures are STAND-INS; package, wheel, pip and decision are real.

Nothing here says that the kernel compiles or that its sums are right: tests/gpu does.
"""

from __future__ import annotations

import fcntl
import json
import os
import sysconfig
from pathlib import Path

import played_nvcc
import pytest
from fleet import MINOR, PLAYBOOKS, make_venv, script
from recorded_nodes import facts_of

PLAYBOOK = PLAYBOOKS / "build_allreduce.yml"
TOOLS = ("pip", "setuptools", "_distutils_hack", "packaging", "wheel")
# Plays the figures of the GPUs: what `python -m pcie_allreduce check|tune` prints.
FIGURES = """
import json, os, sys
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from pcie_allreduce import settings
name = sys.argv[1]
open(os.environ["CALLS"], "a").write(" ".join(sys.argv[1:]) + "\\n")
if name == "check":
    print(json.dumps({"error": os.environ.get("CHECK_ERROR") or None}))
    sys.exit(0)
if name == "compare":
    theirs = os.environ.get("PCIE_IPC_US")
    rows = [{"bytes": 14336, "us": float(os.environ["US"]), "pcie_ipc_us": float(theirs)}] if theirs else []
    print(json.dumps({"error": None if theirs else "no FlashInfer", "rows": rows}))
    sys.exit(0)
open(sys.argv[sys.argv.index("--progress") + 1], "a").write("measures size 1 of 1: 14336 bytes" + chr(10))
us = float(os.environ["US"])
row = {"bytes": 14336, "algorithm": "one_shot", "blocks": 8, "threads": 256, "us": us, "nccl_us": 10.0}
required = [int(word) for word in sys.argv[sys.argv.index("--required-rows") + 1:sys.argv.index("--hidden")]]
won = us < 9.5
print(json.dumps({"enabled": won, "reason": "it won" if won else "14336 bytes: %.2f us, lost" % us, "rows": [row],
    "build": settings.build_of(settings.stamp()), "transport": sys.argv[sys.argv.index("--transport") + 1],
    "hidden": int(sys.argv[sys.argv.index("--hidden") + 1]), "world": int(sys.argv[sys.argv.index("--world") + 1]),
    "margin": 0.05, "required_rows": sorted(required)}))
"""


def facts(**software) -> dict:
    found = facts_of("rtx-pro-6000-x8-switch")
    found["software"].update({"interpreter": "/opt/python", "torch": "2.11.0"} | software)
    found["dev_shm_mib"] = 4096
    return found


def compiler(folder: Path, version: str = "12.9", abi: int = played_nvcc.ABI, body: str | None = None) -> str:
    """A stand-in for nvcc that says this version."""
    text = played_nvcc.script_of(version, played_nvcc.compiles_with_gcc(abi) if body is None else body)
    return str(script(folder / f"nvcc-{version}-{abi}", text))


class Built:
    """A node with an environment of its own, in which only the tools that a build needs are those of the tests."""

    def __init__(self, fleet, name: str = "a", **host_vars):
        self.fleet = fleet
        self.node = fleet.node(name)
        python = make_venv(self.node.root / "venv", Path(self.node.own_python()))
        self.packages = self.node.root / "venv" / "lib" / MINOR / "site-packages"
        ours = Path(sysconfig.get_path("purelib"))
        for tool in TOOLS:
            for path in [ours / tool, *ours.glob(f"{tool}-*.dist-info")]:
                if path.exists():
                    (self.packages / path.name).symlink_to(path)
        self.calls = self.node.scratch / "calls"
        self.node.vars |= {
            "nccl_env_scope": "system",
            "nccl_env_interpreter": str(python),
            "custom_allreduce_nvcc": compiler(self.node.scratch),
            "tuning_gpu_facts": facts(),
        } | host_vars

    @property
    def folder(self) -> Path:
        return self.packages / "pcie_allreduce"

    def play(self, *arguments: str, **host_vars):
        self.node.vars |= host_vars
        return self.fleet.play(*arguments, playbook=PLAYBOOK)

    def play_figures(self, **environment: str) -> None:
        """From here on the installed package says these figures instead of asking GPUs."""
        (self.folder / "__main__.py").write_text(FIGURES)
        self.calls.write_text("")
        self.node.vars["nccl_env_service_environment"] = {"CALLS": str(self.calls), **environment}

    def stamp(self) -> dict:
        return json.loads((self.folder / "stamp.json").read_text())

    def result(self, play, module: str) -> dict:
        return [
            entry["result"] for entry in play.of(self.node, "ok") if entry["action"] == f"gpu_node.tuning.{module}"
        ][-1]


def test_built_proved_measured_enabled_kept_rebuilt_and_removed(fleet):
    built = Built(fleet)
    before = sorted(path.name for path in built.packages.iterdir())
    looked = built.play("--check")
    assert looked.rc == 0, str(looked)
    assert built.result(looked, "allreduce_build")["reasons"] == ["nothing is installed"]
    assert [path for path in looked.touched(built.node) if "venv" in path] == []

    unproved = built.play()  # the real command line: this environment has no torch
    assert unproved.rc == 2, str(unproved)
    assert "not proved on this node: " in unproved.message(built.node)
    assert "It is installed and off." in unproved.message(built.node)
    assert "\na: compiles for SM 12.0 with " in unproved.stdout
    assert "\na: installed into " in unproved.stdout
    assert {path.name for path in built.packages.iterdir()} - set(before) == {
        "pcie_allreduce",
        "pcie_allreduce-1.0.0.dist-info",
    }
    entry_points = (built.packages / "pcie_allreduce-1.0.0.dist-info" / "entry_points.txt").read_text()
    assert entry_points.split() == [
        "[sglang.srt.plugins]",
        "pcie_allreduce",
        "=",
        "pcie_allreduce.sglang_plugin:register",
    ]
    assert (built.stamp()["nvcc"], built.stamp()["torch"], built.stamp()["sm"]) == ("12.9.88", "2.11.0", "12.0")

    built.play_figures(US="3.0")
    measured = built.play()
    assert measured.rc == 0, str(measured)
    assert built.result(measured, "allreduce_build")["changed"] is False
    assert built.result(measured, "allreduce_tune")["enabled"] is True
    assert "a: custom all-reduce on: it won" in measured.stdout
    assert "\na: measures size 1 of 1: 14336 bytes\n" in measured.stdout
    assert [line.split()[0] for line in built.calls.read_text().splitlines()] == ["check", "tune", "compare"]
    assert "a: SGLang's own pcie_ipc was not measured: no FlashInfer" in measured.stdout
    table = built.folder / "table.json"
    assert json.loads(table.read_text())["enabled"] is True
    assert table.stat().st_mode & 0o777 == 0o644

    again = built.play()
    assert again.rc == 0, str(again)
    assert again.recap(built.node)["changed"] == 0
    assert len(built.calls.read_text().splitlines()) == 3

    by_hand = built.play(
        "-e", "custom_allreduce_hidden=7168", "-e", "custom_allreduce_rows=1,2,3,4,8"
    )  # text, not numbers
    assert by_hand.rc == 0, str(by_hand)
    assert by_hand.recap(built.node)["changed"] == 0
    fewer = built.play("--check", "-e", "custom_allreduce_world=4")
    assert built.result(fewer, "allreduce_tune")["reasons"] == ["world: was 8, is 4"]

    off = built.play(custom_allreduce_enable=False)
    assert "installed, but off: custom_allreduce_enable is false" in off.stdout
    assert json.loads(table.read_text())["enabled"] is False
    on = built.play(custom_allreduce_enable=True)
    assert json.loads(table.read_text())["enabled"] is True, str(on)
    assert len(built.calls.read_text().splitlines()) == 3

    newer = built.play("--check", "--diff", custom_allreduce_nvcc=compiler(built.node.scratch, "13.0"))
    assert newer.rc == 0, str(newer)
    assert "a: built, because nvcc: was 12.9.88, is 13.0.88" in newer.stdout
    assert built.result(newer, "allreduce_tune")["reasons"][0].startswith("build: was ")
    assert built.stamp()["nvcc"] == "12.9.88"
    rebuilt = (
        built.play()
    )  # the real command line again, so its proof fails, and the old figures must not stay in force
    assert rebuilt.rc == 2, str(rebuilt)
    assert built.stamp()["nvcc"] == "13.0.88"
    assert not table.exists()

    removed = built.play("-e", "custom_allreduce_state=absent")
    assert removed.rc == 0, str(removed)
    assert sorted(path.name for path in built.packages.iterdir() if path.name != "__pycache__") == before
    gone = built.play("-e", "custom_allreduce_state=absent")
    assert gone.recap(built.node)["changed"] == 0
    assert "a: custom all-reduce is not there" in gone.stdout


def test_off_where_sglangs_own_kernel_is_faster(fleet):
    built = Built(fleet)
    built.play()
    built.play_figures(US="3.0", PCIE_IPC_US="2.5")
    lost = built.play()
    assert lost.rc == 0, str(lost)
    assert built.result(lost, "allreduce_tune")["enabled"] is False
    assert (
        "installed, but off: 14336 bytes: 3.00 us, 20 % slower than SGLang's own pcie_ipc with 2.50 us" in lost.stdout
    )
    not_asked = built.play(custom_allreduce_pcie_ipc=False)
    assert built.result(not_asked, "allreduce_tune")["enabled"] is True


def test_off_where_it_lost_and_no_table_where_a_sum_is_wrong(fleet):
    built = Built(fleet)
    built.play()
    built.play_figures(US="11.0")
    lost = built.play()
    assert lost.rc == 0, str(lost)
    assert "a: custom all-reduce installed, but off: 14336 bytes: 11.00 us, lost" in lost.stdout
    assert json.loads((built.folder / "table.json").read_text())["enabled"] is False

    built.play_figures(US="3.0", CHECK_ERROR="a wrong sum")
    wrong = built.play(custom_allreduce_rows=[1])
    assert wrong.rc == 2, str(wrong)
    assert "transport peer: not proved on this node: a wrong sum. It is installed and off." in wrong.message(built.node)
    assert not (built.folder / "table.json").exists()


def test_what_was_damaged_is_made_anew_and_two_runs_do_not_meet(fleet):
    built = Built(fleet)
    built.play()
    built.play_figures(US="3.0")
    built.play()
    table = built.folder / "table.json"
    whole = json.loads(table.read_text())
    table.write_text(json.dumps({name: whole[name] for name in whole if name != "rows"}))
    (built.packages / "sitecustomize.py").write_text("print('some words of its own')\n")
    mended = built.play()
    assert mended.rc == 0, str(mended)
    assert built.result(mended, "allreduce_tune")["reasons"] == [
        "the table is damaged, or not the one that was written here"
    ]
    assert json.loads(table.read_text())["rows"] == whole["rows"]

    (built.folder / "stamp.json").write_text("[1]")
    looked = built.play("--check")
    assert built.result(looked, "allreduce_build")["reasons"] == ["the stamp of the installed build is damaged"]
    descriptor = os.open(built.packages, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    for options in ((), ("-e", "state=absent")):
        held = built.play(*options)
        assert held.rc == 2, str(held)
        assert "another run installs, measures or removes the custom all-reduce here" in held.message(built.node)
    os.close(descriptor)
    assert table.exists()


BAD = {
    "no compiler": ({"custom_allreduce_nvcc": "/nowhere/nvcc"}, ["nvcc '/nowhere/nvcc': no such program"]),
    "too old": (
        {"custom_allreduce_nvcc": ("12.4", 2, None)},
        ["version 12.4.88 is too old for GPUs of compute capability 12.0", "CUDA 12.8 or newer"],
    ),
    "fails": (
        {"custom_allreduce_nvcc": ("12.8", 2, "echo 'nvcc fatal: no host compiler' >&2; exit 1")},
        ["did not build", "no host compiler", "Nothing was installed"],
    ),
    "hangs": (
        {"custom_allreduce_nvcc": ("12.8", 2, "sleep 100"), "custom_allreduce_build_timeout": 4},
        ["did not build", "no end within 4 s; it was stopped", "custom_allreduce_build_timeout"],
    ),
    "other abi": ({"custom_allreduce_nvcc": ("12.9", 3, None)}, ["has ABI 3, and this package needs 2"]),
    "relative": (
        {"custom_allreduce_interpreter": "python3"},
        ["interpreter 'python3': legal: an absolute path. Set custom_allreduce_interpreter"],
    ),
    "build timeout": (
        {"custom_allreduce_build_timeout": 0},
        ["build_timeout (role variable custom_allreduce_build_timeout): 0.0; legal: a number from 0.1"],
    ),
    "no rows": ({"custom_allreduce_rows": []}, ["custom_allreduce_rows: []; legal: one whole number or more"]),
    "margin": ({"custom_allreduce_margin": 5}, ["custom_allreduce_margin: 5; legal: a number from 0 to 0.9"]),
    "world": ({"custom_allreduce_world": 9}, ["custom_allreduce_world: 9; legal: 2 to 8"]),
    "tune timeout": ({"custom_allreduce_tune_timeout": 0}, ["custom_allreduce_tune_timeout: 0; legal: a whole number"]),
    "no torch": ({"tuning_gpu_facts": {"torch": None}}, ["has no torch", "custom_allreduce_interpreter"]),
}


@pytest.mark.parametrize("name", BAD)
def test_refused_with_nothing_half_installed(fleet, name):
    changes, words = BAD[name]
    built = Built(fleet)
    changes = dict(changes)
    nvcc = changes.get("custom_allreduce_nvcc")
    if isinstance(nvcc, tuple):
        version, abi, body = nvcc
        changes["custom_allreduce_nvcc"] = compiler(built.node.scratch, version, abi, body)
    if "tuning_gpu_facts" in changes:
        changes["tuning_gpu_facts"] = facts(**changes["tuning_gpu_facts"])
    play = built.play(**changes)
    assert play.rc == 2, str(play)
    said = play.message(built.node)
    assert [word for word in words if word not in said] == [], said
    assert list(built.packages.glob("pcie_allreduce*")) == []
