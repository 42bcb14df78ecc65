# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The third layer of the read-back for a running instance: what NCCL, and the custom all-reduce, said in every rank of it.

What nobody said is unproved and told as such. It is never taken for right.
"""

from __future__ import annotations

import glob
import os
import re
from typing import NamedTuple

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_log import values_in_log

MOST_LOGS = 256
# What read_back() needs of a journal: all that the all-reduce says, and the line that shows that the beginning of the start is still there.
SAID_AT_START = "pcie_allreduce: |server_args="
_ALLREDUCE_ON = re.compile(r"pcie_allreduce: rank (\d+) of (\d+) on, ")
_ALLREDUCE_OFF = re.compile(r"pcie_allreduce: (?:rank \d+ of \d+ )?off, because (.*)")


class ReadBack(NamedTuple):
    """``drift`` and ``unproved``: one sentence each. ``library``: variable to the values that NCCL says it read. ``logs``: how many spoke."""

    drift: list
    unproved: list
    library: dict
    logs: int
    allreduce_ranks: list


def nccl_said(folder: str) -> tuple:
    """(variable to sorted list of values, number of logs that spoke, one sentence for each that did not)."""
    found, spoke, remarks = {}, 0, []
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), "nccl.*")))
    for path in paths[:MOST_LOGS]:
        try:
            for name, values in values_in_log(path).items():
                found.setdefault(name, set()).update(values)
            spoke += 1
        except TuningError as error:
            remarks.append(str(error))
    if len(paths) > MOST_LOGS:
        remarks.append(f"{folder}: {len(paths)} logs of NCCL, of which {MOST_LOGS} were read.")
    return {name: sorted(values) for name, values in sorted(found.items())}, spoke, remarks


def read_back(folder: str, journal: str, declared: dict, ranks: int, allreduce: str) -> ReadBack:
    """``folder``: runtime directory of the instance; ``journal``: its lines with SAID_AT_START; ``declared``: variables and values.

    ``ranks``: processes that exchange data; ``allreduce``: as the profile says, ``bundled`` wants the custom one in every rank.
    """
    library, logs, unproved = nccl_said(folder)
    drift = []
    if ranks < 2:
        unproved.append("Layer 3: one rank exchanges no data, so NCCL is not asked for anything.")
    elif not logs:
        unproved.append(f"Layer 3: NCCL left no log in {folder}, so nothing shows what it has read.")
    for name, value in sorted(declared.items()) if logs else []:
        said = library.get(name)
        if said is None:
            unproved.append(f"Layer 3: NCCL did not say which {name} it read.")
        elif said != [value]:
            drift.append(f"{name} is {' and '.join(said)} for NCCL, declared {value}")
    if logs and ranks > 1 and logs < ranks:
        unproved.append(f"Layer 3: {logs} of {ranks} ranks left a log of NCCL.")
    on = sorted({int(rank) for rank, _world in _ALLREDUCE_ON.findall(journal)})
    if wants_allreduce(ranks, allreduce):
        if journal.strip():
            drift += _missing_allreduce(on, ranks, journal)
        else:
            unproved.append(
                "The journal has no line of this start (any more): whether the custom all-reduce is on was not seen. It says so at log_level info."
            )
    return ReadBack(drift, unproved, library, logs, on)


def wants_allreduce(ranks: int, allreduce: str) -> bool:
    """Whether the profile wants the custom all-reduce, and there is something to reduce."""
    return allreduce == "bundled" and ranks > 1


def _missing_allreduce(on: list, ranks: int, journal: str) -> list:
    missing = sorted(set(range(ranks)) - set(on))
    if not missing:
        return []
    told = list(dict.fromkeys(_ALLREDUCE_OFF.findall(journal)))
    why = (
        f"it says: {'; '.join(told[:3])}"
        if told
        else "it says nothing: is it built (build_allreduce.yml), and PCIE_ALLREDUCE=1 set?"
    )
    return [
        f"the profile wants the custom all-reduce, and it is not on in rank {', '.join(map(str, missing))} of {ranks}; {why}"
    ]
