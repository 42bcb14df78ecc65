# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Steps that all ranks take together: where one fails, none goes on, and every rank knows why."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional


class Off(Exception):
    """Why all ranks stay with NCCL."""


PROBE_SECONDS = 2.0  # a store is there after microseconds, or never


class Outcome(NamedTuple):
    error: Optional[str]
    value: Any


class Together:
    """``exchange(object) -> list`` gives every rank the objects of all ranks, in rank order (an all-gather)."""

    def __init__(self, exchange: Callable[[Any], list]):
        self._exchange = exchange

    def step(self, name: str, action: Callable[[], Any]) -> list:
        """What ``action`` returned on each rank. Raises Off on every rank where it failed on any.

        The exchange comes after the action in every case, also where the action raised, so no rank waits for one that left.
        """
        outcomes = [Outcome(*outcome) for outcome in self._exchange(tuple(_outcome(action)))]
        for rank, outcome in enumerate(outcomes):
            if outcome.error is not None:
                raise Off(f"{name}, rank {rank}: {outcome.error}")
        return [outcome.value for outcome in outcomes]

    def local(self, name: str, action: Callable[[], Any]) -> Any:
        """What ``action`` returned on this rank; only failures are exchanged, so it may be anything. Raises Off as ``step`` does."""
        kept = []
        self.step(name, lambda: kept.append(action()))
        return kept[0]

    def same(self, name: str, value: Any) -> Any:
        """``value``, after all ranks have shown the same. Raises Off on every rank otherwise."""
        values = self.step(name, lambda: value)
        for rank, other in enumerate(values):
            if other != values[0]:
                raise Off(f"{name}: rank 0 has {values[0]!r}, rank {rank} has {other!r}")
        return value

    def slowest(self, name: str, measure: Callable[[], float]) -> float:
        """The largest of the ranks' figures: a collective call is over when its last rank is."""
        return max(self.step(name, measure))


def probe_stores(ranks: Together, workspace) -> None:
    """Whether what a kernel stores arrives, between all ranks in both directions. Raises Off, with the ranks, on all of them."""
    ranks.step("probe", lambda: None)  # the others' probes begin together, or those of the first would wait in vain
    ranks.step("probe", lambda: workspace.probe(PROBE_SECONDS))
    ranks.step("probe", workspace.reset_status)


def _outcome(action: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(None, action())
    except Exception as error:  # noqa: BLE001 - whatever it is, the other ranks have to hear of it
        return Outcome(f"{type(error).__name__}: {error}" if not str(error) else str(error), None)
