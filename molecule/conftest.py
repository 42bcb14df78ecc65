"""What the tests of every scenario know about a node, and how they ask its interpreters."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
import testinfra

# What tests of several scenarios import.
sys.path.insert(0, str(Path(__file__).parent / "shared"))

import fleet as fleet_of_nodes

# Written out here on purpose: the tests must not read the profile that they prove.
KNOWN_GOOD = {
    "NCCL_ALGO": "Ring",
    "NCCL_BUFFSIZE": "16777216",
    "NCCL_MAX_NCHANNELS": "16",
    "NCCL_NTHREADS": "512",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_PROTO": "LL",
}

PYTHON_OF = {"bullseye": "3.9", "bookworm": "3.11", "trixie": "3.13", "forky": "3.14"}

SHOW = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('NCCL_')}))"

# The parent takes its variables away: the child has them only if it imported the file itself.
SHOW_SPAWNED = f"""
import multiprocessing, os, sys
for name in [name for name in os.environ if name.startswith("NCCL_")]:
    del os.environ[name]
child = multiprocessing.get_context("spawn").Process(target=exec, args=({SHOW!r},))
child.start()
child.join()
sys.exit(child.exitcode)
"""


@dataclass
class Node:
    host: object
    suite: str

    @property
    def python(self) -> str:
        return PYTHON_OF[self.suite]

    @property
    def link(self) -> str:
        return f"/usr/lib/python{self.python}/sitecustomize.py"

    @property
    def file(self) -> str:
        return f"/etc/python{self.python}/sitecustomize.py"

    @property
    def package(self) -> str:
        return f"libpython{self.python}-minimal"

    @property
    def deb(self) -> str:
        """The package that the image was built from."""
        return self.host.check_output("ls /var/cache/debs/%s_*.deb", self.package)

    @property
    def container(self) -> str:
        return self.host.backend.name

    def sh(self, script: str) -> str:
        """Run a shell script on the node; it must succeed. Returns its standard output."""
        return self.feed("set -eu\n" + script, "sh", "-s")

    def feed(self, text: str, *words: str) -> str:
        """Run a command on the node with ``text`` as its standard input; it must succeed. Returns its standard output."""
        command = ["podman", "exec", "--interactive", self.container, *words]
        done = subprocess.run(
            command, check=False, input=text, capture_output=True, text=True, env=fleet_of_nodes.environment()
        )
        assert done.returncode == 0, f"{self.suite}: {done.stdout}{done.stderr}"
        return done.stdout

    def write(self, path: str, content: bytes | str) -> None:
        """Into the file, through links, as a person's editor does; a new file gets mode 0644."""
        text = content if isinstance(content, str) else content.decode()
        self.feed(text, "sh", "-c", f"umask 022; cat > {shlex.quote(path)}")

    def read(self, path: str) -> bytes:
        return self.host.file(path).content

    def vendor_bytes(self) -> bytes:
        """The file as the package has it, from the package itself."""
        result = self.host.run("dpkg-deb --fsys-tarfile %s | tar -xO .%s", self.deb, self.file)
        assert result.rc == 0, result
        assert b"apport" in result.stdout_bytes, result
        return result.stdout_bytes

    def ask(self, *command: str, user: str = "root", preset: dict[str, str] | None = None) -> dict[str, str]:
        """The NCCL_* of an interpreter that starts with the environment `preset` and nothing else."""
        words = ["env", "-i", *(f"{name}={value}" for name, value in (preset or {}).items()), *command]
        if user != "root":
            words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *words]
        result = self.host.run(shlex.join(words))
        # An error in a sitecustomize leaves the exit status alone and speaks on standard error.
        assert (result.rc, result.stderr) == (0, ""), result
        return json.loads(result.stdout)


@pytest.fixture
def node(host) -> Node:
    return _node_of(host)


def _node_of(host) -> Node:
    return Node(host, host.backend.name.rpartition(".")[2])


@pytest.fixture(scope="session")
def nodes(request) -> list[Node]:
    """All nodes of the scenario, for tests that run playbooks: a test that takes `node` runs once for each instead."""
    return [_node_of(host) for host in testinfra.get_hosts(request.config.option.hosts.split(","))]


@pytest.fixture(scope="module")
def fleet(nodes, request, tmp_path_factory) -> fleet_of_nodes.Fleet:
    inventory = Path(request.path).parents[1] / "inventory.yml"
    return fleet_of_nodes.Fleet(nodes, inventory, tmp_path_factory.mktemp("fleet"))


COUNTS = Counter()


@pytest.fixture
def count():
    """count("starts tried"): a number for the last lines of the run."""

    def add(what: str, number: int = 1) -> None:
        COUNTS[what] += number

    return add


def pytest_terminal_summary(terminalreporter):
    if COUNTS:
        terminalreporter.write_line(", ".join(f"{number} {what}" for what, number in sorted(COUNTS.items())))
