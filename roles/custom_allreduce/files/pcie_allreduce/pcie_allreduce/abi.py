# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The C functions of csrc/pcie_allreduce.h as Python. Pointers and streams are plain integers: no torch here."""

from __future__ import annotations

import ctypes
import os
from typing import Callable, NamedTuple, Optional

ABI = 2
LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libpcie_allreduce.so")

ALGORITHMS = {"one_shot": 0, "two_shot": 1, "one_shot_pull": 2, "islands": 3}
TRANSPORTS = {"peer": 0, "host_staged": 1}
DTYPES = {"bfloat16": 0, "float16": 1, "float32": 2}
ITEM_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}

_POINTER = ctypes.c_void_p
_INT = ctypes.c_int
_SIGNATURES = {
    "pcar_create": (ctypes.POINTER(_POINTER), _INT, _INT, ctypes.c_size_t, _INT, _INT, ctypes.c_double),
    "pcar_export": (_POINTER, _POINTER),
    "pcar_import": (_POINTER, _POINTER),
    "pcar_probe": (_POINTER, ctypes.c_double, ctypes.POINTER(ctypes.c_uint), ctypes.POINTER(ctypes.c_uint)),
    "pcar_max_bytes": (_POINTER, _INT, ctypes.POINTER(ctypes.c_size_t)),
    "pcar_all_reduce": (_POINTER, _POINTER, _POINTER, ctypes.c_size_t, _INT, _INT, _INT, _INT, _POINTER),
    "pcar_status": (_POINTER, ctypes.POINTER(_INT), ctypes.POINTER(_INT), ctypes.POINTER(ctypes.c_ulonglong)),
    "pcar_reset_status": (_POINTER,),
    "pcar_destroy": (_POINTER,),
}


class LibraryError(Exception):
    """What the library said, in one sentence."""


class Status(NamedTuple):
    """``code`` 0: fine. Otherwise ``peer`` did not answer in call ``epoch``."""

    code: int
    peer: int
    epoch: int


class Library:
    """The loaded shared library. Raises LibraryError where it is missing, cannot be loaded, or speaks another ABI."""

    def __init__(self, path: Optional[str] = None):
        self.path = path or LIBRARY
        if not os.path.exists(self.path):
            raise LibraryError(f"no shared library {self.path}: build_allreduce.yml builds and installs it")
        try:
            self._functions = ctypes.CDLL(self.path)
            self._declare()
        except (OSError, AttributeError) as error:
            raise LibraryError(f"{self.path} cannot be loaded: {error}") from error
        found = self._functions.pcar_abi()
        if found != ABI:
            raise LibraryError(f"{self.path} has ABI {found}, and this package needs {ABI}: build it again")

    def _declare(self) -> None:
        for name, arguments in _SIGNATURES.items():
            function = getattr(self._functions, name)
            function.argtypes = arguments
            function.restype = _INT
        self._functions.pcar_abi.restype = _INT
        self._functions.pcar_last_error.restype = ctypes.c_char_p
        self._functions.pcar_handle_bytes.restype = ctypes.c_size_t

    @property
    def handle_bytes(self) -> int:
        return self._functions.pcar_handle_bytes()

    def call(self, name: str, *arguments) -> None:
        code = getattr(self._functions, name)(*arguments)
        if code != 0:
            said = self._functions.pcar_last_error()
            raise LibraryError(f"{name}: {said.decode('utf-8', 'replace') if said else 'no reason given'} ({code})")


def _ranks(bits: int) -> str:
    return ", ".join(str(rank) for rank in range(bits.bit_length()) if bits >> rank & 1)


class Workspace:
    """One rank's slots and the mapped slots of the others. ``slot_bytes`` is the longest message."""

    def __init__(
        self,
        library: Library,
        rank: int,
        world: int,
        slot_bytes: int,
        transport: str,
        device: int,
        watchdog_seconds: float,
    ):
        self._library = library
        self.world = world
        self._self = _POINTER()
        library.call(
            "pcar_create",
            ctypes.byref(self._self),
            rank,
            world,
            slot_bytes,
            TRANSPORTS[transport],
            device,
            watchdog_seconds,
        )

    def handle(self) -> bytes:
        """What the other ranks need in order to reach this workspace."""
        blob = ctypes.create_string_buffer(self._library.handle_bytes)
        self._library.call("pcar_export", self._self, blob)
        return blob.raw

    def join(self, handles: list) -> None:
        """Map the workspaces of all ranks; ``handles`` in rank order, the own one included."""
        if len(handles) != self.world or any(len(handle) != self._library.handle_bytes for handle in handles):
            raise LibraryError(f"{len(handles)} handles for {self.world} ranks, or one of another length")
        self._library.call("pcar_import", self._self, b"".join(handles))

    def probe(self, seconds: float) -> None:
        """Collective: raises TimeoutError or ArithmeticError that names the ranks whose stores do not arrive here, or arrive changed.

        ``reset_status`` has to follow on all ranks: the words of the probe stay in the inbox.
        """
        missing, wrong = ctypes.c_uint(), ctypes.c_uint()
        self._library.call("pcar_probe", self._self, seconds, ctypes.byref(missing), ctypes.byref(wrong))
        if missing.value:
            raise TimeoutError(f"stores of rank {_ranks(missing.value)} do not arrive here within {seconds:g} s")
        if wrong.value:
            raise ArithmeticError(f"stores of rank {_ranks(wrong.value)} arrive changed")

    def max_bytes(self, algorithm: str) -> int:
        most = ctypes.c_size_t()
        self._library.call("pcar_max_bytes", self._self, ALGORITHMS[algorithm], ctypes.byref(most))
        return most.value

    def all_reduce(self, source, target, count, dtype, algorithm, blocks, threads, stream) -> None:
        """Sum ``count`` elements at address ``source`` over all ranks into ``target``, on ``stream``; returns at once."""
        self.starter(count, dtype, algorithm, blocks, threads)(source, target, stream)

    def starter(self, count, dtype, algorithm, blocks, threads) -> Callable:
        """all_reduce for one kind of call, as a function of (source, target, stream). Not to be used after close()."""
        call, mine = self._library.call, self._self
        launch = (count, DTYPES[dtype], ALGORITHMS[algorithm], blocks, threads)

        def start(source, target, stream) -> None:
            call("pcar_all_reduce", mine, source, target, *launch, stream)

        return start

    def status(self) -> Status:
        """Can be asked while the GPU waits."""
        code, peer, epoch = _INT(), _INT(), ctypes.c_ulonglong()
        self._library.call("pcar_status", self._self, ctypes.byref(code), ctypes.byref(peer), ctypes.byref(epoch))
        return Status(code.value, peer.value, epoch.value)

    def reset_status(self) -> None:
        self._library.call("pcar_reset_status", self._self)

    def close(self) -> None:
        if self._self:
            mine, self._self = self._self, _POINTER()
            self._library.call("pcar_destroy", mine)
