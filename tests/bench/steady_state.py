"""How long runs take that have nothing to do: our playbooks against a playbook of stock modules, on local nodes."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SCRATCH = ROOT / ".cache" / "bench"
NODES = 40
FORKS = 10
# The stock playbook comes second: what is compared with it runs right beside it.
PLAYBOOKS = {
    "ours": ["playbooks/tune.yml"],
    "stock": ["tests/bench/stock/tune.yml"],
    "rollback": ["playbooks/rollback.yml"],
    # The node is looked at, and whatever it is, the profile stays: only the time of the look is wanted.
    "checked": ["playbooks/tune.yml", "--extra-vars=hardware_check=warn"],
    "verify": ["playbooks/verify.yml", "--extra-vars=verify_file=.cache/bench/verify.json"],
}


class BenchFailed(Exception):
    """The message says what is wrong with the measurement; a slow result is not."""


def make_nodes() -> None:
    """Directories without a trace of an earlier run, and one inventory for all playbooks."""
    shutil.rmtree(SCRATCH / "nodes", ignore_errors=True)
    names = [f"node{number:02d}" for number in range(1, NODES + 1)]
    for name in names:
        for part in ("site", "stock"):
            (SCRATCH / "nodes" / name / part).mkdir(parents=True)
    node = f"{SCRATCH}/nodes/{{{{ inventory_hostname }}}}"
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "ansible_remote_tmp": f"{node}/ansible_tmp",
        "nccl_env_interpreter": sys.executable,
        "nccl_env_scope": "service",
        "nccl_env_service_dir": f"{node}/site",
        "nccl_env_state_dir": f"{node}/state",
        "tuning_hardware_check": "off",  # the stock playbook looks at no hardware either
        "stock_dir": f"{node}/stock",
    }
    inventory = {"gpu_nodes": {"hosts": dict.fromkeys(names), "vars": variables}}
    (SCRATCH / "hosts.yml").write_text(json.dumps(inventory, indent=1), encoding="utf-8")


def command(playbook: list[str]) -> list[str]:
    return [
        str(Path(sys.executable).with_name("ansible-playbook")),
        *playbook,
        "--inventory=.cache/bench/hosts.yml",
        f"--forks={FORKS}",
    ]


def environment(record: Path) -> dict[str, str]:
    """The checkout's ansible.cfg (pipelining is on) for both, and nothing of the caller's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "NCCL_", "PYTHON"))}
    return kept | {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_HOME": str(SCRATCH / "ansible"),
        "ANSIBLE_LOCAL_TEMP": str(SCRATCH / "ansible" / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callback"),
        "ANSIBLE_CALLBACKS_ENABLED": "bench_record",
        "BENCH_RECORD": str(record),
        "LC_ALL": "C.UTF-8",
    }


def run_once(name: str, *, steady: bool) -> dict:
    """One run: wall (s), cpu (s, all processes, user and system), tasks, modules (by name), commands; counts are sums over the nodes."""
    record, log = SCRATCH / f"{name}.json", SCRATCH / f"{name}.log"
    record.unlink(missing_ok=True)
    before, started = os.times(), time.perf_counter()
    with log.open("w") as stream:
        done = subprocess.run(
            command(PLAYBOOKS[name]),
            cwd=ROOT,
            env=environment(record),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    wall, after = time.perf_counter() - started, os.times()
    if done.returncode != 0:
        raise BenchFailed(f"{name}: exit status {done.returncode}, see {log}")
    result = json.loads(record.read_text())
    if result["failures"] or result["dark"] or (steady and result["changed"]):
        raise BenchFailed(f"{name}: not in the steady state: {result}, see {log}")
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return result | {"wall": wall, "cpu": cpu}


def measure(rounds: int) -> dict:
    """Apply all, then time all in turns, so that what else the machine does hits them alike."""
    make_nodes()
    for name in PLAYBOOKS:
        run_once(name, steady=False)
    runs: dict[str, list[dict]] = {name: [] for name in PLAYBOOKS}
    for _ in range(rounds):
        for name, done in runs.items():
            done.append(run_once(name, steady=True))
    return {"nodes": NODES, "forks": FORKS, "rounds": rounds} | {name: summary(done) for name, done in runs.items()}


def summary(runs: list[dict]) -> dict:
    result = {key: [round(run[key], 2) for run in runs] for key in ("wall", "cpu")}
    result |= {f"{key}_median": statistics.median(values) for key, values in list(result.items())}
    result |= {f"{key}_per_node": round(runs[-1][key] / NODES, 2) for key in ("tasks", "commands")}
    result["modules"] = {name: count / NODES for name, count in sorted(runs[-1]["modules"].items())}
    return result | {"modules_per_node": sum(result["modules"].values())}
