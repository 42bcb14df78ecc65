# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work of minutes that says meanwhile how far it is: a module starts it, and further short calls of the module fetch its lines and its result.

The work runs in a process of its own on the node, with a private folder for its lines and its result. Who fetches the result removes the folder.
Nobody does when the controller is gone: then work that may be abandoned is stopped after ``LEASE`` seconds, other work comes to its own end,
and the process removes the folder itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from typing import Callable, NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

# Options of a module; the fragment long_run documents them.
OPTIONS = {
    "progress": {"type": "bool", "default": False},
    "run": {"type": "str"},
    "seen": {"type": "int", "default": 0},
}
PREFIX = "gpu_node_tuning-run-"
LINES, RESULT, PROCESS, HEARD = "lines", "result.json", "process", "heard"
LEASE = 60.0  # seconds without a question, after which nobody will ask any more
ROUND = 10.0  # seconds that one question waits for news
POLL = 0.1


class Abandoned(BaseException):
    """Nobody asks any more. Not an Exception, so that it unwinds everything."""


class News(NamedTuple):
    """``result`` is None while the work goes on. ``seen``: characters of the lines that were fetched so far."""

    lines: list
    seen: int
    result: Optional[dict]


def carry_out(module, work: Callable[[str], dict], abandon: bool) -> dict:
    """What ``work(path)`` returns; ``path`` is a file for its lines, empty where nobody wants any.

    Where the module was asked for progress, the work begins here and this is the answer to the first question. ``abandon``: whether it may be
    stopped at any point when nobody asks any more.
    """
    if not module.params["progress"]:
        return work("")
    return answer(module, start(work, abandon), 0)


def answer(module, folder: str, seen: int) -> dict:
    """A result of the module: the next lines as ``said``, and ``running`` as long as there is more to come. Work that failed fails the module."""
    said, seen, result = news(folder, seen)
    if result is None:
        return {"changed": False, "said": said, "running": {"run": folder, "seen": seen}}
    if "error" in result:
        module.fail_json(msg=result["error"], said=said)
    return dict(result["value"], said=said)


def follow(ask: Callable[[dict], dict], show: Callable[[list], None]) -> dict:
    """On the controller: the result of a module, ``ask(options)`` being one call of it, with what is said on the way shown.

    A worker of ansible-playbook outlives a playbook that is killed. It must not keep the work alive then.
    """
    playbook = os.getppid()
    result = ask({"progress": True})
    while "running" in result:
        if os.getppid() != playbook:
            return {"failed": True, "msg": "the playbook has ended; the run on the node ends too"}
        show(result["said"])
        result = ask(result["running"])
    show(result.pop("said", []))
    return result


def start(work: Callable[[str], dict], abandon: bool) -> str:
    """Begin the work, and return the folder to ask."""
    folder = tempfile.mkdtemp(prefix=PREFIX)
    for name in (LINES, HEARD):
        _write(os.path.join(folder, name), "")
    process = os.fork()
    if process:
        _write(os.path.join(folder, PROCESS), str(process))
        return folder
    try:
        _detach()
        _run(work, folder, abandon)
    finally:
        os._exit(0)


def news(folder: str, seen: int, patience: float = ROUND) -> News:
    """What was said since ``seen``: returns with the first of it, with the result, or after ``patience`` seconds. The result ends the folder."""
    _refuse_foreign(folder)
    deadline = time.monotonic() + patience
    while True:
        with contextlib.suppress(OSError):  # it gave up in this very moment
            os.utime(os.path.join(folder, HEARD))
        living = _lives(folder)  # before the result is looked for: who has just ended has written it
        result = _result(folder)
        text = _text(os.path.join(folder, LINES))
        whole = text[: text.rfind("\n") + 1]
        if result is None and not living:
            result = {
                "error": "the run on the node ended without a word; somebody or the kernel (out of memory) killed it"
            }
        if result is not None:
            shutil.rmtree(folder, ignore_errors=True)
            return News(text[seen:].splitlines(), len(text), result)
        if len(whole) > seen or time.monotonic() > deadline:
            return News(whole[seen:].splitlines(), len(whole), None)
        time.sleep(POLL)


def say_into(path: str) -> Callable[[str], None]:
    """A function that appends a line to the file; without a path it does nothing."""

    def say(line: str) -> None:
        if not path:
            return
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(line + "\n")

    return say


def _run(work: Callable[[str], dict], folder: str, abandon: bool) -> None:
    def look(_number, _frame) -> None:
        with contextlib.suppress(OSError):  # the folder is gone, too, when nobody is interested
            if time.time() - os.stat(os.path.join(folder, HEARD)).st_mtime <= LEASE:
                return
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise Abandoned

    try:
        if abandon:
            signal.signal(signal.SIGALRM, look)
            signal.setitimer(signal.ITIMER_REAL, 1, 1)
        result = _outcome(work, os.path.join(folder, LINES))
        signal.setitimer(signal.ITIMER_REAL, 0)
        new = os.path.join(folder, RESULT + ".new")
        _write(new, json.dumps(result))
        os.replace(new, os.path.join(folder, RESULT))
        deadline = time.monotonic() + LEASE
        while os.path.exists(folder) and time.monotonic() < deadline:
            time.sleep(POLL)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _outcome(work: Callable[[str], dict], path: str) -> dict:
    try:
        return {"value": work(path)}
    except TuningError as error:
        return {"error": str(error)}
    except Exception as error:  # noqa: BLE001 - nobody else would hear of it
        return {"error": f"{type(error).__name__}: {error}"}


def _detach() -> None:
    """A connection ends when nobody holds its pipes any more, and this process must not hold them."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.closerange(3, 1024)
    sys.stdin = sys.stdout = sys.stderr = open(os.devnull, "r+", encoding="utf-8")  # noqa: SIM115 - for the life of the process


def _refuse_foreign(folder: str) -> None:
    """Only a folder that this user's own run has made is read, and removed."""
    with contextlib.suppress(OSError):
        found = os.lstat(folder)
        if (
            os.path.basename(folder).startswith(PREFIX)
            and stat.S_ISDIR(found.st_mode)
            and found.st_uid == os.geteuid()
            and not found.st_mode & 0o077
        ):
            return
    raise TuningError(
        f"run {folder!r}: no such run on this node; legal: what the same task has started less than {LEASE:g} s ago."
    )


def _lives(folder: str) -> bool:
    stat = _text(f"/proc/{int(_text(os.path.join(folder, PROCESS)) or 0)}/stat")
    return bool(stat) and stat.rpartition(")")[2].split()[0] != "Z"


def _result(folder: str) -> Optional[dict]:
    text = _text(os.path.join(folder, RESULT))
    return json.loads(text) if text else None


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
