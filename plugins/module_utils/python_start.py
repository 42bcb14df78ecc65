# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Code that a Python interpreter runs at its start beside our block: .pth and .start files, and sitecustomize.py files of others.

Found by reading, not by running. Bytes in, data out: nothing here opens a file.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import foreign_code, managed_block
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

START_FILES = (3, 15)  # the Python that begins to read .start files
OURS, OPENTELEMETRY, DDTRACE, DEBUGGER, OTHER = "ours", "OpenTelemetry", "ddtrace", "debugger", "other"
IMPORTED, CHAINED, SHADOWED = "imported", "chained to", "shadowed"

_NAME = re.compile(r"\bNCCL_[A-Z0-9_]+\b")
_GUARD = re.compile(r"\bsetdefault\b|\bnot\s+in\b|\.get\(|\bgetenv\(")
_BRANCH = ("def ", "async ", "class ", "if ", "while ", "elif ", "else")
_IMPORTERS = {"import_module", "__import__", "find_module", "find_spec", "load_module", "run_module", "reload"}
_RUNNERS = {"exec", "execfile", "run_path", "exec_module", "spec_from_file_location", "SourceFileLoader"}


class CodeSetting(NamedTuple):
    """A variable that code sets. ``value``: None when it is computed. ``overwrites``: True replaces what the environment has, False sets

    only what is unset, None could not be told.
    """

    name: str
    value: Optional[str]
    path: str
    line: int
    overwrites: Optional[bool]


class SiteFile(NamedTuple):
    """One sitecustomize on the path. ``kind``: whose it is; ``chains``: it imports the next one (None: unreadable)."""

    path: str
    kind: str
    state: str
    chains: Optional[bool]


def parse_pth(content: bytes, path: str) -> list:
    """List of CodeSetting of the ``import`` lines of a .pth file; its other lines only name directories. Never raises."""
    found = []
    for number, line in enumerate(_text(content).splitlines(), start=1):
        if not line.startswith(("import ", "import\t")):
            continue
        overwrites = not _GUARD.search(line)
        try:
            pairs = foreign_code.find_assignments(line.encode("utf-8", "surrogateescape"), path)
        except (TuningError, RecursionError, MemoryError):
            continue  # a line that is no Python sets nothing
        known = [(pair.name, pair.value, overwrites) for pair in pairs if _NAME.fullmatch(pair.name)]
        for name in dict.fromkeys(_NAME.findall(line)):
            if name not in {pair[0] for pair in known}:
                known.append((name, None, None))
        found.extend(CodeSetting(name, value, path, number, how) for name, value, how in known)
    return found


def parse_start(content: bytes, path: str) -> list:
    """Remarks on the entry points of a .start file (``package.module:callable``) that have to do with NCCL. Never raises."""
    return [
        f"{path}:{number}: Python calls {line.strip()} at its start, before sitecustomize; what it sets was not looked at."
        for number, line in enumerate(_text(content).splitlines(), start=1)
        if not line.lstrip().startswith("#") and "nccl" in line.lower()
    ]


def settings_of(content: bytes, path: str) -> list:
    """List of CodeSetting of the foreign code in a sitecustomize.py. Raises TuningError where it is no Python or its markers do not pair up."""
    masked = managed_block.split(content, path).masked
    lines = masked.decode("utf-8", "surrogateescape").splitlines()
    found = []
    for entry in foreign_code.find_assignments(masked, path):
        statement = "\n".join(lines[entry.first_line - 1 : entry.last_line])
        overwrites = True
        if _GUARD.search(statement):
            overwrites = False
        elif statement.lstrip().startswith(_BRANCH):
            overwrites = None
        found.append(CodeSetting(entry.name, entry.value, path, entry.line, overwrites))
    return found


def rank(candidates: list, ours: Optional[str]) -> list:
    """List of SiteFile, in the order of the path. ``candidates``: list of (path, bytes or None when unreadable) in that order.

    Only the first runs, then as many more as each one before imports the next (read from its source, see chains_on).
    """
    found, reached = [], True
    for index, (path, content) in enumerate(candidates):
        state = (CHAINED if index else IMPORTED) if reached else SHADOWED
        chains = None if content is None else chains_on(content)
        found.append(SiteFile(path, OURS if path == ours else kind_of(path, content or b""), state, chains))
        reached = reached and bool(chains)
    return found


def kind_of(path: str, content: bytes) -> str:
    """Whose sitecustomize.py this is, by its path and its text."""
    for kind, folder, text in (
        (
            OPENTELEMETRY,
            "opentelemetry/instrumentation/auto_instrumentation/",
            b"opentelemetry.instrumentation.auto_instrumentation",
        ),
        (DDTRACE, "ddtrace/", b"import ddtrace"),
        (DEBUGGER, "pydev_sitecustomize/", b"pydevd"),
    ):
        if f"/{folder}" in path or text in content:
            return kind
    return OTHER


def chains_on(content: bytes) -> bool:
    """True when the code of a sitecustomize.py imports or runs another file of that name: by its name, as far as its text tells."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names_a_file = any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith("sitecustomize.py")
        for node in ast.walk(tree)
    )
    return any(_imports_next(node, names_a_file) for node in ast.walk(tree))


def _imports_next(node: ast.AST, names_a_file: bool) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name == "sitecustomize" for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return node.module == "sitecustomize" and node.level == 0
    if not isinstance(node, ast.Call):
        return False
    called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
    by_name = any(isinstance(argument, ast.Constant) and argument.value == "sitecustomize" for argument in node.args)
    return (called in _IMPORTERS and by_name) or (called in _RUNNERS and names_a_file)


def _text(content: bytes) -> str:
    return content.decode("utf-8-sig", "surrogateescape")
