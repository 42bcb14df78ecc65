# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open what must be a plain file: a FIFO in its place would keep a run waiting for ever, a device would answer with something else."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from ansible_collections.gpu_node.tuning.plugins.module_utils.file_kind import kind_of

MOVE_AWAY = "Move it away, then run again."


class NotPlain(OSError):
    """What stands there is no plain file; ``strerror`` says what it is."""


def open_plain(path: str, flags: int = os.O_RDONLY, mode: int = 0o600, follow: bool = False) -> int:
    """File descriptor of the plain file ``path``. Raises OSError, NotPlain for anything else of that name.

    ``follow``: a symbolic link to a plain file will do.
    """
    with contextlib.suppress(FileNotFoundError):
        _refuse_other_kinds(path, os.stat(path, follow_symlinks=follow))  # before the open, which may disturb a device
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW), mode)
    try:
        _refuse_other_kinds(path, os.fstat(descriptor))  # it may have been exchanged since
    except NotPlain:
        os.close(descriptor)
        raise
    return descriptor


def read_plain(path: str, follow: bool = False, most: int = -1) -> bytes:
    """The bytes of the plain file ``path``, at most ``most`` of them. Raises as open_plain does."""
    with os.fdopen(open_plain(path, follow=follow), "rb") as stream:
        return stream.read(most)


def advice(error: OSError, otherwise: str) -> str:
    """What to do about ``error``: ``otherwise``, save where something else than a plain file is in the way."""
    return MOVE_AWAY if isinstance(error, NotPlain) else otherwise


def _refuse_other_kinds(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotPlain(errno.EINVAL, f"{kind_of(found.st_mode)}, not a plain file", path)
