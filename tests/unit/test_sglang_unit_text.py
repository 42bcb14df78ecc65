# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit of SGLang: what has to be in it, what a drop-in may carry, and what comes before a start."""

from __future__ import annotations

import json
import os
import socket

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_before_start, sglang_unit_text
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_unit_text import Settings

SETTINGS = Settings("/opt/sglang/bin/python", "/usr/local/libexec/before_start.py", "sglang", "sglang", 3600, 120)
PLAN = {
    "name": "kimi",
    "port": 30000,
    "environment": {"B": "two words", "A": '100% of "$HOME"'},
    "command": ["/opt/sglang/bin/python", "-m", "sglang.launch_server", "--config", "/etc/kimi.yaml"],
}


def setting(text: str, name: str) -> list:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{name}=")]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Type", "exec"),
        ("KillMode", "mixed"),
        ("TimeoutStartSec", "3600"),
        ("TimeoutStopSec", "180"),
        ("Restart", "on-failure"),
        ("RestartPreventExitStatus", "2 3"),
        ("LimitMEMLOCK", "infinity"),
        ("User", "sglang"),
        ("PrivateTmp", "yes"),
        ("ProtectSystem", "strict"),
        ("NoNewPrivileges", "yes"),
        ("DevicePolicy", "closed"),
    ],
)
def test_the_unit_says(name, value):
    assert setting(sglang_unit_text.unit_text(SETTINGS), name) == [value]


def test_the_start_limit_is_longer_than_three_loads():
    text = sglang_unit_text.unit_text(SETTINGS)
    assert setting(text, "StartLimitBurst") == ["3"]
    assert int(setting(text, "StartLimitIntervalSec")[0]) > 3 * 3600


def test_what_would_break_the_service_is_not_in_the_unit():
    lines = sglang_unit_text.unit_text(SETTINGS).splitlines()
    settings = {line.partition("=")[0] for line in lines if not line.startswith("#")}
    assert settings.isdisjoint(
        {"MemoryDenyWriteExecute", "RemoveIPC", "IPAddressDeny", "PrivateDevices", "WatchdogSec"}
    )
    assert all(device.startswith("char-nvidia") for device in setting("\n".join(lines), "DeviceAllow"))


def test_an_interpreter_with_a_blank_is_one_word():
    text = sglang_unit_text.unit_text(SETTINGS._replace(interpreter="/srv/50% off/bin/python"))
    assert setting(text, "ExecStart")[0].startswith('"/srv/50%% off/bin/python" -m sglang.launch_server ')


def test_a_drop_in_carries_any_value():
    text = sglang_unit_text.drop_in_text(PLAN, SETTINGS, ["/models/kimi"])
    assert setting(text, "Environment") == ['"A=100%% of \\"$HOME\\""', '"B=two words"']
    assert "ExecStart" not in text
    assert "BindReadOnlyPaths" not in text


def test_words_that_the_file_cannot_carry_replace_the_command():
    plan = dict(PLAN, command=[*PLAN["command"], "--log-requests-format", "a b"])
    (empty, command) = setting(sglang_unit_text.drop_in_text(plan, SETTINGS, []), "ExecStart")
    assert empty == ""
    assert command.endswith('--config ${RUNTIME_DIRECTORY}/config.yaml --log-requests-format "a b"')


def test_what_home_would_hide_is_shown():
    settings = SETTINGS._replace(interpreter="/home/ann/env/bin/python")
    text = sglang_unit_text.drop_in_text(PLAN, settings, ["/root/a model", "/models/kimi"])
    assert setting(text, "BindReadOnlyPaths") == ["/home/ann/env", '"/root/a model"']
    # Bare, systemd would read where from and where to.
    text = sglang_unit_text.drop_in_text(PLAN, SETTINGS, ["/home/ann/a:b"])
    assert setting(text, "BindReadOnlyPaths") == ['"/home/ann/a:b"']


# --- before a start


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    return str(tmp_path / "model")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "sitecustomize.py"
    path.write_text("import os\n")
    return {"path": str(path), "sha256": sglang_before_start.digest(path.read_bytes())}


def test_a_node_as_declared_has_no_complaint(file):
    declared = {"sitecustomize": file, "environment": {"NCCL_PROTO": "LL"}}
    imported = os.path.realpath(file["path"])
    assert sglang_before_start.complaints_about_tuning(declared, {"NCCL_PROTO": "LL"}, imported) == []


@pytest.mark.parametrize(
    ("environment", "imported", "said"),
    [
        ({"NCCL_PROTO": "Simple"}, True, "NCCL_PROTO is 'Simple' in the environment of the service, declared 'LL'"),
        ({}, True, "NCCL_PROTO is None"),
        ({"NCCL_PROTO": "LL"}, None, "imported no sitecustomize.py"),
        ({"NCCL_PROTO": "LL"}, "/elsewhere/sitecustomize.py", "imported /elsewhere/sitecustomize.py, not "),
    ],
)
def test_what_is_not_as_declared_is_said(file, environment, imported, said):
    declared = {"sitecustomize": file, "environment": {"NCCL_PROTO": "LL"}}
    imported = os.path.realpath(file["path"]) if imported is True else imported
    (found,) = sglang_before_start.complaints_about_tuning(declared, environment, imported)
    assert said in found


def test_a_file_that_was_edited_since_is_said(file):
    with open(file["path"], "a", encoding="utf-8") as stream:
        stream.write("# more\n")
    declared = {"sitecustomize": file, "environment": {}}
    (found,) = sglang_before_start.complaints_about_tuning(declared, {}, os.path.realpath(file["path"]))
    assert "was changed after it had been read back" in found


def test_a_port_is_taken_or_free():
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        (found,) = sglang_before_start.complaint_about_port("127.0.0.1", port)
        assert f"127.0.0.1:{port} cannot be listened on: Address already in use" in found
    assert sglang_before_start.complaint_about_port("127.0.0.1", port) == []


def test_files_that_cannot_be_read_are_said(declared, model, tmp_path):
    assert sglang_before_start.complaints_about_files(sglang_before_start.files_of(declared)) == []
    gone = dict(declared, models=[model, str(tmp_path / "none")], keys=str(tmp_path / "kimi.keys.yaml"))
    keys, of_model = sglang_before_start.complaints_about_files(sglang_before_start.files_of(gone))
    assert keys == f"{tmp_path}/kimi.keys.yaml: No such file or directory"
    assert of_model == f"{tmp_path}/none/config.json: No such file or directory"


@pytest.fixture
def declared(file, model, tmp_path):
    unit = tmp_path / "sglang@.service"
    unit.write_text("[Service]\n")
    config = tmp_path / "kimi.yaml"
    config.write_text("port: 1\n")
    return {
        "unit": str(unit),
        "instance_unit": str(tmp_path / "sglang@kimi.service"),
        "config": str(config),
        "keys": "",
        "version": "0.5.23",
        "models": [model],
        "sitecustomize": file,
        "environment": {"NCCL_PROTO": "LL"},
        "generation": 3,
    }


def test_every_part_of_a_start_counts(declared, tmp_path):
    before = sglang_before_start.parts_of(declared)

    def changed(**values):
        now = sglang_before_start.parts_of(dict(declared, **values))
        return [part for part in now if now[part] != before[part]]

    assert changed() == []
    assert changed(version="0.5.24") == ["version of SGLang"]
    assert changed(environment={"NCCL_PROTO": "Simple"}) == ["tuning"]
    assert changed(sitecustomize=dict(declared["sitecustomize"], sha256="0")) == ["tuning"]
    (tmp_path / "keys").write_text("api-key: one\n")
    assert changed(keys=str(tmp_path / "keys")) == ["keys"]
    (tmp_path / "kimi.yaml").write_text("port: 2\n")
    assert changed() == ["configuration"]


@pytest.mark.parametrize("mode", [0o644, 0o600])
@pytest.mark.parametrize("folder", ["sglang@.service.d", "sglang@kimi.service.d"])
def test_a_drop_in_of_somebody_counts_too(declared, tmp_path, folder, mode):
    before = sglang_before_start.parts_of(declared)
    (tmp_path / folder).mkdir()
    drop_in = tmp_path / folder / "own.conf"
    drop_in.write_text("[Service]\n")
    drop_in.chmod(mode)
    with_it = sglang_before_start.parts_of(declared)
    assert with_it["unit"] != before["unit"]
    drop_in.write_text("[Service]\nNice=5\n")
    assert sglang_before_start.parts_of(declared)["unit"] != with_it["unit"]


@pytest.mark.parametrize("target", ["/nonexistent/own.conf", os.devnull])
def test_a_drop_in_that_was_taken_away_is_no_fault(declared, tmp_path, target):
    """systemd passes over a link to nothing; one to /dev/null takes a drop-in of the same name away."""
    (tmp_path / "sglang@.service.d").mkdir()
    (tmp_path / "sglang@.service.d" / "own.conf").symlink_to(target)
    assert sglang_before_start.parts_of(declared)["unit"]


def test_root_and_the_service_s_user_see_the_same_of_a_closed_folder(declared, tmp_path, monkeypatch):
    """`systemctl edit` with umask 027 makes such a folder. Another sight of it would be a restart in every play."""
    folder = tmp_path / "sglang@kimi.service.d"
    folder.mkdir(mode=0o750)
    (folder / "own.conf").write_text("[Service]\n")
    seen_by_root = sglang_before_start.parts_of(declared)
    monkeypatch.setattr(sglang_before_start.glob, "glob", lambda _pattern: [])
    assert sglang_before_start.parts_of(declared) == seen_by_root
    folder.chmod(0o755)
    monkeypatch.undo()
    assert sglang_before_start.parts_of(declared) != seen_by_root


def test_the_program_needs_the_standard_library_alone():
    with open(sglang_before_start.__file__, encoding="utf-8") as stream:
        assert "ansible" not in stream.read()


def test_the_program_leaves_what_it_started_with(declared, tmp_path, monkeypatch):
    (tmp_path / "keys").write_text("api-key: one\n")
    declared["keys"] = str(tmp_path / "keys")
    (tmp_path / "kimi.json").write_text(json.dumps(dict(declared, host="127.0.0.1", port=0)))
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["before_start.py", str(tmp_path / "kimi.json")])
    monkeypatch.setattr(sglang_before_start, "complaints", lambda _declared: ["one reason"])
    assert sglang_before_start.main() == 1
    assert not (tmp_path / "config.yaml").exists()
    monkeypatch.setattr(sglang_before_start, "complaints", lambda _declared: [])
    assert sglang_before_start.main() == 0
    assert (tmp_path / "config.yaml").read_text() == "port: 1\napi-key: one\n"
    assert (tmp_path / "config.yaml").stat().st_mode & 0o777 == 0o600
    started = json.loads((tmp_path / "started.json").read_text())
    assert started["generation"] == 3
    assert started["parts"] == sglang_before_start.parts_of(declared)


def test_devices_are_made_outside_of_the_instance_s_unit_and_before_it():
    """DevicePolicy= holds for every process of a unit, those with a plus too."""
    text = sglang_unit_text.unit_text(SETTINGS)
    assert "nvidia-modprobe" not in text
    for setting in ("After=", "Wants="):
        (line,) = [line for line in text.splitlines() if line.startswith(setting)]
        assert "sglang-devices.service" in line.split("=")[1].split()
    devices = sglang_unit_text.devices_unit_text()
    assert "DevicePolicy" not in devices
    assert "RemainAfterExit" not in devices, "each start of an instance asks again"
    assert "nvidia-modprobe -u -c 0" in devices
    assert "TimeoutStartSec=60" in devices, "a oneshot has no limit of its own"
