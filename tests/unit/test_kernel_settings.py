# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel says of itself and of the nvidia modules."""

from __future__ import annotations

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.kernel_settings import (
    count_gpus,
    gpus_on_the_bus,
    iommu_mode,
    iommu_of_command_line,
    parse_locked_memory,
    parse_module_options,
    parse_module_version,
    pci_numa_node,
    uvm_options,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import SourceMissing, Sources
from hypothesis import given
from hypothesis import strategies as st

from .recorded_nodes import add_device, answer_or_reason, write

LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max locked memory         %s               8388608              bytes     \n"
)


@pytest.mark.parametrize(
    ("text", "version", "module"),
    [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs)  Tue Sep 23 UTC 2025\nGCC version: gcc 13.3.0\n",
            "580.95.05",
            "open",
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13 16:14:05 UTC 2021\n",
            "470.57.02",
            "proprietary",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  555.58", "555.58", "open"),
    ],
)
def test_module_version(text, version, module):
    assert parse_module_version(text) == {"version": version, "kernel_module": module}


@pytest.mark.parametrize(
    "text", ["", "NVRM version: nouveau", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  Release"]
)
def test_no_module_version(text):
    with pytest.raises(SourceMissing, match="names no version"):
        parse_module_version(text)


def test_module_options():
    text = 'RegistryDwords: "ForceP2P=0x11;RMForceP2PType=1"\nRmMsg: ""\nEnableMSI: 1\nTemporaryFilePath: "/var/tmp"\nodd line\n'
    assert parse_module_options(text) == {
        "NVreg_RegistryDwords": "ForceP2P=0x11;RMForceP2PType=1",
        "NVreg_RmMsg": "",
        "NVreg_EnableMSI": "1",
        "NVreg_TemporaryFilePath": "/var/tmp",  # noqa: S108
    }
    with pytest.raises(SourceMissing, match="holds no option"):
        parse_module_options("odd line\n")


@pytest.mark.parametrize(("word", "limit"), [("unlimited", "unlimited"), ("8388608", 8192), ("65536", 64), ("0", 0)])
def test_locked_memory(word, limit):
    assert parse_locked_memory(LIMITS % word) == limit


@pytest.mark.parametrize("text", ["", LIMITS % "-1", LIMITS % "many", "Max locked memory"])
def test_no_locked_memory(text):
    with pytest.raises(SourceMissing, match="no line of the limit"):
        parse_locked_memory(text)


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("ro quiet", None),
        ("ro amd_iommu=on iommu=pt", "passthrough"),
        ("iommu=pt iommu=nopt", "translated"),
        ("iommu.passthrough=1", "passthrough"),
        ("iommu.passthrough=0", "translated"),
        ("amd_iommu=off iommu=pt", "off"),
        ("iommu=off", "off"),
        ("intel_iommu=off", "off"),
        ("intel_iommu=on", None),
        ("root=/dev/x,iommu=off note=iommu=pt", None),
        ("xiommu=off iommu=offline", None),
    ],
)
def test_iommu_of_command_line(line, mode):
    assert iommu_of_command_line(line) == mode


def node_with_groups(tmp_path, types):
    """GPUs below /sys/bus/pci whose IOMMU groups have these types, None for a GPU in no group."""
    write(tmp_path / "sys/class/iommu/ivhd0", "")
    (tmp_path / "sys/kernel/iommu_groups").mkdir(parents=True)
    for number, kind in enumerate(types):
        add_device(tmp_path, f"pci0000:00/0000:0{number}:00.0", {"iommu_group": kind} if kind else {}, number)
    return Sources(str(tmp_path)), [f"0000:0{number}:00.0" for number in range(len(types))]


@pytest.mark.parametrize(
    ("types", "mode"),
    [
        (["identity", "identity"], "passthrough"),
        (["DMA"], "translated"),
        (["identity", "DMA-FQ"], "translated"),
        (["identity", None], "passthrough"),
    ],
)
def test_iommu_mode_of_groups(tmp_path, types, mode):
    sources, addresses = node_with_groups(tmp_path, types)
    assert iommu_mode(sources, addresses, "iommu=off") == mode
    assert iommu_mode(sources, [], "iommu=off") == mode


def test_only_the_groups_of_the_gpus_count(tmp_path):
    sources, addresses = node_with_groups(tmp_path, ["identity", "DMA"])
    assert iommu_mode(sources, addresses[:1], "") == "passthrough"


@pytest.mark.parametrize(("types", "why"), [([None], "no IOMMU groups"), (["unmanaged"], "groups of type unmanaged")])
def test_the_command_line_decides_where_groups_do_not(tmp_path, types, why):
    sources, addresses = node_with_groups(tmp_path, types)
    assert iommu_mode(sources, addresses, "iommu=pt") == "passthrough"
    with pytest.raises(SourceMissing, match=f"^{why}, and the kernel's command line does not decide it"):
        iommu_mode(sources, addresses, "quiet")


def test_iommu_mode_without_sys(tmp_path):
    with pytest.raises(SourceMissing, match=r"^/sys/class/iommu: No such file"):
        iommu_mode(Sources(str(tmp_path)), [], "")
    assert iommu_mode(Sources(str(tmp_path)), [], "iommu=off") == "off"


@pytest.mark.parametrize(("number", "expected"), [("0", 0), ("-1", None), ("3", 3), ("x", None), ("", None)])
def test_numa_node(tmp_path, number, expected):
    add_device(tmp_path, "pci0000:00/0000:01:00.0", {"numa_node": number}, 0)
    assert pci_numa_node(Sources(str(tmp_path)), "0000:01:00.0") == expected


def test_gpus_on_the_bus(tmp_path):
    sources = Sources(str(tmp_path))
    assert gpus_on_the_bus(sources) == "the PCI bus cannot be looked at: No such file or directory"
    devices = [
        ("0x10de", "0x030200"),
        ("0x10de", "0x030000"),
        ("0x10de", "0x040300"),
        ("0x1002", "0x120000"),
        ("0x15b3", "0x020000"),
        ("0x1a03", "0x030000"),
        (None, None),
    ]
    for number, (vendor, kind) in enumerate(devices):
        add_device(
            tmp_path, f"pci0000:00/0000:0{number}:00.0", {"vendor": vendor, "class": kind} if vendor else {}, number
        )
    assert count_gpus(sources) == {"NVIDIA": 2, "AMD": 1}
    assert gpus_on_the_bus(sources) == "GPUs on the PCI bus: 1 of AMD, 2 of NVIDIA"


def test_uvm_options(tmp_path):
    folder = tmp_path / "sys/module/nvidia_uvm/parameters"
    write(folder / "uvm_disable_hmm", "Y\n")
    (folder / "a_folder").mkdir()  # as unreadable as a file that only root may read, also for root
    assert uvm_options(Sources(str(tmp_path))) == {"uvm_disable_hmm": "Y"}
    with pytest.raises(SourceMissing, match="No such file"):
        uvm_options(Sources(str(tmp_path / "other")))


@given(st.text())
def test_any_text_gives_data_or_says_why(text):
    for parse in (parse_module_version, parse_module_options, parse_locked_memory):
        assert answer_or_reason(parse, text) != ""
    assert iommu_of_command_line(text) in (None, "off", "passthrough", "translated")
