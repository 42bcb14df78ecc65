# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a Python interpreter: run the probe program in it, started clean, with a service's own environment and user."""

from __future__ import annotations

import base64
import copy
import inspect
import json
import os
import pwd
import secrets
import signal
import subprocess
from types import ModuleType
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    probe_program,
    sglang_program,
    software_program,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.option_names import option

OLDEST = (3, 9)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Service(NamedTuple):
    """How the engine's process is started: ``environment`` (name to value, added to a minimal one) and ``user`` (None: this one).

    ``has_account``: HOME, USER and LOGNAME are set too, as systemd sets them only for a unit with ``User=``.
    """

    environment: dict
    user: Optional[str]
    has_account: bool = True


class Interpreter:
    """A Python executable and the way to start it. ``timeout`` (seconds) bounds every start."""

    def __init__(self, executable: str, service: Service, timeout: float):
        self.executable = executable
        self.service = service
        self.timeout = timeout

    def with_service(self, service: Service) -> Interpreter:
        """The same executable, started another way."""
        other = copy.copy(self)
        other.service = service
        return other

    @property
    def home(self) -> str:
        """Home directory in the passwd entry of the service's user. Raises TuningError for an unknown user."""
        return self._account().pw_dir

    @property
    def user_id(self) -> int:
        """Numeric ID of the service's user. Raises TuningError for an unknown user."""
        return self._account().pw_uid

    def resolve(self) -> dict:
        """See probe_program.resolve. Nothing of sitecustomize is run."""
        answer = self._ask({"ask": "resolve"}, ["-S", "-B"])
        self._refuse_old(*(int(part) for part in answer["version"].split(".")[:2]))
        return answer

    def trial(self, content: bytes, filename: str) -> dict:
        """Run ``content`` as sitecustomize ``filename`` without writing it: {env, error: None or {type, text, line}}."""
        request = {"ask": "trial", "content": base64.b64encode(content).decode("ascii"), "filename": filename}
        return self._ask(request, ["-S", "-B"])

    def read_back(self, names: list, isolated: bool = False, writes_bytecode: bool = False) -> dict:
        """A real start: {file, env, spawn: {file, env}}; with ``isolated`` (-I) no child is spawned."""
        options = (["-I"] if isolated else []) + ([] if writes_bytecode else ["-B"])
        return self._ask({"ask": "read_back", "names": names, "spawn": not isolated}, options)

    def software(self) -> dict:
        """See software_program.software. A real start, because .pth files may lead to the packages."""
        return self._ask({}, ["-B"], software_program)

    def sglang(self, request: dict) -> dict:
        """See sglang_program: which SGLang this interpreter has, and whether its parser takes a configuration."""
        return self._ask(request, ["-B"], sglang_program)

    def _ask(self, request: dict, options: list, program: ModuleType = probe_program) -> dict:
        nonce = secrets.token_hex(16)
        request = json.dumps(dict(request, nonce=nonce))
        out, err, code = self._run(options + ["-c", inspect.getsource(program)], request)
        parts = out.split(nonce)
        if len(parts) != 3:
            raise TuningError(self._no_answer(out, err, code))
        return json.loads(parts[1])

    def _no_answer(self, out: str, err: str, code: int) -> str:
        self._refuse_other_python()
        said = (err.strip() or out.strip() or "nothing").splitlines()
        return (
            f"interpreter {self.executable}: started, but ended (exit status {code}) without an answer; its last words: {said[-1][:300]}. "
            f"Legal: a working Python {OLDEST[0]}.{OLDEST[1]} or newer. Start it by hand to see what is wrong with it."
        )

    def _refuse_other_python(self) -> None:
        version, said, code = self._version(self.service.environment)
        if version is None:
            self._refuse_environment(said)
            raise TuningError(
                f"interpreter {self.executable}: not a Python interpreter (exit status {code}, it said: {said[:200] or 'nothing'}). "
                f"Legal: the path of the Python that runs the engine, for instance /usr/bin/python3 or a virtual environment's bin/python."
            )
        self._refuse_old(*version)

    def _version(self, environment: dict) -> tuple:
        """((major, minor), what it said, exit status) of a start with ``environment``; None for the version of what is no Python or does not start."""
        asked = "import sys; sys.stdout.write('python %d %d' % sys.version_info[:2])"
        out, err, code = self._run(["-S", "-c", asked], "", environment)
        words = out.split()
        version = (int(words[1]), int(words[2])) if len(words) == 3 and words[0] == "python" else None
        return version, (err or out).strip(), code

    def _refuse_environment(self, said: str) -> None:
        """Raises TuningError where the interpreter starts well without the service's environment: that is at fault, and not the interpreter."""
        environment = self.service.environment
        if not environment or self._version({})[0] is None:
            return
        alone = [name for name in sorted(environment) if self._version({name: environment[name]})[0] is None]
        # A value is shown where it is the fault, and of the variables that are Python's own: others may be secrets.
        blamed = ", ".join(
            f"{name}={environment[name][:100]!r}" if name in alone and name.startswith("PYTHON") else name
            for name in alone or sorted(environment)
        )
        lines = said.splitlines() or ["nothing"]
        words = next((line for line in lines if "error" in line.lower()), lines[-1])[:200]
        raise TuningError(
            f"service_environment: {blamed}: {self.executable} starts without it and not with it; its words: {words}. "
            f"Legal: an environment that this interpreter starts in. Take it out of {option('service_environment')}, and out of the service."
        )

    def _refuse_old(self, major: int, minor: int) -> None:
        if (major, minor) < OLDEST:
            raise TuningError(
                f"interpreter {self.executable}: Python {major}.{minor}; legal: Python {OLDEST[0]}.{OLDEST[1]} or newer. "
                f"Name the interpreter that runs the engine in {option('interpreter')}."
            )

    def _run(self, arguments: list, standard_input: str, environment: Optional[dict] = None) -> tuple:
        """Start the interpreter in a process group of its own, so that a hanging start is ended with all its children."""
        try:
            process = subprocess.Popen(
                [self.executable] + arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                env=self._environment(self.service.environment if environment is None else environment),
                start_new_session=True,
                **self._identity(),
            )
        except (OSError, ValueError) as error:
            raise TuningError(
                f"interpreter {self.executable}: cannot be started: {getattr(error, 'strerror', None) or error}. "
                f"Legal: the absolute path of an executable Python {OLDEST[0]}.{OLDEST[1]} or newer; set {option('interpreter')}."
            ) from error
        try:
            out, err = process.communicate(standard_input.encode(), timeout=self.timeout)
        except subprocess.TimeoutExpired as error:
            raise TuningError(
                f"interpreter {self.executable}: gave no answer within {self.timeout:g} s, so it was stopped. Code that runs at its start "
                f"(sitecustomize, .pth files, the rendered block) hangs, or the time limit {option('probe_timeout')} is too short for this node."
            ) from error
        finally:
            self._end(process)
        return out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), process.returncode

    @staticmethod
    def _end(process: subprocess.Popen) -> None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # the whole group has ended by itself, which is the ordinary case
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()

    def _environment(self, own: dict) -> dict:
        """What a service manager gives, then the service's own. Nothing of this process's environment: it has old values in it."""
        account = self._account()
        environment = {"PATH": PATH, "LANG": "C.UTF-8"}
        if self.service.has_account:
            environment.update(HOME=account.pw_dir, USER=account.pw_name, LOGNAME=account.pw_name)
        environment.update(own)
        return environment

    def _account(self) -> pwd.struct_passwd:
        name = self.service.user
        try:
            if name and name.isdecimal():  # systemd's User= may be a number
                return pwd.getpwuid(int(name))
            return pwd.getpwnam(name) if name else pwd.getpwuid(os.geteuid())
        except KeyError as error:
            if not name:
                return pwd.struct_passwd(("", "x", os.geteuid(), os.getegid(), "", "/", ""))
            raise TuningError(
                f"service_user {name!r}: no such user on this node. Legal: an existing user's name, or leave it out."
            ) from error

    def _identity(self) -> dict:
        """Popen arguments that change to the service's user."""
        account = self._account()
        if not self.service.user or account.pw_uid == os.geteuid():
            return {}
        if os.geteuid() != 0:
            raise TuningError(
                f"service_user {self.service.user!r}: only root can start an interpreter as another user. Add become: true, or leave it out."
            )
        return {
            "user": account.pw_uid,
            "group": account.pw_gid,
            "extra_groups": os.getgrouplist(account.pw_name, account.pw_gid),
        }
