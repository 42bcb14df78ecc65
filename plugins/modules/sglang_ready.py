#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_ready
short_description: Wait until SGLang is ready, with visible progress, and let it prove that it works
version_added: 0.1.0
description:
  - Waits for C(/health) of a server. While it waits, it prints elapsed time, phase and GPU memory, a line whenever the phase changes and at
    least every 30 seconds.
  - Ready is what answers, never what the log says. With O(unit), the socket that answers has to belong to the unit; another server on the
    same port ends the wait at once.
  - Fails at once when the unit has failed or is being started anew, with the cause from its journal in the message.
  - Then asks for a generation with temperature 0 that has to come out equal twice, and on request for speculation, models and metrics.
  - Changes nothing. In check mode the server is not asked, and RV(ready) is null.
author:
  - gpu_node.tuning contributors (@gpu-node)
options:
  host:
    description: Address that the server listens on, as it was told. One that means all interfaces is reached through the loopback one.
    type: str
    default: 127.0.0.1
  port:
    description: Port of the server.
    type: int
    default: 30000
  unit:
    description:
      - Unit of the server. Without it there is no phase, no diagnosis, and no proof that the answer is this server's.
    type: str
    default: ""
  timeout:
    description: Seconds to wait for the server altogether. The proofs that follow have a limit of 300 seconds for each answer.
    type: float
    default: 3600
  interval:
    description: Longest time between two questions of the controller, in seconds. In between, the node looks once a second.
    type: float
    default: 10
  generate:
    description: Whether to ask for a generation. An embedding model has none.
    type: bool
    default: true
  speculative:
    description: Whether speculation has to be on - C(spec_verify_ct) of a generation above 0.
    type: bool
    default: false
  models:
    description: Names that C(/v1/models) has to list.
    type: list
    elements: str
    default: []
  metrics:
    description: Whether C(/metrics) has to answer with SGLang's metrics.
    type: bool
    default: false
  api_key:
    description: Key of the server, sent as a header.
    type: str
    default: ""
  causes:
    description: More causes for the diagnosis, as in M(gpu_node.tuning.sglang_diagnose).
    type: list
    elements: dict
    default: []
  followed:
    description: What earlier rounds of the same wait saw. Set by the action plugin.
    type: dict
    default: {}
attributes:
  action:
    description: The controller asks the node in short rounds, and prints in between.
    support: full
  check_mode:
    description: Does not ask the server; RV(ready) is null.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  platform:
    description: Linux nodes with Python 3.9 or newer. O(unit) needs systemd.
    support: full
    platforms: linux
seealso:
  - module: gpu_node.tuning.sglang_diagnose
notes:
  - As root, or as the server's user, it can be found out whose socket answers. Other users get a remark in RV(remarks).
"""

EXAMPLES = r"""
- name: Wait for an instance, and see that speculation is on
  gpu_node.tuning.sglang_ready:
    unit: sglang@kimi.service
    port: 30000
    speculative: true
    api_key: "{{ vault_sglang_key }}"

- name: Ask a server that no unit runs
  gpu_node.tuning.sglang_ready:
    host: 10.0.0.5
    timeout: 30
    models: [moonshotai/Kimi-K2.5]
"""

RETURN = r"""
ready:
  description: Whether the server is ready and has proved it; null in check mode.
  returned: always
  type: bool
elapsed:
  description: Seconds that were waited, proofs included.
  returned: always
  type: float
  sample: 612.4
phases:
  description: The phases that were seen - C(name), C(sentence), and the second (C(since)) at which each was seen first.
  returned: always
  type: list
  elements: dict
  sample:
    - {name: weights, sentence: weights 3/64, since: 31.2}
phase:
  description: The last phase - C(name) (V(starting), V(weights), V(kv_cache), V(graphs), V(warm_up), V(ready) or V(failed)), C(done), C(total), C(sentence).
  returned: when the server was asked
  type: dict
generation:
  description: The generation - C(text), C(tokens), C(seconds) of the last request, C(first_seconds) of the first, C(equal), C(requests).
  returned: always
  type: dict
spec_verify_ct:
  description: How often the model verified drafts in the last generation; above 0 where speculation is on, null where SGLang does not say.
  returned: always
  type: int
spec_accept_length:
  description: Tokens for each verification.
  returned: always
  type: float
models:
  description: What C(/v1/models) lists, with O(models).
  returned: always
  type: list
  elements: str
metrics:
  description: True where C(/metrics) answered, with O(metrics).
  returned: always
  type: bool
gpu_memory:
  description: C(used_mib) and C(total_mib) of each GPU at the end; empty where nvidia-smi does not say.
  returned: when the server was asked
  type: list
  elements: dict
unit_state:
  description: The unit as systemd sees it - C(active), C(sub), C(result), C(restarts), C(exit_status), C(main_pid), C(invocation).
  returned: with O(unit)
  type: dict
diagnosis:
  description: Findings from the journal when it failed or the time was over, as M(gpu_node.tuning.sglang_diagnose) returns them.
  returned: always
  type: list
  elements: dict
remarks:
  description: What could not be looked at.
  returned: always
  type: list
  elements: str
health:
  description: What C(/health) said last.
  returned: when the server was asked
  type: str
  sample: status 200
over:
  description: Why waiting made no sense any more.
  returned: when the server was asked
  type: str
followed:
  description: For the next round of the action plugin.
  returned: when the server was asked
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_diagnosis, sglang_ready, sglang_unit
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import number_in
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_http import Server
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_proof import NotProved, Wanted

ANSWER_LIMIT = 300  # seconds for one answer of a proof
NOTHING = {
    "generation": None,
    "spec_verify_ct": None,
    "spec_accept_length": None,
    "models": None,
    "metrics": None,
    "diagnosis": [],
    "remarks": [],
    "phases": [],
    "elapsed": 0.0,
}


def refuse(params: dict) -> tuple:
    """The table of causes. Raises TuningError for options that make no sense."""
    number_in("port", params["port"], 1, 65535)
    number_in("timeout", params["timeout"], 1, 86400)
    number_in("interval", params["interval"], 0.5, 60)
    if any(character in params["host"] for character in "/ \n\t"):
        raise TuningError(f"host: {params['host']!r}; legal: an address or a name, such as 127.0.0.1.")
    if any(not " " <= character <= "~" for character in params["api_key"]):
        raise TuningError(
            "api_key: has a character that no header can carry, such as the end of a line; legal: printable ASCII."
        )
    if params["unit"]:
        params["unit"] = sglang_unit.checked(params["unit"])
    return sglang_diagnosis.with_more(params["causes"])


def answer_of_round(params: dict, causes: tuple) -> dict:
    """What the controller gets of one round. ``failed`` only where the wait is over."""
    before = params["followed"]
    followed = sglang_ready.Followed(
        str(before.get("invocation", "")), int(before.get("restarts", 0)), str(before.get("phase", ""))
    )
    server = Server(params["host"], params["port"], params["api_key"])
    last = bool(before.get("last"))
    seen = sglang_ready.one_round(server, params["unit"], followed, 0 if last else params["interval"])
    unit = seen.unit
    # What systemd has yet to start has the number of the start before.
    invocation = followed.invocation or (unit.invocation if unit and not unit.waits_for_its_turn else "")
    answer = {
        **NOTHING,
        "ready": seen.ready,
        "phase": seen.phase._asdict(),
        "health": seen.health,
        "over": seen.over,
        "remarks": seen.remarks,
        "gpu_memory": sglang_ready.gpu_memory(),
        "followed": {
            "invocation": invocation,
            "restarts": unit.restarts if unit and not followed.invocation else followed.restarts,
            "phase": sglang_ready.told(seen.phase),
        },
    }
    if unit:
        state = unit._asdict()
        answer["unit_state"] = {
            name: value for name, value in state.items() if name not in ("control_group", "started", "job")
        }
    if seen.ready:
        try:
            wanted = Wanted(params["generate"], params["speculative"], params["models"], params["metrics"])
            answer.update(sglang_ready.prove(server, wanted, ANSWER_LIMIT))
        except NotProved as error:
            answer.update(ready=False, over=f"{server.url} answers, but {error}")
    if answer["over"] or (last and not seen.ready):
        answer["diagnosis"] = sglang_diagnosis.as_dicts(sglang_ready.diagnosis(unit, invocation, causes))
    return answer


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "default": "127.0.0.1"},
            "port": {"type": "int", "default": 30000},
            "unit": {"type": "str", "default": ""},
            "timeout": {"type": "float", "default": 3600},
            "interval": {"type": "float", "default": 10},
            "generate": {"type": "bool", "default": True},
            "speculative": {"type": "bool", "default": False},
            "models": {"type": "list", "elements": "str", "default": []},
            "metrics": {"type": "bool", "default": False},
            "api_key": {"type": "str", "default": "", "no_log": True},
            "causes": {"type": "list", "elements": "dict", "default": []},
            "followed": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    try:
        causes = refuse(module.params)
        if module.check_mode:
            module.exit_json(changed=False, ready=None, msg="In check mode the server is not asked.", **NOTHING)
        answer = answer_of_round(module.params, causes)
    except TuningError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
