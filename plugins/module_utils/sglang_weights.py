# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the weights of a model are spread over GPUs: what tensor parallelism splits, and what every GPU keeps whole. Names in, bytes out.

SGLang decides this in the code of each model. What is said here is the common form of it, so it comes with two numbers: an estimate,
and a bound below which no GPU can get with tensor and pipeline parallelism alone.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

# Kinds of tensors
SPLIT, EVERY, KEYS, ATTENTION, EMBEDDINGS, HEAD, VISION, EXTRA = (
    "split",
    "every",
    "keys",
    "attention",
    "embeddings",
    "head",
    "vision",
    "extra",
)
KINDS = (SPLIT, EVERY, KEYS, ATTENTION, EMBEDDINGS, HEAD, VISION, EXTRA)
LAYER = re.compile(r"(?:^|\.)layers\.([0-9]{1,4})\.")
OF_VISION = ("vision_", "visual.", "vision.", "mm_projector", "multi_modal_projector", "audio_tower", "vit.")
ON_EVERY_GPU = re.compile(
    r"\.(?:gate|router|q_a_proj|kv_a_proj_with_mqa|fused_qkv_a_proj_with_mqa)\.(?:weight|e_score)|\.indexer\."
)
WIDE = {
    "F32": 2,
    "F64": 4,
}  # how many times larger than what SGLang loads them as (16 bits, unless dtype says otherwise)
GIB = 1024**3


class Share(NamedTuple):
    """GiB on one GPU: ``estimate``, ``least`` (no GPU gets below), ``whole`` (all GPUs together), ``kept`` (whole on every GPU)."""

    estimate: float
    least: float
    whole: float
    kept: float


def split(tensors, config: Optional[dict]) -> dict:
    """Bytes by kind of the tensors (name, dtype, shape, size); ``config``: sglang_model.summary(), for the number of layers."""
    layers = config["num_hidden_layers"] if config else None
    found = dict.fromkeys(KINDS, 0)
    for tensor in tensors:
        found[_kind(tensor, layers)] += tensor.size // WIDE.get(tensor.dtype, 1)
    return found


def share(weights: dict, config: Optional[dict], args: dict) -> Share:
    """What one GPU gets. ``args``: ServerArgs, of which the parallel sizes are asked."""
    tensor, pipeline = count(args, "tp_size"), count(args, "pp_size")
    attention = max(
        1, tensor // (count(args, "dp_size") if args.get("enable_dp_attention") else count(args, "attn_dp_size"))
    )
    heads = (config or {}).get("num_key_value_heads") or attention
    loaded = dict(weights)
    if not _loads_extra(args):
        loaded[EXTRA] = 0
    if (config or {}).get("tied"):
        loaded[HEAD] = 0
    whole = sum(loaded.values())
    kept = loaded[EVERY] + (loaded[EMBEDDINGS] if attention != tensor else 0)
    kept += loaded[VISION] if args.get("mm_enable_dp_encoder") else 0
    each = {
        SPLIT: tensor,
        EVERY: 1,
        KEYS: max(1, min(attention, heads)),
        ATTENTION: attention,
        EMBEDDINGS: tensor if attention == tensor else 1,
        HEAD: tensor,
        VISION: 1 if args.get("mm_enable_dp_encoder") else tensor,
        EXTRA: tensor,
    }
    estimate = sum(size / each[kind] for kind, size in loaded.items()) / pipeline
    without_vision = args.get("language_only") or args.get("language_model_only")
    least = (whole - (loaded[VISION] if without_vision else 0)) / tensor / pipeline
    return Share(estimate / GIB, least / GIB, whole / GIB, kept / pipeline / GIB)


def what_shrinks(args: dict, config: Optional[dict]) -> list:
    """Options under which a GPU may hold less than the bound: then nothing can be refused."""
    found = [
        name
        for name in (
            "cpu_offload_gb",
            "offload_group_size",
            "torchao_config",
            "ple_offload_embedding",
            "json_model_override_args",
        )
        if args.get(name) not in (None, "", 0, "{}", -1, False)
    ]
    found += sorted(name for name in args if name.startswith("kt_") and args[name])  # experts in the host's memory
    if args.get("quantization") and not (config or {}).get("quantized"):
        found.append("quantization")  # SGLang quantizes while it loads
    return found


def count(args: dict, name: str) -> int:
    value = args.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1


def _loads_extra(args: dict) -> bool:
    """Layers behind the last one predict several tokens; they are loaded where they serve as the draft."""
    algorithm = str(args.get("speculative_algorithm") or "").upper()
    return algorithm in ("NEXTN", "EAGLE") and not args.get("speculative_draft_model_path")


def _kind(tensor, layers: Optional[int]) -> str:
    name = tensor.name
    if any(part in name for part in OF_VISION):
        return VISION
    layer = LAYER.search(name)
    if name.startswith("mtp.") or (layer and layers is not None and int(layer.group(1)) >= layers):
        return EXTRA
    if len(tensor.shape) < 2 or ON_EVERY_GPU.search(name):
        return EVERY
    if ".k_proj." in name or ".v_proj." in name:
        return KEYS
    if ".self_attn." in name or ".attention." in name:
        return ATTENTION
    if "embed_tokens" in name or ".wte." in name:
        return EMBEDDINGS
    return HEAD if "lm_head" in name else SPLIT
