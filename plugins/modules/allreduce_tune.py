#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: allreduce_tune
short_description: Prove the installed custom all-reduce on the node's GPUs, measure it beside NCCL, and switch it on only where it wins
version_added: 0.1.0
description:
  - Starts one process for each GPU and compares sums with known results, bit by bit, on all ranks. Where one is wrong, the kernel stays off.
  - Then times every launch and NCCL, and writes a table into the package, with the size from which NCCL is faster.
  - The table is on where every one of O(rows) is faster than NCCL by O(margin). Otherwise the package stays installed and off, and the
    result says by how much it lost.
  - A table that was measured with this build and for the same question is kept; then nothing is run.
  - The GPUs must be free; stop the engine first. Processes that are on them are named, and nothing is run.
author:
  - gpu_node.tuning contributors (@gpu-node)
options:
  interpreter:
    description: Absolute path of the Python that runs the engine, on the node.
    type: path
    required: true
  service_environment:
    description: Environment of the engine, name to value; NCCL is measured with its settings.
    type: dict
    default: {}
  build:
    description:
      - Digest of the build that shall be proved, as M(gpu_node.tuning.allreduce_build) returned it in its stamp. Without it, the installed one.
      - In check mode it may be one that is not installed yet.
    type: str
  transport:
    description: V(peer) or V(host_staged), as M(gpu_node.tuning.allreduce_build) returned it.
    type: str
    choices: [peer, host_staged]
    default: peer
  fallback:
    description:
      - Where the stores of one GPU do not arrive at another, whatever the driver says of P2P, prove and measure the way through the host's memory
        instead of V(peer), and say so.
    type: bool
    default: false
  allow_busy:
    description: Measure also while other processes are on the GPUs. Their figures say little; the result names the processes.
    type: bool
    default: false
  rows:
    description: Numbers of rows of a message that all have to be faster than NCCL.
    type: list
    elements: int
    default: [1, 2, 3, 4, 8]
  hidden:
    description: Elements of a row, in bf16; the hidden size of the model.
    type: int
    default: 7168
  margin:
    description: Gain on NCCL that counts as one, as a share.
    type: float
    default: 0.05
  world:
    description: Number of GPUs that exchange data; V(0) for all that are visible. Figures of another number are measured anew.
    type: int
    default: 0
  gpu:
    description: Model of the GPUs, as M(gpu_node.tuning.allreduce_build) returned it. Figures of another model are measured anew.
    type: str
    default: ""
  enable:
    description: V(false) keeps it off whatever the figures are.
    type: bool
    default: true
  pcie_ipc:
    description:
      - Measure SGLang's own all-reduce for PCIe as well, where FlashInfer brings it (0.7 or newer), for the required rows. Who is slower than that by
        more than O(margin) is not switched on.
    type: bool
    default: true
  timeout:
    description: Time limit of the proof, of the measurement, and of the comparison with C(pcie_ipc), each, in seconds.
    type: int
    default: 300
  probe_timeout:
    description: Time limit of the start of the interpreter that tells its folders, in seconds.
    type: float
    default: 20
extends_documentation_fragment:
  - gpu_node.tuning.long_run
attributes:
  check_mode:
    description: Runs nothing on the GPUs; predicts whether it would measure, and why.
    support: full
  diff_mode:
    description: The figures of two measurements always differ, so a difference of tables would tell nothing.
    support: none
  platform:
    description: Linux nodes with Python 3.9 or newer.
    support: full
    platforms: linux
  action:
    description: The action plugin shows on the controller how far proof and measurement are.
    support: full
seealso:
  - module: gpu_node.tuning.allreduce_build
"""

EXAMPLES = r"""
- name: Prove, measure, decide
  gpu_node.tuning.allreduce_tune:
    interpreter: /opt/sglang/bin/python
    service_environment: {NCCL_PROTO: LL}
    rows: [1, 2, 3]
"""

RETURN = r"""
reasons:
  description: Why it was measured, or would be in check mode; empty where the table is current.
  returned: always
  type: list
  elements: str
  sample: ["nothing was measured yet"]
enabled:
  description: Whether an engine that starts now with C(PCIE_ALLREDUCE=1) in its environment uses it; null in check mode where it was not measured yet.
  returned: always
  type: bool
table:
  description: The table; docs/build_allreduce.md describes it. Null in check mode where there is none.
  returned: always
  type: dict
lines:
  description: The verdict and the figures, for a person.
  returned: always
  type: list
  elements: str
  sample: ["custom all-reduce on: faster than NCCL at every required size, up to 458752 bytes"]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils import gpu_processes, long_run
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_environment import (
    Environment,
    environment_of,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_lines import verdict
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_proof import (
    Proof,
    Wanted,
    reasons_to_measure,
    switched,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_question import question_of
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import (
    probe_timeout,
    text_values,
)


def wanted_of(params: dict) -> Wanted:
    """Raises TuningError for a value that makes no sense."""
    asked = question_of(params)
    switches = params["transport"], params["enable"], params["pcie_ipc"]
    ways = asked.world, params["gpu"], params["fallback"]
    return Wanted(asked.rows, asked.hidden, asked.margin, *switches, *ways)


def proof_in(place: Environment, params: dict, progress: str = "") -> Proof:
    environment = text_values("service_environment", params["service_environment"])
    return Proof(place, environment, params["timeout"], progress)


def decide(module: AnsibleModule) -> dict:
    params = module.params
    if params["run"]:
        return long_run.answer(module, params["run"], params["seen"])
    wanted = wanted_of(params)
    place = environment_of(params["interpreter"], probe_timeout(params), params["timeout"])
    proof, installed = proof_in(place, params), (place.stamp() or {}).get("digest")
    table = proof.table()
    reasons = reasons_to_measure(table, params["build"] or installed, wanted)
    if not reasons:
        return keep(proof, place, table, wanted, module.check_mode)
    if module.check_mode:
        return {
            "changed": True,
            "reasons": reasons,
            "enabled": None,
            "table": None,
            "lines": ["would be proved and measured", *busy_lines(gpu_processes.users())],
        }
    if installed is None or params["build"] not in (None, installed):
        raise TuningError(
            f"build {params['build'] or 'of pcie_allreduce'}: not installed for this interpreter, found: {installed or 'none'}. "
            f"Legal: what allreduce_build installed. Run that first."
        )

    proof.refuse_unwritable()
    users = gpu_processes.users()
    if users.found and not params["allow_busy"]:
        raise TuningError(
            f"GPUs: in use by {users.words}; legal: GPUs that nothing else uses, because figures of busy ones say nothing. "
            f"Stop the engine, or set custom_allreduce_allow_busy: true to measure all the same."
        )

    def measure(progress: str) -> dict:
        watched = proof_in(place, params, progress)
        with place.alone():
            found = result(True, reasons, watched.tune(watched.check(wanted)))
        return dict(found, lines=found["lines"] + busy_lines(users))

    return long_run.carry_out(module, measure, abandon=True)  # it holds the GPUs


def busy_lines(users: gpu_processes.Users) -> list:
    """What a reader of the figures has to know of other processes."""
    if users.unknown:
        return [f"whether something else uses the GPUs is not known: {users.unknown}"]
    return [f"the GPUs are in use by {users.words}"] if users.found else []


def keep(proof: Proof, place: Environment, table: dict, wanted: Wanted, check_mode: bool) -> dict:
    """The figures that are there, on or off as it is wanted now."""
    after = switched(table, wanted.enable)
    changed = after != table
    if changed and not check_mode:
        with place.alone():
            proof.switch(table, wanted.enable)
    return result(changed, [], after)


def result(changed: bool, reasons: list, table: dict) -> dict:
    return {
        "changed": changed,
        "reasons": reasons,
        "enabled": table["enabled"],
        "table": table,
        "lines": verdict(table),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "interpreter": {"type": "path", "required": True},
            "service_environment": {"type": "dict", "default": {}},
            "build": {"type": "str"},
            "transport": {"type": "str", "choices": ["peer", "host_staged"], "default": "peer"},
            "fallback": {"type": "bool", "default": False},
            "allow_busy": {"type": "bool", "default": False},
            "rows": {"type": "list", "elements": "int", "default": [1, 2, 3, 4, 8]},
            "hidden": {"type": "int", "default": 7168},
            "margin": {"type": "float", "default": 0.05},
            "world": {"type": "int", "default": 0},
            "gpu": {"type": "str", "default": ""},
            "enable": {"type": "bool", "default": True},
            "pcie_ipc": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 300},
            "probe_timeout": {"type": "float", "default": 20},
            **long_run.OPTIONS,
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**decide(module))
    except TuningError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
