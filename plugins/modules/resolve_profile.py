#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: resolve_profile
short_description: Resolve a tuning profile by name
version_added: 0.1.0
description:
  - Looks up a profile, applies the inventory's own profiles and overrides, and validates the NCCL environment that results.
  - Everything that NCCL would misread in silence is refused, with the variable, the value, the legal values,
    and what to write instead.
  - Runs on the controller alone. The filter P(gpu_node.tuning.resolve_profile#filter) does the same in an expression.
author:
  - gpu_node.tuning contributors (@gpu-node)
options:
  name:
    description: Name of the profile.
    type: str
    required: true
  shipped:
    description:
      - The profiles that are known, as a dictionary of name to profile.
      - Or the path of a directory on the controller with one C(NAME.yml) for each profile; only the wanted one is read.
    type: raw
    required: true
  tuning_profiles:
    description:
      - Further profiles, as a dictionary of name to profile.
      - One that has the name of a shipped profile replaces it as a whole.
    type: dict
    default: {}
  overrides:
    description:
      - Single NCCL variables, as a dictionary of variable to value.
      - A value sets the variable or replaces the profile's value. V(null) removes a variable that the profile sets.
    type: dict
    default: {}
attributes:
  action:
    description: Runs on the controller alone.
    support: full
  check_mode:
    description: Same result in any mode.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  platform:
    description: Any, since nothing runs on the node.
    support: full
    platforms: all
seealso:
  - module: gpu_node.tuning.nccl_env_info
  - plugin: gpu_node.tuning.resolve_profile
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Resolve a profile of the inventory
  gpu_node.tuning.resolve_profile:
    name: half_buffers
    shipped: {}
    tuning_profiles: "{{ tuning_profiles }}"
  register: tuning_profile
"""

RETURN = r"""
name:
  description: Name of the profile.
  returned: success
  type: str
  sample: known_good
summary:
  description: What the profile is.
  returned: success
  type: str
status:
  description: One of V(known_good), V(experimental) and V(dead_end).
  returned: success
  type: str
env:
  description: NCCL variables with the canonical strings that NCCL will read, sorted by name.
  returned: success
  type: dict
  sample: {"NCCL_PROTO": "LL"}
reasons:
  description: Why each variable has its value.
  returned: success
  type: dict
sglang:
  description: What the service adds, in the dictionaries C(env) and C(args).
  returned: success
  type: dict
allreduce:
  description: Which all-reduce the profile uses.
  returned: success
  type: str
requires:
  description: The hardware and software that the profile is for.
  returned: success
  type: dict
evidence:
  description: The measured figures that the profile carries.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    """Only reached where the action plugin is bypassed."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "shipped": {"type": "raw", "required": True},
            "tuning_profiles": {"type": "dict", "default": {}},
            "overrides": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    module.fail_json(msg="resolve_profile runs on the controller, through its action plugin.")


if __name__ == "__main__":
    main()
