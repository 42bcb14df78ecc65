# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The properties of the all-reduce, for ranks in processes of their own and for several ranks in one process alike.

Every process runs the same lines with the ranks that are its own, and `gather` brings what the others found.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
import signal
import threading
import time
from pathlib import Path

from allreduce_library import ISLANDS, WATCHDOG, Library, Rank, Refused, algorithms
from allreduce_reference import NAMES, SIZE, any_bits, difference, ordinary, pack, too_far, unpack, value
from cuda_driver import Driver, Stream
from rank_processes import Group

SLOT = 65536
GRIDS = ((0, 0), (1, 32), (2, 64), (7, 96), (16, 256), (4, 512), (3, 128))
ELEMENTS = 509  # odd, and more than one word for every rank
PATIENCE = 1.0  # seconds of the watchdog where it is to bark
FEW = (1, 9, 17, 1001)  # elements, where a tool makes every call slow
CLOSES, RETURNS = 1.0, 3.0  # seconds that a destroy gives its peers, and at all
GPU_SHARED = 8 << 20  # a difference in free memory that is not a leak of a thousand rounds


class Suite:
    def __init__(
        self, group: Group, process: int, processes: int, world: int, devices: int, transport: int, paths: tuple
    ):
        self.group, self.world, self.transport = group, world, transport
        library, driver = Library(*paths), Driver()
        self.processes, self.algorithms, self.few = processes, algorithms(world), False
        mine = [rank for rank in range(world) if rank % processes == process]
        most = max(SLOT, SLOT // 2 * world)
        self.ranks = [Rank(library, driver, rank, world, rank % devices, most) for rank in mine]
        self.connect(30)

    def gather(self, values: list) -> list:
        """One value a rank, in the order of the ranks."""
        return [value for values_of_process in self.group.gather(values) for value in values_of_process or [None]]

    def connect(self, watchdog: float) -> None:
        blobs = self.gather([rank.join(SLOT, self.transport, watchdog) for rank in self.ranks])
        for rank in self.ranks:
            rank.communicator.connect(blobs)
        self.gather([0] * len(self.ranks))

    def disconnect(self) -> None:
        self.gather([0] * len(self.ranks))
        for rank in self.ranks:
            rank.communicator.destroy()

    def say(self, what: str, holds: bool, note: str = "", processes: int | None = None) -> None:
        """A property holds when as many processes as see it say so."""
        self.group.tell((what, bool(holds), note, processes or self.processes))

    def all_call(self, *call, **more) -> None:
        for rank in self.ranks:
            rank.checked(*call, **more)

    def none_wrong(self, calls: int, seconds: float = 60) -> tuple[bool, str]:
        found = [rank.found(seconds) for rank in self.ranks]
        for rank in self.ranks:
            rank.start_over()
        return all(
            one == (calls, 0) for one in found
        ), f"{calls} calls, {sum(wrong for _, wrong in found)} elements wrong"

    def counts(self, dtype: int, algorithm: int) -> list[int]:
        limit = self.ranks[0].communicator.most(algorithm) // SIZE[dtype]
        wanted = (1, 3, 8, 9, 15, 17, 64, 129, 1000, 1001, 7168, 3 * 7168, limit - 1, limit)
        return [count for count in (FEW if self.few else wanted) if count <= limit]

    # --- properties ---------------------------------------------------------------------------------------------------

    def probe(self, silent: int | None = None, seconds: float = 2) -> None:
        """Each rank in a thread, because a call waits for the others'. Without the ``silent`` rank all others miss it, and nothing else."""
        found = {}
        self.gather([0] * len(self.ranks))
        asked = [rank for rank in self.ranks if rank.rank != silent]
        threads = [
            threading.Thread(target=lambda rank=rank: found.update({rank.rank: rank.communicator.probe(seconds)}))
            for rank in asked
        ]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lasted = time.monotonic() - started
        expected = (0 if silent is None else 1 << silent, 0)
        holds = all(found.get(rank.rank) == expected for rank in asked)
        words = (
            "stores of every rank arrive at every other" if silent is None else "a rank that stores nothing is named"
        )
        speakers = self.processes - 1 if silent is not None and self.processes > 1 else self.processes
        if asked:
            in_time = lasted < (1 if silent is None else seconds + 1) or self.few
            self.say(f"probe: {words}", holds and in_time, f"{found} after {lasted:.2f} s", speakers)
        self.gather([0] * len(self.ranks))
        for rank in self.ranks:
            rank.communicator.reset()
        self.gather([0] * len(self.ranks))
        self.all_call(1001, 0, 0)
        self.say(
            "probe: sums are right after it" + ("" if silent is None else ", a silent rank's too"), *self.none_wrong(1)
        )

    def streams(self) -> None:
        """The library puts calls on two streams in order; inputs and counters are the tests' own, so they have to wait for nothing else."""
        others = [Stream(rank.device) for rank in self.ranks]
        for turn in range(20):
            for rank, other in zip(self.ranks, others, strict=True):
                usual = rank.use(other if turn % 2 else rank.stream)
                rank.reduce(7168, 0, turn % len(self.algorithms))
                rank.use(usual)
        for rank, other in zip(self.ranks, others, strict=True):
            other.wait(20)
            rank.stream.wait(20)
        self.all_call(1001, 0, 0)
        holds, note = self.none_wrong(1)
        codes = {rank.communicator.status()[0] for rank in self.ranks}
        self.say("20 calls that take turns on two streams, and the next sum is right", holds and codes == {0}, note)

    def ends(self) -> None:
        """Two processes. A destroy waits for a peer that is about to close, and not for one that does not."""
        (rank,) = self.ranks
        for seconds, words in (
            (0.4, "waits for a peer that closes soon"),
            (6.0, "does not wait for a peer that does not close"),
        ):
            self.disconnect()
            self.connect(5)
            self.all_call(1001, 0, 0)
            rank.stream.wait()
            rank.start_over()
            self.gather([0])
            if rank.rank == 1:
                time.sleep(seconds)
            started = time.monotonic()
            rank.communicator.destroy()
            lasted = time.monotonic() - started
            patient = self.transport == 0
            least, most = (
                (seconds / 2 if patient else 0, CLOSES) if seconds < CLOSES else (CLOSES / 2 if patient else 0, RETURNS)
            )
            if rank.rank == 0:
                self.say(f"destroy {words}", least <= lasted < most + 0.5, f"{lasted:.2f} s", 1)
            self.gather([0])
            self.connect(30)

    def exact(self) -> None:
        for algorithm, name in self.algorithms.items():
            calls = 0
            for dtype in NAMES:
                for count in self.counts(dtype, algorithm):
                    for in_place in (False, True):
                        self.all_call(count, dtype, algorithm, GRIDS[calls % len(GRIDS)], in_place)
                        calls += 1
            self.say(
                f"{name}: whole numbers are exact, one element to the slot, odd lengths, changing grids",
                *self.none_wrong(calls),
            )

    def reference(self) -> None:
        for dtype, name in NAMES.items():
            for kind in (ordinary, any_bits):
                inputs = [kind(dtype, ELEMENTS, 1000 * dtype + rank) for rank in range(self.world)]
                outputs = {algorithm: self.results(inputs, dtype, algorithm) for algorithm in self.algorithms}
                words = "random numbers" if kind is ordinary else "any bits, with both zeros, infinities and NaN"
                self.say(
                    f"{name}: {words} have the bits that they have to have",
                    *self.as_computed(dtype, kind, inputs, outputs),
                )
                self.say(f"{name}: {words} give the same bits on all ranks", *self.alike(outputs))

    def as_computed(self, dtype: int, kind, inputs: list[list[int]], outputs: dict) -> tuple[bool, str]:
        """One-shot against the reference and the others against one-shot; islands add up in another order."""
        for algorithm in {0, ISLANDS} & outputs.keys():
            found = unpack(dtype, outputs[algorithm][0])
            wrong = difference(dtype, inputs, found, algorithm == ISLANDS)
            if wrong := wrong or (too_far(dtype, inputs, found) if kind is ordinary else ""):
                return False, wrong
        alike = all(outputs[algorithm] == outputs[0] for algorithm in outputs if algorithm != ISLANDS)
        return alike, "" if alike else "not the bits of one-shot"

    def alike(self, outputs: dict) -> tuple[bool, str]:
        digests = [[hashlib.sha256(found[n]).hexdigest() for found in outputs.values()] for n in range(len(self.ranks))]
        found = self.gather(digests)
        return all(one == found[0] for one in found), ""

    def results(self, inputs: list[list[int]], dtype: int, algorithm: int) -> list[bytes]:
        for rank in self.ranks:
            rank.start(pack(dtype, inputs[rank.rank]), dtype, algorithm)
        return [rank.fetch(ELEMENTS * SIZE[dtype]) for rank in self.ranks]

    def zeros(self) -> None:
        holds = True
        for dtype in NAMES:
            minus = 1 << (8 * SIZE[dtype] - 1)
            for lanes in ([0] * ELEMENTS, [minus] * ELEMENTS, [0, minus] * (ELEMENTS // 2) + [0]):
                for algorithm in self.algorithms:
                    found = self.results([lanes] * self.world, dtype, algorithm)
                    holds = holds and all(not any(one) for one in found)
        self.say("tensors of zeros, of either sign, give +0.0", holds)

    def graphs(self) -> None:
        numbers = random.Random(7)  # the same on every rank
        plans = [[self.some_call(numbers) for _ in range(size)] for size in (3, 4, 5, 1)]
        graphs = [[rank.capture(plan) for plan in plans] for rank in self.ranks]
        calls = 0
        for _step in range(200):
            choice = numbers.randrange(len(plans) + 1)
            if choice == len(plans):
                self.all_call(*self.some_call(numbers))
                calls += 1
                continue
            for captured in graphs:
                captured[choice].launch()
            calls += len(plans[choice])
        self.say(
            "several graphs with 1, 3, 4 and 5 calls, other data each replay, between eager calls with other grids",
            *self.none_wrong(calls),
        )
        for captured in graphs:
            for graph in captured:
                graph.destroy()

    def some_call(self, numbers: random.Random) -> tuple:
        dtype, algorithm = numbers.choice(list(NAMES)), numbers.choice(list(self.algorithms))
        count = numbers.choice(self.counts(dtype, algorithm))
        return count, dtype, algorithm, numbers.choice(GRIDS), numbers.random() < 0.5

    def replays(self, calls: int) -> None:
        size = 50
        plan = [(1001, 0, n % len(self.algorithms), GRIDS[n % len(GRIDS)]) for n in range(size)]
        graphs = [rank.capture(plan) for rank in self.ranks]
        started = time.monotonic()
        for replay in range(calls // size):
            for graph in graphs:
                graph.launch()
            if replay % 50 == 49:
                for rank in self.ranks:
                    rank.stream.wait(60)
        holds, note = self.none_wrong(calls, 120)
        self.say(f"{calls} calls from one graph", holds, f"{note}, {time.monotonic() - started:.1f} s")
        for graph in graphs:
            graph.destroy()

    def delays(self) -> None:
        plan = [
            (count, 0, n % len(self.algorithms), GRIDS[n % len(GRIDS)], False, 200_000)
            for n, count in enumerate((8, 1001, 7168) * 7)
        ]
        graphs = [rank.capture(plan) for rank in self.ranks]
        for _replay in range(20):
            for graph in graphs:
                graph.launch()
        self.say("every rank is late at random, up to 200 microseconds, on the GPU", *self.none_wrong(20 * len(plan)))
        for rank in self.ranks:
            if rank.rank == 0:
                time.sleep(0.5)
            for algorithm in self.algorithms:
                rank.checked(7168, 0, algorithm)
        self.say("one rank is half a second late", *self.none_wrong(len(self.algorithms)))
        for graph in graphs:
            graph.destroy()

    def watchdog(self) -> None:
        self.disconnect()
        self.connect(PATIENCE)
        for algorithm, name in self.algorithms.items():
            if speaking := [rank for rank in self.ranks if rank.rank != self.world - 1]:
                self.silence(speaking, algorithm, name)
            self.gather([0] * len(self.ranks))
            for rank in self.ranks:
                rank.communicator.reset()
                rank.start_over()
            self.gather([0] * len(self.ranks))
            self.all_call(1001, 0, algorithm)
            self.all_call(7168, 0, (algorithm + 1) % len(self.algorithms))
            self.say(f"{name}: after a reset on all ranks sums are right again", *self.none_wrong(2))
        self.disconnect()
        self.connect(30)

    def silence(self, ranks: list[Rank], algorithm: int, name: str) -> None:
        """These ranks call, another one does not."""
        graphs = [rank.capture([(1001, 0, algorithm)]) for rank in ranks]
        started = time.monotonic()
        for rank in ranks:
            rank.checked(1001, 0, algorithm)
        for rank in ranks:
            rank.stream.wait(10)
        seconds = time.monotonic() - started
        found = [rank.communicator.status() for rank in ranks]
        # Between islands a rank hears from its twin only, and names that.
        holds = all(
            code == WATCHDOG and (peer == self.world - 1 or algorithm == ISLANDS) for code, peer, _call in found
        )
        note = f"(code, rank, call) {sorted(set(found))} after {seconds:.2f} s"
        self.say(
            f"{name}: a silent rank is reported in time", holds and 0.5 * PATIENCE < seconds < PATIENCE + 1, note, 1
        )
        lanes = [unpack(0, rank.fetch(1001 * SIZE[0])) for rank in ranks]
        # Every sum has a part of the silent rank's, whoever adds it up.
        sums = sum(not math.isnan(value(0, lane)) for one in lanes for lane in one)
        self.say(f"{name}: without a word of the silent rank every element is NaN", sums == 0, f"{sums} are not", 1)
        started = time.monotonic()
        refused = [self.is_refused(rank, algorithm) for rank in ranks]
        for graph in graphs * 100:
            graph.launch()
        for rank in ranks:
            rank.stream.wait(10)
        seconds = time.monotonic() - started
        note = f"100 replays a rank in {seconds:.3f} s"
        self.say(
            f"{name}: after that a call is refused, and replays end at once", all(refused) and seconds < 0.5, note, 1
        )
        for graph in graphs:
            graph.destroy()

    def is_refused(self, rank: Rank, algorithm: int) -> bool:
        try:
            rank.reduce(1001, 0, algorithm)
        except Refused as error:
            return error.code == WATCHDOG
        return False

    def churn(self, rounds: int) -> None:
        self.disconnect()
        for _warm in range(10):
            self.connect(5)
            self.disconnect()
        before = self.owned()
        for number in range(rounds):
            self.connect(5)
            if number % 50 == 0:
                self.all_call(129, 0, number // 50 % len(self.algorithms))
                for rank in self.ranks:
                    rank.stream.wait()
            self.disconnect()
        after = self.owned()
        holds = after[1:] == before[1:] and before[0] - after[0] < GPU_SHARED
        note = f"GPU memory {(before[0] - after[0]) / 2**20:+.1f} MiB, files {before[1]} -> {after[1]}, segments {before[2]} -> {after[2]}"
        self.say(f"{rounds} times created and destroyed: nothing is left", holds, note)
        for rank in self.ranks:
            rank.start_over()
        self.connect(30)

    def owned(self) -> tuple[int, int, int]:
        self.gather([0] * len(self.ranks))
        free = min(rank.device.free_memory() for rank in self.ranks)
        files = len(os.listdir("/proc/self/fd"))
        segments = len(list(Path("/dev/shm").glob("pcar-*")))  # noqa: S108 - where POSIX shared memory is
        self.gather([0] * len(self.ranks))
        return free, files, segments

    def killed(self) -> None:
        """The last property: one process is gone after it."""
        self.disconnect()
        self.connect(PATIENCE)
        (rank,) = self.ranks
        graph = rank.capture([(7168, 0, n % len(self.algorithms)) for n in range(50)])
        self.gather([0])
        for _replay in range(20):
            graph.launch()
        if rank.rank == self.world - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        started = time.monotonic()
        while rank.communicator.status()[0] == 0 and time.monotonic() - started < 10:
            graph.launch()
            rank.stream.wait(10)
        code, peer, call = rank.communicator.status()
        seconds = time.monotonic() - started
        self.say(
            "a killed rank is reported in time",
            code == WATCHDOG and seconds < PATIENCE + 2,
            f"rank {peer}, call {call}, after {seconds:.2f} s",
            self.world - 1,
        )
        started = time.monotonic()
        rank.communicator.destroy()
        seconds = time.monotonic() - started
        self.say("destroy does not wait for a rank that is gone", seconds < 2, f"{seconds:.3f} s", self.world - 1)


def own_processes(
    group: Group, process: int, processes: int, transport: int, paths: tuple, replays: int, rounds: int
) -> None:
    suite = Suite(group, process, processes, processes, processes, transport, paths)
    properties(suite, replays)
    suite.probe(silent=processes - 1, seconds=0.5)
    suite.watchdog()
    suite.churn(rounds)
    if processes == 2:  # who ends when, and who is killed, is played with one peer
        suite.ends()
        suite.killed()


def one_process(group: Group, world: int, devices: int, transport: int, paths: tuple, replays: int) -> None:
    suite = Suite(group, 0, 1, world, devices, transport, paths)
    properties(suite, replays)
    suite.watchdog()


def reduced(group: Group, process: int, processes: int, world: int, devices: int, transport: int, paths: tuple) -> None:
    """What runs under a tool that makes every call slow: each kernel once for each kind of length."""
    suite = Suite(group, process, processes, world, devices, transport, paths)
    suite.few = True
    suite.probe(seconds=20)
    suite.exact()
    suite.zeros()
    suite.disconnect()


def properties(suite: Suite, replays: int) -> None:
    suite.probe()
    suite.exact()
    suite.reference()
    suite.zeros()
    suite.graphs()
    suite.streams()
    suite.delays()
    suite.replays(replays)
