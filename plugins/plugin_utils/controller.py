# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller itself: who runs the play, and files that a play leaves there."""

from __future__ import annotations

import errno
import getpass
import os
import socket
import stat
import tempfile

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError


def whoever_runs_this() -> str:
    """``user@host`` of the controller."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def write_report(option: str, path: str, text: str) -> None:
    """Put ``text`` into a file of the controller, readable by all; a reader sees the old file or the new one. Raises TuningError.

    Links are followed. A character device such as /dev/null is written to; anything else that is no plain file is refused.
    """
    try:
        kind = _kind_of(path)
        if kind is None or stat.S_ISREG(kind):
            _replace(os.path.realpath(path), text)
        elif stat.S_ISCHR(kind):
            with open(path, "w", encoding="utf-8") as device:
                device.write(text)
        else:
            raise OSError(errno.EINVAL, "it is no plain file")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise TuningError(
            f"{option}: {path!r} cannot be written on the controller: {why}. Legal: a file in an existing directory that you may write."
        ) from error


def _kind_of(path: str):
    """Mode of what the path leads to; None where there is nothing yet."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _replace(path: str, text: str) -> None:
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=os.path.dirname(path), prefix=".gpu_node_tuning.", delete=False
    ) as new:
        try:
            new.write(text)
            os.fchmod(new.fileno(), 0o644)
            os.replace(new.name, path)
        except BaseException:
            os.unlink(new.name)
            raise
