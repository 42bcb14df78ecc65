#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_preflight
short_description: Find out in seconds whether SGLang can start as declared, before it loads a weight
version_added: 0.1.0
description:
  - Loading the weights of a large model takes minutes, and SGLang finds out about most faults afterwards. This module looks first, at the
    files of the models, the options, the port, the GPUs, the disk, the limits, and whether the GPU memory leaves room for the KV cache.
  - Files are looked at as the service's user, in a process with a limit in time and memory. Of a shard the header is read, and compared with
    the size of the file.
  - SGLang's own parser, in the service's interpreter, has the last word on the options.
  - The memory is refused only where no GPU can hold less than was counted. What is not known is V(unknown), never V(ok).
  - Never changes anything. Fails with one message that has every refusal, unless O(report_only).
author:
  - gpu_node.tuning contributors (@gpu-node)
options:
  interpreter:
    description: Absolute path of the Python that runs SGLang.
    type: path
    required: true
  user:
    description: User of the service. Without it, files are looked at as the user that runs the module.
    type: str
  instances:
    description: Instances as in the variable C(sglang_instances) of the role C(sglang).
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name, which is part of the unit's.
        type: raw
      model:
        description: Directory of the model, or C(ORG/NAME) of a model that is in Hugging Face's cache.
        type: raw
      draft_model:
        description: The same for the draft model of speculative decoding; empty for none.
        type: raw
      host:
        description: Address to listen on, by default 127.0.0.1.
        type: raw
      port:
        description: Port to listen on, by default 30000.
        type: raw
      gpus:
        description: Numbers or names of its GPUs; none for all.
        type: raw
      environment:
        description: Variables of its environment. No secrets.
        type: raw
      api_key:
        description: Looked at for characters that no header carries, and not returned.
        type: raw
      admin_api_key:
        description: As O(instances[].api_key).
        type: raw
      args:
        description: Options of SGLang, each by the name of its field.
        type: raw
  defaults:
    description: What holds for every instance - C(args), C(environment), C(config_directory).
    type: dict
    default: {}
  profile:
    description: The resolved profile, as role C(profile) leaves it in C(tuning_profile). Its verdict on the hardware is told, not made anew.
    type: dict
    default: {}
  facts:
    description:
      - The fact C(gpu_node) of M(gpu_node.tuning.gpu_facts). Facts that were recorded replace the node's GPUs.
      - Memory in use is asked of the node otherwise, because it changes.
    type: dict
  running:
    description: Units of the role that are active. An instance's own unit may hold its port and its GPUs.
    type: list
    elements: str
    default: []
  version:
    description: Version of SGLang that will be installed. Counts where none is installed yet.
    type: str
  checks:
    description:
      - What happens with what a check refuses - V(refuse), V(warn) (a warning instead) or V(off) (not told, V(unknown)). The default is V(refuse).
      - Checks are V(sglang), V(together), V(user), V(shared_memory), V(disk), V(locked_memory) and V(profile) of the node, and of each instance
        V(options), V(parser), V(model), V(draft_model), V(architecture), V(port), V(gpus), V(leftovers) and V(memory).
    type: dict
    default: {}
  directories:
    description: Directories that the service writes to, for the room on their disks.
    type: list
    elements: path
    default: [/var/lib/sglang, /var/cache/sglang]
  memlock:
    description: What the unit sets as C(LimitMEMLOCK), V(infinity) or a number of bytes.
    type: str
    default: infinity
  timeout:
    description: Time limit of each look at files and at C(nvidia-smi), in seconds.
    type: float
    default: 60
  probe_timeout:
    description: Time limit of each start of O(interpreter), in seconds. SGLang's parser imports torch.
    type: float
    default: 120
  report_only:
    description: Whether the module succeeds whatever it finds.
    type: bool
    default: false
attributes:
  check_mode:
    description: Changes nothing in any mode. Binds the port for a moment, and starts the interpreter.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  platform:
    description: Linux nodes with Python 3.9 or newer.
    support: full
    platforms: linux
seealso:
  - module: gpu_node.tuning.gpu_facts
"""

EXAMPLES = r"""
- name: Refuse a start that cannot work
  gpu_node.tuning.sglang_preflight:
    interpreter: /opt/sglang/bin/python
    user: sglang
    instances:
      - name: kimi
        model: /models/Kimi-K2.5
        draft_model: /models/kimi-k2.5-eagle3
        port: 30000
        args:
          tp_size: 8
          trust_remote_code: true
          speculative_algorithm: EAGLE3
          mem_fraction_static: 0.85

- name: See what would be refused, and go on
  gpu_node.tuning.sglang_preflight:
    interpreter: /opt/sglang/bin/python
    instances: "{{ sglang_instances }}"
    profile: "{{ tuning_profile | default({}) }}"
    report_only: true
  register: looked

- name: Show it
  gpu_node.tuning.show_lines:
    lines: "{{ looked.lines }}"
"""

RETURN = r"""
version:
  description: Version of SGLang that the interpreter has; null where it has none.
  returned: always
  type: str
  sample: 0.5.23
node:
  description: Checks of the node as a whole, each with C(check), C(verdict) and C(message).
  returned: always
  type: list
  elements: dict
  sample: [{check: user, verdict: ok, message: "sglang, uid 990"}]
instances:
  description: One entry for each instance.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the instance.
      type: str
      sample: kimi
    plan:
      description: The configuration, environment and command that it becomes, without secrets; null where its options are refused.
      type: dict
    checks:
      description: Its checks, each with C(check), C(verdict) - V(ok), V(refused), V(warning) or V(unknown) - and C(message).
      type: list
      elements: dict
      sample:
        - check: memory
          verdict: refused
          message: "free before 94.97 GiB, free after the weights 21.78 GiB: 21.78 - 94.97 x (1 - 0.55) = -20.96 GiB for the KV cache. It cannot
            start, whatever NCCL does; smallest mem_fraction_static that works: 0.78."
refused:
  description: Whether anything is refused.
  returned: always
  type: bool
lines:
  description: The checks as a table for a person.
  returned: always
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import number_in
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import Sources
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_preflight import Asked, Node, preflight, refusal

# raw: whoever judges an instance has a better message than a failed conversion.
INSTANCE = {
    **{
        name: {"type": "raw"}
        for name in ("name", "model", "draft_model", "host", "port", "gpus", "environment", "args")
    },
    **{name: {"type": "raw", "no_log": True} for name in ("api_key", "admin_api_key")},
}


def asked_of(params: dict) -> Asked:
    return Asked(
        interpreter=params["interpreter"],
        user=params["user"],
        instances=[
            {key: value for key, value in instance.items() if value is not None} for instance in params["instances"]
        ],
        profile=params["profile"],
        facts=params["facts"],
        running=tuple(params["running"]),
        version=params["version"],
        defaults=params["defaults"],
        probe_timeout=number_in("probe_timeout", params["probe_timeout"], 0.1, 86400),
        timeout=number_in("timeout", params["timeout"], 0.1, 86400),
        memlock=params["memlock"],
        directories=tuple(params["directories"]),
        switches=params["checks"],
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "interpreter": {"type": "path", "required": True},
            "user": {"type": "str"},
            "instances": {"type": "list", "elements": "dict", "required": True, "options": INSTANCE},
            "defaults": {"type": "dict", "default": {}},
            "profile": {"type": "dict", "default": {}},
            "facts": {"type": "dict"},
            "running": {"type": "list", "elements": "str", "default": []},
            "version": {"type": "str"},
            "checks": {"type": "dict", "default": {}},
            "directories": {"type": "list", "elements": "path", "default": ["/var/lib/sglang", "/var/cache/sglang"]},
            "memlock": {"type": "str", "default": "infinity"},
            "timeout": {"type": "float", "default": 60},
            "probe_timeout": {"type": "float", "default": 120},
            "report_only": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        result = preflight(asked_of(module.params), Node(Sources()))
    except TuningError as error:
        module.fail_json(msg=str(error))
    if result["refused"] and not module.params["report_only"]:
        module.fail_json(msg=refusal(result), **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
