#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_env_info
short_description: Explain NCCL environment variables
version_added: 0.1.0
description:
  - Tells of each variable what it does, which values are legal, its default, which releases of NCCL read it, what NCCL does with a
    value that is wrong, and what holds where the opposite is often said.
  - Reads the catalogue of the collection, which also decides what M(gpu_node.tuning.resolve_profile) accepts. It asks neither
    NCCL nor the node, and needs no GPU.
author:
  - gpu_node.tuning contributors (@gpu-node)
options:
  name:
    description:
      - The variables. Without it, all that are known, with one line each in RV(lines).
      - A name that NCCL does not read is refused, with the name that was probably meant.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  platform:
    description: Any with Python 3.9 or newer.
    support: full
    platforms: posix
seealso:
  - module: gpu_node.tuning.resolve_profile
"""

EXAMPLES = r"""
# ansible localhost -m gpu_node.tuning.nccl_env_info -a name=NCCL_BUFFSIZE
- name: Explain two variables
  gpu_node.tuning.nccl_env_info:
    name: [NCCL_ALGO, NCCL_PROTO]
  register: explained

- name: Show the explanation
  gpu_node.tuning.show_lines:
    lines: "{{ explained.lines }}"
"""

RETURN = r"""
lines:
  description: The same for a person - a paragraph for each variable, or a table of all.
  returned: success
  type: list
  elements: str
  sample:
    - NCCL_BUFFSIZE
    - legal       a whole number from 1 to 2147483647 (bytes)
variables:
  description: The variables in the order of O(name), or all sorted by name. An empty text means that there is nothing to say.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the variable.
      type: str
      sample: NCCL_BUFFSIZE
    kind:
      description: How the value is read, such as V(bytes), V(enum) or V(func_list).
      type: str
      sample: bytes
    what:
      description: What the variable does.
      type: str
    legal:
      description: The legal values, in words.
      type: str
      sample: a whole number from 1 to 2147483647 (bytes)
    default:
      description: What holds while the variable is not set.
      type: str
      sample: "4194304"
    since:
      description: The first release that reads it. With C(<=) in front, the oldest public one that already did.
      type: str
      sample: <=2.3.5
    deprecated:
      description: The release that deprecated it.
      type: str
      sample: ""
    removed:
      description: The first release that no longer reads it. Such a variable is refused in a profile.
      type: str
      sample: ""
    replaced_by:
      description: Its successor.
      type: str
      sample: ""
    documented:
      description: Whether NVIDIA documents it.
      type: bool
      sample: true
    case_sensitive:
      description: Whether NCCL compares the case of its words. Values are written in the case that NCCL compares with.
      type: bool
      sample: false
    if_wrong:
      description: What NCCL itself does with a bad value.
      type: str
    risk:
      description: What can go wrong with a legal value.
      type: str
    mistaken_for:
      description: Corrects what is often said of it.
      type: str
      sample: ""
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_help import chosen, explain, help_lines, table_lines


def main() -> None:
    module = AnsibleModule(
        argument_spec={"name": {"type": "list", "elements": "str", "default": []}},
        supports_check_mode=True,
    )
    wanted = module.params["name"]
    try:
        names = chosen(wanted)
    except TuningError as error:
        module.fail_json(msg=str(error))
    lines = [line for name in names for line in help_lines(name)] if wanted else table_lines(names)
    module.exit_json(changed=False, variables=[explain(name) for name in names], lines=lines)


if __name__ == "__main__":
    main()
