# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of the module sglang_starts: say who runs it."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.controller import whoever_runs_this


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        arguments = dict(self._task.args, applied_by=whoever_runs_this())
        return self._execute_module(
            module_name="gpu_node.tuning.sglang_starts", module_args=arguments, task_vars=task_vars
        )
