# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory budget: the first customer's case, the edges, and words that name the way on."""

from __future__ import annotations

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_memory import budget, smallest_fraction


def test_the_case_that_cost_ten_minutes_a_try():
    found = budget(94.97, free_after_gib=21.78, fraction=0.55)
    assert round(found.kv_gib, 2) == -20.96
    assert found.smallest_fraction == 0.78
    assert found.works is False
    assert found.sentence == (
        "free before 94.97 GiB, free after the weights 21.78 GiB: 21.78 - 94.97 x (1 - 0.55) = -20.96 GiB for the KV cache. "
        "It cannot start, whatever NCCL does; smallest mem_fraction_static that works: 0.78."
    )


def test_the_smallest_fraction_works_and_the_one_below_does_not():
    assert budget(94.97, free_after_gib=21.78, fraction=0.78).works is True
    assert budget(94.97, free_after_gib=21.78, fraction=0.77).works is False


def test_weights_of_model_and_draft_are_the_same_as_what_is_free_after_them():
    by_weights = budget(94.97, weights_gib=70.0, draft_gib=3.19, fraction=0.55)
    assert by_weights.sentence == budget(94.97, free_after_gib=21.78, fraction=0.55).sentence


def test_a_reservation_comes_off():
    found = budget(100, free_after_gib=30, fraction=0.75, reservation_gib=6)
    assert found.kv_gib == pytest.approx(-1)
    assert found.smallest_fraction == 0.77
    assert "- 6.00 = -1.00 GiB" in found.sentence


@pytest.mark.parametrize(
    ("before", "left", "smallest"),
    [
        (100, 23, 0.78),  # exactly 0.77 leaves nothing
        (100, 23.0001, 0.77),
        (100, 22.9999, 0.78),
        (100, 99.9, 0.01),
        (100, 100, 0.01),
        (100, 1.5, 0.99),
        (100, 1, None),
        (100, 0, None),
        (100, -50, None),
    ],
)
def test_rounding_up(before, left, smallest):
    assert smallest_fraction(before, left) == smallest
    if smallest is not None:
        assert left - before * (1 - smallest) > 0


def test_without_a_fraction_nothing_is_refused_that_could_work():
    found = budget(100, weights_gib=70)
    assert (found.kv_gib, found.works, found.smallest_fraction) == (None, None, 0.71)
    assert "SGLang chooses it" in found.sentence


@pytest.mark.parametrize("fraction", [None, 0.5, 0.99])
def test_weights_that_do_not_fit_are_refused_with_any_fraction(fraction):
    found = budget(100, weights_gib=120, fraction=fraction)
    assert (found.works, found.smallest_fraction) == (False, None)
    assert "The weights alone do not fit" in found.sentence


def test_weights_that_fill_the_gpu():
    found = budget(100, weights_gib=99.5, fraction=0.9)
    assert found.works is False
    assert "No mem_fraction_static up to 0.99" in found.sentence


@pytest.mark.parametrize("given", [{}, {"weights_gib": 1, "free_after_gib": 1}])
def test_one_of_the_two_is_given(given):
    with pytest.raises(ValueError, match="one of weights_gib and free_after_gib"):
        budget(10, **given)
