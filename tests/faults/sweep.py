# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kill a transaction at every system call that writes, or make each of them fail, one run per call, and check every promise.

    python3 tests/faults/sweep.py CASE [--interpreter PATH] [--json FILE]

A plain program without pytest, so that it runs on any node with Python 3.9, strace and root. It changes nothing outside
a tmpfs of its own, in a mount namespace of its own. Exit status: 0 every promise held, 1 one was broken.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys

import promises
from nodes import STARTS, Node, start_named
from report import ASIDE, Report, main
from traced_calls import Call, fail_at, kill_at, needs, trace
from transaction import perform


class Sweep:
    """``counts``: what was really done: calls (that write), kills or faults, states (different ones left on the disk)."""

    def __init__(self, report: Report, node: Node, start_name: str):
        self.node = node
        self.expected = promises.Expected(start_named(start_name), self.node, os.path.join(ASIDE, "start"))
        self.log = os.path.join(ASIDE, "strace.log")
        self.seen = set()
        self.report = report
        self.counts = report.counts

    def _transaction(self) -> dict:
        return perform(self.expected.request)._asdict()

    def calls(self) -> list:
        """The writing calls of an undisturbed run."""
        self.expected.again()
        run = trace(self._transaction, self.log)
        assert run.status == 0, run
        assert json.loads(run.out)["ok"], run
        self.counts["calls"] = len(run.writing)
        return run.writing

    def kill_at_every_call(self) -> None:
        for call in self.calls():
            self._check(call, "killed at", lambda call: kill_at(call, self._transaction, self.log), "kills")

    def fail_every_call(self, error: str, forever: bool = False) -> None:
        """Only calls that name something on a disk: a pipe does not fill up."""
        for call in self.calls():
            if "<pipe:" not in call.arguments:
                self._check(call, f"{error} at", lambda call: self._fail(call, error, forever), "faults")

    def _fail(self, call: Call, error: str, forever: bool) -> None:
        run = fail_at(call, error, self._transaction, self.log, forever=forever)
        assert run.status == 0, f"a crash instead of a message: {run.err}"
        answer = json.loads(run.out)
        if answer["ok"]:
            self.counts["recovered"] += 1
            assert self.node.file() == self.expected.new, "it says that all is well, and the file is not the new one"
        else:
            self.counts["refused"] += 1
            assert answer["error"], "it failed without a word"
            if not forever:
                assert self.node.file() == self.expected.old, (
                    f"it failed, and the old file is not back: {answer['error']}"
                )

    def _check(self, call: Call, what: str, disturb, counted: str) -> None:
        self.expected.again()
        with self.report.checked(f"{what} {call.name} {call.nth} ({', '.join(call.paths)})"):
            disturb(call)
            self.counts["lost_bytes"] += promises.lost_bytes(self.expected)
            promises.holds_at_once(self.expected)
            if self._is_new_state():
                goes_back = self.expected.request.activate is not None
                promises.holds_after_next_run(self.expected, tune_at_once=goes_back and self.counts["states"] % 2 == 0)
            self.counts[counted] += 1

    def _is_new_state(self) -> bool:
        """False where an earlier fault left exactly this on the disk: then the next run was tried already."""
        digest = hashlib.sha256(repr(sorted(self.node.tree(with_state=True).items())).encode()).hexdigest()
        if digest in self.seen:
            return False
        self.seen.add(digest)
        self.counts["states"] += 1
        return True


def cases() -> dict:
    """START kills at every call, START-ERRNO makes every call fail, START-ERRNO-forever all later ones of that name too."""

    def kill(name):
        return lambda report, node: Sweep(report, node, name).kill_at_every_call()

    def fail(name, error, forever):
        return lambda report, node: Sweep(report, node, name).fail_every_call(error, forever)

    found = {}
    for start in STARTS:
        found[start.name] = kill(start.name)
        for error in ("EIO", "ENOSPC", "EDQUOT", "EROFS", "EPERM"):
            found[f"{start.name}-{error}"] = fail(start.name, error, False)
            found[f"{start.name}-{error}-forever"] = fail(start.name, error, True)
    return found


if __name__ == "__main__":
    sys.exit(main(__doc__, cases(), needs))
