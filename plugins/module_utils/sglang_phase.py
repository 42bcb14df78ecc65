# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a start of SGLang has come, from its log. For a person who waits; readiness itself is asked of the server, never of the log."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_log

STARTING, WEIGHTS, KV_CACHE, GRAPHS, WARM_UP, READY, FAILED = PHASES = (
    "starting",
    "weights",
    "kv_cache",
    "graphs",
    "warm_up",
    "ready",
    "failed",
)


class Phase(NamedTuple):
    """``name``: one of PHASES; ``done`` and ``total``: of the parts that the log counts, None where it counts none."""

    name: str
    done: Optional[int]
    total: Optional[int]
    sentence: str


class _Sign(NamedTuple):
    """A line that tells of a phase. Groups: done, total, what."""

    pattern: str
    phase: str
    sentence: str


_BAR = r"(?<!\d)(?P<done>\d+)/(?P<total>\d+) \["
_SIGNS = tuple(
    _Sign(re.compile(sign.pattern), sign.phase, sign.sentence)
    for sign in (
        _Sign(r"server_args=", STARTING, "SGLang reads the model's configuration"),
        _Sign(r"Init (?:torch distributed|parallel) begin", STARTING, "the ranks look for each other"),
        _Sign(r"Init (?:torch distributed|parallel) ends", STARTING, "the ranks are connected"),
        _Sign(r"Load weight begin", WEIGHTS, "weights are being loaded"),
        _Sign(
            rf"(?P<what>.*(?:shard|[Cc]heckpoint|weights).*): +\d+% Completed \| {_BAR}",
            WEIGHTS,
            "weights {done}/{total}",
        ),
        _Sign(r"Load weight end", WEIGHTS, "weights are loaded"),
        _Sign(r"(?:KV|Mamba|SWA) [Cc]ache is allocated|Memory pool end", KV_CACHE, "the KV cache is laid out"),
        _Sign(r"(?:Running|Start\w*) FlashInfer autotune|.*[Aa]utotun\w+\b.*", GRAPHS, "kernels are tuned"),
        _Sign(
            rf".*(?:DeepGEMM|[Pp]re-?[Cc]ompil|[Ww]arm-?up|warming up).*{_BAR}",
            GRAPHS,
            "kernels are compiled {done}/{total}",
        ),
        _Sign(
            r"Capture (?P<what>.*?)(?: CUDA| cuda| CPU| cpu)? [Gg]raph begin",
            GRAPHS,
            "graphs are being captured ({what})",
        ),
        _Sign(rf"(?:Captur|Compil).*%\|.*{_BAR}", GRAPHS, "graphs {done}/{total}"),
        _Sign(rf" *\d+%\|.*{_BAR}", GRAPHS, "graphs {done}/{total}"),
        _Sign(r"Capture .*[Gg]raph end", GRAPHS, "graphs are captured"),
        _Sign(r"(?:INFO: +)?(?:Started server process|Uvicorn running)", WARM_UP, "the server warms up"),
        _Sign(re.escape(sglang_log.READY), READY, "the server says that it is ready"),
    )
)
_FAILED = re.compile(
    r"\w+ hit an exception|Received sigquit from|SIGQUIT received|Subprocess \S+ \(pid=\d+\) crashed|Initialization failed\. |"
    r".*Rank \d+ scheduler (?:is dead|died)|\S+(?: serve)?: error: |\S+: Failed with result |\S+: Main process exited, code="
)
_STOPPED = re.compile(r"SIGTERM received|Gracefully exiting|Stopping \S+\.service")


def phase(text: str) -> Phase:
    """The phase that the last start in the log has reached."""
    reached = Phase(STARTING, None, None, "the server starts")
    ended = ""
    for line in sglang_log.starts(sglang_log.pieces(text))[-1]:
        if line.startswith("  ") and "%|" not in line:
            continue  # source text of a traceback
        if _FAILED.match(line):
            ended = ended or "it failed after"
        elif _STOPPED.match(line):
            ended = ended or "it was told to stop after"
        elif not ended:
            reached = _next(reached, line)
    return reached._replace(name=FAILED, sentence=f"{ended}: {reached.sentence}") if ended else reached


def _next(reached: Phase, line: str) -> Phase:
    for sign in _SIGNS:
        match = sign.pattern.match(line)
        if match:
            groups = match.groupdict()
            done, total = groups.get("done"), groups.get("total")
            if PHASES.index(sign.phase) < PHASES.index(reached.name) and (sign.phase, reached.name) != (
                WEIGHTS,
                KV_CACHE,
            ):
                return reached  # another rank is behind; only a draft model's weights may come after the first KV cache
            words = sign.sentence.format(done=done, total=total, what=groups.get("what"))
            return Phase(sign.phase, int(done) if done else None, int(total) if total else None, words)
    return reached
