# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that the target interpreter runs (``-c``, as source text) to answer what only it can know.

It reads one JSON request from standard input and prints one JSON answer between two copies of ``nonce``, because code that runs at
start may print too. Nothing here is imported by the module itself but its source.
"""

from __future__ import annotations

import json
import os
import sys

SPAWNED = (
    "import os, sys; "
    "conn.send({'file': getattr(sys.modules.get('sitecustomize'), '__file__', None), 'env': {n: os.environ[n] for n in names if n in os.environ}}); "
    "conn.close()"
)


def nccl_environment() -> dict:
    return {name: value for name, value in os.environ.items() if name.startswith("NCCL_")}


def enter_site() -> None:
    """Do what the start of an interpreter does (path, user site, .pth files), all but the customize hooks. Needs -S."""
    import site

    if sys.path and sys.path[0] == "":
        del sys.path[0]
    site.execsitecustomize = site.execusercustomize = lambda: None
    site.main()


def resolve(request: dict) -> dict:
    """Where this interpreter would import sitecustomize from, and what else on the path has that name."""
    import importlib.util
    from importlib.machinery import PathFinder

    enter_site()
    import sysconfig  # not before: it keeps the prefix that it finds when it is imported, and -S has not entered the virtual environment

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    winner = spec.origin if spec and spec.origin else None
    candidates = []
    for entry in sys.path:
        for name in ("sitecustomize.py", "sitecustomize"):
            if os.path.lexists(os.path.join(entry, name)):
                candidates.append(os.path.join(entry, name))
    return {
        "executable": sys.executable,
        "version": ".".join(str(part) for part in sys.version_info[:3]),
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "path": list(sys.path),
        "purelib": sysconfig.get_path("purelib"),
        "origin": winner,
        "cached": importlib.util.cache_from_source(winner) if winner and winner.endswith(".py") else None,
        "candidates": candidates,
        "env": nccl_environment(),
    }


def trial(request: dict) -> dict:
    """Run a candidate as if it were this interpreter's sitecustomize, at the same moment of the start, from memory."""
    import base64
    import types

    enter_site()
    module = types.ModuleType("sitecustomize")
    module.__file__ = request["filename"]
    sys.modules["sitecustomize"] = module
    error = None
    try:
        code = compile(base64.b64decode(request["content"]), request["filename"], "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - what an import does, without a file
    except BaseException as caught:  # noqa: BLE001 - SystemExit in this file ends every interpreter: it must be seen here
        error = {"type": type(caught).__name__, "text": str(caught), "line": line_of(caught, request["filename"])}
    return {"env": nccl_environment(), "error": error}


def line_of(error: BaseException, filename: str):
    if isinstance(error, SyntaxError) and error.filename == filename:
        return error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def read_back(request: dict) -> dict:
    """What is in effect in this interpreter, and in a child that multiprocessing spawns from it."""
    names = request["names"]
    answer = {
        "file": getattr(sys.modules.get("sitecustomize"), "__file__", None),
        "env": {name: os.environ[name] for name in names if name in os.environ},
    }
    if request.get("spawn"):
        import multiprocessing
        from multiprocessing import resource_tracker

        # The tracker of named semaphores is one more interpreter, and nothing here uses one.
        resource_tracker.getfd = lambda: os.open(os.devnull, os.O_WRONLY)
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=exec, args=(SPAWNED, {"conn": sender, "names": names}))
        child.start()
        sender.close()
        answer["spawn"] = receiver.recv()
        child.join()
    return answer


if __name__ == "__main__":
    asked = json.loads(sys.stdin.read())
    answered = {"resolve": resolve, "trial": trial, "read_back": read_back}[asked["ask"]](asked)
    sys.stdout.write("\n" + asked["nonce"] + json.dumps(answered) + asked["nonce"] + "\n")
    sys.stdout.flush()
