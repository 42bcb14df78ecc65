# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of one text: words in the catalogue's spelling, lists without blanks, nothing that needs quoting."""

from __future__ import annotations

import difflib
import ipaddress
import re

from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_catalogue import FUNCTIONS, VARIABLES
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_func_list import entries
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import (
    Refused,
    consequence,
    did_you_mean,
    kind_of,
    show,
)

# NCCL cuts a longer value when it comes from a configuration file.
MAX_LENGTH = 1023


def check_text(name, variable, value):
    """Return (canonical text, notes) or raise Refused."""
    return _check_text(name, variable, _text_of(name, variable, value))


def _text_of(name, variable, value):
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        raise Refused(
            "a boolean, because YAML reads the bare words yes, no, on, off, true and false so",
            'the word in quotes, such as "INFO"',
        )
    if isinstance(value, int) and variable.kind != "path" and abs(value) < 2**63:
        return str(int(value))
    if isinstance(value, (list, tuple)) and len(value) <= 64 and all(isinstance(item, str) for item in value):
        raise Refused("a list where NCCL needs one string", _proposal(name, variable, ",".join(value)))
    raise Refused(f"{kind_of(value)} where NCCL needs a string", "the value as a quoted string")


def _check_text(name, variable, text):
    if not text.strip():
        raise Refused(
            "empty, and an empty value still counts as set",
            f"a value, or leave {name} out (default: {variable.default})",
        )
    if len(text) > MAX_LENGTH:
        raise Refused(f"{len(text)} characters long, more than the {MAX_LENGTH} that NCCL keeps", "a shorter value")
    bad = sorted(set(re.findall(r"[^\x20-\x7e]|[\"'\\]", text)))
    if bad:
        clean = re.sub(r"[^\x21-\x7e]+|[\"'\\]", " ", text).strip()
        found = ", ".join(show(character) for character in bad[:5])
        raise Refused(
            f"contains {found}; no NCCL value needs quotes, backslashes, or anything but printable ASCII",
            _proposal(name, variable, clean),
        )
    if text != text.strip() and name != "NCCL_DEBUG_TIMESTAMP_FORMAT":
        raise Refused(
            "blanks around the value, which older NCCL releases do not trim", _proposal(name, variable, text.strip())
        )
    if name in SPECIAL:
        return SPECIAL[name][0](name, variable, text)
    return _CHECKS[variable.kind](name, variable, text)


def _proposal(name, variable, text):
    """The canonical form of `text` as a proposal, or an empty string when it is no better."""
    try:
        return _check_text(name, variable, text)[0]
    except Refused:
        return ""


def _spell(word, choices):
    """The catalogue's spelling of a word, or None."""
    return next((choice for choice in choices if choice.lower() == word.lower()), None)


def _near(word, choices):
    """The nearest of the choices to a misspelt word, or an empty string."""
    by_lower = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(word.lower()[:64], sorted(by_lower), n=1, cutoff=0.6)
    return by_lower[near[0]] if near else ""


def _check_enum(name, variable, text):
    spelt = _spell(text, variable.choices)
    if spelt is None:
        raise Refused("not a legal value" + consequence(variable), _near(text, variable.choices))
    if variable.case_sensitive and spelt != text:
        return spelt, [
            f"written as {spelt}, because NCCL compares the case and would ignore {text!r} without a message"
        ]
    return spelt, []


def _check_level(name, variable, text):
    if variable.legacy_ints and re.fullmatch(r"[0-9]+", text, re.ASCII):
        names = variable.legacy_ints
        if text not in [str(number) for number in range(len(names))]:
            raise Refused(f"not one of the old integers 0 to {len(names) - 1}", names[-1] if text[0] != "0" else "")
        return names[int(text)], [f"written as {names[int(text)]}, the name of the old integer {text}"]
    return _check_enum(name, variable, text)


def _check_flags(name, variable, text):
    if text in variable.choices and text.isdigit():
        return text, []
    words = [choice for choice in variable.choices if not choice.isdigit()]
    spelt = []
    for part in text.split("|"):
        word = _spell(part.strip(), words)
        if word is None:
            raise Refused(f"{show(part)} is not a legal flag" + consequence(variable), _near(part, words))
        spelt.append(word)
    joined = "|".join(spelt)
    if " " in text:
        raise Refused("blanks between the flags", joined)
    if "ZERO" in spelt and "EFFICIENCY" in spelt:
        raise Refused("NCCL does not combine ZERO with EFFICIENCY: it drops EFFICIENCY", "ZERO or EFFICIENCY")
    return joined, []


def _check_items(variable, items, what):
    """The catalogue's spelling of each item of a list."""
    spelt = []
    for item in items:
        word = _spell(item, variable.choices)
        if word is None:
            if not item:
                raise Refused(f"an empty {what}", f"the {what}s with one comma between them")
            near = _near(item, variable.choices)
            raise Refused(
                f"{show(item)} is not a legal {what}" + consequence(variable), f"{near} in its place" if near else ""
            )
        spelt.append(word)
    return spelt


def _refuse_blanks(name, variable, text):
    why = "blanks in the list, which NCCL takes as part of the word"
    try:
        write = _check_text(name, variable, text.replace(" ", ""))[0]
    except Refused as other:
        why, write = f"{why}, and {other.why}", other.write
    raise Refused(why, write)


def _check_func_list(name, variable, text):
    if " " in text:
        _refuse_blanks(name, variable, text)
    parts, allowed, seen = [], set(), []
    for position, entry in enumerate(text.split(";")):
        prefix, colon, rest = entry.rpartition(":")
        if colon:
            function = _spell(prefix, FUNCTIONS)
            if function is None:
                near = _near(prefix, FUNCTIONS)
                raise Refused(f"{show(prefix)} is not an NCCL function", f"{near} in its place" if near else "")
        elif not entry:
            raise Refused("an empty part beside ;", _proposal(name, variable, text.strip(";")))
        elif position:
            raise Refused(
                f"only the first part may lack a function, {show(entry)} has none",
                _proposal(name, variable, text.replace(";", ",")),
            )
        else:
            function = ""
        if function in seen:
            raise Refused(f"{function} is named twice")
        seen.append(function)
        caret = "^" if rest.startswith("^") else ""
        tokens = _check_items(variable, rest[len(caret) :].split(","), "token")
        kept = set(variable.choices) - set(tokens) if caret else set(tokens)
        if not kept:
            raise Refused(f"{show(entry)} excludes every token, so nothing is left to run", "fewer tokens behind ^")
        if not function:
            allowed = kept
        parts.append(f"{function}{colon}{caret}{','.join(tokens)}")
    notes = []
    if name == "NCCL_ALGO" and allowed and "Ring" not in allowed:
        notes.append("without Ring some collectives have no algorithm and fail")
    canonical = ";".join(parts)
    if name == "NCCL_PROTO" and any("LL128" in entry.tokens for entry in entries(canonical, variable.choices)):
        notes.append(
            "this takes LL128 out of its automatic mode up to NCCL 2.30; forced on PCIe it can corrupt data. "
            "Name LL128 only behind ^"
        )
    return canonical, notes


def _check_list(name, variable, text):
    if " " in text:
        _refuse_blanks(name, variable, text)
    body = text.lstrip(variable.prefixes) if variable.prefixes else text
    lead = text[: len(text) - len(body)]
    if lead not in ("", "^", "=", "^="):
        raise Refused(
            f"{lead} in front of the list is not understood", _proposal(name, variable, variable.prefixes[0] + body)
        )
    items = body.split(",")
    if variable.choices:
        return lead + ",".join(_check_items(variable, items, "item")), []
    if not all(items):
        raise Refused(
            "an empty item in the list", _proposal(name, variable, lead + ",".join(item for item in items if item))
        )
    if name == "NCCL_NO_CACHE":
        for item in items:
            if item != "ALL" and item not in VARIABLES:
                hint = did_you_mean(item, VARIABLES) or "and NCCL would never match it"
                raise Refused(f"{show(item)} is no known variable, {hint}")
    if name == "NCCL_SOCKET_IFNAME" and len(text) < 2:
        raise Refused("NCCL ignores a value of one character", "the whole name of the interface")
    return text, []


def _check_path(name, variable, text):
    if not text.startswith("/"):
        raise Refused(
            "not absolute; NCCL expands neither ~ nor variables, and a relative path differs for each process",
            "a path that starts with /",
        )
    return text, []


def _check_string(name, variable, text):
    return text, []


_CHECKS = {
    "enum": _check_enum,
    "level_enum": _check_level,
    "enum_flags": _check_flags,
    "func_list": _check_func_list,
    "list": _check_list,
    "path": _check_path,
    "string": _check_string,
}


# --- single variables with a grammar of their own ---------------------------------------------------------


def _check_netdevs_policy(name, variable, text):
    if text.upper() in ("AUTO", "ALL") or re.fullmatch(r"MAX:[1-9][0-9]{0,3}", text.upper(), re.ASCII):
        return text.upper(), []
    raise Refused("not a legal value" + consequence(variable))


def _check_addr_range(name, variable, text):
    if "/" in text:
        try:
            ipaddress.ip_network(text, strict=False)
            return text, []
        except ValueError:
            pass
    raise Refused("not an address range" + consequence(variable), "address/length, such as 10.0.0.0/8")


def _check_host_port(name, variable, text):
    match = re.fullmatch(r"(?:\[[0-9A-Fa-f:.%a-zA-Z0-9]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", text, re.ASCII)
    if match and 0 < int(match.group(1)) < 65536:
        return text, []
    raise Refused("not host:port" + consequence(variable), "host:port, an IPv6 address in square brackets")


def _check_thresholds(name, variable, text):
    if re.fullmatch(r"[0-9]{1,18}( [0-9]{1,18}){5}", text, re.ASCII):
        return text, []
    raise Refused("not six sizes separated by one blank" + consequence(variable), "six whole numbers")


SPECIAL = {
    "NCCL_NETDEVS_POLICY": (_check_netdevs_policy, "AUTO, ALL, MAX:n with n from 1"),
    "NCCL_IB_ADDR_RANGE": (_check_addr_range, "address/length in CIDR form"),
    "NCCL_COMM_ID": (_check_host_port, "host:port"),
    "NCCL_RAS_ADDR": (_check_host_port, "host:port"),
    "NCCL_THREAD_THRESHOLDS": (_check_thresholds, "six whole numbers separated by one blank"),
}
