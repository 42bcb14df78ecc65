# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of a node: one line of JSON for each generation, each activation and each failed attempt."""

from __future__ import annotations

import json
import os
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import record_time
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import advice, open_plain, read_plain
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import sync_directory

NOTED = ("generation", "profile", "profile_status", "outcome", "reason", "time", "by", "evidence")


def read_history(path: str) -> list:
    """The lines of the history, oldest first, as dictionaries. A line that cannot be read becomes an entry that says so."""
    try:
        lines = read_plain(path).decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TuningError(f"{path}: cannot be read: {error.strerror}. {advice(error, 'Become root.')}") from error
    return [_entry(line, number) for number, line in enumerate(lines, start=1) if line.strip()]


def append_line(path: str, entry: dict, by: Optional[str]) -> None:
    """Append one line to the history."""
    kept = {key: entry[key] for key in NOTED if entry.get(key) is not None}
    line = json.dumps(dict({"time": record_time.now(), "by": by}, **kept), sort_keys=True) + "\n"
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


def _entry(line: str, number: int) -> dict:
    try:
        entry = json.loads(line)
        if isinstance(entry, dict):
            return entry
    except (ValueError, RecursionError):
        pass  # said in the entry below
    return {"outcome": "unreadable", "reason": f"line {number} of history.jsonl cannot be read"}


def _write_all(descriptor: int, content: bytes) -> None:
    """A nearly full disk may take a part only."""
    while content:
        content = content[os.write(descriptor, content) :]
