"""The pinned requirements are complete, agree with each other, and are all that is installed."""

from __future__ import annotations

import importlib.metadata

from common import BIN, ROOT, CheckFailed, main, run, say


def pins(name: str) -> set[str]:
    """The requirement lines of one file, comments left out."""
    lines = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return {line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")}


def name_of(pin: str) -> str:
    return pin.split("==")[0]


def check() -> None:
    for name in ("demo", "test", "collections"):
        if loose := [pin for pin in pins(name) if "==" not in pin]:
            raise CheckFailed(f"requirements/{name}.txt does not pin {', '.join(loose)}")
    # Markers may be weaker in the larger set, versions may not differ.
    for pin in pins("demo"):
        if pin.split(" ; ")[0] not in {other.split(" ; ")[0] for other in pins("test")}:
            raise CheckFailed(
                f"requirements/test.txt does not have {pin} of requirements/demo.txt: run make requirements"
            )
    # The tools were installed without dependencies, so a missing pin shows here.
    run([BIN / "python", "-m", "pip", "check"])
    present = {
        distribution.metadata["Name"].lower().replace("_", "-").replace(".", "-")
        for distribution in importlib.metadata.distributions()
    }
    unpinned = present - {name_of(pin) for pin in pins("test")} - {"pip", "setuptools", "uv", "wheel"}
    if unpinned:
        raise CheckFailed(f"in .venv, but in no requirements file: {', '.join(sorted(unpinned))}")
    say(f"{len(present)} packages")


if __name__ == "__main__":
    main(check)
