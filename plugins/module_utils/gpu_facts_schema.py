# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of ``ansible_facts['gpu_node']``: a node of which nothing is known, and answers that were recorded or written by hand."""

from __future__ import annotations

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import did_you_mean, kind_of, label, show

SCHEMA_VERSION = 1
NODE, RECORDED = "node", "recorded"


def empty_facts() -> dict:
    """The facts of a node that gave no answer at all. Every key that there is, is here."""
    return {
        "schema_version": SCHEMA_VERSION,
        "source": NODE,
        "driver": {"version": None, "cuda_version": None, "kernel_module": None},
        "gpus": [],
        "topology": {"matrix": {}, "interconnect": None, "worst_path": None, "islands": []},
        "p2p": {"read": {}, "write": {}, "atomics": {}},
        "iommu": {"mode": None, "kernel_command_line": None},
        "acs": {"pairs": []},
        "module_options": {"nvidia": {}, "nvidia_uvm": {}},
        "dev_shm_mib": None,
        "memlock_limit_kib": None,
        "software": {
            "interpreter": None,
            "torch": None,
            "nccl": None,
            "nccl_library": None,
            "sglang": None,
            "flashinfer": None,
            "aws_ofi_nccl": None,
            "cuda_toolkit": None,
        },
        "missing": [],
    }


def empty_gpu(index: int) -> dict:
    """A GPU of which nothing is known."""
    return {
        "index": index,
        "name": None,
        "uuid": None,
        "compute_capability": None,
        "pci_address": None,
        "link": {"generation": {"current": None, "max": None}, "width": {"current": None, "max": None}},
        "memory_mib": {"total": None, "used": None, "free": None},
        "bar1_mib": {"total": None, "used": None, "free": None},
        "numa_node": None,
        "persistence_mode": None,
        "ecc": None,
        "power_limit_watts": {"current": None, "max": None},
        "mig": None,
    }


def from_recording(recorded: dict) -> dict:
    """Facts of a recorded answer; what it leaves out is as in empty_facts. Raises TuningError for what no answer looks like."""
    version = recorded.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise TuningError(
            f"recorded: schema_version is {show(version)}; legal: {SCHEMA_VERSION}. "
            f"Record the answer again with this version of the collection, or adapt it to docs/gpu_facts.md and say so there."
        )
    facts = _completed("recorded", recorded, empty_facts())
    facts["gpus"] = list(facts["gpus"])
    for index, gpu in enumerate(facts["gpus"]):
        if not isinstance(gpu, dict):
            raise TuningError(f"recorded: gpus[{index}] is {kind_of(gpu)}; legal: a mapping, one for each GPU.")
        facts["gpus"][index] = _completed(f"recorded.gpus[{index}]", gpu, empty_gpu(index))
        for name in ("name", "compute_capability"):
            if not isinstance(facts["gpus"][index][name], (str, type(None))):
                kind = kind_of(facts["gpus"][index][name])
                raise TuningError(f"recorded.gpus[{index}]: {name} is {kind}; legal: text, in quotes, or null.")
    for place, rows in (
        ("topology.matrix", facts["topology"]["matrix"]),
        *((f"p2p.{k}", v) for k, v in facts["p2p"].items()),
    ):
        for row, cells in rows.items():
            if not isinstance(cells, dict) or not all(isinstance(word, str) for word in cells.values()):
                raise TuningError(
                    f"recorded.{place}: {row!r} is {show(cells)}; legal: a mapping of GPU to word, such as {{'1': 'OK'}}."
                )
    facts["source"] = RECORDED
    return facts


def _completed(place: str, given: dict, whole: dict) -> dict:
    for name, value in given.items():
        if name not in whole:
            raise TuningError(
                f"{place}: {label(str(name))} is no fact; legal: {', '.join(whole)}. {did_you_mean(str(name), whole)}".rstrip()
            )
        wanted = whole[name]
        if isinstance(wanted, (dict, list)) and not isinstance(value, type(wanted)):
            raise TuningError(f"{place}: {name} is {kind_of(value)}; legal: {kind_of(wanted)}.")
    return {
        # An empty mapping is one whose keys are the node's own, for instance the rows of a matrix.
        name: _completed(f"{place}.{name}", given[name], wanted)
        if name in given and isinstance(wanted, dict) and wanted
        else given.get(name, wanted)
        for name, wanted in whole.items()
    }
