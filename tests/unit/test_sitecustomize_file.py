# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking at the file and replacing its bytes, on a real file system."""

from __future__ import annotations

import errno
import os
import pathlib
import stat
import subprocess
import sys

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import sitecustomize_file
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import (
    LARGEST,
    TEMPORARY,
    drop_bytecode,
    locate,
    look,
    remove,
    remove_directories,
    restore,
    settle,
    sweep,
    write,
)

from .interpreters import as_root, open_directory, other_user, tree

CONFTEST = pathlib.Path(__file__).with_name("conftest.py")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "lib" / "sitecustomize.py"
    path.parent.mkdir()
    path.write_bytes(b"old\n")
    path.chmod(0o644)
    return path


@pytest.fixture
def debian(tmp_path):
    """(link, target) as Debian lays them out."""
    (tmp_path / "usr").mkdir()
    (tmp_path / "etc").mkdir()
    target = tmp_path / "etc" / "sitecustomize.py"
    target.write_bytes(b"hook\n")
    target.chmod(0o644)
    link = tmp_path / "usr" / "sitecustomize.py"
    link.symlink_to("../etc/sitecustomize.py")
    return link, target


# --- look


def test_look_at_a_file(file):
    file.chmod(0o640)
    state = look(str(file))
    assert state == (str(file), str(file), None, b"old\n", 0o640, os.getuid(), os.getgid(), {})
    assert state.exists


def test_look_at_nothing(tmp_path):
    state = look(str(tmp_path / "no" / "sitecustomize.py"))
    assert not state.exists
    assert state[2:] == (None,) * 6


def test_look_through_a_link(debian):
    link, target = debian
    state = look(str(link))
    assert (state.path, state.target, state.link, state.content) == (
        str(link),
        str(target),
        "../etc/sitecustomize.py",
        b"hook\n",
    )


def test_look_through_a_linked_directory(file, tmp_path):
    (tmp_path / "alias").symlink_to("lib")
    state = look(str(tmp_path / "alias" / "sitecustomize.py"))
    assert (state.target, state.link) == (str(file), None)


def test_an_empty_file_is_a_file(file):
    file.write_bytes(b"")
    assert look(str(file)).exists


def refused(make, path):
    make(path)
    with pytest.raises(TuningError) as caught:
        look(str(path))
    return str(caught.value)


def huge(path):
    path.touch()
    os.truncate(path, 50 * 1024 * 1024)


def chain(path):
    other = path.with_name("other")
    other.symlink_to(path)
    path.symlink_to(other)


def below_a_file(path):
    path.parent.rmdir()
    path.parent.touch()


REFUSALS = {
    "directory": (lambda path: path.mkdir(), "a directory. Legal: a plain file"),
    "dangling link": (lambda path: path.symlink_to("/no/such/file"), "dangling symbolic link to /no/such/file"),
    "link loop": (chain, "a loop of symbolic links"),
    "link to itself": (lambda path: path.symlink_to(path.name), "a loop of symbolic links"),
    "50 MB": (huge, "52428800 bytes; legal: at most 1048576"),
    "fifo": (os.mkfifo, "not a plain file"),
    "link to a directory": (lambda path: path.symlink_to("/"), "a directory"),
    "link to a device": (lambda path: path.symlink_to("/dev/null"), "not a plain file"),
    "parent is a file": (below_a_file, "cannot be looked at: Not a directory"),
}


@pytest.mark.parametrize(("make", "words"), REFUSALS.values(), ids=REFUSALS)
def test_look_refuses(make, words, tmp_path):
    path = tmp_path / "lib" / "sitecustomize.py"
    path.parent.mkdir()
    message = refused(make, path)
    assert message.startswith(f"{path}: ")
    assert words in message
    assert message.endswith(".")


def test_the_largest_file_is_taken(file):
    os.truncate(file, LARGEST)
    assert look(str(file)).exists
    os.truncate(file, LARGEST + 1)
    with pytest.raises(TuningError, match="1048577 bytes"):
        look(str(file))


PROGRAM = """
import os, runpy, sys
conftest, action, path, user = sys.argv[1:]
runpy.run_path(conftest)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils import sitecustomize_file
import pwd
state = sitecustomize_file.look(path) if action == "write" else None
account = pwd.getpwnam(user)
os.setgroups([])
os.setgid(account.pw_gid)
os.setuid(account.pw_uid)
try:
    sitecustomize_file.look(path) if action == "look" else sitecustomize_file.write(state, b"new")
except TuningError as error:
    print(error)
else:
    print("done")
"""


def as_other_user(action, path):
    # Everything is imported as root: the checkout may lie where nobody else can read.
    command = [sys.executable, "-c", PROGRAM, str(CONFTEST), action, str(path), other_user()]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@as_root
def test_what_this_user_cannot_read_is_refused():
    with open_directory() as directory:
        path = directory / "sitecustomize.py"
        path.write_bytes(b"old")
        path.chmod(0o644)
        assert as_other_user("look", path) == "done"
        path.chmod(0o600)
        answer = as_other_user("look", path)
        assert answer == f"{path}: cannot be read: Permission denied. Become root, or repair its mode."


@as_root
def test_what_this_user_cannot_write_is_refused_and_stands():
    with open_directory() as directory:
        path = directory / "sitecustomize.py"
        path.write_bytes(b"old")
        before = tree(directory)
        answer = as_other_user("write", path)
        assert answer.startswith(f"{path}: cannot be replaced atomically: Permission denied (EACCES). Become root")
        assert tree(directory) == before


# --- write


def test_write_replaces_the_bytes_and_nothing_else(file):
    file.chmod(0o640)
    assert write(look(str(file)), b"new\n") == []
    assert file.read_bytes() == b"new\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert os.listdir(file.parent) == [file.name]


def test_write_is_a_rename(file):
    """Whoever has the old file open reads the old bytes to their end."""
    with open(file, "rb") as stream:
        write(look(str(file)), b"something new\n")
        assert stream.read() == b"old\n"


def test_write_goes_through_the_link(debian):
    link, target = debian
    write(look(str(link)), b"new\n")
    assert os.readlink(link) == "../etc/sitecustomize.py"
    assert not target.is_symlink()
    assert target.read_bytes() == b"new\n"
    assert os.listdir(link.parent) == os.listdir(target.parent) == ["sitecustomize.py"]


def test_write_goes_through_a_chain_of_links(debian, tmp_path):
    link, target = debian
    first = tmp_path / "first.py"
    first.symlink_to(link)
    write(look(str(first)), b"new\n")
    assert first.is_symlink()
    assert link.is_symlink()
    assert target.read_bytes() == b"new\n"


@as_root
def test_write_keeps_the_owner(file):
    os.chown(file, 12345, 54321)
    write(look(str(file)), b"new\n")
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 54321)


@pytest.fixture
def attributed(file):
    try:
        os.setxattr(file, "user.gpu_node", b"kept\0")
    except OSError as error:
        pytest.skip(f"the file system of {file} has no user attributes: {error.strerror}")
    return file


def test_write_keeps_extended_attributes(attributed):
    write(look(str(attributed)), b"new\n")
    assert os.getxattr(attributed, "user.gpu_node") == b"kept\0"


@pytest.mark.parametrize("what", ["deleted", "replaced"])
def test_extended_attributes_come_back_with_the_file(attributed, what):
    state = look(str(attributed))
    attributed.unlink()
    if what == "replaced":
        attributed.write_bytes(b"another\n")
        os.setxattr(attributed, "user.other", b"x")
    restore(state)
    assert look(str(attributed)).same_as(state)
    added = {"user.other": b"x"} if what == "replaced" else {}
    assert look(str(attributed)).attributes == {**state.attributes, **added}  # what others added is theirs


def test_those_of_a_record_that_does_not_say_are_those_that_stand_there(attributed):
    state = look(str(attributed))._replace(attributes=None)
    attributed.write_bytes(b"another\n")
    restore(state)
    assert os.getxattr(attributed, "user.gpu_node") == b"kept\0"
    assert look(str(attributed)).same_as(state)


def test_other_attributes_alone_are_no_difference(attributed):
    state = look(str(attributed))
    os.setxattr(attributed, "user.gpu_node", b"changed by the system")
    restore(state)
    assert os.getxattr(attributed, "user.gpu_node") == b"changed by the system"


def test_attributes_that_this_user_may_not_read_are_left_out(attributed, monkeypatch):
    real = os.getxattr

    def refused(path, name):
        if name == "security.secret":
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return real(path, name)

    names = ["security.secret", "security.ima", "user.gpu_node"]
    monkeypatch.setattr(sitecustomize_file.os, "listxattr", lambda path: names)
    monkeypatch.setattr(sitecustomize_file.os, "getxattr", refused)
    assert look(str(attributed)).attributes == {"user.gpu_node": b"kept\0"}


def test_attributes_of_another_file_system_do_not_stop_a_return(file, monkeypatch):
    state = look(str(file))._replace(attributes={"user.gpu_node": b"x"})
    file.unlink()
    monkeypatch.setattr(sitecustomize_file.os, "setxattr", failing(errno.ENOTSUP))
    restore(state)
    assert file.read_bytes() == b"old\n"


def test_other_names_of_the_file_are_told(file, tmp_path):
    assert sitecustomize_file.hard_link_remarks(look(str(file))) == []
    os.link(file, tmp_path / "other name")
    state = look(str(file))
    (remark,) = sitecustomize_file.hard_link_remarks(state)
    assert remark.startswith(f"{file}: has 1 more name(s), hard links. They keep the old bytes")
    assert remark.endswith(f"find / -xdev -samefile {file}")
    write(state, b"new\n")
    assert (tmp_path / "other name").read_bytes() == b"old\n"
    assert sitecustomize_file.hard_link_remarks(look(str(file))) == []
    file.unlink()
    assert sitecustomize_file.hard_link_remarks(state) == []


def test_write_without_extended_attributes_on_the_file_system(file, monkeypatch):
    def unsupported(path):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(sitecustomize_file.os, "listxattr", unsupported)
    write(look(str(file)), b"new\n")
    assert file.read_bytes() == b"new\n"


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_a_new_file_and_its_directories_can_be_read_by_everybody(tmp_path, mask):
    path = tmp_path / "a" / "b" / "sitecustomize.py"
    old = os.umask(mask)
    try:
        made = write(look(str(path)), b"new\n")
    finally:
        os.umask(old)
    assert made == [str(tmp_path / "a"), str(tmp_path / "a" / "b")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    remove(look(str(path)))
    remove_directories(made)
    assert list(tmp_path.iterdir()) == []


def failing(number):
    def fail(*arguments, **options):
        raise OSError(number, os.strerror(number))

    return fail


ADVICE = {
    errno.EBUSY: "mount point",
    errno.EXDEV: "mount point",
    errno.ENOTSUP: "must allow a file to be renamed",
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EIO: "must allow a file to be renamed",
    errno.EROFS: "remount",
    errno.EPERM: "immutable",
    errno.EACCES: "Become root",
}


@pytest.mark.parametrize("step", ["replace", "fsync", "fchmod"])
@pytest.mark.parametrize("number", ADVICE, ids=errno.errorcode.get)
def test_a_failure_leaves_the_old_bytes_and_no_temporary_file(debian, tmp_path, monkeypatch, step, number):
    state = look(str(debian[0]))
    before = tree(tmp_path)
    monkeypatch.setattr(sitecustomize_file.os, step, failing(number))
    with pytest.raises(TuningError) as caught:
        write(state, b"new\n")
    monkeypatch.undo()
    message = str(caught.value)
    assert message.startswith(
        f"{debian[1]}: cannot be replaced atomically: {os.strerror(number)} ({errno.errorcode[number]})"
    )
    assert ADVICE[number] in message
    assert message.endswith("The file is as it was.")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_failure_with_a_new_file_takes_its_directories_along(tmp_path, monkeypatch, step):
    state = look(str(tmp_path / "a" / "b" / "sitecustomize.py"))
    monkeypatch.setattr(sitecustomize_file.os, step, failing(errno.ENOSPC))
    with pytest.raises(TuningError):
        write(state, b"new\n")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_no_temporary_file(file, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(sitecustomize_file.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(look(str(file)), b"new\n")
    assert os.listdir(file.parent) == [file.name]
    assert file.read_bytes() == b"old\n"


def test_a_directory_that_cannot_be_made_leaves_none(tmp_path, monkeypatch):
    real = os.mkdir

    def full(path, *arguments):
        if path.endswith("b"):
            raise OSError(errno.EROFS, "Read-only file system")
        real(path, *arguments)

    monkeypatch.setattr(sitecustomize_file.os, "mkdir", full)
    with pytest.raises(TuningError, match="a/b: the directory cannot be made: Read-only"):
        write(look(str(tmp_path / "a" / "b" / "sitecustomize.py")), b"new\n")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_below_a_file_is_refused(tmp_path):
    (tmp_path / "f").touch()
    state = look(str(tmp_path / "absent.py"))._replace(target=str(tmp_path / "f" / "sitecustomize.py"))
    with pytest.raises(TuningError, match="f: the directory cannot be made"):
        write(state, b"new\n")


# --- remove, bytecode, leftovers


def test_remove_takes_the_target_and_only_it(file):
    beside = file.with_name("other.py")
    beside.touch()
    remove(look(str(file)))
    assert list(file.parent.iterdir()) == [beside]


def test_a_removal_that_fails_says_so(file, monkeypatch):
    monkeypatch.setattr(sitecustomize_file.os, "unlink", failing(errno.EROFS))
    with pytest.raises(TuningError, match=r"cannot be removed: Read-only file system.*remount.*as it was"):
        remove(look(str(file)))


def test_a_removed_file_can_be_put_back(file):
    """As after a removal whose record cannot be written."""
    state = look(str(file))
    remove(state)
    write(state, state.content)
    assert file.read_bytes() == b"old\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


@pytest.mark.parametrize("step", [drop_bytecode, settle])
def test_only_the_bytecode_of_sitecustomize_is_dropped(debian, step):
    link, target = debian
    for directory in (link.parent, target.parent):
        (directory / "__pycache__").mkdir()
        for name in (
            "sitecustomize.cpython-311.pyc",
            "sitecustomize.cpython-311.opt-1.pyc",
            "site.cpython-311.pyc",
            "sitecustomize.txt",
        ):
            (directory / "__pycache__" / name).touch()
    step(look(str(link)))
    for directory in (link.parent, target.parent):
        assert sorted(os.listdir(directory / "__pycache__")) == ["site.cpython-311.pyc", "sitecustomize.txt"]


def test_the_folder_of_the_bytecode_goes_with_the_file_unless_others_use_it(file):
    cache = file.parent / "__pycache__"
    cache.mkdir()
    state = look(str(file))
    drop_bytecode(state)
    assert cache.is_dir()
    file.unlink()
    (cache / "other.cpython-311.pyc").touch()
    drop_bytecode(state)
    assert cache.is_dir()
    (cache / "other.cpython-311.pyc").unlink()
    (cache / "sitecustomize.cpython-311.pyc").touch()
    drop_bytecode(state)
    assert not cache.exists()


def test_bytecode_is_found_below_a_directory_with_a_pattern_in_its_name(tmp_path):
    cache = tmp_path / "a[b]*" / "__pycache__"
    cache.mkdir(parents=True)
    (cache / "sitecustomize.cpython-313.pyc").touch()
    (cache.parent / "sitecustomize.py").touch()
    drop_bytecode(look(str(cache.parent / "sitecustomize.py")))
    assert list(cache.iterdir()) == []


def test_bytecode_that_cannot_be_dropped_is_a_failure(file, monkeypatch):
    (file.parent / "__pycache__").mkdir()
    (file.parent / "__pycache__" / "sitecustomize.cpython-311.pyc").touch()
    monkeypatch.setattr(sitecustomize_file.os, "unlink", failing(errno.EROFS))
    with pytest.raises(TuningError, match="stale bytecode cannot be removed"):
        drop_bytecode(look(str(file)))


def test_leftovers_of_a_killed_run_are_swept(file):
    leftover = file.with_name(file.name + TEMPORARY + "abc123")
    leftover.touch()
    other = file.with_name(file.name + ".bak")
    other.touch()
    sweep(look(str(file)))
    assert sorted(path.name for path in file.parent.iterdir()) == ["sitecustomize.py", "sitecustomize.py.bak"]


def test_a_leftover_that_cannot_be_swept_is_one_clear_error(file, monkeypatch):
    file.with_name(file.name + TEMPORARY + "abc123").touch()
    monkeypatch.setattr(sitecustomize_file.os, "unlink", failing(errno.EACCES))
    with pytest.raises(TuningError, match="cannot be removed: Permission denied"):
        sweep(look(str(file)))


def test_directories_that_others_use_stay(tmp_path):
    for name in ("a", "a/b", "a/b/__pycache__"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "other.py").touch()
    remove_directories([str(tmp_path / "a"), str(tmp_path / "a" / "b")])
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["other.py"]


# --- locate

RESOLUTION = {"origin": None, "candidates": [], "purelib": "/v/site-packages"}


@pytest.mark.parametrize(
    ("resolution", "expected"),
    [
        ({}, "/v/site-packages/sitecustomize.py"),
        ({"origin": "/u/sitecustomize.py", "candidates": ["/u/sitecustomize.py"]}, "/u/sitecustomize.py"),
        (
            {"origin": "/u/sitecustomize.py", "candidates": ["/u/sitecustomize.py", "/v/sitecustomize.py"]},
            "/u/sitecustomize.py",
        ),
        # Something of that name that does not load stands first: look() then says what is wrong with it.
        (
            {"origin": "/u/sitecustomize.py", "candidates": ["/t/sitecustomize.py", "/u/sitecustomize.py"]},
            "/t/sitecustomize.py",
        ),
        ({"candidates": ["/t/sitecustomize.py"]}, "/t/sitecustomize.py"),
    ],
)
def test_locate(resolution, expected):
    assert locate({**RESOLUTION, **resolution}) == expected


@pytest.mark.parametrize(
    "origin",
    [
        "/u/sitecustomize/__init__.py",
        "/u/sitecustomize.cpython-311-x86_64-linux-gnu.so",
        "/u/sitecustomize.pyc",
        "frozen",
    ],
)
def test_locate_refuses_what_is_no_plain_source_file(origin):
    with pytest.raises(TuningError, match=r"something else than a file sitecustomize\.py"):
        locate({**RESOLUTION, "origin": origin, "candidates": ["/u/sitecustomize"]})
