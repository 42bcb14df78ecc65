#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time a small all_reduce under the shipped profiles on this machine's GPUs, all in one run, and print a table.

Each row is a set of NCCL variables in the environment of fresh processes, one a GPU: a profile, or `stock` with P2P switched off, which is
the nearest thing to a host without NVLink where there is NVLink. The rounds go through all rows in turn, so that a slow moment of the machine hits all of
them; the median of the rounds is printed. Needs two GPUs or more and a Python with torch (--interpreter). A figure counts
beside the others of its own run only.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import socket
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "playbooks" / "collections"))

SIZES = (8, 42, 84, 168, 512, 2048)  # KiB; 42 KiB is the first customer's verify step
PROFILES = ("stock", "known_good", "fewer_channels")
NO_P2P = {"NCCL_P2P_DISABLE": "1"}
KEPT = ("PATH", "NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS", "LD_LIBRARY_PATH")
ANSWER = re.compile(r'\{"rank": .*\}')


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--interpreter", default="/usr/bin/python3", help="the Python that has torch (%(default)s)")
    options.add_argument("--rounds", type=int, default=3)
    arguments = options.parse_args()
    rows = {name: environment_of(name) for name in PROFILES}
    rows |= {f"{name}, P2P off": {**environment, **NO_P2P} for name, environment in rows.items()}
    answers = {name: [] for name in rows}
    for _round in range(arguments.rounds):
        for name, variables in rows.items():
            answers[name].append(measure(arguments.interpreter, variables))
    print(table(answers))
    print(describe(answers["stock"][0], arguments.rounds))
    return 0 if all(rank["sum_is_right"] for found in answers.values() for ranks in found for rank in ranks) else 1


def environment_of(profile: str) -> dict:
    from ansible_collections.gpu_node.tuning.plugins.plugin_utils.profile_directory import resolve_named

    return resolve_named(profile, str(ROOT / "roles/profile/vars/profiles"))[0]["env"]


def measure(interpreter: str, variables: dict, sizes: tuple = SIZES) -> list:
    """What each rank printed."""
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    world = sum(line.startswith("GPU ") for line in listed.splitlines())
    if world < 2:
        sys.exit(f"profile_latency: {world} GPU found; an all_reduce needs two or more.")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {"HOME": "/root", "LANG": "C.UTF-8", **variables}
    program = [interpreter, str(ROOT / "tests/gpu/latency_rank.py")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    ranks = [
        subprocess.Popen(
            [*program, str(rank), str(world), str(port), *map(str, sizes)], env=environment, cwd="/", **pipes
        )
        for rank in range(world)
    ]
    try:
        logs = [rank.communicate(timeout=240)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    answers = [json.loads(found) for log in logs for found in ANSWER.findall(log)]
    if len(answers) != world:
        sys.exit(f"profile_latency: {len(answers)} of {world} ranks answered under {variables}:\n" + "\n".join(logs))
    return answers


def table(answers: dict) -> str:
    head = ["microseconds per call", *(f"{size} KiB" for size in SIZES), "GPU MiB taken"]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name, rounds in answers.items():
        slowest = [[max(rank["microseconds"][str(size)] for rank in ranks) for ranks in rounds] for size in SIZES]
        memory = max(rank["memory_mib"] for ranks in rounds for rank in ranks)
        cells = [f"{statistics.median(samples):.1f}" for samples in slowest]
        lines.append(f"| {name} | {' | '.join(cells)} | {memory} |")
    return "\n".join(lines)


def describe(ranks: list, rounds: int) -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    first = ranks[0]
    date = datetime.datetime.now(datetime.UTC).date()
    return (
        f"{date}, {len(ranks)}x {first['gpu']}, driver {driver}, torch {first['torch']}, NCCL {first['nccl']}, "
        f"median of {rounds} rounds, slowest rank"
    )


if __name__ == "__main__":
    sys.exit(main())
