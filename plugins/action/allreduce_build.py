# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of the module allreduce_build: read the project and send it along, so that the node needs one round trip and keeps no source.

What allreduce_tune will be asked is judged here too, before minutes go into a build.
"""

from __future__ import annotations

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.gpu_node.tuning.plugins.module_utils import allreduce_project, allreduce_question, long_run
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

MODULE = "gpu_node.tuning.allreduce_build"

display = Display()


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        src = arguments.pop("src", "pcie_allreduce")
        question = arguments.pop("question", None)
        if arguments.get("state", "present") == "present":
            arguments.update(self._judged(question) if question is not None else {})
            arguments["source"] = self._packed(src)
        host = (task_vars or {}).get("inventory_hostname", "")

        def ask(options: dict) -> dict:
            given = arguments | options
            if "run" in given:
                given.pop("source", None)  # it is there already
            return self._execute_module(module_name=MODULE, module_args=given, task_vars=task_vars)

        result = long_run.follow(ask, lambda lines: [display.display(f"{host}: {line}") for line in lines])
        # Pages of packed text would hide everything else of a verbose run.
        result.get("invocation", {}).get("module_args", {}).pop("source", None)
        return result

    def _judged(self, question):
        try:
            asked = allreduce_question.question_of(question)
        except (TuningError, KeyError) as error:
            words = f"question: lacks {error}" if isinstance(error, KeyError) else str(error)
            raise AnsibleActionFail(words) from error
        return {"longest_bytes": asked.longest_bytes, "world": asked.world}

    def _packed(self, src):
        try:
            return allreduce_project.pack(allreduce_project.read(self._find_needle("files", src)))
        except (AnsibleError, TuningError) as error:
            raise AnsibleActionFail(f"src {src!r}: no project on the controller: {error}") from error
