# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of the module allreduce_tune: show how far proof and measurement are, which take minutes."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpu_node.tuning.plugins.module_utils import long_run

MODULE = "gpu_node.tuning.allreduce_tune"

display = Display()


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        host = (task_vars or {}).get("inventory_hostname", "")

        def ask(options: dict) -> dict:
            given = dict(self._task.args) | options
            return self._execute_module(module_name=MODULE, module_args=given, task_vars=task_vars)

        return long_run.follow(ask, lambda lines: [display.display(f"{host}: {line}") for line in lines])
