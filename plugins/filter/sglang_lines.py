# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: sglang_lines
short_description: Show the instances of SGLang of several nodes as a table
version_added: 0.1.0
description:
  - Gives the lines of a table with every instance, whether it was started, how long that took, and what stays unproved.
author:
  - gpu_node.tuning contributors (@gpu-node)
positional: _input
options:
  _input:
    description:
      - Name of a node to the fact C(sglang_result) of role P(gpu_node.tuning.sglang#role).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the instances of this node
  ansible.builtin.debug:
    msg: "{{ {inventory_hostname: sglang_result} | gpu_node.tuning.sglang_lines }}"
"""

RETURN = r"""
_value:
  description: The lines, heading first.
  type: list
  elements: str
"""

from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_lines import sglang_lines
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.results_by_node import checked


class FilterModule:
    def filters(self):
        return {"sglang_lines": checked("sglang_lines", sglang_lines)}
