# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment that systemd gives to a unit's processes, with the file and line of every variable.

Text in, data out: nothing here opens a file. Rules: systemd.syntax(7), systemd.exec(5), and systemd's own parsers where those are
silent. Specifiers (``%h``) are left as they are, because only the manager can resolve them.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

BLANKS = " \t\n\r"
# One end of a line is one of these; two equal ones are two.
_LINE_END = re.compile(r"\n\r?\0?|\r\n?\0?|\0")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPECIFIER = re.compile(r"%(.)", re.DOTALL)
_SET_BY_COMMAND = re.compile(r"\b(NCCL_\w+)=")
_ESCAPES = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34, "'": 39, "s": 32}


class Assignment(NamedTuple):
    """``setting``: what of systemd's made it, for instance ``Environment=``. ``value`` is None where only the manager knows it."""

    name: str
    value: Optional[str]
    path: str
    line: Optional[int]
    setting: str


class FileReference(NamedTuple):
    """One ``EnvironmentFile=``: ``pattern`` is a path or a glob pattern; ``optional``: with the leading ``-``."""

    pattern: str
    optional: bool
    path: str
    line: int


class Unit(NamedTuple):
    """What a unit file and its drop-ins say. ``environment``: list of Assignment in order; ``files``: list of FileReference in order;

    ``unset``: list of Assignment (value None: whatever the value); ``passed``: list of Assignment without values; ``user``: text or None.
    """

    environment: list
    files: list
    unset: list
    passed: list
    user: Optional[str]
    remarks: list


class FileContent(NamedTuple):
    """``refused``: why systemd takes nothing of an environment file (None: it takes it); ``assignments``: list of Assignment."""

    assignments: list
    refused: Optional[str]
    remarks: list


class Effective(NamedTuple):
    """``winners``: name to Assignment; ``losers``: list of Assignment that a later one overrode or UnsetEnvironment= removed."""

    winners: dict
    losers: list
    remarks: list


class Shown(NamedTuple):
    """The answer of ``systemctl show``: the manager's view, specifiers resolved, without lines."""

    environment: dict
    environment_files: list
    fragment: Optional[str]
    drop_ins: list
    user: Optional[str]
    needs_reload: bool


class Word(NamedTuple):
    text: str
    offset: int


class _Line(NamedTuple):
    """A logical line: ``starts`` are (offset, number) of the physical lines in it."""

    text: str
    starts: list

    def number_at(self, offset: int) -> int:
        return max(number for start, number in self.starts if start <= offset)


def parse_unit(files: list, section: str = "Service", prefix: str = "") -> Unit:
    """``files``: list of (path, text), the fragment first, then the drop-ins in systemd's order. Never raises.

    ``section`` and ``prefix``: ``Manager`` and ``Default`` read ``DefaultEnvironment=`` of system.conf instead.
    """
    unit = Unit([], [], [], [], None, [])
    for path, text in files:
        unit = _parse_file(unit, path, text, section, prefix)
    return unit


def parse_environment_file(content: bytes, path: str) -> FileContent:
    """The content of one file that ``EnvironmentFile=`` names. Never raises."""
    remarks = []
    if b"\0" in content:
        return FileContent([], "it has a NUL byte in it", remarks)
    found = {}
    for name, value, line, in_comment in _environment_file_pairs(content.decode("utf-8", "surrogateescape")):
        if in_comment:
            remarks.append(
                f"{path}:{line}: a comment that ends with a backslash: before systemd 254 the next line is part of it."
            )
            continue
        if _SURROGATE.search(name + value):
            return FileContent([], f"line {line} is not valid UTF-8", remarks)
        why = _invalid(name, value)
        if why:
            remarks.append(f"{path}:{line}: ignored by systemd: {why}.")
            continue
        found.setdefault(name, []).append(Assignment(name, value, path, line, "EnvironmentFile="))
    assignments = [assignment for entries in found.values() for assignment in entries]
    return FileContent(sorted(assignments, key=lambda entry: entry.line), None, remarks)


def merge(unit: Unit, files: list, defaults: Optional[list] = None) -> Effective:
    """The environment of the unit. ``files``: list of Assignment of its environment files in order; ``defaults``: those of the manager."""
    remarks = []
    history = {}
    for assignment in (defaults or []) + unit.passed + unit.environment + files:
        history.setdefault(assignment.name, []).append(assignment)
    winners, losers = {}, []
    for name, assignments in history.items():
        winner = assignments[-1]
        remover = next((u for u in unit.unset if u.name == name and u.value in (None, winner.value)), None)
        if remover is None:
            winners[name] = winner
            losers.extend(reversed(assignments[:-1]))
        else:
            losers.extend(reversed(assignments))
            remarks.append(
                f"{remover.path}:{remover.line}: UnsetEnvironment= takes {name} out of the unit's environment."
            )
    return Effective(winners, losers, remarks)


def parse_show(text: str) -> Shown:
    """``text``: output of ``systemctl show -p Environment -p EnvironmentFiles -p FragmentPath -p DropInPaths -p User UNIT``."""
    properties = {}
    last = None
    for line in text.split("\n"):
        name, separator, value = line.partition("=")
        if separator and re.match(r"[A-Z][A-Za-z]*\Z", name):
            last = properties.setdefault(name, [])
            last.append(value)
        elif last is not None and line:
            last[-1] += "\n" + line  # a value with a line end in it
    environment = {}
    for value in properties.get("Environment", []):
        for word in _shown_words(value):
            name, separator, content = word.partition("=")
            if separator:
                environment[name] = content
    files = []
    for value in properties.get("EnvironmentFiles", []):
        path, _separator, flag = value.rpartition(" (ignore_errors=")
        if path:
            files.append((path, flag.startswith("yes")))
    single = {name: values[-1] or None for name, values in properties.items()}
    drop_ins = [word for value in properties.get("DropInPaths", []) for word in _shown_words(value)]
    return Shown(
        environment,
        files,
        single.get("FragmentPath"),
        drop_ins,
        single.get("User"),
        single.get("NeedDaemonReload") == "yes",
    )


def words(text: str, c_escapes: bool = True, relaxed: bool = False) -> tuple:
    """(list of Word, fault or None): split at blanks, quotes taken off, escapes resolved; what stands behind a fault is lost.

    ``relaxed``: an unknown escape stands for the character itself, and an open quote is closed by the end.
    """
    found, position = [], 0
    while True:
        while position < len(text) and text[position] in BLANKS:
            position += 1
        if position >= len(text):
            return found, None
        word, end, fault = _word(text, position, c_escapes, relaxed)
        if fault:
            return found, fault
        found.append(Word(word, position))
        position = end


def _word(text: str, position: int, c_escapes: bool, relaxed: bool) -> tuple:
    """(word, offset behind it, fault or None)."""
    raw, quote = bytearray(), ""
    while position < len(text):
        char = text[position]
        if char == "\\":
            if position + 1 == len(text):
                return (_decode(raw), len(text), None) if relaxed else ("", position, "it ends with a backslash")
            length, piece = _escape(text, position + 1) if c_escapes else (1, _encode(text[position + 1]))
            if length == 0:
                if not relaxed:
                    return "", position, f"unknown escape \\{text[position + 1]}"
                length, piece = 1, _encode(text[position + 1])
            raw += piece
            position += length
        elif quote:
            if char == quote:
                quote = ""
            else:
                raw += _encode(char)
        elif char in "'\"":
            quote = char
        elif char in BLANKS:
            break
        else:
            raw += _encode(char)
        position += 1
    if quote and not relaxed:
        return "", position, "a quote is not closed"
    return _decode(raw), position, None


def _escape(text: str, position: int) -> tuple:
    """(number of characters behind the backslash, bytes) of a C escape; (0, b"") for none that systemd knows."""
    char = text[position]
    if char in _ESCAPES:
        return 1, bytes([_ESCAPES[char]])
    for letter, digits in (("x", 2), ("u", 4), ("U", 8)):
        if char == letter:
            code = _number(text[position + 1 : position + 1 + digits], digits, 16)
            if not code or code > 0x10FFFF or (letter == "U" and 0xD800 <= code < 0xE000):
                return 0, b""
            return digits + 1, bytes([code]) if letter == "x" else chr(code).encode("utf-8", "surrogatepass")
    code = _number(text[position : position + 3], 3, 8)
    return (3, bytes([code])) if code and code < 256 else (0, b"")


def _number(text: str, digits: int, base: int) -> Optional[int]:
    if len(text) != digits or not all(char in "0123456789abcdefABCDEF"[: 8 if base == 8 else 22] for char in text):
        return None
    return int(text, base)


def _shown_words(text: str) -> list:
    return [word.text for word in words(re.sub(r"(^|\s)\$'", r"\1'", text), relaxed=True)[0]]


def _parse_file(unit: Unit, path: str, text: str, section: str, prefix: str) -> Unit:
    current = None
    for line in _logical_lines(text):
        stripped = line.text.strip(BLANKS)
        offset = len(line.text) - len(line.text.lstrip(BLANKS))
        number = line.number_at(offset)
        if not stripped:
            continue
        if _SURROGATE.search(stripped):
            unit.remarks.append(f"{path}:{number}: not valid UTF-8, so systemd stops to read the file here.")
            break
        if stripped.startswith("["):
            if not stripped.endswith("]"):
                unit.remarks.append(
                    f"{path}:{number}: no valid section header, so systemd stops to read the file here."
                )
                break
            current = stripped[1:-1]
        elif current == section and "=" in stripped:
            key, _separator, value = stripped.partition("=")
            before = offset + len(key) + 1
            before += len(value) - len(value.lstrip(BLANKS))
            unit = _take(unit, key.strip(BLANKS), prefix, value.strip(BLANKS), _Place(path, line, before))
    return unit


class _Place(NamedTuple):
    path: str
    line: _Line
    offset: int

    def number(self, offset: int = 0) -> int:
        return self.line.number_at(self.offset + offset)


def _take(unit: Unit, key: str, prefix: str, value: str, place: _Place) -> Unit:
    """Unit with one setting more."""
    if key == f"{prefix}Environment":
        _take_words(unit.environment, value, place, unit.remarks, f"{prefix}Environment=")
    elif key == "UnsetEnvironment" and not prefix:
        _take_words(unit.unset, value, place, unit.remarks, "UnsetEnvironment=")
    elif key == "PassEnvironment" and not prefix:
        _take_words(unit.passed, value, place, unit.remarks, "PassEnvironment=")
    elif key == "EnvironmentFile" and not prefix:
        _take_file(unit, value, place)
    elif key == "User" and not prefix:
        return unit._replace(user=value or None)
    elif key == "PAMName" and value:
        unit.remarks.append(
            f"{place.path}:{place.number()}: PAMName={value}: what its PAM modules set wins over the unit's environment; "
            f"with pam_env that is /etc/environment too."
        )
    elif key.startswith("Exec"):
        names = sorted(set(_SET_BY_COMMAND.findall(value)))
        if names:
            unit.remarks.append(
                f"{place.path}:{place.number()}: the command of {key}= sets {', '.join(names)} by itself, which wins over the unit's environment."
            )
    return unit


def _take_words(into: list, value: str, place: _Place, remarks: list, setting: str) -> None:
    if not value:
        into.clear()  # an empty assignment resets the list
        return
    found, fault = words(value, c_escapes=setting != "PassEnvironment=")
    for word in found:
        where, text = f"{place.path}:{place.number(word.offset)}", _resolve_percent(word.text)
        if text is None:
            text = word.text
            remarks.append(
                f"{where}: {setting}{_shown(text)} has a specifier that only systemd can resolve; it is shown as it stands."
            )
        name, separator, content = text.partition("=")
        bare = setting != f"{'Default' if setting.startswith('Default') else ''}Environment="
        why = _invalid(name, content) if separator or bare else "there is no '='"
        if separator and setting == "PassEnvironment=":
            why = "a name, not an assignment, is legal here"
        if why:
            remarks.append(f"{where}: {setting}{_shown(text)} is ignored by systemd: {why}.")
            continue
        number = place.number(word.offset)
        into.append(Assignment(name, content if separator else None, place.path, number, setting))
        if setting == "PassEnvironment=":
            remarks.append(
                f"{where}: PassEnvironment= hands {name} down from the manager (systemctl show-environment)."
            )
    if fault:
        end = found[-1].offset if found else 0
        remarks.append(f"{place.path}:{place.number(end)}: {setting} systemd ignores the rest of it: {fault}.")


def _take_file(unit: Unit, value: str, place: _Place) -> None:
    if not value:
        unit.files.clear()
        return
    optional = value.startswith("-")
    pattern = _resolve_percent(value[1:] if optional else value)
    if pattern is None:
        unit.remarks.append(
            f"{place.path}:{place.number()}: EnvironmentFile={value} has a specifier; the file was not read."
        )
    elif not pattern.startswith("/"):
        unit.remarks.append(
            f"{place.path}:{place.number()}: EnvironmentFile={value} is ignored by systemd: no absolute path."
        )
    else:
        unit.files.append(FileReference(pattern, optional, place.path, place.number()))


def _resolve_percent(text: str) -> Optional[str]:
    """``text`` with ``%%`` as ``%``; None where a specifier stands in it."""
    if any(match.group(1).isalpha() for match in _SPECIFIER.finditer(text)):
        return None
    return text.replace("%%", "%")


def _invalid(name: str, value: str) -> str:
    """Why systemd drops an assignment, or nothing."""
    if not _NAME.match(name):
        return f"{_shown(name)} is no name of a variable" + (
            " (this is no shell)" if name.startswith("export ") else ""
        )
    if _SURROGATE.search(value):
        return "the value is not valid UTF-8"
    return ""


def _logical_lines(text: str) -> list:
    """Lines joined at a trailing backslash. A comment between the parts is left out; an empty line ends them."""
    lines, parts, starts = [], "", []
    for number, physical in enumerate(_LINE_END.split(text[text.startswith("\ufeff") :]), start=1):
        if physical.lstrip(BLANKS).startswith(("#", ";")):
            continue
        starts.append((len(parts), number))
        parts += physical
        if (len(parts) - len(parts.rstrip("\\"))) % 2:
            parts = parts[:-1] + " "
            continue
        lines.append(_Line(parts, starts))
        parts, starts = "", []
    if parts:
        lines.append(_Line(parts, starts))
    return lines


def _environment_file_pairs(text: str) -> list:
    """(name, value, line, False) of each assignment; ("", "", line, True) for a comment that ends with a backslash."""
    pairs = []
    key, value, line, start = "", "", 1, 1
    state, quote = "before key", ""
    solid = 0  # length of the value without the blanks that are cut off at its end
    for char in text:
        ends = char in "\n\r"
        if state == "before key":
            if char in "#;":
                state = "comment"
            elif char not in BLANKS:
                state, key, value, solid, start = "key", char, "", 0, line
        elif state == "key":
            if ends:
                state = "before key"
            elif char == "=":
                state = "before value"
            else:
                key += char
        elif state in ("before value", "value"):
            if ends:
                pairs.append((key.rstrip(BLANKS), value[:solid] if state == "value" else value, start, False))
                state = "before key"
            elif state == "before value" and char in "'\"":
                state, quote = "quoted", char
            elif char == "\\":
                state = "escape"
            elif state == "value" or char not in BLANKS:
                state, value = "value", value + char
                solid = solid if char in BLANKS else len(value)
        elif state == "escape":
            value += "" if ends else char
            state, solid = "value", len(value)
        elif state == "quoted":
            if char == quote:
                state, solid = "before value", len(value)
            elif char == "\\" and quote == '"':
                state = "quoted escape"
            else:
                value += char
        elif state == "quoted escape":
            value += char if char in '"\\`$' else "" if char == "\n" else "\\" + char
            state = "quoted"
        elif ends:
            if state == "comment escape":
                pairs.append(("", "", line, True))
            state = "before key"
        else:
            state = "comment escape" if state == "comment" and char == "\\" else "comment"
        line += char == "\n"
    if state not in ("before key", "key", "comment", "comment escape"):
        pairs.append((key.rstrip(BLANKS), value[:solid] if state == "value" else value, start, False))
    return pairs


def _shown(text: str) -> str:
    return repr(text if len(text) < 100 else text[:97] + "...")


def _encode(text: str) -> bytes:
    return text.encode(
        "utf-8", "surrogatepass" if _SURROGATE.search(text) and not _escaped_byte(text) else "surrogateescape"
    )


def _escaped_byte(text: str) -> bool:
    return all("\udc80" <= char <= "\udcff" for char in text if "\ud800" <= char <= "\udfff")


def _decode(raw: bytearray) -> str:
    return bytes(raw).decode("utf-8", "surrogateescape")
