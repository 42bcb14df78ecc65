# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve a profile on the controller, and match it against the node where that is wanted; a refusal is one plain message."""

from __future__ import annotations

from functools import partial

from ansible.plugins.action import ActionBase
from ansible_collections.gpu_node.tuning.plugins.module_utils.controller_options import RESOLVE_PROFILE
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_admission import OFF, Policy, admit
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.profile_directory import names_that_fit, resolve_named


class LookFailed(Exception):
    """A module that looks at the node gave no answer; ``result`` is what it gave."""

    def __init__(self, result):
        super().__init__(result.get("msg"))
        self.result = result


class ActionModule(ActionBase):
    _requires_connection = False  # none is needed to resolve a profile; a look at the node opens it

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(RESOLVE_PROFILE)
        arguments["allow_risk"] = [name.strip() for name in arguments["allow_risk"] if name.strip()]
        policy = Policy(**{name: arguments.pop(name) for name in Policy._fields})
        look, allow_probe = arguments.pop("look"), arguments.pop("allow_probe")
        try:
            profile, warnings = resolve_named(**arguments)
            facts = self._facts(policy, look, allow_probe, task_vars)
            fitting = partial(names_that_fit, facts, arguments["shipped"], arguments["tuning_profiles"])
            admitted = admit(profile, facts, policy, fitting)
        except LookFailed as error:
            return error.result
        except TuningError as error:
            return {"failed": True, "msg": str(error)}
        found = {"hardware": admitted.hardware, "memory": admitted.memory, "notes": admitted.notes}
        return {"changed": False, **profile, **found, "warnings": warnings + admitted.warnings}

    def _facts(self, policy, look, allow_probe, task_vars):
        """What the node says of itself, as far as that is asked for. A task of its own for each would cost every run that does not ask."""
        facts = {}
        if policy.admission and policy.hardware_check != OFF:
            facts = self._ask("gpu_facts", look, task_vars)["ansible_facts"]["gpu_node"]
        if policy.admission and allow_probe:
            facts = {**facts, "p2p_probe": self._ask("p2p_probe", {}, task_vars)}
        return facts

    def _ask(self, module, arguments, task_vars):
        result = self._execute_module(
            module_name=f"gpu_node.tuning.{module}", module_args=arguments, task_vars=task_vars
        )
        if result.get("failed") or result.get("unreachable"):
            raise LookFailed(result)
        return result
