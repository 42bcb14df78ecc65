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
# What read_back() needs of a journal: all that an all-reduce says, and the line that shows that the beginning of the start is still there.
SAID_AT_START = "pcie_allreduce: |PCIe-IPC|PCIE_IPC|server_args="


class _Words(NamedTuple):
    """What an all-reduce says. ``on``: pattern with the rank; ``off``: pattern with the reason; ``way_on`` where a rank says nothing.

    ``always``: whether every rank says one or the other at the start, so that silence is a fault.
    """

    on: re.Pattern
    off: re.Pattern
    way_on: str
    always: bool


_WORDS = {
    "bundled": _Words(
        re.compile(r"pcie_allreduce: rank (\d+) of \d+ on, "),
        re.compile(r"pcie_allreduce: (?:rank \d+ of \d+ )?off, because (.*)"),
        "is it built (build_allreduce.yml), and PCIE_ALLREDUCE=1 set?",
        True,
    ),
    # SGLang's own may make its workspace with the first reduction, and its line does not name the rank: the prefix does.
    "sglang_pcie_ipc": _Words(
        re.compile(r"^\[[^\]]*\bTP(\d+)[^\]]*\].*FlashInfer PCIe-IPC workspace built", re.MULTILINE),
        re.compile(
            r"(FlashInfer PCIe-IPC workspace \(.*failed: .*|SGLANG_ENABLE_PCIE_IPC_ALLREDUCE is set but .*|.*leaving PCIe-IPC all-reduce off.*)"
        ),
        "",
        False,
    ),
}


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
    on = []
    if wants_allreduce(ranks, allreduce):
        words = _WORDS[allreduce]
        on = sorted({int(rank) for rank in words.on.findall(journal)})
        if not journal.strip():
            unproved.append(
                "The journal has no line of this start (any more): whether the custom all-reduce is on was not seen. It says so at log_level info."
            )
        else:
            of_drift, of_silence = _about_allreduce(words, on, ranks, journal)
            drift += of_drift
            unproved += of_silence
    return ReadBack(drift, unproved, library, logs, on)


def wants_allreduce(ranks: int, allreduce: str) -> bool:
    """Whether the profile wants another all-reduce than NCCL's, and there is something to reduce."""
    return allreduce in _WORDS and ranks > 1


def _about_allreduce(words: _Words, on: list, ranks: int, journal: str) -> tuple:
    """(drift, unproved): a sentence for the ranks in which it is not on."""
    missing = sorted(set(range(ranks)) - set(on))
    if not missing:
        return [], []
    told = list(dict.fromkeys(words.off.findall(journal)))
    those = f"rank {', '.join(map(str, missing))} of {ranks}"
    if told or words.always:
        why = f"it says: {'; '.join(told[:3])}" if told else f"it says nothing: {words.way_on}"
        return [f"the profile wants the custom all-reduce, and it is not on in {those}; {why}"], []
    return [], [f"The custom all-reduce said nothing in {those}, so whether it is on there was not seen."]
