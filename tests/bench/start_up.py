"""What the rendered file costs at every start of an interpreter."""

from __future__ import annotations

import os
import py_compile
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import jinja2
from steady_state import ROOT, SCRATCH, BenchFailed

sys.path.insert(0, str(ROOT / "playbooks" / "collections"))
from ansible_collections.gpu_node.tuning.plugins.module_utils import managed_block, python_literal

STARTS = 300
RENDERED = SCRATCH / "nodes" / "node01" / "site" / "sitecustomize.py"  # by the run of tune.yml
TEMPLATES = ROOT / "roles" / "nccl_env" / "templates"
IMPORT_TIME = re.compile(rb"import time:\s+\d+ \|\s+(\d+) \| +sitecustomize$", re.MULTILINE)


def make_directories() -> dict[str, Path]:
    """Directories for PYTHONPATH, each with bytecode, as on a node after the first start."""
    contents = {
        "without": None,
        "empty file": b"",
        "system": rendered("system"),
        "service": RENDERED.read_bytes(),
    }
    if contents["service"] != rendered("service"):
        raise BenchFailed(
            "the template renders something else here than in tune.yml, so the system block would not be the real one"
        )
    shutil.rmtree(SCRATCH / "start_up", ignore_errors=True)
    directories = {}
    for name, content in contents.items():
        directories[name] = SCRATCH / "start_up" / name.replace(" ", "_")
        directories[name].mkdir(parents=True)
        if content is not None:
            (directories[name] / "sitecustomize.py").write_bytes(content)
            py_compile.compile(str(directories[name] / "sitecustomize.py"), doraise=True)
    return directories


def rendered(scope: str) -> bytes:
    """The file that the role's template gives for ``scope``, with the values that tune.yml has just written."""
    engine = jinja2.Environment(  # noqa: S701 - it renders Python, not HTML
        loader=jinja2.FileSystemLoader(TEMPLATES), trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    engine.filters["gpu_node.tuning.python_literal"] = python_literal.python_literal
    values = {"profile": "known_good", "precedence": "respect", "scope": scope, "env": values_set_by(RENDERED.parent)}
    body = engine.get_template("sitecustomize.py.j2").render(sitecustomize=values)
    return managed_block.join(b"", body.encode(), b"")


def start(directory: Path, *arguments: str) -> subprocess.CompletedProcess:
    environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONPATH": str(directory)}
    return subprocess.run([sys.executable, *arguments], env=environment, check=True, capture_output=True)


def values_set_by(directory: Path) -> dict[str, str]:
    code = "import os\nfor item in os.environ.items(): print('='.join(item))"
    lines = start(directory, "-B", "-c", code).stdout.decode().splitlines()
    return dict(line.split("=", 1) for line in lines if line.startswith("NCCL_"))


def measure() -> dict:
    """Medians and quartiles in ms: of whole starts, and of the import of sitecustomize as the interpreter itself times it."""
    directories = make_directories()
    walls: dict[str, list[float]] = {name: [] for name in directories}
    imports: dict[str, list[float]] = {name: [] for name in directories if name != "without"}
    for _ in range(STARTS):
        for name, directory in directories.items():
            started = time.perf_counter()
            start(directory, "-c", "pass")
            walls[name].append((time.perf_counter() - started) * 1000)
    for _ in range(STARTS):
        for name, durations in imports.items():
            said = start(directories[name], "-X", "importtime", "-c", "pass").stderr
            durations.append(int(IMPORT_TIME.search(said)[1]) / 1000)
    return {
        "starts": STARTS,
        "wall": {name: quartiles(values) for name, values in walls.items()},
        "import": {name: quartiles(values) for name, values in imports.items()},
    }


def quartiles(values: list[float]) -> dict[str, float]:
    low, median, high = statistics.quantiles(values, n=4)
    return {"median": round(median, 3), "low": round(low, 3), "high": round(high, 3)}
