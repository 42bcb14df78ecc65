# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd says about the unit of an instance: its state, how it ended, and what it wrote to the journal."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import bounded_command
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

LIMIT = 20  # seconds for one question
LINES = 20000  # read from the end of a journal
_NAME = re.compile(r"[A-Za-z0-9:_.\\-]+(?:@[A-Za-z0-9:_.\\-]*)?\.service\Z")
_PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "NRestarts",
    "ExecMainCode",
    "ExecMainStatus",
    "ExecMainStartTimestamp",
    "MainPID",
    "ControlGroup",
    "InvocationID",
    "Job",
)
_XID = re.compile(r"NVRM: Xid ")
_EXITED = "1"  # CLD_EXITED; the others are signals


class Unit(NamedTuple):
    """``exit_status``: of the main process, 128 and more for a signal; None while it runs, and before its first start."""

    name: str
    active: str
    sub: str
    result: str
    restarts: int
    exit_status: Optional[int]
    main_pid: int
    control_group: str
    invocation: str
    started: str
    job: int = 0

    @property
    def waits_for_its_turn(self) -> bool:
        """Whether systemd has yet to carry out what it was told: what is seen is the state before that."""
        return self.job > 0 and self.active in ("active", "inactive", "failed", "deactivating")

    @property
    def failed(self) -> bool:
        """Whether this start is over: it ended, is about to be tried again, or is being stopped."""
        if self.sub.startswith("auto-restart"):
            return True
        return self.active in ("failed", "inactive", "deactivating") and not self.waits_for_its_turn

    @property
    def words(self) -> str:
        ended = f", exit status {self.exit_status}" if self.exit_status is not None else ""
        result = f", result {self.result}" if self.result not in ("", "success") else ""
        return f"{self.active} ({self.sub}{ended}{result})"


def unit_of(name: str, ask=bounded_command.run) -> Unit:
    """Raises TuningError where systemd does not answer or has no such unit."""
    name = checked(name)
    argv = ["systemctl", "show", *(f"--property={known}" for known in _PROPERTIES), "--", name]
    ended = ask(argv, LIMIT, {})
    if ended.code != 0:
        raise TuningError(
            f"unit {name}: systemctl show: {ended.failure}. Without systemd: ask for host and port alone."
        )
    told = dict(line.partition("=")[::2] for line in ended.out.splitlines() if "=" in line)
    if told.get("LoadState") == "not-found":
        raise TuningError(
            f"unit {name}: systemd has none of this name. `systemctl list-units 'sglang@*'` lists the instances."
        )
    if told.get("LoadState") not in ("loaded", None):
        raise TuningError(
            f"unit {name}: systemd cannot load it ({told['LoadState']}). `systemctl status {name}` says why."
        )
    status = None
    if _number(told.get("ExecMainCode")) and _number(told.get("MainPID")) == 0:
        status = _number(told.get("ExecMainStatus")) + (0 if told["ExecMainCode"] == _EXITED else 128)
    return Unit(
        name,
        told.get("ActiveState", ""),
        told.get("SubState", ""),
        told.get("Result", ""),
        _number(told.get("NRestarts")),
        status,
        _number(told.get("MainPID")),
        told.get("ControlGroup", ""),
        told.get("InvocationID", ""),
        told.get("ExecMainStartTimestamp", ""),
        _number(told.get("Job")),
    )


def checked(name: str) -> str:
    """``name``, with .service where it has no suffix. Raises TuningError for what no service of systemd is called."""
    full = name if name.endswith(".service") else f"{name}.service"
    if name.startswith("-") or not _NAME.match(full):
        raise TuningError(f"unit: {name!r}; legal: the name of a service, such as sglang@kimi.service.")
    return full


def journal(unit: Unit, invocation: str = "", since: str = "", lines: int = LINES, ask=bounded_command.run) -> tuple:
    """(text, whether its beginning was left out). Without ``invocation``, all that the unit wrote (``since``: as journalctl takes it).

    Raises TuningError where the journal cannot be read, or has nothing of the unit.
    """
    of = (
        [f"_SYSTEMD_INVOCATION_ID={invocation}", "+", f"INVOCATION_ID={invocation}"]
        if invocation
        else [f"--unit={unit.name}"]
    )
    argv = ["journalctl", "--no-pager", "--quiet", "--output=cat", f"--lines={lines}"]
    argv += [f"--since={since}"] if since else []
    ended = ask([*argv, *of], LIMIT, {})
    if ended.code != 0:
        if "timestamp" in ended.failure:
            raise TuningError(
                f"since: {since!r}; legal: what `journalctl --since` takes, such as today, -2h or '2026-11-30 10:00'."
            )
        raise TuningError(
            f"unit {unit.name}: its journal cannot be read: {ended.failure}. Become root, or name a saved log with path."
        )
    if not ended.out.strip() and not invocation:
        raise TuningError(
            f"unit {unit.name}: the journal has nothing of it{f' since {since}' if since else ''}. Become root, or a member of group systemd-journal; "
            "a unit that was never started has none, and one with StandardOutput= has it in a file: name that with path."
        )
    return ended.out, ended.out.count("\n") >= lines


def lines_of_start(unit: Unit, pattern: str, ask=bounded_command.run) -> str:
    """Lines of this start that match, and no others: the journal of a server that has run for weeks is gigabytes. Raises TuningError."""
    argv = ["journalctl", "--no-pager", "--quiet", "--output=cat", f"--grep={pattern}"]
    ended = ask([*argv, f"_SYSTEMD_INVOCATION_ID={unit.invocation}"], LIMIT, {})
    if ended.code != 0 and not (ended.code == 1 and not ended.err.strip()):  # 1: no line matches
        raise TuningError(f"unit {unit.name}: its journal cannot be read: {ended.failure}. Become root.")
    return ended.out


def kernel_words(unit: Unit, ask=bounded_command.run) -> str:
    """Faults of GPUs that the kernel reported since the unit's start. To be put in front of its log: they are never the consequence."""
    if not unit.started or unit.started == "n/a":
        return ""
    argv = ["journalctl", "--no-pager", "--quiet", "--dmesg", "--output=cat", "--lines=5000", f"--since={unit.started}"]
    return "".join(line + "\n" for line in ask(argv, LIMIT, {}).out.splitlines() if _XID.search(line))


def _number(text: Optional[str]) -> int:
    return int(text) if text and text.isdigit() else 0
