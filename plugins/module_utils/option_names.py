# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a message names an option: as the module has it, and as the role has it, because a reader knows one of the two."""

from __future__ import annotations

from typing import Optional


def option(name: str, value: Optional[str] = None) -> str:
    """``state_dir (role variable nccl_env_state_dir)``, with a value ``takeover: replace (role variable ...)``."""
    return f"{name if value is None else f'{name}: {value}'} (role variable nccl_env_{name})"
