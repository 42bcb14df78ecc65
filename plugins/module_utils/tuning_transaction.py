# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole transaction on the node: resolve, lock, snapshot, try, replace, read back, record; on any failure the old bytes return."""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    foreign_code,
    managed_block,
    sitecustomize_file,
    state_directory,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter
from ansible_collections.gpu_node.tuning.plugins.module_utils.read_back import (
    ReadBack,
    faults,
    read_back,
    remarks,
    same_file,
    values_in_block,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import FileState


class ReadBackFailed(TuningError):
    """The file was written, but the interpreter does not see what was declared. ``read_back`` says what it sees."""

    def __init__(self, message: str, result: Optional[ReadBack]):
        super().__init__(message)
        self.read_back = result


class Wish(NamedTuple):
    """What the node shall look like. ``body``: the rendered block (bytes), None to remove the block. ``env``: name to value that it sets."""

    body: Optional[bytes]
    env: dict
    scope: str
    service_dir: Optional[str]
    precedence: str
    takeover: str
    profile: Optional[str]
    profile_status: Optional[str]


class Plan(NamedTuple):
    """What would change. ``content`` is the wanted file (bytes), None for no file; ``values_before`` what ours and the taken-over code set."""

    state: FileState
    content: Optional[bytes]
    values_before: dict
    resolution: dict
    remarks: list

    @property
    def changes(self) -> bool:
        return self.content != self.state.content


class Outcome(NamedTuple):
    """``read_back`` is None where there is nothing to read back yet: check mode with a change."""

    plan: Plan
    changed: bool
    generation: Optional[int]
    read_back: Optional[ReadBack]
    remarks: list


def tune(
    wish: Wish, interpreter: Interpreter, state: state_directory.StateDirectory, lock_timeout: float, check: bool
) -> Outcome:
    """Bring the node to ``wish``. With ``check`` nothing at all is written. Raises TuningError (ReadBackFailed after a write)."""
    if check:
        with state.locked_for_reading(lock_timeout):
            plan = make_plan(wish, interpreter, state)
            result = None if plan.changes else _judged_read_back(wish, interpreter, plan)
            return Outcome(
                plan, plan.changes, state.current(), result, plan.remarks + (remarks(result) if result else [])
            )
    with state.locked(lock_timeout):
        plan = make_plan(wish, interpreter, state)
        sitecustomize_file.sweep(plan.state)
        result, generation = (
            _apply(wish, interpreter, plan, state) if plan.changes else _confirm(wish, interpreter, plan, state)
        )
        return Outcome(plan, plan.changes, generation, result, plan.remarks + (remarks(result) if result else []))


def make_plan(wish: Wish, interpreter: Interpreter, state: state_directory.StateDirectory) -> Plan:
    """Look, decide, and try the candidate in the interpreter; writes nothing. Raises TuningError for everything that must be refused."""
    resolution = interpreter.resolve()
    path = target_path(wish, resolution)
    found = sitecustomize_file.look(path)
    parts = managed_block.split(found.content or b"", path)
    foreign, taken, notes = _foreign_code_after_takeover(wish, interpreter, parts, path)
    content = _wanted_content(wish, parts, foreign, found, state)
    values = {name: value for name, (value, _line) in values_in_block(found.content, path).items()}
    plan = Plan(found, content, dict(taken, **values), resolution, notes + _mode_remarks(found))
    if plan.changes and wish.body is not None:
        _try_candidate(wish, interpreter, content, path)
    return plan


def target_path(wish: Wish, resolution: dict) -> str:
    if wish.scope == "service":
        return os.path.join(wish.service_dir, "sitecustomize.py")
    return sitecustomize_file.locate(resolution)


def _foreign_code_after_takeover(wish: Wish, interpreter: Interpreter, parts: managed_block.Split, path: str) -> tuple:
    """((before, after) the block, values taken over, remarks). Stops where foreign code sets a variable of ours."""
    before, after = parts.before, parts.after
    if not parts.foreign.strip() or wish.body is None:
        return (before, after), {}, []
    clashes = [found for found in foreign_code.find_assignments(parts.masked, path) if found.name in wish.env]
    if not clashes:
        return (before, after), {}, []
    if wish.takeover != "replace":
        raise TuningError(_clash_message(clashes, path))
    return _take_over(wish, parts, clashes, path)


def _take_over(wish: Wish, parts: managed_block.Split, clashes: list, path: str) -> tuple:
    stuck = [found for found in clashes if not found.removable]
    if stuck:
        raise TuningError(
            f"{path}, line {stuck[0].line}: sets {stuck[0].name} in a statement that does more than set variables from literals, "
            f"so takeover: replace does not dare to remove it. Take that line out by hand, then run again."
        )
    statements = {found.first_line for found in clashes}
    going = [found for found in foreign_code.find_assignments(parts.masked, path) if found.first_line in statements]
    others = [found for found in going if not found.name.startswith("NCCL_")]
    if others:
        raise TuningError(
            f"{path}, line {others[0].line}: the statement that sets {clashes[0].name} also sets {others[0].name}={others[0].value!r}, "
            f"which this collection does not manage. Move that variable into a statement of its own, then run again."
        )
    notes = [
        f"{path}, line {found.line}: {found.name}={found.value!r} goes with the statement that is taken over, and no profile variable replaces it. "
        f"Add it to the profile or to nccl_env_overrides to keep it."
        for found in going
        if found.name not in wish.env
    ]
    taken = {found.name: found.value for found in going}
    if parts.body is None:
        return (foreign_code.without_statements(parts.before, path, going), b""), taken, notes
    height = parts.masked.count(b"\n", 0, len(parts.masked) - len(parts.after))
    in_before = [found for found in going if found.line <= height]
    in_after = [
        found._replace(
            line=found.line - height, first_line=found.first_line - height, last_line=found.last_line - height
        )
        for found in going
        if found.line > height
    ]
    return (
        (
            foreign_code.without_statements(parts.before, path, in_before),
            foreign_code.without_statements(parts.after, path, in_after),
        ),
        taken,
        notes,
    )


def _clash_message(clashes: list, path: str) -> str:
    lines = "; ".join(f"line {found.line} sets {found.name}={found.value!r}" for found in clashes)
    return (
        f"{path}: code outside the managed block already sets what the profile sets: {lines}. Nothing was changed. "
        f"Legal: remove these lines by hand, or set nccl_env_takeover: replace (the file as it is now is kept in a generation)."
    )


def _wanted_content(
    wish: Wish, parts: managed_block.Split, foreign: tuple, found: FileState, state: state_directory.StateDirectory
) -> Optional[bytes]:
    if wish.body is not None:
        return managed_block.join(foreign[0], wish.body, foreign[1])
    if parts.body is None:
        return found.content
    if parts.foreign:
        return parts.foreign
    first = state.first_seen(found.path)
    was_there = first is not None and first["before"]["kind"] == "file"
    return b"" if was_there else None


def _mode_remarks(found: FileState) -> list:
    if found.exists and found.mode & 0o044 != 0o044:
        return [
            f"{found.target}: mode {found.mode:04o}: only some users can import it; the distribution ships 0644. The mode was left as it is."
        ]
    return []


def _try_candidate(wish: Wish, interpreter: Interpreter, content: bytes, path: str) -> None:
    """Compile and run the foreign code alone, then the candidate, in the interpreter, before any byte changes."""
    parts = managed_block.split(content, path)
    if parts.foreign.strip():
        alone = interpreter.trial(parts.masked, path)
        _refuse_error(alone["error"], path, "is broken")
        before_site = interpreter.trial(b"", path)["env"]
        hidden = sorted(name for name in wish.env if alone["env"].get(name) != before_site.get(name))
        if hidden:
            raise TuningError(
                f"{path}: code outside the managed block sets {', '.join(hidden)} when it runs, in a way that hides the line. Nothing was changed. "
                f"Legal: take that code out by hand (it cannot be taken over), or leave these variables out of the profile."
            )
    tried = interpreter.trial(content, path)
    _refuse_error(tried["error"], path, "would be broken by the rendered candidate")
    preset = interpreter.service.environment
    missing = [
        name
        for name, value in sorted(wish.env.items())
        if tried["env"].get(name) != value and (wish.precedence == "force" or name not in preset)
    ]
    if missing:
        name = missing[0]
        raise TuningError(
            f"{path}: the rendered candidate was run by {interpreter.executable} and does not set {', '.join(missing)} "
            f"(declared {wish.env[name]!r}, found {tried['env'].get(name)!r}). Nothing was changed. Repair the template, or the .pth file that sets it first."
        )


def _refuse_error(error: Optional[dict], path: str, what: str) -> None:
    if error is None:
        return
    where = f"{path}, line {error['line']}" if error["line"] else path
    end = (
        " It would end every Python on this node at start."
        if error["type"] in ("SystemExit", "KeyboardInterrupt")
        else ""
    )
    raise TuningError(
        f"{where}: {what}: {error['type']}: {error['text']}.{end} Nothing was changed. Repair it, then run again."
    )


def _confirm(wish: Wish, interpreter: Interpreter, plan: Plan, state: state_directory.StateDirectory) -> tuple:
    """The file is as declared already: read it back, and see to it that a generation says so (a killed run leaves that open)."""
    result = _judged_read_back(wish, interpreter, plan)
    if wish.body is None or state.knows(plan.state):
        return result, state.current()
    if state.current() is None:
        state.keep_found(plan.state)
    facts = _facts(wish, plan, result, state_directory.ADOPTED, "the file was as declared, but no generation said so")
    return result, state.record(plan.state, plan.state, facts, [])


def _apply(wish: Wish, interpreter: Interpreter, plan: Plan, state: state_directory.StateDirectory) -> tuple:
    """Keep, write, read back, record. Until the write has happened a failure leaves no trace; afterwards it puts the old bytes back."""
    first_time = state.current() is None
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
        generation = state.record(plan.state, after, _facts(wish, plan, result, state_directory.APPLIED, None), made)
    except BaseException as error:
        _restore(plan, made, error)
        with contextlib.suppress(OSError):  # a full disk may be the failure itself, and that is what must be told
            state.note(
                {
                    "profile": wish.profile,
                    "profile_status": wish.profile_status,
                    "outcome": state_directory.FAILED,
                    "reason": str(error),
                }
            )
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
    is_ours = plan.resolution["origin"] == plan.state.path
    sitecustomize_file.settle(plan.state, plan.resolution["cached"] if is_ours else None)


def _restore(plan: Plan, made: list, cause: BaseException) -> None:
    """Put the old bytes back, absence included."""
    try:
        if plan.state.exists:
            sitecustomize_file.write(plan.state, plan.state.content)
            _settle(plan)
        else:
            sitecustomize_file.remove(plan.state)
            _settle(plan)
            sitecustomize_file.remove_directories(made)
    except TuningError as error:
        raise TuningError(
            f"{cause} THE OLD FILE COULD NOT BE PUT BACK: {error} Its bytes are in the newest generation of the state directory."
        ) from error


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
        return "Remove what sets these variables at the start, or set nccl_env_precedence: force."
    return (
        "See that PYTHONPATH of the service names our directory first, or use the interpreter that imports this file."
    )


def _facts(wish: Wish, plan: Plan, result: ReadBack, outcome: str, reason: Optional[str]) -> dict:
    return {
        "outcome": outcome,
        "reason": reason,
        "profile": wish.profile,
        "profile_status": wish.profile_status,
        "scope": wish.scope,
        "precedence": wish.precedence,
        "declared": wish.env,
        "interpreter": {key: plan.resolution[key] for key in ("executable", "version", "prefix", "base_prefix")},
        "read_back": result.as_dict(),
    }
