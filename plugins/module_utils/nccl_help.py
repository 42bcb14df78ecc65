# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the catalogue knows about a variable, as data and as lines for a person."""

from __future__ import annotations

import textwrap

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_catalogue import VARIABLES
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_validate import check_name, legal_values
from ansible_collections.gpu_node.tuning.plugins.module_utils.text_table import text_table
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import label

# Narrow enough that no format of Ansible's results folds a line again.
WIDTH = 72
# In the order in which a person asks. A line without anything to say is left out.
LINES = (
    ("legal", "legal"),
    ("default", "default"),
    ("read", "read"),
    ("documented", "by"),
    ("when wrong", "if_wrong"),
    ("risk", "risk"),
    ("correction", "mistaken_for"),
)


class UnknownVariable(TuningError, ValueError):
    """At least one of the names is not in the catalogue; the message says what was probably meant."""


def chosen(names):
    """The wanted names without repetition, or all of them; raise UnknownVariable with every name that is not known."""
    names = [name.strip() if isinstance(name, str) else name for name in names or [] if name]
    if not names:
        return sorted(VARIABLES)
    wrong = [f"{label(name)}: {check_name(name)}" for name in names if name not in VARIABLES]
    if wrong:
        raise UnknownVariable(
            "\n".join([*wrong, "All known names: ansible localhost -m gpu_node.tuning.nccl_env_info"])
        )
    return list(dict.fromkeys(names))


def explain(name):
    """One variable as plain data; an empty text means that there is nothing to say."""
    variable = VARIABLES[name]
    return {
        "name": name,
        "kind": variable.kind,
        "what": variable.note,
        "legal": legal_values(name),
        "default": variable.default,
        "since": variable.since,
        "deprecated": variable.deprecated,
        "removed": variable.removed,
        "replaced_by": variable.replaced_by,
        "documented": variable.documented,
        "case_sensitive": variable.case_sensitive,
        "if_wrong": variable.if_wrong,
        "risk": variable.risk,
        "mistaken_for": variable.mistaken_for,
    }


def help_lines(name):
    """A page of help about one variable."""
    known = explain(name)
    texts = {**known, "read": when_read(name), "by": "" if known["documented"] else "not by NVIDIA"}
    lines = [name, *_wrapped(known["what"], "does")]
    for title, key in LINES:
        if texts[key]:
            lines += _wrapped(texts[key], title)
    return lines


def table_lines(names):
    """One line for each variable."""
    room = WIDTH - 2 - max(map(len, names))
    return text_table(
        ("variable", "what it does"),
        [(name, textwrap.shorten(VARIABLES[name].note, room, placeholder=" ...")) for name in names],
    )


def when_read(name):
    """Which releases of NCCL read a variable, in words."""
    variable = VARIABLES[name]
    text = _release(variable.since, "from NCCL {} on", "by the oldest public NCCL ({}) already")
    if variable.removed:
        text = _release(variable.removed, f"{text}; no longer from {{}} on", "by no known NCCL")
    if variable.deprecated:
        text += f"; deprecated since {variable.deprecated}"
    return text + (f"; now {variable.replaced_by}" if variable.replaced_by else "")


def _release(version, plain, oldest):
    return oldest.format(version[2:]) if version.startswith("<=") else plain.format(version)


def _wrapped(text, title):
    column = 12
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"{title:<{column}}", subsequent_indent=" " * column, break_on_hyphens=False
    )
