# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the files of a model are complete: config.json, tokenizer, index and every shard. Reads headers, not weights.

Meant for a child process that runs as the service's user (bounded_child): every result is what JSON can hold.
"""

from __future__ import annotations

import errno
import os
import re
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_weights
from ansible_collections.gpu_node.tuning.plugins.module_utils.check_verdict import OK, REFUSED, UNKNOWN, WARNING
from ansible_collections.gpu_node.tuning.plugins.module_utils.file_kind import not_a_directory
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import NotPlain, read_plain
from ansible_collections.gpu_node.tuning.plugins.module_utils.safetensors_file import (
    POINTER,
    Damaged,
    Unreadable,
    parse_json,
    read_shard,
)

INDEX = "model.safetensors.index.json"
LONGEST_INDEX = 256 * 1024 * 1024  # bytes; that of 200 000 tensors has 25 MB
LONGEST_CONFIG = 16 * 1024 * 1024
NAMED = 4  # shards named of those that are at fault
NUMBERED = re.compile(r"(?P<stem>.*-)(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.safetensors\Z")
UNFINISHED = (".incomplete", ".aria2", ".part", ".partial", ".tmp", ".crdownload")
VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tekken.json", "spiece.model")
OTHER_VOCABULARIES = (".tiktoken", "tiktoken.model", ".bpe.model", ".spm")
READS_SAFETENSORS = ("auto", "safetensors", "fastsafetensors", "layered", "flash_rl")
WITHOUT_WEIGHTS = ("dummy", "remote", "remote_instance")
WHOLE = "Download the model again: hf download, or rsync with --checksum."


class Model:
    """What is found out of one directory. ``findings``: [verdict, message]; ``config``: summary() of config.json; ``weights``: a Split."""

    def __init__(self, path: str):
        self.path = path
        self.findings = []
        self.config = None
        self.weights = None

    def say(self, verdict: str, message: str) -> None:
        self.findings.append([verdict, message])

    def result(self) -> dict:
        return {"findings": self.findings, "config": self.config, "weights": self.weights}


def inspect(path: str, load_format: str = "auto", tokenizer: Optional[str] = None) -> dict:
    """{findings, config, weights} of the model in directory ``path``; never raises.

    ``tokenizer``: the directory that must have the tokenizer's files; None asks for none (a draft model, skip_tokenizer_init).
    """
    model = Model(path)
    names = _names(model, path)
    if names is None:
        return model.result()
    _unfinished(model, names)
    _config(model, names)
    if load_format in READS_SAFETENSORS:
        _weights(model, names)
    elif load_format in WITHOUT_WEIGHTS:
        model.say(OK, f"{path}: load_format {load_format} reads no weights from here")
    else:
        model.say(UNKNOWN, f"{path}: the files of load_format {load_format} were not looked into")
    if tokenizer is not None:
        _tokenizer(model, names if tokenizer == path else _names(model, tokenizer), tokenizer)
    return model.result()


def summary(config: dict) -> dict:
    """What the checks need of config.json; a model with pictures has its numbers of the text in ``text_config``. None: not said."""
    text = config.get("text_config")
    text = text if isinstance(text, dict) else {}

    def number(name):
        value = text.get(name, config.get(name))
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    architectures = config.get("architectures")
    names = architectures if isinstance(architectures, list) else []
    keys = (
        "hidden_size",
        "target_hidden_size",
        "vocab_size",
        "draft_vocab_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "kv_lora_rank",
        "qk_rope_head_dim",
    )
    return {
        **{key: number(key) for key in keys},
        "architectures": [name for name in names if isinstance(name, str)],
        "own_code": isinstance(config.get("auto_map"), dict) and bool(config["auto_map"]),
        "quantized": isinstance(config.get("quantization_config", text.get("quantization_config")), dict),
        "tied": bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        "multimodal": isinstance(config.get("vision_config"), dict) or isinstance(config.get("audio_config"), dict),
    }


def draft_complaints(target: Optional[dict], draft: Optional[dict], algorithm: Optional[str]) -> list:
    """[verdict, message] for each thing that keeps a draft model (two results of summary()) from serving a target."""
    if not target or not draft:
        return [[UNKNOWN, "whether the draft model is for this model cannot be told without both config.json"]]
    found = []
    eagle = (algorithm or "").upper() in ("EAGLE", "EAGLE3")
    expects = draft["target_hidden_size"] or draft["hidden_size"]
    if eagle and expects and target["hidden_size"] and expects != target["hidden_size"]:
        found.append(
            [
                REFUSED,
                f"the draft is for a hidden size of {expects}, and the model has {target['hidden_size']}. Take the draft made for this model.",
            ]
        )
    vocabulary, small = target["vocab_size"], draft["draft_vocab_size"]
    if small and vocabulary and small > vocabulary:
        found.append(
            [
                REFUSED,
                f"the draft's vocabulary of {small} is larger than the model's, {vocabulary}. Take its own draft.",
            ]
        )
    elif draft["vocab_size"] and vocabulary and draft["vocab_size"] != vocabulary:
        found.append([WARNING, f"the draft says vocab_size {draft['vocab_size']}, and the model {vocabulary}"])
    if not found and not (expects and target["hidden_size"]):
        found.append(
            [
                UNKNOWN,
                "one of the two config.json names no hidden size, so whether the draft is for this model is not known",
            ]
        )
    return found or [[OK, f"hidden size {target['hidden_size']} and vocabulary {vocabulary} are those of the model"]]


def _names(model: Model, path: str) -> Optional[list]:
    other = not_a_directory(path)
    if other is not None:
        hint = " A .gguf file is not looked into." if path.endswith(".gguf") else ""
        verdict = UNKNOWN if path.endswith(".gguf") else REFUSED
        model.say(verdict, f"{path}: {other}, not a directory.{hint} Name the directory that has config.json.")
        return None
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        model.say(*_cannot_read(path, error))
        return None


def _cannot_read(path: str, error: OSError) -> tuple:
    """(verdict, message). Whoever looks is the service's user: what it may not read, SGLang may not."""
    if error.errno == errno.ENOENT:
        return REFUSED, f"{path}: is not there. {WHOLE}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            REFUSED,
            f"{path}: {_user()} may not read it. Let this user read it: chmod a+rX, also for the directories above.",
        )
    if isinstance(error, NotPlain):
        return REFUSED, f"{path}: {error.strerror}. {WHOLE}"
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG):
        return REFUSED, f"{path}: {error.strerror}. {WHOLE}"
    return UNKNOWN, f"{path}: cannot be read: {error.strerror or error}. Look at the file system that it lies on."


def _user() -> str:
    return f"the service's user (uid {os.geteuid()})"


def _unfinished(model: Model, names: list) -> None:
    found = [name for name in names if name.endswith(UNFINISHED)]
    if found:
        model.say(WARNING, f"{model.path}: {', '.join(found[:NAMED])}: a download is under way, or was broken off")


def _read(model: Model, path: str, most: int) -> Optional[bytes]:
    """The bytes of a small file; what is wrong with it has been said where there are none."""
    try:
        data = read_plain(path, follow=True, most=most + 1)
    except OSError as error:
        model.say(*_cannot_read(path, error))
        return None
    if len(data) > most:
        model.say(UNKNOWN, f"{path}: more than {most} bytes, and was not looked into")
        return None
    if data.startswith(POINTER):
        model.say(
            REFUSED, f"{path}: a pointer of Git LFS, not the file. Fetch it: git lfs pull, in the model's directory."
        )
        return None
    return data


def _object(model: Model, path: str, most: int) -> Optional[dict]:
    data = _read(model, path, most)
    if data is None:
        return None
    try:
        # config.json of real models has floats with many digits, and no whole number longer than this.
        return parse_json(data, "the file", 400)
    except Damaged as error:
        model.say(REFUSED, f"{path}: {error}")
    except Unreadable as error:
        model.say(UNKNOWN, f"{path}: {error}")
    return None


def _config(model: Model, names: list) -> None:
    config = _object(model, os.path.join(model.path, "config.json"), LONGEST_CONFIG)
    if config is None:
        return
    model.config = summary(config)
    known = model.config
    if not known["architectures"]:
        model.say(WARNING, f"{model.path}/config.json: names no architecture; SGLang takes the model's class from it")
        return
    told = [", ".join(known["architectures"])]
    for key, word in (("num_hidden_layers", "layers"), ("hidden_size", "hidden size"), ("vocab_size", "vocabulary")):
        if known[key] is not None:
            told.append(f"{word} {known[key]}")
    model.say(OK, "; ".join(told))


def _weights(model: Model, names: list) -> None:
    listed = _indexed(model, names) if INDEX in names else _by_name(model, names)
    if not listed:
        return
    found, bad, holes = [], 0, []
    for name in sorted(listed):
        shard, verdict, text = _shard(os.path.join(model.path, name), listed[name])
        if shard is not None:
            found.append(shard)
            holes += [name] if shard.hole is not None else []
            continue
        bad += 1
        if bad <= NAMED:
            model.say(verdict, text)
    if bad > NAMED:
        model.say(
            REFUSED, f"{model.path}: {bad} of {len(listed)} shards are not whole; the first {NAMED} are named. {WHOLE}"
        )
    if holes:
        model.say(
            WARNING,
            f"{model.path}: {', '.join(holes[:NAMED])}: sparse, a part has no block on the disk. A download that was broken off looks like "
            f"this. {WHOLE}",
        )
    if bad:
        return
    model.weights = sglang_weights.split((tensor for shard in found for tensor in shard.tensors), model.config)
    model.say(
        OK, f"{len(found)} shards, {sum(shard.size for shard in found) / 1024**3:.2f} GiB, every header fits its file"
    )


def _shard(path: str, names: set) -> tuple:
    """(Shard, "", ""), or (None, verdict, message). ``names``: of the tensors that have to be in it."""
    try:
        shard = read_shard(path)
        lacking = sorted(names - {tensor.name for tensor in shard.tensors})
        if lacking:
            raise Damaged(f"{lacking[0]!r}, which the index puts here, is not in it ({len(lacking)} in all). {WHOLE}")
    except Damaged as error:
        return None, REFUSED, f"{path}: {error}"
    except Unreadable as error:
        return None, UNKNOWN, f"{path}: {error}"
    except OSError as error:
        return (None, *_cannot_read(path, error))
    return shard, "", ""


def _indexed(model: Model, names: list) -> Optional[dict]:
    """Shard to the set of names of its tensors, as the index has it."""
    path = os.path.join(model.path, INDEX)
    index = _object(model, path, LONGEST_INDEX)
    if index is None:
        return None
    places = index.get("weight_map")
    if (
        not isinstance(places, dict)
        or not places
        or not all(isinstance(name, str) and name for name in places.values())
    ):
        model.say(REFUSED, f"{path}: has no weight_map of tensors to files. {WHOLE}")
        return None
    shards = {}
    for tensor, name in places.items():
        shards.setdefault(name, set()).add(tensor)
    outside = sorted(name for name in shards if os.path.isabs(name) or ".." in name.split("/") or "\0" in name)
    if outside:
        model.say(REFUSED, f"{path}: names {outside[0]!r}; legal: files below the model's own directory. {WHOLE}")
        return None
    missing = sorted(name for name in shards if not os.path.lexists(os.path.join(model.path, name)))
    if missing:
        model.say(
            REFUSED,
            f"{model.path}: {len(missing)} of the {len(shards)} shards that the index names are not there: {', '.join(missing[:NAMED])}. {WHOLE}",
        )
        return None
    return shards


def _by_name(model: Model, names: list) -> Optional[dict]:
    """Without an index SGLang loads every shard that it finds; names of the form 00001-of-00064 tell how many there should be."""
    shards = [name for name in names if name.endswith(".safetensors")]
    if sorted(shards) == ["consolidated.safetensors", "model.safetensors"]:
        shards = ["model.safetensors"]
    if not shards:
        others = [name for name in names if name.endswith((".bin", ".pt", ".gguf"))]
        if others:
            model.say(UNKNOWN, f"{model.path}: has no safetensors; {', '.join(others[:NAMED])} were not looked into")
        else:
            model.say(REFUSED, f"{model.path}: has no weights (no *.safetensors). {WHOLE}")
        return None
    for match in filter(None, map(NUMBERED.match, shards)):
        count = int(match.group("count"))
        there = {
            int(other.group("number"))
            for other in filter(None, map(NUMBERED.match, shards))
            if other.group("stem") == match.group("stem")
        }
        missing = [number for number in range(1, min(count, 9999) + 1) if number not in there]
        if missing:
            model.say(
                REFUSED,
                f"{model.path}: {len(missing)} of {count} shards are not there, the first is {match.group('stem')}{missing[0]:05d}-of-"
                f"{count:05d}.safetensors; {INDEX} is not there either. {WHOLE}",
            )
            return None
    return {name: set() for name in shards}


def _tokenizer(model: Model, names: Optional[list], path: str) -> None:
    if names is None:
        return
    found = [name for name in names if name in VOCABULARIES or name.endswith(OTHER_VOCABULARIES)]
    if not found:
        if "tokenizer_config.json" in names:
            model.say(
                WARNING,
                f"{path}: tokenizer_config.json is there, and no vocabulary that is known by name ({', '.join(VOCABULARIES)})",
            )
        else:
            model.say(
                REFUSED,
                f"{path}: has no tokenizer (tokenizer.json, tokenizer.model, ...). Set tokenizer_path, or {_lower(WHOLE)}",
            )
        return
    for name in found + [name for name in names if name == "tokenizer_config.json"]:
        file = os.path.join(path, name)
        data = _read(model, file, LONGEST_INDEX)
        if data is None:
            continue
        # Whole JSON of 20 MB would take a second to read; a file that was cut off does not end with a brace.
        ends = (data.lstrip()[:1], data.rstrip()[-1:])
        if not data:
            model.say(REFUSED, f"{file}: is empty. {WHOLE}")
        elif name.endswith(".json") and ends != (b"{", b"}"):
            model.say(
                REFUSED, f"{file}: is no whole JSON object: begins with {ends[0]!r}, ends with {ends[1]!r}. {WHOLE}"
            )
    if not any(verdict == REFUSED for verdict, message in model.findings if message.startswith(path)):
        model.say(OK, f"tokenizer: {', '.join(found)}")


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
