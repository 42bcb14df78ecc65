# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is on a port: real sockets, and tables of the kernel that are played."""

from __future__ import annotations

import os
import socket

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.listening_ports import (
    holders,
    listeners,
    meets,
    why_not_bound,
)


@pytest.fixture
def server():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_a_real_listener_is_found_with_its_process(server):
    (found,) = listeners(server)
    assert (found.address, found.port) == ("127.0.0.1", server)
    (process,) = holders([found])
    assert process["pid"] == os.getpid()
    assert "pytest" in process["command"]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])  # noqa: S104
def test_a_port_that_is_taken_cannot_be_bound(server, host):
    assert why_not_bound(host, server)[0] == "EADDRINUSE"


def test_ipv6():
    if not socket.has_ipv6:
        pytest.skip("this Python has no IPv6")
    try:
        listening = socket.create_server(("::", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listening:
        port = listening.getsockname()[1]
        assert [found.address for found in listeners(port)] == ["::"]
        assert why_not_bound("::", port)[0] == "EADDRINUSE"


def test_a_free_port(server):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
    assert why_not_bound("127.0.0.1", port) is None
    assert listeners(port) == []
    assert holders([]) == []


@pytest.mark.parametrize(
    ("host", "error"), [("192.0.2.1", "EADDRNOTAVAIL"), ("no.such.name.invalid", "EAI"), ("a" * 300, "EAI")]
)
def test_a_host_that_is_not_this_node(host, error):
    assert why_not_bound(host, 31999)[0] == error


@pytest.mark.parametrize(
    ("host", "listener", "in_the_way"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),  # noqa: S104
        ("0.0.0.0", "127.0.0.1", True),  # noqa: S104
        ("127.0.0.1", "10.0.0.1", False),
        ("127.0.0.1", "::", True),
        ("::", "127.0.0.1", True),
        ("0.0.0.0", "::1", False),  # noqa: S104
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.1", "::1", False),
        ("localhost", "10.0.0.1", True),
    ],
)
def test_who_is_in_whose_way(host, listener, in_the_way):
    assert meets(host, listener) is in_the_way


def test_a_table_of_the_kernel(tmp_path):
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(
        head
        + "   0: 0100007F:7530 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1\n"
        + "   1: 0100007F:7530 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1\n"
    )
    (tmp_path / "net" / "tcp6").write_text(
        head
        + "   0: 00000000000000000000000000000000:7530 00000000000000000000000000000000:0000 0A 0:0 00:0 0  0 0 4713 1\n"
    )
    assert [(found.address, found.inode) for found in listeners(30000, str(tmp_path))] == [
        ("127.0.0.1", "4711"),
        ("::", "4713"),
    ]
    (tmp_path / "net" / "tcp").unlink()
    with pytest.raises(FileNotFoundError):
        listeners(30000, str(tmp_path))
