# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shape that the filters on results of several nodes share."""

from __future__ import annotations

from collections.abc import Mapping

from ansible.errors import AnsibleFilterError


def checked(name, function):
    """``function`` behind a check of its input: a dictionary, node name to result."""

    def checked_function(results):
        if not isinstance(results, Mapping):
            raise AnsibleFilterError(f"{name}: {type(results).__name__}; legal: a dictionary, node name to result.")
        return function(results)

    return checked_function
