# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check an NCCL environment and bring it into the one spelling that every NCCL release reads the same way.

NCCL never reports a bad value: `4MB` is 4, `010` is 8, `true` is 0, and a misspelt name is not read at all.
So everything that NCCL would misread is refused here, with the words to write instead.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import reprlib
from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_catalogue import (
    FUNCTIONS,
    NOT_READ_BY_NCCL,
    NOT_READ_BY_NCCL_PREFIXES,
    VARIABLES,
)

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
# NCCL cuts a longer value when it comes from a configuration file.
MAX_LENGTH = 1023
# A long list of faults is one mistake seen many times; nobody reads more lines than this.
MAX_FAULTS_SHOWN = 50

UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
TRUE_WORDS = ("true", "yes", "on", "y", "t", "enable", "enabled")
FALSE_WORDS = ("false", "no", "off", "n", "f", "disable", "disabled")

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


class _Refused(Exception):
    """Why one value is refused, and what to write instead (empty when nothing better is known)."""

    def __init__(self, why, write=""):
        super().__init__(why)
        self.why = why
        self.write = write


def validate_env(env):
    """Return `env` with canonical string values, sorted by name; raise InvalidEnvironment with every fault."""
    canonical, errors, _warnings = check_env(env)
    if errors:
        raise InvalidEnvironment(errors)
    return canonical


def check_env(env):
    """Return (canonical values, errors, warnings) of `env`; the values hold only the variables without a fault."""
    if not isinstance(env, Mapping):
        message = f"the NCCL environment must be a mapping of variable to value, not {kind_of(env)} ({show(env)}). Write NAME: value pairs, or {{}}."
        return {}, [Finding("", message)], []
    canonical, errors, warnings = {}, [], []
    for key, value in env.items():
        if not isinstance(key, str):
            message = f"{show(key)}: the name of a variable must be a string, not {kind_of(key)}. Write a name such as NCCL_ALGO."
            errors.append(Finding(show(key), message))
            continue
        name = str.__str__(key)
        fault = _check_name(name, suggest=len(errors) < MAX_FAULTS_SHOWN)
        if fault:
            errors.append(Finding(name, f"{_label(name)}={show(value)}: {fault}"))
            continue
        variable = VARIABLES[name]
        try:
            canonical[name], notes = _check_value(name, variable, value)
        except _Refused as refused:
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
    names = list(dict.fromkeys(_label(error.variable) for error in errors if error.variable))
    listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    more = [f"... and {len(lines) - MAX_FAULTS_SHOWN} more"] if len(lines) > MAX_FAULTS_SHOWN else []
    return "\n".join([f"{len(lines)} faults in {subject} ({listed}):"] + [f"- {line}" for line in lines[:MAX_FAULTS_SHOWN] + more])


def show(value):
    """A short repr that works for every object, whatever its size or its own repr."""
    if isinstance(value, str):
        value = str.__str__(value)
    try:
        return _SHORT.repr(value)
    except Exception:  # a repr may raise anything, and this one only decorates an error message
        return f"<{type(value).__name__}>"


def kind_of(value):
    """The YAML word for the type of a value."""
    if value is None:
        return "null"
    for types, word in ((bool, "a boolean"), (int, "an integer"), (float, "a float"), (str, "a string"), (Mapping, "a mapping"), ((list, tuple), "a list")):
        if isinstance(value, types):
            return word
    return f"a {type(value).__name__}"


def did_you_mean(word, known):
    """`did you mean X, Y?` for the nearest known words, or an empty string."""
    if len(word) > 64:
        return ""
    near = difflib.get_close_matches(word, sorted(known), n=3, cutoff=0.7)
    return f"did you mean {' or '.join(near)}?" if near else ""


class _Short(reprlib.Repr):
    def __init__(self):
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = 100
        self.maxlist = self.maxtuple = self.maxdict = 6


_SHORT = _Short()


def _label(name):
    """A name as it is when it is harmless to print, quoted otherwise."""
    return name if len(name) <= 64 and re.fullmatch(r"[\x21-\x7e]+", name) else show(name)


def _fault(name, variable, value, refused):
    write = f"Write {refused.write}." if refused.write else f"Write a legal value, or leave {name} out (default: {variable.default})."
    return Finding(name, f"{name}={show(value)}: {refused.why}. Legal: {legal_values(name)}. {write}")


def _check_name(name, suggest=True):
    """Return what is wrong with the name of a variable, or an empty string."""
    variable = VARIABLES.get(name)
    if variable is not None:
        if not variable.removed:
            return ""
        instead = f"Write {variable.replaced_by} instead." if variable.replaced_by else "Remove it."
        gone = "no known NCCL release reads it" if variable.removed.startswith("<=") else f"NCCL {variable.removed} and later do not read it"
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
    hint = did_you_mean(name.strip().upper(), [known for known, entry in VARIABLES.items() if not entry.removed]) if suggest else ""
    hint = hint or "only documented NCCL_* variables and those found in the NCCL source are known."
    return f"unknown variable: {hint} NCCL ignores a name that it does not know, without a message."


_ELSEWHERE = "Remove it here, and set it in the environment of the service that reads it if it is wanted."


def _remarks(variable):
    """What to know about a variable that is accepted."""
    if variable.deprecated:
        newer = f"; its successor is {variable.replaced_by}" if variable.replaced_by else ""
        return [f"deprecated since NCCL {variable.deprecated} and still read{newer}"]
    return []


def legal_values(name):
    """The legal values of a known variable, in words."""
    variable = VARIABLES[name]
    if name in _SPECIAL:
        return _SPECIAL[name][1]
    if _is_integer(variable):
        choices = _integer_choices(variable)
        if choices:
            return ", ".join(str(choice) for choice in choices)
        text = f"a whole number from {_low(variable)} to {_high(variable)}"
        if variable.multiple_of != 1:
            text += f", a multiple of {variable.multiple_of}"
        if variable.power_of_two:
            text += ", a power of two"
        return text + (" (bytes)" if variable.kind == "bytes" else "")
    listed = ", ".join(variable.choices)
    if variable.kind == "level_enum" and variable.legacy_ints:
        return f"{listed} (or the old integers 0 to {len(variable.legacy_ints) - 1} for {', '.join(variable.legacy_ints)})"
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


def _check_value(name, variable, value):
    """Return (canonical string, notes) or raise _Refused."""
    if value is None:
        raise _Refused("null is not a value", f"a value, or remove {name} with null in nccl_env_overrides")
    if _is_integer(variable):
        return _check_integer(variable, value)
    return _check_text(name, variable, _text_of(name, variable, value))


# --- integers -------------------------------------------------------------------------------------------------------


def _is_integer(variable):
    if variable.kind in ("bool01", "int", "bytes"):
        return True
    return variable.kind == "enum" and all(choice.isdigit() for choice in variable.choices)


def _integer_choices(variable):
    return (0, 1) if variable.kind == "bool01" else tuple(int(choice) for choice in variable.choices)


def _low(variable):
    return INT64_MIN if variable.low is None else variable.low


def _high(variable):
    return INT64_MAX if variable.high is None else variable.high


def _check_integer(variable, value):
    if isinstance(value, bool):
        raise _Refused("a boolean, and NCCL reads the word as 0 or as unset", _if_switch(variable, int(value)))
    if isinstance(value, int):
        return _check_range(variable, int(value)), _small(variable, int(value))
    if isinstance(value, float):
        raise _Refused(*_about_float(variable, value))
    if isinstance(value, str):
        text = str.__str__(value)
        if len(text) < 21 and re.fullmatch(r"0|-?[1-9][0-9]*", text, re.ASCII):
            return _check_range(variable, int(text)), _small(variable, int(text))
        raise _Refused(*_about_text(variable, text))
    raise _Refused(f"{kind_of(value)} where NCCL needs one whole number")


def _check_range(variable, number):
    choices = _integer_choices(variable)
    if choices:
        if number not in choices:
            below = [choice for choice in choices if choice < number][-1:]
            above = [choice for choice in choices if choice > number][:1]
            raise _Refused("not a legal value" + _consequence(variable), " or ".join(str(choice) for choice in below + above))
        return str(number)
    low, high = _low(variable), _high(variable)
    if number < low:
        raise _Refused("too small" + _consequence(variable), f"{low} or more")
    if number > high:
        raise _Refused("too large" + _consequence(variable), f"{high} or less")
    step = variable.multiple_of
    if number % step:
        raise _Refused(f"not a multiple of {step}" + _consequence(variable), f"{number - number % step} or {number - number % step + step}")
    if variable.power_of_two and number & (number - 1):
        down = 1 << (number.bit_length() - 1)
        raise _Refused("not a power of two" + _consequence(variable), f"{down} or {2 * down}" if 2 * down <= high else f"{down}")
    return str(number)


def _small(variable, number):
    """A size without its unit is a likely slip that NCCL takes at its word."""
    if variable.kind == "bytes" and variable.low == 1 and number < 1024:
        return [f"only {number} bytes; NCCL counts in bytes and does not check the size"]
    return []


def _consequence(variable):
    return f" (NCCL itself: {variable.if_wrong.rstrip('.')})" if variable.if_wrong else ""


def _if_legal(variable, number, remark=""):
    """`number` as a proposal, or what makes it illegal too."""
    try:
        return _check_range(variable, number) + remark
    except _Refused as refused:
        return f"{refused.write} ({number} is {refused.why.partition(' (')[0]})"


def _if_switch(variable, number):
    """0 or 1 as a proposal where the variable is a switch."""
    return _if_legal(variable, number) if _integer_choices(variable) else "a whole number"


def _about_float(variable, value):
    why = "YAML made a float of it, and NCCL reads only the digits before the point or the exponent"
    if value == value and abs(value) < 2.0**63 and value == int(value):
        return why, _if_legal(variable, int(value), " (digits only, no point and no exponent)")
    return why, "a whole number, digits only"


def _about_text(variable, text):
    """Why a text is not a plain decimal number, and the number that was probably meant."""
    if not text.strip():
        return "empty, and an empty value still counts as set", f"a number, or leave the variable out (default: {variable.default})"
    clean = re.sub(r"[\s\"'\0]", "", text)
    if len(clean) > 40:
        return "not a whole number", ""
    dirty = clean != text
    if clean.lower() in TRUE_WORDS + FALSE_WORDS:
        return "a word, which NCCL reads as 0 or as unset", _if_switch(variable, int(clean.lower() in TRUE_WORDS))
    number, why, remark = _read_number(clean)
    if dirty:
        why = "blanks, quotes or control characters in a number" + (f", and {why}" if why else "")
    return why, "" if number is None else _if_legal(variable, number, remark)


def _read_number(text):
    """Return (number or None, why the text is not canonical, remark for the proposal)."""
    if re.fullmatch(r"[0-9]{1,3}([_,][0-9]{3})+|[0-9]+(_[0-9]+)+", text, re.ASCII):
        number = int(re.sub("[_,]", "", text))
        return number, "NCCL stops reading at the separator", ""
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", text, re.ASCII):
        return int(text, 16), "hexadecimal; only decimal is written, so that it reads the same everywhere", ""
    if re.fullmatch(r"0[bB][01]+|0[oO][0-7]+", text, re.ASCII):
        return int(text, 0), "NCCL does not know this number base and reads 0", ""
    match = re.fullmatch(r"([+-]?)(0*)([0-9]+)", text, re.ASCII)
    if match:
        number = int(f"{match.group(1)}{match.group(3)}")
        if not match.group(2):
            return number, "not the plain decimal form" if match.group(1) else "", ""
        octal = int(text, 8) if re.fullmatch(r"[+-]?[0-7]+", text, re.ASCII) else None
        if octal in (None, number):
            return number, "a leading 0, which NCCL reads as octal", ""
        return number, f"a leading 0, so NCCL reads it as octal: {octal}", f", or {octal} if octal was meant"
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kKmMgGtT]?)(i?[bB]|i)?", text, re.ASCII)
    if match and (match.group(2) or match.group(3)):
        scaled = _scaled(match.group(1), 1024 ** UNITS[match.group(2).upper()])
        reads = f"NCCL knows no units: it reads {int(match.group(1).partition('.')[0], 10)} and drops the rest"
        return scaled, reads, " (bytes; K, M, G and T count in steps of 1024)"
    match = re.fullmatch(r"([+-]?[0-9]+(?:\.[0-9]*)?)(?:[eE]([+-]?[0-9]{1,2}))?", text, re.ASCII)
    if match:
        exponent = int(match.group(2) or 0)
        number = _scaled(match.group(1).rstrip("."), 10**exponent) if exponent >= 0 else None
        return number, "NCCL stops reading at the point or the exponent", ""
    return None, "not a whole number, and NCCL reads the digits in front, or 0", ""


def _scaled(digits, factor):
    """digits * factor when that is whole, otherwise None; exact, without floats."""
    whole, _dot, fraction = digits.partition(".")
    number, rest = divmod(int(whole + fraction, 10) * factor, 10 ** len(fraction))
    return None if rest else number


# --- text -----------------------------------------------------------------------------------------------------------


def _text_of(name, variable, value):
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        raise _Refused("a boolean, because YAML reads the bare words yes, no, on, off, true and false so", 'the word in quotes, such as "INFO"')
    if isinstance(value, int) and variable.kind != "path" and abs(value) <= INT64_MAX:
        return str(int(value))
    if isinstance(value, (list, tuple)) and len(value) <= 64 and all(isinstance(item, str) for item in value):
        raise _Refused("a list where NCCL needs one string", _proposal(name, variable, ",".join(value)))
    raise _Refused(f"{kind_of(value)} where NCCL needs a string", "the value as a quoted string")


def _check_text(name, variable, text):
    if not text:
        raise _Refused("empty, and an empty value still counts as set", f"a value, or leave {name} out (default: {variable.default})")
    if len(text) > MAX_LENGTH:
        raise _Refused(f"{len(text)} characters long, more than the {MAX_LENGTH} that NCCL keeps", "a shorter value")
    bad = sorted(set(re.findall(r"[^\x20-\x7e]|[\"'\\]", text)))
    if bad:
        clean = re.sub(r"[^\x21-\x7e]+|[\"'\\]", " ", text).strip()
        found = ", ".join(show(character) for character in bad[:5])
        raise _Refused(f"contains {found}; no NCCL value needs quotes, backslashes, or anything but printable ASCII", _proposal(name, variable, clean))
    if text != text.strip() and name != "NCCL_DEBUG_TIMESTAMP_FORMAT":
        raise _Refused("blanks around the value, which older NCCL releases do not trim", _proposal(name, variable, text.strip()))
    if name in _SPECIAL:
        return _SPECIAL[name][0](name, variable, text)
    return _CHECKS[variable.kind](name, variable, text)


def _proposal(name, variable, text):
    """The canonical form of `text` as a proposal, or an empty string when it is no better."""
    try:
        return _check_text(name, variable, text)[0]
    except _Refused:
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
        raise _Refused("not a legal value" + _consequence(variable), _near(text, variable.choices))
    if variable.case_sensitive and spelt != text:
        return spelt, [f"written as {spelt}, because NCCL compares the case and would ignore {text!r} without a message"]
    return spelt, []


def _check_level(name, variable, text):
    if variable.legacy_ints and re.fullmatch(r"[0-9]+", text, re.ASCII):
        names = variable.legacy_ints
        if text not in [str(number) for number in range(len(names))]:
            raise _Refused(f"not one of the old integers 0 to {len(names) - 1}", names[-1] if text[0] != "0" else "")
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
            raise _Refused(f"{show(part)} is not a legal flag" + _consequence(variable), _near(part, words))
        spelt.append(word)
    joined = "|".join(spelt)
    if " " in text:
        raise _Refused("blanks between the flags", joined)
    if "ZERO" in spelt and "EFFICIENCY" in spelt:
        raise _Refused("NCCL does not combine ZERO with EFFICIENCY: it drops EFFICIENCY", "ZERO or EFFICIENCY")
    return joined, []


def _check_items(variable, items, what):
    """The catalogue's spelling of each item of a list."""
    spelt = []
    for item in items:
        word = _spell(item, variable.choices)
        if word is None:
            if not item:
                raise _Refused(f"an empty {what}", f"the {what}s with one comma between them")
            near = _near(item, variable.choices)
            raise _Refused(f"{show(item)} is not a legal {what}" + _consequence(variable), f"{near} in its place" if near else "")
        spelt.append(word)
    return spelt


def _refuse_blanks(name, variable, text):
    why = "blanks in the list, which NCCL takes as part of the word"
    try:
        write = _check_text(name, variable, text.replace(" ", ""))[0]
    except _Refused as other:
        why, write = f"{why}, and {other.why}", other.write
    raise _Refused(why, write)


def _check_func_list(name, variable, text):
    if " " in text:
        _refuse_blanks(name, variable, text)
    entries, allowed, seen = [], set(), []
    for position, entry in enumerate(text.split(";")):
        prefix, colon, rest = entry.rpartition(":")
        if colon:
            function = _spell(prefix, FUNCTIONS)
            if function is None:
                near = _near(prefix, FUNCTIONS)
                raise _Refused(f"{show(prefix)} is not an NCCL function", f"{near} in its place" if near else "")
        elif not entry:
            raise _Refused("an empty part beside ;", _proposal(name, variable, text.strip(";")))
        elif position:
            raise _Refused(f"only the first part may lack a function, {show(entry)} has none", _proposal(name, variable, text.replace(";", ",")))
        else:
            function = ""
        if function in seen:
            raise _Refused(f"{function} is named twice")
        seen.append(function)
        caret = "^" if rest.startswith("^") else ""
        tokens = _check_items(variable, rest[len(caret) :].split(","), "token")
        kept = set(variable.choices) - set(tokens) if caret else set(tokens)
        if not kept:
            raise _Refused(f"{show(entry)} excludes every token, so nothing is left to run", "fewer tokens behind ^")
        if not function:
            allowed = kept
        entries.append(f"{function}{colon}{caret}{','.join(tokens)}")
    notes = []
    if name == "NCCL_ALGO" and allowed and "Ring" not in allowed:
        notes.append("without Ring some collectives have no algorithm and fail")
    if name == "NCCL_PROTO" and any("LL128" in _forced(entry) for entry in entries):
        notes.append("this takes LL128 out of its automatic mode up to NCCL 2.30; forced on PCIe it can corrupt data. Name LL128 only behind ^")
    return ";".join(entries), notes


def _forced(entry):
    """The protocols that an entry of NCCL_PROTO switches on: those it names, or with ^ those it does not name."""
    tokens = entry.rpartition(":")[2]
    if tokens.startswith("^"):
        return {"LL", "LL128", "Simple"} - set(tokens[1:].split(","))
    return set(tokens.split(","))


def _check_list(name, variable, text):
    if " " in text:
        _refuse_blanks(name, variable, text)
    body = text.lstrip(variable.prefixes) if variable.prefixes else text
    lead = text[: len(text) - len(body)]
    if lead not in ("", "^", "=", "^="):
        raise _Refused(f"{lead} in front of the list is not understood", _proposal(name, variable, variable.prefixes[0] + body))
    items = body.split(",")
    if variable.choices:
        return lead + ",".join(_check_items(variable, items, "item")), []
    if not all(items):
        raise _Refused("an empty item in the list", _proposal(name, variable, lead + ",".join(item for item in items if item)))
    if name == "NCCL_NO_CACHE":
        for item in items:
            if item != "ALL" and item not in VARIABLES:
                raise _Refused(f"{show(item)} is no known variable, {did_you_mean(item, VARIABLES) or 'and NCCL would never match it'}")
    if name == "NCCL_SOCKET_IFNAME" and len(text) < 2:
        raise _Refused("NCCL ignores a value of one character", "the whole name of the interface")
    return text, []


def _check_path(name, variable, text):
    if not text.startswith("/"):
        raise _Refused("not absolute; NCCL expands neither ~ nor variables, and a relative path differs for each process", "a path that starts with /")
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


# --- single variables with a grammar of their own -------------------------------------------------------------------


def _check_netdevs_policy(name, variable, text):
    if text.upper() in ("AUTO", "ALL") or re.fullmatch(r"MAX:[1-9][0-9]{0,3}", text.upper(), re.ASCII):
        return text.upper(), []
    raise _Refused("not a legal value" + _consequence(variable))


def _check_addr_range(name, variable, text):
    if "/" in text:
        try:
            ipaddress.ip_network(text, strict=False)
            return text, []
        except ValueError:
            pass
    raise _Refused("not an address range" + _consequence(variable), "address/length, such as 10.0.0.0/8")


def _check_host_port(name, variable, text):
    match = re.fullmatch(r"(?:\[[0-9A-Fa-f:.%a-zA-Z0-9]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", text, re.ASCII)
    if match and 0 < int(match.group(1)) < 65536:
        return text, []
    raise _Refused("not host:port" + _consequence(variable), "host:port, an IPv6 address in square brackets")


def _check_thresholds(name, variable, text):
    if re.fullmatch(r"[0-9]{1,18}( [0-9]{1,18}){5}", text, re.ASCII):
        return text, []
    raise _Refused("not six sizes separated by one blank" + _consequence(variable), "six whole numbers")


_SPECIAL = {
    "NCCL_NETDEVS_POLICY": (_check_netdevs_policy, "AUTO, ALL, MAX:n with n from 1"),
    "NCCL_IB_ADDR_RANGE": (_check_addr_range, "address/length in CIDR form"),
    "NCCL_COMM_ID": (_check_host_port, "host:port"),
    "NCCL_RAS_ADDR": (_check_host_port, "host:port"),
    "NCCL_THREAD_THRESHOLDS": (_check_thresholds, "six whole numbers separated by one blank"),
}


# --- the environment as a whole -------------------------------------------------------------------------------------


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
            f"NCCL_NSOCKS_PERTHREAD={sockets}: times NCCL_SOCKET_NTHREADS={threads} gives {int(threads) * int(sockets)} sockets. "
            f"Legal: a product of at most 64. Write {64 // int(threads)} or less."
        )
        errors.append(Finding("NCCL_NSOCKS_PERTHREAD", message))
    return errors
