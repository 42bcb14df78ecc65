# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a start of SGLang failed, from its log: cause, the lines that show it, what to do, which setting to change. The root before what follows from it."""

from __future__ import annotations

import re
import string
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_log
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_causes import (
    CAUSES,
    CONSEQUENCE,
    LOGGED,
    ROOT,
    Cause,
)

MOST_ALIKE = 20  # lines that differ in their numbers only: the ranks, and what is written again and again
MOST_LINES = 6  # shown for one cause
LONGEST_SHOWN = 400  # characters of such a line
KINDS = (ROOT, CONSEQUENCE, LOGGED)
UNRECOGNISED = "unrecognised"
SILENT = "no_words"

_NUMBER = re.compile(r"\d+")
_GAP = "\0"
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):")
_BETWEEN_TRACEBACKS = re.compile(r"During handling of the above|The above exception was")
_EXCEPTION = re.compile(
    r"(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|Failure|Warning)\b(?::|$)|Exception: "
)
_COMMAND_ERROR = re.compile(r"(?:[\w./-]{1,80}:? ){0,3}(?:error|Error|ERROR|fatal|FATAL): ?\S")


class Finding(NamedTuple):
    """``name``: of the cause in the table; ``cause``, ``advice``: sentences; ``lines``: list of text; ``setting``: empty where it is none.

    ``kind``: root, consequence, or logged (SGLang goes on without it).
    """

    cause: str
    lines: list
    advice: str
    setting: str
    name: str
    kind: str


class _Hit(NamedTuple):
    cause: Cause
    position: int
    line: str
    groups: dict


def diagnose(text: str, exit_status: Optional[int] = None, causes: tuple = CAUSES) -> list:
    """List of Finding, most likely first; empty for a log of a server that started. ``exit_status``: 128 and more for a signal.

    Of several starts in the log the last one that says something is meant.
    """
    lines = sglang_log.pieces(sglang_log.redacted(text))
    for start in reversed(sglang_log.starts(lines)):
        found = _of_one_start(start, exit_status, causes)
        if found or any(sglang_log.READY in line for line in start):
            return found
    return _without_words(lines, exit_status, causes)


def as_dicts(findings: list) -> list:
    return [finding._asdict() for finding in findings]


def in_lines(findings: list) -> list:
    """The findings for a person."""
    told = []
    for number, finding in enumerate(findings, 1):
        told.append(f"{number}. {finding.cause}")
        told.extend(f"     | {line}" for line in finding.lines)
        told.append(f"   What to do: {finding.advice}")
        if finding.setting:
            told.append(f"   Setting: {finding.setting}")
    return told


def in_one_sentence(findings: list) -> str:
    """The first finding, for the message of a failed task."""
    if not findings:
        return "Its log does not say why."
    first = findings[0]
    shown = f" The log says: {first.lines[0]}" if first.lines else ""
    setting = f" Setting: {first.setting}." if first.setting else ""
    return f"{first.cause} {first.advice}{setting}{shown}"


def with_more(entries: list) -> tuple:
    """The table with entries of a user in front of it; one with the name of a shipped cause replaces it. Raises TuningError."""
    added = [_cause_of(number, entry) for number, entry in enumerate(entries)]
    names = {cause.name for cause in added}
    return (*added, *(cause for cause in CAUSES if cause.name not in names))


def _cause_of(number: int, entry: dict) -> Cause:
    where = f"causes[{number}]"
    legal = "legal: name, patterns (list of regular expressions), cause, advice, and optionally setting, kind, also, hides, shows, with_traceback, exit_status"
    if not isinstance(entry, dict):
        raise TuningError(f"{where}: {entry!r} is no dictionary; {legal}.")
    unknown = sorted(set(map(str, entry)) - set(Cause._fields))
    missing = [name for name in ("name", "patterns", "cause", "advice") if not entry.get(name)]
    if unknown or missing:
        wrong = f"unknown {', '.join(unknown)}" if unknown else f"lacks {', '.join(missing)}"
        raise TuningError(f"{where}: {wrong}; {legal}.")
    texts = {name: entry.get(name, "") for name in ("name", "cause", "advice", "setting", "also", "shows")}
    lists = {name: entry.get(name, ()) for name in ("patterns", "hides", "exit_status")}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise TuningError(f"{where}.{name}: {value!r}; legal: text.")
    for name, value in lists.items():
        if not isinstance(value, (list, tuple)):
            raise TuningError(f"{where}.{name}: {value!r}; legal: a list.")
    for pattern in [*lists["patterns"], texts["also"], texts["shows"]]:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise TuningError(
                f"{where}: {pattern!r} is no regular expression: {error}. Legal: one of Python's."
            ) from error
    kind = entry.get("kind", ROOT)
    if kind not in KINDS:
        raise TuningError(f"{where}.kind: {kind!r}; legal: {', '.join(KINDS)}.")
    if not all(isinstance(status, int) for status in lists["exit_status"]):
        raise TuningError(f"{where}.exit_status: {lists['exit_status']!r}; legal: a list of whole numbers.")
    return Cause(
        kind=kind,
        with_traceback=bool(entry.get("with_traceback")),
        **texts,
        **{name: tuple(value) for name, value in lists.items()},
    )


def _of_one_start(lines: list, exit_status: Optional[int], causes: tuple) -> list:
    hits = _hits(lines, causes)
    if not hits:
        return []
    hits = _what_it_survived(hits, lines)
    if exit_status == 0:
        hits = [hit for hit in hits if hit.cause.kind == LOGGED]
    named = {hit.cause.name for hit in hits}
    hidden = {name for hit in hits for name in hit.cause.hides if name != hit.cause.name}
    grouped = {}
    for hit in hits:
        if hit.cause.name not in hidden:
            grouped.setdefault(hit.cause.name, []).append(hit)
    order = sorted(
        grouped.values(), key=lambda group: min((KINDS.index(hit.cause.kind), hit.position) for hit in group)
    )
    findings = [_finding(group, lines) for group in order]
    ended = any(hit.cause.kind == CONSEQUENCE for hit in hits) or exit_status not in (None, 0)
    if ended and not any(hit.cause.kind == ROOT for hit in hits):
        last = _last_error(lines)
        known = {_short(hit.line) for hit in hits}
        if last and last.lines[0] not in known and not named & {"process_killed", "process_stopped"}:
            findings.insert(0, last)
    return findings


def _what_it_survived(hits: list, lines: list) -> list:
    """A server that became ready survived what its log has before; only a cause that knows of this line may come before it."""
    ready = max((number for number, line in enumerate(lines, 1) if sglang_log.READY in line), default=0)
    return [
        hit._replace(cause=hit.cause._replace(kind=LOGGED)) if hit.position < ready and not hit.cause.also else hit
        for hit in hits
    ]


def _without_words(lines: list, exit_status: Optional[int], causes: tuple) -> list:
    """What an exit status and the last error of a log tell, where no cause of the table is in it."""
    if exit_status == 0:
        return []
    last = _last_error(lines) if exit_status is not None or any(map(_TRACEBACK.search, lines)) else None
    told = [_finding([_Hit(cause, 0, "", {})], []) for cause in causes if exit_status in cause.exit_status]
    if not last and not told and exit_status is not None:
        told = [
            Finding(
                f"The server ended with status {exit_status} and did not say why.",
                [line for line in lines if line.strip()][-MOST_LINES:],
                "Run its command by hand as the service's user: systemctl cat UNIT shows it.",
                "",
                SILENT,
                ROOT,
            )
        ]
    return ([last] if last else []) + told


def _hits(lines: list, causes: tuple) -> list:
    compiled = [(cause, [re.compile(pattern) for pattern in cause.patterns]) for cause in causes]
    also = {cause.name: re.compile(cause.also) for cause in causes if cause.also}
    hits, seen, alike, with_traceback, position = [], set(), {}, set(), 0
    while position < len(lines):
        line = lines[position]
        position += 1
        number = position
        if not line or line[0] in " \t" or sglang_log.of_requests(line):
            continue
        form = _NUMBER.sub("0", line)
        alike[form] = alike.get(form, 0) + 1
        if form in with_traceback:
            position = _behind_traceback(lines, position)
        if line in seen or alike[form] > MOST_ALIKE:
            continue  # the other ranks say the same
        seen.add(line)
        found = _matches(line, number, compiled)
        if form not in with_traceback and any(hit.cause.with_traceback for hit in found):
            with_traceback.add(form)
            position = _behind_traceback(lines, position)
        hits.extend(found)
    present = {name for name, pattern in also.items() if any(map(pattern.match, lines))}
    return [hit for hit in hits if not hit.cause.also or hit.cause.name in present]


def _matches(line: str, position: int, compiled: list) -> list:
    found = []
    for cause, patterns in compiled:
        for pattern in patterns:
            match = pattern.match(line)
            if match:
                found.append(_Hit(cause, position, line, match.groupdict()))
                break
    return found


def _behind_traceback(lines: list, position: int) -> int:
    """Where the log goes on behind the traceback that starts at ``position``, which belongs to the line before it."""
    inside = False
    while position < len(lines):
        line = lines[position]
        if _TRACEBACK.match(line):
            inside = True
        elif inside and line and line[0] not in " \t" and not _BETWEEN_TRACEBACKS.match(line):
            inside = False  # this is the exception itself
        elif not inside and line and not _BETWEEN_TRACEBACKS.match(line):
            break
        position += 1
    return position


def _last_error(lines: list) -> Optional[Finding]:
    """The last exception of a log, for a cause that the table does not have."""
    for position in range(len(lines) - 1, -1, -1):
        line = lines[position]
        if (
            line
            and line[0] not in " \t"
            and not sglang_log.of_requests(line)
            and (_EXCEPTION.match(line) or _COMMAND_ERROR.match(line))
        ):
            return Finding(
                f"SGLang says: {line[:LONGEST_SHOWN]}",
                [_short(line)],
                "No cause that is known here. Read the log above this line; the known-good profile tells whether a setting of the profile is the reason.",
                "",
                UNRECOGNISED,
                ROOT,
            )
    return None


def _finding(hits: list, log: list) -> Finding:
    cause = min((hit.cause for hit in hits), key=lambda one: KINDS.index(one.kind))
    if cause.shows:
        pattern = re.compile(cause.shows)
        beside = [(line, pattern.match(line)) for line in dict.fromkeys(log)]
        hits = [_Hit(cause, 0, line, match.groupdict()) for line, match in beside if match] + hits
    groups = {}
    for hit in hits:
        groups.update({name: value for name, value in hit.groups.items() if value and name not in groups})
    lines = []
    for hit in hits:
        short = _short(hit.line)
        if short and short not in lines and len(lines) < MOST_LINES:
            lines.append(short)
    return Finding(
        _filled(cause.cause, groups),
        lines,
        _filled(cause.advice, groups),
        _filled(cause.setting, groups),
        cause.name,
        cause.kind,
    )


def _short(line: str) -> str:
    return line if len(line) <= LONGEST_SHOWN else line[:LONGEST_SHOWN] + " ..."


class _Words(string.Formatter):
    """Fills in what the lines told, and a mark for what they did not."""

    def get_value(self, key, args, kwargs):
        return kwargs.get(key, _GAP)


def _filled(text: str, groups: dict) -> str:
    if "{" not in text:
        return text
    try:
        filled = _Words().vformat(text, (), groups)
    except (ValueError, IndexError, AttributeError, KeyError, TypeError):
        return text  # braces of a user's own entry that stand for themselves
    # Brackets and a colon only lead to what is missing, so they go with it.
    filled = re.sub(rf" ?\([^()]*{_GAP}[^()]*\)", "", filled)
    filled = re.sub(rf":(?: {_GAP})+(?=$|\.)", ".", filled).replace(_GAP, "")
    return re.sub(r"  +", " ", filled).replace("..", ".").strip()
