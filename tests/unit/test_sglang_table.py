# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of SGLang's options is put together from what several parsers say; here they are invented."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[1] / "checks" / "sglang_table.py"
spec = importlib.util.spec_from_file_location("sglang_table_under_test", PATH)
table = importlib.util.module_from_spec(spec)
spec.loader.exec_module(table)


def option(dest, *spellings, action="_StoreAction", kind="str", choices=None, nargs=None, file=True, instead=""):
    spelled = list(spellings or [dest.replace("_", "-")])
    return {
        "dest": dest,
        "spellings": spelled,
        "action": action,
        "type": kind,
        "nargs": nargs,
        "choices": choices,
        "file": spelled if file else [],
        "instead": instead,
    }


def made(*versions):
    answers = [{"version": f"0.{number}", "options": options} for number, options in enumerate(versions, 1)]
    found: dict = {}
    exec(compile(table.Table(answers).source(), "catalogue", "exec"), found)  # noqa: S102 - what was just written
    return found


def forms(found, field):
    return [tuple(form) for form in found["OPTIONS"][field]]


def test_an_option_that_stays_is_one_form():
    found = made([option("a", kind="int")], [option("a", kind="int")])
    assert found["KNOWN_VERSIONS"] == ("0.1", "0.2")
    assert forms(found, "a") == [("0.1", "0.2", "a", "int", "", True)]


def test_a_change_begins_another_form():
    found = made([option("a", choices=["x"])], [option("a", choices=["y", "x"])], [option("a", choices=["x", "y"])])
    assert forms(found, "a") == [("0.1", "0.1", "a", "text", "x", True), ("0.2", "0.3", "a", "text", "x y", True)]


def test_a_gap_is_kept():
    assert forms(made([option("a")], [], [option("a")]), "a") == [
        ("0.1", "0.1", "a", "text", "", True),
        ("0.3", "0.3", "a", "text", "", True),
    ]


def test_the_newest_name_counts():
    found = made(
        [option("tensor_size", "tensor-size", "tp-size")],
        [option("tp_size", "tp-size", "tensor-size")],
    )
    assert forms(found, "tp_size") == [("0.1", "0.2", "tp-size", "text", "", True)]
    assert found["RENAMED"] == {"tensor_size": "tp_size"}


def test_a_deprecated_spelling_leads_over():
    new = option("graph_max", file=False)
    found = made(
        [option("max_bs")],
        [new, option("graph_max", "max-bs", action="DeprecatedAliasStoreAction", instead="--graph-max", file=False)],
        [option("graph_max")],
    )
    assert forms(found, "graph_max") == [
        ("0.1", "0.1", "max-bs", "text", "", True),
        ("0.2", "0.2", "graph-max", "text", "", False),
        ("0.3", "0.3", "graph-max", "text", "", True),
    ]
    assert found["RENAMED"] == {"max_bs": "graph_max"}
    assert found["INSTEAD"] == {}


def test_an_option_that_became_a_value_has_a_successor():
    const = option("b", "no-graph", action="DeprecatedStoreConstAction", instead="--b=off")
    found = made([option("no_graph", action="_StoreTrueAction")], [option("b"), const])
    assert forms(found, "no_graph") == [("0.1", "0.1", "no-graph", "flag", "", True)]
    assert found["RENAMED"] == {}
    assert found["INSTEAD"] == {"no_graph": "--b=off"}


def test_what_does_nothing_any_more_is_no_option():
    assert (
        made([option("a", action="DeprecatedAction"), option("help", action="_HelpAction"), option("config")])[
            "OPTIONS"
        ]
        == {}
    )


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (option("a", action="BooleanOptionalAction"), "switch"),
        (option("a", action="DeprecatedStoreTrueAction"), "flag"),
        (option("a", action="LoRAPathAction", nargs="*"), "lora"),
        (option("a", kind="int", nargs="+"), "ints"),
        (option("a", nargs="?"), "text"),
        (option("a", kind="loads"), "json"),
    ],
)
def test_kinds(given, kind):
    assert forms(made([given]), "a")[0][3] == kind


def test_what_is_not_known_is_no_guess():
    with pytest.raises(ValueError, match="action NewAction of --a is not known"):
        made([option("a", action="NewAction")])
    with pytest.raises(KeyError, match="new_type"):
        made([option("a", kind="new_type")])


def test_two_options_for_one_field_are_noticed():
    with pytest.raises(ValueError, match=r"0\.1: b is two options"):
        made([option("a", "a"), option("b", "b")], [option("b", "b", "a")])


def test_long_choices_are_broken():
    names = [f"a-rather-long-name-{number}" for number in range(20)]
    source = table.Table([{"version": "0.1", "options": [option("a", choices=names)]}]).source()
    assert forms(made([option("a", choices=names)]), "a")[0][4].split() == sorted(names)
    assert "' '" in source
