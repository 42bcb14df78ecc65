# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions and the windows they must lie in, such as ``>=2.21,<2.31``; managed nodes need not have packaging."""

from __future__ import annotations

import re

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import show

OPERATORS = (">=", "<=", "==", "!=", ">", "<")
# How the kinds of one release follow each other: 2.14.0.dev3 < 2.14.0a1 < 2.14.0b1 < 2.14.0rc1 < 2.14.0 < 2.14.0.post1.
STAGES = {"dev": 0, "a": 1, "b": 2, "rc": 3, "": 4, "post": 5}

# Behind the numbers a build may name itself (2.14.1+cu130), and a package its revision (2.30.7-1): neither counts.
_VERSION = re.compile(
    r"v?(?P<numbers>[0-9]{1,9}(?:\.[0-9]{1,9}){0,5})"
    r"(?:[._-]?(?P<stage>dev|a|b|rc|post)\.?(?P<number>[0-9]{0,9}))?"
    r"(?:-[0-9]{1,9})?(?:\+[0-9A-Za-z._-]{1,64})?",
    re.ASCII,
)
_CLAUSE = re.compile(r"(?P<operator>>=|<=|==|!=|>|<) *(?P<version>[^ <>=!]+)", re.ASCII)


class InvalidVersion(TuningError, ValueError):
    """The text is not a version, or not a window of versions; the message says what would be."""


def parse_version(version):
    """A version as a tuple that compares as versions do: 2.30 equals 2.30.0, and 0.5.0rc1 comes before 0.5.0."""
    match = _VERSION.fullmatch(version.strip()) if isinstance(version, str) else None
    if not match:
        raise InvalidVersion(
            f"{show(version)} is not a version. Legal: numbers with points in quotes, such as '2.28.9' or '0.5.0rc1'. "
            "Write one of these."
        )
    numbers = [int(part) for part in match["numbers"].split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), STAGES[match["stage"] or ""], int(match["number"] or 0)


def parse_specifier(specifier):
    """``>=2.21,<2.31`` as a list of (operator, version as parse_version gives it)."""
    if not isinstance(specifier, str):
        raise InvalidVersion(_not_a_window(specifier))
    clauses = []
    for part in specifier.split(","):
        match = _CLAUSE.fullmatch(part.strip())
        if not match:
            raise InvalidVersion(_not_a_window(specifier, part.strip()))
        clauses.append((match["operator"], parse_version(match["version"])))
    return clauses


def matches(version, specifier):
    """Whether the version lies in the window: every clause holds. A pre-release comes before its release, nothing else."""
    found = parse_version(version)
    return all(_holds(found, operator, bound) for operator, bound in parse_specifier(specifier))


def _holds(found, operator, bound):
    return {
        ">=": found >= bound,
        "<=": found <= bound,
        "==": found == bound,
        "!=": found != bound,
        ">": found > bound,
        "<": found < bound,
    }[operator]


def _not_a_window(specifier, part=None):
    culprit = f", because of {show(part)}" if part is not None and part != specifier else ""
    return (
        f"{show(specifier)} is not a window of versions{culprit}. Legal: {', '.join(OPERATORS)} in front of a version, "
        "several with commas between them, in quotes. Write for example '>=2.21,<2.31'."
    )
