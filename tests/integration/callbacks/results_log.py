# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write every task result as one JSON line, so that a test reads data and not the output that is made for people."""

from __future__ import annotations

DOCUMENTATION = """
name: results_log
type: aggregate
short_description: One JSON line for every task result
description: Appends to the file that the environment variable RESULTS_LOG names.
requirements: []
"""

import json
import os

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "results_log"
    CALLBACK_NEEDS_ENABLED = True

    def _note(self, status, result):
        entry = {
            "status": status,
            "host": result.host.get_name(),
            "task": result.task.get_name(),
            "action": result.task.action,
            "result": result.result,
        }
        with open(os.environ["RESULTS_LOG"], "a", encoding="utf-8") as stream:
            stream.write(json.dumps(entry, default=str) + "\n")

    def v2_runner_on_ok(self, result):
        self._note("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._note("failed", result)

    def v2_runner_on_unreachable(self, result):
        self._note("unreachable", result)

    def v2_runner_on_skipped(self, result):
        self._note("skipped", result)
