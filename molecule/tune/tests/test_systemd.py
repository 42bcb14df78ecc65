"""Units of the systemd that is PID 1 of the node."""

from __future__ import annotations

import json

import pytest
from conftest import KNOWN_GOOD, SHOW


def run_unit(node, *options: str) -> dict[str, str]:
    command = "systemd-run --quiet --wait --pipe --collect" + " %s" * len(options) + " /usr/bin/python3 -c %s"
    result = node.host.run(command, *options, SHOW)
    if result.rc != 0:
        pytest.fail(f"{result}\n{node.host.run('journalctl --no-pager --lines=40').stdout}")
    return json.loads(result.stdout)


def test_systemd_is_the_first_process_and_running(node):
    assert node.host.check_output("cat /proc/1/comm") == "systemd"
    assert node.host.check_output("systemctl is-system-running") == "running"


@pytest.mark.parametrize("options", [[], ["--property=User=engine"]], ids=["root", "engine"])
def test_a_unit_sees_known_good(node, options):
    assert run_unit(node, *options) == KNOWN_GOOD


@pytest.mark.parametrize("value", ["Simple", ""], ids=["another value", "empty value"])
def test_environment_of_the_unit_wins(node, value):
    assert run_unit(node, f"--property=Environment=NCCL_PROTO={value}") == {**KNOWN_GOOD, "NCCL_PROTO": value}
