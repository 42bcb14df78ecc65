# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The read-back of several nodes as a table for a person."""

from __future__ import annotations

HEAD = ("node", "variable", "declared", "effective", "state", "from")
UNKNOWN = "-"


def table(results: dict) -> list:
    """Lines of text. ``results``: node name to the result of the module sitecustomize (its keys changed, path, read_back)."""
    rows = [HEAD]
    for node, result in results.items():
        rows.extend(_rows(node, result))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return lines[:1] + ["  ".join("=" * width for width in widths)] + lines[1:]


def _rows(node: str, result: dict) -> list:
    if "read_back" not in result:
        words = "check mode: would change" if result.get("changed") else "not read back"
        return [(node, UNKNOWN, UNKNOWN, UNKNOWN, words, str(result.get("path", UNKNOWN)))]
    variables = result["read_back"]["variables"]
    if not variables:
        return [(node, UNKNOWN, UNKNOWN, UNKNOWN, "nothing declared", str(result.get("path", UNKNOWN)))]
    return [
        (
            node,
            variable["name"],
            _shown(variable["declared"]),
            _shown(variable["interpreter"]),
            variable["state"],
            variable["origin"],
        )
        for variable in variables
    ]


def _shown(value) -> str:
    return UNKNOWN if value is None else str(value)
