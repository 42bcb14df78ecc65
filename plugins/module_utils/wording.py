# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words for messages: values, types and near misses, whatever a user passes."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Mapping


class Refused(Exception):
    """Why one value is refused, and what to write instead (empty when nothing better is known)."""

    def __init__(self, why, write=""):
        super().__init__(why)
        self.why = why
        self.write = write


def show(value):
    """A short repr that works for every object, whatever its size or its own repr."""
    if isinstance(value, str):
        value = str.__str__(value)
    try:
        return _SHORT.repr(value)
    except Exception:  # noqa: BLE001 - a repr may raise anything, and this one only decorates an error message
        return f"<{type(value).__name__}>"


def kind_of(value):
    """The YAML word for the type of a value."""
    if value is None:
        return "null"
    for types, word in (
        (bool, "a boolean"),
        (int, "an integer"),
        (float, "a float"),
        (str, "a string"),
        (Mapping, "a mapping"),
        ((list, tuple), "a list"),
    ):
        if isinstance(value, types):
            return word
    return f"a {type(value).__name__}"


def did_you_mean(word, known):
    """`did you mean X, Y?` for the nearest known words, or an empty string."""
    if len(word) > 64:
        return ""
    near = difflib.get_close_matches(word, sorted(known), n=3, cutoff=0.7)
    return f"did you mean {' or '.join(near)}?" if near else ""


def label(name):
    """A name as it is when it is harmless to print, quoted otherwise."""
    return name if len(name) <= 64 and re.fullmatch(r"[\x21-\x7e]+", name) else show(name)


def consequence(variable):
    """What NCCL does with a bad value, as a remark for a message."""
    return f" (NCCL itself: {variable.if_wrong.rstrip('.')})" if variable.if_wrong else ""


class _Short(reprlib.Repr):
    def __init__(self):
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = 100
        self.maxlist = self.maxtuple = self.maxdict = 6


_SHORT = _Short()
