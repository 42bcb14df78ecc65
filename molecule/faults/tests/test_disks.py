"""A frozen file, a read-only directory, a full disk, no right to write: the real file, the real playbook, one clear message."""

from __future__ import annotations

import contextlib

import pytest
from as_shipped import reset
from conftest import KNOWN_GOOD, SHOW
from fleet import STATE, difference, times

PYTHON = "/usr/bin/python3"


@pytest.fixture(autouse=True)
def _as_shipped(nodes):
    reset(*nodes)


@contextlib.contextmanager
def _immutable(node, path: str):
    node.sh(f"chattr +i {path}")
    try:
        yield
    finally:
        node.sh(f"chattr -i {path}")


@contextlib.contextmanager
def _mounted(node, path: str, *options: str):
    node.sh(f"test -e {path} || mkdir -p {path}; mount {' '.join(options)} {path}")
    try:
        yield
    finally:
        node.sh(f"umount {path}")


@contextlib.contextmanager
def _read_only(node):
    folder = f"/etc/python{node.python}"
    with _mounted(node, folder, f"--bind {folder}"):
        node.sh(f"mount -o remount,ro,bind {folder}")
        yield


FAULTS = {
    "the file is immutable": (lambda node: _immutable(node, node.file), "{file}: cannot be replaced atomically"),
    "its directory is immutable": (
        lambda node: _immutable(node, node.file.rpartition("/")[0]),
        "{file}: cannot be replaced atomically",
    ),
    "its directory is read-only": (_read_only, "{file}: cannot be replaced atomically: Read-only file system (EROFS)"),
    "the file is a mount point": (
        lambda node: _mounted(node, node.file, f"--bind {node.file}"),
        "{file}: cannot be replaced atomically",
    ),
    "no room for the records": (
        lambda node: _mounted(node, STATE, "-t tmpfs -o size=8k,mode=0700 none"),
        "state_dir {state}: generation 0 cannot be written: No space left on device",
    ),
    "records on a read-only disk": (
        lambda node: _mounted(node, STATE, "-t tmpfs -o ro,mode=0700 none"),
        "{state}/lock: the lock cannot be opened: Read-only file system",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_refused_with_one_clear_message_and_nothing_done(fleet, nodes, count, name):
    (node,) = nodes
    fault, words = FAULTS[name]
    with fault(node):
        look = (node.read(node.file), node.host.check_output("stat -c '%%a %%U %%G %%i' %s", node.file))
        refused = fleet.tune(rc=2)
        assert words.format(file=node.file, state=STATE) in refused.message(node)
        assert (node.read(node.file), node.host.check_output("stat -c '%%a %%U %%G %%i' %s", node.file)) == look
        assert node.host.check_output("ls -A %s", node.file.rpartition("/")[0]) == "sitecustomize.py"
        assert node.ask(PYTHON, "-c", SHOW) == {}
        count("faults injected")
    assert not node.host.file(f"{STATE}/generations").exists, "a first run that did nothing leaves no record"
    fleet.tune()
    assert node.ask(PYTHON, "-c", SHOW) == KNOWN_GOOD
    fleet.rollback(generation=0)
    assert node.read(node.file) == node.vendor_bytes()


def test_a_rollback_on_a_frozen_file_leaves_the_tuned_one(fleet, nodes, count):
    (node,) = nodes
    fleet.tune()
    tuned = node.read(node.file)
    with _immutable(node, node.file):
        refused = fleet.rollback(rc=2, generation=0)
        assert f"{node.file}: cannot be replaced atomically" in refused.message(node)
        assert node.read(node.file) == tuned
        count("faults injected")
    fleet.rollback(generation=0)
    assert node.read(node.file) == node.vendor_bytes()


HOLDER = f"""
import fcntl, os, time
os.umask(0o077)
os.makedirs("{STATE}", exist_ok=True)
lock = open("{STATE}/lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
with open("/run/holder", "w") as stream:
    stream.write(str(os.getpid()))
time.sleep(600)
"""


def test_the_holder_of_the_lock_is_killed(fleet, nodes, count):
    """Held: the run gives up after its time and has changed nothing. The holder is killed: the next one goes through at once."""
    (node,) = nodes
    node.write("/run/holder.py", HOLDER)
    node.sh(
        f"rm -f /run/holder; setsid {PYTHON} /run/holder.py >/dev/null 2>&1 </dev/null & while ! [ -s /run/holder ]; do sleep 0.1; done"
    )
    before = times(node)
    try:
        refused = fleet.tune(rc=2, nccl_env_lock_timeout=1)
        assert f"{STATE}/lock: another run has held the lock of this node for 1 s" in refused.message(node)
        assert difference(before, times(node)) == []
    finally:
        node.sh("kill -9 $(cat /run/holder)")
    fleet.tune(nccl_env_lock_timeout=1)
    assert node.ask(PYTHON, "-c", SHOW) == KNOWN_GOOD
    count("faults injected")
