# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of text as the lines of a table for a person."""

from __future__ import annotations

UNKNOWN = "-"


def text_table(head: tuple, rows: list) -> list:
    """Lines of text: ``head``, a line of ``=``, and ``rows`` (tuples of text, as long as ``head``)."""
    everything = [head, *rows]
    widths = [max(len(row[column]) for row in everything) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in everything]
    return [lines[0], "  ".join("=" * width for width in widths), *lines[1:]]


def shown(value: object) -> str:
    """``value`` as a cell; None and the empty text are a dash, and line ends become blanks."""
    return " ".join(str(value).split()) if value not in (None, "") else UNKNOWN


def quoted(value: object) -> str:
    """As shown(), for the value of a variable: one that is set to the empty text is not the same as one that is not set."""
    return '""' if value == "" else shown(value)
