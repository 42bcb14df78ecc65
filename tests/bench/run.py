"""The benchmark: `make bench`, or `.venv/bin/python tests/bench/run.py` from the root of the checkout.

Prints figures next to their goals and writes them to .cache/bench/result.json. It fails when a playbook fails or reports a change in
the steady state, never because a figure misses its goal: the machine may be busy.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import sys
from importlib.metadata import version

import start_up
import steady_state
import yaml
from steady_state import ROOT, SCRATCH, BenchFailed

GOAL_RATIO = 0.4
GOAL_BLOCK = 0.2  # ms


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compare steady-state tune.yml with stock modules, and measure start-up cost."
    )
    parser.add_argument("--rounds", type=int, default=3, help="timed runs of each playbook (default: %(default)s)")
    options = parser.parse_args()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    result = {"conditions": conditions()}
    show_conditions(result["conditions"])
    try:
        result["steady_state"] = steady_state.measure(options.rounds)
        show_steady_state(result["steady_state"])
        result["start_up"] = start_up.measure()
        show_start_up(result["start_up"])
    except BenchFailed as error:
        sys.exit(f"bench: {error}")
    result["load_after"] = load()
    say(f"\nload average: {result['conditions']['load_before']} before, {result['load_after']} after")
    path = SCRATCH / "result.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    say(f"as JSON: {path.relative_to(ROOT)}")


def say(text: str) -> None:
    print(text, flush=True)


def load() -> str:
    return " ".join(f"{value:.1f}" for value in os.getloadavg())


def conditions() -> dict:
    with open("/proc/cpuinfo", encoding="utf-8") as stream:
        model = next(
            (line.split(":", 1)[1].strip() for line in stream if line.startswith("model name")), platform.machine()
        )
    collection = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "hardware": f"{model}, {len(os.sched_getaffinity(0))} cores",
        "versions": f"Python {platform.python_version()}, ansible-core {version('ansible-core')}, "
        f"{collection['namespace']}.{collection['name']} {collection['version']}",
        "commands": [
            shlex.join(["ansible-playbook", *steady_state.command(playbook)[1:]])
            for playbook in steady_state.PLAYBOOKS.values()
        ],
        "load_before": load(),
    }


def show_conditions(found: dict) -> None:
    say(f"date:     {found['date']}\nhardware: {found['hardware']}\nversions: {found['versions']}")
    say("commands: " + "\n          ".join(found["commands"]))


def show_steady_state(found: dict) -> None:
    say(f"\nSteady state, {found['nodes']} local nodes, {found['forks']} forks, {found['rounds']} rounds in turns")
    for name in steady_state.PLAYBOOKS:
        each = found[name]
        modules = ", ".join(f"{module.rpartition('.')[2]} {count:g}" for module, count in each["modules"].items())
        say(f"  {name:8} wall {each['wall']} s, median {each['wall_median']:.1f} s")
        say(f"         CPU  {each['cpu']} s, median {each['cpu_median']:.1f} s")
        say(f"         a node: tasks {each['tasks_per_node']:g}, commands sent {each['commands_per_node']:g}")
        say(f"                 module executions {each['modules_per_node']:g} ({modules})")
    say(f"  ratio of the median walls, ours / stock: {ratio(found, 'wall'):.2f} (goal: at most {GOAL_RATIO})")
    say(
        f"  ratio of the median CPU times:           {ratio(found, 'cpu'):.2f} (depends less on what else the machine does)"
    )
    wall, cpu = ratio(found, "wall", "checked", "ours"), ratio(found, "cpu", "checked", "ours")
    say(
        f"  checked, tune.yml that looks at the hardware too, against one that does not: walls {wall:.2f}, CPU times {cpu:.2f}"
    )
    for name in ("rollback", "verify"):
        wall, cpu = ratio(found, "wall", name, "ours"), ratio(found, "cpu", name, "ours")
        say(
            f"  {name}, which changes nothing, against tune.yml: walls {wall:.2f} (goal: at most 1), CPU times {cpu:.2f}"
        )


def ratio(found: dict, key: str, name: str = "ours", base: str = "stock") -> float:
    return found[name][f"{key}_median"] / found[base][f"{key}_median"]


def show_start_up(found: dict) -> None:
    say(f"\nStart-up, {found['starts']} starts each, in turns, with bytecode; median (lower to upper quartile)")
    base = found["wall"]["without"]["median"]
    for name, each in found["wall"].items():
        say(
            f"  whole start, {name:10} {spread(each)}  {each['median'] - base:+.2f} ms, ratio {each['median'] / base:.3f}"
        )
    for name, each in found["import"].items():
        say(f"  import only, {name:10} {spread(each)}")
    say(
        "  whole start: from outside, with the start of the process; a difference smaller than the quartiles are apart is noise."
    )
    say("  import only: what -X importtime says of sitecustomize; this is the figure to go by.")
    for name in ("system", "service"):
        cost = found["import"][name]["median"]
        over = cost - found["import"]["empty file"]["median"]
        say(
            f"  cost of the block, {name}: {cost:.3f} ms, {over:.3f} ms more than an empty file (goal: under {GOAL_BLOCK} ms)"
        )


def spread(each: dict) -> str:
    return f"{each['median']:.3f} ms ({each['low']:.3f} to {each['high']:.3f})"


if __name__ == "__main__":
    main()
