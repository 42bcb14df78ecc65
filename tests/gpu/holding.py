# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the programs for a GPU machine say of each thing that has to hold."""

from __future__ import annotations


class Checks:
    def __init__(self):
        self.failed = []
        self.passed = 0

    def hold(self, what: str, holds: bool) -> None:
        print(f"{'ok    ' if holds else 'FAILED'}  {what}", flush=True)
        if holds:
            self.passed += 1
        else:
            self.failed.append(what)

    def finish(self) -> int:
        print(f"{self.passed} passed, {len(self.failed)} failed")
        return 1 if self.failed else 0
