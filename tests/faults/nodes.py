# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node in a folder, and the start states that a transaction can meet there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from typing import NamedTuple, Optional

from transaction import Request, StateDirectory, look, perform

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "transaction.py")
# Two profiles whose blocks have the same length: only then can bytecode of the one pass for that of the other.
KNOWN = {"env": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}, "profile": "known_good", "status": "known_good"}
OTHER = {"env": {"NCCL_ALGO": "Tree", "NCCL_PROTO": "LL"}, "profile": "experiment", "status": "experimental"}
NAMES = ("NCCL_ALGO", "NCCL_PROTO")
VENDOR = b"""# install the apport exception handler if available
try:
    import apport_python_hook
except ImportError:
    pass
else:
    apport_python_hook.install()
"""
FOREIGN = b"import os\n\nos.environ.setdefault('SITE_OF_OTHERS', 'yes')"  # no newline at the end
BY_HAND = b"import os\nos.environ['NCCL_ALGO'] = 'CollnetDirect'\nos.environ['SITE_OF_OTHERS'] = 'yes'\n"
HARMLESS = "trusted.gpu_node_tuning"  # an extended attribute that every file system keeps for root, tmpfs too


class Node:
    """``root``: an empty folder. The file is at ``app/sitecustomize.py`` below it, the state directory at ``state``."""

    def __init__(self, root: str, interpreter: str):
        self.root = root
        self.interpreter = interpreter
        self.directory = os.path.join(root, "app")
        self.path = os.path.join(self.directory, "sitecustomize.py")
        self.vendor = os.path.join(root, "etc", "sitecustomize.py")
        self.state_dir = os.path.join(root, "state")

    @property
    def state(self) -> StateDirectory:
        return StateDirectory(self.state_dir)

    def request(self, **wanted) -> Request:
        return Request(self.interpreter, self.state_dir, self.directory, **wanted)

    def command(self, request: Request, program: str = PROGRAM) -> list:
        """The transaction as a program of its own."""
        return [self.interpreter, "-I", "-S", "-B", program, json.dumps(request._asdict())]

    def must(self, request: Request):
        answer = perform(request)
        assert answer.ok, answer.error
        return answer

    # -- what a start state puts there -----------------------------------------------------------------------------

    def put(self, content: bytes, path: Optional[str] = None, mode: int = 0o644) -> None:
        path = path or self.path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Python would take older bytecode for that of a file of the same length that is written in the same second.
        shutil.rmtree(os.path.join(self.directory, "__pycache__"), ignore_errors=True)
        with open(path, "wb") as stream:
            stream.write(content)
        os.chmod(path, mode)

    def put_vendor_file(self) -> None:
        """Behind a symbolic link, with an owner and an extended attribute that a rewrite has to keep."""
        self.put(VENDOR, self.vendor)
        os.makedirs(self.directory, exist_ok=True)
        os.symlink("../etc/sitecustomize.py", self.path)
        if os.geteuid() == 0:
            os.chown(self.vendor, 1, 1)
            with contextlib.suppress(OSError):  # a file system without them is tested without them
                os.setxattr(self.vendor, HARMLESS, b"kept")

    def empty(self) -> None:
        for name in os.listdir(self.root):
            if name != "lost+found":
                shutil.rmtree(os.path.join(self.root, name))

    def copy_to(self, place: str) -> None:
        subprocess.run(["cp", "-a", "--", self.root + "/.", place], check=True)

    def copy_from(self, place: str) -> None:
        self.empty()
        subprocess.run(["cp", "-a", "--", place + "/.", self.root], check=True)

    # -- looking ---------------------------------------------------------------------------------------------------

    def file(self) -> tuple:
        """All that a user of the file can see of it: FileState, and the extended attributes."""
        state = look(self.path)
        attributes = ()
        if state.exists:
            attributes = tuple((name, os.getxattr(self.path, name)) for name in sorted(os.listxattr(self.path)))
        return state, attributes

    def start_interpreter(self) -> dict:
        """A fresh one with our directory first, as the service starts it. Raises AssertionError when it does not start."""
        ask = f"import json, os; print(json.dumps({{n: os.environ.get(n) for n in {NAMES!r}}}))"
        environment = {"PATH": os.defpath, "PYTHONPATH": self.directory}
        done = subprocess.run(
            [self.interpreter, "-c", ask], check=False, capture_output=True, text=True, env=environment, timeout=60
        )
        assert done.returncode == 0, f"Python does not start: {done.stderr}"
        assert not done.stderr, f"Python complains at its start: {done.stderr}"
        return json.loads(done.stdout)

    def tree(self, with_state: bool = False) -> dict:
        """Path to (kind, mode, uid, gid, content, extended attributes). Bytecode is Python's own and left out.

        In the state directory the times, and the checksums over them, are left out as well: they differ in every run.
        """
        found = {}
        for folder, folders, files in os.walk(self.root):
            for name in ("__pycache__", *([] if with_state or folder != self.root else ["state"])):
                if name in folders:
                    folders.remove(name)
            for name in folders + files:
                path = os.path.join(folder, name)
                found[os.path.relpath(path, self.root)] = self._described(path)
        return found

    def _described(self, path: str) -> tuple:
        status = os.lstat(path)
        kind, detail, attributes = stat.S_IFMT(status.st_mode), None, ()
        if kind == stat.S_IFLNK:
            detail = os.readlink(path)
        else:
            attributes = tuple((name, os.getxattr(path, name)) for name in sorted(os.listxattr(path)))
        if kind == stat.S_IFREG:
            with open(path, "rb") as stream:
                detail = hashlib.sha256(self._without_times(path, stream.read())).hexdigest()
        return kind, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, detail, attributes

    def _without_times(self, path: str, content: bytes) -> bytes:
        if not path.startswith(self.state_dir + os.sep) or not path.endswith((".json", ".jsonl")):
            return content
        lines = [content] if path.endswith(".json") else content.splitlines()
        try:
            entries = [json.loads(line) for line in lines]
        except ValueError:
            return content
        for entry in entries:
            for varying in ("time", "checksum"):
                entry.pop(varying, None)
        return json.dumps(entries, sort_keys=True).encode()

    def leftovers(self) -> list:
        return sorted(
            os.path.join(folder, name)
            for folder, folders, files in os.walk(self.root)
            for name in folders + files
            if ".gpu_node.tuning." in name or name.endswith(".partial")
        )

    def history(self) -> list:
        return self.state.history()


class Start(NamedTuple):
    """``found``: make the node as it is found. ``before``: what was done to it since. ``last``: the transaction that is disturbed."""

    name: str
    found: Callable[[Node], None]
    before: Callable[[Node], None]
    last: Callable[[Node], Request]


def _nothing(node: Node) -> None:
    pass


def _tuned(*profiles: dict, **more):
    def before(node: Node) -> None:
        for profile in profiles:
            node.must(node.request(**profile, **more))

    return before


def _tune(profile: dict, **more):
    return lambda node: node.request(**profile, **more)


def _go_back(generation: str):
    return lambda node: node.request(activate=generation)


def _block_edited(node: Node) -> None:
    _tuned(KNOWN)(node)
    with open(node.path, "rb") as stream:
        content = stream.read()
    node.put(content.replace(b"'Ring'", b"'Tree'"))


def _link_replaced(node: Node) -> None:
    """What Ansible's copy does without follow."""
    _tuned(KNOWN)(node)
    os.unlink(node.path)
    node.put(b"import os  # put here by somebody's playbook\n")


def _state_lost(node: Node) -> None:
    _tuned(KNOWN)(node)
    shutil.rmtree(node.state_dir)


def _all_gone(node: Node) -> None:
    _tuned(KNOWN)(node)
    shutil.rmtree(node.directory)


STARTS = (
    Start("absent", _nothing, _nothing, _tune(KNOWN)),
    Start("vendor_file", Node.put_vendor_file, _nothing, _tune(KNOWN)),
    Start("foreign_code", lambda node: node.put(FOREIGN, mode=0o640), _nothing, _tune(KNOWN)),
    Start("by_hand", lambda node: node.put(BY_HAND), _nothing, _tune(KNOWN, takeover="replace")),
    Start("second_tune", Node.put_vendor_file, _tuned(KNOWN), _tune(OTHER)),
    Start("block_edited", lambda node: node.put(FOREIGN), _block_edited, _tune(KNOWN)),
    Start("oldest_go", _nothing, _tuned(KNOWN, OTHER, KNOWN, keep=3), _tune(OTHER, keep=3)),
    Start("removal", _nothing, _tuned(KNOWN), _tune({"env": None, "profile": "stock"})),
    Start("removal_vendor_file", Node.put_vendor_file, _tuned(KNOWN), _tune({"env": None, "profile": "stock"})),
    Start("removal_all_gone", _nothing, _all_gone, _tune({"env": None, "profile": "stock"})),
    Start("back_to_absent", _nothing, _tuned(KNOWN), _go_back("0")),
    Start("back_to_vendor_file", Node.put_vendor_file, _tuned(KNOWN, OTHER), _go_back("0")),
    Start("back_to_known_good", Node.put_vendor_file, _tuned(KNOWN, OTHER), _go_back("known_good")),
    Start("back_to_link", Node.put_vendor_file, _link_replaced, _go_back("0")),
    Start("state_lost", _nothing, _state_lost, _tune(OTHER)),
)


def start_named(name: str) -> Start:
    return next(start for start in STARTS if start.name == name)
