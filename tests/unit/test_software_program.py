# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions that an interpreter would use: asked of real interpreters, with packages and libraries that stand in for the large ones."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import software_program
from ansible_collections.gpu_node.tuning.plugins.module_utils.gpu_facts import gather
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter, Service
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import Sources

from .interpreters import PATIENCE, every_interpreter
from .recorded_nodes import write

NEEDS_COMPILER = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) to make a libnccl.so.2 with")
NCCL = "int ncclGetVersion(int *version) { *version = %d; return 0; }"
USES_NCCL = "int ncclGetVersion(int *); int use(int *version) { return ncclGetVersion(version); }"


def install(site, name, version, folder=None, code=""):
    write(
        site / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA",
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    )
    if folder:
        write(site / folder / "__init__.py", code)


def compile_library(path, source, *options):
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", path, *options]
    subprocess.run(command, input=source.encode(), check=True, capture_output=True)


def nccl_of_a_wheel(site, code=22809):
    library = site / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    compile_library(library, NCCL % code, "-Wl,-soname,libnccl.so.2")
    return library


def torch_with_cuda(site, nccl, *options):
    install(site, "torch", "2.11.0", "torch", "raise SystemExit('torch was imported')")
    options = ("-Wl,--no-as-needed", nccl, "-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib", *options)
    compile_library(site / "torch" / "lib" / "libtorch_cuda.so", USES_NCCL, *options)


def software(site, **environment):
    return Interpreter(sys.executable, Service({"PYTHONPATH": str(site), **environment}, None), PATIENCE).software()


def reasons(answer):
    return {entry["source"]: entry["reason"] for entry in answer["missing"]}


def test_versions_without_an_import(tmp_path):
    for name, version, folder in (
        ("torch", "2.11.0+cu130", "torch"),
        ("sglang", "0.5.11", "sglang"),
        ("flashinfer-python", "0.6.1", "flashinfer"),
    ):
        install(tmp_path, name, version, folder, "raise SystemExit('it was imported')")
    answer = software(tmp_path)
    assert (answer["torch"], answer["sglang"], answer["flashinfer"]) == ("2.11.0+cu130", "0.5.11", "0.6.1")
    assert answer["nccl"] is answer["nccl_library"] is None
    assert reasons(answer)["nccl"] == f"the torch in {tmp_path}/torch has no CUDA part"


def test_no_package_at_all(tmp_path):
    answer = software(tmp_path)
    assert (answer["torch"], answer["sglang"], answer["flashinfer"], answer["nccl"]) == (None, None, None, None)
    assert {"torch", "sglang", "flashinfer", "nccl"} <= reasons(answer).keys()
    assert (
        reasons(answer)["flashinfer"]
        == f"no distribution flashinfer-python or flashinfer is installed for {sys.executable}"
    )


def test_broken_metadata(tmp_path):
    write(tmp_path / "torch-2.11.0.dist-info" / "METADATA", "\x00")
    assert "torch" in reasons(software(tmp_path))


@NEEDS_COMPILER
def test_nccl_of_the_wheel_beside_torch(tmp_path):
    library = nccl_of_a_wheel(tmp_path)
    torch_with_cuda(tmp_path, library)
    answer = software(tmp_path)
    assert (answer["nccl"], answer["nccl_library"]) == ("2.28.9", str(library))
    assert "nccl" not in reasons(answer)


@NEEDS_COMPILER
@pytest.mark.parametrize(("tags", "expected"), [("--enable-new-dtags", "2.21.5"), ("--disable-new-dtags", "2.28.9")])
def test_the_loader_decides_whether_the_environment_or_torch_wins(tmp_path, tags, expected):
    """LD_LIBRARY_PATH wins over a RUNPATH and loses against an RPATH, which torch's own wheels have."""
    site = tmp_path / "site"
    torch_with_cuda(site, nccl_of_a_wheel(site), f"-Wl,{tags}")
    compile_library(tmp_path / "other" / "libnccl.so.2", NCCL % 22105, "-Wl,-soname,libnccl.so.2")
    assert software(site, LD_LIBRARY_PATH=str(tmp_path / "other"))["nccl"] == expected


@NEEDS_COMPILER
def test_a_preloaded_nccl(tmp_path):
    site, other = tmp_path / "site", tmp_path / "other" / "libnccl.so.2.27"
    torch_with_cuda(site, nccl_of_a_wheel(site), "-Wl,--disable-new-dtags")
    compile_library(other, NCCL % 22703, "-Wl,-soname,libnccl.so.2")
    answer = software(site, LD_PRELOAD=str(other))
    assert (answer["nccl"], answer["nccl_library"]) == ("2.27.3", str(other))


@NEEDS_COMPILER
def test_an_nccl_that_ends_its_process(tmp_path):
    library = tmp_path / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    compile_library(library, "#include <stdlib.h>\nint ncclGetVersion(int *v) { abort(); }", "-Wl,-soname,libnccl.so.2")
    torch_with_cuda(tmp_path, library)
    assert reasons(software(tmp_path))["nccl"].startswith("no distribution nvidia-nccl-cu13 or ")
    install(tmp_path, "nvidia-nccl-cu12", "2.26.2")
    assert software(tmp_path)["nccl"] == "2.26.2"


def test_a_wheel_whose_library_cannot_be_loaded_says_its_version_itself(tmp_path):
    install(tmp_path, "torch", "2.11.0", "torch")
    write(tmp_path / "torch" / "lib" / "libtorch_cuda.so", "no library")
    write(tmp_path / "nvidia" / "nccl" / "lib" / "libnccl.so.2", "no library either")
    install(tmp_path, "nvidia-nccl-cu13", "2.28.9")
    answer = software(tmp_path)
    assert (answer["nccl"], answer["nccl_library"]) == ("2.28.9", f"{tmp_path}/nvidia/nccl/lib/libnccl.so.2")


@NEEDS_COMPILER
def test_a_torch_with_nccl_built_in(tmp_path):
    install(tmp_path, "torch", "2.1.0", "torch")
    compile_library(tmp_path / "torch" / "lib" / "libtorch_cuda.so", NCCL % 21805)
    assert "it may have it built in" in reasons(software(tmp_path))["nccl"]


def nvcc(folder, version):
    program = folder / "bin" / "nvcc"
    write(program, f"#!/bin/sh\necho 'Cuda compilation tools, release {version[:4]}, V{version}'\n")
    program.chmod(0o755)
    return folder


def test_nvcc(tmp_path):
    one, other = nvcc(tmp_path / "one", "12.9.86"), nvcc(tmp_path / "other", "13.0.88")
    assert software(tmp_path, CUDA_HOME=str(one), PATH=f"{other}/bin")["cuda_toolkit"] == "12.9.86"
    assert software(tmp_path, CUDA_HOME=str(tmp_path), CUDA_PATH=str(other))["cuda_toolkit"] == "13.0.88"
    assert software(tmp_path, PATH=f"{other}/bin")["cuda_toolkit"] == "13.0.88"
    write(one / "bin" / "nvcc", "#!/bin/sh\necho release\n")
    answer = software(tmp_path, CUDA_HOME=str(one))
    assert answer["cuda_toolkit"] is None
    assert reasons(answer)["cuda_toolkit"] == f"{one}/bin/nvcc does not tell its version"


@pytest.mark.parametrize(
    ("code", "version"), [(22809, "2.28.9"), (21000, "2.10.0"), (2804, "2.8.4"), (20905, "2.9.5"), (23203, "2.32.3")]
)
def test_nccl_number(code, version):
    assert software_program.nccl_number(code) == version


def test_a_program_that_hangs_costs_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(software_program, "LIMIT", 0.2)
    assert software_program.run(["/bin/sleep", "600"]) == ""
    assert software_program.run([str(tmp_path / "nowhere")]) == ""


def test_the_facts_have_what_the_interpreter_says(tmp_path):
    install(tmp_path, "sglang", "0.5.11")
    interpreter = Interpreter(sys.executable, Service({"PYTHONPATH": str(tmp_path)}, None), PATIENCE)
    facts = gather(Sources(str(tmp_path)), interpreter, PATIENCE)
    assert facts["software"]["interpreter"] == sys.executable
    assert facts["software"]["sglang"] == "0.5.11"
    assert "missing" not in facts["software"]
    assert {"torch", "nccl"} <= {entry["source"] for entry in facts["missing"]}


def test_an_interpreter_that_gives_no_answer(tmp_path):
    false = Interpreter("/bin/false", Service({}, None), PATIENCE)
    facts = gather(Sources(str(tmp_path)), false, PATIENCE)
    assert facts["software"] == {**dict.fromkeys(facts["software"]), "interpreter": "/bin/false"}
    assert facts["missing"][-1]["source"] == "interpreter"
    assert "not a Python interpreter" in facts["missing"][-1]["reason"]


@every_interpreter
def test_it_runs_on_every_supported_python(tmp_path, python):
    install(tmp_path, "sglang", "0.5.11")
    answer = Interpreter(python.executable, Service({"PYTHONPATH": str(tmp_path)}, None), PATIENCE).software()
    assert answer["sglang"] == "0.5.11"
