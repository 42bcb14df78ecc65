# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with a stand-in for SGLang: an interpreter whose sglang has the installed version's interface, and GPUs that are played.

The stand-in takes the options of its parser and no other. What real parsers take is tested with them.
"""

from __future__ import annotations

import pathlib

from ansible_collections.gpu_node.tuning.plugins.module_utils.gpu_holders import MEMORY, PROCESSES
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import Sources

from .interpreters import make_venv
from .test_tuning_transaction import usual_python

SERVER_ARGS = """
import argparse, json, os, sys

def prepare_server_args(argv):
    parser = argparse.ArgumentParser(prog="sglang serve", allow_abbrev=False)
    for name in ("model-path", "host", "port", "tp-size", "mem-fraction-static", "device", "speculative-algorithm",
                 "speculative-draft-model-path"):
        parser.add_argument("--" + name)
    words = list(argv)
    assert words[0] == "--config" and words[1].endswith(".yaml")
    with open(words[1]) as stream:
        for line in stream:
            if not line.startswith("#"):
                name, _colon, value = line.strip().partition(": ")
                words += ["--" + name, json.loads(value) if value.startswith('"') else value]
    found = parser.parse_args(words[2:])
    if os.environ.get("STAND_IN_RAISES"):
        raise {"value": ValueError, "network": ConnectionError}[os.environ["STAND_IN_RAISES"]]("the stand-in was told to")
    return found
"""


class PlayedNode:
    """``sources`` and ``proc`` are what the checks look at; ``interpreter`` is real, its SGLang is the stand-in."""

    def __init__(self, root: pathlib.Path, version: str = "0.5.23"):
        self.root = root
        self.interpreter = str(root / "venv" / "bin" / "python")
        venv = make_venv(usual_python(), root / "venv")
        package = venv.site_packages / "sglang"
        (package / "srt" / "models").mkdir(parents=True)
        for folder in (package, package / "srt", package / "srt" / "models"):
            (folder / "__init__.py").touch()
        (package / "srt" / "server_args.py").write_text(SERVER_ARGS)
        (package / "srt" / "models" / "llama.py").write_text("class LlamaForCausalLM:\n    pass\n")
        metadata = venv.site_packages / f"sglang-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")
        self.package = package
        self.folder = root / "node" / "usr" / "bin"
        self.folder.mkdir(parents=True)
        self.processes = root / "proc"
        self.processes.mkdir()
        (self.processes / "self" / "net").mkdir(parents=True)
        (self.processes / "self" / "net" / "tcp").write_text("head\n")

    @property
    def sources(self) -> Sources:
        return Sources(str(self.root / "node"))

    @property
    def proc(self) -> str:
        return str(self.processes)

    def add_gpus(self, *rows: tuple, processes: str = "") -> None:
        """``rows``: (total, used, free) in MiB; ``processes``: lines as nvidia-smi prints them."""
        lines = [f"{index}, GPU-{index}, {total}, {used}, {free}\n" for index, (total, used, free) in enumerate(rows)]
        (self.folder / "memory").write_text("".join(lines))
        (self.folder / "processes").write_text(processes)
        program = self.folder / "nvidia-smi"
        program.write_text(
            f'#!/bin/sh\ncase "$*" in "{MEMORY}") exec cat {self.folder}/memory ;; '
            f'"{PROCESSES}") exec cat {self.folder}/processes ;; esac\nexit 2\n'
        )
        program.chmod(0o755)

    def add_process(self, pid: int, unit: str) -> None:
        place = self.processes / str(pid) / "fd"
        place.mkdir(parents=True)
        (place / "3").symlink_to("/dev/nvidia0")
        (place.parent / "cmdline").write_bytes(b"python\0-m\0sglang.launch_server\0")
        (place.parent / "cgroup").write_text(f"0::/system.slice/{unit}\n" if unit else "0::/\n")
