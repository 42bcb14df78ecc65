# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL says that it read, from lines of a real log of two H200 GPUs with NCCL 2.28.9."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import nccl_log
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_log import values_in_log

REAL = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "nccl" / "h200-x2.txt"
LINE = b"node1:7:7 [0] NCCL INFO %s set by environment to %s\n"


@pytest.fixture
def log(tmp_path):
    def write(content):
        (tmp_path / "nccl.log").write_bytes(content)
        return str(tmp_path / "nccl.log")

    return write


def test_a_real_log():
    assert values_in_log(str(REAL)) == {
        "NCCL_ALGO": ["Ring"],
        "NCCL_BUFFSIZE": ["16777216"],
        "NCCL_MAX_NCHANNELS": ["16"],
        "NCCL_NTHREADS": ["512"],
        "NCCL_NVLS_ENABLE": ["0"],
        "NCCL_P2P_LEVEL": ["SYS"],
        "NCCL_PROTO": ["LL"],
    }


def test_processes_that_differ(log):
    content = LINE % (b"NCCL_PROTO", b"Simple") + LINE % (b"NCCL_PROTO", b"LL") * 3
    assert values_in_log(log(content)) == {"NCCL_PROTO": ["LL", "Simple"]}


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b".\n", b". \n", b""])
def test_ends_of_lines(log, end):
    line = (LINE % (b"NCCL_PROTO", b"LL")).rstrip(b"\n")
    assert values_in_log(log(line + end)) == {"NCCL_PROTO": ["LL"]}


def test_a_log_in_which_nccl_read_nothing(log):
    assert values_in_log(log(b"node1:7:7 [0] NCCL INFO Bootstrap: Using eth0\n")) == {}


@pytest.mark.parametrize(
    "content", [b"", b"INFO 12:00 loading weights\n", b"\0\xff\xfe" * 9, b"NCCL_PROTO set by environment to LL\n"]
)
def test_a_log_without_nccl_proves_nothing(log, content):
    path = log(content)
    with pytest.raises(
        TuningError, match=f"^nccl_log {path}: holds no line of NCCL.*NCCL_DEBUG=INFO.*Layer 3 was not read back"
    ):
        values_in_log(path)


def test_binary_beside_the_lines(log):
    content = b"\0\xff\n" + LINE % (b"NCCL_ALGO", b"R\xe9ng") + b"\xff\n" + LINE % (b"NCCL_PROTO", b"LL")
    assert values_in_log(log(content)) == {"NCCL_ALGO": ["R\ufffdng"], "NCCL_PROTO": ["LL"]}


def test_only_the_end_of_a_large_log_is_read(log, monkeypatch):
    monkeypatch.setattr(nccl_log, "LARGEST", 100)
    content = LINE % (b"NCCL_ALGO", b"Tree") + b"x" * 200 + b"\n" + LINE % (b"NCCL_PROTO", b"LL")
    assert values_in_log(log(content)) == {"NCCL_PROTO": ["LL"]}


@pytest.mark.parametrize("path", ["missing.log", ".", "fifo"])
def test_a_log_that_cannot_be_read(tmp_path, path):
    os.mkfifo(tmp_path / "fifo")
    path = str(tmp_path / path)
    with pytest.raises(TuningError, match=f"^nccl_log {path}: cannot be read: .*Layer 3 was not read back"):
        values_in_log(path)
