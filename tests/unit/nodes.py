# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node below one directory whose interpreters are played in this process: as many runs as one likes, at no cost.

What a real interpreter does is the matter of the tests that start one; here it is the files and the records.
"""

from __future__ import annotations

import json
import os
import pathlib
from unittest import mock

from ansible_collections.gpu_node.tuning.plugins.module_utils import activation
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter, Service
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory
from ansible_collections.gpu_node.tuning.plugins.module_utils.tuning_plan import Wish
from ansible_collections.gpu_node.tuning.plugins.module_utils.tuning_transaction import tune

from .interpreters import tree
from .rendering import rendered

ENV = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}
OTHER_ENV = {"NCCL_PROTO": "Simple"}
HOOK = b"try:\n    import apport_python_hook\nexcept ImportError:\n    pass\nelse:\n    apport_python_hook.install()\n"


class PlayedInterpreter(Interpreter):
    """Reads ``../lib/sitecustomize.py`` beside its ``bin``, PYTHONPATH first; ``../late.py`` runs last, at a real start only."""

    @property
    def library(self):
        return pathlib.Path(self.executable).parents[1] / "lib"

    def resolve(self):
        if not os.path.exists(self.executable):
            raise TuningError(f"interpreter {self.executable}: cannot be started: No such file or directory.")
        path = [*filter(None, self.service.environment.get("PYTHONPATH", "").split(":")), str(self.library)]
        files = [os.path.join(directory, "sitecustomize.py") for directory in path]
        origin = next((file for file in files if os.path.exists(file)), None)
        return {
            "executable": self.executable,
            "version": "3.12.1",
            "prefix": str(self.library.parent),
            "base_prefix": str(self.library.parent),
            "path": path,
            "purelib": str(self.library),
            "origin": origin,
            "cached": None,
            "candidates": [file for file in files if os.path.lexists(file)],
            "env": {},
        }

    def trial(self, content, filename):
        try:
            return self._run(compile(content, filename, "exec"), filename)
        except BaseException as error:  # noqa: BLE001 - as the probe program: SystemExit too is an answer
            return {"env": {}, "error": {"type": type(error).__name__, "text": str(error), "line": None}}

    def read_back(self, names, isolated=False, writes_bytecode=False):
        file = self.resolve()["origin"]
        if isolated and file and not file.startswith(str(self.library)):
            file = None
        content = pathlib.Path(file).read_bytes() if file else b""
        late = self.library.parent / "late.py"
        content += late.read_bytes() if late.exists() else b""
        env = self._run(compile(content, file or "-", "exec"), file)["env"]
        seen = {name: env[name] for name in names if name in env}
        return {"file": file, "env": seen, "spawn": {"file": file, "env": seen}}

    def _run(self, code, filename):
        preset = {name: value for name, value in self.service.environment.items() if name.startswith("NCCL_")}
        with mock.patch.dict(os.environ, preset, clear=True):
            exec(code, {"__name__": "sitecustomize", "__file__": filename})  # noqa: S102 - what an import does
            return {"env": dict(os.environ), "error": None}


class PlayedNode:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.state = StateDirectory(str(self.root / "var" / "state"), by="ops@controller")
        self.service_dir = self.root / "opt" / "engine" / "tuning"
        self.install("a")

    def install(self, python):
        (self.root / python / "bin").mkdir(parents=True)
        (self.root / python / "bin" / "python").touch()

    def executable(self, python="a"):
        return str(self.root / python / "bin" / "python")

    def path(self, python="a"):
        """The sitecustomize.py of the interpreter ``python``; of the service scope for None."""
        return (self.root / python / "lib" if python else self.service_dir) / "sitecustomize.py"

    def put(self, content, python="a", mode=0o644):
        self.path(python).parent.mkdir(parents=True, exist_ok=True)
        self.path(python).write_bytes(content)
        self.path(python).chmod(mode)

    def link(self, content=HOOK):
        """As Debian has it: the path is a relative link, the bytes are elsewhere. Returns the target."""
        target = self.root / "etc" / "sitecustomize.py"
        target.parent.mkdir()
        target.write_bytes(content)
        self.path().parent.mkdir()
        self.path().symlink_to("../../etc/sitecustomize.py")
        return target

    def bytes(self, python="a"):
        return self.path(python).read_bytes() if self.path(python).exists() else None

    def tune(self, env=ENV, python="a", status="known_good", check=False, **options):
        """With ``python`` None the service scope, run by the interpreter ``a``; with ``env`` None the removal."""
        scope = "system" if python else "service"
        environment = {} if python else {"PYTHONPATH": str(self.service_dir)}
        wish = Wish(
            **{
                "body": None if env is None else rendered(env, scope=scope),
                "env": env or {},
                "scope": scope,
                "service_dir": None if python else str(self.service_dir),
                "precedence": "respect",
                "takeover": "refuse",
                "profile": "of_a_test",
                "profile_status": status,
                "evidence": [],
                **options,
            }
        )
        interpreter = PlayedInterpreter(self.executable(python or "a"), Service(environment, None), 5)
        return tune(wish, interpreter, self.state, 5, check)

    def rollback(self, wanted="known_good", check=False):
        with mock.patch.object(activation, "Interpreter", PlayedInterpreter):
            return activation.activate(self.state, str(wanted), 5, 5, check)

    def manifest(self, number):
        return pathlib.Path(self.state.path, "generations", f"{number:04d}", "manifest.json")

    def kept(self, number, python="a", side="after"):
        """Where generation ``number`` keeps the bytes of a file."""
        return self.manifest(number).parent.joinpath(side, *self.path(python).parts[1:])

    def edit_manifest(self, number, **changes):
        """As a person does, who knows nothing of the checksum."""
        manifest = json.loads(self.manifest(number).read_text(encoding="utf-8"))
        self.manifest(number).write_text(json.dumps({**manifest, **changes}), encoding="utf-8")

    def tree(self):
        """All of the node but our records and bytecode."""
        records = str(self.root / "var")
        return {
            path: facts
            for path, facts in tree(self.root).items()
            if not path.startswith(records) and "__pycache__" not in path
        }

    def records(self):
        return tree(self.state.path)

    def outcomes(self):
        return [(entry["outcome"], entry.get("generation")) for entry in self.state.history()]
