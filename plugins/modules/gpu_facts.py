#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_facts
short_description: Gather facts about GPUs, their connections and the software that uses them
version_added: 0.1.0
description:
  - Says in C(ansible_facts['gpu_node']) which GPUs a node has, how they reach each other, which settings of the kernel and the driver
    decide that, and which versions of torch, NCCL and SGLang the engine's interpreter would use.
  - A source that cannot be read is named in C(missing) with the reason, and its facts are null or empty. No source is an error, and a node
    without a GPU is an ordinary one.
  - Nothing is loaded onto a GPU, and torch is not imported.
  - As root, everything can be read. Other users do not see the ACS registers of the PCI bridges.
author:
  - gpu_node.tuning contributors (@gpu-node)
extends_documentation_fragment:
  - gpu_node.tuning.interpreter
  - gpu_node.tuning.interpreter.probe
options:
  interpreter:
    description:
      - Absolute path of the Python that runs the engine, on the node. Python 3.9 or newer.
      - Without it, C(software) is not asked for.
    type: path
    required: false
  timeout:
    description:
      - Time limit of C(nvidia-smi), in seconds. Its commands run side by side, so that a driver that hangs costs this once.
      - The interpreter is asked at the same time, with O(probe_timeout) as its limit.
    type: float
    default: 15
  recorded:
    description:
      - Facts that replace the ones of the node, for tests, and for a node that is still being planned. Nothing is read then.
      - What it leaves out is null or empty. C(schema_version) is mandatory.
    type: dict
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  facts:
    description: Returns facts that Ansible adds to those of the host.
    support: full
  platform:
    description: Linux nodes with Python 3.9 or newer.
    support: full
    platforms: linux
seealso:
  - module: gpu_node.tuning.sitecustomize_info
"""

EXAMPLES = r"""
- name: Gather facts about the GPUs
  gpu_node.tuning.gpu_facts:

- name: Ask the engine's interpreter for its versions, too
  gpu_node.tuning.gpu_facts:
    interpreter: /opt/sglang/bin/python
    service_user: sglang

- name: Stop where a setting of the kernel is in the way of transfers between the GPUs
  ansible.builtin.assert:
    that:
      - ansible_facts['gpu_node']['iommu']['mode'] != 'translated'
      - ansible_facts['gpu_node']['acs']['pairs'] | selectattr('redirect') | length == 0

- name: Play a node that has not arrived yet
  gpu_node.tuning.gpu_facts:
    recorded:
      schema_version: 1
      gpus:
        - {index: 0, name: NVIDIA RTX PRO 6000 Blackwell Server Edition, compute_capability: "12.0"}
        - {index: 1, name: NVIDIA RTX PRO 6000 Blackwell Server Edition, compute_capability: "12.0"}
      topology: {matrix: {"0": {"1": PIX}, "1": {"0": PIX}}, interconnect: pcie, worst_path: PIX, islands: [[0, 1]]}
"""

RETURN = r"""
ansible_facts:
  description: The facts, in one key.
  returned: always
  type: dict
  contains:
    gpu_node:
      description: What was found out. Every key is always there; null means that it is not known, or that the GPU has no such thing.
      type: dict
      contains:
        schema_version:
          description: Version of this form; a change of meaning raises it.
          type: int
          sample: 1
        source:
          description: V(node), or V(recorded) with O(recorded).
          type: str
          sample: node
        driver:
          description: Driver of the GPUs.
          type: dict
          contains:
            version:
              description: Version of the driver.
              type: str
              sample: 580.95.05
            cuda_version:
              description: Newest CUDA that the driver supports.
              type: str
              sample: "13.0"
            kernel_module:
              description: V(open) or V(proprietary).
              type: str
              sample: open
        gpus:
          description: One entry for each GPU, in the order of C(nvidia-smi).
          type: list
          elements: dict
          contains:
            index:
              description: Number of the GPU, which the matrices use too.
              type: int
              sample: 0
            name:
              description: Model.
              type: str
              sample: NVIDIA H200
            uuid:
              description: Unique name.
              type: str
            compute_capability:
              description: Compute capability.
              type: str
              sample: "9.0"
            pci_address:
              description: PCI address as in C(/sys/bus/pci/devices).
              type: str
              sample: "0000:19:00.0"
            link:
              description: C(generation) and C(width) of the PCIe link, each with C(current) and C(max). An idle GPU may lower its generation.
              type: dict
              sample: {generation: {current: 5, max: 5}, width: {current: 16, max: 16}}
            memory_mib:
              description: Memory - C(total), C(used), C(free). The driver reserves what C(used) and C(free) lack.
              type: dict
              sample: {total: 143771, used: 0, free: 143156}
            bar1_mib:
              description: Window through which other devices reach the memory - C(total), C(used), C(free).
              type: dict
              sample: {total: 262144, used: 1, free: 262143}
            numa_node:
              description: NUMA node of the PCI slot.
              type: int
              sample: 0
            persistence_mode:
              description: Whether the driver stays loaded while nothing uses the GPU.
              type: bool
              sample: true
            ecc:
              description: Whether ECC is on; null for a GPU without.
              type: bool
              sample: true
            power_limit_watts:
              description: Power limit - C(current), and C(max) that can be set.
              type: dict
              sample: {current: 700.0, max: 700.0}
            mig:
              description: Whether the GPU is in MIG mode; null for a GPU without.
              type: bool
              sample: false
        topology:
          description: Paths between the GPUs.
          type: dict
          contains:
            matrix:
              description: GPU index (as text) to the other GPUs' indices, to the word of C(nvidia-smi topo -m).
              type: dict
              sample: {"0": {"1": NV18}, "1": {"0": NV18}}
            interconnect:
              description:
                - V(nvlink) where NVLink connects every pair, V(pcie) where it connects none, V(mixed) otherwise, V(none) for fewer than two GPUs.
                - Null where there are GPUs and their paths are not known.
              type: str
              sample: nvlink
            worst_path:
              description: Longest of the paths - V(NVL), V(PIX), V(PXB), V(PHB), V(NODE) or V(SYS).
              type: str
              sample: NVL
            islands:
              description:
                - Groups of two or more GPUs that are closer to each other than to the rest. GPUs alone are in no island.
                - Connected by NVLink; on a node without, by paths PIX and PXB.
              type: list
              elements: list
              sample: [[0, 1]]
        p2p:
          description: C(read), C(write) and C(atomics), each a matrix of what C(nvidia-smi topo -p2p) says - V(OK), or why not.
          type: dict
          sample: {read: {"0": {"1": OK}, "1": {"0": OK}}, write: {"0": {"1": OK}, "1": {"0": OK}}, atomics: {"0": {"1": OK}, "1": {"0": OK}}}
        iommu:
          description: IOMMU of the GPUs.
          type: dict
          contains:
            mode:
              description: V(off), V(passthrough), or V(translated) where it translates for one of the GPUs.
              type: str
              sample: passthrough
            kernel_command_line:
              description: Command line of the running kernel.
              type: str
        acs:
          description: Access Control Services of the PCI bridges.
          type: dict
          contains:
            pairs:
              description:
                - One entry for each pair of GPUs - C(gpus), C(redirect) and C(bridges).
                - C(redirect) is true where a bridge between the two sends their traffic up to the root complex. C(bridges) are those that do.
              type: list
              elements: dict
              sample: [{gpus: [0, 1], redirect: false, bridges: []}]
        module_options:
          description: Options that the loaded modules C(nvidia) and C(nvidia_uvm) have, as text.
          type: dict
          sample: {nvidia: {NVreg_RegistryDwords: ""}, nvidia_uvm: {uvm_disable_hmm: "N"}}
        dev_shm_mib:
          description: Size of C(/dev/shm).
          type: int
          sample: 262144
        memlock_limit_kib:
          description: Soft limit of locked memory of this module's own process, or V(unlimited). A service has its unit's.
          type: raw
          sample: unlimited
        software:
          description: What O(interpreter) would use, with O(service_environment).
          type: dict
          contains:
            interpreter:
              description: The interpreter.
              type: str
              sample: /opt/sglang/bin/python
            torch:
              description: Version of torch.
              type: str
              sample: 2.11.0
            nccl:
              description: Version that RV(ansible_facts.gpu_node.software.nccl_library) gives of itself.
              type: str
              sample: 2.28.9
            nccl_library:
              description: The library that the dynamic loader gives to torch.
              type: str
            sglang:
              description: Version of SGLang.
              type: str
            flashinfer:
              description: Version of FlashInfer.
              type: str
            aws_ofi_nccl:
              description: Library of the plugin aws-ofi-nccl, where its installer puts it.
              type: str
            cuda_toolkit:
              description: Version of the C(nvcc) that the interpreter's packages would compile with.
              type: str
              sample: 13.0.88
        missing:
          description: Sources that gave nothing - C(source) and C(reason).
          type: list
          elements: dict
          sample: [{source: nvidia-smi -q -x, reason: no answer within 15 s; it was stopped}]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.gpu_facts import gather
from ansible_collections.gpu_node.tuning.plugins.module_utils.gpu_facts_schema import from_recording
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import (
    INTERPRETER_OPTIONS,
    PROBE_OPTIONS,
    interpreter_of,
    number_in,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import Sources


def facts_for(params: dict) -> dict:
    """The facts that the options ask for. Raises TuningError for options that make no sense."""
    timeout = number_in("timeout", params["timeout"], 0.1, 86400)
    if params["recorded"] is not None:
        return from_recording(params["recorded"])
    return gather(Sources(), interpreter_of(params) if params["interpreter"] else None, timeout)


def main() -> None:
    module = AnsibleModule(
        argument_spec=dict(
            {**INTERPRETER_OPTIONS, **PROBE_OPTIONS},
            interpreter={"type": "path"},
            timeout={"type": "float", "default": 15},
            recorded={"type": "dict"},
        ),
        supports_check_mode=True,
    )
    try:
        facts = facts_for(module.params)
    except TuningError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, ansible_facts={"gpu_node": facts})


if __name__ == "__main__":
    main()
