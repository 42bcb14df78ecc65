# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The read-only half: what stands on the node and what is in effect, as far as it can be had; what cannot be had is said."""

from __future__ import annotations

import subprocess
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    foreign_code,
    generation_record,
    managed_block,
    nccl_log,
    origins,
    service_directory,
    sitecustomize_file,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter, Service
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import shadowed_by
from ansible_collections.gpu_node.tuning.plugins.module_utils.option_names import option
from ansible_collections.gpu_node.tuning.plugins.module_utils.read_back import (
    ENVIRONMENT,
    ReadBack,
    faults,
    read_back,
    remarks,
    values_in_block,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.recorded_generations import RecordedGenerations
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import FileState

UNIT_PROPERTIES = ("Environment", "EnvironmentFiles", "FragmentPath", "DropInPaths", "User", "NeedDaemonReload")


class Question(NamedTuple):
    """What is asked. ``declared``: name to value, None to ask for what the file on disk sets; ``unit``, ``log`` and ``state_dir`` may be None."""

    scope: str
    service_dir: Optional[str]
    declared: Optional[dict]
    precedence: str
    unit: Optional[str]
    log: Optional[str]
    state_dir: Optional[str]


def inspect(interpreter: Interpreter, question: Question) -> dict:
    """Everything that module sitecustomize_info returns. Never raises TuningError: what cannot be found out is in ``problems``."""
    answer = {
        "path": None,
        "file": None,
        "shadowed": [],
        "read_back": None,
        "library": None,
        "origins": {"variables": {}, "sitecustomize": [], "remarks": []},
        "drift": None,
        "problems": [],
    }
    known = interpreter.service.environment
    shown = None
    try:
        shown = _show(question.unit)
        interpreter = _as_the_unit_starts_it(interpreter, shown)
    except TuningError as error:
        answer["problems"].append(str(error))
    try:
        resolution = interpreter.resolve()
        path = sitecustomize_file.path_of_scope(question.scope, question.service_dir, resolution)
        answer.update(path=path, shadowed=shadowed_by(path, resolution))
        found = sitecustomize_file.look(path)
        answer["file"] = describe(found)
        values = answer["file"]["variables"]
        declared = values if question.declared is None else question.declared
        surplus = {name: None for name in values if name not in declared}
        result = read_back(interpreter, resolution, path, found.content, dict(surplus, **declared))
        answer["read_back"] = result.as_dict()
        answer["drift"] = faults(result, question.precedence) + [
            f"{name}: not declared, but the managed block of {path} sets {values[name]!r}" for name in sorted(surplus)
        ]
        if shown is None:
            answer["problems"] += remarks(result)
    except TuningError as error:
        answer["problems"].append(str(error))
        return answer
    for add in (
        lambda: _add_service_dir(answer, question, interpreter),
        lambda: _add_record(answer, question, interpreter.executable, resolution["version"], found),
        lambda: _add_origins(answer, interpreter, question, _Unit(question.unit, shown, known), resolution, values),
        lambda: _add_library(answer, question, result),
    ):
        try:
            add()
        except TuningError as error:
            answer["problems"].append(str(error))  # one that fails does not hide the other
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
        "sha256": generation_record.sha256(found.content) if found.exists else None,
        "managed": parts.body is not None,
        "variables": {name: value for name, (value, _line) in values_in_block(found.content, found.path).items()},
        "foreign_variables": [
            {"name": entry.name, "value": entry.value, "line": entry.line}
            for entry in (foreign_code.find_assignments(parts.masked, found.path) if parts.foreign.strip() else [])
        ],
    }


def _add_service_dir(answer: dict, question: Question, interpreter: Interpreter) -> None:
    """Whoever can write there runs code as the service."""
    if question.scope == "service":
        service = interpreter.user_id
        answer["problems"] += service_directory.parents_that_others_write(question.service_dir, service)
        service_directory.refuse_what_others_write(question.service_dir, service)


def _add_record(answer: dict, question: Question, executable: str, version: str, found: FileState) -> None:
    """Layer 1: the file is, byte for byte, what the current generation left."""
    if not question.state_dir:
        return
    state = RecordedGenerations(question.state_dir)
    number, damage = state.current(), state.damage()
    answer["problems"] += damage + state.foreign() + state.left_behind(question.scope, executable, version, found.path)
    if number is not None and not damage and not state.is_foreign(number) and not state.knows(found):
        answer["drift"].append(
            f"{found.path}: is not as generation {number} left it; its bytes, its link, its mode or its owner changed since."
        )


class _Unit(NamedTuple):
    """``shown``: what systemd says of it, None without one; ``known``: the environment that the inventory gives the service."""

    name: Optional[str]
    shown: Optional[str]
    known: dict


def _as_the_unit_starts_it(interpreter: Interpreter, shown: Optional[str]) -> Interpreter:
    """The interpreter with the unit's own environment and user: what the inventory says of them may be another thing."""
    if shown is None:
        return interpreter
    environment, user = origins.started_with(shown)
    return interpreter.with_service(
        Service(environment, user or interpreter.service.user, has_account=user is not None)
    )


def _add_origins(
    answer: dict, interpreter: Interpreter, question: Question, unit: _Unit, resolution: dict, managed: dict
) -> None:
    """Name the most likely origin of every value that is not ours, and list all other places that give one."""
    service = origins.Service(show=unit.shown, environment=unit.known, account_home=interpreter.home)
    python = origins.Python(
        tuple(resolution["path"]), tuple(resolution["candidates"]), resolution["version"], answer["path"], managed
    )
    found = origins.find_origins(service, python)
    answer["origins"] = found.as_dict()
    answer["problems"] += found.remarks
    for variable in answer["read_back"]["variables"]:
        edited = variable["file"] not in (None, variable["declared"]) and variable["file"] == variable["interpreter"]
        if variable["state"] in ("overridden", "shadowed") and variable["interpreter"] is not None and not edited:
            if unit.shown and variable["origin"] == ENVIRONMENT and question.precedence == "respect":
                _judge_preset(answer, variable, unit, found)
            variable["origin"] = origins.explain(variable["name"], variable["interpreter"], found)[0]


def _judge_preset(answer: dict, variable: dict, unit: _Unit, found: origins.Origins) -> None:
    """A value that the unit presets wins by right only where the inventory knows of it; otherwise somebody else put it there."""
    name, value, declared = variable["name"], variable["interpreter"], variable["declared"]
    if declared is None:
        return
    place = next((origin.place for origin in found.variables.get(name, []) if origin.value == value), "systemctl show")
    said = (
        f"{name}: the unit {unit.name} presets {value!r} ({place}), which wins over the declared {declared!r} in its process "
        f"(precedence: respect)."
    )
    if unit.known.get(name) == value:
        answer["problems"].append(said)
    else:
        answer["drift"].append(
            f"{said} Take it out of the unit, name it in {option('service_environment')} if it is meant, or set {option('precedence', 'force')}."
        )


def _add_library(answer: dict, question: Question, result: ReadBack) -> None:
    """Layer 3: a value that NCCL says it read, other than the declared one, is drift too."""
    if not question.log:
        return
    answer["library"] = said = nccl_log.values_in_log(question.log)
    for variable in result.variables:
        for value in said.get(variable.name, []):
            if variable.declared is not None and value != variable.declared:
                answer["drift"].append(
                    f"{variable.name}: declared {variable.declared!r}, but NCCL says in {question.log} that it read {value!r}"
                )


def _show(unit: Optional[str]) -> Optional[str]:
    """What systemd says of the unit; None without one. Raises TuningError where it knows none of that name."""
    if not unit:
        return None
    properties = [option for name in (*UNIT_PROPERTIES, "LoadState") for option in ("-p", name)]
    try:
        ran = subprocess.run(
            ["systemctl", "show", *properties, "--", unit], check=False, capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TuningError(
            f"unit {unit!r}: systemctl cannot be asked: {error}. Leave {option('unit')} out, or run where systemd is."
        ) from error
    if ran.returncode != 0 or "LoadState=loaded" not in ran.stdout:
        why = (ran.stderr or ran.stdout).strip().splitlines()
        raise TuningError(
            f"unit {unit!r}: systemd has not loaded such a unit ({why[0] if why else 'no answer'}). Legal: the engine's unit."
        )
    return ran.stdout
