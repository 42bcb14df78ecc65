# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose socket it is, with sockets of this very process, and with tables of the kernel written by hand."""

from __future__ import annotations

import os
import socket
import sys

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import listening_sockets
from ansible_collections.gpu_node.tuning.plugins.module_utils.listening_sockets import Listener, belongs_to, listeners
from ansible_collections.gpu_node.tuning.plugins.module_utils.process_identity import identify, in_words


@pytest.fixture
def listening():
    """Function that listens on an address, and returns the port."""
    opened = []

    def listen(address="127.0.0.1"):
        server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        opened.append(server)
        server.bind((address, 0))
        server.listen()
        return server.getsockname()[1]

    yield listen
    for server in opened:
        server.close()


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),  # noqa: S104
        ("127.0.0.1", "0.0.0.0"),  # noqa: S104
        ("127.0.0.1", "localhost"),
        ("::", "127.0.0.1"),
        ("::1", "[::1]"),
    ],
)
def test_a_socket_of_this_process(listening, address, host):
    try:
        port = listening(address)
    except OSError:
        pytest.skip("this machine has no IPv6")
    (found,) = listeners(host, port)
    assert found.pid == os.getpid()
    assert os.path.basename(sys.executable)[:6] in found.command or "pytest" in found.command
    assert found.words.startswith(f"process {os.getpid()} (")


def test_another_address_does_not_meet(listening):
    assert listeners("127.0.0.2", listening("127.0.0.1")) == []


def test_nobody_listens(listening):
    port = listening()
    assert listeners("127.0.0.1", port + 1 if port < 65535 else port - 1) == []


@pytest.fixture
def proc(tmp_path):
    """Function that makes a /proc with one socket: its row, and processes that hold it (pid to the text of cgroup)."""

    def make(row, version="tcp", holders=None):
        (tmp_path / "self" / "net").mkdir(parents=True)
        (tmp_path / "self" / "net" / version).write_text(f"  sl  local_address ...\n{row}\n")
        for pid, cgroup in (holders or {}).items():
            (tmp_path / pid / "fd").mkdir(parents=True)
            (tmp_path / pid / "fd" / "3").symlink_to("socket:[777]")
            (tmp_path / pid / "cgroup").write_text(cgroup)
            (tmp_path / pid / "cmdline").write_bytes(b"python\0-m\0sglang.launch_server\0")
        return str(tmp_path)

    return make


ROW = "   0: 0100007F:7530 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 777 1 0 100 0 0 10 0"
MAPPED = ROW.replace("0100007F", "0000000000000000FFFF00000100007F").replace("00000000:0000", "0" * 32 + ":0000")


def test_a_unit_of_systemd(proc):
    root = proc(ROW.format(state="0A"), holders={"12": "0::/system.slice/system-sglang.slice/sglang@kimi.service\n"})
    (found,) = listeners("127.0.0.1", 30000, root)
    assert found == Listener(
        "127.0.0.1", 12, "python -m sglang.launch_server", "/system.slice/system-sglang.slice/sglang@kimi.service"
    )


def test_the_named_hierarchy_of_cgroup_1(proc):
    root = proc(
        ROW.format(state="0A"), holders={"12": "12:cpu,cpuacct:/\n1:name=systemd:/system.slice/a.service\n0::/\n"}
    )
    assert listeners("127.0.0.1", 30000, root)[0].control_group == "/system.slice/a.service"


def test_an_address_of_ipv4_in_a_socket_of_ipv6(proc):
    assert [found.address for found in listeners("127.0.0.1", 30000, proc(MAPPED.format(state="0A"), "tcp6"))] == [
        "127.0.0.1"
    ]


def test_an_open_connection_is_no_listener(proc):
    assert listeners("127.0.0.1", 30000, proc(ROW.format(state="01"), holders={"12": "0::/\n"})) == []


def test_a_process_that_cannot_be_looked_at(proc):
    (found,) = listeners("127.0.0.1", 30000, proc(ROW.format(state="0A")))
    assert (found.pid, found.control_group) == (None, "")
    assert "root" in found.words


def test_a_host_that_has_no_address(proc, monkeypatch):
    def fail(*_arguments):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(listening_sockets.socket, "getaddrinfo", fail)
    assert len(listeners("no-such-host", 30000, proc(ROW.format(state="0A")))) == 1


@pytest.mark.parametrize(
    ("its", "unit", "wanted"),
    [
        ("/system.slice/a.service", "/system.slice/a.service", True),
        ("/system.slice/a.service/child", "/system.slice/a.service", True),
        ("/system.slice/a.service2", "/system.slice/a.service", False),
        ("/user.slice", "/system.slice/a.service", False),
        ("", "/system.slice/a.service", False),
        ("/system.slice/a.service", "", False),
    ],
)
def test_belongs_to(its, unit, wanted):
    assert belongs_to(Listener("127.0.0.1", 1, "", its), unit) is wanted


def test_a_key_in_a_command_line_is_not_shown(tmp_path):
    """A server that somebody has started by hand holds the port, or the GPUs."""
    (tmp_path / "4711").mkdir()
    words = [
        "python",
        "-m",
        "sglang.launch_server",
        "--api-key",
        "sk-of-somebody",
        "--admin-api-key=sk-of-the-boss",
        "--tp",
        "8",
    ]
    (tmp_path / "4711" / "cmdline").write_bytes(b"\0".join(word.encode() for word in words) + b"\0")
    said = in_words(identify(4711, str(tmp_path)))
    assert "sk-of" not in said
    assert "--tp 8" in said
