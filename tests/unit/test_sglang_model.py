# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a model: complete, incomplete in every way, and hostile. And the spread of its weights over GPUs."""

from __future__ import annotations

import json
import os

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_weights
from ansible_collections.gpu_node.tuning.plugins.module_utils.safetensors_file import Tensor
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_model import (
    INDEX,
    draft_complaints,
    inspect,
    summary,
)

from .small_models import CONFIG, shard_bytes, write_model

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
# Kimi-K2.5 in the fields that are asked for, with a text_config as there.
KIMI = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "auto_map": {"AutoConfig": "configuration_kimi_k25.KimiK25Config"},
    "text_config": {
        "hidden_size": 7168,
        "num_hidden_layers": 61,
        "vocab_size": 163840,
        "quantization_config": {},
        "kv_lora_rank": 512,
    },
    "vision_config": {"vt_hidden_size": 1152},
}


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "model")


def said(found, verdict):
    return [message for its, message in found["findings"] if its == verdict]


def refused(path, **options):
    """The one refusal of a model; several or none are a failure."""
    found = inspect(str(path), tokenizer=str(path), **options)
    (message,) = said(found, "refused")
    return message


@pytest.mark.parametrize("index", [True, False])
def test_a_complete_model(tmp_path, index):
    path = write_model(tmp_path / "model", index=index)
    found = inspect(str(path), tokenizer=str(path))
    assert {verdict for verdict, _message in found["findings"]} == {"ok"}
    assert said(found, "ok") == [
        "LlamaForCausalLM; layers 2; hidden size 8; vocabulary 16",
        "2 shards, 0.00 GiB, every header fits its file",
        "tokenizer: tokenizer.json",
    ]
    # 16x8 twice, and two layers of 8x8, 4x8, 32x8 and 8, in two bytes each.
    assert found["weights"] == {
        "split": 2 * 512,
        "every": 2 * 16,
        "keys": 2 * 64,
        "attention": 2 * 128,
        "embeddings": 256,
        "head": 256,
        "vision": 0,
        "extra": 0,
    }
    assert json.loads(json.dumps(found)) == found


def test_a_shard_that_is_missing(model):
    (model / SECOND).unlink()
    assert f"1 of the 2 shards that the index names are not there: {SECOND}" in refused(model)


def test_a_shard_that_is_missing_without_an_index(tmp_path):
    path = write_model(tmp_path / "model", index=False)
    (path / FIRST).unlink()
    assert f"1 of 2 shards are not there, the first is {FIRST}; {INDEX} is not there either" in refused(path)


def test_a_truncated_shard_names_its_file(model):
    content = (model / SECOND).read_bytes()
    (model / SECOND).write_bytes(content[:-100])
    found = inspect(str(model), tokenizer=str(model))
    assert said(found, "refused") == [
        f"{model / SECOND}: truncated: 100 bytes of 976 bytes are missing. Download this file again."
    ]
    assert found["weights"] is None


def test_many_bad_shards_are_counted_and_four_are_named(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    for number in range(1, 10):
        (path / f"model-{number:05d}-of-00009.safetensors").write_bytes(b"x")
    told = said(inspect(str(path)), "refused")
    assert len(told) == 5
    assert "9 of 9 shards are not whole; the first 4 are named" in told[-1]


def test_a_tensor_that_the_index_puts_elsewhere(model):
    index = json.loads((model / INDEX).read_text())
    index["weight_map"]["lm_head.weight"] = FIRST
    (model / INDEX).write_text(json.dumps(index))
    assert "'lm_head.weight', which the index puts here, is not in it (1 in all)" in refused(model)


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "a/../../b", "a\0b"])
def test_an_index_that_leads_out_of_the_model(model, name):
    (model / INDEX).write_text(json.dumps({"weight_map": {"a": name}}))
    assert f"names {name!r}; legal: files below the model's own directory" in refused(model)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is no JSON"),
        (b"\x00\xff\x17garbage", "the file is no JSON"),
        (b'{"weight_map": {"a": "x", "a": "y"}}', "the file names 'a' twice"),
        (b'{"weight_map": []}', "has no weight_map"),
        (b'{"weight_map": {"a": 7}}', "has no weight_map"),
        (b'{"weight_map": {}}', "has no weight_map"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
    ],
)
def test_a_bad_index(model, content, words):
    (model / INDEX).write_bytes(content)
    assert words in refused(model)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", b"{", "the file is no JSON"),
        ("config.json", b'{"a": 1, "a": 1}', "names 'a' twice"),
        ("config.json", None, "config.json: is not there"),
        ("tokenizer.json", b'{"model": {"vocab": {"a', "is no whole JSON object"),
        ("tokenizer.json", b"", "is empty"),
        ("tokenizer.json", b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
    ],
)
def test_a_bad_file_beside_the_weights(model, name, content, words):
    if content is None:
        (model / name).unlink()
    else:
        (model / name).write_bytes(content)
    assert words in refused(model)


def test_no_tokenizer(model):
    (model / "tokenizer.json").unlink()
    assert "no vocabulary that is known by name" in said(inspect(str(model), tokenizer=str(model)), "warning")[0]
    (model / "tokenizer_config.json").unlink()
    assert "has no tokenizer" in refused(model)
    assert said(inspect(str(model)), "refused") == []


def test_the_tokenizer_of_another_directory(model, tmp_path):
    (model / "tokenizer.json").rename(tmp_path / "tiktoken.model")
    found = inspect(str(model), tokenizer=str(tmp_path))
    assert "tokenizer: tiktoken.model" in said(found, "ok")


@pytest.mark.parametrize("what", ["fifo", "loop", "nothing"])
def test_what_stands_where_a_shard_should(model, what):
    (model / FIRST).unlink()
    if what == "fifo":
        os.mkfifo(model / FIRST)
    else:
        os.symlink(FIRST if what == "loop" else "gone", model / FIRST)
    words = {"fifo": "a FIFO, not a plain file", "loop": "symbolic links", "nothing": "is not there"}[what]
    assert words in refused(model)


@pytest.mark.parametrize("what", ["nothing", "file", "loop", "gguf"])
def test_what_stands_where_the_model_should(tmp_path, what):
    path = tmp_path / ("model.gguf" if what == "gguf" else "model")
    if what in ("file", "gguf"):
        path.write_text("")
    elif what == "loop":
        os.symlink(path, path)
    found = inspect(str(path), tokenizer=str(path))
    ((verdict, message),) = found["findings"]
    assert verdict == ("unknown" if what == "gguf" else "refused")
    assert str(path) in message


def test_a_model_without_weights_and_one_with_others(model):
    for name in (FIRST, SECOND, INDEX):
        (model / name).unlink()
    assert "has no weights (no *.safetensors)" in refused(model)
    assert said(inspect(str(model), load_format="dummy"), "ok")[-1].endswith(
        "load_format dummy reads no weights from here"
    )
    (model / "pytorch_model.bin").touch()
    found = inspect(str(model))
    assert "pytorch_model.bin were not looked into" in said(found, "unknown")[0]
    assert found["weights"] is None


def test_another_format_is_not_called_complete(model):
    found = inspect(str(model), load_format="sharded_state")
    assert "load_format sharded_state were not looked into" in said(found, "unknown")[0]


def test_a_broken_download_is_named(model):
    (model / "model-00003-of-00003.safetensors.incomplete").touch()
    assert "a download is under way, or was broken off" in said(inspect(str(model)), "warning")[0]


def test_the_pair_of_files_of_mistral_counts_once(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    for name in ("consolidated.safetensors", "model.safetensors"):
        (path / name).write_bytes(shard_bytes({"model.norm.weight": ("BF16", (8,))}))
    assert inspect(str(path))["weights"]["every"] == 16


# --- config.json


def test_the_numbers_of_a_model_with_pictures_are_those_of_its_text():
    found = summary(KIMI)
    assert (found["hidden_size"], found["num_hidden_layers"], found["vocab_size"]) == (7168, 61, 163840)
    assert (found["own_code"], found["quantized"], found["multimodal"], found["tied"]) == (True, True, True, False)


def test_a_config_of_odd_types():
    found = summary({"architectures": "x", "hidden_size": "8", "vocab_size": True, "text_config": 7, "auto_map": []})
    assert (found["architectures"], found["hidden_size"], found["vocab_size"], found["own_code"]) == (
        [],
        None,
        None,
        False,
    )


# --- the draft


def draft(**changes):
    return summary({"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 7168, "vocab_size": 163840, **changes})


def test_a_draft_that_is_for_the_model():
    assert draft_complaints(summary(KIMI), draft(draft_vocab_size=32000), "EAGLE3") == [
        ["ok", "hidden size 7168 and vocabulary 163840 are those of the model"]
    ]


@pytest.mark.parametrize(
    ("changes", "algorithm", "verdict", "words"),
    [
        ({"hidden_size": 4096}, "EAGLE3", "refused", "for a hidden size of 4096, and the model has 7168"),
        ({"hidden_size": 2048, "target_hidden_size": 7168}, "EAGLE3", "ok", "hidden size"),
        ({"hidden_size": 7168, "target_hidden_size": 4096}, "EAGLE3", "refused", "hidden size of 4096"),
        ({"hidden_size": 1024}, "STANDALONE", "ok", ""),
        ({"draft_vocab_size": 200000}, "EAGLE3", "refused", "vocabulary of 200000 is larger"),
        ({"vocab_size": 128256}, "EAGLE3", "warning", "vocab_size 128256, and the model 163840"),
        ({"hidden_size": None}, "EAGLE3", "unknown", "names no hidden size"),
    ],
)
def test_a_draft_that_is_not(changes, algorithm, verdict, words):
    ((found, message),) = draft_complaints(summary(KIMI), draft(**changes), algorithm)
    assert found == verdict
    assert words in message


def test_without_a_config_nothing_is_said_to_match():
    assert draft_complaints(summary(KIMI), None, "EAGLE3")[0][0] == "unknown"


# --- the spread over GPUs

GIB = 1024**3


def weights(**gib):
    return {**dict.fromkeys(sglang_weights.KINDS, 0), **{kind: int(size * GIB) for kind, size in gib.items()}}


@pytest.mark.parametrize(
    ("name", "shape", "kind"),
    [
        ("language_model.model.layers.3.mlp.experts.7.gate_proj.weight_packed", (4, 4), "split"),
        ("model.layers.3.mlp.gate.weight", (4, 4), "every"),
        ("model.layers.3.self_attn.kv_a_proj_with_mqa.weight", (4, 4), "every"),
        ("model.layers.3.self_attn.q_b_proj.weight", (4, 4), "attention"),
        ("model.layers.3.self_attn.v_proj.weight", (4, 4), "keys"),
        ("model.layers.60.input_layernorm.weight", (4,), "every"),
        ("model.layers.61.mlp.experts.7.up_proj.weight", (4, 4), "extra"),
        ("mtp.fc.weight", (4, 4), "extra"),
        ("vision_tower.encoder.layers.61.wqkv.weight", (4, 4), "vision"),
        ("mm_projector.linear_1.weight", (4, 4), "vision"),
        ("model.embed_tokens.weight", (4, 4), "embeddings"),
        ("lm_head.weight", (4, 4), "head"),
    ],
)
def test_kinds_of_tensors(name, shape, kind):
    found = sglang_weights.split([Tensor(name, "BF16", shape, 32)], summary(KIMI))
    assert {key: size for key, size in found.items() if size} == {kind: 32}


def test_wide_numbers_are_loaded_with_half_the_bytes():
    assert sglang_weights.split([Tensor("lm_head.weight", "F32", (2, 4), 32)], None)["head"] == 16


def test_what_one_gpu_of_eight_gets():
    found = sglang_weights.share(
        weights(split=540, every=4, attention=8, embeddings=2, head=2, vision=1), None, {"tp_size": 8}
    )
    assert found.whole == 557
    assert found.kept == 4
    assert found.estimate == pytest.approx(4 + 553 / 8)
    assert found.least == pytest.approx(557 / 8)


def test_heads_that_are_fewer_than_the_gpus_are_repeated():
    config = summary({"num_key_value_heads": 2})
    assert sglang_weights.share(weights(keys=8), config, {"tp_size": 8}).estimate == 4
    assert sglang_weights.share(weights(keys=8), config, {"tp_size": 2}).estimate == 4


def test_attention_of_data_parallel_ranks_is_whole_on_each():
    args = {"tp_size": 8, "dp_size": 8, "enable_dp_attention": True}
    found = sglang_weights.share(weights(split=80, attention=8, embeddings=2), None, args)
    assert found.estimate == pytest.approx(10 + 8 + 2)
    assert found.least == pytest.approx(90 / 8)


def test_the_prediction_layers_are_loaded_only_where_they_are_the_draft():
    given = weights(split=8, extra=8)
    assert sglang_weights.share(given, None, {}).whole == 8
    assert sglang_weights.share(given, None, {"speculative_algorithm": "NEXTN"}).whole == 16
    other = {"speculative_algorithm": "EAGLE", "speculative_draft_model_path": "/x"}
    assert sglang_weights.share(given, None, other).whole == 8


def test_what_may_be_left_out_is_not_in_the_least():
    assert sglang_weights.share(weights(split=8, vision=4), None, {"language_only": True}).least == 8
    assert sglang_weights.share(weights(split=8, head=4), summary({"tie_word_embeddings": True}), {}).least == 8
    assert sglang_weights.share(weights(split=8), None, {"pp_size": 2, "tp_size": 2}).least == 2


@pytest.mark.parametrize(
    ("args", "config", "found"),
    [
        ({}, {}, []),
        ({"cpu_offload_gb": 0, "offload_group_size": -1}, {}, []),
        ({"cpu_offload_gb": 40}, {}, ["cpu_offload_gb"]),
        ({"quantization": "fp8"}, {}, ["quantization"]),
        ({"quantization": "compressed-tensors"}, KIMI, []),
        ({"kt_num_gpu_experts": 8, "kt_weight_path": ""}, {}, ["kt_num_gpu_experts"]),
    ],
)
def test_options_that_make_the_weights_smaller(args, config, found):
    assert sglang_weights.what_shrinks(args, summary(config)) == found
