# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the catalogue says to a person, and what it must not repeat."""

from __future__ import annotations

import importlib
import json

import pytest
import yaml
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_catalogue import VARIABLES
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_help import (
    WIDTH,
    UnknownVariable,
    chosen,
    explain,
    help_lines,
    table_lines,
    when_read,
)


def test_a_page_of_help():
    assert help_lines("NCCL_SHM_LOCALITY") == [
        "NCCL_SHM_LOCALITY",
        "does        Side that owns the shared-memory buffers: 1 sender, 2",
        "            receiver.",
        "legal       1, 2",
        "default     2",
        "read        from NCCL 2.13.4 on",
        "documented  not by NVIDIA",
        "when wrong  Other numbers: WARN and 2.",
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("NCCL_BUFFSIZE", "by the oldest public NCCL (2.3.5) already"),
        ("NCCL_CONF_FILE", "from NCCL 2.23 on"),
        ("NCCL_MAX_NCHANNELS", "from NCCL 2.5.0 on; deprecated since 2.17; now NCCL_MAX_CTAS"),
        ("NCCL_TREE_THRESHOLD", "from NCCL 2.4 on; no longer from 2.5 on; now NCCL_ALGO"),
        ("NCCL_CHECKS_DISABLE", "by no known NCCL; now NCCL_CHECK_POINTERS"),
    ],
)
def test_when_a_variable_is_read(name, text):
    assert when_read(name) == text


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_every_variable_is_explained_in_lines_that_nothing_folds(name):
    known = explain(name)
    assert known["what"]
    assert known["legal"]
    assert known["default"]
    lines = help_lines(name)
    assert lines[0] == name
    assert all(len(line) <= WIDTH or " " not in line.strip() for line in lines)
    assert all(line == line.rstrip() and line.isprintable() for line in lines)
    assert all(
        text in " ".join(" ".join(lines).split()) for text in (known["default"], known["if_wrong"], known["risk"])
    )
    assert json.loads(json.dumps(known)) == known
    # Two more columns, the quotes and the indent of a list: still one line of YAML.
    assert len(yaml.safe_dump({"lines": lines}).splitlines()) == len(lines) + 1


def test_the_table_has_a_line_for_each_variable():
    lines = table_lines(chosen([]))
    assert len(lines) == len(VARIABLES) + 2
    assert max(map(len, lines)) <= WIDTH
    assert [line.split()[0] for line in lines[2:]] == sorted(VARIABLES)


def test_the_order_of_the_question_is_kept():
    assert chosen(["NCCL_PROTO", "NCCL_ALGO", "NCCL_PROTO"]) == ["NCCL_PROTO", "NCCL_ALGO"]


@pytest.mark.parametrize(
    ("names", "texts"),
    [
        (["NCCL_BUFSIZE"], ["NCCL_BUFSIZE: unknown variable: did you mean NCCL_BUFFSIZE"]),
        (["proto"], ["did you mean NCCL_PROTO?"]),
        (["NCCL_RINGS"], ["only NCCL before 2.5 read it. Write NCCL_MAX_NCHANNELS instead."]),
        (["NCCL_PROTO", "NCCL_X", "TORCH_NCCL_X"], ["NCCL_X: unknown variable", "TORCH_NCCL_X: NCCL does not read"]),
    ],
)
def test_an_unknown_name_is_refused(names, texts):
    with pytest.raises(UnknownVariable) as caught:
        chosen(names)
    for text in texts:
        assert text in str(caught.value)
    assert "NCCL_PROTO: " not in str(caught.value)
    assert str(caught.value).endswith("All known names: ansible localhost -m gpu_node.tuning.nccl_env_info")


def test_the_module_documents_what_it_returns():
    module = importlib.import_module("ansible_collections.gpu_node.tuning.plugins.modules.nccl_env_info")
    documented = yaml.safe_load(module.RETURN)["variables"]["contains"]
    types = {"str": str, "bool": bool}
    for name in VARIABLES:
        known = explain(name)
        assert list(known) == list(documented)
        assert all(type(known[key]) is types[documented[key]["type"]] for key in known)


# --- where folklore is wrong ----------------------------------------------------------------------------------------


def test_nthreads_are_not_threads_of_the_cpu():
    known = explain("NCCL_NTHREADS")
    assert known["what"].startswith("CUDA threads per block")
    assert "512 does not dedicate 512 CPU threads" in known["mistaken_for"]
    assert known["default"].startswith("512; 256 for Ring/Simple")
    assert "SOCKET_NTHREADS" in known["mistaken_for"]
    assert explain("NCCL_SOCKET_NTHREADS")["what"].startswith("CPU helper threads")


def test_p2p_level_sys_permits_p2p_and_does_not_avoid_it():
    known = explain("NCCL_P2P_LEVEL")
    assert known["what"].startswith("Greatest GPU-to-GPU distance at which direct P2P is used.")
    assert "SYS does not force traffic through system memory, it is the reverse" in known["mistaken_for"]
    assert "it permits direct P2P at any distance" in known["mistaken_for"]
    assert "PXB" in known["default"]
    assert "goes through host memory (SHM)" in explain("NCCL_P2P_DISABLE")["what"]


def test_neither_ring_nor_16_channels_are_the_default():
    assert explain("NCCL_ALGO")["default"] == "unset (cost model decides)"
    assert "Ring is not the default" in explain("NCCL_ALGO")["mistaken_for"]
    assert explain("NCCL_MAX_NCHANNELS")["default"] == "64 (2.25+); 32 (2.5-2.24)"
    assert "16 is not the default" in explain("NCCL_MAX_NCHANNELS")["mistaken_for"]
