# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole preflight on a played node: each thing that keeps SGLang from starting is refused with its value and the way on."""

from __future__ import annotations

import json
import os
import socket
import time

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpu_node.tuning.plugins.module_utils import bounded_child
from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_preflight as preflights
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_preflight import Asked, Node, preflight, refusal
from ansible_collections.gpu_node.tuning.plugins.modules import sglang_preflight as module

from .sglang_nodes import PlayedNode
from .small_models import shard_bytes, write_model

EIGHT = ((97887, 0, 97249),) * 8  # MiB: 94.97 GiB free on each
UNIT = "sglang@kimi.service"


@pytest.fixture
def node(tmp_path, monkeypatch):
    played = PlayedNode(tmp_path)
    played.model = write_model(tmp_path / "model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        played.port = free.getsockname()[1]

    def look(instance=None, **options):
        whole = {
            "name": "kimi",
            "model": str(played.model),
            "port": played.port,
            "args": {"device": "cpu"},
            **(instance or {}),
        }
        instances = options.pop("instances", [whole])
        asked = Asked(played.interpreter, None, instances, options.pop("profile", {}), directories=(str(tmp_path),))
        return preflight(asked._replace(**options), Node(played.sources, played.proc))

    # pytest's own folder may lie below one that a unit does not see; what is said of that has a test of its own.
    monkeypatch.setattr(preflights.service_resources, "HIDDEN", {})
    played.look = look
    return played


def checks(result, name, verdict=None):
    every = result["node"] + [check for instance in result["instances"] for check in instance["checks"]]
    return [check["message"] for check in every if check["check"] == name and verdict in (None, check["verdict"])]


def refusals(result):
    every = result["node"] + [check for instance in result["instances"] for check in instance["checks"]]
    return {check["check"]: check["message"] for check in every if check["verdict"] == "refused"}


def test_a_start_that_can_work(node):
    found = node.look()
    assert refusals(found) == {}
    assert found["refused"] is False
    assert found["version"] == "0.5.23"
    assert checks(found, "parser", "ok") == ["SGLang's own parser takes the configuration"]
    assert checks(found, "architecture", "ok") == ["SGLang 0.5.23 has LlamaForCausalLM"]
    assert checks(found, "port", "ok") == [f"127.0.0.1:{node.port} is free"]
    assert "device is cpu" in checks(found, "memory", "ok")[0]
    (instance,) = found["instances"]
    assert instance["plan"]["unit"] == UNIT
    assert json.loads(json.dumps(found)) == found


def test_the_table_says_every_check(node):
    lines = node.look()["lines"]
    assert lines[0].split() == ["instance", "check", "verdict", "what", "was", "found"]
    assert any(line.startswith("kimi") and " port " in line and " ok " in line for line in lines)
    assert max(map(len, lines)) < 160


# --- the software and the options


def test_no_interpreter_and_no_sglang(node, tmp_path):
    found = node.look(interpreter=str(tmp_path / "nowhere"))
    assert "is not there. Install it (sglang_install: true)" in refusals(found)["sglang"]
    assert checks(found, "parser", "unknown")
    for path in sorted(node.package.parent.glob("sglang*"), reverse=True):
        path.rename(tmp_path / path.name)
    found = node.look()
    assert f"{node.interpreter}: has no SGLang. Install it (sglang_install: true)" in refusals(found)["sglang"]
    assert found["version"] is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_an_interpreter_that_the_user_may_not_start(node):
    node.root.chmod(0o700)
    assert "user nobody may not start it" in refusals(node.look(user="nobody"))["sglang"]


def test_what_a_hardened_unit_does_not_see(node, monkeypatch):
    monkeypatch.setattr(preflights.service_resources, "HIDDEN", {str(node.root): "PrivateTmp"})
    found = node.look()
    for check in ("sglang", "model"):
        assert f"a unit with PrivateTmp sees nothing of {node.root}. M" in refusals(found)[check]


def test_what_the_unit_shows_below_home(node, monkeypatch):
    """A model, and an environment with a Python from elsewhere: its drop-in has BindReadOnlyPaths for both."""
    monkeypatch.setattr(preflights.service_resources, "HIDDEN", {str(node.root): "ProtectHome"})
    assert refusals(node.look()) == {}


def test_a_link_into_what_the_unit_does_not_see(node, monkeypatch, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    node.model.rename(home / "model")
    node.model.symlink_to(home / "model")
    monkeypatch.setattr(preflights.service_resources, "HIDDEN", {str(home): "ProtectHome"})
    (message,) = checks(node.look(), "model", "refused")
    assert f"{node.model}: a unit with ProtectHome sees nothing of {home}, where {node.model} leads to" in message


def test_another_version_than_the_known_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(preflights.service_resources, "HIDDEN", {})
    played = PlayedNode(tmp_path, "0.6.1")
    model = write_model(tmp_path / "model")
    asked = Asked(played.interpreter, None, [{"name": "a", "model": str(model), "args": {"device": "cpu"}}], {})
    found = preflight(asked, Node(played.sources, played.proc))
    assert any("SGLang 0.6.1" in message for message in checks(found, "sglang", "warning"))


def test_an_unknown_option_never_reaches_the_parser(node):
    found = node.look({"args": {"device": "cpu", "mem_fraction_statik": 0.5}})
    assert "mem_fraction_static" in refusals(found)["options"]
    assert "refused already" in checks(found, "parser", "unknown")[0]
    assert found["instances"][0]["plan"] is None


def test_the_parser_has_the_last_word(node):
    found = node.look({"args": {"device": "cpu", "log_level": "info"}})
    assert refusals(found)["parser"].startswith(
        "SGLang's own parser refuses the configuration: sglang serve: error: unrecognized arguments: --log-level info."
    )


@pytest.mark.parametrize(("raises", "verdict"), [("value", "refused"), ("network", "unknown")])
def test_what_the_parser_raises(node, raises, verdict):
    found = node.look({"environment": {"STAND_IN_RAISES": raises}})
    assert "the stand-in was told to" in checks(found, "parser", verdict)[0]


def test_a_parser_that_hangs_is_unknown(node):
    (node.package / "srt" / "server_args.py").write_text("import time\ntime.sleep(60)\n")
    began = time.monotonic()
    found = node.look(probe_timeout=3)
    assert "gave no answer within 3 s" in checks(found, "parser", "unknown")[0]
    assert time.monotonic() - began < 30


def test_an_sglang_that_cannot_be_imported(node):
    (node.package / "srt" / "server_args.py").write_text("import no_such_package\n")
    assert "cannot be imported: ModuleNotFoundError" in refusals(node.look())["parser"]


def test_the_parser_leaves_no_file_behind(node, tmp_path):
    place = tmp_path / "t"
    place.mkdir()
    node.look({"environment": {"TMPDIR": str(place)}})
    assert list(place.iterdir()) == []


def test_a_class_that_this_version_lacks(node):
    (node.model / "config.json").write_text('{"architectures": ["KimiK99ForCausalLM"]}')
    assert "has no class KimiK99ForCausalLM" in checks(node.look(), "architecture", "warning")[0]


# --- files


def test_a_truncated_shard_is_refused_by_name(node):
    shard = node.model / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert f"{shard}: truncated" in refusals(node.look())["model"]


@pytest.mark.parametrize("path", ["models/kimi/x", "kimi", ""])
def test_a_path_that_is_none(node, path):
    assert {"model", "options"} & set(refusals(node.look({"model": path})))


def test_a_model_by_name(node):
    found = node.look({"model": "moonshotai/Kimi-K2.5"})
    assert "SGLang would download it at its start" in checks(found, "model", "unknown")[0]
    found = node.look({"model": "moonshotai/Kimi-K2.5", "environment": {"HF_HUB_OFFLINE": "1"}})
    message = refusals(found)["model"]
    assert "HF_HUB_OFFLINE forbids a download" in message
    assert "HF_HUB_CACHE=/var/cache/sglang/kimi/.cache/huggingface/hub hf download moonshotai/Kimi-K2.5" in message


def test_a_draft_for_another_model(node, tmp_path):
    draft = write_model(tmp_path / "draft", config={"hidden_size": 64})
    found = node.look({"draft_model": str(draft), "args": {"device": "cpu", "speculative_algorithm": "EAGLE3"}})
    assert refusals(found)["draft_model"].startswith("the draft is for a hidden size of 64, and the model has 8.")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_what_the_user_may_not_read_is_refused(node):
    node.root.chmod(0o700)
    assert "may not read it" in refusals(node.look(user="nobody"))["model"]
    assert "model" not in refusals(node.look(user="root"))


def test_a_file_system_that_hangs_is_unknown(node, monkeypatch):
    monkeypatch.setattr(preflights.sglang_model, "inspect", lambda *_arguments: time.sleep(60))
    found = node.look(timeout=0.5)
    assert "was not looked into: no answer within 0.5 s" in checks(found, "model", "unknown")[0]
    assert checks(found, "model", "ok") == []


# --- port


def test_a_port_that_is_taken_names_who_takes_it(node):
    with socket.create_server(("127.0.0.1", node.port)):
        asked = Asked(
            node.interpreter,
            None,
            [{"name": "kimi", "model": str(node.model), "port": node.port, "args": {"device": "cpu"}}],
            {},
        )
        message = refusals(preflight(asked, Node(node.sources)))["port"]
    assert message.startswith(f"127.0.0.1:{node.port} is taken by pid {os.getpid()} (")
    assert message.endswith("Stop it, or give the instance another port.")


def listening(node, unit, monkeypatch):
    monkeypatch.setattr(preflights.port_binding, "why_not_bound", lambda *_where: ["EADDRINUSE", "in use"])
    (node.processes / "self" / "net" / "tcp").write_text(
        "head\n" + f"   0: 0100007F:{node.port:04X} 00000000:0000 0A 0:0 00:0 0  0 0 4711 1\n"
    )
    node.add_process(900, unit)
    (node.processes / "900" / "fd" / "9").symlink_to("socket:[4711]")


@pytest.mark.parametrize(
    ("unit", "running", "verdict"),
    [
        (UNIT, (UNIT,), "ok"),
        (UNIT, (), "refused"),
        ("sglang@other.service", (UNIT, "sglang@other.service"), "refused"),
        ("", (UNIT,), "refused"),
    ],
)
def test_only_the_instance_itself_may_hold_its_port(node, monkeypatch, unit, running, verdict):
    listening(node, unit, monkeypatch)
    assert len(checks(node.look(running=running), "port", verdict)) == 1


@pytest.mark.parametrize(
    ("host", "words"),
    [("192.0.2.1", "Set host to an address of this node"), ("nowhere.invalid", "cannot be listened to")],
)
def test_a_host_of_another_node(node, host, words):
    assert words in refusals(node.look({"host": host}))["port"]


# --- GPUs and memory


def test_more_gpus_than_there_are(node):
    node.add_gpus(*EIGHT[:2])
    found = refusals(node.look({"args": {"tp_size": 4}}))
    assert "takes 4 GPUs, and the instance has 2 (0, 1 on this node)" in found["gpus"]
    assert "7; this node has 0, 1" in refusals(node.look({"gpus": [7], "args": {}}))["gpus"]


def test_without_nvidia_smi_nothing_is_said_to_be_fine(node):
    found = node.look({"args": {"tp_size": 2, "mem_fraction_static": 0.8}})
    for check in ("gpus", "leftovers", "memory"):
        (message,) = checks(found, check)
        assert checks(found, check, "unknown") == [message]
        assert "no executable nvidia-smi" in message


@pytest.mark.parametrize(
    ("unit", "running", "refused"),
    [("", (), True), ("job.service", (UNIT,), True), (UNIT, (UNIT,), False), (UNIT, (), True)],
)
def test_a_leftover_process_is_named(node, unit, running, refused):
    node.add_gpus((97887, 90000, 7249), processes="GPU-0, 4242, 90000\n")
    node.add_process(4242, unit)
    found = node.look({"args": {}}, running=running)
    assert ("leftovers" in refusals(found)) is refused
    if refused:
        told = refusals(found)["leftovers"]
        assert told.startswith("GPU 0: 90000 MiB held by pid 4242 (python -m sglang.launch_server")
        assert ("systemctl stop" in told) is bool(unit)


def test_a_process_on_another_gpu_and_a_monitor_are_left_alone(node):
    node.add_gpus((97887, 300, 97000), (97887, 90000, 7249), processes="GPU-0, 4242, 300\nGPU-1, 4243, 90000\n")
    node.add_process(4242, "")
    node.add_process(4243, "")
    found = node.look({"gpus": [0], "args": {}})
    assert refusals(found) == {}
    assert "little, and left alone" in checks(found, "leftovers", "warning")[0]


def test_memory_that_nobody_is_named_for(node):
    node.add_gpus((97887, 90000, 7249))
    assert "nobody is named" in checks(node.look({"args": {}}), "leftovers", "warning")[0]


GIB = 1024**3


@pytest.fixture
def kimi(node, monkeypatch):
    """The first customer's node: weights and draft of 73.19 GiB a GPU, in the sizes that the headers would give."""
    node.add_gpus(*EIGHT)
    sizes = {"split": int(8 * 73.19 * GIB)}

    def split(_tensors, _config):
        return {**dict.fromkeys(preflights.sglang_gpu_checks.sglang_weights.KINDS, 0), **sizes}

    monkeypatch.setattr(preflights.sglang_model.sglang_weights, "split", split)
    node.sizes = sizes
    return node


def test_the_case_that_cost_ten_minutes_a_try_is_refused_in_seconds(kimi):
    found = kimi.look({"args": {"tp_size": 8, "mem_fraction_static": 0.55}})
    assert list(refusals(found)) == ["memory"]
    message = refusals(found)["memory"]
    assert "free before 94.97 GiB, free after the weights 21.78 GiB" in message
    assert "= -20.96 GiB for the KV cache" in message
    assert "whatever NCCL does; smallest mem_fraction_static that works: 0.78." in message
    assert "Assumed: 585.52 GiB of weights over tp_size 8" in message
    assert "counted was the least that a GPU can hold" in message


def test_the_fraction_that_it_names_is_not_refused(kimi):
    found = kimi.look({"args": {"tp_size": 8, "mem_fraction_static": 0.78}})
    assert refusals(found) == {}
    assert "That is close" in checks(found, "memory", "warning")[0]
    assert checks(kimi.look({"args": {"tp_size": 8, "mem_fraction_static": 0.85}}), "memory", "ok")


def test_the_fraction_of_the_profile_counts_and_the_instance_wins(kimi):
    profile = {"name": "mine", "sglang": {"args": {"mem_fraction_static": 0.55}}}
    assert "x (1 - 0.55)" in refusals(kimi.look({"args": {"tp_size": 8}}, profile=profile))["memory"]
    found = kimi.look({"args": {"tp_size": 8, "mem_fraction_static": 0.85}}, profile=profile)
    assert "memory" not in refusals(found)


def test_what_nccl_takes_with_the_profile_is_told_where_it_is_close(kimi):
    args = {"tp_size": 8, "mem_fraction_static": 0.8}
    assert checks(kimi.look({"args": args}), "memory", "ok")
    found = kimi.look({"args": args}, profile={"name": "known_good", "memory": {"mib": 2048}})
    assert (
        "NCCL's buffers (about 2048 MiB with this profile) come off it first" in checks(found, "memory", "warning")[0]
    )


def test_without_a_fraction_nothing_is_refused(kimi):
    found = kimi.look({"args": {"tp_size": 8}})
    assert "Smallest mem_fraction_static that works: 0.78" in checks(found, "memory", "unknown")[0]
    kimi.sizes["split"] = 800 * GIB
    assert "The weights alone do not fit" in refusals(kimi.look({"args": {"tp_size": 8}}))["memory"]


def test_what_is_only_estimated_warns(kimi):
    kimi.sizes.update(split=int(8 * 60 * GIB), every=16 * GIB)
    found = kimi.look({"args": {"tp_size": 8, "mem_fraction_static": 0.7}})
    assert refusals(found) == {}
    assert checks(found, "memory", "warning")[0].startswith("estimated: free before")


@pytest.mark.parametrize("option", [{"cpu_offload_gb": 40}, {"quantization": "fp8"}])
def test_options_that_shrink_the_weights_keep_it_from_refusing(kimi, option):
    found = kimi.look({"args": {"tp_size": 8, "mem_fraction_static": 0.55, **option}})
    assert f"Not refused, because {next(iter(option))}" in checks(found, "memory", "warning")[0]


def test_little_is_kept_back(kimi):
    found = kimi.look({"args": {"tp_size": 8, "mem_fraction_static": 0.99}})
    assert "0.95 GiB are kept back for activations and graphs" in checks(found, "memory", "warning")[0]


def test_memory_of_its_own_unit_counts_as_free(kimi):
    kimi.add_gpus((97887, 90000, 7249), processes="GPU-0, 4242, 90000\n")
    kimi.add_process(4242, UNIT)
    kimi.sizes["split"] = int(73.19 * GIB)
    found = kimi.look({"args": {"mem_fraction_static": 0.85}}, running=(UNIT,))
    assert "free before 94.97 GiB" in checks(found, "memory", "ok")[0]
    kimi.add_gpus((97887, 90000, 7249), processes="GPU-0, 4242, [N/A]\n")
    found = kimi.look({"args": {"mem_fraction_static": 0.85}}, running=(UNIT,))
    assert "gives back when it stops is not known" in checks(found, "memory", "unknown")[0]


def test_recorded_facts_replace_the_gpus(kimi):
    gpu = {"index": 0, "uuid": "GPU-x", "memory_mib": {"total": 8192, "used": 0, "free": 8192}}
    found = kimi.look({"args": {"mem_fraction_static": 0.9}}, facts={"source": "recorded", "gpus": [gpu]})
    assert "free before 8.00 GiB" in refusals(found)["memory"]
    assert "the facts were recorded" in checks(found, "leftovers", "unknown")[0]


def test_the_size_is_unknown_where_the_weights_are(kimi):
    (kimi.model / "model-00001-of-00002.safetensors").unlink()
    found = kimi.look({"args": {"tp_size": 8, "mem_fraction_static": 0.55}})
    assert "the size of the weights is not known" in checks(found, "memory", "unknown")[0]


def test_a_draft_counts_and_its_embeddings_only_in_the_estimate(kimi, tmp_path):
    """Both have the played size; the draft says that it has half of it in embeddings, which it may share with the model."""
    draft = write_model(tmp_path / "draft")
    args = {"tp_size": 8, "mem_fraction_static": 0.8, "speculative_algorithm": "EAGLE3"}
    kimi.sizes.update(split=240 * GIB, embeddings=60 * GIB)
    found = kimi.look({"draft_model": str(draft), "args": args})
    assert refusals(found) == {}
    assert "and 300.00 GiB of the draft's" in checks(found, "memory", "warning")[0]
    assert "free after the weights 19.97 GiB" in checks(found, "memory")[0]
    kimi.sizes.update(split=310 * GIB, embeddings=0)
    assert "memory" in refusals(kimi.look({"draft_model": str(draft), "args": args}))


def test_layers_that_predict_are_not_counted_beside_a_draft(kimi, tmp_path):
    draft = write_model(tmp_path / "draft")
    kimi.sizes.update(split=8 * GIB, extra=8000 * GIB)
    args = {"tp_size": 8, "mem_fraction_static": 0.8, "speculative_algorithm": "EAGLE"}
    assert "memory" not in refusals(kimi.look({"draft_model": str(draft), "args": args}))
    assert "memory" in refusals(kimi.look({"args": args}))


def test_the_first_gpu_may_be_another(node):
    node.add_gpus((97887, 90000, 7249), (97887, 0, 97249), processes="GPU-0, 4242, 90000\n")
    node.add_process(4242, "")
    assert "leftovers" in refusals(node.look({"args": {}}))
    assert "leftovers" not in refusals(node.look({"args": {"base_gpu_id": 1}}))


# --- together, switches, and the message


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (
            [0],
            ["GPU-0"],
            ["sglang_instances['a'] and ['b']: both use GPU 0, under another name. Give each its own gpus."],
        ),
        ([0], ["GPU-1"], []),
        ([0], [0], []),  # sglang_instance says so
        ([0], [], []),
        ("0", ["GPU-0"], []),  # refused for itself
    ],
)
def test_one_gpu_by_its_number_and_by_its_name(node, one, other, said):
    node.add_gpus(*EIGHT[:2])
    gpus = preflights.sglang_gpu_checks.look(node.sources, None, 10, node.proc)
    instances = [{"name": "a", "gpus": one, "args": {}}, {"name": "b", "gpus": other, "args": [1]}]
    assert preflights.sglang_gpu_checks.one_gpu_by_two_names(instances, gpus) == said
    on_cpu = [dict(instance, args={"device": "cpu"}) for instance in instances]
    assert preflights.sglang_gpu_checks.one_gpu_by_two_names(on_cpu, gpus) == []


def test_two_instances_on_one_port(node):
    one = {"name": "a", "model": str(node.model), "port": node.port, "args": {"device": "cpu"}}
    found = node.look(instances=[one, {**one, "name": "b"}])
    assert "both listen on port" in refusals(found)["together"]


@pytest.mark.parametrize("off", ["off", False])
def test_off_is_off_with_and_without_quotes(node, off):
    """YAML reads a bare off as false."""
    found = node.look({"model": "/nowhere"}, switches={"model": off})
    assert checks(found, "model") == ["not checked: sglang_preflight has model: off"]


def test_switches(node):
    found = node.look({"model": "/nowhere"}, switches={"model": "warn", "port": "off"})
    assert refusals(found) == {}
    assert "(allowed: sglang_preflight has model: warn)" in checks(found, "model", "warning")[0]
    assert checks(found, "port") == ["not checked: sglang_preflight has port: off"]
    with pytest.raises(TuningError, match=r"checks: modle: 'off'; legal: sglang, together"):
        node.look(switches={"modle": "off"})
    with pytest.raises(TuningError, match=r"legal: .*, each refuse, warn, off"):
        node.look(switches={"model": "ignore"})
    with pytest.raises(TuningError, match="model: True; legal"):
        node.look(switches={"model": True})


def test_one_message_has_every_refusal(node):
    found = node.look({"model": "/nowhere", "host": "192.0.2.1"})
    message = refusal(found)
    assert "(2 found). Nothing was changed, and a running service was not touched:" in message
    assert "\n- kimi: model: /nowhere: is not there." in message
    assert "\n- kimi: port: 192.0.2.1:" in message


@pytest.fixture
def run(node, capsys):
    """Function that runs the module with options: its answer."""

    def run(**options):
        instance = {
            "name": "kimi",
            "model": str(node.model),
            "port": node.port,
            "args": {"device": "cpu"},
            "api_key": "s3cr3t-key",
        }
        whole = {"interpreter": node.interpreter, "instances": [instance], "directories": [str(node.root)], **options}
        with patch_module_args(whole), pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out)

    return run


@pytest.mark.parametrize("check_mode", [False, True])
def test_the_module_succeeds_and_keeps_the_key_to_itself(run, check_mode):
    answer = run(_ansible_check_mode=check_mode)
    assert (answer["changed"], answer["refused"], answer.get("failed")) == (False, False, None)
    assert "s3cr3t-key" not in json.dumps(answer)


def test_the_module_fails_with_all_it_found_unless_it_shall_report(run):
    bad = [{"name": "kimi", "model": "/nowhere", "args": {"device": "cpu"}}]
    answer = run(instances=bad)
    assert answer["failed"]
    assert "- kimi: model: /nowhere: is not there." in answer["msg"]
    assert answer["instances"][0]["plan"]["port"] == 30000
    assert not [check for check in answer["instances"][0]["checks"] if "legal: a number from 1" in check["message"]]
    assert run(instances=bad, report_only=True).get("failed") is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"interpreter": "python"}, "interpreter 'python'; legal: an absolute path"),
        ({"timeout": 0}, "timeout: 0.0; legal: a number from 0.1 to 86400"),
        ({"checks": {"ports": "off"}}, "checks: ports: 'off'; legal:"),
        ({"instances": [{"name": "a", "modle": "/x"}]}, "instances.modle"),
    ],
)
def test_bad_options_of_the_module(run, options, words):
    answer = run(**options)
    assert answer["failed"]
    assert words in answer["msg"]


def test_a_header_that_would_eat_the_memory_is_unknown(node, monkeypatch):
    """Ten million empty lists in a legal length; the child may have 200 MiB."""
    shard = node.model / "model-00001-of-00002.safetensors"
    header = b'{"a": [' + b"[]," * 10_000_000 + b"[]]}"
    shard.write_bytes(len(header).to_bytes(8, "little") + header)
    monkeypatch.setattr(preflights, "call_as", lambda *given: bounded_child.call_as(*given, memory=200 * 1024**2))
    found = node.look()
    assert "takes more memory than a check may have" in checks(found, "model", "unknown")[0]
    assert "the size of the weights is not known" not in str(refusals(found))


def test_a_large_shard_is_looked_at_without_reading_it(node):
    """The data of 4 GiB that are not there: a sparse file takes no room, and its header fits."""
    whole = shard_bytes({"model.norm.weight": ("BF16", (8,))})
    shard = node.model / "model-00001-of-00002.safetensors"
    header = json.dumps({"a": {"dtype": "U8", "shape": [4 * GIB], "data_offsets": [0, 4 * GIB]}}).encode()
    with open(shard, "wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        stream.truncate(8 + len(header) + 4 * GIB)
    (node.model / "model.safetensors.index.json").unlink()
    (node.model / "model-00002-of-00002.safetensors").write_bytes(whole)
    began = time.monotonic()
    found = node.look()
    assert time.monotonic() - began < 20
    assert "model" not in refusals(found)
