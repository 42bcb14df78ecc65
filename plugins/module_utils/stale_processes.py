# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python processes that started before the file changed: they, and what they fork, keep the old values until they are restarted."""

from __future__ import annotations

import os
import time

from ansible_collections.gpu_node.tuning.plugins.module_utils.process_identity import command_of, unit_of

DELETED = " (deleted)"  # what the kernel adds


def stale_processes(readers: list, changed_at: float, proc: str = "/proc") -> list:
    """Processes that read one of our files at a start before ``changed_at`` (seconds since 1970).

    ``readers``: (path of an interpreter, directory that PYTHONPATH of the process must name or None) for every file of ours.
    Each process is {pid, started (UTC, ISO 8601), command, unit (systemd's name, None outside a service)}. This process and its
    ancestors are left out: they end with the play. A process that cannot be looked at is not ours to judge and is left out too.
    """
    directories = {}
    for executable, directory in readers:
        directories.setdefault(os.path.realpath(executable), set()).add(directory)
    boot, ours = _boot_time(proc), _ancestors(proc)
    found = []
    for name in sorted((entry for entry in os.listdir(proc) if entry.isdigit()), key=int):
        if int(name) in ours:
            continue
        try:
            wanted = directories.get(_executable(proc, name))
            if not wanted or _is_in_a_container(proc, name) or not _reads_one_of(proc, name, wanted):
                continue
            started = boot + _start_ticks(proc, name) / os.sysconf("SC_CLK_TCK")
            if started < changed_at:
                found.append(_described(proc, name, started))
        except (OSError, ValueError, IndexError):
            continue  # it has ended meanwhile, or belongs to somebody else
    return found


def _executable(proc: str, name: str) -> str:
    """The program's path, also after an upgrade of the package has replaced the file under the process."""
    path = os.path.realpath(os.path.join(proc, name, "exe"))
    return path[: -len(DELETED)] if path.endswith(DELETED) else path


def _is_in_a_container(proc: str, name: str) -> bool:
    """Another mount namespace has files of its own under the same names."""
    try:
        own = os.readlink(os.path.join(proc, "self", "ns", "mnt"))
        return os.readlink(os.path.join(proc, name, "ns", "mnt")) != own
    except FileNotFoundError:
        return False


def _reads_one_of(proc: str, name: str, directories: set) -> bool:
    if None in directories:
        return True
    with open(os.path.join(proc, name, "environ"), "rb") as stream:
        for entry in stream.read().split(b"\0"):
            if entry.startswith(b"PYTHONPATH="):
                named = {os.path.normpath(os.fsdecode(directory)) for directory in entry[11:].split(b":") if directory}
                return any(os.path.normpath(directory) in named for directory in directories)
    return False


def _described(proc: str, name: str, started: float) -> dict:
    return {
        "pid": int(name),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "command": command_of(name, proc),
        "unit": unit_of(name, proc),
    }


def _start_ticks(proc: str, name: str) -> int:
    """Field 22 of stat, clock ticks after boot; the second field may hold blanks and brackets."""
    with open(os.path.join(proc, name, "stat"), encoding="utf-8", errors="replace") as stream:
        return int(stream.read().rpartition(")")[2].split()[19])


def _boot_time(proc: str) -> float:
    with open(os.path.join(proc, "stat"), encoding="utf-8") as stream:
        return next((float(line.split()[1]) for line in stream if line.startswith("btime ")), 0.0)


def _ancestors(proc: str) -> set:
    pids, pid = set(), os.getpid()
    while pid > 0 and pid not in pids:
        pids.add(pid)
        try:
            with open(os.path.join(proc, str(pid), "stat"), encoding="utf-8", errors="replace") as stream:
                pid = int(stream.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break  # the chain cannot be followed further
    return pids
