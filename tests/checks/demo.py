"""`make demo` in a clean clone, on a machine that cannot be written outside it: twice, within the promised times."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from common import CACHE, CheckFailed, clean_clone, fresh_environment, main, run, say, scratch

FIRST_LIMIT = 60  # seconds, downloads not counted
SECOND_LIMIT = 15
WRAPPER = Path(__file__).with_name("read_only_outside.sh")
RECAP = re.compile(r"^(\S+)\s*: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


def recap(output: str) -> dict[str, tuple[int, ...]]:
    """Per node: ok, changed, unreachable, failed. The controller itself is no node."""
    rows = RECAP.findall(output)
    return {name: tuple(int(count) for count in counts) for name, *counts in rows if name != "localhost"}


def check() -> None:
    with scratch("demo") as folder:
        clone = folder / "clone"
        clone.mkdir()
        clean_clone(clone)
        # The time limits do not include downloads, so the clone starts with the wheels that this checkout has fetched.
        if (CACHE / "pip").is_dir():
            shutil.copytree(CACHE / "pip", clone / ".cache" / "pip")
        env = fresh_environment()
        env.pop("PIP_CACHE_DIR", None)
        command = [WRAPPER, clone, "make", "demo"]
        output, first = run(command, cwd=clone, env=env)
        before = recap(output)
        if len(before) < 2 or not all(
            changed and not unreachable and not failed for _, changed, unreachable, failed in before.values()
        ):
            raise CheckFailed(f"the first run is to change two nodes or more: {before}")
        output, second = run(command, cwd=clone, env=env)
        after = recap(output)
        if after.keys() != before.keys() or any(any(counts[1:]) for counts in after.values()):
            raise CheckFailed(f"the second run is to change nothing: {after}")
        for variable in ("NCCL_PROTO", "NCCL_BUFFSIZE"):
            if variable not in output:
                raise CheckFailed(f"the table of the second run does not show {variable}")
        status, _ = run(["git", "status", "--porcelain"], cwd=clone)
        if status.strip():
            raise CheckFailed(f"files that .gitignore does not know: {status}")
        say(f"first {first:.1f} s, second {second:.1f} s")
        if first > FIRST_LIMIT or second > SECOND_LIMIT:
            raise CheckFailed(f"slower than {FIRST_LIMIT} s the first time or {SECOND_LIMIT} s the second")


if __name__ == "__main__":
    main(check)
