# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances of SGLang after a play, for a person."""

from __future__ import annotations

from ansible_collections.gpu_node.tuning.plugins.module_utils.text_table import text_table

HEADING = ("node", "unit", "started", "ready after", "speculation", "why")


def sglang_lines(results: dict) -> list:
    """``results``: node to the fact sglang_result, which is undefined (no dictionary) for a node that failed."""
    rows, notes = [], []
    for node, instances in results.items():
        for found in instances.values() if isinstance(instances, dict) else ():
            rows.append(_row(node, found))
            notes += [f"{node}, {found['unit']}: {sentence}" for sentence in found["unproved"]]
    return text_table(HEADING, rows) + (["", "Not proved:", *(f"  {note}" for note in notes)] if notes else [])


def _row(node: str, found: dict) -> tuple:
    verified = found["spec_verify_ct"]
    return (
        node,
        found["unit"],
        "yes" if found["started"] else "no",
        f"{float(found['elapsed']):.1f} s",
        "off" if not verified else f"on, {verified} verifications",
        found["why"] or "runs as declared",
    )
