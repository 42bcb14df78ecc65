# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where facts about a node come from: its files and its commands. A directory that looks like a node's ``/`` can play one.

What cannot be read raises SourceMissing with the reason, and nothing else does.
"""

from __future__ import annotations

import concurrent.futures
import os
import selectors
import shutil
import subprocess
import time
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.bounded_command import kill_group

FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/nvidia/bin")
LARGEST = 1024 * 1024  # bytes read of one file; what the kernel shows of itself is far smaller
LARGEST_OUTPUT = 8 * 1024 * 1024  # bytes of one stream of a command; sixteen GPUs need a fiftieth
GRACE = 1  # seconds that a killed command gets to end


class SourceMissing(Exception):
    """Why a source gave nothing."""


class Answer(NamedTuple):
    """What a command printed, and why that counts for nothing (None: it counts)."""

    out: str
    failure: Optional[str]

    @property
    def text(self) -> str:
        if self.failure is not None:
            raise SourceMissing(self.failure)
        return self.out


class Sources:
    """A node whose file system begins at ``root``. Paths go in and come out as that node names them."""

    def __init__(self, root: str = "/"):
        self.root = os.path.realpath(root)

    def data(self, path: str) -> bytes:
        try:
            with open(self._here(path), "rb") as stream:
                return stream.read(LARGEST)
        except OSError as error:
            raise SourceMissing(_why(error)) from error

    def text(self, path: str) -> str:
        return self.data(path).decode("utf-8", "replace")

    def names(self, path: str) -> list:
        """Names in a directory, sorted."""
        try:
            return sorted(os.listdir(self._here(path)))
        except OSError as error:
            raise SourceMissing(_why(error)) from error

    def target(self, path: str) -> str:
        """``path`` with every symbolic link followed."""
        here = self._here(path)
        if not os.path.exists(here):
            raise SourceMissing("No such file or directory")
        return "/" + os.path.relpath(os.path.realpath(here), self.root)

    def file_system_mib(self, path: str) -> int:
        """Size of the file system that ``path`` is on."""
        try:
            found = os.statvfs(self._here(path))
        except OSError as error:
            raise SourceMissing(_why(error)) from error
        return found.f_blocks * found.f_frsize // (1024 * 1024)

    def command(self, name: str, folders: tuple = FOLDERS) -> str:
        """Path of an executable, to be run: the one path that is not as the node names it."""
        found = shutil.which(name, path=os.pathsep.join(self._here(folder) for folder in folders))
        if found is None:
            raise SourceMissing(f"no executable {name} in {', '.join(folders)}")
        return found

    def _here(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))


def side_by_side(functions: dict) -> dict:
    """Call every function at the same time: the slowest alone decides how long it takes. Name to what it returned."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(functions))) as pool:
        running = {name: pool.submit(function) for name, function in functions.items()}
        return {name: future.result() for name, future in running.items()}


def run_bounded(argv: list, timeout: float) -> Answer:
    """Run a command that may hang, for at most ``timeout`` seconds. Never raises."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env={"PATH": os.pathsep.join(FOLDERS), "LC_ALL": "C"},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Answer("", f"cannot be started: {_why(error)}")
    printed, failure = _read(process, time.monotonic() + timeout)
    if failure is None:
        try:
            process.wait(timeout=GRACE)  # its output has ended, and so has it, as a rule
        except subprocess.TimeoutExpired:
            failure = "it closed its output and did not end"
    if failure is not None:
        kill_group(process, GRACE)
        return Answer("", f"{failure.format(timeout=timeout)}; it was stopped")
    for stream in (process.stdout, process.stderr):
        stream.close()
    out, err = (bytes(printed[stream]).decode("utf-8", "replace") for stream in (process.stdout, process.stderr))
    if process.returncode != 0:
        said = (err.strip() or out.strip() or "nothing").splitlines()[0]
        return Answer(out, f"exit status {process.returncode}; it said: {said[:200]}")
    return Answer(out, None)


def _read(process: subprocess.Popen, end: float) -> tuple:
    """({stream: bytes}, None), or why it is not waited for any longer: a driver may hang, and something else may print without end."""
    printed = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in printed:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0, end - time.monotonic()))
            if not ready:
                return printed, "no answer within {timeout:g} s"
            for key, _events in ready:
                piece = os.read(key.fd, 65536)
                if not piece:
                    selector.unregister(key.fileobj)
                printed[key.fileobj] += piece
                if len(printed[key.fileobj]) > LARGEST_OUTPUT:
                    return printed, f"it printed more than {LARGEST_OUTPUT} bytes"
    return printed, None


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
