# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: profile_lines
short_description: Say what is to be known of the profiles of several nodes
version_added: 0.1.0
description:
  - Gives the estimate of GPU memory and the notes, each sentence once, with the nodes that it is about.
author:
  - gpu_node.tuning contributors (@gpu-node)
positional: _input
options:
  _input:
    description:
      - Name of a node to the result of M(gpu_node.tuning.resolve_profile) on it.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Say what is to be known of the profiles of several nodes
  ansible.builtin.debug:
    msg: "{{ {inventory_hostname: tuning_profile} | gpu_node.tuning.profile_lines }}"
"""

RETURN = r"""
_value:
  description: The lines, after an empty one; nothing where there is nothing to say.
  type: list
  elements: str
"""

from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_lines import profile_lines
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.results_by_node import checked


class FilterModule:
    def filters(self):
        return {"profile_lines": checked("profile_lines", profile_lines)}
