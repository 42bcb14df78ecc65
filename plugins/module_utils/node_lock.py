# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one lock of a node. The kernel frees it when its holder dies, so a killed run blocks nobody."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from typing import Callable, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.option_names import option
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import advice, open_plain

POLL = 0.1  # seconds between two tries


def acquire(path: str, timeout: float, make_directory: Optional[Callable[[], object]]) -> Optional[int]:
    """File descriptor of the lock file ``path``, locked; closing it frees the lock. Waits up to ``timeout`` seconds.

    The run before us may have removed the file that we waited on: then the new file is taken. ``make_directory`` makes the
    directory where it is missing; with None nothing is made, and without a lock file the answer is None.
    Raises TuningError when the time is over or the file cannot be used.
    """
    flags = os.O_RDONLY if make_directory is None else os.O_RDWR | os.O_CREAT
    end = time.monotonic() + timeout
    while True:
        descriptor = _open(path, flags, make_directory)
        if descriptor is None and make_directory is None:
            return None
        if descriptor is not None:
            if _locked(descriptor, path):
                return descriptor
            os.close(descriptor)
        if time.monotonic() > end:
            raise TuningError(
                f"{path}: another run has held the lock of this node for {timeout:g} s. "
                f"Wait for it (fuser names its process), or raise {option('lock_timeout')}."
            )
        time.sleep(POLL)


def _open(path: str, flags: int, make_directory: Optional[Callable[[], object]]) -> Optional[int]:
    """File descriptor; None where the file, or its directory at this very moment, is missing."""
    try:
        if make_directory is not None:
            make_directory()
        return open_plain(path, flags)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise TuningError(
            f"{path}: the lock cannot be opened: {error.strerror}. {advice(error, 'Become root, or set ' + option('state_dir') + '.')}"
        ) from error


def _locked(descriptor: int, path: str) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.ENOENT):
            return False
        os.close(descriptor)
        raise TuningError(f"{path}: cannot be locked: {error.strerror}.") from error
