# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one transaction as the modules do, without Ansible: the program that is killed, failed and raced.

    python3 transaction.py REQUEST     REQUEST: JSON, the keys of ``Request``

Prints one JSON line. Exit status: 0 done, 1 refused or failed with its one clear message, anything else is a crash.
Runs on Python 3.9 and newer with the standard library alone, wherever plugins/ lies two folders above this one.
"""

from __future__ import annotations

import json
import os
import sys
import types
from typing import NamedTuple, Optional

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def make_importable() -> None:
    """Let ansible_collections.gpu_node.tuning be this checkout, whatever its folder is called."""
    for name, path in (
        ("ansible_collections", []),
        ("ansible_collections.gpu_node", []),
        ("ansible_collections.gpu_node.tuning", [ROOT]),
    ):
        if name not in sys.modules:
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = path


make_importable()

from ansible_collections.gpu_node.tuning.plugins.module_utils.activation import activate  # noqa: E402
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError  # noqa: E402
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_record import (  # noqa: E402
    ADOPTED,
    APPLIED,
    FAILED,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter, Service  # noqa: E402
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import look  # noqa: E402
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory  # noqa: E402
from ansible_collections.gpu_node.tuning.plugins.module_utils.tuning_plan import Wish  # noqa: E402
from ansible_collections.gpu_node.tuning.plugins.module_utils.tuning_transaction import tune  # noqa: E402

# The other programs take these from here, because ansible_collections can be imported only after this file.
__all__ = ["ADOPTED", "APPLIED", "FAILED", "Answer", "Request", "StateDirectory", "TuningError", "look", "perform"]

PATIENCE = 60  # seconds for one start of an interpreter, and for the lock; a busy machine is slow


class Request(NamedTuple):
    """``env``: what to set, None to remove the block. ``activate``: a generation to go back to instead of tuning.

    ``service_dir``: None for the interpreter's own file (scope: system). ``python_path``: PYTHONPATH of the service, if it is another.
    """

    interpreter: str
    state_dir: str
    service_dir: Optional[str] = None
    env: Optional[dict] = None
    profile: Optional[str] = None
    status: Optional[str] = None
    takeover: str = "refuse"
    keep: int = 50
    activate: Optional[str] = None
    lock_timeout: float = PATIENCE
    python_path: Optional[str] = None


class Answer(NamedTuple):
    ok: bool
    changed: Optional[bool]
    generation: Optional[int]
    error: Optional[str]


def block(env: dict, profile: Optional[str]) -> bytes:
    """What the role's template renders, in short; the template has tests of its own."""
    pairs = "".join(f"    ({name!r}, {value!r}),\n" for name, value in sorted(env.items()))
    return (
        f"import os\n\n# profile: {profile!r}\nfor _name, _value in (\n{pairs}):\n"
        f"    if _name not in os.environ:\n        os.environ[_name] = _value\ndel _name, _value\n"
    ).encode()


def perform(request: Request) -> Answer:
    """Raises whatever is not a TuningError: that is a crash."""
    state = StateDirectory(request.state_dir, "tests/faults", request.keep)
    try:
        if request.activate is not None:
            back = activate(state, request.activate, request.lock_timeout, PATIENCE, check=False)
            return Answer(True, back.changed, back.number, None)
        python_path = request.python_path or request.service_dir
        environment = {"PYTHONPATH": python_path} if python_path else {}
        outcome = tune(
            Wish(
                body=None if request.env is None else block(request.env, request.profile),
                env=request.env or {},
                scope="service" if request.service_dir else "system",
                service_dir=request.service_dir,
                precedence="respect",
                takeover=request.takeover,
                profile=request.profile,
                profile_status=request.status,
                evidence=[],
            ),
            Interpreter(request.interpreter, Service(environment, None), PATIENCE),
            state,
            request.lock_timeout,
            check=False,
        )
    except TuningError as error:
        return Answer(False, None, None, str(error))
    return Answer(True, outcome.changed, outcome.generation, None)


def main() -> int:
    answer = perform(Request(**json.loads(sys.argv[1])))
    sys.stdout.write(json.dumps(answer._asdict()) + "\n")
    return 0 if answer.ok else 1


if __name__ == "__main__":
    sys.exit(main())
