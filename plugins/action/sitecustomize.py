# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of the module sitecustomize: refuse bad values before the node is touched, render the block, one round trip."""

from __future__ import annotations

import os

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.template import trust_as_template
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_memory import memory_line
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_validate import InvalidEnvironment, validate_env
from ansible_collections.gpu_node.tuning.plugins.module_utils.service_directory import refuse_unusable_path
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.controller import whoever_runs_this

MODULE = "gpu_node.tuning.sitecustomize"


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        arguments = dict(self._task.args, applied_by=whoever_runs_this())
        template, memory = arguments.pop("src", None), arguments.pop("memory", None)
        self._refuse_service_dir(arguments.get("scope", "system"), arguments.get("service_dir"))
        if arguments.get("state", "present") == "present":
            arguments["env"] = self._validated(arguments.get("env"))
            arguments["content"] = self._rendered(template, arguments, task_vars or {})
        result = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)
        if memory and "diff" in result:
            result["diff"].append({"prepared": memory_line(memory, result["values_before"]) + "\n"})
        return result

    @staticmethod
    def _refuse_service_dir(scope, path):
        """What only the node can expand is left to the module, which looks again."""
        if str(path).startswith(("~", "$")) or (scope != "service" and path is None):
            return
        try:
            refuse_unusable_path(path)
        except TuningError as error:
            raise AnsibleActionFail(str(error)) from error

    @staticmethod
    def _validated(env):
        if not isinstance(env, dict):
            raise AnsibleActionFail(f"env: {env!r}; legal: a dictionary of variable names and values.")
        try:
            return validate_env(env)
        except InvalidEnvironment as error:
            raise AnsibleActionFail(str(error)) from error

    def _rendered(self, template, arguments, task_vars):
        if not template:
            raise AnsibleActionFail(
                "src: missing. Legal: the template of the managed block, for instance sitecustomize.py.j2 of role nccl_env."
            )
        try:
            path = self._find_needle("templates", template)
        except AnsibleError as error:
            raise AnsibleActionFail(f"src {template!r}: no such template: {error}") from error
        seen = {
            "env": arguments["env"],
            "precedence": arguments.get("precedence", "respect"),
            "scope": arguments.get("scope", "system"),
            "profile": arguments.get("profile"),
        }
        templar = self._templar.copy_with_new_env(
            searchpath=[os.path.dirname(path)], available_variables=dict(task_vars, sitecustomize=seen)
        )
        try:
            text = trust_as_template(self._loader.get_text_file_contents(path))
            options = {"trim_blocks": True, "lstrip_blocks": True}
            rendered = templar.template(text, escape_backslashes=False, overrides=options) or ""
            rendered.encode("utf-8")
        except (AnsibleError, UnicodeError) as error:
            raise AnsibleActionFail(f"src {path}: the template cannot be rendered: {error}") from None
        return rendered
