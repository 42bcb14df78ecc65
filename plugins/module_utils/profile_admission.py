# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a resolved profile may be applied to a node: dead ends, what it requires, what is risky there. One message says all."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_conflicts import blocking, check_on_node
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_memory import compare, estimate
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_rule import NOTE, UNCHECKED, WARNING
from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_requirements import (
    NO_GPU,
    REFUSED,
    judge,
    verdict,
    why_unseen,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.version_window import InvalidVersion, parse_version

REFUSE, OFF = "refuse", "off"
PROBE = "p2p_probe_failed"
NOT_CHECKED = "not checked"


class Policy(NamedTuple):
    """``hardware_check``: ``refuse``, ``warn`` or ``off``; ``allow_dead_end``: bool; ``admission``: False to ask nothing at all;

    ``allow_risk``: names of the rules that may be broken; ``communicators``: how many NCCL communicators the engine makes, for the estimate
    of GPU memory; ``service_environment``: what the inventory gives the service, beside what the profile gives it.
    """

    hardware_check: str = REFUSE
    allow_dead_end: bool = False
    allow_risk: tuple = ()
    communicators: int = 1
    service_environment: Optional[dict] = None
    admission: bool = True


class NotForThisNode(TuningError):
    """The profile must not be applied here; the message lists every reason and the way on."""


class Admission(NamedTuple):
    """``hardware``: for the record of the generation; ``memory``: the estimate, None where there is none; ``notes``, ``warnings``: texts."""

    hardware: dict
    memory: Optional[dict]
    notes: list
    warnings: list


def admit(profile: dict, facts, policy: Policy, fitting=list) -> Admission:
    """Raises NotForThisNode where the profile must not be applied, with every reason.

    ``profile``: resolved; ``facts``: the dictionary gpu_node, needed unless the check is off; ``fitting``: gives the names of the profiles
    that fit the node, asked only for a refusal. A result of p2p_probe may be among the facts, and counts with any check.
    """
    if not policy.admission:
        return Admission(_match(profile, None, policy)[0], None, [], [])
    looked = policy.hardware_check != OFF
    hardware, against, open_questions = _match(profile, facts if looked else None, policy)
    findings = check_on_node(profile["env"], facts, _in_service(profile, policy), policy.allow_risk)
    refusals = [_dead_end(profile)] if profile["status"] == "dead_end" and not policy.allow_dead_end else []
    if against and policy.hardware_check == REFUSE:
        refusals.append("\n".join([*against, _way_on(fitting())]))
    refusals += [f"profile {profile['name']}: {finding}" for finding in blocking(findings)]
    if refusals:
        raise NotForThisNode("\n".join(refusals))
    memory = _memory(profile, facts if looked else None, policy.communicators)
    warnings = ["\n".join(against)] if against else []
    # What could not be checked because nobody looked is no news; that a probe could not be run is.
    told = [finding for finding in findings if looked or finding.severity != UNCHECKED or finding.rule == PROBE]
    warnings += open_questions + _texts(profile, told, (WARNING, UNCHECKED)) + _too_large(profile, memory)
    return Admission(hardware, memory, _texts(profile, findings, (NOTE,)), warnings)


def fits(profile: dict, facts: dict) -> bool:
    """Whether a profile may be proposed for a node: no dead end, nothing known to be missing, no risk."""
    if profile["status"] == "dead_end" or verdict(judge(profile["requires"], facts)) == REFUSED:
        return False
    return not blocking(check_on_node(profile["env"], facts, profile))


def describe_node(facts: dict) -> str:
    """The node in a few words, for instance ``2x NVIDIA H200, nvlink``."""
    names = [gpu["name"] or "GPU" for gpu in facts["gpus"]]
    if not names:
        return "its GPUs could not be seen" if why_unseen(facts) else NO_GPU
    counted = ", ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names))
    return counted + (f", {facts['topology']['interconnect']}" if len(names) > 1 else "")


def _in_service(profile, policy):
    """The profile with the whole environment of the service that it meets."""
    sglang = profile["sglang"]
    return {**profile, "sglang": {**sglang, "env": {**(policy.service_environment or {}), **sglang["env"]}}}


def _match(profile, facts, policy):
    """(record, lines that speak against it, what cannot be told)."""
    if facts is None:
        return {"check": OFF, "verdict": NOT_CHECKED, "requirements": [], "allow_risk": list(policy.allow_risk)}, [], []
    requirements = judge(profile["requires"], facts)
    outcome = verdict(requirements)
    record = {
        "check": policy.hardware_check,
        "verdict": outcome,
        "node": describe_node(facts),
        "requirements": [entry._asdict() for entry in requirements],
        "allow_risk": list(policy.allow_risk),
    }
    if outcome == REFUSED:
        head = f"profile {profile['name']} is not for this node ({record['node']}):"
        return record, [head, *(f"- {entry}" for entry in requirements)], []
    return record, [], [f"profile {profile['name']}: {entry}" for entry in requirements if entry.met is None]


def _texts(profile, findings, severities):
    return [f"profile {profile['name']}: {finding}" for finding in findings if finding.severity in severities]


def _memory(profile, facts, communicators):
    """{mib, host_mib, terms, text, fits, free}: of this node's GPUs, or of as many as the profile is for."""
    count = len(facts["gpus"]) if facts else profile["requires"].get("gpu_count")
    if not profile["env"] or not isinstance(count, int) or count < 2:
        return None
    estimated = estimate(profile["env"], count, communicators, nccl=_readable_nccl(facts))
    compared = compare(estimated, facts) if facts else {"fits": None, "text": ""}
    return {**estimated, "fits": compared["fits"], "free": compared["text"]}


def _readable_nccl(facts):
    """The version of NCCL, None where there is none or nobody can read it."""
    found = facts["software"].get("nccl") if facts else None
    try:
        parse_version(found)
    except InvalidVersion:
        return None
    return found


def _too_large(profile, memory):
    if memory is None or memory["fits"] is not False:
        return []
    return [f"profile {profile['name']}: NCCL's connections may not fit: {memory['free']} ({memory['text']})."]


def _way_on(names):
    listed = ", ".join(names) or "none"
    return (
        f"Profiles that fit this node: {listed}. Choose one with -e profile=NAME, or apply this one all the same with "
        f"-e hardware_check=warn; the generation records that."
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
