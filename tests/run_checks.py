"""Run every check of this repository: one summary line each, full logs under .cache/logs.

    python3 tests/run_checks.py [--group GROUP] [--list] [--jobs N] [NAME ...]

Needs nothing but the standard library of Python 3.11, because it also installs what the checks need: Debian packages
(as root, or through sudo when that asks no password) and the pinned test tools in .venv. A check that could not be run
counts as failed and says which command is missing; none is left out in silence.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
LOGS = CACHE / "logs"
BIN = ROOT / ".venv" / "bin"
TAIL_LINES = 60

# Debian/Ubuntu package by the program that tells whether it is there.
PACKAGES = {
    "git": "git",
    "make": "make",
    "shellcheck": "shellcheck",
    "podman": "podman",
    "crun": "crun",
    "mmdebstrap": "mmdebstrap",
    "newuidmap": "uidmap",
    "unshare": "util-linux",
    "mount": "mount",
    "strace": "strace",
    "chattr": "e2fsprogs",
    "g++": "g++",
    "setarch": "util-linux",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "/etc/ssl/certs/ca-certificates.crt": "ca-certificates",
}
CONTAINERS = (
    "podman",
    "crun",
    "mmdebstrap",
    "newuidmap",
    "unshare",
    "mount",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
)


RUNNING: set[int] = set()  # process groups of the checks that are under way


@dataclasses.dataclass
class Check:
    name: str
    command: list[str]
    group: str
    figure: str = ""  # regular expression whose last match in the log is shown in the summary
    every_figure: bool = False  # show every different match
    programs: tuple[str, ...] = ()  # keys of PACKAGES
    root: bool = False
    timeout: int = 600
    alone: bool = False  # measures time, or needs the memory of the whole machine


def tool(name: str, *arguments: str) -> list[str]:
    return [str(BIN / name), *arguments]


def script(name: str, *arguments: str) -> list[str]:
    return tool("python", f"tests/checks/{name}.py", *arguments)


PYTEST_FIGURE = r"(\d+ (?:passed|failed|skipped|errors?))\b"


def table() -> list[Check]:
    """Every check. The fast ones come first, so that a mistake shows within seconds."""
    checks = [
        Check("yamllint", script("yamllint_files"), "lint", figure=r"(\d+ files)"),
        Check("ruff", tool("ruff", "check", "--output-format=concise", "."), "lint"),
        Check(
            "ruff-format",
            tool("ruff", "format", "--check", "--output-format=concise", "."),
            "lint",
            figure=r"(\d+ files?) already",
        ),
        Check("shellcheck", script("shell_scripts"), "lint", figure=r"(\d+ scripts)", programs=("shellcheck",)),
        Check("layout", script("layout"), "lint", figure=r"(\d+ rules)"),
        Check("argument-specs", script("defaults_match_specs"), "lint", figure=r"(\d+ roles, \d+ variables)"),
        Check("which-profile", script("which_profile"), "lint", figure=r"(\d+ profiles x \d+ nodes)"),
        Check("nccl-variables", script("nccl_variables"), "lint", figure=r"(\d+ variables, \d+ rules)"),
        Check("sglang-causes", script("sglang_causes"), "lint", figure=r"(\d+ causes, .*)"),
        Check("changelog", script("changelog"), "lint", figure=r"(\d+ fragments)"),
        Check("requirements", script("requirements"), "lint", figure=r"(\d+ packages)"),
        Check("ansible-lint", tool("ansible-lint"), "lint", figure=r"(\d+ files processed)"),
        Check("unit", tool("pytest", "tests/unit", "--numprocesses=2"), "unit", figure=PYTEST_FIGURE, timeout=900),
        Check(
            "allreduce-protocol",
            script("allreduce_protocol"),
            "unit",
            figure=r"(\d+ calls, \d+ broken rules)",
            programs=("g++", "setarch"),
            alone=True,
        ),
        Check(
            "allreduce-compile",
            script("allreduce_compile"),
            "unit",
            figure=r"(\d+ targets, \d+ kernels each)",
            programs=("g++",),
        ),
        Check(
            "allreduce-host",
            script("allreduce_host"),
            "unit",
            figure=r"(\d+ properties of the host side)",
            programs=("g++",),
        ),
        Check("artefact", script("artefact"), "package", figure=r"(\d+ files, \d+ kB)"),
        Check("docs", script("docs"), "package", figure=r"(\d+ pages)"),
        Check("sglang-contract", script("sglang_contract"), "package", figure=r"(\d+ versions x \d+ questions)"),
        Check(
            "sglang-parsers",
            script("sglang_parsers"),
            "package",
            figure=r"(\d+ versions, \d+ configurations)",
            timeout=900,
        ),
        Check("sanity", script("sanity"), "package", figure=r"(\d+ sanity tests)", timeout=1500),
        Check(
            "integration",
            tool("pytest", "tests/integration", "--numprocesses=2"),
            "run",
            figure=PYTEST_FIGURE,
            programs=("unshare", "mount", "g++"),
            root=True,
            timeout=1500,
        ),
        Check(
            "faults",
            tool("pytest", "tests/faults", "--numprocesses=2"),
            "run",
            figure=r"(\d+ (?:starts tried|kill points survived|faults injected|lost bytes|passed|failed))\b",
            every_figure=True,
            programs=("strace", "chattr", "unshare", "mount"),
            root=True,
            timeout=1500,
        ),
        Check(
            "demo",
            script("demo"),
            "run",
            figure=r"(first [\d.]+ s, second [\d.]+ s)",
            programs=("git", "make", "unshare", "mount"),
            root=True,
            alone=True,
        ),
        Check(
            "readme", script("readme_commands"), "run", figure=r"(\d+ commands)", programs=("git", "make"), timeout=900
        ),
        Check(
            "controllers",
            script("controllers"),
            "run",
            figure=r"(core \S+ on \S+)",
            every_figure=True,
            programs=CONTAINERS,
            root=True,
            timeout=1200,
        ),
    ]
    checks.append(
        Check(
            "podman-at-once",
            script("podman_at_once"),
            "systems",
            figure=r"(\d+ calls)",
            programs=CONTAINERS,
            root=True,
            alone=True,
        )
    )
    for scenario in sorted((ROOT / "molecule").glob("*/molecule.yml")):
        name = scenario.parent.name
        command = tool("molecule", "test", "--scenario-name", name)
        compiler = ("g++",) if name == "allreduce" else ()  # for the stand-in library
        checks.append(
            Check(
                f"molecule-{name}",
                command,
                "systems",
                PYTEST_FIGURE,
                programs=CONTAINERS + compiler,
                root=True,
                timeout=1800,
                alone=True,
            )
        )
    checks.append(
        Check(
            "nothing-left",
            script("nothing_left"),
            "systems",
            figure=r"(\d+ left)",
            programs=CONTAINERS,
            root=True,
            alone=True,
        )
    )
    return checks


def is_there(program: str) -> bool:
    return os.path.exists(program) if program.startswith("/") else shutil.which(program) is not None


def as_root() -> list[str] | None:
    """The prefix that makes a command run as root, or None when there is no way without asking a person."""
    if os.geteuid() == 0:
        return []
    if (
        shutil.which("sudo")
        and subprocess.run(["sudo", "-n", "true"], check=False, capture_output=True).returncode == 0
    ):
        return ["sudo", "-n", "--preserve-env"]
    return None


def environment() -> dict[str, str]:
    """What each check sees: nothing of another project's settings, nothing that is written outside the checkout."""
    dropped = ("ANSIBLE_", "MOLECULE_", "PYTEST_", "NCCL_", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "MAKE", "MFLAGS")
    env = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    env |= {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_HOME": str(CACHE / "ansible"),
        "ANSIBLE_LOCAL_TEMP": str(CACHE / "ansible" / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
        "GALAXY_IMPORTER_CONFIG": os.devnull,
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "PATH": os.pathsep.join([str(BIN), os.environ["PATH"]]),
        "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(CACHE / "pip")),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONUNBUFFERED": "1",
        "RUFF_CACHE_DIR": str(CACHE / "ruff"),
        "TMPDIR": str(CACHE / "tmp"),
    }
    return env


def log_to(name: str, command: list[str], timeout: int) -> int:
    """Run a command in a process group of its own, so that whatever it leaves behind ends with it."""
    with open(LOGS / f"{name}.log", "w", encoding="utf-8") as log:
        log.write(f"$ {shlex.join(command)}\n")
        log.flush()
        try:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            RUNNING.add(process.pid)
        except OSError as error:
            log.write(f"{error}\n")
            return 127
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            log.write(f"\nstopped: longer than {timeout} s\n")
            return 124
        finally:
            try:
                os.killpg(process.pid, signal.SIGTERM)
                time.sleep(0.2)
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            except PermissionError:  # it runs as root through sudo
                subprocess.run([*(as_root() or []), "kill", "-KILL", "--", f"-{process.pid}"], check=False)
            process.wait()
            RUNNING.discard(process.pid)


def stop(number: int, _frame: object) -> None:
    """A run that is stopped takes along what it has started, which lives in process groups of its own."""
    for group in list(RUNNING):
        try:
            os.killpg(group, signal.SIGTERM)
        except PermissionError:  # it runs as root through sudo
            subprocess.run([*(as_root() or []), "kill", "-TERM", "--", f"-{group}"], check=False)
        except OSError:
            pass  # it has ended
    print(f"\nstopped by signal {number}", flush=True)
    os._exit(128 + number)


def figure_of(check: Check, log: str) -> str:
    found = re.findall(check.figure, log) if check.figure else []
    if check.figure is PYTEST_FIGURE:
        # The summary line comes last and may name several counts.
        lines = [line for line in log.splitlines() if re.search(PYTEST_FIGURE, line)]
        found = re.findall(PYTEST_FIGURE, lines[-1]) if lines else []
    elif check.every_figure:
        found = list(dict.fromkeys(found))
    else:
        found = found[-1:]
    return ", ".join(found)


TELLING = re.compile(r"fatal:|FAILED|\bE  |[A-Za-z]*Error\b|^error|^finding", re.IGNORECASE)


def telling_lines(name: str, most: int = 8, width: int = 300) -> str:
    """The lines of a log that name the fault, for a reader who is shown the end of the output only."""
    try:
        rows = (LOGS / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return "".join(f"    {row.strip()[:width]}\n" for row in [row for row in rows if TELLING.search(row)][-most:])


class Report:
    """One line a check, printed when it ends. Several threads report."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.passed: list[str] = []
        self.failed: list[str] = []

    def line(self, name: str, state: str, seconds: float, note: str, tail: str = "") -> None:
        with self.lock:
            (self.passed if state == "ok" else self.failed).append(name)
            print(f"{name:<22} {state:<8} {seconds:7.1f} s  {note}".rstrip(), flush=True)
            if tail:
                print("".join(f"    | {row}\n" for row in tail.splitlines()), end="", flush=True)


def run(check: Check, report: Report) -> None:
    missing = [program for program in check.programs if not is_there(program)]
    if missing:
        packages = sorted({PACKAGES[program] for program in missing})
        report.line(
            check.name, "not run", 0, f"missing {', '.join(missing)}; as root: apt-get install {' '.join(packages)}"
        )
        return
    command = check.command
    if check.root:
        prefix = as_root()
        if prefix is None:
            again = f"sudo {shlex.join([sys.executable, 'tests/run_checks.py', check.name])}"
            report.line(check.name, "not run", 0, f"needs root: {again}")
            return
        command = [*prefix, *command]
    started = time.monotonic()
    status = log_to(check.name, command, check.timeout)
    seconds = time.monotonic() - started
    log = (LOGS / f"{check.name}.log").read_text(encoding="utf-8", errors="replace")
    figure = figure_of(check, log)
    if status == 0:
        report.line(check.name, "ok", seconds, figure)
    else:
        tail = "\n".join(log.splitlines()[-TAIL_LINES:])
        report.line(check.name, "FAILED", seconds, f"exit {status}, log .cache/logs/{check.name}.log  {figure}", tail)


def install_packages(checks: list[Check], report: Report) -> None:
    """Install the Debian packages that the chosen checks miss. Without root, each check then names what it misses."""
    programs = {program for check in checks for program in check.programs}
    packages = {PACKAGES[program] for program in programs if not is_there(program)}
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        packages.add(f"python{sys.version_info.major}.{sys.version_info.minor}-venv")
    if not packages:
        return
    prefix = as_root()
    if prefix is None or not shutil.which("apt-get"):
        return
    started = time.monotonic()
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes", "--quiet"]
    status = log_to("packages-update", [*apt, "update"], 600)
    status = status or log_to("packages", [*apt, "install", "--no-install-recommends", *sorted(packages)], 900)
    if status:
        report.line(
            "packages",
            "FAILED",
            time.monotonic() - started,
            f"apt-get install {' '.join(sorted(packages))}, see .cache/logs",
        )
    else:
        print(f"{'(installed)':<22} {' '.join(sorted(packages))}", flush=True)


def install_tools(report: Report) -> bool:
    started = time.monotonic()
    status = log_to("tools", ["make", f"PYTHON={sys.executable}", ".venv/.test-stamp"], 900)
    if status:
        log = (LOGS / "tools.log").read_text(encoding="utf-8", errors="replace")
        report.line("tools", "FAILED", time.monotonic() - started, "make .venv/.test-stamp", log)
    return status == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--group", help="run the checks of one group")
    parser.add_argument("--list", action="store_true", help="print the names and groups of the checks, and stop")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("names", nargs="*", metavar="NAME", help="run these checks only")
    options = parser.parse_args()

    checks = table()
    if options.list:
        print("".join(f"{check.name:<22} {check.group}\n" for check in checks), end="")
        return 0
    unknown = set(options.names) - {check.name for check in checks}
    if unknown:
        parser.error(f"no such check: {', '.join(sorted(unknown))}; known: {', '.join(check.name for check in checks)}")
    if options.names:
        checks = [check for check in checks if check.name in options.names]
    if options.group:
        checks = [check for check in checks if check.group == options.group]
    if not checks:
        parser.error("nothing to run")

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    LOGS.mkdir(parents=True, exist_ok=True)
    (CACHE / "tmp").mkdir(exist_ok=True)
    report = Report()
    install_packages(checks, report)
    if install_tools(report):
        with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
            list(pool.map(lambda check: run(check, report), [check for check in checks if not check.alone]))
        for check in checks:
            if check.alone:
                run(check, report)
    for name in report.failed:
        print(f"\nfailed: {name}\n{telling_lines(name)}", end="")
    print(f"\n{len(report.passed)} passed, {len(report.failed)} failed", flush=True)
    return 1 if report.failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main())
