# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve a profile on the controller; a refusal is one plain message."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.profile_directory import resolve_named


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(
            {
                "name": {"type": "str", "required": True},
                "shipped": {"type": "raw", "required": True},
                "tuning_profiles": {"type": "dict", "default": {}},
                "overrides": {"type": "dict", "default": {}},
            }
        )
        try:
            profile, warnings = resolve_named(**arguments)
        except TuningError as error:
            return {"failed": True, "msg": str(error)}
        return {"changed": False, **profile, "warnings": warnings}
