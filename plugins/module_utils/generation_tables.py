# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rollbacks and histories of several nodes, as tables for a person and as plain data for a program."""

from __future__ import annotations

import json

from ansible_collections.gpu_node.tuning.plugins.module_utils.text_table import shown, text_table

HISTORY_SCHEMA = 1
ROLLBACK_HEAD = ("node", "generation", "changed", "files", "still running with old values")
HISTORY_HEAD = ("node", "time", "generation", "outcome", "profile", "status", "by", "evidence and reason")


def rollback_table(results: dict) -> list:
    """Lines of text. ``results``: node name to the result of the module generation."""
    rows = []
    for node, result in results.items():
        running = [_process(process) for process in result["stale_processes"]] or ["none"]
        files = ", ".join(result["files"])
        changed = "yes" if result["changed"] else "no"
        rows.append((node, shown(result["generation"]), changed, shown(files), running[0]))
        rows.extend(("", "", "", "", line) for line in running[1:])
    return text_table(ROLLBACK_HEAD, rows)


def history_table(results: dict) -> list:
    """Lines of text. ``results``: node name to the result of the module generation_info."""
    rows = []
    for node, result in results.items():
        for entry in result["history"] or [{"outcome": "never tuned"}]:
            said = "; ".join([_figure(figure) for figure in entry.get("evidence") or []] + [entry.get("reason") or ""])
            keys = ("time", "generation", "outcome", "profile", "profile_status", "by")
            rows.append((node, *(shown(entry.get(key)) for key in keys), shown(said.strip("; "))))
        rows.extend((node, "-", "-", "damaged", "-", "-", "-", shown(problem)) for problem in result["problems"])
    return text_table(HISTORY_HEAD, rows)


def history_json(results: dict) -> str:
    """Text of history.json: {schema, nodes: {name: {current, known_good, generations, history, problems}}}."""
    keys = ("current", "known_good", "generations", "history", "problems")
    nodes = {node: {key: result[key] for key in keys} for node, result in results.items()}
    return json.dumps({"schema": HISTORY_SCHEMA, "nodes": nodes}, indent=4, sort_keys=True) + "\n"


def _process(process: dict) -> str:
    unit = f" ({process['unit']})" if process["unit"] else ""
    return f"{process['pid']}{unit} since {process['started']}: {shown(process['command'])}"


def _figure(figure: dict) -> str:
    return f"{figure.get('metric')} {figure.get('value')} {figure.get('unit')}"
