# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The all-reduce library and the tests' own kernels behind Python: built for this machine, one Rank object a rank."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
from ctypes import byref, c_char_p, c_double, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from pathlib import Path

from allreduce_reference import SIZE
from cuda_driver import Device, Driver, Graph, Stream

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "roles/custom_allreduce/files/pcie_allreduce"
HELPER = ROOT / "tests/gpu/allreduce_helper.cu"

ONE_SHOT, TWO_SHOT, PULL, ISLANDS = 0, 1, 2, 3

PEER, HOST_STAGED = 0, 1
TRANSPORTS = {PEER: "peer memory", HOST_STAGED: "host-staged"}
WATCHDOG = -9
GUARDS = 64  # bytes behind the longest tensor; the helper looks at half of them


def algorithms(world: int) -> dict[int, str]:
    names = {ONE_SHOT: "one-shot", TWO_SHOT: "two-shot", PULL: "one-shot pull"}
    return names | {ISLANDS: "islands"} if world == 8 else names


class Refused(Exception):
    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(f"{sentence} ({code})")
        self.code = code


def build_all(folder: Path, sms: list[str], nvcc: str | None) -> tuple[Path, Path]:
    """The library and the helper, compiled for these GPUs."""
    spec = importlib.util.spec_from_file_location("pcie_allreduce_build", PROJECT / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    compiler = build.find_nvcc(nvcc)
    library, helper = folder / "libpcie_allreduce.so", folder / "liballreduce_helper.so"
    build.build(compiler, sms, str(library))
    command = build.command(compiler, sms, str(helper), source=str(HELPER))
    subprocess.run([word.replace(",-fvisibility=hidden", "") for word in command], check=True)
    return library, helper


class Library:
    def __init__(self, path: Path, helper: Path) -> None:
        self.door = ctypes.CDLL(str(path))
        self.helper = ctypes.CDLL(str(helper))
        self.door.pcar_last_error.restype = c_char_p
        self.door.pcar_handle_bytes.restype = c_size_t
        pointers, numbers = [c_void_p] * 3, [c_size_t, *[c_int] * 4]
        self.door.pcar_create.argtypes = [c_void_p, c_int, c_int, c_size_t, c_int, c_int, c_double]
        self.door.pcar_all_reduce.argtypes = [*pointers, *numbers, c_void_p]
        for name in ("export", "import"):
            getattr(self.door, f"pcar_{name}").argtypes = [c_void_p, c_void_p]
        self.door.pcar_probe.argtypes = [c_void_p, c_double, c_void_p, c_void_p]
        self.door.pcar_max_bytes.argtypes = [c_void_p, c_int, c_void_p]
        self.door.pcar_status.argtypes = [c_void_p] * 4
        for name in ("reset_status", "destroy"):
            getattr(self.door, f"pcar_{name}").argtypes = [c_void_p]
        self.helper.helper_fill.argtypes = [c_int, c_void_p, c_void_p, c_size_t, c_int, c_uint, c_void_p, c_void_p]
        self.helper.helper_look.argtypes = [c_int, c_void_p, c_size_t, c_int, c_uint, c_void_p, c_void_p]
        self.helper.helper_wait.argtypes = [c_int, c_uint, c_uint, c_void_p, c_void_p]

    def call(self, name: str, *arguments) -> None:
        if code := getattr(self.door, f"pcar_{name}")(*arguments):
            raise Refused(code, self.door.pcar_last_error().decode())

    def help(self, name: str, *arguments) -> None:
        if code := getattr(self.helper, f"helper_{name}")(*arguments):
            raise Refused(code, f"helper_{name} failed")


class Communicator:
    def __init__(
        self, library: Library, rank: int, world: int, slot: int, transport: int, device: int, watchdog: float
    ) -> None:
        self.library, self.rank = library, rank
        self.handle = c_void_p()
        library.call("create", byref(self.handle), rank, world, slot, transport, device, watchdog)

    def exported(self) -> bytes:
        blob = ctypes.create_string_buffer(self.library.door.pcar_handle_bytes())
        self.library.call("export", self.handle, blob)
        return blob.raw

    def connect(self, blobs: list[bytes]) -> None:
        self.library.call("import", self.handle, b"".join(blobs))

    def probe(self, seconds: float) -> tuple[int, int]:
        """Bits of the ranks whose stores do not arrive, and of those whose stores arrive changed."""
        missing, wrong = c_uint(), c_uint()
        self.library.call("probe", self.handle, seconds, byref(missing), byref(wrong))
        return missing.value, wrong.value

    def most(self, algorithm: int) -> int:
        found = c_size_t()
        self.library.call("max_bytes", self.handle, algorithm, byref(found))
        return found.value

    def status(self) -> tuple[int, int, int]:
        code, peer, epoch = c_int(), c_int(), c_ulonglong()
        self.library.call("status", self.handle, byref(code), byref(peer), byref(epoch))
        return code.value, peer.value, epoch.value

    def reset(self) -> None:
        self.library.call("reset_status", self.handle)

    def destroy(self) -> None:
        self.library.call("destroy", self.handle)
        self.handle = c_void_p()


class Rank:
    """One rank on one GPU with a stream, an input, an output, and the counters of the tests' kernels."""

    def __init__(self, library: Library, driver: Driver, rank: int, world: int, device: int, most: int) -> None:
        self.library, self.rank, self.world = library, rank, world
        library.help("load", device)
        self.device = Device(driver, device)
        self.stream = Stream(self.device)
        self.input, self.output = self.device.allocate(most + GUARDS), self.device.allocate(most + GUARDS)
        self.counts = self.device.allocate(64)
        self.communicator: Communicator | None = None

    def join(self, slot: int, transport: int, watchdog: float) -> bytes:
        self.communicator = Communicator(
            self.library, self.rank, self.world, slot, transport, self.device.ordinal, watchdog
        )
        return self.communicator.exported()

    def use(self, stream: Stream) -> Stream:
        """Work goes onto this stream from now on; the one that it went onto before."""
        before, self.stream = self.stream, stream
        return before

    def reduce(self, count: int, dtype: int, algorithm: int, grid=(0, 0), in_place: bool = False) -> None:
        output = self.input if in_place else self.output
        self.library.call(
            "all_reduce",
            self.communicator.handle,
            self.input,
            output,
            count,
            dtype,
            algorithm,
            *grid,
            self.stream.handle,
        )

    def checked(
        self, count: int, dtype: int, algorithm: int, grid=(0, 0), in_place: bool = False, delay: int = 0
    ) -> None:
        """A call with an input of its own, whose output is compared on the GPU, with what lies behind its end."""
        here, stream = self.device.ordinal, self.stream.handle
        output = self.input if in_place else self.output
        self.library.help("fill", here, self.input, output, count, dtype, self.rank, self.counts, stream)
        if delay:
            self.library.help("wait", here, self.rank, delay, self.counts, stream)
        self.reduce(count, dtype, algorithm, grid, in_place)
        self.library.help("look", here, output, count, dtype, self.world, self.counts, stream)

    def capture(self, calls: list[tuple]) -> Graph:
        return self.stream.capture(lambda: [self.checked(*call) for call in calls])

    def found(self, seconds: float = 60) -> tuple[int, int]:
        """Calls made so far, and elements that were wrong."""
        data = self.stream.download(self.counts, 8, seconds)
        return int.from_bytes(data[:4], "little"), int.from_bytes(data[4:], "little")

    def start_over(self) -> None:
        self.stream.upload(self.counts, bytes(8))

    def start(self, data: bytes, dtype: int, algorithm: int) -> None:
        self.stream.upload(self.input, data)
        self.reduce(len(data) // SIZE[dtype], dtype, algorithm)

    def fetch(self, size: int) -> bytes:
        return self.stream.download(self.output, size)
