# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on the GPUs now: free memory, and the processes that hold some. nvidia-smi names them, and /proc those that it does not."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import SourceMissing, Sources, run_bounded
from ansible_collections.gpu_node.tuning.plugins.module_utils.process_identity import identify, in_words, open_files

MEMORY = "--query-gpu=index,uuid,memory.total,memory.used,memory.free --format=csv,noheader,nounits"
PROCESSES = "--query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader,nounits"
DEVICE = re.compile(r"/dev/nvidia([0-9]{1,3})\Z")
# MiB in use on a GPU that nobody holds: the driver's own share is below.
IDLE = 1024


class Gpu(NamedTuple):
    """``total``, ``used``, ``free``: MiB, None where the driver does not say."""

    index: int
    uuid: str
    total: Optional[int]
    used: Optional[int]
    free: Optional[int]


class Holder(NamedTuple):
    """``mib``: None where it is not known; ``process``: as process_identity.identify() has it."""

    gpu: int
    mib: Optional[int]
    process: dict

    def __str__(self) -> str:
        much = "an unknown amount" if self.mib is None else f"{self.mib} MiB"
        return f"GPU {self.gpu}: {much} held by {in_words(self.process)}"


def gpus(sources: Sources, timeout: float) -> list:
    """List of Gpu. Raises SourceMissing where nvidia-smi says nothing that can be read."""
    found = []
    for fields in _rows(sources, MEMORY, timeout, 5):
        if not fields[0].isdecimal():
            raise SourceMissing(f"nvidia-smi {MEMORY.split()[0]}: no table, but {', '.join(fields)[:80]!r}")
        found.append(Gpu(int(fields[0]), fields[1], *(_number(field) for field in fields[2:])))
    return found


def holders(sources: Sources, found: list, timeout: float, proc: str = "/proc") -> list:
    """List of Holder on the GPUs ``found`` (as gpus() gives them). Raises SourceMissing.

    In a container nvidia-smi may name no process, or pids of another namespace. Then a GPU in use is held by those who have its device open.
    """
    index_of = {gpu.uuid: gpu.index for gpu in found}
    opened = [(pid, target) for pid, target in open_files(proc) if target.startswith("/dev/nvidia")]
    listed = [
        Holder(index_of[fields[0]], _number(fields[2]), _identified(int(fields[1]), opened, proc))
        for fields in _rows(sources, PROCESSES, timeout, 3)
        if fields[0] in index_of and fields[1].isdecimal()
    ]
    in_use = {gpu.index for gpu in found if gpu.used is not None and gpu.used >= IDLE}
    unnamed = in_use - {holder.gpu for holder in listed if holder.process["command"]}
    by_device = {(int(match.group(1)), pid) for pid, target in opened for match in [DEVICE.match(target)] if match}
    guessed = [Holder(gpu, None, identify(pid, proc)) for gpu, pid in sorted(by_device) if gpu in unnamed]
    replaced = {holder.gpu for holder in guessed}
    return [holder for holder in listed if holder.gpu not in replaced] + guessed


def _identified(pid: int, opened: list, proc: str) -> dict:
    """A process that has no GPU open is another one, which has the same pid in this namespace."""
    if opened and pid not in {opener for opener, _target in opened}:
        return {"pid": pid, "command": "", "unit": None}
    return identify(pid, proc)


def _rows(sources: Sources, question: str, timeout: float, columns: int) -> list:
    answer = run_bounded([sources.command("nvidia-smi"), *question.split()], timeout).text
    rows = [[field.strip() for field in line.split(",")] for line in answer.splitlines() if line.strip()]
    if any(len(row) != columns for row in rows) and rows[0][0].lower().startswith("no "):
        return []  # "No devices were found", "No running processes found"
    for row in rows:
        if len(row) != columns:
            raise SourceMissing(f"nvidia-smi {question.split()[0]}: no table, but {', '.join(row)[:80]!r}")
    return rows


def _number(field: str) -> Optional[int]:
    return int(field) if field.isdecimal() and field.isascii() else None
