# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: read_back_table
short_description: Show the read-back of several nodes as a table
version_added: 0.1.0
description:
  - Gives the lines of a table with one row for each node and variable - declared, effective, state, and where the value comes from.
author:
  - gpu_node.tuning contributors (@gpu-node)
positional: _input
options:
  _input:
    description:
      - Name of a node to the result of M(gpu_node.tuning.sitecustomize) on it.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the read-back of several nodes as a table
  ansible.builtin.debug:
    msg: "{{ {inventory_hostname: nccl_env_result} | gpu_node.tuning.read_back_table }}"
"""

RETURN = r"""
_value:
  description: The lines, heading first.
  type: list
  elements: str
"""

from ansible_collections.gpu_node.tuning.plugins.module_utils.read_back_table import table
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.results_by_node import checked


class FilterModule:
    def filters(self):
        return {"read_back_table": checked("read_back_table", table)}
