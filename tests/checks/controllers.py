"""tune.yml from every supported controller: Python 3.11 with ansible-core 2.19, Python 3.12 and 3.13 with 2.21.

Each runs from a clean clone with a virtual environment of its own that holds the pinned ansible-core and nothing else:
a dry run on nodes that were never tuned, a run that changes them, a run and a dry run that change nothing. Interpreters
of this machine are used where there are any; an end of the matrix that this machine lacks runs in a container of the
Debian release that has it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from common import BIN, CACHE, ROOT, CheckFailed, clean_clone, fresh_environment, main, run, say, scratch
from demo import recap
from interpreters import interpreters

SUPPORTED = ((3, 11), (3, 12), (3, 13))
# The ends of the matrix: a Python of one of these versions has to take part.
ENDS = (({(3, 11)}, "bookworm"), ({(3, 12), (3, 13)}, "trixie"))
TUNE = ["ansible-playbook", "playbooks/tune.yml", "-i", "inventories/sandbox", "-e", "profile=known_good"]
# (arguments, whether the nodes change)
STEPS = ((["--check", "--diff"], True), ([], True), ([], False), (["--check", "--diff"], False))
VERSION = (
    "import ansible.release, platform; print('core', ansible.release.__version__, 'on', platform.python_version())"
)


def tuned(label: str, prefix: list[object], clone: Path, env: dict[str, str] | None) -> str:
    """Take the steps; `prefix` makes a command run inside the controller. Returns the versions that it names."""
    said, _ = run([*prefix, "python", "-c", VERSION], cwd=clone, env=env)
    for arguments, changes in STEPS:
        output, _ = run([*prefix, *TUNE, *arguments], cwd=clone, env=env)
        nodes = recap(output)
        wrong = {name: counts for name, counts in nodes.items() if bool(counts[1]) != changes or counts[2] or counts[3]}
        if len(nodes) < 2 or wrong:
            expected = "every node changed" if changes else "no node changed"
            raise CheckFailed(f"{label}: tune.yml {' '.join(arguments)}: expected {expected}: {nodes}")
        if "[DEPRECATION WARNING]" in output or "[WARNING]" in output:
            raise CheckFailed(f"{label}: tune.yml {' '.join(arguments)} warns")
    return said.strip().splitlines()[-1]


def on_this_machine(version: tuple[int, int], program: Path, folder: Path) -> str:
    clone = folder / f"clone-{version[0]}.{version[1]}"
    clone.mkdir()
    clean_clone(clone)
    env = fresh_environment(PIP_CACHE_DIR=str(CACHE / "pip"), LC_ALL="C.UTF-8", TMPDIR=str(folder))
    run(["make", "setup", f"PYTHON={program}"], cwd=clone, env=env)
    env["PATH"] = os.pathsep.join([str(clone / ".venv" / "bin"), env["PATH"]])
    return tuned(f"{version[0]}.{version[1]}", [], clone, env)


def wheelhouse(folder: Path, version: str) -> Path:
    """Wheels of requirements/demo.txt for another Python. pip evaluates markers for its own, so that is done here."""
    from packaging.requirements import Requirement

    lines = (ROOT / "requirements" / "demo.txt").read_text(encoding="utf-8").splitlines()
    wanted = [Requirement(line) for line in lines if line and not line.startswith("#")]
    target = {"python_version": version, "python_full_version": f"{version}.0"}
    pins = [f"{r.name}{r.specifier}" for r in wanted if r.marker is None or r.marker.evaluate(target)]
    wheels = folder / f"wheels-{version}"
    machine = os.uname().machine
    platforms = [word for tag in ("2_17", "2_28", "2_34") for word in ("--platform", f"manylinux_{tag}_{machine}")]
    command = [BIN / "python", "-m", "pip", "download", "-qq", "--no-deps", "--only-binary", ":all:", "--dest", wheels]
    run([*command, "--python-version", version, "--implementation", "cp", *platforms, *pins])
    return wheels


def in_a_container(suite: str, folder: Path) -> str:
    systems = ROOT / "tests" / "systems"
    if os.geteuid() != 0 or not shutil.which("podman"):
        raise CheckFailed(
            f"no interpreter for this end of the matrix here; its container needs root and podman ({suite})"
        )
    output, _ = run([systems / "build_image.sh", suite])
    image = output.strip().splitlines()[-1]
    clone = folder / f"clone-{suite}"
    clone.mkdir()
    clean_clone(clone)
    version = {"bookworm": "3.11", "trixie": "3.13"}[suite]
    wheels = wheelhouse(folder, version)
    # The kernel may forbid the limits that an unprivileged container gets. The network stays out all the same.
    options = ["--rm", "--network=none", "--privileged", "--pids-limit=-1", "--systemd=false"]
    start = [systems / "podman", "run", *options, f"--volume={folder}:{folder}", f"--workdir={clone}"]
    environment = [f"--env=PATH={clone}/.venv/bin:/usr/bin:/bin", "--env=LC_ALL=C.UTF-8"]
    prefix = [*start, *environment, image]
    pip = f".venv/bin/pip install -qq --no-index --find-links {wheels} --no-deps -r requirements/demo.txt"
    run([*prefix, "sh", "-c", f"python3 -m venv .venv && {pip}"])
    try:
        return tuned(suite, prefix, clone, None)
    finally:
        run([systems / "podman", "leave"])


def check() -> None:
    present = {version: program for version, program in interpreters().items() if version in SUPPORTED}
    missing = [suite for versions, suite in ENDS if not versions & present.keys()]
    with scratch("controllers") as folder:
        done = [on_this_machine(version, program, folder) for version, program in present.items()]
        done += [in_a_container(suite, folder) for suite in missing]
        say("\n".join(done))


if __name__ == "__main__":
    sys.exit(main(check))
