"""build_allreduce.yml on a real system, as root: every fault is one clear message, and the tree is afterwards as it was before.

GPUs and compiler are STAND-INS: recorded facts, and a script in the place of nvcc. Interpreter, pip, wheel and playbook are real. Nothing here
says that a kernel compiles or that a sum is right: tests/gpu does. Each fault is a host of its own in the inventory, and all hosts are one
container, so that one run of the playbook meets them all.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest
from fleet import ROOT, Fleet, difference, times

# Behind the scenario's own folders, one of whose files has the name of one here.
sys.path += [str(ROOT / "tests" / name) for name in ("integration", "unit", "checks")]

from common import use_this_collection

use_this_collection()

import played_nvcc  # noqa: E402
from recorded_nodes import facts_of  # noqa: E402

VENV = "/opt/sglang"
PYTHON = f"{VENV}/bin/python"
PACKAGES = f"{VENV}/lib/python3.11/site-packages"
TOOLS = ("pip", "setuptools", "_distutils_hack", "packaging")
SMI = "/usr/local/bin/nvidia-smi"
SHORT = 3  # seconds of a build that hangs


@dataclasses.dataclass
class Case:
    """A host of the inventory; it has the name that fleet.Play asks a node for."""

    suite: str
    vars: dict


def facts(name: str = "rtx-pro-6000-x8-switch", torch: str | None = "2.11.0", **changes) -> dict:
    found = facts_of(name)
    found["software"].update({"interpreter": PYTHON, "torch": torch})
    return found | {"dev_shm_mib": 4096} | changes


def no_p2p() -> dict:
    return facts("rtx-5090-x2-gns")


def nvcc(name: str) -> str:
    return f"/opt/stand-in/{name}"


COMPILERS = {
    "works": ("12.9", played_nvcc.copies("/opt/stand-in/library.so")),
    "old": ("12.4", "exit 0"),
    "fails": ("12.9", "echo 'nvcc fatal   : Cannot find compiler g++ in PATH' >&2; exit 1"),
    "hangs": ("12.9", "sleep 1000 & sleep 1000"),
    "writes-nothing": ("12.9", "exit 0"),
    "killed": ("12.9", f'{played_nvcc.OUTPUT}echo half > "$2"; kill -9 $$'),
    "garbage": ("12.9", f"{played_nvcc.OUTPUT}echo 'no library' > \"$2\""),
}
# What check mode can know is refused there as well.
SEEN_BEFORE = {
    "compiler-absent": ({"custom_allreduce_nvcc": ""}, "nvcc: not found in "),
    "compiler-too-old": ({"custom_allreduce_nvcc": nvcc("old")}, "version 12.4.88 is too old for GPUs of compute capability 12.0; legal: CUDA 12.8"),
    "no-torch": ({"tuning_gpu_facts": facts(torch=None)}, f"interpreter {PYTHON}: has no torch; legal: "),
    "one-gpu": ({"tuning_gpu_facts": facts("one-gpu")}, "GPUs: 1 with a working driver; legal: 2 to 8 in one node"),
    "no-driver": ({"tuning_gpu_facts": {}}, "GPUs: 0 with a working driver; legal: 2 to 8 in one node"),
    "different-sm": (
        {"tuning_gpu_facts": facts("mixed-models", topology={"interconnect": "pcie"})},
        "GPUs of different compute capabilities: 8.9, 9.0; legal: GPUs of one kind.",
    ),
    "no-p2p": (
        {"tuning_gpu_facts": no_p2p(), "custom_allreduce_transport": "peer"},
        "transport peer: the driver offers no P2P between all GPUs (GNS); legal on this node: host_staged.",
    ),
    "state": ({"custom_allreduce_state": "gone"}, "value of custom_allreduce_state must be one of: present, absent, got: gone"),
}  # fmt: skip
SEEN_AT_THE_BUILD = {
    "compiler-fails": ({"custom_allreduce_nvcc": nvcc("fails")}, "Cannot find compiler g++ in PATH. Nothing was installed."),
    "compiler-hangs": (
        {"custom_allreduce_nvcc": nvcc("hangs"), "custom_allreduce_build_timeout": SHORT},
        f"no end within {SHORT} s; it was stopped. Nothing was installed.",
    ),
    "compiler-writes-nothing": ({"custom_allreduce_nvcc": nvcc("writes-nothing")}, "Nothing was installed."),
    "compiler-is-killed": ({"custom_allreduce_nvcc": nvcc("killed")}, "Nothing was installed."),
    "compiler-writes-garbage": ({"custom_allreduce_nvcc": nvcc("garbage")}, "Nothing new stays installed."),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def engine(nodes, tmp_path_factory):
    """An environment for the engine with the tools of a build, and the stand-ins. Bytecode is there, so that no start writes any."""
    (node,) = nodes
    node.sh(f"rm -rf {VENV} /run/as-before; mkdir -p /opt/stand-in; python3 -m venv --without-pip {VENV}")
    _unpack(node, _tools(), PACKAGES)
    node.sh(f"{PYTHON} -m compileall -q {PACKAGES} /usr/lib/python3.11 >/dev/null || true")
    for name, (version, body) in COMPILERS.items():
        node.write(nvcc(name), played_nvcc.script_of(version, body))
    node.sh("chmod 755 /opt/stand-in/*")
    library = tmp_path_factory.mktemp("stand-in") / "library.so"
    subprocess.run(
        ["gcc", f"-DABI={played_nvcc.ABI}", "-o", library, *played_nvcc.GCC],
        input=played_nvcc.LIBRARY,
        text=True,
        check=True,
    )
    node.feed(base64.b64encode(library.read_bytes()).decode(), "sh", "-c", "base64 -d > /opt/stand-in/library.so")
    return node


def _tools() -> bytes:
    packed = io.BytesIO()
    ours = Path(sysconfig.get_path("purelib"))
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for tool in TOOLS:
            for path in [ours / tool, *ours.glob(f"{tool}-*.dist-info")]:
                archive.add(path, path.name, filter=lambda entry: None if "__pycache__" in entry.name else entry)
    return packed.getvalue()


def _unpack(node, data: bytes, folder: str) -> None:
    node.feed(base64.b64encode(data).decode(), "sh", "-c", f"base64 -d | tar -xz --no-same-owner -C {folder}")


@pytest.fixture
def play(engine, tmp_path):
    """play(cases, *options) -> fleet.Play"""

    def run(cases: list[Case], *options: str, rc: int, **extra):
        usual = {
            "ansible_connection": "containers.podman.podman",
            "ansible_host": engine.container,
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_remote_tmp": "/run/ansible",
            "nccl_env_scope": "system",
            "nccl_env_interpreter": PYTHON,
            "custom_allreduce_nvcc": nvcc("works"),
            "tuning_gpu_facts": facts(),
        }
        inventory = tmp_path / "inventory.json"
        hosts = {case.suite: usual | case.vars for case in cases}
        inventory.write_text(json.dumps({"all": {"children": {"gpu_nodes": {"hosts": hosts}}}}))
        return Fleet(cases, inventory, tmp_path).play("build_allreduce", "--forks", "4", *options, rc=rc, **extra)

    return run


def left_in(node) -> list[str]:
    """What a build that ended badly could leave: a scratch folder, a compiler that still runs."""
    running = node.sh("grep -lz stand-in /proc/[0-9]*/cmdline 2>/dev/null || true").splitlines()
    return node.sh("ls /tmp").splitlines() + [path for path in running if "self" not in path]


def refused_and_untouched(node, play, faults: dict, *options: str, beside: tuple = ()):
    """Play the faults, and hosts ``beside`` them that are not refused, at once; none may write anything."""
    cases = [Case(name, changes) for name, (changes, _words) in faults.items()]
    before, scratch = times(node), left_in(node)
    played = play([*cases, *beside], *options, rc=2)
    assert difference(before, times(node)) == []
    assert left_in(node) == scratch
    for case in cases:
        said = played.message(case)
        assert faults[case.suite][1] in said, f"{case.suite}: {said}"
        assert "legal" in said.lower() or case.suite == "state", f"{case.suite} names no way on: {said}"
    return played


def test_check_mode_refuses_what_can_be_known_and_writes_nothing(engine, play, count):
    """Remarks do not refuse: GPUs that do not reach each other go through the host's memory, and expandable_segments does no harm."""
    environment = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    staged = Case("staged", {"tuning_gpu_facts": no_p2p(), "nccl_env_service_environment": environment})
    played = refused_and_untouched(engine, play, SEEN_BEFORE, "--check", "--diff", beside=(staged,))
    assert "staged: built, because nothing is installed" in played.stdout
    assert "staged: the driver offers no P2P (GNS): data goes through the host's memory" in played.stdout
    assert "staged: PYTORCH_CUDA_ALLOC_CONF has expandable_segments on: no harm to this kernel" in played.stdout
    count("faults refused", len(SEEN_BEFORE))


def test_a_compiler_that_fails_leaves_nothing_half_installed(engine, play, count):
    refused_and_untouched(engine, play, SEEN_AT_THE_BUILD)
    count("faults refused", len(SEEN_AT_THE_BUILD))


def test_an_installed_build_survives_faults_and_absent_removes_every_trace(engine, play):
    engine.sh(f"cp -a {VENV} /run/as-before")
    case = Case("a", {})
    engine.write(SMI, "#!/bin/sh\necho '77, 70000, /opt/engine'\n")
    engine.sh(f"chmod 755 {SMI}")
    busy = play([case], rc=2)
    assert busy.message(case).startswith(
        "GPUs: in use by process 77 (/opt/engine) with 70000 MiB; legal: GPUs that nothing else uses"
    )
    assert "\na: compiles for SM 12.0 with /opt/stand-in/works" in busy.stdout
    engine.sh(f"rm {SMI}")
    unproved = play([case], rc=2)  # this environment has no torch, whatever the recorded facts say
    assert "transport peer: not proved on this node: " in unproved.message(case)
    assert "It is installed and off." in unproved.message(case)
    installed = times(engine)
    assert [line for line in installed if f"{PACKAGES[1:]}/pcie_allreduce/stamp.json" in line]

    worse = {name: fault for name, fault in SEEN_AT_THE_BUILD.items() if name in ("compiler-fails", "compiler-hangs")}
    again = {
        name: ({**changes, "tuning_gpu_facts": facts(torch="2.12.0")}, words)
        for name, (changes, words) in worse.items()
    }
    refused_and_untouched(engine, play, again)

    looked = play([case], "--check", "--diff", rc=0, state="absent")
    assert "a: custom all-reduce removed" in looked.stdout
    assert difference(installed, times(engine)) == []
    removed = play([case], rc=0, state="absent")
    assert removed.changed(case) == 1
    assert (
        engine.sh(
            f"diff -r {VENV} /run/as-before; find / -xdev -name '*pcie*allreduce*' -not -path '/proc/*' -not -path '/run/*'"
        )
        == ""
    )
    gone = times(engine)
    again = play([case], rc=0, custom_allreduce_state="absent")  # the long name is the same
    assert again.changed(case) == 0
    assert difference(gone, times(engine)) == []
