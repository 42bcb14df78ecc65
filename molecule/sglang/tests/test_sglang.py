"""The real SGLang under systemd. One service goes through the whole module, because every start of it takes half a minute."""

from __future__ import annotations

import copy
import json
import re
import time

import pytest
import yaml
from conftest import KNOWN_GOOD
from fleet import ROOT, STATE

UNIT = "sglang@tiny.service"
URL = "http://127.0.0.1:31000"
KEY = "a-key-of-the-users"
LONG = 900  # seconds for a play with several starts on a busy machine
EXPOSURE = 3.0  # of systemd-analyze security, at most
FILES = f"/etc/systemd/system/sglang@.service /etc/systemd/system/{UNIT}.d/gpu_node_tuning.conf /etc/gpu_node_tuning/sglang/tiny.*"

PLAIN = yaml.safe_load((ROOT / "molecule/sglang/inventory.yml").read_text())["gpu_nodes"]["vars"]["sglang_instances"][0]
EAGLE3 = {
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
    "speculative_draft_load_format": "dummy",
    # The one attention that EAGLE-3 takes on a CPU; named for all phases at once SGLang would put another in its place.
    "attention_backend": None,
    "decode_attention_backend": "intel_amx",
    "prefill_attention_backend": "intel_amx",
}
# It passes every check, and fails when SGLang compiles a kernel for it: the node has no compiler.
CANDIDATE = {
    "profile": "candidate",
    "tuning_profiles": {
        "candidate": {
            "summary": "for this test",
            "status": "experimental",
            "env": {"NCCL_PROTO": {"value": "Simple", "reason": "another value than the known-good one"}},
            "sglang": {"env": {}, "args": {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 4}},
        }
    },
}


IN_A_COMMAND_LINE = """import contextlib, glob
found = 0
for path in glob.glob("/proc/[0-9]*/cmdline"):
    with contextlib.suppress(OSError), open(path, "rb") as stream:
        found += key in stream.read()
print(found)
"""


def instance(args: dict | None = None, **changed) -> dict:
    made = copy.deepcopy(PLAIN)
    made["args"].update(args or {})
    return {**made, **changed}


def with_draft() -> dict:
    return instance(EAGLE3, draft_model="/models/tiny-draft", api_key=KEY)


@pytest.fixture(scope="module")
def node(nodes):
    return nodes[0]


@pytest.fixture(scope="module", autouse=True)
def _patience(fleet):
    fleet.timeout = LONG


def result_of(play, module: str) -> dict:
    """What a module of the collection returned last."""
    found = [
        entry["result"]
        for entry in play.results
        if entry["action"] == f"gpu_node.tuning.{module}" and entry["status"] == "ok"
    ]
    assert found, f"no result of {module}\n{play}"
    return found[-1]


def shown(node, name: str, unit: str = UNIT) -> str:
    return node.host.check_output("systemctl show --property=%s --value %s", name, unit)


def main_pid(node) -> int:
    return int(shown(node, "MainPID"))


def health(node) -> int:
    """What /health says; 0 where nobody listens. It generates a token, and takes up to 20 s to say no."""
    program = (
        "import urllib.error, urllib.request\n"
        "try:\n"
        f"    print(urllib.request.urlopen('{URL}/health', timeout=30).status)\n"
        "except urllib.error.HTTPError as error:\n"
        "    print(error.code)\n"
        "except OSError:\n"
        "    print(0)\n"
    )
    return int(node.feed(program, "python3", "-"))


def wait_until_ready(node, seconds: int = 300) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if health(node) == 200:
            return
        time.sleep(1)
    pytest.fail(f"{UNIT} is not ready after {seconds} s\n{journal(node)}")


def journal(node, lines: int = 60) -> str:
    return node.host.check_output("journalctl --no-pager --output=cat --unit=%s --lines=%s", UNIT, str(lines))


def process(node, title: str) -> int:
    """PID of SGLang's process of that title."""
    return int(node.host.check_output("pgrep --full '^sglang::%s'", title).split()[0])


def nccl_of_ranks(node) -> dict:
    """The tuning's variables as a child of the server has them. The ranks write their titles over their environment, so a helper is asked."""
    pid = node.host.check_output("pgrep --parent %s --full resource_tracker", str(main_pid(node)))
    words = (word.partition("=")[::2] for word in node.read(f"/proc/{pid}/environ").decode().split("\0"))
    return {name: value for name, value in words if name in KNOWN_GOOD}


def stamps(node) -> str:
    return node.sh(
        f"stat --format='%n %Y %i %s' {FILES}; systemctl show --property=MainPID --property=NRestarts {UNIT}"
    )


# -- a first start, with everything that is proved ---------------------------------------------------------------------


def test_a_first_start_is_proved(fleet, node):
    play = fleet.play("sglang", rc=0, sglang_instances=[with_draft()])
    ready = result_of(play, "sglang_ready")
    assert ready["ready"] is True
    assert ready["spec_verify_ct"] > 0
    assert ready["metrics"] is True
    assert ready["generation"]["equal"] is True
    assert re.search(rf"bookworm {re.escape(UNIT)}: \d+:\d\d \w+: ", play.stdout), f"no progress was shown\n{play}"
    assert (shown(node, "ActiveState"), shown(node, "UnitFileState")) == ("active", "enabled")
    assert "Layer 3: one rank exchanges no data" in play.stdout, "what is not proved has to be said"
    assert result_of(play, "sglang_files")["instances"][0]["reasons"] == []


def test_the_tuning_is_in_the_ranks(node):
    assert nccl_of_ranks(node) == KNOWN_GOOD
    assert node.host.check_output("ps -o user= -p %s", str(main_pid(node))) == "sglang"


def test_the_keys_are_in_one_file(fleet, node):
    modes = node.sh("stat --format='%n %a %U %G' /etc/gpu_node_tuning/sglang/*").split("\n")
    assert "/etc/gpu_node_tuning/sglang/tiny.keys.yaml 600 sglang root" in modes
    assert "/etc/gpu_node_tuning/sglang/tiny.yaml 640 root sglang" in modes
    assert node.host.run("grep -r --files-with-matches %s /etc/systemd /etc/gpu_node_tuning", KEY).stdout.split() == [
        "/etc/gpu_node_tuning/sglang/tiny.keys.yaml"
    ]
    # Not by grep, which would have the key in its own command line.
    assert node.feed(f"key = {KEY.encode()!r}\n" + IN_A_COMMAND_LINE, "python3", "-").split() == ["0"]
    assert node.host.run("grep -r --quiet %s %s", KEY, STATE).rc == 1, "no record has the keys"
    assert KEY not in (fleet.scratch / "results").read_text()
    denied = node.host.run(
        "setpriv --reuid=engine --regid=engine --clear-groups cat /run/sglang/tiny/config.yaml /etc/gpu_node_tuning/sglang/tiny.yaml"
    )
    assert denied.rc != 0


def test_the_unit_is_hardened(node, count):
    assert node.host.run("systemd-analyze verify %s", UNIT).stderr == ""
    said = node.host.check_output("systemd-analyze --no-pager security %s", UNIT).splitlines()[-1]
    exposure = float(re.search(r"exposure level for .*: ([\d.]+)", said)[1])
    count(f"unit with an exposure of {exposure} (systemd-analyze security, at most {EXPOSURE})")
    assert exposure <= EXPOSURE


def test_a_second_run_restarts_nothing(fleet, node):
    before = stamps(node)
    play = fleet.play("sglang", rc=0, sglang_instances=[with_draft()])
    assert play.changed(node) == 0
    assert stamps(node) == before


# -- refusals: the service goes on as it was ---------------------------------------------------------------------------


def weights(node, folder: str, gib: float) -> None:
    """A model of one rank whose weights are a file with a hole in it; only its header has to be true."""
    program = f"""
import json, os, shutil, struct
shutil.copytree("/models/tiny", "{folder}", dirs_exist_ok=True)
length = int({gib} * 2**29)
header = json.dumps({{"weight": {{"dtype": "BF16", "shape": [length], "data_offsets": [0, 2 * length]}}}}).encode()
with open("{folder}/model.safetensors", "wb") as stream:
    stream.write(struct.pack("<Q", len(header)) + header)
    stream.truncate(8 + len(header) + 2 * length)
os.chmod("{folder}/model.safetensors", 0o644)
"""
    node.feed(program, "python3", "-")


def one_gpu(free_gib: float) -> dict:
    gpu = yaml.safe_load((ROOT / "tests/fixtures/hardware/one-gpu/expected.yml").read_text())
    gpu["gpus"][0]["memory_mib"] = {"total": 97887, "used": 638, "free": int(free_gib * 1024)}
    return gpu


# Name of the instance that has the fault: the instance, and what the one message has to say of it.
FAULTS = {
    "typo": ({"args": {"max_total_token": 1}}, ["max_total_token", "max_total_tokens"]),
    "choice": ({"args": {"load_format": "none-such"}}, ["load_format", "none-such"]),
    "nowhere": ({"model": "/models/none"}, ["/models/none"]),
    "corrupt": ({"model": "/models/corrupt"}, ["/models/corrupt/model.safetensors"]),
    "key": ({"api_key": "one\ntwo"}, ["api_key"]),
    "taken": ({"port": 31000}, ["31000", "tiny"]),
}


def refused(fleet, node, instances: list, **more) -> str:
    """The message of a play that has to be refused, and to leave everything as it was."""
    before, generation = stamps(node), node.host.check_output("readlink %s/current", STATE)
    play = fleet.play("sglang", rc=2, sglang_instances=instances, **more)
    assert "one\ntwo" not in play.stdout
    assert stamps(node) == before
    assert node.host.check_output("readlink %s/current", STATE) == generation
    assert health(node) == 200
    return play.message(node)


def test_what_is_refused_is_in_one_message_and_touches_nothing(fleet, node):
    node.sh("cp -r /models/tiny /models/corrupt; truncate --size=-1000 /models/corrupt/model.safetensors")
    instances = [with_draft()]
    for port, (name, (changed, _words)) in enumerate(FAULTS.items(), start=31001):
        made = {
            **instance(changed.get("args"), name=name, port=port),
            **{key: changed[key] for key in changed if key != "args"},
        }
        instances.append(made)
    said = refused(fleet, node, instances)
    missing = [
        f"{name}: {word}" for name, (_changed, words) in FAULTS.items() for word in [name, *words] if word not in said
    ]
    assert missing == [], said


def test_a_fraction_that_cannot_work_is_refused_before_the_weights_load(fleet, node):
    weights(node, "/models/large", 73.19)
    large = instance({"device": "cuda", "mem_fraction_static": 0.55}, model="/models/large")
    more = {"sglang_user": "nobody-of-this-name", "sglang_create_user": False}
    said = refused(fleet, node, [large], tuning_gpu_facts=one_gpu(94.97), **more)
    assert [word for word in ("-20.96", "0.78", "nobody-of-this-name") if word not in said] == [], said


# -- changes -----------------------------------------------------------------------------------------------------------


def test_an_edited_unit_is_shown_and_put_back(fleet, node):
    pid = main_pid(node)
    node.sh("sed -i 's/^TimeoutStopSec=.*/TimeoutStopSec=1/' /etc/systemd/system/sglang@.service")
    foretold = fleet.play("sglang", "--check", "--diff", rc=0, sglang_instances=[with_draft()])
    assert "-TimeoutStopSec=1" in foretold.stdout
    assert node.host.run("grep --quiet TimeoutStopSec=1$ /etc/systemd/system/sglang@.service").rc == 0
    play = fleet.play("sglang", rc=0, sglang_instances=[with_draft()])
    files = result_of(play, "sglang_files")
    assert files["edited_by_hand"] == ["/etc/systemd/system/sglang@.service"]
    assert "TimeoutStopSec=1\n" in node.read(files["kept"][0]).decode()
    assert main_pid(node) == pid, "it was started with what stands there again"


def test_a_changed_option_is_one_restart(fleet, node):
    pid = main_pid(node)
    # Systemd's pause is for the GPUs of a crash; here it would only be waited for.
    node.sh("mkdir -p /etc/systemd/system/sglang@.service.d")
    node.write("/etc/systemd/system/sglang@.service.d/pause.conf", "[Service]\nRestartSec=1\n")
    play = fleet.play("sglang", rc=0)
    found = result_of(play, "sglang_files")["instances"][0]
    assert found["reasons"] == ["configuration changed", "keys changed", "unit changed"]  # the last by pause.conf
    assert main_pid(node) not in (0, pid)
    assert (shown(node, "NRestarts"), node.host.run("test -e /etc/gpu_node_tuning/sglang/tiny.keys.yaml").rc) == (
        "0",
        1,
    )
    assert result_of(play, "sglang_ready")["spec_verify_ct"] in (None, 0)


# -- crashes and reboot ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", ["scheduler", "detokenizer"])
def test_a_killed_process_brings_the_service_back(node, title):
    pid, restarts = main_pid(node), int(shown(node, "NRestarts"))
    node.sh(f"kill -9 {process(node, title)}")
    end = time.monotonic() + 60
    while int(shown(node, "NRestarts")) == restarts:
        assert time.monotonic() < end, f"systemd does not know of it after 60 s\n{journal(node)}"
        time.sleep(0.5)
    wait_until_ready(node)
    assert main_pid(node) not in (0, pid)
    node.sh(f"systemctl reset-failed {UNIT}")


def test_a_reboot_comes_back_tuned(node):
    node.host.backend.run_local("podman restart --time=60 %s", node.container)
    wait_until_ready(node)
    assert nccl_of_ranks(node) == KNOWN_GOOD


# -- fallback ----------------------------------------------------------------------------------------------------------


def test_a_candidate_that_fails_makes_way_for_the_last_good_start(fleet, node, count):
    good = node.host.check_output("readlink %s/current", STATE)
    play = fleet.play("sglang", rc=2, **CANDIDATE)
    # The wait failed first, which the role has rescued; the last word is what the user reads.
    said = [entry["result"]["msg"] for entry in play.results if entry["status"] == "failed"][-1]
    assert "failed under profile candidate" in said
    assert "answers again" in said
    assert "nvcc" in said, "the cause is in the message"
    kept = re.search(rf"{STATE}/generations/\d+/failed_starts/\S+?-tiny", said)[0]
    assert node.host.check_output("ls %s", kept).split() == [
        "checksums.json",
        "diagnosis.json",
        "journal.txt",
        "message.txt",
    ]
    assert b"nvcc" in node.read(f"{kept}/journal.txt")
    assert node.host.check_output("readlink %s/current", STATE) == good
    assert health(node) == 200
    assert nccl_of_ranks(node) == KNOWN_GOOD
    count("failed starts that fell back")
    # The candidate is no longer there, so nothing has to be restarted.
    pid = main_pid(node)
    assert fleet.play("sglang", rc=0).changed(node) == 0
    assert main_pid(node) == pid


# -- stop --------------------------------------------------------------------------------------------------------------


def test_a_stop_lets_a_running_request_end(fleet, node):
    body = {"text": "One, two,", "sampling_params": {"temperature": 0, "max_new_tokens": 1500, "ignore_eos": True}}
    node.write(
        "/root/ask.py",
        f"""import json, urllib.request
request = urllib.request.Request("{URL}/generate", json.dumps({body!r}).encode(), {{"Content-Type": "application/json"}})
print(json.load(urllib.request.urlopen(request, timeout=120))["meta_info"]["completion_tokens"])
""",
    )
    node.sh(
        "systemd-run --quiet --unit=ask --property=StandardOutput=file:/root/answer /usr/bin/python3 /root/ask.py; sleep 1.5"
    )
    assert node.host.check_output("systemctl is-active ask") == "active", "the request was over before the stop"
    fleet.play("sglang", rc=0, state="stopped")
    assert node.read("/root/answer").split() == [b"1500"]
    assert (shown(node, "ActiveState"), shown(node, "Result"), shown(node, "ExecMainStatus")) == (
        "inactive",
        "success",
        "0",
    )


def test_a_start_by_systemd_refuses_what_is_not_as_declared(fleet, node):
    """Two reasons at once: the port is another program's, and somebody has changed the tuning."""
    node.write(
        "/root/hold.py", "import socket, time\ns = socket.create_server(('127.0.0.1', 31000))\ntime.sleep(600)\n"
    )
    node.sh("systemd-run --quiet --unit=hold /usr/bin/python3 /root/hold.py; sleep 1")
    refused = fleet.play("sglang", rc=2).message(node)
    assert "31000" in refused
    assert "hold.py" in refused, "who holds the port is named"
    node.sh(f"sed -i 's/16777216/4194304/' {node.file}; systemctl start {UNIT} || true; sleep 3; systemctl stop {UNIT}")
    said = journal(node)
    assert "not started: 127.0.0.1:31000 cannot be listened on" in said
    assert (
        f"not started: {node.link} was changed after it had been read back" in said
        or f"not started: {node.file} was changed" in said
    )
    assert "NCCL_BUFFSIZE is '4194304' in the environment of the service, declared '16777216'" in said
    node.sh("systemctl stop hold")


def test_absent_leaves_nothing_of_the_service(fleet, node):
    fleet.play("sglang", rc=0, state="absent")
    assert node.host.run(f"ls {FILES}").stdout == ""
    assert node.host.run("systemctl cat %s", UNIT).rc != 0
    assert fleet.play("sglang", rc=0, state="absent").changed(node) == 0
    records = json.loads(node.sh(f"cat {STATE}/sglang/tiny/starts/0001/manifest.json"))
    assert records["profile_status"] == "known_good", "the way back is kept"
