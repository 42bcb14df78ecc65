# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every saved log gets its cause, the root first; what must not match does not."""

from __future__ import annotations

import pathlib
import re

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_diagnosis
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_causes import CAUSES, CONSEQUENCE, LOGGED, ROOT
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_diagnosis import diagnose

LOGS = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "sglang_logs"
DIED = "child_failed"

# Log to the names of the causes, in order.
EXPECTED = {
    "ambiguous_flag": ["ambiguous_flag"],
    "bad_choice": ["bad_value"],
    "bad_config_file": ["bad_config_file"],
    "bad_config_json": ["bad_config_json"],
    "bad_flag": ["bad_flag"],
    "bad_value": ["bad_value"],
    "context_too_long": ["context_too_long"],
    "corrupt_header": ["weights_corrupt", DIED],
    "corrupt_weights": ["weights_corrupt", DIED],
    "detokenizer_killed": ["process_killed", DIED],
    "draft_backend": ["backend_unfit", DIED],
    "draft_missing": ["model_not_found"],
    "draft_not_named": ["draft_mismatch", DIED],
    "draft_other_size": ["draft_mismatch", DIED],
    "healthy": [],
    "healthy_eagle3": [],
    "healthy_prompt_about_errors": [],
    "hub_without_network": ["hub_unreachable"],
    "missing_config": ["model_not_found"],
    "missing_model": ["model_not_found"],
    "missing_shard": ["weights_missing", DIED],
    "missing_tokenizer": ["tokenizer"],
    "missing_weights": ["weights_missing", DIED],
    "no_address_space": ["too_many_tasks", "process_crashed"],
    "no_memory_low_fraction": ["weights_leave_no_memory", DIED],
    "no_token_fits": ["fraction_too_low", DIED],
    "page_size_unfit": ["settings_unfit"],
    "permission_denied": ["permission_denied"],
    "plugin_fails": ["plugin_failed"],
    "port_taken_by_another_program": ["port_taken"],
    "port_taken_by_another_sglang": ["port_taken_by_sglang"],
    "scheduler_killed": ["process_killed", DIED],
    "scheduler_killed_while_loading": ["process_killed"],
    "secrets": ["stopped"],
    "serve_with_the_model_in_the_file": ["model_not_named"],
    "sglang_not_installed": ["not_installed"],
    "stopped_while_loading": ["stopped"],
    "too_many_open_files": ["too_many_files", DIED],
    "unknown_model_type": ["unsupported_model"],
    "unsupported_model": ["unsupported_model", DIED],
    "wrong_shape": ["shape_mismatch", DIED],
    "synthetic_address_not_ours": ["address_not_ours"],
    "synthetic_cuda_out_of_memory": ["cuda_out_of_memory", "nccl_error", DIED],
    "synthetic_dev_shm_full": ["dev_shm_full", DIED],
    "synthetic_disk_full": ["disk_full", DIED],
    "synthetic_driver_mismatch": ["driver_mismatch"],
    "synthetic_driver_too_old": ["driver_too_old"],
    "synthetic_fraction_too_low": ["fraction_too_low", DIED],
    "synthetic_gpu_fault": ["gpu_fault", DIED],
    "synthetic_gpu_held_by_others": ["gpu_held_by_others", DIED],
    "synthetic_graph_capture": ["graph_capture", DIED],
    "synthetic_healthy_with_warnings": ["nccl_warning", "custom_all_reduce_off"],
    "synthetic_hub_refuses": ["hub_refuses"],
    "synthetic_hub_unreachable": ["hub_unreachable"],
    "synthetic_memlock": ["memlock", DIED],
    "synthetic_memory_unbalanced": ["gpu_held_by_others", DIED],
    "synthetic_missing_library": ["missing_library"],
    "synthetic_nccl_hang": ["nccl_hang", "process_crashed", DIED],
    "synthetic_nccl_system_error": ["nccl_error", "nccl_hang", DIED],
    "synthetic_no_compiler": ["no_compiler", DIED],
    "synthetic_no_gpu": ["no_gpu"],
    "synthetic_no_host_memory": ["no_host_memory", DIED],
    "synthetic_no_kernel_image": ["unsupported_architecture", DIED],
    "synthetic_not_as_declared": ["not_as_declared"],
    "synthetic_not_divisible": ["not_divisible", DIED],
    "synthetic_oom_killer": ["killed_for_memory"],
    "synthetic_peer_access": ["peer_access", DIED],
    "synthetic_port_not_allowed": ["port_not_allowed"],
    "synthetic_pre_start_refused": ["pre_start_refused"],
    "synthetic_process_stopped": ["process_stopped", DIED],
    "synthetic_program_missing": ["program_missing"],
    "synthetic_read_only": ["read_only", DIED],
    "synthetic_rendezvous_timeout": ["nccl_hang", DIED],
    "synthetic_restarting": ["weights_leave_no_memory", DIED],
    "synthetic_segmentation_fault": ["process_crashed", DIED],
    "synthetic_start_limit": ["fraction_too_low", DIED, "start_limit"],
    "synthetic_start_timeout": ["start_timeout"],
    "synthetic_stuck": ["stuck", DIED],
    "synthetic_too_many_tasks": ["too_many_tasks", DIED],
    "synthetic_trust_remote_code": ["model_code_not_trusted"],
    "synthetic_undefined_symbol": ["missing_library"],
    "synthetic_unit_namespace": ["unit_step"],
    "synthetic_unsupported_architecture": ["unsupported_architecture", DIED],
    "synthetic_user_missing": ["user_missing"],
    "synthetic_warm_up_failed": ["unrecognised", "warm_up_failed"],
    "synthetic_weights_leave_no_memory": ["weights_leave_no_memory", DIED],
    "synthetic_wrong_gpus": ["wrong_gpus", DIED],
}
HEADER = re.compile(r"# (real|synthetic): .+\n# exit status: (\d+)\n")


def log(name):
    """(exit status, text) of a saved log, without the two lines that are ours."""
    text = (LOGS / f"{name}.txt").read_bytes().decode("utf-8")
    header = HEADER.match(text)
    assert header, f"{name} does not say what it is"
    assert name.startswith("synthetic_") == (header.group(1) == "synthetic")
    return int(header.group(2)), text[header.end() :]


def names(findings):
    return [finding.name for finding in findings]


def test_every_log_is_in_both_tables():
    files = {path.stem for path in LOGS.glob("*.txt")}
    assert files == set(EXPECTED)
    assert files == set(re.findall(r"^\| `(\w+)` \|", (LOGS / "README.md").read_text(encoding="utf-8"), re.MULTILINE))


def test_every_cause_has_a_log():
    assert {cause.name for cause in CAUSES} <= {name for found in EXPECTED.values() for name in found}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_saved_log(name):
    status, text = log(name)
    assert names(diagnose(text, status)) == EXPECTED[name]


@pytest.mark.parametrize("name", sorted(set(EXPECTED) - {"secrets", "stopped_while_loading"}))
def test_the_same_without_an_exit_status(name):
    """A saved log rarely comes with one."""
    assert names(diagnose(log(name)[1])) == EXPECTED[name]


PREFIXES = (
    "Nov 30 10:00:00 node1 sglang[4711]: ",
    "2026-11-30T10:00:00.123456+0000 node1 python[4711]: ",
    "sglang-1  | ",
)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    "name", ["missing_shard", "ambiguous_flag", "synthetic_oom_killer", "synthetic_nccl_system_error"]
)
def test_what_a_journal_or_a_container_puts_in_front(name, prefix):
    status, text = log(name)
    assert names(diagnose("".join(prefix + line + "\n" for line in text.split("\n")), status)) == EXPECTED[name]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_every_cause_is_complete(cause):
    assert cause.kind in (ROOT, CONSEQUENCE, LOGGED)
    assert cause.cause.endswith((".", "}"))
    assert cause.advice.endswith(".")
    assert cause.patterns or cause.exit_status
    assert set(cause.hides) <= {other.name for other in CAUSES}
    groups = {group for pattern in (*cause.patterns, cause.shows) for group in re.compile(pattern).groupindex}
    used = set(re.findall(r"\{(\w+)\}", cause.cause + cause.advice + cause.setting))
    assert used <= groups


def test_no_cause_stands_twice():
    assert len({cause.name for cause in CAUSES}) == len(CAUSES)


def test_what_the_first_customer_saw():
    finding = diagnose(log("synthetic_fraction_too_low")[1])[0]
    assert finding.setting == "args.mem_fraction_static (higher)"
    assert "Raise mem_fraction_static (now 0.55)" in finding.advice
    assert finding.lines == [
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: mem_fraction_static=0.55"
    ]


def test_the_fraction_that_sglang_prints():
    finding = diagnose(log("synthetic_weights_leave_no_memory")[1])[0]
    assert finding.setting == "args.mem_fraction_static (higher than 0.771)"
    assert "mem_fraction_static=0.55" in finding.cause


def test_out_of_memory_wants_the_other_direction():
    assert diagnose(log("synthetic_cuda_out_of_memory")[1])[0].setting == "args.mem_fraction_static (lower)"


def test_the_words_of_nccl_are_shown_first():
    finding = diagnose(log("synthetic_nccl_system_error")[1])[0]
    assert "NCCL WARN socketStartConnect" in finding.lines[0]
    assert finding.cause.startswith("NCCL failed: socketStartConnect: Connect to")


def test_what_no_line_told_leaves_no_gap():
    assert diagnose("RuntimeError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.")[
        0
    ].cause == ("Another process holds memory of a GPU that this instance was given.")


def test_the_ranks_say_it_once():
    text = "".join(
        f"[2026-11-30 10:00:0{rank} TP{rank}] RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
        for rank in range(8)
    )
    assert len(diagnose(text)[0].lines) == 1


def test_an_error_that_the_table_does_not_have():
    text = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    f()\nLicenceError: expired\n'
    finding = diagnose(text, 1)[0]
    assert (finding.name, finding.lines) == ("unrecognised", ["LicenceError: expired"])


def test_an_error_that_the_table_does_not_have_comes_before_its_consequence():
    text = (
        "[2026-11-30 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  code\nOddError: why\n\n"
        "Received sigquit from a child process. It usually means the child failed.\n"
    )
    assert names(diagnose(text, 137)) == ["unrecognised", DIED]


def test_an_end_without_a_word():
    assert names(diagnose("loading\n", 42)) == ["no_words"]
    assert names(diagnose("", 217)) == ["user_missing"]
    assert names(diagnose("", 143)) == ["stopped"]
    assert diagnose("", 0) == []
    assert diagnose("") == []


def test_source_in_a_traceback_is_no_error():
    text = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    raise RuntimeError("RuntimeError: CUDA out of memory")\nOddError: no\n'
    assert names(diagnose(text, 1)) == ["unrecognised"]


def test_a_failed_plugin_is_not_the_root():
    text = (
        "[2026-11-30 10:00:00] Failed to execute general plugin: fast\nTraceback (most recent call last):\n  code\n"
        "OSError: libfast.so: cannot open shared object file: No such file or directory\n"
        "[2026-11-30 10:00:01 TP0] ValueError: Model architectures ['X'] are not supported for now.\n"
    )
    assert [(finding.name, finding.kind) for finding in diagnose(text)] == [
        ("unsupported_model", ROOT),
        ("plugin_failed", LOGGED),
    ]


def test_a_traceback_behind_a_warning_is_a_cause_of_its_own():
    text = (
        "node1:4801:4801 [0] NCCL WARN Missing iommu=pt\nTraceback (most recent call last):\n  code\n"
        "OSError: libfast.so: cannot open shared object file: No such file or directory\n"
    )
    assert names(diagnose(text, 1)) == ["missing_library", "nccl_warning"]


def test_the_last_start_counts():
    text = "".join(log(name)[1] for name in ("synthetic_weights_leave_no_memory", "healthy"))
    assert diagnose(text, 0) == []


def test_garbage_and_one_endless_line_do_no_harm():
    _status, text = log("corrupt_weights")
    text = "\x00\x1b[31m\ufffd" * 1000 + "\n" + "a" * 3_000_000 + "\n" + text
    assert names(diagnose(text, 137)) == EXPECTED["corrupt_weights"]


MORE = {
    "name": "licence",
    "patterns": ["LicenceError: (?P<why>.*)"],
    "cause": "Refused: {why}",
    "advice": "Ask {nobody}.",
}


def test_a_cause_of_a_user():
    causes = sglang_diagnosis.with_more([MORE])
    finding = diagnose("LicenceError: expired\n", 1, causes)[0]
    assert (finding.name, finding.cause, finding.advice) == ("licence", "Refused: expired", "Ask .")


def test_a_cause_of_a_user_in_place_of_a_shipped_one():
    causes = sglang_diagnosis.with_more([dict(MORE, name="bad_flag")])
    assert names(diagnose(log("bad_flag")[1], 2, causes)) == ["unrecognised"]
    assert len(causes) == len(CAUSES)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"name": "x"}, r"causes\[0\]: lacks patterns, cause, advice; legal: name, patterns"),
        (dict(MORE, pattern="x"), r"causes\[0\]: unknown pattern; legal: name, patterns"),
        (dict(MORE, patterns=["("]), r"causes\[0\]: '\(' is no regular expression: .*Legal: one of Python's"),
        (dict(MORE, patterns="x"), r"causes\[0\].patterns: 'x'; legal: a list"),
        (dict(MORE, kind="bad"), r"causes\[0\].kind: 'bad'; legal: root, consequence, logged"),
        (dict(MORE, advice=["x"]), r"causes\[0\].advice: \['x'\]; legal: text"),
        (dict(MORE, exit_status=["x"]), r"causes\[0\].exit_status: .*; legal: a list of whole numbers"),
        ("x", r"causes\[0\]: 'x' is no dictionary; legal: name"),
    ],
)
def test_a_bad_cause_of_a_user(entry, words):
    with pytest.raises(TuningError, match=words):
        sglang_diagnosis.with_more([entry])


def test_for_a_person():
    lines = sglang_diagnosis.in_lines(diagnose(log("ambiguous_flag")[1], 2))
    assert lines[0].startswith("1. --cuda-graph-max-bs is no option of this version")
    assert lines[-1] == "   Setting: args"
    assert "Setting: args." in sglang_diagnosis.in_one_sentence(diagnose(log("ambiguous_flag")[1], 2))
    assert sglang_diagnosis.in_one_sentence([]) == "Its log does not say why."
