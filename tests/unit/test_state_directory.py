# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Generations, the link to the current one, the history, and the lock."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import pathlib
import re
import shutil
import stat
import threading
import time

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    leftovers,
    node_lock,
    plain_file,
    record_time,
    state_directory,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_list import generation_list
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_record import Change, sha256
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_tables import history_json, history_table
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import NotPlain, open_plain, read_plain
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import FileState, look
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory
from ansible_collections.gpu_node.tuning.plugins.module_utils.version import VERSION

from .interpreters import tree
from .nodes import OTHER_ENV, PlayedNode

FACTS = {"outcome": "applied", "profile": "known_good", "profile_status": "known_good", "reason": None}
ABSENT = FileState("/x/s.py", "/x/s.py", None, None, None, None, None)
VENDOR = FileState("/x/s.py", "/x/s.py", "../etc/s.py", b"hook\n", 0o644, 0, 0)


@pytest.fixture
def state(tmp_path):
    return StateDirectory(str(tmp_path / "a" / "state"))


@pytest.fixture
def node(tmp_path):
    return PlayedNode(tmp_path)


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
        "attributes": None,
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
        "attributes": None,
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


# --- what is no plain file


def test_only_a_plain_file_is_opened(tmp_path):
    for number, (kind, make) in enumerate(ODD.items()):
        path = tmp_path / str(number)
        make(path)
        for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT):
            (raised,) = within(10, lambda path=path, flags=flags: raises(NotPlain, open_plain, str(path), flags))
            assert raised.strerror == f"{kind}, not a plain file"
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_plain(str(tmp_path / "file")) == b"12345"
    assert read_plain(str(tmp_path / "link"), follow=True, most=3) == b"123"
    (raised,) = within(10, lambda: raises(NotPlain, read_plain, str(tmp_path / "0"), True))
    assert raised.strerror == "a FIFO, not a plain file"


def test_a_file_that_is_exchanged_at_the_last_moment_is_not_read(tmp_path, monkeypatch):
    path, real = tmp_path / "file", os.open
    path.touch()

    def exchanged(name, *arguments):
        path.unlink()
        os.mkfifo(path)
        return real(name, *arguments)

    monkeypatch.setattr(plain_file.os, "open", exchanged)
    (raised,) = within(10, lambda: raises(NotPlain, read_plain, str(path)))
    assert raised.strerror == "a FIFO, not a plain file"


def socket_file(path):
    os.mknod(path, stat.S_IFSOCK | 0o600)  # bind() takes short paths only


ODD = {
    "a FIFO": os.mkfifo,
    "a directory": os.mkdir,
    "a socket": socket_file,
    "a symbolic link": lambda path: path.symlink_to("elsewhere"),
}


def raises(kind, function, *arguments):
    try:
        function(*arguments)
    except kind as error:
        return error
    return None


@pytest.mark.parametrize("reading", [True, False], ids=["check", "tune"])
@pytest.mark.parametrize("name", ["lock", "history.jsonl"])
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_plain_file_is_refused_by_name_in_check_mode_as_well(used, name, kind, reading):
    path = pathlib.Path(used.path, name)
    path.unlink()
    ODD[kind](path)
    before = tree(used.path)

    def enter():
        with (used.locked_for_reading if reading else used.locked)(5):
            pass

    (raised,) = within(20, lambda: raises(TuningError, enter))
    what = "the lock cannot be opened" if name == "lock" else "cannot be read"
    assert str(raised) == f"{path}: {what}: {kind}, not a plain file. Move it away, then run again."
    assert tree(used.path) == before


@pytest.mark.parametrize("kind", ODD)
def test_a_recorded_file_that_is_no_plain_one_is_damage(used, kind):
    manifest = pathlib.Path(used.path, "generations", "0001", "manifest.json")
    kept = manifest.parent / "after" / "x" / "s.py"
    for path, words in (
        (kept, f"{kept}: cannot be read: {kind}, not a plain file. Put generation 1 back"),
        (manifest, f"{manifest}: cannot be read ({kind}, not a plain file). Put this generation back"),
    ):
        path.unlink()
        ODD[kind](path)
        (said,) = within(20, used.damage)
        assert said[0].startswith(words)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda root: root.chmod(0o777), "owner .*, mode 0777; legal"),
        (
            lambda root: (shutil.rmtree(root / "generations"), (root / "generations").touch()),
            "generations: not a directory but a plain file",
        ),
    ],
    ids=["others can write", "generations is a file"],
)
def test_what_a_run_refuses_is_refused_by_a_check(used, spoil, words):
    spoil(pathlib.Path(used.path))
    for enter in (used.locked_for_reading, used.locked):
        with pytest.raises(TuningError, match=words), enter(5):
            pytest.fail("entered")


def loop(path):
    path.symlink_to(path.name)


def link_to_a_file(path):
    (path.parent / "file").touch()
    path.symlink_to("file")


NO_DIRECTORIES = {
    "a FIFO": os.mkfifo,
    "a plain file": lambda path: path.touch(),
    "a socket": socket_file,
    "a symbolic link to elsewhere that leads nowhere": lambda path: path.symlink_to("elsewhere"),
    "a symbolic link to {name} that leads back to itself": loop,
    "a symbolic link to a plain file": link_to_a_file,
}


@pytest.mark.parametrize("reading", [True, False], ids=["check", "tune"])
@pytest.mark.parametrize("kind", NO_DIRECTORIES)
def test_generations_that_are_no_directory_are_refused_by_name_in_check_mode_as_well(used, kind, reading):
    place = pathlib.Path(used.path, "generations")
    shutil.rmtree(place)
    NO_DIRECTORIES[kind](place)
    before = tree(used.path)
    with pytest.raises(TuningError) as caught, (used.locked_for_reading if reading else used.locked)(5):
        pytest.fail("entered")
    message = str(caught.value)
    assert message.startswith(f"{place}: not a directory but {kind.format(name=place.name)}. Put the directory back")
    assert f"move {used.path} away, and start anew with tune.yml" in message
    assert "root" not in message.replace(used.path, "")
    assert generation_list(used)["problems"] == [message]
    assert tree(used.path) == before


def test_generations_may_be_a_link_to_a_directory(used):
    place = pathlib.Path(used.path, "generations")
    place.rename(place.parent / "elsewhere")
    place.symlink_to("elsewhere")
    with used.locked(5):
        assert used.numbers() == [0, 1]


@pytest.mark.parametrize("reading", [True, False], ids=["check", "tune"])
@pytest.mark.parametrize("kind", NO_DIRECTORIES)
def test_a_state_directory_that_is_none_is_refused_by_name_in_check_mode_as_well(tmp_path, kind, reading):
    place = tmp_path / "state"
    NO_DIRECTORIES[kind](place)
    before, state = tree(tmp_path), StateDirectory(str(place))
    with pytest.raises(TuningError) as caught, (state.locked_for_reading if reading else state.locked)(5):
        pytest.fail("entered")
    message = str(caught.value)
    assert message.startswith(
        f"state_dir {place}: not a directory but {kind.format(name=place.name)}. Move it away, or"
    )
    assert generation_list(state)["problems"] == [message]
    assert tree(tmp_path) == before


# --- what has a name of something half written

STRANGERS = {
    "current.partial": ("a symbolic link", {"a directory": os.mkdir, "a plain file": lambda path: path.touch()}),
    "generations/0009.partial": (
        "a directory",
        {
            "a plain file": lambda path: path.touch(),
            "a symbolic link": lambda path: path.symlink_to("0001"),
            "a FIFO": os.mkfifo,
        },
    ),
}


@pytest.mark.parametrize("reading", [True, False], ids=["check", "tune"])
@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, (_made, kinds) in STRANGERS.items() for kind in kinds]
)
def test_what_no_run_left_is_refused_by_name_in_check_mode_as_well(used, name, kind, reading):
    path = pathlib.Path(used.path, name)
    made, kinds = STRANGERS[name]
    kinds[kind](path)
    before = tree(used.path)
    with pytest.raises(TuningError) as caught, (used.locked_for_reading if reading else used.locked)(5):
        pytest.fail("entered")
    message = f"{path}: {kind}, where a run makes {made} only. Move it away, then run again."
    assert str(caught.value) == message
    assert generation_list(used)["problems"] == [message]
    assert tree(used.path) == before


def test_a_check_is_not_stopped_by_what_a_run_removes_and_a_run_leaves_what_has_another_name(used):
    root = pathlib.Path(used.path)
    (root / "current.partial").symlink_to("generations/0002")
    (root / "generations" / "0002.partial" / "before").mkdir(parents=True)
    (root / "generations" / "of mine.partial").mkdir()
    with used.locked_for_reading(5):
        assert (root / "generations" / "0002.partial").exists()
    assert generation_list(used)["problems"] == []
    with used.locked(5):
        assert generations(used) == ["0000", "0001", "of mine.partial"]
        assert not os.path.lexists(root / "current.partial")


def test_a_leftover_that_cannot_be_removed_is_named(used, monkeypatch):
    path = pathlib.Path(used.path, "generations", "0002.partial")
    path.mkdir()

    def refused(*arguments, **options):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(leftovers.shutil, "rmtree", refused)
    words = f"^{path}: what an interrupted run left cannot be removed: Operation not permitted. Nothing was changed"
    with pytest.raises(TuningError, match=words), used.locked(5):
        pytest.fail("entered")


# --- what a manifest says


def described(**facts):
    """Facts of an applied generation, as a run gives them."""
    return {**FACTS, "declared": {"NCCL_PROTO": "LL"}, **facts}


def rewrite(state, number, **changes):
    """Edit a manifest, and give it the checksum that fits: what another version of the collection would have written."""
    path = pathlib.Path(state.path, "generations", f"{number:04d}", "manifest.json")
    manifest = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    del manifest["checksum"]
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    manifest["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(manifest), encoding="utf-8")


def test_a_manifest_has_the_documented_keys_and_who_wrote_it(node):
    node.tune()
    with open(node.manifest(1), encoding="utf-8") as stream:
        manifest = json.load(stream)
    assert set(manifest) == documented_keys()
    assert (manifest["schema"], manifest["number"], manifest["parent"]) == (1, 1, 0)
    assert manifest["by"] == "ops@controller"
    assert manifest["collection_version"] == VERSION
    assert manifest["declared"] == {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", manifest["time"])
    assert {entry["by"] for entry in node.state.history()} == {"ops@controller"}
    without = {key: value for key, value in manifest.items() if key != "checksum"}
    text = json.dumps(without, sort_keys=True, separators=(",", ":"))
    assert manifest["checksum"] == hashlib.sha256(text.encode()).hexdigest()


def documented_keys():
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "what_is_written.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page.partition("## The manifest")[2], re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "3", "null", '"text"', "{}", '{"schema": "9", "checksum": ""}', '{"checksum": ""}', "\0", "[" * 9],
)
def test_a_manifest_that_is_none_is_named(used, content):
    path = pathlib.Path(used.path, "generations", "0001", "manifest.json")
    path.write_text(content, encoding="utf-8")
    with pytest.raises(TuningError, match=f"^{path}: .*Put this generation back from a backup, or choose another one"):
        used.manifest(1)
    assert not used.knows(VENDOR)
    assert used.damage()[0].startswith(f"{path}: ")


def test_an_edited_manifest_is_refused_by_name(used):
    path = pathlib.Path(used.path, "generations", "0001", "manifest.json")
    path.write_text(path.read_text(encoding="utf-8").replace('"0644"', '"0666"'), encoding="utf-8")
    for ask in (used.manifest, used.states_at, used.verify):
        with pytest.raises(TuningError, match=f"^{path}: its checksum does not fit: it was edited"):
            ask(1)
    assert used.manifest(0)["outcome"] == "found"


def test_a_newer_form_of_the_manifest_is_refused_with_the_version(used):
    rewrite(used, 1, schema=2, collection_version="7.8.9")
    with pytest.raises(
        TuningError, match=r"written by version 7\.8\.9 of the collection, in a form \(schema 2\).*Use version 7\.8\.9"
    ):
        used.manifest(1)


def test_a_newer_version_is_refused_for_the_return_only(used):
    rewrite(used, 1, collection_version="0.10.0")
    assert used.manifest(1)["collection_version"] == "0.10.0"
    used.verify(1)
    assert used.knows(VENDOR)
    with pytest.raises(
        TuningError, match=r"recorded by version 0\.10\.0 of the collection; this is version 0\.\d+\.\d+"
    ):
        used.states_at(1)
    assert len(used.states_at(0)) == 1


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_bytes_that_are_not_those_that_were_recorded_are_named(used, damage):
    kept = pathlib.Path(used.path, "generations", "0001", "after", "x", "s.py")
    kept.write_bytes(b"hooK\n") if damage == "changed" else kept.unlink()
    words = "its bytes are not those that were recorded" if damage == "changed" else "cannot be read: No such file"
    for ask in (used.states_at, used.verify):
        with pytest.raises(TuningError, match=f"^{kept}: {words}.*generation 1 back from a backup, or choose another"):
            ask(1)
    assert used.damage()[0].startswith(f"{kept}: ")
    assert used.states_at(0) == [ABSENT]


# --- full snapshots

B = ABSENT._replace(path="/y/s.py", target="/y/s.py")
B_TUNED = B._replace(content=b"b\n", mode=0o600, uid=0, gid=0)


@pytest.fixture
def two_files(used):
    """0: A absent; 1: A as VENDOR; 2: B first touched; 3: A edited."""
    used.record([Change(B, B_TUNED, ["/y"])], FACTS)
    used.record([Change(VENDOR, VENDOR._replace(content=b"new\n"), [])], FACTS)
    return used


def test_a_generation_carries_the_files_that_it_does_not_touch(two_files):
    assert [record["path"] for record in two_files.manifest(2)["files"]] == ["/y/s.py", "/x/s.py"]
    assert [record["path"] for record in two_files.manifest(3)["files"]] == ["/x/s.py", "/y/s.py"]
    assert two_files.states_at(3) == [VENDOR._replace(content=b"new\n"), B_TUNED]
    assert two_files.states_at(2) == [B_TUNED, VENDOR]
    assert two_files.manifest(3)["files"][1]["made_directories"] == []
    assert two_files.made_directories("/y/s.py") == ["/y"]
    two_files.verify(3)


@pytest.mark.parametrize("number", [0, 1])
def test_a_file_that_was_first_touched_later_is_as_it_was_before_that(two_files, number):
    assert two_files.states_at(number) == [(ABSENT, VENDOR)[number], B]


@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_generation_does_not_shut_the_way_to_older_ones(two_files, number):
    pathlib.Path(two_files.path, "generations", "0003", "manifest.json").write_text("{", encoding="utf-8")
    assert two_files.states_at(number) == [(ABSENT, VENDOR)[number], B]


def test_how_a_file_was_is_not_guessed_when_its_first_generation_is_damaged(two_files):
    path = pathlib.Path(two_files.path, "generations", "0002", "manifest.json")
    path.write_text("{", encoding="utf-8")
    with pytest.raises(TuningError, match=f"^{path}: "):
        two_files.states_at(0)
    assert len(two_files.states_at(3)) == 2


def test_after_a_return_a_file_of_later_generations_is_known(two_files):
    two_files.make_current(0, FACTS)
    assert two_files.knows(ABSENT)
    assert two_files.knows(B)
    assert not two_files.knows(B_TUNED)
    two_files.keep_found(ABSENT, B)
    assert two_files.numbers() == [0, 1, 2, 3]


# --- how many stay


def fill(state, count, **facts):
    for _ in range(count):
        state.record([Change(VENDOR, VENDOR, [])], described(**{"profile_status": "experimental", **facts}))


def test_the_oldest_go_first(used):
    used.keep = 4
    fill(used, 5)
    assert used.numbers() == [0, 4, 5, 6]
    assert used.current() == 6
    assert used.states_at(4) == [VENDOR]


def test_what_must_stay_stays(state):
    state.keep = 1
    with state.locked(5):
        state.keep_found(ABSENT)
        state.record([Change(ABSENT, VENDOR, [])], described())
        fill(state, 1)
        state.record([Change(B, B_TUNED, [])], described(profile_status="experimental"))
        fill(state, 3)
    # 0; the newest known-good; the first that names B; the current one
    assert state.numbers() == [0, 1, 3, 6]
    assert state.current() == 6
    state.make_current(3, FACTS)
    state.prune()
    assert state.numbers() == [0, 1, 3, 6]  # the newest stays, so that no number is given twice
    fill(state, 1)
    assert state.numbers() == [0, 1, 3, 7]


def test_generation_0_stays_even_when_it_is_damaged(used):
    """A backup may bring its manifest back."""
    pathlib.Path(used.path, "generations", "0000", "manifest.json").write_text("{", encoding="utf-8")
    used.keep = 1
    fill(used, 2)
    assert used.numbers() == [0, 1, 3]


def test_what_was_found_is_recorded_without_pruning(used):
    """A return to generation 2 records a change by others first; it must not delete generation 2 by that."""
    fill(used, 3)
    used.keep = 1
    used.keep_found(ABSENT)
    assert used.numbers() == [0, 1, 2, 3, 4, 5]


def test_a_run_that_is_killed_while_it_deletes_leaves_no_half_generation(used, monkeypatch):
    fill(used, 3)
    used.keep = 2

    def killed(path, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(state_directory.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            used.prune()
    for number in used.numbers():
        used.verify(number)
    assert [name for name in generations(used) if name.endswith(".partial")]
    with used.locked(5):
        assert not [name for name in generations(used) if name.endswith(".partial")]


def test_a_generation_that_cannot_be_deleted_does_not_fail_the_run(used, monkeypatch):
    fill(used, 2)
    used.keep = 2

    def refused(*arguments, **options):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    real = os.rename
    monkeypatch.setattr(state_directory.os, "rename", lambda a, b: refused() if b.endswith(".partial") else real(a, b))
    assert used.record([Change(VENDOR, VENDOR, [])], described()) == 4
    assert used.current() == 4


def test_names_that_are_no_generations_are_passed_over(used):
    for name in ("²", "٣", "1", "00001", "0002.partial", "x", "-001"):
        os.mkdir(os.path.join(used.path, "generations", name))
    assert used.numbers() == [0, 1]


# --- the newest that is known to work


def test_newest_known_good(used):
    assert used.newest_known_good() is None  # nothing is declared: that is the profile stock
    used.record([Change(VENDOR, VENDOR, [])], described())
    assert used.newest_known_good() == 2
    fill(used, 1, outcome="adopted", profile_status="known_good")
    assert used.newest_known_good() == 3
    fill(used, 1)
    fill(used, 1, profile_status="dead_end")
    fill(used, 1, profile_status="known_good", outcome="found")
    fill(used, 1, profile_status="known_good", declared={})
    used.note({"outcome": "failed", "profile": "known_good", "profile_status": "known_good"})
    assert used.newest_known_good() == 3


@pytest.mark.parametrize("damage", ["manifest", "bytes"])
def test_a_damaged_one_is_not_known_to_work(used, damage):
    fill(used, 2, profile_status="known_good")
    place = pathlib.Path(used.path, "generations", "0003")
    if damage == "manifest":
        (place / "manifest.json").write_text("{}", encoding="utf-8")
    else:
        (place / "after" / "x" / "s.py").write_bytes(b"")
    assert used.newest_known_good() == 2


# --- the history, the clock, the link


def test_a_line_that_cannot_be_read_is_said(used):
    path = pathlib.Path(used.path, "history.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"{\xff torn\n" + b"[1]\n\n" + lines[1])
    assert [entry["outcome"] for entry in used.history()] == ["found", "unreadable", "unreadable", "applied"]
    assert used.history()[2]["reason"] == "line 3 of history.jsonl cannot be read"


BAD_LINES = (
    '{"generation": 1, "outcome": "applied", "reason": 5}',
    '{"generation": 1, "outcome": "applied", "evidence": "abc"}',
    '{"generation": 1, "outcome": "applied", "evidence": 5}',
    '{"generation": 1, "outcome": "applied", "evidence": ["abc"]}',
    '{"generation": "1", "outcome": "applied"}',
    '{"generation": true, "outcome": "applied"}',
    '{"generation": -1, "outcome": "applied"}',
    '{"generation": 1.0, "outcome": "applied"}',
    '{"generation": 1, "outcome": ["applied"]}',
    '{"generation": 1, "outcome": null}',
    '{"generation": 1}',
    "{}",
    '{"outcome": "failed", "time": 20251129}',
    '{"outcome": "failed", "by": {"user": "ops"}}',
    '{"outcome": "failed", "profile": []}',
    '{"outcome": "failed", "profile_status": false}',
    '{"outcome": "failed", "reason": "\\ud800"}',
    '{"outcome": "failed", "of others": {"\\udfff": 1}}',
    '{"outcome": "applied", "evidence": [{"value": NaN}]}',
    '{"outcome": "applied", "evidence": [{"value": 1e999}]}',
    '{"outcome": "applied", "evidence": [{"value": -Infinity}]}',
    f'{{"outcome": "applied", "evidence": [{{"value": {"1" * 4002}}}]}}',
    f'{{"generation": {"1" * 5000}, "outcome": "applied"}}',
    f'{{"outcome": "applied", "of others": {"[" * 101}{"]" * 101}}}',
    f'{{"outcome": "applied", "of others": {"[" * 100000}{"]" * 100000}}}',
    b'{"outcome": "failed", "reason": "\xff"}',
    b'\xef\xbb\xbf{"outcome": "failed"}',
    "\0\0",
)


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: repr(line)[:60])
def test_a_line_that_no_run_writes_does_not_reach_who_reads_the_history(used, line):
    path = pathlib.Path(used.path, "history.jsonl")
    good = used.history()
    with open(path, "ab") as stream:
        stream.write((line if isinstance(line, bytes) else line.encode()) + b"\n")
    assert used.history() == [*good, {"outcome": "unreadable", "reason": "line 3 of history.jsonl cannot be read"}]
    results = {"a": generation_list(used), "b": generation_list(used)}
    assert len(history_table(results)) == 8
    assert json.loads(history_json(results).encode("utf-8"), parse_constant=pytest.fail)["nodes"]["a"]["history"]
    with used.locked(5):
        fill(used, 1)
    assert [entry["outcome"] for entry in used.history()][-1] == "applied"


def test_what_a_newer_version_may_note_as_well_is_shown(used):
    line = {
        "outcome": "of a newer version",
        "generation": None,
        "evidence": [{"value": 1e99, "versions": {"nccl": "2.27"}}],
    }
    with open(os.path.join(used.path, "history.jsonl"), "a", encoding="utf-8") as stream:
        stream.write(json.dumps({**line, "host": "ü\u2028"}, ensure_ascii=False) + "\r\n")
    assert used.history()[2] == {**line, "host": "ü\u2028"}


def test_a_reason_with_bytes_of_a_path_that_are_no_utf_8_is_noted_readably(used):
    used.note({"outcome": "failed", "reason": os.fsdecode(b"/a/\xff: cannot be read"), "by": os.fsdecode(b"\xfe@host")})
    entry = used.history()[2]
    assert (entry["outcome"], entry["reason"], entry["by"]) == ("failed", "/a/?: cannot be read", "?@host")


def test_a_line_that_a_power_loss_cut_does_not_swallow_the_next(used):
    path = pathlib.Path(used.path, "history.jsonl")
    path.write_bytes(path.read_bytes()[:-9])
    used.note({"outcome": "failed", "reason": "x"})
    assert [entry["outcome"] for entry in used.history()] == ["found", "unreadable", "failed"]


def test_a_clock_that_goes_back_changes_no_order(used, monkeypatch):
    monkeypatch.setattr(record_time, "now", lambda: "1999-12-31T23:59:59Z")
    fill(used, 1, profile_status="known_good")
    assert used.current() == 2
    assert used.newest_known_good() == 2
    assert [entry["generation"] for entry in used.history()] == [0, 1, 2]
    assert used.manifest(2)["time"] == "1999-12-31T23:59:59Z"
    used.verify(2)


@pytest.mark.parametrize("link", ["nowhere", "generations/x", ""])
def test_a_current_that_names_no_number_is_refused_by_name(used, link):
    current = pathlib.Path(used.path, "current")
    current.unlink()
    current.symlink_to(link) if link else current.mkdir()
    with pytest.raises(TuningError, match=f"^{current}: not a link to a generation.*Remove it, then run again"):
        used.current()
    assert used.damage()[0].startswith(str(current))


def test_a_half_restored_directory_keeps_what_it_has(used):
    """A backup without links brings the generations back, and no ``current``."""
    os.unlink(os.path.join(used.path, "current"))
    assert used.current() is None
    used.keep_found(VENDOR)
    assert used.current() == 2
    assert used.manifest(2)["reason"] == "found different from what the last generation left"
    shutil.rmtree(os.path.join(used.path, "generations", "0002"))  # and now it names one that is not there
    assert used.damage()[0].startswith(os.path.join(used.path, "generations", "0002", "manifest.json"))
    used.keep_found(VENDOR)
    assert used.numbers() == [0, 1, 2]
    used.verify(used.current())


def test_a_pointer_that_cannot_be_moved_leaves_no_generation_behind(used, monkeypatch):
    def full(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(state_directory.os, "replace", full)
        with pytest.raises(TuningError, match="generation 2 cannot be written: No space left"):
            fill(used, 1)
        with pytest.raises(TuningError, match="current: cannot be changed: No space left"):
            used.make_current(0, FACTS)
    assert (used.numbers(), used.current()) == ([0, 1], 1)
    assert [entry["outcome"] for entry in used.history()] == ["found", "applied"]


# --- all of it as data


def test_the_list_of_generations_names_damage_and_goes_on(node):
    node.tune()
    node.tune(OTHER_ENV)
    node.edit_manifest(1, profile="another")
    listed = generation_list(node.state)
    assert (listed["current"], listed["known_good"]) == (2, 2)
    assert [(entry["number"], entry["intact"]) for entry in listed["generations"]] == [(0, True), (1, False), (2, True)]
    assert listed["generations"][2]["paths"] == [str(node.path())]
    assert listed["generations"][2]["declared"] == OTHER_ENV
    assert [entry["outcome"] for entry in listed["history"]] == ["found", "applied", "applied"]
    (problem,) = listed["problems"]
    assert problem.startswith(f"{node.manifest(1)}: its checksum does not fit")


def test_the_list_of_a_node_that_was_never_tuned(state, tmp_path):
    nothing = {"current": None, "known_good": None, "generations": [], "history": [], "problems": []}
    assert generation_list(state) == nothing
    assert list(tmp_path.iterdir()) == []


def test_the_list_of_a_directory_that_is_none(tmp_path):
    (tmp_path / "generations").write_text("")
    (tmp_path / "current").mkdir()
    (tmp_path / "history.jsonl").mkdir()
    listed = generation_list(StateDirectory(str(tmp_path)))
    assert listed["generations"] == []
    assert len(listed["problems"]) == 3
    assert all(problem.startswith(str(tmp_path)) for problem in listed["problems"])
