# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of SGLang's server: which a version knows, what each may hold, and how it is written for that version.

An option is named as the newest known version names its field (tp_size), whatever version is installed. SGLang takes
abbreviations and guesses, and a guess that became ambiguous with a release ends the start: only exact spellings leave here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_form import (
    MAX_DEPTH,
    InvalidProfile,
    is_list,
    plain,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_catalogue import (
    INSTEAD,
    KNOWN_VERSIONS,
    OPTIONS,
    RENAMED,
    Form,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.version_window import InvalidVersion, parse_version
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import did_you_mean, kind_of, label, show

# What the role sets itself, and where it is said. A secret in `args` would be shown by every play that prints a plan.
RESERVED = {
    "model_path": "is the instance's `model`",
    "speculative_draft_model_path": "is the instance's `draft_model`",
    "host": "is the instance's `host`",
    "port": "is the instance's `port`",
    "config": "names the file that is written from these arguments: write the options themselves here",
    "api_key": "is a secret: write it as the instance's `api_key`",
    "admin_api_key": "is a secret: write it as the instance's `admin_api_key`",
    "ssl_keyfile_password": "is a secret, and would be in a file and in the journal: use a key file without a password "
    "that only the service's user can read",
    "watermark_config": "holds secret keys, and would be in a file and in the journal: it cannot be set here",
}

# What one option of today was in versions that lack it: value -> (option, value) of then.
FORMERLY = {
    "flashinfer_allreduce_fusion_backend": {"auto": ("enable_flashinfer_allreduce_fusion", True)},
    "cuda_graph_backend_prefill": {
        "disabled": ("disable_piecewise_cuda_graph", True),
        "breakable": ("enable_breakable_cuda_graph", True),
        "tc_piecewise": ("enforce_piecewise_cuda_graph", True),
    },
}

# Values that SGLang's parser takes, and the server stumbles over when the old one has been stopped: option -> (words, lowest, highest).
RANGES = {
    "mem_fraction_static": ("above 0, at most 1", 1e-9, 1),
    **dict.fromkeys(("tp_size", "pp_size", "dp_size", "nnodes"), ("1 or more", 1, math.inf)),
}
# A plugin may bring others, so only what is nearly one of these is taken for a slip.
ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH", "DSPARK", "UNO")

MAX_TEXT = 4096
# What argparse takes for a number although it begins like an option.
_NEGATIVE = re.compile(r"-\d+|-\d*\.\d+", re.ASCII)
_SIZE = re.compile(r"[0-9]{1,18}(?:(?:\.[0-9]{1,9})?[kMGT]|[KMGT]i)?", re.ASCII)


class UnknownVersion(ValueError):
    """Not a version, or one that is older than every known one."""


def table_version(version: str) -> tuple:
    """(known version whose options count, a remark when it is not exactly that one). Raises UnknownVersion."""
    try:
        found = parse_version(version)
    except InvalidVersion as error:
        raise UnknownVersion(f"sglang_version: {error}") from error
    if found < parse_version(KNOWN_VERSIONS[0]):
        raise UnknownVersion(
            f"SGLang {version} is older than {KNOWN_VERSIONS[0]}, the oldest that is supported. Install a newer one; the options "
            f"of {span(KNOWN_VERSIONS)} are known."
        )
    older = [known for known in KNOWN_VERSIONS if parse_version(known) <= found]
    if parse_version(older[-1]) == found:
        return older[-1], ""
    following = _candidates(older[-1], True)[1:]
    what, those = "newer than the newest", older[-1]
    if following:
        what, those = "none of those", f"{older[-1]}, and what is new in {following[0]}"
    return older[-1], (
        f"SGLang {version} is {what} whose options are known ({span(KNOWN_VERSIONS)}): its options are taken to be those of "
        f"{those}, and its own parser has the last word."
    )


def _candidates(known: str, between: bool) -> tuple:
    """Whose forms count. A release between two known ones has most of the older one, and perhaps some of the newer one."""
    at = KNOWN_VERSIONS.index(known)
    return KNOWN_VERSIONS[at : at + 2] if between else (known,)


def _versions(version: str) -> tuple:
    known, remark = table_version(version)
    return _candidates(known, bool(remark))


def form_of(field: str, version: str) -> Form | None:
    """How a known version writes the option, or None."""
    at = KNOWN_VERSIONS.index(version)
    for form in OPTIONS.get(field, ()):
        if KNOWN_VERSIONS.index(form.since) <= at <= KNOWN_VERSIONS.index(form.until):
            return form
    return None


def span(versions: list) -> str:
    """Known versions in a few words: ``0.5.11 to 0.5.13, 0.5.23``."""
    runs = []
    for at in map(KNOWN_VERSIONS.index, versions):
        if runs and runs[-1][-1] == at - 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    ends = [(KNOWN_VERSIONS[run[0]], KNOWN_VERSIONS[run[-1]]) for run in runs]
    return ", ".join(first if first == last else f"{first} to {last}" for first, last in ends)


def known_in(field: str) -> list:
    """The known versions that have the option."""
    return [version for version in KNOWN_VERSIONS if form_of(field, version)]


def complaints(args: Mapping, version: str, where: str) -> list:
    """What is wrong with these arguments for that version, one sentence each. Raises UnknownVersion."""
    versions = _versions(version)
    if not isinstance(args, Mapping):
        return [
            f"{where}: must be a mapping of option: value, not {kind_of(args)} ({show(args)}). Write {{}} for none."
        ]
    found = []
    for name, value in args.items():
        try:
            fault = _fault(name, value, versions)
        except InvalidProfile:
            fault = f"is nested deeper than {MAX_DEPTH} levels. Does an anchor refer to itself?"
        if fault:
            shown = label(name) if isinstance(name, str) else show(name)
            found.append(f"{where}.{shown}: {fault}.")
    return found


def config(args: Mapping, version: str) -> dict:
    """Keys and values of the --config file. Arguments that have a complaint give nonsense or an exception."""
    versions = _versions(version)
    return {form.option: _in_file(form.kind, value) for form, value in _set(args, versions) if form.in_file}


def words(args: Mapping, version: str) -> list:
    """What SGLang's --config file cannot hold, as words of the command line."""
    versions = _versions(version)
    found = []
    for form, value in _set(args, versions):
        if not form.in_file:
            found += _as_words(form, value)
    return found


def _set(args, versions):
    """(form, value) of each option that is set, in a fixed order; null, and false for a flag, say nothing."""
    for field in sorted(args):
        form, value = _placed(field, plain(args[field]), versions)
        if form is not None and value is not None and not (form.kind == "flag" and value is False):
            yield form, value


def _placed(field, value, versions):
    """The form and value for the first of these versions that takes the value, or else that has the option."""
    first = None
    for version in versions:
        form, placed = _placed_in(field, value, version)
        if form is not None:
            if not _KINDS[form.kind](placed, form):
                return form, placed
            first = first or (form, placed)
    return first or (None, value)


def _placed_in(field, value, known):
    """The same for one version, by way of what the option was before it had its name."""
    form = form_of(field, known)
    former = FORMERLY.get(field, {}) if form is None and KNOWN_VERSIONS.index(known) < _first(field) else {}
    if isinstance(value, str) and value in former:
        field, value = former[value]
        form = form_of(field, known)
    return form, value


def _first(field):
    return KNOWN_VERSIONS.index(OPTIONS[field][0].since)


def _fault(name, value, versions):
    if not isinstance(name, str):
        return f"the name of an option must be a string, not {kind_of(name)}"
    name = str.__str__(name)
    if name in RESERVED or RENAMED.get(name) in RESERVED:
        return RESERVED[RENAMED.get(name, name)]
    if name not in OPTIONS:
        return _unknown(name)
    if value is None:
        return ""  # takes away what a profile sets, whatever the version
    form, value = _placed(name, plain(value), versions)
    if form is None:
        return _not_in(name, value, versions[0])
    return _KINDS[form.kind](value, form) or _beyond(name, value)


def _beyond(name, value):
    words, lowest, highest = RANGES.get(name, ("", -math.inf, math.inf))
    if words and not lowest <= value <= highest:
        return f"{value} is not legal. Legal: {words}"
    if name == "speculative_algorithm" and value.upper() not in ALGORITHMS:
        near = did_you_mean(value.upper(), ALGORITHMS)
        return f"{show(value)} is no algorithm of SGLang, {near} Known: {', '.join(ALGORITHMS)}" if near else ""
    return ""


def _unknown(name):
    spelled = name.lstrip("-").replace("-", "_")
    if spelled in RENAMED:
        return (
            f"SGLang knows this as {RENAMED[spelled]}. Write {RENAMED[spelled]}; what it is called in the installed version "
            "is seen to"
        )
    if spelled in OPTIONS:
        return f"write {spelled}: options are named as SGLang's own fields, without dashes"
    if spelled in INSTEAD:
        return f"SGLang has given this up and names {INSTEAD[spelled]} instead"
    begin = sorted(field for field in OPTIONS if len(spelled) > 1 and field.startswith(f"{spelled}_"))
    hint = f"did you mean {' or '.join(begin)}?" if 0 < len(begin) <= 3 else did_you_mean(spelled, OPTIONS)
    return (
        f"SGLang has no such option{', ' + hint.rstrip('?') + '?' if hint else '.'} "
        f"Known are the {len(OPTIONS)} of SGLang {span(KNOWN_VERSIONS)}; "
        "`python -m sglang.launch_server --help` lists those of an installed one"
    )


def _not_in(name, value, known):
    instead = f"; SGLang names {INSTEAD[name]} instead" if name in INSTEAD else ""
    former = FORMERLY.get(name, {})
    if former and KNOWN_VERSIONS.index(known) < _first(name):
        instead = f", where only {' or '.join(map(show, former))} of it can be had, and not {show(value)}"
    return (
        f"not an option of SGLang {known}{instead}. Known in {span(known_in(name))}. "
        "Leave it out, or install one of these versions"
    )


def _text(value, form):
    if not isinstance(value, str):
        return f"must be a string, not {kind_of(value)} ({show(value)}). Write it in quotes"
    if form.choices and value not in form.choices.split():
        near = did_you_mean(value, form.choices.split())
        return f"{show(value)} is not legal{', ' + near if near else '.'} Legal: {', '.join(form.choices.split())}"
    return _harmless(value)


def _harmless(value):
    if len(value) > MAX_TEXT:
        return f"is longer than {MAX_TEXT} characters"
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        return f"{show(value)} holds a character that no command line can carry"
    if value.startswith("-") and not _NEGATIVE.fullmatch(value):
        return f"{show(value)} begins with a dash, and SGLang would take it for an option. Write it without"
    return ""


def _int(value, form):
    if isinstance(value, bool) or not isinstance(value, int):
        return f"must be a whole number without quotes, not {kind_of(value)} ({show(value)})"
    if form.choices and str(value) not in form.choices.split():
        return f"{value} is not legal. Legal: {', '.join(form.choices.split())}"
    return "" if abs(value) < 2**63 else f"{show(value)} is beyond 64 bits"


def _float(value, form):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"must be a number without quotes, not {kind_of(value)} ({show(value)})"
    if not math.isfinite(value):
        return f"{value} is not a number that SGLang can use"
    return _harmless(str(value))


def _size(value, form):
    if isinstance(value, str) and _SIZE.fullmatch(value):
        return ""
    fault = _int(value, form)
    return f"must be a whole number, or one with a unit such as '32k' or '128Ki', not {show(value)}" if fault else ""


def _flag(value, _form):
    return "" if isinstance(value, bool) else f"must be true or false, not {kind_of(value)} ({show(value)})"


def _list_of(check, what):
    def fault(value, form):
        if not is_list(value) or not value:
            return f"must be a list of {what}, and not an empty one, not {show(value)}"
        for item in value:
            found = check(item, form)
            if found:
                return f"in {show(value)}: {found}"
        return ""

    return fault


def _text_or_number(value, form):
    """SGLang reads a list of buckets, for instance, as words: ["tse", 1000, 2, 8]."""
    return "" if isinstance(value, (int, float)) and not isinstance(value, bool) else _text(value, form)


def _json_of(types, what):
    def fault(value, _form):
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                pass
        if not isinstance(value, types):
            return f"must be {what}, not {kind_of(value)} ({show(value)})"
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            return f"cannot be written as JSON ({error})"
        return ""

    return fault


def _adapter(value, form):
    if isinstance(value, dict):
        missing = [key for key in ("lora_name", "lora_path") if not isinstance(value.get(key), str)]
        return f"lacks {' and '.join(missing)}" if missing else ""
    return _text(value, form)


_KINDS = {
    "text": _text,
    "texts": _list_of(_text_or_number, "strings"),
    "int": _int,
    "ints": _list_of(_int, "whole numbers"),
    "float": _float,
    "floats": _list_of(_float, "numbers"),
    "size": _size,
    "flag": _flag,
    "switch": _flag,
    "json": _json_of((dict, list), "a mapping or a list"),
    "json_mapping": _json_of(dict, "a mapping"),
    "json_list": _json_of(list, "a list"),
    "lora": _list_of(_adapter, "strings NAME=PATH, or of mappings with lora_name and lora_path"),
}


def _in_file(kind, value):
    """Lists stay lists; SGLang hands each item on as a word, which is right for a list option and wrong for JSON."""
    if kind.startswith("json"):
        return _json_text(value)
    if kind == "texts":
        return [str(item) for item in value]
    return value


def _as_words(form, value):
    if form.kind == "flag":
        return [f"--{form.option}"]
    if form.kind == "switch":
        return [f"--{form.option}" if value else f"--no-{form.option}"]
    if form.kind.startswith("json"):
        return [f"--{form.option}", _json_text(value)]
    items = value if isinstance(value, list) else [value]
    return [f"--{form.option}", *(_json_text(item) if isinstance(item, dict) else str(item) for item in items)]


def _json_text(value):
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
