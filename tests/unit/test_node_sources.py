# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and commands of a node: what is missing has a reason, and what hangs is ended."""

from __future__ import annotations

import os
import sys
import time

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import node_sources
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import (
    SourceMissing,
    Sources,
    run_bounded,
    side_by_side,
)

SHELL = ["/bin/sh", "-c"]


def test_files_below_a_root(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cmdline").write_bytes(b"quiet \xff\n")
    (tmp_path / "link").symlink_to("proc/cmdline")
    sources = Sources(str(tmp_path))
    assert sources.text("/proc/cmdline") == "quiet \ufffd\n"
    assert sources.data("/proc/cmdline") == b"quiet \xff\n"
    assert sources.names("/") == ["link", "proc"]
    assert sources.target("/link") == "/proc/cmdline"
    assert sources.file_system_mib("/proc") > 0


def test_the_machine_itself():
    assert Sources().text("/proc/self/limits").startswith("Limit")
    assert Sources().target("/proc/self") == f"/proc/{os.getpid()}"


@pytest.mark.parametrize("method", ["text", "data", "names", "target", "file_system_mib"])
def test_what_is_not_there(tmp_path, method):
    with pytest.raises(SourceMissing, match=r"^No such file or directory$"):
        getattr(Sources(str(tmp_path)), method)("/nowhere")


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(SourceMissing, match="Is a directory"):
        Sources(str(tmp_path)).text("/")


def test_command(tmp_path):
    program = tmp_path / "usr" / "bin" / "nvidia-smi"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    sources = Sources(str(tmp_path))
    with pytest.raises(SourceMissing, match="no executable nvidia-smi in /usr/local/sbin, "):
        sources.command("nvidia-smi")
    program.chmod(0o755)
    assert sources.command("nvidia-smi") == str(program)


def test_run_bounded():
    assert run_bounded([*SHELL, "echo a; echo b >&2"], 30).text == "a\n"


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ([*SHELL, "echo lost >&2; echo more >&2; exit 9"], "exit status 9; it said: lost"),
        ([*SHELL, "echo printed; exit 6"], "exit status 6; it said: printed"),
        ([*SHELL, "exit 1"], "exit status 1; it said: nothing"),
        ([*SHELL, "kill -9 $$"], "exit status -9; it said: nothing"),
        (["/nowhere/nvidia-smi"], "cannot be started: No such file or directory"),
        (["/nowhere\0"], "cannot be started: embedded null byte"),
    ],
)
def test_a_command_that_fails(argv, reason):
    with pytest.raises(SourceMissing, match=f"^{reason}$"):
        run_bounded(argv, 30).text  # noqa: B018 - to ask for it is what raises


def test_a_command_that_hangs_ends_with_its_children(tmp_path):
    child = tmp_path / "child"
    begin = time.monotonic()
    answer = run_bounded([*SHELL, f"sleep 600 & echo $! > {child}; wait"], 1)
    assert answer.failure == "no answer within 1 s; it was stopped"
    assert time.monotonic() - begin < 30
    for _ in range(100):
        if state_of(child.read_text(encoding="utf-8").strip()) in ("", "Z"):
            return
        time.sleep(0.1)
    pytest.fail("the child still runs")


def state_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            return stream.read().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return ""


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_command_that_no_signal_reaches_is_left_behind(monkeypatch):
    """As one that waits inside a driver. Here it is the signal that does not arrive."""
    monkeypatch.setattr(node_sources, "GRACE", 0.1)
    started = []
    monkeypatch.setattr(node_sources.os, "killpg", lambda group, _signal: started.append(group))
    try:
        begin = time.monotonic()
        assert run_bounded(["/bin/sleep", "600"], 0.1).failure
        assert time.monotonic() - begin < 30
    finally:
        monkeypatch.undo()
        os.killpg(started[0], 9)
        os.waitpid(started[0], 0)


def test_side_by_side_takes_as_long_as_the_slowest():
    begin = time.monotonic()
    hangs = [*SHELL, "sleep 600"]
    answers = side_by_side({number: lambda: run_bounded(hangs, 1) for number in range(6)})
    assert [answer.failure is None for answer in answers.values()] == [False] * 6
    assert time.monotonic() - begin < 5
    assert side_by_side({}) == {}


def test_nothing_of_the_environment_reaches_a_command(monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    printed = run_bounded([sys.executable, "-S", "-c", "import os; print(*sorted(os.environ))"], 30).text
    assert set(printed.split()) <= {"LC_ALL", "PATH", "LC_CTYPE"}
