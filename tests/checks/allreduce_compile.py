"""Compile the all-reduce for the GPUs that it is meant for: no warning, no kernel with local memory, and a C interface that refuses."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from common import CACHE, ROOT, CheckFailed, main, run, say, scratch

PROJECT = ROOT / "roles/custom_allreduce/files/pcie_allreduce"
SMS = ("8.0", "9.0", "12.0")
KERNELS = 3 * (3 * 7 + 1) + 1  # types; algorithms for every world size, and one for eight only; the probe
MOST_REGISTERS = 128  # with 512 threads a block
WHEELS = (
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
)
KERNEL = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for '(?P<sm>\w+)'.*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers",
    re.DOTALL,
)


def check() -> None:
    build = builder()
    with scratch("allreduce-compile") as folder:
        library = folder / "libpcie_allreduce.so"
        strict = ["-Xptxas", "-v", "-Werror", "all-warnings", "--threads", "2"]
        said = build.build(compiler(build), SMS, str(library), strict)
        say(summary(said))
        wrong = [*findings(said), *interface(library)]
    if wrong:
        raise CheckFailed("\n".join(["", *wrong]))
    say(f"{len(SMS)} targets, {KERNELS} kernels each")


def builder():
    spec = importlib.util.spec_from_file_location("pcie_allreduce_build", PROJECT / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiler(build) -> str:
    """The machine's nvcc, or NVIDIA's wheels of one pinned release under .cache."""
    try:
        return build.find_nvcc()
    except build.BuildError as error:
        say(error)
    folder = CACHE / "cuda"
    nvcc = folder / "nvidia/cu13/bin/nvcc"
    stamp = folder / "wheels.txt"
    if not stamp.exists() or stamp.read_text(encoding="utf-8").split() != list(WHEELS):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", folder]
        run([*pip, *WHEELS])
        stamp.write_text("\n".join(WHEELS), encoding="utf-8")
    return str(nvcc)


def kernels(said: str) -> list[dict]:
    return [found.groupdict() for found in KERNEL.finditer(said)]


def findings(said: str) -> list[str]:
    """What `ptxas -v` printed, against the rules."""
    found = kernels(said)
    wrong = [
        f"{kernel['name']} for {kernel['sm']}: {kernel['stack']} bytes of local memory, {kernel['stores']} + {kernel['loads']} bytes of spills"
        for kernel in found
        if any(int(kernel[what]) for what in ("stack", "stores", "loads"))
    ]
    wrong += [
        f"{kernel['name']} for {kernel['sm']}: {kernel['registers']} registers, at most {MOST_REGISTERS}"
        for kernel in found
        if int(kernel["registers"]) > MOST_REGISTERS
    ]
    if len(found) != KERNELS * len(SMS):
        wrong.append(f"ptxas speaks of {len(found)} kernels, {KERNELS * len(SMS)} expected")
    return wrong


def summary(said: str) -> str:
    lines = []
    for sm in sorted({kernel["sm"] for kernel in kernels(said)}):
        registers = [int(kernel["registers"]) for kernel in kernels(said) if kernel["sm"] == sm]
        lines.append(f"{sm}: {len(registers)} kernels, {min(registers)} to {max(registers)} registers")
    return "\n".join(lines)


def interface(library: Path) -> list[str]:
    """What can be asked without a GPU: the symbols, and that a wrong value and a missing GPU are refused in words."""
    declared = set(re.findall(r"\b(pcar_\w+)\(", (PROJECT / "csrc/pcie_allreduce.h").read_text(encoding="utf-8")))
    listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1] for line in listed.splitlines() if " T " in line}
    wrong = [f"exported but not in the header: {name}" for name in sorted(exported - declared)]
    wrong += [f"in the header but not exported: {name}" for name in sorted(declared - exported)]
    door = ctypes.CDLL(str(library))
    door.pcar_last_error.restype = ctypes.c_char_p
    door.pcar_create.argtypes = [
        ctypes.c_void_p,
        *[ctypes.c_int] * 2,
        ctypes.c_size_t,
        *[ctypes.c_int] * 2,
        ctypes.c_double,
    ]
    handle = ctypes.c_void_p()
    for world, device, words in ((9, 0, "world 9: 2 to 8 are legal"), (2, 99, "")):
        code = door.pcar_create(ctypes.byref(handle), 0, world, 65536, 0, device, 1.0)
        sentence = door.pcar_last_error().decode()
        say(f"pcar_create(world={world}, device={device}): {code} {sentence}")
        if code >= 0 or not sentence or words not in sentence:
            wrong.append(f"pcar_create with world {world} on device {device} answers {code} {sentence!r}")
    return wrong


if __name__ == "__main__":
    main(check)
