# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a resolved profile may be applied to a node: dead ends, what it requires, what is risky there. One message says all."""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_requirements import (
    NO_GPU,
    REFUSED,
    UNKNOWN,
    judge,
    verdict,
)

REFUSE, WARN, OFF = CHECKS = ("refuse", "warn", "off")
NOT_CHECKED = "not checked"


class Policy(NamedTuple):
    """``hardware_check``: one of CHECKS; ``allow_dead_end``: bool; ``allow_risk``: names of the rules that may be broken."""

    hardware_check: str = REFUSE
    allow_dead_end: bool = False
    allow_risk: tuple = ()


class NotForThisNode(TuningError):
    """The profile must not be applied here; the message lists every reason and the way on."""


def admit(profile: dict, facts, policy: Policy, fitting=list) -> tuple:
    """(record for the generation, warnings). Raises NotForThisNode.

    ``profile``: resolved; ``facts``: the dictionary gpu_node, needed unless the check is off; ``fitting``: names of the profiles that fit
    the node, asked only for a refusal.
    """
    refusals, warnings = [], []
    if profile["status"] == "dead_end" and not policy.allow_dead_end:
        refusals.append(_dead_end(profile))
    record, faults, remarks = _hardware(profile, facts, policy)
    if faults and policy.hardware_check == REFUSE:
        refusals.append("\n".join([*faults, _way_on(fitting())]))
    else:
        warnings += ["\n".join(faults)] if faults else []
    warnings += remarks
    if refusals:
        raise NotForThisNode("\n".join(refusals))
    return record, warnings


def fits(profile: dict, facts: dict) -> bool:
    """Whether a profile may be proposed for a node: no dead end, nothing that it requires is known to be missing."""
    return profile["status"] != "dead_end" and verdict(judge(profile["requires"], facts)) != REFUSED


def describe_node(facts: dict) -> str:
    """The node in a few words, for instance ``2x NVIDIA H200, nvlink``."""
    names = [gpu["name"] or "GPU" for gpu in facts["gpus"]]
    if not names:
        return NO_GPU
    counted = ", ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names))
    return counted + (f", {facts['topology']['interconnect']}" if len(names) > 1 else "")


def _hardware(profile, facts, policy):
    """(record, lines that speak against it, remarks)."""
    if policy.hardware_check == OFF:
        return {"check": OFF, "verdict": NOT_CHECKED, "requirements": []}, [], []
    requirements = judge(profile["requires"], facts)
    outcome = verdict(requirements)
    record = {
        "check": policy.hardware_check,
        "verdict": outcome,
        "node": describe_node(facts),
        "requirements": [entry._asdict() for entry in requirements],
    }
    if outcome == REFUSED:
        head = f"profile {profile['name']} is not for this node ({record['node']}):"
        return record, [head, *(f"- {entry}" for entry in requirements)], []
    open_ones = [f"profile {profile['name']}: {entry}" for entry in requirements if entry.met is None]
    return record, [], open_ones if outcome == UNKNOWN else []


def _way_on(names):
    listed = ", ".join(names) or "none"
    return (
        f"Profiles that fit this node: {listed}. Choose one with -e profile=NAME, or apply this one all the same with "
        f"-e hardware_check=warn, which goes on record."
    )


def _dead_end(profile):
    lines = [f"profile {profile['name']} is a dead end: it was tried and failed. {profile['lesson']}"]
    lines += [f"- {_figure(figure)}" for figure in profile["evidence"]]
    lines.append("To apply it all the same, write -e allow_dead_end=true.")
    return "\n".join(lines)


def _figure(figure):
    against = f" against {figure['baseline']}" if figure.get("baseline") is not None else ""
    versions = f"; {figure['versions']}" if figure.get("versions") else ""
    return f"{figure['metric']}: {figure['value']}{against} {figure['unit']} ({figure['workload']}{versions})"
