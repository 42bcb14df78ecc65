# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the name of a profile into the settings that it stands for, with the inventory's own changes applied."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_validate import Finding, check_env, describe
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import did_you_mean, kind_of, label, show

STATUSES = ("known_good", "experimental", "dead_end")
ALLREDUCE = ("nccl", "bundled", "sglang_pcie_ipc")
KEYS = ("summary", "status", "env", "sglang", "allreduce", "requires", "evidence")
ENV_KEYS = ("value", "reason")
SGLANG_KEYS = ("env", "args")
EVIDENCE_REQUIRED = ("workload", "metric", "value", "unit", "source")
EVIDENCE_OPTIONAL = ("baseline", "date", "versions", "note")
INTERCONNECTS = ("pcie", "nvlink")
# What each requirement must be: a version such as 2.30 loses its last digit when YAML reads it as a float.
REQUIRES = {
    "gpu": "string",
    "gpu_count": "count",
    "interconnect": "string",
    "compute_capability": "strings",
    "nccl": "string",
    "sglang": "string",
}
NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
NAME_RULE = "a lower-case letter, then lower-case letters, digits and underscores"
# Deep enough for every honest profile; stops a self-referencing YAML anchor.
MAX_DEPTH = 20


class InvalidProfile(TuningError, ValueError):
    """The profile, its name or the overrides cannot be used; the message names the place and the way on."""


def resolve(name, shipped, tuning_profiles=None, overrides=None):
    """Return the resolved profile, see resolve_with_warnings."""
    return resolve_with_warnings(name, shipped, tuning_profiles, overrides)[0]


def resolve_with_warnings(name, shipped, tuning_profiles=None, overrides=None):
    """Return (profile, warnings): the named profile in plain, canonical data.

    A profile of `tuning_profiles` replaces the shipped one of the same name as a whole.
    `overrides` sets single variables of its env; null removes one.
    """
    shipped = _mapping(shipped, "the shipped profiles")
    own = _mapping(tuning_profiles, "tuning_profiles")
    overrides = _mapping(overrides, "nccl_env_overrides")
    name = _known_name(name, shipped, own)
    origin = f"profile {name}" + (" of tuning_profiles" if name in own else "")
    settings = _check_profile(own[name] if name in own else shipped[name], origin)

    values, reasons, origins = _declared(settings["env"], origin, f"set by {origin}")
    errors = _apply_overrides(overrides, values, reasons, origins, name)
    env, faults, notes = check_env(values)
    errors += [Finding(fault.variable, f"{fault.message} [{origins.get(fault.variable, origin)}]") for fault in faults]
    if errors:
        raise InvalidProfile(describe(sorted(errors), f"the NCCL environment of profile {name}"))

    profile = {
        "name": name,
        "summary": settings["summary"],
        "status": settings["status"],
        "env": env,
        "reasons": {variable: reasons[variable] for variable in env},
        "sglang": {key: _plain(settings["sglang"].get(key) or {}) for key in SGLANG_KEYS},
        "allreduce": settings["allreduce"],
        "requires": _plain(settings["requires"]),
        "evidence": _plain(settings["evidence"]),
    }
    # A shipped profile gives its reasons itself; only what the inventory says is worth a warning.
    warnings = [
        f"{note.message} [{origins[note.variable]}]" for note in notes if name in own or note.variable in overrides
    ]
    if settings["status"] == "dead_end":
        warnings.insert(0, f"profile {name} is a dead end, it was tried and failed: {settings['summary']}")
    return profile, warnings


def _known_name(name, shipped, own):
    """The name as a plain string, when a profile has it."""
    known = {}
    for place, profiles in (("the shipped profiles", shipped), ("tuning_profiles", own)):
        for key in profiles:
            if not isinstance(key, str) or not NAME.fullmatch(key):
                raise InvalidProfile(f"{place}: {show(key)} is not a profile name. Legal: {NAME_RULE}. Rename it.")
            known[str.__str__(key)] = place
    listed = ", ".join(sorted(known)) or "none"
    if not isinstance(name, str) or not name:
        raise InvalidProfile(
            f"tuning_profile_name={show(name)}: not a profile name, {kind_of(name)} is given. Known profiles: {listed}."
        )
    name = str.__str__(name)
    if name not in known:
        hint = did_you_mean(name, known)
        raise InvalidProfile(
            f"unknown profile {show(name)}" + (f", {hint}" if hint else ".") + f" Known profiles: {listed}."
        )
    return name


def _check_profile(profile, origin):
    """Return the profile with every key present; the values of env are left to check_env."""
    if not isinstance(profile, Mapping):
        raise InvalidProfile(
            f"{origin}: must be a mapping with the keys {', '.join(KEYS)}, not {kind_of(profile)} ({show(profile)})."
        )
    faults = _unknown_keys(profile, KEYS, "")
    settings = {
        "summary": profile.get("summary"),
        "status": profile.get("status"),
        "allreduce": profile.get("allreduce", "nccl"),
        "evidence": profile.get("evidence", []),
    }
    if not isinstance(settings["summary"], str) or not settings["summary"].strip():
        faults.append(f"summary: must be a sentence that says what the profile is, not {show(settings['summary'])}")
    for key, legal in (("status", STATUSES), ("allreduce", ALLREDUCE)):
        if not isinstance(settings[key], str) or settings[key] not in legal:
            faults.append(f"{key}: {show(settings[key])} is not legal. Legal: {', '.join(legal)}")
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
            faults += _check_entry(entry, f"env.{variable}")
    if faults:
        raise InvalidProfile(_message(origin, faults))
    for key in ("summary", "status", "allreduce"):
        settings[key] = str.__str__(settings[key])
    return settings


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


def _check_entry(entry, where):
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
        if key not in requires:
            continue
        value = requires[key]
        if kind == "count":
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                faults.append(f"requires.{key}: must be a whole number from 1, not {show(value)}")
        elif kind == "strings":
            if not _is_list(value) or not value or not all(isinstance(item, str) for item in value):
                faults.append(f'requires.{key}: must be a list of quoted strings such as ["12.0"], not {show(value)}')
        elif not isinstance(value, str) or not value.strip():
            faults.append(f"requires.{key}: must be a quoted string, not {show(value)}")
        elif key == "interconnect" and value not in INTERCONNECTS:
            faults.append(f"requires.{key}: {show(value)} is not legal. Legal: {', '.join(INTERCONNECTS)}")
    return faults


def _check_evidence(evidence):
    legal = EVIDENCE_REQUIRED + EVIDENCE_OPTIONAL
    if not _is_list(evidence):
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


def _declared(entries, origin, default_reason):
    """Split `{value, reason}` entries and bare values into values, reasons and origins."""
    values, reasons, origins = {}, {}, {}
    for variable, entry in entries.items():
        key = str.__str__(variable) if isinstance(variable, str) else variable
        detailed = isinstance(entry, Mapping)
        values[key] = entry["value"] if detailed else entry
        reasons[key] = str.__str__(entry.get("reason", "")).strip() if detailed else ""
        reasons[key] = reasons[key] or default_reason
        origins[key if isinstance(key, str) else show(key)] = origin  # as check_env names it
    return values, reasons, origins


def _apply_overrides(overrides, values, reasons, origins, name):
    """Change values, reasons and origins in place; return what cannot be applied."""
    place = "nccl_env_overrides"
    errors, changed = [], {}
    for variable, entry in overrides.items():
        named = label(variable) if isinstance(variable, str) else show(variable)
        if entry is not None:
            changed[variable] = entry
            faults = _check_entry(entry, named) if isinstance(entry, Mapping) else []
            if faults:
                errors += [Finding(named, f"{fault}. [{place}]") for fault in faults]
                del changed[variable]
        elif variable in values:
            for table in (values, reasons, origins):
                table.pop(variable, None)
        else:
            hint = (
                did_you_mean(variable, [key for key in values if isinstance(key, str)])
                if isinstance(variable, str)
                else ""
            )
            known = ", ".join(sorted(key for key in values if isinstance(key, str))) or "none"
            message = f"{named}: null removes a variable, but profile {name} does not set this one" + (
                f", {hint}" if hint else "."
            )
            errors.append(
                Finding(named, f"{message} It sets: {known}. Write one of these, or drop the line. [{place}]")
            )
    for table, new in zip((values, reasons, origins), _declared(changed, place, f"set by {place}")):
        table.update(new)
    return errors


def _mapping(value, what):
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidProfile(
            f"{what}: must be a mapping, not {kind_of(value)} ({show(value)}). Write NAME: value pairs, or {{}}."
        )
    return value


def _is_list(value):
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _plain(value, depth=0):
    """The same data without the string and container subclasses that Ansible passes."""
    if depth > MAX_DEPTH:
        raise InvalidProfile("a profile is nested too deeply, does an anchor refer to itself?")
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {_plain(key, depth + 1): _plain(item, depth + 1) for key, item in value.items()}
    if _is_list(value):
        return [_plain(item, depth + 1) for item in value]
    return value
