# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where else on a node a variable gets its value: the unit, Python's start-up code, NCCL's own files, the files of login shells.

The managed block is not among them. Nothing is run and nothing is written.
"""

from __future__ import annotations

import glob
import os
import stat
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    nccl_conf_file,
    python_start,
    systemd_environment,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

# Where a value reaches the process.
UNIT = "environment of the unit"
DECLARED = "environment given to the service"
START_FILE = "Python start-up file"
SITECUSTOMIZE = "sitecustomize"
NCCL_FILE = "NCCL configuration file"
LOGIN_SHELLS = "login shells only"
REACHES = (UNIT, DECLARED, START_FILE, SITECUSTOMIZE, NCCL_FILE, LOGIN_SHELLS)

# How a value stands against the environment that the process is started with.
GIVEN = "given"  # it is that environment
WINS = "wins"  # code that replaces what the environment has
LOSES = "loses"  # acts only where the environment has nothing, or something behind it in the environment replaced it
UNSEEN = "unseen"  # the service never reads it
UNKNOWN = "unknown"  # cannot be told without running it
STANDINGS = (GIVEN, WINS, LOSES, UNSEEN, UNKNOWN)

LOGIN_FILE = "/etc/environment"
SYSTEM_CONF = "systemd/system.conf"
LARGEST = 1 << 20
_SYSTEMD_DIRECTORIES = ("/etc", "/run", "/usr/local/lib", "/usr/lib")
_WATCHED = ("PYTHONPATH", "PYTHONHOME", "HOME")


class Origin(NamedTuple):
    """One place that gives a variable a value.

    ``where``: file (or the words of the option that gave it), ``line``: from 1, None without one; ``value``: None when it is computed;
    ``how``: the setting or the kind of line; ``reach``: one of REACHES; ``standing``: one of STANDINGS.
    """

    where: str
    line: Optional[int]
    value: Optional[str]
    how: str
    reach: str
    standing: str

    @property
    def place(self) -> str:
        return self.where if self.line is None else f"{self.where}:{self.line}"


class Service(NamedTuple):
    """What is known of the process. All optional.

    ``show``: text of ``systemctl show`` (see systemd_environment.parse_show); ``unit_files``: paths of the fragment and the drop-ins, taken
    from ``show`` when None; ``environment``: what the inventory says (used alone when there is no unit); ``account_home``: home directory in
    the passwd entry of the service's user; ``nccl_version``: for instance ``2.27.3``.
    """

    show: Optional[str] = None
    unit_files: Optional[list] = None
    environment: Optional[dict] = None
    account_home: Optional[str] = None
    nccl_version: Optional[str] = None


class Python(NamedTuple):
    """What probe_program.resolve says: ``path``, ``candidates``, ``version``. ``ours``: the sitecustomize.py with the managed block,

    ``managed``: name to value of what that block sets (NCCL_CONF_FILE may be among them).
    """

    path: tuple = ()
    candidates: tuple = ()
    version: str = "3.11"
    ours: Optional[str] = None
    managed: Optional[dict] = None


class Origins(NamedTuple):
    """``variables``: name to list of Origin, the one that decides first; ``sitecustomize``: list of python_start.SiteFile; ``remarks``: texts."""

    variables: dict
    sitecustomize: list
    remarks: list

    def as_dict(self) -> dict:
        return {
            "variables": {name: [o._asdict() for o in found] for name, found in sorted(self.variables.items())},
            "sitecustomize": [site._asdict() for site in self.sitecustomize],
            "remarks": self.remarks,
        }


def find_origins(service: Service, python: Python, root: str = "/") -> Origins:
    """Every place that gives a NCCL_* variable (or PYTHONPATH, PYTHONHOME, HOME) a value. Never raises: what cannot be read is a remark.

    Variables of NCCL's own files are all there, whatever their names, because NCCL sets them all.
    """
    node = Node(root)
    found = []  # (name, Origin), strongest first within each kind
    given, sites = _given(node, service), []
    start = _from_start_files(node, python)
    customize = _from_sitecustomize(node, python, sites)
    code = [*customize, *reversed(start)]  # what runs last decides among those that overwrite
    found += [pair for pair in code if pair[1].standing == WINS]
    found += [pair for pair in code if pair[1].standing == UNKNOWN]
    found += given
    found += [pair for pair in start + customize if pair[1].standing == LOSES]
    found += _from_nccl_files(node, service, _environment_of(found, python))
    found += [pair for pair in code if pair[1].standing == UNSEEN]
    found += _from_login_file(node)
    variables = {}
    for name, origin in found:
        variables.setdefault(name, []).append(origin)
    for entries in variables.values():
        entries.sort(key=lambda origin: origin.standing == UNSEEN)  # stable
    return Origins(variables, sites, list(dict.fromkeys(node.remarks)))


def started_with(show: str, root: str = "/") -> tuple:
    """(name to value, user or None): the environment and the user that a unit's process gets. ``show``: text of ``systemctl show``.

    A variable whose value only the manager knows (PassEnvironment=, an unresolved specifier) is left out.
    """
    shown = systemd_environment.parse_show(show)
    effective = _environment_of_unit(Node(root), Service(show=show), shown)
    on_file = {entry.name for entry in [*effective.winners.values(), *effective.losers]}
    environment = {name: value for name, value in shown.environment.items() if name not in on_file}
    for name, entry in effective.winners.items():
        by_manager = entry.setting == "Environment=" and name in shown.environment  # it has resolved the specifiers
        value = shown.environment[name] if by_manager else entry.value
        if value is not None:
            environment[name] = value
    return environment, shown.user


def explain(variable: str, value: Optional[str], origins: Origins, library: bool = False) -> tuple:
    """(text, Origin or None): the most likely origin of the ``value`` that an interpreter has in its environment (None: not set).

    ``library``: the value is NCCL's own word, so its files count too: their values never show in an interpreter's environment.
    """
    entries = origins.variables.get(variable, [])
    if value is None:
        return "not set", None
    seen = [o for o in entries if o.standing != UNSEEN and (library or o.reach != NCCL_FILE)]
    replaced = [o for o in seen if o.reach == UNIT and o.standing == LOSES]
    seen = [o for o in seen if o not in replaced]
    for origin in seen:
        if origin.value == value:
            return f"{origin.place} ({origin.how}, {origin.reach})", origin
    for origin in replaced:
        if origin.value == value:
            return f"probably {origin.place} ({origin.how}, {origin.reach}), though something replaced it since", origin
    for origin in seen:
        if origin.value is None:
            return (
                f"probably {origin.place} ({origin.how}, {origin.reach}), whose value cannot be read from its text",
                origin,
            )
    for origin in entries:
        if origin.value == value and origin.reach == LOGIN_SHELLS:
            return (
                f"probably {origin.place} ({origin.reach}): the process was started from a login shell, not by its unit",
                origin,
            )
    return "no place that is known: the environment of whoever started the process, or code of the framework", None


class Node:
    """The files of a node below ``root``. What cannot be read goes to ``remarks``."""

    def __init__(self, root: str = "/"):
        self.root = root
        self.remarks = []

    def on_disk(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def real(self, path: str) -> str:
        return os.path.realpath(self.on_disk(path))

    def read(self, path: str, wanted_for: str = "") -> Optional[bytes]:
        """The bytes of a regular file; None (with a remark, unless it is just not there) for anything else. Never blocks on a pipe."""
        try:
            descriptor = os.open(self.on_disk(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as stream:
                if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                    if path != os.devnull:
                        self.remarks.append(f"{path}: is no regular file, so it was not read.")
                    return None
                content = stream.read(LARGEST + 1)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            self.remarks.append(f"{path}: cannot be read ({why}), so what it sets is not known.{wanted_for}")
            return None
        if len(content) > LARGEST:
            self.remarks.append(f"{path}: longer than {LARGEST} bytes; only the first {LARGEST} were looked at.")
        return content[:LARGEST]

    def read_text(self, path: str) -> Optional[str]:
        content = self.read(path)
        return None if content is None else content.decode("utf-8", "surrogateescape")

    def glob(self, pattern: str) -> list:
        """Paths that match, sorted, as the node sees them."""
        if "\0" in pattern:
            return []
        base = self.root.rstrip("/")
        return [path[len(base) :] for path in sorted(glob.glob(glob.escape(base) + pattern))]


def _is_watched(name: str) -> bool:
    return name.startswith("NCCL_") or name in _WATCHED


def _environment_of(found: list, python: Python) -> dict:
    """The values that NCCL finds in the environment at its first call, as far as they are known."""
    environment = dict(python.managed or {})
    for name, origin in reversed(found):
        replaced = origin.standing == LOSES and origin.reach in (UNIT, DECLARED)
        if origin.value is not None and origin.standing in (GIVEN, WINS, LOSES) and not replaced:
            environment[name] = origin.value
    return environment


def _given(node: Node, service: Service) -> list:
    """The environment that the process starts with: of its unit, or what the inventory says."""
    shown = systemd_environment.parse_show(service.show) if service.show else None
    if shown is None and service.unit_files is None:
        environment = dict(service.environment or {})
        found = [
            (name, Origin("service_environment", None, value, "option", DECLARED, GIVEN))
            for name, value in environment.items()
            if _is_watched(name)
        ]
        if service.account_home is not None and "HOME" not in environment:
            home = Origin("the user's passwd entry", None, service.account_home, "home directory", DECLARED, GIVEN)
            found.append(("HOME", home))
        return found
    effective = _environment_of_unit(node, service, shown)
    found = [
        (name, Origin(entry.path, entry.line, entry.value, entry.setting, UNIT, GIVEN))
        for name, entry in effective.winners.items()
        if _is_watched(name)
    ]
    found += [
        (entry.name, Origin(entry.path, entry.line, entry.value, entry.setting, UNIT, LOSES))
        for entry in effective.losers
        if _is_watched(entry.name)
    ]
    for name, value in (service.environment or {}).items():
        winner = effective.winners.get(name)
        if winner is None or winner.value not in (value, None):
            node.remarks.append(
                f"service_environment says {name}={value!r}, but the unit "
                f"{'does not set it' if winner is None else f'gives {winner.value!r} ({winner.path}:{winner.line})'}."
            )
    return found


def _environment_of_unit(node: Node, service: Service, shown: Optional[systemd_environment.Shown]):
    paths = service.unit_files
    if paths is None:
        paths = [path for path in [shown.fragment, *shown.drop_ins] if path]
    texts = [(path, node.read_text(path)) for path in paths]
    for path, text in texts:
        if text is None:
            node.remarks.append(f"{path}: this file of the unit could not be read.")
    unit = systemd_environment.parse_unit([(path, text) for path, text in texts if text is not None])
    node.remarks.extend(unit.remarks)
    effective = systemd_environment.merge(unit, _environment_files(node, unit), _manager_defaults(node))
    node.remarks.extend(effective.remarks)
    winners = effective.winners
    user = unit.user or (shown.user if shown else None)
    if user and service.account_home is not None and "HOME" not in winners:
        winners["HOME"] = systemd_environment.Assignment("HOME", service.account_home, f"User={user}", None, "User=")
    if shown:
        _correct_by_manager(node, unit, winners, shown)
    return effective


def _correct_by_manager(node: Node, unit, winners: dict, shown) -> None:
    """Take the manager's word where the files cannot say it (specifiers, unreadable files), and name what differs."""
    if shown.needs_reload:
        node.remarks.append(
            "The files of the unit changed since systemd read them: run systemctl daemon-reload, then restart the service."
        )
    on_file = {entry.name: entry for entry in unit.environment}
    for name, value in shown.environment.items():
        if not _is_watched(name):
            continue
        entry = on_file.get(name)
        if entry is None:
            made = systemd_environment.Assignment(name, value, "systemctl show", None, "Environment=")
            winners.setdefault(name, made)
        elif entry.value != value:
            if "%" not in entry.value:
                node.remarks.append(
                    f"{entry.path}:{entry.line}: the file says {name}={entry.value!r}, the manager {value!r}: "
                    f"systemctl daemon-reload has not been run since."
                )
            if winners.get(name) is entry:
                winners[name] = entry._replace(value=value)
    for name, entry in on_file.items():
        if _is_watched(name) and name not in shown.environment:
            node.remarks.append(
                f"{entry.path}:{entry.line}: the file sets {name}, the manager does not know of it: run systemctl daemon-reload."
            )


def _environment_files(node: Node, unit) -> list:
    found = []
    for reference in unit.files:
        paths = node.glob(reference.pattern)
        if not paths and not reference.optional:
            node.remarks.append(
                f"{reference.path}:{reference.line}: EnvironmentFile={reference.pattern} matches no file, so systemd does not start the unit."
            )
        for path in paths:
            content = node.read(path)
            if content is None:
                continue
            parsed = systemd_environment.parse_environment_file(content, path)
            node.remarks.extend(parsed.remarks)
            if parsed.refused:
                effect = "it is left out" if reference.optional else "systemd does not start the unit"
                node.remarks.append(f"{path}: {parsed.refused}, so {effect}.")
            found.extend(parsed.assignments)
    return found


def _manager_defaults(node: Node) -> list:
    """DefaultEnvironment= of the manager: the main file, then the drop-ins by name, those in /etc before those of the vendor."""
    main = next(
        (f"{d}/{SYSTEM_CONF}" for d in _SYSTEMD_DIRECTORIES if node.read(f"{d}/{SYSTEM_CONF}") is not None), None
    )
    drop_ins = {}
    for directory in _SYSTEMD_DIRECTORIES:
        for path in node.glob(f"{directory}/{SYSTEM_CONF}.d/*.conf"):
            drop_ins.setdefault(os.path.basename(path), path)
    paths = ([main] if main else []) + [path for _name, path in sorted(drop_ins.items())]
    parsed = systemd_environment.parse_unit(
        [(path, node.read_text(path) or "") for path in paths], "Manager", "Default"
    )
    node.remarks.extend(parsed.remarks)
    return parsed.environment


def _from_start_files(node: Node, python: Python) -> list:
    """In the order in which Python runs them."""
    found = []
    reads_start = _version(python.version) >= python_start.START_FILES
    for directory in python.path:
        if os.path.basename(directory.rstrip("/")) not in ("site-packages", "dist-packages"):
            continue  # .pth files count in site directories only
        started = set()
        for path in node.glob(f"{glob.escape(directory.rstrip('/'))}/*.start") if reads_start else []:
            started.add(os.path.splitext(path)[0])
            node.remarks.extend(python_start.parse_start(node.read(path) or b"", path))
        for path in node.glob(f"{glob.escape(directory.rstrip('/'))}/*.pth"):
            replaced = os.path.splitext(path)[0] in started
            for entry in python_start.parse_pth(node.read(path) or b"", path):
                standing = UNSEEN if replaced else _standing(entry.overwrites)
                origin = Origin(path, entry.line, entry.value, "import line", START_FILE, standing)
                found.append((entry.name, origin))
    return found


def _from_sitecustomize(node: Node, python: Python, sites: list) -> list:
    """Settings of the foreign code in all sitecustomize files; ``sites`` is filled with what runs and what does not."""
    candidates = _importable(node, python.candidates)
    ours = next(
        (path for path, _content in candidates if python.ours and node.real(path) == node.real(python.ours)), None
    )
    sites.extend(python_start.rank(candidates, ours))
    _remark_on_sites(node, sites, python.ours, ours)
    found = []
    for site, (path, content) in zip(sites, candidates):
        try:
            settings = python_start.settings_of(content or b"", path)
        except TuningError as error:
            node.remarks.append(str(error))
            continue
        except (RecursionError, MemoryError):
            node.remarks.append(f"{path}: nested too deep to be read.")
            continue
        for entry in settings:
            if _is_watched(entry.name):
                standing = UNSEEN if site.state == python_start.SHADOWED else _standing(entry.overwrites)
                origin = Origin(path, entry.line, entry.value, "Python code", SITECUSTOMIZE, standing)
                found.append((entry.name, origin))
    return found


def _importable(node: Node, candidates: tuple) -> list:
    """(path, bytes or None) in the order of import: a package comes before the module beside it, a folder that is no package is none."""
    found, seen = [], set()
    ordered = sorted(
        enumerate(candidates), key=lambda item: (_first_with(candidates, item[1]), item[1].endswith(".py"), item[0])
    )
    for _index, candidate in ordered:
        path = candidate if candidate.endswith(".py") else f"{candidate}/__init__.py"
        if not os.path.lexists(node.on_disk(path)) or node.real(path) in seen:
            continue
        seen.add(node.real(path))
        found.append((path, node.read(path)))
    return found


def _first_with(candidates: tuple, candidate: str) -> int:
    folders = [os.path.dirname(other) for other in candidates]
    return folders.index(os.path.dirname(candidate))


def _remark_on_sites(node: Node, sites: list, expected: Optional[str], ours: Optional[str]) -> None:
    if expected and ours is None:
        node.remarks.append(f"{expected}: this interpreter does not find it on its path.")
    for index, site in enumerate(sites):
        if site.path != ours:
            continue
        if site.state == python_start.SHADOWED:
            winner = next(before for before in reversed(sites[:index]) if before.state != python_start.SHADOWED)
            whose = "" if winner.kind == python_start.OTHER else f" of {winner.kind}"
            node.remarks.append(
                f"{site.path} is shadowed: {winner.path}{whose} comes before it on the path and does not import the next one. "
                f"Take its folder out of PYTHONPATH, or give the variables to the service's environment."
            )
        elif site.state == python_start.CHAINED:
            node.remarks.append(
                f"{site.path} runs because {sites[index - 1].path} ({sites[index - 1].kind}) imports it."
            )


def _standing(overwrites: Optional[bool]) -> str:
    return UNKNOWN if overwrites is None else WINS if overwrites else LOSES


def _from_nccl_files(node: Node, service: Service, environment: dict) -> list:
    version = nccl_conf_file.version_of(service.nccl_version)
    first = nccl_conf_file.user_file(environment, service.account_home, version)
    node.remarks.extend(first.remarks)
    if environment.get("NCCL_ENV_PLUGIN"):
        node.remarks.append(
            f"NCCL_ENV_PLUGIN={environment['NCCL_ENV_PLUGIN']}: from NCCL 2.28 on that plugin answers instead of the environment."
        )
    found = []
    for path, standing in ((first.path, LOSES), (nccl_conf_file.SYSTEM_FILE, LOSES), (first.skipped, UNSEEN)):
        if path is None or not path.startswith("/"):
            continue
        content = node.read(path)
        if content is None:
            if first.skipped and path == first.path and path != "/dev/null":
                node.remarks.append(
                    f"NCCL_CONF_FILE={path}: no such readable file, and for its sake NCCL leaves {first.skipped} out too."
                )
            continue
        parsed = nccl_conf_file.parse(content, version)
        if standing != UNSEEN:
            node.remarks.extend(f"{path}:{line}: {text}." for line, text in parsed.remarks)
        found += [(e.name, Origin(path, e.line, e.value, "line", NCCL_FILE, standing)) for e in parsed.entries]
    return found


def _from_login_file(node: Node) -> list:
    """Later lines win there; units do not read it."""
    text = node.read_text(LOGIN_FILE)
    found = []
    for number, line in enumerate((text or "").split("\n"), start=1):
        stripped = line.split("#")[0].strip()
        stripped = stripped[7:].lstrip() if stripped.startswith("export ") else stripped
        name, separator, value = stripped.partition("=")
        if separator and _is_watched(name):
            if value[:1] in ("'", '"'):
                value = value[1:-1] if value[-1] in ("'", '"') and len(value) > 1 else value[1:]
            found.append((name, Origin(LOGIN_FILE, number, value, "line", LOGIN_SHELLS, UNSEEN)))
            if name.startswith("NCCL_"):
                node.remarks.append(
                    f"{LOGIN_FILE}:{number}: {name} is not seen by units, only by what a login shell starts."
                )
    return found[::-1]


def _version(text: str) -> tuple:
    return tuple(int(part) if part.isdecimal() else 0 for part in text.split(".")[:2])
