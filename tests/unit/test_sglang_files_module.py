# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outer edge of sglang_files, sglang_starts and sglang_read_back: options, check mode, and one sentence for what is wrong."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_files as files
from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_unit_text
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_instance import planned
from ansible_collections.gpu_node.tuning.plugins.modules import sglang_files, sglang_read_back, sglang_starts

PLAN = planned({"name": "kimi", "model": "/models/kimi"}, {}, "0.5.23", {"interpreter": "/opt/sglang/bin/python"})
PRESENT = {"plans": [PLAN], "version": "0.5.23", "user": "root", "group": "root", "api_keys": {"kimi": "the-key"}}


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Function that runs a module with options, on a node whose files are below ``tmp_path``: its answer."""
    (tmp_path / "units").mkdir()
    monkeypatch.setattr(sglang_unit_text, "UNIT", str(tmp_path / "units" / "sglang@.service"))
    monkeypatch.setattr(sglang_unit_text, "DEVICES_UNIT", str(tmp_path / "units" / "sglang-devices.service"))
    monkeypatch.setattr(files, "CONFIGURATION", str(tmp_path / "etc"))
    monkeypatch.setattr(files, "PROGRAM", str(tmp_path / "before_start.py"))
    monkeypatch.setattr(files, "RUNTIME", str(tmp_path / "run"))
    monkeypatch.setattr(
        files, "drop_in_of", lambda name: str(tmp_path / "units" / f"sglang@{name}.service.d" / "own.conf")
    )
    monkeypatch.setattr(files, "is_active", lambda _name: False)

    def run(module, **options):
        options.setdefault("state_dir", str(tmp_path / "state"))
        with patch_module_args(options), pytest.raises(SystemExit):
            module.main()
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return run


def test_a_check_predicts_and_writes_nothing(run, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    foretold = run(sglang_files, **PRESENT, _ansible_check_mode=True, _ansible_diff=True)
    assert sorted(tmp_path.rglob("*")) == before
    done = run(sglang_files, **PRESENT, _ansible_diff=True)
    assert (foretold["changed"], foretold["files"], foretold["diff"]) == (True, done["files"], done["diff"])
    assert not run(sglang_files, **PRESENT)["changed"]


def test_no_diff_shows_a_key(run):
    for keys in ({"kimi": "the-key"}, {"kimi": "another-key"}, {}):
        answer = run(sglang_files, **{**PRESENT, "api_keys": keys}, _ansible_diff=True)
        assert answer["changed"]
        assert "-key" not in json.dumps(answer["diff"]).replace("api-key", "")


def test_a_check_of_a_node_that_is_not_tuned_yet(run, tmp_path):
    """The check of role nccl_env has named the file, and has not written it."""
    options = {**PRESENT, "sitecustomize": str(tmp_path / "sitecustomize.py"), "environment": {"NCCL_PROTO": "LL"}}
    assert run(sglang_files, **options, _ansible_check_mode=True)["changed"]
    assert "sitecustomize.py: cannot be read: No such file or directory" in run(sglang_files, **options)["msg"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"interpreter": "python"}, "interpreter 'python'; legal: an absolute path"),
        ({"start_timeout": 0}, "start_timeout 0; legal: 1 to 86400 (seconds). Set sglang_start_timeout."),
        ({"drain_timeout": 90000}, "drain_timeout 90000; legal: 1 to 86400"),
        ({"user": "nobody-of-this-name"}, "user 'nobody-of-this-name': the node has none of this name"),
        ({"state": "absent", "names": ["../../etc/x"]}, "name '../../etc/x'; legal: a to z"),
        ({**PRESENT, "api_keys": {"kimi": "one\ntwo"}}, "api_key: has a line end"),
    ],
)
def test_a_bad_option_of_files(run, options, words):
    answer = run(sglang_files, **options)
    assert answer["failed"]
    assert words in answer["msg"]
    assert "one\ntwo" not in json.dumps(answer)


@pytest.mark.parametrize("state", ["recorded", "failed"])
def test_a_state_directory_that_is_a_file(run, tmp_path, state):
    run(sglang_files, **PRESENT)
    (tmp_path / "state").write_text("")
    answer = run(sglang_starts, name="kimi", state=state, profile_status="known_good")
    assert answer["failed"]
    assert answer["msg"].endswith("state: File exists. Move it away, then run again.")


def test_a_failed_start_says_where_the_good_one_listened(run, tmp_path):
    run(sglang_files, **PRESENT)
    assert (
        run(sglang_starts, name="kimi", state="recorded", profile="known_good", profile_status="known_good")["number"]
        == 1
    )
    answer = run(sglang_starts, name="kimi", state="failed", parts={"unit": "another"})
    assert (answer["number"], answer["host"], answer["port"]) == (1, "127.0.0.1", 30000)
    answer = run(sglang_starts, name="other", state="failed")
    assert (answer["number"], answer["host"], answer["port"]) == (None, None, None)


def test_what_systemd_does_not_say_is_unproved(run, monkeypatch):
    def no_systemd(name):
        raise files.TuningError(f"unit {name}: systemctl show: no")

    monkeypatch.setattr(sglang_read_back.sglang_unit, "unit_of", no_systemd)
    assert sglang_read_back.words_of_start("kimi") == ("", ["unit sglang@kimi.service: systemctl show: no"])
