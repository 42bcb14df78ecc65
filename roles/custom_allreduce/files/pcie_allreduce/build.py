# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compile csrc/pcie_allreduce.cu with nvcc into one shared library. Standard library only; prints the command before it runs it.

    python build.py --sm 12.0 --output libpcie_allreduce.so

Without --sm the GPUs of this machine are asked (nvidia-smi); without --nvcc it is looked for in CUDA_HOME, on PATH, in /usr/local/cuda and
among NVIDIA's wheels in this Python.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Optional

FOLDER = Path(__file__).resolve().parent
SOURCE = FOLDER / "csrc" / "pcie_allreduce.cu"
OLDEST_SM = 80  # conversions to two 16-bit floats at once
# The runtime is linked in, so that the library does not care which one torch brings.
FLAGS = ("-std=c++17", "-O3", "-shared", "-cudart", "static", "-Xcompiler", "-fPIC,-fvisibility=hidden,-Wall,-Wextra")


class BuildError(Exception):
    """The message says what is missing and what to do."""


def command(
    nvcc: str, sms: Iterable[str], output: str, source: str = str(SOURCE), extra: Sequence[str] = ()
) -> list[str]:
    """The whole command line; `sms` are compute capabilities as 9.0, 90 or sm_90."""
    numbers = sorted({sm_number(sm) for sm in sms})
    if not numbers:
        raise BuildError("no compute capability given: name one with --sm, for instance --sm 12.0")
    targets = [f"-gencode=arch=compute_{number},code=sm_{number}" for number in numbers]
    return [nvcc, *FLAGS, *targets, *extra, "-o", output, source, *library_folder(nvcc), "-lrt", "-lpthread"]


def library_folder(nvcc: str) -> list[str]:
    """NVIDIA's wheels have the runtime in lib, where their own nvcc does not look for it."""
    folder = Path(nvcc).resolve().parent.parent / "lib"
    return [f"-L{folder}"] if (folder / "libcudart_static.a").exists() else []


def sm_number(sm: str) -> int:
    found = re.fullmatch(r"(?:sm_)?(\d{1,2})\.?(\d)", sm.strip())
    if not found:
        raise BuildError(f"compute capability {sm!r}: legal are forms like 12.0, 120 or sm_120")
    number = int(found[1] + found[2])
    if number < OLDEST_SM:
        raise BuildError(f"compute capability {sm}: 8.0 or newer is needed; on older GPUs leave the all-reduce to NCCL")
    return number


def find_nvcc(named: Optional[str] = None) -> str:
    """The nvcc that was named, or the first that is found."""
    if named:
        if path := shutil.which(named):
            return path
        raise BuildError(f"nvcc {named!r} is not a program that can be run: name another with --nvcc")
    home = os.environ.get("CUDA_HOME")
    candidates = [os.path.join(home, "bin", "nvcc")] if home else []
    candidates += ["nvcc", "/usr/local/cuda/bin/nvcc"]
    candidates += [
        path for folder in sys.path for path in sorted(glob.glob(os.path.join(folder, "nvidia/cu*/bin/nvcc")))
    ]
    for candidate in candidates:
        if path := shutil.which(candidate):
            return path
    raise BuildError(
        "nvcc was not found in CUDA_HOME, on PATH, in /usr/local/cuda or among this Python's wheels: "
        "install the CUDA toolkit, or name it with --nvcc"
    )


def sms_of_this_machine() -> list[str]:
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, check=True, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise BuildError(f"nvidia-smi does not tell the compute capability ({error}): name it with --sm") from error
    return sorted({line.strip() for line in answer.splitlines() if line.strip()})


def build(nvcc: str, sms: Iterable[str], output: str, extra: Sequence[str] = ()) -> str:
    """Compile, replace `output` only when that went well, and return what the compiler printed."""
    unfinished = f"{output}.unfinished"
    words = command(nvcc, sms, unfinished, extra=extra)
    print(shlex.join(words), flush=True)
    done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        Path(unfinished).unlink(missing_ok=True)
        raise BuildError(f"nvcc ended with {done.returncode}:\n{done.stdout.rstrip()}")
    os.replace(unfinished, output)
    return done.stdout


def main(arguments: Optional[Sequence[str]] = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sm", action="append", default=[], help="compute capability; may be given several times")
    options.add_argument("--nvcc", help="path of nvcc")
    options.add_argument("--output", default="libpcie_allreduce.so")
    options.add_argument("--verbose", action="store_true", help="print registers and spills of every kernel")
    given = options.parse_args(arguments)
    try:
        nvcc = find_nvcc(given.nvcc)
        said = build(nvcc, given.sm or sms_of_this_machine(), given.output, ["-Xptxas", "-v"] if given.verbose else [])
    except BuildError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    print(said, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
