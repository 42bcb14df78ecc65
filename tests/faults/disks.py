# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that are full, read-only, closed or frozen, for real: small file systems mounted for this, and what they do to a tune.

    python3 tests/faults/disks.py CASE [--interpreter PATH] [--json FILE]

A plain program, like sweep.py; it needs root and a mount namespace of its own. Exit status: 0 every promise held.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys

import promises
from nodes import Node, start_named
from report import ASIDE, Report, main
from transaction import ROOT, perform

PAGE = os.sysconf("SC_PAGE_SIZE")
ROOM_FOR_A_TUNE = 64  # pages; more than any tune takes


def mount(kind: str, place: str, options: str, device: str = "none") -> None:
    subprocess.run(["mount", "-t", kind, "-o", options, device, place], check=True)


@contextlib.contextmanager
def small_disk(place: str):
    """What is at ``place`` moves to a tmpfs of its own, which can be filled."""
    os.makedirs(place, exist_ok=True)
    aside = os.path.join(ASIDE, "moved")
    os.makedirs(aside)
    mount("tmpfs", aside, f"mode=0755,size={ROOM_FOR_A_TUNE * PAGE}")
    subprocess.run(["cp", "-a", "--", place + "/.", aside], check=True)
    subprocess.run(["mount", "--move", aside, place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)
        os.rmdir(aside)


@contextlib.contextmanager
def filled(place: str, free: int):
    """Only ``free`` pages are left at ``place``."""
    ballast = os.path.join(place, "ballast")
    fits = os.statvfs(place).f_bavail - free
    with open(ballast, "wb") as stream:
        stream.write(b"\0" * (fits * PAGE))
    try:
        yield
    finally:
        os.unlink(ballast)


def no_room(report: Report, node: Node, start: str, full: str) -> None:
    """Every fill level from no page to the first one at which the tune goes through twice in a row; ``full``: file or state.

    The node goes through the whole with its disk in place, so the promises are checked on a node that never was copied.
    """
    expected = promises.Expected(start_named(start), node, os.path.join(ASIDE, "start"))
    place = {"file": os.path.join(node.root, "etc"), "state": node.state_dir}[full]
    went_through, free = 0, 0
    while went_through < 2:
        assert free < ROOM_FOR_A_TUNE, "it never went through"
        expected.again()
        with report.checked(f"{full} has {free} free pages"), small_disk(place):
            before = report.counts["recovered"]
            with filled(place, free):
                report.judge(expected, "room")
            went_through = went_through + 1 if report.counts["recovered"] > before else 0
            _next_run_on_the_same_disk(expected)
        free += 1


def _next_run_on_the_same_disk(expected: promises.Expected) -> None:
    answer = perform(expected.request)
    assert answer.ok, f"with room again, the next run fails: {answer.error}"
    assert expected.node.file() == expected.new
    assert expected.node.leftovers() == [], "temporary files stay"
    promises.history_is_whole(expected.node)
    answer = perform(expected.node.request(activate="0"))
    assert answer.ok, f"going back to generation 0 fails: {answer.error}"


def no_inode(report: Report, node: Node, start: str) -> None:
    """A disk that has bytes left and no room for one more file."""
    expected = promises.Expected(start_named(start), node, os.path.join(ASIDE, "start"))
    for full in (os.path.join(node.root, "etc"), node.state_dir):
        for free in range(6):
            expected.again()
            with report.checked(f"{full} has {free} free inodes"), small_disk(full):
                used = os.statvfs(full).f_files - os.statvfs(full).f_ffree
                subprocess.run(["mount", "-o", f"remount,nr_inodes={used + free}", full], check=True)
                report.judge(expected, "room")
                subprocess.run(["mount", "-o", "remount,nr_inodes=1000", full], check=True)
                _next_run_on_the_same_disk(expected)


def read_only(report: Report, node: Node, start: str) -> None:
    expected = promises.Expected(start_named(start), node, os.path.join(ASIDE, "start"))
    for full, word in ((os.path.join(node.root, "etc"), "read-only"), (node.state_dir, "Read-only")):
        expected.again()
        with report.checked(f"{full} is read-only"), small_disk(full):
            subprocess.run(["mount", "-o", "remount,ro", full], check=True)
            report.judge(expected, word)
            subprocess.run(["mount", "-o", "remount,rw", full], check=True)
            _next_run_on_the_same_disk(expected)


def frozen(report: Report, node: Node, start: str) -> None:
    """The immutable attribute, on an ext4 of its own: on the file, on its directory, and on the state directory."""
    image = os.path.join(ASIDE, "image")
    with open(image, "wb") as stream:
        stream.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    mount("ext4", node.root, "loop", image)
    expected = promises.Expected(start_named(start), node, os.path.join(ASIDE, "start"))
    etc = os.path.dirname(node.vendor)
    for what, words in ((node.vendor, "immutable"), (etc, "immutable"), (node.state_dir, "permitted")):
        expected.again()
        if not os.path.exists(what):
            continue
        subprocess.run(["chattr", "+i", what], check=True)
        with report.checked(f"{what} is immutable"):
            try:
                report.judge(expected, words)
                assert report.counts["refused"], "nobody minded the attribute"
            finally:
                subprocess.run(["chattr", "-i", what], check=True)
            promises.holds_after_next_run(expected)


def not_root(report: Report, node: Node, start: str) -> None:
    """As a user to whom nothing here belongs: refused, and not a byte is written."""
    expected = promises.Expected(start_named(start), node, os.path.join(ASIDE, "start"))
    everything = node.tree(with_state=True)
    program = _copy_for_everybody()
    for request in (expected.request, expected.request._replace(state_dir=os.path.join(ASIDE, "of_nobody"))):
        os.makedirs(os.path.join(ASIDE, "of_nobody"), exist_ok=True)
        os.chown(os.path.join(ASIDE, "of_nobody"), 65534, 65534)
        with report.checked("not root"):
            command = node.command(request, program)
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, cwd="/", user=65534, group=65534, extra_groups=[]
            )
            report.counts["faults"] += 1
            assert done.returncode == 1, done
            answer = json.loads(done.stdout)
            assert "root" in answer["error"], answer
            assert node.tree(with_state=True) == everything
            assert os.listdir(os.path.join(ASIDE, "of_nobody")) == [], "a refused first run leaves nothing"
            report.counts["refused"] += 1
            promises.holds_at_once(expected)
    with report.checked("after not root"):
        promises.holds_after_next_run(expected)


def _copy_for_everybody() -> str:
    """The checkout may lie in somebody's closed home directory."""
    copy = os.path.join(ASIDE, "checkout")
    shutil.copytree(os.path.join(ROOT, "plugins"), os.path.join(copy, "plugins"))
    shutil.copytree(os.path.join(ROOT, "tests", "faults"), os.path.join(copy, "tests", "faults"))
    subprocess.run(["chmod", "-R", "a+rX", copy], check=True)
    return os.path.join(copy, "tests", "faults", "transaction.py")


CASES = {
    "no_room_file": lambda report, node: no_room(report, node, "vendor_file", "file"),
    "no_room_state": lambda report, node: no_room(report, node, "vendor_file", "state"),
    "no_room_state_again": lambda report, node: no_room(report, node, "second_tune", "state"),
    "no_room_back": lambda report, node: no_room(report, node, "back_to_vendor_file", "state"),
    "no_inode": lambda report, node: no_inode(report, node, "second_tune"),
    "read_only": lambda report, node: read_only(report, node, "vendor_file"),
    "read_only_back": lambda report, node: read_only(report, node, "back_to_known_good"),
    "immutable": lambda report, node: frozen(report, node, "vendor_file"),
    "immutable_back": lambda report, node: frozen(report, node, "back_to_vendor_file"),
    "not_root": lambda report, node: not_root(report, node, "second_tune"),
    "not_root_first": lambda report, node: not_root(report, node, "vendor_file"),
}


if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
