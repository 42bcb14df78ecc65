# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generations, the link to the current one, the history, and the lock."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pathlib
import stat
import threading
import time

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import node_lock, state_directory
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import FileState, look
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import Change, StateDirectory, sha256

from .interpreters import tree

FACTS = {"outcome": "applied", "profile": "known_good", "profile_status": "known_good", "reason": None}
ABSENT = FileState("/x/s.py", "/x/s.py", None, None, None, None, None)
VENDOR = FileState("/x/s.py", "/x/s.py", "../etc/s.py", b"hook\n", 0o644, 0, 0)


@pytest.fixture
def state(tmp_path):
    return StateDirectory(str(tmp_path / "a" / "state"))


@pytest.fixture
def used(state):
    """With generation 0 (absent) and 1 (a file)."""
    with state.locked(5):
        state.keep_found(ABSENT)
        state.record([Change(ABSENT, VENDOR, ["/x"])], FACTS)
    return state


def history(state):
    return [
        json.loads(line) for line in pathlib.Path(state.path, "history.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def latest(state, path):
    """What the current generation says of the file ``path``; None where it says nothing."""
    if state.current() is None:
        return None
    return next((record for record in state.manifest(state.current())["files"] if record["path"] == path), None)


def generations(state):
    return sorted(os.listdir(os.path.join(state.path, "generations")))


def test_before_the_first_run(state):
    assert state.current() is None
    assert latest(state, "/x/s.py") is None
    assert state.first_seen("/x/s.py") is None
    assert state.made_directories("/x/s.py") == []
    assert not state.knows(ABSENT)
    assert not os.path.exists(state.path)


def test_generation_0_is_the_node_as_it_was_found_absence_included(used):
    manifest = used.manifest(0)
    assert manifest["outcome"] == "found"
    assert manifest["files"][0]["before"] == {
        "kind": "absent",
        "link": None,
        "target": "/x/s.py",
        "mode": None,
        "uid": None,
        "gid": None,
        "sha256": None,
    }
    assert os.listdir(os.path.join(used.path, "generations", "0000", "before")) == []


def test_a_generation_keeps_bytes_link_mode_and_owner(used):
    manifest = used.manifest(1)
    (record,) = manifest["files"]
    assert record["path"] == "/x/s.py"
    assert record["made_directories"] == ["/x"]
    assert record["after"] == {
        "kind": "file",
        "link": "../etc/s.py",
        "target": "/x/s.py",
        "mode": "0644",
        "uid": 0,
        "gid": 0,
        "sha256": sha256(b"hook\n"),
    }
    kept = pathlib.Path(used.path, "generations", "0001", "after", "x", "s.py")
    assert kept.read_bytes() == b"hook\n"
    assert (manifest["schema"], manifest["number"], manifest["profile"]) == (1, 1, "known_good")


def test_current_is_a_relative_link_to_the_newest(used):
    assert os.readlink(os.path.join(used.path, "current")) == "generations/0001"
    assert used.current() == 1
    assert generations(used) == ["0000", "0001"]


def test_numbers_go_on_after_9999(state):
    os.makedirs(os.path.join(state.path, "generations", "9999"))
    assert state.record([Change(ABSENT, VENDOR, [])], FACTS) == 10000
    assert state.current() == 10000
    assert state.numbers() == [9999, 10000]


def test_the_history_has_one_line_for_each_generation(used):
    assert [(entry["generation"], entry["outcome"], entry.get("profile")) for entry in history(used)] == [
        (0, "found", None),
        (1, "applied", "known_good"),
    ]
    used.note({"outcome": "failed", "reason": "because\nof this"})
    assert history(used)[2]["reason"] == "because\nof this"
    assert "generation" not in history(used)[2]


def test_nobody_else_can_read_it(used):
    for root, directories, files in os.walk(used.path):
        assert stat.S_IMODE(os.stat(root).st_mode) == 0o700
        for name in files:
            assert stat.S_IMODE(os.stat(os.path.join(root, name)).st_mode) == 0o600, name
        assert set(directories) <= {"generations", "0000", "0001", "before", "after", "x", "current"}


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o022])
def test_the_umask_does_not_open_it(tmp_path, mask):
    old = os.umask(mask)
    try:
        state = StateDirectory(str(tmp_path / "state"))
        with state.locked(5):
            state.keep_found(VENDOR)
    finally:
        os.umask(old)
    assert stat.S_IMODE(os.stat(state.path).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(os.path.join(state.path, "lock")).st_mode) == 0o600


def test_what_the_last_generation_left_is_not_kept_again(used):
    used.keep_found(VENDOR)
    assert generations(used) == ["0000", "0001"]


@pytest.mark.parametrize(
    "edited",
    [
        VENDOR._replace(content=b"hook\nimport sys\n"),
        VENDOR._replace(mode=0o600),
        VENDOR._replace(uid=1),
        VENDOR._replace(link=None),
        ABSENT,
    ],
    ids=["bytes", "mode", "owner", "link", "absence"],
)
def test_what_was_changed_by_hand_is_kept_before_it_changes(used, edited):
    assert not used.knows(edited)
    used.keep_found(edited)
    assert used.current() == 2
    manifest = used.manifest(2)
    assert manifest["reason"] == "found different from what the last generation left"
    assert latest(used, "/x/s.py")["after"] == manifest["files"][0]["before"]
    assert used.first_seen("/x/s.py")["before"]["kind"] == "absent"
    assert used.knows(edited)


def test_two_files_have_separate_records(used):
    other = ABSENT._replace(path="/y/s.py", target="/y/s.py")
    assert latest(used, "/y/s.py") is None
    empty = other._replace(content=b"", mode=0o644, uid=0, gid=0)
    used.record([Change(other, empty, ["/y", "/y/z"])], FACTS)
    assert used.made_directories("/x/s.py") == ["/x"]
    assert used.made_directories("/y/s.py") == ["/y", "/y/z"]
    assert latest(used, "/x/s.py")["after"]["sha256"] == sha256(b"hook\n")


def test_a_half_written_generation_is_never_current(used, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(state_directory.os, "fsync", full)
    with pytest.raises(TuningError, match=r"generation 2 cannot be written: No space left on device\. Make room"):
        used.record([Change(VENDOR, ABSENT, [])], FACTS)
    assert used.current() == 1
    assert generations(used) == ["0000", "0001"]
    monkeypatch.undo()
    assert used.record([Change(VENDOR, ABSENT, [])], FACTS) == 2


def test_what_a_killed_run_left_half_written_does_not_count(used):
    partial = pathlib.Path(used.path, "generations", "0002.partial")
    (partial / "before").mkdir(parents=True)
    pathlib.Path(used.path, "current.partial").symlink_to("nowhere")
    assert used.numbers() == [0, 1]
    with used.locked(5):
        assert used.record([Change(VENDOR, ABSENT, [])], FACTS) == 2
    assert not os.path.lexists(os.path.join(used.path, "current.partial"))
    assert generations(used) == ["0000", "0001", "0002"]
    assert used.current() == 2


def test_clear_forgets_the_first_record(state):
    with state.locked(5):
        state.keep_found(VENDOR)
        state.clear()
        assert state.current() is None
        assert os.listdir(state.path) == ["lock"]
        state.clear()


def test_damage_is_named(used):
    manifest = pathlib.Path(used.path, "generations", "0001", "manifest.json")
    manifest.write_text("{", encoding="utf-8")
    with pytest.raises(TuningError, match=f"^{manifest}: cannot be read"):
        used.manifest(1)
    current = pathlib.Path(used.path, "current")
    current.unlink()
    current.write_text("1", encoding="utf-8")
    with pytest.raises(TuningError, match=f"^{current}: not a link to a generation"):
        used.current()


# --- the lock


def test_a_run_that_records_nothing_leaves_nothing(state, tmp_path):
    with state.locked(5):
        assert os.path.exists(os.path.join(state.path, "lock"))
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_fails_leaves_nothing_either(state, tmp_path):
    with pytest.raises(TuningError, match="no"), state.locked(5):
        raise TuningError("no")
    assert list(tmp_path.iterdir()) == []


def test_directories_that_were_there_stay(state, tmp_path):
    (tmp_path / "a").mkdir()
    with state.locked(5):
        pass
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
    assert list((tmp_path / "a").iterdir()) == []


def test_a_run_that_recorded_stays(used):
    with used.locked(5):
        pass
    assert used.current() == 1


def test_a_lock_that_cannot_be_opened_leaves_no_directory(state, tmp_path, monkeypatch):
    real = os.open

    def full(path, *arguments, **options):
        if str(path).endswith("/lock"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, *arguments, **options)

    monkeypatch.setattr(state_directory.os, "open", full)
    with pytest.raises(TuningError, match="lock cannot be opened: No space left"), state.locked(5):
        pytest.fail("entered without the lock")
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["a file", "below a file"])
def test_a_path_that_cannot_be_a_directory_is_refused(tmp_path, kind):
    (tmp_path / "f").write_text("")
    path = tmp_path / "f" if kind == "a file" else tmp_path / "f" / "state"
    with pytest.raises(TuningError, match="nccl_env_state_dir"), StateDirectory(str(path)).locked(1):
        pytest.fail("entered")
    assert (tmp_path / "f").read_text() == ""


@contextlib.contextmanager
def held(state):
    """Another run holds the lock (the same as another process: the lock belongs to the open file). Yields what lets it go."""
    entered, release = threading.Event(), threading.Event()

    def hold():
        with StateDirectory(state.path).locked(5):
            entered.set()
            release.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    assert entered.wait(30)
    try:
        yield release
    finally:
        release.set()
        holder.join()


@pytest.mark.parametrize("reading", [False, True], ids=["tune", "check"])
def test_the_second_run_waits_for_the_first(used, reading):
    with held(used) as release:
        threading.Timer(0.5, release.set).start()
        start = time.monotonic()
        with (used.locked_for_reading if reading else used.locked)(30):
            assert release.is_set()
            assert time.monotonic() - start >= 0.4


@pytest.mark.parametrize("reading", [False, True], ids=["tune", "check"])
def test_the_second_run_gives_up_after_its_time(used, reading):
    with held(used):
        start = time.monotonic()
        with (
            pytest.raises(
                TuningError, match=r"lock: another run has held the lock of this node for 0\.3 s.*nccl_env_lock_timeout"
            ),
            (used.locked_for_reading if reading else used.locked)(0.3),
        ):
            pytest.fail("entered while another run held the lock")
        assert 0.3 <= time.monotonic() - start < 10


def within(seconds, function):
    """Run ``function`` in a thread that is given up after ``seconds``: an endless loop is a failure, not a hanging test."""
    result = []
    thread = threading.Thread(target=lambda: result.append(function()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "still running"
    return result


@pytest.mark.parametrize("reading", [False, True], ids=["tune", "check"])
def test_the_lock_file_is_removed_while_a_run_waits_for_it(state, tmp_path, reading):
    """The first run on a node fails and takes its traces with it; the second one must get the lock that counts, or none."""
    entered = threading.Event()

    def second():
        with (state.locked_for_reading if reading else state.locked)(20):
            entered.set()
            return os.path.exists(os.path.join(state.path, "lock"))

    with held(state) as release:
        threading.Timer(0.5, release.set).start()
        there = within(25, second)
    assert entered.is_set()
    assert there == [not reading]
    assert list(tmp_path.iterdir()) == []  # neither of them recorded anything


def test_a_lock_file_that_was_replaced_is_not_the_lock(used, monkeypatch):
    """Between opening the file and locking it, the run before removes it and a third one makes and holds the next."""
    lock, real = os.path.join(used.path, "lock"), node_lock.fcntl.flock
    third = []

    def replaced(descriptor, operation):
        if not third:
            os.unlink(lock)
            third.append(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600))
            real(third[0], operation)
        real(descriptor, operation)

    monkeypatch.setattr(node_lock.fcntl, "flock", replaced)
    with pytest.raises(TuningError, match="another run has held the lock"), used.locked(0.3):
        pytest.fail("entered with a lock that no longer counts")
    os.close(third[0])
    with used.locked(0.3):
        assert os.path.exists(lock)


def test_looking_writes_nothing(used, state):
    before = tree(used.path)
    with used.locked_for_reading(5):
        assert used.current() == 1
    assert tree(used.path) == before


def test_looking_at_a_node_that_was_never_tuned_makes_nothing(state, tmp_path):
    with state.locked_for_reading(5):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_real_file_round_trips(tmp_path, state):
    file = tmp_path / "sitecustomize.py"
    file.write_bytes(b"\xef\xbb\xbf\r\n\0")
    state.keep_found(look(str(file)))
    kept = pathlib.Path(state.path, "generations", "0000", "before", *file.parts[1:])
    assert kept.read_bytes() == b"\xef\xbb\xbf\r\n\0"
    assert state.knows(look(str(file)))
    file.chmod(0o600)
    assert not state.knows(look(str(file)))
