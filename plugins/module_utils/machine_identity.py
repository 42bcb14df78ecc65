# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machine this is, so that records that were copied from another one are not taken for its own."""

from __future__ import annotations

import re
from typing import Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import read_plain

FILE = "/etc/machine-id"
SHOWN = 8  # characters; the whole of it is nobody's business


def machine_id() -> Optional[str]:
    """The identity that the system gave this machine; None where it has none (many containers) or none yet."""
    try:
        text = read_plain(FILE, follow=True, most=64).decode("ascii", "replace").strip()
    except OSError:
        return None
    return text if re.fullmatch("[0-9a-f]{32}", text) else None


def shortened(identity: str) -> str:
    return f"{identity[:SHOWN]}..."
