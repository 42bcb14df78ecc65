# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who listens on a TCP port of this node, and whether a service could."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
import sys
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.process_identity import identify, open_files

LISTENS = "0A"  # the kernel's number of the state
TABLES = ("net/tcp", "net/tcp6")


class Listener(NamedTuple):
    address: str
    port: int
    inode: str


def listeners(port: int, proc: str = "/proc") -> list:
    """List of Listener on ``port``. Raises OSError where the kernel's table cannot be read."""
    found = []
    for table in TABLES:
        try:
            with open(os.path.join(proc, table), encoding="ascii", errors="replace") as stream:
                lines = stream.read().splitlines()[1:]
        except FileNotFoundError:
            if table == TABLES[0]:
                raise
            continue  # a kernel without IPv6
        for line in lines:
            fields = line.split()
            address, _colon, number = fields[1].partition(":")
            if fields[3] == LISTENS and int(number, 16) == port:
                found.append(Listener(_address(address), port, fields[9]))
    return found


def holders(found: list, proc: str = "/proc") -> list:
    """The processes behind listeners, each as process_identity.identify() has it; none where they cannot be looked at."""
    wanted = {f"socket:[{listener.inode}]" for listener in found}
    pids = sorted({pid for pid, target in open_files(proc) if target in wanted})
    return [identify(pid, proc) for pid in pids]


def meets(host: str, listener: str) -> bool:
    """Whether a server on ``host`` and one on address ``listener`` are in each other's way; a name counts as every address."""
    try:
        ours, theirs = ipaddress.ip_address(host), ipaddress.ip_address(listener)
    except ValueError:
        return True
    theirs = getattr(theirs, "ipv4_mapped", None) or theirs
    if ours.is_unspecified or theirs.is_unspecified:
        # :: takes the port of IPv4 too; 0.0.0.0 leaves that of IPv6 alone.
        return ours.version == theirs.version or (ours if ours.version == 6 else theirs).is_unspecified
    return ours == theirs


def why_not_bound(host: str, port: int) -> Optional[list]:
    """[name of the error, words] where a server of this process's user could not listen there; None where it could. Nothing is listened to."""
    try:
        kind, *_rest, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        return ["EAI", str(error)]
    with socket.socket(kind, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as uvicorn does
        try:
            server.bind(address)
        except OSError as error:
            return [errno.errorcode.get(error.errno, "OSError"), error.strerror or str(error)]
    return None


def _address(text: str) -> str:
    """Of the kernel's form: 32-bit words in the machine's own order."""
    words = [int(text[place : place + 8], 16) for place in range(0, len(text), 8)]
    order = "<" if sys.byteorder == "little" else ">"
    return str(ipaddress.ip_address(struct.pack(f"{order}{len(words)}I", *words)))
