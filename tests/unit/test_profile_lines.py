# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each sentence once, with the nodes that it is about."""

from __future__ import annotations

from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_lines import profile_lines

SMALL = {"text": "at most 24 MiB", "free": ""}


def test_the_same_sentence_is_said_once():
    profiles = {
        "a": {"memory": SMALL, "notes": ["profile x: good to know."]},
        "b": {"memory": {**SMALL, "free": "24 MiB fits into 80000 MiB"}, "notes": []},
        "c": {"memory": SMALL, "notes": ["profile x: good to know."]},
    }
    assert profile_lines(profiles) == [
        "",
        "a, c: GPU memory of NCCL's connections (estimate): at most 24 MiB",
        "a, c: profile x: good to know.",
        "b: GPU memory of NCCL's connections (estimate): at most 24 MiB; 24 MiB fits into 80000 MiB",
    ]


def test_nothing_to_say():
    assert profile_lines({"a": {"memory": None, "notes": []}, "b": {}}) == []
