# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What build_allreduce.yml prints at its end: of each node what was built and why, the verdict, and the figures."""

from __future__ import annotations


def verdict(table: dict) -> list:
    """The verdict and the figures of one table."""
    state = "on" if table["enabled"] else "installed, but off"
    figures = [
        f"{row['bytes']:>8} bytes: {row['us']:>7.2f} us ({row['algorithm']}, {row['blocks']}x{row['threads']}), NCCL {row['nccl_us']:.2f} us"
        for row in table["rows"]
    ]
    remarks = [table["remark"]] if table.get("remark") else []
    rival = _rival(table.get("pcie_ipc"))
    return [f"custom all-reduce {state}: {table['reason']}", *remarks, *figures, *rival]


def _rival(found) -> list:
    """SGLang's own kernel beside this one; ``found`` is None where it was not asked for."""
    if found is None:
        return []
    rows = [
        f"{row['bytes']:>8} bytes: {row['us']:>7.2f} us, SGLang's own pcie_ipc {row['pcie_ipc_us']:.2f} us in the same run"
        for row in found["rows"]
    ]
    return rows + ([f"SGLang's own pcie_ipc was not measured: {found['reason']}"] if found["reason"] else [])


def allreduce_lines(builds: dict, results: dict) -> list:
    """Lines of text, the first one empty where there are any. ``builds`` and ``results``: node name to what the two modules returned."""
    said = [f"{node}: {line}" for node, build in builds.items() for line in _node(build, results.get(node) or {})]
    return [""] * bool(said) + said


def _node(build: dict, result: dict) -> list:
    if "reasons" not in build:
        return ["custom all-reduce removed" if build.get("changed") else "custom all-reduce is not there"]
    built = [f"built, because {reason}" for reason in build["reasons"]] or ["the build is current"]
    return built + build["remarks"] + (result.get("lines") or [])
