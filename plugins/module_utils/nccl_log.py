# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's own words, from a log written with NCCL_DEBUG=INFO: `NCCL_X set by environment to Y`."""

from __future__ import annotations

import os
import re

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import open_plain

SAID = re.compile(rb"NCCL INFO (NCCL_\w+) set by environment to (\S+?)\.?\s*$", re.MULTILINE)
LARGEST = 64 * 1024 * 1024  # bytes read from the end of a log


def values_in_log(path: str) -> dict:
    """Variable to sorted list of the values that NCCL says it read; several where processes differ.

    Raises TuningError where the log cannot be read, and where NCCL says nothing in it: that is no proof of anything.
    """
    try:
        with os.fdopen(open_plain(path, follow=True), "rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - LARGEST))
            text = stream.read()
    except OSError as error:
        raise TuningError(f"nccl_log {path}: cannot be read: {error.strerror}. Layer 3 was not read back.") from error
    found = {}
    for name, value in SAID.findall(text):
        found.setdefault(name.decode(), set()).add(value.decode("utf-8", "replace"))
    if not found and b"NCCL INFO" not in text:
        raise TuningError(
            f"nccl_log {path}: holds no line of NCCL at level INFO. Start the engine with NCCL_DEBUG=INFO and "
            f"NCCL_DEBUG_FILE naming this file. Layer 3 was not read back."
        )
    return {name: sorted(values) for name, values in sorted(found.items())}
