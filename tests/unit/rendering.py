# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's own template, rendered with the settings of the action plugin but without Ansible."""

from __future__ import annotations

import functools
import pathlib

import jinja2
from ansible_collections.gpu_node.tuning.plugins.module_utils.python_literal import python_literal

TEMPLATE = pathlib.Path(__file__).resolve().parents[2] / "roles" / "nccl_env" / "templates" / "sitecustomize.py.j2"


@functools.cache
def _template() -> jinja2.Template:
    # It renders Python, so there is nothing to escape for HTML.
    environment = jinja2.Environment(  # noqa: S701
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["gpu_node.tuning.python_literal"] = python_literal
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8"))


def rendered(
    env: dict, precedence: str = "respect", scope: str = "system", profile: str | None = "known_good"
) -> bytes:
    """The managed block's body. Raises ValueError for text that cannot be rendered."""
    seen = {"env": env, "precedence": precedence, "scope": scope, "profile": profile}
    return _template().render(sitecustomize=seen).encode("utf-8")
