# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of SGLang's instances on the node: what they shall be, what stands there, and what a running instance was started with.

Every text has its own checksum in the first line, so a file that somebody has edited is known without a record of it.
"""

from __future__ import annotations

import grp
import inspect
import itertools
import json
import os
import pwd
import re
import time
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    bounded_command,
    sglang_before_start,
    sglang_unit_text,
    sitecustomize_file,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import read_plain
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_unit_text import Settings
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import FileState

CONFIGURATION = "/etc/gpu_node_tuning/sglang"
PROGRAM = "/usr/local/libexec/gpu_node_tuning/before_start.py"
RUNTIME = "/run/sglang"
LONGEST_RECORD = 65536  # bytes of what a start says it is made of
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?\Z")
_SEAL = re.compile(
    rb"# gpu_node\.tuning [0-9a-f]{64}: written by the playbook sglang\.yml; change the inventory instead\n"
)
_LIMIT = 20  # seconds for one question to systemd


class Wanted(NamedTuple):
    """One file as it shall be; ``secret``: neither shown nor returned."""

    path: str
    content: bytes
    mode: int
    group: str = "root"
    owner: str = "root"
    secret: bool = False


class Tuning(NamedTuple):
    """What the read-back before a start compares with. ``sitecustomize``: {path, sha256} or None; ``environment``: name to value."""

    sitecustomize: Optional[dict]
    environment: dict
    generation: Optional[int]


class Change(NamedTuple):
    """``by_hand``: somebody else has edited what stands there."""

    before: FileState
    wanted: Optional[Wanted]
    by_hand: bool


def unit_of(name: str) -> str:
    return f"sglang@{name}.service"


def drop_in_of(name: str) -> str:
    return f"/etc/systemd/system/{unit_of(name)}.d/gpu_node_tuning.conf"


def checked(name: str) -> str:
    """``name``. Raises TuningError for one that could lead elsewhere than to an instance's own files."""
    if not isinstance(name, str) or not NAME.match(name):
        raise TuningError(f"name {name!r}; legal: a to z, 0 to 9 and inner hyphens, at most 32 characters.")
    return name


def paths_of(name: str) -> dict:
    """Role of a file to its path. Raises TuningError for a name that leads elsewhere."""
    name = checked(name)
    return {
        "drop_in": drop_in_of(name),
        "config": f"{CONFIGURATION}/{name}.yaml",
        "keys": f"{CONFIGURATION}/{name}.keys.yaml",
        "declared": f"{CONFIGURATION}/{name}.json",
    }


def sealed(body: bytes) -> bytes:
    return b"# gpu_node.tuning %s: written by the playbook sglang.yml; change the inventory instead\n%s" % (
        sglang_before_start.digest(body).encode(),
        body,
    )


def has_seal(path: str) -> bool:
    """Whether a file of this name has a checksum of its own. Keys have none, and what only a program reads needs none."""
    return not path.endswith((".json", ".py", ".keys.yaml"))


def is_as_written(content: bytes) -> bool:
    """Whether the checksum in the first line fits, so that nobody has edited the file since. The bytes may be no text any more."""
    found = _SEAL.match(content)
    return bool(found) and sealed(content[found.end() :]) == content


def keys_text(api_key: str, admin_api_key: str) -> str:
    """YAML, appended to the configuration at the start alone. Raises TuningError for a key that no header can carry."""
    lines = []
    for option, key in (("api_key", api_key), ("admin_api_key", admin_api_key)):
        if not key:
            continue
        if not key.isprintable() or not key.isascii() or key != key.strip():
            raise TuningError(
                f"{option}: has a line end, a blank at an end or another character that no HTTP header carries; legal: printable ASCII. "
                f"Set {option} of the instance to one line."
            )
        lines.append(f"{option.replace('_', '-')}: {json.dumps(key)}\n")
    return "".join(lines)


def files_of_instance(plan: dict, keys: str, settings: Settings, tuning: Tuning, version: str) -> list:
    """The files of one instance. ``plan``: see sglang_instance.planned; ``keys``: see keys_text."""
    name = plan["name"]
    paths = paths_of(name)
    models = [plan["config"].get(option) for option in ("model-path", "speculative-draft-model-path")]
    models = [path for path in models if path and os.path.isabs(path)]
    declared = {
        "unit": sglang_unit_text.UNIT,
        "instance_unit": f"/etc/systemd/system/{unit_of(name)}",
        "config": paths["config"],
        "keys": paths["keys"] if keys else "",
        "version": version,
        "models": models,
        "host": plan["host"],
        "port": plan["port"],
        "sitecustomize": tuning.sitecustomize,
        "environment": seen_by_service(plan, tuning),
        "generation": tuning.generation,
    }
    # Else the unit's own would win, and no start would find what is declared.
    declared_log = {name: tuning.environment[name] for name in sglang_unit_text.NCCL_LOG if name in tuning.environment}
    environment = {**declared_log, **plan["environment"]}
    drop_in = sglang_unit_text.drop_in_text({**plan, "environment": environment}, settings, models)
    found = [
        Wanted(paths["drop_in"], sealed(drop_in.encode()), 0o644),
        Wanted(paths["config"], sealed(plan["config_text"].encode()), 0o640, settings.group),
        Wanted(
            paths["declared"], (json.dumps(declared, indent=1, sort_keys=True) + "\n").encode(), 0o640, settings.group
        ),
    ]
    if keys:
        found.append(Wanted(paths["keys"], keys.encode(), 0o600, "root", settings.user, secret=True))
    return found


def seen_by_service(plan: dict, tuning: Tuning) -> dict:
    """The tuning's variables as the service has them: what the instance sets by itself wins where the tuning respects it."""
    own = plan["environment"]
    return {name: str(own.get(name, value)) for name, value in tuning.environment.items()}


def common_files(settings: Settings) -> list:
    return [
        Wanted(PROGRAM, inspect.getsource(sglang_before_start).encode(), 0o644),
        Wanted(sglang_unit_text.UNIT, sealed(sglang_unit_text.unit_text(settings).encode()), 0o644),
        Wanted(sglang_unit_text.DEVICES_UNIT, sealed(sglang_unit_text.devices_unit_text().encode()), 0o644),
    ]


def changes(wanted: list, gone: list, check: bool = False) -> list:
    """What has to be written or removed; what is as it shall be is left out. Raises TuningError for what is no plain file.

    ``check``: the group need not be there yet.
    """
    found = []
    for file in wanted:
        before = sitecustomize_file.look_at_any(file.path)
        if not before.same_as(wished(file, before, check)):
            found.append(Change(before, file, before.content != file.content and _by_hand(before)))
    for path in gone:
        before = sitecustomize_file.look_at_any(path)
        if before.exists:
            found.append(Change(before, None, _by_hand(before)))
    return found


def wished(file: Wanted, before: FileState, check: bool = False) -> FileState:
    return before._replace(
        content=file.content, mode=file.mode, uid=_owner(file.owner, check), gid=_group(file.group, check)
    )


def _by_hand(before: FileState) -> bool:
    return before.exists and has_seal(before.path) and not is_as_written(before.content)


def apply(changed: list) -> None:
    """Write and remove. Raises TuningError; what was changed until then is as before."""
    done = []
    try:
        for change in changed:
            done.append(change.before)
            if change.wanted is None:
                sitecustomize_file.remove(change.before)
            else:
                state = wished(change.wanted, change.before)
                sitecustomize_file.write(state, state.content)
                sitecustomize_file.sync_directory(os.path.dirname(state.target))
    except TuningError:
        for before in reversed(done):
            sitecustomize_file.restore(before)
        raise


def keep_aside(state_dir: str, changed: list) -> list:
    """Paths of the copies of what somebody had edited by hand and is about to be replaced or removed. Raises TuningError."""
    folder = os.path.join(state_dir, "sglang", "edited_by_hand")
    try:
        return [_kept(folder, change.before) for change in changed if change.by_hand]
    except OSError as error:
        raise TuningError(
            f"{error.filename or folder}: no copy of what was edited by hand can be kept: {error.strerror}. Nothing was changed. Make "
            "room, move away what is in the way, or set nccl_env_state_dir."
        ) from error


def _kept(folder: str, before: FileState) -> str:
    make_private(folder)
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"{moment}-{before.path.strip('/').replace('/', '-')}"
    path = next(path for path in _numbered(os.path.join(folder, name)) if not os.path.lexists(path))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(before.content)
    return path


def _numbered(path: str):
    yield path
    yield from (f"{path}.{number}" for number in itertools.count(1))


def make_private(path: str) -> None:
    """The directory with its parents, 0700 each: os.makedirs gives the mode to the last one only. Raises OSError."""
    if not os.path.isdir(path):
        make_private(os.path.dirname(path))
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            if not os.path.isdir(path):  # else another run made it in this moment
                raise


def parts_wanted(name: str, wanted: list) -> dict:
    """Name to digest of what a start of the instance would be made of, with the files as they shall be."""
    paths, contents = paths_of(name), {file.path: file.content for file in wanted}

    def read(path):
        return contents[path] if path in contents else sglang_before_start.read(path)

    def read_unit_file(path):
        return contents[path] if path in contents else sglang_before_start.read_unit_file(path)

    def unit_files(declared):
        closed = sglang_before_start.is_closed(os.path.dirname(paths["drop_in"]))
        found = {*sglang_before_start.unit_files(declared), *([] if closed else [paths["drop_in"]])}
        return sorted(found, key=_order(declared))

    declared = json.loads(contents[paths["declared"]])
    return sglang_before_start.parts_of(declared, read, unit_files, read_unit_file)


def _order(declared: dict):
    """As the program before the start has them: the unit, its drop-ins, those of the instance."""
    return lambda path: (path != declared["unit"], not path.startswith(declared["unit"] + ".d"), path)


def started_parts(name: str) -> Optional[dict]:
    """What the running instance was started with; None where nobody knows."""
    try:
        # The directory is the service's own, and whatever runs as this user may put anything there.
        return dict(json.loads(read_plain(f"{RUNTIME}/{name}/started.json", most=LONGEST_RECORD))["parts"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def reasons(started: Optional[dict], wanted: dict) -> list:
    """Why a running instance has to be restarted, in words; empty where it runs with all that is declared."""
    if started is None:
        return ["it is not known what it was started with"]
    return [f"{part} changed" for part in sorted(set(started) | set(wanted)) if started.get(part) != wanted.get(part)]


def is_active(name: str, ask=bounded_command.run) -> bool:
    """Whether the instance runs, or systemd is about to start it again."""
    ended = ask(["systemctl", "show", "--property=ActiveState", "--value", unit_of(name)], _LIMIT, {})
    return ended.code == 0 and ended.out.strip() in ("active", "activating", "reloading", "deactivating")


def instances_on_node() -> list:
    """Names of the instances that have files of ours."""
    try:
        return sorted(entry[: -len(".json")] for entry in os.listdir(CONFIGURATION) if entry.endswith(".json"))
    except OSError:
        return []


def _owner(name: str, check: bool) -> int:
    if os.geteuid() != 0:
        return os.geteuid()
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        if check:
            return -1
        raise _no_user(name) from None


def _group(name: str, check: bool) -> int:
    if os.geteuid() != 0:
        return os.getegid()
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        if check:
            return -1
        raise TuningError(f"group {name!r}: the node has none of this name. Make it, or set sglang_group.") from None


def _no_user(name: str) -> TuningError:
    return TuningError(
        f"user {name!r}: the node has none of this name. Make it (sglang_create_user: true), or set sglang_user."
    )


def refuse_unknown_user(name: str) -> None:
    try:
        pwd.getpwnam(name)
    except KeyError:
        raise _no_user(name) from None
