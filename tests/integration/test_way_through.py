# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The main way through: look, tune, tune again, change the mind, go back. Always by the real command."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import trees
from fleet import BIN, DEBIAN_HOOK, KNOWN_GOOD, MINOR, ROOT, write

# The first customer's file, as written by hand.
CUSTOMER = (
    DEBIAN_HOOK
    + b"""
# NCCL tuning - known-good set for 8 GPUs
import os

for _k, _v in [
    ("NCCL_PROTO", "LL"),
    ("NCCL_ALGO", "Ring"),
    ("NCCL_P2P_LEVEL", "SYS"),
    ("NCCL_MAX_NCHANNELS", "16"),
    ("NCCL_BUFFSIZE", "8388608"),
    ("NCCL_NTHREADS", "512"),
]:
    if not os.environ.get(_k):
        os.environ[_k] = _v
"""
)
OWN_PROFILE = {
    "fewer_channels": {
        "summary": "Half the channels",
        "status": "experimental",
        "env": {"NCCL_MAX_NCHANNELS": {"value": 8, "reason": "Less GPU memory"}, "NCCL_PROTO": "LL"},
    }
}


def unified_diffs(output: str) -> list:
    """Every diff that ansible-playbook shows, as one text each: from its head to the line of the host."""
    return re.findall(r"^--- before.*?(?=^(?:changed|ok): \[)", output, re.MULTILINE | re.DOTALL)


def variables(play, node) -> dict:
    return {entry["name"]: entry for entry in play.result(node)["read_back"]["variables"]}


def assert_effective(play, node, expected: dict) -> None:
    found = variables(play, node)
    assert {name: entry["interpreter"] for name, entry in found.items()} == expected
    assert {name: entry["spawn"] for name, entry in found.items()} == expected
    assert {entry["state"] for entry in found.values()} == {"effective"}


# --- check, tune, tune again ------------------------------------------------------------------------------------------


def test_check_predicts_what_the_run_does_and_a_second_run_does_nothing(fleet):
    """One node for each kind of place: a service directory, a file of the distribution, a virtual environment, foreign code."""
    service, debian, venv, foreign = (fleet.node(name) for name in ("service", "debian", "venv", "foreign"))
    debian.own_python(debian=True)
    venv.venv(venv.own_python())
    write(foreign.file, "# -*- coding: latin-1 -*-\nNAME = 'Müller'".encode("latin-1"))
    nodes = (service, debian, venv, foreign)

    checked = fleet.play("--check", "--diff")
    assert checked.rc == 0, str(checked)
    for node in nodes:
        assert checked.touched(node) == {}  # times included: not even a lock
        assert checked.result(node)["changed"] is True
        assert "check mode: would change" in checked.stdout

    applied = fleet.play("--diff")
    assert applied.rc == 0, str(applied)
    for node in nodes:
        assert applied.result(node)["changed"] is checked.result(node)["changed"]
        assert applied.result(node)["diff"] == checked.result(node)["diff"]
        assert applied.recap(node)["changed"] == 1
        assert_effective(applied, node, KNOWN_GOOD)
        assert node.environment_of_a_start() == KNOWN_GOOD
    shown = sorted(unified_diffs(checked.stdout))
    assert len(shown) == len(nodes)
    assert shown == sorted(unified_diffs(applied.stdout))
    for text in shown:
        lines = [line for line in text.splitlines() if " -> " in line]
        *lines, memory = lines
        assert lines == [f"{name}: (not set) -> {value}" for name, value in KNOWN_GOOD.items()]
        assert memory == "NCCL's connections (estimate for each GPU): GPU memory at most 1536 MiB -> at most 384 MiB"
    # The link stays a link, the hook and the other code stay as they are.
    configured = debian.python / "etc" / MINOR / "sitecustomize.py"
    assert os.readlink(debian.file) == str(configured)
    assert configured.read_bytes().startswith(DEBIAN_HOOK)
    assert foreign.file.read_bytes().startswith("# -*- coding: latin-1 -*-\nNAME = 'Müller'\n".encode("latin-1"))

    for arguments in (("--diff",), ("--check", "--diff")):
        again = fleet.play(*arguments)
        assert again.rc == 0, str(again)
        for node in nodes:
            assert again.touched(node) == {}
            assert again.recap(node)["changed"] == 0
            assert_effective(again, node, KNOWN_GOOD)
            assert 1 <= again.executions[node.name] <= 3
        assert unified_diffs(again.stdout) == []
        # A module of the name setup (or gather_facts) would show here.
        actions = {entry["action"] for entry in again.results if entry["host"] != "localhost"}
        assert not {action for action in actions if action.endswith(("setup", "gather_facts"))}


def test_the_count_of_module_executions_counts(fleet):
    """Without this a wrapper that is never called would prove every limit."""
    node = fleet.node("node")
    playbook = write(fleet.folder / "three.yml", THREE_MODULES.encode())
    play = fleet.play(playbook=playbook)
    assert play.rc == 0, str(play)
    assert play.executions == {node.name: 3}


THREE_MODULES = """---
- name: Run three modules
  hosts: gpu_nodes
  gather_facts: true
  tasks:
    - name: Run one
      ansible.builtin.ping:
    - name: Run another
      ansible.builtin.ping:
"""


# --- one profile after another -----------------------------------------------------------------------------------------


def test_profiles_follow_each_other_and_stock_gives_the_first_bytes_back(fleet):
    plain, hook, debian = (fleet.node(name, tuning_profiles=OWN_PROFILE) for name in ("plain", "hook", "debian"))
    write(hook.file, DEBIAN_HOOK + b"x = 1", 0o640)  # no newline at its end, and a mode of its own
    debian.own_python(debian=True)
    nodes = (plain, hook, debian)
    original = {node.name: trees.without_times(trees.snapshot(node.root)) for node in nodes}

    assert fleet.play("-e", "profile=known_good").rc == 0
    checked = fleet.play("-e", "profile=fewer_channels", "--check", "--diff")
    play = fleet.play("-e", "profile=fewer_channels", "--diff")
    assert (checked.rc, play.rc) == (0, 0), str(play)
    for node in nodes:
        assert checked.touched(node) == {}
        assert play.result(node)["diff"] == checked.result(node)["diff"]
        assert play.result(node)["diff"][1]["prepared"].splitlines() == [
            "NCCL_ALGO: Ring -> (not set)",
            "NCCL_BUFFSIZE: 16777216 -> (not set)",
            "NCCL_MAX_NCHANNELS: 16 -> 8",
            "NCCL_NTHREADS: 512 -> (not set)",
            "NCCL_P2P_LEVEL: SYS -> (not set)",
            "NCCL_PROTO: LL -> LL",
        ]
        assert play.result(node)["generation"] == 2
        assert node.environment_of_a_start() == {"NCCL_MAX_NCHANNELS": "8", "NCCL_PROTO": "LL"}

    checked, play = fleet.play("-e", "profile=stock", "--check"), fleet.play("-e", "profile=stock")
    assert (checked.rc, play.rc) == (0, 0), str(play)
    for node in nodes:
        assert (checked.touched(node), checked.result(node)["changed"], play.result(node)["changed"]) == (
            {},
            True,
            True,
        )
        assert node.environment_of_a_start() == {}
        left = trees.without_times(trees.snapshot(node.root))
        added = {path for path in left if path not in original[node.name] and path.split("/")[0] != "state"}
        assert {path for path in added if "__pycache__" not in path} == set()
        assert {path: left.get(path) for path in original[node.name]} == original[node.name]
    assert [fleet.play("-e", "profile=stock").recap(node)["changed"] for node in nodes] == [0, 0, 0]


def test_overrides_set_replace_and_remove_single_variables(fleet):
    node = fleet.node("node")
    node.yaml = "nccl_env_overrides: {NCCL_PROTO: null, NCCL_MAX_NCHANNELS: 4, NCCL_DEBUG: warn}"
    expected = KNOWN_GOOD | {"NCCL_MAX_NCHANNELS": "4", "NCCL_DEBUG": "WARN"}
    del expected["NCCL_PROTO"]
    play = fleet.play()
    assert play.rc == 0, str(play)
    assert_effective(play, node, expected)
    assert node.environment_of_a_start() == expected


def test_what_the_environment_presets_wins_unless_precedence_is_force(fleet):
    # Name of the node: precedence, what the service presets, then state and value of NCCL_PROTO.
    cases = {
        "respect": ("respect", "Simple", "overridden", "Simple"),
        "respect-empty": ("respect", "", "overridden", ""),
        "force": ("force", "Simple", "effective", "LL"),
        "force-empty": ("force", "", "effective", "LL"),
    }
    for name, (precedence, preset, _state, _value) in cases.items():
        fleet.node(name, nccl_env_precedence=precedence, nccl_env_service_environment={"NCCL_PROTO": preset})
    first, second = fleet.play(), fleet.play()
    for play in (first, second):
        assert play.rc == 0, str(play)
        for name, (_precedence, preset, state, value) in cases.items():
            entry = variables(play, name)["NCCL_PROTO"]
            assert (entry["state"], entry["interpreter"], entry["spawn"], entry["declared"]) == (
                state,
                value,
                value,
                "LL",
            )
            assert (entry["origin"] == "environment") == (state == "overridden")
            warnings = [str(text) for text in play.result(name).get("warnings", [])]
            assert len([text for text in warnings if f"presets {preset!r}" in text]) == (state == "overridden")
            assert fleet.nodes[name].environment_of_a_start(NCCL_PROTO=preset)["NCCL_PROTO"] == value
    assert {second.recap(name)["changed"] for name in cases} == {0}


# --- what others wrote -------------------------------------------------------------------------------------------------


def test_a_file_written_by_hand_is_refused_then_adopted_with_its_hook(fleet):
    service, venv, debian = (fleet.node(name) for name in ("service", "venv", "debian"))
    write(service.file, CUSTOMER)
    packages = venv.venv(venv.own_python())
    write(packages / "sitecustomize.py", CUSTOMER)
    debian.own_python(debian=True)
    configured = write(debian.python / "etc" / MINOR / "sitecustomize.py", CUSTOMER)
    files = (service.file, packages / "sitecustomize.py", configured)

    refused = fleet.play()
    assert refused.rc == 2
    for node in fleet.nodes.values():
        lines = [number for number, line in enumerate(CUSTOMER.splitlines(), start=1) if b'("NCCL_BUFFSIZE"' in line]
        assert f"line {lines[0]} sets NCCL_BUFFSIZE='8388608'" in refused.message(node)
        assert "takeover: replace (role variable nccl_env_takeover)" in refused.message(node)
        assert set(refused.touched(node)) <= {"."}

    for node in fleet.nodes.values():
        node.vars["nccl_env_takeover"] = "replace"
    checked, adopted = fleet.play("--check", "--diff"), fleet.play("--diff")
    assert (checked.rc, adopted.rc) == (0, 0), str(adopted)
    for node, file in zip(fleet.nodes.values(), files, strict=True):
        assert checked.touched(node) == {}
        assert adopted.result(node)["diff"] == checked.result(node)["diff"]
        assert "NCCL_BUFFSIZE: 8388608 -> 16777216" in adopted.result(node)["diff"][1]["prepared"]
        text = file.read_bytes()
        assert text.startswith(DEBIAN_HOOK)
        rest = text[len(DEBIAN_HOOK) :].lstrip(b"\n")
        assert rest.startswith(b"# >>> gpu_node.tuning")
        assert rest.endswith(b"# <<< gpu_node.tuning <<<\n")
        assert_effective(adopted, node, KNOWN_GOOD)
        # What was there is in generation 0, byte for byte.
        kept = (node.state / "generations" / "0000" / "before").rglob("sitecustomize.py")
        assert [path.read_bytes() for path in kept] == [CUSTOMER]
    assert {fleet.play().recap(node)["changed"] for node in fleet.nodes.values()} == {0}


def test_a_venv_on_a_distribution_python_says_which_file_wins(fleet):
    node = fleet.node("node")
    packages = node.venv(node.own_python(debian=True))
    loser = write(packages / "sitecustomize.py", b"import os\nos.environ['NCCL_PROTO'] = 'Simple'\n")
    play = fleet.play()
    assert play.rc == 0, str(play)
    result = play.result(node)
    assert result["path"] == str(node.file)
    assert result["target"] == str(node.python / "etc" / MINOR / "sitecustomize.py")
    assert result["shadowed"] == [str(loser)]
    assert_effective(play, node, KNOWN_GOOD)


def test_the_hook_that_a_service_directory_hides_still_runs(fleet):
    """Scope service with an interpreter whose own sitecustomize.py does something."""
    node = fleet.node("node")
    own = node.own_python()
    ran = node.scratch / "ran"
    write(node.file, f"open({str(ran)!r}, 'a').write('x')\n".encode())
    node.vars |= {"nccl_env_scope": "service", "nccl_env_interpreter": str(own)}
    play = fleet.play()
    assert play.rc == 0, str(play)
    ran.write_text("")
    assert node.environment_of_a_start() == KNOWN_GOOD
    assert ran.read_text() == "x"


# --- a read-back that fails ----------------------------------------------------------------------------------------------


def test_a_failed_read_back_puts_the_old_file_back_and_does_not_stop_other_nodes(fleet):
    good, absent, present, tuned, bad = (fleet.node(name) for name in ("good", "absent", "present", "tuned", "bad"))
    bad.vars["nccl_env_overrides"] = {"NCCL_NTHREADS": 100}
    assert fleet.play("--limit", "tuned,localhost").rc == 0
    write(present.file, DEBIAN_HOOK, 0o640)
    for node in (absent, present, tuned):
        other = node.scratch / "other"
        write(other / "sitecustomize.py", b"")
        node.vars["nccl_env_service_environment"] = {"PYTHONPATH": f"{other}:{node.site}"}
    tuned.vars["tuning_profiles"] = OWN_PROFILE
    tuned.vars["profile"] = "fewer_channels"  # so that there is something to write
    play = fleet.play()
    assert play.rc == 2
    assert play.result(good)["changed"] is True
    assert good.environment_of_a_start() == KNOWN_GOOD
    assert "NCCL_NTHREADS=100" in play.message(bad)
    assert play.touched(bad) == {}
    for node in (absent, present, tuned):
        message = play.message(node)
        assert f"{node.file}: read-back by" in message
        assert f"shadowed ({node.scratch}/other/sitecustomize.py is imported instead of {node.file}" in message
        assert "The old file was put back." in message
        assert "PYTHONPATH of the service names our directory first" in message
        failed = play.of(node, "failed")[0]["result"]
        assert {entry["state"] for entry in failed["read_back"]["variables"]} == {"shadowed"}
        before, after = (trees.without_times(play.trees[node.name][when]) for when in ("before", "after"))
        outside = {path for path in trees.differences(before, after) if path.split("/")[0] != "state"}
        # Only compiled copies may go; they are dropped with every change of the file.
        assert {path for path in outside if path in after or "__pycache__" not in path} == set()
        # The attempt is on record, and the generation that is current is one that stands on the node.
        entries = [json.loads(line) for line in (node.state / "history.jsonl").read_text().splitlines()]
        assert (entries[-1]["outcome"], entries[-1].get("generation")) == ("failed", None)
    assert not absent.file.exists()
    assert present.file.read_bytes() == DEBIAN_HOOK
    assert tuned.environment_of_a_start() == KNOWN_GOOD
    table = play.stdout[play.stdout.index("Show what is in effect") :]
    assert "good" in table
    assert "NCCL_BUFFSIZE" in table


# --- the literal commands --------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path) -> Path:
    """What the literal commands need of this checkout, so that they write their sandbox into the copy."""
    copy = tmp_path / "checkout"
    for name in ("playbooks", "plugins", "roles", "meta", "inventories"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(ROOT / "ansible.cfg", copy)
    return copy


def plain_environment(home: Path, **extra: str) -> dict:
    """Nothing of Ansible: its configuration comes from the directory."""
    path = os.pathsep.join([str(BIN), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"])
    return {"PATH": path, "HOME": str(home), "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"} | extra


def typed(words: str, cwd: Path, env: dict) -> subprocess.CompletedProcess:
    return subprocess.run(words.split(), cwd=cwd, env=env, check=False, capture_output=True, text=True, timeout=200)


def changed_counts(output: str) -> dict:
    rows = re.findall(r"^(sandbox-\S+) +: ok=\d+ +changed=(\d+) +unreachable=0 +failed=0", output, re.MULTILINE)
    return {name: int(count) for name, count in rows}


@pytest.mark.parametrize("directory", ["playbooks", "."])
def test_the_literal_commands_work_in_a_checkout(checkout, directory, tmp_path):
    env = plain_environment(tmp_path)
    here = checkout / directory
    playbook = "tune.yml" if directory == "playbooks" else "playbooks/tune.yml"
    checked = typed(f"ansible-playbook {playbook} --check --diff", here, env)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert changed_counts(checked.stdout) == {"sandbox-a": 1, "sandbox-b": 1}
    assert not (checkout / ".sandbox").exists()
    for expected in (1, 0):
        done = typed(f"ansible-playbook {playbook} -e profile=known_good", here, env)
        assert done.returncode == 0, done.stdout + done.stderr
        assert changed_counts(done.stdout) == {"sandbox-a": expected, "sandbox-b": expected}
        assert re.search(
            r"sandbox-a +NCCL_BUFFSIZE +16777216 +16777216 +effective +\S+/site/sitecustomize.py:\d+", done.stdout
        )
    assert {path.name for path in (checkout / ".sandbox").iterdir()} == {"sandbox-a", "sandbox-b"}


def test_the_installed_collection_is_used_by_name_from_anywhere(fleet, tmp_path):
    node = fleet.node("node")
    installed, built, empty = tmp_path / "installed", tmp_path / "built", tmp_path / "empty"
    empty.mkdir()
    nothing = write(tmp_path / "ansible.cfg", b"")
    env = plain_environment(tmp_path, ANSIBLE_COLLECTIONS_PATH=str(installed))
    built_one = typed(f"ansible-galaxy collection build {ROOT} --output-path {built}", empty, env)
    assert built_one.returncode == 0, built_one.stdout + built_one.stderr
    (archive,) = built.glob("gpu_node-tuning-*.tar.gz")
    done = typed(f"ansible-galaxy collection install {archive} -p {installed} --offline", empty, env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (installed / "ansible_collections" / "gpu_node" / "tuning" / "tests").exists()
    for changed in (1, 0):
        command = fleet.command("-e", "profile=known_good", playbook="gpu_node.tuning.tune")
        found = {"ANSIBLE_CONFIG": str(nothing), "ANSIBLE_COLLECTIONS_PATH": str(installed)}
        play = fleet.run(command, cwd=empty, env=found)
        assert play.rc == 0, str(play)
        assert play.recap(node)["changed"] == changed
        assert play.executions[node.name] <= 3
        assert_effective(play, node, KNOWN_GOOD)
    assert list(empty.iterdir()) == []
