# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules that read or write the state directory."""

    DOCUMENTATION = r"""
options:
  state_dir:
    description: Directory, on the node, of the generations, the history and the lock.
    type: path
    default: /var/lib/gpu_node_tuning
"""

    LOCK = r"""
options:
  lock_timeout:
    description: How long to wait for another run on the same node, in seconds.
    type: float
    default: 120
"""
