# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person sees while a server starts, and what the task says when it does not."""

from __future__ import annotations

from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_diagnosis import Finding, in_one_sentence

AT_LEAST_EVERY = 30.0  # seconds between two lines
# Where nothing failed and the time is over. A server that hangs writes no error, so its phase is all there is.
HANGS = {
    "starting": "Where the ranks look for each other, they may not find each other: see NCCL_SOCKET_IFNAME, and gpu_node.tuning.p2p_probe.",
    "weights": "Where the GPU memory still grows, the storage is slow: raise timeout.",
    "kv_cache": "Kernels may be compiled or tuned for the first time, which takes minutes: raise timeout.",
    "graphs": "Kernels that are compiled for the first time take minutes: raise timeout. Standing still, it is a collective: see gpu_node.tuning.p2p_probe.",
    "warm_up": "The first request does not come back: a collective or a kernel hangs. See gpu_node.tuning.p2p_probe, and try the known-good profile.",
}


class Progress:
    """The lines of one wait. ``phases``: list of {name, sentence, since}."""

    def __init__(self, title: str, now):
        self._title, self._now, self._began = title, now, now()
        self._told, self._told_at = "", 0.0
        self.phases = []

    def elapsed(self) -> float:
        return round(self._now() - self._began, 1)

    def line(self, answer: dict) -> str:
        """The line for an answer of the module; empty where it says nothing new and the last one is young."""
        elapsed, phase = self.elapsed(), answer["phase"]
        if not self.phases or self.phases[-1]["sentence"] != phase["sentence"]:
            self.phases.append({"name": phase["name"], "sentence": phase["sentence"], "since": elapsed})
        new = f"{phase['name']} {phase['sentence']}"
        if new == self._told and elapsed - self._told_at < AT_LEAST_EVERY and not answer["ready"]:
            return ""
        self._told, self._told_at = new, elapsed
        memory = memory_words(answer.get("gpu_memory") or [])
        return f"{self._title or 'SGLang'}: {clock(elapsed)} {phase['name']}: {phase['sentence']}{'; ' + memory if memory else ''}"


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def memory_words(gpus: list) -> str:
    """Used memory of the fullest and the emptiest GPU: they part where a rank is behind, or where something else holds memory."""
    if not gpus:
        return ""
    used = sorted(gpu["used_mib"] / 1024 for gpu in gpus)
    total = max(gpu["total_mib"] for gpu in gpus) / 1024
    span = f"{used[0]:.1f}" if f"{used[0]:.1f}" == f"{used[-1]:.1f}" else f"{used[0]:.1f} to {used[-1]:.1f}"
    return f"GPU memory {span} of {total:.1f} GiB ({len(gpus)} GPU{'s' if len(gpus) > 1 else ''})"


def why_too_long(answer: dict, timeout: float) -> str:
    """For a wait that ended because its time was over."""
    health = answer["health"] or "not asked"
    if not answer.get("unit_state"):
        return f"not ready within {timeout:g} s; /health: {health}. With unit, the journal would say how far it came."
    phase = answer["phase"]
    reached = f"not ready within {timeout:g} s; the last phase was {phase['name']} ({phase['sentence']}), and /health: {health}."
    return f"{reached} {HANGS.get(phase['name'], '')}".strip()


def failure(why: str, answer: dict) -> str:
    """The message of the failed task: what happened, and the most likely cause. Without a unit there is no log to look at."""
    if not answer.get("unit_state"):
        return why
    findings = [Finding(**finding) for finding in answer["diagnosis"]]
    cause = in_one_sentence(findings) if findings else "No cause that is known here was found in its log."
    return f"{why} After {clock(answer.get('elapsed', 0.0))} ({answer['phase']['sentence']}). {cause}"
