# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report the history of all nodes from the controller: a table, and the same as data in a file."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpu_node.tuning.plugins.module_utils.controller_options import HISTORY_REPORT
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_tables import history_json, history_table
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.controller import write_report

display = Display()


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(HISTORY_REPORT)
        display.display("\n".join(history_table(arguments["results"])))
        try:
            write_report("dest", arguments["dest"], history_json(arguments["results"]))
        except TuningError as error:
            return {"failed": True, "msg": str(error)}
        return {"changed": False}
