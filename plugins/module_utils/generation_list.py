# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorded generations of a node as plain data, damage named and not hidden."""

from __future__ import annotations

import contextlib

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory

SHOWN = ("parent", "time", "profile", "profile_status", "outcome", "reason", "by", "declared", "evidence", "hardware")


def generation_list(state: StateDirectory) -> dict:
    """What module generation_info returns. Never raises TuningError: what cannot be read is in ``problems``."""
    answer = {"current": None, "known_good": None, "generations": [], "history": [], "problems": []}
    try:
        state.refuse_no_directory()
    except TuningError as error:
        return dict(answer, problems=[str(error)])  # whatever else is asked would fail for this reason
    for key, ask in (("current", state.current), ("known_good", state.newest_known_good), ("history", state.history)):
        try:
            answer[key] = ask()
        except TuningError as error:
            answer["problems"].append(str(error))
    for number in _numbers(state, answer["problems"]):
        answer["generations"].append(_described(state, number, answer["problems"]))
    for ask in (state.missing, state.foreign, state.strangers):
        with contextlib.suppress(TuningError):  # what cannot be read is said already
            answer["problems"] += ask()
    return answer


def _numbers(state: StateDirectory, problems: list) -> list:
    try:
        return state.numbers()
    except TuningError as error:
        if str(error) not in problems:
            problems.append(str(error))
        return []


def _described(state: StateDirectory, number: int, problems: list) -> dict:
    described = {"number": number, "intact": False}
    try:
        manifest = state.manifest(number)
        described.update({key: manifest.get(key) for key in SHOWN})
        described["paths"] = [record["path"] for record in manifest["files"]]
        state.verify(number)
        described["intact"] = True
    except TuningError as error:
        problems.append(str(error))
    return described
