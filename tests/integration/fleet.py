# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are scratch directories, and the real ansible-playbook that tunes them."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trees
import yaml

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = ROOT / "playbooks"
BIN = Path(sys.executable).parent
BASE_PYTHON = Path(os.path.realpath(sys._base_executable))
LIBRARY = Path(os.__file__).parent
MINOR = f"python{sys.version_info[0]}.{sys.version_info[1]}"
MODULE = "gpu_node.tuning.sitecustomize"
# What Debian and Ubuntu ship, byte for byte.
DEBIAN_HOOK = b"""# install the apport exception handler if available
try:
    import apport_python_hook
except ImportError:
    pass
else:
    apport_python_hook.install()
"""
KNOWN_GOOD = {
    "NCCL_ALGO": "Ring",
    "NCCL_BUFFSIZE": "16777216",
    "NCCL_MAX_NCHANNELS": "16",
    "NCCL_NTHREADS": "512",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_PROTO": "LL",
}
# What these capabilities allow is what root can do and nobody else: read and write against the mode of a file.
WITHOUT_OVERRIDE = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]


def need_root(command: str) -> None:
    """A test that cannot be made without root fails with the command; it is not left out in silence."""
    if os.geteuid() != 0:
        pytest.fail(f"needs root for `{command}`: sudo {sys.executable} -m pytest tests/integration")


def write(path: Path, content: bytes, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


def script(path: Path, text: str) -> Path:
    return write(path, text.encode(), 0o755)


def make_interpreter(root: Path, debian: bool = False) -> Path:
    """A Python of its own below ``root``: a copy of the program, with links to the standard library but its own sitecustomize.

    With ``debian`` the library's sitecustomize.py is a link to a file of ``root``/etc that holds the distribution's hook.
    """
    library = root / "lib" / MINOR
    cache = library / "__pycache__"
    cache.mkdir(parents=True)
    for source in LIBRARY.iterdir():
        if source.name not in ("site-packages", "dist-packages", "__pycache__") and "customize" not in source.name:
            (library / source.name).symlink_to(source)
    for compiled in (LIBRARY / "__pycache__").glob("*.pyc"):
        if "customize" not in compiled.name:
            (cache / compiled.name).symlink_to(compiled)
    for shared in BASE_PYTHON.parent.parent.glob("lib/libpython*"):
        (root / "lib" / shared.name).symlink_to(shared)
    (library / "site-packages").mkdir()
    (root / "bin").mkdir()
    shutil.copy2(BASE_PYTHON, root / "bin" / "python3")
    if debian:
        configured = write(root / "etc" / MINOR / "sitecustomize.py", DEBIAN_HOOK)
        (library / "sitecustomize.py").symlink_to(configured)
    return root / "bin" / "python3"


def make_venv(root: Path, interpreter: Path) -> Path:
    """What `python -m venv --without-pip` makes, less what no test needs."""
    (root / "lib" / MINOR / "site-packages").mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "bin" / "python3").symlink_to(interpreter)
    write(root / "pyvenv.cfg", f"home = {interpreter.parent}\ninclude-system-site-packages = false\n".encode())
    return root / "bin" / "python3"


@dataclasses.dataclass
class Node:
    """``root`` is all there is of the node; ``scratch`` is beside it, for what a test itself writes down."""

    name: str
    root: Path
    scratch: Path
    vars: dict
    yaml: str = ""  # host variables as a person writes them

    @property
    def site(self) -> Path:
        return self.root / "site"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def python(self) -> Path:
        """The root of the node's own interpreter, see own_python."""
        return self.root / "python"

    @property
    def file(self) -> Path:
        """The sitecustomize.py that is written: the service's, or the own interpreter's."""
        if self.vars["nccl_env_scope"] == "service":
            return self.site / "sitecustomize.py"
        return self.python / "lib" / MINOR / "sitecustomize.py"

    def own_python(self, debian: bool = False) -> Path:
        """Give the node an interpreter of its own and use its file: scope system, without touching this machine's."""
        interpreter = make_interpreter(self.python, debian)
        self.vars |= {"nccl_env_scope": "system", "nccl_env_interpreter": str(interpreter)}
        return interpreter

    def venv(self, interpreter: Path) -> Path:
        """Use a virtual environment of ``interpreter`` instead; returns its site-packages."""
        self.vars["nccl_env_interpreter"] = str(make_venv(self.root / "venv", interpreter))
        return self.root / "venv" / "lib" / MINOR / "site-packages"

    def environment_of_a_start(self, *options: str, **preset: str) -> dict:
        """NCCL variables in a start of the node's interpreter as its service starts it."""
        paths = {"PYTHONPATH": str(self.site)} if self.vars["nccl_env_scope"] == "service" else {}
        program = "import json, os; print(json.dumps({n: v for n, v in os.environ.items() if n.startswith('NCCL_')}))"
        command = [self.vars["nccl_env_interpreter"], "-B", *options, "-c", program]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=paths | preset)
        assert not done.stderr
        return json.loads(done.stdout)


@dataclasses.dataclass
class Play:
    """One run of ansible-playbook. ``trees``: node name to {before, after}; ``executions``: node name to modules run on it."""

    rc: int
    stdout: str
    stderr: str
    results: list
    trees: dict
    executions: dict

    def of(self, node, *statuses: str) -> list:
        name = getattr(node, "name", node)
        return [
            entry for entry in self.results if entry["host"] == name and (not statuses or entry["status"] in statuses)
        ]

    def result(self, node) -> dict:
        """What the module sitecustomize returned for the node, which it tuned."""
        found = [entry["result"] for entry in self.of(node, "ok") if entry["action"] == MODULE]
        assert len(found) == 1, f"{getattr(node, 'name', node)} was not tuned\n{self}"
        return found[0]

    def message(self, node) -> str:
        """The one message that the node failed with."""
        name = getattr(node, "name", node)
        failures = self.of(name, "failed", "unreachable")
        assert [entry["status"] for entry in failures] == ["failed"], f"{name}: {failures}\n{self}"
        assert self.stdout.count(f"fatal: [{name}]") == 1, str(self)
        return failures[0]["result"]["msg"]

    def recap(self, node) -> dict:
        name = getattr(node, "name", node)
        line = re.search(rf"^{re.escape(name)} +: (.*)$", self.stdout, re.MULTILINE)
        assert line, f"no recap of {name}\n{self}"
        return {key: int(count) for key, count in (pair.split("=") for pair in line[1].split())}

    def touched(self, node) -> dict:
        """What of the node is not as it was before, times included."""
        tree = self.trees[node.name]
        return trees.differences(tree["before"], tree["after"])

    def __str__(self) -> str:
        return f"exit status {self.rc}\n{self.stdout}\n{self.stderr}"


class Fleet:
    def __init__(self, folder: Path):
        self.folder = folder
        self.nodes: dict[str, Node] = {}
        for name in ("inventory/host_vars", "log", "cwd", "wrappers"):
            (folder / name).mkdir(parents=True)

    def node(self, name: str, **host_vars) -> Node:
        root = self.folder / "nodes" / name
        root.mkdir(parents=True)
        scratch = self.folder / "scratch" / name
        scratch.mkdir(parents=True)
        log = self.folder / "log" / f"executions-{name}"
        # Every module that runs on the node is one start of this, with or without pipelining.
        wrapper = script(
            self.folder / "wrappers" / name, f'#!/bin/sh\ndate +%s.%N >> "{log}"\nexec "{sys.executable}" "$@"\n'
        )
        settings = {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(wrapper),
            "ansible_remote_tmp": str(root / "ansible_tmp"),
            "nccl_env_interpreter": sys.executable,
            "nccl_env_scope": "service",
            "nccl_env_service_dir": str(root / "site"),
            "nccl_env_state_dir": str(root / "state"),
        }
        self.nodes[name] = Node(name, root, scratch, settings | host_vars)
        return self.nodes[name]

    def log_of_modules(self, node: Node) -> Path:
        return self.folder / "log" / f"executions-{node.name}"

    def start_of_modules(self, node: Node) -> list:
        """When each module execution began, in seconds since the epoch."""
        log = self.log_of_modules(node)
        return [float(line) for line in log.read_text().split()] if log.exists() else []

    def write_inventory(self, group: str = "gpu_nodes") -> Path:
        inventory = self.folder / "inventory"
        hosts = {name: node.vars for name, node in self.nodes.items()}
        # These nodes have no GPUs. The tests of the hardware check turn it on for theirs.
        fleet = {group: {"hosts": hosts, "vars": {"tuning_hardware_check": "off"}}}
        (inventory / "hosts.yml").write_text(yaml.safe_dump(fleet, allow_unicode=True))
        for name, node in self.nodes.items():
            if node.yaml:
                (inventory / "host_vars" / f"{name}.yml").write_text(f"---\n{node.yaml}\n")
        return inventory

    def environment(self, log: Path, **extra: str) -> dict:
        """That of somebody who has just logged in. The NCCL variable is a trap: old values must not reach any read-back."""
        return {
            "PATH": os.pathsep.join([str(BIN), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]),
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "NCCL_PROTO": "Simple",
            "ANSIBLE_CONFIG": str(PLAYBOOKS / "ansible.cfg"),
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "ansible" / "tmp"),
            "ANSIBLE_FORKS": "4",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).parent / "callbacks"),
            "ANSIBLE_CALLBACKS_ENABLED": "results_log",
            "RESULTS_LOG": str(log),
            "PYTHONDONTWRITEBYTECODE": "1",
        } | extra

    def command(self, *arguments: str, playbook: str | Path = PLAYBOOKS / "tune.yml", group: str = "gpu_nodes") -> list:
        return [str(BIN / "ansible-playbook"), "-i", str(self.write_inventory(group)), str(playbook), *arguments]

    def play(
        self, *arguments: str, playbook: str | Path = PLAYBOOKS / "tune.yml", group: str = "gpu_nodes", **how
    ) -> Play:
        return self.run(self.command(*arguments, playbook=playbook, group=group), **how)

    def run(self, command: list, cwd: Path | None = None, prefix=(), mounts=None, env=None) -> Play:
        """Run it and look at all nodes before and after; with ``mounts`` (commands) in a mount namespace where these were run."""
        for old in (self.folder / "log").iterdir():
            old.unlink()
        log, answer = self.folder / "log" / "results", self.folder / "log" / "trees"
        log.touch()
        command = [*prefix, *command]
        if mounts is not None:
            need_root("unshare --mount")
            specification = self.folder / "specification.json"
            roots = {name: str(node.root) for name, node in self.nodes.items()}
            words = {"prepare": mounts, "roots": roots, "command": command, "answer": str(answer)}
            specification.write_text(json.dumps(words))
            unshare = ["unshare", "--mount", "--propagation", "private"]
            command = [*unshare, sys.executable, trees.__file__, str(specification)]
        seen = {name: {"before": trees.snapshot(node.root)} for name, node in self.nodes.items()}
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=cwd or self.folder / "cwd",
            env=self.environment(log, **(env or {})),
            timeout=200,
        )
        for name, node in self.nodes.items():
            seen[name]["after"] = trees.snapshot(node.root)
        if mounts is not None:
            assert answer.exists(), f"{done.stdout}\n{done.stderr}"
            seen = json.loads(answer.read_text())
        executions = {name: len(self.start_of_modules(node)) for name, node in self.nodes.items()}
        results = [json.loads(line) for line in log.read_text().splitlines()]
        return Play(done.returncode, done.stdout, done.stderr, results, seen, executions)
