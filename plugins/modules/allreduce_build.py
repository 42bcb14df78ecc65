#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: allreduce_build
short_description: Build the custom all-reduce with the node's CUDA compiler and install it for one interpreter
version_added: 0.1.0
description:
  - Looks at the node first; where the kernel cannot work or cannot be built, it says why in one message and changes nothing.
  - Builds and tries the package in a scratch directory, and only then installs it with C(pip install --no-deps --no-index).
  - An installed build is current when source, compiler, driver, torch, compute capability and flags are the same, and none of its files
    is missing; then nothing happens.
  - The engine does not use it yet; M(gpu_node.tuning.allreduce_tune) proves and measures it, and decides.
author:
  - gpu_node.tuning contributors (@gpu-node)
options:
  state:
    description: V(absent) removes the package, its table and every other trace of it from the interpreter's environment.
    type: str
    choices: [present, absent]
    default: present
  src:
    description:
      - Folder of the project on the controller, found as M(ansible.builtin.copy) finds it.
      - The action plugin of the same name packs it; the module itself does not see this option.
    type: path
    default: pcie_allreduce
  source:
    description: The packed project. The action plugin sets it.
    type: str
  interpreter:
    description: Absolute path of the Python that runs the engine, on the node.
    type: path
    required: true
  facts:
    description: What M(gpu_node.tuning.gpu_facts) returned as C(ansible_facts.gpu_node), with the versions of O(interpreter).
    type: dict
  service_environment:
    description: Environment of the engine, name to value. Looked at, not used for the build.
    type: dict
    default: {}
  nvcc:
    description: Absolute path of CUDA's compiler. Empty to look for one in the usual folders and among NVIDIA's Python packages.
    type: path
    default: ""
  transport:
    description:
      - How data gets to the other GPUs. V(peer) writes into their memory, V(host_staged) goes through the memory of the host.
      - V(auto) is V(peer) where the driver says that all GPUs reach each other.
    type: str
    choices: [auto, peer, host_staged]
    default: auto
  nvlink:
    description: Build also where NVLink connects the GPUs. SGLang has kernels of its own for those.
    type: bool
    default: false
  longest_bytes:
    description: Longest message that will be measured, in bytes; C(/dev/shm) has to hold it for all GPUs with V(host_staged).
    type: int
    default: 917504
  world:
    description: Number of GPUs that exchange data; V(0) for all that the engine sees.
    type: int
    default: 0
  question:
    description:
      - What M(gpu_node.tuning.allreduce_tune) will be asked - C(rows), C(hidden), C(margin), C(world) and C(timeout). The action plugin of the
        same name refuses what makes no sense, before anything is built.
      - It sets O(longest_bytes) and O(world); the module itself does not see this option.
    type: dict
  build_timeout:
    description: Time limit of every command of the build, in seconds. One that hangs is ended with all its children.
    type: float
    default: 600
  probe_timeout:
    description: Time limit of the start of the interpreter that tells its folders, in seconds.
    type: float
    default: 20
extends_documentation_fragment:
  - gpu_node.tuning.long_run
attributes:
  check_mode:
    description: Writes nothing and compiles nothing; predicts whether it would build, and why.
    support: full
  diff_mode:
    description: Shows the stamp before and after.
    support: full
  platform:
    description: Linux nodes with Python 3.9 or newer.
    support: full
    platforms: linux
  action:
    description: The project is read on the controller.
    support: full
seealso:
  - module: gpu_node.tuning.allreduce_tune
  - module: gpu_node.tuning.gpu_facts
"""

EXAMPLES = r"""
- name: Look at the node
  gpu_node.tuning.gpu_facts:
    interpreter: /opt/sglang/bin/python

- name: Build and install
  gpu_node.tuning.allreduce_build:
    interpreter: /opt/sglang/bin/python
    facts: "{{ ansible_facts['gpu_node'] }}"

- name: Remove every trace
  gpu_node.tuning.allreduce_build:
    interpreter: /opt/sglang/bin/python
    state: absent
"""

RETURN = r"""
reasons:
  description: Why it was built, or would be in check mode; empty where the installed build is current.
  returned: with O(state=present)
  type: list
  elements: str
  sample: ["nvcc: was 12.8.93, is 13.0.88"]
stamp:
  description: What the build was made from - C(source), C(nvcc), C(driver), C(torch), C(sm), C(flags), C(date) and the C(digest) of all but the date.
  returned: with O(state=present)
  type: dict
transport:
  description: V(peer) or V(host_staged).
  returned: with O(state=present)
  type: str
  sample: peer
world:
  description: Number of GPUs that exchange data.
  returned: with O(state=present)
  type: int
  sample: 8
gpu:
  description: Model of the GPUs.
  returned: with O(state=present)
  type: str
  sample: NVIDIA RTX PRO 6000 Blackwell Server Edition
remarks:
  description: What a person should know about the node.
  returned: with O(state=present)
  type: list
  elements: str
nvcc:
  description: The compiler that was found.
  returned: with O(state=present)
  type: str
  sample: /usr/local/cuda/bin/nvcc
package:
  description: Folder of the package on the node.
  returned: always
  type: str
  sample: /opt/sglang/lib/python3.12/site-packages/pcie_allreduce
"""

import datetime
import json

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    allreduce_nvcc,
    allreduce_project,
    allreduce_stamp,
    long_run,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_environment import (
    Compiler,
    Environment,
    environment_of,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_preflight import Wanted, preflight
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import (
    number_in,
    probe_timeout,
    text_values,
)


def present(module: AnsibleModule, place: Environment) -> dict:
    params = module.params
    if params["facts"] is None or params["source"] is None:
        raise TuningError(
            "facts, source: missing; legal: both with state present. The role custom_allreduce sets them."
        )
    facts = params["facts"]
    environment = text_values("service_environment", params["service_environment"])
    wanted = Wanted(params["transport"], params["nvlink"], params["longest_bytes"], params["world"])
    verdict = preflight(facts, environment, wanted)
    refuse(verdict.refusals)
    nvcc = allreduce_nvcc.find(params["nvcc"], place.packages)
    refuse(filter(None, [allreduce_nvcc.refusal(nvcc, verdict.capability)]))
    files = allreduce_project.unpack(params["source"])
    stamp = allreduce_stamp.stamp(
        files, nvcc.text, facts["driver"]["version"], facts["software"]["torch"], verdict.capability, now()
    )
    found = place.stamp()
    reasons = allreduce_stamp.reasons_to_build(found, stamp) or place.faults()
    result = {
        "changed": bool(reasons),
        "reasons": reasons,
        "stamp": stamp if reasons else found,
        "transport": verdict.transport,
        "world": verdict.world,
        "gpu": verdict.gpu,
        "remarks": verdict.remarks,
        "nvcc": nvcc.path,
        "diff": {"before": shown(found), "after": shown(stamp if reasons else found)},
        "package": place.folder,
    }
    if not reasons or module.check_mode:
        return result

    def install(progress: str) -> dict:
        place.install(files, stamp, Compiler(nvcc.path, verdict.capability), long_run.say_into(progress))
        return result

    return long_run.carry_out(
        module, install, abandon=False
    )  # a pip that is stopped half way would cost the old package


def absent(module: AnsibleModule, place: Environment) -> dict:
    found = place.traces
    changed = bool(found)
    if found and not module.check_mode:
        with place.alone():
            changed = place.remove()
    diff = {"before": "".join(f"{path}\n" for path in found), "after": ""}
    return {"changed": changed, "diff": diff, "package": place.folder}


def done(module: AnsibleModule) -> dict:
    if module.params["run"]:
        return long_run.answer(module, module.params["run"], module.params["seen"])
    params = module.params
    timeout = number_in(
        "build_timeout (role variable custom_allreduce_build_timeout)", params["build_timeout"], 0.1, 86400
    )
    place = environment_of(params["interpreter"], probe_timeout(params), timeout)
    return present(module, place) if params["state"] == "present" else absent(module, place)


def refuse(reasons) -> None:
    reasons = list(reasons)
    if reasons:
        raise TuningError("\n".join(reasons))


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def shown(stamp) -> str:
    return json.dumps(stamp, indent=2) + "\n" if stamp else ""


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "src": {"type": "path", "default": "pcie_allreduce"},
            "source": {"type": "str"},
            "interpreter": {"type": "path", "required": True},
            "facts": {"type": "dict"},
            "service_environment": {"type": "dict", "default": {}},
            "nvcc": {"type": "path", "default": ""},
            "transport": {"type": "str", "choices": ["auto", "peer", "host_staged"], "default": "auto"},
            "nvlink": {"type": "bool", "default": False},
            "longest_bytes": {"type": "int", "default": 917504},
            "world": {"type": "int", "default": 0},
            "question": {"type": "dict"},
            "build_timeout": {"type": "float", "default": 600},
            "probe_timeout": {"type": "float", "default": 20},
            **long_run.OPTIONS,
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**done(module))
    except TuningError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
