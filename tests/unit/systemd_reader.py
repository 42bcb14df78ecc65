"""Has systemd's own library read lines of a unit: JSON [[command line, environment line], ...] in, JSON of what it read out.

It starts nothing. The calls are those of systemd 252 for ExecStart= and Environment=: words, then specifiers, then variables.
"""

from __future__ import annotations

import ctypes
import glob
import json
import sys

UNQUOTE_AND_UNESCAPE = 1 << 5 | 1 << 1
VARIABLES = (b"HOME=/root", b"d=z")


class Specifier(ctypes.Structure):
    _fields_ = (("letter", ctypes.c_char), ("lookup", ctypes.c_void_p), ("data", ctypes.c_void_p))


def library() -> ctypes.CDLL:
    found = sorted(glob.glob("/usr/lib/*/systemd/libsystemd-shared-252.so"))
    if not found:
        sys.exit("libsystemd-shared-252.so is not here")
    loaded = ctypes.CDLL(found[0])
    loaded.replace_env_argv.restype = ctypes.POINTER(ctypes.c_char_p)
    return loaded


def words(systemd: ctypes.CDLL, line: bytes) -> list[bytes]:
    text = ctypes.create_string_buffer(line)
    rest, found = ctypes.cast(text, ctypes.c_void_p), []
    while True:
        word = ctypes.c_char_p()
        status = systemd.extract_first_word(ctypes.byref(rest), ctypes.byref(word), None, UNQUOTE_AND_UNESCAPE)
        if status < 0:
            sys.exit(f"extract_first_word: {status} for {line!r}")
        if not status:
            return found
        found.append(word.value)


def without_specifiers(systemd: ctypes.CDLL, word: bytes) -> bytes:
    made = ctypes.c_char_p()
    none = (Specifier * 1)()
    status = systemd.specifier_printf(word, ctypes.c_size_t(1 << 20), none, None, None, ctypes.byref(made))
    if status < 0:
        sys.exit(f"specifier_printf: {status} for {word!r}")
    return made.value


def without_variables(systemd: ctypes.CDLL, given: list[bytes]) -> list[bytes]:
    argv = (ctypes.c_char_p * (len(given) + 1))(*given, None)
    made = systemd.replace_env_argv(argv, (ctypes.c_char_p * 3)(*VARIABLES, None))
    found: list[bytes] = []
    while made[len(found)] is not None:
        found.append(made[len(found)])
    return found


def main() -> None:
    systemd = library()
    answer = []
    for command, environment in json.load(sys.stdin):
        read = [without_specifiers(systemd, word) for word in words(systemd, command.encode())]
        answer.append(
            [
                [word.decode() for word in without_variables(systemd, read)],
                [without_specifiers(systemd, word).decode() for word in words(systemd, environment.encode())],
            ]
        )
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
