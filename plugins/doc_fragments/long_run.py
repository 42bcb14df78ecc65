# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules whose work takes minutes."""

    DOCUMENTATION = r"""
options:
  progress:
    description:
      - Do what takes long beside the module, and return before it is done, with the way to ask on in C(running) and what it says in C(said).
      - The action plugin of the same name sets it, asks on, shows the lines, and returns the result.
    type: bool
    default: false
  run:
    description: The run that a call with O(progress) has begun. The action plugin sets it.
    type: str
  seen:
    description: How much of its lines is known. The action plugin sets it.
    type: int
    default: 0
"""
