# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: drifting
short_description: Name the nodes that drift
version_added: 0.1.0
description:
  - Gives the names of the nodes that are not as declared, or gave no answer.
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
- name: Name the nodes that drift
  ansible.builtin.debug:
    msg: "{{ {inventory_hostname: nccl_env_verified} | gpu_node.tuning.drifting }}"
"""

RETURN = r"""
_value:
  description: The names, in the order of the input.
  type: list
  elements: str
"""

from ansible_collections.gpu_node.tuning.plugins.module_utils.drift_report import drifting
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.results_by_node import checked


class FilterModule:
    def filters(self):
        return {"drifting": checked("drifting", drifting)}
