# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts of a check, and what a check found: one sentence with the value and the way on."""

from __future__ import annotations

from typing import NamedTuple

OK, REFUSED, WARNING, UNKNOWN = "ok", "refused", "warning", "unknown"
WORST_FIRST = (REFUSED, UNKNOWN, WARNING, OK)


class Check(NamedTuple):
    check: str
    verdict: str
    message: str


def worst(verdicts) -> str:
    """The one that decides; nothing at all is ok."""
    return min(verdicts, key=WORST_FIRST.index, default=OK)
