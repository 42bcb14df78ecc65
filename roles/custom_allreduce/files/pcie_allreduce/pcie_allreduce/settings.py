# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the environment of the engine may say about this package, and what of it keeps the package off."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import NamedTuple, Optional

from . import crossover

STAMP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stamp.json")
NOT_WANTED = "PCIE_ALLREDUCE is not 1"
UNSTAMPED = "not built by the role"
WATCHDOG_SECONDS = 300.0  # a peer may compile kernels for minutes while this rank waits in an all-reduce
TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off"}


class SettingError(Exception):
    """A variable of the environment with a value that it cannot have."""


class Settings(NamedTuple):
    wanted: bool
    table: str
    watchdog_seconds: float
    abort: bool
    deterministic: bool


def from_environment(environment: Mapping) -> Settings:
    """Raises SettingError, which names variable, value and legal values."""
    return Settings(
        wanted=_switch(environment, "PCIE_ALLREDUCE", False),
        table=environment.get("PCIE_ALLREDUCE_TABLE") or crossover.TABLE,
        watchdog_seconds=_seconds(environment, "PCIE_ALLREDUCE_WATCHDOG_SECONDS", WATCHDOG_SECONDS),
        abort=_switch(environment, "PCIE_ALLREDUCE_ABORT", True),
        deterministic=str(environment.get("SGLANG_ENABLE_DETERMINISTIC_INFERENCE", "")).lower() in TRUE,
    )


def stamp(path: str = STAMP) -> Optional[dict]:
    """What this package was built from; None for one that was not built by the role."""
    try:
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def build_of(found: Optional[dict]) -> str:
    """The digest that ties a table to a build."""
    return str((found or {}).get("digest") or UNSTAMPED)


def refusal(settings: Settings, table: dict, build: str, world: int, gpu: str) -> Optional[str]:
    """Why this process stays with NCCL, or None. ``gpu`` is the model's name."""
    if not settings.wanted:
        return NOT_WANTED
    if settings.deterministic:
        return "SGLANG_ENABLE_DETERMINISTIC_INFERENCE is on, and the sum would change its order at the crossover"
    if not table["enabled"]:
        return f"it is not enabled on this node: {table['reason']}"
    for name, measured, found in (
        ("build", table["build"], build),
        ("number of ranks", table["world"], world),
        ("GPU", table["gpu"], gpu),
    ):
        if measured != found:
            return f"its table was measured with {name} {measured!r}, and this is {found!r}"
    if crossover.Plan(table).limit == 0:
        return "no size in its table is faster than NCCL"
    return None


def _switch(environment: Mapping, name: str, default: bool) -> bool:
    value = str(environment.get(name, "")).strip().lower()
    if not value:
        return default
    if value not in TRUE | FALSE:
        raise SettingError(f"{name}={value!r}; legal: 1 or 0")
    return value in TRUE


def _seconds(environment: Mapping, name: str, default: float) -> float:
    value = str(environment.get(name, "")).strip()
    try:
        seconds = float(value) if value else default
    except ValueError:
        seconds = float("nan")
    if not 0.1 <= seconds <= 86400:
        raise SettingError(f"{name}={value!r}; legal: seconds from 0.1 to 86400")
    return seconds
