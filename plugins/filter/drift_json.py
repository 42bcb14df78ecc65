# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: drift_json
short_description: Put the read-back of several nodes into verify.json
version_added: 0.1.0
description:
  - Gives the text of C(verify.json).
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
- name: Put the read-back of several nodes into verify.json
  ansible.builtin.debug:
    msg: "{{ {inventory_hostname: nccl_env_verified} | gpu_node.tuning.drift_json }}"
"""

RETURN = r"""
_value:
  description: The text, with the keys C(schema), C(drift), C(nodes) and C(differences).
  type: str
"""

from ansible_collections.gpu_node.tuning.plugins.module_utils.drift_report import drift_json
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.results_by_node import checked


class FilterModule:
    def filters(self):
        return {"drift_json": checked("drift_json", drift_json)}
