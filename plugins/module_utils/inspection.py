# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The read-only half: what stands on the node and what is in effect, as far as it can be had; what cannot be had is said."""

from __future__ import annotations

import os
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    foreign_code,
    managed_block,
    sitecustomize_file,
    state_directory,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import shadowed_by
from ansible_collections.gpu_node.tuning.plugins.module_utils.read_back import (
    faults,
    read_back,
    remarks,
    values_in_block,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import FileState


def inspect(
    interpreter: Interpreter, scope: str, service_dir: Optional[str], declared: Optional[dict], precedence: str
) -> dict:
    """Everything that module sitecustomize_info returns. Never raises TuningError: what cannot be found out is in ``problems``.

    ``declared``: name to value; None to ask for the variables that the file on disk sets.
    """
    answer = {"path": None, "file": None, "shadowed": [], "read_back": None, "drift": None, "problems": []}
    try:
        resolution = interpreter.resolve()
        path = (
            os.path.join(service_dir, "sitecustomize.py")
            if scope == "service"
            else sitecustomize_file.locate(resolution)
        )
        answer.update(path=path, shadowed=shadowed_by(path, resolution))
        found = sitecustomize_file.look(path)
        answer["file"] = describe(found)
        values = {name: value for name, (value, _line) in values_in_block(found.content, path).items()}
        result = read_back(interpreter, resolution, path, found.content, values if declared is None else declared)
        answer["read_back"] = result.as_dict()
        answer["drift"] = faults(result, precedence)
        answer["problems"] = remarks(result)
    except TuningError as error:
        answer["problems"].append(str(error))
    return answer


def describe(found: FileState) -> dict:
    """The file in plain data. Raises TuningError where its markers do not pair up or it is not Python."""
    parts = managed_block.split(found.content or b"", found.path)
    return {
        "exists": found.exists,
        "target": found.target,
        "link": found.link,
        "mode": f"{found.mode:04o}" if found.exists else None,
        "uid": found.uid,
        "gid": found.gid,
        "sha256": state_directory.sha256(found.content) if found.exists else None,
        "managed": parts.body is not None,
        "variables": {name: value for name, (value, _line) in values_in_block(found.content, found.path).items()},
        "foreign_variables": [
            {"name": entry.name, "value": entry.value, "line": entry.line}
            for entry in (foreign_code.find_assignments(parts.masked, found.path) if parts.foreign.strip() else [])
        ],
    }
