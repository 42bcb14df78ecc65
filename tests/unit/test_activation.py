# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back: to every generation, from every damage; byte for byte, or not at all."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import re
import shutil
import stat

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    generation_record,
    machine_identity,
    managed_block,
    sitecustomize_file,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.activation import activate
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_list import generation_list
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Service
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory
from ansible_collections.gpu_node.tuning.plugins.module_utils.tuning_plan import Wish
from ansible_collections.gpu_node.tuning.plugins.module_utils.tuning_transaction import tune
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import show

from .interpreters import PATIENCE, as_root, make_venv, times, tree, with_own_file
from .nodes import ENV, HOOK, OTHER_ENV, PlayedNode
from .rendering import rendered

GENERAL = b"import sys\nsys.flag = 1\n"


@pytest.fixture
def node(tmp_path):
    return PlayedNode(tmp_path)


@pytest.fixture
def tuned(node):
    """0: the hook; 1: known-good; 2: an experiment, which is current."""
    node.put(HOOK)
    node.tune()
    node.tune(OTHER_ENV, status="experimental")
    return node


# --- what can be asked for


@pytest.mark.parametrize(
    ("wanted", "number"),
    [("known_good", 1), ("previous", 1), ("1", 1), ("0001", 1), ("0", 0), ("0000", 0), ("2", 2)],
)
def test_every_way_to_name_a_generation(tuned, wanted, number):
    kept = {1: tuned.kept(1).read_bytes(), 0: HOOK, 2: tuned.bytes()}[number]
    current = tuned.bytes()
    before, moments = tree(tuned.root), times(tuned.root)
    predicted = tuned.rollback(wanted, check=True)
    assert tree(tuned.root) == before
    assert times(tuned.root) == moments
    outcome = tuned.rollback(wanted)
    assert outcome.number == predicted.number == number == tuned.state.current()
    assert outcome.changed is predicted.changed is (number != 2)
    assert predicted.before == outcome.before
    assert predicted.after == outcome.after
    assert predicted.readers == outcome.readers == [(tuned.executable(), None)]
    assert tuned.bytes() == kept
    if outcome.changed:
        assert [state.content for state in outcome.before] == [current]
        assert [state.content for state in outcome.after] == [kept]
        assert tuned.outcomes()[-1] == ("activated", number)
    declared = {1: ENV, 2: OTHER_ENV}.get(number)
    found = outcome.read_back and {v.name: (v.state, v.interpreter) for v in outcome.read_back.variables}
    assert found == (declared and {name: ("effective", value) for name, value in declared.items()})


@pytest.mark.parametrize(
    "wanted",
    [
        *("3", "-1", "99", "x", "", "1.0", "²", "+1", " 1", "0x1", "known-good", "None"),
        *("00", "000", "00000", "01", "00001", "1" * 5000, "0" * 5000, "0" * 4999 + "1"),
    ],
    ids=lambda wanted: f"{wanted[:20]}({len(wanted)})",
)
def test_what_is_no_generation_is_refused_with_the_legal_values(tuned, wanted):
    before = tree(tuned.root)
    for check in (True, False):
        with pytest.raises(TuningError) as caught:
            tuned.rollback(wanted, check)
        assert str(caught.value).startswith(f"generation {show(wanted)}: there is no such generation on this node")
        assert len(str(caught.value)) < 300
        assert "Legal: known_good, previous, or one of 0, 1, 2. Nothing was changed." in str(caught.value)
    assert tree(tuned.root) == before


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("wanted", ["known_good", "previous", "0"])
def test_a_node_that_was_never_tuned_has_no_way_back(node, wanted, check):
    before = tree(node.root)
    with pytest.raises(TuningError, match=r"holds no generation; this node was never tuned\. Nothing was changed"):
        node.rollback(wanted, check)
    assert tree(node.root) == before


def test_without_a_known_good_one_it_is_said(node):
    node.tune(OTHER_ENV, status="experimental")
    before = tree(node.root)
    with pytest.raises(
        TuningError,
        match=r"no known-good profile was ever.*Legal: previous, or one of 0, 1; 0 is the node as it was found",
    ):
        node.rollback()
    assert tree(node.root) == before


def without_known_good(node):
    node.rollback("0")
    rewrite(node, 1, profile_status="experimental")
    return "one of 0, 1, 2"


def without_previous(node):
    rewrite(node, 2, parent=None)
    return "known_good, or one of 0, 1, 2"


def with_a_damaged_one(node):
    node.kept(1).write_bytes(b"")
    return "one of 0, 2"


def with_one_of_a_newer_version(node):
    rewrite(node, 2, collection_version="99.0.0")
    return "known_good, previous, or one of 0, 1"


def with_the_current_one_unreadable(node):
    node.edit_manifest(2, parent=0)
    return "known_good, or one of 0, 1"


def with_nothing_that_works(node):
    for number in (0, 1, 2):
        node.edit_manifest(number, by="nobody")
    return ""


@pytest.mark.parametrize(
    "spoil",
    [
        without_known_good,
        without_previous,
        with_a_damaged_one,
        with_one_of_a_newer_version,
        with_the_current_one_unreadable,
        with_nothing_that_works,
    ],
    ids=lambda spoil: spoil.__name__,
)
def test_what_is_called_legal_works(tuned, spoil):
    legal = spoil(tuned)
    none = "None of 0, 1, 2 can be gone back to; generation_info says why"
    with pytest.raises(TuningError) as caught:
        tuned.rollback("7", check=True)
    end = f"Legal: {legal}" if legal else none
    assert str(caught.value) == f"generation '7': there is no such generation on this node. {end}. Nothing was changed."
    for wanted in ("known_good", "previous", "0", "1", "2"):
        if wanted in re.findall(r"\w+", legal):
            tuned.rollback(wanted, check=True)
        else:
            with pytest.raises(TuningError):
                tuned.rollback(wanted, check=True)


def test_before_the_first_there_is_none(tuned):
    tuned.rollback("0")
    with pytest.raises(
        TuningError,
        match=r"generation 0 is current, and there is none before it\. Legal: known_good, or one of 0, 1, 2",
    ):
        tuned.rollback("previous")


def test_previous_goes_one_further_back_each_time(tuned):
    assert [tuned.rollback("previous").number for _ in range(2)] == [1, 0]
    assert tuned.bytes() == HOOK


@pytest.mark.parametrize("wanted", ["known_good", "1", "0"])
def test_already_there_changes_and_writes_nothing(tuned, wanted):
    tuned.rollback(wanted)
    before, moments = tree(tuned.root), times(tuned.root)
    outcome = tuned.rollback(wanted)
    assert (outcome.changed, outcome.before, outcome.after) == (False, [], [])
    assert tree(tuned.root) == before
    assert {path: moment for path, moment in times(tuned.root).items() if path in moments} == moments
    assert (outcome.read_back is None) is (wanted == "0")


def test_there_and_back_again(tuned):
    experiment = tuned.bytes()
    tuned.rollback()
    good = tuned.bytes()
    tuned.rollback("0")
    tuned.rollback("2")
    assert tuned.bytes() == experiment
    tuned.rollback()
    assert tuned.bytes() == good
    assert tuned.state.numbers() == [0, 1, 2]  # a return makes no new generation
    assert tuned.tune().changed is False
    assert [outcome for outcome, _number in tuned.outcomes()] == ["found", "applied", "applied"] + ["activated"] * 4


# --- starts: back to how the node was found


def absent(node):
    pass


def empty_directory(node):
    node.path().parent.mkdir()


def empty_file(node):
    node.put(b"")


def foreign_code(node):
    node.put(GENERAL, mode=0o640)


def behind_a_link(node):
    node.link()


STARTS = [absent, empty_directory, empty_file, foreign_code, behind_a_link]


@pytest.mark.parametrize("scope", ["a", None], ids=["system", "service"])
@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.__name__)
def test_generation_0_is_the_node_as_it_was_found(node, start, scope):
    start(node)
    before = node.tree()
    node.tune(python=scope)
    node.tune(OTHER_ENV, python=scope)
    outcome = node.rollback("0")
    assert outcome.changed
    assert node.tree() == before
    assert not outcome.remarks
    again = node.rollback("0")
    assert not again.changed
    assert node.tree() == before
    assert node.tune(python=scope).changed
    assert node.rollback("known_good").changed is False


def test_directories_that_were_there_stay_and_those_in_use_too(node):
    (node.root / "opt").mkdir()
    node.tune(python=None)
    (node.service_dir / "other.py").touch()
    node.rollback("0")
    assert os.listdir(node.service_dir) == ["other.py"]
    (node.service_dir / "other.py").unlink()
    node.rollback("1")
    node.rollback("0")
    assert os.listdir(node.root / "opt") == []


def test_directories_that_a_deleted_file_left_are_a_change_and_predicted(node):
    before = node.tree()
    node.tune(python=None)
    node.path(None).unlink()
    (node.service_dir / "__pycache__").mkdir()
    (node.service_dir / "__pycache__" / "sitecustomize.cpython-312.pyc").touch()
    assert node.rollback("0", check=True).changed
    assert node.service_dir.exists()
    assert node.rollback("0").changed
    assert node.tree() == before
    assert not node.rollback("0", check=True).changed


def test_a_return_that_was_killed_before_the_pointer_moved_is_finished(node, monkeypatch):
    before = node.tree()
    node.tune(python=None)

    def killed(self, *arguments):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(StateDirectory, "made_directories", killed)
        patch.setattr("ansible_collections.gpu_node.tuning.plugins.module_utils.activation._undone", killed)
        with pytest.raises(SystemExit):
            node.rollback("0")
    assert not node.path(None).exists()
    assert node.state.current() == 1
    assert node.rollback("0").changed
    assert node.state.current() == 0
    assert node.tree() == before


def test_what_a_killed_run_left_beside_the_files_is_swept(tuned):
    target = tuned.root / "etc"
    target.mkdir()
    for name in ("sitecustomize.py.gpu_node.tuning.abc", "sitecustomize.py.gpu_node.tuning.link"):
        (tuned.path().parent / name).touch()
    tuned.rollback("0", check=True)
    assert len(os.listdir(tuned.path().parent)) == 3
    tuned.rollback("0")
    assert os.listdir(tuned.path().parent) == ["sitecustomize.py"]


# --- damage by others is repaired, and what they did is kept


def deleted(node):
    node.path().unlink()


def deleted_with_its_directory(node):
    node.path().unlink()
    node.path().parent.rmdir()


def edited(node):
    node.path().write_bytes(node.path().read_bytes().replace(b"'Simple'", b"'LL128'") + b"x = 1\n")


def no_python(node):
    node.path().write_bytes(b"x = = 1\n")


def unpaired(node):
    node.path().write_bytes(managed_block.BEGIN + b"\n")


def other_mode(node):
    node.path().chmod(0o600)


def dangling(node):
    node.path().unlink()
    node.path().symlink_to("nowhere")


def link_elsewhere(node):
    (node.root / "elsewhere.py").write_bytes(GENERAL)
    node.path().unlink()
    node.path().symlink_to("../../elsewhere.py")


DAMAGES = [deleted, deleted_with_its_directory, edited, no_python, unpaired, other_mode, dangling, link_elsewhere]


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_every_damage_is_repaired(tuned, damage, number):
    states = {2: tuned.tree()}
    for other in (1, 0):
        tuned.rollback(other)
        states[other] = tuned.tree()
    tuned.rollback("2")
    damage(tuned)
    elsewhere = {path: facts for path, facts in tuned.tree().items() if path.endswith("/elsewhere.py")}
    found = sitecustomize_file.look_at_any(str(tuned.path()))
    before, predicted = tree(tuned.root), tuned.rollback(number, check=True)
    assert tree(tuned.root) == before
    outcome = tuned.rollback(number)
    assert outcome.changed is predicted.changed is True
    assert tuned.tree() == {**states[number], **elsewhere}
    # What stood there is in a generation, and is one command away.
    assert [entry[0] for entry in tuned.outcomes()[-2:]] == ["found", "activated"]
    assert tuned.state.states_at(3) == [found]
    tuned.rollback("3")
    assert sitecustomize_file.look_at_any(str(tuned.path())) == found


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("damage", ["replaced", "target deleted", "both deleted", "other link", "directory deleted"])
def test_the_link_of_a_distribution_comes_back(node, number, damage):
    target = node.link()
    target.chmod(0o640)
    states = {0: node.tree()}
    node.tune()
    states[1] = node.tree()
    assert os.readlink(node.path()) == "../../etc/sitecustomize.py"
    if damage != "target deleted":
        node.path().unlink()
    if damage == "replaced":
        node.path().write_bytes(target.read_bytes())
    if damage in ("target deleted", "both deleted", "directory deleted"):
        target.unlink()
    if damage == "other link":
        node.path().symlink_to(target)
    if damage == "directory deleted":
        node.path().parent.rmdir()
    assert node.rollback(number).changed
    assert node.tree() == states[number]
    assert os.readlink(node.path()) == "../../etc/sitecustomize.py"


def test_a_tune_of_a_replaced_link_says_so_and_the_link_comes_back(node):
    node.link()
    before = node.tree()
    node.tune()
    content = node.path().read_bytes()
    node.path().unlink()
    node.put(content)
    outcome = node.tune(OTHER_ENV)
    (remark,) = outcome.remarks
    assert "was a symbolic link to ../../etc/sitecustomize.py and is a plain file now" in remark
    node.rollback("0")
    assert node.tree() == before


@as_root
def test_owner_and_mode_come_back(node):
    node.put(HOOK, mode=0o640)
    os.chown(node.path(), 1, 2)
    node.tune()
    os.chown(node.path(), 0, 0)
    node.path().chmod(0o666)
    node.rollback("0")
    status = node.path().stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1, 2, 0o640)


def test_extended_attributes_stay(tuned):
    try:
        os.setxattr(tuned.path(), "user.note", b"theirs")
    except OSError as error:
        pytest.skip(f"this file system has no extended attributes: {error}")
    tuned.rollback("0")
    assert tuned.bytes() == HOOK
    assert os.getxattr(tuned.path(), "user.note") == b"theirs"


@pytest.mark.parametrize("kind", ["directory", "loop", "fifo"])
def test_what_cannot_be_kept_is_refused_before_anything_changes(tuned, kind):
    tuned.path().unlink()
    {
        "directory": tuned.path().mkdir,
        "loop": lambda: tuned.path().symlink_to(tuned.path().name),
        "fifo": lambda: os.mkfifo(tuned.path()),
    }[kind]()
    before = tree(tuned.root)
    for check in (True, False):
        with pytest.raises(TuningError, match=f"^{tuned.path()}: "):
            tuned.rollback("0", check)
    assert tree(tuned.root) == before


# --- failures: what stood before returns


def late(node, python="a"):
    """What the interpreter runs last at a real start: no trial sees it. Outside lib, which may be gone."""
    return node.root / python / "late.py"


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_failed_read_back_leaves_what_stood_before(tuned, damage):
    late(tuned).write_bytes(b"import os\nos.environ['NCCL_PROTO'] = 'LL128'\n")
    damage(tuned)
    before = tuned.tree()
    with pytest.raises(
        TuningError,
        match=r"generation 1: its bytes are back, but the read-back by .* failed: NCCL_PROTO: declared 'LL', "
        r"the interpreter has 'LL128'.*What stood before was put back\.",
    ):
        tuned.rollback()
    assert tuned.tree() == before
    assert tuned.outcomes()[-2:] == [("found", 3), ("failed", None)]
    assert tuned.state.current() == 3  # the damage
    late(tuned).unlink()
    assert tuned.rollback().changed  # and the way is free again


@pytest.mark.parametrize("what", ["replaced", "replaced, target changed", "both deleted", "other link"])
def test_a_failed_read_back_leaves_both_ends_of_a_link_as_they_were(node, what):
    target = node.link()
    node.tune()
    node.path().unlink()
    if what.startswith("replaced"):
        node.put(GENERAL)
    if what == "replaced, target changed":
        target.write_bytes(b"import sys  # from an upgrade\n")
    if what == "both deleted":
        target.unlink()
    if what == "other link":
        (node.root / "elsewhere.py").write_bytes(GENERAL)
        node.path().symlink_to("../../elsewhere.py")
    late(node).write_bytes(b"import os\nos.environ['NCCL_PROTO'] = 'LL128'\n")
    before = node.tree()
    with pytest.raises(TuningError, match="What stood before was put back"):
        node.rollback()
    assert node.tree() == before


def test_bytes_behind_a_link_that_was_replaced_are_not_lost(node):
    target = node.link()
    node.tune()
    node.path().unlink()
    node.put(GENERAL)
    upgraded = b"import sys  # from an upgrade\n"
    target.write_bytes(upgraded)
    node.rollback("0")
    assert target.read_bytes() == HOOK
    assert node.kept(2).read_bytes() == GENERAL
    kept = node.manifest(2).parent.joinpath("aside", *target.parts[1:])
    assert kept.read_bytes() == upgraded
    (record,) = node.state.manifest(2)["aside"]
    assert record["path"] == str(target)
    kept.write_bytes(b"")
    with pytest.raises(TuningError, match=f"^{kept}: its bytes are not those"):
        node.state.verify(2)


def test_a_failed_read_back_takes_the_directories_along_that_it_made(node):
    node.tune(python=None)
    node.rollback("0")
    late(node).write_bytes(b"import os\nos.environ['NCCL_PROTO'] = 'LL128'\n")
    before = node.tree()
    with pytest.raises(TuningError, match="What stood before was put back"):
        node.rollback()
    assert node.tree() == before


def test_a_failed_read_back_of_what_stands_there_already(tuned):
    tuned.rollback()
    late(tuned).write_bytes(b"import os\nos.environ['NCCL_PROTO'] = 'LL128'\n")
    before = tuned.tree()
    with pytest.raises(TuningError, match=r"Its bytes stood there already, and nothing was changed\."):
        tuned.rollback()
    assert tuned.tree() == before


def test_an_interpreter_that_is_gone(tuned):
    pathlib.Path(tuned.executable()).unlink()
    before = tuned.tree()
    with pytest.raises(TuningError, match=f"interpreter {tuned.executable()}: cannot be started"):
        tuned.rollback()
    assert tuned.tree() == before
    assert tuned.rollback("0").changed  # nothing is declared there, so nobody is asked
    assert tuned.bytes() == HOOK


@pytest.mark.parametrize("damage", ["manifest edited", "manifest gone", "bytes edited", "bytes gone", "newer"])
def test_a_damaged_generation_is_refused_before_anything_changes(tuned, damage):
    if damage == "manifest edited":
        tuned.edit_manifest(1, precedence="force")
    elif damage == "manifest gone":
        tuned.manifest(1).unlink()
    elif damage == "bytes edited":
        tuned.kept(1).write_bytes(b"")
    elif damage == "bytes gone":
        tuned.kept(1).unlink()
    else:
        newer(tuned, 1)
    before = tree(tuned.root)
    for wanted in ("1", "previous"):
        for check in (True, False):
            with pytest.raises(TuningError, match="/generations/0001/") as caught:
                tuned.rollback(wanted, check)
            assert ("99.0.0" in str(caught.value)) is (damage == "newer")
    assert tree(tuned.root) == before
    assert tuned.rollback("0").changed  # the others work


def newer(node, number):
    rewrite(node, number, collection_version="99.0.0")


def rewrite(node, number, **changes):
    """Edit a manifest, and give it the checksum that fits."""
    manifest = {**json.loads(node.manifest(number).read_text(encoding="utf-8")), **changes}
    del manifest["checksum"]
    manifest["checksum"] = generation_record.checksum(manifest)
    node.manifest(number).write_text(json.dumps(manifest), encoding="utf-8")


def test_of_several_files_the_first_is_undone_when_the_second_fails(node, monkeypatch):
    node.put(HOOK)
    node.install("b")
    node.put(GENERAL, "b")
    node.tune()
    node.tune(OTHER_ENV, python="b")
    before = node.tree()
    real, refused = os.replace, []

    def replace(source, target):
        if target == str(node.path("b")) and not refused:
            refused.append(target)
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        real(source, target)

    monkeypatch.setattr(sitecustomize_file.os, "replace", replace)
    changed = []
    real_settle = sitecustomize_file.settle
    monkeypatch.setattr(
        sitecustomize_file, "settle", lambda state, *rest: (changed.append(state.path), real_settle(state, *rest))
    )
    with pytest.raises(TuningError, match=r"cannot be replaced atomically: Operation not permitted.*lsattr"):
        node.rollback("0")
    assert refused
    assert changed[0] == str(node.path("a"))
    assert node.tree() == before
    assert node.state.current() == 3
    assert node.rollback("0").changed
    assert (node.bytes("a"), node.bytes("b")) == (HOOK, GENERAL)


def test_what_cannot_be_put_back_is_said_loudly_and_kept(tuned, monkeypatch):
    late(tuned).write_bytes(b"import os\nos.environ['NCCL_PROTO'] = 'LL128'\n")
    edited(tuned)
    stood = tuned.bytes()
    real, calls = sitecustomize_file.restore, []

    def restore(state):
        calls.append(state)
        if len(calls) == 2:
            raise TuningError("no.")
        return real(state)

    monkeypatch.setattr(sitecustomize_file, "restore", restore)
    with pytest.raises(
        TuningError,
        match=r"read-back by .* failed.* WHAT STOOD BEFORE COULD NOT BE PUT BACK: no\. Its bytes are in the state directory",
    ):
        tuned.rollback()
    assert tuned.kept(3).read_bytes() == stood


def test_a_history_that_cannot_be_written_undoes_nothing(tuned, monkeypatch):
    """The return is done and recorded; the line of the history is a remark, and the next run writes it."""

    def full(self, entry):
        raise TuningError("history.jsonl: cannot be written: No space left on device.")

    with monkeypatch.context() as patch:
        patch.setattr(StateDirectory, "note", full)
        outcome = tuned.rollback("1")
    assert outcome.changed
    assert tuned.state.current() == 1
    assert any("No space left on device" in remark for remark in outcome.remarks)
    assert tuned.state.knows(sitecustomize_file.look(str(tuned.path())))


def test_previous_passes_over_what_others_made(tuned):
    edited(tuned)
    tuned.tune(env=OTHER_ENV)
    assert tuned.state.manifest(tuned.state.manifest(tuned.state.current())["parent"])["outcome"] == "found"
    assert tuned.rollback("previous").number == 2


def test_a_generation_that_would_end_every_python_is_refused(tuned):
    tuned.path().write_bytes(b"raise SystemExit\n")
    tuned.rollback("2")
    stood = tuned.bytes()
    with pytest.raises(TuningError, match="would end every Python on this node"):
        tuned.rollback("3")
    assert tuned.bytes() == stood


@pytest.mark.parametrize("where", ["pointer", "found"])
def test_a_full_disk_of_the_records(tuned, monkeypatch, where):
    """The files are as before, the message tells of the disk, and the next run goes on."""
    edited(tuned)
    before = tuned.tree()

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    real = {name: getattr(os, name) for name in ("symlink", "open")}

    def symlink(source, target, **options):
        if where == "pointer" and str(source).endswith("0001"):
            full()
        real["symlink"](source, target, **options)

    def opened(path, flags, *arguments, **options):
        name = os.path.basename(str(path))
        if where == "found" and name == "manifest.json" and flags & os.O_CREAT:
            full()
        return real["open"](path, flags, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "symlink", symlink)
        patch.setattr(os, "open", opened)
        with pytest.raises(TuningError, match="No space left on device"):
            tuned.rollback()
    assert tuned.tree() == before
    for number in tuned.state.numbers():
        tuned.state.verify(number)
    assert tuned.rollback().changed
    assert tuned.rollback().changed is False


@pytest.mark.parametrize("wanted", ["known_good", "previous", "0"])
def test_a_state_directory_without_its_pointer(tuned, wanted):
    os.unlink(os.path.join(tuned.state.path, "current"))
    if wanted == "previous":
        with pytest.raises(TuningError, match=r"no generation is current\. Legal: known_good, or one of 0, 1, 2"):
            tuned.rollback(wanted)
    else:
        assert tuned.rollback(wanted).changed
        assert tuned.state.current() == (0 if wanted == "0" else 1)


def test_a_state_directory_without_generation_0(tuned):
    shutil.rmtree(tuned.manifest(0).parent)
    before = tree(tuned.root)
    for check in (False, True):
        with pytest.raises(TuningError) as caught:
            tuned.rollback("0", check)
        assert str(caught.value).startswith(f"generation '0': missing in {tuned.state.path}, though later ones are")
        assert str(caught.value).endswith(
            "Put generations/0000 back from a backup. Legal: known_good, previous, or one of 1, 2."
        )
    assert tree(tuned.root) == before
    assert generation_list(tuned.state)["problems"] == [
        f"{tuned.manifest(0).parent}: missing, though generation 2 is there. Put it back from a backup."
    ]
    assert tuned.rollback("1").changed


def test_what_stands_in_the_place_of_0_is_not_called_the_node_as_it_was_found(node):
    node.tune(status="experimental")
    with pytest.raises(TuningError, match=r"one of 0, 1; 0 is the node as it was found\. Nothing was changed"):
        node.rollback()
    shutil.rmtree(node.manifest(0).parent)
    with pytest.raises(TuningError, match=r"one of 1\. Nothing was changed"):
        node.rollback()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda state: (state / "current").unlink(), "current: missing, though there are generations"),
        (lambda state: shutil.rmtree(state / "generations" / "0002"), "current: names generation 2, which is missing"),
        (lambda state: (state / "history.jsonl").unlink(), "history.jsonl: missing. The next run writes the lines"),
    ],
    ids=["no current", "current dangles", "no history"],
)
def test_what_a_half_restored_directory_lacks_is_said_until_a_run_makes_it_anew(tuned, spoil, words):
    assert generation_list(tuned.state)["problems"] == []
    spoil(pathlib.Path(tuned.state.path))
    (said,) = generation_list(tuned.state)["problems"]
    assert said.startswith(f"{tuned.state.path}/{words}")
    tuned.rollback("1")
    assert generation_list(tuned.state)["problems"] == []
    assert {line["generation"] for line in tuned.state.history()} >= set(tuned.state.numbers())


LOSSES = {
    "current is left": ({"current"}, "current is there; put it back"),
    "history is left": (
        {"history.jsonl"},
        "history.jsonl names generation 2; current is missing as well: put both back",
    ),
    "both are left": ({"current", "history.jsonl"}, "history.jsonl names generation 2; put it back"),
}


@pytest.mark.parametrize("folder", [False, True], ids=["no folder", "empty folder"])
@pytest.mark.parametrize("case", LOSSES)
def test_generations_that_are_lost_are_said_and_the_node_is_not_called_never_tuned(tuned, case, folder):
    left, words = LOSSES[case]
    root = pathlib.Path(tuned.state.path)
    shutil.rmtree(root / "generations")
    if folder:
        (root / "generations").mkdir()
    for name in {"current", "history.jsonl"} - left:
        (root / name).unlink()
    before = tree(tuned.root)
    (said,) = generation_list(tuned.state)["problems"]
    assert said.startswith(f"{root / 'generations'}: no generation is left, though {words} from a backup. Without one")
    for wanted in ("known_good", "previous", "0"):
        for check in (True, False):
            with pytest.raises(TuningError) as caught:
                tuned.rollback(wanted, check)
            assert str(caught.value) == f"generation {wanted!r}: {said} Nothing was changed."
    assert tree(tuned.root) == before


def test_a_tune_says_that_the_generations_are_lost(tuned):
    tuned.rollback("0")
    root = pathlib.Path(tuned.state.path)
    shutil.rmtree(root / "generations")
    (root / "current").unlink()
    predicted, outcome = tuned.tune(check=True), tuned.tune()
    assert predicted.remarks == outcome.remarks
    (remark,) = outcome.remarks
    assert remark.startswith(f"{root / 'generations'}: no generation is left, though history.jsonl names generation 0")
    assert tuned.tune().remarks == generation_list(tuned.state)["problems"] == []
    assert tuned.rollback("0").changed


@pytest.mark.parametrize("parent", [None, 2], ids=["recorded now", "recorded before"])
def test_a_generation_with_the_number_of_the_one_that_is_lost_is_not_its_own_parent(tuned, parent):
    shutil.rmtree(tuned.manifest(2).parent)
    tuned.state.keep_found(sitecustomize_file.look(str(tuned.path())))
    assert tuned.state.manifest(2)["parent"] is None
    rewrite(tuned, 2, parent=parent)
    with pytest.raises(TuningError, match="generation 2 is current, and there is none before it"):
        tuned.rollback("previous")


def test_a_pointer_that_is_no_link_is_refused_in_check_mode_too(tuned):
    current = pathlib.Path(tuned.state.path, "current")
    current.unlink()
    current.mkdir()
    before = tree(tuned.root)
    for check in (True, False):
        with pytest.raises(TuningError, match=f"^{current}: not a link to a generation"):
            tuned.rollback("0", check)
    assert tree(tuned.root) == before


def test_a_first_tune_that_fails_forgets_no_generation_of_a_half_restored_directory(tuned, monkeypatch):
    os.unlink(os.path.join(tuned.state.path, "current"))

    def write(state, content):
        raise TuningError("cannot be replaced")

    with monkeypatch.context() as patch:
        patch.setattr(sitecustomize_file, "write", write)
        with pytest.raises(TuningError, match="cannot be replaced"):
            tuned.tune()
    assert tuned.state.numbers()[:3] == [0, 1, 2]
    assert [outcome for outcome, _number in tuned.outcomes()][:3] == ["found", "applied", "applied"]
    tuned.rollback("0")
    assert tuned.bytes() == HOOK


def test_a_state_directory_that_was_deleted(tuned):
    content = tuned.bytes()
    for root, directories, files in os.walk(tuned.state.path, topdown=False):
        for name in files + [name for name in directories if os.path.islink(os.path.join(root, name))]:
            os.unlink(os.path.join(root, name))
        for name in directories:
            if not os.path.islink(os.path.join(root, name)) and os.path.lexists(os.path.join(root, name)):
                os.rmdir(os.path.join(root, name))
    outcome = tuned.tune()
    (remark,) = outcome.remarks
    assert remark.startswith(f"{tuned.state.path}: holds no generation, though {tuned.path()} has the managed block")
    assert "Generation 0 will be the file as it is now" in remark
    tuned.rollback("0")
    assert tuned.bytes() == content
    assert tuned.rollback().number == 1


# --- what a file has beside its bytes


@pytest.mark.parametrize("what", ["deleted", "replaced"])
def test_extended_attributes_come_back(node, what):
    node.put(HOOK)
    try:
        os.setxattr(node.path(), "user.gpu_node", b"\xff kept")
    except OSError as error:
        pytest.skip(f"the file system of {node.path()} has no user attributes: {error.strerror}")
    node.tune()
    node.path().unlink()
    if what == "replaced":
        node.put(b"x = 1\n")
    node.rollback("0")
    assert os.getxattr(node.path(), "user.gpu_node") == b"\xff kept"
    assert node.rollback("0").changed is False


def test_records_without_extended_attributes_are_read(tuned):
    for number in tuned.state.numbers():
        manifest = json.loads(tuned.manifest(number).read_text(encoding="utf-8"))
        for record in manifest["files"]:
            for side in ("before", "after"):
                del record[side]["attributes"]
        rewrite(tuned, number, files=manifest["files"])
    assert tuned.tune(OTHER_ENV).changed is False
    assert tuned.state.numbers() == [0, 1, 2]
    tuned.rollback("0")
    assert tuned.bytes() == HOOK


def test_the_other_names_of_a_file_are_told_before_it_is_cut_loose(node):
    node.put(HOOK)
    os.link(node.path(), node.root / "other name")
    for check in (True, False):
        (remark,) = node.tune(check=check).remarks
        assert remark.startswith(f"{node.path()}: has 1 more name(s), hard links. They keep the old bytes")
    assert (node.root / "other name").read_bytes() == HOOK
    assert node.tune().remarks == []
    os.link(node.path(), node.root / "one more")
    assert node.tune().remarks == []  # nothing changes, so nothing is cut
    for check in (True, False):
        (remark,) = node.rollback("0", check).remarks
        assert remark.startswith(f"{node.path()}: has 1 more name(s)")


# --- the state directory of another machine

OTHER_MACHINE = "1234567890abcdef" * 2


@pytest.fixture
def copied(tuned):
    """Its generations come from another machine; the file as well, as in an image of its disk."""
    for number in tuned.state.numbers():
        rewrite(tuned, number, machine_id=OTHER_MACHINE)
    tuned.state.machine_id = "fedcba0987654321" * 2
    return tuned


@pytest.mark.parametrize("check", [False, True], ids=["run", "check"])
@pytest.mark.parametrize("wanted", ["0", "1", "known_good", "previous"])
def test_generations_of_another_machine_are_not_gone_back_to(copied, wanted, check):
    before = tree(copied.root)
    with pytest.raises(TuningError) as caught:
        copied.rollback(wanted, check)
    message = str(caught.value)
    assert "recorded on another machine (machine-id 12345678...; this one is fedcba09...)" in message
    assert f"None is of this node: move {copied.state.path} away, and start anew with tune.yml" in message
    assert OTHER_MACHINE not in message
    assert tree(copied.root) == before


def test_tune_on_another_machine_says_so_and_loses_nothing(copied):
    content = copied.bytes()
    predicted = copied.tune(check=True)
    outcome = copied.tune()
    assert predicted.remarks == outcome.remarks
    (remark,) = outcome.remarks
    assert remark.startswith(
        f"{copied.state.path}: generation 0, 1, 2: recorded on another machine (machine-id 12345678"
    )
    assert "What stands on this node now is recorded as its own" in remark
    assert [outcome for outcome, _number in copied.outcomes()][3:] == ["found", "applied"]
    assert copied.kept(3).read_bytes() == content
    assert copied.state.manifest(3)["reason"] == "the node as it was found"
    assert copied.state.manifest(4)["machine_id"] == copied.state.machine_id
    assert copied.tune().remarks == []
    with pytest.raises(TuningError, match=r"generation 0: .*Legal: a generation of this node \(3, 4\)\. Or move"):
        copied.rollback("0")
    with pytest.raises(TuningError, match=r"generation '7': .*\. Legal: known_good, or one of 3, 4\. Nothing"):
        copied.rollback("7")  # previous would be 2
    with pytest.raises(TuningError, match=r"generation 2: recorded on another machine"):
        copied.rollback("previous")
    assert copied.rollback("3").changed
    assert copied.bytes() == content
    assert copied.rollback().number == 4
    (said,) = generation_list(copied.state)["problems"]
    assert "generation 0, 1, 2: recorded on another machine" in said


def test_what_is_declared_already_is_recorded_as_this_machines_own(copied):
    assert copied.tune(OTHER_ENV).changed is False
    assert [outcome for outcome, _number in copied.outcomes()][3:] == ["found", "adopted"]


def test_files_of_another_machine_are_not_carried_into_our_generations(copied):
    copied.install("b")
    copied.tune(python="b")
    assert [record["path"] for record in copied.state.manifest(4)["files"]] == [str(copied.path("b"))]
    copied.rollback("3")
    assert not copied.path("b").exists()
    assert copied.path().exists()


@pytest.mark.parametrize("ours", [None, OTHER_MACHINE])
def test_records_that_do_not_say_whose_they_are_count_as_our_own(tuned, ours):
    manifest = json.loads(tuned.manifest(1).read_text(encoding="utf-8"))
    assert manifest["machine_id"] == machine_identity.machine_id()
    for number in tuned.state.numbers():
        rewrite(tuned, number, machine_id=None if ours else OTHER_MACHINE)
    tuned.state.machine_id = ours
    assert tuned.tune(OTHER_ENV).remarks == []
    assert tuned.rollback("0").changed


@pytest.mark.parametrize(
    ("content", "identity"),
    [
        ("3d1219c7c4c5404aaa1f6d2a48adfda4\n", "3d1219c7c4c5404aaa1f6d2a48adfda4"),
        ("", None),
        ("uninitialized\n", None),
    ],
)
def test_the_identity_of_a_machine(tmp_path, monkeypatch, content, identity):
    monkeypatch.setattr(machine_identity, "FILE", str(tmp_path / "machine-id"))
    assert machine_identity.machine_id() is None
    (tmp_path / "machine-id").write_text(content)
    assert machine_identity.machine_id() == identity


# --- several files on one node


def test_two_interpreters_and_a_service_on_one_node(node):
    node.put(HOOK)
    node.install("b")
    trees = [node.tree()]
    for options in ({"python": "a"}, {"python": "b"}, {"python": None}, {"python": "a", "env": OTHER_ENV}):
        node.tune(**options)
        trees.append(node.tree())
    assert [record["path"] for record in node.state.manifest(node.state.current())["files"]] == [
        str(node.path(python))
        for python in ("a", None, "b")  # the one that it is about, then what it carries
    ]
    numbers = [entry["generation"] for entry in node.state.history() if entry["outcome"] == "applied"]
    for number, there in reversed(list(zip([0, *numbers], trees, strict=True))):
        outcome = node.rollback(number)
        assert node.tree() == there
        assert set(outcome.readers) == {
            (node.executable(), None),
            (node.executable("b"), None),
            (node.executable(), str(node.service_dir)),
        }
    for number, there in zip([0, *numbers], trees, strict=True):
        node.rollback(number)
        assert node.tree() == there
    assert "found" not in [outcome for outcome, _number in node.outcomes()][len(node.state.numbers()) :]


# --- with real interpreters


def real_tune(venv, state, env, **options):
    wish = Wish(
        **{
            "body": rendered(env),
            "env": env,
            "scope": "system",
            "service_dir": None,
            "precedence": "respect",
            "takeover": "refuse",
            "profile": "known_good",
            "profile_status": "known_good",
            "evidence": [],
            **options,
        }
    )
    return tune(wish, venv.asked(), state, PATIENCE, False)


@with_own_file
def test_every_interpreter_goes_back(python, tmp_path):
    venv, state = make_venv(python, tmp_path / "venv"), StateDirectory(str(tmp_path / "var"))
    before = tree(venv.directory)
    real_tune(venv, state, ENV)
    good = venv.file.read_bytes()
    real_tune(venv, state, OTHER_ENV, profile_status="experimental")
    outcome = activate(state, "known_good", PATIENCE, PATIENCE, False)
    assert venv.file.read_bytes() == good
    assert outcome.read_back.imported == str(venv.file)
    assert {v.name: (v.state, v.spawn) for v in outcome.read_back.variables} == {
        name: ("effective", value) for name, value in ENV.items()
    }
    assert not activate(state, "known_good", PATIENCE, PATIENCE, False).changed
    activate(state, "0", PATIENCE, PATIENCE, False)
    after = tree(venv.directory)
    assert {path: facts for path, facts in after.items() if "__pycache__" not in path} == before


def test_a_pth_file_of_others_that_overrides(tmp_path):
    from .test_tuning_transaction import usual_python

    venv, state = make_venv(usual_python(), tmp_path / "venv"), StateDirectory(str(tmp_path / "var"))
    if venv.python.has_system_file:
        pytest.skip("every interpreter of this machine brings a sitecustomize.py of the system")
    real_tune(venv, state, ENV)
    venv.file.write_text("x = 1\n", encoding="utf-8")
    shutil.rmtree(venv.site_packages / "__pycache__", ignore_errors=True)
    (venv.site_packages / "a.pth").write_text("import os; os.environ['NCCL_PROTO'] = 'Simple'\n", encoding="utf-8")
    with pytest.raises(
        TuningError, match=r"NCCL_PROTO: declared 'LL', the interpreter has 'Simple'.*What stood before was put back"
    ):
        activate(state, "1", PATIENCE, PATIENCE, False)
    assert venv.file.read_text(encoding="utf-8") == "x = 1\n"
    assert not (venv.site_packages / "__pycache__").exists()
    venv.file.unlink()
    os.unlink(venv.executable)
    with pytest.raises(TuningError, match=f"interpreter {venv.executable}: cannot be started"):
        activate(state, "1", PATIENCE, PATIENCE, False)
    assert not venv.file.exists()


def test_the_service_and_its_user_are_those_of_the_generation(node, monkeypatch):
    node.tune(python=None)
    asked = []
    real = Service.__new__

    def noted(cls, environment, user):
        asked.append((environment, user))
        return real(cls, environment, user)

    monkeypatch.setattr(Service, "__new__", noted)
    node.rollback()
    assert asked == [({"PYTHONPATH": str(node.service_dir)}, None)]
