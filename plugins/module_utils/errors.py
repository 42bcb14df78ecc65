# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception that the logic raises for something a user can act on."""

from __future__ import annotations


class TuningError(Exception):
    """A refusal or a failure with one clear message: what, where, which value, and the way on."""
