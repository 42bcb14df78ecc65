# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state directory on the node: numbered generations, the link ``current``, the history, the lock.

A generation is a full snapshot: it names every file that was ever managed on the node, with its bytes before and after. It is
written under another name, put on the disk and renamed before ``current`` points to it, so that none is ever half visible.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    generation_record,
    history_log,
    leftovers,
    node_lock,
    record_time,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_record import ACTIVATED, FOUND, Change
from ansible_collections.gpu_node.tuning.plugins.module_utils.leftovers import PARTIAL
from ansible_collections.gpu_node.tuning.plugins.module_utils.option_names import option
from ansible_collections.gpu_node.tuning.plugins.module_utils.recorded_generations import RecordedGenerations
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import (
    FileState,
    missing_directories,
    remove_directories,
    sync_directory,
)


class StateDirectory(RecordedGenerations):
    """``path``: the directory, made when something is first written. ``by``: who runs this, for the records.

    ``keep``: how many generations stay when a new one is recorded, see prune(). ``warnings`` gathers what a caller must tell.

    Methods raise TuningError when the directory cannot be used, and name the file at fault.
    """

    def __init__(self, path: str, by: Optional[str] = None, keep: int = 50):
        super().__init__(path)
        self.by = by
        self.keep = keep
        self.warnings = []

    # -- lock ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self, timeout: float):
        """Hold the node's one lock; a second run waits up to ``timeout`` seconds.

        A run that recorded nothing leaves nothing: what it made for the lock goes again.
        """
        self.refuse_no_directory()
        made = []
        had_lock = os.path.lexists(self._at("lock"))
        try:
            descriptor = node_lock.acquire(self._at("lock"), timeout, lambda: made.extend(self._make(self.path)))
        except TuningError:
            remove_directories(made)
            raise
        try:
            self._refuse_what_cannot_be_used()
            leftovers.remove_leftovers(self.path)
            self._finish()
            yield
        finally:
            try:
                if self.is_empty():
                    self._leave_nothing(made, had_lock)
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def locked_for_reading(self, timeout: float):
        """Wait for a run that holds the lock, and write nothing at all: without a lock file there is nobody to wait for.

        What locked() refuses is refused here too, so that a check says what a run would say.
        """
        self.refuse_no_directory()
        descriptor = node_lock.acquire(self._at("lock"), timeout, None)
        try:
            if os.path.isdir(self.path):
                self._refuse_what_cannot_be_used()
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

    # -- reading ---------------------------------------------------------------------------------------------------

    def strangers(self) -> list:
        """What is in the way of a run because it has a name of ours, one sentence each."""
        return leftovers.strangers(self.path)

    # -- writing ---------------------------------------------------------------------------------------------------

    def keep_found(self, *states: FileState, aside: tuple = ()) -> None:
        """Before the first byte changes: what stands there now is in a generation, absence included.

        ``aside``: states of files that are no managed paths, and whose bytes are about to be lost. They are kept for a person.
        """
        if aside or not all(self.knows(state) for state in states):
            reason = (
                "the node as it was found"
                if not self.own_numbers()
                else "found different from what the last generation left"
            )
            facts = {"outcome": FOUND, "profile": None, "profile_status": None, "reason": reason}
            # A run that is killed may have made the directories and recorded no more than this.
            self._record([Change(state, state, missing_directories(state)) for state in states], facts, aside)

    def record(self, changes: list, facts: dict) -> int:
        """Write the next generation, make it current, note it in the history. ``facts`` joins the manifest. Returns its number."""
        number = self._record(changes, facts)
        self.prune()
        return number

    def _record(self, changes: list, facts: dict, aside: tuple = ()) -> int:
        number = max([-1, *self.numbers()]) + 1
        self.current()  # one that is no link is refused before anything is written
        try:
            self._write_generation(number, changes, facts, aside)
            self._point_current_to(number)
        except OSError as error:
            self._forget(number)
            raise TuningError(
                f"state_dir {self.path}: generation {number} cannot be written: {error.strerror}. Make room, or set {option('state_dir')}."
            ) from error
        self._note_or_warn(dict(facts, generation=number))
        return number

    def make_current(self, number: int, facts: dict) -> None:
        """Point ``current`` to generation ``number`` and note it."""
        try:
            self._point_current_to(number)
        except OSError as error:
            raise TuningError(
                f"{self._at('current')}: cannot be changed: {error.strerror}. Make room, or repair the file system."
            ) from error
        self._note_or_warn(dict(facts, generation=number))

    def _note_or_warn(self, entry: dict) -> None:
        """What is done is done: a line of the history that cannot be written is no reason to undo it. The next run writes it."""
        if self.warnings:
            return  # a line is missing already: the next run writes all of them, in order
        try:
            self.note(entry)
        except TuningError as error:
            self.warnings.append(f"{error} The next run writes the line of generation {entry['generation']}.")

    def note(self, entry: dict) -> None:
        """Append one line to the history."""
        history_log.append_line(self._at("history.jsonl"), entry, self.by)

    def prune(self) -> None:
        """Delete the oldest generations beyond ``keep``.

        Never 0, the current one, the newest known-good, or the first that names a file: it alone knows how that file was found.
        """
        numbers = self.numbers()
        if len(numbers) <= self.keep:
            return
        safe = {0, numbers[-1], self.current(), self.newest_known_good(), *self._first_of_each_file()}
        gone = [number for number in numbers if number not in safe][: len(numbers) - self.keep]
        for number in gone:
            self._forget(number)

    def clear(self) -> None:
        """Forget the generation that a first run recorded before it failed without touching the node."""
        shutil.rmtree(self._at("generations"), ignore_errors=True)
        for name in ("current", "history.jsonl"):
            with contextlib.suppress(OSError):  # what made the run fail is what must be told
                os.unlink(self._at(name))

    def _refuse_what_cannot_be_used(self) -> None:
        self._refuse_what_others_can_write()
        self.numbers()
        self.history()
        if self.strangers():
            raise TuningError(" ".join(self.strangers()))

    def _refuse_what_others_can_write(self) -> None:
        """Somebody else could plant links in it, and root would follow them."""
        found = os.stat(self.path)
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
            raise TuningError(
                f"state_dir {self.path}: owner {found.st_uid}, mode {found.st_mode & 0o7777:04o}; legal: a directory of your own that nobody else can "
                f"write. Repair its owner and mode (0700), or set {option('state_dir')}."
            )

    def _leave_nothing(self, made: list, had_lock: bool) -> None:
        if made:
            shutil.rmtree(self.path, ignore_errors=True)  # a run that waits may put its lock there at this moment
            remove_directories(made[:-1])
        elif not had_lock:
            with contextlib.suppress(OSError):  # what made the run fail is what must be told
                os.unlink(self._at("lock"))

    # -- inside ----------------------------------------------------------------------------------------------------

    def _write_generation(self, number: int, changes: list, facts: dict, aside: tuple) -> None:
        final = self._directory(number)
        self._make(self._at("generations"))
        carried = self._carried_over({change.before.path for change in changes})
        facts = dict(
            facts,
            number=number,
            parent=self.current() if self.current() in self.numbers() else None,
            time=record_time.now(),
            by=self.by,
            machine_id=self.machine_id,
        )
        generation_record.write_generation(final + PARTIAL, changes, carried, facts, aside)
        os.rename(final + PARTIAL, final)
        sync_directory(self._at("generations"))

    def _forget(self, number: int) -> None:
        """Delete generation ``number``, as far as it can be: what stays out of sight goes with the next run."""
        final = self._directory(number)
        with contextlib.suppress(OSError, TuningError):
            if number != self.current():
                os.rename(final, final + PARTIAL)  # first out of sight, then away: never half a generation
        shutil.rmtree(final + PARTIAL, ignore_errors=True)

    def _carried_over(self, touched: set) -> list:
        """Changes that change nothing: the files of the current generation that the next one does not touch, with their bytes."""
        number = self.current()
        if number is None or self.is_foreign(number):
            return []
        try:
            records = [record for record in self.manifest(number)["files"] if record["path"] not in touched]
            states = [self._state(number, record, "after") for record in records]
        except TuningError:
            return []  # a damaged current generation: the caller has said so, and later ones start from what stands there
        return [Change(state, state, []) for state in states]

    def _point_current_to(self, number: int) -> None:
        temporary = self._at("current" + PARTIAL)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        os.symlink(os.path.join("generations", f"{number:04d}"), temporary)
        os.replace(temporary, self._at("current"))
        sync_directory(self.path)

    def _finish(self) -> None:
        """Do what a killed run had left to do after its generation was complete: move ``current``, write the line of the history.

        So the newest line that names a generation always names the current one. Lines that somebody deleted come back.
        """
        lines, numbers = self.history(), self.numbers()
        listed = [line["generation"] for line in lines if line.get("generation") is not None]
        with contextlib.suppress(
            TuningError, OSError
        ):  # damaged or full: the run itself says so, where it matters to it
            for number in (number for number in numbers if number not in listed):
                manifest = self.manifest(number)
                if number == numbers[-1] and manifest["parent"] == self.current() and (lines or number == 0):
                    self._point_current_to(number)
                self.note(manifest | {"generation": number})
                listed.append(number)
            if listed and self.current() not in (None, listed[-1]):
                reason = "the run that did this was interrupted before it could say so"
                self.note({"outcome": ACTIVATED, "generation": self.current(), "reason": reason})

    @staticmethod
    def _make(path: str) -> list:
        """Make the directory and its parents, 0700. Returns those that were missing, outermost first."""
        missing = []
        while not os.path.isdir(path):
            missing.insert(0, path)
            path = os.path.dirname(path)
        made = []
        for directory in missing:
            try:
                os.mkdir(directory, 0o700)
                made.append(directory)
                sync_directory(os.path.dirname(directory))
            except FileExistsError as error:
                if os.path.lexists(directory) and not os.path.isdir(directory):
                    raise TuningError(
                        f"state_dir {directory}: not a directory. Move it away, or set {option('state_dir')}."
                    ) from error
                continue  # a second run made it at the same moment
            except OSError as error:
                remove_directories(made)
                raise TuningError(
                    f"state_dir {directory}: cannot be made: {error.strerror}. "
                    f"Legal: a directory that this user can make and write; set {option('state_dir')}, or become root."
                ) from error
        return made
