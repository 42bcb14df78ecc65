# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets leave a log, what is no secret stays; prefixes go; starts are told apart."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_log

LOGS = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "sglang_logs"


def test_the_line_of_settings_of_a_real_server():
    text = (LOGS / "secrets.txt").read_bytes().decode("utf-8")
    text = text[text.index("\n") :]  # the first line is ours: the command
    assert "sk-first-secret" in text
    assert "second" in text
    hidden = sglang_log.redacted(text)
    assert "sk-first-secret" not in hidden
    assert "second" not in hidden.replace("seconds", "")
    assert "'api_key': '(hidden)'" in hidden
    assert "'admin_api_key': '(hidden)'" in hidden
    # Nothing else of the 546 settings is lost.
    for kept in (
        "'model_path': '/models/tiny'",
        "'tokenizer_path': ",
        "'max_total_tokens': 4096",
        "'ssl_keyfile_password': None",
    ):
        assert kept in hidden, kept


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("api_key='sk-1234567'", "api_key='(hidden)'"),
        ("ServerArgs(api_key='a', port=1)", "ServerArgs(api_key='(hidden)', port=1)"),
        ('{"admin_api_key": "x\\"y", "port": 1}', '{"admin_api_key": "(hidden)", "port": 1}'),
        (r"'api_key': 'it\'s', 'port': 1", "'api_key': '(hidden)', 'port': 1"),
        ("sglang serve --api-key sk-1 --port 1", "sglang serve --api-key (hidden) --port 1"),
        ("sglang serve --api-key=sk-1 --port 1", "sglang serve --api-key=(hidden) --port 1"),
        ("['--admin-api-key', 'sk-1', '--port']", "['--admin-api-key', '(hidden)', '--port']"),
        ("api-key: sk-1", "api-key: (hidden)"),
        ("Authorization: Bearer sk-1234", "Authorization: Bearer (hidden)"),
        ("HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz", "HF_TOKEN=(hidden)"),
        ("token is hf_abcdefghijklmnopqrstuvwxyz", "token is (hidden)"),
        ("https://me:pass@mirror/x", "https://me:(hidden)@mirror/x"),
        ("'ssl_keyfile_password': 'p'", "'ssl_keyfile_password': '(hidden)'"),
    ],
)
def test_a_secret(text, wanted):
    assert sglang_log.redacted(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "'api_key': None, 'admin_api_key': None",
        "'api_key': ''",
        "[--api-key API_KEY] [--admin-api-key ADMIN_API_KEY]",
        "max_total_num_tokens=4096, tokenizer_path='/models/tiny'",
        'INFO: 127.0.0.1:41972 - "GET /model_info HTTP/1.1" 200 OK',
        "http://127.0.0.1:30000/health",
    ],
)
def test_no_secret(text):
    assert sglang_log.redacted(text) == text


def test_the_same_words_elsewhere():
    text = "'api_key': 'sk-first-secret'\nrequest with sk-first-secret refused"
    assert sglang_log.redacted(text) == "'api_key': '(hidden)'\nrequest with (hidden) refused"


def test_a_short_secret_does_not_tear_the_log_apart():
    assert sglang_log.redacted("'api_key': 'a'\nall") == "'api_key': '(hidden)'\nall"


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-30 05:48:28] Load weight begin",
        "[2026-11-30 05:48:28 TP3] Load weight begin",
        "[2026-11-30 05:48:28 DP1 TP3 EP3] Load weight begin",
        "Nov 30 05:48:28 node1 python[4711]: [2026-11-30 05:48:28 TP0] Load weight begin",
        "Nov  3 05:48:28 node1 systemd[1]: Load weight begin",
        "2026-11-30T05:48:28+0100 node1 python[4711]: Load weight begin",
        "2026-11-30T05:48:28.123456789Z stderr F [2026-11-30 05:48:28] Load weight begin",
        "sglang-1  | [2026-11-30 05:48:28] Load weight begin",
        "\x1b[32m[2026-11-30 05:48:28]\x1b[0m Load weight begin\r",
        "[rank3]: Load weight begin",
    ],
)
def test_what_stands_in_front(line):
    assert sglang_log.bare(line) == "Load weight begin"


def test_a_traceback_keeps_its_indentation():
    assert sglang_log.bare("Nov 30 05:48:28 node1 python[4711]:   File x") == "  File x"


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["a", "b"], [["a", "b"]]),
        (["x", "server_args={1", "b", "server_args={2", "c"], [["x", "server_args={1", "b"], ["server_args={2", "c"]]),
        (
            [
                "Starting a.service - SGLang...",
                "Started a.service - SGLang.",
                "server_args={",
                "Starting a.service - SGLang...",
            ],
            [
                ["Starting a.service - SGLang...", "Started a.service - SGLang.", "server_args={"],
                ["Starting a.service - SGLang..."],
            ],
        ),
        (["Started a.service.", "b", "Started a.service."], [["Started a.service.", "b"], ["Started a.service."]]),
    ],
)
def test_starts(lines, wanted):
    assert sglang_log.starts(lines) == wanted


def test_only_the_end_of_a_large_log_is_read(tmp_path):
    (tmp_path / "log").write_bytes(b"a" * 90 + b"\n\xff\xfeend\n")
    assert sglang_log.read_log(str(tmp_path / "log"), 8) == ("a\n\ufffd\ufffdend\n", True)
    assert sglang_log.read_log(str(tmp_path / "log"))[1] is False


def test_a_log_that_is_a_fifo_is_refused(tmp_path):
    os.mkfifo(tmp_path / "log")
    with pytest.raises(OSError, match="plain file"):
        sglang_log.read_log(str(tmp_path / "log"))
