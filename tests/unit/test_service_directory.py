# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A directory whose Python code runs as the service: which paths name one, and who may write there."""

from __future__ import annotations

import grp
import os
import pwd

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import service_directory
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.inspection import Question, inspect
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Service
from ansible_collections.gpu_node.tuning.plugins.module_utils.service_directory import (
    parents_that_others_write,
    refuse_unusable_path,
    refuse_what_others_write,
)

from .interpreters import as_root, open_directory, tree
from .nodes import PlayedInterpreter, PlayedNode

SERVICE, STRANGER = 4321, 5432


@pytest.mark.parametrize("path", ["/opt/engine", "/opt/my engine", "/o", "/opt/..engine", "/opt/\u00e9"])
def test_paths_that_name_one(path):
    refuse_unusable_path(path)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (None, "Set service_dir (role variable nccl_env_service_dir)"),
        ("", "Set service_dir"),
        (["/opt"], "Set service_dir"),
        ("engine", "Set service_dir"),
        ("./engine", "Set service_dir"),
        ("/opt:/engine", "PYTHONPATH would take it for two entries"),
        ("/opt\n", "or not find it"),
        ("/opt/../engine", "Write '/engine' in service_dir"),
        ("/opt/./engine", "Write '/opt/engine'"),
        ("/opt//engine", "Write '/opt/engine'"),
        ("//opt", "Write '/opt'"),
        ("/opt/", "Write '/opt'"),
    ],
)
def test_paths_that_are_refused(path, words):
    with pytest.raises(TuningError) as caught:
        refuse_unusable_path(path)
    message = str(caught.value)
    assert message.startswith(f"service_dir {path!r}: legal: an absolute path in its shortest form and without ':'")
    assert words in message


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "engine").mkdir(mode=0o755)
    return tmp_path / "engine"


@pytest.mark.parametrize(("mode", "group"), [(0o755, 0), (0o700, 0), (0o775, 0), (0o750, STRANGER)])
def test_what_only_its_owner_writes_is_taken(directory, mode, group):
    if group and os.geteuid() != 0:
        pytest.skip("only root can give a directory to another group")
    os.chown(directory, -1, group if os.geteuid() == 0 else os.getegid())
    directory.chmod(mode)
    refuse_what_others_write(str(directory), SERVICE)
    refuse_what_others_write(str(directory / "not there"), SERVICE)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_what_everybody_writes_is_refused(directory, mode):
    """The sticky bit keeps nobody from adding a json.py."""
    directory.chmod(mode)
    with pytest.raises(TuningError) as caught:
        refuse_what_others_write(str(directory), SERVICE)
    assert str(caught.value).startswith(f"service_dir {directory}: mode {mode:04o}, group ")
    assert str(caught.value).endswith(f"Nothing was changed. Mend it: chmod go-w {directory}")
    directory.chmod(mode & ~0o022)
    refuse_what_others_write(str(directory), SERVICE)


@as_root
def test_what_a_group_writes_is_refused_unless_it_is_the_owners_alone(directory, monkeypatch):
    os.chown(directory, SERVICE, SERVICE)
    directory.chmod(0o775)
    with pytest.raises(TuningError, match=f"mode 0775, group {SERVICE}: others could put Python code into it"):
        refuse_what_others_write(str(directory), SERVICE)
    account = pwd.struct_passwd(("engine", "x", SERVICE, SERVICE, "", "/", ""))
    monkeypatch.setattr(service_directory.pwd, "getpwuid", lambda uid: account)
    for members, alone in (([], True), (["engine"], True), (["engine", "stranger"], False)):
        group = grp.struct_group(("engine", "x", SERVICE, members))
        monkeypatch.setattr(service_directory.grp, "getgrgid", lambda gid, group=group: group)
        if alone:
            refuse_what_others_write(str(directory), SERVICE)
        else:
            with pytest.raises(TuningError, match="others could put"):
                refuse_what_others_write(str(directory), SERVICE)


@as_root
def test_what_belongs_to_a_stranger_is_refused(directory):
    os.chown(directory, SERVICE, 0)
    refuse_what_others_write(str(directory), SERVICE)
    os.chown(directory, STRANGER, 0)
    with pytest.raises(TuningError, match=f"belongs to user {STRANGER}.*Mend it: chown root {directory}"):
        refuse_what_others_write(str(directory), SERVICE)


def test_the_directories_above_are_named():
    with open_directory() as root:
        (root / "opt" / "engine").mkdir(parents=True)
        path = str(root / "opt" / "engine")
        assert parents_that_others_write(path, SERVICE) == []  # above it is /tmp, where the sticky bit protects it
        (root / "opt").chmod(0o777)
        (said,) = parents_that_others_write(path, SERVICE)
        assert said.startswith(
            f"{root}/opt: owner {os.geteuid()}, group {os.getegid()}, mode 0777: others could replace"
        )
        assert said.endswith(f"chmod go-w {root}/opt")
        (root / "opt").chmod(0o1777)
        assert parents_that_others_write(path, SERVICE) == []
        (root / "opt").chmod(0o777)
        (root / "link").symlink_to("opt/engine")
        assert parents_that_others_write(str(root / "link"), SERVICE) == [said.replace(path, str(root / "link"))]


@pytest.fixture
def node(tmp_path):
    node = PlayedNode(tmp_path)
    node.service_dir.mkdir(parents=True)
    return node


def test_tune_refuses_what_others_write_and_takes_the_block_out_of_it(node):
    node.service_dir.chmod(0o777)
    before = tree(node.root)
    for check in (True, False):
        with pytest.raises(TuningError, match=f"^service_dir {node.service_dir}: mode 0777"):
            node.tune(python=None, check=check)
    assert tree(node.root) == before
    node.service_dir.chmod(0o755)
    node.service_dir.parent.chmod(0o777)
    (remark,) = node.tune(python=None).remarks
    assert remark.startswith(f"{node.service_dir.parent}: owner")
    node.service_dir.chmod(0o777)
    assert node.tune(None, python=None).changed


def test_the_info_says_it_and_goes_on(node):
    node.tune(python=None)
    node.service_dir.chmod(0o777)
    interpreter = PlayedInterpreter(node.executable(), Service({"PYTHONPATH": str(node.service_dir)}, None), 5)
    question = Question("service", str(node.service_dir), None, "respect", None, None, node.state.path)
    answer = inspect(interpreter, question)
    assert [said for said in answer["problems"] if said.startswith(f"service_dir {node.service_dir}: mode 0777")]
    assert answer["drift"] == []
