# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check an NCCL environment against the node that it is for: what only hardware, NCCL's version and the engine tell.

nccl_validate checks what the values say by themselves; nothing of that is repeated here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.gpu_node.tuning.plugins.module_utils import nccl_node_rules, nccl_version_rules
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_catalogue import VARIABLES
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_rule import (
    REFUSED,
    RISK,
    SEVERITIES,
    UNCHECKED,
    WARNING,
    Case,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_validate import check_env
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_view import NodeView, NotKnown
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import did_you_mean, kind_of, show

RULES = (*nccl_node_rules.RULES, *nccl_version_rules.RULES)
RISKS = tuple(rule.name for rule in RULES if rule.severity == RISK)


class Finding(NamedTuple):
    """What one rule says about one variable."""

    variable: str
    severity: str  # one of SEVERITIES
    rule: str
    message: str

    def __str__(self):
        return self.message


class UnknownRisk(TuningError, ValueError):
    """allow_risk names something that is no risk."""


def check_on_node(env, facts=None, profile=None, allow_risk=()):
    """Every finding about `env` on the node with these facts (the dictionary gpu_node, or None), the gravest first.

    `profile` is a resolved profile. A fact that is not known never refuses anything: it is reported as unchecked.
    """
    allowed = check_allow_risk(allow_risk)
    case = _case(env, facts, profile)
    found = [finding for rule in RULES for finding in _apply(rule, case, rule.name in allowed)]
    return sorted(found, key=lambda finding: (SEVERITIES.index(finding.severity), finding))


def blocking(findings):
    """The findings for which the settings must not be applied."""
    return [finding for finding in findings if finding.severity in (REFUSED, RISK)]


def check_allow_risk(allow_risk):
    """The names in `allow_risk` as a set of plain strings; anything that is no risk is refused."""
    if allow_risk is None:
        return frozenset()
    way_on = f"Legal: a list of these: {', '.join(RISKS)}. Write the names of the risks that are accepted."
    if not isinstance(allow_risk, (list, tuple, set, frozenset)):
        raise UnknownRisk(f"allow_risk={show(allow_risk)}: {kind_of(allow_risk)} where a list is needed. {way_on}")
    for name in allow_risk:
        if not isinstance(name, str) or name not in RISKS:
            hint = did_you_mean(name, RISKS) if isinstance(name, str) else ""
            raise UnknownRisk(f"allow_risk: {show(name)} is no risk{', ' + hint if hint else '.'} {way_on}")
    return frozenset(str.__str__(name) for name in allow_risk)


def _case(env, facts, profile):
    """The rules see canonical values, and the names that this or an older NCCL has dropped; the rest is check_env's."""
    canonical, _errors, _warnings = check_env(env)
    dropped = {name: str(value) for name, value in env.items() if name in VARIABLES and VARIABLES[name].removed}
    profile = profile if isinstance(profile, Mapping) else {}
    sglang = profile.get("sglang") or {}
    return Case(
        env={**dropped, **canonical},
        node=NodeView(facts),
        sglang_env=sglang.get("env") or {},
        sglang_args=sglang.get("args") or {},
        allreduce=profile.get("allreduce", "nccl"),
    )


def _apply(rule, case, allowed):
    try:
        for hit in rule.find(case):
            severity = hit.severity or rule.severity
            way_on = hit.way_on or rule.way_on
            if severity == RISK:
                severity = WARNING if allowed else RISK
                way_on = (
                    "Accepted by allow_risk." if allowed else f"{way_on} Or accept it: add {rule.name} to allow_risk."
                )
            words = (f"{_named(hit.variable, case)}: {hit.what}.", rule.why, way_on)
            yield Finding(hit.variable, severity, rule.name, " ".join(word for word in words if word))
    except NotKnown as unknown:
        variable = next((name for name in rule.variables if name in case.env or name in case.sglang_env), "")
        message = (
            f"{_named(variable, case)}: whether {rule.looks_for} could not be checked, because {unknown}. {rule.why}"
        )
        yield Finding(variable, UNCHECKED, rule.name, message)


def _named(variable, case):
    for values in (case.env, case.sglang_env):
        if variable in values:
            return f"{variable}={show(values[variable]) if ' ' in str(values[variable]) else values[variable]}"
    return variable
