# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make `ansible_collections.gpu_node.tuning` importable from a checkout, whatever its folder is called."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import types

COLLECTIONS = pathlib.Path(__file__).resolve().parents[2] / "playbooks" / "collections" / "ansible_collections"

# The link exists in a checkout only. An installed collection is importable already, or its runner sees to it.
if (COLLECTIONS / "gpu_node" / "tuning").is_dir():
    # Not through sys.path: the PyPI package `ansible` brings an `ansible_collections` package that would win there.
    spec = importlib.util.find_spec("ansible_collections")
    package = types.ModuleType("ansible_collections")
    package.__path__ = [str(COLLECTIONS), *(spec.submodule_search_locations if spec else ())]
    sys.modules["ansible_collections"] = package


def pytest_report_header():
    from .interpreters import summary

    return summary()


def pytest_terminal_summary(terminalreporter):
    """Once more at the end, also in a quiet run: what was covered must not be guessed."""
    from .interpreters import summary

    for line in summary():
        terminalreporter.write_line(line)
