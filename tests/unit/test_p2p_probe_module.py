# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outer edge of module p2p_probe: options, check mode, and what is handed on."""

from __future__ import annotations

import json
import sys

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpu_node.tuning.plugins.modules import p2p_probe


@pytest.fixture
def run(monkeypatch, capsys):
    """Function that runs the module with options: its answer, with what the probe was asked under ``asked``."""
    asked = []
    monkeypatch.setattr(p2p_probe, "probe", lambda *arguments: asked.append(arguments) or {"verdict": "failed"})

    def run(**options):
        asked.clear()
        with patch_module_args(options), pytest.raises(SystemExit):
            p2p_probe.main()
        return dict(json.loads(capsys.readouterr().out), asked=list(asked))

    return run


def test_a_verdict_is_handed_on_and_is_no_failure(run):
    answer = run()
    assert answer["asked"] == [(sys.executable, p2p_probe.Limits(20, 600))]
    assert (answer["verdict"], answer["changed"], answer.get("failed")) == ("failed", False, None)


def test_the_options_are_handed_on(run):
    assert run(interpreter="/opt/python", timeout=5, total_timeout=9)["asked"] == [("/opt/python", (5, 9))]


def test_check_mode_probes_nothing_and_says_so(run):
    answer = run(_ansible_check_mode=True)
    assert answer["asked"] == []
    assert answer["verdict"] == "not_run"
    assert "moved no data in check mode" in answer["msg"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, "timeout: 0.0; legal: a number from 1 to 600."),
        ({"timeout": "nan"}, "timeout: nan; legal: a number from 1 to 600."),
        ({"total_timeout": 86401}, "total_timeout: 86401.0; legal: a number from 1 to 86400."),
        ({"interpreter": "python3"}, "interpreter 'python3': legal: an absolute path, or nothing"),
    ],
)
@pytest.mark.parametrize("check_mode", [False, True])
def test_a_bad_option_is_refused_in_both_modes(run, options, words, check_mode):
    answer = run(_ansible_check_mode=check_mode, **options)
    assert answer["failed"]
    assert words in answer["msg"]
    assert answer["asked"] == []
