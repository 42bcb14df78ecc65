# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a run is, for a person: lines at the end of a file, from rank 0 alone."""

from __future__ import annotations

import time

SECONDS = 3.0  # between two lines of a count


class Progress:
    """Without a path, and on other ranks, it does nothing."""

    def __init__(self, path: str, rank: int = 0):
        self._path = path if rank == 0 else ""
        self._last = time.monotonic()

    def say(self, line: str) -> None:
        if not self._path:
            return
        self._last = time.monotonic()
        try:
            with open(self._path, "a", encoding="utf-8") as stream:
                stream.write(line + "\n")
        except OSError:
            self._path = ""  # nobody reads it any more; that is no reason to stop

    def count(self, what: str, done: int, total: int) -> None:
        if done == total or time.monotonic() - self._last >= SECONDS:
            self.say(f"{what}: {done} of {total}")
