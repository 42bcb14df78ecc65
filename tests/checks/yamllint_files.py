"""yamllint, strict, on every YAML file of the repository."""

from __future__ import annotations

from common import BIN, main, run, say, sources

NAMES = {".yamllint", ".ansible-lint"}


def check() -> None:
    files = [name for name in sources() if name.suffix in {".yml", ".yaml"} or name.name in NAMES]
    run([BIN / "yamllint", "--strict", *files])
    say(f"{len(files)} files")


if __name__ == "__main__":
    main(check)
