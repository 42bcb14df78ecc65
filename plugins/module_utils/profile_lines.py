# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person is told about the profiles of several nodes beside the read-back; each sentence once, with its nodes."""

from __future__ import annotations

MEMORY = "GPU memory of NCCL's connections (estimate)"


def profile_lines(profiles: dict) -> list:
    """Lines of text, the first one empty where there are any. ``profiles``: node name to the result of resolve_profile."""
    said = {}
    for node, profile in profiles.items():
        for sentence in _sentences(profile):
            said.setdefault(sentence, []).append(node)
    return [*([""] if said else []), *(f"{', '.join(nodes)}: {sentence}" for sentence, nodes in said.items())]


def _sentences(profile):
    memory = profile.get("memory")
    if memory:
        yield f"{MEMORY}: {memory['text']}" + (f"; {memory['free']}" if memory["free"] else "")
    yield from profile.get("notes", [])
