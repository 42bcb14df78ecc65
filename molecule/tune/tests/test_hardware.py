"""A node without GPUs, with the hardware check on: refused before anything on it is touched, with the way on."""

from __future__ import annotations

from conftest import KNOWN_GOOD, SHOW
from fleet import difference, times


def test_a_node_without_gpus_is_refused_and_not_touched(fleet):
    before = {node.suite: times(node) for node in fleet.nodes}
    refused = fleet.tune(rc=2, hardware_check="refuse")
    for node in fleet.nodes:
        said = refused.message(node)
        assert "profile known_good is not for this node (no GPU):" in said
        assert "- gpu: requires RTX PRO 6000; found no GPU: NOT MET" in said
        assert "- gpu_count: requires 8; found 0: NOT MET" in said
        assert "Profiles that fit this node: stock." in said
        assert difference(before[node.suite], times(node)) == []


def test_a_warning_goes_on_and_the_node_is_as_before(fleet):
    warned = fleet.tune(hardware_check="warn")
    for node in fleet.nodes:
        assert warned.changed(node) == 0
        assert node.ask("/usr/bin/python3", "-c", SHOW) == KNOWN_GOOD
    assert "profile known_good is not for this node (no GPU)" in warned.stdout + warned.stderr
