# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No fault at any moment loses a byte, breaks Python's start, or needs help: see promises.py for what is checked each time."""

from __future__ import annotations

import pytest

# The long ones first, so that two workers end at the same time.
KILLED = [
    "vendor_file",
    "foreign_code",
    "by_hand",
    "block_edited",
    "absent",
    "back_to_link",
    "oldest_go",
    "second_tune",
    "removal_vendor_file",
    "removal",
    "removal_all_gone",
    "back_to_known_good",
    "back_to_vendor_file",
    "back_to_absent",
]
FAILED = [
    "vendor_file-EIO",
    "second_tune-ENOSPC",
    "removal-EIO",
    "back_to_link-EDQUOT",
    "back_to_known_good-EIO",
    "absent-EIO-forever",
    "second_tune-ENOSPC-forever",
    "back_to_vendor_file-EROFS-forever",
]
DISKS = [
    "no_room_file",
    "no_room_state",
    "no_room_state_again",
    "no_room_back",
    "no_inode",
    "read_only",
    "read_only_back",
    "immutable",
    "immutable_back",
    "not_root",
    "not_root_first",
]
ANSWERS = [
    "shadowed",
    "shadowed_first",
    "dies",
    "dies_again",
    "stale_bytecode",
]
TOGETHER = [
    "twenty",
    "twenty_first",
    "lock_holder_killed",
    "lock_holder_killed_first",
]


@pytest.mark.parametrize("start", KILLED)
def test_killed_at_every_call_that_writes(program, start):
    counts = program("sweep", start)
    assert counts["kills"] == counts["calls"] > 10


@pytest.mark.parametrize("case", FAILED)
def test_every_call_that_writes_fails(program, case):
    counts = program("sweep", case)
    assert counts["faults"] == counts["refused"] + counts.get("recovered", 0) > 10


@pytest.mark.parametrize("case", DISKS)
def test_broken_disk(program, case):
    assert program("disks", case)["faults"] > 0


@pytest.mark.parametrize("case", ANSWERS)
def test_interpreter_that_gives_another_answer(program, case):
    assert program("answers", case)["faults"] > 0


@pytest.mark.parametrize("case", TOGETHER)
def test_runs_at_once(program, case):
    program("together", case)


@pytest.mark.parametrize(
    "start", [start for start in (*KILLED, "state_lost") if start != "removal_all_gone"]
)  # that one changes no file
def test_order_of_the_calls_survives_a_power_loss(program, start):
    counts = program("power_loss", start)
    assert counts["kills"] == 1
    assert counts["orders"] > 1
