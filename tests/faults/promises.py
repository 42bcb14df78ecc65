# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold after any fault, whatever it was and whenever it struck. A broken promise is an AssertionError that names it."""

from __future__ import annotations

import os

from nodes import KNOWN, Node, Start
from transaction import ADOPTED, APPLIED, Answer, Request, perform

STARTED = set()  # names of the start states that were tried


class Expected:
    """The node as it was found, before and after the disturbed transaction, learned from an undisturbed run of ``start``.

    Leaves ``node`` as it stands before the transaction, and a copy of that in ``place``.
    """

    def __init__(self, start: Start, node: Node, place: str):
        self.start, self.node, self.place = start, node, place
        STARTED.add(start.name)
        node.empty()
        start.found(node)
        self.found = node.tree()
        start.before(node)
        self.request = start.last(node)
        self.old, self.old_values = node.file(), node.start_interpreter()
        self.lines_before = len(node.history())
        # The way back ends where the records began: with the records lost, at the file as it was then.
        self.found_again = self.found if node.state.numbers() or start.name != "state_lost" else node.tree()
        os.makedirs(place)
        node.copy_to(place)
        self.generation = node.must(self.request).generation
        self.new, self.new_values = node.file(), node.start_interpreter()
        self.lines_after = len(node.history())
        node.copy_from(place)

    def again(self) -> None:
        """Bring the node to where the transaction begins."""
        self.node.copy_from(self.place)


def holds_at_once(expected: Expected) -> None:
    """Right after the fault, before anybody repairs anything."""
    node = expected.node
    file = node.file()
    assert file in (expected.old, expected.new), f"the file is neither the old nor the new one: {file}"
    values = node.start_interpreter()
    assert values in (expected.old_values, expected.new_values), f"a fresh interpreter has {values}"
    _records_are_whole(node)


def _records_are_whole(node: Node) -> None:
    numbers = node.state.numbers()
    for number in numbers:
        node.state.manifest(number)
        node.state.verify(number)
    current = node.state.current()
    assert current is None or current in numbers, f"current names generation {current}, there are {numbers}"
    lines = node.history()
    assert all(line["outcome"] != "unreadable" for line in lines), f"the history has half a line: {lines}"


def holds_after_next_run(expected: Expected, tune_at_once: bool = False) -> None:
    """The same transaction once more, then a tune, then all the way back: nobody helps in between.

    ``tune_at_once``: where the transaction was a way back, somebody tunes instead of going back once more.
    """
    node, request = expected.node, expected.request
    if not tune_at_once:
        answer = perform(request)
        assert answer.ok, f"the next run fails: {answer.error}"
        file = node.file()
        assert file == expected.new, f"the next run leaves {file}"
        assert node.start_interpreter() == expected.new_values
        _recorded(node, request, answer)
    if request.activate is not None:
        answer = perform(node.request(**KNOWN))
        assert answer.ok, f"the next tune fails: {answer.error}"
        _recorded(node, node.request(**KNOWN), answer)
    assert node.leftovers() == [], "temporary files stay after the next tune"
    _records_are_whole(node)
    history_is_whole(node)
    answer = perform(node.request(activate="0"))
    assert answer.ok, f"going back to generation 0 fails: {answer.error}"
    tree = node.tree()
    wrong = {path for path in {*tree, *expected.found_again} if tree.get(path) != expected.found_again.get(path)}
    assert not wrong, f"generation 0 does not give back: {sorted(wrong)}"


def _recorded(node: Node, request: Request, answer: Answer) -> None:
    state, _attributes = node.file()
    assert node.state.knows(state), f"no generation says what stands there: {node.history()}"
    assert answer.generation == node.state.current()
    if request.env is not None:
        manifest = node.state.manifest(answer.generation)
        assert (manifest["profile"], manifest["declared"]) == (request.profile, request.env)
        assert manifest["outcome"] in (APPLIED, ADOPTED)


def history_is_whole(node: Node) -> None:
    """Every generation that is there has its line, in order and once."""
    recorded = [line["generation"] for line in node.history() if line["outcome"] in ("found", APPLIED, ADOPTED)]
    assert recorded == sorted(set(recorded)), f"generations in the history: {recorded}"
    lacking = set(node.state.numbers()) - set(recorded)
    assert not lacking, f"the history does not know generations {sorted(lacking)}: {node.history()}"


def lost_bytes(expected: Expected) -> int:
    """Bytes of the file as it was before that are neither in their place nor in a generation."""
    old = expected.old[0].content
    if not old:
        return 0
    for folder, _folders, files in os.walk(expected.node.root):
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                with open(path, "rb") as stream:
                    if stream.read() == old:
                        return 0
    return len(old)
