# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A function in a child process: as another user, ended at its limit, and its memory bounded."""

from __future__ import annotations

import os
import pwd
import time

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.bounded_child import ChildFailed, call_as


def test_the_answer_comes_back():
    assert call_as(None, lambda: {"a": [1, None, "x" * 300_000]}, 30) == {"a": [1, None, "x" * 300_000]}


def test_this_process_is_left_as_it_was():
    before = os.getpid(), os.geteuid(), sorted(os.listdir("/proc/self/fd"))
    call_as(None, lambda: os.chdir("/"), 30)
    assert (os.getpid(), os.geteuid(), sorted(os.listdir("/proc/self/fd"))) == before


def test_a_child_that_hangs_is_ended_at_its_limit():
    began, pid = time.monotonic(), os.getpid()
    with pytest.raises(ChildFailed, match=r"no answer within 0\.3 s"):
        call_as(None, lambda: time.sleep(60), 0.3)
    assert time.monotonic() - began < 10
    assert os.getpid() == pid
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: os._exit(3), "ended without an answer"),
        (lambda: os.kill(os.getpid(), 9), "ended without an answer"),
        (lambda: bytearray(1 << 40), "more memory than a check may have"),
        (lambda: {1, 2}, "ended without an answer"),
    ],
)
def test_a_child_that_fails_says_so(function, words):
    with pytest.raises(ChildFailed, match=words):
        call_as(None, function, 30)


def test_memory_is_bounded():
    with pytest.raises(ChildFailed, match="more memory"):
        call_as(None, lambda: len(bytearray(200 * 1024 * 1024)), 30, memory=100 * 1024 * 1024)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_as_another_user_with_no_group_of_root(tmp_path):
    nobody = pwd.getpwnam("nobody")
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    assert call_as(nobody, lambda: [os.getuid(), os.geteuid(), os.getgid(), 0 in os.getgroups()], 30) == [
        nobody.pw_uid,
        nobody.pw_uid,
        nobody.pw_gid,
        False,
    ]
    with pytest.raises(ChildFailed, match="PermissionError"):
        call_as(nobody, secret.read_text, 30)
    assert os.geteuid() == 0
