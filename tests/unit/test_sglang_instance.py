# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an instance becomes on a node, what is refused, and what two of them may not share."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_instance import (
    InstanceError,
    complaints_together,
    gpus_needed,
    planned,
    systemd_word,
    yaml_text,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_options import KNOWN_VERSIONS
from ansible_collections.gpu_node.tuning.plugins.module_utils.version_window import matches
from hypothesis import given
from hypothesis import strategies as st

DEFAULTS = {"interpreter": "/opt/sglang/bin/python"}
PROFILE = {
    "name": "custom_allreduce",
    "sglang": {"env": {"PCIE_ALLREDUCE": "1", "BOTH": "profile"}, "args": {"enable_metrics": True, "page_size": 1}},
}
KIMI = {
    "name": "kimi",
    "model": "/models/Kimi-K2.5",
    "draft_model": "/models/draft",
    "args": {"tp_size": 8, "speculative_algorithm": "EAGLE3", "mem_fraction_static": 0.78},
}


def plan(version="0.5.23", profile=None, defaults=None, **changes):
    return planned({**KIMI, **changes}, profile or {}, version, {**DEFAULTS, **(defaults or {})})


def faults(version="0.5.23", profile=None, **changes):
    with pytest.raises(InstanceError) as caught:
        plan(version, profile, **changes)
    return caught.value.messages


def test_the_whole_of_it():
    assert plan(profile=PROFILE, gpus=[0, 1, 2, 3, 4, 5, 6, 7], environment={"BOTH": "instance"}) == {
        "name": "kimi",
        "unit": "sglang@kimi.service",
        "host": "127.0.0.1",
        "port": 30000,
        "gpus": [0, 1, 2, 3, 4, 5, 6, 7],
        "args": {
            "enable_metrics": True,
            "mem_fraction_static": 0.78,
            "page_size": 1,
            "speculative_algorithm": "EAGLE3",
            "tp_size": 8,
        },
        "config": {
            "enable-metrics": True,
            "host": "127.0.0.1",
            "mem-fraction-static": 0.78,
            "model-path": "/models/Kimi-K2.5",
            "page-size": 1,
            "port": 30000,
            "speculative-algorithm": "EAGLE3",
            "speculative-draft-model-path": "/models/draft",
            "tp-size": 8,
        },
        "config_text": (
            "# Written by Ansible (gpu_node.tuning) for sglang@kimi.service; the next play puts it back.\n"
            "# Options as SGLang 0.5.23 spells them. Keys of the API are not in here.\n"
            "enable-metrics: true\n"
            'host: "127.0.0.1"\n'
            "mem-fraction-static: 0.78\n"
            'model-path: "/models/Kimi-K2.5"\n'
            "page-size: 1\n"
            "port: 30000\n"
            'speculative-algorithm: "EAGLE3"\n'
            'speculative-draft-model-path: "/models/draft"\n'
            "tp-size: 8\n"
        ),
        "config_path": "/etc/gpu_node_tuning/sglang/kimi.yaml",
        "environment": {"BOTH": "instance", "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7", "PCIE_ALLREDUCE": "1"},
        "command": [
            "/opt/sglang/bin/python",
            "-m",
            "sglang.launch_server",
            "--config",
            "/etc/gpu_node_tuning/sglang/kimi.yaml",
        ],
        "remarks": [],
    }


def test_the_instance_wins_and_null_takes_away():
    args = {**KIMI["args"], "page_size": 64, "enable_metrics": None}
    found = plan(profile=PROFILE, args=args, environment={"PCIE_ALLREDUCE": None}, defaults={"args": {"page_size": 2}})
    assert found["config"]["page-size"] == 64
    assert "enable-metrics" not in found["config"]
    assert found["environment"] == {"BOTH": "profile"}


def test_the_defaults_are_the_weakest():
    found = plan(
        defaults={"args": {"page_size": 2, "log_level": "info"}, "environment": {"BOTH": "d"}}, profile=PROFILE
    )
    assert (found["config"]["page-size"], found["config"]["log-level"]) == (1, "info")
    assert found["environment"]["BOTH"] == "profile"


def test_what_no_file_can_hold_is_in_the_command():
    assert plan(args={"lora_strict_loading": False}, draft_model="")["command"][5:] == ["--no-lora-strict-loading"]


def test_secrets_are_nowhere():
    found = plan(api_key="geheim-1", admin_api_key="geheim-2")
    assert "geheim" not in json.dumps(found)


def test_a_newer_version_is_remarked_upon():
    (remark,) = plan("0.6.1")["remarks"]
    assert remark == (
        "SGLang 0.6.1 is newer than the newest whose options are known (0.5.11 to 0.5.23): its options are taken to be those of "
        "0.5.23, and its own parser has the last word."
    )


@pytest.mark.parametrize(
    "path",
    ["/models/a b", "/models/100%", "/models/$HOME/${x}", "/m/'q' \"q\" \\ #1", "/m/é😀", "null", "org/model", "1e5"],
)
def test_odd_paths(path):
    found = plan(model=path)
    assert found["config"]["model-path"] == path
    assert yaml.safe_load(found["config_text"])["model-path"] == path
    assert found["config_text"].isascii()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "Kimi_1"}, "sglang_instances[Kimi_1].name: 'Kimi_1' is not legal."),
        ({"name": "a" * 33}, "is not legal. Legal: 1 to 32 of a-z"),
        ({"name": "-a"}, "no '-' at either end"),
        ({"name": "a\n"}, "is not legal"),
        ({"name": None}, "name: None is not legal"),
        ({"model": ""}, "model: must be the directory of the weights"),
        ({"model": None}, "model: must be the directory of the weights"),
        ({"model": "/a\nb"}, "model: '/a\\nb' holds a line break"),
        ({"model": "~/x"}, "begins with '~'"),
        ({"draft_model": "--x"}, "draft_model: '--x' begins with '-'"),
        ({"host": "a b"}, "host: 'a b' is not an address"),
        ({"port": "30000"}, "port: '30000' is not legal. Legal: a whole number from 1024 to 65535"),
        ({"port": 80}, "port: 80 is not legal"),
        ({"port": True}, "port: True is not legal"),
        ({"gpus": "0,1"}, "gpus: must be a list of numbers"),
        ({"gpus": [-1]}, "gpus: -1 is not a GPU"),
        ({"gpus": ["0"]}, "gpus: '0' is not a GPU"),
        ({"gpus": [0, 0]}, "gpus: [0, 0] names a GPU twice"),
        ({"gpus": [0, "GPU-8f1a"]}, "mixes numbers and names"),
        ({"gpus": [0, 1]}, "gpus: 2 of them, and tp_size 8 needs 8. Name 8, or lower args.tp_size."),
        ({"args": {}}, "draft_model: needs args.speculative_algorithm"),
        ({"args": []}, "args: must be a mapping of option: value, not a list"),
        (
            {"args": {"tp_sise": 8}},
            "sglang_instances[kimi].args.tp_sise: SGLang has no such option, did you mean tp_size",
        ),
        ({"environment": []}, "environment: must be a mapping of NAME: value"),
        ({"environment": {"A-B": "1"}}, "environment.'A-B': is not the name of a variable"),
        ({"environment": {"A": True}}, "environment.A: must be a string, not a boolean"),
        ({"environment": {"A": "1\n2"}}, "environment.A: '1\\n2' holds a line break"),
        ({"environment": {"CUDA_VISIBLE_DEVICES": "0"}}, "is set from the instance's `gpus`"),
        ({"environment": {"NCCL_PROTO": "LL"}}, "Write it into nccl_env_overrides"),
        ({"gpus": [0, 1, 2, 3], "args": {"tp_size": 2, "base_gpu_id": 3}, "draft_model": ""}, "base_gpu_id 3 needs 5"),
        ({"modell": "x"}, "sglang_instances[kimi].'modell': unknown key, did you mean model"),
    ],
)
def test_an_illegal_instance(changes, says):
    assert any(says in message for message in faults(**changes)), faults(**changes)


@pytest.mark.parametrize("value", ["geheim\n", "geheim 1", "geheim\u00e9", ["geheim"], "geheim" * 100])
@pytest.mark.parametrize("key", ["api_key", "admin_api_key"])
def test_a_bad_key_is_refused_and_not_shown(key, value):
    (message,) = faults(**{key: value})
    assert message.startswith(f"sglang_instances[kimi].{key}: ")
    assert "geheim" not in message


@pytest.mark.parametrize("name", ["HF_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "X_PASSWORD", "SECRET"])
def test_a_secret_in_the_environment_is_refused_and_not_shown(name):
    (message,) = faults(environment={name: "geheim"})
    assert "looks like a secret" in message
    assert "geheim" not in message


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "SGLANG_USE_AITER_FP8_PER_TOKEN", "SGLANG_KEYS_ARE_FUN", "HF_HOME"]
)
def test_no_secret(name):
    assert plan(environment={name: 1})["environment"] == {name: "1"}


def test_every_fault_at_once():
    messages = faults(name="A", port=1, args={"a": 1, "tp_size": "8"})
    assert len(messages) == 4


def test_a_profile_that_the_version_does_not_know():
    (message,) = faults("0.5.20", {"name": "mine", "sglang": {"args": {"attn_dp_size": 2}}})
    assert message.startswith("profile mine, sglang.args.attn_dp_size: not an option of SGLang 0.5.20.")


def test_a_profile_may_set_nccl_for_the_service():
    assert plan(profile={"name": "x", "sglang": {"env": {"NCCL_DEBUG": "INFO"}}})["environment"] == {
        "NCCL_DEBUG": "INFO"
    }


SHIPPED = sorted((Path(__file__).parents[2] / "roles" / "profile" / "vars" / "profiles").glob("*.yml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_shipped_profiles(path):
    """Their arguments are options of every version that they say they are for."""
    profile = yaml.safe_load(path.read_text(encoding="utf-8"))
    window = (profile.get("requires") or {}).get("sglang", ">=0.5.11")
    for version in (known for known in KNOWN_VERSIONS if matches(known, window)):
        plan(version, {"name": path.stem, **profile})


def test_too_old():
    (message,) = faults("0.5.9")
    assert message == (
        "SGLang 0.5.9 is older than 0.5.11, the oldest that is supported. Install a newer one; the options of 0.5.11 to 0.5.23 are "
        "known."
    )


def test_nested_without_end():
    endless = {}
    endless["a"] = endless
    (message,) = faults(args=endless)
    assert "nested deeper than 20 levels" in message


def test_no_mapping():
    with pytest.raises(InstanceError, match="each must be a mapping, not a string"):
        planned("kimi", {}, "0.5.23", DEFAULTS)


@pytest.mark.parametrize(
    ("args", "needed"),
    [
        ({}, 1),
        ({"tp_size": 8}, 8),
        ({"tp_size": 4, "pp_size": 2}, 8),
        ({"tp_size": 2, "dp_size": 4}, 8),
        ({"tp_size": 8, "dp_size": 8, "enable_dp_attention": True}, 8),
        ({"tp_size": 8, "attn_dp_size": 8}, 8),
        ({"tp_size": 16, "nnodes": 2}, 8),
        ({"tp_size": "8"}, 1),
    ],
)
def test_how_many_gpus(args, needed):
    assert gpus_needed(args) == needed


def one(name, **fields):
    return {"name": name, "model": "m", "port": 30000, "gpus": [0], **fields}


@pytest.mark.parametrize(
    ("instances", "count", "expected"),
    [
        ([one("a")], 1, []),
        ([one("a"), one("b", port=30001, gpus=[1])], 2, []),
        (
            [one("a"), one("a", port=30001, gpus=[1])],
            2,
            ["sglang_instances: a is the name of 2 instances. Give each its own."],
        ),
        (
            [one("a"), one("b", gpus=[1])],
            2,
            ["sglang_instances['a'] and ['b']: both listen on port 30000 (127.0.0.1). Give each its own."],
        ),
        ([one("a", host="10.0.0.1"), one("b", host="10.0.0.2", gpus=[1])], 2, []),
        (
            [one("a", host="localhost"), one("b", gpus=[1])],
            2,
            ["sglang_instances['a'] and ['b']: both listen on port 30000 (127.0.0.1). Give each its own."],
        ),
        (
            [one("a", host="0.0.0.0"), one("b", host="10.0.0.2", gpus=[1])],  # noqa: S104 - text
            2,
            ["sglang_instances['a'] and ['b']: both listen on port 30000 (0.0.0.0 and 10.0.0.2). Give each its own."],
        ),
        (
            [one("a", gpus=[0, 1]), one("b", port=30001, gpus=[1, 2])],
            4,
            ["sglang_instances['a'] and ['b']: both use GPU 1. Give each its own gpus."],
        ),
        (
            [one("a", gpus=[]), one("b", port=30001, gpus=[1])],
            4,
            [
                "sglang_instances['a'] and ['b']: one of them has no `gpus`, and therefore uses all. Give each its own gpus."
            ],
        ),
        ([one("a", gpus=[], args={"device": "cpu"}), one("b", port=30001, gpus=[])], 1, []),
        (
            [one("a", gpus=[], args={"tp_size": 8})],
            2,
            ["sglang_instances[a].args.tp_size: tp_size 8 needs 8 GPUs, the node has 2, numbered 0 to 1. Lower it."],
        ),
        ([one("a", gpus=[], args={"tp_size": 8})], None, []),
        ([one("a", gpus=[], args={"tp_size": 8, "device": "cpu"})], 0, []),
        (
            [one("a", gpus=[])],
            0,
            [
                "sglang_instances[a].args.tp_size: tp_size 1 needs 1 GPUs, the node has none that could be seen. Lower it."
            ],
        ),
        (
            [one("a", gpus=[1])],
            1,
            ["sglang_instances[a].gpus: [1] of [1] is not there: the node has 1, numbered 0."],
        ),
        ("a", 1, ["sglang_instances: must be a list, not a string ('a')."]),
        (
            [one("a", args={"nccl_port": 30001}), one("b", port=30001, gpus=[1])],
            2,
            ["sglang_instances['a'] and ['b']: both listen on port 30001 (127.0.0.1). Give each its own."],
        ),
        ([one("a", gpus=[], args={"tp_size": 2, "gpu_id_step": 2})], 3, []),
        (
            [one("a", gpus=[], args={"tp_size": 2, "gpu_id_step": 2})],
            2,
            [
                "sglang_instances[a].args.tp_size: tp_size 2, gpu_id_step 2 needs 3 GPUs, the node has 2, numbered 0 to 1. Lower it."
            ],
        ),
        ([None, 1], 1, []),  # planned() speaks of each
    ],
)
def test_together(instances, count, expected):
    assert complaints_together(instances, count) == expected


@given(
    st.dictionaries(st.from_regex(r"[a-z-]{1,12}x", fullmatch=True), st.text(st.characters(exclude_categories=["Cs"])))
)
def test_yaml_is_read_as_it_was_meant(settings):
    text = yaml_text(settings)
    assert text.isascii()
    assert (yaml.safe_load(text) or {}) == settings


SIGNS = " $%\"'\\{}HOMEd;=#\n\t\x01\x1b\x7f\u00e9\U0001f600ab01xn-/"


def odd_texts():
    made = random.Random(1)  # noqa: S311 - no secret
    yield from (
        "",
        ";",
        "$HOME",
        "${HOME}",
        "$$",
        "%%",
        "%n",
        "a b",
        "\\",
        "\\x41",
        "'",
        '"',
        "#c",
        "a\nb",
        "\x0112",
        "-x",
    )
    for _ in range(2000):
        yield "".join(made.choice(SIGNS) for _ in range(made.randint(0, 14)))


def test_systemd_reads_every_word_as_it_was_meant():
    """By systemd's own library where it is the one whose calls are known; the rest of its rules is the next test."""
    texts = list(odd_texts())
    lines = [(f"first {systemd_word(text)} last", systemd_word(f"A={text}", False)) for text in texts]
    program = Path(__file__).with_name("systemd_reader.py")
    done = subprocess.run(
        [sys.executable, program], input=json.dumps(lines), capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode == 1 and "is not here" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    for text, (command, environment) in zip(texts, json.loads(done.stdout), strict=True):
        assert command == ["first", text, "last"]
        assert environment == [f"A={text}"]


@pytest.mark.parametrize(
    ("text", "in_command", "in_environment"),
    [
        ("/opt/a", "/opt/a", "/opt/a"),
        ("", '""', '""'),
        ("a b", '"a b"', '"a b"'),
        ("100%", '"100%%"', '"100%%"'),
        ("$HOME", '"$$HOME"', '"$HOME"'),
        ('"', '"\\""', '"\\""'),
        ("\\", '"\\\\"', '"\\\\"'),
        ("a\nb", '"a\\x0ab"', '"a\\x0ab"'),
        (";", '";"', '";"'),
    ],
)
def test_a_word_of_a_unit(text, in_command, in_environment):
    assert systemd_word(text) == in_command
    assert systemd_word(text, False) == in_environment


def test_no_word_holds_a_nul():
    with pytest.raises(ValueError, match="NUL"):
        systemd_word("a\0b")
