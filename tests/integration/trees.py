# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything below a directory as plain data. As a program: prepare mounts, look, run a command, look again.

A mount that a test needs lives in a mount namespace of its own, so the looks before and after have to be taken in there:

    unshare --mount --propagation private python trees.py SPECIFICATION.json

The specification has the keys prepare (list of commands), roots (name to directory), command, and answer (the file to
write: {name: {before, after}}). The exit status is that of the command.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def snapshot(root) -> dict:
    """Path below ``root`` -> [kind, mode, uid, gid, time of modification, content]; {} where there is no such directory."""
    root = os.fspath(root)
    found = {}
    pending = [root] if os.path.lexists(root) else []
    while pending:
        path = pending.pop()
        status = os.lstat(path)
        kind = KINDS[stat.S_IFMT(status.st_mode)]
        content = None
        if kind == "directory":
            pending.extend(os.path.join(path, name) for name in os.listdir(path))
        elif kind == "link":
            content = os.readlink(path)
        elif kind == "file":
            with open(path, "rb") as stream:
                content = hashlib.file_digest(stream, "sha256").hexdigest()
        found[os.path.relpath(path, root)] = [
            kind,
            f"{stat.S_IMODE(status.st_mode):04o}",
            status.st_uid,
            status.st_gid,
            status.st_mtime_ns,
            content,
        ]
    return found


def without_times(tree: dict) -> dict:
    return {path: entry[:4] + entry[5:] for path, entry in tree.items()}


def differences(before: dict, after: dict) -> dict:
    """Path -> (before, after) of whatever is not the same."""
    return {
        path: (before.get(path), after.get(path))
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    }


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as stream:
        specification = json.load(stream)
    for command in specification["prepare"]:
        subprocess.run(command, check=True)
    roots = specification["roots"]
    trees = {name: {"before": snapshot(root)} for name, root in roots.items()}
    status = subprocess.run(specification["command"], check=False).returncode
    for name, root in roots.items():
        trees[name]["after"] = snapshot(root)
    with open(specification["answer"], "w", encoding="utf-8") as stream:
        json.dump(trees, stream)
    return status


if __name__ == "__main__":
    sys.exit(main())
