# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove and measure the installed all-reduce with its own command line, and put the table where an engine finds it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from typing import NamedTuple

from ansible_collections.gpu_node.tuning.plugins.module_utils import bounded_command
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_environment import (
    PACKAGE,
    Environment,
    delete,
    read_object,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.allreduce_question import LADDER
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

TABLE = "table.json"
UNFINISHED = "the comparison with SGLang's own pcie_ipc has not ended"
SLACK = 30  # seconds that the command line gets beyond its own limit, to say what was late


class Wanted(NamedTuple):
    """What shall be true of the table on the node."""

    rows: list
    hidden: int
    margin: float
    transport: str
    enable: bool
    pcie_ipc: bool = True  # measure SGLang's own kernel too, where it is installed
    world: int = 0  # all GPUs that are visible
    gpu: str = ""  # model of the GPUs in gpu_facts' words; torch may have others
    fallback: bool = False  # through the host's memory where stores do not arrive
    remark: str = ""  # why the way is not the one that was asked for


class Proof:
    """``environment`` is the engine's variables, ``timeout`` (seconds) bounds each of the two runs, which append to the file ``progress``."""

    def __init__(self, place: Environment, environment: dict, timeout: int, progress: str = ""):
        self._place = place
        self._environment = environment
        self._timeout = timeout
        self._progress = progress
        self.path = os.path.join(place.folder, TABLE)

    def table(self):
        """The table on the node; an empty one where something else stands there, None for nothing."""
        if not os.path.lexists(self.path):
            return None
        return read_object(self.path) or {}

    def refuse_unwritable(self) -> None:
        """Before minutes go into figures that cannot be kept."""
        folder = os.path.dirname(self.path)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise _unwritable(folder)

    def check(self, wanted: Wanted) -> Wanted:
        """What was proved: ``wanted``, or the way through the host's memory where stores do not arrive and that is allowed.

        Raises TuningError where a sum is wrong or a rank does not answer; then no table stays that an engine would trust.
        """
        transport = wanted.transport
        answer = self._ask(["check"], wanted)
        if answer.get("error") and answer.get("stores_arrive") is False and wanted.fallback and transport == "peer":
            remark = f"peer memory cannot be used: {answer['error']}. Data goes through the host's memory"
            return self.check(wanted._replace(transport="host_staged", remark=remark))
        if answer.get("error"):
            self.forget()
            raise TuningError(
                f"transport {transport}: not proved on this node: {answer['error']}. It is installed and off. "
                f"Legal: sums that are right. {_way_on(transport)}"
            )
        return wanted

    def tune(self, wanted: Wanted) -> dict:
        """The table that was measured, written. Raises TuningError where there is no figure."""
        rows = sorted({*wanted.rows, *LADDER})
        options = [
            "--rows",
            *rows,
            "--required-rows",
            *wanted.rows,
            "--hidden",
            wanted.hidden,
            "--margin",
            wanted.margin,
        ]
        table = self._ask(["tune", *options], wanted)
        if table.get("error") or not table.get("rows"):
            self.forget()
            raise TuningError(
                f"transport {wanted.transport}: could not be measured: {table.get('error') or 'no figures'}. It is installed and off. "
                f"Legal: GPUs that nothing else uses. Stop the engine while this runs."
            )
        notes = {"remark": wanted.remark} if wanted.remark else {}
        table = dict(table, model=wanted.gpu, **notes)
        if wanted.pcie_ipc:
            # Whoever starts an engine, or ends this, before the verdict is there must not get the kernel switched on.
            self._write(dict(table, enabled=False, reason=UNFINISHED))
            table["pcie_ipc"] = self._rival(wanted)
        return self._write(switched(judged(table), wanted.enable))

    def _rival(self, wanted: Wanted) -> dict:
        """SGLang's own kernel beside this one, in a run of its own: it may wait for ever, and that must not cost the table."""
        answer = self._ask(["compare", "--table", self.path], wanted)
        return {"rows": answer.get("rows") or [], "reason": answer.get("error")}

    def switch(self, table: dict, enable: bool) -> dict:
        """The same figures, on or off."""
        return self._write(switched(table, enable))

    def forget(self) -> None:
        """Raises TuningError where the table stays: an engine would trust it."""
        delete([self.path] if os.path.lexists(self.path) else [])
        if os.path.lexists(self.path):
            raise _unwritable(self.path)

    def _ask(self, arguments: list, wanted: Wanted) -> dict:
        options = ["--json", "--timeout", self._timeout]
        options += ["--transport", wanted.transport] if arguments[0] != "compare" else []
        options += ["--world", wanted.world] if wanted.world else []
        options += ["--progress", self._progress] if self._progress else []
        argv = [self._place.interpreter, "-m", PACKAGE, *arguments, *options]
        home = os.path.expanduser("~")
        ended = bounded_command.run(
            [str(word) for word in argv], self._timeout + SLACK, {"HOME": home, **self._environment}
        )
        try:
            answer = json.loads(_last_object(ended.out))
        except ValueError:
            return {"error": ended.failure}
        return answer if "error" in answer or "rows" in answer else {"error": ended.failure}

    def _write(self, table: dict) -> dict:
        table = signed(table)
        if os.path.isdir(self.path):
            self.forget()
        new = ""
        try:
            descriptor, new = tempfile.mkstemp(prefix=TABLE, suffix=".new", dir=os.path.dirname(self.path))
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                json.dump(table, stream, indent=2)
                stream.write("\n")
            os.chmod(new, 0o644)
            os.replace(new, self.path)
        except OSError as error:
            raise _unwritable(self.path, f": {error.strerror}") from error
        finally:
            delete([new])  # there only where it did not become the table
        return table


def _last_object(text: str) -> str:
    """From the last line that begins an object: a sitecustomize may have printed before."""
    begins = [found.start() for found in re.finditer(r"^\{", text, re.MULTILINE)]
    return text[begins[-1] :] if begins else ""


def _unwritable(path: str, why: str = "") -> TuningError:
    return TuningError(
        f"{path}: cannot be written{why}; legal: a folder that this user may write. Add become: true, or make room."
    )


def signed(table: dict) -> dict:
    """With a digest of all the rest, by which a table is known that was damaged, or changed by hand."""
    rest = {name: value for name, value in table.items() if name != "digest"}
    return dict(rest, digest=hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()[:16])


def judged(table: dict) -> dict:
    """The verdict of ``table`` with SGLang's own kernel considered: who is slower than that by more than the margin has not won."""
    lost = [
        f"{row['bytes']} bytes: {row['us']:.2f} us, {(row['us'] / row['pcie_ipc_us'] - 1) * 100:.0f} % slower than SGLang's own pcie_ipc "
        f"with {row['pcie_ipc_us']:.2f} us"
        for row in table.get("pcie_ipc", {}).get("rows", [])
        if row["us"] > row["pcie_ipc_us"] * (1 + table["margin"])
    ]
    if not lost or not table["enabled"]:
        return table
    return dict(table, enabled=False, reason="; ".join(lost) + ". Profile pcie_ipc is the faster one here")


def switched(table: dict, enable: bool) -> dict:
    """Enabled only where it won and is wanted. The verdict of the measurement stays in ``won``, the words for it in ``verdict``."""
    won = table.get("won", table["enabled"])
    verdict = table.get("verdict", table["reason"])
    reason = verdict if enable else "custom_allreduce_enable is false"
    return dict(table, won=won, verdict=verdict, enabled=won and enable, reason=reason)


def reasons_to_measure(table, build: str, wanted: Wanted) -> list:
    """One phrase for each thing that the table on the node lacks; empty where it answers what is asked."""
    if table is None:
        return ["nothing was measured yet"]
    if table != signed(table):
        return ["the table is damaged, or not the one that was written here"]
    if table.get("reason") == UNFINISHED:
        return [UNFINISHED]
    fell_back = wanted.fallback and wanted.transport == "peer" and table.get("remark")
    asked = {
        "build": build,
        "transport": table.get("transport") if fell_back else wanted.transport,
        "hidden": wanted.hidden,
        "margin": wanted.margin,
        "required_rows": sorted(set(wanted.rows)),
    }
    if wanted.world:
        asked["world"] = wanted.world
    if wanted.gpu:
        asked["model"] = wanted.gpu
    reasons = [
        f"{name}: was {table.get(name)}, is {value}" for name, value in asked.items() if table.get(name) != value
    ]
    if wanted.pcie_ipc != ("pcie_ipc" in table):
        reasons.append(
            f"SGLang's own pcie_ipc was {'not ' * wanted.pcie_ipc}looked at, and shall {'not ' * (not wanted.pcie_ipc)}be"
        )
    return reasons


def _way_on(transport: str) -> str:
    if transport == "peer":
        return "Set custom_allreduce_transport: host_staged, or leave custom_allreduce out for this node."
    return "Leave custom_allreduce out for this node."
