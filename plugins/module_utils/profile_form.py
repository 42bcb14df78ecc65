# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of a profile: which keys it has, and what each of them may hold. What the values mean is said elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.version_window import InvalidVersion, parse_specifier
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import did_you_mean, kind_of, show

STATUSES = ("known_good", "experimental", "dead_end")
ALLREDUCE = ("nccl", "bundled", "sglang_pcie_ipc")
KEYS = ("summary", "status", "lesson", "based_on", "env", "sglang", "allreduce", "requires", "evidence")
ENV_KEYS = ("value", "reason")
SGLANG_KEYS = ("env", "args")
EVIDENCE_REQUIRED = ("workload", "metric", "value", "unit", "source")
EVIDENCE_OPTIONAL = ("baseline", "date", "versions", "note")
INTERCONNECTS = ("pcie", "nvlink")
# What each requirement must be: a version such as 2.30 loses its last digit when YAML reads it as a float.
REQUIRES = {
    "gpu": "string",
    "gpu_count": "count",
    "interconnect": "interconnect",
    "compute_capability": "strings",
    "p2p": "flag",
    "nccl": "window",
    "sglang": "window",
    "flashinfer": "window",
}
MAX_GPUS = 1024
# Deep enough for every honest profile; stops a self-referencing YAML anchor.
MAX_DEPTH = 20


class InvalidProfile(TuningError, ValueError):
    """The profile, its name or the overrides cannot be used; the message names the place and the way on."""


def check_profile(profile, origin):
    """Return the profile with every key present; the values of env are left to check_env. Raises InvalidProfile with every fault."""
    if not isinstance(profile, Mapping):
        raise InvalidProfile(
            f"{origin}: must be a mapping with the keys {', '.join(KEYS)}, not {kind_of(profile)} ({show(profile)})."
        )
    faults = _unknown_keys(profile, KEYS, "")
    settings = {
        "summary": profile.get("summary"),
        "status": profile.get("status"),
        "lesson": profile.get("lesson"),
        "based_on": profile.get("based_on"),
        "allreduce": profile.get("allreduce", "nccl"),
        "evidence": profile.get("evidence", []),
    }
    if not isinstance(settings["summary"], str) or not settings["summary"].strip():
        faults.append(f"summary: must be a sentence that says what the profile is, not {show(settings['summary'])}")
    for key, legal in (("status", STATUSES), ("allreduce", ALLREDUCE)):
        if not isinstance(settings[key], str) or settings[key] not in legal:
            faults.append(f"{key}: {show(settings[key])} is not legal. Legal: {', '.join(legal)}")
    settings["says_requires"] = profile.get("requires") is not None
    faults += _check_lesson(settings["status"], settings["lesson"])
    if settings["based_on"] is not None and not isinstance(settings["based_on"], str):
        faults.append(f"based_on: must be the name of a profile, not {show(settings['based_on'])}")
    for key in ("env", "sglang", "requires"):
        settings[key] = {} if profile.get(key) is None else profile[key]
        if not isinstance(settings[key], Mapping):
            faults.append(f"{key}: must be a mapping, not {kind_of(settings[key])} ({show(settings[key])})")
            settings[key] = {}
    faults += _check_sglang(settings["sglang"]) + _check_requires(settings["requires"])
    settings["evidence"] = [] if settings["evidence"] is None else settings["evidence"]
    faults += _check_evidence(settings["evidence"])
    for variable, entry in settings["env"].items():
        if isinstance(entry, Mapping):
            faults += check_entry(entry, f"env.{variable}")
    if faults:
        raise InvalidProfile(_message(origin, faults))
    for key in ("summary", "status", "allreduce"):
        settings[key] = str.__str__(settings[key])
    return settings


def _check_lesson(status, lesson):
    if lesson is None:
        wanted = (
            "a dead end needs one: what happened to the last who tried, and under which versions that may have changed"
        )
        return [f"lesson: {wanted}"] if status == "dead_end" else []
    if not isinstance(lesson, str) or not lesson.strip():
        return [f"lesson: must be a text, not {show(lesson)}"]
    return []


def _message(origin, faults):
    if len(faults) == 1:
        return f"{origin}: {faults[0]}."
    return "\n".join([f"{origin}: {len(faults)} faults:"] + [f"- {fault}." for fault in faults])


def _unknown_keys(given, legal, where):
    faults = []
    for key in given:
        if not isinstance(key, str) or key not in legal:
            hint = did_you_mean(key, legal) if isinstance(key, str) else ""
            place = f"{where}.{show(key)}" if where else show(key)
            faults.append(f"{place}: unknown key{', ' + hint if hint else '.'} Legal keys: {', '.join(legal)}")
    return faults


def check_entry(entry, where):
    faults = _unknown_keys(entry, ENV_KEYS, where)
    if "value" not in entry:
        faults.append(f"{where}: has no value. Write {{value: ..., reason: ...}}")
    if not isinstance(entry.get("reason", ""), str):
        faults.append(f"{where}.reason: must be a string, not {kind_of(entry['reason'])}")
    return faults


def _check_sglang(sglang):
    faults = _unknown_keys(sglang, SGLANG_KEYS, "sglang")
    for key in SGLANG_KEYS:
        value = sglang.get(key)
        if value is not None and not isinstance(value, Mapping):
            faults.append(f"sglang.{key}: must be a mapping, not {kind_of(value)} ({show(value)})")
    return faults


def _check_requires(requires):
    faults = _unknown_keys(requires, tuple(REQUIRES), "requires")
    for key, kind in REQUIRES.items():
        if key in requires:
            fault = _REQUIREMENT[kind](requires[key])
            faults += [f"requires.{key}: {fault}"] if fault else []
    return faults


def _check_string(value):
    return "" if isinstance(value, str) and value.strip() else f"must be a quoted string, not {show(value)}"


def _check_count(value):
    if isinstance(value, str):
        return _check_window(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_GPUS:
        return f"must be a whole number from 1 to {MAX_GPUS}, or a quoted window such as '>=2', not {show(value)}"
    return ""


def _check_interconnect(value):
    return "" if value in INTERCONNECTS else f"{show(value)} is not legal. Legal: {', '.join(INTERCONNECTS)}"


def _check_strings(value):
    if not is_list(value) or not value or not all(isinstance(item, str) for item in value):
        return f'must be a list of quoted strings such as ["12.0"], not {show(value)}'
    return ""


def _check_flag(value):
    return "" if value is True else f"must be true, or left out, not {show(value)}"


def _check_window(value):
    try:
        parse_specifier(value)
    except InvalidVersion as error:
        return str(error).rstrip(".")
    return ""


_REQUIREMENT = {
    "string": _check_string,
    "count": _check_count,
    "interconnect": _check_interconnect,
    "strings": _check_strings,
    "flag": _check_flag,
    "window": _check_window,
}


def _check_evidence(evidence):
    legal = EVIDENCE_REQUIRED + EVIDENCE_OPTIONAL
    if not is_list(evidence):
        return [f"evidence: must be a list of mappings with the keys {', '.join(legal)}, not {kind_of(evidence)}"]
    faults = []
    for number, figure in enumerate(evidence):
        where = f"evidence[{number}]"
        if not isinstance(figure, Mapping):
            faults.append(
                f"{where}: must be a mapping with the keys {', '.join(legal)}, not {kind_of(figure)} ({show(figure)})"
            )
            continue
        faults += _unknown_keys(figure, legal, where)
        missing = [key for key in EVIDENCE_REQUIRED if figure.get(key) is None]
        if missing:
            faults.append(f"{where}: lacks {', '.join(missing)}. Required keys: {', '.join(EVIDENCE_REQUIRED)}")
        for key in ("value", "baseline"):
            value = figure.get(key)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, (int, float)) or value - value != 0
            ):
                faults.append(f"{where}.{key}: must be a number, not {show(value)}")
    return faults


def mapping(value, what):
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidProfile(
            f"{what}: must be a mapping, not {kind_of(value)} ({show(value)}). Write NAME: value pairs, or {{}}."
        )
    return value


def is_list(value):
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def plain(value, depth=0):
    """The same data without the string and container subclasses that Ansible passes."""
    if depth > MAX_DEPTH:
        raise InvalidProfile("a profile is nested too deeply, does an anchor refer to itself?")
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {plain(key, depth + 1): plain(item, depth + 1) for key, item in value.items()}
    if is_list(value):
        return [plain(item, depth + 1) for item in value]
    return value
