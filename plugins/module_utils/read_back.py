# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare what was declared with what the interpreter says, variable by variable."""

from __future__ import annotations

import os
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import foreign_code, managed_block
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter
from ansible_collections.gpu_node.tuning.plugins.module_utils.option_names import option

EFFECTIVE, OVERRIDDEN, SHADOWED, ABSENT = "effective", "overridden", "shadowed", "absent"
ENVIRONMENT = "environment"


class Variable(NamedTuple):
    """One variable, layer by layer; every value is text, None where the layer has none.

    ``state``: effective, overridden, shadowed or absent. ``origin``: ``environment``, ``PATH:LINE`` of a sitecustomize.py, or words.
    """

    name: str
    declared: Optional[str]
    file: Optional[str]
    interpreter: Optional[str]
    spawn: Optional[str]
    isolated: Optional[str]
    state: str
    origin: str


class ReadBack(NamedTuple):
    """``imported``: the file that the interpreter imported as sitecustomize; ``expected``: the file that it should have been."""

    executable: str
    version: str
    expected: str
    imported: Optional[str]
    variables: list

    def as_dict(self) -> dict:
        return dict(self._asdict(), variables=[variable._asdict() for variable in self.variables])


def read_back(
    interpreter: Interpreter,
    resolution: dict,
    path: str,
    content: Optional[bytes],
    declared: dict,
    writes_bytecode: bool = False,
) -> ReadBack:
    """Start the interpreter as the service does (and once more with -I) and judge every variable of ``declared``.

    ``declared``: name to value; None for a variable that is only looked at.

    ``path``: the sitecustomize.py that should be in effect, ``content`` its bytes on disk (None: absent). Raises TuningError when the
    interpreter gives no answer; a value that differs is not an error here.
    """
    names = sorted(declared)
    started = interpreter.read_back(names, writes_bytecode=writes_bytecode)
    isolated = interpreter.read_back(names, isolated=True)
    on_disk = values_in_block(content, path)
    variables = []
    for name in names:
        value, line = on_disk.get(name, (None, None))
        facts = _Facts(
            declared=declared[name],
            value=started["env"].get(name),
            is_ours=same_file(started["file"], path),
            imported=started["file"],
            preset=interpreter.service.environment.get(name),
            before_site=resolution["env"].get(name),
            ours=f"{path}:{line}" if line else path,
            in_block=value,
        )
        state, origin = _judge(facts)
        spawned = started["spawn"]["env"].get(name)
        variables.append(
            Variable(name, declared[name], value, facts.value, spawned, isolated["env"].get(name), state, origin)
        )
    return ReadBack(resolution["executable"], resolution["version"], path, started["file"], variables)


def faults(result: ReadBack, precedence: str) -> list:
    """One sentence for every variable that is not in effect; a value preset in the environment wins by right under ``respect``."""
    found = []
    for variable in result.variables:
        by_right = variable.state == OVERRIDDEN and variable.origin == ENVIRONMENT and precedence == "respect"
        if variable.declared is None:
            continue  # only looked at, to see whether it is gone: what others set is theirs to set
        if variable.state != EFFECTIVE and not by_right:
            found.append(
                f"{variable.name}: declared {variable.declared!r}, the interpreter has {variable.interpreter!r}: {variable.state} ({variable.origin})"
            )
        elif variable.spawn != variable.interpreter:
            found.append(
                f"{variable.name}: the interpreter has {variable.interpreter!r}, but its spawned child {variable.spawn!r}"
            )
    return found


def remarks(result: ReadBack) -> list:
    """What is not a fault but must be said."""
    return [
        f"{variable.name}: the environment of the service presets {variable.interpreter!r}, which wins over the declared {variable.declared!r} "
        f"(precedence: respect). Take it out of the service's environment, or set {option('precedence', 'force')}."
        for variable in result.variables
        if variable.declared is not None and variable.state == OVERRIDDEN and variable.origin == ENVIRONMENT
    ]


def values_in_block(content: Optional[bytes], path: str) -> dict:
    """name -> (value, line in the file) of the variables that the managed block sets; {} without one."""
    if content is None:
        return {}
    parts = managed_block.split(content, path)
    if parts.body is None:
        return {}
    in_place = b"\n" * parts.line + parts.body  # so that the lines, those of an error too, are those of the file
    return {found.name: (found.value, found.line) for found in foreign_code.find_assignments(in_place, path)}


def same_file(imported: Optional[str], path: str) -> bool:
    return imported is not None and os.path.realpath(imported) == os.path.realpath(path)


class _Facts(NamedTuple):
    declared: Optional[str]
    value: Optional[str]
    is_ours: bool
    imported: Optional[str]
    preset: Optional[str]
    before_site: Optional[str]
    ours: str
    in_block: Optional[str] = None


def _judge(facts: _Facts) -> tuple:
    """(state, origin) of one variable."""
    if facts.declared is None:
        return _judge_undeclared(facts)
    if not facts.is_ours:
        return SHADOWED, _instead_of_ours(facts)
    if facts.value is None:
        return ABSENT, f"not set after {facts.imported} ran"
    if facts.value == facts.declared:
        return EFFECTIVE, ENVIRONMENT if facts.preset == facts.value else facts.ours
    if facts.preset == facts.value:
        return OVERRIDDEN, ENVIRONMENT
    if facts.before_site == facts.value:
        return OVERRIDDEN, "a .pth file that runs before sitecustomize"
    if facts.in_block == facts.value:
        return OVERRIDDEN, f"{facts.ours}, where the managed block itself differs from what is declared"
    return OVERRIDDEN, f"code that runs at the start beside the managed block of {facts.imported}"


def _judge_undeclared(facts: _Facts) -> tuple:
    if facts.value is None:
        return ABSENT, "not set"
    if facts.preset == facts.value:
        return OVERRIDDEN, ENVIRONMENT
    if facts.is_ours and facts.in_block == facts.value:
        return OVERRIDDEN, facts.ours
    return OVERRIDDEN, f"code that runs at the start, imported file {facts.imported}"


def _instead_of_ours(facts: _Facts) -> str:
    if facts.imported is None:
        return f"no sitecustomize is imported, not even {facts.ours}"
    return f"{facts.imported} is imported instead of {facts.ours}"
