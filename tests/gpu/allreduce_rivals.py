#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time the all-reduce library beside its rivals on the GPUs of this machine, in the same processes, and print tables.

    python tests/gpu/allreduce_rivals.py --interpreter PYTHON_WITH_TORCH [--packages FOLDER] [--json FILE]

The library is built and tuned first, over peer memory and host-staged, and then used through its Python layer. Rivals: FlashInfer's pcie_ipc with the
fastest of its launches, and vLLM's kernel (both come with flashinfer-python, from --packages or from the interpreter), torch's symmetric memory, NCCL as the
environment has it. A rival that cannot start is named with the reason. Exit status 0 only if every sum was right and the library took part.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import allreduce_layer

HIDDEN = 7168
ROWS = (1, 2, 3, 4, 8, 16, 32, 64)
TRANSPORTS = ("peer", "host_staged")
LIMIT = 300
OURS, RIVAL, NCCL = "library, peer memory", "FlashInfer pcie_ipc", "NCCL"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--interpreter", default="/usr/bin/python3", help="the Python that has torch (%(default)s)")
    options.add_argument("--packages", default="", help="a folder with further packages for that Python")
    options.add_argument("--nvcc", help="path of nvcc, where it is not found by itself")
    options.add_argument("--json", type=Path, help="write every figure here")
    arguments = options.parse_args()
    gpus = listed("name")
    if len(gpus) < 2:
        sys.exit(f"allreduce_rivals: {len(gpus)} GPU found; an all-reduce needs two or more.")
    world = min(len(gpus), 8)
    with tempfile.TemporaryDirectory(prefix="gpu_node_tuning-rivals-") as scratch:
        project = Path(scratch) / "project"
        shutil.copytree(allreduce_layer.PROJECT, project)
        if not allreduce_layer.build(project, arguments):
            return 1
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(project), arguments.packages])),
            "FLASHINFER_WORKSPACE_BASE": scratch,
            "HOME": scratch,
            **{f"TABLE_{name.upper()}": str(Path(scratch) / f"{name}.json") for name in TRANSPORTS},
        }
        for transport in TRANSPORTS:
            tune(arguments.interpreter, environment, transport)
        answer = compare(arguments.interpreter, environment, world)
    driver = listed("driver_version")[0]
    print(report(answer))
    versions = ", ".join(f"{name} {answer[name]}" for name in ("torch", "nccl", "flashinfer") if name in answer)
    date = datetime.datetime.now(datetime.UTC).date()
    print(f"{date}, {world}x {gpus[0]}, driver {driver}, {versions}, graph of 122 calls, slowest rank")
    if arguments.json:
        arguments.json.write_text(json.dumps(answer, indent=1), encoding="utf-8")
    return 0 if OURS in answer["figures"]["3"] else 1


def listed(field: str) -> list[str]:
    command = ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def tune(interpreter: str, environment: dict, transport: str) -> None:
    """Write the table of one transport. It is used even where it lost against NCCL: the figures shall show that."""
    table = environment[f"TABLE_{transport.upper()}"]
    rows = [str(row) for row in ROWS]
    command = [
        interpreter,
        "-m",
        "pcie_allreduce",
        "tune",
        "--transport",
        transport,
        "--rows",
        *rows,
        "--required-rows",
        "3",
    ]
    done = subprocess.run(
        [*command, "--table", table, "--timeout", str(LIMIT)], check=False, capture_output=True, text=True, cwd="/",
        env=environment, timeout=LIMIT + 60,
    )  # fmt: skip
    print(f"tuned over {transport}:\n{done.stdout}{done.stderr}", flush=True)


def compare(interpreter: str, environment: dict, world: int) -> dict:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [interpreter, str(Path(__file__).with_name("rival_rank.py"))]
    words = [str(word) for word in (world, port, HIDDEN, *ROWS)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    ranks = [
        subprocess.Popen([*program, str(number), *words], env=environment, cwd="/", **pipes) for number in range(world)
    ]
    try:
        logs = [rank.communicate(timeout=LIMIT)[0] for rank in ranks]
    except subprocess.TimeoutExpired:
        for rank in ranks:
            rank.kill()
        logs = [rank.communicate()[0] for rank in ranks]
        sys.exit(f"allreduce_rivals: no end within {LIMIT} s\n" + "\n".join(log[-3000:] for log in logs))
    found = [line for line in logs[0].splitlines() if line.startswith('{"figures"')]
    if not found:
        sys.exit("allreduce_rivals: no answer\n" + "\n".join(log[-3000:] for log in logs))
    return json.loads(found[0])


def report(answer: dict) -> str:
    figures = answer["figures"]
    names = list(figures["3"])
    lines = [f"left out: {name}: {reason}" for name, reason in answer["left_out"].items()]
    lines += ["", "microseconds a call, warm", *table(figures, names)]
    lines += ["", "microseconds a call, second-level cache overwritten before each", *table(answer["cold"], names)]
    lines += ["", "microseconds of CPU time for a call outside of a graph, 42 KiB"]
    lines += [f"| {name} | {spent} |" for name, spent in answer["eager"].items()]
    lines += ["", *(f"{RIVAL}, {rows} rows: {launch}" for rows, launch in answer["chosen"].items())]
    return "\n".join(lines)


def table(figures: dict, names: list[str]) -> list[str]:
    head = ["rows", "KiB", *names, f"{OURS} / {RIVAL}", f"{OURS} / {NCCL}"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for rows, found in figures.items():
        cells = [f"{found[name]:.2f}" if name in found else "-" for name in names]
        cells += [f"{found[OURS] / found[one]:.2f}" if OURS in found and one in found else "-" for one in (RIVAL, NCCL)]
        lines.append(f"| {rows} | {int(rows) * HIDDEN * 2 // 1024} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
