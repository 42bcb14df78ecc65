#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: history_report
short_description: Report the history of several nodes
version_added: 0.1.0
description:
  - Prints what was applied on several nodes as one table.
  - Writes the same as data into a JSON file on the controller, with the keys C(schema) and C(nodes).
  - Runs on the controller alone; nothing on a node changes.
author:
  - gpu_node.tuning contributors (@gpu-node)
options:
  results:
    description: Name of a node to the result of M(gpu_node.tuning.generation_info) on it.
    type: dict
    required: true
  dest:
    description: JSON file on the controller. It is replaced as a whole.
    type: path
    required: true
attributes:
  action:
    description: Runs on the controller alone.
    support: full
  check_mode:
    description: Nothing on a node changes in any mode.
    support: partial
    details: The reports on the controller are written in check mode too, because they are what was asked for.
  diff_mode:
    description: Changes nothing on a node, so there is nothing to show.
    support: none
  platform:
    description: Any, since nothing runs on the node.
    support: full
    platforms: all
seealso:
  - module: gpu_node.tuning.generation_info
"""

EXAMPLES = r"""
- name: Report the history
  gpu_node.tuning.history_report:
    results: "{{ {inventory_hostname: nccl_env_history} }}"
    dest: history.json
"""

RETURN = r""" # """

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils.controller_options import HISTORY_REPORT


def main() -> None:
    """Only reached where the action plugin is bypassed."""
    module = AnsibleModule(argument_spec=HISTORY_REPORT, supports_check_mode=True)
    module.fail_json(msg="history_report runs on the controller, through its action plugin.")


if __name__ == "__main__":
    main()
