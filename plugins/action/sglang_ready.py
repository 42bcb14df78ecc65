# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of the module sglang_ready: ask the node round after round, so that a person sees how far the server is."""

from __future__ import annotations

import time

from ansible.plugins.action import ActionBase
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_progress import (
    Progress,
    failure,
    why_too_long,
)

MODULE = "gpu_node.tuning.sglang_ready"
DEFAULT_TIMEOUT = 3600.0


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        arguments = {name: value for name, value in self._task.args.items() if name != "followed"}
        host = (task_vars or {}).get("inventory_hostname", "")
        progress = Progress(" ".join(word for word in (host, str(arguments.get("unit", ""))) if word), time.monotonic)
        followed = {}
        while True:
            last = progress.elapsed() >= _timeout(arguments)
            result = self._execute_module(
                module_name=MODULE,
                module_args=dict(arguments, followed=dict(followed, last=last)),
                task_vars=task_vars,
            )
            if result.get("failed") or "over" not in result:
                return dict(
                    result, elapsed=progress.elapsed(), phases=progress.phases
                )  # a bad option, an unreachable node, check mode
            followed = result.pop("followed")
            line = progress.line(result)
            if line:
                self._display.display(line)
            if result["ready"] or result["over"] or last:
                return self._ended(result, progress, arguments)

    def _ended(self, result, progress, arguments):
        result.update(elapsed=progress.elapsed(), phases=progress.phases)
        result.get("invocation", {}).get("module_args", {}).pop("followed", None)
        over = result.pop("over")
        if not result["ready"]:
            why = over or why_too_long(result, _timeout(arguments))
            result.update(failed=True, msg=failure(why, result))
        return result


def _timeout(arguments):
    """As the module understands it; it refuses what is no number before this matters."""
    try:
        return float(arguments.get("timeout", DEFAULT_TIMEOUT))
    except (TypeError, ValueError):
        return DEFAULT_TIMEOUT
