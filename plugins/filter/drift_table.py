# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: drift_table
short_description: Show the drift of several nodes as a table
version_added: 0.1.0
description:
  - Gives the lines of a table with one row for each node and variable, then what is wrong, then where nodes differ.
author:
  - gpu_node.tuning contributors (@gpu-node)
positional: _input
options:
  _input:
    description:
      - Name of a node to the result of M(gpu_node.tuning.sitecustomize_info) on it.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the drift of several nodes as a table
  ansible.builtin.debug:
    msg: "{{ {inventory_hostname: nccl_env_verified} | gpu_node.tuning.drift_table }}"
"""

RETURN = r"""
_value:
  description: The lines, heading first.
  type: list
  elements: str
"""

from ansible_collections.gpu_node.tuning.plugins.module_utils.drift_report import drift_table
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.results_by_node import checked


class FilterModule:
    def filters(self):
        return {"drift_table": checked("drift_table", drift_table)}
