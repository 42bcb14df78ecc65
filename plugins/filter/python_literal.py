# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: python_literal
short_description: Turn text into a Python string literal
version_added: 0.1.0
description:
  - Gives the source text of a Python string literal, ASCII only, that evaluates to exactly the input.
  - No value, however hostile, can end the literal and become code.
  - Text that an environment variable cannot hold is refused - a NUL character, or a surrogate that stands for no byte.
author:
  - gpu_node.tuning contributors (@gpu-node)
positional: _input
options:
  _input:
    description: The text.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Render one assignment
  ansible.builtin.debug:
    msg: "os.environ['NCCL_PROTO'] = {{ 'LL' | gpu_node.tuning.python_literal }}"
"""

RETURN = r"""
_value:
  description: A Python string literal.
  type: str
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.gpu_node.tuning.plugins.module_utils.python_literal import python_literal


def _python_literal(value):
    try:
        return python_literal(value)
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    def filters(self):
        return {"python_literal": _python_literal}
