#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: generation
short_description: Bring a node back to a recorded generation
version_added: 0.1.0
description:
  - Makes every file that M(gpu_node.tuning.sitecustomize) ever touched on the node what it was in a recorded generation - bytes, symbolic
    link, mode, owner, absence included - and reads the values back through the interpreter of that generation.
  - Every byte of the generation is verified before the first one on the node changes. When the read-back fails, what stood before returns.
  - A change by others since the last generation is recorded before it is replaced.
  - Processes that started before the change keep their values; they are listed, not restarted.
author:
  - gpu_node.tuning contributors (@gpu-node)
extends_documentation_fragment:
  - gpu_node.tuning.interpreter.probe
  - gpu_node.tuning.state
  - gpu_node.tuning.state.lock
options:
  generation:
    description:
      - V(known_good) is the newest generation that a known-good profile with at least one variable left, read back with success.
      - V(previous) is the generation that the current one came from.
      - A number is that generation, written as in the history (V(7)) or as its directory is called (V(0007)).
      - V(0) is the node as it was found before the first change.
    type: str
    default: known_good
  applied_by:
    description: Who runs this, for the record. Filled in by the action plugin.
    type: str
attributes:
  check_mode:
    description: Predicts RV(ignore:changed) and the diff, and writes nothing.
    support: full
  diff_mode:
    description: The unified diff of every file that differs.
    support: full
  platform:
    description: Linux nodes with Python 3.9 or newer.
    support: full
    platforms: linux
  idempotent:
    description: A second run changes nothing, save for V(previous), which goes one further back.
    support: partial
seealso:
  - module: gpu_node.tuning.generation_info
  - module: gpu_node.tuning.sitecustomize
"""

EXAMPLES = r"""
- name: Go back to the state that is known to work
  gpu_node.tuning.generation:

- name: Leave the node as it was found
  gpu_node.tuning.generation:
    generation: "0"
"""

RETURN = r"""
generation:
  description: Number of the generation that was asked for.
  returned: success
  type: int
  sample: 3
files:
  description: Paths of the files that differed from it.
  returned: success
  type: list
  elements: str
  sample: [/usr/lib/python3.12/sitecustomize.py]
read_back:
  description:
    - As RV(gpu_node.tuning.sitecustomize#module:read_back); null where the generation declares nothing, and in check mode with a change.
  returned: success
  type: dict
stale_processes:
  description: Python processes that started before the files changed and may still run with other values.
  returned: success
  type: list
  elements: dict
  contains:
    pid:
      description: Process ID.
      type: int
    started:
      description: Start time, UTC.
      type: str
    command:
      description: Command line, shortened.
      type: str
    unit:
      description: The systemd service that it belongs to; null for none.
      type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils.activation import Activation, activate
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import (
    LOCK_OPTIONS,
    PROBE_OPTIONS,
    STATE_OPTIONS,
    file_diff,
    lock_timeout,
    probe_timeout,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.stale_processes import stale_processes
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory


def result_of(outcome: Activation) -> dict:
    return {
        "changed": outcome.changed,
        "generation": outcome.number,
        "files": [state.path for state in outcome.after],
        "read_back": outcome.read_back.as_dict() if outcome.read_back else None,
        "diff": [file_diff(before, after.content) for before, after in zip(outcome.before, outcome.after)],
        "stale_processes": stale_processes(outcome.readers, outcome.changed_at),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec=dict(
            **STATE_OPTIONS,
            **LOCK_OPTIONS,
            **PROBE_OPTIONS,
            generation={"type": "str", "default": "known_good"},
            applied_by={"type": "str"},
        ),
        supports_check_mode=True,
    )
    params = module.params
    try:
        state = StateDirectory(params["state_dir"], params["applied_by"])
        outcome = activate(state, params["generation"], lock_timeout(params), probe_timeout(params), module.check_mode)
    except TuningError as error:
        module.fail_json(msg=str(error))
    for remark in outcome.remarks:
        module.warn(remark)
    module.exit_json(**result_of(outcome))


if __name__ == "__main__":
    main()
