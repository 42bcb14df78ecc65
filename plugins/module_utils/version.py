# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Version of the collection, for the records on the node. A check keeps it equal to galaxy.yml."""

from __future__ import annotations

VERSION = "0.1.0"


def as_numbers(version: str) -> tuple:
    """``1.10.2`` as (1, 10, 2); a pre-release suffix does not count. Raises ValueError for anything else."""
    return tuple(int(part) for part in version.split("-")[0].split("+")[0].split("."))
