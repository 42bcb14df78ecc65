#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: p2p_probe
short_description: Move data between every pair of GPUs and check every word
version_added: 0.1.0
description:
  - For every ordered pair of GPUs, data goes from the first to the second in two ways. A peer copy is read back by the host. Then a kernel
    on the first GPU stores words and flags into the memory of the second, where a kernel polls for the flags and compares the words.
  - C(nvidia-smi topo -p2p) says what the driver allows, not that data arrives. Stores can be lost, or hang, where copies are right.
  - Each pair is tried in a process of its own with a hard time limit. One that hangs is killed with everything that it started, its pair is
    named, and pairs without these two GPUs are still tried.
  - Needs the driver's C(libcuda.so.1) and a Python, no CUDA toolkit and no torch. GPUs that are in use are no hindrance as long as they have
    memory for one more CUDA context.
  - Never changes anything, and never fails because of what it finds. The verdict is in RV(verdict), and whoever calls decides.
author:
  - gpu_node.tuning contributors (@gpu-node)
options:
  interpreter:
    description:
      - Absolute path of the Python that runs the probe, on the node. Python 3.9 or newer with C(ctypes).
      - Without it, the one that runs the module.
    type: path
  timeout:
    description: Time limit of one pair, in seconds, from 1 to 600.
    type: float
    default: 20
  total_timeout:
    description:
      - Time limit of the whole, in seconds, from 1 to 86400. Pairs that it leaves no time for are V(not_tried).
      - The module ends at most ten seconds later, where a process that was killed cannot be ended.
    type: float
    default: 600
attributes:
  check_mode:
    description: Writes nothing in any mode.
    support: partial
    details: Probes nothing in check mode, because a probe loads the GPUs. A warning says so, and RV(verdict) is V(not_run).
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  platform:
    description: Linux nodes with Python 3.9 or newer.
    support: full
    platforms: linux
"""

EXAMPLES = r"""
- name: Move data between the GPUs
  gpu_node.tuning.p2p_probe:
  register: probed

- name: Refuse a node whose GPUs do not reach each other
  ansible.builtin.fail:
    msg: "{{ probed.problems }}"
  when: probed.verdict not in ['ok', 'not_run']
"""

RETURN = r"""
verdict:
  description:
    - V(ok) - every word arrived for every ordered pair, by copies and by stores.
    - V(failed) - data was wrong, or a process hung, failed, or could not be tried.
    - V(not_possible) - nothing was found to be broken, but peer access is not there - no driver, one GPU, or the driver offers none.
    - V(no_gpus) - CUDA shows no GPU.
    - V(not_run) - check mode.
  returned: always
  type: str
  sample: ok
msg:
  description: Why nothing was probed.
  returned: in check mode
  type: str
problems:
  description: One sentence for each thing that is not as it should be, with its pair.
  returned: always
  type: list
  elements: str
  sample:
    - "GPU 0 -> GPU 1: store: hung, and was stopped after 20.0 s, while stores were under way."
pairs:
  description: Every ordered pair, in the order of the attempts.
  returned: always
  type: list
  elements: dict
  contains:
    source:
      description: Number of the GPU that sent, as C(nvidia-smi) counts.
      type: int
    destination:
      description: Number of the GPU that received.
      type: int
    stage_copy:
      description:
        - V(ok), V(wrong), V(refused), V(hung), V(error) or V(not_tried).
        - What goes wrong before the first copy, while the GPUs are opened, counts here.
      type: str
    stage_store:
      description: The same for stores and polls of the SMs. What goes wrong after them, while the GPUs are closed, counts here.
      type: str
    detail:
      description: What was not as it should be; empty where all was.
      type: str
    seconds:
      description: How long the pair took.
      type: float
  sample:
    - {source: 0, destination: 1, stage_copy: ok, stage_store: ok, detail: "", seconds: 1.5}
gpus:
  description: The GPUs that CUDA shows - index, name, pci_address.
  returned: always
  type: list
  elements: dict
left_running:
  description: Process ids of what SIGKILL did not end. Such a process waits inside the driver, and often only a restart of the node ends it.
  returned: always
  type: list
  elements: int
  sample: []
"""

import os
import sys

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import number_in
from ansible_collections.gpu_node.tuning.plugins.module_utils.p2p_probe import Limits, probe

IN_CHECK_MODE = "p2p_probe moved no data in check mode, because that loads the GPUs. Whether data arrives is not known."
NOT_RUN = {"verdict": "not_run", "gpus": [], "pairs": [], "problems": [], "left_running": []}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "interpreter": {"type": "path"},
            "timeout": {"type": "float", "default": 20},
            "total_timeout": {"type": "float", "default": 600},
        },
        supports_check_mode=True,
    )
    try:
        interpreter, limits = _asked(module.params)
        if module.check_mode:
            module.warn(IN_CHECK_MODE)
            module.exit_json(changed=False, msg=IN_CHECK_MODE, **NOT_RUN)
        result = probe(interpreter, limits)
    except TuningError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


def _asked(params: dict) -> tuple:
    interpreter = params["interpreter"] or sys.executable
    if not os.path.isabs(interpreter):
        raise TuningError(
            f"interpreter {interpreter!r}: legal: an absolute path, or nothing for the Python that runs the module."
        )
    limits = Limits(
        number_in("timeout", params["timeout"], 1, 600), number_in("total_timeout", params["total_timeout"], 1, 86400)
    )
    return interpreter, limits


if __name__ == "__main__":
    main()
