#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_files
short_description: Write the systemd unit and the configuration of SGLang's instances
version_added: 0.1.0
description:
  - Writes the units C(sglang@.service) and C(sglang-devices.service), a drop-in and a configuration for every instance, their keys, and the
    program that reads the tuning back before every start.
  - Compares what every running instance was started with to what is declared now, and says which have to be restarted, and why. Starts
    and stops nothing.
  - A file that somebody has edited by hand is named, and its copy is kept before it is replaced.
author:
  - gpu_node.tuning contributors (@gpu-node)
extends_documentation_fragment:
  - gpu_node.tuning.state
options:
  state:
    description: V(absent) removes the files of the instances in O(names), and the unit where no other instance is left.
    type: str
    choices: [present, absent]
    default: present
  names:
    description: Names of the instances to remove, with O(state=absent).
    type: list
    elements: str
    default: []
  plans:
    description: The instances as C(plan) of M(gpu_node.tuning.sglang_preflight) has them.
    type: list
    elements: dict
    default: []
  api_keys:
    description: Name of an instance to the key of its users; empty for none.
    type: dict
    default: {}
  admin_api_keys:
    description: Name of an instance to the key of its administrators; empty for none.
    type: dict
    default: {}
  version:
    description: The version of SGLang that the interpreter has.
    type: str
  interpreter:
    description: Absolute path, on the node, of the Python that runs SGLang.
    type: path
    default: /opt/sglang/bin/python
  user:
    description: User that SGLang runs as.
    type: str
    default: sglang
  group:
    description: Group that SGLang runs as; it may read the configuration.
    type: str
    default: sglang
  start_timeout:
    description: Seconds that the longest start takes.
    type: int
    default: 3600
  drain_timeout:
    description: Seconds that running requests get when the service is stopped.
    type: int
    default: 120
  sitecustomize:
    description: Path of the file that the service has to import, as M(gpu_node.tuning.sitecustomize) has written it. Without it nothing is read back.
    type: path
  environment:
    description: Variables that the service has to see after that, name to value.
    type: dict
    default: {}
  generation:
    description: Number of the generation that is current.
    type: int
attributes:
  check_mode:
    description: Predicts RV(ignore:changed), the diff and the restarts, and writes nothing.
    support: full
  diff_mode:
    description: The unified diff of every file that differs, save the keys.
    support: full
  platform:
    description: Linux nodes with systemd and Python 3.9 or newer.
    support: full
    platforms: linux
  idempotent:
    description: A second run changes nothing.
    support: full
seealso:
  - module: gpu_node.tuning.sglang_preflight
  - module: gpu_node.tuning.sglang_starts
"""

EXAMPLES = r"""
- name: Write the files of the instances
  gpu_node.tuning.sglang_files:
    plans: "{{ preflight.instances | map(attribute='plan') }}"
    version: "{{ preflight.version }}"
"""

RETURN = r"""
files:
  description: Paths of the files that differed.
  returned: success
  type: list
  elements: str
instances:
  description: One entry for each instance of O(plans).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    unit:
      description: Its unit.
      type: str
      sample: sglang@kimi.service
    active:
      description: Whether it runs.
      type: bool
    reasons:
      description: Why it has to be restarted; empty where it runs with all that is declared, and where it does not run.
      type: list
      elements: str
      sample: [configuration changed]
    parts:
      description: Name to digest of what a start is made of.
      type: dict
edited_by_hand:
  description: Files of ours that somebody had edited.
  returned: success
  type: list
  elements: str
kept:
  description: Copies of these, before they were replaced.
  returned: success
  type: list
  elements: str
others:
  description: Instances with files of ours that are not in O(plans).
  returned: success
  type: list
  elements: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_files, sglang_unit_text
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import (
    STATE_OPTIONS,
    file_diff,
    text_values,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import read_plain
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_before_start import digest

SECRET = b"(keys, not shown)\n"


def settings_of(params: dict, check_mode: bool) -> sglang_unit_text.Settings:
    if not os.path.isabs(params["interpreter"]):
        raise TuningError(f"interpreter {params['interpreter']!r}; legal: an absolute path. Set sglang_interpreter.")
    for name in ("start_timeout", "drain_timeout"):
        if not 1 <= params[name] <= 86400:
            raise TuningError(f"{name} {params[name]}; legal: 1 to 86400 (seconds). Set sglang_{name}.")
    if not check_mode:  # it makes no user either
        sglang_files.refuse_unknown_user(params["user"])
    return sglang_unit_text.Settings(
        params["interpreter"],
        sglang_files.PROGRAM,
        params["user"],
        params["group"],
        params["start_timeout"],
        params["drain_timeout"],
    )


def tuning_of(params: dict, check_mode: bool) -> sglang_files.Tuning:
    path, environment = params["sitecustomize"], text_values("environment", params["environment"])
    if not path:
        return sglang_files.Tuning(None, environment, params["generation"])
    try:
        found = {"path": path, "sha256": digest(read_plain(path, follow=True))}
    except OSError as error:
        if check_mode and isinstance(error, FileNotFoundError):  # a check of the role nccl_env has not written it
            return sglang_files.Tuning({"path": path, "sha256": ""}, environment, params["generation"])
        raise TuningError(
            f"sitecustomize {path}: cannot be read: {error.strerror}. Run role nccl_env first."
        ) from error
    return sglang_files.Tuning(found, environment, params["generation"])


def wanted_of(params: dict, check_mode: bool) -> list:
    settings, tuning = settings_of(params, check_mode), tuning_of(params, check_mode)
    found = [(None, sglang_files.common_files(settings))]
    for plan in params["plans"]:
        name = plan["name"]
        keys = sglang_files.keys_text(
            str(params["api_keys"].get(name) or ""), str(params["admin_api_keys"].get(name) or "")
        )
        found.append((name, sglang_files.files_of_instance(plan, keys, settings, tuning, params["version"])))
    return found


def gone_of(params: dict, wanted: list) -> list:
    """Paths that nothing needs any more."""
    paths = {file.path for _name, files in wanted for file in files}
    if params["state"] == "present":
        # An instance without keys keeps no old ones.
        return [
            path for name, _f in wanted if name for path in sglang_files.paths_of(name).values() if path not in paths
        ]
    left = set(sglang_files.instances_on_node()) - set(params["names"])
    common = [] if left else [sglang_unit_text.UNIT, sglang_unit_text.DEVICES_UNIT, sglang_files.PROGRAM]
    return [path for name in params["names"] for path in sglang_files.paths_of(name).values()] + common


def instance_of(name: str, files: list) -> dict:
    parts, active = sglang_files.parts_wanted(name, files), sglang_files.is_active(name)
    reasons = sglang_files.reasons(sglang_files.started_parts(name), parts) if active else []
    return {"name": name, "unit": sglang_files.unit_of(name), "active": active, "reasons": reasons, "parts": parts}


def diff_of(change: sglang_files.Change) -> dict:
    secret = change.before.path.endswith(".keys.yaml")
    if secret:
        change = change._replace(before=change.before._replace(content=change.before.content and SECRET))
    content = None if change.wanted is None else SECRET + b"changed\n" if secret else change.wanted.content
    return file_diff(change.before, content)


def result_of(params: dict, check_mode: bool) -> dict:
    wanted = wanted_of(params, check_mode) if params["state"] == "present" else []
    files = [file for _name, files in wanted for file in files]
    changed = sglang_files.changes(files, gone_of(params, wanted), check_mode)
    kept = []
    if not check_mode:
        kept = sglang_files.keep_aside(params["state_dir"], changed)
        sglang_files.apply(changed)
    named = {name for name, _files in wanted if name}
    return {
        "changed": bool(changed),
        "files": [change.before.path for change in changed],
        "diff": [diff_of(change) for change in changed],
        "instances": [instance_of(name, files) for name, _files in wanted if name],
        "edited_by_hand": [change.before.path for change in changed if change.by_hand],
        "kept": kept,
        "others": sorted(set(sglang_files.instances_on_node()) - named - set(params["names"])),
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec=dict(
            **STATE_OPTIONS,
            state={"type": "str", "choices": ["present", "absent"], "default": "present"},
            names={"type": "list", "elements": "str", "default": []},
            plans={"type": "list", "elements": "dict", "default": []},
            api_keys={"type": "dict", "default": {}, "no_log": True},
            admin_api_keys={"type": "dict", "default": {}, "no_log": True},
            version={"type": "str"},
            interpreter={"type": "path", "default": "/opt/sglang/bin/python"},
            user={"type": "str", "default": "sglang"},
            group={"type": "str", "default": "sglang"},
            start_timeout={"type": "int", "default": 3600},
            drain_timeout={"type": "int", "default": 120},
            sitecustomize={"type": "path"},
            environment={"type": "dict", "default": {}},
            generation={"type": "int"},
        ),
        supports_check_mode=True,
    )
    try:
        result = result_of(module.params, module.check_mode)
    except TuningError as error:
        module.fail_json(msg=str(error))
    for path in result["edited_by_hand"]:
        module.warn(
            f"{path}: somebody had edited it. The copy is in the state directory; settings belong into the inventory or a drop-in of your own."
        )
    for name in result["others"]:
        module.warn(
            f"{sglang_files.unit_of(name)} has files of this collection and is not in sglang_instances; it was not touched. "
            "To remove it, name it in sglang_instances and run with -e state=absent."
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
