#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: generation_info
short_description: List the recorded generations of a node and its history
version_added: 0.1.0
description:
  - Lists what was applied on the node, when, by which profile and with which outcome, and verifies every recorded byte.
  - Never changes anything, and never fails because of what it finds - damage is in RV(problems).
author:
  - gpu_node.tuning contributors (@gpu-node)
extends_documentation_fragment:
  - gpu_node.tuning.state
attributes:
  check_mode:
    description: Writes nothing in any mode.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  platform:
    description: Linux nodes with Python 3.9 or newer.
    support: full
    platforms: linux
seealso:
  - module: gpu_node.tuning.generation
"""

EXAMPLES = r"""
- name: List what was applied
  gpu_node.tuning.generation_info:
  register: found

- name: Show the history
  ansible.builtin.debug:
    var: found.history
"""

RETURN = r"""
current:
  description: Number of the generation that stands; null where none does, as on a node that was never tuned.
  returned: always
  type: int
  sample: 1
known_good:
  description: Number of the generation that C(generation=known_good) means; null for none.
  returned: always
  type: int
  sample: 1
generations:
  description: The generations, oldest first - number, parent, time, profile, profile_status, outcome, reason, by, declared, evidence,
      hardware (how the node was compared with the profile), paths, intact.
  returned: always
  type: list
  elements: dict
history:
  description: The history, oldest first - time, outcome, and where they apply generation, profile, profile_status, reason, by, evidence.
  returned: always
  type: list
  elements: dict
problems:
  description: What is damaged, missing, or recorded on another machine, with the name of the file.
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_list import generation_list
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import STATE_OPTIONS
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory


def main() -> None:
    module = AnsibleModule(
        argument_spec=dict(STATE_OPTIONS),
        supports_check_mode=True,
    )
    try:
        state = StateDirectory(module.params["state_dir"])
    except TuningError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **generation_list(state))


if __name__ == "__main__":
    main()
