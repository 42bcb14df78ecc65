"""Run every command of README.md.

A command is a line of a fenced block marked sh, bash, shell or console (there: the lines that start with "$ "). The
blocks run in the order of the page, each from the root of one clean clone, with a home directory of its own and with
.venv/bin on PATH. A comment right above a block says when it is to be treated otherwise:

    <!-- check: fails N -->   the block ends with exit status N
    <!-- check: fleet -->     needs real nodes: ansible-playbook runs with --syntax-check, then with --list-tasks
    <!-- check: by NAME -->   the check NAME of tests/run_checks.py runs this command (by test: it is make test itself)

A block of another kind whose lines look like commands is an error, and so is a comment that this page does not name.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from common import CACHE, ROOT, CheckFailed, clean_clone, fresh_environment, main, run, say, scratch

SHELLS = {"sh", "bash", "shell", "console"}
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+)(?P<language>[\w+-]*)")
DIRECTIVE = re.compile(r"<!--\s*check:\s*(?P<words>.*?)\s*-->")
LOOKS_LIKE_A_COMMAND = re.compile(r"^\s*(\$ |make |ansible|git clone|python3? |pip |sudo |cd )")


@dataclass
class Block:
    line: int
    directive: list[str]
    script: str

    def commands(self) -> list[str]:
        joined = re.sub(r"\\\n\s*", "", self.script)
        return [row.strip() for row in joined.splitlines() if row.strip() and not row.lstrip().startswith("#")]


def blocks(text: str) -> Iterator[Block]:
    directive: list[str] = []
    body: list[str] | None = None
    start, indent, language, closing = 0, "", "", ""
    for number, row in enumerate(text.splitlines(), 1):
        if body is not None:
            if row.strip() == closing:
                if language in SHELLS:
                    if language == "console":
                        body = [inner[2:] for inner in body if inner.startswith("$ ")]
                    yield Block(start, directive, "\n".join(body))
                elif any(LOOKS_LIKE_A_COMMAND.match(inner) for inner in body):
                    raise CheckFailed(f"README.md:{start}: looks like commands; mark the block as sh, or as console")
                body, directive = None, []
            else:
                body.append(row.removeprefix(indent))
        elif fence := FENCE.match(row):
            body, start, language, closing, indent = [], number, fence["language"], fence["fence"], fence["indent"]
        elif found := DIRECTIVE.search(row):
            directive = found["words"].split()
        elif row.strip() and directive:
            raise CheckFailed(f"README.md:{number}: a check comment belongs right above a block")
    if body is not None:
        raise CheckFailed(f"README.md:{start}: the block does not end")


def known_checks() -> set[str]:
    sys.path.insert(0, str(ROOT / "tests"))
    import run_checks

    return {check.name for check in run_checks.table()} | {"test"}


def run_block(block: Block, clone: Path, env: dict[str, str]) -> None:
    say(f"\n# README.md:{block.line} {' '.join(block.directive)}")
    match block.directive:
        case []:
            run(["bash", "-euo", "pipefail", "-c", block.script], cwd=clone, env=env)
        case ["fails", status] if status.isdigit():
            run(["bash", "-euo", "pipefail", "-c", block.script], cwd=clone, env=env, expect=int(status))
        case ["by", name] if name in known_checks():
            say(f"run by {name}: {block.script}")
        case ["fleet"]:
            folder = clone
            for command in block.commands():
                words = shlex.split(command, comments=True)
                if words[0] == "cd":
                    folder = folder / words[1]
                elif words[0] == "ansible-playbook":
                    for mode in ("--syntax-check", "--list-tasks"):
                        run([*words, mode], cwd=folder, env=env)
                else:
                    raise CheckFailed(
                        f"README.md:{block.line}: a fleet block holds ansible-playbook commands: {command}"
                    )
        case words:
            raise CheckFailed(f"README.md:{block.line}: unknown check comment: {' '.join(words)}")


def check() -> None:
    page = list(blocks((ROOT / "README.md").read_text(encoding="utf-8")))
    if not page:
        raise CheckFailed("README.md has no command")
    with scratch("readme") as folder:
        clone, home = folder / "clone", folder / "home"
        clone.mkdir()
        home.mkdir()
        clean_clone(clone)
        env = fresh_environment(HOME=str(home), PIP_CACHE_DIR=str(CACHE / "pip"), LC_ALL="C.UTF-8")
        env["PATH"] = os.pathsep.join([str(clone / ".venv" / "bin"), env["PATH"]])
        for block in page:
            try:
                run_block(block, clone, env)
            except CheckFailed as finding:
                raise CheckFailed(f"README.md:{block.line}: {finding}") from None
    say(f"\n{sum(len(block.commands()) for block in page)} commands")


if __name__ == "__main__":
    main(check)
