# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which recorded generation ``known_good``, ``previous`` or a number means on this node, and which of them can be asked for at all."""

from __future__ import annotations

import contextlib
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.generation_record import FOUND
from ansible_collections.gpu_node.tuning.plugins.module_utils.recorded_generations import RecordedGenerations
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import show

KNOWN_GOOD, PREVIOUS = "known_good", "previous"
UNCHANGED = "Nothing was changed."


def choose(state: RecordedGenerations, wanted: str) -> int:
    """The number that ``wanted`` means on this node. Raises TuningError with the legal values, which are those that work here."""
    numbers = state.numbers()
    if not numbers:
        why = " ".join(state.lost()) or f"{state.path} holds no generation; this node was never tuned."
        raise TuningError(f"generation {show(wanted)}: {why} {UNCHANGED}")
    if not state.own_numbers():
        state.refuse_foreign(numbers[-1])
    if wanted == KNOWN_GOOD:
        return _known_good(state)
    if wanted == PREVIOUS:
        return _numbered(state, str(_previous(state)))
    return _numbered(state, wanted)


def _known_good(state: RecordedGenerations) -> int:
    number = state.newest_known_good()
    if number is None:
        why = "no known-good profile was ever applied and read back on this node"
        raise TuningError(f"generation {KNOWN_GOOD!r}: {why}. {_legal(state)}{_as_found(state)}. {UNCHANGED}")
    return number


def _previous(state: RecordedGenerations) -> int:
    current = state.current()
    number = None if current is None else _applied_before(state, current)
    if number is None:
        there_is_none = f"generation {current} is current, and there is none before it"
        why = "no generation is current" if current is None else there_is_none
        raise TuningError(f"generation {PREVIOUS!r}: {why}. {_legal(state)}. {UNCHANGED}")
    return number


def _numbered(state: RecordedGenerations, wanted: str) -> int:
    """A number as the history shows it (7), or as its directory is called (0007): 00 is more likely a slip than the way to 0."""
    for number in state.numbers():
        if wanted in (str(number), f"{number:04d}"):
            return number
    if wanted in ("0", "0000"):
        raise TuningError(
            f"generation '0': missing in {state.path}, though later ones are there: how this node was found is not known here. {UNCHANGED} "
            f"Put generations/0000 back from a backup. {_legal(state)}."
        )
    raise TuningError(
        f"generation {show(wanted)}: there is no such generation on this node. {_legal(state)}. {UNCHANGED}"
    )


def _legal(state: RecordedGenerations) -> str:
    """What can be asked for here, as the end of a message."""
    usable = state.usable_numbers()
    if not usable:
        return f"None of {_listed(state.own_numbers())} can be gone back to; generation_info says why"
    words = [word for word, number in _meanings(state) if number in usable]
    return f"Legal: {', '.join([*words, f'or one of {_listed(usable)}' if words else f'one of {_listed(usable)}'])}"


def _meanings(state: RecordedGenerations) -> list:
    """(word, number that it means here); None for no number."""
    before = None
    with contextlib.suppress(TuningError):  # the record of the current one is damaged
        before = _applied_before(state, state.current()) if state.current() is not None else None
    return [(KNOWN_GOOD, state.newest_known_good()), (PREVIOUS, before)]


def _as_found(state: RecordedGenerations) -> str:
    for number in state.usable_numbers()[:1]:
        if state.manifest(number)["outcome"] == FOUND:
            return f"; {number} is the node as it was found"
    return ""


def _applied_before(state: RecordedGenerations, number: int) -> Optional[int]:
    """The generation that ``number`` came from; what others made of the file in between was never read back and does not count."""
    parent = _parent(state, number)
    while parent and state.manifest(parent)["outcome"] == FOUND:
        parent = _parent(state, parent)
    return parent


def _parent(state: RecordedGenerations, number: int) -> Optional[int]:
    """None also where the record names no older one: ``current`` dangled when it was written."""
    parent = state.manifest(number)["parent"]
    return parent if parent is not None and parent < number else None


def _listed(numbers: list) -> str:
    return ", ".join(map(str, numbers))
