#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: sitecustomize
short_description: Set NCCL variables in a sitecustomize.py and read them back
version_added: 0.1.0
description:
  - Keeps one managed block in the C(sitecustomize.py) that an interpreter imports at start; every other byte of the file stays as it is.
  - Asks the interpreter where it imports the file from, tries the candidate in it before anything is replaced, replaces the file
    atomically through its symbolic link, keeps mode, owner and extended attributes, drops stale bytecode, and reads the values back through the
    interpreter, started as the service starts it, and through a child that it spawns.
  - When the read-back fails, the old bytes are put back and the task fails with what differed.
  - What stood on the node before is in a generation of O(state_dir) before the first byte changes.
  - In check mode nothing is written; the candidate is tried in memory, and the diff is the one that the real run applies.
author:
  - gpu_node.tuning contributors (@gpu-node)
extends_documentation_fragment:
  - gpu_node.tuning.interpreter
  - gpu_node.tuning.interpreter.probe
  - gpu_node.tuning.state
  - gpu_node.tuning.state.lock
options:
  state:
    description:
      - V(present) sets the variables of O(env).
      - V(absent) removes the managed block; a file that holds nothing else and was not there before goes too.
    type: str
    choices: [present, absent]
    default: present
  env:
    description:
      - Name to value of the variables to set. Every name must be one that NCCL reads, every value one that NCCL accepts.
      - Needed with O(state=present).
    type: dict
  src:
    description:
      - Jinja template of the managed block, found as M(ansible.builtin.template) finds it and rendered on the controller.
      - The template sees one more variable, C(sitecustomize), with the keys C(env), C(precedence), C(scope) and C(profile).
      - Needed with O(state=present).
    type: path
  content:
    description: The rendered block. Filled in by the action plugin from O(src); not meant to be given by hand.
    type: str
  precedence:
    description:
      - V(respect) sets a variable only where the environment has not set it. An empty value counts as set.
      - V(force) sets it in every case.
    type: str
    choices: [respect, force]
    default: respect
  takeover:
    description:
      - What happens when code outside the managed block already sets a variable of O(env).
      - V(refuse) changes nothing and names the line.
      - V(replace) removes the statements that set them, where these do nothing else, and keeps all other code.
    type: str
    choices: [refuse, replace]
    default: refuse
  profile:
    description: Name of the profile that O(env) comes from, for the record.
    type: str
  profile_status:
    description: Status of that profile, for the record.
    type: str
    choices: [known_good, experimental, dead_end]
  evidence:
    description: Measured figures that the profile carries, for the record.
    type: list
    elements: dict
    default: []
  hardware:
    description: How the node was compared with what the profile requires, for the record.
    type: dict
  memory:
    description: Estimate of M(gpu_node.tuning.resolve_profile), for a line of the diff. Used by the action plugin alone.
    type: dict
  keep_generations:
    description:
      - How many generations stay on the node. The oldest go first; never 0, the current one, the newest known-good, or the
        first that names a file.
    type: int
    default: 50
  applied_by:
    description: Who runs this, for the record. Filled in by the action plugin.
    type: str
attributes:
  check_mode:
    description: Predicts RV(ignore:changed) and the diff exactly, and writes nothing.
    support: full
  diff_mode:
    description: The unified diff of the file, then one line for each variable with its old and its new value.
    support: full
  platform:
    description: Linux nodes with Python 3.9 or newer.
    support: full
    platforms: linux
  idempotent:
    description: A second run changes nothing.
    support: full
seealso:
  - module: gpu_node.tuning.sitecustomize_info
"""

EXAMPLES = r"""
- name: Set two variables for every interpreter that uses the system's sitecustomize.py
  gpu_node.tuning.sitecustomize:
    src: sitecustomize.py.j2
    interpreter: /usr/bin/python3
    env:
      NCCL_PROTO: LL
      NCCL_ALGO: Ring

- name: Set them for one service only, and read them back as its user
  gpu_node.tuning.sitecustomize:
    src: sitecustomize.py.j2
    interpreter: /opt/sglang/bin/python
    scope: service
    service_dir: /usr/local/lib/gpu_node_tuning
    service_user: sglang
    env:
      NCCL_PROTO: LL

- name: Take the managed block out again
  gpu_node.tuning.sitecustomize:
    interpreter: /usr/bin/python3
    state: absent
"""

RETURN = r"""
path:
  description: The sitecustomize.py of the chosen scope, as the interpreter names it.
  returned: success
  type: str
  sample: /usr/lib/python3.12/sitecustomize.py
target:
  description: The file behind RV(path) with every symbolic link followed; this one is written.
  returned: success
  type: str
  sample: /etc/python3.12/sitecustomize.py
scope:
  description: The scope, as given.
  returned: success
  type: str
  sample: system
profile:
  description: The profile, as given.
  returned: success
  type: str
  sample: known_good
generation:
  description: Number of the generation that is current now; null where nothing was ever recorded.
  returned: success
  type: int
  sample: 1
shadowed:
  description: Other files of that name on the interpreter's path, which it never imports.
  returned: success
  type: list
  elements: str
  sample: []
values_before:
  description: Name to value of the variables that the managed block, and code that was taken over, set before.
  returned: changed
  type: dict
  sample: {"NCCL_PROTO": "Simple"}
read_back:
  description:
    - What the interpreter says. Not returned in check mode when the run would change the file.
    - After a failed read-back it is returned with the failure.
  returned: when it was read back
  type: dict
  contains:
    executable:
      description: The interpreter, as it names itself.
      type: str
    version:
      description: Its version.
      type: str
    expected:
      description: The file that it should import.
      type: str
    imported:
      description: The file that it imported; null for none.
      type: str
    variables:
      description: One entry for each variable.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the variable.
          type: str
        declared:
          description: The value of O(env).
          type: str
        file:
          description: The value in the managed block on disk.
          type: str
        interpreter:
          description: The value in the interpreter.
          type: str
        spawn:
          description: The value in a child that multiprocessing spawns.
          type: str
        isolated:
          description: The value in the interpreter started with C(-I), which ignores PYTHONPATH and so scope V(service).
          type: str
        state:
          description: V(effective), V(overridden), V(shadowed) or V(absent).
          type: str
        origin:
          description: Where the value comes from - V(environment), the file and the line, or words.
          type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import (
    INTERPRETER_OPTIONS,
    LOCK_OPTIONS,
    PROBE_OPTIONS,
    STATE_OPTIONS,
    diff_of,
    interpreter_of,
    lock_timeout,
    number_in,
    shadowed_by,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory
from ansible_collections.gpu_node.tuning.plugins.module_utils.tuning_transaction import (
    Outcome,
    ReadBackFailed,
    Wish,
    tune,
)


def wish_of(params: dict) -> Wish:
    present = params["state"] == "present"
    body = (params["content"] or "").encode("utf-8") if present else None
    if present and not body.strip():
        raise TuningError(
            "src: the template renders nothing. Legal: a template that sets every variable of env; state: absent removes the block."
        )
    if present and not params["env"]:
        raise TuningError("env: empty. Legal: at least one variable; state: absent removes the block.")
    return Wish(
        body=body,
        env=dict(params["env"]) if present else {},
        scope=params["scope"],
        service_dir=params["service_dir"],
        precedence=params["precedence"],
        takeover=params["takeover"],
        profile=params["profile"],
        profile_status=params["profile_status"],
        evidence=params["evidence"],
        hardware=params["hardware"],
    )


def result_of(outcome: Outcome, wish: Wish) -> dict:
    plan = outcome.plan
    result = {
        "changed": outcome.changed,
        "path": plan.state.path,
        "target": plan.state.target,
        "scope": wish.scope,
        "profile": wish.profile,
        "generation": outcome.generation,
        "shadowed": shadowed_by(plan.state.path, plan.resolution),
    }
    if outcome.read_back is not None:
        result["read_back"] = outcome.read_back.as_dict()
    if outcome.changed:
        result["diff"] = diff_of(plan.state, plan.content, plan.values_before, wish.env)
        result["values_before"] = plan.values_before
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec=dict(
            **INTERPRETER_OPTIONS,
            **PROBE_OPTIONS,
            **STATE_OPTIONS,
            **LOCK_OPTIONS,
            state={"type": "str", "choices": ["present", "absent"], "default": "present"},
            env={"type": "dict"},
            src={"type": "path"},
            content={"type": "str"},
            precedence={"type": "str", "choices": ["respect", "force"], "default": "respect"},
            takeover={"type": "str", "choices": ["refuse", "replace"], "default": "refuse"},
            profile={"type": "str"},
            profile_status={"type": "str", "choices": ["known_good", "experimental", "dead_end"]},
            evidence={"type": "list", "elements": "dict", "default": []},
            hardware={"type": "dict"},
            memory={"type": "dict"},
            keep_generations={"type": "int", "default": 50},
            applied_by={"type": "str"},
        ),
        required_if=[("state", "present", ["env", "content"])],
        supports_check_mode=True,
    )
    try:
        wish = wish_of(module.params)
        outcome = tune(
            wish,
            interpreter_of(module.params),
            StateDirectory(
                module.params["state_dir"],
                module.params["applied_by"],
                number_in("keep_generations", module.params["keep_generations"], 1, 100000),
            ),
            lock_timeout(module.params),
            module.check_mode,
        )
    except ReadBackFailed as error:
        module.fail_json(msg=str(error), read_back=error.read_back.as_dict() if error.read_back else None)
    except TuningError as error:
        module.fail_json(msg=str(error))
    for remark in outcome.remarks:
        module.warn(remark)
    module.exit_json(**result_of(outcome, wish))


if __name__ == "__main__":
    main()
