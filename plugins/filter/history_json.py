# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: history_json
short_description: Put the histories of several nodes into history.json
version_added: 0.1.0
description:
  - Gives the text of C(history.json).
author:
  - gpu_node.tuning contributors (@gpu-node)
positional: _input
options:
  _input:
    description:
      - Name of a node to the result of M(gpu_node.tuning.generation_info) on it.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Put the histories of several nodes into history.json
  ansible.builtin.debug:
    msg: "{{ {inventory_hostname: nccl_env_history} | gpu_node.tuning.history_json }}"
"""

RETURN = r"""
_value:
  description: The text, with the keys C(schema) and C(nodes).
  type: str
"""

from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_tables import history_json
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.results_by_node import checked


class FilterModule:
    def filters(self):
        return {"history_json": checked("history_json", history_json)}
