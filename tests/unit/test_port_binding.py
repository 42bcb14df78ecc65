# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a port can be bound: real sockets."""

from __future__ import annotations

import socket

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.port_binding import why_not_bound


@pytest.fixture
def server():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])  # noqa: S104
def test_a_port_that_is_taken_cannot_be_bound(server, host):
    assert why_not_bound(host, server)[0] == "EADDRINUSE"


def test_ipv6():
    try:
        listening = socket.create_server(("::", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with listening:
        assert why_not_bound("::", listening.getsockname()[1])[0] == "EADDRINUSE"


def test_a_free_port_is_free_afterwards_too(server):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
    assert why_not_bound("127.0.0.1", port) is None
    assert why_not_bound("127.0.0.1", port) is None


@pytest.mark.parametrize(
    ("host", "error"), [("192.0.2.1", "EADDRNOTAVAIL"), ("no.such.name.invalid", "EAI"), ("a" * 300, "EAI")]
)
def test_a_host_that_is_not_this_node(host, error):
    assert why_not_bound(host, 31999)[0] == error
