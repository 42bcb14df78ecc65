# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node gives every service: shared memory, room on the disk, locked memory, an account. Checks with a verdict each."""

from __future__ import annotations

import os
import pwd
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.check_verdict import OK, REFUSED, UNKNOWN, WARNING, Check

MIB = 1024 * 1024
SHARED = "/dev/shm"  # noqa: S108 - its size is asked for, nothing is put there
LITTLE_SHARED = 1024  # MiB; a container has 64 unless it is told otherwise
FULL_DISK = 100  # MiB
LITTLE_DISK = 5 * 1024  # MiB; kernels that are compiled at the first start take some GiB
SYS_RESOURCE = 24  # the capability that raises limits
# What a hardened unit sees another directory under, and why. The role's unit shows what an instance names below those of ProtectHome.
HIDDEN = {
    **dict.fromkeys(("/tmp", "/var/tmp"), "PrivateTmp"),  # noqa: S108 - nothing is written there
    **dict.fromkeys(("/home", "/root", "/run/user"), "ProtectHome"),
}
LIMIT = "Max locked memory"


def check_user(user: Optional[str]) -> tuple:
    """(Check, the user's entry of passwd or None)."""
    if not user:
        return Check("user", OK, "no user was named: the service is started as this one"), None
    try:
        account = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except (KeyError, OverflowError, ValueError):
        why = f"user {user!r}: no such user on this node. Make it (useradd --system {user}), or set sglang_user."
        return Check("user", REFUSED, why), None
    if os.geteuid() not in (0, account.pw_uid):
        why = f"user {user}: only root can look at files as this user does. Add become: true."
        return Check("user", UNKNOWN, why), account
    return Check("user", OK, f"{account.pw_name}, uid {account.pw_uid}"), account


def check_shared_memory(several_gpus: bool, path: str = SHARED) -> Check:
    try:
        found = os.statvfs(path)
    except OSError as error:
        return Check("shared_memory", UNKNOWN, f"{path}: its size cannot be read: {error.strerror}")
    total, free = found.f_blocks * found.f_frsize // MIB, found.f_bavail * found.f_frsize // MIB
    told = f"{path}: {free} MiB free of {total} MiB"
    if several_gpus and free < LITTLE_SHARED:
        why = f"{told}. NCCL and the ranks exchange data there; mount it larger (mount -o remount,size=16G {path}), or empty it."
        return Check("shared_memory", WARNING, why)
    return Check("shared_memory", OK, told)


def check_disk(directories: list) -> list:
    """One Check for each file system that the directories are on, or will be on once they are made."""
    found, seen = [], set()
    for directory in directories:
        place = _nearest(directory)
        try:
            device, room = os.stat(place).st_dev, os.statvfs(place)
        except OSError as error:
            found.append(Check("disk", UNKNOWN, f"{directory}: the room there cannot be read: {error.strerror}"))
            continue
        if device in seen:
            continue
        seen.add(device)
        free = room.f_bavail * room.f_frsize // MIB
        told = f"{directory}: {free} MiB free"
        if free < FULL_DISK or (room.f_files and not room.f_favail):
            what = told if free < FULL_DISK else f"{directory}: no inode is free"
            found.append(Check("disk", REFUSED, f"{what}. SGLang writes its caches there; make room."))
        elif free < LITTLE_DISK:
            found.append(Check("disk", WARNING, f"{told}. Kernels that are compiled at the first start may take more."))
        else:
            found.append(Check("disk", OK, told))
    return found


def check_locked_memory(wanted: str, proc: str = "/proc") -> Check:
    """Whether systemd (process 1) can give a unit the limit ``wanted``: ``infinity``, or a number of bytes."""
    try:
        with open(os.path.join(proc, "1", "limits"), encoding="ascii", errors="replace") as stream:
            line = next(line for line in stream if line.startswith(LIMIT))
        with open(os.path.join(proc, "1", "status"), encoding="ascii", errors="replace") as stream:
            capabilities = next(int(line.split()[1], 16) for line in stream if line.startswith("CapEff:"))
    except (OSError, StopIteration, ValueError, IndexError) as error:
        why = getattr(error, "strerror", None) or "no such line"
        return Check("locked_memory", UNKNOWN, f"the limits of process 1 cannot be read: {why}")
    hard = line[len(LIMIT) :].split()[1]
    told = f"the unit sets LimitMEMLOCK={wanted}; process 1 has a hard limit of {hard}"
    if hard == "unlimited" or capabilities >> SYS_RESOURCE & 1:
        return Check("locked_memory", OK, told if hard == "unlimited" else f"{told}, and may raise it")
    if wanted.isdecimal() and hard.isdecimal() and int(wanted) <= int(hard):
        return Check("locked_memory", OK, told)
    why = f"{told}, and may not raise it: a container without CAP_SYS_RESOURCE. Start it with --ulimit memlock=-1."
    return Check("locked_memory", WARNING, why)


def check_profile(profile: dict) -> Check:
    """What the role profile found when it compared the profile with the node; nothing is compared anew."""
    name, hardware = profile.get("name"), profile.get("hardware")
    if not name:
        return Check("profile", OK, "no profile was given: the node is not tuned")
    if not isinstance(hardware, dict):
        return Check("profile", UNKNOWN, f"profile {name}: whether it is for this node was not asked")
    verdict, node = hardware.get("verdict"), hardware.get("node")
    if verdict == "fits":
        return Check("profile", OK, f"profile {name} is for this node ({node})")
    if verdict == "refused":
        unmet = [entry for entry in hardware.get("requirements") or [] if entry.get("met") is False]
        told = "; ".join(
            f"{entry.get('name')}: wanted {entry.get('wanted')}, found {entry.get('found')}" for entry in unmet
        )
        return Check(
            "profile", WARNING, f"profile {name} is not for this node ({told or node}), and was allowed all the same"
        )
    return Check("profile", UNKNOWN, f"profile {name}: whether it is for this node is not known ({verdict})")


def hidden_from_unit(path: str, shown: Optional[str] = None) -> Optional[str]:
    """Why the role's unit does not see ``path``, or what its symbolic links lead to; None where it does.

    ``shown``: the directory that the unit shows where ``path`` is below /home, by default ``path`` itself.
    """
    there, what = [], shown or path
    if _hiding(path)[1] == "ProtectHome":
        # Shown is what stands there, wherever a link leads.
        there = [what, os.path.realpath(what)]
    for seen in dict.fromkeys((path, os.path.realpath(path))):
        folder, setting = _hiding(seen)
        if setting == "ProtectHome" and any(_is_below(seen, one) for one in there):
            continue
        if setting:
            led = "" if seen == path else f", where {path} leads to"
            return f"a unit with {setting} sees nothing of {folder}{led}"
    return None


def _hiding(path: str) -> tuple:
    found = [(folder, setting) for folder, setting in HIDDEN.items() if _is_below(path, folder)]
    return found[0] if found else (None, None)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _nearest(path: str) -> str:
    """``path``, or the nearest directory above it that is there."""
    while path not in ("/", "") and not os.path.isdir(path):
        path = os.path.dirname(path)
    return path or "/"
