#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_read_back
short_description: Read back what NCCL and the custom all-reduce say in the ranks of a running instance of SGLang
version_added: 0.1.0
description:
  - Compares what NCCL wrote into the logs of every rank with the variables that are declared, and looks for the custom all-reduce where
    the profile wants it.
  - What nobody said is returned as unproved; it is not taken for right.
  - Changes nothing.
author:
  - gpu_node.tuning contributors (@gpu-node)
options:
  name:
    description: Name of the instance.
    type: str
    required: true
  environment:
    description: Variables that are declared, name to value.
    type: dict
    default: {}
  ranks:
    description: Number of processes that exchange data.
    type: int
    default: 1
  allreduce:
    description: Which all-reduce the profile uses. V(bundled) is the custom one, which has to say in every rank that it is on; V(sglang_pcie_ipc) is
      SGLang's own, of which silence is no proof.
    type: str
    choices: [nccl, bundled, sglang_pcie_ipc]
    default: nccl
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  platform:
    description: Linux nodes with systemd and Python 3.9 or newer.
    support: full
    platforms: linux
seealso:
  - module: gpu_node.tuning.sglang_ready
  - module: gpu_node.tuning.sitecustomize_info
"""

EXAMPLES = r"""
- name: Ask the ranks what they run with
  gpu_node.tuning.sglang_read_back:
    name: kimi
    environment: "{{ tuning_profile.env }}"
    ranks: 8
  register: ranks
"""

RETURN = r"""
drift:
  description: One sentence for everything that is not as declared.
  returned: success
  type: list
  elements: str
unproved:
  description: One sentence for everything that could not be seen.
  returned: success
  type: list
  elements: str
library:
  description: Variable to the values that NCCL says it read.
  returned: success
  type: dict
logs:
  description: Number of NCCL's logs that spoke.
  returned: success
  type: int
allreduce_ranks:
  description: Ranks in which the custom all-reduce is on.
  returned: success
  type: list
  elements: int
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_files, sglang_read_back, sglang_unit
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError


def words_of_start(name: str) -> tuple:
    """(what the instance said of the all-reduce when it started, one sentence where that cannot be asked)."""
    try:
        unit = sglang_unit.unit_of(sglang_files.unit_of(name))
        if not unit.main_pid:
            return "", [f"{unit.name} does not run ({unit.words})."]
        return sglang_unit.lines_of_start(unit, sglang_read_back.SAID_AT_START), []
    except TuningError as error:
        return "", [str(error)]


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "environment": {"type": "dict", "default": {}},
            "ranks": {"type": "int", "default": 1},
            "allreduce": {"type": "str", "choices": ["nccl", "bundled", "sglang_pcie_ipc"], "default": "nccl"},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        sglang_files.checked(params["name"])
    except TuningError as error:
        module.fail_json(msg=str(error))
    declared = {name: str(value) for name, value in params["environment"].items()}
    folder, ranks, allreduce = f"{sglang_files.RUNTIME}/{params['name']}", params["ranks"], params["allreduce"]
    asked = sglang_read_back.wants_allreduce(ranks, allreduce)
    journal, silent = words_of_start(params["name"]) if asked else ("", [])
    found = sglang_read_back.read_back(folder, journal, declared, ranks, allreduce)
    module.exit_json(changed=False, **found._replace(unproved=found.unproved + silent)._asdict())


if __name__ == "__main__":
    main()
