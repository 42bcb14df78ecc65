# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a server of SGLang. Proxies of the environment play no part: the server is on this node."""

from __future__ import annotations

import http.client
import json
import socket
from typing import NamedTuple, Optional

MOST = 4 * 1024 * 1024  # bytes read of an answer
HEALTH_LIMIT = 25  # seconds; /health generates a token, and SGLang itself gives up after 20


class Server(NamedTuple):
    """``host`` as the server was told it: an address of all interfaces is reached through the loopback one."""

    host: str
    port: int
    api_key: str = ""

    @property
    def reached_at(self) -> str:
        return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(self.host.strip("[]"), self.host.strip("[]"))  # noqa: S104

    @property
    def url(self) -> str:
        host = self.reached_at
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


class Answer(NamedTuple):
    """``status`` is None where there was no answer, and ``why`` says why: ``refused`` where nothing listens."""

    status: Optional[int]
    text: str
    why: str

    @property
    def data(self):
        """What the answer says in JSON; None where it says none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @property
    def words(self) -> str:
        return self.why or f"status {self.status}{': ' + self.text[:200] if self.text and self.status != 200 else ''}"


def ask(server: Server, path: str, limit: float, body: Optional[dict] = None) -> Answer:
    """GET, or POST with ``body``. At most about ``limit`` seconds without a byte. Never raises for what a server does."""
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if server.api_key:
        headers["Authorization"] = f"Bearer {server.api_key}"
    connection = http.client.HTTPConnection(server.reached_at, server.port, timeout=limit)
    try:
        connection.request(
            "GET" if body is None else "POST", path, None if body is None else json.dumps(body).encode(), headers
        )
        response = connection.getresponse()
        return Answer(response.status, response.read(MOST).decode("utf-8", "replace"), "")
    except ConnectionRefusedError:
        return Answer(None, "", "refused")
    except (socket.timeout, TimeoutError):
        return Answer(None, "", f"no answer within {limit:g} s")
    except (OSError, http.client.HTTPException) as error:
        return Answer(None, "", f"{type(error).__name__}: {error}"[:200])
    finally:
        connection.close()
