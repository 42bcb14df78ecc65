# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state directory on the node: numbered generations, the link ``current``, the history, the lock.

Every file is 0600 and every directory 0700. A generation is complete and on disk before ``current`` points to it.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import (
    FileState,
    remove_directories,
    sync_directory,
)

SCHEMA = 1
FOUND, APPLIED, ADOPTED, FAILED = "found", "applied", "adopted", "failed"
POLL = 0.1  # seconds between two tries for the lock


class StateDirectory:
    """``path``: the directory, made when something is first written. Its methods raise TuningError when it cannot be used."""

    def __init__(self, path: str):
        if not os.path.isabs(path):
            raise TuningError(f"state_dir {path!r}: legal: an absolute path.")
        self.path = path

    @contextlib.contextmanager
    def locked(self, timeout: float):
        """Hold the node's one lock; a second run waits up to ``timeout`` seconds. The kernel frees it when its holder dies.

        A run that recorded nothing leaves nothing: what it made for the lock goes again.
        """
        made = []
        had_lock = os.path.lexists(self._at("lock"))
        try:
            descriptor = self._open_lock(timeout, made)
        except TuningError:
            remove_directories(made)
            raise
        try:
            yield
        finally:
            if self._numbers() == [] and not os.path.exists(self._at("history.jsonl")):
                if made:
                    shutil.rmtree(
                        self.path, ignore_errors=True
                    )  # a run that waits may put its lock there at this moment
                    remove_directories(made[:-1])
                elif not had_lock:
                    os.unlink(self._at("lock"))
            os.close(descriptor)

    @contextlib.contextmanager
    def locked_for_reading(self, timeout: float):
        """Wait for a run that holds the lock, and write nothing at all: without a lock file there is nobody to wait for."""
        descriptor = self._open_lock(timeout, None)
        try:
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

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

    def manifest(self, number: int) -> dict:
        path = self._at("generations", f"{number:04d}", "manifest.json")
        try:
            with open(path, encoding="utf-8") as stream:
                return json.load(stream)
        except (OSError, ValueError) as error:
            raise TuningError(
                f"{path}: cannot be read ({error}). Put it back from a backup, or move {self.path} away and tune again."
            ) from error

    def latest(self, path: str) -> Optional[dict]:
        """The record of the newest generation that names the file ``path``; None without one."""
        for number in reversed(self._numbers()):
            for record in self.manifest(number)["files"]:
                if record["path"] == path:
                    return record
        return None

    def knows(self, state: FileState) -> bool:
        """True when the newest generation left the file as ``state`` shows it."""
        record = self.latest(state.path)
        return record is not None and record["after"] == _describe(state)

    def first_seen(self, path: str) -> Optional[dict]:
        """The record of the first generation that names the file ``path``: how it was before us."""
        for number in self._numbers():
            for record in self.manifest(number)["files"]:
                if record["path"] == path:
                    return record
        return None

    def made_directories(self, path: str) -> list:
        """Directories that were made for the file ``path``, outermost first."""
        made = []
        for number in self._numbers():
            for record in self.manifest(number)["files"]:
                if record["path"] == path:
                    made.extend(directory for directory in record["made_directories"] if directory not in made)
        return made

    def keep_found(self, state: FileState) -> None:
        """Before the first byte changes: what stands there now is in a generation, absence included."""
        if not self.knows(state):
            first = self.current() is None
            reason = "the node as it was found" if first else "found different from what the last generation left"
            self.record(state, state, {"outcome": FOUND, "profile": None, "profile_status": None, "reason": reason}, [])

    def record(self, before: FileState, after: FileState, facts: dict, made_directories: list) -> int:
        """Write the next generation, make it current, note it in the history. ``facts`` joins the manifest. Returns its number."""
        number = (self._numbers() or [-1])[-1] + 1
        try:
            self._write_generation(number, before, after, facts, made_directories)
            self._point_current_to(number)
            self.note(dict(facts, generation=number))
        except OSError as error:
            shutil.rmtree(self._at("generations", f"{number:04d}.partial"), ignore_errors=True)
            raise TuningError(
                f"state_dir {self.path}: generation {number} cannot be written: {error.strerror}. Make room, or set nccl_env_state_dir."
            ) from error
        return number

    def clear(self) -> None:
        """Forget the generation that a first run recorded before it failed without touching the node."""
        shutil.rmtree(self._at("generations"), ignore_errors=True)
        for name in ("current", "history.jsonl"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._at(name))

    def note(self, entry: dict) -> None:
        """Append one line to the history."""
        kept = {key: entry.get(key) for key in ("generation", "profile", "profile_status", "outcome", "reason")}
        line = json.dumps(dict(kept, time=now()), sort_keys=True) + "\n"
        descriptor = os.open(self._at("history.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _write_generation(
        self, number: int, before: FileState, after: FileState, facts: dict, made_directories: list
    ) -> None:
        """Write it under a temporary name, put it on the disk, then rename it: a half-written generation is never visible."""
        final = self._at("generations", f"{number:04d}")
        temporary = final + ".partial"
        shutil.rmtree(temporary, ignore_errors=True)
        self._make(self._at("generations"))
        for directory in (temporary, os.path.join(temporary, "before"), os.path.join(temporary, "after")):
            os.mkdir(directory, 0o700)
        record = {
            "path": before.path,
            "target": before.target,
            "before": self._keep(os.path.join(temporary, "before"), before),
            "after": self._keep(os.path.join(temporary, "after"), after),
            "made_directories": made_directories,
        }
        manifest = dict(facts, schema=SCHEMA, number=number, time=now(), files=[record])
        _write_file(os.path.join(temporary, "manifest.json"), json.dumps(manifest, indent=1, sort_keys=True).encode())
        for directory in (os.path.join(temporary, "before"), os.path.join(temporary, "after"), temporary):
            sync_directory(directory)
        os.rename(temporary, final)
        sync_directory(self._at("generations"))

    @staticmethod
    def _keep(directory: str, state: FileState) -> dict:
        """Keep the bytes of ``state`` in ``directory``; returns what the manifest says of it."""
        if state.exists:
            _write_file(os.path.join(directory, "sitecustomize.py"), state.content)
        return _describe(state)

    def _point_current_to(self, number: int) -> None:
        temporary = self._at("current.partial")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        os.symlink(os.path.join("generations", f"{number:04d}"), temporary)
        os.replace(temporary, self._at("current"))
        sync_directory(self.path)

    def _numbers(self) -> list:
        try:
            return sorted(int(name) for name in os.listdir(self._at("generations")) if name.isdigit())
        except FileNotFoundError:
            return []

    def _at(self, *names: str) -> str:
        return os.path.join(self.path, *names)

    @staticmethod
    def _make(path: str) -> list:
        missing = []
        while not os.path.isdir(path):
            missing.insert(0, path)
            path = os.path.dirname(path)
        made = []
        for directory in missing:
            try:
                os.mkdir(directory, 0o700)
            except FileExistsError as error:
                if os.path.lexists(directory) and not os.path.isdir(directory):
                    raise TuningError(
                        f"state_dir {directory}: not a directory. Move it away, or set nccl_env_state_dir."
                    ) from error
                continue  # a second run made it at the same moment
            except OSError as error:
                remove_directories(made)
                raise TuningError(
                    f"state_dir {directory}: cannot be made: {error.strerror}. Become root, or set nccl_env_state_dir."
                ) from error
            made.append(directory)
        return made

    def _open_lock(self, timeout: float, made: Optional[list]) -> Optional[int]:
        """File descriptor of the lock, held. The run before us may have removed the file that we waited on: then take the new one.

        Adds the directories that had to be made to ``made``. With None nothing is made, and without a lock file the answer is None.
        """
        path = self._at("lock")
        flags = os.O_RDONLY if made is None else os.O_RDWR | os.O_CREAT
        end = time.monotonic() + timeout
        while True:
            try:
                if made is not None:
                    made.extend(directory for directory in self._make(self.path) if directory not in made)
                descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                if made is None:
                    return None
                continue  # the run before us removed the directory between the two calls
            except OSError as error:
                raise TuningError(
                    f"{path}: the lock cannot be opened: {error.strerror}. Become root, or set nccl_env_state_dir."
                ) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.exists(path) and os.path.samestat(os.stat(path), os.fstat(descriptor)):
                    return descriptor
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.ENOENT):
                    os.close(descriptor)
                    raise TuningError(f"{path}: cannot be locked: {error.strerror}.") from error
            os.close(descriptor)
            if time.monotonic() > end:
                raise TuningError(
                    f"{path}: another run has held the lock of this node for {timeout:g} s. "
                    f"Wait for it (fuser names its process), or raise nccl_env_lock_timeout."
                )
            time.sleep(POLL)


def _describe(state: FileState) -> dict:
    """What a manifest says of a file: kind, link text, mode (octal text), uid, gid, sha256 (hex)."""
    return {
        "kind": "file" if state.exists else "absent",
        "link": state.link,
        "mode": f"{state.mode:04o}" if state.exists else None,
        "uid": state.uid,
        "gid": state.gid,
        "sha256": sha256(state.content) if state.exists else None,
    }


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def now() -> str:
    """This moment in UTC, as ISO 8601 with seconds."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _write_file(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
