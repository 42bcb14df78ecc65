# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many runs on one node at once, and a run that dies with the lock in its hand.

    python3 tests/faults/together.py CASE [--interpreter PATH] [--json FILE]

A plain program, like sweep.py. Exit status: 0 every promise held.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import promises
from nodes import KNOWN, OTHER, Node, start_named
from report import ASIDE, Report, main
from transaction import APPLIED, perform

RUNS = 20
AT_ONCE = 5.0  # seconds for a tune that has nobody to wait for, on a busy machine


def twenty(report: Report, node: Node, start: str) -> None:
    """Two profiles in turn. Every run either applied its profile or, when its turn came, found it in place: 20 in all.

    A run that finds its profile in place writes nothing, no line of history either, so the history has one line for each that applied.
    """
    expected = promises.Expected(start_named(start), node, os.path.join(ASIDE, "start"))
    requests = [node.request(**(KNOWN, OTHER)[number % 2])._replace(lock_timeout=300) for number in range(RUNS)]
    runs = [
        subprocess.Popen(node.command(request), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for request in requests
    ]
    with report.checked(f"{RUNS} at once"):
        answers = []
        for run in runs:
            out, err = run.communicate(timeout=300)
            assert run.returncode == 0, f"exit status {run.returncode}: {out}{err}"
            answers.append(json.loads(out))
        applied = [answer["generation"] for answer in answers if answer["changed"]]
        unchanged = [answer["generation"] for answer in answers if not answer["changed"]]
        report.counts["runs_at_once"] += RUNS
        report.counts["applied_at_once"] += len(applied)
        report.counts["unchanged_at_once"] += len(unchanged)
        assert len(applied) + len(unchanged) == RUNS
        lines = [line for line in node.history()[expected.lines_before :] if line["outcome"] == APPLIED]
        assert [line["generation"] for line in lines] == sorted(applied), "one line for each that applied, in order"
        assert len(set(applied)) == len(applied), "a generation has two runs"
        assert set(unchanged) <= set(applied), "a run found in place what none had applied"
        assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
        profiles = [line["profile"] for line in lines]
        assert all(profiles[at] != profiles[at + 1] for at in range(len(profiles) - 1)), (
            "applied what stood there already"
        )
        for number, answer in enumerate(answers):
            assert node.state.manifest(answer["generation"])["profile"] == requests[number].profile
        values = node.start_interpreter()
        last = node.state.manifest(node.state.current())
        assert values in (KNOWN["env"], OTHER["env"]), f"the final state is neither: {values}"
        assert values == last["declared"]
        promises.history_is_whole(node)
        assert node.leftovers() == []
        back = perform(node.request(activate="0"))
        assert back.ok, back.error
        assert node.tree() == expected.found, "generation 0 is not what was found"


def lock_holder_killed(report: Report, node: Node, start: str) -> None:
    expected = promises.Expected(start_named(start), node, os.path.join(ASIDE, "start"))
    holds, holder = os.pipe(), os.fork()
    if holder == 0:
        try:
            with node.state.locked(5):
                os.write(holds[1], b"x")
                time.sleep(600)
        finally:
            os._exit(3)
    os.read(holds[0], 1)
    with report.checked("lock holder killed"):
        answer = perform(expected.request._replace(lock_timeout=0.5))
        assert not answer.ok, "two runs have the lock"
        assert "lock" in answer.error
        assert node.file() == expected.old
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        began = time.monotonic()
        report.counts["faults"] += 1
        promises.holds_after_next_run(expected)
        took = time.monotonic() - began
        assert took < AT_ONCE, f"the next run took {took:.1f} s"
        report.counts["recovered"] += 1


CASES = {
    "twenty": lambda report, node: twenty(report, node, "vendor_file"),
    "twenty_first": lambda report, node: twenty(report, node, "absent"),
    "lock_holder_killed": lambda report, node: lock_holder_killed(report, node, "second_tune"),
    "lock_holder_killed_first": lambda report, node: lock_holder_killed(report, node, "absent"),
}

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
