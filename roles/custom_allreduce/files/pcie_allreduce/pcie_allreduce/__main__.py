# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look, prove and measure from the command line: ``python -m pcie_allreduce probe|check|bench|tune|compare``.

Exit status: 0 as wanted, 1 not proved or not worth it, 2 the command line or the node is not as needed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys

from . import __version__, crossover, processes, rival, settings
from .abi import ALGORITHMS, ITEM_BYTES, TRANSPORTS, Library, LibraryError

ROWS = (1, 2, 3, 4, 8)
LADDER = (1, 2, 3, 4, 8, 16, 32, 64)
HIDDEN = 7168


class Refused(Exception):
    """Why a command cannot run here, and the way on."""


def main(arguments=None) -> int:
    options = parser().parse_args(arguments)
    try:
        answer, status = options.run(options)
    except (Refused, processes.LaunchError, crossover.TableError, settings.SettingError) as error:
        answer, status = {"error": str(error)}, 2 if isinstance(error, (Refused, settings.SettingError)) else 1
    print(json.dumps(answer, indent=2) if options.json else "\n".join(lines_of(answer)), flush=True)
    return status


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m pcie_allreduce", description=__doc__.splitlines()[0])
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    _command(
        commands, "probe", probe, "say what is installed, and whether an engine would use it; loads nothing onto a GPU"
    )
    for name, run, words in (
        ("check", check, "prove that sums are right, with one process for each GPU"),
        ("bench", bench, "time one launch beside NCCL"),
        ("tune", tune, "find the fastest launch for each size, and the size from which NCCL is faster"),
        ("compare", compare, "time the launches of a table beside SGLang's own pcie_ipc, where FlashInfer brings it"),
    ):
        command = _command(commands, name, run, words)
        command.add_argument("--world", type=_whole(2, 8), help="number of GPUs (default: all that are visible)")
        if name == "compare":
            command.add_argument("--table", required=True, help="the table that tune wrote")
        else:
            transport = "how data gets to the other GPUs"
            command.add_argument("--transport", choices=TRANSPORTS, default="peer", help=transport)
        command.add_argument(
            "--timeout", type=_whole(1, 86400), default=300, help="seconds until all ranks are stopped"
        )
        command.add_argument(
            "--progress", default="", metavar="FILE", help="append lines to this file that say how far it is"
        )
        if name in ("bench", "tune"):
            command.add_argument(
                "--rows", type=_whole(1, 65536), nargs="+", default=list(LADDER), help="rows of a message"
            )
            command.add_argument("--hidden", type=_whole(8, 1 << 20), default=HIDDEN, help="elements of a row")
            command.add_argument("--dtype", choices=ITEM_BYTES, default="bfloat16")
        if name == "bench":
            command.add_argument("--algorithm", choices=ALGORITHMS, default="one_shot")
            command.add_argument("--blocks", type=_whole(1, crossover.BLOCKS), default=16)
            command.add_argument("--threads", type=_whole(32, crossover.THREADS), default=256)
        if name == "tune":
            command.add_argument(
                "--required-rows", type=_whole(1, 65536), nargs="+", default=list(ROWS), help="must all win"
            )
            command.add_argument(
                "--margin", type=float, default=crossover.MARGIN, help="gain on NCCL that counts as one"
            )
            command.add_argument("--table", help="write the table to this file (default: do not write)")
    return top


def _command(commands, name, run, words):
    command = commands.add_parser(name, help=words, description=words)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)
    return command


def _whole(least: int, most: int):
    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{value}; legal: {least} to {most}")
        return value

    return number


def probe(options) -> tuple:
    stamp = settings.stamp()
    answer = {"version": __version__, "stamp": stamp, "library": None, "table": None, "off": None}
    try:
        answer["library"] = Library().path
        chosen = settings.from_environment(os.environ)
        answer["table"] = crossover.read(chosen.table)
        build = settings.build_of(stamp)
        answer["off"] = settings.refusal(
            chosen, answer["table"], build, answer["table"]["world"], answer["table"]["gpu"]
        )
    except (LibraryError, crossover.TableError) as error:
        answer["off"] = str(error)
    return answer, 0 if answer["library"] else 1


def check(options) -> tuple:
    answers = _on_all(options, "check")
    return answers[0], 0 if answers[0]["error"] is None else 1


def bench(options) -> tuple:
    names = ("rows", "hidden", "dtype", "algorithm", "blocks", "threads")
    answer = _on_all(options, "bench", **{name: getattr(options, name) for name in names})[0]
    return answer, 1 if answer.get("error") else 0


def tune(options) -> tuple:
    if not 0 <= options.margin <= 0.9:
        raise Refused(f"--margin {options.margin}; legal: 0 to 0.9")
    measured = {"rows": options.rows + options.required_rows, "hidden": options.hidden, "dtype": options.dtype}
    answer = _on_all(options, "tune", **measured)[0]
    if answer.get("error"):
        return answer, 1
    table = table_of(answer, options, settings.build_of(settings.stamp()))
    if options.table:
        crossover.write(options.table, table)
    return table, 0 if table["enabled"] else 1


def compare(options) -> tuple:
    table = crossover.read(options.table)
    if not rival.is_there():
        raise Refused(f"{sys.executable} has no FlashInfer with pcie_ipc (0.7 or newer), so SGLang has none either")
    if "hidden" not in table or "required_rows" not in table:
        raise Refused(f"table {options.table} does not say what it was measured for; use one that tune wrote")
    width = ITEM_BYTES["bfloat16"]
    sizes = [rows * table["hidden"] * width for rows in table["required_rows"]]
    options.transport = table["transport"]
    answer = _on_all(options, "compare", table=table, sizes=sizes)[0]
    return answer, 1 if answer.get("error") else 0


def table_of(answer: dict, options, build: str) -> dict:
    """The table that these figures make, with the verdict."""
    width = ITEM_BYTES[options.dtype]
    required = sorted({rows * options.hidden * width for rows in options.required_rows})
    lost = crossover.losses(answer["rows"], required, options.margin)
    limit = crossover.crossover(answer["rows"], options.margin)
    return {
        "schema_version": crossover.SCHEMA_VERSION,
        "enabled": not lost,
        "reason": "; ".join(lost) or f"faster than NCCL at every required size, up to {limit} bytes",
        "build": build,
        "world": answer["world"],
        "gpu": answer["gpu"],
        "transport": options.transport,
        "margin": options.margin,
        "hidden": options.hidden,
        "required_rows": sorted(set(options.required_rows)),
        "rows": answer["rows"],
        "measured": {
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "torch": answer["torch"],
            "nccl": answer["nccl"],
            "nccl_environment": answer["nccl_environment"],
        },
    }


def _on_all(options, work: str, **more) -> list:
    world = options.world or _visible_gpus()
    answers = processes.run(
        dict(more, work=work, transport=options.transport, progress=options.progress), world, options.timeout
    )
    return [dict({"error": None, "world": world}, **answer) for answer in answers]


def _visible_gpus() -> int:
    try:
        import torch
    except ImportError as error:
        raise Refused(f"{sys.executable} has no torch ({error}); use the Python that runs the engine") from error
    found = torch.cuda.device_count()
    if not 2 <= found <= 8:
        raise Refused(f"{found} GPUs are visible; legal: 2 to 8. CUDA_VISIBLE_DEVICES or --world chooses some of them")
    return found


def lines_of(answer: dict) -> list:
    """The answer for a person: values first, then the rows of a table."""
    rows = answer.get("rows", [])
    lines = [f"{name}: {value}" for name, value in answer.items() if name != "rows"]
    if rows and "pcie_ipc_us" in rows[0]:
        return lines + [
            f"{row['bytes']:>8} bytes: {row['us']:.2f} us, pcie_ipc {row['pcie_ipc_us']:.2f} us" for row in rows
        ]
    if rows:
        lines.append(f"{'bytes':>8}  {'algorithm':<14} {'launch':>8} {'us':>8} {'NCCL us':>8}")
    return lines + [
        f"{row['bytes']:>8}  {row['algorithm']:<14} {row['blocks']:>4}x{row['threads']:<4}{row['us']:>8.2f} {row['nccl_us']:>8.2f}"
        for row in rows
    ]


if __name__ == "__main__":
    sys.exit(main())
