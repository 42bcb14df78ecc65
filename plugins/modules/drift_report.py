#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: drift_report
short_description: Report the drift of several nodes
version_added: 0.1.0
description:
  - Prints the read-back of several nodes as one table, with what is wrong and where the nodes differ.
  - Writes the same as data into a JSON file on the controller, and as metrics for the textfile collector of node_exporter.
  - Runs on the controller alone; nothing on a node changes.
author:
  - gpu_node.tuning contributors (@gpu-node)
options:
  results:
    description: Name of a node to the result of M(gpu_node.tuning.sitecustomize_info) on it.
    type: dict
    required: true
  dest:
    description: JSON file on the controller. It is replaced as a whole.
    type: path
    required: true
  textfile_dir:
    description: Directory on the controller that gets C(gpu_node_tuning.prom). Without it, no metrics are written.
    type: path
attributes:
  action:
    description: Runs on the controller alone.
    support: full
  check_mode:
    description: Nothing on a node changes in any mode.
    support: partial
    details: The reports on the controller are written in check mode too, because they are what was asked for.
  diff_mode:
    description: Changes nothing on a node, so there is nothing to show.
    support: none
  platform:
    description: Any, since nothing runs on the node.
    support: full
    platforms: all
seealso:
  - module: gpu_node.tuning.sitecustomize_info
"""

EXAMPLES = r"""
- name: Report the drift
  gpu_node.tuning.drift_report:
    results: "{{ {inventory_hostname: nccl_env_verified} }}"
    dest: verify.json
"""

RETURN = r"""
drift:
  description: Whether any node drifts, or gave no answer.
  returned: success
  type: bool
drifting:
  description: Names of these nodes, in the order of the input.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils.controller_options import DRIFT_REPORT


def main() -> None:
    """Only reached where the action plugin is bypassed."""
    module = AnsibleModule(argument_spec=DRIFT_REPORT, supports_check_mode=True)
    module.fail_json(msg="drift_report runs on the controller, through its action plugin.")


if __name__ == "__main__":
    main()
