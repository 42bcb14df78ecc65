"""`ansible-test sanity --venv`, all tests, on the artefact as it is installed at a user's.

Every Python that the machine has and ansible-test knows takes part in the compile and import tests. The log says which
versions it could not try.
"""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from pathlib import Path

from common import BIN, CACHE, CheckFailed, main, run, say, scratch
from interpreters import interpreters
from package import installed

HOME = CACHE / "ansible-test"
BOOTSTRAP = '''\
"""Stands in for the get-pip script, which ansible-test would download: Python ships a pip of its own."""
import ensurepip

ensurepip.bootstrap(default_pip=True)
'''


def cached_bootstrap() -> None:
    """Put the bootstrap where this ansible-test looks for it. The version in the name is read from ansible-test."""
    package = Path(sysconfig.get_path("purelib")) / "ansible_test"
    source = (package / "_internal" / "python_requirements.py").read_text(encoding="utf-8")
    names = set(re.findall(r"\bpip=['\"]([\d.]+)['\"]", source))
    if not names:
        raise CheckFailed("ansible-test no longer says in python_requirements.py which pip it bootstraps")
    folder = HOME / ".ansible" / "test" / "cache"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"get_pip_{name.replace('.', '_')}.py").write_text(BOOTSTRAP, encoding="utf-8")


def visible_pythons(folder: Path) -> str:
    """A PATH on which each interpreter is found by the name that ansible-test looks for."""
    links = folder / "pythons"
    links.mkdir()
    for (major, minor), program in interpreters().items():
        (links / f"python{major}.{minor}").symlink_to(program.resolve())
    say("interpreters:", ", ".join(f"{major}.{minor}" for major, minor in interpreters()))
    return os.pathsep.join([str(links), os.environ["PATH"]])


def check() -> None:
    cached_bootstrap()
    with scratch("sanity") as folder:
        collection = installed(folder)
        # ansible-test lists files with git where a repository is around it, and the checkout ignores this folder.
        subprocess.run(["git", "init", "--quiet", collection], check=True)
        (collection / ".git" / "info" / "exclude").write_text("/tests/output/\n", encoding="utf-8")
        env = os.environ | {"HOME": str(HOME), "PATH": visible_pythons(folder)}
        env.pop("ANSIBLE_CONFIG", None)
        env.pop("PIP_NO_INDEX", None)
        output, _ = run(
            [BIN / "ansible-test", "sanity", "--venv", "--color", "no", "--truncate", "0"], cwd=collection, env=env
        )
        ran = set(re.findall(r"^Running sanity test ['\"]([\w-]+)['\"]", output, re.MULTILINE))
        say(f"{len(ran)} sanity tests")
        if len(ran) < 20:
            raise CheckFailed(f"only {len(ran)} sanity tests ran; ansible-test did not see the collection")


if __name__ == "__main__":
    main(check)
