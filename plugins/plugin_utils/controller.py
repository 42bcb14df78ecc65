# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller itself: who runs the play, and files that a play leaves there."""

from __future__ import annotations

import getpass
import os
import socket
import tempfile

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError


def whoever_runs_this() -> str:
    """``user@host`` of the controller."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def write_whole(path: str, text: str) -> None:
    """Put ``text`` into a file of the controller, readable by all; a reader sees the old file or the new one. Raises TuningError."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=folder, prefix=".gpu_node_tuning.", delete=False
        ) as new:
            try:
                new.write(text)
                os.fchmod(new.fileno(), 0o644)
                os.replace(new.name, path)
            except BaseException:
                os.unlink(new.name)
                raise
    except OSError as error:
        raise TuningError(
            f"{path}: cannot be written on the controller: {error.strerror}. Legal: a file in an existing directory that you may write."
        ) from error
