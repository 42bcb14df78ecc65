# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A log of SGLang as lines that can be compared: secrets out, what loggers put in front off, one start apart from another."""

from __future__ import annotations

import os
import re

from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import open_plain

HIDDEN = "(hidden)"
LARGEST = 4 * 1024 * 1024  # bytes read from the end of a saved log
LONGEST_LINE = 2000  # characters of a line that are looked at
LONGEST_SETTINGS = 100000  # of the line of all settings

_NAME = r"(?:admin[_-])?api[_-]key|ssl[_-]keyfile[_-]password|hf[_-]token|hugging_face_hub_token|(?:auth|access|bearer)[_-]token|password|secret[_-]key"
_QUOTED = r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
# What argparse prints in place of a value is none.
_PLACEHOLDER = r"(?!(?:None|null|True|False|(?:ADMIN_)?API_KEY|SSL_KEYFILE_PASSWORD)\b|''|\"\")"
_SECRETS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?P<before>['\"]?\b(?:{_NAME})['\"]?\s*[:=]\s*){_PLACEHOLDER}(?P<value>{_QUOTED}|[^\s,'\"{{}}()\[\]]+)",
        rf"(?P<before>--(?:{_NAME})(?:['\"],\s*|\s+|=)){_PLACEHOLDER}(?P<value>{_QUOTED}|[^\s,\]]+)",
        r"(?P<before>\b(?:Bearer|Basic)\s+)(?P<value>[A-Za-z0-9._~+/=-]{4,})",
        r"(?P<before>\b[a-z][a-z0-9+.-]{0,15}://[^\s/:@]{0,200}:)(?P<value>[^\s/@]{1,500})(?=@)",
        r"(?P<before>\b)(?P<value>hf_[A-Za-z0-9]{16,})",
    )
)
# What every line with a secret has; looking for this alone is several times as fast.
_MAYBE_SECRET = re.compile(r"[-_]key|[-_]token|password|bearer|basic |://|hf_", re.IGNORECASE)
_SHORTEST_ELSEWHERE = 6  # characters of a secret that is looked for in the rest of the log, too

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_GARBAGE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        r"[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d(?:\.\d+)? \S+ [^\s:\[]+(?:\[\d+\])?: ?",  # journalctl, syslog
        r"\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)? (?:(?:stdout|stderr) [FP] |\S+ [^\s:\[]+(?:\[\d+\])?: )?",  # the same with ISO time; containers
        r"[\w.-]+ +\| ",  # compose
        r"\(\S+ pid=\d+\) ",
        r"\[\d{4}-\d\d-\d\d[ T][\d:.,]+(?: [A-Z]+\d+)*\] ",  # SGLang: time and ranks
        r"(?:ERROR|WARNING|CRITICAL|INFO|DEBUG)(?::\s+| - )",
        r"\[?rank\d+\]?:\s?",
    )
)
# Requests and what counts them; nothing of a start is in them.
_OF_REQUESTS = re.compile(
    r"(?:Receive|Finish): obj=|Decode batch|Prefill batch|server_args=|\S+ - \"(?:GET|POST|PUT|DELETE|HEAD) |"
    r"Ignore import error when loading|nanobind: | - leaked "
)
_START = re.compile(r"Starting \S+\.service\b|Starting \S.* - SGLang")
_STARTED = re.compile(r"Started \S+\.service\b")
_FIRST_LINE = re.compile(r"server_args=")
READY = "The server is fired up and ready to roll"


def read_log(path: str, largest: int = LARGEST) -> tuple:
    """(text, whether its beginning was left out) of a saved log. Raises OSError."""
    with os.fdopen(open_plain(path, follow=True), "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - largest))
        content = stream.read(largest)
    return content.decode("utf-8", "replace"), size > largest


def redacted(text: str) -> str:
    """``text`` without API keys and other secrets: where a name announces one, and wherever the same words stand again."""
    found = set()

    def hide(match):
        value = match.group("value")
        quote = value[0] if value[0] in "'\"" and value[-1] == value[0] and len(value) > 1 else ""
        found.add(value[1:-1] if quote else value)
        return f"{match.group('before')}{quote}{HIDDEN}{quote}"

    lines = text.split("\n")
    for number, line in enumerate(lines):
        if _MAYBE_SECRET.search(line):
            for pattern in _SECRETS:
                lines[number] = pattern.sub(hide, lines[number])
    text = "\n".join(lines)
    for value in sorted(found, key=len, reverse=True):
        for form in (value, re.sub(r"\\(.)", r"\1", value)):
            if len(form) >= _SHORTEST_ELSEWHERE and form not in HIDDEN:
                text = text.replace(form, HIDDEN)
    return text


def pieces(text: str) -> list:
    """The lines; each state of a progress bar, which ends with a carriage return, is one. No prefix, no colours."""
    return [bare(line) for line in re.split(r"\r\n|\n|\r", text)]


def bare(line: str) -> str:
    """A line without what journals and loggers put in front of it."""
    most = LONGEST_SETTINGS if "server_args=" in line[:LONGEST_LINE] else LONGEST_LINE
    line = _GARBAGE.sub(" ", _COLOUR.sub("", line[:most])).rstrip()
    for prefix in _PREFIXES:
        match = prefix.match(line)
        if match:
            line = line[match.end() :]
    return line


def of_requests(line: str) -> bool:
    """Whether a bare line is about a request, or repeats settings: what it says in passing is no error of the server."""
    return _OF_REQUESTS.match(line) is not None


def starts(lines: list) -> list:
    """``lines`` cut at each start of the server: list of lists, oldest first. One where no start shows."""
    for marker in (_START, _STARTED, _FIRST_LINE):
        at = [position for position, line in enumerate(lines) if marker.match(line)]
        if at:
            edges = [0, *at[1:], len(lines)]
            return [lines[begin:end] for begin, end in zip(edges, edges[1:])]
    return [lines]
