"""Callback plugin that records what a run did to each node: tasks, module executions, commands sent, and how the run ended.

A task's action plugin may execute several modules (template: stat, then file), and no callback event tells, so the two methods of the
action base class that every execution goes through are wrapped here, before the worker processes are forked. Each execution adds one
line to a file.
"""

from __future__ import annotations

import collections
import json
import os

from ansible.plugins.action import ActionBase
from ansible.plugins.callback import CallbackBase

COMMAND = "(command)"

DOCUMENTATION = """
name: bench_record
type: aggregate
short_description: Record what a run did, as JSON in the file BENCH_RECORD
description: See the docstring.
"""


def log_calls(method, path, word):
    """Make every call of ``ActionBase.method`` add a line to the file ``path``: what ``word`` gives for its keyword arguments."""
    original = getattr(ActionBase, method)

    def wrapper(self, *args, **kwargs):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{word(self, kwargs)}\n".encode())
        os.close(descriptor)
        return original(self, *args, **kwargs)

    setattr(ActionBase, method, wrapper)


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "bench_record"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.path = os.environ["BENCH_RECORD"]
        self.log = self.path + ".log"
        log_calls("_execute_module", self.log, lambda action, given: given.get("module_name") or action._task.action)
        log_calls("_low_level_execute_command", self.log, lambda action, given: COMMAND)

    def v2_playbook_on_stats(self, stats):
        with open(self.log, encoding="ascii") as stream:
            modules = collections.Counter(stream.read().split())
        os.unlink(self.log)
        record = {"tasks": sum(stats.ok.values()), "commands": modules.pop(COMMAND, 0), "modules": modules}
        for outcome in ("changed", "failures", "dark"):
            record[outcome] = sum(getattr(stats, outcome).values())
        with open(self.path, "w", encoding="ascii") as stream:
            json.dump(record, stream)
