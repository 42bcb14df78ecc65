# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of a rule that needs a node: what it looks for, why, from where that is known, and the way on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ansible_collections.gpu_node.tuning.plugins.module_utils.node_view import NodeView

REFUSED = "refused"  # the settings cannot do what they say
RISK = "risk"  # refused too, unless allow_risk names the rule
WARNING = "warning"
UNCHECKED = "unchecked"  # the node's facts do not tell
NOTE = "note"  # nothing is wrong; it is good to know
SEVERITIES = (REFUSED, RISK, WARNING, UNCHECKED, NOTE)


class Case(NamedTuple):
    """What a rule looks at."""

    env: Mapping  # NCCL variable to canonical value
    node: NodeView
    sglang_env: Mapping
    sglang_args: Mapping
    allreduce: str


class Hit(NamedTuple):
    """A rule applies to a variable. The empty texts stand for those of the rule."""

    variable: str
    what: str  # completes "NAME=value: "
    way_on: str = ""
    severity: str = ""


class Rule(NamedTuple):
    """`find` yields hits, and raises NotKnown where only the facts could tell."""

    name: str
    severity: str
    looks_for: str  # completes "whether"
    why: str
    source: str
    way_on: str
    variables: tuple  # what it is about; one of these stands for it where it could not be checked
    find: Callable
