# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each version gets its own spelling, and what it would not understand is refused. The real parsers: check sglang-parsers."""

from __future__ import annotations

import json

import pytest
import yaml
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_catalogue import INSTEAD, RENAMED
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_instance import yaml_text
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_options import (
    FORMERLY,
    KNOWN_VERSIONS,
    OPTIONS,
    RESERVED,
    UnknownVersion,
    complaints,
    config,
    form_of,
    known_in,
    span,
    table_version,
    words,
)
from hypothesis import given
from hypothesis import strategies as st

NEWEST = KNOWN_VERSIONS[-1]


def complaint(args, version=NEWEST):
    found = complaints(args, version, "args")
    assert len(found) == 1, found
    return found[0]


def test_the_known_versions():
    assert tuple(f"0.5.{number}" for number in range(11, 24)) == KNOWN_VERSIONS


@pytest.mark.parametrize(
    ("versions", "words_for_it"),
    [
        (KNOWN_VERSIONS, "0.5.11 to 0.5.23"),
        (["0.5.12"], "0.5.12"),
        (["0.5.11", "0.5.12", "0.5.13", "0.5.20"], "0.5.11 to 0.5.13, 0.5.20"),
        ([], ""),
    ],
)
def test_versions_in_words(versions, words_for_it):
    assert span(versions) == words_for_it


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_the_first_customers_options(version):
    args = {
        "tp_size": 8,
        "trust_remote_code": True,
        "mem_fraction_static": 0.78,
        "tool_call_parser": "kimi_k2",
        "reasoning_parser": "kimi_k2",
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
    }
    assert complaints(args, version, "args") == []
    assert config(args, version) == {name.replace("_", "-"): value for name, value in sorted(args.items())}
    assert words(args, version) == []


@pytest.mark.parametrize(
    ("version", "in_file", "on_command_line"),
    [
        ("0.5.11", {"cuda-graph-max-bs": 16}, []),
        ("0.5.13", {"cuda-graph-max-bs": 16}, []),
        ("0.5.14", {}, ["--cuda-graph-max-bs-decode", "16"]),
        # These versions' reader of files refuses an option that shares its field with a deprecated one.
        ("0.5.18", {}, ["--cuda-graph-max-bs-decode", "16"]),
        ("0.5.20", {"cuda-graph-max-bs-decode": 16}, []),
        ("0.5.23", {"cuda-graph-max-bs-decode": 16}, []),
    ],
)
def test_a_renamed_option(version, in_file, on_command_line):
    args = {"cuda_graph_max_bs_decode": 16}
    assert complaints(args, version, "args") == []
    assert config(args, version) == in_file
    assert words(args, version) == on_command_line


@pytest.mark.parametrize(
    ("args", "version", "in_file"),
    [
        ({"flashinfer_allreduce_fusion_backend": "auto"}, "0.5.13", {"enable-flashinfer-allreduce-fusion": True}),
        (
            {"flashinfer_allreduce_fusion_backend": "auto"},
            "0.5.18",
            {"flashinfer-allreduce-fusion-backend": "auto"},
        ),
        ({"cuda_graph_backend_prefill": "disabled"}, "0.5.11", {"disable-piecewise-cuda-graph": True}),
        ({"cuda_graph_backend_prefill": "disabled"}, "0.5.23", {"cuda-graph-backend-prefill": "disabled"}),
    ],
)
def test_a_value_that_was_an_option(args, version, in_file):
    assert complaints(args, version, "args") == []
    assert config(args, version) == in_file


def test_a_value_that_was_none():
    assert complaint({"flashinfer_allreduce_fusion_backend": "trtllm"}, "0.5.13") == (
        "args.flashinfer_allreduce_fusion_backend: not an option of SGLang 0.5.13, where only 'auto' of it can be had, and not "
        "'trtllm'. Known in 0.5.14 to 0.5.23. Leave it out, or install one of these versions."
    )


def test_what_it_was_is_in_the_catalogue():
    for field, values in FORMERLY.items():
        before = [version for version in KNOWN_VERSIONS if version not in known_in(field)]
        for version in before:
            assert all(form_of(option, version).kind == "flag" for option, _on in values.values())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mem_fraction_sttic", "SGLang has no such option, did you mean mem_fraction_static?"),
        ("tp", "did you mean tp_size?"),
        ("nonsense", "SGLang has no such option. Known are"),
        ("--tp-size", "write tp_size: options are named as SGLang's own fields, without dashes"),
        ("tensor_parallel_size", "Write tp_size; what it is called in the installed version is seen to"),
        ("cuda_graph_max_bs", "Write cuda_graph_max_bs_decode;"),
        ("monokernel_backend", "SGLang has given this up and names --enable-amd-monokernel instead"),
        ("a\nb" * 100, "SGLang has no such option"),
    ],
)
def test_an_unknown_option(name, says):
    found = complaint({name: 1})
    assert says in found
    assert "\n" not in found


def test_an_option_that_the_version_lacks():
    found = complaint({"disable_piecewise_cuda_graph": True}, "0.5.20")
    assert found == (
        "args.disable_piecewise_cuda_graph: not an option of SGLang 0.5.20; SGLang names --cuda-graph-backend-prefill=disabled "
        "instead. Known in 0.5.11 to 0.5.13. Leave it out, or install one of these versions."
    )
    assert "Known in 0.5.22 to 0.5.23." in complaint({"attn_dp_size": 2}, "0.5.20")


@pytest.mark.parametrize("name", [*RESERVED, "model", "speculative_draft_model"])
def test_what_the_role_sets_itself(name):
    found = complaint({name: "geheim"})
    assert "geheim" not in found


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"tp_size": "8"}, "must be a whole number without quotes, not a string ('8')"),
        ({"tp_size": True}, "must be a whole number without quotes, not a boolean"),
        ({"tp_size": 1.5}, "must be a whole number without quotes, not a float"),
        ({"tp_size": 2**70}, "is beyond 64 bits"),
        ({"mem_fraction_static": "0.8"}, "must be a number without quotes"),
        ({"mem_fraction_static": float("nan")}, "is not a number that SGLang can use"),
        ({"trust_remote_code": "true"}, "must be true or false, not a string"),
        ({"lora_strict_loading": 1}, "must be true or false, not an integer"),
        ({"served_model_name": 5}, "must be a string, not an integer (5). Write it in quotes"),
        ({"served_model_name": "-x"}, "begins with a dash, and SGLang would take it for an option"),
        ({"served_model_name": "a\0b"}, "holds a character that no command line can carry"),
        ({"served_model_name": "x" * 5000}, "is longer than 4096 characters"),
        ({"attention_backend": "flashinfr"}, "'flashinfr' is not legal, did you mean flashinfer? Legal: "),
        ({"max_lora_chunk_size": 17}, "17 is not legal. Legal: 16, 32, 64"),
        ({"context_length": "32kb"}, "must be a whole number, or one with a unit such as '32k' or '128Ki', not '32kb'"),
        ({"context_length": "1.5Ki"}, "must be a whole number, or one with a unit"),
        ({"cuda_graph_bs_decode": 4}, "must be a list of whole numbers, and not an empty one, not 4"),
        ({"cuda_graph_bs_decode": []}, "must be a list of whole numbers, and not an empty one"),
        ({"cuda_graph_bs_decode": [1, "2"]}, "in [1, '2']: must be a whole number"),
        ({"bucket_e2e_request_latency": ["a"]}, "must be a number without quotes"),
        ({"encoder_urls": ["--x"]}, "begins with a dash"),
        ({"lora_target_modules": ["x"]}, "in ['x']: 'x' is not legal"),
        ({"lora_paths": [{"lora_name": "a"}]}, "lacks lora_path"),
        ({"preferred_sampling_params": "x"}, "must be a mapping or a list, not a string"),
        ({"cuda_graph_config": ["a"]}, "must be a mapping, not a list"),
        ({"forward_hooks": {"a": 1}}, "must be a list, not a mapping"),
        ({"preferred_sampling_params": {"a": float("inf")}}, "cannot be written as JSON"),
        ({1: 2}, "the name of an option must be a string, not an integer"),
    ],
)
def test_an_illegal_value(args, says):
    assert says in complaint(args)


@pytest.mark.parametrize(
    ("args", "in_file"),
    [
        ({"mem_fraction_static": 1}, {"mem-fraction-static": 1}),
        ({"schedule_conservativeness": -0.5}, {"schedule-conservativeness": -0.5}),
        ({"random_seed": -1}, {"random-seed": -1}),
        ({"context_length": "128Ki"}, {"context-length": "128Ki"}),
        ({"context_length": 4096}, {"context-length": 4096}),
        ({"cuda_graph_bs_decode": [1, 2]}, {"cuda-graph-bs-decode": [1, 2]}),
        ({"prompt_tokens_buckets": ["tse", 1000, 2, 8]}, {"prompt-tokens-buckets": ["tse", "1000", "2", "8"]}),
        ({"preferred_sampling_params": {"b": 1, "a": 2}}, {"preferred-sampling-params": '{"a": 2, "b": 1}'}),
        ({"forward_hooks": [{"a": 1}]}, {"forward-hooks": '[{"a": 1}]'}),
        ({"trust_remote_code": False}, {}),
        ({"tp_size": None}, {}),
        ({}, {}),
    ],
)
def test_how_a_value_is_written(args, in_file):
    assert complaints(args, NEWEST, "args") == []
    assert config(args, NEWEST) == in_file


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"lora_strict_loading": True}, ["--lora-strict-loading"]),
        ({"lora_strict_loading": False}, ["--no-lora-strict-loading"]),
        ({"lora_strict_loading": None}, []),
        ({"disable_cuda_graph": True}, ["--disable-cuda-graph"]),
        ({"disable_cuda_graph": False}, []),
        (
            {"lora_paths": ["a=/b", {"lora_name": "c", "lora_path": "/d"}]},
            ["--lora-paths", "a=/b", '{"lora_name": "c", "lora_path": "/d"}'],
        ),
    ],
)
def test_what_no_file_can_hold(args, expected):
    assert complaints(args, NEWEST, "args") == []
    assert config(args, NEWEST) == {}
    assert words(args, NEWEST) == expected


def test_null_takes_an_option_away_in_every_version():
    assert complaints({"attn_dp_size": None}, "0.5.11", "args") == []
    assert config({"attn_dp_size": None}, "0.5.11") == {}


def test_nested_without_end():
    endless = {}
    endless["a"] = endless
    assert "nested deeper than 20 levels" in complaint({"preferred_sampling_params": endless})


def test_no_mapping():
    assert complaints(["--tp-size", "8"], NEWEST, "args") == [
        "args: must be a mapping of option: value, not a list (['--tp-size', '8']). Write {} for none."
    ]


@pytest.mark.parametrize(
    ("version", "known", "says"),
    [
        ("0.5.23", "0.5.23", ""),
        ("0.5.23+cu130", "0.5.23", ""),
        ("0.5.23.post1", "0.5.23", "newer than the newest"),
        ("0.6.0", "0.5.23", "its own parser has the last word"),
        ("0.5.12.post1", "0.5.12", "those of 0.5.12, and what is new in 0.5.13"),
    ],
)
def test_a_version_that_is_not_known(version, known, says):
    found, remark = table_version(version)
    assert found == known
    assert says in remark
    assert bool(says) == bool(remark)


@pytest.mark.parametrize(("version", "says"), [("0.5.10", "is older than 0.5.11"), ("main", "is not a version")])
def test_a_version_that_cannot_be_used(version, says):
    with pytest.raises(UnknownVersion, match=says):
        complaints({}, version, "args")


@pytest.mark.parametrize(
    ("args", "in_file", "on_command_line"),
    [
        ({"attn_dp_size": 2}, {"attn-dp-size": 2}, []),  # new in the next known version
        ({"cuda_graph_tc_compiler": "eager"}, {"cuda-graph-tc-compiler": "eager"}, []),  # gone in the next
        ({"cuda_graph_backend_decode": "tc_piecewise"}, {"cuda-graph-backend-decode": "tc_piecewise"}, []),
        ({"attention_backend": "llada2_cfg_flashinfer"}, {"attention-backend": "llada2_cfg_flashinfer"}, []),
        ({"enable_dp_attention": True}, {"enable-dp-attention": True}, []),
    ],
)
def test_a_version_between_two_known_ones_may_have_the_options_of_both(args, in_file, on_command_line):
    assert complaints(args, "0.5.21.post1", "args") == []
    assert config(args, "0.5.21.post1") == in_file
    assert words(args, "0.5.21.post1") == on_command_line


def test_what_neither_neighbour_has():
    assert "not an option of SGLang 0.5.21" in complaint({"disable_piecewise_cuda_graph": True}, "0.5.21.post1")
    assert "is not legal" in complaint({"attention_backend": "nothing"}, "0.5.21.post1")


def test_no_spelling_is_an_abbreviation_of_another_way_round():
    """Every exact spelling belongs to one field only, and every rename leads to a field."""
    for version in KNOWN_VERSIONS:
        spelled = [form_of(field, version).option for field in OPTIONS if form_of(field, version)]
        assert len(spelled) == len(set(spelled))
    assert set(RENAMED.values()) <= set(OPTIONS)
    assert not set(RENAMED) & set(OPTIONS)
    assert set(RESERVED) - {"config"} <= set(OPTIONS)
    assert all(text.startswith("--") for text in INSTEAD.values())


def test_forms_follow_each_other():
    for field, forms in OPTIONS.items():
        bounds = [KNOWN_VERSIONS.index(bound) for form in forms for bound in (form.since, form.until)]
        assert bounds == sorted(bounds), field
        assert json.dumps([form.kind for form in forms])


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["triton", "32k", "a=b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from(sorted(OPTIONS)) | st.text(max_size=6), VALUES, max_size=4),
    st.sampled_from(KNOWN_VERSIONS),
)
def test_whatever_has_no_complaint_can_be_written(args, version):
    if complaints(args, version, "args"):
        return
    written = config(args, version)
    assert yaml.safe_load(yaml_text(written) or "{}").keys() == written.keys()
    for word in words(args, version):
        assert isinstance(word, str)
        assert "\0" not in word


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"mem_fraction_static": 5.0}, "args.mem_fraction_static: 5.0 is not legal. Legal: above 0, at most 1."),
        ({"mem_fraction_static": 0}, "args.mem_fraction_static: 0 is not legal. Legal: above 0, at most 1."),
        ({"tp_size": 0}, "args.tp_size: 0 is not legal. Legal: 1 or more."),
        ({"pp_size": -2}, "args.pp_size: -2 is not legal. Legal: 1 or more."),
        (
            {"speculative_algorithm": "EAGEL3"},
            "'EAGEL3' is no algorithm of SGLang, did you mean EAGLE3 or EAGLE? Known:",
        ),
        ({"extra_args": "--x"}, "args.extra_args: SGLang has no such option. Known are"),
    ],
)
def test_what_a_parser_takes_and_no_server_survives(args, said):
    (found,) = complaints(args, "0.5.23", "args")
    assert said in found


@pytest.mark.parametrize(
    "args",
    [
        {"mem_fraction_static": 1},
        {"tp_size": 1},
        {"speculative_algorithm": "eagle3"},
        {"speculative_algorithm": "MY_PLUGIN"},
        {"speculative_algorithm": None},
    ],
)
def test_values_at_the_edge_and_of_a_plugin_pass(args):
    assert complaints(args, "0.5.23", "args") == []
