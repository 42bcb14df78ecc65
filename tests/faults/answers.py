# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interpreters that do not see what was written, that die while they are asked, or that run old bytecode.

    python3 tests/faults/answers.py CASE [--interpreter PATH] [--json FILE]

A plain program, like sweep.py. Exit status: 0 every promise held.
"""

from __future__ import annotations

import glob
import os
import struct
import sys

import promises
from nodes import Node, start_named
from report import ASIDE, Report, main
from transaction import FAILED, perform

# Dies at its Nth start, without a word.
MORTAL = """#!/bin/sh
starts=$(($(cat {counter}) + 1))
echo $starts > {counter}
[ $starts -eq $(cat {deadline}) ] && kill -9 $$
exec {interpreter} "$@"
"""


def shadowed(report: Report, node: Node, start: str) -> None:
    """The service's path names another folder before ours: written, not in effect, put back, and noted with what differed."""
    expected = promises.Expected(start_named(start), node, os.path.join(ASIDE, "start"))
    other = os.path.join(ASIDE, "other")
    os.makedirs(other)
    with open(os.path.join(other, "sitecustomize.py"), "w", encoding="utf-8") as stream:
        stream.write("import os\nos.environ['NCCL_ALGO'] = 'CollnetChain'\n")
    before = node.tree()
    with report.checked("shadowed"):
        answer = perform(expected.request._replace(python_path=f"{other}:{node.directory}"))
        report.counts["faults"] += 1
        report.counts["lost_bytes"] += promises.lost_bytes(expected)
        assert not answer.ok, "it says that all is well"
        report.counts["refused"] += 1
        for word in ("NCCL_ALGO", expected.request.env["NCCL_ALGO"], "CollnetChain", other, "put back"):
            assert word in answer.error, f"the message does not say {word!r}: {answer.error}"
        assert node.tree() == before, "what stood before is not back"
        last = node.history()[-1]
        assert last["outcome"] == FAILED, f"the history does not know of it: {last}"
        assert last["reason"] == answer.error
        assert last["profile"] == expected.request.profile
        promises.holds_at_once(expected)
        promises.holds_after_next_run(expected)


def dies(report: Report, node: Node, start: str) -> None:
    """The interpreter is killed at every one of its starts, one run each."""
    expected = promises.Expected(start_named(start), node, os.path.join(ASIDE, "start"))
    places = {name: os.path.join(ASIDE, name) for name in ("counter", "deadline")}
    mortal = os.path.join(ASIDE, "python")
    with open(mortal, "w", encoding="utf-8") as stream:
        stream.write(MORTAL.format(interpreter=node.interpreter, **places))
    os.chmod(mortal, 0o755)  # noqa: S103 - a program

    def run(deadline: int):
        for name, number in (("counter", 0), ("deadline", deadline)):
            with open(places[name], "w", encoding="utf-8") as stream:
                stream.write(f"{number}\n")
        return perform(expected.request._replace(interpreter=mortal))

    answer = run(0)
    assert answer.ok, answer
    with open(places["counter"], encoding="utf-8") as stream:
        starts = int(stream.read())
    assert starts >= 4, f"only {starts} starts"
    for deadline in range(1, starts + 1):
        expected.again()
        with report.checked(f"interpreter killed at start {deadline} of {starts}"):
            answer = run(deadline)
            report.counts["faults"] += 1
            report.counts["lost_bytes"] += promises.lost_bytes(expected)
            assert not answer.ok, "nobody minded"
            report.counts["refused"] += 1
            assert mortal in answer.error, answer.error
            assert node.file() == expected.old, f"the old file is not back: {answer.error}"
            promises.holds_at_once(expected)
            promises.holds_after_next_run(expected)


def stale_bytecode(report: Report, node: Node, start: str) -> None:
    """A run was killed after its rename and before it dropped the bytecode, all within the second in which the old file was written:

    Python takes the old bytecode for that of the new file, which has the same length. The next tune must see to it.
    """
    expected = promises.Expected(start_named(start), node, os.path.join(ASIDE, "start"))
    assert len(expected.old[0].content) == len(expected.new[0].content)
    state = expected.old[0]
    node.start_interpreter()
    (compiled,) = glob.glob(os.path.join(os.path.dirname(node.path), "__pycache__", "sitecustomize.*.pyc"))
    with open(compiled, "rb") as stream:
        (second,) = struct.unpack("<I", stream.read(12)[8:])
    with open(state.target, "wb") as stream:
        stream.write(expected.new[0].content)
    os.utime(state.target, (second, second))
    with report.checked("stale bytecode"):
        assert node.start_interpreter() == expected.old_values, "this Python does not fall for it, so nothing is tested"
        report.counts["faults"] += 1
        promises.holds_after_next_run(expected)
        report.counts["recovered"] += 1


CASES = {
    "shadowed": lambda report, node: shadowed(report, node, "vendor_file"),
    "shadowed_first": lambda report, node: shadowed(report, node, "absent"),
    "dies": lambda report, node: dies(report, node, "vendor_file"),
    "dies_again": lambda report, node: dies(report, node, "block_edited"),
    "stale_bytecode": lambda report, node: stale_bytecode(report, node, "second_tune"),
}

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
