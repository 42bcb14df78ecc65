# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check an NCCL environment and bring it into the one spelling that every NCCL release reads the same way.

NCCL never reports a bad value: `4MB` is 4, `010` is 8, `true` is 0, and a misspelt name is not read at all.
So everything that NCCL would misread is refused here, with the words to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_catalogue import (
    FUNCTIONS,
    NOT_READ_BY_NCCL,
    NOT_READ_BY_NCCL_PREFIXES,
    VARIABLES,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_numbers import (
    check_integer,
    highest,
    integer_choices,
    is_integer,
    lowest,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_texts import SPECIAL, check_text
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import Refused, did_you_mean, kind_of, label, show

# A long list of faults is one mistake seen many times; nobody reads more lines than this.
MAX_FAULTS_SHOWN = 50

# The smaller bound must not exceed the larger one; NCHANNELS and CTAS limit the same thing, so they are crossed.
BOUNDS = (
    ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
    ("NCCL_MIN_NCHANNELS", "NCCL_MAX_CTAS"),
    ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"),
    ("NCCL_MIN_CTAS", "NCCL_MAX_NCHANNELS"),
    ("NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS"),
    ("NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS"),
)


class Finding(NamedTuple):
    """One line about one variable."""

    variable: str
    message: str

    def __str__(self):
        return self.message


class InvalidEnvironment(TuningError, ValueError):
    """The environment has at least one fault; `errors` holds all of them as findings."""

    def __init__(self, errors):
        self.errors = tuple(errors)
        super().__init__(describe(self.errors))


def validate_env(env):
    """Return `env` with canonical string values, sorted by name; raise InvalidEnvironment with every fault."""
    canonical, errors, _warnings = check_env(env)
    if errors:
        raise InvalidEnvironment(errors)
    return canonical


def check_env(env):
    """Return (canonical values, errors, warnings) of `env`; the values hold only the variables without a fault."""
    if not isinstance(env, Mapping):
        message = (
            f"the NCCL environment must be a mapping of variable to value, not {kind_of(env)} ({show(env)}). "
            "Write NAME: value pairs, or {}."
        )
        return {}, [Finding("", message)], []
    canonical, errors, warnings = {}, [], []
    for key, value in env.items():
        if not isinstance(key, str):
            message = f"{show(key)}: the name of a variable must be a string, not {kind_of(key)}."
            errors.append(Finding(show(key), f"{message} Write a name such as NCCL_ALGO."))
            continue
        name = str.__str__(key)
        fault = check_name(name, suggest=len(errors) < MAX_FAULTS_SHOWN)
        if fault:
            errors.append(Finding(name, f"{label(name)}={show(value)}: {fault}"))
            continue
        variable = VARIABLES[name]
        try:
            canonical[name], notes = _check_value(name, variable, value)
        except Refused as refused:
            errors.append(_fault(name, variable, value, refused))
            continue
        warnings.extend(Finding(name, f"{name}={show(value)}: {note}") for note in notes + _remarks(variable))
    canonical = dict(sorted(canonical.items()))
    errors.extend(_check_together(canonical))
    return canonical, sorted(errors), sorted(warnings)


def describe(errors, subject="the NCCL environment"):
    """Put all findings into one message, one line for each; a single finding is the whole message."""
    lines = [str(error) for error in errors]
    if len(lines) == 1:
        return lines[0]
    names = list(dict.fromkeys(label(error.variable) for error in errors if error.variable))
    listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    more = [f"... and {len(lines) - MAX_FAULTS_SHOWN} more"] if len(lines) > MAX_FAULTS_SHOWN else []
    return "\n".join(
        [f"{len(lines)} faults in {subject} ({listed}):"] + [f"- {line}" for line in lines[:MAX_FAULTS_SHOWN] + more]
    )


def legal_values(name):
    """The legal values of a known variable, in words."""
    variable = VARIABLES[name]
    if name in SPECIAL:
        return SPECIAL[name][1]
    if is_integer(variable):
        choices = integer_choices(variable)
        if choices:
            return ", ".join(str(choice) for choice in choices)
        text = f"a whole number from {lowest(variable)} to {highest(variable)}"
        if variable.multiple_of != 1:
            text += f", a multiple of {variable.multiple_of}"
        if variable.power_of_two:
            text += ", a power of two"
        return text + (" (bytes)" if variable.kind == "bytes" else "")
    listed = ", ".join(variable.choices)
    if variable.kind == "level_enum" and variable.legacy_ints:
        return (
            f"{listed} (or the old integers 0 to {len(variable.legacy_ints) - 1} for {', '.join(variable.legacy_ints)})"
        )
    if variable.kind == "enum_flags":
        words = [choice for choice in variable.choices if not choice.isdigit()]
        digits = [choice for choice in variable.choices if choice.isdigit()]
        return f"one or more of {', '.join(words)} joined by |, or one of the old integers {', '.join(digits)}"
    if variable.kind == "func_list":
        return f"[function:][^]token,token;... without blanks, tokens {listed}, functions {', '.join(FUNCTIONS)}"
    if variable.kind == "list":
        lead = "".join(f"[{mark}]" for mark in variable.prefixes)
        return f"{lead}item,item without blanks" + (f", items {listed}" if listed else "")
    if variable.kind == "path":
        return "an absolute path"
    return listed or "printable ASCII text without quotes and backslashes"


_ELSEWHERE = "Remove it here, and set it in the environment of the service that reads it if it is wanted."


def check_name(name, suggest=True):
    """Return what is wrong with the name of a variable, or an empty string."""
    variable = VARIABLES.get(name)
    if variable is not None:
        if not variable.removed:
            return ""
        instead = f"Write {variable.replaced_by} instead." if variable.replaced_by else "Remove it."
        gone = (
            "no known NCCL release reads it"
            if variable.removed.startswith("<=")
            else f"NCCL {variable.removed} and later do not read it"
        )
        return f"{gone}. {instead}"
    if name in NOT_READ_BY_NCCL:
        who, instead = NOT_READ_BY_NCCL[name]
        return f"NCCL does not read this variable: {who}. " + (f"Write {instead} instead." if instead else _ELSEWHERE)
    for prefix, who in NOT_READ_BY_NCCL_PREFIXES.items():
        if name.startswith(prefix):
            return f"NCCL does not read this variable: {who}. {_ELSEWHERE}"
    if not name.startswith("NCCL_"):
        shouted = name.strip().upper()
        for guess in (shouted, f"NCCL_{shouted}"):
            if guess in VARIABLES:
                return f"unknown variable: did you mean {guess}? NCCL names are upper case and start with NCCL_."
    hint = (
        did_you_mean(name.strip().upper(), [known for known, entry in VARIABLES.items() if not entry.removed])
        if suggest
        else ""
    )
    hint = hint or "only documented NCCL_* variables and those found in the NCCL source are known."
    return f"unknown variable: {hint} NCCL ignores a name that it does not know, without a message."


def _remarks(variable):
    """What to know about a variable that is accepted."""
    if variable.deprecated:
        newer = f"; its successor is {variable.replaced_by}" if variable.replaced_by else ""
        return [f"deprecated since NCCL {variable.deprecated} and still read{newer}"]
    return []


def _fault(name, variable, value, refused):
    write = (
        f"Write {refused.write}."
        if refused.write
        else f"Write a legal value, or leave {name} out (default: {variable.default})."
    )
    return Finding(name, f"{name}={show(value)}: {refused.why}. Legal: {legal_values(name)}. {write}")


def _check_value(name, variable, value):
    """Return (canonical string, notes) or raise Refused."""
    if value is None:
        raise Refused("null is not a value", f"a value, or remove {name} with null in nccl_env_overrides")
    if is_integer(variable):
        return check_integer(variable, value)
    return check_text(name, variable, value)


def _check_together(canonical):
    """Faults that only show when variables are seen together."""
    errors = []
    for lower, upper in BOUNDS:
        if lower in canonical and upper in canonical and int(canonical[lower]) > int(canonical[upper]):
            message = (
                f"{lower}={canonical[lower]}: larger than {upper}={canonical[upper]}. "
                f"Legal: {lower} <= {upper}. Write {canonical[upper]} or less, or raise {upper}."
            )
            errors.append(Finding(lower, message))
    threads, sockets = canonical.get("NCCL_SOCKET_NTHREADS"), canonical.get("NCCL_NSOCKS_PERTHREAD")
    if threads and sockets and int(threads) * int(sockets) > 64:
        message = (
            f"NCCL_NSOCKS_PERTHREAD={sockets}: times NCCL_SOCKET_NTHREADS={threads} "
            f"gives {int(threads) * int(sockets)} sockets. "
            f"Legal: a product of at most 64. Write {64 // int(threads)} or less."
        )
        errors.append(Finding("NCCL_NSOCKS_PERTHREAD", message))
    return errors
