# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node gives a service, each with its verdict; and models that are named by Hugging Face's names."""

from __future__ import annotations

import os
import pwd

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import model_cache
from ansible_collections.gpu_node.tuning.plugins.module_utils.service_resources import (
    check_disk,
    check_locked_memory,
    check_profile,
    check_shared_memory,
    check_user,
)

MIB = 1024 * 1024


class Room:
    """A file system: MiB in all, MiB and inodes free."""

    def __init__(self, total, free, inodes=1000):
        self.f_frsize, self.f_blocks, self.f_bavail, self.f_files, self.f_favail = MIB, total, free, 1000, inodes


@pytest.fixture
def room(monkeypatch):
    return lambda *numbers: monkeypatch.setattr(os, "statvfs", lambda path: Room(*numbers))


def test_users():
    name = pwd.getpwuid(os.geteuid()).pw_name
    assert check_user(name)[0].verdict == "ok"
    assert check_user(str(os.geteuid()))[1].pw_name == name
    assert check_user("")[0].verdict == "ok"
    check, account = check_user("no-such-user")
    assert (check.verdict, account) == ("refused", None)
    assert "useradd --system no-such-user" in check.message
    assert check_user("9" * 30)[0].verdict == "refused"


def test_only_root_looks_as_somebody_else(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    check, account = check_user("root")
    assert (check.verdict, account.pw_name) == ("unknown", "root")


@pytest.mark.parametrize(
    ("numbers", "several", "verdict"),
    [
        ((64, 60), True, "warning"),
        ((64, 60), False, "ok"),
        ((65536, 500), True, "warning"),
        ((65536, 65000), True, "ok"),
    ],
)
def test_shared_memory(room, numbers, several, verdict):
    room(*numbers)
    assert check_shared_memory(several).verdict == verdict


def test_shared_memory_that_cannot_be_seen():
    assert check_shared_memory(True, "/no/such/place").verdict == "unknown"


@pytest.mark.parametrize(
    ("numbers", "verdict", "words"),
    [
        ((1000, 99), "refused", "99 MiB free. SGLang writes its caches there; make room."),
        ((99999, 9999, 0), "refused", "no inode is free"),
        ((99999, 3000), "warning", "3000 MiB free"),
        ((99999, 9999), "ok", "9999 MiB free"),
    ],
)
def test_disk(room, tmp_path, numbers, verdict, words):
    room(*numbers)
    (check,) = check_disk([str(tmp_path / "not" / "made" / "yet"), str(tmp_path)])
    assert check.verdict == verdict
    assert words in check.message


@pytest.mark.parametrize(
    ("hard", "capabilities", "wanted", "verdict"),
    [
        ("unlimited", "0", "infinity", "ok"),
        ("8388608", "000001ffffffffff", "infinity", "ok"),
        ("8388608", "00000000a80425fb", "infinity", "warning"),
        ("8388608", "00000000a80425fb", "65536", "ok"),
        ("8388608", "00000000a80425fb", "99999999", "warning"),
    ],
)
def test_locked_memory(tmp_path, hard, capabilities, wanted, verdict):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "limits").write_text(
        f"Max cpu time  unlimited unlimited seconds\nMax locked memory         8388608    {hard}    bytes\n"
    )
    (tmp_path / "1" / "status").write_text(f"Name:\tsystemd\nCapEff:\t{capabilities}\n")
    assert check_locked_memory(wanted, str(tmp_path)).verdict == verdict


def test_limits_that_cannot_be_read(tmp_path):
    assert check_locked_memory("infinity", str(tmp_path)).verdict == "unknown"


@pytest.mark.parametrize(
    ("hardware", "verdict"),
    [
        ({"verdict": "fits", "node": "8x GPU"}, "ok"),
        ({"verdict": "unknown"}, "unknown"),
        ({"verdict": "not checked"}, "unknown"),
        (
            {"verdict": "refused", "requirements": [{"name": "gpu", "wanted": "A", "found": "B", "met": False}]},
            "warning",
        ),
        (None, "unknown"),
    ],
)
def test_the_profile_is_judged_as_its_role_did(hardware, verdict):
    check = check_profile({"name": "known_good", "hardware": hardware})
    assert check.verdict == verdict
    if verdict == "warning":
        assert "gpu: wanted A, found B" in check.message


def test_no_profile():
    assert check_profile({}).verdict == "ok"


# --- Hugging Face's cache

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path):
    folder = tmp_path / ".cache" / "huggingface" / "hub" / "models--moonshotai--Kimi-K2.5"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "snapshots" / COMMIT).mkdir(parents=True)
    return folder


def test_a_model_in_the_cache(hub, tmp_path):
    expected = str(hub / "snapshots" / COMMIT)
    for revision in (None, "main", COMMIT):
        assert model_cache.find("moonshotai/Kimi-K2.5", revision, {}, str(tmp_path)).path == expected
    elsewhere = {"HF_HOME": str(tmp_path / ".cache" / "huggingface")}
    assert model_cache.find("moonshotai/Kimi-K2.5", None, elsewhere, "/nowhere").path == expected


@pytest.mark.parametrize("revision", ["v2", "../../../etc/passwd", "/etc/passwd"])
def test_a_revision_that_is_not_there(hub, tmp_path, revision):
    assert model_cache.find("moonshotai/Kimi-K2.5", revision, {}, str(tmp_path)).path is None


def test_a_reference_that_is_garbage_or_a_fifo(hub, tmp_path):
    (hub / "refs" / "main").write_bytes(b"\xff" * 100)
    assert model_cache.find("moonshotai/Kimi-K2.5", None, {}, str(tmp_path)).path is None
    (hub / "refs" / "main").unlink()
    os.mkfifo(hub / "refs" / "main")
    assert model_cache.find("moonshotai/Kimi-K2.5", None, {}, str(tmp_path)).path is None


def test_where_the_cache_is():
    assert model_cache.cache_of({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/h") == "/a"
    assert model_cache.cache_of({"HF_HOME": "/b"}, "/h") == "/b/hub"
    assert model_cache.cache_of({"XDG_CACHE_HOME": "/c"}, "/h") == "/c/huggingface/hub"
    assert model_cache.is_offline({"HF_HUB_OFFLINE": "1"})
    assert not model_cache.is_offline({"HF_HUB_OFFLINE": "0"})
