# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on the disk when the power fails, judged from the order of the calls that one undisturbed run makes.

    python3 tests/faults/power_loss.py CASE [--interpreter PATH] [--json FILE]

A plain program, like sweep.py. What POSIX promises is assumed and no more: bytes are safe after fsync of the file, a name
(made, renamed, removed) after fsync of its directory. Exit status: 0 every promise held.
"""

from __future__ import annotations

import json
import os
import re
import sys

import promises
from nodes import STARTS, Node, start_named
from report import ASIDE, Report, main
from traced_calls import OPENS, Call, kill_at, needs, trace
from transaction import perform

FILE_CHANGES = (
    "write",
    "pwrite64",
    "writev",
    "ftruncate",
    "fchmod",
    "fchown",
    "fsetxattr",
    "chmod",
    "chown",
    "setxattr",
)
NAMES_MADE = ("mkdir", "mkdirat", "symlink", "symlinkat", "link", "linkat")
RENAMES = ("rename", "renameat", "renameat2")
REMOVALS = ("unlink", "unlinkat")


class Disk:
    """Paths whose bytes, and directories whose names, are not safe yet. ``there``: every path at the start.

    What goes when records are pruned is left out: it does no harm when it comes back.
    """

    def __init__(self, there: set):
        self.bytes, self.names, self.there = set(), set(), set(there)

    def unsafe_below(self, *folders: str) -> list:
        return sorted(
            path for path in self.bytes | self.names if any((path + "/").startswith(f + "/") for f in folders)
        )

    def take(self, call: Call) -> None:
        if call.error or "<pipe:" in call.arguments:
            return
        paths = call.paths
        if call.name in ("fsync", "fdatasync"):
            self.bytes.discard(described(call))
            self.names.discard(described(call))
        elif call.name in OPENS and "O_CREAT" in call.arguments:
            if paths[-1] not in self.there:
                self.there.add(paths[-1])
                self.names.add(os.path.dirname(paths[-1]))
                self.bytes.add(paths[-1])
        elif call.name in FILE_CHANGES:
            self.bytes.add(described(call))
        elif call.name in NAMES_MADE:
            self.names.add(os.path.dirname(paths[-1]))
        elif call.name in RENAMES and not paths[-1].endswith(".partial"):
            self._rename(*paths)
        elif call.name == "rmdir":  # an empty folder that comes back does no harm
            self.names.discard(paths[-1])
        elif call.name in REMOVALS and ".partial" not in call.arguments:
            self.names.add(os.path.dirname(paths[-1]))
            self.names.discard(paths[-1])
            self.bytes.discard(paths[-1])
            self.there.discard(paths[-1])

    def _rename(self, old: str, new: str) -> None:
        def moved(path: str) -> str:
            return new + path[len(old) :] if (path + "/").startswith(old + "/") else path

        self.bytes = set(map(moved, self.bytes))
        self.names = set(map(moved, self.names)) | {os.path.dirname(old), os.path.dirname(new)}


def described(call: Call) -> str:
    """The path behind the call's file descriptor, or its first path."""
    found = re.match(r"\d+<([^>]*)>", call.arguments)
    return found.group(1) if found else call.paths[0]


class Order:
    def __init__(self, report: Report, node: Node, start: str):
        self.report, self.node = report, node
        self.expected = promises.Expected(start_named(start), node, os.path.join(ASIDE, "start"))
        self.log = os.path.join(ASIDE, "strace.log")
        self.targets = {node.path, self.expected.old[0].target, self.expected.new[0].target}

    def check(self) -> None:
        self.expected.again()
        there = {os.path.join(self.node.root, path) for path in self.node.tree(with_state=True)}
        run = trace(self._transaction, self.log)
        assert run.status == 0, run
        assert json.loads(run.out)["ok"], run
        disk, first = Disk(there), None
        for call in run.writing:
            with self.report.checked(f"order at {call.name} {call.nth} ({', '.join(call.paths)})"):
                if call.error is None:
                    if first is None and self._changes_target(call):
                        first = call
                    self._judge(disk, call)
            disk.take(call)
        with self.report.checked("order at the end"):
            # A removed folder or temporary file that comes back does no harm, and the lock has no bytes.
            lock = os.path.join(self.node.state_dir, "lock")
            unsafe = set(disk.bytes) - {lock} | {path for path in disk.names if path in self._folders()}
            assert not unsafe, f"not safe when the run says that it is done: {sorted(unsafe)}"
        self._old_bytes_are_kept(first)

    def _transaction(self) -> dict:
        return perform(self.expected.request)._asdict()

    def _folders(self) -> set:
        """Whose names have to last: those of the file and of the records."""
        state = self.node.state_dir
        return {os.path.dirname(path) for path in self.targets} | {state, os.path.join(state, "generations")}

    def _changes_target(self, call: Call) -> bool:
        if call.name in RENAMES + REMOVALS + NAMES_MADE:
            return call.paths[-1] in self.targets
        return call.name in FILE_CHANGES and "<pipe:" not in call.arguments and described(call) in self.targets

    def _judge(self, disk: Disk, call: Call) -> None:
        state = self.node.state_dir
        lock = os.path.join(state, "lock")
        assert not (call.name in OPENS and call.paths[-1] in self.targets), "the file is written in place"
        if self._changes_target(call):
            self._count()
            assert call.name in RENAMES + REMOVALS, "the file is changed in place"
            unsafe = [
                path
                for path in disk.unsafe_below(state, os.path.dirname(state))
                if path != lock and self._matters(path)
            ]
            assert not unsafe, f"the file changes before its old bytes are safe: {unsafe}"
        if call.name in RENAMES and not call.paths[0].endswith("current.partial"):
            self._count()
            assert not disk.unsafe_below(call.paths[0]), (
                f"renamed before it is safe: {disk.unsafe_below(call.paths[0])}"
            )
        if call.name in RENAMES and call.paths[-1] == os.path.join(state, "current"):
            self._count()
            places = [path for path in self._folders() if path != state] + [os.path.join(state, "generations")]
            unsafe = [path for path in disk.unsafe_below(*places) if path != lock]
            assert not unsafe, f"current moves before these are safe: {unsafe}"

    def _matters(self, path: str) -> bool:
        return path.startswith(self.node.state_dir) or path == os.path.dirname(self.node.state_dir)

    def _count(self) -> None:
        self.report.counts["orders"] += 1

    def _old_bytes_are_kept(self, first: Call) -> None:
        """Stopped right before the file changes: the current generation is whole and has its old bytes."""
        self.expected.again()
        with self.report.checked("before the first byte changes"):
            assert first is not None, "the file was never changed"
            kill_at(first, self._transaction, self.log)
            self.report.counts["kills"] += 1
            state = self.node.state
            assert self.node.file() == self.expected.old
            assert state.current() is not None, "no generation is current"
            state.verify(state.current())
            assert state.knows(self.expected.old[0]), "the current generation is not what stands there"


def cases() -> dict:
    def check(name):
        return lambda report, node: Order(report, node, name).check()

    return {start.name: check(start.name) for start in STARTS}


if __name__ == "__main__":
    sys.exit(main(__doc__, cases(), needs))
