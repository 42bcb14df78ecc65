# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the programs of this folder, and say at the end how much was really tried."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
COUNTED, STARTED = "counts of faults", "start states"
# The interpreter that is tuned: the distribution's where there is one, for it is the quickest to start.
INTERPRETER = next(
    path for path in ("/usr/bin/python3", getattr(sys, "_base_executable", sys.executable)) if os.path.exists(path)
)


@pytest.fixture
def program(tmp_path, record_property):
    """``program(name, case)``: run a case of a program to its end; a broken promise fails the test and is named."""
    if os.geteuid() != 0:
        pytest.fail("these tests mount file systems and kill processes in namespaces of their own: run them as root")

    def run(name: str, case: str) -> dict:
        answer = tmp_path / f"{name}.json"
        command = [sys.executable, str(FOLDER / f"{name}.py"), case, f"--json={answer}", f"--interpreter={INTERPRETER}"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
        assert answer.exists(), f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        found = json.loads(answer.read_text(encoding="utf-8"))
        record_property(COUNTED, {**found["counts"], "broken": len(found["broken"])})
        record_property(STARTED, found["starts"])
        assert not found["broken"], "\n".join(found["broken"])
        assert done.returncode == 0, done.stderr
        return found["counts"]

    return run


def pytest_terminal_summary(terminalreporter):
    counts, starts = collections.Counter(), set()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                properties = dict(report.user_properties)
                counts.update(properties.get(COUNTED, {}))
                starts.update(properties.get(STARTED, ()))
    for line in summary(counts, starts) if starts else ():
        terminalreporter.write_line(line)


def summary(counts: collections.Counter, starts: set) -> list:
    """What was really done: nothing here is a plan or a product of numbers."""
    tried = (
        f"{len(starts)} starts tried, {counts['kills']} kill points survived, {counts['faults']} faults injected "
        f"({counts['refused']} refused with a message, {counts['recovered']} went through), {counts['lost_bytes']} lost bytes"
    )
    after = f"next run tried from {counts['states']} different states of the disk, {counts['broken']} broken promises"
    together = (
        f"{counts['runs_at_once']} runs at once: {counts['applied_at_once']} applied, {counts['unchanged_at_once']} unchanged; "
        f"{counts['orders']} points of the order for a power loss; interpreter {INTERPRETER}"
    )
    return [tried, after, together]
