# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The software of a start: the service's interpreter, the SGLang that it has, and what SGLang's own parser says of a configuration."""

from __future__ import annotations

import functools
import os
from typing import NamedTuple

from ansible_collections.gpu_node.tuning.plugins.module_utils.bounded_child import ChildFailed, call_as
from ansible_collections.gpu_node.tuning.plugins.module_utils.check_verdict import OK, REFUSED, UNKNOWN, WARNING, Check
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter, Service
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import side_by_side
from ansible_collections.gpu_node.tuning.plugins.module_utils.service_resources import hidden_from_unit
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_options import KNOWN_VERSIONS

# What SGLang raises where it does not like a value.
JUDGEMENTS = ("SystemExit", "ValueError", "AssertionError", "NotImplementedError", "TypeError")
INSTALL = "Install it (sglang_install: true), or name the interpreter that has it (sglang_interpreter)."
NOTHING = {"version": None, "architectures": []}


class Starter(NamedTuple):
    """How the interpreter is started. ``account``: the passwd entry of the service's user, None for this one; limits in seconds."""

    executable: str
    account: object
    limit: float
    probe_timeout: float

    def interpreter(self, environment: dict) -> Interpreter:
        user = self.account.pw_name if self.account is not None and os.geteuid() in (0, self.account.pw_uid) else None
        return Interpreter(self.executable, Service(environment, user), self.probe_timeout)


def check_software(starter: Starter, environment: dict) -> tuple:
    """(Check, what the interpreter says of its SGLang)."""
    if not os.path.exists(starter.executable):
        return Check("sglang", REFUSED, f"interpreter {starter.executable}: is not there. {INSTALL}"), NOTHING
    if not _may_start(starter):
        user = starter.account.pw_name if starter.account else os.geteuid()
        why = (
            f"interpreter {starter.executable}: user {user} may not start it. Let this user read and execute it (chmod a+rX), also the "
            "Python that it is made from and the directories above; or install it anew (sglang_install: true)."
        )
        return Check("sglang", REFUSED, why), NOTHING
    try:
        found = starter.interpreter(environment).sglang({"ask": "version"})
    except TuningError as error:
        return Check("sglang", REFUSED, str(error)), NOTHING
    if found["version"] is None:
        return Check("sglang", REFUSED, f"interpreter {starter.executable}: has no SGLang. {INSTALL}"), NOTHING
    told = f"SGLang {found['version']} in {starter.executable}"
    below = hidden_from_unit(starter.executable, starter.executable.rpartition("/bin/")[0] or None)
    if below:
        why = f"{told}: {below}. Make the environment elsewhere, for instance below /opt, from a Python that lies elsewhere, too (sglang_interpreter)."
        return Check("sglang", REFUSED, why), found
    if found["version"] not in KNOWN_VERSIONS:
        known = ", ".join(KNOWN_VERSIONS)
        return Check(
            "sglang", WARNING, f"{told}; its options are judged like those of the versions that are known ({known})"
        ), found
    return Check("sglang", OK, told), found


def _may_start(starter: Starter) -> bool:
    try:
        account = starter.account if os.geteuid() == 0 else None
        return call_as(account, lambda: os.access(starter.executable, os.X_OK), starter.limit)
    except ChildFailed:
        return True  # whoever starts it gets the reason


def check_configurations(starter: Starter, plans: list, installed: dict) -> list:
    """A Check for each plan (None: there is none): SGLang's own parser is asked, for all of them at the same time."""
    if installed["version"] is None:
        return [Check("parser", UNKNOWN, "SGLang's own parser was not asked: there is none") for _plan in plans]
    asking = {number: functools.partial(_ask_parser, starter, plan) for number, plan in enumerate(plans) if plan}
    said = side_by_side(asking) if asking else {}
    refused = Check("parser", UNKNOWN, "SGLang's own parser was not asked: the options are refused already")
    return [said.get(number, refused) for number in range(len(plans))]


def _ask_parser(starter: Starter, plan: dict) -> Check:
    try:
        said = starter.interpreter(plan["environment"]).sglang(_question(plan))
    except TuningError as error:
        return Check("parser", UNKNOWN, f"SGLang's own parser gave no answer: {error}")
    if said["accepted"]:
        return Check("parser", OK, "SGLang's own parser takes the configuration")
    if said["stage"] == "import":
        return Check(
            "parser",
            REFUSED,
            f"SGLang cannot be imported: {said['message']}. Mend the installation of {starter.executable}.",
        )
    if said["kind"] not in JUDGEMENTS:
        # It may have wanted the network, or a file that the check of the model names.
        return Check(
            "parser", UNKNOWN, f"SGLang's own parser failed, which may be for another reason: {said['message']}"
        )
    return Check(
        "parser",
        REFUSED,
        f"SGLang's own parser refuses the configuration: {said['message']}. Change args of this instance.",
    )


def _question(plan: dict) -> dict:
    """The command's own words, with another file in the place of one that may not be there yet."""
    command = plan["command"]
    place = command.index("--config")
    return {"ask": "parse", "config_text": plan["config_text"], "words": command[place + 2 :]}
