# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a server of this process's user could listen on a port: tried, because tables of the kernel do not say all."""

from __future__ import annotations

import errno
import socket
from typing import Optional


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
