# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which message goes where: the tuned table, read and judged without torch. docs/build_allreduce.md describes its form.

A table has one row for each measured size. Everything up to the crossover takes the library's kernel, everything above takes NCCL, so a
table is a single number plus the launch of each size below it.
"""

from __future__ import annotations

import bisect
import json
import os
from typing import NamedTuple, Optional

from .abi import ALGORITHMS, TRANSPORTS

SCHEMA_VERSION = 1
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "table.json")
MARGIN = 0.05  # a gain below this is within the noise of one measurement on a quiet node
LEAST_RANKS, MOST_RANKS = 2, 8
BLOCKS, THREADS = 1024, 512  # the most that a launch may ask for
LONGEST_US = 1e9


class TableError(Exception):
    """What is wrong with a table, with the file's name and the way on."""


class Launch(NamedTuple):
    algorithm: str
    blocks: int
    threads: int


def read(path: str) -> dict:
    """The table in this file. Raises TableError for what is none."""
    try:
        with open(path, encoding="utf-8") as stream:
            table = json.load(stream)
    except FileNotFoundError:
        raise TableError(f"no table {path}: nothing was measured on this node yet; run build_allreduce.yml") from None
    except (OSError, ValueError, RecursionError) as error:
        raise TableError(f"table {path} cannot be read: {error}; measure again with build_allreduce.yml") from error
    wrong = faults(table)
    if wrong:
        raise TableError(f"table {path}: {wrong[0]}; measure again with build_allreduce.yml")
    return table


def write(path: str, table: dict) -> None:
    """Replace the file in one step: an engine that starts now reads the old table or the new one."""
    wrong = faults(table)
    if wrong:
        raise TableError(f"table {path}: {wrong[0]}")
    new = f"{path}.{os.getpid()}.new"
    try:
        with open(new, "w", encoding="utf-8") as stream:
            json.dump(table, stream, indent=2)
            stream.write("\n")
        os.chmod(new, 0o644)
        os.replace(new, path)
    except OSError as error:
        if os.path.exists(new):
            os.unlink(new)
        raise TableError(f"table {path} cannot be written: {error.strerror}") from error


def faults(table) -> list:
    """Everything that keeps a table from being used, each in one phrase."""
    if not isinstance(table, dict):
        return ["is not a JSON object"]
    if table.get("schema_version") != SCHEMA_VERSION:
        return [f"schema_version is {table.get('schema_version')!r}, legal: {SCHEMA_VERSION}"]
    wrong = [
        f"{name} is {table.get(name)!r}, legal: {legal}" for name, legal, right in _HEAD if not right(table.get(name))
    ]
    rows = table.get("rows")
    if not isinstance(rows, list) or not rows:
        return wrong + ["rows is empty or no list"]
    for index, row in enumerate(rows):
        wrong += [
            f"rows[{index}].{name} is {_get(row, name)!r}, legal: {legal}"
            for name, legal, right in _ROW
            if not right(_get(row, name))
        ]
    if not wrong and [row["bytes"] for row in rows] != sorted({row["bytes"] for row in rows}):
        wrong.append("rows are not in ascending order of bytes, each size once")
    return wrong


def crossover(rows: list, margin: float = MARGIN) -> int:
    """The largest size up to which every measured size gains at least ``margin`` on NCCL; 0 where the smallest does not."""
    limit = 0
    for row in rows:
        if not wins(row, margin):
            break
        limit = row["bytes"]
    return limit


def wins(row: dict, margin: float = MARGIN) -> bool:
    return row["us"] <= row["nccl_us"] * (1 - margin)


def losses(rows: list, required: list, margin: float = MARGIN) -> list:
    """One sentence for each size that keeps the crossover below the largest required one (in bytes); empty where the kernel is worth it."""
    measured = {row["bytes"]: row for row in rows}
    below = [size for size in measured if size < max(required)]  # one that loses ends the crossover, asked for or not
    found = []
    for size in sorted({*required, *below}):
        row = measured.get(size)
        if row is None:
            found.append(f"{size} bytes were not measured")
        elif not wins(row, margin):
            found.append(
                _loss(row) + ("" if size in required else f" (larger sizes are required, up to {max(required)} bytes)")
            )
    return found


def _loss(row: dict) -> str:
    share = (row["us"] / row["nccl_us"] - 1) * 100
    lost = f"{share:.0f} % slower than" if share > 0 else f"only {-share:.0f} % faster than"
    return f"{row['bytes']} bytes: {row['us']:.2f} us, {lost} NCCL with {row['nccl_us']:.2f} us"


class Plan:
    """The launches of one table, for look-ups on every call."""

    def __init__(self, table: dict):
        self.limit = crossover(table["rows"], table["margin"])
        rows = [row for row in table["rows"] if row["bytes"] <= self.limit]
        self._sizes = [row["bytes"] for row in rows]
        self._launches = [Launch(row["algorithm"], row["blocks"], row["threads"]) for row in rows]

    def launch(self, size: int) -> Optional[Launch]:
        """The launch of the next larger measured size; None (NCCL) above the crossover and for nothing at all."""
        if not 0 < size <= self.limit:
            return None
        return self._launches[bisect.bisect_left(self._sizes, size)]

    @property
    def launches(self) -> list:
        """(largest size, launch) of every step, for a self test."""
        return list(zip(self._sizes, self._launches))


def _get(row, name):
    return row.get(name) if isinstance(row, dict) else None


def _count(most: int):
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most


def _time(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < LONGEST_US


_HEAD = (
    ("enabled", "true or false", lambda value: isinstance(value, bool)),
    ("reason", "a text", lambda value: isinstance(value, str)),
    ("build", "the digest of a build", lambda value: isinstance(value, str) and bool(value)),
    ("world", f"{LEAST_RANKS} to {MOST_RANKS}", lambda value: _count(MOST_RANKS)(value) and value >= LEAST_RANKS),
    ("gpu", "the model of the GPUs", lambda value: isinstance(value, str) and bool(value)),
    ("transport", " or ".join(TRANSPORTS), lambda value: value in list(TRANSPORTS)),
    ("margin", "a number from 0 to 0.9", lambda value: (_time(value) and value <= 0.9) or value == 0),
)
_ROW = (
    ("bytes", "a positive integer", _count(1 << 30)),
    ("algorithm", ", ".join(ALGORITHMS), lambda value: value in list(ALGORITHMS)),
    ("blocks", f"1 to {BLOCKS}", _count(BLOCKS)),
    ("threads", f"32 to {THREADS}, in steps of 32", lambda value: _count(THREADS)(value) and value % 32 == 0),
    ("us", "microseconds", _time),
    ("nccl_us", "microseconds", _time),
)
