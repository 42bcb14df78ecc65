# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Access Control Services of PCI bridges: whether traffic between two GPUs is sent up to the root complex instead of straight across.

Positions and bits: PCI Express Base Specification, the extended capability ACS.
"""

from __future__ import annotations

import itertools
import re
import struct

from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import SourceMissing, Sources

DEVICES = "/sys/bus/pci/devices"
WHOLE, CONVENTIONAL = 4096, 256  # bytes of configuration space: PCI Express, and PCI without extended capabilities
FIRST_EXTENDED = 0x100
ACS = 0x000D
CONTROL = 6  # of the control register, from the start of the capability
REQUEST_REDIRECT, COMPLETION_REDIRECT = 0x4, 0x8

_BRIDGE = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")


def redirects(config: bytes) -> bool:
    """Whether a bridge with this configuration space redirects peer-to-peer requests or completions."""
    if len(config) == CONVENTIONAL:
        return False
    if len(config) < CONVENTIONAL:
        raise SourceMissing(f"only {len(config)} bytes of its configuration space can be read; root reads all")
    control = _acs_control(config)
    return bool(control & (REQUEST_REDIRECT | COMPLETION_REDIRECT))


def bridges_between(one: str, other: str) -> list:
    """Addresses of the bridges that a transfer between two devices passes, below the one that both are behind.

    ``one``, ``other``: the devices' real paths below /sys/devices.
    """
    first, second = one.strip("/").split("/"), other.strip("/").split("/")
    shorter = min(len(first), len(second))
    common = next((index for index in range(shorter) if first[index] != second[index]), shorter)
    return [part for part in first[common:-1] + second[common:-1] if _BRIDGE.match(part)]


def pairs(sources: Sources, addresses: dict) -> tuple:
    """(a dict for each GPU pair, as in the facts; list of reasons why some could not be told).

    ``addresses``: GPU index to PCI address.
    """
    reasons = []
    paths = _paths(sources, addresses, reasons)
    routes = {
        (one, other): bridges_between(paths[one], paths[other]) if one in paths and other in paths else []
        for one, other in itertools.combinations(sorted(addresses), 2)
    }
    # In a virtual machine the GPUs hang below its root bus, and the bridges that matter are the host's.
    hidden = [gpus for gpus, route in routes.items() if not route and paths.keys() >= set(gpus)]
    if hidden:
        reasons.append(
            f"no PCI bridge is visible between GPUs {_shown(hidden)}; a virtual machine does not see its host's"
        )
    redirecting = _read(sources, {bridge for route in routes.values() for bridge in route}, reasons)
    return [_pair(gpus, route, redirecting) for gpus, route in routes.items()], reasons


def _paths(sources: Sources, addresses: dict, reasons: list) -> dict:
    """GPU index to the device's real path; adds a reason for each that has none."""
    paths = {}
    for index, address in sorted(addresses.items()):
        try:
            paths[index] = sources.target(f"{DEVICES}/{address}")
        except SourceMissing as error:
            reasons.append(f"GPU {index} at {address}: {error}")
    return paths


def _pair(gpus: tuple, route: list, found: dict) -> dict:
    redirecting = [bridge for bridge in route if found[bridge]]
    unknown = not route or any(found[bridge] is None for bridge in route)
    redirect = True if redirecting else None if unknown else False
    return {"gpus": list(gpus), "redirect": redirect, "bridges": redirecting}


def _read(sources: Sources, bridges: set, reasons: list) -> dict:
    """Bridge to whether it redirects, None where that cannot be read; adds one reason for each kind of failure."""
    found, failed = {}, {}
    for bridge in sorted(bridges):
        try:
            found[bridge] = redirects(sources.data(f"{DEVICES}/{bridge}/config"))
        except SourceMissing as error:
            found[bridge] = None
            failed.setdefault(str(error), []).append(bridge)
    reasons += [
        f"{len(names)} of {len(bridges)} bridges, the first is {names[0]}: {why}" for why, names in failed.items()
    ]
    return found


def _acs_control(config: bytes) -> int:
    """The control register; 0 where there is no such capability. A list that does not end is cut off."""
    offset = FIRST_EXTENDED
    for _step in range(WHOLE // 8):
        if offset < FIRST_EXTENDED or offset + CONTROL + 2 > len(config):
            return 0
        (header,) = struct.unpack_from("<I", config, offset)
        if header in (0, 0xFFFFFFFF):
            return 0
        if header & 0xFFFF == ACS:
            return struct.unpack_from("<H", config, offset + CONTROL)[0]
        offset = header >> 20 & 0xFFC
    return 0


def _shown(gpu_pairs: list) -> str:
    return ", ".join(f"{one}-{other}" for one, other in gpu_pairs[:3]) + (", ..." if len(gpu_pairs) > 3 else "")
