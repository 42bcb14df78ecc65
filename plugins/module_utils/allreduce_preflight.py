# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the custom all-reduce makes sense on a node, and how its data would travel; judged from gpu_facts alone, before anything is built."""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_question import LEAST_GPUS, MOST_GPUS

PEER, HOST_STAGED, AUTO = "peer", "host_staged", "auto"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the name of the file system, which is not written here
INBOX, OUTBOX = 3, 4  # longest messages that a rank's memory holds: so many from each GPU, and so many of its own


class Verdict(NamedTuple):
    """``refusals`` empty: it can be built. ``transport``: peer or host_staged. ``remarks`` are for a person."""

    refusals: list
    remarks: list
    transport: str
    capability: str
    world: int
    gpu: str


class Wanted(NamedTuple):
    """``nvlink`` allows GPUs that NVLink connects, ``longest_bytes`` is the largest message, ``world`` 0 means all GPUs."""

    transport: str
    nvlink: bool
    longest_bytes: int
    world: int


def preflight(facts: dict, environment: dict, wanted: Wanted) -> Verdict:
    """Judge the node. ``environment`` is the engine's."""
    gpus = facts["gpus"]
    if facts["driver"]["version"] is None or len(gpus) < 2:
        return Verdict([_no_gpus(facts)], [], wanted.transport, "", 0, "")
    visible = _visible(len(gpus), environment)
    world = wanted.world or visible
    refusals = _world(world, visible) + _gpus(gpus) + _nvlink(facts, wanted.nvlink) + _torch(facts["software"])
    chosen, said = _transport(facts, wanted.transport)
    if chosen is None:
        refusals.append(said)
    elif chosen == HOST_STAGED:
        refusals += _shared_memory(facts["dev_shm_mib"], world, wanted.longest_bytes)
    remarks = ([said] if chosen and said else []) + _allocator(environment)
    capability, name = (gpus[0].get(key) or "" for key in ("compute_capability", "name"))
    return Verdict(refusals, remarks, chosen or wanted.transport, capability, world, name)


def _visible(gpus: int, environment: dict) -> int:
    """How many of them the engine sees."""
    named = environment.get("CUDA_VISIBLE_DEVICES")
    return gpus if named is None else min(gpus, len([word for word in str(named).split(",") if word.strip()]))


def _world(world: int, visible: int) -> list:
    if LEAST_GPUS <= world <= min(visible, MOST_GPUS):
        return []
    words = f"legal: {LEAST_GPUS} to {MOST_GPUS}, and the engine sees {visible}"
    return [
        f"GPUs: {world} are to exchange data; {words}. Set custom_allreduce_world, or leave custom_allreduce out for this node."
    ]


def _no_gpus(facts: dict) -> str:
    reasons = "; ".join(
        f"{entry['source']}: {entry['reason']}" for entry in facts["missing"] if "nvidia" in entry["source"]
    )
    return (
        f"GPUs: {len(facts['gpus'])} with a working driver; legal: 2 to {MOST_GPUS} in one node{f' ({reasons})' if reasons else ''}. "
        f"One GPU has nobody to sum with; leave custom_allreduce out for this node."
    )


def _gpus(gpus: list) -> list:
    found = []
    for key, words in (("compute_capability", "compute capabilities"), ("name", "models")):
        values = sorted({str(gpu.get(key)) for gpu in gpus})
        if len(values) > 1:
            found.append(
                f"GPUs of different {words}: {', '.join(values)}; legal: GPUs of one kind. "
                f"Ranks would wait for the slowest; leave custom_allreduce out for this node."
            )
        elif values == ["None"]:
            found.append(
                f"GPUs: their {words} are not known; legal: what nvidia-smi says. Ask gpu_facts what is missing."
            )
    if any(gpu.get("mig") for gpu in gpus):
        found.append(
            "GPUs: in MIG mode, where one cannot reach another; legal: MIG off. Leave custom_allreduce out, or turn MIG off."
        )
    return found


def _nvlink(facts: dict, allowed: bool) -> list:
    interconnect = facts["topology"]["interconnect"]
    if allowed or interconnect not in ("nvlink", "mixed"):
        return []
    words = (
        "SGLang has kernels of its own for NVLink; set custom_allreduce_nvlink: true to compare with NCCL all the same"
    )
    return [f"interconnect {interconnect}: legal: pcie. {words}."]


def _torch(software: dict) -> list:
    if software["torch"] is not None:
        return []
    words = "legal: the Python that runs the engine. Name it in custom_allreduce_interpreter"
    return [f"interpreter {software['interpreter']}: has no torch; {words}."]


def _transport(facts: dict, wanted: str) -> tuple:
    """(transport, remark); (None, refusal) where the wanted one cannot be."""
    answers = [
        answer for access in ("read", "write") for row in facts["p2p"][access].values() for answer in row.values()
    ]
    refused = sorted({answer for answer in answers if answer != "OK"})
    if wanted == HOST_STAGED or (wanted == PEER and not refused):
        return wanted, ""
    if wanted == PEER:
        return None, (
            f"transport peer: the driver offers no P2P between all GPUs ({', '.join(refused)}); legal on this node: host_staged. "
            f"Set custom_allreduce_transport: host_staged, or auto."
        )
    if refused or not answers:
        reason = (
            f"the driver offers no P2P ({', '.join(refused)})"
            if refused
            else "the driver does not say whether GPUs reach each other"
        )
        return HOST_STAGED, f"{reason}: data goes through the host's memory"
    return PEER, ""


def _shared_memory(mib, world: int, longest_bytes: int) -> list:
    needed = -(-(INBOX * world + OUTBOX) * world * longest_bytes // 2**20)
    if mib is None or mib >= needed:
        return []
    size = f"{SHARED_MEMORY}: {mib} MiB; legal: {needed} or more for {world} GPUs that exchange data through it."
    return [f"{size} Enlarge it (a container: --shm-size), or list fewer rows in custom_allreduce_rows."]


def _allocator(environment: dict) -> list:
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    return [
        f"{name} has expandable_segments on: no harm to this kernel, whose memory is not torch's; SGLang's own custom all-reduce, "
        f"which serves where this one is off, cannot share such memory"
        for name in names
        if "expandable_segments:true" in str(environment.get(name, "")).replace(" ", "").lower()
    ]
