# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A name and the inventory's changes become one profile, or one message that says what is wrong."""

from __future__ import annotations

import copy
import pathlib

import pytest
import yaml
from ansible_collections.gpu_node.tuning.plugins.module_utils.profiles import (
    InvalidProfile,
    resolve,
    resolve_with_warnings,
)
from hypothesis import given
from hypothesis import strategies as st

PROFILES = pathlib.Path(__file__).resolve().parents[2] / "roles" / "profile" / "vars" / "profiles"
FILES = sorted(PROFILES.glob("*.yml"))

BASE = {
    "summary": "A small profile",
    "status": "experimental",
    "env": {
        "NCCL_PROTO": {"value": "ll", "reason": "because"},
        "NCCL_MAX_NCHANNELS": {"value": 16, "reason": "less memory"},
    },
}


def shipped(**changes):
    return {"base": {**copy.deepcopy(BASE), **changes}, "other": {"summary": "Another", "status": "known_good"}}


def refusal(*args, **kwargs):
    with pytest.raises(InvalidProfile) as caught:
        resolve(*args, **kwargs)
    return str(caught.value)


def test_the_result_has_every_key_and_plain_data():
    assert resolve("base", shipped()) == {
        "name": "base",
        "summary": "A small profile",
        "status": "experimental",
        "lesson": "",
        "env": {"NCCL_MAX_NCHANNELS": "16", "NCCL_PROTO": "LL"},
        "reasons": {"NCCL_MAX_NCHANNELS": "less memory", "NCCL_PROTO": "because"},
        "sglang": {"env": {}, "args": {}},
        "allreduce": "nccl",
        "requires": {},
        "evidence": [],
    }


def test_only_the_profile_of_the_custom_all_reduce_switches_it_on():
    whole = {path.stem: yaml.safe_load(path.read_text()) for path in FILES}
    switches = {name: resolve(name, whole)["sglang"]["env"].get("PCIE_ALLREDUCE") for name in whole}
    assert {name: value for name, value in switches.items() if value is not None} == {"custom_allreduce": "1"}


def test_the_input_stays_as_it_was():
    profiles, overrides = shipped(), {"NCCL_PROTO": None, "NCCL_ALGO": "ring"}
    resolve("base", profiles, {}, overrides)
    assert profiles == shipped()
    assert overrides == {"NCCL_PROTO": None, "NCCL_ALGO": "ring"}


def test_subclasses_of_str_leave_as_plain_strings():
    class Tagged(str):
        pass

    profile = resolve(
        Tagged("base"),
        {Tagged("base"): {Tagged(key): value for key, value in shipped()["base"].items()}},
        {},
        {Tagged("NCCL_ALGO"): Tagged("ring")},
    )
    assert profile["env"]["NCCL_ALGO"] == "Ring"

    def walk(value):
        if isinstance(value, dict):
            for key, item in value.items():
                walk(key)
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)
        else:
            assert type(value) in (str, int, float, bool, type(None))

    walk(profile)


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bse", "BASE", "", None, 3, [], "base\n", "../base", "x" * 100000])
def test_an_unknown_name_lists_the_known_ones(name):
    message = refusal(name, shipped(), {"mine": {}})
    assert "Known profiles: base, mine, other." in message
    assert "\n" not in message


def test_an_unknown_name_gets_a_guess():
    assert refusal("bas", shipped()).startswith("unknown profile 'bas', did you mean base?")


def test_no_profile_at_all():
    assert "Known profiles: none." in refusal("base", {})


@pytest.mark.parametrize("name", ["Mine", "my-profile", "1st", "a b", "", "ä", "mine\n", 7, None])
def test_profile_names_are_plain(name):
    assert "is not a profile name" in refusal("base", shipped(), {name: BASE})


# --- tuning_profiles ------------------------------------------------------------------------------------------------


def test_the_inventory_adds_a_profile_with_bare_values():
    mine = {
        "summary": "Mine",
        "status": "experimental",
        "env": {"NCCL_ALGO": "tree,ring", "NCCL_NTHREADS": {"value": 256}},
    }
    profile = resolve("mine", shipped(), {"mine": mine})
    assert profile["env"] == {"NCCL_ALGO": "Tree,Ring", "NCCL_NTHREADS": "256"}
    assert profile["reasons"] == dict.fromkeys(profile["env"], "set by profile mine of tuning_profiles")


def test_the_inventory_replaces_a_shipped_profile_as_a_whole():
    profile = resolve("base", shipped(), {"base": {"summary": "Mine", "status": "known_good"}})
    assert profile["env"] == {}
    assert profile["summary"] == "Mine"


def test_only_the_wanted_profile_is_looked_into():
    assert resolve("base", shipped(), {"broken": "not a profile"})["name"] == "base"


# --- overrides ------------------------------------------------------------------------------------------------------


def test_overrides_set_replace_and_remove():
    profile = resolve(
        "base",
        shipped(),
        None,
        {"NCCL_MAX_NCHANNELS": 8, "NCCL_PROTO": None, "NCCL_ALGO": {"value": "ring", "reason": "measured"}},
    )
    assert profile["env"] == {"NCCL_ALGO": "Ring", "NCCL_MAX_NCHANNELS": "8"}
    assert profile["reasons"] == {"NCCL_ALGO": "measured", "NCCL_MAX_NCHANNELS": "set by nccl_env_overrides"}


def test_an_override_takes_the_place_of_a_bad_value():
    profiles = shipped(env={"NCCL_NTHREADS": {"value": 100, "reason": "wrong"}})
    assert resolve("base", profiles, {}, {"NCCL_NTHREADS": 128})["env"] == {"NCCL_NTHREADS": "128"}
    assert resolve("base", profiles, {}, {"NCCL_NTHREADS": None})["env"] == {}


def test_removing_what_is_not_set_is_a_typo():
    message = refusal("base", shipped(), {}, {"NCCL_PROTOO": None})
    assert "profile base does not set this one, did you mean NCCL_PROTO?" in message
    assert "It sets: NCCL_MAX_NCHANNELS, NCCL_PROTO." in message


def test_all_faults_of_all_places_come_in_one_message():
    profiles = shipped(
        env={"NCCL_BUFFSIZE": {"value": "4MB", "reason": "x"}, "NCCL_ALGO": {"value": "Ring", "reason": "x"}}
    )
    message = refusal(
        "base", profiles, {}, {"NCCL_NTHREADS": 100, "NCCL_PROTO": None, "NCCL_IB_DISABLE": {"value": 1, "reasn": "x"}}
    )
    lines = message.splitlines()
    assert lines[0].startswith("4 faults in the NCCL environment of profile base (")
    assert len(lines) == 5
    assert any("NCCL_BUFFSIZE='4MB'" in line and line.endswith("[profile base]") for line in lines)
    assert any("NCCL_NTHREADS=100" in line and line.endswith("[nccl_env_overrides]") for line in lines)
    assert any("'reasn': unknown key, did you mean reason?" in line for line in lines)


@pytest.mark.parametrize(
    "overrides",
    [
        {3: None},
        {3: 1},
        {None: None},
        {"NCCL_PROTO": {"value": None}},
        {"NCCL_PROTO": {}},
        {"NCCL_PROTO": {"reason": "x"}},
        {"NCCL_PROTO": {"value": "LL", "reason": 3}},
        {"NCCL_PROTO\n": None},
        {(1, 2): {"value": 1}},
    ],
)
def test_a_bad_override_is_one_line(overrides):
    message = refusal("base", shipped(), {}, overrides)
    assert "nccl_env_overrides" in message
    assert "\n" not in message


@pytest.mark.parametrize("place", ["tuning_profiles", "overrides"])
@pytest.mark.parametrize("value", [[], "x", 3, True])
def test_the_arguments_are_mappings(place, value):
    assert "must be a mapping" in refusal("base", shipped(), **{place: value})


# --- the shape of a profile -----------------------------------------------------------------------------------------

FIGURE = {"workload": "w", "metric": "m", "value": 1, "unit": "u", "source": "s"}
BAD_SHAPES = [
    ({"summry": "x"}, "'summry': unknown key, did you mean summary? Legal keys: summary, status"),
    ({3: "x"}, "3: unknown key"),
    ({"summary": None}, "summary: must be a sentence"),
    ({"summary": " "}, "summary: must be a sentence"),
    ({"status": None}, "status: None is not legal. Legal: known_good, experimental, dead_end"),
    ({"status": "good"}, "status: 'good' is not legal"),
    ({"status": []}, "status: [] is not legal"),
    ({"allreduce": "ring"}, "allreduce: 'ring' is not legal. Legal: nccl, bundled, sglang_pcie_ipc"),
    ({"allreduce": None}, "allreduce: None is not legal"),
    ({"env": ["NCCL_PROTO"]}, "env: must be a mapping"),
    ({"env": {"NCCL_PROTO": {"val": "LL"}}}, "env.NCCL_PROTO"),
    ({"sglang": {"arg": {}}}, "sglang.'arg': unknown key"),
    ({"sglang": {"args": []}}, "sglang.args: must be a mapping"),
    ({"sglang": []}, "sglang: must be a mapping"),
    ({"requires": {"gpus": 8}}, "requires.'gpus': unknown key"),
    ({"requires": {"gpu_count": "8"}}, "requires.gpu_count: '8' is not a window of versions"),
    ({"requires": {"gpu_count": 0}}, "requires.gpu_count: must be a whole number"),
    ({"requires": {"gpu_count": 10**5000}}, "requires.gpu_count: must be a whole number from 1 to 1024"),
    ({"requires": {"p2p": False}}, "requires.p2p: must be true, or left out"),
    ({"requires": {"sglang": "0.5.22"}}, "requires.sglang: '0.5.22' is not a window of versions"),
    ({"requires": {"gpu": ""}}, "requires.gpu: must be a quoted string"),
    ({"status": "dead_end"}, "lesson: a dead end needs one"),
    ({"lesson": 3}, "lesson: must be a text"),
    ({"based_on": ["other"]}, "based_on: must be the name of a profile"),
    ({"based_on": "othr"}, "based_on: unknown profile 'othr', did you mean other? Known: base, other"),
    ({"based_on": "base"}, "based_on: base -> base goes round in a circle"),
    ({"requires": {"gpu_count": True}}, "requires.gpu_count: must be a whole number"),
    ({"requires": {"compute_capability": [12.0]}}, "must be a list of quoted strings"),
    ({"requires": {"compute_capability": "12.0"}}, "must be a list of quoted strings"),
    ({"requires": {"nccl": 2.21}}, "requires.nccl: 2.21 is not a window of versions"),
    ({"requires": {"interconnect": "PCI"}}, "Legal: pcie, nvlink"),
    ({"evidence": {}}, "evidence: must be a list"),
    ({"evidence": "90 tok/s"}, "evidence: must be a list"),
    ({"evidence": ["90 tok/s"]}, "evidence[0]: must be a mapping"),
    ({"evidence": [FIGURE, {"workload": "w"}]}, "evidence[1]: lacks metric, value, unit, source"),
    ({"evidence": [{**FIGURE, "value": "90"}]}, "evidence[0].value: must be a number"),
    ({"evidence": [{**FIGURE, "value": float("nan")}]}, "evidence[0].value: must be a number"),
    ({"evidence": [{**FIGURE, "figure": 1}]}, "evidence[0].'figure': unknown key"),
]


@pytest.mark.parametrize(("change", "text"), BAD_SHAPES)
def test_a_profile_of_the_wrong_shape_is_refused(change, text):
    message = refusal(
        "base", shipped(**change) if all(isinstance(key, str) for key in change) else {"base": {**BASE, **change}}
    )
    assert message.startswith("profile base: ")
    assert text in message


@pytest.mark.parametrize("profile", [None, [], "x", 3])
def test_a_profile_is_a_mapping(profile):
    assert "must be a mapping with the keys summary" in refusal("mine", shipped(), {"mine": profile})


def test_a_profile_that_contains_itself_is_refused():
    profile = copy.deepcopy(BASE)
    profile["sglang"] = {"args": {}}
    profile["sglang"]["args"]["again"] = profile["sglang"]
    assert "nested too deeply" in refusal("base", {"base": profile})


@pytest.mark.parametrize("key", ["env", "sglang", "requires", "evidence"])
def test_an_empty_key_counts_as_absent(key):
    assert resolve("base", shipped(**{key: None}))[key] == resolve("other", shipped())[key]


# --- a profile that is based on another -----------------------------------------------------------------------------


def test_a_profile_based_on_another_takes_its_env_and_changes_it():
    own = {
        "mine": {
            "summary": "s",
            "status": "experimental",
            "based_on": "base",
            "env": {"NCCL_PROTO": None, "NCCL_MAX_NCHANNELS": 8, "NCCL_ALGO": {"value": "ring", "reason": "one"}},
        },
        "next": {"summary": "s", "status": "experimental", "based_on": "mine"},
    }
    for name in ("mine", "next"):
        profile = resolve(name, shipped(), own)
        assert profile["env"] == {"NCCL_ALGO": "Ring", "NCCL_MAX_NCHANNELS": "8"}
        assert profile["reasons"]["NCCL_ALGO"] == "one"
    own["mine"]["based_on"] = "next"
    assert "mine -> next -> mine goes round in a circle" in refusal("mine", shipped(), own)


def test_what_a_base_requires_holds_where_the_profile_says_nothing():
    profiles = shipped(requires={"gpu_count": 8})
    own = {
        "same": {"summary": "s", "status": "experimental", "based_on": "base"},
        "other": {"summary": "s", "status": "experimental", "based_on": "base", "requires": {"gpu_count": 4}},
        "any": {"summary": "s", "status": "experimental", "based_on": "base", "requires": {}},
    }
    found = {name: resolve(name, profiles, own)["requires"] for name in own}
    assert found == {"same": {"gpu_count": 8}, "other": {"gpu_count": 4}, "any": {}}


def test_a_dead_end_makes_a_dead_end():
    profiles = shipped(status="dead_end", lesson="It was slow.")
    own = {"mine": {"summary": "s", "status": "known_good", "based_on": "base"}}
    assert "base is a dead end, and a profile based on it is one too" in refusal("mine", profiles, own)
    own["mine"].update(status="dead_end", lesson="Still slow.")
    assert resolve("mine", profiles, own)["lesson"] == "Still slow."


def test_a_long_chain_of_bases_is_refused():
    chain = {f"p{n}": {"summary": "s", "status": "experimental", "based_on": f"p{n + 1}"} for n in range(1500)}
    assert "more than 20 profiles, each based on the next" in refusal("p0", chain)


def test_null_in_a_profile_removes_only_what_is_there():
    own = {"mine": {"summary": "s", "status": "experimental", "based_on": "base", "env": {"NCCL_ALGO": None}}}
    assert "NCCL_ALGO=None: null is not a value" in refusal("mine", shipped(), own)


# --- warnings -------------------------------------------------------------------------------------------------------


def test_a_shipped_value_is_not_warned_about_and_an_override_is():
    assert resolve_with_warnings("base", shipped())[1] == []
    warnings = resolve_with_warnings("base", shipped(), {}, {"NCCL_MAX_NCHANNELS": 8})[1]
    assert len(warnings) == 1
    assert warnings[0].startswith("NCCL_MAX_NCHANNELS=8: deprecated since NCCL 2.17")
    assert warnings[0].endswith("[nccl_env_overrides]")


def test_a_dead_end_is_warned_about():
    assert resolve_with_warnings("base", shipped(status="dead_end", lesson="It was slow."))[1] == [
        "profile base is a dead end, it was tried and failed: A small profile"
    ]


# --- the shipped profiles -------------------------------------------------------------------------------------------


def load(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_known_good_set():
    profiles = {path.stem: load(path) for path in FILES}
    assert resolve("known_good", profiles)["env"] == {
        "NCCL_ALGO": "Ring",
        "NCCL_BUFFSIZE": "16777216",
        "NCCL_MAX_NCHANNELS": "16",
        "NCCL_NTHREADS": "512",
        "NCCL_P2P_LEVEL": "SYS",
        "NCCL_PROTO": "LL",
    }
    assert resolve("stock", profiles)["env"] == {}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_shipped_profile_is_valid_and_what_is_known_good_was_measured(path):
    profile = resolve(path.stem, {each.stem: load(each) for each in FILES})
    assert all(len(reason) > 40 for reason in profile["reasons"].values())
    assert profile["evidence"] or not profile["env"] or profile["status"] != "known_good"


# --- properties -----------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["summary", "status", "env", "sglang", "allreduce", "requires", "evidence", "lesson", "based_on", "other"]
)


@given(
    JSON,
    st.dictionaries(KEYS, JSON, max_size=4) | JSON,
    st.dictionaries(st.text(max_size=8) | st.integers(), JSON, max_size=3) | JSON,
)
def test_nothing_but_a_profile_or_a_clear_refusal_comes_out(name, changes, overrides):
    profile = {**BASE, **changes} if isinstance(changes, dict) else changes
    for wanted in (name, "base"):
        try:
            result = resolve(wanted, {"base": profile}, None, overrides)
        except InvalidProfile:
            pass
        else:
            assert list(result["env"]) == list(result["reasons"])
