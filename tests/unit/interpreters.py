# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real Python interpreters of this machine, virtual environments made from them, and what keeps the machine as it is.

A run says which interpreters it used and which supported versions this machine lacks. A machine with one interpreter is
an ordinary one, so that alone is no failure; GPU_NODE_TUNING_PYTHONS="3.9 3.13" makes the lack of one of these a failure.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter, Service

SUPPORTED = [(3, minor) for minor in range(9, 15)]
REQUIRED = [
    tuple(int(part) for part in word.split(".")) for word in os.environ.get("GPU_NODE_TUNING_PYTHONS", "").split()
]
PATIENCE = 60  # seconds for one start; a busy machine is slow, and a hang is tested with a limit of its own
ASK = (
    "import json, os, sys, sysconfig; print(json.dumps([os.path.realpath(getattr(sys, '_base_executable', sys.executable)), "
    "sys.version_info[:3], os.path.dirname(os.__file__), sysconfig.get_path('purelib')]))"
)


class Python(NamedTuple):
    """``has_system_file``: its standard library has a sitecustomize.py, which every virtual environment of it imports first (Debian, Ubuntu)."""

    executable: str
    version: tuple
    library: str
    has_system_file: bool

    @property
    def name(self) -> str:
        return ".".join(str(part) for part in self.version) + ("-system" if self.has_system_file else "")


@functools.cache
def _discover() -> tuple:
    """(interpreters, programs that were passed over because they do not start)."""
    candidates = [getattr(sys, "_base_executable", sys.executable)]
    candidates += [f"/usr/bin/python3.{minor}" for _major, minor in SUPPORTED]
    candidates += [shutil.which(name) for name in ["python3"] + [f"python3.{minor}" for _major, minor in SUPPORTED]]
    pyenv = os.environ.get("PYENV_ROOT") or (
        shutil.which("pyenv") and pathlib.Path(shutil.which("pyenv")).resolve().parents[1]
    )
    if pyenv:
        candidates += sorted(map(str, pathlib.Path(pyenv).glob("versions/3.*/bin/python3")))
    found, passed_over = {}, []
    for candidate in dict.fromkeys(candidates):
        if not candidate or not os.path.exists(candidate):
            continue
        python = _described_by_itself(candidate)
        if python is None:
            passed_over.append(candidate)
        elif python.version[:2] >= SUPPORTED[0]:
            found[python.executable] = python
    if found and all(python.has_system_file for python in found.values()):
        newest = max(found.values(), key=lambda python: python.version)
        directory = tempfile.mkdtemp(prefix="gpu_node_tuning_python_")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        with contextlib.suppress(AssertionError, OSError):  # one that cannot be moved: a test of its own says so
            made = without_system_file(newest, pathlib.Path(directory))
            found[made.executable] = made
    return sorted(found.values(), key=lambda python: (python.version, python.executable)), passed_over


def _described_by_itself(candidate: str) -> Python | None:
    """None for what does not start."""
    answer = subprocess.run(
        [candidate, "-I", "-S", "-c", ASK], check=False, capture_output=True, text=True, timeout=PATIENCE
    )
    if answer.returncode:
        return None
    executable, version, library, _purelib = json.loads(answer.stdout)
    return Python(executable, tuple(version), library, os.path.lexists(os.path.join(library, "sitecustomize.py")))


def without_system_file(python: Python, directory: pathlib.Path) -> Python:
    """The same interpreter below ``directory``, without the distribution's sitecustomize.py.

    A program finds its library from where it lies itself: this one is a copy beside a library of links that lacks that file.
    """
    library = directory / "lib" / f"python{python.version[0]}.{python.version[1]}"
    (directory / "bin").mkdir(parents=True)
    program = directory / "bin" / os.path.basename(python.executable)
    shutil.copy2(python.executable, program)
    for here, there in ((library, python.library), (library / "__pycache__", f"{python.library}/__pycache__")):
        here.mkdir(parents=True)
        for name in os.listdir(there) if os.path.isdir(there) else []:
            if name != "__pycache__" and not name.startswith("sitecustomize."):
                (here / name).symlink_to(os.path.join(there, name))
    made = _described_by_itself(str(program))
    assert made is not None, f"{program} does not start"
    assert made.library == str(library), f"{program} runs with the library {made.library}"
    return made


def interpreters() -> list:
    return _discover()[0]


def summary() -> list:
    """Lines that say what this run covered."""
    found, passed_over = _discover()
    lacking = [
        f"{major}.{minor}"
        for major, minor in SUPPORTED
        if (major, minor) not in {python.version[:2] for python in found}
    ]
    return [
        "interpreters: " + ", ".join(f"{python.name} ({python.executable})" for python in found),
        "supported, but not on this machine, so not tested: " + (", ".join(lacking) or "none"),
        *(["passed over, because they do not start: " + ", ".join(passed_over)] if passed_over else []),
    ]


def _parametrize(pythons: list):
    # An empty list is reported by pytest as a skip with a reason.
    return pytest.mark.parametrize("python", [pytest.param(python, id=python.name) for python in pythons])


every_interpreter = _parametrize(interpreters())
# Their virtual environments import a sitecustomize.py of their own, so tests may write it.
with_own_file = _parametrize([python for python in interpreters() if not python.has_system_file])
with_system_file = _parametrize([python for python in interpreters() if python.has_system_file])
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another user")


class Venv(NamedTuple):
    python: Python
    directory: pathlib.Path

    @property
    def executable(self) -> str:
        return str(self.directory / "bin" / "python")

    @property
    def site_packages(self) -> pathlib.Path:
        return self.directory / "lib" / f"python{self.python.version[0]}.{self.python.version[1]}" / "site-packages"

    @property
    def file(self) -> pathlib.Path:
        return self.site_packages / "sitecustomize.py"

    def asked(self, environment: dict | None = None, user: str | None = None, timeout: float = PATIENCE) -> Interpreter:
        return Interpreter(self.executable, Service(environment or {}, user), timeout)


def make_venv(python: Python, directory: pathlib.Path) -> Venv:
    """What `python -m venv --without-pip --symlinks` makes, without the third of a second that it takes; checked against it in a test."""
    venv = Venv(python, directory)
    venv.site_packages.mkdir(parents=True)
    (directory / "bin").mkdir()
    (directory / "bin" / "python").symlink_to(python.executable)
    version = ".".join(str(part) for part in python.version)
    home = os.path.dirname(python.executable)
    (directory / "pyvenv.cfg").write_text(
        f"home = {home}\ninclude-system-site-packages = false\nversion = {version}\n", encoding="utf-8"
    )
    return venv


def asked(
    python: Python, environment: dict | None = None, user: str | None = None, timeout: float = PATIENCE
) -> Interpreter:
    return Interpreter(python.executable, Service(environment or {}, user), timeout)


def other_user() -> str:
    """A user who is not this one and owns nothing."""
    return next(name for name in ("nobody", "daemon") if name in {entry.pw_name for entry in pwd.getpwall()})


def reachable_by_others(pythons: list) -> list:
    """The interpreters that ``other_user`` can start: not those below somebody's closed home directory."""
    if os.geteuid() != 0:
        return []
    account = pwd.getpwnam(other_user())
    reachable = []
    for python in pythons:
        with contextlib.suppress(PermissionError):
            subprocess.run(
                [python.executable, "-I", "-S", "-c", ""],
                check=True,
                user=account.pw_uid,
                group=account.pw_gid,
                extra_groups=[],
                cwd="/",
                timeout=PATIENCE,
            )
            reachable.append(python)
    return reachable


@contextlib.contextmanager
def open_directory():
    """A directory that every user can enter, gone afterwards; pytest's own are closed to others."""
    for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108 - the directory in it gets a random name
        if all(
            os.stat(folder).st_mode & 0o001 for folder in (parent, *map(str, pathlib.Path(parent).resolve().parents))
        ):
            break
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        os.chmod(directory, 0o755)  # noqa: S103 - that is what it is for
        yield pathlib.Path(directory)


def tree(*directories: os.PathLike) -> dict:
    """Path to (kind, mode, owner, content's hash or link text) for everything below the directories; an absent one is an entry too."""
    found = {}
    for directory in map(os.fspath, directories):
        paths = [directory] + [
            os.path.join(root, name) for root, folders, files in os.walk(directory) for name in folders + files
        ]
        for path in paths:
            found[path] = _described(path)
    return found


def times(directory: os.PathLike) -> dict:
    """Path to the moment of the last change; that of a directory also tells of a file that came and went."""
    paths = [os.fspath(directory)] + [
        os.path.join(root, name) for root, folders, files in os.walk(directory) for name in folders + files
    ]
    return {path: os.lstat(path).st_mtime_ns for path in paths}


def _described(path: str) -> tuple:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return ("absent",)
    detail = ""
    if os.path.islink(path):
        detail = os.readlink(path)
    elif os.path.isfile(path):
        detail = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    return oct(status.st_mode), status.st_uid, status.st_gid, detail


def real_files() -> dict:
    """Every sitecustomize.py that an interpreter of this machine imports by itself: no test may touch one."""
    paths = set()
    for python in interpreters():
        paths.add(os.path.join(python.library, "sitecustomize.py"))
        paths.add(os.path.join(python.library, "site-packages", "sitecustomize.py"))
        paths.add(f"/etc/python{python.version[0]}.{python.version[1]}/sitecustomize.py")
    paths.add("/var/lib/gpu_node_tuning")
    return {path: _described(path) for path in sorted(paths)}
