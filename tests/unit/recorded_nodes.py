# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of tests/fixtures/hardware as directories that look like a node's `/`, and the facts that they give."""

from __future__ import annotations

import functools
import pathlib
import shutil
import struct
import tempfile

import yaml
from ansible_collections.gpu_node.tuning.plugins.module_utils.gpu_facts import gather
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import SourceMissing, Sources

HARDWARE = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "hardware"
NAMES = sorted(folder.name for folder in HARDWARE.iterdir() if (folder / "tree.yml").exists())
PATIENCE = 60  # seconds; a busy machine is slow
AER, ACS = 0x0001, 0x000D


def answer_or_reason(parse, text: str):
    """What a parser returns, or the reason why it gave nothing. Every other exception is a fault."""
    try:
        return parse(text)
    except SourceMissing as error:
        return str(error)


def facts_of(name: str) -> dict:
    """What module gpu_facts returns on that node. The caller may change it."""
    return yaml.safe_load(_facts_as_text(name))


@functools.cache
def _facts_as_text(name: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        root = lay_out(name, pathlib.Path(folder) / "node")
        limit = 0.5 if (HARDWARE / name / "hangs").exists() else PATIENCE
        return yaml.safe_dump(gather(Sources(str(root)), None, limit))


def lay_out(name: str, root: pathlib.Path) -> pathlib.Path:
    """Make the directory `root` look like the node. A node with recorded output gets a stand-in for nvidia-smi."""
    tree = yaml.safe_load((HARDWARE / name / "tree.yml").read_text(encoding="utf-8"))
    for path in tree["folders"]:
        (root / path.lstrip("/")).mkdir(parents=True)
    for path, text in tree["files"].items():
        write(root / path.lstrip("/"), text)
    for number, (path, device) in enumerate(tree["pci"].items()):
        add_device(root, path, device, number)
    recorded = [file for file in (HARDWARE / name).iterdir() if file.suffix in (".xml", ".csv", ".txt", "")]
    if recorded:
        folder = root / "usr" / "bin"
        (folder / "recording").mkdir(parents=True)
        shutil.copy(HARDWARE / "nvidia-smi", folder)
        for file in recorded:
            shutil.copy(file, folder / "recording")
    return root


def add_device(root: pathlib.Path, path: str, device: dict, number: int) -> None:
    folder = root / "sys" / "devices" / path
    for name in ("vendor", "class", "numa_node"):
        if name in device:
            write(folder / name, f"{device[name]}\n")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config").write_bytes(config_space(device.get("acs")))
    if "iommu_group" in device:
        group = root / "sys" / "kernel" / "iommu_groups" / str(number)
        write(group / "type", device["iommu_group"] + "\n")
        (folder / "iommu_group").symlink_to(group)
    devices = root / "sys" / "bus" / "pci" / "devices"
    devices.mkdir(parents=True, exist_ok=True)
    (devices / folder.name).symlink_to(pathlib.Path("../../..") / "devices" / path)


def config_space(acs: int | None) -> bytes:
    """4096 bytes with the capability AER, and behind it ACS with the control register `acs`."""
    config = bytearray(4096)
    struct.pack_into("<I", config, 0x100, AER | 2 << 16 | (0 if acs is None else 0x148) << 20)
    if acs is not None:
        struct.pack_into("<IHH", config, 0x148, ACS | 1 << 16, 0x5F, acs)
    return bytes(config)


def write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
