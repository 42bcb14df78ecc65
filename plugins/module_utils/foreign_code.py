# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What foreign code in a sitecustomize.py does to environment variables, found by reading its syntax tree.

Recognised: ``os.environ[K] = V``, ``os.environ.setdefault(K, V)``, ``os.environ.update({K: V})``, ``os.putenv(K, V)``, and the same
in a ``for`` loop over literal pairs or over the items of a literal dict. Code that hides the name is caught by running it
(see interpreter.py), not here.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

# A comment that Python or the kernel reads (PEP 263, "#!"); it counts on the first two lines only.
MEANT_FOR_A_MACHINE = re.compile(rb"#!|[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+")


class Assignment(NamedTuple):
    """One variable set by one statement of the file.

    ``line`` is where the name stands; ``first_line`` to ``last_line`` is the top-level statement around it (from 1, inclusive).
    ``removable``: that statement does nothing but set variables, so that taking it out loses nothing else.
    """

    name: str
    value: Optional[str]
    line: int
    first_line: int
    last_line: int
    removable: bool


def find_assignments(source: bytes, path: str) -> list:
    """List of Assignment, in the order of the file. Raises TuningError when ``source`` is not Python."""
    found = []
    statements = _parse(source, path).body
    for statement in statements:
        removable = _only_sets_variables(statement) and not _shares_a_line(statement, statements)
        for name, value, line in _pairs_set_by(statement):
            found.append(
                Assignment(name, value, line, statement.lineno, statement.end_lineno or statement.lineno, removable)
            )
    return found


def lines_without(source: bytes, path: str, assignments: list) -> list:
    """Numbers (from 1) of the lines of ``source`` that stay when the top-level statements of ``assignments`` go.

    With them go their comments, an ``import os`` that only they needed, and blank lines left at the end.
    """
    lines = source.splitlines(keepends=True)
    gone = set()
    for assignment in assignments:
        gone.update(range(assignment.first_line, assignment.last_line + 1))
    tree = _parse(source, path)
    gone.update(_imports_left_without_use(tree, gone))
    gone.update(_comments_above(lines, gone, _lines_of(tree) - gone))
    kept = [number for number in range(1, len(lines) + 1) if number not in gone]
    if gone and max(gone) == len(lines):
        while kept and not lines[kept[-1] - 1].strip():
            kept.pop()
    return kept


def without_statements(source: bytes, path: str, assignments: list) -> bytes:
    """``source`` less the statements of ``assignments``, see lines_without."""
    lines = source.splitlines(keepends=True)
    return b"".join(lines[number - 1] for number in lines_without(source, path, assignments))


def _parse(source: bytes, path: str) -> ast.Module:
    try:
        return ast.parse(source, filename=path)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        where = path if line is None else f"{path}, line {line}"
        reason = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise TuningError(
            f"{where}: not valid Python: {reason}. Every interpreter that imports this file prints an error "
            f"at start. Repair the file, or put the package's own back, then run again."
        ) from error


def _shares_a_line(statement: ast.stmt, statements: list) -> bool:
    """True for ``a(); b()``: taking out the lines of one would take out the other."""
    return any(
        other is not statement
        and other.lineno <= (statement.end_lineno or statement.lineno)
        and statement.lineno <= (other.end_lineno or other.lineno)
        for other in statements
    )


def _pairs_set_by(statement: ast.stmt) -> list:
    """(name, value or None, line) for every variable that ``statement`` or a statement inside it sets."""
    pairs = []
    for node in ast.walk(statement):
        if isinstance(node, (ast.For, ast.AsyncFor)):
            pairs.extend(_pairs_of_loop(node))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if _is_environ_item(target):
                    pairs.extend(_pair(target.slice, node.value))
        elif isinstance(node, ast.Call):
            pairs.extend(_pairs_of_call(node))
    return pairs


def _pair(name: ast.expr, value: Optional[ast.expr]) -> list:
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        literal = value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None
        return [(name.value, literal, name.lineno)]
    return []


def _pairs_of_call(call: ast.Call) -> list:
    function = call.func
    if not isinstance(function, ast.Attribute):
        return []
    if function.attr == "putenv" and len(call.args) == 2:
        return _pair(call.args[0], call.args[1])
    if not _is_environ(function.value):
        return []
    if function.attr == "setdefault" and call.args:
        return _pair(call.args[0], call.args[1] if len(call.args) > 1 else None)
    if function.attr == "update":
        pairs = [(keyword.arg, _text(keyword.value), call.lineno) for keyword in call.keywords if keyword.arg]
        for argument in call.args:
            pairs.extend(_literal_pairs(argument))
        return pairs
    return []


def _pairs_of_loop(loop: ast.For) -> list:
    """The literal pairs that the loop runs over, when its body stores them in the environment."""
    stores = any(_is_environ_item(node) and isinstance(node.ctx, ast.Store) for node in ast.walk(loop))
    calls = any(
        isinstance(node, ast.Attribute) and node.attr in ("setdefault", "putenv", "update") for node in ast.walk(loop)
    )
    return _literal_pairs(loop.iter) if stores or calls else []


def _literal_pairs(node: ast.expr) -> list:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "items":
        node = node.func.value
    pairs = []
    if isinstance(node, ast.Dict):
        for name, value in zip(node.keys, node.values):
            pairs.extend(_pair(name, value) if name is not None else [])
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        for item in node.elts:
            if isinstance(item, (ast.Tuple, ast.List)) and len(item.elts) == 2:
                pairs.extend(_pair(item.elts[0], item.elts[1]))
    return pairs


def _text(node: ast.expr) -> Optional[str]:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_environ(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "environ") or (
        isinstance(node, ast.Name) and node.id == "environ"
    )


def _is_environ_item(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and _is_environ(node.value)


def _only_sets_variables(statement: ast.stmt) -> bool:
    """True for a statement that sets variables from literals, when unset or always, and has no other effect."""
    if isinstance(statement, (ast.For, ast.If)):
        harmless_head = _reads_only(statement.iter if isinstance(statement, ast.For) else statement.test)
        return harmless_head and not statement.orelse and all(_only_sets_variables(inner) for inner in statement.body)
    if isinstance(statement, ast.Assign):
        return all(_is_environ_item(target) for target in statement.targets) and _reads_only(statement.value)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        is_store = isinstance(call.func, ast.Attribute) and (
            call.func.attr == "putenv" or (call.func.attr in ("setdefault", "update") and _is_environ(call.func.value))
        )
        arguments = list(call.args) + [keyword.value for keyword in call.keywords]
        return is_store and all(_reads_only(argument) for argument in arguments)
    return False


def _reads_only(expression: ast.expr) -> bool:
    """True when evaluating ``expression`` calls nothing but the reading methods of a dict."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "items", "keys", "values")
        ):
            return False
        if isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            return False
    return True


def _imports_left_without_use(tree: ast.Module, gone: set) -> set:
    """Lines of a plain ``import os`` that nothing outside the lines ``gone`` uses."""
    kept = [statement for statement in tree.body if statement.lineno not in gone]
    used = {node.id for statement in kept for node in ast.walk(statement) if isinstance(node, ast.Name)}
    lines = set()
    for statement in kept:
        if (
            isinstance(statement, ast.Import)
            and [alias.name for alias in statement.names] == ["os"]
            and not _shares_a_line(statement, tree.body)
        ):
            bound = statement.names[0].asname or "os"
            needed_by_gone = any(
                isinstance(node, ast.Name) and node.id == bound
                for inner in tree.body
                if inner.lineno in gone
                for node in ast.walk(inner)
            )
            if needed_by_gone and bound not in used:
                lines.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return lines


def _lines_of(tree: ast.Module) -> set:
    """Numbers of the lines that statements stand on; a line of a long string may look like a comment."""
    return {
        number
        for statement in tree.body
        for number in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }


def _comments_above(lines: list, gone: set, code: set) -> set:
    """Comment lines that stand directly above a line of ``gone``, none of the lines ``code`` among them."""
    comments = set()
    for number in gone:
        above = number - 1
        while above > 0 and above not in gone and above not in code and lines[above - 1].lstrip().startswith(b"#"):
            if above <= 2 and MEANT_FOR_A_MACHINE.match(lines[above - 1]):
                break
            comments.add(above)
            above -= 1
    return comments
