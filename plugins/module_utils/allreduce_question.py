# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of a measurement: which messages have to win, by how much, between how many GPUs. Judged before minutes go into a build."""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

LADDER = (1, 2, 4, 8, 16, 32, 64)  # rows beyond the required ones, to see where NCCL begins to win
ITEM_BYTES = 2  # bf16
LONGEST_BYTES = 1 << 30
LEAST_GPUS, MOST_GPUS = 2, 8
EXAMPLES = {"rows": "[1, 2, 3]", "hidden": "7168", "margin": "0.05", "world": "8, or 0 for all", "tune_timeout": "300"}


class Question(NamedTuple):
    rows: list
    hidden: int
    margin: float
    world: int  # 0: all GPUs that the engine sees

    @property
    def longest_bytes(self) -> int:
        return max([*self.rows, *LADDER]) * self.hidden * ITEM_BYTES


def question_of(given: dict) -> Question:
    """Of values as an inventory or a command line has them, text included. Raises TuningError for the first that makes no sense."""
    question = Question(
        rows=[_whole("rows", word, 1, 65536) for word in _words(given["rows"])],
        hidden=_whole("hidden", given["hidden"], 8, 1 << 20),
        margin=_number("margin", given["margin"], 0, 0.9),
        world=_world(given["world"]),
    )
    if question.longest_bytes > LONGEST_BYTES:
        raise _refused("rows", given["rows"], f"messages up to {LONGEST_BYTES} bytes, this is {question.longest_bytes}")
    _whole("tune_timeout", given["timeout"], 1, 86400)
    return question


def _words(rows) -> list:
    words = rows.replace(",", " ").split() if isinstance(rows, str) else rows
    if not isinstance(words, list) or not words:
        raise _refused("rows", rows, "one whole number or more")
    return words


def _world(value) -> int:
    legal = f"{LEAST_GPUS} to {MOST_GPUS}, or 0 for all GPUs that the engine sees"
    if (world := _int(value)) == 0 or (world is not None and LEAST_GPUS <= world <= MOST_GPUS):
        return world
    raise _refused("world", value, legal)


def _whole(name: str, value, least: int, most: int) -> int:
    number = _int(value)
    if number is None or not least <= number <= most:
        raise _refused(name, value, f"a whole number from {least} to {most}")
    return number


def _number(name: str, value, least: float, most: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, bool) or not least <= number <= most:
        raise _refused(name, value, f"a number from {least:g} to {most:g}")
    return number


def _int(value):
    """None for what is no whole number, True and 7.0 included."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def _refused(name: str, value, legal: str) -> TuningError:
    return TuningError(
        f"custom_allreduce_{name}: {value!r}; legal: {legal}. Set it, for instance, to {EXAMPLES[name]}."
    )
