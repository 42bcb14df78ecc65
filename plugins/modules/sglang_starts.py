#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_starts
short_description: Keep good starts of SGLang, and go back to one
version_added: 0.1.0
description:
  - Keeps what a good start was made of - unit, drop-in, configuration, the generation of the tuning, the profile - in the state
    directory, with checksums, so that a play can go back to it.
  - Keeps what a failed start said.
  - Starts and stops nothing, and does not change the tuning; M(gpu_node.tuning.generation) does that.
author:
  - gpu_node.tuning contributors (@gpu-node)
extends_documentation_fragment:
  - gpu_node.tuning.state
  - gpu_node.tuning.state.lock
options:
  name:
    description: Name of the instance.
    type: str
    required: true
  state:
    description:
      - V(recorded) keeps the start that has just been proved. One that is on record is not kept twice.
      - V(failed) keeps the journal and O(diagnosis) of a start that failed, and says which good start to go back to.
      - V(restored) puts the files of the good start O(number) back.
    type: str
    choices: [recorded, failed, restored]
    required: true
  number:
    description: Number of a good start, as RV(number) of O(state=failed) says.
    type: int
  generation:
    description: Number of the generation of the tuning that the start ran under.
    type: int
  profile:
    description: The profile that it ran under.
    type: str
  profile_status:
    description: What is known of the profile.
    type: str
    choices: [known_good, experimental, dead_end]
  version:
    description: The version of SGLang.
    type: str
  parts:
    description: Name to digest of what the start was made of, as M(gpu_node.tuning.sglang_files) returns it.
    type: dict
    default: {}
  proof:
    description: How the start was proved, for the record.
    type: dict
    default: {}
  diagnosis:
    description: What M(gpu_node.tuning.sglang_diagnose) found, for the record.
    type: list
    elements: dict
    default: []
  said:
    description: What the failed start was reported with, for the record.
    type: str
    default: ""
  applied_by:
    description: Who runs this, for the record. Filled in by the action plugin.
    type: str
attributes:
  check_mode:
    description: Predicts RV(ignore:changed) and writes nothing.
    support: full
  diff_mode:
    description: Records are added and no setting is changed; the files that come back are named in RV(files).
    support: none
  platform:
    description: Linux nodes with systemd and Python 3.9 or newer.
    support: full
    platforms: linux
seealso:
  - module: gpu_node.tuning.sglang_files
  - module: gpu_node.tuning.generation
"""

EXAMPLES = r"""
- name: Keep a good start
  gpu_node.tuning.sglang_starts:
    name: kimi
    state: recorded
    generation: "{{ nccl_env_result.generation }}"
    profile: "{{ tuning_profile.name }}"
    profile_status: "{{ tuning_profile.status }}"
    parts: "{{ files.instances[0].parts }}"
"""

RETURN = r"""
number:
  description: Number of the good start; with O(state=failed) the one to go back to, null for none.
  returned: success
  type: int
generation:
  description: Generation of the tuning that this good start ran under.
  returned: success
  type: int
profile:
  description: Its profile.
  returned: success
  type: str
time:
  description: When it was recorded, UTC.
  returned: success
  type: str
host:
  description: With O(state=failed) and O(state=restored) the address that this good start listened on.
  returned: success
  type: str
port:
  description: Its port, which need not be the one that is declared now.
  returned: success
  type: int
why:
  description: With O(state=failed) why there is none to go back to.
  returned: success
  type: str
kept:
  description: With O(state=failed) the directory with the journal and the diagnosis.
  returned: success
  type: str
files:
  description: With O(state=restored) the files that differed.
  returned: success
  type: list
  elements: str
"""

import json

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils import bounded_command, sglang_files, sglang_starts
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import (
    LOCK_OPTIONS,
    STATE_OPTIONS,
    lock_timeout,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import MOVE_AWAY
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_log import redacted
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory

LINES = 20000  # of a journal
LIMIT = 30  # seconds for it


def journal_of(name: str) -> str:
    """The last lines that systemd has of the instance, without keys. A journal that cannot be read says so."""
    command = [
        "journalctl",
        "--no-pager",
        "--quiet",
        "--output=short-iso",
        f"--lines={LINES}",
        "--unit",
        sglang_files.unit_of(name),
    ]
    ended = bounded_command.run(command, LIMIT, {})
    return redacted(ended.out) if ended.code == 0 else f"the journal cannot be read: {ended.failure}\n"


def about(start) -> dict:
    if start is None:
        return dict.fromkeys(("number", "generation", "profile", "time", "host", "port"))
    host, port = sglang_starts.address_of(start)
    told = {key: start.manifest[key] for key in ("generation", "profile", "time")}
    return {"number": start.number, **told, "host": host, "port": port}


def recorded(params: dict, state: StateDirectory, check: bool) -> dict:
    facts = {key: params[key] for key in ("generation", "profile", "profile_status", "version", "proof")}
    number, new = sglang_starts.record(state, params["name"], facts, params["parts"], check, lock_timeout(params))
    return {"changed": new, "number": number, **{key: params[key] for key in ("generation", "profile")}}


def failed(params: dict, state: StateDirectory, check: bool) -> dict:
    name, generation = params["name"], params["generation"]
    start, why = sglang_starts.choose(state, name, params["parts"], generation)
    if check:
        return {"changed": True, "why": why, "kept": None, **about(start)}
    texts = {
        "journal.txt": journal_of(name),
        "diagnosis.json": redacted(json.dumps(params["diagnosis"], indent=1, sort_keys=True) + "\n"),
        "message.txt": redacted(params["said"] + "\n"),
    }
    kept = sglang_starts.keep_failure(state, name, generation, texts, lock_timeout(params))
    return {"changed": True, "why": why, "kept": kept, **about(start)}


def restored(params: dict, state: StateDirectory, check: bool) -> dict:
    kept, damaged = sglang_starts.good_starts(state.path, params["name"])
    start = next((one for one in kept if one.number == params["number"]), None)
    if start is None:
        legal = ", ".join(str(one.number) for one in kept) or "none"
        raise TuningError(
            f"number {params['number']}: no good start of {params['name']}; there are: {legal}. {' '.join(damaged)}"
        )
    files = [] if check else sglang_starts.restore(start)
    return {"changed": bool(files), "files": files, **about(start)}


STATES = {"recorded": recorded, "failed": failed, "restored": restored}


def main() -> None:
    module = AnsibleModule(
        argument_spec=dict(
            **STATE_OPTIONS,
            **LOCK_OPTIONS,
            name={"type": "str", "required": True},
            state={"type": "str", "choices": list(STATES), "required": True},
            number={"type": "int"},
            generation={"type": "int"},
            profile={"type": "str"},
            profile_status={"type": "str", "choices": ["known_good", "experimental", "dead_end"]},
            version={"type": "str"},
            parts={"type": "dict", "default": {}},
            proof={"type": "dict", "default": {}},
            diagnosis={"type": "list", "elements": "dict", "default": []},
            said={"type": "str", "default": ""},
            applied_by={"type": "str"},
        ),
        required_if=[("state", "restored", ["number"])],
        supports_check_mode=True,
    )
    params = module.params
    try:
        state = StateDirectory(params["state_dir"], params["applied_by"])
        result = STATES[params["state"]](params, state, module.check_mode)
    except TuningError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        in_the_way = isinstance(error, (FileExistsError, NotADirectoryError))
        way_on = MOVE_AWAY if in_the_way else "Make room, or repair the file system."
        module.fail_json(msg=f"{error.filename or params['state_dir']}: {error.strerror}. {way_on}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
