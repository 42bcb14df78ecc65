# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorded generations of a node, read: which is current, what each one says, how a file was. Writes nothing."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import history_log, managed_block
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.file_kind import not_a_directory
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_record import (
    ADOPTED,
    APPLIED,
    manifest_path,
    read_manifest,
    recorded_state,
    shows,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.machine_identity import machine_id, shortened
from ansible_collections.gpu_node.tuning.plugins.module_utils.option_names import option
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import read_plain
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import LARGEST, FileState
from ansible_collections.gpu_node.tuning.plugins.module_utils.version import VERSION, as_numbers

FROM_A_BACKUP = "Put it back from a backup."
NUMBERED = re.compile("[0-9]{4}|[1-9][0-9]{4,}")


class RecordedGenerations:
    """``path``: the state directory; it need not exist. Methods raise TuningError when it cannot be read, and name the file at fault."""

    def __init__(self, path: str):
        if not os.path.isabs(path):
            raise TuningError(f"state_dir {path!r}: legal: an absolute path.")
        self.path = path
        self.machine_id = machine_id()

    def refuse_no_directory(self) -> None:
        """Raises TuningError where something else stands in the place of the state directory; it may be missing."""
        kind = not_a_directory(self.path)
        if kind:
            raise TuningError(
                f"state_dir {self.path}: not a directory but {kind}. Move it away, or set {option('state_dir')}."
            )

    def is_empty(self) -> bool:
        """True where nothing was ever recorded, or nothing of it is left."""
        return not self.numbers() and not any(os.path.lexists(self._at(name)) for name in ("current", "history.jsonl"))

    def history(self) -> list:
        """The lines of the history, oldest first, as dictionaries. A line that cannot be read becomes an entry that says so."""
        return history_log.read_history(self._at("history.jsonl"))

    def current(self) -> Optional[int]:
        """Number of the current generation; None before the first."""
        try:
            return int(os.path.basename(os.readlink(self._at("current"))))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise TuningError(
                f"{self._at('current')}: not a link to a generation ({error}). Remove it, then run again."
            ) from error

    def numbers(self) -> list:
        """Numbers of all generations, ascending."""
        place = self._at("generations")
        try:
            return sorted(int(name) for name in os.listdir(place) if NUMBERED.fullmatch(name))
        except OSError as error:
            kind = not_a_directory(place)
            if kind:
                raise TuningError(
                    f"{place}: not a directory but {kind}. Put the directory back (from a backup; where a link should lead to it, mount what it "
                    f"names). Without one, move {self.path} away, and start anew with tune.yml."
                ) from error
            if isinstance(error, FileNotFoundError):
                return []
            raise TuningError(
                f"{place}: cannot be read: {error.strerror}. Become root, or set {option('state_dir')}."
            ) from error

    def own_numbers(self) -> list:
        """Those that this machine recorded, ascending. What does not say, or cannot be read, counts as its own."""
        return [number for number in self.numbers() if not self._other_machine(number)]

    def usable_numbers(self) -> list:
        """Those that this machine recorded and whose own record allows a return, ascending."""
        return [number for number in self.own_numbers() if self._is_usable(number)]

    def is_foreign(self, number: Optional[int]) -> bool:
        """True for a generation that another machine recorded: how a file was there says nothing of this node."""
        return number is not None and self._other_machine(number) is not None

    def foreign(self) -> list:
        """One sentence on the generations that another machine recorded; [] without any."""
        found = {number: self._other_machine(number) for number in self.numbers()}
        others = {number: identity for number, identity in found.items() if identity}
        if not others:
            return []
        numbers = ", ".join(map(str, others))
        return [
            f"{self.path}: generation {numbers}: recorded on another machine ({self._identities(*others.values())})."
        ]

    def refuse_foreign(self, number: int) -> None:
        """Raises TuningError for a generation that another machine recorded."""
        other = self._other_machine(number)
        if other:
            own = ", ".join(map(str, self.own_numbers()))
            legal = f"Legal: a generation of this node ({own}). Or" if own else "None is of this node:"
            raise TuningError(
                f"generation {number}: recorded on another machine ({self._identities(other)}), so it does not say how this node was. Nothing was "
                f"changed. The state directory was copied, or /etc/machine-id was made anew. {legal} move {self.path} away, and start "
                f"anew with tune.yml."
            )

    def manifest(self, number: int) -> dict:
        """The manifest of generation ``number``, its checksum and its schema verified."""
        return read_manifest(self._directory(number))

    def states_at(self, number: int) -> list:
        """Every file that was ever managed, as generation ``number`` left it: list of FileState. Verifies every byte.

        A file that was first touched later is as it was before that.
        """
        manifest = self.manifest(number)
        self._refuse_newer_version(number, manifest)
        states = {record["path"]: self._state(number, record, "after") for record in manifest["files"]}
        damage = None
        for later in (found for found in self.own_numbers() if found > number):
            try:
                records = self.manifest(later)["files"]
            except TuningError as error:
                damage = damage or error  # no harm, as long as it was not the first that named a file
                continue
            for record in records:
                if record["path"] not in states:
                    if damage:
                        raise damage
                    states[record["path"]] = self._state(later, record, "before")
        return list(states.values())

    def verify(self, number: int) -> None:
        """Read every byte of generation ``number`` itself. Raises TuningError that names what is damaged."""
        manifest = self.manifest(number)
        for record in manifest["files"]:
            for side in ("before", "after"):
                self._state(number, record, side)
        for record in manifest.get("aside", []):
            self._state(number, record, "aside")

    def knows(self, state: FileState) -> bool:
        """True when the current generation left the file as ``state`` shows it. False where that cannot be read."""
        try:
            if self.is_foreign(self.current()):
                return False
            record = self._current_record(state.path)
            if record is not None:
                return shows(record["after"], state)
            record = self.first_seen(
                state.path
            )  # after a return to a generation that is older than the file's first one
        except TuningError:
            return False
        return record is not None and shows(record["before"], state)

    def damage(self) -> list:
        """What is wrong with the generation that ``current`` names, one sentence each; [] when all is well."""
        try:
            number = self.current()
            if number is not None:
                self.verify(number)
        except TuningError as error:
            return [str(error)]
        return []

    def missing(self) -> list:
        """What a state directory that was restored by halves lacks, one sentence each; [] when nothing is missing."""
        numbers = self.numbers()
        if not numbers:
            return self.lost()
        lacking = []
        if 0 not in numbers:
            lacking.append(f"{self._directory(0)}: missing, though generation {numbers[-1]} is there. {FROM_A_BACKUP}")
        current = self.current()
        if current is None:
            what = "missing, though there are generations, so none of them counts as the one that stands"
            lacking.append(f"{self._at('current')}: {what}. The next run of tune.yml or rollback.yml makes it anew.")
        elif current not in numbers:
            what = f"names generation {current}, which is missing"
            lacking.append(
                f"{self._at('current')}: {what}. {FROM_A_BACKUP} Or run tune.yml or rollback.yml, which makes it anew."
            )
        if not os.path.lexists(self._at("history.jsonl")):
            lacking.append(
                f"{self._at('history.jsonl')}: missing. The next run writes the lines of the generations that are left."
            )
        return lacking

    def lost(self) -> list:
        """One sentence where no generation is left, though there were some; [] otherwise."""
        if self.numbers() or self.is_empty():
            return []
        has_current = os.path.lexists(self._at("current"))
        named = [line["generation"] for line in self.history() if line.get("generation") is not None]
        left = "current is there" if has_current else "history.jsonl is there"
        known_by = f"history.jsonl names generation {named[-1]}" if named else left
        gone = "put it back from a backup" if has_current else "current is missing as well: put both back from a backup"
        way_on = (
            "Without one the way back ends here: tune.yml starts anew, and its generation 0 is the node as it is then."
        )
        return [f"{self._at('generations')}: no generation is left, though {known_by}; {gone}. {way_on}"]

    def recorded_link(self, path: str) -> Optional[str]:
        """Text of the symbolic link that the current generation says ``path`` is; None for no link or no record."""
        try:
            record = self._current_record(path)
        except TuningError:
            return None
        return record["after"]["link"] if record else None

    def targets(self, path: str) -> set:
        """Every file that was ever behind ``path``; empty where it was never managed."""
        found = set()
        for number in self.own_numbers():
            with contextlib.suppress(TuningError):  # a damaged one names nothing
                for record in self.manifest(number)["files"]:
                    if record["path"] == path:
                        found |= {record["before"]["target"], record["after"]["target"]}
        return found

    def left_behind(self, scope: str, executable: str, version: str, path: str) -> list:
        """A sentence where the same interpreter was last tuned through another file, which still holds the block.

        A new Python reads nothing of the old file; another scope or directory leaves the old one in effect.
        """
        try:
            number = self.current()
            manifest = {} if number is None else self.manifest(number)
        except TuningError:
            return []  # damage() names it
        known = manifest.get("interpreter") or {}
        old = (manifest.get("read_back") or {}).get("expected")
        if old in (None, path) or known.get("executable") != executable or not _holds_block(old):
            return []
        if manifest.get("scope") == scope and known["version"] != version:
            was = f"{executable}: was Python {known['version']} and imported {old}"
            now_is = f"it is Python {version} now and imports {path}"
            return [f"{was}; {now_is}. What stands in {old} does nothing for it any more."]
        what = f"{old}: holds the managed block of an earlier run with another scope or directory (scope {manifest.get('scope')})"
        cure = "Remove it: run once with that scope and profile stock, or roll back first."
        return [f"{what}, and stays in effect where it is imported. {cure}"]

    def first_seen(self, path: str) -> Optional[dict]:
        """The oldest record of the file ``path``; its ``before`` is how the file was before us."""
        for number in self.own_numbers():
            for record in self.manifest(number)["files"]:
                if record["path"] == path:
                    return record
        return None

    def made_directories(self, path: str) -> list:
        """Directories that were made for the file ``path``, outermost first."""
        made = []
        for number in self.own_numbers():
            with contextlib.suppress(TuningError):  # a directory that nobody knows of stays, which does no harm
                for record in self.manifest(number)["files"]:
                    if record["path"] == path:
                        made.extend(directory for directory in record["made_directories"] if directory not in made)
        return made

    def newest_known_good(self) -> Optional[int]:
        """The newest generation that a known-good profile with at least one variable left, read back with success."""
        for number in reversed(self.own_numbers()):
            try:
                manifest = self.manifest(number)
                for record in manifest["files"]:
                    self._state(number, record, "after")
            except TuningError:
                continue  # a damaged one is not good
            if (
                manifest.get("profile_status") == "known_good"
                and manifest.get("declared")
                and manifest["outcome"] in (APPLIED, ADOPTED)
            ):
                return number
        return None

    def _is_usable(self, number: int) -> bool:
        try:
            manifest = self.manifest(number)
            self._refuse_newer_version(number, manifest)
            for record in manifest["files"]:
                self._state(number, record, "after")
        except TuningError:
            return False
        return True

    def _other_machine(self, number: int) -> Optional[str]:
        try:
            recorded = self.manifest(number).get("machine_id")
        except TuningError:
            return None
        return recorded if recorded and self.machine_id and recorded != self.machine_id else None

    def _identities(self, *others: str) -> str:
        named = ", ".join(sorted({shortened(other) for other in others}))
        return f"machine-id {named}; this one is {shortened(self.machine_id)}"

    def _state(self, number: int, record: dict, side: str) -> FileState:
        return recorded_state(self._directory(number), number, record, side)

    def _current_record(self, path: str) -> Optional[dict]:
        number = self.current()
        if number is None or self.is_foreign(number):
            return None
        return next((record for record in self.manifest(number)["files"] if record["path"] == path), None)

    def _first_of_each_file(self) -> set:
        first = {}
        for number in self.own_numbers():
            try:
                for record in self.manifest(number)["files"]:
                    first.setdefault(record["path"], number)
            except TuningError:
                continue  # a damaged one names nothing
        return set(first.values())

    def _refuse_newer_version(self, number: int, manifest: dict) -> None:
        if as_numbers(manifest["collection_version"]) > as_numbers(VERSION):
            raise TuningError(
                f"{manifest_path(self._directory(number))}: recorded by version {manifest['collection_version']} of the collection; this is version "
                f"{VERSION}, which cannot know everything that it means. Use version {manifest['collection_version']} or newer."
            )

    def _directory(self, number: int) -> str:
        return self._at("generations", f"{number:04d}")

    def _at(self, *names: str) -> str:
        return os.path.join(self.path, *names)


def _holds_block(path: str) -> bool:
    try:
        return managed_block.BEGIN in read_plain(path, follow=True, most=LARGEST)
    except OSError:
        return False
