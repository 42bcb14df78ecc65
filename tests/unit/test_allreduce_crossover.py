# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tuned table: what is one, which size goes where, and what counts as a gain."""

from __future__ import annotations

import json

import pytest

from .layer_package import row, table

from pcie_allreduce import crossover  # isort: skip
from pcie_allreduce.crossover import Launch, Plan, TableError  # isort: skip


def test_a_size_takes_the_launch_of_the_next_larger_measured_one():
    plan = Plan(table())
    assert plan.limit == 43008
    assert plan.launch(2) == plan.launch(14336) == Launch("one_shot", 8, 256)
    assert plan.launch(14338) == plan.launch(43008) == Launch("two_shot", 16, 256)


def test_nccl_above_the_crossover_and_for_nothing():
    assert [Plan(table()).launch(size) for size in (0, 43009, 114688, 1 << 30)] == [None] * 4


def test_the_crossover_ends_at_the_first_size_that_does_not_win():
    lost_in_between = [row(100, 1, 2), row(200, 3, 2), row(300, 1, 2)]
    assert crossover.crossover(lost_in_between) == 100
    assert crossover.crossover(lost_in_between[1:]) == 0
    assert Plan(table(rows=lost_in_between[1:])).launch(50) is None


@pytest.mark.parametrize(("us", "wins"), [(9.5, True), (9.51, False), (10.0, False), (10.5, False)])
def test_a_gain_within_the_noise_is_none(us, wins):
    assert crossover.wins(row(100, us, 10.0), 0.05) is wins


def test_losses_say_by_how_much():
    rows = [row(100, 9, 10), row(200, 9.8, 10), row(300, 12, 10)]
    assert crossover.losses(rows, [100]) == []
    assert crossover.losses(rows, [100, 200, 300, 400]) == [
        "200 bytes: 9.80 us, only 2 % faster than NCCL with 10.00 us",
        "300 bytes: 12.00 us, 20 % slower than NCCL with 10.00 us",
        "400 bytes were not measured",
    ]


def test_a_smaller_size_that_loses_ends_it_though_nobody_asked_for_it():
    rows = [row(100, 9.9, 10), row(200, 5, 10), row(300, 12, 10)]
    assert crossover.losses(rows, [200]) == [
        "100 bytes: 9.90 us, only 1 % faster than NCCL with 10.00 us (larger sizes are required, up to 200 bytes)"
    ]
    assert crossover.losses(rows[1:], [200]) == []


def test_a_table_survives_its_file(tmp_path):
    path = tmp_path / "table.json"
    crossover.write(str(path), table())
    assert crossover.read(str(path)) == table()
    assert path.stat().st_mode & 0o777 == 0o644
    assert [file.name for file in tmp_path.iterdir()] == ["table.json"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_version": 2}, "schema_version is 2, legal: 1"),
        ({"enabled": "yes"}, "enabled is 'yes', legal: true or false"),
        ({"world": 1}, "world is 1, legal: 2 to 8"),
        ({"world": True}, "world is True, legal: 2 to 8"),
        ({"transport": "nvlink"}, "transport is 'nvlink', legal: peer or host_staged"),
        ({"margin": 1.5}, "margin is 1.5"),
        ({"rows": []}, "rows is empty or no list"),
        ({"rows": [3]}, r"rows\[0\].bytes is None"),
        ({"rows": [row(100, 1, 2, algorithm="ring")]}, r"rows\[0\].algorithm is 'ring', legal: one_shot, two_shot"),
        ({"rows": [row(100, 1, 2, threads=100)]}, r"rows\[0\].threads is 100, legal: 32 to 512, in steps of 32"),
        ({"rows": [row(100, float("nan"), 2)]}, r"rows\[0\].us is nan"),
        ({"rows": [row(100, 10**400, 2)]}, r"rows\[0\].us is 1000"),
        ({"rows": [row(100, 1, 0)]}, r"rows\[0\].nccl_us is 0"),
        ({"rows": [row(200, 1, 2), row(100, 1, 2)]}, "not in ascending order"),
        ({"rows": [row(100, 1, 2), row(100, 1, 2)]}, "not in ascending order"),
    ],
)
def test_no_table(tmp_path, change, words):
    path = tmp_path / "table.json"
    path.write_text(json.dumps(table(**change)))
    with pytest.raises(TableError, match=words) as refused:
        crossover.read(str(path))
    assert str(path) in str(refused.value)
    assert "build_allreduce.yml" in str(refused.value)
    with pytest.raises(TableError):
        crossover.write(str(path), table(**change))


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", "[" * 100000])
def test_no_json_either(tmp_path, text):
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(TableError, match=r"table\.json"):
        crossover.read(str(path))
    with pytest.raises(TableError, match="nothing was measured"):
        crossover.read(str(tmp_path / "absent.json"))
