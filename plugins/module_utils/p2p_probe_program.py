# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that a process of its own runs (``-c``, as source text) to move data from one GPU to another and to check every word.

It needs nothing but the standard library and libcuda.so.1. Its one argument is a JSON request: ``parent`` (process id), and for a pair
``source`` and ``destination`` (PCI addresses); without a pair it lists the GPUs. It prints one JSON line as each stage ends, so that
the parent knows which one never did: ``{stage, status, detail}``.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import json
import os
import signal
import sys

LIBRARY = "libcuda.so.1"
SIZES = (64 * 1024, 1024 * 1024)
WORD = 4
BLOCKS, THREADS = 16, 256  # of the storing kernel; every block raises a flag of its own
ROUNDS = 4000000  # reads of a flag before the polling kernel gives up, so that it ends by itself
POISON = 0xA5A5A5A5  # what the destination holds before: a store that is lost leaves it
COPY_SEED, STORE_SEED = 0x13579BDF, 0x2468ACE1
MULTIPLIER = 0x9E3779B1  # odd, so that no two words of a pattern are equal
NOT_SEEN = 0xFFFFFFFF
WAIT_WITHOUT_SPINNING = 4  # CU_CTX_SCHED_BLOCKING_SYNC
PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG

# Each block stores its share through the peer mapping, then one thread says so: the barrier and the release make the stores of the whole
# block visible before the flag. The other side pairs it with acquire, a barrier, and plain loads, as all-reduce kernels do.
KERNELS = """
.version 6.0
.target sm_70
.address_size 64

.visible .entry store_words(
    .param .u64 words, .param .u64 flags, .param .u32 count, .param .u32 seed, .param .u32 token)
{
    .reg .pred %p<3>;
    .reg .b32 %r<11>;
    .reg .b64 %d<7>;

    ld.param.u64 %d1, [words];
    ld.param.u64 %d2, [flags];
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    ld.param.u32 %r1, [count];
    ld.param.u32 %r2, [seed];
    ld.param.u32 %r3, [token];
    mov.u32 %r4, %ctaid.x;
    mov.u32 %r5, %ntid.x;
    mov.u32 %r6, %tid.x;
    mov.u32 %r7, %nctaid.x;
    mad.lo.u32 %r8, %r4, %r5, %r6;
    mul.lo.u32 %r9, %r5, %r7;
NEXT_WORD:
    setp.ge.u32 %p1, %r8, %r1;
    @%p1 bra ALL_STORED;
    mad.lo.u32 %r10, %r8, MULTIPLIER, %r2;
    mul.wide.u32 %d3, %r8, 4;
    add.u64 %d4, %d1, %d3;
    st.global.u32 [%d4], %r10;
    add.u32 %r8, %r8, %r9;
    bra NEXT_WORD;
ALL_STORED:
    bar.sync 0;
    setp.ne.u32 %p2, %r6, 0;
    @%p2 bra DONE;
    mul.wide.u32 %d5, %r4, 4;
    add.u64 %d6, %d2, %d5;
    st.release.sys.global.u32 [%d6], %r3;
DONE:
    ret;
}

.visible .entry poll_words(
    .param .u64 words, .param .u64 flags, .param .u64 result, .param .u32 blocks,
    .param .u32 count, .param .u32 seed, .param .u32 token, .param .u32 rounds)
{
    .reg .pred %p<7>;
    .reg .b32 %r<12>;
    .reg .b64 %d<8>;

    ld.param.u64 %d1, [words];
    ld.param.u64 %d2, [flags];
    ld.param.u64 %d3, [result];
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    cvta.to.global.u64 %d3, %d3;
    ld.param.u32 %r1, [blocks];
    ld.param.u32 %r2, [count];
    ld.param.u32 %r3, [seed];
    ld.param.u32 %r4, [token];
    ld.param.u32 %r5, [rounds];
    mov.u32 %r6, %tid.x;
    mov.u32 %r7, %ntid.x;
    setp.ge.u32 %p1, %r6, %r1;
    @%p1 bra POLLED;
    mul.wide.u32 %d4, %r6, 4;
    add.u64 %d5, %d2, %d4;
POLL:
    ld.acquire.sys.global.u32 %r8, [%d5];
    setp.eq.u32 %p1, %r8, %r4;
    @%p1 bra POLLED;
    sub.u32 %r5, %r5, 1;
    setp.ne.u32 %p2, %r5, 0;
    @%p2 bra POLL;
POLLED:
    bar.red.and.pred %p3, 0, %p1;
    @!%p3 bra FINISHED;
    setp.ne.u32 %p4, %r6, 0;
    @%p4 bra NEXT_WORD;
    st.global.u32 [%d3], 1;
NEXT_WORD:
    setp.ge.u32 %p5, %r6, %r2;
    @%p5 bra FINISHED;
    mad.lo.u32 %r9, %r6, MULTIPLIER, %r3;
    mul.wide.u32 %d6, %r6, 4;
    add.u64 %d7, %d1, %d6;
    ld.global.u32 %r10, [%d7];
    setp.eq.u32 %p6, %r9, %r10;
    @%p6 bra RIGHT;
    red.global.add.u32 [%d3+4], 1;
    red.global.min.u32 [%d3+8], %r6;
RIGHT:
    add.u32 %r6, %r6, %r7;
    bra NEXT_WORD;
FINISHED:
    ret;
}
""".replace("MULTIPLIER", str(MULTIPLIER))

INT, UINT, SIZE, POINTER, TEXT = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p
ADDRESS = ctypes.c_uint64  # CUdeviceptr
SIGNATURES = {
    "cuInit": (UINT,),
    "cuGetErrorName": (INT, POINTER),
    "cuDeviceGetCount": (POINTER,),
    "cuDeviceGet": (POINTER, INT),
    "cuDeviceGetName": (POINTER, INT, INT),
    "cuDeviceGetPCIBusId": (POINTER, INT, INT),
    "cuDeviceGetByPCIBusId": (POINTER, TEXT),
    "cuDeviceCanAccessPeer": (POINTER, INT, INT),
    "cuCtxCreate_v2": (POINTER, UINT, INT),
    "cuCtxDestroy_v2": (POINTER,),
    "cuCtxSetCurrent": (POINTER,),
    "cuCtxSynchronize": (),
    "cuCtxEnablePeerAccess": (POINTER, UINT),
    "cuMemAlloc_v2": (POINTER, SIZE),
    "cuMemsetD32_v2": (ADDRESS, UINT, SIZE),
    "cuMemcpyHtoD_v2": (ADDRESS, POINTER, SIZE),
    "cuMemcpyDtoH_v2": (POINTER, ADDRESS, SIZE),
    "cuMemcpyPeer": (ADDRESS, POINTER, ADDRESS, POINTER, SIZE),
    "cuModuleLoadData": (POINTER, TEXT),
    "cuModuleGetFunction": (POINTER, POINTER, TEXT),
    "cuLaunchKernel": (POINTER, *(UINT,) * 7, POINTER, POINTER, POINTER),
}


class Unavailable(Exception):
    """Why the driver's library cannot be used."""


class PeerRefused(Exception):
    """The driver offers no peer access for this pair."""


class CudaError(Exception):
    """A call that failed, with CUDA's own name for the reason."""

    def __init__(self, call: str, name: str, status: int):
        super().__init__(f"{call}: {name} ({status})")
        self.name = name


class Cuda:
    """The functions of a library, each checked: ``cuda("cuInit", 0)`` raises CudaError where it fails."""

    def __init__(self, library):
        self.library = library

    def __call__(self, call: str, *arguments) -> None:
        status = getattr(self.library, call)(*arguments)
        if status != 0:
            raise CudaError(call, self._name(status), status)

    def _name(self, status: int) -> str:
        name = TEXT()
        if self.library.cuGetErrorName(status, ctypes.byref(name)) != 0 or not name.value:
            return "an error that this driver has no name for"
        return name.value.decode("ascii", "replace")


class Side:
    """One GPU of a pair: a context, the kernels in it, and a buffer. ``opened`` destroys the context at its end."""

    def __init__(self, cuda: Cuda, address: str, opened: contextlib.ExitStack):
        self.cuda = cuda
        device = INT()
        cuda("cuDeviceGetByPCIBusId", ctypes.byref(device), address.encode("ascii", "replace"))
        self.device = device.value
        self.context = POINTER()
        cuda("cuCtxCreate_v2", ctypes.byref(self.context), WAIT_WITHOUT_SPINNING, self.device)
        # Unchecked: where a stage has failed, this repeats its error.
        opened.callback(cuda.library.cuCtxDestroy_v2, self.context)
        self.module = POINTER()
        cuda("cuModuleLoadData", ctypes.byref(self.module), KERNELS.encode("ascii"))
        self.buffer = self.allocate(max(SIZES))

    def allocate(self, size: int) -> int:
        address = ADDRESS()
        self.call("cuMemAlloc_v2", ctypes.byref(address), size)
        return address.value

    def call(self, name: str, *arguments) -> None:
        self.cuda("cuCtxSetCurrent", self.context)
        self.cuda(name, *arguments)

    def fill(self, address: int, size: int, value: int) -> None:
        self.call("cuMemsetD32_v2", address, value, size // WORD)

    def write(self, address: int, words: array.array) -> None:
        self.call("cuMemcpyHtoD_v2", address, words.buffer_info()[0], len(words) * WORD)

    def read(self, address: int, size: int) -> array.array:
        words = array.array("I", bytes(size))
        self.call("cuMemcpyDtoH_v2", words.buffer_info()[0], address, size)
        return words

    def enable(self, peer: Side) -> None:
        possible = INT()
        self.cuda("cuDeviceCanAccessPeer", ctypes.byref(possible), self.device, peer.device)
        if not possible.value:
            raise PeerRefused("the driver offers no peer access from the source to the destination")
        try:
            self.call("cuCtxEnablePeerAccess", peer.context, 0)
        except CudaError as error:
            if error.name != "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED":
                raise
            raise PeerRefused(str(error)) from error

    def launch(self, kernel: str, blocks: int, arguments: list) -> None:
        function = POINTER()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, kernel.encode("ascii"))
        pointers = (POINTER * len(arguments))(*[ctypes.addressof(argument) for argument in arguments])
        self.call("cuLaunchKernel", function, blocks, 1, 1, THREADS, 1, 1, 0, None, pointers, None)

    def synchronize(self) -> None:
        self.call("cuCtxSynchronize")


def copy_stage(source: Side, destination: Side) -> str:
    """What was wrong with the copies; nothing when every word arrived."""
    for size in SIZES:
        expected = pattern(size, COPY_SEED)
        source.write(source.buffer, expected)
        destination.fill(destination.buffer, size, POISON)
        source.synchronize()
        destination.synchronize()
        source.call("cuMemcpyPeer", destination.buffer, destination.context, source.buffer, source.context, size)
        source.synchronize()
        wrong = differences(expected, destination.read(destination.buffer, size))
        if wrong:
            return f"{size // 1024} KiB: {wrong}"
    return ""


def store_stage(source: Side, destination: Side) -> str:
    """What was wrong with the stores; nothing when every flag came and every word was there behind it."""
    flags, result = destination.allocate(BLOCKS * WORD), destination.allocate(3 * WORD)
    for token, size in enumerate(SIZES, start=1):
        destination.fill(destination.buffer, size, POISON)
        destination.fill(flags, BLOCKS * WORD, 0)
        destination.write(result, array.array("I", [0, 0, NOT_SEEN]))
        # What the other context is about to store must not be overtaken by these.
        destination.synchronize()
        words, flag = ADDRESS(destination.buffer), ADDRESS(flags)
        count, seed = UINT(size // WORD), UINT(STORE_SEED)
        poll = [words, flag, ADDRESS(result), UINT(BLOCKS), count, seed, UINT(token), UINT(ROUNDS)]
        destination.launch("poll_words", 1, poll)
        source.launch("store_words", BLOCKS, [words, flag, count, seed, UINT(token)])
        source.synchronize()
        destination.synchronize()
        wrong = store_verdict(destination, (flags, result), size, token)
        if wrong:
            return f"{size // 1024} KiB: {wrong}"
    return ""


def store_verdict(destination: Side, addresses: tuple, size: int, token: int) -> str:
    flags, result = addresses
    all_seen, wrong, first = destination.read(result, 3 * WORD)
    if all_seen and not wrong:
        return ""
    by_host = (
        differences(pattern(size, STORE_SEED), destination.read(destination.buffer, size)) or "all words are right"
    )
    if all_seen:
        return (
            f"behind the flags, the destination's SMs read {wrong} of {size // WORD} words wrong, word {first} first; "
            f"read by the host afterwards, {by_host}"
        )
    lost = sum(flag != token for flag in destination.read(flags, BLOCKS * WORD))
    return (
        f"the destination's SMs did not see all {BLOCKS} flags within {ROUNDS} reads; "
        f"read by the host afterwards, {lost} of the flags are missing, and {by_host}"
    )


def pattern(size: int, seed: int) -> array.array:
    return array.array("I", [(index * MULTIPLIER + seed) & 0xFFFFFFFF for index in range(size // WORD)])


def differences(expected: array.array, found: array.array) -> str:
    """``N of M words are wrong ...``, or nothing."""
    if expected == found:
        return ""
    wrong = [index for index, pair in enumerate(zip(expected, found)) if pair[0] != pair[1]]
    first = wrong[0]
    return (
        f"{len(wrong)} of {len(expected)} words are wrong, first word {first}: "
        f"{found[first]:#010x} instead of {expected[first]:#010x}"
    )


def list_gpus(cuda: Cuda) -> None:
    try:
        cuda("cuInit", 0)
        count = INT()
        cuda("cuDeviceGetCount", ctypes.byref(count))
        gpus = [gpu(cuda, index) for index in range(count.value)]
    except CudaError as error:
        if error.name != "CUDA_ERROR_NO_DEVICE":
            report("list", "error", str(error))
            return
        gpus = []
    report("list", "ok", gpus=gpus)


def gpu(cuda: Cuda, index: int) -> dict:
    device = INT()
    cuda("cuDeviceGet", ctypes.byref(device), index)
    name, address = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
    cuda("cuDeviceGetName", name, len(name), device.value)
    cuda("cuDeviceGetPCIBusId", address, len(address), device.value)
    return {
        "index": index,
        "name": name.value.decode("utf-8", "replace"),
        "pci_address": address.value.decode("ascii", "replace").lower(),
    }


def probe_pair(cuda: Cuda, source_address: str, destination_address: str) -> None:
    with contextlib.ExitStack() as opened:
        try:
            cuda("cuInit", 0)
            source = Side(cuda, source_address, opened)
            destination = Side(cuda, destination_address, opened)
            source.enable(destination)
        except PeerRefused as error:
            report("open", "refused", str(error))
        except CudaError as error:
            report("open", "error", str(error))
        else:
            report("open", "ok")
            run_stages(source, destination)


def run_stages(source: Side, destination: Side) -> None:
    for stage, move in (("copy", copy_stage), ("store", store_stage)):
        try:
            wrong = move(source, destination)
        except CudaError as error:
            report(stage, "error", str(error))
            return  # a context that has failed once fails at every further call
        report(stage, "wrong" if wrong else "ok", wrong)


def report(stage: str, status: str, detail: str = "", **more) -> None:
    sys.stdout.write(json.dumps(dict(more, stage=stage, status=status, detail=detail)) + "\n")
    sys.stdout.flush()


def load():
    """The driver's library with the types of what is called. Raises Unavailable."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise Unavailable(f"{LIBRARY}: cannot be loaded: {error}") from error
    for name, types in SIGNATURES.items():
        try:
            function = getattr(library, name)
        except AttributeError as error:
            raise Unavailable(f"{LIBRARY}: has no function {name}") from error
        function.argtypes, function.restype = types, INT
    return library


def die_with(parent: int) -> None:
    """A probe must not outlive the one who holds its time limit, not even where that one is killed."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit("the process that started this probe is gone")


def main() -> None:
    request = json.loads(sys.argv[1])
    die_with(request["parent"])
    try:
        cuda = Cuda(load())
    except Unavailable as error:
        report("list", "unavailable", str(error))
        return
    if "source" in request:
        probe_pair(cuda, request["source"], request["destination"])
    else:
        list_gpus(cuda)


if __name__ == "__main__":
    main()
