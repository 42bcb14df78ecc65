# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts of SGLang that are worth keeping: the good ones, to go back to, and what a failed one said.

A good start is kept in the form of a generation: immutable, with a checksum over what it says and one over every file. The keys are no
part of it. A failed start is kept with the generation that it ran under.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    generation_record,
    record_time,
    sglang_files,
    sglang_unit_text,
    sitecustomize_file,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_record import Change
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory

KEPT = 5  # good starts of an instance; the newest known-good one besides
PARTIAL = ".partial"
_NUMBERED = re.compile(r"[0-9]{4,}\Z")


class Start(NamedTuple):
    """One good start: its number, its directory, and its manifest."""

    number: int
    directory: str
    manifest: dict


def folder_of(state_dir: str, name: str) -> str:
    return os.path.join(state_dir, "sglang", sglang_files.checked(name))


def good_starts(state_dir: str, name: str) -> tuple:
    """(list of Start, newest first; one sentence for each that is damaged)."""
    folder, found, damaged = os.path.join(folder_of(state_dir, name), "starts"), [], []
    for number in sorted(_numbers(folder), reverse=True):
        directory = os.path.join(folder, f"{number:04d}")
        try:
            manifest = generation_record.read_manifest(directory)
            for record in manifest["files"]:
                generation_record.recorded_state(directory, number, record, "after")
            found.append(Start(number, directory, manifest))
        except TuningError as error:
            damaged.append(f"good start {number} of {name} is not used: {error}")
    return found, damaged


def record(state: StateDirectory, name: str, facts: dict, parts: dict, check: bool, lock_timeout: float) -> tuple:
    """(number, whether it is new). ``facts``: generation, profile, profile_status, version, ready. A start that is on record is not kept twice."""
    kept, _damaged = good_starts(state.path, name)
    same = ("generation", "profile", "profile_status")
    newest = kept[0] if kept else None
    if newest and newest.manifest["parts"] == parts and all(newest.manifest[key] == facts[key] for key in same):
        return newest.number, False
    folder = os.path.join(folder_of(state.path, name), "starts")
    number = max([0, *_numbers(folder)]) + 1
    if check:
        return number, True
    sglang_files.make_private(folder)
    with state.locked(lock_timeout):
        number = max([0, *_numbers(folder)]) + 1
        final = os.path.join(folder, f"{number:04d}")
        states = [_there(path) for path in _paths(name)]
        described = dict(
            facts, name=name, parts=parts, time=record_time.now(), by=state.by, machine_id=state.machine_id
        )
        shutil.rmtree(final + PARTIAL, ignore_errors=True)
        try:
            generation_record.write_generation(
                final + PARTIAL, [Change(one, one, []) for one in states], [], described, ()
            )
            os.rename(final + PARTIAL, final)
            sitecustomize_file.sync_directory(folder)
        except OSError as error:
            shutil.rmtree(final + PARTIAL, ignore_errors=True)
            raise TuningError(f"{final}: the good start cannot be recorded: {error.strerror}. Make room.") from error
        _prune(state.path, name)
    return number, True


def choose(state: StateDirectory, name: str, failed_parts: dict, generation: Optional[int]) -> tuple:
    """(Start to go back to or None, why there is none). It has to be another one than what has just failed, under a known-good profile."""
    kept, damaged = good_starts(state.path, name)
    note = " ".join(["", *damaged]) if damaged else ""
    if not kept:
        return None, f"{sglang_files.unit_of(name)} has no good start on record.{note}"
    good = [start for start in kept if start.manifest["profile_status"] == "known_good"]
    if not good:
        return None, f"None of the {len(kept)} good starts on record was under a known-good profile.{note}"
    start = good[0]
    if start.manifest["machine_id"] != state.machine_id:
        return None, f"The good start on record is of another machine.{note}"
    keys = _declared(start)["keys"]
    if keys and not os.path.exists(keys):
        way_on = "Set api_key of the instance again, and run with the known-good profile."
        return (
            None,
            f"The good start {start.number} had keys, which are in no record, and {keys} is gone. {way_on}{note}",
        )
    if start.manifest["parts"] == failed_parts and start.manifest["generation"] == generation:
        when = start.manifest["time"]
        return (
            None,
            f"The same unit, configuration and tuning worked on {when}: something else on the node has changed since.{note}",
        )
    return start, note


def address_of(start: Start) -> tuple:
    """(host, port) that the start listened on: it need not be what is declared now. Raises TuningError."""
    declared = _declared(start)
    return declared["host"], declared["port"]


def _declared(start: Start) -> dict:
    path = sglang_files.paths_of(start.manifest["name"])["declared"]
    (kept,) = [one for one in start.manifest["files"] if one["path"] == path]
    return json.loads(generation_record.recorded_state(start.directory, start.number, kept, "after").content)


def restore(start: Start) -> list:
    """Put the files of a good start back. Returns the paths of those that differed. Raises TuningError; the files are then as before."""
    wanted = [
        generation_record.recorded_state(start.directory, start.number, one, "after") for one in start.manifest["files"]
    ]
    before = [sitecustomize_file.look_at_any(state.path) for state in wanted]
    pairs = [(now, then) for now, then in zip(before, wanted) if not now.same_as(then)]
    try:
        for _now, then in pairs:
            sitecustomize_file.restore(then)
    except TuningError:
        for now, _then in pairs:
            with contextlib.suppress(TuningError):  # what made it fail is what must be told
                sitecustomize_file.restore(now)
        raise
    return [now.path for now, _then in pairs]


def keep_failure(state: StateDirectory, name: str, generation: Optional[int], texts: dict, lock_timeout: float) -> str:
    """The directory with what a failed start said. ``texts``: file name to text. It goes with its generation when that is deleted."""
    moment = record_time.now().replace(":", "").replace("-", "")
    base = os.path.join(state.path, "generations", f"{generation:04d}") if generation is not None else ""
    if not os.path.isdir(base):
        base = folder_of(state.path, name)
    directory = os.path.join(base, "failed_starts", f"{moment}-{name}")
    sglang_files.make_private(state.path)
    with state.locked(lock_timeout):
        sglang_files.make_private(directory)
        checksums = {file: generation_record.sha256(text.encode("utf-8", "replace")) for file, text in texts.items()}
        for file, text in {**texts, "checksums.json": json.dumps(checksums, indent=1, sort_keys=True) + "\n"}.items():
            descriptor = os.open(os.path.join(directory, file), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as stream:
                stream.write(text)
        sitecustomize_file.sync_directory(directory)
    return directory


def _there(path: str) -> sitecustomize_file.FileState:
    found = sitecustomize_file.look(path)
    if not found.exists:
        raise TuningError(f"{path}: is not there, so this is no start to go back to. Run sglang_files first.")
    return found


def _paths(name: str) -> list:
    paths = sglang_files.paths_of(name)
    return [sglang_unit_text.UNIT, sglang_files.PROGRAM, paths["drop_in"], paths["config"], paths["declared"]]


def _numbers(folder: str) -> list:
    try:
        return [int(entry) for entry in os.listdir(folder) if _NUMBERED.match(entry)]
    except OSError:
        return []


def _prune(state_dir: str, name: str) -> None:
    kept, _damaged = good_starts(state_dir, name)
    safe = [start.number for start in kept[:KEPT]]
    safe += [start.number for start in kept if start.manifest["profile_status"] == "known_good"][:1]
    for start in kept:
        if start.number not in safe:
            shutil.rmtree(start.directory, ignore_errors=True)
