# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: allreduce_lines
short_description: Say what was built and measured on each node
version_added: 0.1.0
author:
  - gpu_node.tuning contributors (@gpu-node)
description:
  - Makes lines of text of what M(gpu_node.tuning.allreduce_build) and M(gpu_node.tuning.allreduce_tune) returned.
positional: results
options:
  _input:
    description: Results of M(gpu_node.tuning.allreduce_build), by the name of the node.
    type: dict
    required: true
  results:
    description: Results of M(gpu_node.tuning.allreduce_tune), by the name of the node.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the verdict
  gpu_node.tuning.show_lines:
    lines: "{{ {'gpu-01': custom_allreduce_build} | gpu_node.tuning.allreduce_lines({'gpu-01': custom_allreduce_result}) }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""

from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_lines import allreduce_lines


class FilterModule:
    def filters(self):
        return {"allreduce_lines": allreduce_lines}
