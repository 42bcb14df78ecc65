# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CUDA compiler of a node: where it is, which version it has, and whether it knows the GPUs."""

from __future__ import annotations

import glob
import os
import re
import shutil
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import bounded_command
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

FOLDERS = "/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/opt/cuda/bin"
ANSWER_SECONDS = 30
OLDEST_GPU = (8, 0)
# First CUDA release whose compiler makes code for a compute capability and knows what the source uses (11.8). A capability that is not here
# is taken to need what the next lower one needs.
FIRST_CUDA = {
    (8, 0): (11, 8),
    (10, 0): (12, 8),
    (10, 3): (12, 9),
    (11, 0): (13, 0),
    (12, 0): (12, 8),
    (12, 1): (12, 9),
}


class Nvcc(NamedTuple):
    path: str
    version: tuple

    @property
    def text(self) -> str:
        return ".".join(str(part) for part in self.version)


def find(named: Optional[str], packages: str) -> Nvcc:
    """The compiler ``named``, or the first of the toolkit's folder, the search path and NVIDIA's wheels in ``packages``. Raises TuningError."""
    path = _existing(named) if named else _first(packages)
    ended = bounded_command.run([path, "--version"], ANSWER_SECONDS, {})
    if ended.code != 0:
        raise TuningError(
            f"nvcc {path}: does not say its version: {ended.failure}. "
            f"Legal: a CUDA compiler that works. Repair the toolkit, or name another compiler in custom_allreduce_nvcc."
        )
    return Nvcc(path, parse_version(path, ended.out))


def parse_version(path: str, text: str) -> tuple:
    """``(13, 0, 88)`` of what ``nvcc --version`` prints. Raises TuningError for anything else."""
    found = re.search(r"release \d+\.\d+, V(\d+)\.(\d+)\.(\d+)", text)
    if not found:
        raise TuningError(
            f"nvcc {path}: is no CUDA compiler, it says {text.strip()[:100]!r}. Legal: NVIDIA's nvcc; name it in custom_allreduce_nvcc."
        )
    return tuple(int(part) for part in found.groups())


def refusal(nvcc: Nvcc, capability: str) -> Optional[str]:
    """Why this compiler cannot build for GPUs of this compute capability (``12.0``), or None."""
    wanted = _parts(capability)
    if wanted < OLDEST_GPU:
        return (
            f"compute capability {capability}: legal: 8.0 or newer. "
            f"The kernel needs what older GPUs lack; leave custom_allreduce off on this node."
        )
    first = FIRST_CUDA[max(known for known in FIRST_CUDA if known <= wanted)]
    if nvcc.version[:2] >= first:
        return None
    return (
        f"nvcc {nvcc.path}: version {nvcc.text} is too old for GPUs of compute capability {capability}; "
        f"legal: CUDA {first[0]}.{first[1]} or newer. Install one beside it, and name its nvcc in custom_allreduce_nvcc."
    )


def _existing(path: str) -> str:
    if not os.path.isabs(path) or not os.access(path, os.X_OK) or os.path.isdir(path):
        raise TuningError(
            f"nvcc {path!r}: no such program. Legal: the absolute path of NVIDIA's compiler, for instance /usr/local/cuda/bin/nvcc; "
            f"set custom_allreduce_nvcc, or leave it empty to look for one."
        )
    return path


def _first(packages: str) -> str:
    found = shutil.which("nvcc", path=FOLDERS)
    wheels = sorted(glob.glob(os.path.join(glob.escape(packages), "nvidia", "cu*", "bin", "nvcc")))
    if not found and not wheels:
        raise TuningError(
            f"nvcc: not found in {FOLDERS.replace(':', ', ')}, nor among NVIDIA's packages in {packages}. Legal: CUDA's compiler. "
            f"Install the toolkit (cuda-nvcc and cuda-cudart-dev of NVIDIA's repository are enough), or name it in custom_allreduce_nvcc."
        )
    return found or wheels[-1]


def _parts(capability: str) -> tuple:
    major, _dot, minor = str(capability).partition(".")
    if not (major.isdigit() and minor.isdigit()):
        raise TuningError(
            f"compute capability {capability!r}: legal: two numbers such as 12.0, as gpu_facts gives them."
        )
    return int(major), int(minor)
