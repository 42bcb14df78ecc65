# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the programs of this folder share: their command line, a node in mounts of its own, counts, and broken promises."""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Optional

import promises
from nodes import Node
from transaction import TuningError

NODE, ASIDE = "/mnt", "/media"  # short paths: every folder on the way is one more call in every snapshot
UNSHARED = "GPU_NODE_TUNING_UNSHARED"


class Report:
    """``counts``: what was really done. calls (that write), kills, faults (one each time something was made to fail), refused and

    recovered (how a fault ended: with a message, or it went through), states (different ones left on the disk), lost_bytes.
    """

    def __init__(self):
        self.counts = collections.Counter(lost_bytes=0)
        self.broken = []

    @contextlib.contextmanager
    def checked(self, what: str):
        try:
            yield
        except (AssertionError, OSError, ValueError, TuningError) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.broken.append(f"{what}: {error} [{where.name}]")

    def judge(self, expected: promises.Expected, word: str) -> None:
        """Run it on the broken disk: all or nothing, and one clear message that has ``word`` in it."""
        answer = promises.perform(expected.request)
        self.counts["faults"] += 1
        file = expected.node.file()
        self.counts["lost_bytes"] += promises.lost_bytes(expected)
        if answer.ok:
            self.counts["recovered"] += 1
            assert file == expected.new, "it says that all is well, and the file is not the new one"
        else:
            self.counts["refused"] += 1
            assert file == expected.old, f"it failed, and the old file is not back: {answer.error}"
            assert word in answer.error, f"the message does not say {word!r}: {answer.error}"
        promises.holds_at_once(expected)


def in_own_mounts() -> None:
    """Start this program again in a mount namespace of its own, with an empty tmpfs at NODE and at ASIDE."""
    if not os.environ.get(UNSHARED):
        os.environ[UNSHARED] = "1"
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv]
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    for place in (NODE, ASIDE):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "none", place], check=True)


def main(documentation: str, cases: dict, needs: Optional[Callable[[], Optional[str]]] = None) -> int:
    """``cases``: name to function(Report, Node). ``needs``: says what is missing here, if anything."""
    parser = argparse.ArgumentParser(description=documentation.splitlines()[0])
    parser.add_argument("case", choices=cases, metavar="CASE", help=", ".join(cases))
    parser.add_argument("--interpreter", default="/usr/bin/python3", help="the Python that is tuned")
    parser.add_argument("--json", metavar="FILE", help="write the counts and the broken promises there")
    options = parser.parse_args()
    in_own_mounts()
    missing = needs() if needs else None
    if missing:
        parser.error(missing)
    report = Report()
    cases[options.case](report, Node(NODE, options.interpreter))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as stream:
            json.dump({"counts": report.counts, "broken": report.broken, "starts": sorted(promises.STARTED)}, stream)
    print(f"{options.case}: " + ", ".join(f"{value} {name}" for name, value in report.counts.items()))
    for line in report.broken:
        print("BROKEN " + line)
    return 1 if report.broken else 0
