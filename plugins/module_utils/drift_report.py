# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drift of several nodes: as data for a program, as a table for a person, as metrics for node_exporter."""

from __future__ import annotations

import json

from ansible_collections.gpu_node.tuning.plugins.module_utils.text_table import quoted, shown, text_table

SCHEMA = 1
HEAD = ("node", "variable", "declared", "on disk", "effective", "NCCL says", "state", "from")
NOT_KNOWN = "not known"
NO_ANSWER = {"path": None, "shadowed": [], "read_back": None, "drift": None}
METRIC = "gpu_node_tuning_drift"


def drift_report(results: dict) -> dict:
    """What verify.json holds, see docs/verify_json.md. ``results``: node name to the result of the module sitecustomize_info."""
    nodes = {node: _node(result) for node, result in results.items()}
    return {
        "schema": SCHEMA,
        "drift": any(entry["drift"] for entry in nodes.values()),
        "nodes": nodes,
        "differences": _differences(nodes),
    }


def as_json(report: dict) -> str:
    """Text of verify.json. ``report``: of drift_report, here and below."""
    return json.dumps(report, indent=4, sort_keys=True) + "\n"


def drifting(report: dict) -> list:
    """Names of the nodes that drift, or gave no answer."""
    return [node for node, entry in report["nodes"].items() if entry["drift"]]


def as_table(report: dict) -> list:
    """Lines of text: a row for each node and variable, then what is wrong, then where nodes differ."""
    rows = [row for node, entry in report["nodes"].items() for row in _rows(node, entry)]
    said = [f"{node}: {sentence}" for node, entry in report["nodes"].items() for sentence in entry["sentences"]]
    for name, values in report["differences"].items():
        groups = "; ".join(f"{shown(value)} on {', '.join(names)}" for value, names in values.items())
        said.append(f"{name} differs between the nodes: {groups}")
    return [*text_table(HEAD, rows), *([""] if said else []), *said]


def as_metrics(report: dict) -> str:
    """Text of the exposition format: 1 where the variable drifts on the node, else 0; variable "" stands for the node as a whole."""
    lines = [
        f"# HELP {METRIC} 1 when what is in effect on the node is not what the inventory declares.",
        f"# TYPE {METRIC} gauge",
    ]
    for node, entry in report["nodes"].items():
        lines.append(_sample(node, "", entry["drift"]))
        lines.extend(_sample(node, variable["name"], variable["drift"]) for variable in entry["variables"])
    return "\n".join(lines) + "\n"


def _node(result: dict) -> dict:
    if "drift" not in result:
        result = dict(NO_ANSWER, problems=[str(result.get("msg") or "no answer")])
    read_back = result["read_back"] or {"variables": [], "imported": None}
    said = result.get("library") or {}
    variables = [_variable(variable, said, result) for variable in read_back["variables"]]
    unread = result["drift"] is None
    return {
        "path": result["path"],
        "imported": read_back["imported"],
        "drift": unread or bool(result["drift"]),
        "variables": variables,
        "sentences": [*(result["drift"] or []), *result["problems"]],
        "shadowed": result["shadowed"],
        "origins": result.get("origins", {}),
    }


def _variable(variable: dict, said: dict, result: dict) -> dict:
    values = said.get(variable["name"])
    return {
        "name": variable["name"],
        "declared": variable["declared"],
        "file": variable["file"],
        "interpreter": variable["interpreter"],
        "spawn": variable["spawn"],
        "library": values,
        "state": variable["state"],
        "origin": variable["origin"],
        "drift": any(sentence.startswith(variable["name"] + ":") for sentence in result["drift"] or []),
    }


def _differences(nodes: dict) -> dict:
    """Variable to {value: [nodes]} where the nodes do not all have the same value in effect."""
    names = sorted({variable["name"] for entry in nodes.values() for variable in entry["variables"]})
    different = {}
    for name in names:
        values = {}
        for node, entry in nodes.items():
            if not entry["variables"]:
                continue  # it gave no answer, which is not the same as an unset variable
            effective = next((v["interpreter"] for v in entry["variables"] if v["name"] == name), None)
            values.setdefault("" if effective is None else effective, []).append(node)
        if len(values) > 1:
            different[name] = values
    return different


def _rows(node: str, entry: dict) -> list:
    if not entry["variables"]:
        state = NOT_KNOWN if entry["drift"] else "nothing declared"
        return [(node, "-", "-", "-", "-", "-", state, shown(entry["path"]))]
    return [
        (
            node,
            variable["name"],
            quoted(variable["declared"]),
            quoted(variable["file"]),
            quoted(variable["interpreter"]),
            shown(", ".join(variable["library"] or [])),
            variable["state"],
            shown(variable["origin"]),
        )
        for variable in entry["variables"]
    ]


def _sample(node: str, variable: str, drift: bool) -> str:
    return f'{METRIC}{{node="{_label(node)}",variable="{_label(variable)}"}} {int(drift)}'


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
