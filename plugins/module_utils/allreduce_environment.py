# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the package in a scratch directory, try it there, and only then install it into the interpreter's environment; or remove it."""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import glob
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from typing import Callable, NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import allreduce_project, bounded_command
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter, Service
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import read_plain

PACKAGE, DISTRIBUTION = "pcie_allreduce", "pcie-allreduce"
ENTRY_POINT = "pcie_allreduce.sglang_plugin:register"
# Of a name that only begins like this the package is somebody else's. The second pair: what pip calls an old package while it replaces it,
# and leaves when it is stopped meanwhile.
OWN, SET_ASIDE = (PACKAGE, PACKAGE + "-*"), ("~?ie_allreduce", "~?ie_allreduce-*")
LARGEST = 1 << 24  # bytes that are read of a file of the package
LIBRARY = "libpcie_allreduce.so"
# Of the node's own settings none applies: one package, from one file, into this environment.
PIP = {
    "PIP_BREAK_SYSTEM_PACKAGES": "1",  # the interpreter was named by a person, and it is where torch is
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_USER": "0",
}


class Compiler(NamedTuple):
    nvcc: str
    capability: str


class Environment:
    """The environment of one interpreter. ``packages`` is its folder for packages; ``timeout`` (seconds) bounds every command."""

    def __init__(self, interpreter: str, packages: str, timeout: float):
        self.interpreter = interpreter
        self.packages = packages
        self.timeout = timeout

    @property
    def folder(self) -> str:
        return os.path.join(self.packages, PACKAGE)

    @property
    def traces(self) -> list:
        """Everything of the package that lies in the environment."""
        return self._found(*OWN) + self._found(*SET_ASIDE)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else installs, measures or removes here meanwhile. Raises TuningError at once where somebody does, because that takes minutes.

        The lock is on the folder itself, so it leaves nothing behind, and the kernel frees it when its holder dies.
        """
        folder = self.packages
        while not os.path.isdir(folder):  # pip makes it
            folder = os.path.dirname(folder)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise TuningError(f"{folder}: {error.strerror}; legal: a folder that this user may read.") from error
        try:
            _lock(descriptor, folder)
            yield
        finally:
            os.close(descriptor)

    def stamp(self):
        """The stamp of what is installed; None for nothing, and for a package without one an empty dict."""
        if not os.path.isdir(self.folder):
            return None
        return read_object(os.path.join(self.folder, "stamp.json")) or {}

    def faults(self) -> list:
        """One phrase for each thing that an installation has and this one lacks: a pip that was stopped half way leaves such."""
        records = self._found(PACKAGE + "-*.dist-info/RECORD")
        if len(records) != 1:
            return [f"the installed package has {len(records)} lists of its files"]
        names = [name for name in _recorded(records[0]) if not name.endswith(".pyc")]  # anybody may clear bytecode
        if not names:
            return ["the installed package has an empty list of its files"]
        lost = [name for name in names if not os.path.exists(os.path.join(self.packages, name))]
        if not lost and ENTRY_POINT not in _text(os.path.join(os.path.dirname(records[0]), "entry_points.txt")):
            lost = [f"entry point {ENTRY_POINT}"]
        set_aside = self._found(*SET_ASIDE)
        return [f"the installed package lacks {name}" for name in lost] + [
            f"pip left {os.path.basename(path)} behind" for path in set_aside
        ]

    def install(
        self, files: dict, stamp: dict, compiler: Compiler, say: Callable[[str], None] = lambda line: None
    ) -> None:
        """``say`` hears of every step. Raises TuningError; then the old package is still there, whole, or, where it was being replaced, none."""
        if shut := self._shut():
            raise TuningError(
                f"{shut}: cannot be written; legal: an environment that this user may write. Nothing was installed. Add become: true, or name "
                f"another interpreter."
            )
        self._refuse_without_tools()
        os.umask(0o022)  # the engine may run as another user than this
        with tempfile.TemporaryDirectory(prefix="gpu_node_tuning-allreduce-") as scratch:
            allreduce_project.write(files, scratch)
            say(f"compiles for SM {compiler.capability} with {compiler.nvcc}")
            started = time.monotonic()
            self._compile(scratch, compiler)
            say(f"compiled in {time.monotonic() - started:.0f} s; tries it, makes a wheel, and installs that")
            with open(os.path.join(scratch, PACKAGE, "stamp.json"), "w", encoding="utf-8") as stream:
                json.dump(stamp, stream, indent=2)
            self._try(scratch, "the library that was built")
            wheel = self._wheel(scratch)
            with self.alone():  # not before: builds beside each other do no harm
                self._pip_install(wheel)
                self._refuse_half_installed(stamp)
        say(f"installed into {self.packages}")

    def remove(self) -> bool:
        """Whether there was anything to remove. Raises TuningError where something stays."""
        if not self.traces:
            return False
        if shut := self._shut():
            raise _irremovable(shut)  # before anything of it is gone
        self._run(["-m", "pip", "uninstall", "--yes", DISTRIBUTION], "/", PIP)
        delete(self.traces)  # a table, bytecode, or what an uninstall without pip left
        if self.traces:
            raise _irremovable(self.traces[0])
        return True

    def _shut(self) -> Optional[str]:
        """A folder that this user may not write: pip would lose half of the old package before it noticed. None for none."""
        folders = filter(os.path.isdir, [self.packages, *self.traces])
        return next((folder for folder in folders if not os.access(folder, os.W_OK | os.X_OK)), None)

    def _refuse_without_tools(self) -> None:
        ended = self._run(["-c", "import pip, setuptools; print(setuptools.__version__)"], "/", {})
        if ended.code != 0:
            raise TuningError(
                f"interpreter {self.interpreter}: cannot build a package: {ended.failure}. Legal: a Python with pip and setuptools. "
                f"Install both into its environment (uv: `uv pip install --python {self.interpreter} pip setuptools`)."
            )
        version = (ended.out.split() or [""])[-1]  # a sitecustomize may have printed before
        if not version.split(".")[0].isdigit() or int(version.split(".")[0]) < 61:
            raise TuningError(
                f"setuptools {version} of {self.interpreter}: legal: 61 or newer. Upgrade it in this environment."
            )

    def _compile(self, scratch: str, compiler: Compiler) -> None:
        output = os.path.join(scratch, PACKAGE, LIBRARY)
        build = ["build.py", "--nvcc", compiler.nvcc, "--sm", compiler.capability, "--output", output]
        path = os.pathsep.join([os.path.dirname(compiler.nvcc), bounded_command.PATH])
        ended = self._run(build, scratch, {"PATH": path})
        if ended.code != 0 or not os.path.exists(output):
            raise TuningError(
                f"nvcc {compiler.nvcc}: did not build for compute capability {compiler.capability}: {ended.failure}. Nothing was installed. "
                f"Legal: a compiler with its host compiler (g++) and cudart's headers; a longer custom_allreduce_build_timeout where it was stopped."
            )

    def _wheel(self, scratch: str) -> str:
        options = [
            "--no-deps",
            "--no-index",
            "--no-build-isolation",
            "--no-cache-dir",
            "--wheel-dir",
            os.path.join(scratch, "wheel"),
        ]
        ended = self._run(["-m", "pip", "wheel", *options, scratch], scratch, PIP)
        wheels = glob.glob(os.path.join(glob.escape(scratch), "wheel", "*.whl"))
        if ended.code != 0 or len(wheels) != 1:
            raise TuningError(
                f"interpreter {self.interpreter}: pip made no wheel: {ended.failure}. Nothing was installed. "
                f"Legal: pip and setuptools 61 or newer (below 70.1 with the package wheel) in its environment."
            )
        return wheels[0]

    def _pip_install(self, wheel: str) -> None:
        options = ["--no-deps", "--no-index", "--force-reinstall", "--no-cache-dir"]
        before = self.stamp()
        ended = self._run(["-m", "pip", "install", *options, wheel], "/", PIP)
        if ended.code != 0:
            raise TuningError(
                f"interpreter {self.interpreter}: pip did not install the wheel: {ended.failure}. {self._without_halves(before)} "
                f"Legal: an environment that this user may write, here {self.packages}. Add become: true, or name another interpreter."
            )

    def _without_halves(self, before) -> str:
        """After a pip that failed or was stopped: keep what was there ``before`` only where nothing of it is gone. Says what is there now."""
        if before is not None and self.stamp() == before and not self.faults():
            return "The old package is still there."
        self.remove()
        return "No package is installed now."

    def _try(self, cwd: str, what: str) -> None:
        """Load the library in the interpreter, from the package in ``cwd``."""
        ended = self._run(["-m", PACKAGE, "probe", "--json"], cwd, {"PYTHONPATH": cwd} if cwd != "/" else {})
        if ended.code != 0:
            told = ended.why or _off(ended.out) or ended.last_words
            raise TuningError(
                f"{what} does not load in {self.interpreter}: {told}. Nothing new stays installed. "
                f"Legal: a library for this interpreter's system; build on the node itself, with its own compiler."
            )

    def _refuse_half_installed(self, stamp: dict) -> None:
        delete(self._found(*SET_ASIDE))  # of an earlier pip
        try:
            if self.stamp() != stamp:
                raise TuningError(
                    f"pip of {self.interpreter} installs elsewhere than {self.packages}, where this interpreter looks first. "
                    f"Legal: a virtual environment, or an interpreter without a target folder in its settings."
                )
            if self.faults():
                raise TuningError(
                    f"pip of {self.interpreter}: {self.faults()[0]}; legal: every file of the wheel in {self.packages}. Repair pip."
                )
            self._try("/", "the installed library")
        except TuningError:
            self.remove()
            raise

    def _found(self, *patterns: str) -> list:
        place = glob.escape(self.packages)
        return sorted(path for pattern in patterns for path in glob.glob(os.path.join(place, pattern)))

    def _run(self, arguments: list, cwd: str, environment: dict) -> bounded_command.Ended:
        return bounded_command.run([self.interpreter, *arguments], self.timeout, {"HOME": "/", **environment}, cwd)


def _recorded(path: str) -> list:
    """The files, relative to the folder for packages, that pip wrote down in a RECORD."""
    return [row[0] for row in csv.reader(_text(path).splitlines()) if row]


def environment_of(interpreter: str, probe_timeout: float, timeout: float) -> Environment:
    """The environment of ``interpreter``, which is started to tell its folders. Raises TuningError for one that does not start."""
    if not os.path.isabs(interpreter):
        raise TuningError(f"interpreter {interpreter!r}: legal: an absolute path. Set custom_allreduce_interpreter.")
    packages = Interpreter(interpreter, Service({}, None), probe_timeout).resolve()["purelib"]
    if os.path.isdir(packages) and not os.access(packages, os.R_OK | os.X_OK):
        raise TuningError(f"{packages}: cannot be read; legal: a folder that this user may read. Add become: true.")
    return Environment(interpreter, packages, timeout)


def read_object(path: str) -> Optional[dict]:
    """The JSON object in this file; None for anything else that may stand there."""
    try:
        found = json.loads(_text(path))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _irremovable(path: str) -> TuningError:
    return TuningError(f"{path}: cannot be removed; legal: a folder that this user may write. Add become: true.")


def _lock(descriptor: int, folder: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:
            return  # a file system without locks
        raise TuningError(
            f"{folder}: another run installs, measures or removes the custom all-reduce here; legal: one at a time. Wait for its end: a build "
            f"whose playbook was ended goes on to its own."
        ) from error


def _text(path: str) -> str:
    try:
        return read_plain(path, follow=True, most=LARGEST).decode("utf-8")
    except (OSError, ValueError):
        return ""


def delete(paths: list) -> None:
    """As far as this user may."""
    for path in paths:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
            continue
        with contextlib.suppress(OSError):
            os.unlink(path)


def _off(text: str) -> Optional[str]:
    try:
        return json.loads(text)["off"]
    except (ValueError, KeyError, TypeError):
        return None
