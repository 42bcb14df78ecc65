# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who computes on the GPUs of a node, as nvidia-smi says it: figures that are measured beside them say nothing."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import bounded_command

QUERY = ["nvidia-smi", "--query-compute-apps=pid,used_memory,process_name", "--format=csv,noheader,nounits"]
SECONDS = 20.0
MOST = 8  # that are named


class Users(NamedTuple):
    """``found``: one phrase for each process. ``unknown``: why nobody could be asked, or None."""

    found: list
    unknown: Optional[str]

    @property
    def words(self) -> str:
        more = len(self.found) - MOST
        return "; ".join(self.found[:MOST]) + (f"; and {more} more" if more > 0 else "")


def users() -> Users:
    """Never raises."""
    ended = bounded_command.run(QUERY, SECONDS, {})
    if ended.code != 0:
        return Users([], f"nvidia-smi: {ended.failure}")
    return Users(parse(ended.out), None)


def parse(text: str) -> list:
    """One phrase for each process of ``QUERY``'s output, which has a line for each GPU of a process."""
    memory: dict = {}
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",", 2)]
        if len(parts) == 3 and parts[0].isdigit():
            used = int(parts[1]) if parts[1].isdigit() else 0
            memory[(int(parts[0]), parts[2])] = memory.get((int(parts[0]), parts[2]), 0) + used
    return [f"process {pid} ({name}) with {used} MiB" for (pid, name), used in sorted(memory.items())]
