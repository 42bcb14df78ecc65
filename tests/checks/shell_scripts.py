"""shellcheck on every shell script of the repository, found by its name or its first line."""

from __future__ import annotations

import re

from common import ROOT, main, run, say, sources

SHEBANG = re.compile(rb"#!\s*(/usr)?/bin/(env\s+)?(ba|da)?sh\b")


def is_script(name) -> bool:
    path = ROOT / name
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as stream:
        return name.suffix in {".sh", ".bash"} or SHEBANG.match(stream.readline()) is not None


def check() -> None:
    scripts = [name for name in sources() if is_script(name)]
    run(["shellcheck", "--external-sources", "--severity=style", *scripts])
    say(f"{len(scripts)} scripts")


if __name__ == "__main__":
    main(check)
