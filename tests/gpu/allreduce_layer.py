#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python layer of the custom all-reduce on the GPUs of this machine: build, then the package's own check and tune, over both transports.

    python tests/gpu/allreduce_layer.py --interpreter PYTHON_WITH_TORCH [--nvcc NVCC] [--rows 1 3 8]

Nothing is installed: the package is used from a scratch copy. Exit status 0 only if all sums were right and all sizes were measured.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2] / "roles" / "custom_allreduce" / "files" / "pcie_allreduce"
LIMIT = 150  # seconds of the package's own time limit for each command
COMMANDS = [(name, transport) for transport in ("peer", "host_staged") for name in ("check", "tune")]


def build(project: Path, options: argparse.Namespace) -> bool:
    output = project / "pcie_allreduce" / "libpcie_allreduce.so"
    command = [
        sys.executable,
        project / "build.py",
        "--output",
        output,
        *(["--nvcc", options.nvcc] if options.nvcc else []),
    ]
    return subprocess.run(command, check=False, timeout=600).returncode == 0


def ask(project: Path, options: argparse.Namespace, name: str, transport: str) -> bool:
    """Run one command of the package and print what it found. Whether it came to a good end; being slower than NCCL is one."""
    rows = [str(row) for row in options.rows]
    more = ["--rows", *rows, "--required-rows", *rows] if name == "tune" else []
    command = [
        options.interpreter,
        "-m",
        "pcie_allreduce",
        name,
        "--json",
        "--transport",
        transport,
        "--timeout",
        str(LIMIT),
        *more,
    ]
    environment = os.environ | {"PYTHONPATH": str(project)}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd="/", env=environment, timeout=LIMIT + 60
    )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {"error": (done.stderr.strip() or "no answer").splitlines()[-1]}
    good = not answer.get("error") and (name == "check" or len(answer["rows"]) == len(set(rows)))
    print(f"{'ok' if good else 'FAILED'}  {name} over {transport}: {json.dumps(answer)}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interpreter", default=sys.executable, help="the Python with torch")
    parser.add_argument("--nvcc", help="path of nvcc (default: look for it)")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 3, 4, 8, 16, 32, 64])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpu_node_tuning-layer-") as scratch:
        project = Path(scratch) / "project"
        shutil.copytree(PROJECT, project)
        if not build(project, options):
            return 1
        good = [ask(project, options, name, transport) for name, transport in COMMANDS]
    print(f"{sum(good)} of {len(good)} commands as wanted", flush=True)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
