# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve a profile on the controller, and match it against the node's facts; a refusal is one plain message."""

from __future__ import annotations

from functools import partial

from ansible.plugins.action import ActionBase
from ansible_collections.gpu_node.tuning.plugins.module_utils.controller_options import RESOLVE_PROFILE
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_admission import OFF, Policy, admit
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.profile_directory import names_that_fit, resolve_named


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(RESOLVE_PROFILE)
        facts, probe = arguments.pop("facts"), arguments.pop("probe")
        arguments["allow_risk"] = [name.strip() for name in arguments["allow_risk"] if name.strip()]
        policy = Policy(**{name: arguments.pop(name) for name in Policy._fields})
        if facts is None and policy.admission and policy.hardware_check != OFF:
            return {"failed": True, "msg": f"facts: missing. Legal: the result of gpu_facts, or hardware_check: {OFF}."}
        if probe is not None:
            facts = {**(facts or {}), "p2p_probe": probe}
        try:
            profile, warnings = resolve_named(**arguments)
            fitting = partial(names_that_fit, facts, arguments["shipped"], arguments["tuning_profiles"])
            admitted = admit(profile, facts, policy, fitting)
        except TuningError as error:
            return {"failed": True, "msg": str(error)}
        found = {"hardware": admitted.hardware, "memory": admitted.memory, "notes": admitted.notes}
        return {"changed": False, **profile, **found, "warnings": warnings + admitted.warnings}
