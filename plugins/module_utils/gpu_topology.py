# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the GPUs of a node are connected: the tables of ``nvidia-smi topo``, and what follows from them.

Text in, data out; raises SourceMissing alone. A matrix is ``{"0": {"1": "PIX"}, "1": {"0": "PIX"}}``: its keys are GPU indices, as
text, because that is what they are after a way through JSON.
"""

from __future__ import annotations

import re
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import SourceMissing

CLASSES = ("NVL", "PIX", "PXB", "PHB", "NODE", "SYS")  # of a path, nearest first

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU([0-9]{1,4})\Z")
_NVLINK = re.compile(r"NV[0-9]{1,3}\Z")
_P2P = re.compile(r"[A-Z]{1,8}\Z")
_NODE_NUMBER = re.compile(r"[0-9]{1,4}\Z")


def parse_paths(text: str) -> dict:
    """The matrix of ``nvidia-smi topo -m``; NICs are left out."""
    matrix = _matrix(text)
    for row in matrix.values():
        for word in row.values():
            if path_class(word) is None:
                raise SourceMissing(f"unknown kind of path {word[:20]!r}; known: NV#, {', '.join(CLASSES[1:])}")
    return matrix


def parse_p2p(text: str) -> dict:
    """The matrix of ``nvidia-smi topo -p2p r`` (or w, a): OK, or why not."""
    matrix = _matrix(text)
    for row in matrix.values():
        for word in row.values():
            if not _P2P.match(word):
                raise SourceMissing(f"{word[:20]!r} is no state of a P2P connection")
    return matrix


def parse_numa_nodes(text: str) -> dict:
    """GPU index (text) to NUMA node, of the GPUs for which ``nvidia-smi topo -m`` names exactly one."""
    header, rows = _table(text)
    if "NUMA Affinity" not in header:
        return {}
    column = header.index("NUMA Affinity")
    cells = {gpu: row[column] for gpu, row in rows.items() if column < len(row)}
    return {gpu: int(cell) for gpu, cell in cells.items() if _NODE_NUMBER.match(cell)}


def path_class(word: str) -> Optional[str]:
    """``NVL`` for ``NV18``, the word itself for the others; None for an unknown one."""
    if _NVLINK.match(word):
        return "NVL"
    return word if word in CLASSES[1:] else None


def summary(matrix: dict) -> dict:
    """``{interconnect, worst_path, islands}`` of a matrix of paths."""
    found = {path_class(word) for row in matrix.values() for word in row.values()}
    return {
        "interconnect": _interconnect(found),
        "worst_path": max(found, key=CLASSES.index, default=None),
        "islands": _islands(matrix, {"NVL"} if "NVL" in found else {"PIX", "PXB"}),
    }


def _interconnect(found: set) -> str:
    if not found:
        return "none"
    if "NVL" not in found:
        return "pcie"
    return "nvlink" if found == {"NVL"} else "mixed"


def _islands(matrix: dict, near: set) -> list:
    """Groups of two or more GPUs that paths of the classes ``near`` connect, directly or through each other."""
    islands, left = [], set(matrix)
    for first in sorted(matrix, key=int):
        if first not in left:
            continue
        island, edge = {first}, [first]
        while edge:
            row = matrix[edge.pop()]
            new = {gpu for gpu, word in row.items() if path_class(word) in near} - island
            island |= new
            edge += new
        left -= island
        if len(island) > 1:
            islands.append(sorted(int(gpu) for gpu in island))
    return islands


def _matrix(text: str) -> dict:
    header, rows = _table(text)
    columns = {match.group(1): index for index, match in enumerate(map(_GPU.match, header)) if match}
    if not columns or set(columns) != set(rows):
        raise SourceMissing(f"no table with a row and a column for each GPU; it begins with {text.strip()[:60]!r}")
    matrix = {}
    for gpu, row in rows.items():
        others = {other: index for other, index in columns.items() if other != gpu}
        if any(index >= len(row) or not row[index] for index in others.values()):
            raise SourceMissing(f"the row of GPU {gpu} ends before its last column")
        matrix[gpu] = {other: row[index] for other, index in others.items()}
    return matrix


def _table(text: str) -> tuple:
    """(cells of the header, GPU index to cells of its row). The cells of a row stand below those of the header."""
    lines = [[cell.strip() for cell in line.split("\t")] for line in _STYLE.sub("", text).splitlines()]
    header = next((cells for cells in lines if not cells[0] and any(map(_GPU.match, cells))), [])
    rows = {}
    for cells in lines:
        match = _GPU.match(cells[0])
        if match:
            rows.setdefault(match.group(1), cells)
    return header, rows
