# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text to Python source, so that no value can become code."""

from __future__ import annotations


def python_literal(value: object) -> str:
    """Source text (ASCII) of a Python string literal equal to ``value``. Raises ValueError for what an environment variable cannot hold."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r}: {type(value).__name__}; legal: a string.")
    text = str(value)
    if "\0" in text:
        raise ValueError(f"{text!r}: contains a NUL character, which an environment variable cannot hold.")
    try:
        held = text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{text!r}: contains a surrogate that stands for no byte, which an environment variable cannot hold."
        ) from error
    if held != text:
        raise ValueError(
            f"{text!r}: contains surrogates that stand for the bytes of a letter and would come back as that letter; write the letter itself."
        )
    return ascii(text)
