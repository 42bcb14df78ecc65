#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print one line for everything below a directory, and a digest of all lines: two equal outputs are two equal trees.

A line is: kind, mode, uid, gid, content, [modification and change time,] path. Content is the SHA-256 of a file, the
target of a link, the numbers of a device, and `-` for the rest; extended attributes (ACLs, labels, capabilities) are
hashed into it when there are any. Paths are printed relative to the root and escaped as Python does it, so that a line
is a line whatever a name contains.

--times adds the modification and the change time. The change time cannot be set back from user space: equal output
with --times means that nothing was written in between, not even something that was put back.

Runs on Python 3.9 and newer, with the standard library alone, also from standard input: python3 -B - ROOT < tree_hash.py
Exit status: 0, or 1 when something could not be read (it is named on standard error: an unread file is not an equal one).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import stat
import sys
from collections.abc import Callable, Iterator

KINDS = (
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "dir"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "char"),
    (stat.S_ISBLK, "block"),
)


def file_digest(path: bytes) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for chunk in iter(lambda: stream.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def content(path: bytes, kind: str, status: os.stat_result) -> str:
    if kind == "file":
        found = file_digest(path)
    elif kind == "link":
        found = ascii(os.fsdecode(os.readlink(path)))
    elif kind in ("char", "block"):
        found = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    else:
        found = "-"
    names = sorted(os.listxattr(path, follow_symlinks=False))
    if names:
        attributes = [(name, os.getxattr(path, name, follow_symlinks=False)) for name in names]
        found += "+" + hashlib.sha256(repr(attributes).encode()).hexdigest()
    return found


def line(path: bytes, shown: str, times: bool) -> str:
    status = os.lstat(path)
    kind = next(name for test, name in KINDS if test(status.st_mode))
    fields = [
        kind,
        f"{stat.S_IMODE(status.st_mode):04o}",
        str(status.st_uid),
        str(status.st_gid),
        content(path, kind, status),
    ]
    if times:
        fields += [str(status.st_mtime_ns), str(status.st_ctime_ns)]
    return " ".join([*fields, ascii(shown)])


def walk(root: bytes, excluded: frozenset[bytes], failed: Callable[[OSError], None]) -> Iterator[tuple[bytes, bytes]]:
    """Yield (path, path below root), parents first, in the order of the bytes of the names."""
    pending = [(root, b".")]
    while pending:
        path, below = pending.pop()
        yield path, below
        if os.path.isdir(path) and not os.path.islink(path):
            try:
                names = sorted(os.listdir(path), reverse=True)
            except OSError as error:
                failed(error)
                continue
            for name in names:
                child = name if below == b"." else below + b"/" + name
                if child not in excluded:
                    pending.append((os.path.join(path, name), child))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", help="the directory")
    parser.add_argument(
        "--exclude",
        metavar="PATH",
        action="append",
        default=[],
        help="leave out this path and what is below it; below ROOT, with or without a leading slash; repeatable",
    )
    parser.add_argument("--times", action="store_true", help="compare the modification and the change time as well")
    parser.add_argument("--total", action="store_true", help="print the digest of all lines only")
    arguments = parser.parse_args()

    excluded = frozenset(os.fsencode(path.strip("/")) for path in arguments.exclude)
    total = hashlib.sha256()
    entries = 0
    unread: list[OSError] = []
    for path, below in walk(os.fsencode(arguments.root), excluded, unread.append):
        try:
            text = line(path, os.fsdecode(below), arguments.times)
        except OSError as error:
            unread.append(error)
            continue
        entries += 1
        total.update(text.encode() + b"\n")
        if not arguments.total:
            print(text)
    print(f"total {total.hexdigest()} of {entries} entries")
    for error in unread:
        print(f"tree_hash.py: {error}", file=sys.stderr)
    return 1 if unread else 0


if __name__ == "__main__":
    sys.exit(main())
