# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: drift_metrics
short_description: Turn the drift of several nodes into metrics for node_exporter
version_added: 0.1.0
description:
  - Gives the text of a file for the textfile collector with the metric C(gpu_node_tuning_drift).
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
- name: Turn the drift of several nodes into metrics for node_exporter
  ansible.builtin.debug:
    msg: "{{ {inventory_hostname: nccl_env_verified} | gpu_node.tuning.drift_metrics }}"
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""

from ansible_collections.gpu_node.tuning.plugins.module_utils.drift_report import drift_metrics
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.results_by_node import checked


class FilterModule:
    def filters(self):
        return {"drift_metrics": checked("drift_metrics", drift_metrics)}
