# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move data between every ordered pair of GPUs, each pair in a process of its own that may hang without harm.

A pair's process reports stage by stage (see p2p_probe_program); from what it has not reported follows where it stopped.
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import time
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import p2p_probe_program
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.process_group import GRACE, Ended, run_in_group

OK, WRONG, REFUSED, HUNG, ERROR, NOT_TRIED = "ok", "wrong", "refused", "hung", "error", "not_tried"
STAGES = ("open", "copy", "store")
REPORTS = {
    "list": (OK, ERROR, "unavailable"),
    "open": (OK, REFUSED, ERROR),
    "copy": (OK, WRONG, ERROR),
    "store": (OK, WRONG, ERROR),
}
DOING = {"open": "the GPUs were being opened", "copy": "a copy was under way", "store": "stores were under way"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LONGEST_WORDS = 300  # characters shown of what a process said at last


class Limits(NamedTuple):
    """Seconds: for one pair, and for the whole."""

    pair: float
    total: float


class Prober:
    """Starts the program, one process at a time, and holds the time limits."""

    def __init__(self, interpreter: str, limits: Limits, program: str):
        self.interpreter = interpreter
        self.limits = limits
        self.program = program
        self.deadline = time.monotonic() + limits.total

    @property
    def next_limit(self) -> float:
        """Seconds that the next process may take; none are left where this is not positive."""
        return min(self.limits.pair, self.deadline - time.monotonic())

    def run(self, request: dict, visible: Optional[str] = None) -> Ended:
        request = json.dumps(dict(request, parent=os.getpid()))
        # -S: a sitecustomize.py may hang, or print; -c: the program then needs no file that somebody else could change.
        argv = [self.interpreter, "-I", "-S", "-B", "-c", self.program, request]
        try:
            return run_in_group(argv, _environment(visible), max(0.0, self.next_limit))
        except (OSError, ValueError) as error:
            raise TuningError(
                f"interpreter {self.interpreter!r}: cannot be started: {getattr(error, 'strerror', None) or error}. "
                f"Legal: the absolute path of a Python 3.9 or newer; leave it out to take the one that runs the module."
            ) from error


def probe(interpreter: str, limits: Limits, program: Optional[str] = None) -> dict:
    """``{verdict, gpus, pairs, problems, left_running}``, see RETURN of module p2p_probe.

    Returns at most GRACE seconds after ``limits.total``. Raises TuningError where ``interpreter`` cannot be started.
    """
    prober = Prober(interpreter, limits, program or inspect.getsource(p2p_probe_program))
    listed = prober.run({})
    verdict, gpus, problems = gpus_of(listed)
    result = {"verdict": verdict, "gpus": gpus, "pairs": [], "problems": problems, "left_running": _pids(listed)}
    if verdict == OK:
        _probe_pairs(prober, result)
    return result


def _probe_pairs(prober: Prober, result: dict) -> None:
    hung = {}  # index of a GPU -> the pair that hung with it
    for source, destination in itertools.permutations(result["gpus"], 2):
        pair = (source["index"], destination["index"])
        reason = _why_not_tried(prober, pair, hung)
        if reason:
            result["pairs"].append(_entry(pair, NOT_TRIED, NOT_TRIED, reason, 0.0))
            continue
        request = {"source": source["pci_address"], "destination": destination["pci_address"]}
        # Stopped before its own limit, a pair has not been shown to hang.
        stopped = NOT_TRIED if prober.next_limit < prober.limits.pair else HUNG
        ended = prober.run(request, f"{pair[0]},{pair[1]}")
        entry = outcome(pair, ended, stopped)
        result["pairs"].append(entry)
        result["left_running"] += _pids(ended)
        if HUNG in (entry["stage_copy"], entry["stage_store"]):
            hung.update(dict.fromkeys(pair, pair))
    result["verdict"] = verdict_of(result["pairs"])
    result["problems"] = [sentence(entry) for entry in result["pairs"] if entry["detail"]]


def _why_not_tried(prober: Prober, pair: tuple, hung: dict) -> str:
    for index in pair:
        if index in hung:
            return f"not tried, because GPU {index} hung in {_name(hung[index])}"
    if prober.next_limit <= 0:
        return f"not tried, because the {prober.limits.total:g} s for the whole probe were over"
    return ""


def gpus_of(ended: Ended) -> tuple:
    """``(verdict, gpus, problems)`` of the process that lists the GPUs; verdict ``ok`` where there are pairs to try."""
    report = reports(ended.output).get("list")
    if report is None:
        why = "; ".join([_how_it_ended(ended), *_not_ended(ended)])
        return "failed", [], [f"The GPUs could not be listed: {why}. No pair was tried."]
    if report["status"] != OK:
        return "not_possible", [], [f"No pair could be tried: {report['detail']}."]
    gpus = _plain_gpus(report.get("gpus"))
    if not gpus:
        return "no_gpus", [], ["CUDA shows no GPU."]
    if len(gpus) == 1:
        return "not_possible", gpus, ["CUDA shows one GPU; a pair needs two."]
    return OK, gpus, []


def _plain_gpus(listed: object) -> list:
    keys = {"index": int, "name": str, "pci_address": str}
    return [
        {key: gpu[key] for key in keys}
        for gpu in (listed if isinstance(listed, list) else [])
        if isinstance(gpu, dict) and all(isinstance(gpu.get(key), kind) for key, kind in keys.items())
    ]


def reports(output: str) -> dict:
    """Stage to what was reported of it. Whatever else a process printed, half a line included, is passed over."""
    found = {}
    for line in output.split("\n"):
        try:
            report = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(report, dict) or not isinstance(report.get("detail"), str):
            continue
        stage, status = report.get("stage"), report.get("status")
        if isinstance(stage, str) and status in REPORTS.get(stage, ()):
            found[stage] = report
    return found


def outcome(pair: tuple, ended: Ended, if_stopped: str = HUNG) -> dict:
    """The entry of a pair in the result. ``if_stopped``: what a stage was that reached the time limit."""
    found = reports(ended.output)
    stages = {stage: found[stage]["status"] if stage in found else None for stage in STAGES}
    details = [f"{stage}: {found[stage]['detail']}" for stage in STAGES if stage in found and found[stage]["detail"]]
    stopped = _stopped_at(stages, ended)
    if stopped:
        stages[stopped] = ERROR if ended.in_time else if_stopped
        how = _how_it_ended(ended) if ended.in_time or if_stopped == HUNG else _cut_short(ended)
        details.append(f"{stopped}: {how}, while {_doing(stopped, found)}")
    if stages["open"] != OK:
        stages["copy"] = stages["open"]
        stages["store"] = REFUSED if stages["open"] == REFUSED else NOT_TRIED
    details += _not_ended(ended)
    return _entry(pair, stages["copy"], stages["store"] or NOT_TRIED, "; ".join(details), ended.seconds)


def _stopped_at(stages: dict, ended: Ended) -> str:
    """The stage that a process was in when it hung or died; empty for one that came to its end."""
    for stage in STAGES:
        if stages[stage] is None:
            return stage
        if stages[stage] in (REFUSED, ERROR):
            break  # the program goes no further; it has still to close what it opened
    return "" if ended.in_time and ended.status == 0 else stage


def _doing(stage: str, found: dict) -> str:
    return "the GPUs were being closed" if stage in found else DOING[stage]


def _cut_short(ended: Ended) -> str:
    return f"stopped after {ended.seconds:.1f} s, because the time for the whole probe was over"


def _how_it_ended(ended: Ended) -> str:
    if not ended.in_time:
        return f"hung, and was stopped after {ended.seconds:.1f} s"
    said = [line.strip() for line in ended.output.splitlines() if line.strip() and not reports(line)]
    how = f"signal {-ended.status}" if (ended.status or 0) < 0 else f"exit status {ended.status}"
    return f"the process ended ({how}); its last words: {said[-1][:LONGEST_WORDS] if said else 'nothing'}"


def verdict_of(pairs: list) -> str:
    found = {entry[stage] for entry in pairs for stage in ("stage_copy", "stage_store")}
    if found <= {OK}:
        return OK
    return "not_possible" if found <= {OK, REFUSED} else "failed"


def sentence(entry: dict) -> str:
    """What is wrong with a pair."""
    return f"{_name((entry['source'], entry['destination']))}: {entry['detail']}."


def _name(pair: tuple) -> str:
    return f"GPU {pair[0]} -> GPU {pair[1]}"


def _entry(pair: tuple, copy: str, store: str, detail: str, seconds: float) -> dict:
    return {
        "source": pair[0],
        "destination": pair[1],
        "stage_copy": copy,
        "stage_store": store,
        "detail": detail,
        "seconds": round(seconds, 3),
    }


def _not_ended(ended: Ended) -> list:
    return [
        f"process {process.pid} (state {process.state}) could not be ended within {GRACE} s"
        for process in ended.remaining
    ]


def _pids(ended: Ended) -> list:
    return [process.pid for process in ended.remaining]


def _environment(visible: Optional[str]) -> dict:
    """A clean one: an engine's own CUDA variables would renumber or hide GPUs. ``visible``: open these GPUs and no other."""
    environment = {
        "PATH": PATH,
        "LC_ALL": "C.UTF-8",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # as nvidia-smi counts
        "CUDA_MODULE_LOADING": "EAGER",  # a kernel that is loaded late waits for the one that polls for it
        "CUDA_CACHE_DISABLE": "1",  # nothing of a probe stays in a home directory
    }
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    if "LD_LIBRARY_PATH" in os.environ:
        environment["LD_LIBRARY_PATH"] = os.environ[
            "LD_LIBRARY_PATH"
        ]  # in containers the driver's library may be found by it alone
    return environment
