#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: show_lines
short_description: Print lines of text as they are
version_added: 0.1.0
description:
  - Prints a table so that a person can read it, whatever format the results of tasks have.
  - Runs on the controller alone.
author:
  - gpu_node.tuning contributors (@gpu-node)
options:
  lines:
    description: The lines.
    type: list
    elements: str
    required: true
attributes:
  action:
    description: Runs on the controller alone.
    support: full
  check_mode:
    description: Prints in any mode.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  platform:
    description: Any, since nothing runs on the node.
    support: full
    platforms: all
"""

EXAMPLES = r"""
- name: Show what is in effect
  gpu_node.tuning.show_lines:
    lines: "{{ {inventory_hostname: nccl_env_result} | gpu_node.tuning.read_back_table }}"
"""

RETURN = r""" # """

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils.controller_options import SHOW_LINES


def main() -> None:
    """Only reached where the action plugin is bypassed."""
    module = AnsibleModule(argument_spec=SHOW_LINES, supports_check_mode=True)
    module.fail_json(msg="show_lines runs on the controller, through its action plugin.")


if __name__ == "__main__":
    main()
