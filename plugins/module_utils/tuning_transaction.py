# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole transaction on the node: resolve, lock, snapshot, try, replace, read back, record; on any failure the old bytes return."""

from __future__ import annotations

import contextlib
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import generation_record, sitecustomize_file
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter
from ansible_collections.gpu_node.tuning.plugins.module_utils.option_names import option
from ansible_collections.gpu_node.tuning.plugins.module_utils.read_back import (
    ReadBack,
    faults,
    read_back,
    remarks,
    same_file,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import FileState
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory
from ansible_collections.gpu_node.tuning.plugins.module_utils.tuning_plan import Plan, Wish, make_plan


class ReadBackFailed(TuningError):
    """The file was written, but the interpreter does not see what was declared. ``read_back`` says what it sees."""

    def __init__(self, message: str, result: Optional[ReadBack]):
        super().__init__(message)
        self.read_back = result


class Outcome(NamedTuple):
    """``read_back`` is None where there is nothing to read back yet: check mode with a change."""

    plan: Plan
    changed: bool
    generation: Optional[int]
    read_back: Optional[ReadBack]
    remarks: list


def tune(wish: Wish, interpreter: Interpreter, state: StateDirectory, lock_timeout: float, check: bool) -> Outcome:
    """Bring the node to ``wish``. With ``check`` nothing at all is written. Raises TuningError (ReadBackFailed after a write)."""
    if check:
        with state.locked_for_reading(lock_timeout):
            plan = make_plan(wish, interpreter, state)
            result = None if plan.changes else _judged_read_back(wish, interpreter, plan)
            return Outcome(
                plan,
                plan.changes_anything,
                state.current(),
                result,
                plan.remarks + (remarks(result) if result else []) + state.warnings,
            )
    with state.locked(lock_timeout):
        plan = make_plan(wish, interpreter, state)
        for target in {plan.state.target} | state.targets(plan.state.path):
            sitecustomize_file.sweep(plan.state._replace(target=target))
        result, generation = (
            _apply(wish, interpreter, plan, state) if plan.changes else _confirm(wish, interpreter, plan, state)
        )
        return Outcome(
            plan,
            plan.changes_anything,
            generation,
            result,
            plan.remarks + (remarks(result) if result else []) + state.warnings,
        )


def _confirm(wish: Wish, interpreter: Interpreter, plan: Plan, state: StateDirectory) -> tuple:
    """The file is as declared already: read it back, and see to it that a generation says so (a killed run leaves that open)."""
    complete = state.knows(plan.state) or (wish.body is None and not state.targets(plan.state.path))
    if not complete:
        _settle(plan)  # a run killed after its rename left the old bytecode, which passes for the new within one second
    result = _judged_read_back(wish, interpreter, plan)
    if plan.content is None:
        sitecustomize_file.remove_directories(state.made_directories(plan.state.path))
    if complete:
        return result, state.current()
    if not state.own_numbers():
        state.keep_found(plan.state)
    facts = _facts(
        wish,
        interpreter,
        plan,
        result,
        generation_record.ADOPTED,
        "the file was as declared, but no generation said so",
    )
    return result, state.record([generation_record.Change(plan.state, plan.state, [])], facts)


def _apply(wish: Wish, interpreter: Interpreter, plan: Plan, state: StateDirectory) -> tuple:
    """Keep, write, read back, record. Until the write has happened a failure leaves no trace; afterwards it puts the old bytes back."""
    first_time = state.is_empty()
    fresh = sitecustomize_file.missing_bytecode_folders(plan.state, _cached(plan))
    try:
        state.keep_found(plan.state)
        made = _put(plan.state, plan.content)
    except TuningError:
        if first_time:
            state.clear()
        raise
    try:
        _settle(plan)
        result = _judged_read_back(wish, interpreter, plan, after_write=True)
        after = sitecustomize_file.look(plan.state.path)
        facts = _facts(wish, interpreter, plan, result, generation_record.APPLIED, None)
        generation = state.record([generation_record.Change(plan.state, after, made)], facts)
    except BaseException as error:
        undone = _restored(plan, made)
        sitecustomize_file.remove_directories(fresh)  # the read-back made them
        with contextlib.suppress(TuningError):  # a full disk may be the failure itself, and that is what must be told
            state.note(
                {
                    "profile": wish.profile,
                    "profile_status": wish.profile_status,
                    "outcome": generation_record.FAILED,
                    "reason": f"{error}{undone}",
                }
            )
        if undone:
            raise TuningError(f"{error}{undone}") from error
        raise
    if plan.content is None:
        sitecustomize_file.remove_directories(state.made_directories(plan.state.path))
    return result, generation


def _put(state: FileState, content: Optional[bytes]) -> list:
    """Returns the directories that had to be made."""
    if content is None:
        sitecustomize_file.remove(state)
        return []
    return sitecustomize_file.write(state, content)


def _settle(plan: Plan) -> None:
    sitecustomize_file.settle(plan.state, _cached(plan))


def _cached(plan: Plan) -> Optional[str]:
    """Where the interpreter keeps its compiled copy, which is elsewhere when PYTHONPYCACHEPREFIX is set; None where it imports another file."""
    return plan.resolution["cached"] if plan.resolution["origin"] == plan.state.path else None


def _restored(plan: Plan, made: list) -> str:
    """Put the old bytes back, absence included. Returns what must be told where that fails, else nothing."""
    try:
        if plan.state.exists:
            sitecustomize_file.write(plan.state, plan.state.content)
            _settle(plan)
        else:
            sitecustomize_file.remove(plan.state)
            _settle(plan)
            sitecustomize_file.remove_directories(made)
    except TuningError as error:
        return f" THE OLD FILE COULD NOT BE PUT BACK: {error} Its bytes are in the state directory; generation_info lists where."
    return ""


def _judged_read_back(wish: Wish, interpreter: Interpreter, plan: Plan, after_write: bool = False) -> ReadBack:
    """Read back layers 1 and 2; raises ReadBackFailed where a declared value is not in effect.

    After a removal the variables that the block used to set are looked at, so that the answer says whether they are gone.
    """
    path = plan.state.path
    on_disk = sitecustomize_file.look(path)
    if on_disk.content != plan.content:
        raise ReadBackFailed(
            f"{path}: the bytes on disk are not those that were rendered; somebody else writes this file.", None
        )
    asked = wish.env if wish.body is not None else dict.fromkeys(plan.values_before)
    result = read_back(interpreter, plan.resolution, path, on_disk.content, asked, writes_bytecode=after_write)
    wrong = faults(result, wish.precedence)
    if wrong:
        undone = (
            "The old file was put back. "
            if after_write
            else "The file was already as declared, so there was nothing to put back. "
        )
        raise ReadBackFailed(
            f"{path}: read-back by {interpreter.executable} failed: {'; '.join(wrong)}. {undone}{_cure(result, path)}",
            result,
        )
    return result


def _cure(result: ReadBack, path: str) -> str:
    if same_file(result.imported, path):
        return f"Remove what sets these variables at the start, or set {option('precedence', 'force')}."
    return (
        "See that PYTHONPATH of the service names our directory first, or use the interpreter that imports this file."
    )


def _facts(
    wish: Wish, interpreter: Interpreter, plan: Plan, result: ReadBack, outcome: str, reason: Optional[str]
) -> dict:
    return {
        "outcome": outcome,
        "reason": reason,
        "profile": wish.profile,
        "profile_status": wish.profile_status,
        "evidence": wish.evidence,
        "hardware": wish.hardware,
        "scope": wish.scope,
        "precedence": wish.precedence,
        "declared": wish.env,
        "service": {
            "user": interpreter.service.user,
            "environment": interpreter.service.environment,
            "dir": wish.service_dir,
        },
        # As it was named: a wrapper script that is bypassed would give another environment. The program behind it is for /proc.
        "interpreter": {
            "executable": interpreter.executable,
            "program": plan.resolution["executable"],
            **{key: plan.resolution[key] for key in ("version", "prefix", "base_prefix")},
        },
        "read_back": result.as_dict(),
    }
