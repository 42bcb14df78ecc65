# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every recorded node gives the facts that its expected.yml says, which may say a part of them."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml
from ansible_collections.gpu_node.tuning.plugins.module_utils.gpu_facts_schema import empty_facts

from .recorded_nodes import HARDWARE, NAMES, facts_of

SYNTHETIC = [name for name in NAMES if name != "h200-x2"]


def expected_of(name):
    return yaml.safe_load((HARDWARE / name / "expected.yml").read_text(encoding="utf-8"))


def part_of(facts, expected):
    """``facts`` without the keys that ``expected`` does not speak of, so that pytest shows where the two differ."""
    if isinstance(facts, dict) and isinstance(expected, dict):
        return {key: part_of(facts[key], expected[key]) for key in expected if key in facts}
    if isinstance(facts, list) and isinstance(expected, list) and len(facts) == len(expected):
        return [part_of(fact, wanted) for fact, wanted in zip(facts, expected, strict=True)]
    return facts


@pytest.mark.parametrize("name", NAMES)
def test_facts(name):
    facts, expected = facts_of(name), expected_of(name)
    sources, reason = expected.pop("missing"), expected.pop("reason", "")
    redirects = expected.pop("redirects", {})
    assert [entry["source"] for entry in facts["missing"]] == sources
    assert reason in facts["missing"][0]["reason"]
    assert part_of(facts, expected) == expected
    found = {"-".join(map(str, pair["gpus"])): pair for pair in facts["acs"]["pairs"]}
    assert {gpus: found[gpus]["bridges"] for gpus in redirects} == redirects
    assert {gpus: found[gpus]["redirect"] for gpus in redirects} == {gpus: bool(redirects[gpus]) for gpus in redirects}


@pytest.mark.parametrize("name", NAMES)
def test_form(name):
    """The same keys on every node, and one entry for each pair of GPUs."""

    def keys(facts):
        return {key: keys(value) if isinstance(value, dict) and value else None for key, value in facts.items()}

    facts, empty = facts_of(name), empty_facts()
    for key, value in empty.items():
        if isinstance(value, dict) and key != "module_options":
            assert facts[key].keys() == value.keys()
    assert facts.keys() == empty.keys()
    shapes = [keys(gpu) for gpu in facts["gpus"]]
    assert all(shape == keys(facts_of("h200-x2")["gpus"][0]) for shape in shapes)
    count = len(shapes)
    assert len(facts["acs"]["pairs"]) == count * (count - 1) // 2
    for matrix in (facts["topology"]["matrix"], *facts["p2p"].values()):
        assert all(row.keys() == matrix.keys() - {gpu} for gpu, row in matrix.items())
        assert not count or matrix.keys() == {str(gpu["index"]) for gpu in facts["gpus"]}
    assert facts["dev_shm_mib"] > 0


def test_every_node_says_where_it_comes_from():
    for name in NAMES:
        provenance = yaml.safe_load((HARDWARE / name / "provenance.yml").read_text(encoding="utf-8"))
        assert provenance["kind"] == ("synthetic" if name in SYNTHETIC else "real")


def test_synthetic_nodes_are_as_their_program_writes_them(tmp_path):
    subprocess.run([sys.executable, HARDWARE / "make_synthetic.py", tmp_path], check=True)
    written = {file.relative_to(tmp_path): file.read_text(encoding="utf-8") for file in tmp_path.glob("*/*")}
    present = {
        file.relative_to(HARDWARE): file.read_text(encoding="utf-8")
        for name in SYNTHETIC
        for file in (HARDWARE / name).iterdir()
        if file.name != "expected.yml"
    }
    assert present == written
