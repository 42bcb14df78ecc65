# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands at a path, in words for a message."""

from __future__ import annotations

import errno
import os
import stat
from typing import Optional

KINDS = {
    stat.S_IFREG: "a plain file",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def kind_of(mode: int) -> str:
    """The kind in ``mode``, the st_mode of a stat result."""
    return KINDS.get(stat.S_IFMT(mode), "something else")


def not_a_directory(path: str) -> Optional[str]:
    """What stands where a directory should be; None for a directory, for a link to one, and where nothing stands.

    None as well where that cannot be seen: whoever opens the directory then gets the reason.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return _link_to_nothing(path, error)
    if stat.S_ISDIR(mode):
        return None
    return f"a symbolic link to {kind_of(mode)}" if os.path.islink(path) else kind_of(mode)


def _link_to_nothing(path: str, error: OSError) -> Optional[str]:
    if error.errno not in (errno.ENOENT, errno.ELOOP) or not os.path.islink(path):
        return None
    leads = "that leads back to itself" if error.errno == errno.ELOOP else "that leads nowhere"
    return f"a symbolic link to {os.readlink(path)} {leads}"
