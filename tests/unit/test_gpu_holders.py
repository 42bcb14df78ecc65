# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who holds GPU memory: nvidia-smi and /proc are played."""

from __future__ import annotations

import os

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.gpu_holders import MEMORY, PROCESSES, gpus, holders
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import SourceMissing, Sources

TWO = "0, GPU-a, 143771, 60000, 83156\n1, GPU-b, 143771, 0, 143156\n"


@pytest.fixture
def node(tmp_path):
    """Function that plays a node: what nvidia-smi says of memory and of processes, and who has which device open."""

    def play(memory, processes="", opened=(), commands=None):
        folder = tmp_path / "usr" / "bin"
        folder.mkdir(parents=True)
        (folder / "memory").write_text(memory)
        (folder / "processes").write_text(processes)
        (folder / "nvidia-smi").write_text(
            "#!/bin/sh\n"
            f'case "$*" in "{MEMORY}") exec cat {folder}/memory ;; "{PROCESSES}") exec cat {folder}/processes ;; esac\n'
            "exit 2\n"
        )
        (folder / "nvidia-smi").chmod(0o755)
        for pid, devices in dict(opened).items():
            place = tmp_path / "proc" / str(pid) / "fd"
            place.mkdir(parents=True)
            for number, device in enumerate(devices):
                os.symlink(device, place / str(number))
            (place.parent / "cmdline").write_bytes((commands or {}).get(pid, b"python\0train.py\0"))
            (place.parent / "cgroup").write_text(f"0::/system.slice/job-{pid}.service\n")
        (tmp_path / "proc").mkdir(exist_ok=True)
        return Sources(str(tmp_path)), str(tmp_path / "proc")

    return play


def ask(node):
    sources, proc = node
    found = gpus(sources, 20)
    return [str(holder) for holder in holders(sources, found, 20, proc)]


def test_a_process_that_nvidia_smi_names(node):
    played = node(TWO, "GPU-a, 4711, 59000\n", {4711: ["/dev/nvidia0", "/dev/nvidiactl"]})
    assert ask(played) == ["GPU 0: 59000 MiB held by pid 4711 (python train.py, unit job-4711.service)"]
    assert gpus(played[0], 20)[1] == (1, "GPU-b", 143771, 0, 143156)


def test_one_that_only_proc_names(node):
    """In a container nvidia-smi names nobody."""
    played = node(TWO, "", {7: ["/dev/nvidia0"], 8: ["/dev/nvidia1"], 9: ["/dev/null"]})
    assert ask(played) == ["GPU 0: an unknown amount held by pid 7 (python train.py, unit job-7.service)"]


def test_a_number_of_another_namespace_is_nobody_here(node):
    """Process 50 lives here, and has no GPU open: nvidia-smi speaks of another one."""
    played = node(TWO, "GPU-a, 50, 59000\n", {50: ["/dev/null"], 7: ["/dev/nvidia0"]})
    assert ask(played) == ["GPU 0: an unknown amount held by pid 7 (python train.py, unit job-7.service)"]


def test_one_that_nobody_can_look_at_keeps_its_number(node):
    assert ask(node(TWO, "GPU-a, 4711, [N/A]\n")) == [
        "GPU 0: an unknown amount held by pid 4711 (its command line cannot be read)"
    ]


@pytest.mark.parametrize("text", ["", "No running processes found\n"])
def test_nobody(node, text):
    assert ask(node("0, GPU-a, 100, 0, 100\n", text)) == []


def test_a_driver_that_says_little(node):
    assert gpus(node("0, GPU-a, [N/A], [N/A], [Unknown Error]\n")[0], 20) == [(0, "GPU-a", None, None, None)]


def test_no_devices(node):
    assert gpus(node("No devices were found\n")[0], 20) == []


@pytest.mark.parametrize("text", ["garbage\n", "1, 2\n", "x, GPU-a, 1, 2, 3\n"])
def test_what_is_no_table(node, text):
    with pytest.raises(SourceMissing, match="no table"):
        gpus(node(text)[0], 20)


def test_no_nvidia_smi(tmp_path):
    with pytest.raises(SourceMissing, match="no executable nvidia-smi"):
        gpus(Sources(str(tmp_path)), 20)
