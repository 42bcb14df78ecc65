# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules share at their outer edge: options that name an interpreter, and results that a person reads."""

from __future__ import annotations

import os
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import service_directory
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter, Service
from ansible_collections.gpu_node.tuning.plugins.module_utils.option_names import option
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import FileState

INTERPRETER_OPTIONS = {
    "interpreter": {"type": "path", "required": True},
    "scope": {"type": "str", "choices": ["system", "service"], "default": "system"},
    "service_dir": {"type": "path"},
    "service_user": {"type": "str"},
    "service_environment": {"type": "dict", "default": {}},
}
PROBE_OPTIONS = {"probe_timeout": {"type": "float", "default": 20}}
STATE_OPTIONS = {"state_dir": {"type": "path", "default": "/var/lib/gpu_node_tuning"}}
LOCK_OPTIONS = {"lock_timeout": {"type": "float", "default": 120}}


def interpreter_of(params: dict) -> Interpreter:
    """The Interpreter that INTERPRETER_OPTIONS and PROBE_OPTIONS describe. Raises TuningError for a relative path or a value that is no text."""
    if not os.path.isabs(params["interpreter"]):
        raise TuningError(
            f"interpreter {params['interpreter']!r}: legal: an absolute path. Set {option('interpreter')}."
        )
    if params["scope"] == "service" or params["service_dir"] is not None:
        service_directory.refuse_unusable_path(params["service_dir"])
    environment = text_values("service_environment", params["service_environment"])
    if params["scope"] == "service":
        environment.setdefault("PYTHONPATH", params["service_dir"])
    return Interpreter(
        params["interpreter"],
        Service(environment, params["service_user"]),
        probe_timeout(params),
    )


def probe_timeout(params: dict) -> float:
    return number_in("probe_timeout", params["probe_timeout"], 0.1, 86400)


def lock_timeout(params: dict) -> float:
    return number_in("lock_timeout", params["lock_timeout"], 0, 86400)


def number_in(option: str, value: float, lowest: float, highest: float) -> float:
    """``value``. Raises TuningError where it is not a number from ``lowest`` to ``highest``; NaN is none."""
    if not lowest <= value <= highest:
        raise TuningError(f"{option}: {value!r}; legal: a number from {lowest:g} to {highest:g}.")
    return value


def text_values(option: str, values: dict) -> dict:
    """``values`` with numbers as text. Raises TuningError for what no environment variable can be."""
    texts = {}
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise TuningError(f"{option}: {name}={value!r} is {type(value).__name__}; legal: text, in quotes.")
        texts[str(name)] = str(value)
        if "\0" in f"{name}{value}" or "=" in str(name) or not name:
            raise TuningError(
                f"{option}: {name!r}={value!r}; legal: a name without '=', and no NUL character in either."
            )
    return texts


def shadowed_by(path: str, resolution: dict) -> list:
    """Files named sitecustomize.py on the interpreter's path that lose against ``path``."""
    return [
        candidate
        for candidate in resolution["candidates"]
        if candidate.endswith(".py") and os.path.realpath(candidate) != os.path.realpath(path)
    ]


def diff_of(state: FileState, content: Optional[bytes], values_before: dict, declared: dict) -> list:
    """Ansible's diff: the file, then one line for each variable, old value to new."""
    names = sorted(set(values_before) | set(declared))
    lines = [f"{name}: {_shown(values_before.get(name))} -> {_shown(declared.get(name))}" for name in names]
    return [file_diff(state, content), {"prepared": "".join(line + "\n" for line in lines)}]


def file_diff(state: FileState, content: Optional[bytes]) -> dict:
    """Ansible's diff of one file, as it was found and as it shall be (bytes, None for no file)."""
    return {
        "before_header": state.path,
        "before": _text(state.content),
        "after_header": state.path,
        "after": _text(content),
    }


def _shown(value: Optional[str]) -> str:
    return "(not set)" if value is None else value


def _text(content: Optional[bytes]) -> str:
    return (content or b"").decode("utf-8", "backslashreplace")
