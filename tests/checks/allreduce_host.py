# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host side of the all-reduce library, without a GPU: who frees what when, how long an end takes, and how calls on two streams are ordered.

The CUDA runtime is a STAND-IN (played_cudart.cpp); the library and its Python are real, and so are two processes. No kernel runs here.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import allreduce_compile
from common import CheckFailed, main, run, say, scratch

PROJECT = allreduce_compile.PROJECT
FOLDER = Path(__file__).resolve().parent
SHARED = Path("/dev/shm")  # noqa: S108 - where POSIX shared memory is
SLOT = 65536
PEER, HOST_STAGED = "peer", "host_staged"
STREAM, OTHER = 11, 12  # what the stand-in takes for streams


def check() -> None:
    build = allreduce_compile.builder()
    with scratch("allreduce-host") as folder:
        library = folder / "libplayed.so"
        nvcc = allreduce_compile.compiler(build)
        options = [
            "-std=c++17",
            "-O1",
            "-cudart",
            "none",
            "-shared",
            "-Xcompiler",
            "-fPIC",
            "-gencode=arch=compute_90,code=sm_90",
        ]
        sources = [PROJECT / "csrc" / "pcie_allreduce.cu", FOLDER / "played_cudart.cpp"]
        run([nvcc, *options, "-I", PROJECT / "csrc", "-o", library, *sources, "-lrt", "-lpthread"])
        wrong = [f"{name}: {fault}" for name, fault in everything(str(library)) if fault]
    if wrong:
        raise CheckFailed("\n".join(["", *wrong]))
    say(f"{len(CASES)} properties of the host side")


def everything(library: str):
    """(name, what is wrong or nothing) of each case."""
    for name, (first, second, transport) in CASES.items():
        before = segments()
        faults = [fault for fault in two_processes(library, first, second, transport) if fault]
        if name != "a killed peer does not hold up an end":  # it leaves what it had
            faults += [f"left in {SHARED}: {left}" for left in sorted(segments() - before)]
        for left in segments() - before:
            (SHARED / left).unlink(missing_ok=True)
        say(f"{'FAILED' if faults else 'ok    '}  {name}")
        yield name, "; ".join(faults)


def segments() -> set[str]:
    return {path.name for path in SHARED.iterdir() if path.name.startswith(("pcar-", "played-"))}


def two_processes(library: str, first, second, transport: str) -> list[str]:
    context = multiprocessing.get_context("spawn")
    pipe = context.Pipe()  # between the two, who exchange handles and meet
    answers = [context.Pipe() for _rank in range(2)]
    processes = [
        context.Process(
            target=one_rank, args=(library, rank, act, transport, pipe[rank], answers[rank][1]), daemon=True
        )
        for rank, act in enumerate((first, second))
    ]
    for process, (_ours, theirs) in zip(processes, answers, strict=True):
        process.start()
        theirs.close()  # or nobody would hear that a process is gone
    found = []
    for rank, (ours, _theirs) in enumerate(answers):
        if (first, second)[rank] is dies:
            continue
        found.append(answer_of(rank, ours))
    for process in processes:
        process.join(5)
        if process.is_alive():
            process.kill()
            process.join()
    return found


def answer_of(rank: int, pipe) -> str:
    try:
        return pipe.recv() if pipe.poll(30) else f"rank {rank}: no answer"
    except EOFError:
        return f"rank {rank}: ended without an answer"


class Rank:
    """What a case has of the library, and of the other rank."""

    def __init__(self, library: str, number: int, transport: str, pipe):
        sys.path.insert(0, str(PROJECT))
        from pcie_allreduce import abi

        self.abi, self.number, self.transport, self.pipe = abi, number, transport, pipe
        self.library = abi.Library(library)
        self.played = ctypes.CDLL(library)
        self.played.played_busy.argtypes = [ctypes.c_double]
        self.played.played_capture.argtypes = [ctypes.c_void_p, ctypes.c_ulonglong]
        self.open()

    def open(self) -> None:
        self.workspace = self.abi.Workspace(self.library, self.number, 2, SLOT, self.transport, 0, 5.0)
        mine = self.workspace.handle()
        theirs = self.exchange(mine)
        self.workspace.join([mine, theirs] if self.number == 0 else [theirs, mine])
        self.exchange("joined")

    def exchange(self, mine):
        self.pipe.send(mine)
        return self.pipe.recv()

    def close(self) -> float:
        """Seconds that it took."""
        started = time.monotonic()
        self.workspace.close()
        return time.monotonic() - started

    def call(self, stream: int) -> str:
        """What the stand-in was told, or what the library said of the call."""
        self.told()
        try:
            self.workspace.all_reduce(4096, 8192, 8, "float32", "one_shot", 1, 32, stream)
        except self.abi.LibraryError as error:
            return str(error)
        return self.told()

    def told(self) -> str:
        text = ctypes.create_string_buffer(4096)
        self.played.played_told(text, ctypes.c_size_t(len(text)))
        return "; ".join(text.value.decode().split("\n")[:-1])

    def expect(self, holds: bool, words: str) -> None:
        if not holds:
            raise AssertionError(words)

    def nothing_wrong(self, left: int = 0) -> None:
        self.expect(self.played.played_faults() == 0, "memory was freed while the other process had it open")
        self.expect(
            self.played.played_memory() == left, f"{self.played.played_memory()} pieces of memory, {left} expected"
        )


def one_rank(library: str, number: int, act, transport: str, pipe, answer) -> None:
    try:
        rank = Rank(library, number, transport, pipe)
        act(rank)
        answer.send("")
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        answer.send(f"rank {number}: {type(error).__name__}: {error}")
    os._exit(0)


# --- cases: what each of two ranks does -------------------------------------------------------------------------------------------


def ends(rank: Rank) -> None:
    seconds = rank.close()
    rank.expect(seconds < 0.9, f"{seconds:.2f} s")
    rank.exchange("closed")
    rank.nothing_wrong()


def ends_first(rank: Rank) -> None:
    seconds = rank.close()
    patient = rank.transport == PEER
    rank.expect((0.3 if patient else 0) <= seconds < 0.9, f"{seconds:.2f} s")
    rank.exchange("closed")
    rank.nothing_wrong()


def ends_later(rank: Rank) -> None:
    time.sleep(0.4)
    ends(rank)


def ends_beside_an_open_peer(rank: Rank) -> None:
    seconds = rank.close()
    rank.expect(0.9 < seconds < 2, f"{seconds:.2f} s")
    rank.nothing_wrong(left=1)  # the inbox stays
    rank.exchange("closed")
    for path in segments():  # this process ends without it, as a real one would
        if path.startswith(f"played-{os.getpid()}-"):
            (SHARED / path).unlink()


def stays_open(rank: Rank) -> None:
    rank.exchange("still open")
    rank.close()
    rank.nothing_wrong()


def ends_on_a_busy_gpu(rank: Rank) -> None:
    rank.played.played_busy(6.0)
    seconds = rank.close()
    rank.expect(2.5 < seconds < 4, f"{seconds:.2f} s")
    rank.played.played_busy(0.0)
    time.sleep(4.5)  # then the thread comes to its end
    rank.nothing_wrong()


def ends_beside_a_killed_peer(rank: Rank) -> None:
    rank.exchange("go")
    time.sleep(0.2)
    seconds = rank.close()
    rank.expect(seconds < 2, f"{seconds:.2f} s")
    rank.expect(rank.played.played_faults() == 0, "freed while open")


def dies(rank: Rank) -> None:
    rank.exchange("go")
    os.kill(os.getpid(), signal.SIGKILL)


def churns(rank: Rank) -> None:
    files = len(os.listdir("/proc/self/fd"))
    for _round in range(100):
        rank.close()
        rank.open()
    rank.expect(len(os.listdir("/proc/self/fd")) == files, "files stay open")
    ends(rank)


def probes(rank: Rank) -> None:
    rank.workspace.probe(5.0)
    rank.exchange("probed")
    rank.workspace.reset_status()
    rank.exchange("reset")
    rank.workspace.probe(5.0)  # what the first one left is gone
    rank.exchange("probed")
    ends(rank)


def misses(rank: Rank) -> None:
    started = time.monotonic()
    try:
        rank.workspace.probe(0.5)
    except TimeoutError as error:
        rank.expect(f"stores of rank {1 - rank.number} do not arrive here within 0.5 s" in str(error), str(error))
    else:
        rank.expect(False, "nothing was missed")
    rank.expect(time.monotonic() - started < 2, "late")
    ends(rank)


def is_silent(rank: Rank) -> None:
    rank.played.played_peers(0)
    rank.workspace.probe(0.5)  # the other's stores arrive
    ends(rank)


def is_changed(rank: Rank) -> None:
    try:
        rank.workspace.probe(0.5)
    except ArithmeticError as error:
        rank.expect(str(error) == f"stores of rank {1 - rank.number} arrive changed", str(error))
    else:
        rank.expect(False, "nothing was noticed")
    ends(rank)


def changes(rank: Rank) -> None:
    rank.played.played_peers(2)
    rank.workspace.probe(0.5)
    ends(rank)


def uses_two_streams(rank: Rank) -> None:
    said = [rank.call(stream) for stream in (STREAM, STREAM, OTHER, OTHER, STREAM)]
    ordered = [f"record {one}; wait {two}; launch {two}" for one, two in ((STREAM, OTHER), (OTHER, STREAM))]
    rank.expect(said == [f"launch {STREAM}"] * 2 + [ordered[0], f"launch {OTHER}", ordered[1]], str(said))
    ends(rank)


def captures_two_streams(rank: Rank) -> None:
    rank.call(STREAM)
    rank.played.played_capture(OTHER, 5)
    # An event of outside would spoil the capture.
    rank.expect(rank.call(OTHER) == f"launch {OTHER}", "a capture on another stream")
    rank.played.played_capture(STREAM, 5)
    rank.expect("on two streams of one capture" in rank.call(STREAM), "two streams of one capture")
    rank.played.played_capture(STREAM, 6)
    rank.expect(rank.call(STREAM) == f"launch {STREAM}", "another capture")
    rank.expect("while the stream of the call before is being captured" in rank.call(13), "beside a capture")
    for stream in (STREAM, OTHER):
        rank.played.played_capture(stream, 0)
    rank.expect(rank.call(STREAM) == f"launch {STREAM}", "after the captures")
    ends(rank)


CASES = {
    "two processes that end at once leave nothing": (ends, ends, PEER),
    "the same, host-staged": (ends, ends, HOST_STAGED),
    "an end waits for a peer that closes soon, and frees after it": (ends_first, ends_later, PEER),
    "host-staged it need not": (ends_first, ends_later, HOST_STAGED),
    "memory that a peer keeps open is not freed, and the end does not wait for it": (
        ends_beside_an_open_peer,
        stays_open,
        PEER,
    ),
    "an end does not wait for other work on the GPU": (ends_on_a_busy_gpu, ends_on_a_busy_gpu, PEER),
    "a killed peer does not hold up an end": (ends_beside_a_killed_peer, dies, PEER),
    "a hundred rounds leave nothing": (churns, churns, PEER),
    "a hundred rounds leave nothing, host-staged": (churns, churns, HOST_STAGED),
    "a probe finds that stores arrive, twice": (probes, probes, PEER),
    "a probe names a rank whose stores do not arrive": (misses, is_silent, PEER),
    "a probe names a rank whose stores arrive changed": (is_changed, changes, PEER),
    "calls on two streams are ordered by an event, on one they are not": (uses_two_streams, uses_two_streams, PEER),
    "two streams of one capture are refused, other captures are not": (
        captures_two_streams,
        captures_two_streams,
        PEER,
    ),
}


if __name__ == "__main__":
    main(check)
