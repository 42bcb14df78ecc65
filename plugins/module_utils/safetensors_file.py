# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The header of a safetensors file, checked against the file's size: a shard that is truncated or damaged is found without its data.

The form: 8 bytes with the length of the header (little endian), the header (JSON: name to dtype, shape, data_offsets), the data without
a gap. Whatever the file holds, little is read and kept.
"""

from __future__ import annotations

import json
import os
import struct
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import open_plain

LENGTH = 8  # bytes that say how long the header is
LONGEST_HEADER = 100_000_000  # bytes; the library refuses longer ones
POINTER = b"version https://git-lfs"
AGAIN = "Download this file again."
GIB = 1024**3
BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    "F4": 4,
}


class Damaged(Exception):
    """The file is there, can be read, and is not whole; the text says what is wrong and what to do."""


class Unreadable(Exception):
    """What the file holds cannot be told."""


class Tensor(NamedTuple):
    name: str
    dtype: str
    shape: tuple
    size: int


class Shard(NamedTuple):
    """``hole``: offset of the first part of the file that has no block on the disk, None where every part has one."""

    tensors: list
    size: int
    hole: Optional[int]


def read_shard(path: str) -> Shard:
    """Raises Damaged, Unreadable, or OSError (NotPlain for a FIFO or a device) for a file that cannot be opened."""
    with os.fdopen(open_plain(path, follow=True), "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        hole = _first_hole(stream.fileno(), size)
        begin = stream.read(len(POINTER))
        if begin == POINTER:
            raise Damaged("a pointer of Git LFS, not the weights. Fetch them: git lfs pull, in the model's directory.")
        if len(begin) < LENGTH:
            raise Damaged(f"truncated: {size} bytes, and the header alone is longer. {AGAIN}")
        length = struct.unpack("<Q", begin[:LENGTH])[0]
        if length > LONGEST_HEADER:
            raise Damaged(
                f"no safetensors file: its header would be {length} bytes long, legal: {LONGEST_HEADER}. {AGAIN}"
            )
        if length > size - LENGTH:
            raise Damaged(f"truncated: the header is {length} bytes long, and {size - LENGTH} are there. {AGAIN}")
        stream.seek(LENGTH)
        header = stream.read(length)
    return Shard(_tensors(parse_json(header, "its header"), size - LENGTH - length), size, hole)


def parse_json(data: bytes, what: str, largest_number: int = 20) -> dict:
    """The JSON object in ``data``. Raises Damaged for anything else, for a key that is there twice, and for absurd numbers."""

    def unique(pairs):
        found = dict(pairs)
        if len(found) != len(pairs):
            seen = set()
            twice = next(key for key, _value in pairs if key in seen or seen.add(key))
            raise Damaged(f"{what} names {_short(twice)} twice. {AGAIN}")
        return found

    def whole(text):
        if len(text) > largest_number:
            raise Damaged(f"{what} has a number of {len(text)} digits. {AGAIN}")
        return int(text)

    try:
        found = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_int=whole)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{what} is no JSON ({_short(error)}); it begins with {data[:24]!r}. {AGAIN}") from None
    except MemoryError:
        raise Unreadable(f"{what} ({len(data)} bytes) takes more memory than a check may have.") from None
    if not isinstance(found, dict):
        raise Damaged(f"{what} is a {type(found).__name__}, not a JSON object. {AGAIN}")
    return found


def _tensors(header: dict, room: int) -> list:
    """List of Tensor. Raises Damaged where they are not exactly the ``room`` bytes that follow the header."""
    found = [_tensor(name, entry) for name, entry in header.items() if name != "__metadata__"]
    end = 0
    for (begin, after), tensor in sorted(found):
        if begin != end:
            wrong = "overlaps the one before it" if begin < end else f"leaves {begin - end} bytes before it unused"
            raise Damaged(f"tensor {_short(tensor.name)} {wrong}. {AGAIN}")
        end = after
    if end > room:
        raise Damaged(f"truncated: {_amount(end - room)} of {_amount(end)} are missing. {AGAIN}")
    if end < room:
        raise Damaged(f"{_amount(room - end)} follow the last tensor, where the file should end. {AGAIN}")
    return [tensor for _place, tensor in found]


def _tensor(name: str, entry: object) -> tuple:
    """((begin, end), Tensor)."""
    try:
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        sound = isinstance(dtype, str) and all(_is_count(number) for number in (*shape, begin, end)) and begin <= end
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise Damaged(f"tensor {_short(name)} is described by {_short(entry)}. {AGAIN}")
    bits = BITS.get(dtype)
    for number in shape:
        bits = bits and bits * number
    if bits is not None and (bits + 7) // 8 != end - begin:
        raise Damaged(
            f"tensor {_short(name)}: {dtype} of {list(shape)} takes {(bits + 7) // 8} bytes, and it has {end - begin}. {AGAIN}"
        )
    return (begin, end), Tensor(name, dtype, shape, end - begin)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _first_hole(descriptor: int, size: int) -> Optional[int]:
    """A download that reserved the whole file and was broken off leaves one. File systems that know of none say that there is none."""
    try:
        hole = os.lseek(descriptor, 0, os.SEEK_HOLE)
    except (OSError, AttributeError):
        return None
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
    return hole if hole < size else None


def _amount(size: int) -> str:
    return f"{size / GIB:.2f} GiB" if size >= GIB // 100 else f"{size} bytes"


def _short(value: object) -> str:
    text = repr(str(value)[:90])
    return text if len(str(value)) <= 90 else f"{text}..."
