"""What several checks need: the checkout, a copy of it, a command whose output goes to the log."""

from __future__ import annotations

import contextlib
import difflib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache"
BIN = ROOT / ".venv" / "bin"


class CheckFailed(Exception):
    """The message is the finding."""


def sources() -> list[Path]:
    """Every file that is, or would be, in the repository: tracked, or neither tracked nor ignored."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return [Path(name) for name in sorted(set(names)) if name and os.path.lexists(ROOT / name)]


def say(*words: object) -> None:
    print(*words, flush=True)


def run(
    command: Sequence[object], *, cwd: Path = ROOT, env: Mapping[str, str] | None = None, expect: int = 0
) -> tuple[str, float]:
    """Run a command, show it with its output, and return the output and the seconds it took."""
    words = [str(word) for word in command]
    say(f"$ {shlex.join(words)}")
    started = time.monotonic()
    done = subprocess.run(
        words,
        cwd=cwd,
        env=env,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seconds = time.monotonic() - started
    say(done.stdout.rstrip())
    if done.returncode != expect:
        raise CheckFailed(f"exit status {done.returncode}, expected {expect}: {shlex.join(words)}")
    return done.stdout, seconds


@contextlib.contextmanager
def scratch(name: str) -> Iterator[Path]:
    """An empty directory under .cache, removed when the check has passed and kept for a look when it has not."""
    base = CACHE / "work"
    base.mkdir(parents=True, exist_ok=True)
    for old in base.glob(f"{name}-*"):
        shutil.rmtree(old, ignore_errors=True)
    path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=base))
    yield path
    shutil.rmtree(path)


def clean_clone(target: Path) -> Path:
    """What `git clone` would give after committing the working tree, as a repository with one commit."""
    for name in sources():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    git = [
        "git",
        "-C",
        str(target),
        "-c",
        "user.name=checks",
        "-c",
        "user.email=checks@localhost",
        "-c",
        "init.defaultBranch=main",
    ]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--no-verify", "--message", "copy"], check=True)
    return target


def fresh_environment(**extra: str) -> dict[str, str]:
    """The environment of a person who has just logged in: no setting of the runner, none of Ansible."""
    kept = ("HOME", "USER", "LOGNAME", "LANG", "TERM", "CI")
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if Path(part) != BIN)
    pip = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "SSL_", "REQUESTS_", "PYENV_")) or name.lower().endswith("_proxy")
    }
    return {name: os.environ[name] for name in kept if name in os.environ} | pip | {"PATH": path} | extra


def main(check) -> None:
    """Run a check's function; its finding becomes the last line of the log and the exit status."""
    try:
        check()
    except CheckFailed as finding:
        sys.exit(f"FAILED: {finding}")


def use_this_collection() -> None:
    """Import the collection of this checkout; not through sys.path, where another package of this name may win."""
    package = types.ModuleType("ansible_collections")
    package.__path__ = [str(ROOT / "playbooks" / "collections" / "ansible_collections")]
    sys.modules["ansible_collections"] = package


def generated_page(path: Path, wanted: str, made_by: str = "make pages") -> None:
    """The file on disk must say this; with --write on the command line it is made so."""
    if sys.argv[1:] == ["--write"]:
        path.write_text(wanted, encoding="utf-8")
    found = path.read_text(encoding="utf-8") if path.exists() else ""
    if found != wanted:
        changes = difflib.unified_diff(found.splitlines(), wanted.splitlines(), "on disk", "wanted", lineterm="", n=0)
        raise CheckFailed("\n".join([*list(changes)[:40], f"{path.relative_to(ROOT)} is stale: run {made_by}"]))
