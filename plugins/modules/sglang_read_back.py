#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_read_back
short_description: Read back what NCCL and the custom all-reduce say in the ranks of a running instance of SGLang
version_added: 0.2.0
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
    description: Which all-reduce the profile uses. V(bundled) is the custom one, which has to be on in every rank.
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
from ansible_collections.gpu_node.tuning.plugins.module_utils import bounded_command, sglang_files
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_read_back import read_back

LIMIT = 30  # seconds for one answer of systemd


def journal_since_start(unit: str) -> tuple:
    """(text, why there is none)."""
    shown = bounded_command.run(["systemctl", "show", "--property=InvocationID", "--value", unit], LIMIT, {})
    invocation = shown.out.strip()
    if not invocation:
        return "", [f"{unit} does not run."]
    command = ["journalctl", "--no-pager", "--quiet", "--output=cat", f"_SYSTEMD_INVOCATION_ID={invocation}"]
    ended = bounded_command.run(command, LIMIT, {})
    return (ended.out, []) if ended.code == 0 else ("", [f"The journal of {unit} cannot be read: {ended.failure}."])


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
    if not sglang_files.NAME.match(params["name"]):
        module.fail_json(
            msg=f"name {params['name']!r}; legal: a to z, 0 to 9 and inner hyphens, at most 32 characters."
        )
    journal, silent = journal_since_start(sglang_files.unit_of(params["name"]))
    declared = {name: str(value) for name, value in params["environment"].items()}
    folder = f"{sglang_files.RUNTIME}/{params['name']}"
    found = read_back(folder, journal, declared, params["ranks"], params["allreduce"])
    module.exit_json(changed=False, **found._replace(unproved=found.unproved + silent)._asdict())


if __name__ == "__main__":
    main()
