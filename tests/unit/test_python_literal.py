# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text becomes one string constant and nothing else, or it is refused."""

from __future__ import annotations

import ast
import os

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.python_literal import python_literal
from hypothesis import example, given
from hypothesis import strategies as st

anything = st.text(st.characters(codec=None))


@given(anything)
@example("'''\"\"\"")
@example("{{ x }}{% raw %}")
@example("a\\")
@example("\r\n\x0b\x0c\x1c\x85\u2028")
@example("\udcff")
def test_a_literal_is_one_ascii_constant_that_means_the_text(text):
    try:
        literal = python_literal(text)
    except ValueError:
        assert "\0" in text or text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") != text
        return
    assert literal.isascii()
    assert len(literal.splitlines()) == 1
    tree = ast.parse(literal, mode="eval")
    assert isinstance(tree.body, ast.Constant)
    assert tree.body.value == text
    assert os.fsdecode(os.fsencode(text)) == text  # what os.environ does with it


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        ("x\udfff", "surrogate"),
        ("\udcc3\udca9", "surrogate"),  # two escaped bytes that are one letter: it would come back as that letter
        (1, "int"),
        (True, "bool"),
        (None, "NoneType"),
        (b"LL", "bytes"),
    ],
)
def test_what_an_environment_cannot_hold_is_refused(value, reason):
    with pytest.raises(ValueError, match=reason):
        python_literal(value)


def test_a_subclass_of_text_is_taken_as_text():
    class Tagged(str):
        __slots__ = ()

        def __repr__(self):
            return "evil()"

    assert python_literal(Tagged("LL")) == "'LL'"
