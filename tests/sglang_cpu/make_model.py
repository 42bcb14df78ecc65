"""Make a tiny random model with a byte tokenizer, and the configuration of an EAGLE-3 draft for it. Downloads nothing.

    python make_model.py MODEL DRAFT [HEADS]

Runs with the Python of SGLang, which has torch and transformers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<s>", "</s>", "<pad>")
VOCABULARY = 320
INTERMEDIATE = 256
POSITIONS = 2048


def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {character: number for number, character in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for word in SPECIAL:
        vocabulary[word] = len(vocabulary)
    plain = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    plain.pre_tokenizer, plain.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=plain,
        **dict(zip(("bos_token", "eos_token", "pad_token"), SPECIAL, strict=True)),
    )
    made.chat_template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
    return made


def main() -> None:
    model, draft = Path(sys.argv[1]), Path(sys.argv[2])
    heads = int(sys.argv[3]) if len(sys.argv) > 3 else 4
    for folder in (model, draft):
        folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save_pretrained(model)
    shape = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32 * heads,
        "intermediate_size": INTERMEDIATE,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "max_position_embeddings": POSITIONS,
        "bos_token_id": 256,
        "eos_token_id": 257,
    }
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, **shape)).to(torch.bfloat16).save_pretrained(model)
    more = {"num_hidden_layers": 1, "head_dim": 32, "draft_vocab_size": VOCABULARY, "torch_dtype": "bfloat16"}
    more |= {"rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False, "rope_theta": 10000.0}
    settings = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", **shape, **more}
    (draft / "config.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
