# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The communicator that an engine uses in the place of its own custom all-reduce (the contract is SGLang's ``ca_comm``).

Every rank decides the same at start-up, in common steps, and after that by shape, dtype and contiguity alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import weakref
from typing import Callable, Optional

from . import crossover, self_test, settings
from .abi import ITEM_BYTES, Library, LibraryError, Status, Workspace
from .gpu import TorchGpu, dtype_name
from .together import Off, Together, probe_stores

logger = logging.getLogger("pcie_allreduce")

SELF_TEST_SECONDS = 10.0  # no kernel is compiled meanwhile, so a peer that is later than this is not coming
WATCH_SECONDS = 1.0


class Communicator:
    """``disabled`` where anything is not as expected; then the engine's other ways are used. It never raises at start-up."""

    def __init__(self, group=None, device=None, gpu=None, environment=None, library: Callable[[], Library] = Library):
        self.disabled = self.original_disabled = True
        self.off_reason: Optional[str] = None
        self.limit = 0
        self._workspace: Optional[Workspace] = None
        self._plan: Optional[crossover.Plan] = None
        self._starts: dict = {}
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._gpu = gpu or TorchGpu(group, device)
        self._environment = os.environ if environment is None else environment
        self._library = library
        self.who = f"pcie_allreduce: rank {self._gpu.rank} of {self._gpu.world}"
        try:
            self._start(Together(self._gpu.exchange))
        except Off as off:
            self.off_reason = str(off)
            self.close()
            logger.warning("%s off, because %s", self.who, off)

    # What the engine calls

    def should_custom_ar(self, tensor) -> bool:
        """The same answer on every rank for tensors of one shape, dtype and contiguity."""
        return not self.disabled and self._start_of(tensor) is not None

    def custom_all_reduce(self, tensor):
        """The sum over all ranks as a new tensor."""
        return self._gpu.reduce(tensor, self._number, self.launch)

    @contextlib.contextmanager
    def capture(self):
        """Nothing is registered for a graph: slots have fixed addresses, and a call in warm-up is a real one."""
        yield

    def close(self) -> None:
        self.disabled = True
        self._starts = {}
        self._closed.set()
        with self._lock:  # not under the watching thread
            workspace, self._workspace = self._workspace, None
            if workspace is not None:
                try:
                    workspace.close()
                except LibraryError as error:
                    logger.warning("%s: %s", self.who, error)

    def __del__(self):
        """SGLang drops its communicator without a word."""
        if hasattr(self, "_lock"):
            self.close()

    # What the operator calls

    def launch(self, tensor):
        """Start the kernel on the current stream. Raises RuntimeError for a tensor that should_custom_ar refuses, and after a time-out."""
        start = self._start_of(tensor)
        if start is None:
            raise RuntimeError(
                f"{self.who}: {self._refusal(tensor)}. Ask should_custom_ar first; NCCL takes what this refuses"
            )
        source = self._gpu.aligned(tensor)
        target = self._gpu.result_for(source)
        try:
            start(source.data_ptr(), target.data_ptr(), self._gpu.stream())
        except LibraryError as error:
            raise RuntimeError(f"{self.who}: {error}") from error
        return target

    def _refusal(self, tensor) -> str:
        """Why there is no launch for this tensor."""
        name = dtype_name(tensor)
        if self._workspace is None or self._plan is None:
            return f"off, because {self.off_reason or 'it was closed'}"
        if name not in ITEM_BYTES:
            return f"a tensor of {name}; legal: {', '.join(ITEM_BYTES)}"
        if not tensor.is_contiguous():
            return f"a tensor of shape {tuple(tensor.shape)} with gaps or in another order; legal: a contiguous one"
        size = tensor.numel() * ITEM_BYTES[name]
        return (
            f"a tensor of {size} bytes; legal: {min(ITEM_BYTES.values())} to {self.limit}, the crossover of the table"
        )

    def _start_of(self, tensor) -> Optional[Callable]:
        """What starts the kernel for tensors of this type and size: looked up once, because an engine without graphs waits for this code."""
        if not tensor.is_contiguous():
            return None
        kind = (tensor.dtype, tensor.numel())
        found = self._starts.get(kind)
        if found is None:
            found = self._new_start(dtype_name(tensor), tensor.numel())
            if found is not None:
                self._starts[kind] = found
        return found

    def _new_start(self, dtype: str, count: int) -> Optional[Callable]:
        width = ITEM_BYTES.get(dtype)
        if self._plan is None or self._workspace is None or width is None:
            return None
        step = self._plan.launch(count * width)
        return None if step is None else self._workspace.starter(count, dtype, *step)

    # Start-up

    def _start(self, ranks: Together) -> None:
        chosen = ranks.local("settings", self._settings)
        ranks.step("GPU", self._refuse_other_device)
        ranks.same("hosts", self._gpu.host)
        table = ranks.same("table", ranks.local("table", lambda: self._table(chosen)))
        plan = crossover.Plan(table)
        library = ranks.local("library", self._library)
        self._prove(ranks, library, table["transport"], plan)
        self._open(ranks, library, table["transport"], plan, chosen.watchdog_seconds)
        ranks.step("self test", lambda: self_test.run(self._workspace, self._gpu, plan))
        self._plan, self.limit = plan, plan.limit
        ranks.step("start", lambda: self._enter(chosen.abort))
        self.disabled = self.original_disabled = False  # after the last exchange: now every rank does the same
        logger.info("%s on, up to %d bytes, table %s", self.who, plan.limit, chosen.table)

    def _settings(self) -> settings.Settings:
        """The first thing that is exchanged: where it is not wanted, that costs one small message."""
        chosen = settings.from_environment(self._environment)
        if not chosen.wanted:
            raise Off(settings.NOT_WANTED)
        return chosen

    def _enter(self, abort: bool) -> None:
        self._number = self._gpu.register(self)
        arguments = (weakref.ref(self), self._closed, abort)
        threading.Thread(target=_watch, args=arguments, name="pcie_allreduce", daemon=True).start()

    def _refuse_other_device(self) -> None:
        if not self._gpu.is_cuda:
            raise Off("the device is not an NVIDIA GPU")

    def _table(self, chosen: settings.Settings) -> dict:
        table = crossover.read(chosen.table)
        build = settings.build_of(settings.stamp())
        reason = settings.refusal(chosen, table, build, self._gpu.world, self._gpu.name)
        if reason:
            raise Off(reason)
        return table

    def _prove(self, ranks: Together, library: Library, transport: str, plan: crossover.Plan) -> None:
        """Try everything once in a workspace with an impatient watchdog: the lasting one may have to wait for minutes."""
        self._open(ranks, library, transport, plan, SELF_TEST_SECONDS)
        probe_stores(ranks, self._workspace)
        ranks.step("self test", lambda: self_test.run(self._workspace, self._gpu, plan))
        proved, self._workspace = self._workspace, None
        ranks.step("self test", proved.close)

    def _open(self, ranks: Together, library: Library, transport: str, plan: crossover.Plan, watchdog: float) -> None:
        def create() -> bytes:
            self._workspace = Workspace(
                library, self._gpu.rank, self._gpu.world, plan.limit, transport, self._gpu.index, watchdog
            )
            return self._workspace.handle()

        handles = ranks.step("workspace", create)
        ranks.step("peers", lambda: self._workspace.join(handles))

    # Watching

    def time_out(self) -> Optional[Status]:
        """The call in which a peer did not answer, or None."""
        with self._lock:
            status = self._workspace.status() if self._workspace is not None else None
        return status if status is not None and status.code != 0 else None


def _watch(communicator: weakref.ref, closed: threading.Event, abort: bool) -> None:
    """A graph that is replayed cannot raise: after a time-out its sums are NaN, and an engine that went on would serve what comes of them."""
    while not closed.wait(WATCH_SECONDS):
        watched = communicator()
        status = watched.time_out() if watched is not None else None
        if watched is None:
            return
        if status is not None:
            logger.critical("%s: rank %d did not answer in call %d", watched.who, status.peer, status.epoch)
            if abort:
                os.kill(os.getpid(), signal.SIGABRT)
            return
        del watched  # the engine may drop its communicator while this thread sleeps
