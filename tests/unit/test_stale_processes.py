# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that keep the old values: real ones, and a played /proc for what needs services and other users."""

from __future__ import annotations

import contextlib
import datetime
import os
import subprocess
import sys
import time

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.process_identity import LONGEST_COMMAND
from ansible_collections.gpu_node.tuning.plugins.module_utils.stale_processes import stale_processes

from .interpreters import make_venv
from .test_tuning_transaction import usual_python

BOOT = 1_700_000_000
TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running(executable, *arguments, **environment):
    code = "import sys\nprint('ready', flush=True)\nsys.stdin.read()"
    process = subprocess.Popen(
        [executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin", **environment},
    )
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.communicate()


def by_pid(found):
    return {process["pid"]: process for process in found}


# --- real processes


@pytest.fixture
def venv(tmp_path):
    return make_venv(usual_python(), tmp_path / "venv")


def test_a_process_of_a_virtual_environment_that_started_before_the_change(venv):
    with running(venv.executable, "--served-model", "two words") as process:
        found = by_pid(stale_processes([(venv.executable, None)], time.time() + 5))[process.pid]
        assert found["command"].startswith(f"{venv.executable} -c import sys")
        assert found["command"].endswith("--served-model two words")
        started = datetime.datetime.strptime(found["started"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.UTC)
        assert abs(started.timestamp() - time.time()) < 60
        assert set(found) == {"pid", "started", "command", "unit"}
        # One that started after the change has the new values.
        assert process.pid not in by_pid(stale_processes([(venv.executable, None)], time.time() - 600))


def test_a_service_directory_counts_where_pythonpath_names_it(venv, tmp_path):
    service, later = str(tmp_path / "tuning"), time.time() + 5
    readers = [(venv.executable, service)]
    with (
        running(venv.executable, PYTHONPATH=f"/x:{service}/:/y") as inside,
        running(venv.executable, PYTHONPATH=f"{service}-other") as other,
        running(venv.executable) as without,
    ):
        found = by_pid(stale_processes(readers, later))
        assert inside.pid in found
        assert other.pid not in found
        assert without.pid not in found
        assert {inside.pid, other.pid, without.pid} <= set(
            by_pid(stale_processes([*readers, (venv.executable, None)], later))
        )


def test_this_process_and_its_ancestors_are_not_listed():
    found = by_pid(stale_processes([(sys.executable, None)], time.time() + 5))
    assert os.getpid() not in found
    assert os.getppid() not in found


def test_another_interpreter_is_not_ours(venv):
    with running(venv.executable) as process:
        assert process.pid not in by_pid(stale_processes([("/usr/bin/no-such-python", None)], time.time() + 5))
    assert stale_processes([], time.time() + 5) == []


# --- a played /proc


@pytest.fixture
def proc(tmp_path):
    root = tmp_path / "proc"
    root.mkdir()
    (root / "stat").write_text(f"cpu  1 2 3\nbtime {BOOT}\nprocesses 9\n")
    (root / "self").mkdir()
    (tmp_path / "python").touch()

    def add(
        pid,
        seconds=10,
        exe="python",
        command=b"python\0-m\0sglang\0",
        cgroup="0::/\n",
        environ=b"",
        name="(python)",
        parent=1,
    ):
        place = root / str(pid)
        place.mkdir()
        os.symlink(tmp_path / exe, place / "exe")
        (place / "stat").write_text(f"{pid} {name} S {parent} " + "0 " * 17 + f"{int(seconds * TICKS)} 0 0\n")
        (place / "cmdline").write_bytes(command)
        (place / "environ").write_bytes(environ)
        (place / "cgroup").write_text(cgroup)
        return place

    add.ask = lambda changed_at, directory=None: stale_processes(
        [(str(tmp_path / "python"), directory)], changed_at, str(root)
    )
    return add


def test_who_started_before_the_change(proc):
    proc(7, seconds=10)
    proc(30, seconds=30)
    proc(8, seconds=20, exe="bash")
    assert proc.ask(BOOT + 20) == [
        {"pid": 7, "started": "2023-11-14T22:13:30Z", "command": "python -m sglang", "unit": None}
    ]
    assert [process["pid"] for process in proc.ask(BOOT + 31)] == [7, 30]
    assert proc.ask(BOOT + 10) == []


@pytest.mark.parametrize(
    ("cgroup", "unit"),
    [
        ("0::/system.slice/sglang.service\n", "sglang.service"),
        ("0::/system.slice/system-sglang.slice/sglang@8.service\n", "sglang@8.service"),
        ("0::/system.slice/sglang.service/worker\n", "sglang.service"),
        ("12:cpu:/\n1:name=systemd:/system.slice/sglang.service\n", "sglang.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope\n", None),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/engine.service\n", None),
        ("0::/system.slice/docker-0123.scope\n", None),
        ("", None),
    ],
)
def test_the_unit(proc, cgroup, unit):
    proc(7, cgroup=cgroup)
    assert [process["unit"] for process in proc.ask(BOOT + 20)] == [unit]


@pytest.mark.parametrize("name", ["(a b) c)", "((sd-pam))", "(python) R 1)"])
def test_odd_names_of_programs(proc, name):
    proc(7, name=name)
    assert [process["started"] for process in proc.ask(BOOT + 20)] == ["2023-11-14T22:13:30Z"]


def test_a_program_that_an_upgrade_replaced_still_counts(proc):
    proc(7, exe="python (deleted)")
    assert [process["pid"] for process in proc.ask(BOOT + 20)] == [7]


@pytest.mark.parametrize("gone", ["exe", "stat", "cmdline", "cgroup"])
def test_a_process_that_ends_meanwhile_or_belongs_to_somebody_else(proc, gone):
    (proc(7) / gone).unlink()
    proc(8)
    assert [process["pid"] for process in proc.ask(BOOT + 20)] == [8]


@pytest.mark.parametrize(
    ("environ", "counts"),
    [
        (b"A=1\0PYTHONPATH=/x:/opt/tuning\0", True),
        (b"PYTHONPATH=/opt/tuning/\0", True),
        (b"PYTHONPATH=/opt//./tuning\0", True),
        (b"PYTHONPATH=/opt/tuning2:\0", False),
        (b"XPYTHONPATH=/opt/tuning\0", False),
        (b"PYTHONPATH=\xff\0", False),
        (b"", False),
    ],
)
def test_spellings_of_pythonpath(proc, environ, counts):
    proc(7, environ=environ)
    assert [process["pid"] for process in proc.ask(BOOT + 20, "/opt/tuning")] == [7] * counts


def test_a_long_command_is_cut_and_odd_bytes_are_shown(proc):
    proc(7, command=b"python\0\xff\0" + b"x" * 999)
    (process,) = proc.ask(BOOT + 20)
    assert len(process["command"]) == LONGEST_COMMAND
    assert process["command"].startswith("python \ufffd x")
