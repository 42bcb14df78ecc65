# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The estimate is the arithmetic of NCCL's own allocations, in figures and in words."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_memory import (
    InvalidEstimate,
    compare,
    estimate,
    memory_line,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.profiles import resolve

MIB = 1024 * 1024
PROFILES = pathlib.Path(__file__).resolve().parents[2] / "roles" / "profile" / "vars" / "profiles"

# As read in NCCL's sources: channels, peers, and MiB for each size of the Simple buffer.
TABLE = [
    (1, 1, {1: 10, 4: 12, 8: 16, 16: 24, 32: 40, 64: 72}),
    (2, 1, {1: 20, 4: 24, 8: 32, 16: 48, 32: 80, 64: 144}),
    (4, 1, {1: 40, 4: 48, 8: 64, 16: 96, 32: 160, 64: 288}),
    (8, 1, {1: 80, 4: 96, 8: 128, 16: 192, 32: 320, 64: 576}),
    (16, 1, {1: 160, 4: 192, 8: 256, 16: 384, 32: 640, 64: 1152}),
    (32, 1, {1: 320, 4: 384, 8: 512, 16: 768, 32: 1280, 64: 2304}),
    (64, 1, {1: 640, 4: 768, 8: 1024, 16: 1536, 32: 2560, 64: 4608}),
    (32, 2, {1: 640, 4: 768, 8: 1024, 16: 1536, 32: 2560, 64: 4608}),
    (32, 7, {1: 2240, 4: 2688, 8: 3584, 16: 5376, 32: 8960, 64: 16128}),
]
SHAPES = {1: "ring", 2: "ring_and_tree", 7: "all_to_all"}


@pytest.mark.parametrize(
    ("channels", "peers", "size", "mib"),
    [(channels, peers, size, mib) for channels, peers, row in TABLE for size, mib in row.items()],
)
def test_every_row_of_the_table(channels, peers, size, mib):
    found = estimate({"NCCL_BUFFSIZE": str(size * MIB)}, 8, pattern=SHAPES[peers], channels=channels)
    assert found["terms"]["peers"] == peers
    assert found["mib"] == mib
    assert found["host_mib"] == 0
    assert found["text"].startswith(f"{mib} MiB on each GPU: ")


def test_the_default_sizes_come_from_the_catalogue():
    assert estimate({}, 2, channels=1)["mib"] == 12
    assert estimate({"NCCL_LL128_BUFFSIZE": str(MIB)}, 2, channels=1)["mib"] == 8
    assert estimate({"NCCL_LL_BUFFSIZE": str(4 * MIB)}, 2, channels=1)["mib"] == 16


def test_the_protocol_does_not_change_the_sum():
    assert estimate({"NCCL_PROTO": "LL"}, 8)["mib"] == estimate({}, 8)["mib"]


def test_the_buffer_lies_with_the_sender_when_the_receiver_reads():
    assert estimate({"NCCL_P2P_READ_ENABLE": "1"}, 2, channels=1)["terms"]["send_mib"] == 6
    assert estimate({"NCCL_P2P_READ_ENABLE": "0"}, 2, channels=1)["terms"]["send_mib"] == 2


def test_the_known_good_set_in_words():
    known_good = resolve("known_good", {"known_good": yaml.safe_load((PROFILES / "known_good.yml").read_text())})
    found = estimate(known_good["env"], 8, communicators=3)
    assert found["mib"] == 1152
    assert found["text"] == (
        "at most 1152 MiB on each GPU: 16 channels x 1 peer (ring) x 24 MiB (22 to receive, 2 to send) x 3 communicators"
    )


@pytest.mark.parametrize(
    ("env", "arguments", "channels"),
    [
        ({}, {}, 64),
        ({}, {"nccl": "2.24.3"}, 32),
        ({}, {"nccl": "2.25.1"}, 64),
        ({"NCCL_MAX_NCHANNELS": "16"}, {}, 16),
        ({"NCCL_MAX_NCHANNELS": "64"}, {"nccl": "2.21.5"}, 32),
        ({"NCCL_MAX_NCHANNELS": "16", "NCCL_MAX_CTAS": "8"}, {}, 8),
        ({"NCCL_MAX_NRINGS": "4"}, {}, 4),
        ({"NCCL_MAX_NRINGS": "4", "NCCL_MAX_NCHANNELS": "16"}, {}, 16),
        ({"NCCL_MAX_NCHANNELS": "16"}, {"pattern": "all_to_all"}, 64),
        ({"NCCL_MAX_P2P_NCHANNELS": "8"}, {"pattern": "all_to_all"}, 8),
        ({"NCCL_MAX_P2P_NCHANNELS": "8"}, {}, 64),
        ({"NCCL_MAX_NCHANNELS": "16"}, {"channels": 2}, 2),
    ],
)
def test_the_most_channels(env, arguments, channels):
    assert estimate(env, 8, **arguments)["terms"]["channels"] == channels


@pytest.mark.parametrize(
    ("env", "gpus", "pattern", "peers"),
    [
        ({"NCCL_ALGO": "Ring"}, 8, None, 1),
        ({"NCCL_ALGO": "Tree"}, 8, None, 2),
        ({}, 8, None, 2),
        ({}, 2, None, 1),
        ({}, 1, None, 0),
        ({}, 4, "all_to_all", 3),
        ({}, 1, "all_to_all", 0),
    ],
)
def test_the_peers_of_a_gpu(env, gpus, pattern, peers):
    assert estimate(env, gpus, pattern=pattern)["terms"]["peers"] == peers


@pytest.mark.parametrize("env", [{"NCCL_P2P_DISABLE": "1"}, {"NCCL_P2P_LEVEL": "LOC"}])
def test_without_p2p_it_is_host_memory(env):
    found = estimate(env, 2, channels=2)
    assert (found["mib"], found["host_mib"]) == (0, 24)
    (name, value), *_ = env.items()
    assert f"24 MiB of host memory for each GPU and none on it, because of {name}={value}: " in found["text"]
    assert estimate({"NCCL_P2P_DISABLE": "0", "NCCL_P2P_LEVEL": "PXB"}, 2, channels=2)["mib"] == 24


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"gpu_count": 0}, "gpu_count=0: not a count"),
        ({"gpu_count": None}, "gpu_count=None: not a count"),
        ({"gpu_count": True}, "gpu_count=True: not a count"),
        ({"gpu_count": 8, "communicators": 0}, "communicators=0: not a count"),
        ({"gpu_count": 8, "channels": 0}, "channels=0: not a count"),
        ({"gpu_count": 8, "pattern": "star"}, "pattern='star': not known. Legal: ring, ring_and_tree, all_to_all."),
    ],
)
def test_what_cannot_be_counted_is_refused(arguments, text):
    with pytest.raises(InvalidEstimate) as caught:
        estimate({}, **arguments)
    assert text in str(caught.value)
    assert "Write one" in str(caught.value)


def gpus(*free):
    return {"gpus": [{"index": index, "memory_mib": {"free": mib}} for index, mib in enumerate(free)]}


@pytest.mark.parametrize(
    ("facts", "fits", "text"),
    [
        (gpus(500, 90, 96), False, "96 MiB is more than the 90 MiB that are free on GPU 1, the one with the least"),
        (gpus(500, 96), True, "96 MiB fits into the 96 MiB that are free on GPU 1, the one with the least"),
        (None, None, "not compared with the free memory, because there are no facts of this node"),
        ({}, None, "not compared with the free memory, because the node's facts do not say which GPUs there are"),
        ({"gpus": []}, None, "because the node's facts do not say how much memory is free on each GPU"),
        (gpus(500, None), None, "because the node's facts do not say how much memory is free on each GPU"),
    ],
)
def test_it_is_held_against_the_gpu_with_the_least_free_memory(facts, fits, text):
    found = compare(estimate({}, 2, channels=8), facts)
    assert found["fits"] is fits
    assert text in found["text"]


def test_the_line_of_the_diff():
    known_good = {"NCCL_ALGO": "Ring", "NCCL_MAX_NCHANNELS": "16", "NCCL_BUFFSIZE": "16777216"}
    head = "NCCL's connections (estimate for each GPU): "
    line = memory_line(estimate(known_good, 8, nccl="2.20.5"), {})
    assert line == f"{head}GPU memory at most 768 MiB -> at most 384 MiB"  # 32 channels were the most before 2.25
    assert memory_line(estimate(known_good, 8), {"NCCL_BUFFSIZE": "no number"}).startswith(
        f"{head}GPU memory at most 1536 MiB"
    )
    without = memory_line(estimate({**known_good, "NCCL_P2P_DISABLE": "1"}, 8), known_good)
    assert without == f"{head}GPU memory at most 384 MiB -> at most 0 MiB, host memory at most 0 MiB -> at most 384 MiB"


@pytest.mark.parametrize(
    ("facts", "fits", "text"),
    [
        ({"dev_shm_mib": 191}, False, "192 MiB of host memory for all 2 GPUs is more than the 191 MiB of /dev/shm"),
        ({"dev_shm_mib": 192}, True, "192 MiB of host memory for all 2 GPUs fits into the 192 MiB of /dev/shm"),
        ({}, None, "because the node's facts do not say how large /dev/shm is"),
    ],
)
def test_host_memory_is_held_against_dev_shm(facts, fits, text):
    found = compare(estimate({"NCCL_P2P_DISABLE": "1"}, 2, channels=8), facts)
    assert found["fits"] is fits
    assert text in found["text"]
