# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run would do to the node: look, decide, try the candidate in the interpreter. Writes nothing."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    foreign_code,
    managed_block,
    service_directory,
    sitecustomize_file,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter
from ansible_collections.gpu_node.tuning.plugins.module_utils.option_names import option
from ansible_collections.gpu_node.tuning.plugins.module_utils.read_back import values_in_block
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import FileState
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory


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
    evidence: list
    hardware: Optional[dict] = None  # how the node was compared with the profile, for the record


class Plan(NamedTuple):
    """What would change. ``content`` is the wanted file (bytes), None for no file; ``values_before`` what ours and the taken-over code set."""

    state: FileState
    content: Optional[bytes]
    values_before: dict
    resolution: dict
    remarks: list
    left_over: list

    @property
    def changes(self) -> bool:
        """True when the file changes."""
        return self.content != self.state.content

    @property
    def changes_anything(self) -> bool:
        """True also when somebody deleted the file before us, and only directories that were made for it are to go."""
        return self.changes or bool(self.left_over)


def make_plan(wish: Wish, interpreter: Interpreter, state: StateDirectory) -> Plan:
    """Look, decide, and try the candidate in the interpreter; writes nothing. Raises TuningError for everything that must be refused."""
    notes = _service_dir_remarks(wish, interpreter)
    resolution = interpreter.resolve()
    path = sitecustomize_file.path_of_scope(wish.scope, wish.service_dir, resolution)
    found = sitecustomize_file.look(path)
    parts = managed_block.split(found.content or b"", path)
    foreign, taken, said = _foreign_code_after_takeover(wish, interpreter, parts, path)
    notes += said
    content = _wanted_content(wish, parts, foreign, found, state)
    values = _values_before(found)
    notes += _mode_remarks(found) + _state_remarks(state, found, parts)
    notes += state.left_behind(wish.scope, interpreter.executable, resolution["version"], path)
    left_over = (
        sitecustomize_file.empty_directories(state.made_directories(path))
        if content is None and not found.exists
        else []
    )
    plan = Plan(found, content, dict(taken, **values), resolution, notes, left_over)
    if content is not None and len(content) > sitecustomize_file.LARGEST:
        raise TuningError(
            f"{path}: would have {len(content)} bytes with the managed block; legal: at most {sitecustomize_file.LARGEST}. Look what fills it."
        )
    if plan.changes:
        notes += sitecustomize_file.hard_link_remarks(found)
    if plan.changes and wish.body is not None:
        _try_candidate(wish, interpreter, content, path)
    return plan


def _service_dir_remarks(wish: Wish, interpreter: Interpreter) -> list:
    """Raises TuningError where others could put code into the service's directory; the block is taken out of any."""
    if wish.scope != "service" or wish.body is None:
        return []
    service_directory.refuse_what_others_write(wish.service_dir, interpreter.user_id)
    return service_directory.parents_that_others_write(wish.service_dir, interpreter.user_id)


def _values_before(found: FileState) -> dict:
    """What the managed block sets now; nothing where somebody edited it so that it is no Python, for it is about to be replaced."""
    try:
        return {name: value for name, (value, _line) in values_in_block(found.content, found.path).items()}
    except TuningError:
        return {}


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
    return _around_the_block(parts, foreign_code.lines_without(parts.masked, path, going)), taken, notes


def _around_the_block(parts: managed_block.Split, kept: list) -> tuple:
    """(before, after) the block: of the lines of the masked file, those whose numbers are ``kept``."""
    before, after = parts.before.splitlines(keepends=True), parts.after.splitlines(keepends=True)
    offset = len(parts.masked.splitlines()) - len(after)
    return (
        b"".join(before[number - 1] for number in kept if number <= len(before)),
        b"".join(after[number - offset - 1] for number in kept if number > offset),
    )


def _clash_message(clashes: list, path: str) -> str:
    lines = "; ".join(f"line {found.line} sets {found.name}={found.value!r}" for found in clashes)
    return (
        f"{path}: code outside the managed block already sets what the profile sets: {lines}. Nothing was changed. "
        f"Legal: remove these lines by hand, or set {option('takeover', 'replace')} (the file as it is now is kept in a generation)."
    )


def _wanted_content(
    wish: Wish, parts: managed_block.Split, foreign: tuple, found: FileState, state: StateDirectory
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


def _state_remarks(state: StateDirectory, found: FileState, parts: managed_block.Split) -> list:
    """Damage by others that does not stop a run, but takes something away from the way back."""
    notes = [f"{damage} This run goes on from what stands on the node now." for damage in state.damage()]
    if parts.body is not None and not state.numbers():
        notes.append(
            f"{state.path}: holds no generation, though {found.path} has the managed block: the records were lost. "
            f"Generation 0 will be the file as it is now, so that the way back ends here."
        )
    else:
        notes += state.lost()
    if state.is_foreign(state.current()):
        notes += [
            f"{said} The state directory was copied, or /etc/machine-id was made anew. What stands on this node now is recorded as its own."
            for said in state.foreign()
        ]
    link = state.recorded_link(found.path)
    if link is not None and found.link is None and found.exists:
        notes.append(
            f"{found.path}: was a symbolic link to {link} and is a plain file now; somebody replaced it (Ansible's copy and template do, "
            f"without follow). The next upgrade of the package that owns the link takes the tuning away. rollback.yml puts the link back."
        )
    return notes


def _try_candidate(wish: Wish, interpreter: Interpreter, content: bytes, path: str) -> None:
    """Compile and run the foreign code alone, then the candidate, in the interpreter, before any byte changes."""
    parts = managed_block.split(content, path)
    if parts.foreign.strip():
        alone = interpreter.trial(parts.masked, path)
        _refuse_error(alone["error"], path, "is broken", "Repair it")
        before_site = interpreter.trial(b"", path)["env"]
        hidden = sorted(name for name in wish.env if alone["env"].get(name) != before_site.get(name))
        if hidden:
            raise TuningError(
                f"{path}: code outside the managed block sets {', '.join(hidden)} when it runs, in a way that hides the line. Nothing was changed. "
                f"Legal: take that code out by hand (it cannot be taken over), or leave these variables out of the profile."
            )
    tried = interpreter.trial(content, path)
    _refuse_error(tried["error"], path, "would be broken by the rendered candidate", "Repair the template")
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


def _refuse_error(error: Optional[dict], path: str, what: str, cure: str) -> None:
    if error is None:
        return
    where = f"{path}, line {error['line']}" if error["line"] else path
    end = (
        " It would end every Python on this node at start."
        if error["type"] in ("SystemExit", "KeyboardInterrupt")
        else ""
    )
    said = f"{error['type']}: {error['text']}" if error["text"] else error["type"]
    raise TuningError(f"{where}: {what}: {said}.{end} Nothing was changed. {cure}, then run again.")
