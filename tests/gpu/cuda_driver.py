# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few calls of the CUDA driver that the tests need, through ctypes: the driver is on every GPU machine, torch is not."""

from __future__ import annotations

import ctypes
import time
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_ulonglong, c_void_p

NOT_READY = 600
NON_BLOCKING = 1
RELAXED_CAPTURE = 2


class CudaError(Exception):
    pass


class TooLong(Exception):
    pass


class Driver:
    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", c_uint(0))

    def call(self, name: str, *arguments) -> None:
        if code := getattr(self.library, name)(*arguments):
            words = c_char_p()
            self.library.cuGetErrorString(c_int(code), byref(words))
            raise CudaError(f"{name}: {(words.value or b'?').decode()} ({code})")

    def count(self) -> int:
        found = c_int()
        self.call("cuDeviceGetCount", byref(found))
        return found.value

    def name(self, ordinal: int) -> str:
        text = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", text, c_int(128), self.device(ordinal))
        return text.value.decode()

    def capability(self, ordinal: int) -> str:
        numbers = []
        for attribute in (75, 76):
            found = c_int()
            self.call("cuDeviceGetAttribute", byref(found), c_int(attribute), self.device(ordinal))
            numbers.append(str(found.value))
        return ".".join(numbers)

    def device(self, ordinal: int) -> c_int:
        found = c_int()
        self.call("cuDeviceGet", byref(found), c_int(ordinal))
        return found


class Device:
    """The primary context of one GPU, which the runtime inside the library uses too."""

    def __init__(self, driver: Driver, ordinal: int) -> None:
        self.driver, self.ordinal = driver, ordinal
        self.context = c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", byref(self.context), driver.device(ordinal))

    def call(self, name: str, *arguments) -> None:
        self.use()
        self.driver.call(name, *arguments)

    def use(self) -> None:
        self.driver.call("cuCtxSetCurrent", self.context)

    def allocate(self, size: int) -> int:
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", byref(pointer), c_size_t(size))
        self.call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(0), c_size_t(size))
        self.call("cuCtxSynchronize")
        return pointer.value

    def free(self, pointer: int) -> None:
        self.call("cuMemFree_v2", c_uint64(pointer))

    def free_memory(self) -> int:
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value


class Stream:
    def __init__(self, device: Device) -> None:
        self.device = device
        self.handle = c_void_p()
        device.call("cuStreamCreate", byref(self.handle), c_uint(NON_BLOCKING))

    def upload(self, pointer: int, data: bytes) -> None:
        self.device.call("cuMemcpyHtoDAsync_v2", c_uint64(pointer), c_char_p(data), c_size_t(len(data)), self.handle)

    def download(self, pointer: int, size: int, seconds: float = 20) -> bytes:
        data = ctypes.create_string_buffer(size)
        self.wait(seconds)
        self.device.call("cuMemcpyDtoHAsync_v2", data, c_uint64(pointer), c_size_t(size), self.handle)
        self.wait(seconds)
        return data.raw

    def wait(self, seconds: float = 20) -> None:
        """Return when all is done; never wait for ever, as cuStreamSynchronize would."""
        end = time.monotonic() + seconds
        self.device.use()
        query = self.device.driver.library.cuStreamQuery
        while (code := query(self.handle)) == NOT_READY:
            if time.monotonic() > end:
                raise TooLong(f"a stream was not done after {seconds:g} s")
        if code:
            self.device.call("cuStreamQuery", self.handle)

    def capture(self, record) -> Graph:
        self.device.call("cuStreamBeginCapture_v2", self.handle, c_int(RELAXED_CAPTURE))
        graph = c_void_p()
        try:
            record()
        finally:
            self.device.call("cuStreamEndCapture", self.handle, byref(graph))
        return Graph(self, graph)

    def event(self) -> Event:
        return Event(self)


class Graph:
    def __init__(self, stream: Stream, graph: c_void_p) -> None:
        self.stream = stream
        self.handle = c_void_p()
        stream.device.call("cuGraphInstantiateWithFlags", byref(self.handle), graph, c_ulonglong(0))
        stream.device.call("cuGraphDestroy", graph)
        # Now, while nothing waits: a first launch may have to, for the very rank whose turn comes after it.
        stream.device.call("cuGraphUpload", self.handle, stream.handle)
        stream.wait()

    def launch(self) -> None:
        self.stream.device.call("cuGraphLaunch", self.handle, self.stream.handle)

    def destroy(self) -> None:
        self.stream.device.call("cuGraphExecDestroy", self.handle)


class Event:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.handle = c_void_p()
        stream.device.call("cuEventCreate", byref(self.handle), c_uint(0))

    def record(self) -> None:
        self.stream.device.call("cuEventRecord", self.handle, self.stream.handle)

    def microseconds_since(self, earlier: Event) -> float:
        found = c_float()
        self.stream.device.call("cuEventElapsedTime", byref(found), earlier.handle, self.handle)
        return found.value * 1000

    def destroy(self) -> None:
        self.stream.device.call("cuEventDestroy_v2", self.handle)
