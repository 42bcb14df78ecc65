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
  - Runs on the controller; with O(hardware_check) or O(allow_probe) the node is looked at first.
  - The filter P(gpu_node.tuning.resolve_profile#filter) does the same in an expression.
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
  admission:
    description:
      - Whether it is asked if the profile may be applied to the node. Without, O(hardware_check), O(allow_dead_end) and O(allow_risk) say nothing.
    type: bool
    default: true
  look:
    description:
      - Options of M(gpu_node.tuning.gpu_facts), for the look at the node. C(recorded) among them replaces it.
      - Nobody looks with O(hardware_check=off).
    type: dict
    default: {}
  allow_probe:
    description: Whether M(gpu_node.tuning.p2p_probe) moves data between the GPUs first. Not in check mode.
    type: bool
    default: false
  hardware_check:
    description:
      - With V(refuse), a profile that is not for the node's hardware or software is refused, with every requirement and what was found.
      - With V(warn), that is a warning. With V(off), nothing is compared.
    type: str
    choices: [refuse, warn, 'off']
    default: 'off'
  allow_dead_end:
    description: Whether a profile whose status is V(dead_end) may be used. Without it, it is refused with its lesson.
    type: bool
    default: false
  allow_risk:
    description: Names of the rules that the profile may break on this node. A refusal names its rule; docs/nccl_variables.md lists them.
    type: list
    elements: str
    default: []
  service_environment:
    description: What the inventory gives the service, beside what the profile gives it.
    type: dict
    default: {}
  communicators:
    description: How many NCCL communicators the engine makes, for the estimate of GPU memory.
    type: int
    default: 1
attributes:
  action:
    description: Runs on the controller, and executes the modules that look at the node.
    support: full
  check_mode:
    description: Same result in any mode.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  platform:
    description: Linux nodes with Python 3.9 or newer, where they are looked at.
    support: full
    platforms: linux
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
lesson:
  description: What happened to those who tried it, and under which versions that may have changed; empty for most profiles.
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
hardware:
  description:
    - How the node was compared with the profile.
    - RV(hardware.verdict) is V(fits), V(unknown) (something could not be told), V(refused) (only with O(hardware_check=warn)) or V(not checked).
  returned: success
  type: dict
  contains:
    check:
      description: The value of O(hardware_check).
      type: str
    verdict:
      description: The outcome.
      type: str
    node:
      description: The node in a few words.
      type: str
      sample: 2x NVIDIA H200, nvlink
    requirements:
      description: Each requirement with C(name), C(wanted), C(found) and C(met); C(met) is null where it is not known.
      type: list
      elements: dict
    allow_risk:
      description: The value of O(allow_risk).
      type: list
      elements: str
notes:
  description: What is good to know about the profile on this node, though nothing is wrong.
  returned: success
  type: list
  elements: str
memory:
  description:
    - Estimate of the memory that NCCL's connections take; null where the profile sets nothing, or the number of GPUs is not known.
    - Counted for the node's GPUs, or with O(hardware_check=off) for as many as the profile requires.
  returned: success
  type: dict
  contains:
    mib:
      description: MiB on each GPU.
      type: int
    host_mib:
      description: MiB of host memory for each GPU, where P2P is switched off.
      type: int
    terms:
      description: The factors.
      type: dict
    text:
      description: The arithmetic in words.
      type: str
    fits:
      description: Whether it fits into the free memory of the GPU that has the least; null where that is not known.
      type: bool
    free:
      description: That comparison in words.
      type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils.controller_options import RESOLVE_PROFILE


def main() -> None:
    """Only reached where the action plugin is bypassed."""
    module = AnsibleModule(argument_spec=RESOLVE_PROFILE, supports_check_mode=True)
    module.fail_json(msg="resolve_profile runs on the controller, through its action plugin.")


if __name__ == "__main__":
    main()
