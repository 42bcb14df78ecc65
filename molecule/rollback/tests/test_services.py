"""A service that runs the interpreter: listed after a rollback, restarted only on demand."""

from __future__ import annotations

import json
import re
import time

import pytest
from as_shipped import reset
from conftest import KNOWN_GOOD
from profiles import FEWER, FEWER_VALUES

SEEN = "/run/engine/environment"
# It writes down what it was started with, and stays.
UNIT = """[Unit]
Description=Stands for an engine

[Service]
User=engine
RuntimeDirectory=engine
ExecStart=/usr/bin/python3 /opt/engine/serve.py
"""
PROGRAM = f"""import json, os, time
with open("{SEEN}.partial", "w") as stream:
    json.dump({{name: value for name, value in os.environ.items() if name.startswith("NCCL_")}}, stream)
os.rename("{SEEN}.partial", "{SEEN}")
while True:
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _engine(fleet):
    for node in fleet.nodes:
        reset(node)
        node.sh("mkdir -p /opt/engine")
        node.write("/opt/engine/serve.py", PROGRAM)
        node.write("/etc/systemd/system/engine.service", UNIT)
        node.sh("systemctl daemon-reload")
    yield
    for node in fleet.nodes:
        reset(node)


def main_pid(node) -> int:
    return int(node.host.check_output("systemctl show -p MainPID --value engine.service"))


def seen(node) -> dict:
    for _round in range(100):
        if node.host.run("test -e %s", SEEN).rc == 0:
            return json.loads(node.read(SEEN))
        time.sleep(0.1)
    pytest.fail(
        f"{node.suite}: the service wrote nothing: {node.host.run('journalctl --no-pager -u engine.service').stdout}"
    )


def test_a_service_is_listed_and_restarted_on_demand(fleet):
    fleet.tune()
    fleet.tune(**FEWER)
    pids, untouched = {}, fleet.rollback(generation=2)
    for node in fleet.nodes:
        assert untouched[node]["stale_processes"] == []
        node.sh("sleep 1; systemctl start engine.service")
        pids[node.suite] = main_pid(node)
        assert seen(node) == FEWER_VALUES
    fresh = fleet.rollback(generation=2)
    for node in fleet.nodes:
        assert fresh[node]["stale_processes"] == [], "it started after the file was written, so it is up to date"

    foretold = fleet.rollback("--check")
    back = fleet.rollback()
    for node in fleet.nodes:
        for play in (foretold, back):
            (stale,) = play[node]["stale_processes"]
            assert (stale["pid"], stale["unit"]) == (pids[node.suite], "engine.service")
            assert stale["command"] == "/usr/bin/python3 /opt/engine/serve.py"
            started = node.host.check_output(
                'date -u -d "$(ps -o lstart= -p %s)" +%%Y-%%m-%%dT%%H:%%M:', str(stale["pid"])
            )
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", stale["started"])
            assert stale["started"].startswith(started[:-3])
            row = next(line for line in play.stdout.splitlines() if line.startswith(node.suite) and " yes " in line)
            assert f"{stale['pid']} (engine.service) since {stale['started']}: {stale['command']}" in row
        assert main_pid(node) == pids[node.suite], "restarted without being asked to"
        assert seen(node) == FEWER_VALUES
        node.sh(f"rm {SEEN}")

    restarted = fleet.rollback(restart=True)
    for node in fleet.nodes:
        assert main_pid(node) not in (0, pids[node.suite])
        assert seen(node) == KNOWN_GOOD
        assert restarted[node]["changed"] is False
        pids[node.suite] = main_pid(node)
    done = fleet.rollback(restart=True)
    for node in fleet.nodes:
        assert done[node]["stale_processes"] == []
        assert done.changed(node) == 0
        assert main_pid(node) == pids[node.suite]
