# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shards that are whole, and every way in which one is not: each has one clear message, and none is read far."""

from __future__ import annotations

import json
import os
import struct
import time

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import NotPlain
from ansible_collections.gpu_node.tuning.plugins.module_utils.safetensors_file import Damaged, parse_json, read_shard

from .small_models import shard_bytes, with_header

TWO = {"a": ("BF16", (2, 3)), "b": ("F32", (4,))}


@pytest.fixture
def shard(tmp_path):
    """Function that writes bytes and reads them as a shard."""

    def read(content):
        (tmp_path / "x.safetensors").write_bytes(content)
        return read_shard(str(tmp_path / "x.safetensors"))

    return read


def test_a_whole_shard(shard):
    found = shard(shard_bytes(TWO, __metadata__={"format": "pt"}))
    assert [tuple(tensor) for tensor in found.tensors] == [("a", "BF16", (2, 3), 12), ("b", "F32", (4,), 16)]
    assert found.hole is None


def test_padding_empty_tensors_and_unknown_types_are_legal(shard):
    header = {
        "empty": {"dtype": "F32", "shape": [0, 4], "data_offsets": [0, 0]},
        "new": {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]},
    }
    assert len(shard(with_header(json.dumps(header).encode() + b"   ", b"123")).tensors) == 2
    assert shard(with_header(b"{}", b"")).tensors == []


@pytest.mark.parametrize("cut", [1, 27, 28, 40])
def test_a_truncated_shard(shard, cut):
    with pytest.raises(Damaged, match=r"^truncated: .*Download this file again\.$"):
        shard(shard_bytes(TWO)[:-cut])


def test_how_much_is_missing_is_told(shard):
    with pytest.raises(Damaged, match="5 bytes of 28 bytes are missing"):
        shard(shard_bytes(TWO)[:-5])


def entry(**changes):
    return {"dtype": "U8", "shape": [4], "data_offsets": [0, 4], **changes}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "truncated: 0 bytes"),
        (b"\x05\0\0", "truncated: 3 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS"),
        (struct.pack("<Q", 2**63) + b"{}", "its header would be 9223372036854775808 bytes long"),
        (struct.pack("<Q", 100) + b"{}", "truncated: the header is 100 bytes long, and 2 are there"),
        (b"rubbish" + b"\x7f" + b"garbage" * 9, "no safetensors file: its header would be"),
        (with_header(b"\xff\xfe{}", b""), "its header is no JSON"),
        (with_header(b"<html>404</html>", b""), "its header is no JSON"),
        (with_header(b"[]", b""), "its header is a list, not a JSON object"),
        (with_header(b'{"a": ' + b"[" * 100_000, b""), "its header is no JSON"),
        (with_header(b'{"a": 1, "a": 2}', b""), "its header names 'a' twice"),
        (with_header(b'{"a": {"dtype": "U8", "dtype": "U8"}}', b""), "its header names 'dtype' twice"),
        (with_header(b'{"a": ' + b"9" * 5000 + b"}", b""), "a number of 5000 digits"),
        (with_header(b'{"a": 1}', b""), "tensor 'a' is described by '1'"),
    ],
)
def test_no_safetensors_at_all(shard, content, words):
    with pytest.raises(Damaged) as caught:
        shard(content)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"a": entry(data_offsets=[-4, 0])}, "tensor 'a' is described by"),
        ({"a": entry(data_offsets=[4, 0])}, "tensor 'a' is described by"),
        ({"a": entry(data_offsets=[0])}, "tensor 'a' is described by"),
        ({"a": entry(data_offsets=["0", "4"])}, "tensor 'a' is described by"),
        ({"a": entry(data_offsets=[0.0, 4.0])}, "tensor 'a' is described by"),
        ({"a": entry(shape=[-4])}, "tensor 'a' is described by"),
        ({"a": entry(shape=[True, 4])}, "tensor 'a' is described by"),
        ({"a": entry(shape=None)}, "tensor 'a' is described by"),
        ({"a": entry(dtype=None)}, "tensor 'a' is described by"),
        ({"a": entry(dtype="F32")}, "tensor 'a': F32 of [4] takes 16 bytes, and it has 4"),
        ({"a": entry(shape=[10**15, 10**15])}, "takes 1000000000000000000000000000000 bytes"),
        ({"a": entry(), "b": entry(data_offsets=[2, 6])}, "tensor 'b' overlaps the one before it"),
        ({"a": entry(), "b": entry(data_offsets=[6, 10])}, "tensor 'b' leaves 2 bytes before it unused"),
        ({}, "4 bytes follow the last tensor"),
    ],
)
def test_a_header_that_does_not_fit(shard, header, words):
    with pytest.raises(Damaged) as caught:
        shard(with_header(json.dumps(header).encode(), b"1234"))
    assert words in str(caught.value)
    assert str(caught.value).endswith("Download this file again.")


def test_a_sparse_file_is_seen(tmp_path):
    whole = shard_bytes({"a": ("U8", (1 << 22,))})
    with open(tmp_path / "x", "wb") as stream:
        stream.write(whole[:4096])
        stream.truncate(len(whole))
    hole = read_shard(str(tmp_path / "x")).hole
    if hole is None:
        pytest.skip("this file system knows of no holes")
    assert 0 < hole < len(whole)


def test_a_fifo_a_loop_and_a_directory_keep_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    os.symlink("loop", tmp_path / "loop")
    began = time.monotonic()
    with pytest.raises(NotPlain, match="FIFO"):
        read_shard(str(tmp_path / "fifo"))
    with pytest.raises(OSError, match="symbolic links"):
        read_shard(str(tmp_path / "loop"))
    with pytest.raises(NotPlain, match="directory"):
        read_shard(str(tmp_path))
    assert time.monotonic() - began < 5


def test_a_link_to_a_shard_is_followed(tmp_path):
    (tmp_path / "blob").write_bytes(shard_bytes(TWO))
    os.symlink("blob", tmp_path / "x.safetensors")
    assert len(read_shard(str(tmp_path / "x.safetensors")).tensors) == 2


def test_a_long_header_is_read_in_seconds(shard):
    many = {f"model.layers.{number}.mlp.experts.7.down_proj.weight_packed": ("U8", (1,)) for number in range(20_000)}
    began = time.monotonic()
    assert len(shard(shard_bytes(many)).tensors) == 20_000
    assert time.monotonic() - began < 20


def test_parse_json_takes_what_an_index_has():
    assert parse_json(b'{"metadata": {"total_size": 1.5e3}, "weight_map": {}}', "it")["metadata"] == {
        "total_size": 1500
    }
