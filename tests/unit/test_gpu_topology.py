# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of nvidia-smi topo, and what follows from them."""

from __future__ import annotations

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.gpu_topology import (
    CLASSES,
    parse_numa_nodes,
    parse_p2p,
    parse_paths,
    path_class,
    summary,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import SourceMissing
from hypothesis import given
from hypothesis import strategies as st

from .recorded_nodes import answer_or_reason

WITH_NICS = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tPXB\tPIX\t0-31\t0\t\tN/A\n"
    "GPU1\tPXB\t X \tSYS\t32-63\t0-1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)


def matrix(size, word):
    """`word(one, other)` for each pair."""
    return {
        str(one): {str(other): word(min(one, other), max(one, other)) for other in range(size) if other != one}
        for one in range(size)
    }


def test_network_cards_are_left_out():
    assert parse_paths(WITH_NICS) == {"0": {"1": "PXB"}, "1": {"0": "PXB"}}


def test_numa_nodes_that_are_one():
    assert parse_numa_nodes(WITH_NICS) == {"0": 0}
    assert parse_numa_nodes("nothing") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no table with a row and a column for each GPU"),
        ("Failed to initialize NVML: Driver/library version mismatch\n", "it begins with 'Failed to initialize NVML"),
        (WITH_NICS.replace("GPU1\tPXB", "GPU2\tPXB"), "no table"),
        ("\n".join(WITH_NICS.splitlines()[:2]), "no table"),
        (WITH_NICS[: WITH_NICS.index("\tPXB\tPIX")], "no table"),
        ("\tGPU0\tGPU1\nGPU0\t X \nGPU1\tSYS\t X \n", "the row of GPU 0 ends before"),
        ("\tGPU0\tGPU1\nGPU0\t X \t\nGPU1\tSYS\t X \n", "the row of GPU 0 ends before"),
        (WITH_NICS.replace("PXB", "WARP"), "unknown kind of path 'WARP'; known: NV#, PIX"),
    ],
)
def test_what_is_no_table_of_paths(text, reason):
    with pytest.raises(SourceMissing, match=reason):
        parse_paths(text)


def test_p2p():
    text = " \t\x1b[4mGPU0\tGPU1\t\x1b[0m\n GPU0\tX\tCNS\t\n GPU1\tOK\tX\t\n"
    assert parse_p2p(text) == {"0": {"1": "CNS"}, "1": {"0": "OK"}}
    with pytest.raises(SourceMissing, match="'N/A' is no state of a P2P connection"):
        parse_p2p(text.replace("CNS", "N/A"))


@given(st.text() | st.text(alphabet="GPU01X\t\n SYPIV18\x1b[m"))
def test_any_text_gives_data_or_says_why(text):
    assert answer_or_reason(lambda printed: summary(parse_paths(printed)), text)
    assert answer_or_reason(parse_p2p, text)
    assert isinstance(parse_numa_nodes(text), dict)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("NV18", "NVL"),
        ("NV1", "NVL"),
        ("PIX", "PIX"),
        ("SYS", "SYS"),
        ("NVL", None),
        ("NV", None),
        ("X", None),
        ("pix", None),
        ("", None),
    ],
)
def test_path_class(word, name):
    assert path_class(word) == name


@pytest.mark.parametrize(
    ("size", "word", "expected"),
    [
        (0, None, ("none", None, [])),
        (1, None, ("none", None, [])),
        (2, lambda a, b: "NV4", ("nvlink", "NVL", [[0, 1]])),
        (2, lambda a, b: "SYS", ("pcie", "SYS", [])),
        (4, lambda a, b: "NV4" if b - a == 1 and a % 2 == 0 else "PIX", ("mixed", "PIX", [[0, 1], [2, 3]])),
        (4, lambda a, b: "PIX" if a // 2 == b // 2 else "PXB", ("pcie", "PXB", [[0, 1, 2, 3]])),
        (4, lambda a, b: "PIX" if a // 2 == b // 2 else "PHB", ("pcie", "PHB", [[0, 1], [2, 3]])),
        (3, lambda a, b: "PIX" if b == 2 else "NODE", ("pcie", "NODE", [[0, 1, 2]])),
        (12, lambda a, b: "PXB" if a >= 9 else "SYS", ("pcie", "SYS", [[9, 10, 11]])),
    ],
)
def test_summary(size, word, expected):
    assert tuple(summary(matrix(size, word)).values()) == expected


@given(st.integers(2, 9), st.data())
def test_islands_do_not_overlap_and_the_worst_path_is_there(size, data):
    words = data.draw(st.lists(st.sampled_from(["NV2", *CLASSES[1:]]), min_size=size * size, max_size=size * size))
    found = summary(matrix(size, lambda one, other: words[one * size + other]))
    members = [gpu for island in found["islands"] for gpu in island]
    assert len(members) == len(set(members))
    assert all(len(island) > 1 and island == sorted(island) for island in found["islands"])
    assert found["worst_path"] in CLASSES
