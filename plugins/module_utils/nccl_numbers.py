# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of one number: NCCL reads the digits in front and drops the rest, so only plain decimal passes."""

from __future__ import annotations

import math
import re

from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import Refused, consequence, kind_of

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
TRUE_WORDS = ("true", "yes", "on", "y", "t", "enable", "enabled")
FALSE_WORDS = ("false", "no", "off", "n", "f", "disable", "disabled")


def is_integer(variable):
    if variable.kind in ("bool01", "int", "bytes"):
        return True
    return variable.kind == "enum" and all(choice.isdigit() for choice in variable.choices)


def integer_choices(variable):
    return (0, 1) if variable.kind == "bool01" else tuple(int(choice) for choice in variable.choices)


def lowest(variable):
    return INT64_MIN if variable.low is None else variable.low


def highest(variable):
    return INT64_MAX if variable.high is None else variable.high


def check_integer(variable, value):
    if isinstance(value, bool):
        raise Refused("a boolean, and NCCL reads the word as 0 or as unset", _if_switch(variable, int(value)))
    if isinstance(value, int):
        return _check_range(variable, int(value)), _small(variable, int(value))
    if isinstance(value, float):
        raise Refused(*_about_float(variable, value))
    if isinstance(value, str):
        text = str.__str__(value)
        if len(text) < 21 and re.fullmatch(r"0|-?[1-9][0-9]*", text, re.ASCII):
            return _check_range(variable, int(text)), _small(variable, int(text))
        raise Refused(*_about_text(variable, text))
    raise Refused(f"{kind_of(value)} where NCCL needs one whole number")


def _check_range(variable, number):
    choices = integer_choices(variable)
    if choices:
        if number not in choices:
            below = [choice for choice in choices if choice < number][-1:]
            above = [choice for choice in choices if choice > number][:1]
            raise Refused(
                "not a legal value" + consequence(variable), " or ".join(str(choice) for choice in below + above)
            )
        return str(number)
    low, high = lowest(variable), highest(variable)
    if number < low:
        raise Refused("too small" + consequence(variable), f"{low} or more")
    if number > high:
        raise Refused("too large" + consequence(variable), f"{high} or less")
    step = variable.multiple_of
    if number % step:
        raise Refused(
            f"not a multiple of {step}" + consequence(variable),
            f"{number - number % step} or {number - number % step + step}",
        )
    if variable.power_of_two and number & (number - 1):
        down = 1 << (number.bit_length() - 1)
        raise Refused(
            "not a power of two" + consequence(variable), f"{down} or {2 * down}" if 2 * down <= high else f"{down}"
        )
    return str(number)


def _small(variable, number):
    """A size without its unit is a likely slip that NCCL takes at its word."""
    if variable.kind == "bytes" and variable.low == 1 and number < 1024:
        return [f"only {number} bytes; NCCL counts in bytes and does not check the size"]
    return []


def _if_legal(variable, number, remark=""):
    """`number` as a proposal, or what makes it illegal too."""
    try:
        return _check_range(variable, number) + remark
    except Refused as refused:
        return f"{refused.write} ({number} is {refused.why.partition(' (')[0]})"


def _if_switch(variable, number):
    """0 or 1 as a proposal where the variable is a switch."""
    return _if_legal(variable, number) if integer_choices(variable) else "a whole number"


def _about_float(variable, value):
    why = "YAML made a float of it, and NCCL reads only the digits before the point or the exponent"
    if math.isfinite(value) and abs(value) < 2.0**63 and value == int(value):
        return why, _if_legal(variable, int(value), " (digits only, no point and no exponent)")
    return why, "a whole number, digits only"


def _about_text(variable, text):
    """Why a text is not a plain decimal number, and the number that was probably meant."""
    if not text.strip():
        return (
            "empty, and an empty value still counts as set",
            f"a number, or leave the variable out (default: {variable.default})",
        )
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
