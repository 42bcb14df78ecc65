# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The installed package, where pip is stopped half way. Pip is a stand-in; tests/integration/test_allreduce.py has the real one."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import allreduce_environment
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_environment import Compiler, Environment
from ansible_collections.gpu_node.tuning.plugins.module_utils.bounded_command import Ended
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

INFO = "pcie_allreduce-1.0.0.dist-info"
NAMES = ("__init__.py", "sglang_plugin.py", "libpcie_allreduce.so")
OLD, NEW = {"digest": "old"}, {"digest": "new"}
STOPPED = Ended(None, "", "", "no end within 4 s; it was stopped")


def put(packages, stamp: dict) -> None:
    """What a pip that ends well leaves."""
    files = {f"pcie_allreduce/{name}": "" for name in NAMES}
    files["pcie_allreduce/stamp.json"] = json.dumps(stamp)
    files[f"{INFO}/entry_points.txt"] = "[sglang.srt.plugins]\npcie_allreduce = pcie_allreduce.sglang_plugin:register\n"
    record = [*files, "pcie_allreduce/__pycache__/__init__.cpython-312.pyc", f"{INFO}/RECORD"]
    files[f"{INFO}/RECORD"] = "".join(f"{name},sha256=x,1\n" for name in record)
    for name, text in files.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)


def set_aside(packages) -> None:
    """The first half of what pip does with a package that it replaces."""
    for name in ("pcie_allreduce", INFO):
        (packages / name).rename(packages / ("~" + name[1:]))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An environment with the old package, and ``pip`` to say what an install does: a function that returns how it ended."""
    packages = tmp_path / "site-packages"
    put(packages, OLD)
    place = Environment("/opt/python", str(packages), 4)
    place.pip = lambda: put(packages, NEW)

    def run(arguments, _cwd, _environment):
        if arguments[:3] == ["-m", "pip", "install"]:
            return place.pip() or Ended(0, "", "", "")
        return Ended(0, "70.0", "", "")

    monkeypatch.setattr(place, "_run", run)
    monkeypatch.setattr(place, "_compile", lambda *_arguments: None)
    monkeypatch.setattr(place, "_wheel", lambda _scratch: "a.whl")
    monkeypatch.setattr(place, "_refuse_without_tools", lambda: None)
    monkeypatch.setattr(allreduce_environment.os, "umask", lambda _mask: None)
    return place


def install(place) -> None:
    place.install({"pcie_allreduce/__init__.py": b""}, NEW, Compiler("/nvcc", "12.0"))


def test_a_whole_package_has_no_faults_and_is_replaced(place):
    assert place.faults() == []
    install(place)
    assert (place.stamp(), place.faults()) == (NEW, [])


@pytest.mark.parametrize("name", [f"pcie_allreduce/{name}" for name in NAMES] + [f"{INFO}/entry_points.txt"])
def test_a_file_that_is_gone_is_a_fault(place, tmp_path, name):
    (tmp_path / "site-packages" / name).unlink()
    assert place.faults() == [f"the installed package lacks {name}"]


def test_other_faults(place, tmp_path):
    packages = tmp_path / "site-packages"
    (packages / INFO / "entry_points.txt").write_text("[sglang.srt.plugins]\n")
    assert place.faults() == ["the installed package lacks entry point pcie_allreduce.sglang_plugin:register"]
    shutil.rmtree(packages / INFO)
    assert place.faults() == ["the installed package has 0 lists of its files"]


def test_a_pip_that_did_nothing_leaves_the_old_package(place):
    place.pip = lambda: STOPPED
    with pytest.raises(TuningError, match=r"it was stopped\. The old package is still there\. Legal: "):
        install(place)
    assert (place.stamp(), place.faults()) == (OLD, [])


@pytest.mark.parametrize("written", ["nothing", "half", "all but RECORD", "all"])
def test_a_pip_that_is_stopped_half_way_leaves_nothing(place, tmp_path, written):
    packages = tmp_path / "site-packages"

    def stopped():
        set_aside(packages)
        if written != "nothing":
            put(packages, NEW)
        if written == "half":
            shutil.rmtree(packages / INFO)
            (packages / "pcie_allreduce" / "sglang_plugin.py").unlink()
        if written == "all but RECORD":
            (packages / INFO / "RECORD").unlink()
        return STOPPED

    place.pip = stopped
    with pytest.raises(TuningError, match="No package is installed now"):
        install(place)
    assert list(packages.iterdir()) == []


def test_what_an_earlier_pip_left_is_a_fault_and_goes(place, tmp_path):
    packages = tmp_path / "site-packages"
    set_aside(packages)
    put(packages, OLD)
    assert place.faults() == [f"pip left ~cie_allreduce{end} behind" for end in ("", "-1.0.0.dist-info")]
    install(place)
    assert place.faults() == []
    set_aside(packages)
    assert place.remove() is True
    assert list(packages.iterdir()) == []


@pytest.mark.parametrize("text", ["[1]", "null", '"x"', "7", "[" * 100000, "{"])
def test_a_stamp_of_another_form_is_damaged(place, tmp_path, text):
    (tmp_path / "site-packages/pcie_allreduce/stamp.json").write_text(text)
    assert place.stamp() == {}


def test_a_fifo_keeps_nobody_waiting(place, tmp_path):
    for name in ("pcie_allreduce/stamp.json", f"{INFO}/RECORD"):
        (tmp_path / "site-packages" / name).unlink()
        os.mkfifo(tmp_path / "site-packages" / name)
    assert (place.stamp(), place.faults()) == ({}, ["the installed package has an empty list of its files"])


def test_another_package_of_a_similar_name_stays(place, tmp_path):
    packages = tmp_path / "site-packages"
    (packages / "pcie_allreduce_tools").mkdir()
    (packages / "pcie_allreduce-0.9.0.dist-info").symlink_to(tmp_path)
    assert place.remove() is True
    assert [path.name for path in packages.iterdir()] == ["pcie_allreduce_tools"]


@pytest.mark.parametrize("shut", ["", "pcie_allreduce", INFO])
def test_what_cannot_be_replaced_or_removed_whole_stays_whole(place, tmp_path, monkeypatch, shut):
    folder = str(tmp_path / "site-packages" / shut).rstrip("/")
    monkeypatch.setattr(allreduce_environment.os, "access", lambda path, _mode: path != folder)
    with pytest.raises(TuningError, match=rf"{folder}: cannot be removed; legal: .* Add become: true"):
        place.remove()
    with pytest.raises(
        TuningError, match=rf"{folder}: cannot be written; legal: .* Nothing was installed\. Add become: true"
    ):
        install(place)
    assert (place.stamp(), place.faults()) == (OLD, [])


def test_a_folder_that_cannot_be_read_is_not_an_empty_one(tmp_path, monkeypatch):
    monkeypatch.setattr(allreduce_environment.Interpreter, "resolve", lambda _self: {"purelib": str(tmp_path)})
    assert allreduce_environment.environment_of("/opt/python", 5, 5).packages == str(tmp_path)
    monkeypatch.setattr(allreduce_environment.os, "access", lambda _path, _mode: False)
    with pytest.raises(TuningError, match=r"cannot be read; legal: .* Add become: true"):
        allreduce_environment.environment_of("/opt/python", 5, 5)


def test_one_at_a_time(place, tmp_path):
    other = Environment("/opt/python", place.packages, 4)
    held = (
        "another run installs, measures or removes the custom all-reduce here; legal: one at a time. Wait for its end"
    )
    with place.alone(), pytest.raises(TuningError, match=held), other.alone():
        pass
    with other.alone(), pytest.raises(TuningError, match=held):
        install(place)
    assert (place.stamp(), place.faults()) == (OLD, [])
    install(place)
    shutil.rmtree(place.packages)  # pip has not made it yet
    with place.alone():
        assert list(tmp_path.iterdir()) == []


def test_an_interpreter_has_an_absolute_path():
    with pytest.raises(
        TuningError, match=r"interpreter 'python3': legal: an absolute path\. Set custom_allreduce_interpreter"
    ):
        allreduce_environment.environment_of("python3", 5, 5)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("hello\n70.1.0\n", None),
        ("60.9\n", "setuptools 60.9 of"),
        ("", "setuptools  of"),
        ("70\nbye", "setuptools bye of"),
    ],
)
def test_the_version_of_setuptools_comes_last(tmp_path, monkeypatch, said, words):
    place = Environment("/opt/python", str(tmp_path), 4)
    monkeypatch.setattr(place, "_run", lambda *_arguments: Ended(0, said, "", ""))
    if words is None:
        place._refuse_without_tools()
        return
    with pytest.raises(TuningError, match=words):
        place._refuse_without_tools()
