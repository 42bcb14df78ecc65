# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ACS registers in configuration spaces, and which bridges are on the way."""

from __future__ import annotations

import struct

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import SourceMissing, Sources
from ansible_collections.gpu_node.tuning.plugins.module_utils.pci_acs import bridges_between, pairs, redirects
from hypothesis import given
from hypothesis import strategies as st

from .recorded_nodes import add_device, config_space

ROOT = "/sys/devices/pci0000:00/0000:00:01.0"
SWITCH = f"{ROOT}/0000:01:00.0"


@pytest.mark.parametrize(
    ("control", "expected"),
    [(0x4, True), (0x8, True), (0x1D, True), (0x5F, True), (0, False), (0x11, False), (0x53, False)],
)
def test_the_two_bits_that_redirect(control, expected):
    assert redirects(config_space(control)) is expected


def test_a_bridge_without_the_capability():
    assert redirects(config_space(None)) is False
    assert redirects(bytes(4096)) is False
    assert redirects(b"\xff" * 4096) is False  # a device that fell off the bus
    assert redirects(bytes(256)) is False  # conventional PCI


@pytest.mark.parametrize("length", [0, 64, 128, 255])
def test_what_others_than_root_can_read(length):
    with pytest.raises(SourceMissing, match=f"only {length} bytes.*root reads all"):
        redirects(config_space(0x1D)[:length])


def test_a_list_that_does_not_end():
    config = bytearray(4096)
    struct.pack_into("<I", config, 0x100, 0x0001 | 0x148 << 20)
    struct.pack_into("<I", config, 0x148, 0x0001 | 0x100 << 20)
    assert redirects(bytes(config)) is False


@given(st.binary(max_size=600), st.sampled_from([0, 0x100, 0xFF8, 4096 - 600]))
def test_any_bytes_give_an_answer(noise, offset):
    config = (bytes(offset) + noise + bytes(4096))[:4096]
    assert redirects(config) in (True, False)


@pytest.mark.parametrize(
    ("one", "other", "bridges"),
    [
        (
            f"{SWITCH}/0000:02:00.0/0000:03:00.0",
            f"{SWITCH}/0000:02:01.0/0000:04:00.0",
            ["0000:02:00.0", "0000:02:01.0"],
        ),
        (f"{ROOT}/0000:01:00.0", "/sys/devices/pci0000:00/0000:00:02.0/0000:05:00.0", ["0000:00:01.0", "0000:00:02.0"]),
        ("/sys/devices/pci0000:00/0000:00:06.0", "/sys/devices/pci0000:00/0000:00:07.0", []),
        (
            "/sys/devices/platform/x/pci0000:00/0000:00:01.0/0000:01:00.0",
            "/sys/devices/pci0001:00/0001:00:00.0/0001:01:00.0",
            ["0000:00:01.0", "0001:00:00.0"],
        ),
        (
            "/sys/devices/pci10000:e0/10000:e0:00.0/10000:e1:00.0",
            "/sys/devices/pci10000:e0/10000:e0:01.0/10000:e2:00.0",
            ["10000:e0:00.0", "10000:e0:01.0"],
        ),
        ("", "", []),
    ],
)
def test_bridges_between(one, other, bridges):
    assert bridges_between(one, other) == bridges


def node(tmp_path, devices):
    for number, (path, device) in enumerate(devices.items()):
        add_device(tmp_path, path, device, number)
    return Sources(str(tmp_path))


def test_a_bridge_that_cannot_be_read_leaves_the_answer_open(tmp_path):
    sources = node(
        tmp_path,
        {
            "pci0000:00/0000:00:01.0": {},
            "pci0000:00/0000:00:01.0/0000:01:00.0": {},
            "pci0000:80/0000:80:01.0": {"acs": 0},
            "pci0000:80/0000:80:01.0/0000:81:00.0": {},
        },
    )
    addresses = {0: "0000:01:00.0", 1: "0000:81:00.0"}
    assert pairs(sources, addresses) == ([{"gpus": [0, 1], "redirect": False, "bridges": []}], [])
    (tmp_path / "sys/devices/pci0000:00/0000:00:01.0/config").write_bytes(bytes(64))
    found, reasons = pairs(sources, addresses)
    assert found == [{"gpus": [0, 1], "redirect": None, "bridges": []}]
    assert reasons == [
        "1 of 2 bridges, the first is 0000:00:01.0: only 64 bytes of its configuration space can be read; root reads all"
    ]
    (tmp_path / "sys/devices/pci0000:80/0000:80:01.0/config").write_bytes(config_space(0x1D))
    assert pairs(sources, addresses)[0] == [{"gpus": [0, 1], "redirect": True, "bridges": ["0000:80:01.0"]}]


def test_a_gpu_that_is_not_on_the_bus(tmp_path):
    sources = node(tmp_path, {"pci0000:00/0000:00:01.0/0000:01:00.0": {}})
    found, reasons = pairs(sources, {0: "0000:01:00.0", 1: "0000:09:00.0", 2: "0000:0a:00.0"})
    assert [(pair["gpus"], pair["redirect"]) for pair in found] == [([0, 1], None), ([0, 2], None), ([1, 2], None)]
    assert reasons[0] == "GPU 1 at 0000:09:00.0: No such file or directory"


def test_one_gpu_has_no_pair(tmp_path):
    assert pairs(node(tmp_path, {"pci0000:00/0000:00:01.0/0000:01:00.0": {}}), {0: "0000:01:00.0"}) == ([], [])
    assert pairs(Sources(str(tmp_path)), {}) == ([], [])
