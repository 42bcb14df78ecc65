"""Which generation: known_good, previous, a number, and what is none. Generation 1 is known_good here, 2 an experiment."""

from __future__ import annotations

import pytest
from as_shipped import reset
from conftest import KNOWN_GOOD, SHOW
from fleet import STATE, difference, times, tree
from profiles import FEWER, FEWER_VALUES

PYTHON = "/usr/bin/python3"
VALUES = {0: {}, 1: KNOWN_GOOD, 2: FEWER_VALUES}


@pytest.fixture(autouse=True)
def _as_shipped(nodes):
    for node in nodes:
        reset(node)


def test_the_way_between_generations(fleet):
    fleet.tune()
    fleet.tune(**FEWER)
    for wanted, expected in [("previous", 1), (2, 2), ("known_good", 1), ("previous", 0), (2, 2), ("0", 0)]:
        play = fleet.rollback(generation=wanted)
        for node in fleet.nodes:
            assert (play[node]["generation"], play.changed(node)) == (expected, 1)
            assert node.ask(PYTHON, "-c", SHOW) == VALUES[expected]
            assert node.host.check_output("readlink %s", f"{STATE}/current") == f"generations/{expected:04d}"

    before = {node.suite: times(node) for node in fleet.nodes}
    for wanted, words in [
        ("previous", "generation 0 is current, and there is none before it"),
        (7, "there is no such generation on this node. Legal: known_good, or one of 0, 1, 2."),
        ("-1", "there is no such generation on this node"),
        ("the last one", "there is no such generation on this node"),
    ]:
        refused = fleet.rollback(rc=2, generation=wanted)
        for node in fleet.nodes:
            assert words in refused.message(node)
            assert refused.message(node).endswith("Nothing was changed.")
            assert refused.stdout.count(f"[{node.suite}]: FAILED!") == 1
    for node in fleet.nodes:
        assert difference(before[node.suite], times(node)) == []


def test_a_node_that_was_never_tuned(fleet):
    before = {node.suite: tree(times(node)) for node in fleet.nodes}
    for wanted in ("known_good", 0):
        refused = fleet.rollback(rc=2, generation=wanted)
        for node in fleet.nodes:
            assert "this node was never tuned" in refused.message(node)
    for node in fleet.nodes:
        # The lock needed the directory, so that the time of /var/lib is another one.
        assert difference(before[node.suite], tree(times(node))) == []
        assert not node.host.file(STATE).exists, "a refusal leaves nothing, not even a directory"


def test_history(fleet):
    _play, report = fleet.history()
    for node in fleet.nodes:
        assert report["nodes"][node.suite]["history"] == report["nodes"][node.suite]["generations"] == []
    fleet.tune()
    fleet.tune(**FEWER)
    fleet.rollback()
    play, report = fleet.history()
    assert report["schema"] == 1
    assert sorted(report["nodes"]) == sorted(node.suite for node in fleet.nodes)
    for node in fleet.nodes:
        entry = report["nodes"][node.suite]
        assert sorted(entry) == ["current", "generations", "history", "known_good", "problems"]
        assert (entry["current"], entry["known_good"], entry["problems"]) == (1, 1, [])
        done = [(line["generation"], line["outcome"], line.get("profile")) for line in entry["history"]]
        assert done == [
            (0, "found", None),
            (1, "applied", "known_good"),
            (2, "applied", "fewer"),
            (1, "activated", "known_good"),
        ]
        assert all(line["time"].endswith("Z") and "@" in line["by"] for line in entry["history"])
        assert [(found["number"], found["intact"], found["parent"]) for found in entry["generations"]] == [
            (0, True, None),
            (1, True, 0),
            (2, True, 1),
        ]
        assert entry["generations"][1]["declared"] == KNOWN_GOOD
        row = next(line for line in play.stdout.splitlines() if line.startswith(node.suite) and " activated " in line)
        assert "known_good" in row
        # The evidence of the profile is on record with what was applied.
        assert "82" in next(
            line for line in play.stdout.splitlines() if line.startswith(node.suite) and " applied " in line
        )
