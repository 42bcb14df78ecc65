# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: resolve_profile
short_description: Resolve a tuning profile by name
version_added: 0.1.0
author:
  - gpu_node.tuning contributors (@gpu-node)
description:
  - Looks up a profile, applies the inventory's own profiles and overrides,
    and validates the NCCL environment that results.
  - Everything that NCCL would misread in silence is refused, with the variable, the value, the legal values,
    and what to write instead.
positional: shipped, tuning_profiles, overrides
options:
  _input:
    description: Name of the profile.
    type: str
    required: true
  shipped:
    description:
      - The profiles that are known, as a dictionary of name to profile.
      - Or the path of a directory on the controller with one C(NAME.yml) for each profile;
        only the wanted one is read.
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
seealso:
  - name: NCCL environment variables
    description: The vendor's documentation of the variables.
    link: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
"""

EXAMPLES = r"""
- name: Show what a shipped profile sets
  ansible.builtin.debug:
    msg: "{{ ('known_good' | gpu_node.tuning.resolve_profile(profiles)).env }}"
  vars:
    profiles:
      known_good:
        summary: Ring with the low-latency protocol
        status: known_good
        env:
          NCCL_PROTO: {value: LL, reason: Decode messages are small}

- name: Resolve a profile with one variable changed and one removed
  ansible.builtin.set_fact:
    tuning_profile: "{{ 'known_good' | gpu_node.tuning.resolve_profile(profiles, overrides=changes) }}"
  vars:
    changes:
      NCCL_MAX_NCHANNELS: 8
      NCCL_PROTO: null
"""

RETURN = r"""
_value:
  description: The resolved profile.
  type: dict
  contains:
    name:
      description: Name of the profile.
      type: str
      sample: known_good
    summary:
      description: What the profile is.
      type: str
    status:
      description: One of V(known_good), V(experimental) and V(dead_end).
      type: str
    lesson:
      description: What happened to those who tried it; empty for most profiles.
      type: str
    env:
      description: NCCL variables with the canonical strings that NCCL will read, sorted by name.
      type: dict
      sample: {"NCCL_PROTO": "LL"}
    reasons:
      description: Why each variable has its value.
      type: dict
    sglang:
      description: What the service adds, in the dictionaries C(env) and C(args).
      type: dict
    allreduce:
      description: Which all-reduce the profile uses.
      type: str
    requires:
      description: The hardware and software that the profile is for.
      type: dict
    evidence:
      description: The measured figures that the profile carries.
      type: list
      elements: dict
"""

from ansible.errors import AnsibleFilterError
from ansible.utils.display import Display
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.profile_directory import resolve_named

display = Display()


def resolve_profile(name, shipped, tuning_profiles=None, overrides=None):
    """Resolve a profile, see DOCUMENTATION."""
    try:
        profile, warnings = resolve_named(name, shipped, tuning_profiles, overrides)
    except TuningError as error:
        raise AnsibleFilterError(str(error)) from None
    for warning in warnings:
        display.warning(warning)
    return profile


class FilterModule:
    """Filters of the collection."""

    def filters(self):
        return {"resolve_profile": resolve_profile}
