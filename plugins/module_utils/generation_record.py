# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One generation on the disk: its manifest, and the bytes of every file before and after.

Every file is 0600 and every directory 0700. Schema of the manifest: docs/what_is_written.md.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import read_plain
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import FileState, sync_directory
from ansible_collections.gpu_node.tuning.plugins.module_utils.version import VERSION

SCHEMA = 1
FOUND, APPLIED, ADOPTED, ACTIVATED, FAILED = "found", "applied", "adopted", "activated", "failed"


class Change(NamedTuple):
    """One file before and after, and the directories (outermost first) that had to be made for it, or will have to be."""

    before: FileState
    after: FileState
    made_directories: list


def manifest_path(directory: str) -> str:
    return os.path.join(directory, "manifest.json")


def read_manifest(directory: str) -> dict:
    """The manifest of the generation in ``directory``, its checksum and its schema verified. Raises TuningError."""
    path = manifest_path(directory)
    try:
        manifest = json.loads(read_plain(path).decode("utf-8"))
        found = manifest.pop("checksum")
        newer = manifest["schema"] > SCHEMA
    except (OSError, ValueError, KeyError, AttributeError, RecursionError, TypeError) as error:
        why = getattr(error, "strerror", None) or error or type(error).__name__
        raise TuningError(
            f"{path}: cannot be read ({why}). Put this generation back from a backup, or choose another one."
        ) from error
    if newer:
        raise TuningError(
            f"{path}: written by version {manifest.get('collection_version')} of the collection, in a form (schema "
            f"{manifest['schema']}) that version {VERSION} does not know. Use version {manifest.get('collection_version')} or newer."
        )
    if found != checksum(manifest):
        raise TuningError(
            f"{path}: its checksum does not fit: it was edited after it was written. "
            f"Put this generation back from a backup, or choose another one."
        )
    return manifest


def write_generation(directory: str, changes: list, carried: list, facts: dict, aside: tuple) -> None:
    """Make ``directory`` with all of a generation in it, and put it on the disk. ``carried``: changes of files that it only names again."""
    os.mkdir(directory, 0o700)
    records = [_keep_change(directory, change) for change in changes + carried]
    manifest = dict(
        facts,
        schema=SCHEMA,
        collection_version=VERSION,
        files=records,
        aside=[{"path": state.path, "aside": describe(state)} for state in aside],
    )
    for state in aside:
        _keep_bytes(directory, "aside", state.path, state.content)
    manifest["checksum"] = checksum(manifest)
    _write_file(manifest_path(directory), json.dumps(manifest, indent=1, sort_keys=True).encode())
    for folder, _names, _files in os.walk(directory):
        sync_directory(folder)


def recorded_state(directory: str, number: int, record: dict, side: str) -> FileState:
    """The FileState that a record describes, its bytes verified."""
    described = record[side]
    content = None
    if described["kind"] == "file":
        place = os.path.join(directory, side, record["path"].lstrip("/"))
        try:
            content = read_plain(place)
        except OSError as error:
            raise TuningError(
                f"{place}: cannot be read: {error.strerror}. Put generation {number} back from a backup, or choose another one."
            ) from error
        if sha256(content) != described["sha256"]:
            raise TuningError(
                f"{place}: its bytes are not those that were recorded. Put generation {number} back from a backup, or choose another one."
            )
    return FileState(
        record["path"],
        described["target"],
        described["link"],
        content,
        None if described["mode"] is None else int(described["mode"], 8),
        described["uid"],
        described["gid"],
        _decoded(described.get("attributes")),
    )


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def describe(state: FileState) -> dict:
    """What a manifest says of a file: kind, link text, target, mode (octal text), uid, gid, sha256 (hex), attributes (name to base64)."""
    return {
        "kind": "file" if state.exists else "absent",
        "link": state.link,
        "target": state.target,
        "mode": f"{state.mode:04o}" if state.exists else None,
        "uid": state.uid,
        "gid": state.gid,
        "sha256": sha256(state.content) if state.exists else None,
        "attributes": _encoded(state.attributes),
    }


def shows(described: dict, state: FileState) -> bool:
    """True where a manifest describes the file as ``state`` has it, see FileState.same_as."""
    return all(described[key] == value for key, value in describe(state).items() if key != "attributes")


def _encoded(attributes: Optional[dict]) -> Optional[dict]:
    if attributes is None:
        return None
    return {name: base64.b64encode(value).decode("ascii") for name, value in attributes.items()}


def _decoded(attributes: Optional[dict]) -> Optional[dict]:
    if attributes is None:
        return None
    return {name: base64.b64decode(value) for name, value in attributes.items()}


def checksum(manifest: dict) -> str:
    return sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode())


def _keep_change(directory: str, change: Change) -> dict:
    _keep_bytes(directory, "before", change.before.path, change.before.content)
    _keep_bytes(directory, "after", change.after.path, change.after.content)
    return {
        "path": change.before.path,
        "before": describe(change.before),
        "after": describe(change.after),
        "made_directories": change.made_directories,
    }


def _keep_bytes(directory: str, side: str, path: str, content: Optional[bytes]) -> None:
    place = os.path.join(directory, side)
    if content is not None:
        place = os.path.join(place, path.lstrip("/"))
        _make_below(directory, os.path.relpath(os.path.dirname(place), directory))
        _write_file(place, content)
    else:
        _make_below(directory, side)


def _make_below(directory: str, relative: str) -> None:
    """Every directory of ``relative``, 0700: os.makedirs gives the mode to the last one only."""
    for name in relative.split(os.sep):
        directory = os.path.join(directory, name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)


def _write_file(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
