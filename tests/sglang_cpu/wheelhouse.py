"""Make a folder of wheels from which pip can install the real SGLang without a GPU and without a network.

    python wheelhouse.py DOWNLOADS WHEELS

DOWNLOADS keeps what came from the package index. WHEELS is made anew where this recipe or the pins have changed: the same wheels, save
that SGLang asks for the pinned packages alone (what it declares is for CUDA and cannot be had on a CPU), that torchvision declares the two
operators its import insists on, that triton leaves NVIDIA's programs out, and that the kernel package is a stand-in. README.md says what
that leaves unproved.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PINS = HERE / "requirements.txt"
STAND_IN = HERE / "stand_ins"
PYTHON = "3.11"  # of the Debian that the scenario runs
# Wheels name the oldest C library that they run with; that of Debian 12 is 2.36.
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64", "any"]
# PyTorch's own index has the build without CUDA, where the machine's configured places have not.
CPU_TORCH = "https://download.pytorch.org/whl/cpu"
# These name packages that are not pinned here, because nothing that the tests run needs them.
WITHOUT_REQUIREMENTS = ("torchvision", "compressed_tensors", "xgrammar", "gguf")
LEFT_OUT = {"triton": re.compile(r"triton/backends/nvidia/(bin|lib/cupti[^/]*)/|triton/(instrumentation|FileCheck)")}
SHIM = """import torch

_library = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    _library.define(_name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def pins() -> list[str]:
    lines = [line.partition("#")[0].strip() for line in PINS.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line]


def recipe() -> str:
    digest = hashlib.sha256()
    for path in [Path(__file__), PINS, *sorted(STAND_IN.rglob("*.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def download(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
        str(folder),
    ]
    command += ["--find-links", str(folder), "--python-version", PYTHON, "--implementation", "cp"]
    command += [word for abi in ("cp311", "abi3", "none") for word in ("--abi", abi)]
    command += [word for platform in PLATFORMS for word in ("--platform", platform)]
    wanted = ["--requirement", str(PINS)]
    if subprocess.run([*command, *wanted], check=False, stderr=subprocess.DEVNULL).returncode:
        subprocess.run([*command, *wanted, "--extra-index-url", CPU_TORCH], check=True)


def repacked(source: Path, target: Path, requires: list[str] | None, left_out: re.Pattern | None, shim: bool) -> None:
    """A copy of a wheel. ``requires`` replaces what it asks for; None leaves that as it is."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for item in old.infolist():
            if left_out and left_out.match(item.filename):
                continue
            content = old.read(item)
            if requires is not None and re.fullmatch(r"[^/]+\.dist-info/METADATA", item.filename):
                content = with_requirements(content, requires)
            if shim and item.filename == "torchvision/_meta_registrations.py":
                content = b"from . import _cpu_operators\n" + content
            new.writestr(item, content, compress_type=zipfile.ZIP_STORED)
        if shim:
            new.writestr("torchvision/_cpu_operators.py", SHIM)


def with_requirements(metadata: bytes, requires: list[str]) -> bytes:
    head, separator, body = metadata.partition(b"\n\n")
    kept = [line for line in head.split(b"\n") if not line.startswith((b"Requires-Dist:", b"Provides-Extra:"))]
    return b"\n".join(kept + [f"Requires-Dist: {name}".encode() for name in requires]) + separator + body


def stand_in_wheel(folder: Path) -> str:
    """The stand-in for SGLang's kernels as a wheel, under the name and version that SGLang 0.5.23 asks for."""
    name, version = "sglang_kernel", "0.4.10"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in sorted(STAND_IN.rglob("*.py")):
            wheel.write(path, path.relative_to(STAND_IN).as_posix())
        summary = "Stand-in of a test; not SGLang's kernels"
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: sglang-kernel\nVersion: {version}\nSummary: {summary}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: wheelhouse\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return f"sglang-kernel=={version}"


def build(downloads: Path, wheels: Path) -> None:
    shutil.rmtree(wheels, ignore_errors=True)
    partial = wheels.with_name(wheels.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    wanted = [*(pin for pin in pins() if not pin.startswith("sglang==")), stand_in_wheel(partial)]
    for source in sorted(downloads.glob("*.whl")):
        project = source.name.partition("-")[0]
        if project == "sglang":
            repacked(source, partial / source.name, wanted, None, False)
        elif project in (*WITHOUT_REQUIREMENTS, *LEFT_OUT):
            requires = [] if project in WITHOUT_REQUIREMENTS else None
            repacked(source, partial / source.name, requires, LEFT_OUT.get(project), project == "torchvision")
        else:
            (partial / source.name).hardlink_to(source)
    (partial / "recipe").write_text(recipe(), encoding="utf-8")
    partial.rename(wheels)


def main() -> int:
    downloads, wheels = (Path(argument).absolute() for argument in sys.argv[1:])
    if not (wheels / "recipe").is_file() or (wheels / "recipe").read_text(encoding="utf-8") != recipe():
        shutil.rmtree(wheels, ignore_errors=True)
        download(downloads)
        build(downloads, wheels)
    print(wheels)
    return 0


if __name__ == "__main__":
    sys.exit(main())
