# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions compare as numbers, and a window says which of them it means."""

from __future__ import annotations

import re

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.version_window import (
    InvalidVersion,
    matches,
    parse_specifier,
    parse_version,
)
from hypothesis import given
from hypothesis import strategies as st

# Oldest first; what stands on one line is the same version.
ORDER = [
    ["0.5.0.dev3"],
    ["0.5.0a1"],
    ["0.5.0b2"],
    ["0.5.0rc1", "0.5.0-rc1", "0.5.0rc1+cu128"],
    ["0.5", "0.5.0", "v0.5.0", "0.5.0.0", " 0.5.0 "],
    ["0.5.0.post1"],
    ["0.5.9"],
    ["0.5.11"],
    ["2", "2.0"],
    ["2.3.5"],
    ["2.28.9", "2.28.9-1", "2.28.9+cuda13.0"],
    ["2.30.7-1", "2.30.7"],
]


def test_versions_are_in_order():
    for position, same in enumerate(ORDER):
        assert len({parse_version(version) for version in same}) == 1
        for later in ORDER[position + 1 :]:
            assert parse_version(same[0]) < parse_version(later[0])


@pytest.mark.parametrize(
    ("version", "window", "inside"),
    [
        ("2.28.9", ">=2.21,<2.31", True),
        ("2.21", ">=2.21,<2.31", True),
        ("2.31", ">=2.21,<2.31", False),
        ("2.9", ">=2.21", False),
        ("2.30", "==2.30.0", True),
        ("2.30", "!=2.30.0", False),
        ("0.5.11", ">=0.5.9", True),
        ("0.5.11rc1", ">=0.5.11", False),
        ("0.5.11", ">0.5.11", False),
        ("0.5.11", "<=0.5.11", True),
        ("0.5.11", " >= 0.5.11 , < 0.6 ", True),
        ("2.14.1+cu130", ">=2.14.1", True),
    ],
)
def test_a_window_holds_what_lies_in_it(version, window, inside):
    assert matches(version, window) is inside


@pytest.mark.parametrize("version", [None, 2.28, 5, "", "latest", "2.x", "2..3", "2.28.9 1", "2.28\n3", [], "9" * 200])
def test_what_is_no_version_is_refused(version):
    with pytest.raises(InvalidVersion, match=r"is not a version\. Legal: .* Write ") as caught:
        parse_version(version)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "window", [None, 2.21, "", "2.21", ">=", ">=2.21,", ">=2.21 <2.31", "=>2.21", "~=2.21", "===2.21"]
)
def test_what_is_no_window_is_refused(window):
    with pytest.raises(InvalidVersion, match=r"Legal: >=, <=, ==, !=, >, < in front of a version.* Write for example"):
        parse_specifier(window)


def test_the_clause_at_fault_is_named():
    with pytest.raises(
        InvalidVersion, match=re.escape("'>=2.21,2.31' is not a window of versions, because of '2.31'.")
    ):
        matches("2.28", ">=2.21,2.31")
    with pytest.raises(InvalidVersion, match="'soon' is not a version"):
        matches("2.28", ">=2.21,<soon")


NUMBERS = st.lists(st.integers(0, 999), min_size=1, max_size=4)


@given(NUMBERS, NUMBERS)
def test_exactly_one_of_less_equal_and_more_holds(one, other):
    first, second = (".".join(map(str, numbers)) for numbers in (one, other))
    assert [matches(first, f"{operator}{second}") for operator in ("<", "==", ">")].count(True) == 1
    assert matches(first, f"<={second}") is not matches(first, f">{second}")
    assert matches(first, f"!={second}") is not matches(first, f"=={second}")


@given(st.text())
def test_any_text_is_a_version_or_refused(text):
    try:
        parse_version(text)
    except InvalidVersion:
        pass
