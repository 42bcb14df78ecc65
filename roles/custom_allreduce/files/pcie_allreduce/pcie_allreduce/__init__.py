# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All-reduce of small messages between the GPUs of one host. Importing this loads neither torch nor the shared library."""

from __future__ import annotations

__version__ = "1.0.0"
