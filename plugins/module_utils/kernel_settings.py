# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the running kernel and its nvidia modules that decide how GPUs reach each other."""

from __future__ import annotations

import re
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import SourceMissing, Sources

VERSION_FILE = "/proc/driver/nvidia/version"
OPTIONS_FILE = "/proc/driver/nvidia/params"
UVM_FOLDER = "/sys/module/nvidia_uvm/parameters"
COMMAND_LINE = "/proc/cmdline"
CPU_FILE = "/proc/cpuinfo"
LIMITS_FILE = "/proc/self/limits"
IOMMU_CLASS, IOMMU_GROUPS, PCI_DEVICES = "/sys/class/iommu", "/sys/kernel/iommu_groups", "/sys/bus/pci/devices"
VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")  # VGA, 3D and other display controllers; processing accelerators

_MODULE = re.compile(
    r"NVRM version: NVIDIA UNIX (?P<open>Open )?.*?Kernel Module.*?\s(?P<version>[0-9]+(?:\.[0-9]+)+)\s"
)
_OPTION = re.compile(r"(?P<name>\w+): (?P<quote>\"?)(?P<value>.*)(?P=quote)\Z")
_LOCKED = re.compile(r"^Max locked memory\s+(\S+)\s", re.MULTILINE)
_SIZE = re.compile(r"[0-9]{1,19}\Z")
_SPEAKS_OF_IOMMU = re.compile(r"(?<!\S)(?:intel_|amd_)?(iommu(?:\.passthrough)?)=(\w+)(?!\S)")
_TOLD = {
    ("iommu", "off"): "off",
    ("iommu", "pt"): "passthrough",
    ("iommu", "nopt"): "translated",
    ("iommu.passthrough", "1"): "passthrough",
    ("iommu.passthrough", "0"): "translated",
}
_MODES = {"identity": "passthrough", "DMA": "translated", "DMA-FQ": "translated"}


def parse_module_version(text: str) -> dict:
    """``{version, kernel_module}`` of /proc/driver/nvidia/version."""
    match = _MODULE.search(text + "\n")
    if match is None:
        raise SourceMissing(f"names no version of the kernel module: {text.strip()[:80]!r}")
    return {"version": match.group("version"), "kernel_module": "open" if match.group("open") else "proprietary"}


def parse_module_options(text: str) -> dict:
    """Name, as modprobe takes it, to value of /proc/driver/nvidia/params."""
    matches = [_OPTION.match(line.strip()) for line in text.splitlines()]
    found = {"NVreg_" + match.group("name"): match.group("value") for match in matches if match}
    if not found:
        raise SourceMissing(f"holds no option of the module: {text.strip()[:80]!r}")
    return found


def parse_locked_memory(text: str) -> int | str:
    """The soft limit of locked memory in KiB, or ``unlimited``, of /proc/PID/limits."""
    match = _LOCKED.search(text + "\n")
    word = match.group(1) if match else ""
    if word == "unlimited":
        return word
    if not _SIZE.match(word):
        raise SourceMissing("holds no line of the limit of locked memory")
    return int(word) // 1024


def iommu_of_command_line(text: str) -> Optional[str]:
    """The IOMMU mode that the kernel was told; None where its command line does not decide it.

    ``off`` wins over everything, otherwise the later word.
    """
    told = [_TOLD.get(match.groups()) for match in _SPEAKS_OF_IOMMU.finditer(text)]
    modes = [mode for mode in told if mode]
    return "off" if "off" in modes else modes[-1] if modes else None


def iommu_mode(sources: Sources, addresses: list, command_line: str) -> str:
    """``off``, ``passthrough`` or ``translated``, for the devices at ``addresses``; for the whole node without any.

    One device that is translated makes it translated. Raises SourceMissing where nothing tells.
    """
    try:
        if not sources.names(IOMMU_CLASS):
            if _is_virtual(sources):
                raise SourceMissing("a virtual machine, and the IOMMU of its host is not visible")
            return "off"
        types = _group_types(sources, addresses)
        why = f"groups of type {', '.join(sorted(types))}" if types else "no IOMMU groups"
    except SourceMissing as error:
        types, why = set(), f"{IOMMU_CLASS}: {error}"
    modes = {_MODES.get(word) for word in types}
    for mode in ("translated", "passthrough"):
        if mode in modes:
            return mode
    mode = iommu_of_command_line(command_line)
    if mode is None:
        raise SourceMissing(f"{why}, and the kernel's command line does not decide it")
    return mode


def _is_virtual(sources: Sources) -> bool:
    try:
        return re.search(r"^flags\s*:.*\bhypervisor\b", sources.text(CPU_FILE), re.MULTILINE) is not None
    except SourceMissing:
        return False


def pci_numa_node(sources: Sources, address: str) -> Optional[int]:
    """NUMA node of a PCI device; None where the firmware names none."""
    text = sources.text(f"{PCI_DEVICES}/{address}/numa_node").strip()
    return int(text) if re.match(r"[0-9]{1,4}\Z", text) else None


def uvm_options(sources: Sources) -> dict:
    """Name to value of the options of module nvidia_uvm."""
    found = {}
    for name in sources.names(UVM_FOLDER):
        try:
            found[name] = sources.text(f"{UVM_FOLDER}/{name}").strip()
        except SourceMissing:
            continue  # an option that only root may read
    return found


def count_gpus(sources: Sources) -> dict:
    """Vendor to number of GPUs that the PCI bus shows, without any driver."""
    if "pci" not in sources.names("/sys/bus"):
        return {}  # a virtual machine without such a bus
    counts = {}
    for address in sources.names(PCI_DEVICES):
        try:
            vendor, kind = (sources.text(f"{PCI_DEVICES}/{address}/{name}").strip() for name in ("vendor", "class"))
        except SourceMissing:
            continue  # a device that was taken out in this moment
        if vendor in VENDORS and kind.startswith(GPU_CLASSES):
            counts[VENDORS[vendor]] = counts.get(VENDORS[vendor], 0) + 1
    return counts


def gpus_on_the_bus(sources: Sources) -> str:
    """The same in words."""
    try:
        counts = count_gpus(sources)
    except SourceMissing as error:
        return f"the PCI bus cannot be looked at: {error}"
    shown = [f"{count} of {vendor}" for vendor, count in sorted(counts.items())]
    return f"GPUs on the PCI bus: {', '.join(shown) or 'none'}"


def _group_types(sources: Sources, addresses: list) -> set:
    groups = [f"{PCI_DEVICES}/{address}/iommu_group" for address in addresses]
    groups = groups or [f"{IOMMU_GROUPS}/{name}" for name in sources.names(IOMMU_GROUPS)]
    types = set()
    for group in groups:
        try:
            types.add(sources.text(f"{group}/type").strip())
        except SourceMissing:
            continue  # a device that is in no group
    return types
