# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report the drift of all nodes from the controller: one computation for the table, the file and the metrics."""

from __future__ import annotations

import os

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpu_node.tuning.plugins.module_utils.controller_options import DRIFT_REPORT
from ansible_collections.gpu_node.tuning.plugins.module_utils.drift_report import (
    as_json,
    as_metrics,
    as_table,
    drift_report,
    drifting,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.controller import write_report

METRICS_FILE = "gpu_node_tuning.prom"

display = Display()


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        _result, arguments = self.validate_argument_spec(DRIFT_REPORT)
        report = drift_report(arguments["results"])
        display.display("\n".join(as_table(report)))
        try:
            write_report("dest", arguments["dest"], as_json(report))
            if arguments["textfile_dir"]:
                metrics = os.path.join(arguments["textfile_dir"], METRICS_FILE)
                write_report("textfile_dir", metrics, as_metrics(report))
        except TuningError as error:
            return {"failed": True, "msg": str(error)}
        return {"changed": False, "drift": report["drift"], "drifting": drifting(report)}
