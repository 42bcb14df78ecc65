# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of a node: one line of JSON for each generation, each activation and each failed attempt."""

from __future__ import annotations

import json
import math
import os
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import record_time
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import advice, open_plain, read_plain
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import sync_directory

TEXTS = ("profile", "profile_status", "outcome", "reason", "time", "by")
NOTED = ("generation", *TEXTS, "evidence")
LARGEST_NUMBER = 10**4000  # Python reads no number of more than 4300 digits
DEEPEST = 100


def read_history(path: str) -> list:
    """The lines of the history, oldest first, as dictionaries. A line that cannot be read becomes an entry that says so."""
    try:
        lines = read_plain(path).split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TuningError(f"{path}: cannot be read: {error.strerror}. {advice(error, 'Become root.')}") from error
    return [_entry(line, number) for number, line in enumerate(lines, start=1) if line.strip()]


def append_line(path: str, entry: dict, by: Optional[str]) -> None:
    """Append one line to the history."""
    kept = {key: entry[key] for key in NOTED if entry.get(key) is not None}
    facts = {key: _without_halves(value) for key, value in dict({"time": record_time.now(), "by": by}, **kept).items()}
    line = json.dumps(facts, sort_keys=True) + "\n"
    try:
        descriptor = open_plain(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(descriptor).st_size
            torn = size and os.pread(descriptor, 1, size - 1) != b"\n"  # a full disk or a power loss cut the last line
            _write_all(descriptor, (b"\n" if torn else b"") + line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if not size:
            sync_directory(os.path.dirname(path))
    except OSError as error:
        raise TuningError(f"{path}: cannot be written: {error.strerror}. {advice(error, 'Make room.')}") from error


def _entry(line: bytes, number: int) -> dict:
    try:
        entry = json.loads(line.decode("utf-8"))
        if _is_entry(entry) and _can_be_told(entry):
            return entry
    except (ValueError, RecursionError):
        pass  # said in the entry below
    return {"outcome": "unreadable", "reason": f"line {number} of history.jsonl cannot be read"}


def _is_entry(entry: object) -> bool:
    """True where every key that we write has the type that we write, so that nobody who reads the entry has to ask."""
    return (
        isinstance(entry, dict)
        and entry.get("outcome") is not None
        and all(isinstance(entry.get(key), (str, type(None))) for key in TEXTS)
        and _is_number_of_a_generation(entry.get("generation"))
        and _is_evidence(entry.get("evidence"))
    )


def _is_number_of_a_generation(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


def _is_evidence(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(figure, dict) for figure in value))


def _can_be_told(value: object, depth: int = 0) -> bool:
    """True for what every reader of JSON takes: no half of a surrogate pair, no infinity, no number or nesting without end."""
    if isinstance(value, str):
        return _without_halves(value) == value
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < LARGEST_NUMBER
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        return depth < DEEPEST and all(_can_be_told(item, depth + 1) for item in value)
    return value is None


def _without_halves(value: object) -> object:
    """A text without the halves of surrogate pairs, which Python has for bytes of a path that are no UTF-8; others as they are."""
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def _write_all(descriptor: int, content: bytes) -> None:
    """A nearly full disk may take a part only."""
    while content:
        content = content[os.write(descriptor, content) :]
