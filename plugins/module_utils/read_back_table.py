# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The read-back of several nodes as a table for a person."""

from __future__ import annotations

from ansible_collections.gpu_node.tuning.plugins.module_utils.text_table import UNKNOWN, quoted, shown, text_table

HEAD = ("node", "variable", "declared", "effective", "state", "from")


def table(results: dict) -> list:
    """Lines of text. ``results``: node name to the result of the module sitecustomize (keys changed, path, read_back)."""
    return text_table(HEAD, [row for node, result in results.items() for row in _rows(node, result)])


def _rows(node: str, result: dict) -> list:
    if "read_back" not in result:
        words = "check mode: would change" if result.get("changed") else "not read back"
        return [(node, UNKNOWN, UNKNOWN, UNKNOWN, words, shown(result.get("path")))]
    variables = result["read_back"]["variables"]
    if not variables:
        return [(node, UNKNOWN, UNKNOWN, UNKNOWN, "nothing declared", shown(result.get("path")))]
    return [
        (
            node,
            variable["name"],
            quoted(variable["declared"]),
            quoted(variable["interpreter"]),
            variable["state"],
            shown(variable["origin"]),
        )
        for variable in variables
    ]
