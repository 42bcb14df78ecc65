# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that SGLang's interpreter runs (``-c``, as source text): which SGLang is there, and whether it takes a configuration.

Like software_program, it prints one JSON answer between two copies of ``nonce``. ``ask: version`` imports nothing of SGLang.
``ask: parse`` hands the configuration to SGLang's own parser, as the server's start does; no weight is read.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.metadata
import importlib.util
import io
import json
import os
import re
import sys
import tempfile

LONGEST = 4000  # characters of what it says


def version() -> dict:
    """{version, architectures}: None where there is no SGLang; the names of the classes of models that it has."""
    try:
        spec = importlib.util.find_spec("sglang")
    except (ImportError, ValueError):
        spec = None
    try:
        installed = importlib.metadata.version("sglang")
    except Exception:  # noqa: BLE001 - metadata that is broken in any way is no version
        installed = None
    folders = list(spec.submodule_search_locations or []) if spec else []
    if not folders:
        return {"version": None, "architectures": [], "executable": sys.executable}
    return {"version": installed, "architectures": architectures(folders[0]), "executable": sys.executable}


def architectures(folder: str) -> list:
    """Read in the source: importing the models would take half a minute."""
    found = set()
    for path in glob.glob(os.path.join(glob.escape(folder), "srt", "models", "**", "*.py"), recursive=True):
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                found.update(re.findall(r"^class (\w+)", stream.read(), re.MULTILINE))
        except OSError:
            continue
    return sorted(found)


def parse(request: dict) -> dict:
    """{accepted, stage, kind, message}; ``stage``: import or options; ``kind``: the class of what SGLang raised."""
    said, stage = io.StringIO(), "import"
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            from sglang.srt import server_args

            stage = "options"
            with configuration(request["config_text"]) as path:
                server_args.prepare_server_args(["--config", path] + request["words"])
    except BaseException as error:  # noqa: BLE001 - whatever SGLang raises is its answer
        kind = type(error).__name__
        text = last_words(said, str(error)) if kind == "SystemExit" else kind + ": " + str(error)
        return {"accepted": False, "stage": stage, "kind": kind, "message": text[:LONGEST]}
    return {"accepted": True, "stage": stage, "kind": None, "message": ""}


@contextlib.contextmanager
def configuration(text: str):
    """A file for the parser, which takes no other; it lives for the moment in which it is read."""
    handle, path = tempfile.mkstemp(suffix=".yaml", prefix="sglang_preflight_")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        yield path
    finally:
        os.unlink(path)


def last_words(said: io.StringIO, otherwise: str) -> str:
    lines = [line.strip() for line in said.getvalue().splitlines() if line.strip()]
    told = [line for line in lines if "error:" in line.lower()]
    return (told or lines or ["exit status " + otherwise])[-1]


def main() -> None:
    request = json.load(sys.stdin)
    if sys.path and sys.path[0] == "":
        del sys.path[0]  # the directory that a program given as text starts in is no place of the service's packages
    answer = version() if request["ask"] == "version" else parse(request)
    sys.stdout.write(request["nonce"] + json.dumps(answer) + request["nonce"])
    sys.stdout.flush()
    os._exit(0)  # threads of what was imported are not waited for


if __name__ == "__main__":
    main()
