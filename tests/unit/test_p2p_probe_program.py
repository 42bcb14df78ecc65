# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe's program against a driver played in Python: what it says of data that arrives, and of data that does not."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import time

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import p2p_probe_program as program

from .played_cuda import PlayedCuda

FIRST, SECOND = "0000:0a:00.0", "0000:0a:01.0"


@pytest.fixture
def said(capsys):
    """Function that plays a pair: {stage: (status, detail)}."""

    def play(played):
        program.probe_pair(program.Cuda(played), FIRST, SECOND)
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return {line["stage"]: (line["status"], line["detail"]) for line in lines}

    return play


def test_all_words_arrive(said):
    played = PlayedCuda()
    assert said(played) == {"open": ("ok", ""), "copy": ("ok", ""), "store": ("ok", "")}
    assert sorted(played.destroyed) == sorted(played.contexts)
    assert list(played.contexts.values()) == [0, 1]
    assert not played.waiting


def test_a_word_that_a_copy_spoils_is_found_and_stores_are_still_tried(said):
    found = said(PlayedCuda(spoil_copy=[7]))
    status, detail = found["copy"]
    assert status == "wrong"
    assert detail.startswith("64 KiB: 1 of 16384 words are wrong, first word 7: 0x00000000 instead of 0x")
    assert found["store"] == ("ok", "")


def test_a_word_in_the_larger_buffer_alone_is_found(said):
    assert said(PlayedCuda(spoil_copy=[262143]))["copy"][1].startswith(
        "1024 KiB: 1 of 262144 words are wrong, first word 262143"
    )


def test_a_store_that_is_lost_behind_its_flag_is_found(said):
    found = said(PlayedCuda(lose_store=[5, 6]))
    assert found["copy"] == ("ok", "")
    status, detail = found["store"]
    assert status == "wrong"
    assert "the destination's SMs read 2 of 16384 words wrong, word 5 first" in detail
    assert "2 of 16384 words are wrong, first word 5: 0xa5a5a5a5 instead of 0x" in detail


def test_a_flag_that_never_lands_is_found(said):
    status, detail = said(PlayedCuda(lose_flag=[3]))["store"]
    assert status == "wrong"
    assert "did not see all 16 flags" in detail
    assert "1 of the flags are missing, and all words are right" in detail


def test_no_peer_access_is_no_error(said):
    played = PlayedCuda(peers=False)
    assert said(played) == {"open": ("refused", "the driver offers no peer access from the source to the destination")}
    assert sorted(played.destroyed) == sorted(played.contexts)
    refused = said(PlayedCuda(fails={"cuCtxEnablePeerAccess": 217}))
    assert refused == {"open": ("refused", "cuCtxEnablePeerAccess: CUDA_ERROR_PEER_ACCESS_UNSUPPORTED (217)")}


@pytest.mark.parametrize(
    ("call", "status", "stage", "words"),
    [
        ("cuInit", 101, "open", "cuInit: CUDA_ERROR_INVALID_DEVICE (101)"),
        ("cuCtxCreate_v2", 2, "open", "cuCtxCreate_v2: CUDA_ERROR_OUT_OF_MEMORY (2)"),
        ("cuMemcpyPeer", 719, "copy", "cuMemcpyPeer: CUDA_ERROR_LAUNCH_FAILED (719)"),
        ("cuLaunchKernel", 4711, "store", "cuLaunchKernel: an error that this driver has no name for (4711)"),
    ],
)
def test_an_error_has_cudas_own_name_and_ends_the_pair(said, call, status, stage, words):
    played = PlayedCuda(fails={call: status})
    found = said(played)
    assert found[stage] == ("error", words)
    assert list(found)[-1] == stage
    assert sorted(played.destroyed) == sorted(played.contexts)


def test_the_poll_is_launched_before_the_store_and_nothing_waits_between_them(said):
    played = PlayedCuda()
    said(played)
    first = played.calls.index("cuLaunchKernel")
    second = played.calls.index("cuLaunchKernel", first + 1)
    assert set(played.calls[first + 1 : second]) == {"cuCtxSetCurrent", "cuModuleGetFunction"}


def test_the_gpus_are_listed(capsys):
    program.list_gpus(program.Cuda(PlayedCuda(gpus=2)))
    said = json.loads(capsys.readouterr().out)
    assert said["status"] == "ok"
    assert said["gpus"][1] == {"index": 1, "name": "Played GPU", "pci_address": SECOND}


def test_no_gpu_is_no_error_and_a_broken_driver_is_one(capsys):
    program.list_gpus(program.Cuda(PlayedCuda(gpus=0)))
    assert json.loads(capsys.readouterr().out)["gpus"] == []
    program.list_gpus(program.Cuda(PlayedCuda(fails={"cuInit": 999})))
    assert json.loads(capsys.readouterr().out)["status"] == "error"


def test_every_call_has_a_signature():
    source = inspect.getsource(program)
    called = {name.split('"')[1] for name in source.split("(") if name.startswith('"cu')}
    assert called >= {"cuInit", "cuMemcpyPeer", "cuLaunchKernel"}
    assert called <= set(program.SIGNATURES)


def test_the_kernels_use_the_memory_model_and_only_what_sm_70_has():
    assert "MULTIPLIER" not in program.KERNELS
    for needed in (".version 6.0", ".target sm_70", "st.release.sys.global.u32", "ld.acquire.sys.global.u32"):
        assert needed in program.KERNELS
    assert program.BLOCKS <= program.THREADS


def test_a_probe_does_not_outlive_its_parent():
    """Both sides: a process whose parent is killed, and one that starts when its parent is gone already."""
    source = inspect.getsource(program).replace('if __name__ == "__main__":', "if False:")
    child = "import sys; exec(sys.argv[1]); die_with(int(sys.argv[2])); print(os.getpid(), flush=True); import time; time.sleep(60)"
    parent = (
        "import os, subprocess, sys, time; "
        f"subprocess.Popen([sys.executable, '-c', {child!r}, sys.argv[1], str(os.getpid())]); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", parent, source], stdout=subprocess.PIPE, text=True) as process:
        try:
            pid = int(process.stdout.readline())
        finally:
            process.kill()
    deadline = time.monotonic() + 20
    while is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    orphan = subprocess.run(
        [sys.executable, "-c", child, source, "1"], capture_output=True, text=True, timeout=60, check=False
    )
    assert orphan.returncode == 1
    assert "is gone" in orphan.stderr


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stream:
            return stream.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
