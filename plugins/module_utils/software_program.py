# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that the engine's interpreter runs (``-c``, as source text) to say which versions it would use.

Like probe_program, it prints one JSON answer between two copies of ``nonce``. It imports no package that it looks for: torch would
take seconds, and may open a GPU.
"""

from __future__ import annotations

import glob
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

LIMIT = 4  # seconds for each of the four programs that are started here; all of them fit into the usual probe_timeout
TOOLKIT = "/usr/local/cuda"
DISTRIBUTIONS = {"torch": ["torch"], "sglang": ["sglang"], "flashinfer": ["flashinfer-python", "flashinfer"]}
NCCL_DISTRIBUTIONS = ["nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"]
# torch loads these in this order, and a library that one of them brought in serves the next.
PARTS_OF_TORCH = ["libtorch_global_deps.so", "libtorch_cuda.so"]
ASK_NCCL = (
    "import ctypes, sys; number = ctypes.c_int(); "
    "status = ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(number)); print('nccl', status, number.value)"
)


class Missing(Exception):
    """Why a version is not known."""


def software() -> dict:
    """``{torch, sglang, flashinfer, nccl, nccl_library, cuda_toolkit, missing}``; what is not known is None, and its reason in ``missing``."""
    answer = {"nccl": None, "nccl_library": None, "missing": []}
    for name, distributions in DISTRIBUTIONS.items():
        answer[name] = noted(answer, name, lambda names=distributions: distribution_version(names))
    library = noted(answer, "nccl", lambda: nccl_library(torch_folder()))
    if library:
        answer["nccl_library"] = library
        answer["nccl"] = noted(answer, "nccl", lambda: nccl_version(library))
    answer["cuda_toolkit"] = noted(answer, "cuda_toolkit", lambda: nvcc_version(nvcc()))
    return answer


def noted(answer: dict, source: str, find):
    try:
        return find()
    except Missing as error:
        answer["missing"].append({"source": source, "reason": str(error)})
        return None


def distribution_version(names: list) -> str:
    for name in names:
        try:
            version = importlib.metadata.version(name)
        except Exception:  # noqa: BLE001, S112 - metadata that is broken in any way is no version
            continue
        if version:
            return str(version)
    raise Missing("no distribution " + " or ".join(names) + " is installed for " + sys.executable)


def torch_folder() -> str:
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        spec = None
    folders = list(spec.submodule_search_locations or []) if spec else []
    if not folders:
        raise Missing("there is no torch that would load it")
    return folders[0]


def nccl_library(folder: str) -> str:
    """The libnccl that the dynamic loader gives to torch's libraries, or that torch itself would fetch from the wheel beside it."""
    parts = [os.path.join(folder, "lib", name) for name in PARTS_OF_TORCH]
    present = [part for part in parts if os.path.exists(part)]
    for part in present:
        match = re.search(r"^\s*(?:\S*libnccl\S* => )?(/\S*libnccl\S*) \(", dependencies(part), re.MULTILINE)
        if match:
            return os.path.realpath(match.group(1))
    for entry in [os.path.dirname(folder)] + sys.path:
        for found in sorted(glob.glob(os.path.join(glob.escape(entry), "nvidia", "nccl", "lib", "libnccl.so.*"))):
            return os.path.realpath(found)
    if parts[-1] not in present:
        raise Missing("the torch in " + folder + " has no CUDA part")
    raise Missing("the torch in " + folder + " names no libnccl among its libraries; it may have it built in")


def dependencies(library: str) -> str:
    """What the loader of this very process would load for ``library``, with its RPATH, LD_LIBRARY_PATH and LD_PRELOAD. Nothing of it runs."""
    loader = own_loader()
    return run([loader, "--list", library]) if loader else ""


def own_loader() -> str:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as stream:
            match = re.search(r"(/\S*/ld-(?:linux|musl)[^/\s]*\.so\S*)$", stream.read(), re.MULTILINE)
    except OSError:
        return ""
    return match.group(1) if match else ""


def nccl_version(library: str) -> str:
    """Asked of the library, in a process of its own, since one that is broken may take its process with it."""
    words = run([sys.executable, "-I", "-S", "-c", ASK_NCCL, library]).split()
    if len(words) == 3 and words[:2] == ["nccl", "0"]:
        return nccl_number(int(words[2]))
    if os.sep + os.path.join("nvidia", "nccl", "lib") + os.sep in library:
        return distribution_version(NCCL_DISTRIBUTIONS)
    raise Missing(library + " does not tell its version")


def nccl_number(code: int) -> str:
    """NCCL's own coding, which changed with 2.9."""
    thousand = 1000 if code < 10000 else 10000
    return ".".join(str(part) for part in (code // thousand, code % thousand // 100, code % 100))


def nvcc() -> str:
    """The nvcc that torch's and FlashInfer's own builds take: CUDA_HOME, CUDA_PATH, PATH, then the usual folder."""
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    for home in homes:
        program = os.path.join(home, "bin", "nvcc")
        if os.access(program, os.X_OK):
            return program
    program = shutil.which("nvcc") or shutil.which("nvcc", path=os.path.join(TOOLKIT, "bin"))
    if not program:
        raise Missing("no nvcc in CUDA_HOME, CUDA_PATH, PATH or " + TOOLKIT)
    return program


def nvcc_version(program: str) -> str:
    match = re.search(r"\brelease [0-9.]+, V([0-9]+(?:\.[0-9]+)+)", run([program, "--version"]))
    if not match:
        raise Missing(program + " does not tell its version")
    return match.group(1)


def run(argv: list) -> str:
    """What a program printed; nothing when it failed."""
    try:
        ran = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.decode("utf-8", "replace") if ran.returncode == 0 else ""


def main() -> None:
    request = json.load(sys.stdin)
    if sys.path and sys.path[0] == "":
        del sys.path[0]  # the directory that a program given as text starts in is no place of the service's packages
    sys.stdout.write(request["nonce"] + json.dumps(software()) + request["nonce"])


if __name__ == "__main__":
    main()
