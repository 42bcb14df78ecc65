# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever was done to a node, in whatever order: the way back ends where it began, and the records hold."""

from __future__ import annotations

import contextlib
import os
import tempfile

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from .interpreters import tree
from .nodes import ENV, HOOK, OTHER_ENV, PlayedNode


def edit(node):
    """Only what stands there: a person who puts a file where none was is the next step."""
    if node.path().exists():
        node.path().write_bytes(node.path().read_bytes() + b"x = 1\n")


def delete(node):
    with contextlib.suppress(FileNotFoundError):
        node.path().unlink()


def replace(node):
    delete(node)
    node.put(b"y = 1\n")


STEPS = {
    "A": lambda node: node.tune(),
    "B": lambda node: node.tune(OTHER_ENV, status="experimental"),
    "service": lambda node: node.tune(python=None),
    "stock": lambda node: node.tune(None),
    "edit": edit,
    "delete": delete,
    "replace": replace,
    "known_good": lambda node: node.rollback(),
    "previous": lambda node: node.rollback("previous"),
    "0": lambda node: node.rollback("0"),
    "1": lambda node: node.rollback("1"),
    "newest": lambda node: node.rollback(str(max(node.state.numbers(), default=0))),
}
STARTS = {
    "absent": lambda node: None,
    "file": lambda node: node.put(HOOK, mode=0o640),
    "link": lambda node: node.link(),
}
BY_HAND = {"edit", "delete", "replace"}


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    start=st.sampled_from(sorted(STARTS)),
    steps=st.lists(st.sampled_from(sorted(STEPS)), max_size=7),
    keep=st.sampled_from([2, 50]),
)
@example(start="link", steps=["A", "replace", "B", "known_good", "0", "service", "previous"], keep=2)
@example(start="absent", steps=["delete", "0"], keep=2)
@example(start="absent", steps=["A", "0", "delete", "B", "edit", "stock", "known_good"], keep=50)
def test_the_way_back_ends_where_it_began(start, steps, keep):
    with tempfile.TemporaryDirectory() as directory:
        node = PlayedNode(directory)
        node.state.keep = keep
        STARTS[start](node)
        # Until the first run the node is the user's; what is found by it is generation 0.
        before = node.tree()
        seen = {}
        node.tune(dict(ENV), status="experimental")
        for step in steps:
            take(node, step, seen)
        node.rollback("0")
        assert node.tree() == before
        assert node.rollback("0").changed is False


def take(node, step, seen):
    """One step: what it leaves in the records is complete, and what was recorded stays as it was."""
    lines, there, records = len(node.state.history()), node.tree(), tree(node.state.path)
    try:
        outcome = STEPS[step](node)
    except TuningError:
        assert node.tree() == there  # a refusal, a dangling link among them: nothing has changed
        outcome = None
    history = node.state.history()
    if step in BY_HAND:
        return
    if outcome and outcome.changed:
        assert len(history) > lines
    if outcome and not outcome.changed:
        assert node.tree() == there
    if len(history) == lines:
        assert tree(node.state.path) == records
    node.state.verify(node.state.current())
    made = [entry["generation"] for entry in history if entry["outcome"] in ("found", "applied", "adopted")]
    assert made == sorted(set(made)), "a number was given twice"
    assert set(node.state.numbers()) <= set(made)
    for number in node.state.numbers():
        with open(node.manifest(number), "rb") as stream:
            assert seen.setdefault(number, content := stream.read()) == content
    if outcome:
        assert node.state.damage() == []
        assert (
            not [name for name in os.listdir(node.path().parent) if ".gpu_node.tuning." in name]
            if node.path().parent.exists()
            else True
        )
