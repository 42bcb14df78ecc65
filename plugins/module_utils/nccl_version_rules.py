# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the NCCL that the node's torch loads: it reads a variable not yet, no longer, or otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_catalogue import (
    CHANNEL_CAPS,
    FUNCTIONS,
    VARIABLES,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_func_list import entries
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_rule import REFUSED, WARNING, Hit, Rule
from ansible_collections.gpu_node.tuning.plugins.module_utils.version_window import matches

# Older ones came with torch 1 only. Of a variable that they read, nobody needs to know the version.
OLDEST_EXPECTED = "2.14"

CHANNEL_VARIABLES = tuple(
    name for name in VARIABLES if re.fullmatch(r"NCCL_(MIN|MAX)_(P2P_NCHANNELS|NCHANNELS|NRINGS|CTAS)", name)
)


class Reading(NamedTuple):
    """Values that some versions of NCCL take for something else."""

    variables: tuple
    concerns: Callable  # of the value
    versions: str  # that read it otherwise
    what: str  # completes "NCCL 2.21.5 on this node"
    way_on: str
    severity: str = WARNING


READINGS = (
    Reading(
        ("NCCL_ALGO", "NCCL_PROTO"),
        lambda value: ":" in value,
        "<2.24",
        "knows no function in front of a colon, and skips in silence each word that it does not know",
        "Legal for it: one list without a function, such as Ring or LL,Simple. Write that, or bring NCCL 2.24 or newer.",
        REFUSED,
    ),
    Reading(
        CHANNEL_VARIABLES,
        lambda value: int(value) > CHANNEL_CAPS["<2.25"],
        "<2.25",
        f"has no more than {CHANNEL_CAPS['<2.25']} channels and lowers the value to that",
        f"Legal for it: 1 to {CHANNEL_CAPS['<2.25']}. Write {CHANNEL_CAPS['<2.25']} or less.",
    ),
    Reading(
        ("NCCL_DEBUG",),
        lambda value: value == "ATTN",
        "<2.32",
        "does not know this level and logs nothing",
        "Legal for it: VERSION, WARN, INFO, TRACE. Write WARN.",
    ),
    Reading(
        ("NCCL_CTA_POLICY",),
        lambda value: not value.isdigit(),
        "<2.29",
        "reads digits only, so that a name is 0 (DEFAULT)",
        "Legal for it: 0, 1, and 2 from 2.28. Write the digit.",
    ),
    Reading(
        ("NCCL_CTA_POLICY",),
        lambda value: value == "2",
        "<2.28",
        "does not know 2 and takes 0 (DEFAULT)",
        "Legal for it: 0, 1. Write one of these.",
    ),
    Reading(
        ("NCCL_NET_PLUGIN",),
        lambda value: "," in value,
        "<2.27",
        "takes the whole list as the name of one plugin",
        "Legal for it: one name. Write the one that is wanted.",
    ),
    Reading(
        ("NCCL_IB_HCA",),
        lambda value: any(item.count(":") > 1 for item in value.split(",")),
        "<2.30.7",
        "knows the name and the port of a device only, neither rail nor plane",
        "Legal for it: name or name:port. Write that.",
    ),
    Reading(
        ("NCCL_IB_FIFO_TC",),
        lambda value: value == "0",
        "<2.24",
        "takes 0 as not set",
        "Legal for it: 1 to 255. Leave the variable out, or bring NCCL 2.24 or newer.",
    ),
)


def _known(env):
    return [(name, VARIABLES[name]) for name in env if name in VARIABLES]


def _first_version(variable):
    """The release that brought a variable; of the oldest it is only known that they had it."""
    return variable.since.lstrip("<=")


def _not_read_yet(case):
    newer = [
        (name, _first_version(variable))
        for name, variable in _known(case.env)
        if matches(_first_version(variable), f">{OLDEST_EXPECTED}")
    ]
    if not newer:
        return
    version = case.node.version("nccl")
    for name, since in newer:
        if matches(version, f"<{since}"):
            yield Hit(name, f"NCCL {version} on this node does not read it yet, it came with {since}")


def _no_longer_read(case):
    gone = [(name, variable) for name, variable in _known(case.env) if variable.removed]
    if not gone:
        return
    version = case.node.version("nccl")
    for name, variable in gone:
        if variable.removed.startswith("<=") or matches(version, f">={variable.removed}"):
            instead = f"Write {variable.replaced_by} instead." if variable.replaced_by else ""
            yield Hit(name, f"NCCL {version} on this node reads it no longer", way_on=instead)


def _read_otherwise(case):
    concerned = [
        (name, reading)
        for reading in READINGS
        for name in reading.variables
        if name in case.env and reading.concerns(case.env[name])
    ]
    if not concerned:
        return
    version = case.node.version("nccl")
    for name, reading in concerned:
        if matches(version, reading.versions):
            what = f"NCCL {version} on this node {reading.what}"
            yield Hit(name, what, way_on=reading.way_on, severity=reading.severity)


def _functions_without_algorithm(case):
    listed = entries(case.env["NCCL_ALGO"], VARIABLES["NCCL_ALGO"].choices) if "NCCL_ALGO" in case.env else []
    named = {entry.function for entry in listed}
    left_out = [function for function in FUNCTIONS if function not in named]
    if not listed or "" in named or not left_out:
        return
    version = case.node.version("nccl")
    if matches(version, "<2.31"):
        return
    protocols = entries(case.env["NCCL_PROTO"], VARIABLES["NCCL_PROTO"].choices) if "NCCL_PROTO" in case.env else []
    covered = {entry.function for entry in protocols}
    without = [function for function in left_out if "" in covered or function in covered]
    if without:
        yield Hit(
            "NCCL_ALGO",
            f"with NCCL_PROTO={case.env['NCCL_PROTO']} NCCL {version} on this node has no algorithm for {', '.join(without)}",
        )
    else:
        yield Hit(
            "NCCL_ALGO",
            f"it names no algorithm for {', '.join(left_out)}, and NCCL {version} on this node goes on to choose one",
            severity=WARNING,
        )


RULES = (
    Rule(
        name="not_read_yet",
        severity=WARNING,
        looks_for="this NCCL reads the variable already",
        why="NCCL says nothing about a name that it does not read.",
        source="every public NCCL tag from 2.3.5 to 2.30.7 and the names in the binaries of 2.31 and 2.32",
        way_on="Leave it out for this node, or bring an NCCL that reads it.",
        variables=tuple(
            name for name, variable in VARIABLES.items() if matches(_first_version(variable), f">{OLDEST_EXPECTED}")
        ),
        find=_not_read_yet,
    ),
    Rule(
        name="no_longer_read",
        severity=WARNING,
        looks_for="this NCCL still reads the variable",
        why="NCCL says nothing about a name that it does not read.",
        source="every public NCCL tag from 2.3.5 to 2.30.7",
        way_on="Leave it out.",
        variables=tuple(name for name, variable in VARIABLES.items() if variable.removed),
        find=_no_longer_read,
    ),
    Rule(
        name="read_otherwise",
        severity=WARNING,
        looks_for="this NCCL reads the value as it is meant",
        why="NCCL takes what it can read of a value and says nothing about the rest.",
        source="NCCL sources of the versions on both sides of each change; NVIDIA's env.rst",
        way_on="Write a value that this NCCL reads.",
        variables=tuple(dict.fromkeys(name for reading in READINGS for name in reading.variables)),
        find=_read_otherwise,
    ),
    Rule(
        name="functions_without_algorithm",
        severity=REFUSED,
        looks_for="every function keeps an algorithm",
        why="From NCCL 2.31 on a function that NCCL_PROTO covers and NCCL_ALGO does not name has no algorithm, and its first call fails.",
        source="NCCL's public development source of 2.31; reports of serving engines that stopped with it",
        way_on="Legal: a first entry without a function, such as Ring;AllReduce:Tree. Write one.",
        variables=("NCCL_ALGO",),
        find=_functions_without_algorithm,
    ),
)
