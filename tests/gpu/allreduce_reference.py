# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the all-reduce has to compute, in plain Python: sums in float32 from +0.0 in the order of the ranks, rounded once."""

from __future__ import annotations

import math
import random
import struct

BF16, FP16, FP32 = 0, 1, 2
NAMES = {BF16: "bf16", FP16: "fp16", FP32: "fp32"}
SIZE = {BF16: 2, FP16: 2, FP32: 4}
LEAST_BITS = {BF16: 8, FP16: 11, FP32: 24}  # of the significand
SPECIAL = {
    BF16: (0x0000, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x0001, 0x8001, 0x7F7F),
    FP16: (0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFFFF, 0x0001, 0x8001, 0x7BFF),
    FP32: (0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF, 0x00000001, 0x80000001, 0x7F7FFFFF),
}


def pack(dtype: int, lanes: list[int]) -> bytes:
    return struct.pack(f"<{len(lanes)}{'I' if dtype == FP32 else 'H'}", *lanes)


def unpack(dtype: int, data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // SIZE[dtype]}{'I' if dtype == FP32 else 'H'}", data))


def value(dtype: int, lane: int) -> float:
    if dtype == FP16:
        return struct.unpack("<e", struct.pack("<H", lane))[0]
    return struct.unpack("<f", struct.pack("<I", lane << 16 if dtype == BF16 else lane))[0]


def to_float32(exact: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", exact))[0]
    except OverflowError:
        return math.copysign(math.inf, exact)


def lane_of(dtype: int, total: float) -> int:
    """A float32 value, rounded to nearest even."""
    if dtype == FP16:
        try:
            return struct.unpack("<H", struct.pack("<e", total))[0]
        except OverflowError:
            return 0xFC00 if total < 0 else 0x7C00
    whole = struct.unpack("<I", struct.pack("<f", total))[0]
    if dtype == FP32 or math.isnan(total):
        return whole >> (16 if dtype == BF16 else 0)
    return (whole + 0x7FFF + (whole >> 16 & 1)) >> 16


def total_of(dtype: int, lanes: list[int], islands: bool = False) -> float:
    """Two islands add up each for themselves, and then the two sums."""
    if islands:
        half = len(lanes) // 2
        return to_float32(total_of(dtype, lanes[:half]) + total_of(dtype, lanes[half:]))
    total = 0.0
    for lane in lanes:
        total = to_float32(total + value(dtype, lane))  # two float32 add up exactly enough in a double
    return total


def difference(dtype: int, inputs: list[list[int]], output: list[int], islands: bool = False) -> str:
    """The first element that is not bit for bit what it has to be, in words; any NaN stands for any other."""
    for at, lane in enumerate(output):
        lanes = [one[at] for one in inputs]
        total = total_of(dtype, lanes, islands)
        right = math.isnan(value(dtype, lane)) if math.isnan(total) else lane == lane_of(dtype, total)
        if not right:
            return f"element {at}: {[hex(one) for one in lanes]} gave {lane:#x}, expected {lane_of(dtype, total):#x}"
    return ""


def too_far(dtype: int, inputs: list[list[int]], output: list[int]) -> str:
    """The first element that is farther from the sum in double precision than one rounding of each kind explains."""
    for at, lane in enumerate(output):
        values = [value(dtype, one[at]) for one in inputs]
        exact = math.fsum(values)
        room = abs(exact) * 2.0 ** -LEAST_BITS[dtype] + sum(map(abs, values)) * len(values) * 2.0**-24 + 2.0**-25
        if not abs(value(dtype, lane) - exact) <= room:
            return f"element {at}: {value(dtype, lane)}, in double precision {exact}"
    return ""


def ordinary(dtype: int, count: int, seed: int) -> list[int]:
    numbers = random.Random(seed)
    return [lane_of(dtype, to_float32(numbers.gauss(0, 1))) for _ in range(count)]


def any_bits(dtype: int, count: int, seed: int) -> list[int]:
    """Every bit pattern may come, and the special ones come often."""
    numbers = random.Random(seed)
    return [
        numbers.choice(SPECIAL[dtype]) if numbers.random() < 0.3 else numbers.getrandbits(8 * SIZE[dtype])
        for _ in range(count)
    ]
