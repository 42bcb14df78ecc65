# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``nvidia-smi -q -x`` and its query of the compute capability say. Text in, data out; raises SourceMissing alone."""

from __future__ import annotations

import re
from typing import Optional
from xml.etree import ElementTree

from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import SourceMissing

# ASCII digits alone: int() takes those of every script.
_NUMBER = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,6})?)\s*(?:MiB|W|x|)\Z")
_ADDRESS = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\Z")
_CAPABILITY = re.compile(r"([0-9]{1,3})\s*,\s*([0-9]{1,2}\.[0-9]{1,2})\s*\Z")
_SWITCHES = {"Enabled": True, "Disabled": False}


def parse_query(text: str) -> dict:
    """``{driver_version, cuda_version, gpus}`` of ``nvidia-smi -q -x``; a value that is not there or ``N/A`` is None."""
    log = _root(text)
    gpus = [_gpu(index, element) for index, element in enumerate(log.findall("gpu"))]
    attached = _integer(log, "attached_gpus")
    if attached is not None and attached != len(gpus):
        raise SourceMissing(f"it says that {attached} GPUs are attached, and describes {len(gpus)}")
    return {"driver_version": _text(log, "driver_version"), "cuda_version": _text(log, "cuda_version"), "gpus": gpus}


def parse_compute_capabilities(text: str) -> dict:
    """GPU index to compute capability, of ``nvidia-smi --query-gpu=index,compute_cap --format=csv``."""
    rows = [_CAPABILITY.match(line.strip()) for line in text.strip().splitlines()[1:]]
    if not rows or None in rows:
        raise SourceMissing(f"no table of index and compute capability: {_begin(text)}")
    return {int(row.group(1)): row.group(2) for row in rows}


def pci_address(bus_id: str) -> Optional[str]:
    """The address as /sys writes it (``0000:19:00.0``), of ``00000000:19:00.0``; None for other text."""
    match = _ADDRESS.match(bus_id.strip())
    return f"{int(match.group(1), 16):04x}:{match.group(2).lower()}" if match else None


def _root(text: str) -> ElementTree.Element:
    if "<!ENTITY" in text:
        raise SourceMissing("it declares XML entities, which nvidia-smi never does")
    try:
        root = ElementTree.fromstring(text.strip())  # noqa: S314 - entities are refused above, and expat fetches no DTD
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise SourceMissing(f"no whole XML document ({error}); it begins with {_begin(text)}") from error
    if root.tag != "nvidia_smi_log":
        raise SourceMissing(f"XML, but not of nvidia-smi; its root element is {root.tag[:60]!r}")
    return root


def _gpu(index: int, gpu: ElementTree.Element) -> dict:
    # Drivers before 535 call the element of the power limits otherwise.
    power = "gpu_power_readings" if gpu.find("gpu_power_readings") is not None else "power_readings"
    limit = _number(gpu, f"{power}/current_power_limit")
    return {
        "index": index,
        "name": _text(gpu, "product_name"),
        "uuid": _text(gpu, "uuid"),
        "compute_capability": None,
        "pci_address": pci_address(_text(gpu, "pci/pci_bus_id") or gpu.get("id", "")),
        "link": {
            "generation": _current_and_max(gpu, "pci/pci_gpu_link_info/pcie_gen", "link_gen"),
            "width": _current_and_max(gpu, "pci/pci_gpu_link_info/link_widths", "link_width"),
        },
        "memory_mib": _memory(gpu, "fb_memory_usage"),
        "bar1_mib": _memory(gpu, "bar1_memory_usage"),
        "numa_node": None,
        "persistence_mode": _switch(gpu, "persistence_mode"),
        "ecc": _switch(gpu, "ecc_mode/current_ecc"),
        "power_limit_watts": {
            "current": limit if limit is not None else _number(gpu, f"{power}/power_limit"),
            "max": _number(gpu, f"{power}/max_power_limit"),
        },
        "mig": _switch(gpu, "mig_mode/current_mig"),
    }


def _current_and_max(gpu: ElementTree.Element, element: str, what: str) -> dict:
    return {when: _integer(gpu, f"{element}/{when}_{what}") for when in ("current", "max")}


def _memory(gpu: ElementTree.Element, element: str) -> dict:
    return {part: _integer(gpu, f"{element}/{part}") for part in ("total", "used", "free")}


def _text(element: ElementTree.Element, path: str) -> Optional[str]:
    text = (element.findtext(path) or "").strip()
    return None if text in ("", "N/A", "[N/A]") else text


def _switch(element: ElementTree.Element, path: str) -> Optional[bool]:
    return _SWITCHES.get(_text(element, path))


def _number(element: ElementTree.Element, path: str) -> Optional[float]:
    match = _NUMBER.match(_text(element, path) or "")
    return float(match.group(1)) if match else None


def _integer(element: ElementTree.Element, path: str) -> Optional[int]:
    match = _NUMBER.match(_text(element, path) or "")
    return int(match.group(1)) if match and "." not in match.group(1) else None


def _begin(text: str) -> str:
    return repr(text.strip()[:60])
