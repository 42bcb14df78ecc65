# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who listens on a port: an answer on it proves nothing as long as it may be another server's."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.process_identity import command_of

LISTEN = "0A"  # the kernel's number for the state


class Listener(NamedTuple):
    """``pid`` is None where the process cannot be found out (another user's, without root). ``control_group``: as systemd names it."""

    address: str
    pid: Optional[int]
    command: str
    control_group: str

    @property
    def words(self) -> str:
        return f"process {self.pid} ({self.command})" if self.pid else "a process that only root can look at"


def listeners(host: str, port: int, proc: str = "/proc") -> list:
    """List of Listener on ``port``, at an address that one which listens on ``host`` would share or meet."""
    inodes = {}
    for table, version in (("tcp", 4), ("tcp6", 6)):
        for inode, address, its_port in _table(os.path.join(proc, "self", "net", table), version):
            if its_port == port and _meet(host, address):
                inodes[inode] = str(address)
    holders = _holders(set(inodes), proc) if inodes else {}
    found = []
    for inode, address in sorted(inodes.items()):
        for pid in sorted(holders.get(inode, [])) or [None]:
            found.append(Listener(address, pid, _command(proc, pid), _control_group(proc, pid)))
    return found


def belongs_to(listener: Listener, control_group: str) -> bool:
    if not control_group or not listener.control_group:
        return False
    return (listener.control_group + "/").startswith(control_group.rstrip("/") + "/")


def _table(path: str, version: int) -> list:
    """(inode, address, port) of every socket that listens."""
    found = []
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            rows = stream.read().splitlines()[1:]
    except OSError:
        return found  # a kernel without IPv6
    for row in rows:
        fields = row.split()
        if len(fields) > 9 and fields[3] == LISTEN:
            address, _colon, port = fields[1].partition(":")
            found.append((fields[9], _address(address, version), int(port, 16)))
    return found


def _address(text: str, version: int):
    """The kernel writes each 32 bits in the order of its own bytes."""
    words = [bytes.fromhex(text[at : at + 8]) for at in range(0, len(text), 8)]
    ordered = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    if version == 4:
        return ipaddress.IPv4Address(ordered)
    address = ipaddress.IPv6Address(ordered)
    return address.ipv4_mapped or address


def _meet(host: str, address) -> bool:
    """Whether a server on ``host`` cannot be told from one on ``address``, or could not start beside it."""
    if address.is_unspecified:
        return True
    try:
        wanted = {ipaddress.ip_address(host.strip("[]"))}
    except ValueError:
        try:
            wanted = {ipaddress.ip_address(entry[4][0].partition("%")[0]) for entry in socket.getaddrinfo(host, None)}
        except (OSError, ValueError):
            return True  # a name that cannot be resolved: every address is meant
    return any(one.is_unspecified or one == address for one in wanted)


def _holders(inodes: set, proc: str) -> dict:
    """Inode to the processes that have the socket open."""
    found = {}
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        folder = os.path.join(proc, name, "fd")
        try:
            descriptors = os.listdir(folder)
        except OSError:
            continue  # it has ended, or is another user's
        for descriptor in descriptors:
            try:
                target = os.readlink(os.path.join(folder, descriptor))
            except OSError:
                continue
            if target.startswith("socket:[") and target[8:-1] in inodes:
                found.setdefault(target[8:-1], set()).add(int(name))
    return found


def _command(proc: str, pid: Optional[int]) -> str:
    try:
        return command_of(pid, proc) if pid else ""
    except OSError:
        return ""


def _control_group(proc: str, pid: Optional[int]) -> str:
    """The path below systemd's own hierarchy: the only one of cgroup 2, the named one of cgroup 1.

    A container with cgroup 2 on a host that has both sees its host's named one too, and everything in it at the root.
    """
    try:
        with open(os.path.join(proc, str(pid), "cgroup"), encoding="utf-8", errors="replace") as stream:
            rows = [line.rstrip("\n").split(":", 2) for line in stream]
    except OSError:
        return ""
    paths = {row[1]: row[2] for row in rows if len(row) == 3}
    named, only = paths.get("name=systemd", ""), paths.get("", "")
    return only if named in ("", "/") else named
