# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a start has come: real logs cut at every line, and bars of GPU nodes written by hand."""

from __future__ import annotations

import pathlib
import re

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_phase import PHASES, phase

LOGS = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "sglang_logs"
WEIGHTS = "Loading safetensors checkpoint shards:  50% Completed | 32/64 [05:00<05:00,  9.38s/it]"
GRAPHS = "Capturing batches (bs=160 avail_mem=2.71 GB):  17%|#7        | 14/23 [00:10<00:50,  2.6s/it]"


def text_of(name):
    return (LOGS / f"{name}.txt").read_bytes().decode("utf-8")


@pytest.mark.parametrize("name", ["healthy", "healthy_eagle3"])
def test_a_real_start_seen_as_it_grows(name):
    text = text_of(name)
    text = text[: text.index("SIGTERM received")]
    seen = []
    for end in re.finditer(r"[\r\n]", text):
        now = phase(text[: end.end()])
        if not seen or seen[-1].name != now.name:
            seen.append(now)
    assert [one.name for one in seen] == ["starting", "weights", "kv_cache", "warm_up", "ready"]


def test_the_state_of_a_bar():
    assert phase("Load weight begin.\n\r" + WEIGHTS)[1:] == (32, 64, "weights 32/64")
    assert phase(
        "Load weight begin.\nmodel-0001: x\n\rMulti-thread loading shards:   0% Completed | 0/1 [00:00<?, ?it/s]"
    )[1:3] == (0, 1)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            "[2026-11-30 10:00:00 TP0] Init torch distributed begin.",
            ("starting", None, None, "the ranks look for each other"),
        ),
        ("[2026-11-30 10:00:00 TP0] Init parallel begin.", ("starting", None, None, "the ranks look for each other")),
        (
            "[2026-11-30 10:00:00 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=7 GB",
            None,
        ),
        (
            "[2026-11-30 10:00:00 TP0] Capture target verify CUDA graph begin. backend=full",
            ("graphs", None, None, "graphs are being captured (target verify)"),
        ),
        (GRAPHS, ("graphs", 14, 23, "graphs 14/23")),
        (" 17%|#7        | 14/23 [00:10<00:50,  2.6s/it]", ("graphs", 14, 23, "graphs 14/23")),
        (
            "DeepGEMM warmup:  10%|#         | 1638/16384 [00:10<01:30, 163.8it/s]",
            ("graphs", 1638, 16384, "kernels are compiled 1638/16384"),
        ),
    ],
)
def test_a_line(line, wanted):
    assert phase(line) == wanted if wanted else phase(line).name == "graphs"


def test_a_rank_that_is_behind_does_not_turn_it_back():
    assert phase(GRAPHS + "\n[2026-11-30 10:00:00 TP7] Memory pool end. avail mem=2 GB").name == "graphs"


def test_a_draft_model_is_loaded_after_the_first_cache():
    assert phase("Memory pool end. avail mem=2 GB\nLoad weight begin. avail mem=2 GB").name == "weights"


@pytest.mark.parametrize(
    "name", ["bad_flag", "corrupt_weights", "missing_shard", "synthetic_oom_killer", "synthetic_nccl_hang"]
)
def test_a_failed_start(name):
    assert phase(text_of(name)).name == "failed"


def test_a_failed_start_says_how_far_it_came():
    failed = phase(
        WEIGHTS
        + "\n[2026-11-30 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\nReceived sigquit from a child process."
    )
    assert failed == ("failed", 32, 64, "it failed after: weights 32/64")


def test_a_stopped_server_was_told_so_once():
    assert phase(text_of("healthy")).sentence == "it was told to stop after: the server says that it is ready"


def test_a_new_start_begins_anew():
    assert phase(text_of("synthetic_restarting")) == ("starting", None, None, "the server starts")


@pytest.mark.parametrize("text", ["", "\0\xff\n", "100% Completed", "Prompt: Load weight begin"])
def test_what_says_nothing(text):
    assert phase(text) == ("starting", None, None, "the server starts")


def test_source_text_in_a_traceback_is_no_phase():
    assert phase('    logger.info("x")\n    Load weight begin').name == "starting"


def test_no_phase_is_unknown():
    assert {phase(path.read_bytes().decode("utf-8")).name for path in LOGS.glob("*.txt")} <= set(PHASES)
