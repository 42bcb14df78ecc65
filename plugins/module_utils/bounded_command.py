# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command that may hang, with the environment and the directory that it is given, and keep what it says."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import NamedTuple, Optional

GRACE = 2  # seconds that a killed command gets to end
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Ended(NamedTuple):
    """``code`` is None for a command that was stopped because its time was over, or that could not be started."""

    code: Optional[int]
    out: str
    err: str
    why: str

    @property
    def last_words(self) -> str:
        """The line that most likely tells the reason, for a message."""
        lines = [line.strip() for line in (self.err + "\n" + self.out).splitlines() if line.strip()]
        told = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()]
        return (told or lines or ["nothing"])[0 if told else -1][:300]

    @property
    def failure(self) -> str:
        return self.why or f"exit status {self.code}; it said: {self.last_words}"


def run(argv: list, timeout: float, environment: dict, cwd: str = "/") -> Ended:
    """At most ``timeout`` seconds; then the command is ended with everything that it started. Never raises."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={"PATH": PATH, "LC_ALL": "C.UTF-8", **environment},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Ended(None, "", "", f"cannot be started: {getattr(error, 'strerror', None) or error}")
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill_group(process, GRACE)
        return Ended(None, "", "", f"no end within {timeout:g} s; it was stopped")
    except BaseException:  # whoever interrupts this wants the command to end, too
        kill_group(process, GRACE)
        raise
    return Ended(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), "")


def kill_group(process: subprocess.Popen, grace: float) -> None:
    """End a process with all that it started, wait at most ``grace`` seconds for it, and close its two pipes."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it ended by itself in this very moment
    try:
        process.wait(timeout=grace)
    except subprocess.TimeoutExpired:
        pass  # it waits inside the driver, where no signal reaches it; the kernel ends it when the driver lets go
    for stream in (process.stdout, process.stderr):
        stream.close()
