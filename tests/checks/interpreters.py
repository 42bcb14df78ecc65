"""The Python interpreters of this machine, by version: on PATH, and those of pyenv where pyenv is installed."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

MINORS = range(8, 16)


@functools.cache
def interpreters() -> dict[tuple[int, int], Path]:
    """One interpreter of each minor version. A program of that name which does not start (a shim) is passed over."""
    candidates = [Path(folder) / f"python3.{minor}" for minor in MINORS for folder in os.get_exec_path()]
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], check=True, capture_output=True, text=True).stdout.strip()
        candidates += sorted(Path(root).glob("versions/3.*/bin/python3"))
    found: dict[tuple[int, int], Path] = {}
    for candidate in candidates:
        if not os.access(candidate, os.X_OK):
            continue
        command = [
            candidate,
            "-I",
            "-c",
            "import sys; print(sys.version_info[0], sys.version_info[1], sys.prefix != sys.base_prefix)",
        ]
        answer = subprocess.run(command, check=False, capture_output=True, text=True)
        if answer.returncode or answer.stdout.split()[2] == "True":
            continue
        major, minor, _ = answer.stdout.split()
        found.setdefault((int(major), int(minor)), candidate)
    return dict(sorted(found.items()))
