# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemctl and journalctl say, played: the answers have the form of systemd 252."""

from __future__ import annotations

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_unit
from ansible_collections.gpu_node.tuning.plugins.module_utils.bounded_command import Ended
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

RUNNING = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "Result": "success",
    "NRestarts": "0",
    "ExecMainCode": "0",
    "ExecMainStatus": "0",
    "ExecMainStartTimestamp": "Mon 2026-11-30 10:00:00 UTC",
    "MainPID": "4711",
    "ControlGroup": "/system.slice/system-sglang.slice/sglang@kimi.service",
    "InvocationID": "aa",
}


def answers(out="", code=0, **properties):
    asked = []

    def ask(argv, _limit, _environment):
        asked.append(argv)
        if argv[0] == "systemctl":
            return Ended(code, "".join(f"{key}={value}\n" for key, value in {**RUNNING, **properties}.items()), "", "")
        return Ended(code, out, "", "")

    ask.asked = asked
    return ask


def test_a_unit_that_runs():
    unit = sglang_unit.unit_of("sglang@kimi", answers())
    assert (unit.name, unit.main_pid, unit.exit_status, unit.failed) == ("sglang@kimi.service", 4711, None, False)
    assert unit.words == "active (running)"


@pytest.mark.parametrize(
    ("properties", "status", "words"),
    [
        (
            {
                "ActiveState": "failed",
                "SubState": "failed",
                "MainPID": "0",
                "ExecMainCode": "2",
                "ExecMainStatus": "9",
                "Result": "signal",
            },
            137,
            "failed (failed, exit status 137, result signal)",
        ),
        (
            {
                "ActiveState": "activating",
                "SubState": "auto-restart",
                "MainPID": "0",
                "ExecMainCode": "1",
                "ExecMainStatus": "2",
                "Result": "exit-code",
            },
            2,
            "activating (auto-restart, exit status 2, result exit-code)",
        ),
        (
            {"ActiveState": "inactive", "SubState": "dead", "MainPID": "0", "ExecMainCode": "1"},
            0,
            "inactive (dead, exit status 0)",
        ),
        ({"ActiveState": "deactivating", "SubState": "stop-sigterm"}, None, "deactivating (stop-sigterm)"),
        ({"ActiveState": "inactive", "SubState": "dead", "MainPID": "0"}, None, "inactive (dead)"),
    ],
)
def test_a_unit_that_does_not(properties, status, words):
    unit = sglang_unit.unit_of("sglang@kimi.service", answers(**properties))
    assert (unit.failed, unit.exit_status, unit.words) == (True, status, words)


@pytest.mark.parametrize("sub", ["start-pre", "start", "start-post"])
def test_a_unit_that_is_being_started(sub):
    assert not sglang_unit.unit_of("a.service", answers(ActiveState="activating", SubState=sub)).failed


@pytest.mark.parametrize("active", ["active", "inactive", "failed", "deactivating"])
def test_a_unit_that_systemd_has_yet_to_start(active):
    unit = sglang_unit.unit_of("a.service", answers(ActiveState=active, SubState="x", Job="77"))
    assert (unit.waits_for_its_turn, unit.failed) == (True, False)


def test_a_job_does_not_make_a_failed_start_whole():
    assert sglang_unit.unit_of("a.service", answers(ActiveState="activating", SubState="auto-restart", Job="77")).failed


def test_a_unit_that_is_not_there():
    with pytest.raises(
        TuningError, match=r"^unit sglang@kimi.service: systemd has none of this name. `systemctl list-units"
    ):
        sglang_unit.unit_of("sglang@kimi", answers(LoadState="not-found"))


def test_a_unit_file_with_an_error():
    with pytest.raises(TuningError, match=r"systemd cannot load it \(bad-setting\)"):
        sglang_unit.unit_of("sglang@kimi", answers(LoadState="bad-setting"))


def test_a_node_without_systemd():
    def ask(*_arguments):
        return Ended(None, "", "", "cannot be started: No such file or directory")

    with pytest.raises(
        TuningError, match=r"systemctl show: cannot be started: .*Without systemd: ask for host and port alone"
    ):
        sglang_unit.unit_of("sglang@kimi", ask)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b.service", "a\n", "--help", "$(x).service", "a;b"])
def test_no_name_of_a_service(name):
    ask = answers()
    with pytest.raises(TuningError, match="legal: the name of a service"):
        sglang_unit.unit_of(name, ask)
    assert ask.asked == []


def test_the_journal_of_one_start():
    ask = answers("line\n")
    unit = sglang_unit.unit_of("a", ask)
    assert sglang_unit.journal(unit, "aa", ask=ask) == ("line\n", False)
    assert ask.asked[-1][-3:] == ["_SYSTEMD_INVOCATION_ID=aa", "+", "INVOCATION_ID=aa"]


def test_the_journal_since():
    ask = answers("line\n" * 5)
    unit = sglang_unit.unit_of("a", ask)
    assert sglang_unit.journal(unit, since="10 min ago", lines=5, ask=ask) == ("line\n" * 5, True)
    assert ask.asked[-1][-2:] == ["--since=10 min ago", "--unit=a.service"]


def test_a_time_that_is_none():
    ask = answers("")
    unit = sglang_unit.unit_of("a", ask)
    with pytest.raises(TuningError, match=r"since: 'soon'; legal: what `journalctl --since` takes"):
        sglang_unit.journal(
            unit, since="soon", ask=lambda *_arguments: Ended(1, "", "Failed to parse timestamp: soon", "")
        )


def test_a_journal_with_nothing_in_it():
    ask = answers("")
    with pytest.raises(TuningError, match=r"the journal has nothing of it since today. Become root, .*StandardOutput"):
        sglang_unit.journal(sglang_unit.unit_of("a", ask), since="today", ask=ask)


def test_lines_of_one_start_that_match():
    ask = answers("server_args=x\n")
    unit = sglang_unit.unit_of("a", ask)
    assert sglang_unit.lines_of_start(unit, "a|b", ask) == "server_args=x\n"
    assert ask.asked[-1][-2:] == ["--grep=a|b", f"_SYSTEMD_INVOCATION_ID={unit.invocation}"]
    for ended in (Ended(1, "", "", ""), Ended(0, "", "", "")):
        assert sglang_unit.lines_of_start(unit, "a|b", lambda *_arguments, ended=ended: ended) == ""


@pytest.mark.parametrize(
    "ended",
    [
        Ended(1, "", "Compiled without pattern matching support", ""),
        Ended(None, "", "", "no end within 20 s; it was stopped"),
    ],
)
def test_lines_that_could_not_be_asked_for_are_not_taken_for_none(ended):
    unit = sglang_unit.unit_of("a", answers())
    with pytest.raises(TuningError, match=r"a\.service: its journal cannot be read"):
        sglang_unit.lines_of_start(unit, "a", lambda *_arguments: ended)


def test_only_faults_of_gpus_are_taken_from_the_kernel():
    ask = answers("eth0: link up\nNVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus.\n")
    unit = sglang_unit.unit_of("a", ask)
    assert sglang_unit.kernel_words(unit, ask) == "NVRM: Xid (PCI:0000:81:00): 79, GPU has fallen off the bus.\n"
    assert "--since=Mon 2026-11-30 10:00:00 UTC" in ask.asked[-1]
    assert sglang_unit.kernel_words(unit._replace(started=""), ask) == ""
