# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a build was made from: the reason to build again, and the tie between a build and the table that was measured with it."""

from __future__ import annotations

import ast
import hashlib
import json

# What decides whether a build is current, in the order in which a reader wants to hear of it. The date does not.
INPUTS = ("source", "nvcc", "driver", "torch", "sm", "flags")


def stamp(files: dict, nvcc: str, driver: str, torch: str, sm: str, date: str) -> dict:
    """The stamp of a build of ``files`` (path to bytes)."""
    made = {
        "source": source_digest(files),
        "nvcc": nvcc,
        "driver": driver,
        "torch": torch,
        "sm": sm,
        "flags": flags_of(files.get("build.py", b"")),
    }
    return dict(made, date=date, digest=digest(made))


def source_digest(files: dict) -> str:
    """Of names and contents; a length before each keeps two files from reading like one."""
    whole = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), files[name]):
            whole.update(b"%d:" % len(part))
            whole.update(part)
    return whole.hexdigest()


def flags_of(build_program: bytes) -> str:
    """The compiler's flags that build.py has in its constant FLAGS; empty where it has none."""
    for node in ast.parse(build_program).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "FLAGS":
            return " ".join(ast.literal_eval(node.value))
    return ""


def digest(made: dict) -> str:
    whole = json.dumps({name: made.get(name) for name in INPUTS}, sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def reasons_to_build(found, wanted: dict) -> list:
    """One phrase for each input that differs; empty where the build is current. ``found`` is None where nothing is installed."""
    if found is None:
        return ["nothing is installed"]
    if not isinstance(found, dict) or found.get("digest") != digest(found):
        return ["the stamp of the installed build is damaged"]
    return [
        f"{name}: was {_short(found.get(name))}, is {_short(wanted[name])}"
        for name in INPUTS
        if found.get(name) != wanted[name]
    ]


def _short(value) -> str:
    text = str(value)
    return text[:12] if len(text) == 64 else text or "unknown"
