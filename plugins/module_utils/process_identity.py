# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who a process is, in words for a message: its command line, and the service that it belongs to."""

from __future__ import annotations

import contextlib
import os
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_log import redacted

LONGEST_COMMAND = 200  # characters shown of a command line


def command_of(pid: object, proc: str = "/proc") -> str:
    """Without API keys: whoever started a server by hand may have them in there. Raises OSError where the process has ended."""
    with open(os.path.join(proc, str(pid), "cmdline"), "rb") as stream:
        command = stream.read(64 * 1024).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return redacted(command)[:LONGEST_COMMAND]


def unit_of(pid: object, proc: str = "/proc") -> Optional[str]:
    """The system's service that the process belongs to; none for those of a user's manager or of a container: they have names of their own."""
    with open(os.path.join(proc, str(pid), "cgroup"), encoding="utf-8", errors="replace") as stream:
        for line in stream:
            parts = line.strip().partition(":")[2].partition(":")[2].strip("/").split("/")
            for position, part in enumerate(parts):
                if part.endswith(".service"):
                    if parts[0] == "system.slice" and all(above.endswith(".slice") for above in parts[:position]):
                        return part
                    break
    return None


def identify(pid: int, proc: str = "/proc") -> dict:
    """{pid, command, unit}; command is empty and unit None where they cannot be read. Never raises."""
    found = {"pid": pid, "command": "", "unit": None}
    try:
        found["command"] = command_of(pid, proc)
        found["unit"] = unit_of(pid, proc)
    except OSError:
        pass  # it has ended meanwhile, or lives where this process cannot look
    return found


def in_words(process: dict) -> str:
    """``pid 4711 (python -m x, unit y.service)``."""
    told = [" ".join(process["command"].split()) or "its command line cannot be read"]
    if process["unit"]:
        told.append(f"unit {process['unit']}")
    return f"pid {process['pid']} ({', '.join(told)})"


def open_files(proc: str = "/proc") -> list:
    """[(pid, where one of its descriptors leads)] of all processes that can be looked at."""
    found = []
    for name in sorted((entry for entry in os.listdir(proc) if entry.isdigit()), key=int):
        folder = os.path.join(proc, name, "fd")
        try:
            descriptors = os.listdir(folder)
        except OSError:
            continue  # it has ended meanwhile, or belongs to somebody else
        for descriptor in descriptors:
            with contextlib.suppress(OSError):  # it was closed meanwhile
                found.append((int(name), os.readlink(os.path.join(folder, descriptor))))
    return found
