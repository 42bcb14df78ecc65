#!/usr/bin/python
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: sglang_diagnose
short_description: Say why SGLang did not start, from its journal or a saved log
version_added: 0.1.0
description:
  - Looks a log up in a table of causes, and returns for each that is found the lines that show it, what to do, and which setting to change. The
    root comes before what follows from it, and what SGLang only logs comes last.
  - Reads a saved log, O(path), or the journal of a unit, O(unit). Of several starts in it the last one that says something is meant.
  - Only the end of a large log is read, and RV(truncated) says so. Bytes that are no text do no harm.
  - API keys and other secrets are hidden in everything that is returned. SGLang itself writes them into its log in clear.
author:
  - gpu_node.tuning contributors (@gpu-node)
options:
  path:
    description: Saved log, on the node. Exactly one of O(path) and O(unit) is given.
    type: path
  unit:
    description: Unit of the server.
    type: str
  since:
    description: Start of the time that is looked at, as C(journalctl --since) takes it. Only with O(unit).
    type: str
    default: ""
  exit_status:
    description:
      - Exit status of the server, 128 and more for a signal, where it is known. It decides where the log does not.
      - With O(unit), systemd is asked.
    type: int
  causes:
    description:
      - More causes, looked up before the shipped ones. One with the name of a shipped cause replaces it.
      - C(name), C(patterns) (regular expressions, tried at the start of a line, behind time, rank and level), C(cause) and C(advice) are needed;
        C(setting), C(kind) (V(root), V(consequence), V(logged)), C(also) (pattern of another line that has to be there),
        C(hides) (names of causes that this one explains), C(shows) (pattern of lines that are shown with it), C(with_traceback) (the traceback
        behind the line belongs to it) and C(exit_status) are not.
      - Named groups of the patterns can be used in C(cause), C(advice) and C(setting) as C({name}).
    type: list
    elements: dict
    default: []
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  platform:
    description: Any with Python 3.9 or newer; O(unit) needs systemd.
    support: full
    platforms: posix
seealso:
  - module: gpu_node.tuning.sglang_ready
"""

EXAMPLES = r"""
# ansible localhost -m gpu_node.tuning.sglang_diagnose -a path=/tmp/sglang.log
- name: Ask why the instance did not start
  gpu_node.tuning.sglang_diagnose:
    unit: sglang@kimi.service
  register: diagnosis

- name: Show what was found
  gpu_node.tuning.show_lines:
    lines: "{{ diagnosis.lines }}"

- name: Look for a cause of our own, too
  gpu_node.tuning.sglang_diagnose:
    path: /tmp/sglang.log
    causes:
      - name: licence
        patterns: ['.*LicenceError: (?P<why>.*)']
        cause: "The licence server refused: {why}"
        advice: Ask the licence team.
"""

RETURN = r"""
findings:
  description: What was found, most likely first. Empty for a server that started.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the cause in the table; V(unrecognised) for an error that the table does not have, V(no_words) for an end without words.
      type: str
      sample: fraction_too_low
    cause:
      description: What happened.
      type: str
    lines:
      description: The lines of the log that show it, at most six, without time and rank.
      type: list
      elements: str
      sample: ["RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."]
    advice:
      description: What to do.
      type: str
    setting:
      description: Which setting to change - C(args.NAME) of the instance, another of its keys, or a variable of the role. Empty where it is no setting.
      type: str
      sample: args.mem_fraction_static (higher)
    kind:
      description: V(root) ends a start by itself, V(consequence) follows from something else, with V(logged) SGLang goes on.
      type: str
      sample: root
lines:
  description: The same for a person.
  returned: success
  type: list
  elements: str
phase:
  description: How far the start had come - C(name), C(done), C(total), C(sentence).
  returned: success
  type: dict
  sample: {name: failed, done: 3, total: 64, sentence: "it failed after: weights 3/64"}
truncated:
  description: Whether the beginning of the log was left out because it is too large.
  returned: success
  type: bool
exit_status:
  description: The exit status that the diagnosis went by; null where it is not known.
  returned: success
  type: int
unit_state:
  description: The unit as systemd sees it.
  returned: with O(unit)
  type: str
  sample: failed (failed, exit status 137, result signal)
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    sglang_diagnosis,
    sglang_log,
    sglang_phase,
    sglang_unit,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError


def read(params: dict) -> tuple:
    """(text, whether it was cut, exit status or None, unit or None). Raises TuningError."""
    if params["path"] is not None:
        if params["since"]:
            raise TuningError(f"since: {params['since']!r} goes with unit; a saved log is read from its end.")
        try:
            text, cut = sglang_log.read_log(params["path"])
        except OSError as error:
            raise TuningError(
                f"path {params['path']}: cannot be read: {error.strerror}. Legal: a plain file on the node, such as one that "
                "`journalctl -u UNIT > FILE` wrote."
            ) from error
        return text, cut, params["exit_status"], None
    unit = sglang_unit.unit_of(params["unit"])
    text, cut = sglang_unit.journal(unit, since=params["since"])
    status = params["exit_status"] if params["exit_status"] is not None else unit.exit_status
    return sglang_unit.kernel_words(unit) + text, cut, status, unit


def answer_for(params: dict) -> dict:
    causes = sglang_diagnosis.with_more(params["causes"])
    text, cut, status, unit = read(params)
    text = sglang_log.redacted(text)
    findings = sglang_diagnosis.diagnose(text, status, causes)
    lines = sglang_diagnosis.in_lines(findings) or ["No cause of a failed start was found in the log."]
    if cut:
        lines.append("Only the end of the log was read; what came before is not in this.")
    answer = {
        "findings": sglang_diagnosis.as_dicts(findings),
        "lines": lines,
        "phase": sglang_phase.phase(text)._asdict(),
        "truncated": cut,
        "exit_status": status,
    }
    return dict(answer, unit_state=unit.words) if unit else answer


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "unit": {"type": "str"},
            "since": {"type": "str", "default": ""},
            "exit_status": {"type": "int"},
            "causes": {"type": "list", "elements": "dict", "default": []},
        },
        mutually_exclusive=[("path", "unit")],
        required_one_of=[("path", "unit")],
        supports_check_mode=True,
    )
    try:
        answer = answer_for(module.params)
    except TuningError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
