# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a server of SGLang is ready. One round looks at it until something changes; the controller asks round after round and tells of each."""

from __future__ import annotations

import time
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    bounded_command,
    listening_sockets,
    sglang_diagnosis,
    sglang_http,
    sglang_log,
    sglang_phase,
    sglang_proof,
    sglang_unit,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

TICK = 1.0  # seconds between two looks
PHASE_LINES = 3000  # of the journal that are read for the phase
MEMORY_LIMIT = 5  # seconds for nvidia-smi
NVIDIA_SMI = ["nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits"]


class Followed(NamedTuple):
    """What the rounds before this one saw. ``invocation``: of the start that is waited for; ``phase``: what was told last."""

    invocation: str = ""
    restarts: int = 0
    phase: str = ""


class Look(NamedTuple):
    """One look at the server. ``over``: why waiting makes no sense any more, empty while it does."""

    unit: Optional[sglang_unit.Unit]
    phase: sglang_phase.Phase
    health: str
    ready: bool
    over: str
    remarks: list


class World:
    """What is outside of this process. The tests put others in its place."""

    run = staticmethod(bounded_command.run)
    ask = staticmethod(sglang_http.ask)
    listeners = staticmethod(listening_sockets.listeners)
    now = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


def look(server: sglang_http.Server, unit_name: str, followed: Followed, world=World) -> Look:
    """Ask systemd, the journal, the socket and the server, in this order: what ended needs no further question."""
    unit, phase, remarks = (
        None,
        sglang_phase.Phase(sglang_phase.STARTING, None, None, "no unit was named, so that the phase is not known"),
        [],
    )
    if unit_name:
        unit = sglang_unit.unit_of(unit_name, world.run)
        if unit.waits_for_its_turn:
            before = sglang_phase.Phase(sglang_phase.STARTING, None, None, "systemd has yet to start it")
            return Look(unit, before, "", False, "", remarks)
        over = _why_over(unit, followed)
        phase = _phase(unit, followed, remarks, world)
        if over:
            return Look(unit, phase, "", False, over, remarks)
        found = world.listeners(server.host, server.port)
        stranger = _stranger(server, unit, found, remarks)
        if stranger:
            return Look(unit, phase, "", False, stranger, remarks)
    else:
        remarks.append("without unit, an answer of another server on this port would count, too")
    answer = world.ask(server, "/health", sglang_http.HEALTH_LIMIT)
    if answer.status == 200:
        phase = phase._replace(name=sglang_phase.READY, sentence="the server answers")
    elif answer.status is not None and phase.name in (sglang_phase.STARTING, sglang_phase.READY):
        phase = phase._replace(
            name=sglang_phase.WARM_UP, sentence=f"the server listens and is not ready ({answer.words})"
        )
    over = ""
    if answer.status in (401, 403, 404):
        over = f"{server.url}/health: {answer.words}: this is no server of SGLang, or something stands in front of it."
    return Look(unit, phase, answer.words, answer.status == 200, over, remarks)


def one_round(server: sglang_http.Server, unit_name: str, followed: Followed, seconds: float, world=World) -> Look:
    """Look until the phase is another one than was told, the wait is over, or ``seconds`` have passed."""
    until = world.now() + seconds
    while True:
        seen = look(server, unit_name, followed, world)
        if seen.ready or seen.over or told(seen.phase) != followed.phase or world.now() >= until:
            return seen
        world.sleep(min(TICK, max(0.0, until - world.now())))


def told(phase: sglang_phase.Phase) -> str:
    """What a phase looks like for a person, and what makes it another one."""
    return f"{phase.name}: {phase.sentence}"


def diagnosis(unit: Optional[sglang_unit.Unit], invocation: str, causes: tuple, world=World) -> list:
    """Findings from the journal of the start that was waited for; none where it cannot be read."""
    if unit is None:
        return []
    try:
        text, _cut = sglang_unit.journal(unit, invocation, ask=world.run)
    except TuningError:
        return []
    # While it still runs, or was started anew meanwhile, systemd tells no status of this start.
    status = unit.exit_status if unit.invocation == invocation else None
    return sglang_diagnosis.diagnose(sglang_unit.kernel_words(unit, world.run) + text, status, causes)


def gpu_memory(world=World) -> list:
    """List of {used_mib, total_mib}, one for each GPU; empty where nvidia-smi has no answer."""
    found = []
    for line in world.run(NVIDIA_SMI, MEMORY_LIMIT, {}).out.splitlines():
        used, _comma, total = line.partition(",")
        if used.strip().isdigit() and total.strip().isdigit():
            found.append({"used_mib": int(used), "total_mib": int(total)})
    return found


def prove(server: sglang_http.Server, wanted: sglang_proof.Wanted, limit: float) -> dict:
    return sglang_proof.prove(server, wanted, limit)


def _why_over(unit: sglang_unit.Unit, followed: Followed) -> str:
    if followed.invocation and unit.invocation and unit.invocation != followed.invocation:
        return f"{unit.name} ended and was started anew while it was waited for."
    if unit.restarts > followed.restarts and followed.invocation:
        return f"{unit.name} ended and systemd started it again."
    if unit.failed:
        return f"{unit.name} is {unit.words}."
    return ""


def _phase(unit: sglang_unit.Unit, followed: Followed, remarks: list, world) -> sglang_phase.Phase:
    try:
        text, _cut = sglang_unit.journal(unit, followed.invocation or unit.invocation, lines=PHASE_LINES, ask=world.run)
    except TuningError as error:
        remarks.append(f"the phase is not known: {error}")
        text = ""
    return sglang_phase.phase(sglang_log.redacted(text))


def _stranger(server: sglang_http.Server, unit: sglang_unit.Unit, found: list, remarks: list) -> str:
    """Why the port is somebody else's; empty where it is not. Two may listen side by side (SO_REUSEPORT): then one of them is."""
    others = [listener for listener in found if not listening_sockets.belongs_to(listener, unit.control_group)]
    unknown = [listener for listener in others if listener.pid is None]
    if unknown:
        remarks.append(f"whether port {server.port} is {unit.name}'s could not be found out: become root")
    foreign = [listener for listener in others if listener.pid is not None]
    if not foreign:
        return ""
    return (
        f"port {server.port} is not {unit.name}'s: {foreign[0].words} listens on {foreign[0].address}. Stop it, or give the instance another port; "
        "SGLang would find out only after it has loaded everything."
    )
