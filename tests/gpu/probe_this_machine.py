#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probe the GPUs of the machine that this runs on, then make a pair hang on purpose, and look for what is left of it.

1. Data moves between all ordered pairs, by copies and by stores; the table of pairs is printed.
2. A pair whose flags are never stored is found to be wrong by the bounded poll, without a hang.
3. A pair that polls for ever is ended at its limit, is named, and leaves no process, neither in /proc nor on a GPU.
4. The probe works again after it.

Needs two GPUs, libcuda.so.1, and nothing but the standard library. Exit status 0 only when every step held.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import itertools
import os
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

from holding import Checks

COLLECTIONS = Path(__file__).resolve().parents[2] / "playbooks" / "collections" / "ansible_collections"
STORE_THE_FLAG = "    st.release.sys.global.u32 [%d6], %r3;\n"
POLL_AGAIN = "    @%p2 bra POLL;\n"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--interpreter", default=sys.executable, help="the Python of the probe (default: %(default)s)")
    options.add_argument("--timeout", type=float, default=30, help="seconds for a pair (default: %(default)s)")
    options.add_argument("--hang", type=float, default=20, help="seconds that the hang may last (default: %(default)s)")
    arguments = options.parse_args()
    sound = run(arguments.interpreter, arguments.timeout)
    if len(sound["gpus"]) < 2:
        print(
            f"probe_this_machine: two GPUs are needed, nothing was proved. {' '.join(sound['problems'])}",
            file=sys.stderr,
        )
        return 2
    holding = Checks()
    every_pair(holding, sound)
    flag_that_never_comes(holding, arguments)
    hang(holding, arguments)
    again = run(arguments.interpreter, arguments.timeout)
    show(again)
    holding.hold("after the hang, the probe finds what it found before", said(again) == said(sound))
    describe(sound)
    return holding.finish()


def collection(name: str) -> types.ModuleType:
    """A module_utils of this checkout, whatever other collections this Python knows."""
    if "ansible_collections" not in sys.modules:
        package = types.ModuleType("ansible_collections")
        package.__path__ = [str(COLLECTIONS)]
        sys.modules["ansible_collections"] = package
    return importlib.import_module(f"ansible_collections.gpu_node.tuning.plugins.module_utils.{name}")


def run(interpreter: str, timeout: float, program: str | None = None) -> dict:
    """The probe's result, with the ``seconds`` that it took."""
    probe = collection("p2p_probe")
    began = time.monotonic()
    result = probe.probe(interpreter, probe.Limits(timeout, 480), program)
    return dict(result, seconds=time.monotonic() - began)


def variant(*replacements: tuple) -> str:
    """The probe's program with kernels that misbehave."""
    program = inspect.getsource(collection("p2p_probe_program"))
    for old, new in replacements:
        if program.count(old) != 1:
            sys.exit(
                f"probe_this_machine: the kernels have changed; {old!r} is there {program.count(old)} times, not once."
            )
        program = program.replace(old, new)
    return program


def every_pair(holding: Checks, result: dict) -> None:
    show(result)
    indices = [gpu["index"] for gpu in result["gpus"]]
    tried = [(pair["source"], pair["destination"]) for pair in result["pairs"]]
    holding.hold("every ordered pair was tried", tried == list(itertools.permutations(indices, 2)))
    holding.hold(f"every word arrived (verdict {result['verdict']})", result["verdict"] == "ok")


def flag_that_never_comes(holding: Checks, arguments: argparse.Namespace) -> None:
    result = run(arguments.interpreter, arguments.timeout, variant((STORE_THE_FLAG, "")))
    show(result)
    first = first_pair(result)
    holding.hold(
        f"a flag that never comes is found in every pair, without a hang ({first['seconds']} s for the first)",
        all(pair["stage_copy"] == "ok" and pair["stage_store"] == "wrong" for pair in result["pairs"]),
    )
    holding.hold(
        "the host then finds the words right, and all flags missing",
        "16 of the flags are missing, and all words are right" in first["detail"],
    )


def hang(holding: Checks, arguments: argparse.Namespace) -> None:
    """The first pair polls for ever; the second, of the same GPUs, must not be tried."""
    before = compute_processes()
    watch = Watch()
    result = run(arguments.interpreter, arguments.hang, variant((STORE_THE_FLAG, ""), (POLL_AGAIN, "    bra POLL;\n")))
    groups = watch.stop()
    show(result)
    first, rest, problem = first_pair(result), result["pairs"][1:], " ".join(result["problems"][:1])
    holding.hold(
        "the copy before it was right, and the store hung",
        (first["stage_copy"], first["stage_store"]) == ("ok", "hung"),
    )
    named = f"GPU {first['source']} -> GPU {first['destination']}: store: hung"
    holding.hold(f"the problem names the pair: {problem}", problem.startswith(named))
    limit = arguments.hang
    holding.hold(
        f"the pair ended after {first['seconds']} s, with a limit of {limit:g} s and 10 s to end it",
        limit <= first["seconds"] < limit + 11,
    )
    if len(result["gpus"]) == 2:
        holding.hold("the other direction was not tried", all(pair["stage_copy"] == "not_tried" for pair in rest))
    holding.hold("SIGKILL ended every process", result["left_running"] == [])
    living = collection("process_group").living_members
    holding.hold(
        f"/proc has nothing of the {len(groups)} process groups that were seen while it ran",
        bool(groups) and not any(living(group) for group in groups),
    )
    print(
        f"        nvidia-smi listed {sorted(watch.on_gpus - before) or 'no further process (a container may hide them)'} meanwhile"
    )
    time.sleep(1)
    holding.hold("nvidia-smi lists no process that it did not list before", compute_processes() <= before)


def first_pair(result: dict) -> dict:
    """A stand-in where there is none, so that the checks fail by their own words."""
    nothing = dict.fromkeys(("source", "destination", "stage_copy", "stage_store"), "none")
    return result["pairs"][0] if result["pairs"] else dict(nothing, detail="", seconds=0.0)


class Watch:
    """Sees, from a thread, which process groups this process starts, and which processes nvidia-smi lists."""

    def __init__(self):
        self.groups, self.on_gpus = set(), set()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    def stop(self) -> set:
        self.done.set()
        self.thread.join(timeout=30)
        return self.groups

    def _look(self) -> None:
        while not self.done.wait(0.5):
            self.groups |= children_of_this_process()
            self.on_gpus |= compute_processes()


def children_of_this_process() -> set:
    """Those that lead a process group, as every process of the probe does; nvidia-smi's, which this program starts, do not."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _state, parent, group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if parent == PID and group == stat.parent.name:
            found.add(int(group))
    return found


def compute_processes() -> set:
    command = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return {word for word in ran.stdout.split() if word.isdigit()}


def said(result: dict) -> list:
    return [(pair["source"], pair["destination"], pair["stage_copy"], pair["stage_store"]) for pair in result["pairs"]]


def show(result: dict) -> None:
    print(f"\n{'pair':<8}{'copy':<11}{'store':<11}{'seconds':>8}  detail")
    for pair in result["pairs"]:
        name = f"{pair['source']} -> {pair['destination']}"
        print(f"{name:<8}{pair['stage_copy']:<11}{pair['stage_store']:<11}{pair['seconds']:>8.2f}  {pair['detail']}")
    print(f"verdict {result['verdict']}, {result['seconds']:.1f} s in all", flush=True)


def describe(result: dict) -> None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        driver = "unknown"
    names = sorted({gpu["name"] for gpu in result["gpus"]})
    print(f"\n{len(result['gpus'])}x {', '.join(names)}, driver {driver}, Python {sys.version.split()[0]}")


PID = str(os.getpid())

if __name__ == "__main__":
    sys.exit(main())
