#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: sitecustomize_info
short_description: Read back what an interpreter's sitecustomize.py sets
version_added: 0.1.0
description:
  - Finds the C(sitecustomize.py) that an interpreter imports, says what stands in it, and asks the interpreter, started as the service
    starts it, which values are in effect.
  - Never changes anything, and never fails because of what it finds - drift is in RV(drift), what could not be found out in RV(problems).
author:
  - gpu_node.tuning contributors (@gpu-node)
extends_documentation_fragment:
  - gpu_node.tuning.interpreter
  - gpu_node.tuning.interpreter.probe
options:
  env:
    description:
      - Name to value of the variables that are declared.
      - Without it, the variables that the managed block on disk sets are asked for.
    type: dict
  precedence:
    description: With V(respect), a value that the environment presets is no drift.
    type: str
    choices: [respect, force]
    default: respect
  unit:
    description:
      - Systemd unit of the engine. The interpreter is started with what its C(Environment=), C(EnvironmentFile=), drop-ins and C(User=) give.
      - A value that only the unit presets is drift under O(precedence=respect); one that O(service_environment) names too is a remark.
    type: str
  nccl_log:
    description:
      - Log of the running engine, written with C(NCCL_DEBUG=INFO). The values that NCCL says it read are compared too.
    type: path
  state_dir:
    description: Directory of the generations. With it, a file that is not as the current generation left it is drift.
    type: path
attributes:
  check_mode:
    description: Writes nothing in any mode.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  platform:
    description: Linux nodes with Python 3.9 or newer.
    support: full
    platforms: linux
seealso:
  - module: gpu_node.tuning.sitecustomize
"""

EXAMPLES = r"""
- name: Read back what the system's Python gets
  gpu_node.tuning.sitecustomize_info:
    interpreter: /usr/bin/python3
  register: found

- name: Show it
  ansible.builtin.debug:
    var: found.read_back.variables
"""

RETURN = r"""
path:
  description: The sitecustomize.py of the chosen scope, as the interpreter names it; null when the interpreter gave no answer.
  returned: always
  type: str
  sample: /usr/lib/python3.12/sitecustomize.py
file:
  description: What stands there; null when it could not be looked at.
  returned: always
  type: dict
  contains:
    exists:
      description: Whether there is a file.
      type: bool
    target:
      description: The file with every symbolic link followed.
      type: str
    link:
      description: Text of the symbolic link, if the path is one.
      type: str
    mode:
      description: Mode, octal.
      type: str
    uid:
      description: Numeric owner.
      type: int
    gid:
      description: Numeric group.
      type: int
    sha256:
      description: Hash of the bytes.
      type: str
    managed:
      description: Whether it holds the managed block.
      type: bool
    variables:
      description: Name to value of what the managed block sets.
      type: dict
    foreign_variables:
      description: Environment variables that other code in the file sets - name, value (null when it is no literal) and line.
      type: list
      elements: dict
shadowed:
  description: Other files of that name on the interpreter's path, which it never imports.
  returned: always
  type: list
  elements: str
read_back:
  description: As RV(gpu_node.tuning.sitecustomize#module:read_back); null when the interpreter gave no answer.
  returned: always
  type: dict
library:
  description: Variable to the values that NCCL says in O(nccl_log) that it read; null without one.
  returned: always
  type: dict
origins:
  description:
    - Every other place on the node that gives a variable a value, strongest first in C(variables) - where, line, value, how, reach, standing.
    - Files named C(sitecustomize.py) on the path in C(sitecustomize), and C(remarks).
  returned: always
  type: dict
drift:
  description: One sentence for each variable that is not in effect as declared; null when it could not be read back.
  returned: always
  type: list
  elements: str
  sample: []
problems:
  description: What could not be found out, and why, and remarks.
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.inspection import Question, inspect
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import (
    INTERPRETER_OPTIONS,
    PROBE_OPTIONS,
    interpreter_of,
    text_values,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec=dict(
            **INTERPRETER_OPTIONS,
            **PROBE_OPTIONS,
            env={"type": "dict"},
            unit={"type": "str"},
            nccl_log={"type": "path"},
            state_dir={"type": "path"},
            precedence={"type": "str", "choices": ["respect", "force"], "default": "respect"},
        ),
        supports_check_mode=True,
    )
    params = module.params
    try:
        interpreter = interpreter_of(params)
        declared = None if params["env"] is None else text_values("env", params["env"])
    except TuningError as error:
        module.fail_json(msg=str(error))
    question = Question(
        scope=params["scope"],
        service_dir=params["service_dir"],
        declared=declared,
        precedence=params["precedence"],
        unit=params["unit"],
        log=params["nccl_log"],
        state_dir=params["state_dir"],
    )
    module.exit_json(changed=False, **inspect(interpreter, question))


if __name__ == "__main__":
    main()
