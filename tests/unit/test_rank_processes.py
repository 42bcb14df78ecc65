# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of the GPU tests: messages, a process that dies, a process that hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "gpu"
PROGRAM = """\
import os, sys, time
sys.path.insert(0, {folder!r})
import rank_processes

def talk(group, number):
    group.tell(f"{{number}} of {{sum(group.gather(number))}}")

def die(group, number):
    if number == 1:
        os._exit(9)
    group.tell(group.gather(number))

def hang(group, number):
    if number == 1:
        time.sleep(60)
    group.gather(number)

def fail(group, number):
    if number == 1:
        raise ValueError("on purpose")
    group.tell(group.gather(number))

if __name__ == "__main__":
    lines = []
    complaints = rank_processes.run(globals()[sys.argv[1]], [(0,), (1,)], {seconds}, lambda number, line: lines.append(str(line)))
    print(sorted(lines), [complaint.splitlines()[-1] for complaint in complaints])
"""


def outcome(tmp_path: Path, name: str, seconds: float = 20) -> str:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(folder=str(FOLDER), seconds=seconds), encoding="utf-8")
    done = subprocess.run([sys.executable, program, name], check=True, capture_output=True, text=True, timeout=50)
    return done.stdout.strip()


def test_messages_reach_every_process(tmp_path):
    assert outcome(tmp_path, "talk") == "['0 of 1', '1 of 1'] []"


def test_the_others_go_on_when_one_dies(tmp_path):
    assert outcome(tmp_path, "die") == "['[0, None]'] []"


def test_a_process_that_hangs_is_ended(tmp_path):
    assert outcome(tmp_path, "hang", 3) == "[] ['processes [0, 1] were not done in time']"


def test_an_exception_is_a_complaint(tmp_path):
    assert outcome(tmp_path, "fail") == "['[0, None]'] ['ValueError: on purpose']"
