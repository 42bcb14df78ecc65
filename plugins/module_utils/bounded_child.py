# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Call a function in a child process: as another user, with a limit in time and memory, so that no file system and no file holds up a run."""

from __future__ import annotations

import codecs
import json
import os
import pwd
import resource
import select
import signal
import time
from typing import Callable, Optional

GRACE = 2  # seconds that a killed child gets to end
TICK = 0.02
# Python imports an encoding when it is used first. The child may not be able to read Python's own files, nor the module's.
ENCODINGS = ("ascii", "utf-8", "latin-1", "idna")
MEMORY = 3 * 1024**3  # bytes of address space that a child may add to what this process has


class ChildFailed(Exception):
    """Why there is no answer."""


def call_as(account: Optional[pwd.struct_passwd], function: Callable, limit: float, memory: int = MEMORY):
    """What ``function()`` returns, which JSON can hold, from a child that runs as ``account`` (None: this user).

    Raises ChildFailed after ``limit`` seconds, and where the child raised or died. Call it while no other thread runs.
    What ``function`` needs must be imported before.
    """
    if account is not None and account.pw_uid == os.geteuid():
        account = None
    for encoding in ENCODINGS:
        codecs.lookup(encoding)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _answer(writer, account, function, memory)
    os.close(writer)
    try:
        said = _listen(reader, time.monotonic() + limit)
    finally:
        os.close(reader)
        _end(child)
    if said is None:
        raise ChildFailed(f"no answer within {limit:g} s; a file system that does not answer does this")
    try:
        answer = json.loads(said)
    except ValueError:
        raise ChildFailed("the child process that looked ended without an answer") from None
    if "failure" in answer:
        raise ChildFailed(answer["failure"])
    return answer["answer"]


def _answer(writer: int, account: Optional[pwd.struct_passwd], function: Callable, memory: int) -> None:
    """Never returns: this is the child, and what the parent has to do is not the child's."""
    try:
        os.setpgid(0, 0)
        _limit_memory(memory)
        if account is not None:
            os.setgroups(os.getgrouplist(account.pw_name, account.pw_gid))
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
        said = {"answer": function()}
    except MemoryError:
        said = {"failure": "it takes more memory than a check may have"}
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        said = {"failure": f"{type(error).__name__}: {error}"}
    try:
        with os.fdopen(writer, "wb") as stream:
            stream.write(json.dumps(said).encode())
    finally:
        os._exit(0)


def _limit_memory(memory: int) -> None:
    with open("/proc/self/statm", encoding="ascii") as stream:
        now = int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = now + memory
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _listen(reader: int, deadline: float) -> Optional[bytes]:
    """Everything that the child writes until it closes the pipe; None: it had not at ``deadline``."""
    said = bytearray()
    while True:
        ready, _writable, _failed = select.select([reader], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            return None
        chunk = os.read(reader, 65536)
        if not chunk:
            return bytes(said)
        said += chunk


def _end(child: int) -> None:
    """A child that waits for a file system that does not answer cannot be ended by anybody; it is not waited for."""
    deadline = time.monotonic() + GRACE
    killed = False
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if not killed and time.monotonic() > deadline - GRACE + TICK:
            os.kill(child, signal.SIGKILL)
            killed = True
        if time.monotonic() > deadline:
            return
        time.sleep(TICK)
