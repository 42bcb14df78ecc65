# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the name of a profile into the settings that it stands for, with the inventory's own changes applied."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_validate import Finding, check_env, describe
from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_form import (
    SGLANG_KEYS,
    InvalidProfile,
    check_entry,
    check_profile,
    mapping,
    plain,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import did_you_mean, kind_of, label, show

NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
MAX_BASES = 20
NAME_RULE = "a lower-case letter, then lower-case letters, digits and underscores"


def resolve(name, shipped, tuning_profiles=None, overrides=None):
    """Return the resolved profile, see resolve_with_warnings."""
    return resolve_with_warnings(name, shipped, tuning_profiles, overrides)[0]


def resolve_with_warnings(name, shipped, tuning_profiles=None, overrides=None):
    """Return (profile, warnings): the named profile in plain, canonical data.

    A profile of `tuning_profiles` replaces the shipped one of the same name as a whole.
    `overrides` sets single variables of its env; null removes one.
    """
    shipped = mapping(shipped, "the shipped profiles")
    own = mapping(tuning_profiles, "tuning_profiles")
    overrides = mapping(overrides, "nccl_env_overrides")
    name = _known_name(name, shipped, own)
    origin = f"profile {name}" + (" of tuning_profiles" if name in own else "")
    settings = _settings(name, shipped, own)

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
        "lesson": plain(settings["lesson"] or "").strip(),
        "env": env,
        "reasons": {variable: reasons[variable] for variable in env},
        "sglang": {key: plain(settings["sglang"].get(key) or {}) for key in SGLANG_KEYS},
        "allreduce": settings["allreduce"],
        "requires": plain(settings["requires"]),
        "evidence": plain(settings["evidence"]),
    }
    # A shipped profile gives its reasons itself; only what the inventory says is worth a warning.
    warnings = [
        f"{note.message} [{origins[note.variable]}]" for note in notes if name in own or note.variable in overrides
    ]
    if settings["status"] == "dead_end":
        warnings.insert(0, f"profile {name} is a dead end, it was tried and failed: {settings['summary']}")
    return profile, warnings


def _settings(name, shipped, own, above=()):
    """The checked profile, with the env of the profile that it is based on under its own, and what that requires where it says nothing."""
    origin = f"profile {name}" + (" of tuning_profiles" if name in own else "")
    settings = check_profile(own[name] if name in own else shipped[name], origin)
    base = settings["based_on"]
    if base is None:
        return settings
    base = str.__str__(base)
    if base in (*above, name):
        raise InvalidProfile(f"{origin}: based_on: {' -> '.join((*above, name, base))} goes round in a circle.")
    known = sorted({*shipped, *own})
    if base not in known:
        hint = did_you_mean(base, known)
        raise InvalidProfile(
            f"{origin}: based_on: unknown profile {show(base)}"
            + (f", {hint}" if hint else ".")
            + f" Known: {', '.join(known)}."
        )
    if len(above) > MAX_BASES:
        raise InvalidProfile(
            f"{origin}: based_on: more than {MAX_BASES} profiles, each based on the next. Write out the env."
        )
    below = _settings(base, shipped, own, (*above, name))
    if below["status"] == "dead_end" and settings["status"] != "dead_end":
        raise InvalidProfile(
            f"{origin}: based_on: {base} is a dead end, and a profile based on it is one too. Legal: status: dead_end with a lesson, "
            f"or another profile to start from."
        )
    env = dict(below["env"])
    for variable, entry in settings["env"].items():
        if entry is None and variable in env:
            del env[variable]
        else:
            env[variable] = entry
    requires = settings["requires"] if settings["says_requires"] else below["requires"]
    return {**settings, "env": env, "requires": requires}


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
            faults = check_entry(entry, named) if isinstance(entry, Mapping) else []
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
