# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""System calls that write: list those of a program, kill it at one of them before it takes effect, or make one fail.

All through strace, which follows the program itself and not the interpreters that it starts: what these write is
bytecode, and a kill there is a kill of the program while it waits for them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import traceback
from collections.abc import Callable
from typing import NamedTuple, Optional

# The question mark: not every architecture has every call.
CALLS = (  # noqa: SIM905 - sixty words are easier to read without their quotes
    "openat openat2 open creat write pwrite64 pwritev pwritev2 writev rename renameat renameat2 unlink "
    "unlinkat mkdir mkdirat rmdir symlink symlinkat link linkat mknod mknodat chmod fchmod fchmodat fchmodat2 "
    "chown fchown lchown fchownat fsync fdatasync sync syncfs sync_file_range truncate ftruncate fallocate "
    "setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr utime utimes utimensat futimesat "
    "copy_file_range sendfile splice "
).split()
OPENS = ("openat", "openat2", "open")
WRITING_OPEN = re.compile(r"\bO_(?:CREAT|TRUNC|WRONLY|RDWR)\b")
LINE = re.compile(r"^(\w+)\((.*?)\)?\s+= (-?\d+|\?)(.*)$")
UNFINISHED = re.compile(r"^(\w+)\((.*) <unfinished \.\.\.>$")
# A temporary file has a random name; a pipe and a file descriptor have random numbers.
RANDOM = (
    (re.compile(r"(\.gpu_node\.tuning\.)\w+"), r"\1*"),
    (re.compile(r"\[\d+\]"), "[*]"),
    (re.compile(r", \d+"), ", *"),
)


class Call(NamedTuple):
    """``nth``: counted from 1 among the calls of that name in the whole run, as strace counts. ``error``: errno's name."""

    name: str
    arguments: str
    nth: int
    error: Optional[str]

    @property
    def writes(self) -> bool:
        if self.name in OPENS:
            return bool(WRITING_OPEN.search(self.arguments)) and '"/dev/null"' not in self.arguments
        return True

    @property
    def paths(self) -> list:
        """What the call names: strings, and the paths of its file descriptors."""
        return re.findall(r'"([^"]*)"', self.arguments) or re.findall(r"<([^>]*)>", self.arguments)

    @property
    def alike(self) -> tuple:
        """The same in every run."""
        arguments = self.arguments
        for pattern, replacement in RANDOM:
            arguments = pattern.sub(replacement, arguments)
        return self.name, arguments


class Run(NamedTuple):
    status: int
    out: str
    err: str
    calls: list

    @property
    def writing(self) -> list:
        return [call for call in self.calls if call.writes]


def needs() -> Optional[str]:
    """What is missing here, None when all is there."""
    if not shutil.which("strace"):
        return "strace is not installed"
    try:
        trace(dict, os.devnull)
    except RuntimeError as error:
        return f"strace may not trace here: {error}"
    return None


def trace(program: Callable[[], dict], log: str, inject: Optional[str] = None) -> Run:
    """Run ``program`` in a process of its own under strace. ``log``: file for its lines. ``inject``: strace's own words.

    It is a fork of this one, which has everything imported: only the calls of the program itself are seen.
    """
    start, answer, errors = os.pipe(), os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _child(program, start, answer, errors)
    for descriptor in (start[0], answer[1], errors[1]):
        os.close(descriptor)
    strace = ["strace", "-y", "-s", "0", "-o", log, "-e", "signal=none", "-p", str(child)]
    strace += ["-e", "trace=" + ",".join("?" + name for name in CALLS)]
    if inject:
        strace += ["-e", "inject=" + inject]
    with subprocess.Popen(strace, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as tracer:
        said = tracer.stderr.readline()
        if "attached" not in said:
            os.kill(child, signal.SIGKILL)
            raise RuntimeError(f"strace: {said}{tracer.stderr.read()}")
        os.close(start[1])  # that is what the child waits for
        with open(answer[0], encoding="utf-8") as stream, open(errors[0], encoding="utf-8") as complaints:
            out, err = stream.read(), complaints.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with open(log, encoding="utf-8", errors="replace") as stream:
        return Run(status, out, err, parse(stream.read().splitlines()))


def _child(program: Callable[[], dict], start: tuple, answer: tuple, errors: tuple) -> None:
    status = 3
    try:
        os.dup2(errors[1], 2)
        for descriptor in (start[1], answer[0], errors[0], errors[1]):
            os.close(descriptor)
        os.read(start[0], 1)
        said = program()
        os.writev(answer[1], [json.dumps(said).encode()])  # not write, which may be the call that is made to fail
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the parent must hear of it, and nothing of the parent may run here
        os.writev(2, [traceback.format_exc().encode()])
    finally:
        os._exit(status)


def parse(lines: list) -> list:
    calls, counted = [], {}
    for line in lines:
        found = LINE.match(line) or UNFINISHED.match(line)
        if not found:
            if line.startswith(("+++", "---")):
                continue
            raise ValueError(f"a line of strace that is not understood: {line}")
        name, arguments = found.group(1), found.group(2)
        counted[name] = counted.get(name, 0) + 1
        error = re.match(r" (E[A-Z0-9]+)", found.group(4)) if found.re is LINE else None
        calls.append(Call(name, arguments, counted[name], error.group(1) if error else None))
    return calls


def kill_at(call: Call, program: Callable[[], dict], log: str) -> Run:
    """Run ``program`` and end it with SIGKILL where it is about to make ``call``. Raises AssertionError when it met another one."""
    run = trace(program, log, f"{call.name}:signal=KILL:when={call.nth}")
    assert run.status == -signal.SIGKILL, f"not killed at {call}: {run}"
    last = run.calls[-1]
    assert last.alike == call.alike, f"the calls of two runs differ: killed at {last} instead of {call}"
    took_effect = _took_effect(last)
    assert not took_effect, f"killed too late: {took_effect}"
    return run


def fail_at(call: Call, error: str, program: Callable[[], dict], log: str, forever: bool = False) -> Run:
    """Run ``program`` with ``call`` failing with ``error``; with ``forever`` all later calls of that name as well."""
    when = f"{call.nth}+" if forever else f"{call.nth}"
    run = trace(program, log, f"{call.name}:error={error}:when={when}")
    met = [found for found in run.calls if found.name == call.name and found.nth == call.nth]
    assert met, f"{call} was never made: {run}"
    assert met[0].alike == call.alike, f"the calls of two runs differ: {met[0]} failed instead of {call}"
    assert met[0].error == error, f"not failed: {met[0]}"
    return run


def _took_effect(call: Call) -> Optional[str]:
    """Proof that strace ended the program before the call, where the call leaves something to see."""
    paths = call.paths
    if (
        call.name in ("mkdir", "mkdirat")
        and "EEXIST" not in call.arguments
        and os.path.isdir(paths[-1])
        and not os.listdir(paths[-1])
    ):
        return f"{paths[-1]} was made"
    if call.name in ("rename", "renameat", "renameat2") and not os.path.lexists(paths[0]):
        return f"{paths[0]} was renamed"
    if call.name in OPENS and "O_EXCL" in call.arguments and os.path.lexists(paths[-1]):
        return f"{paths[-1]} was made"
    return None
