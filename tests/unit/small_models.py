# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small models on disk, in the form of real ones: safetensors files with an index, config.json and a tokenizer."""

from __future__ import annotations

import json
import pathlib
import struct

BYTES = {"F32": 4, "BF16": 2, "F16": 2, "U8": 1, "F8_E4M3": 1}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 8,
    "vocab_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def shard_bytes(tensors: dict, **more) -> bytes:
    """A whole file; ``tensors``: name to (dtype, shape). ``more`` replaces entries of the header."""
    header, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = BYTES[dtype]
        for number in shape:
            size *= number
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    return with_header(json.dumps({**header, **more}).encode(), b"\x11" * end)


def with_header(header: bytes, data: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def layer(number: int) -> dict:
    start = f"model.layers.{number}"
    return {
        f"{start}.self_attn.q_proj.weight": ("BF16", (8, 8)),
        f"{start}.self_attn.k_proj.weight": ("BF16", (4, 8)),
        f"{start}.mlp.up_proj.weight": ("BF16", (32, 8)),
        f"{start}.input_layernorm.weight": ("BF16", (8,)),
    }


def write_model(
    folder: pathlib.Path, config: dict | None = None, index: bool = True, extra: dict | None = None
) -> pathlib.Path:
    """A model of two shards: embeddings and the first layer, the second layer and the head."""
    folder.mkdir(parents=True)
    shards = {
        "model-00001-of-00002.safetensors": {"model.embed_tokens.weight": ("BF16", (16, 8)), **layer(0)},
        "model-00002-of-00002.safetensors": {**layer(1), "lm_head.weight": ("BF16", (16, 8)), **(extra or {})},
    }
    for name, tensors in shards.items():
        (folder / name).write_bytes(shard_bytes(tensors))
    if index:
        places = {tensor: name for name, tensors in shards.items() for tensor in tensors}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
    (folder / "tokenizer.json").write_text('{"version": "1.0"}\n')
    (folder / "tokenizer_config.json").write_text("{}")
    return folder
