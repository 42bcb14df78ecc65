# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of what runs on the controller alone: said once for the action plugin, and for the module that documents it."""

from __future__ import annotations

SHOW_LINES = {"lines": {"type": "list", "elements": "str", "required": True}}

DRIFT_REPORT = {
    "results": {"type": "dict", "required": True},
    "dest": {"type": "path", "required": True},
    "textfile_dir": {"type": "path"},
}

HISTORY_REPORT = {
    "results": {"type": "dict", "required": True},
    "dest": {"type": "path", "required": True},
}

RESOLVE_PROFILE = {
    "name": {"type": "str", "required": True},
    "shipped": {"type": "raw", "required": True},
    "tuning_profiles": {"type": "dict", "default": {}},
    "overrides": {"type": "dict", "default": {}},
    "admission": {"type": "bool", "default": True},
    "look": {"type": "dict", "default": {}},
    "allow_probe": {"type": "bool", "default": False},
    "hardware_check": {"type": "str", "choices": ["refuse", "warn", "off"], "default": "off"},
    "allow_dead_end": {"type": "bool", "default": False},
    "allow_risk": {"type": "list", "elements": "str", "default": []},
    "communicators": {"type": "int", "default": 1},
    "service_environment": {"type": "dict", "default": {}},
}
