# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's own configuration files: read as NCCL reads them, and what a writer of such a file did not expect.

Order: the environment of the process, then $NCCL_CONF_FILE or else .nccl.conf of the user, then /etc/nccl.conf. Each file sets only
what is still unset. There is no trimming, no quoting and no ``export``.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

SYSTEM_FILE = "/etc/nccl.conf"
LONGEST = 1023  # bytes of a name and of a value, of the path too
LONGEST_PIECE = 4095  # bytes that 2.30 reads at a time: what follows is a line of its own
CONF_FILE_VARIABLE, COMMENTS, HOME_VARIABLE = (2, 23), (2, 26), (2, 30)  # the versions these came with


class Entry(NamedTuple):
    """``name`` gets ``value`` in line ``line`` (from 1), unless something before it did."""

    name: str
    value: str
    line: int


class Parsed(NamedTuple):
    """``entries``: list of Entry in the order of the file; ``remarks``: list of (line, text)."""

    entries: list
    remarks: list


class UserFile(NamedTuple):
    """``path``: the file that NCCL reads before /etc/nccl.conf, or None. ``skipped``: the per-user file that it leaves out for it."""

    path: Optional[str]
    skipped: Optional[str]
    remarks: list


def version_of(text: Optional[str]) -> Optional[tuple]:
    """``"2.27.3"`` or ``"2.27.3+cuda12.9"`` to (2, 27); None for None or what is no version."""
    parts = (text or "").split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) > 1 and all(p.isdecimal() for p in parts[:2]) else None


def parse(content: bytes, version: Optional[tuple] = None) -> Parsed:
    """What NCCL ``version`` (None: the newest rules) sets from a file with ``content``. Never raises."""
    entries, remarks, first = [], [], {}
    for number, line in enumerate(content.split(b"\n"), start=1):
        for index, piece in enumerate(_pieces(line, version)):
            if index:
                remarks.append(
                    (number, f"longer than {LONGEST_PIECE} bytes: NCCL 2.30 and newer reads the rest as a new line")
                )
            if _is_comment(piece, version):
                continue
            name, separator, value = piece.partition(b"=")
            if not separator:
                remarks.extend((number, text) for text in _remarks_on_no_assignment(piece))
                continue
            remarks.extend((number, text) for text in _remarks_on_assignment(name, value, number, version))
            entry = Entry(_text(name[:LONGEST]), _text(value[:LONGEST]), number)
            if not entry.name:
                continue  # setenv() refuses it
            if entry.name in first:
                remarks.append(
                    (number, f"{entry.name} is set in line {first[entry.name]} already, and the first line wins")
                )
            first.setdefault(entry.name, number)
            entries.append(entry)
    return Parsed(entries, remarks)


def user_file(environment: dict, account_home: Optional[str], version: Optional[tuple] = None) -> UserFile:
    """The file before /etc/nccl.conf for a process with ``environment``, whose user's passwd entry has ``account_home``."""
    remarks = []
    home, other = environment.get("HOME"), account_home
    if version is not None and version < HOME_VARIABLE:
        home, other = account_home, environment.get("HOME")
    elif home is None and account_home is not None:
        remarks.append(
            f"HOME is not set for the service, so NCCL 2.30 and newer reads no per-user file; up to 2.29 it reads {account_home}/.nccl.conf. "
            f"Name User= in the unit, set HOME, or use {SYSTEM_FILE}."
        )
    if home is not None and other is not None and home != other:
        remarks.append(
            f"HOME of the service and its user's passwd entry differ ({environment['HOME']!r}, {account_home!r}): NCCL up to 2.29 reads "
            f"{account_home}/.nccl.conf, 2.30 and newer {environment['HOME']}/.nccl.conf."
        )
    per_user = None if home is None else _cut(f"{home}/.nccl.conf")
    named = environment.get("NCCL_CONF_FILE")
    if not named:  # an empty one counts as unset
        return UserFile(per_user, None, remarks)
    if version is not None and version < CONF_FILE_VARIABLE:
        remarks.append(
            f"NCCL_CONF_FILE={named} has no effect: NCCL reads it from 2.23 on, this one is {version[0]}.{version[1]}."
        )
        return UserFile(per_user, None, remarks)
    if named.startswith("~"):
        remarks.append(f"NCCL_CONF_FILE={named}: NCCL does not expand ~, so it finds no file. Write the whole path.")
    elif not named.startswith("/"):
        remarks.append(
            f"NCCL_CONF_FILE={named} is relative to the working directory of the process. Write the whole path."
        )
    return UserFile(_cut(named), per_user, remarks)


def _cut(path: str) -> str:
    return _text(path.encode("utf-8", "surrogateescape")[:LONGEST])


def _pieces(line: bytes, version: Optional[tuple]) -> list:
    """A line as NCCL sees it: C strings, from 2.30 on in pieces and without the carriage return."""
    if version is not None and version < HOME_VARIABLE:
        return [line.split(b"\0")[0]]
    pieces = [line[start : start + LONGEST_PIECE] for start in range(0, len(line), LONGEST_PIECE)] or [b""]
    pieces = [piece.split(b"\0")[0] for piece in pieces]
    return [piece[:-1] if piece.endswith(b"\r") else piece for piece in pieces]


def _is_comment(piece: bytes, version: Optional[tuple]) -> bool:
    return piece.startswith(b"#") and (version is None or version >= COMMENTS)


def _remarks_on_no_assignment(piece: bytes) -> list:
    if b"NCCL_" in piece and not piece.lstrip().startswith(b"#"):
        return ["sets nothing: there is no '='"]
    return []


def _remarks_on_assignment(name: bytes, value: bytes, number: int, version: Optional[tuple]) -> list:
    texts = []
    shown, bare = repr(_text(name[:80])), name.strip()
    if name.startswith(b"#"):
        texts.append("'#' begins a comment only from NCCL 2.26 on; this one sets a variable with '#' in its name")
    elif bare.startswith(b"#"):
        texts.append(f"'#' begins a comment only in the first column; this sets a variable called {shown}")
    elif number == 1 and name.startswith(b"\xef\xbb\xbf"):
        texts.append("the file begins with a byte order mark, which becomes part of the first variable's name")
    elif bare.startswith((b"export ", b"export\t", b"set ", b"setenv ")):
        texts.append(f"this is no shell: it sets a variable called {shown}, which NCCL never reads. Write NAME=value")
    elif name != bare:
        texts.append(
            f"blanks belong to the name: it sets a variable called {shown}, which NCCL never reads. Write NAME=value"
        )
    stripped = value.rstrip(b"\r")
    if stripped != value:
        texts.append(
            "ends with a carriage return, which up to NCCL 2.29 is part of the value. Save the file with Unix line ends"
        )
    if stripped != stripped.strip():
        texts.append("blanks around the value are part of it")
    stripped = stripped.strip()
    if len(stripped) > 1 and stripped[:1] == stripped[-1:] and stripped[:1] in (b'"', b"'"):
        texts.append("quotes are part of the value: NCCL does not take them off")
    if b" #" in stripped or b"\t#" in stripped:
        texts.append("what looks like a comment behind the value is part of it")
    if len(name) > LONGEST or len(value) > LONGEST:
        texts.append(f"name and value are cut at {LONGEST} bytes")
    return texts


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
