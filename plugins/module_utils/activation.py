# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Go back to a recorded generation: every file as it was then, read back; on any failure what stood before returns."""

from __future__ import annotations

import contextlib
import os
import time
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import sitecustomize_file
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_choice import choose
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_record import ACTIVATED, FAILED
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter, Service
from ansible_collections.gpu_node.tuning.plugins.module_utils.read_back import ReadBack, faults, read_back, remarks
from ansible_collections.gpu_node.tuning.plugins.module_utils.record_time import state_time
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory

FATAL = ("SystemExit", "KeyboardInterrupt")


class Activation(NamedTuple):
    """``before`` and ``after``: lists of FileState of the files that differ; both empty where nothing changes.

    ``changed_at``: when the files last changed, in seconds since 1970.
    """

    number: int
    changed: bool
    before: list
    after: list
    read_back: Optional[ReadBack]
    remarks: list
    readers: list
    changed_at: float


def activate(state: StateDirectory, wanted: str, lock_timeout: float, probe_timeout: float, check: bool) -> Activation:
    """Bring the node to the generation ``wanted``: ``known_good``, ``previous``, or a number. With ``check`` nothing is written.

    Raises TuningError where there is no such generation, where it is damaged, or where its read-back fails.
    """
    with state.locked_for_reading(lock_timeout) if check else state.locked(lock_timeout):
        state.current()  # one that is damaged is refused, also in check mode
        number = choose(state, wanted)
        manifest = state.manifest(number)
        state.refuse_foreign(number)
        wanted_states = state.states_at(number)
        found = [sitecustomize_file.look_at_any(target.path) for target in wanted_states]
        before, after = _that_differ(found, wanted_states)
        _try_in_memory(state, number, after, probe_timeout)
        changed = bool(before) or (state.current() != number and _leaves_directories(state, wanted_states))
        result, notes = None, []
        links = [remark for now in before for remark in sitecustomize_file.hard_link_remarks(now)]
        if not check:
            result, notes = _bring_back(state, number, manifest, found, wanted_states, probe_timeout)
        elif not changed:
            result, notes = _read_back(manifest, after, probe_timeout)
        notes = links + notes
        since = time.time() if changed else _last_change(state, number, wanted_states)
        return Activation(number, changed, before, after, result, notes + state.warnings, _readers(state), since)


def _try_in_memory(state: StateDirectory, number: int, after: list, probe_timeout: float) -> None:
    """Run what would come back in the interpreter that imports it; refuse only what would end every Python at start.

    Generation 0 is the node as it was found, whatever it was.
    """
    if number == 0:
        return
    for target in after:
        interpreter = _interpreter_of(state, target.path, probe_timeout) if target.exists else None
        error = interpreter.trial(target.content, target.path)["error"] if interpreter else None
        if error is not None and error["type"] in FATAL:
            raise TuningError(
                f"generation {number}: its {target.path} raises {error['type']} and would end every Python on this node at start. "
                f"Nothing was changed. Choose another generation."
            )


def _recorded_interpreter(manifest: dict, probe_timeout: float) -> Interpreter:
    """The interpreter that a generation was read back with, started as its service starts it."""
    service = Service(manifest["service"]["environment"], manifest["service"]["user"])
    return Interpreter(manifest["interpreter"]["executable"], service, probe_timeout)


def _interpreter_of(state: StateDirectory, path: str, probe_timeout: float) -> Optional[Interpreter]:
    for number in reversed(state.numbers()):
        with contextlib.suppress(TuningError):  # a damaged generation names no interpreter
            manifest = state.manifest(number)
            if manifest.get("read_back") and manifest["read_back"]["expected"] == path:
                return _recorded_interpreter(manifest, probe_timeout)
    return None


def _bring_back(
    state: StateDirectory, number: int, manifest: dict, found: list, wanted_states: list, probe_timeout: float
) -> tuple:
    before, after = _that_differ(found, wanted_states)
    for target in found + wanted_states:
        sitecustomize_file.sweep(target)
    behind = _behind_links(before, after)
    if before:
        lost = tuple(now for now, then in behind if now.exists and now.content != then.content)
        state.keep_found(*found, aside=lost)
    facts = {key: manifest.get(key) for key in ("profile", "profile_status")}
    made, fresh = [], [folder for now in found for folder in sitecustomize_file.missing_bytecode_folders(now)]
    try:
        for target in after:
            made += sitecustomize_file.restore(target)
            sitecustomize_file.settle(target)
        result, notes = _read_back(manifest, after, probe_timeout)
        if before or state.current() != number:
            _remove_emptied(state, wanted_states)
            state.make_current(number, dict(facts, outcome=ACTIVATED))
    except BaseException as error:
        undone = _undone(before + [now for now, _then in behind], made)
        sitecustomize_file.remove_directories(fresh)  # the read-back made them
        with contextlib.suppress(TuningError):  # a full disk may be the failure itself, and that is what must be told
            state.note(dict(facts, outcome=FAILED, reason=f"{error}{undone}"))
        if undone:
            raise TuningError(f"{error}{undone}") from error
        raise
    return result, notes


def _behind_links(before: list, after: list) -> list:
    """(FileState now, FileState wanted) of files that are written because a link to them comes back, and that the path does not show now."""
    return [
        (sitecustomize_file.look_at_any(then.target), then)
        for now, then in zip(before, after)
        if then.link is not None and now.target != then.target
    ]


def _that_differ(found: list, wanted_states: list) -> tuple:
    pairs = [(now, then) for now, then in zip(found, wanted_states) if not now.same_as(then)]
    return [now for now, _then in pairs], [then for _now, then in pairs]


def _read_back(manifest: dict, after: list, probe_timeout: float) -> tuple:
    """(ReadBack, remarks) of what the generation declared, (None, []) where it declared nothing. Raises TuningError on drift."""
    declared = manifest.get("declared")
    if not declared:
        return None, []
    interpreter = _recorded_interpreter(manifest, probe_timeout)
    path = manifest["read_back"]["expected"]
    content = sitecustomize_file.look(path).content
    result = read_back(interpreter, interpreter.resolve(), path, content, declared, writes_bytecode=bool(after))
    wrong = faults(result, manifest["precedence"])
    if wrong:
        end = "What stood before was put back." if after else "Its bytes stood there already, and nothing was changed."
        raise TuningError(
            f"generation {manifest['number']}: its bytes are back, but the read-back by {interpreter.executable} failed: {'; '.join(wrong)}. {end}"
        )
    return result, remarks(result)


def _undone(before: list, made: list) -> str:
    """Put back what stood before, every file that can be. Returns what must be told where one cannot, else nothing."""
    stuck = []
    for target in before:
        try:
            sitecustomize_file.restore(target)
            sitecustomize_file.settle(target)
        except TuningError as error:
            stuck.append(str(error))
    sitecustomize_file.remove_directories(made)
    if not stuck:
        return ""
    where = "Its bytes are in the state directory; generation_info lists where."
    return f" WHAT STOOD BEFORE COULD NOT BE PUT BACK: {' '.join(stuck)} {where}"


def _leaves_directories(state: StateDirectory, wanted_states: list) -> bool:
    """True where somebody deleted a file that is to be absent, and left the directories that were made for it."""
    return any(
        sitecustomize_file.empty_directories(state.made_directories(target.path))
        for target in wanted_states
        if not target.exists
    )


def _remove_emptied(state: StateDirectory, wanted_states: list) -> None:
    for target in wanted_states:
        if not target.exists:
            sitecustomize_file.drop_bytecode(target)
            sitecustomize_file.remove_directories(state.made_directories(target.path))


def _last_change(state: StateDirectory, number: int, wanted_states: list) -> float:
    """When the files last changed, in seconds since 1970. Where one is absent, the history says since when."""
    times = [os.stat(target.path).st_mtime for target in wanted_states if target.exists]
    if any(not target.exists for target in wanted_states):
        entries = [entry for entry in state.history() if entry.get("generation") == number and entry.get("time")]
        times += [state_time(entry["time"]) for entry in entries[-1:]]
    return max(times, default=0.0)


def _readers(state: StateDirectory) -> list:
    """(interpreter, directory or None) of everything that a generation names, see stale_processes."""
    readers = set()
    for number in state.numbers():
        try:
            manifest = state.manifest(number)
        except TuningError:
            continue  # a damaged generation that is not asked for does no harm here
        if manifest.get("interpreter"):
            directory = manifest["service"]["dir"] if manifest["scope"] == "service" else None
            readers.add((manifest["interpreter"].get("program", manifest["interpreter"]["executable"]), directory))
    return sorted(readers, key=str)
