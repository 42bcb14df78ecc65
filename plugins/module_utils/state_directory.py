# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state directory on the node: numbered generations, the link ``current``, the history, the lock.

A generation is a full snapshot: it names every file that was ever managed on the node, with its bytes before and after. It is
written under another name, put on the disk and renamed before ``current`` points to it, so that none is ever half visible.
Every file is 0600 and every directory 0700. Schema of the manifest: docs/what_is_written.md.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import re
import shutil
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import managed_block, node_lock
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import (
    LARGEST,
    FileState,
    missing_directories,
    remove_directories,
    sync_directory,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.version import VERSION, as_numbers

SCHEMA = 1
FOUND, APPLIED, ADOPTED, ACTIVATED, FAILED = "found", "applied", "adopted", "activated", "failed"
NOTED = ("generation", "profile", "profile_status", "outcome", "reason", "time", "by", "evidence")
PARTIAL = ".partial"
NUMBERED = re.compile("[0-9]{4}|[1-9][0-9]{4,}")


class Change(NamedTuple):
    """One file before and after, and the directories (outermost first) that had to be made for it, or will have to be."""

    before: FileState
    after: FileState
    made_directories: list


class StateDirectory:
    """``path``: the directory, made when something is first written. ``by``: who runs this, for the records.

    ``keep``: how many generations stay when a new one is recorded, see prune(). ``warnings`` gathers what a caller must tell.

    Methods raise TuningError when the directory cannot be used, and name the file at fault.
    """

    def __init__(self, path: str, by: Optional[str] = None, keep: int = 50):
        if not os.path.isabs(path):
            raise TuningError(f"state_dir {path!r}: legal: an absolute path.")
        self.path = path
        self.by = by
        self.keep = keep
        self.warnings = []

    # -- lock ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self, timeout: float):
        """Hold the node's one lock; a second run waits up to ``timeout`` seconds.

        A run that recorded nothing leaves nothing: what it made for the lock goes again.
        """
        made = []
        had_lock = os.path.lexists(self._at("lock"))
        try:
            descriptor = node_lock.acquire(self._at("lock"), timeout, lambda: made.extend(self._make(self.path)))
        except TuningError:
            remove_directories(made)
            raise
        try:
            self._refuse_what_others_can_write()
            self._sweep()
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
        """Wait for a run that holds the lock, and write nothing at all: without a lock file there is nobody to wait for."""
        descriptor = node_lock.acquire(self._at("lock"), timeout, None)
        try:
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

    # -- reading ---------------------------------------------------------------------------------------------------

    def is_empty(self) -> bool:
        """True where nothing was ever recorded, or nothing of it is left."""
        return not self.numbers() and not any(os.path.lexists(self._at(name)) for name in ("current", "history.jsonl"))

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
        try:
            return sorted(int(name) for name in os.listdir(self._at("generations")) if NUMBERED.fullmatch(name))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise TuningError(
                f"{self._at('generations')}: cannot be read: {error.strerror}. Become root, or set nccl_env_state_dir."
            ) from error

    def manifest(self, number: int) -> dict:
        """The manifest of generation ``number``, its checksum and its schema verified."""
        path = self._manifest_path(number)
        try:
            with open(path, encoding="utf-8") as stream:
                manifest = json.load(stream)
            found = manifest.pop("checksum")
            newer = manifest["schema"] > SCHEMA
        except (OSError, ValueError, KeyError, AttributeError, RecursionError, TypeError) as error:
            raise TuningError(
                f"{path}: cannot be read ({error or type(error).__name__}). Put this generation back from a backup, or choose another one."
            ) from error
        if newer:
            raise TuningError(
                f"{path}: written by version {manifest.get('collection_version')} of the collection, in a form (schema "
                f"{manifest['schema']}) that version {VERSION} does not know. Use version {manifest.get('collection_version')} or newer."
            )
        if found != _checksum(manifest):
            raise TuningError(
                f"{path}: its checksum does not fit: it was edited after it was written. "
                f"Put this generation back from a backup, or choose another one."
            )
        return manifest

    def states_at(self, number: int) -> list:
        """Every file that was ever managed, as generation ``number`` left it: list of FileState. Verifies every byte.

        A file that was first touched later is as it was before that.
        """
        manifest = self.manifest(number)
        self._refuse_newer_version(number, manifest)
        states = {record["path"]: self._state(number, record, "after") for record in manifest["files"]}
        damage = None
        for later in (found for found in self.numbers() if found > number):
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
            record = self._current_record(state.path)
            if record is not None:
                return record["after"] == _describe(state)
            record = self.first_seen(
                state.path
            )  # after a return to a generation that is older than the file's first one
        except TuningError:
            return False
        return record is not None and record["before"] == _describe(state)

    def damage(self) -> list:
        """What is wrong with the generation that ``current`` names, one sentence each; [] when all is well."""
        try:
            number = self.current()
            if number is not None:
                self.verify(number)
        except TuningError as error:
            return [str(error)]
        return []

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
        for number in self.numbers():
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
        for number in self.numbers():
            for record in self.manifest(number)["files"]:
                if record["path"] == path:
                    return record
        return None

    def made_directories(self, path: str) -> list:
        """Directories that were made for the file ``path``, outermost first."""
        made = []
        for number in self.numbers():
            with contextlib.suppress(TuningError):  # a directory that nobody knows of stays, which does no harm
                for record in self.manifest(number)["files"]:
                    if record["path"] == path:
                        made.extend(directory for directory in record["made_directories"] if directory not in made)
        return made

    def history(self) -> list:
        """The lines of the history, oldest first, as dictionaries. A line that cannot be read becomes an entry that says so."""
        try:
            with open(self._at("history.jsonl"), encoding="utf-8", errors="replace") as stream:
                lines = stream.read().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise TuningError(f"{self._at('history.jsonl')}: cannot be read: {error.strerror}. Become root.") from error
        return [_history_entry(line, number) for number, line in enumerate(lines, start=1) if line.strip()]

    # -- writing ---------------------------------------------------------------------------------------------------

    def keep_found(self, *states: FileState, aside: tuple = ()) -> None:
        """Before the first byte changes: what stands there now is in a generation, absence included.

        ``aside``: states of files that are no managed paths, and whose bytes are about to be lost. They are kept for a person.
        """
        if aside or not all(self.knows(state) for state in states):
            reason = (
                "the node as it was found"
                if not self.numbers()
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
                f"state_dir {self.path}: generation {number} cannot be written: {error.strerror}. Make room, or set nccl_env_state_dir."
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
        kept = {key: entry[key] for key in NOTED if entry.get(key) is not None}
        line = json.dumps(dict({"time": now(), "by": self.by}, **kept), sort_keys=True) + "\n"
        try:
            descriptor = os.open(self._at("history.jsonl"), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                torn = (
                    size and os.pread(descriptor, 1, size - 1) != b"\n"
                )  # a full disk or a power loss cut the last line
                _write_all(descriptor, (b"\n" if torn else b"") + line.encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if not size:
                sync_directory(self.path)
        except OSError as error:
            raise TuningError(
                f"{self._at('history.jsonl')}: cannot be written: {error.strerror}. Make room."
            ) from error

    def prune(self) -> list:
        """Delete the oldest generations beyond ``keep``. Returns their numbers.

        Never 0, the current one, the newest known-good, or the first that names a file: it alone knows how that file was found.
        """
        numbers = self.numbers()
        if len(numbers) <= self.keep:
            return []
        safe = {0, numbers[-1], self.current(), self.newest_known_good(), *self._first_of_each_file()}
        gone = [number for number in numbers if number not in safe][: len(numbers) - self.keep]
        for number in gone:
            self._forget(number)
        return gone

    def newest_known_good(self) -> Optional[int]:
        """The newest generation that a known-good profile with at least one variable left, read back with success."""
        for number in reversed(self.numbers()):
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

    def clear(self) -> None:
        """Forget the generation that a first run recorded before it failed without touching the node."""
        shutil.rmtree(self._at("generations"), ignore_errors=True)
        for name in ("current", "history.jsonl"):
            with contextlib.suppress(OSError):  # what made the run fail is what must be told
                os.unlink(self._at(name))

    def _refuse_what_others_can_write(self) -> None:
        """Somebody else could plant links in it, and root would follow them."""
        found = os.stat(self.path)
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
            raise TuningError(
                f"state_dir {self.path}: owner {found.st_uid}, mode {found.st_mode & 0o7777:04o}; legal: a directory of your own that nobody else can "
                f"write. Repair its owner and mode (0700), or set nccl_env_state_dir."
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
        final = self._at("generations", f"{number:04d}")
        temporary = final + PARTIAL
        self._make(self._at("generations"))
        os.mkdir(temporary, 0o700)
        records = [self._keep_change(temporary, change) for change in changes]
        records += self._carried_over(temporary, {change.before.path for change in changes})
        manifest = dict(
            facts,
            schema=SCHEMA,
            number=number,
            parent=self.current(),
            time=now(),
            by=self.by,
            collection_version=VERSION,
            files=records,
            aside=[{"path": state.path, "aside": _describe(state)} for state in aside],
        )
        for state in aside:
            self._keep_bytes(temporary, "aside", state.path, state.content)
        manifest["checksum"] = _checksum(manifest)
        _write_file(os.path.join(temporary, "manifest.json"), json.dumps(manifest, indent=1, sort_keys=True).encode())
        for directory, _names, _files in os.walk(temporary):
            sync_directory(directory)
        os.rename(temporary, final)
        sync_directory(self._at("generations"))

    def _forget(self, number: int) -> None:
        """Delete generation ``number``, as far as it can be: what stays out of sight goes with the next run."""
        final = self._at("generations", f"{number:04d}")
        with contextlib.suppress(OSError, TuningError):
            if number != self.current():
                os.rename(final, final + PARTIAL)  # first out of sight, then away: never half a generation
        shutil.rmtree(final + PARTIAL, ignore_errors=True)

    def _keep_change(self, directory: str, change: Change) -> dict:
        self._keep_bytes(directory, "before", change.before.path, change.before.content)
        self._keep_bytes(directory, "after", change.after.path, change.after.content)
        return {
            "path": change.before.path,
            "before": _describe(change.before),
            "after": _describe(change.after),
            "made_directories": change.made_directories,
        }

    def _carried_over(self, directory: str, touched: set) -> list:
        """Records of the files of the current generation that this one does not touch, with their bytes."""
        number = self.current()
        if number is None:
            return []
        try:
            records = [record for record in self.manifest(number)["files"] if record["path"] not in touched]
            states = [self._state(number, record, "after") for record in records]
        except TuningError:
            return []  # a damaged current generation: the caller has said so, and later ones start from what stands there
        return [self._keep_change(directory, Change(state, state, [])) for state in states]

    @staticmethod
    def _keep_bytes(directory: str, side: str, path: str, content: Optional[bytes]) -> None:
        place = os.path.join(directory, side)
        if content is not None:
            place = os.path.join(place, path.lstrip("/"))
            _make_below(directory, os.path.relpath(os.path.dirname(place), directory))
            _write_file(place, content)
        else:
            _make_below(directory, side)

    def _state(self, number: int, record: dict, side: str) -> FileState:
        """The FileState that a record describes, its bytes verified."""
        described = record[side]
        content = None
        if described["kind"] == "file":
            place = self._at("generations", f"{number:04d}", side, record["path"].lstrip("/"))
            try:
                with open(place, "rb") as stream:
                    content = stream.read()
            except OSError as error:
                raise TuningError(
                    f"{place}: cannot be read: {error.strerror}. Put generation {number} back from a backup, or choose another one."
                ) from error
            if sha256(content) != described["sha256"]:
                raise TuningError(
                    f"{place}: its bytes are not those that were recorded. Put generation {number} back from a backup, or choose another one."
                )
        mode = None if described["mode"] is None else int(described["mode"], 8)
        return FileState(
            record["path"], described["target"], described["link"], content, mode, described["uid"], described["gid"]
        )

    def _current_record(self, path: str) -> Optional[dict]:
        number = self.current()
        if number is None:
            return None
        return next((record for record in self.manifest(number)["files"] if record["path"] == path), None)

    def _first_of_each_file(self) -> set:
        first = {}
        for number in self.numbers():
            try:
                for record in self.manifest(number)["files"]:
                    first.setdefault(record["path"], number)
            except TuningError:
                continue  # a damaged one names nothing
        return set(first.values())

    def _refuse_newer_version(self, number: int, manifest: dict) -> None:
        if as_numbers(manifest["collection_version"]) > as_numbers(VERSION):
            raise TuningError(
                f"{self._manifest_path(number)}: recorded by version {manifest['collection_version']} of the collection; this is version "
                f"{VERSION}, which cannot know everything that it means. Use version {manifest['collection_version']} or newer."
            )

    def _point_current_to(self, number: int) -> None:
        temporary = self._at("current" + PARTIAL)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        os.symlink(os.path.join("generations", f"{number:04d}"), temporary)
        os.replace(temporary, self._at("current"))
        sync_directory(self.path)

    def _sweep(self) -> None:
        """Remove what a killed run left half done."""
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._at("current" + PARTIAL))
            with contextlib.suppress(FileNotFoundError):
                for name in os.listdir(self._at("generations")):
                    if name.endswith(PARTIAL):
                        shutil.rmtree(self._at("generations", name))
        except OSError as error:
            raise TuningError(
                f"state_dir {self.path}: what an interrupted run left cannot be removed: {error.strerror}. "
                f"Nothing was changed. Repair the file system, or set nccl_env_state_dir."
            ) from error

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

    def _manifest_path(self, number: int) -> str:
        return self._at("generations", f"{number:04d}", "manifest.json")

    def _at(self, *names: str) -> str:
        return os.path.join(self.path, *names)

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
                        f"state_dir {directory}: not a directory. Move it away, or set nccl_env_state_dir."
                    ) from error
                continue  # a second run made it at the same moment
            except OSError as error:
                remove_directories(made)
                raise TuningError(
                    f"state_dir {directory}: cannot be made: {error.strerror}. "
                    f"Legal: a directory that this user can make and write; set nccl_env_state_dir, or become root."
                ) from error
        return made


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def now() -> str:
    """This moment in UTC, as ISO 8601 with seconds."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def state_time(text: str) -> float:
    """A time of the records, as now() writes it, in seconds since 1970; 0 for anything else."""
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc).timestamp()
    except (TypeError, ValueError):
        return 0.0


def _describe(state: FileState) -> dict:
    """What a manifest says of a file: kind, link text, target, mode (octal text), uid, gid, sha256 (hex)."""
    return {
        "kind": "file" if state.exists else "absent",
        "link": state.link,
        "target": state.target,
        "mode": f"{state.mode:04o}" if state.exists else None,
        "uid": state.uid,
        "gid": state.gid,
        "sha256": sha256(state.content) if state.exists else None,
    }


def _checksum(manifest: dict) -> str:
    return sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode())


def _history_entry(line: str, number: int) -> dict:
    try:
        entry = json.loads(line)
        if isinstance(entry, dict):
            return entry
    except (ValueError, RecursionError):
        pass  # said in the entry below
    return {"outcome": "unreadable", "reason": f"line {number} of history.jsonl cannot be read"}


def _make_below(directory: str, relative: str) -> None:
    """Every directory of ``relative``, 0700: os.makedirs gives the mode to the last one only."""
    for name in relative.split(os.sep):
        directory = os.path.join(directory, name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)


def _holds_block(path: str) -> bool:
    try:
        with open(path, "rb") as stream:
            return managed_block.BEGIN in stream.read(LARGEST)
    except OSError:
        return False


def _write_all(descriptor: int, content: bytes) -> None:
    """A nearly full disk may take a part only."""
    while content:
        content = content[os.write(descriptor, content) :]


def _write_file(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
