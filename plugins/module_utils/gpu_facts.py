# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that module gpu_facts says of a node: each source is read once, and one that gives nothing is named in ``missing``."""

from __future__ import annotations

import functools
from typing import Callable, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    gpu_topology,
    kernel_settings,
    nvidia_smi,
    pci_acs,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.gpu_facts_schema import empty_facts
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import (
    Answer,
    SourceMissing,
    Sources,
    run_bounded,
    side_by_side,
)

QUERY = "nvidia-smi -q -x"
CAPABILITIES = "nvidia-smi --query-gpu=index,compute_cap --format=csv"
PATHS = "nvidia-smi topo -m"
P2P = {"read": "nvidia-smi topo -p2p r", "write": "nvidia-smi topo -p2p w", "atomics": "nvidia-smi topo -p2p a"}
COMMANDS = (QUERY, CAPABILITIES, PATHS, *P2P.values())
OFI_FOLDERS = ("/opt/amazon/ofi-nccl/lib", "/opt/amazon/ofi-nccl/lib64", "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu")
OFI_LIBRARIES = ("libnccl-net", "libnccl-ofi", "libnccl-tuner")
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - its size is asked for, nothing is put there


class Reader:
    """Reads the sources of a node, and notes those that gave nothing."""

    def __init__(self, sources: Sources):
        self.sources = sources
        self.missing = []

    def read(self, source: str, function: Callable, otherwise=None):
        """What ``function`` returns, or ``otherwise``."""
        try:
            return function()
        except SourceMissing as error:
            self.add(source, str(error))
            return otherwise

    def parse(self, path: str, parser: Callable, otherwise=None):
        """What ``parser`` makes of the text of a file, or ``otherwise``."""
        return self.read(path, lambda: parser(self.sources.text(path)), otherwise)

    def add(self, source: str, reason: str) -> None:
        self.missing.append({"source": source, "reason": reason})


def gather(sources: Sources, interpreter: Optional[Interpreter], timeout: float) -> dict:
    """The facts of a node, see docs/gpu_facts.md. Never raises; ``timeout``: seconds that all commands together may take."""
    reader = Reader(sources)
    program = reader.read("nvidia-smi", lambda: _program(sources))
    asked = {command: functools.partial(_run, program, command, timeout) for command in COMMANDS}
    said = side_by_side({**(asked if program else {}), "software": lambda: _software(interpreter)})
    facts = dict(empty_facts(), missing=reader.missing)
    _add_gpus(facts, said, reader)
    _add_connections(facts, said, reader)
    _add_kernel(facts, reader)
    _add_software(facts, said["software"], reader)
    facts["software"]["aws_ofi_nccl"] = _aws_ofi_nccl(sources)
    return facts


def _program(sources: Sources) -> str:
    try:
        return sources.command("nvidia-smi")
    except SourceMissing as error:
        raise SourceMissing(f"{error}; {kernel_settings.gpus_on_the_bus(sources)}") from error


def _run(program: str, command: str, timeout: float) -> Answer:
    return run_bounded([program, *command.split()[1:]], timeout)


def _add_gpus(facts: dict, said: dict, reader: Reader) -> None:
    driver = facts["driver"]
    driver.update(reader.parse(kernel_settings.VERSION_FILE, kernel_settings.parse_module_version, {}))
    if QUERY not in said:
        return
    query = reader.read(QUERY, lambda: nvidia_smi.parse_query(said[QUERY].text), {"gpus": []})
    capabilities = reader.read(CAPABILITIES, lambda: nvidia_smi.parse_compute_capabilities(said[CAPABILITIES].text), {})
    facts["gpus"] = query["gpus"]
    driver["version"] = query.get("driver_version") or driver["version"]
    driver["cuda_version"] = query.get("cuda_version")
    for gpu in facts["gpus"]:
        gpu["compute_capability"] = capabilities.get(gpu["index"])
        gpu["numa_node"] = _numa_node(reader.sources, gpu, said[PATHS])


def _numa_node(sources: Sources, gpu: dict, paths: Answer) -> Optional[int]:
    """As the kernel says; where it says nothing, as in a virtual machine without NUMA, as the driver says."""
    try:
        node = kernel_settings.pci_numa_node(sources, gpu["pci_address"] or "")
    except SourceMissing:
        node = None
    return node if node is not None else gpu_topology.parse_numa_nodes(paths.out).get(str(gpu["index"]))


def _add_connections(facts: dict, said: dict, reader: Reader) -> None:
    topology = facts["topology"]
    if PATHS in said:
        topology["matrix"] = reader.read(PATHS, lambda: gpu_topology.parse_paths(said[PATHS].text), {})
        for kind, command in P2P.items():
            facts["p2p"][kind] = reader.read(
                command, lambda answer=said[command]: gpu_topology.parse_p2p(answer.text), {}
            )
    if topology["matrix"] or _has_no_pair(facts, reader.sources):
        topology.update(gpu_topology.summary(topology["matrix"]))
    addresses = {gpu["index"]: gpu["pci_address"] for gpu in facts["gpus"] if gpu["pci_address"]}
    facts["acs"]["pairs"], reasons = pci_acs.pairs(reader.sources, addresses)
    for reason in reasons:
        reader.add("ACS of the PCI bridges", reason)


def _has_no_pair(facts: dict, sources: Sources) -> bool:
    """Whether it is known that there are fewer than two GPUs, which then have no paths between them."""
    if facts["gpus"]:
        return len(facts["gpus"]) < 2
    try:
        return kernel_settings.count_gpus(sources).get("NVIDIA", 0) < 2
    except SourceMissing:
        return False


def _add_kernel(facts: dict, reader: Reader) -> None:
    settings, sources = kernel_settings, reader.sources
    line = reader.parse(settings.COMMAND_LINE, str.strip)
    addresses = [gpu["pci_address"] for gpu in facts["gpus"] if gpu["pci_address"]]
    facts["iommu"] = {
        "mode": reader.read("IOMMU mode", lambda: settings.iommu_mode(sources, addresses, line or "")),
        "kernel_command_line": line,
    }
    facts["module_options"] = {
        "nvidia": reader.parse(settings.OPTIONS_FILE, settings.parse_module_options, {}),
        "nvidia_uvm": reader.read(settings.UVM_FOLDER, lambda: settings.uvm_options(sources), {}),
    }
    facts["dev_shm_mib"] = reader.read(SHARED_MEMORY, lambda: sources.file_system_mib(SHARED_MEMORY))
    facts["memlock_limit_kib"] = reader.parse(settings.LIMITS_FILE, settings.parse_locked_memory)


def _software(interpreter: Optional[Interpreter]) -> dict:
    """The answer of software_program; where there is none, one that says why."""
    if interpreter is None:
        return {
            "missing": [
                {"source": "interpreter", "reason": "none was named, so no version of its packages was asked for"}
            ]
        }
    try:
        return dict(interpreter.software(), interpreter=interpreter.executable)
    except TuningError as error:
        return {"interpreter": interpreter.executable, "missing": [{"source": "interpreter", "reason": str(error)}]}


def _aws_ofi_nccl(sources: Sources) -> Optional[str]:
    """Path of the plugin where its installer puts it; NCCL loads it from there by itself, because ld.so is told of that folder."""
    for folder in OFI_FOLDERS:
        try:
            found = [name for name in sources.names(folder) if name.startswith(OFI_LIBRARIES)]
        except SourceMissing:
            continue  # on most nodes there is none, which is nothing to report
        if found:
            return f"{folder}/{found[0]}"
    return None


def _add_software(facts: dict, answer: dict, reader: Reader) -> None:
    facts["software"].update({name: value for name, value in answer.items() if name in facts["software"]})
    for entry in answer["missing"]:
        reader.add(entry["source"], entry["reason"])
