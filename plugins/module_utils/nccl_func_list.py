# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The grammar that NCCL_ALGO and NCCL_PROTO share: ``[function:][^]token,token;function:...``."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One part between semicolons."""

    function: str  # empty: every function that no other entry names
    tokens: frozenset  # what it switches on; behind ^ these are the tokens that are not named


def entries(value, choices):
    """The entries of a value in its canonical spelling."""
    return [_entry(part, choices) for part in value.split(";")]


def _entry(part, choices):
    function, _colon, listed = part.rpartition(":")
    named = frozenset(listed.lstrip("^").split(","))
    return Entry(function, frozenset(choices) - named if listed.startswith("^") else named)
