"""Rules of the repository that no linter knows."""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Callable, Iterator

from common import ROOT, CheckFailed, main, say, sources

HEADER = """\
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
LINK = ROOT / "playbooks" / "collections" / "ansible_collections" / "gpu_node" / "tuning"
PATHS = re.compile(r"^(?:\.\./)?(inventories/|\.cache/|(?:playbooks/)?collections$)")


def the_checkout_finds_itself() -> Iterator[str]:
    if not LINK.is_symlink() or LINK.resolve() != ROOT:
        yield f"{LINK.relative_to(ROOT)} does not lead back to the root of the checkout"


def both_settings_are_alike() -> Iterator[str]:
    """The two ansible.cfg differ only in how their paths start."""

    def values(name: str) -> dict[str, object]:
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(ROOT / name)
        folder = (ROOT / name).parent
        return {
            f"[{section}] {key}": (folder / value).resolve() if PATHS.match(value) else value
            for section in parser.sections()
            for key, value in parser[section].items()
        }

    root, playbooks = values("ansible.cfg"), values("playbooks/ansible.cfg")
    for key in sorted(root.keys() | playbooks.keys()):
        if root.get(key) != playbooks.get(key):
            yield f"{key}: ansible.cfg has {root.get(key)}, playbooks/ansible.cfg has {playbooks.get(key)}"


def plugins_say_their_licence() -> Iterator[str]:
    for name in sources():
        if name.parts[0] == "plugins" and name.suffix == ".py" and name.name != "__init__.py":
            text = (ROOT / name).read_text(encoding="utf-8")
            if HEADER not in text:
                yield f"{name} has no licence header"
            if "from __future__ import annotations" not in text:
                yield f"{name} lacks from __future__ import annotations"


def modules_are_complete() -> Iterator[str]:
    """DOCUMENTATION, EXAMPLES and RETURN are in every module, and what an action plugin acts for has a module."""
    for name in sources():
        if name.parts[:2] == ("plugins", "modules") and name.suffix == ".py":
            tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
            names = {
                target.id
                for node in tree.body
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for wanted in ("DOCUMENTATION", "EXAMPLES", "RETURN"):
                if wanted not in names:
                    yield f"{name} has no {wanted}"
        if name.parts[:2] == ("plugins", "action") and not (ROOT / "plugins" / "modules" / name.name).exists():
            yield f"{name} has no module of the same name"


def nothing_generated_is_tracked() -> Iterator[str]:
    for name in sources():
        if name.suffix in {".pyc", ".gz", ".log"} or name.parts[0] in {".venv", ".cache", ".sandbox", ".ansible"}:
            yield f"{name} is generated and must not be in the repository"


RULES: tuple[Callable[[], Iterator[str]], ...] = (
    the_checkout_finds_itself,
    both_settings_are_alike,
    plugins_say_their_licence,
    modules_are_complete,
    nothing_generated_is_tracked,
)


def check() -> None:
    wrong = [finding for rule in RULES for finding in rule()]
    if wrong:
        raise CheckFailed("\n".join(["", *wrong]))
    say(f"{len(RULES)} rules")


if __name__ == "__main__":
    main(check)
