# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m pcie_allreduce``: processes are bounded in time, and figures become a verdict. The ranks are stand-ins without a GPU."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from .layer_package import PROJECT, row

from pcie_allreduce import __main__ as command_line  # isort: skip
from pcie_allreduce import crossover, processes  # isort: skip

ANSWERS = "import json, os, sys; folder, rank = sys.argv[1:]; job = json.load(open(folder + '/job.json')); "
RANKS = {
    "answers": ANSWERS + "json.dump({'rank': int(rank), 'job': job['work']}, open(f'{folder}/{rank}.json', 'w'))",
    "fails": ANSWERS + "sys.exit('no such device') if rank == '1' else __import__('time').sleep(60)",
    "hangs": ANSWERS + "print('waits for rank 7', flush=True); __import__('time').sleep(60)",
    "says nothing": ANSWERS,
}


def run(kind: str, timeout: float = 20) -> list:
    return processes.run({"work": "check"}, 3, timeout, [sys.executable, "-c", RANKS[kind]])


def test_answers_come_in_rank_order():
    assert run("answers") == [{"rank": rank, "job": "check"} for rank in range(3)]


@pytest.mark.parametrize(
    ("kind", "timeout", "words"),
    [
        ("fails", 20, "rank 1 ended with status 1; its last words: no such device"),
        ("hangs", 1, r"rank 0, 1, 2: no result within 1 s.*last words of rank 0: waits for rank 7"),
        ("says nothing", 20, "rank 0 ended without a readable answer"),
    ],
)
def test_a_rank_that_does_not_answer_ends_them_all(kind, timeout, words):
    started = time.monotonic()
    with pytest.raises(processes.LaunchError, match=words):
        run(kind, timeout)
    assert time.monotonic() - started < 15


def is_alive(pid: int) -> bool:
    """A zombie is not: whether somebody reaps it is not this package's concern."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def soon(condition) -> bool:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_ranks_end_with_a_command_line_that_is_killed(tmp_path):
    (tmp_path / "pids").mkdir()
    (tmp_path / "torch.py").write_text(
        f"import os, time\nopen('{tmp_path}/pids/' + str(os.getpid()), 'w').close()\ntime.sleep(60)\n"
    )
    path = os.pathsep.join([str(PROJECT), str(tmp_path)])
    command = [sys.executable, "-c", "from pcie_allreduce import processes; processes.run({'work': 'check'}, 2, 60)"]
    parent = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path, "TMPDIR": str(tmp_path)})
    try:
        assert soon(lambda: len(os.listdir(tmp_path / "pids")) == 2)
        ranks = [int(name) for name in os.listdir(tmp_path / "pids")]
        assert all(is_alive(pid) for pid in ranks)
        parent.kill()
        parent.wait()
        assert soon(lambda: not any(is_alive(pid) for pid in ranks))
    finally:
        parent.kill()
        parent.wait()
        for name in os.listdir(tmp_path / "pids"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(name), signal.SIGKILL)


def test_a_rank_whose_parent_is_gone_already_does_not_begin():
    code = "from pcie_allreduce import rank; rank.end_with(1 << 30); print('began')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(PROJECT)}, check=False, capture_output=True
    )
    assert (done.returncode, done.stdout) == (1, b"")


def options(*more: str):
    return command_line.parser().parse_args(["tune", *more])


def answer(*rows: dict) -> dict:
    return {"rows": list(rows), "world": 2, "gpu": "G", "torch": "2.11.0", "nccl": "2.28.9", "nccl_environment": {}}


def test_enabled_where_every_required_size_wins():
    figures = answer(row(14336, 2, 12), row(43008, 3, 12), row(114688, 30, 13))
    table = command_line.table_of(figures, options("--required-rows", "1", "3"), "abc")
    assert crossover.faults(table) == []
    assert (table["enabled"], table["build"]) == (True, "abc")
    assert table["reason"] == "faster than NCCL at every required size, up to 43008 bytes"


def test_never_enabled_with_a_crossover_below_what_is_required():
    figures = answer(row(14336, 9.9, 10), row(28672, 5, 10), row(43008, 5, 10))
    table = command_line.table_of(figures, options("--required-rows", "3"), "abc")
    assert table["enabled"] is False
    assert table["reason"].startswith("14336 bytes: 9.90 us, only 1 % faster than NCCL")


def test_off_with_the_size_and_the_loss_otherwise():
    figures = answer(row(14336, 2, 12), row(43008, 15, 12))
    table = command_line.table_of(figures, options("--required-rows", "1", "3"), "abc")
    assert crossover.faults(table) == []
    assert table["enabled"] is False
    assert table["reason"] == "43008 bytes: 15.00 us, 25 % slower than NCCL with 12.00 us"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tune", "--world", "9"], "9; legal: 2 to 8"),
        (["tune", "--rows", "0"], "0; legal: 1 to 65536"),
        (["check", "--transport", "nvlink"], "invalid choice: 'nvlink'"),
        (["check", "--timeout", "0"], "0; legal: 1 to 86400"),
        (["bench", "--algorithm", "ring"], "invalid choice: 'ring'"),
        ([], "COMMAND"),
    ],
)
def test_refused_on_the_command_line(capsys, arguments, words):
    with pytest.raises(SystemExit) as ended:
        command_line.main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_probe_says_what_is_missing_and_needs_no_torch():
    command = [sys.executable, "-m", "pcie_allreduce", "probe", "--json"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(PROJECT)}, check=False, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    assert (done.returncode, found["library"], found["stamp"]) == (1, None, None)
    assert "no shared library" in found["off"]
    assert "build_allreduce.yml" in found["off"]


def test_a_figure_has_a_line_of_its_own():
    lines = command_line.lines_of(answer(row(43008, 2.9, 12.5)))
    assert lines[-1].split() == ["43008", "one_shot", "8x256", "2.90", "12.50"]
