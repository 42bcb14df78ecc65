# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of the service scope: it stands first on PYTHONPATH, so whoever can write into it runs code as the service."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.option_names import option

EXAMPLE = "/usr/local/lib/gpu_node_tuning"


def refuse_unusable_path(path: Optional[str]) -> None:
    """Raises TuningError for a path that would not be found under the same words as an entry of PYTHONPATH. Looks at no file."""
    legal = f"legal: an absolute path in its shortest form and without ':', for instance {EXAMPLE}"
    if not isinstance(path, str) or not os.path.isabs(path):
        raise TuningError(f"service_dir {path!r}: {legal}. Set {option('service_dir')}.")
    if ":" in path or not path.isprintable():
        raise TuningError(
            f"service_dir {path!r}: {legal}. PYTHONPATH would take it for two entries, or not find it. Set {option('service_dir')}."
        )
    shortest = "/" + os.path.normpath(path).lstrip("/")
    if path != shortest:
        raise TuningError(f"service_dir {path!r}: {legal}. Write {shortest!r} in {option('service_dir')}.")


def refuse_what_others_write(path: str, service_uid: int) -> None:
    """Raises TuningError where somebody else than root, the service's user and this one can put files into ``path``."""
    found = _status(path)
    if found is None:
        return  # it will be made, for its owner alone to write
    if found.st_uid not in _trusted(service_uid):
        raise TuningError(
            f"service_dir {path}: belongs to user {found.st_uid}, whose Python code the service would run. "
            f"Legal: a directory of root, of this user, or of the service's. Nothing was changed. Mend it: chown root {path}"
        )
    if _others_write(found):
        raise TuningError(
            f"service_dir {path}: mode {stat.S_IMODE(found.st_mode):04o}, group {found.st_gid}: others could put Python code into it, which the "
            f"service would run. Legal: written by its owner alone. Nothing was changed. Mend it: chmod go-w {path}"
        )


def parents_that_others_write(path: str, service_uid: int) -> list:
    """A sentence for each directory above ``path`` in which others could put another directory in the place of ours."""
    above = {*_above(path), *_above(os.path.realpath(path))}
    said = []
    for directory in sorted(above):
        found = _status(directory)
        if found is None:
            continue
        foreign = found.st_uid not in _trusted(service_uid)
        if foreign or (_others_write(found) and not found.st_mode & stat.S_ISVTX):
            said.append(
                f"{directory}: owner {found.st_uid}, group {found.st_gid}, mode {stat.S_IMODE(found.st_mode):04o}: others could replace what leads "
                f"to {path}, and the service would run their Python code. Mend it: {'chown root' if foreign else 'chmod go-w'} {directory}"
            )
    return said


def _trusted(service_uid: int) -> set:
    return {0, os.geteuid(), service_uid}


def _others_write(found: os.stat_result) -> bool:
    by_group = found.st_mode & stat.S_IWGRP and found.st_gid != 0 and not _is_private(found)
    return bool(found.st_mode & stat.S_IWOTH or by_group)


def _is_private(found: os.stat_result) -> bool:
    """True where nobody but the owner is in the group: many distributions give each user one of the same name, and a umask of 002."""
    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    return owner.pw_gid == group.gr_gid and owner.pw_name == group.gr_name and set(group.gr_mem) <= {owner.pw_name}


def _above(path: str) -> list:
    directories = []
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        directories.append(path)
    return directories


def _status(path: str) -> Optional[os.stat_result]:
    try:
        return os.stat(path)
    except OSError:
        return None  # not there, or not for us to see: writing into it will say so
