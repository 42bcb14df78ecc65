# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a server counts as ready: a real server on a real port, systemd played."""

from __future__ import annotations

import http.server
import json
import os
import socket
import threading
import types

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import listening_sockets, sglang_http, sglang_ready
from ansible_collections.gpu_node.tuning.plugins.module_utils.bounded_command import Ended
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_causes import CAUSES
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_http import Server
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_proof import NotProved, Wanted, prove
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_ready import Followed

from .test_sglang_unit import RUNNING

OURS = listening_sockets._control_group("/proc", os.getpid()) or "/"
ENDED = {
    "ActiveState": "failed",
    "SubState": "failed",
    "MainPID": "0",
    "ExecMainCode": "2",
    "ExecMainStatus": "9",
    "Result": "signal",
}
AGAIN = dict(ENDED, ActiveState="activating", SubState="auto-restart")
OUT_OF_MEMORY = "[2026-11-30 10:00:00 TP0] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB.\nReceived sigquit from a child process. It\n"


class SGLang:
    """What the real server answers, as far as readiness goes."""

    def __init__(self):
        self.health, self.key, self.texts, self.verify, self.tokens, self.asked = 200, "", ["a"], 5, 16, []

    def answer(self, path, body, authorization):
        self.asked.append((path, body))
        if path == "/health":
            return self.health, ""
        if self.key and authorization != f"Bearer {self.key}":
            return 401, '{"error":"Unauthorized"}'
        if path == "/generate":
            text = self.texts[min(len([one for one, _ in self.asked if one == path]), len(self.texts)) - 1]
            told = {"completion_tokens": self.tokens, "spec_verify_ct": self.verify, "spec_accept_length": 2.5}
            return 200, json.dumps(
                {"text": text, "meta_info": told if self.verify is not None else {"completion_tokens": self.tokens}}
            )
        if path == "/v1/models":
            return 200, '{"data": [{"id": "kimi"}, {"id": "other"}]}'
        return (200, "# HELP sglang:num_running_reqs\n") if path == "/metrics" else (404, "")


@pytest.fixture
def sglang():
    """A server on a free port: .port, and .model, which says what it answers."""
    model = SGLang()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, text = model.answer(self.path, body, self.headers.get("Authorization"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET

        def log_message(self, *_arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield types.SimpleNamespace(port=server.server_address[1], model=model)
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class World(sglang_ready.World):
    """systemd and the journal played, the clock too; sockets and HTTP are real."""

    def __init__(self, journal="", **properties):
        self.properties, self.journal, self.clock, self.slept = (
            dict(RUNNING, ControlGroup=OURS, **properties),
            journal,
            0.0,
            0,
        )

    def run(self, argv, _limit, _environment):
        if argv[0] == "systemctl":
            return Ended(0, "".join(f"{key}={value}\n" for key, value in self.properties.items()), "", "")
        if argv[0] == "journalctl":
            return Ended(0, "" if "--dmesg" in argv else self.journal, "", "")
        return Ended(0, "1024, 98304\n2048, 98304\n[N/A], x\n", "", "")

    def now(self):
        return self.clock

    def sleep(self, seconds):
        self.clock += seconds
        self.slept += 1
        self.changes()

    def changes(self):
        """What happens while one waits."""


FOLLOWED = Followed("aa")


def look(port, world, followed=FOLLOWED):
    return sglang_ready.look(Server("127.0.0.1", port), "sglang@kimi", followed, world)


def test_a_server_of_the_unit(sglang):
    seen = look(sglang.port, World("Load weight begin.\n"))
    assert (seen.ready, seen.over, seen.health, seen.phase.name, seen.remarks) == (True, "", "status 200", "ready", [])


def test_the_port_is_not_bound_while_weights_are_loaded(free_port):
    seen = look(free_port, World("Load weight begin.\n"))
    assert (seen.ready, seen.over, seen.health, seen.phase.name) == (False, "", "refused", "weights")


def test_a_server_that_warms_up(sglang):
    sglang.model.health = 503
    seen = look(sglang.port, World())
    assert (seen.ready, seen.over, seen.phase.name) == (False, "", "warm_up")


def test_the_words_of_the_log_are_not_enough(free_port):
    assert not look(free_port, World("The server is fired up and ready to roll!\n")).ready


def test_another_server_answers(sglang):
    """The end with status 3: everything looks ready, and it is somebody else's."""
    world = World("The server is fired up and ready to roll!\n")
    world.properties["ControlGroup"] = "/system.slice/system-sglang.slice/sglang@kimi.service"
    seen = look(sglang.port, world)
    assert not seen.ready
    assert f"port {sglang.port} is not sglang@kimi.service's: process {os.getpid()} (" in seen.over
    assert sglang.model.asked == []


def test_a_socket_whose_owner_cannot_be_seen(sglang):
    world = World()
    world.listeners = lambda _host, _port: [listening_sockets.Listener("127.0.0.1", None, "", "")]
    seen = look(sglang.port, world)
    assert seen.ready
    assert seen.remarks == [f"whether port {sglang.port} is sglang@kimi.service's could not be found out: become root"]


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (ENDED, "sglang@kimi.service is failed (failed, exit status 137, result signal)."),
        (AGAIN, "sglang@kimi.service is activating (auto-restart, exit status 137, result signal)."),
        ({"InvocationID": "bb"}, "sglang@kimi.service ended and was started anew while it was waited for."),
        ({"NRestarts": "1"}, "sglang@kimi.service ended and systemd started it again."),
        ({"ActiveState": "inactive", "SubState": "dead", "MainPID": "0"}, "sglang@kimi.service is inactive (dead)."),
    ],
)
def test_a_unit_that_failed_is_not_waited_for(sglang, properties, words):
    seen = look(sglang.port, World(**properties))
    assert (seen.ready, seen.over) == (False, words)
    assert sglang.model.asked == []


def test_the_start_before_is_not_taken_for_the_one_that_was_asked_for(sglang):
    """A restart that is queued: the old server still answers, and its number is not the one to follow."""
    seen = look(sglang.port, World(Job="77", InvocationID="old"), Followed())
    assert (seen.ready, seen.over, seen.phase.sentence) == (False, "", "systemd has yet to start it")
    assert sglang.model.asked == []


def test_restarts_of_last_week_do_not_count(sglang):
    assert look(sglang.port, World(NRestarts="3"), Followed()).ready
    assert look(sglang.port, World(NRestarts="3"), Followed("aa", 3)).ready


def test_without_a_unit(sglang):
    seen = sglang_ready.look(Server("127.0.0.1", sglang.port), "", Followed(), World())
    assert seen.ready
    assert "another server" in seen.remarks[0]


def test_something_else_on_the_port(sglang):
    sglang.model.health = 404
    assert "this is no server of SGLang" in look(sglang.port, World()).over


def test_a_round_ends_when_the_phase_changes(free_port):
    world = World("Load weight begin.\n")
    world.changes = lambda: (
        setattr(world, "journal", "Load weight begin.\nMemory pool end.\n") if world.slept == 3 else None
    )
    followed = Followed("aa", 0, "weights: weights are being loaded")
    seen = sglang_ready.one_round(Server("127.0.0.1", free_port), "a", followed, 60, world)
    assert (seen.phase.name, world.slept) == ("kv_cache", 3)


def test_a_round_ends_when_the_unit_fails(free_port):
    world = World("Load weight begin.\n")
    world.changes = lambda: world.properties.update(AGAIN) if world.slept == 2 else None
    followed = Followed("aa", 0, "weights: weights are being loaded")
    seen = sglang_ready.one_round(Server("127.0.0.1", free_port), "a", followed, 60, world)
    assert (bool(seen.over), world.slept) == (True, 2)


def test_a_round_ends_when_its_time_is_over(free_port):
    world = World("Load weight begin.\n")
    followed = Followed("aa", 0, "weights: weights are being loaded")
    sglang_ready.one_round(Server("127.0.0.1", free_port), "a", followed, 10, world)
    assert world.clock == 10


def test_the_diagnosis_of_the_start_that_was_waited_for():
    world = World(OUT_OF_MEMORY, **ENDED)
    unit = sglang_ready.sglang_unit.unit_of("a", world.run)
    findings = sglang_ready.diagnosis(unit, "aa", CAUSES, world)
    assert [finding.name for finding in findings] == ["cuda_out_of_memory", "child_failed"]


def test_no_journal_is_no_second_failure():
    world = World(**ENDED)
    unit = sglang_ready.sglang_unit.unit_of("a", world.run)
    world.run = lambda *_arguments: Ended(1, "", "No journal files were opened due to insufficient permissions.", "")
    assert sglang_ready.diagnosis(unit, "", CAUSES, world) == []


def test_memory_of_the_gpus():
    assert sglang_ready.gpu_memory(World()) == [
        {"used_mib": 1024, "total_mib": 98304},
        {"used_mib": 2048, "total_mib": 98304},
    ]


def test_a_client_waits_longer_than_the_server_does():
    """SGLang gives up on its own health check after 20 seconds; whoever hangs up before that learns nothing."""
    assert sglang_http.HEALTH_LIMIT > 20


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:1"),  # noqa: S104
        ("::", "http://[::1]:1"),
        ("[::1]", "http://[::1]:1"),
        ("10.0.0.5", "http://10.0.0.5:1"),
    ],
)
def test_how_a_server_is_reached(host, url):
    assert Server(host, 1).url == url


def test_a_server_that_does_not_answer():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        answer = sglang_http.ask(Server("127.0.0.1", silent.getsockname()[1]), "/health", 0.2)
    assert (answer.status, answer.why) == (None, "no answer within 0.2 s")


def test_an_answer_that_is_no_http():
    with socket.socket() as odd:
        odd.bind(("127.0.0.1", 0))
        odd.listen()
        thread = threading.Thread(
            target=lambda: [accepted := odd.accept()[0], accepted.sendall(b"SSH-2.0\r\n"), accepted.close()]
        )
        thread.start()
        answer = sglang_http.ask(Server("127.0.0.1", odd.getsockname()[1]), "/health", 5)
        thread.join()
    assert answer.status is None
    assert answer.why.startswith(("BadStatusLine", "ConnectionResetError"))


def test_a_proxy_of_the_environment_is_not_asked(sglang, monkeypatch, free_port):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port}")
    assert sglang_http.ask(Server("127.0.0.1", sglang.port), "/health", 5).status == 200


def test_a_generation_that_comes_out_equal_twice(sglang):
    proved = prove(Server("127.0.0.1", sglang.port), Wanted(speculative=True, models=["kimi"], metrics=True), 5)
    assert (proved["spec_verify_ct"], proved["spec_accept_length"], proved["metrics"]) == (5, 2.5, True)
    assert proved["models"] == ["kimi", "other"]
    assert {name: proved["generation"][name] for name in ("text", "tokens", "equal", "requests")} == {
        "text": "a",
        "tokens": 16,
        "equal": True,
        "requests": 2,
    }
    bodies = [body for path, body in sglang.model.asked if path == "/generate"]
    assert bodies[0] == bodies[1]
    assert bodies[0]["sampling_params"]["temperature"] == 0


def test_only_the_first_of_three_differs(sglang):
    sglang.model.texts = ["cold", "warm", "warm"]
    assert prove(Server("127.0.0.1", sglang.port), Wanted(), 5)["generation"]["requests"] == 3


def test_what_is_not_asked_for_is_null(sglang):
    assert set(prove(Server("127.0.0.1", sglang.port), Wanted(generate=False), 5).values()) == {None}
    assert sglang.model.asked == []


@pytest.mark.parametrize(
    ("changes", "wanted", "words"),
    [
        ({"texts": ["a", "b", "c"]}, Wanted(), "gave 3 different answers: 'a', 'b', 'c'"),
        ({"tokens": 0}, Wanted(), "answered without a token"),
        ({"verify": 0}, Wanted(speculative=True), "spec_verify_ct of a generation is 0, and it has to be above 0"),
        ({"verify": None}, Wanted(speculative=True), "spec_verify_ct of a generation is None"),
        ({}, Wanted(models=["absent"]), "does not serve absent, but kimi, other. Set served_model_name"),
        ({"key": "k"}, Wanted(), r"/generate: status 401: .*Give api_key as the server has it"),
    ],
)
def test_what_is_not_proved(sglang, changes, wanted, words):
    for name, value in changes.items():
        setattr(sglang.model, name, value)
    with pytest.raises(NotProved, match=words):
        prove(Server("127.0.0.1", sglang.port), wanted, 5)


def test_the_key_goes_along(sglang):
    sglang.model.key = "k"
    assert prove(Server("127.0.0.1", sglang.port, "k"), Wanted(), 5)["generation"]["equal"]
    with pytest.raises(NotProved, match="was given is not the server's") as raised:
        prove(Server("127.0.0.1", sglang.port, "wrong-key"), Wanted(), 5)
    assert "wrong-key" not in str(raised.value)
