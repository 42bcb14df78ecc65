# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input gives one clear error and exit code 2, and leaves the node as it is, byte for byte.

One run of the playbook serves a whole group: each row is a host of its inventory, with its own fault.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trees
from fleet import DEBIAN_HOOK, KNOWN_GOOD, MINOR, ROOT, WITHOUT_OVERRIDE, Fleet, need_root, script, write

TEMPLATE = ROOT / "roles" / "nccl_env" / "templates" / "sitecustomize.py.j2"
BEGIN = b"# >>> gpu_node.tuning: managed block, change the inventory instead >>>\n"
END = b"# <<< gpu_node.tuning <<<\n"
# Words that belong to a stack trace or to Ansible's own despair, never to a clear message.
DESPAIR = ("Traceback", "MODULE FAILURE", "Unhandled exception", "unexpected", "module_stdout")


@dataclasses.dataclass
class Row:
    """``says``: what the one message must hold; {node} is the node's directory, {file} its sitecustomize.py."""

    id: str
    says: tuple
    vars: dict = dataclasses.field(default_factory=dict)
    yaml: str = ""
    prepare: Callable | None = None  # takes the node
    mounts: Callable | None = None  # takes the node, returns commands
    # Where a file had to be made and deleted again, the directory around it has a new time, and only that.
    new_time: tuple = (".",)


@dataclasses.dataclass
class Group:
    rows: tuple
    arguments: tuple = ()
    prefix: tuple = ()
    mounted: bool = False


# --- names and values -----------------------------------------------------------------------------------------------


def override(row_id: str, text: str, *says: str) -> Row:
    """``text`` is the override as a person writes it in YAML, so that what YAML makes of it is part of the test."""
    return Row(row_id, (*says, "nccl_env_overrides"), yaml=f"nccl_env_overrides:\n  {text}")


PROFILES = (
    Row(
        "unknown",
        (
            "unknown profile 'knwon_good'",
            "did you mean known_good?",
            "Known profiles: custom_allreduce, fewer_channels",
        ),
    ),
    Row(
        "unknown-on-a-second-node", ("unknown profile 'knwon_good'", "Known profiles: custom_allreduce, fewer_channels")
    ),
)

PROFILES_OF_THE_INVENTORY = (
    Row("empty", ("tuning_profile_name=''", "Known profiles: custom_allreduce, fewer_channels"), {"profile": ""}),
    Row(
        "a-path",
        ("unknown profile '../known_good'", "Known profiles: custom_allreduce, fewer_channels"),
        {"profile": "../known_good"},
    ),
    Row("other-case", ("unknown profile 'Known_Good'", "did you mean known_good?"), {"profile": "Known_Good"}),
    Row(
        "own-without-summary",
        ("profile mine of tuning_profiles", "summary", "must be a sentence"),
        {"profile": "mine", "tuning_profiles": {"mine": {"status": "experimental", "env": {}}}},
    ),
    Row(
        "own-with-unknown-status",
        ("profile mine of tuning_profiles", "status: 'good'", "Legal: known_good, experimental, dead_end"),
        {"profile": "mine", "tuning_profiles": {"mine": {"summary": "Mine", "status": "good"}}},
    ),
)

VALUES = (
    override(
        "unknown-variable",
        "NCCL_BUFSIZE: 1048576",
        "NCCL_BUFSIZE=1048576: unknown variable",
        "did you mean NCCL_BUFFSIZE",
    ),
    override("nthreads-100", "NCCL_NTHREADS: 100", "NCCL_NTHREADS=100", "Legal: 64, 128, 256, 512", "Write 64 or 128"),
    override("p2p-level-word", "NCCL_P2P_LEVEL: far", "NCCL_P2P_LEVEL='far'", "Legal: LOC, NVL, PIX, PXB, PHB, SYS"),
    override("unit", "NCCL_BUFFSIZE: 4MB", "NCCL_BUFFSIZE='4MB'", "whole number from 1", "Write 4194304"),
    override(
        "newline", r'NCCL_SOCKET_IFNAME: "eth0\nimport os"', r"NCCL_SOCKET_IFNAME='eth0\nimport os'", r"'\n'", "Legal"
    ),
    override("single-quote", 'NCCL_SOCKET_IFNAME: "eth\'0"', 'NCCL_SOCKET_IFNAME="eth\'0"', "quotes", "Legal"),
    override("double-quote", "NCCL_SOCKET_IFNAME: 'eth\"0'", "NCCL_SOCKET_IFNAME='eth\"0'", "quotes", "Legal"),
    override(
        "triple-quote", 'NCCL_DEBUG_FILE: \'/tmp/"""+x()+"""\'', "NCCL_DEBUG_FILE", '"""+x()+"""', "absolute path"
    ),
    override("nul", r'NCCL_DEBUG_FILE: "/tmp/a\0b"', r"NCCL_DEBUG_FILE='/tmp/a\x00b'", r"'\x00'", "absolute path"),
    override("backslash", r"NCCL_DEBUG_FILE: '/tmp/a\'", r"NCCL_DEBUG_FILE='/tmp/a\\'", "absolute path"),
    override("true", "NCCL_P2P_DISABLE: true", "NCCL_P2P_DISABLE=True: a boolean", "Legal: 0, 1", "Write 1"),
    override("true-in-quotes", 'NCCL_P2P_DISABLE: "true"', "NCCL_P2P_DISABLE='true'", "Legal: 0, 1", "Write 1"),
    override("hexadecimal", 'NCCL_BUFFSIZE: "0x10"', "NCCL_BUFFSIZE='0x10': hexadecimal", "whole number", "Write 16"),
    override("octal", 'NCCL_MAX_NCHANNELS: "010"', "NCCL_MAX_NCHANNELS='010'", "from 1 to 64", "Write 10"),
    override("exponent", "NCCL_BUFFSIZE: 1e6", "NCCL_BUFFSIZE='1e6'", "whole number", "Write 1000000"),
    override("float", "NCCL_BUFFSIZE: 1000000.0", "NCCL_BUFFSIZE=1000000.0", "float", "Write 1000000"),
    override("empty", 'NCCL_BUFFSIZE: ""', "NCCL_BUFFSIZE='': empty", "whole number", "leave the variable out"),
    override("separator", 'NCCL_BUFFSIZE: "1_000"', "NCCL_BUFFSIZE='1_000'", "whole number", "Write 1000"),
    override(
        "overflow", "NCCL_BUFFSIZE: 9999999999", "NCCL_BUFFSIZE=9999999999: too large", "Write 2147483647 or less"
    ),
    override("blank", 'NCCL_PROTO: "LL, Simple"', "NCCL_PROTO='LL, Simple'", "without blanks", "Write LL,Simple"),
    override("list", "NCCL_PROTO: [LL]", "NCCL_PROTO=['LL']", "a list", "Legal"),
    override("null-of-nothing", "NCCL_BUFSIZE: null", "NCCL_BUFSIZE", "null removes", "did you mean NCCL_BUFFSIZE"),
    Row(
        "two-faults-in-one-message",
        ("2 faults", "NCCL_NTHREADS=100", "NCCL_BUFFSIZE='4MB'"),
        yaml="nccl_env_overrides: {NCCL_NTHREADS: 100, NCCL_BUFFSIZE: 4MB}",
    ),
)

OPTIONS = (
    Row("scope", ("scope", "sytem", "system, service"), {"nccl_env_scope": "sytem"}),
    Row("precedence", ("precedence", "win", "respect, force"), {"nccl_env_precedence": "win"}),
    Row("takeover", ("takeover", "yes", "refuse, replace"), {"nccl_env_takeover": "yes"}),
    Row("time-limit", ("nccl_env_probe_timeout", "convert to float"), {"nccl_env_probe_timeout": "soon"}),
    Row(
        "service-user",
        ("service_user 'nobody-like-this'", "no such user"),
        {"nccl_env_service_user": "nobody-like-this"},
    ),
    Row(
        "service-environment",
        ("service_environment: FAST=True is bool", "text, in quotes"),
        {"nccl_env_service_environment": {"FAST": True}},
    ),
    Row("relative-service-dir", ("service_dir 'site'", "absolute path"), {"nccl_env_service_dir": "site"}),
    Row(
        "no-service-dir", ("service_dir None", "absolute path", "nccl_env_service_dir"), {"nccl_env_service_dir": None}
    ),
    Row("service-dir-with-colon", ("service_dir '/a:/b'", "without ':'"), {"nccl_env_service_dir": "/a:/b"}),
    Row("service-dir-upwards", ("service_dir '/a/../b'", "Write '/b'"), {"nccl_env_service_dir": "/a/../b"}),
)


# --- the interpreter ------------------------------------------------------------------------------------------------


def interpreter(row_id: str, path: str, *says: str, prepare: Callable | None = None, **more) -> Row:
    """``path`` is below the node's directory, or absolute."""

    def make(node):
        node.vars |= {"nccl_env_interpreter": str(node.root / path)} | more
        if prepare:
            prepare(node)

    return Row(row_id, (f"interpreter {path if path.startswith('/') else '{node}/' + path}: ", *says), prepare=make)


def sleeping_start(node) -> None:
    """A real Python that hangs at every start, with a child that hangs as well."""
    packages = node.venv(node.own_python())
    pids = node.scratch / "pids"
    code = f"import os, time; os.fork(); open({str(pids)!r}, 'a').write('%d\\n' % os.getpid()); time.sleep(600)"
    write(packages / "hang.pth", code.encode() + b"\n")
    node.vars["nccl_env_probe_timeout"] = 1.5


def old_python(node) -> None:
    """A real Python 2 where this machine has one, otherwise a script that answers as Python 2 does."""
    found = real_python_2()
    target = node.root / "python2"
    if found:
        target.symlink_to(found)
        return
    script(
        target,
        "#!/bin/sh\n# Stand-in for Python 2.7: code for Python 3 is a syntax error, and it knows its version.\n"
        'case "$*" in *"from __future__ import annotations"*)\n'
        "  echo 'SyntaxError: future feature annotations is not defined' >&2; exit 1 ;;\nesac\nprintf 'python 2 7'\n",
    )


def real_python_2() -> Path | None:
    names = [shutil.which(name) for name in ("python2.7", "python2")]
    candidates = [Path(name) for name in names if name]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates += sorted(pyenv.glob("versions/2.7*/bin/python2.7"))
    for candidate in candidates:
        command = [candidate, "-c", "import sys; print(sys.executable); print(sys.version_info[0])"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        # A shim starts whatever is chosen today, so the interpreter's own path is what counts.
        if done.returncode == 0 and done.stdout.split()[-1:] == ["2"]:
            return Path(done.stdout.split()[0])
    return None


WAY_ON = "Legal: the absolute path of an executable Python 3.9 or newer"
INTERPRETERS = (
    interpreter("missing", "no/python3", "cannot be started: No such file or directory", WAY_ON),
    interpreter("ls", "/bin/ls", "not a Python interpreter", "Legal: the path of the Python that runs the engine"),
    interpreter(
        "shell-script",
        "python3",
        "not a Python interpreter",
        "it said: I am a shell",
        prepare=lambda node: script(node.root / "python3", "#!/bin/sh\necho I am a shell\n"),
    ),
    interpreter(
        "silent-success",
        "/bin/true",
        "not a Python interpreter (exit status 0, it said: nothing)",
    ),
    interpreter(
        "directory",
        "bin",
        "cannot be started: Permission denied",
        WAY_ON,
        prepare=lambda node: (node.root / "bin").mkdir(),
    ),
    interpreter(
        "text-file",
        "python3",
        "cannot be started: Permission denied",
        WAY_ON,
        prepare=lambda node: write(node.root / "python3", b"not a program\n"),
    ),
    interpreter(
        "executable-text",
        "python3",
        "cannot be started: Exec format error",
        WAY_ON,
        prepare=lambda node: write(node.root / "python3", b"not a program\n", 0o755),
    ),
    Row(
        "hangs-at-start",
        ("interpreter {node}/venv/bin/python3", "no answer within 1.5 s", "nccl_env_probe_timeout"),
        prepare=sleeping_start,
    ),
    interpreter(
        "python-2", "python2", "Python 2.7; legal: Python 3.9 or newer", "nccl_env_interpreter", prepare=old_python
    ),
    Row(
        "relative",
        ("interpreter 'bin/python3'", "legal: an absolute path"),
        {"nccl_env_interpreter": "bin/python3"},
    ),
    Row("empty", ("interpreter", "absolute path"), {"nccl_env_interpreter": ""}),
)


# --- the file -------------------------------------------------------------------------------------------------------


def loop(path: Path) -> None:
    path.symlink_to(path.name + ".other")
    Path(str(path) + ".other").symlink_to(path.name)


def sparse(path: Path, size: int) -> None:
    write(path, b"")
    os.truncate(path, size)


def compiled_package(node) -> None:
    (node.file.parent / "sitecustomize").mkdir()
    write(node.file.parent / "sitecustomize" / "__init__.py", b"")


HIDDEN = b"import os\nos.environ['NCCL_' + 'PROTO'] = 'Simple'\n"
# Name, what makes the file, and what is said about it.
FILES = (
    ("directory", lambda path: path.mkdir(), ("{file}: a directory", "Legal: a plain file")),
    (
        "dangling-link",
        lambda path: path.symlink_to("nowhere"),
        ("{file}: dangling symbolic link to nowhere", "remove the link"),
    ),
    ("link-loop", loop, ("{file}: a loop of symbolic links", "Remove the link")),
    ("fifo", os.mkfifo, ("{file}: not a plain file", "Legal: a plain file")),
    ("50-mb", lambda path: sparse(path, 50 * 2**20), ("{file}: 52428800 bytes", "at most 1048576")),
    (
        "not-utf-8",
        lambda path: write(path, b"NAME = 'M\xfcller'\n"),
        ("{file}", "not valid Python", "utf-8", "Repair the file"),
    ),
    (
        "nul-byte",
        lambda path: write(path, b"x = 1\0\n"),
        ("{file}", "not valid Python", "null bytes", "Repair the file"),
    ),
    (
        "broken-python",
        lambda path: write(path, b"import os\nif True\n    pass\n"),
        ("{file}, line 2: not valid Python", "Repair the file"),
    ),
    (
        "raises",
        lambda path: write(path, b"\nraise RuntimeError('no licence')\n"),
        ("{file}, line 2: is broken: RuntimeError: no licence", "Nothing was changed"),
    ),
    (
        "exits",
        lambda path: write(path, b"import sys\nsys.exit(3)\n"),
        ("{file}, line 2: is broken: SystemExit: 3", "end every Python on this node", "Nothing was changed"),
    ),
    (
        "hangs",
        lambda path: write(path, b"import time\ntime.sleep(600)\n"),
        ("no answer within 1.5 s", "sitecustomize", "nccl_env_probe_timeout"),
    ),
    (
        "two-blocks",
        lambda path: write(path, DEBIAN_HOOK + (BEGIN + b"x = 1\n" + END) * 2),
        ("{file}: the markers", "do not pair up", "marker lines: 8, 10, 11, 13", "by hand"),
    ),
    (
        "no-end-marker",
        lambda path: write(path, BEGIN + b"x = 1\n"),
        ("{file}: the markers", "do not pair up", "marker lines: 1"),
    ),
    (
        "no-begin-marker",
        lambda path: write(path, DEBIAN_HOOK + END),
        ("{file}: the markers", "do not pair up", "marker lines: 8"),
    ),
    (
        "foreign-assignment",
        lambda path: write(path, DEBIAN_HOOK + b"import os\nos.environ.setdefault('NCCL_NTHREADS', '256')\n"),
        (
            "{file}: code outside the managed block",
            "line 9 sets NCCL_NTHREADS='256'",
            "takeover: replace (role variable nccl_env_takeover)",
        ),
    ),
    (
        "hidden-assignment",
        lambda path: write(path, HIDDEN),
        ("{file}: code outside the managed block sets NCCL_PROTO when it runs", "hides the line", "by hand"),
    ),
)


def service_file(name: str, make: Callable, says: tuple) -> Row:
    def prepare(node):
        node.site.mkdir()
        make(node.file)
        node.vars["nccl_env_probe_timeout"] = 1.5 if name == "hangs" else 20

    return Row(name, says, prepare=prepare)


def system_file(name: str, make: Callable, says: tuple) -> Row:
    def prepare(node):
        node.own_python()
        make(node.file)
        node.vars["nccl_env_probe_timeout"] = 1.5 if name == "hangs" else 20

    return Row(name, says, prepare=prepare)


def takeover_refused(node) -> None:
    node.site.mkdir()
    write(node.file, b"import os\nprint(os.environ.setdefault('NCCL_NTHREADS', '256'), file=os.sys.stderr)\n")
    node.vars["nccl_env_takeover"] = "replace"


def hidden_and_takeover(node) -> None:
    node.site.mkdir()
    write(node.file, HIDDEN)
    node.vars["nccl_env_takeover"] = "replace"


SERVICE_FILES = (
    *(service_file(*row) for row in FILES),
    Row(
        "takeover-of-code-that-does-more",
        ("{file}, line 2: sets NCCL_NTHREADS", "takeover: replace does not dare", "by hand"),
        prepare=takeover_refused,
    ),
    Row(
        "takeover-of-hidden-code",
        ("{file}: code outside the managed block sets NCCL_PROTO", "cannot be taken over"),
        prepare=hidden_and_takeover,
    ),
    Row(
        "directory-is-a-file",
        ("{node}/site", "directory"),
        prepare=lambda node: write(node.site, b""),
    ),
)

SYSTEM_FILES = (
    *(system_file(*row) for row in FILES),
    Row(
        "package",
        ("sitecustomize/__init__.py: this interpreter imports sitecustomize from something else", "scope: service"),
        prepare=lambda node: (node.own_python(), compiled_package(node)),
    ),
    Row(
        "dangling-link-of-the-distribution",
        ("{file}: dangling symbolic link to {node}/python/etc", "--force-confmiss"),
        prepare=lambda node: (
            node.own_python(debian=True),
            (node.python / "etc" / MINOR / "sitecustomize.py").unlink(),
        ),
    ),
)


# --- the template ---------------------------------------------------------------------------------------------------


def template(row_id: str, text: str | bytes | None, *says: str, **host_vars) -> Row:
    """``says``: {template} is the template's path."""

    def prepare(node):
        path = node.scratch / "block.py.j2"
        node.vars |= {"nccl_env_template": str(path)} | host_vars
        if text is not None:
            write(path, text.encode() if isinstance(text, str) else text)

    return Row(row_id, says, prepare=prepare)


GOOD = TEMPLATE.read_text()
CANDIDATE = "would be broken by the rendered candidate"
TEMPLATES = (
    template("nothing", "", "src", "renders nothing", "state: absent"),
    template("blanks", "\n  {# nothing #}\n\n", "src", "renders nothing", "state: absent"),
    template("comments", "# set nothing\n", "{file}", "does not set", "NCCL_ALGO", "Repair the template"),
    template("jinja-syntax", "{% for %}\n", "src {template}: the template cannot be rendered: Syntax error"),
    template(
        "jinja-undefined", "x = {{ no_such_name }}\n", "src {template}: the template", "'no_such_name' is undefined"
    ),
    template("broken-python", GOOD + "if True\n", "{file}, line", CANDIDATE, "SyntaxError", "Nothing was changed"),
    template("raises", GOOD + "1 / 0\n", "{file}, line", CANDIDATE, "ZeroDivisionError", "Nothing was changed"),
    template("exits", GOOD + "raise SystemExit(4)\n", "{file}, line", CANDIDATE, "SystemExit: 4", "end every Python"),
    template(
        "interrupts",
        GOOD + "raise KeyboardInterrupt\n",
        "{file}, line",
        CANDIDATE,
        "KeyboardInterrupt",
        "end every Python",
    ),
    template(
        "hangs",
        GOOD + "import time\ntime.sleep(600)\n",
        "no answer within 1.5 s",
        nccl_env_probe_timeout=1.5,
    ),
    template(
        "misses-a-variable",
        GOOD + "os.environ.pop('NCCL_PROTO')\n",
        "{file}",
        "does not set NCCL_PROTO",
        "declared 'LL', found None",
        "Nothing was changed",
    ),
    template(
        "sets-another-value",
        GOOD + "os.environ['NCCL_PROTO'] = 'Simple'\n",
        "{file}",
        "does not set NCCL_PROTO",
        "declared 'LL', found 'Simple'",
        "Nothing was changed",
    ),
    template("marker", GOOD + END.decode(), "marker line of the managed block", "take it out of the template"),
    template("does-not-exist", None, "{template}", "no such template"),
    template("not-utf-8", b"# M\xfcller\n", "src {template}: the template cannot be rendered", "utf-8"),
)


# --- what only a mount or the lack of a capability shows ---------------------------------------------------------------


def unreadable(node) -> None:
    node.site.mkdir()
    write(node.file, DEBIAN_HOOK, 0o000)


def unreadable_system_file(node) -> None:
    node.own_python()
    write(node.file, DEBIAN_HOOK, 0o000)


def read_only_directory(node) -> None:
    node.site.mkdir()
    write(node.file, DEBIAN_HOOK)
    node.site.chmod(0o555)


def read_only_venv(node) -> None:
    node.venv(node.own_python()).chmod(0o555)


def read_only_parent(node) -> None:
    (node.root / "usr").mkdir()
    (node.root / "usr").chmod(0o555)
    node.vars["nccl_env_service_dir"] = str(node.root / "usr" / "site")


def closed_directory(node) -> None:
    node.site.mkdir()
    node.site.chmod(0o000)


def read_only_state(node) -> None:
    (node.root / "var").mkdir()
    (node.root / "var").chmod(0o555)
    node.vars["nccl_env_state_dir"] = str(node.root / "var" / "state")


UNPRIVILEGED = (
    Row(
        "unreadable",
        ("{file}: cannot be read: Permission denied", "Become root, or repair its mode"),
        prepare=unreadable,
    ),
    Row(
        "unreadable-system-file",
        ("{file}: cannot be read: Permission denied", "Become root, or repair its mode"),
        prepare=unreadable_system_file,
    ),
    Row(
        "read-only-directory",
        ("{file}: cannot be replaced atomically: Permission denied (EACCES)", "Become root", "The file is as it was"),
        prepare=read_only_directory,
    ),
    Row(
        "read-only-site-packages",
        ("site-packages/sitecustomize.py: cannot be replaced atomically: Permission denied (EACCES)", "Become root"),
        prepare=read_only_venv,
    ),
    Row(
        "read-only-parent",
        ("{node}/usr/site: the directory cannot be made: Permission denied", "Become root"),
        prepare=read_only_parent,
    ),
    Row(
        "closed-directory",
        ("{file}: cannot be looked at: Permission denied", "Become root"),
        prepare=closed_directory,
    ),
    Row(
        "read-only-state",
        ("state_dir {node}/var/state: cannot be made: Permission denied", "nccl_env_state_dir"),
        prepare=read_only_state,
    ),
)


def read_only_mount(path: Path) -> list:
    return [["mount", "--bind", str(path), str(path)], ["mount", "-o", "remount,bind,ro", str(path)]]


def full_mount(path: Path, *files: str) -> list:
    """A small file system that holds copies of ``files`` and not one byte more."""
    fill = ["sh", "-c", 'cat /dev/zero > "$0/filler" 2>/dev/null || true', str(path)]
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "tmpfs", str(path)]
    return [mount, *(["cp", "-p", file, str(path)] for file in files), fill]


def service_directory(node) -> None:
    write(node.file, DEBIAN_HOOK)


def debian_like(node) -> None:
    node.own_python(debian=True)


def etc(node) -> Path:
    return node.python / "etc" / MINOR


def in_site_packages(node) -> None:
    write(node.venv(node.own_python()) / "sitecustomize.py", DEBIAN_HOOK)


def site_packages(node) -> Path:
    return node.root / "venv" / "lib" / MINOR / "site-packages"


def kept_hook(node) -> str:
    return str(write(node.scratch / "sitecustomize.py", DEBIAN_HOOK))


def state_on_a_file_system_of_its_own(node) -> None:
    (node.root / "fs").mkdir()
    node.vars["nccl_env_state_dir"] = str(node.root / "fs" / "state")


def empty_state(node) -> None:
    node.state.mkdir(mode=0o700)


ATOMIC = "cannot be replaced atomically"
MOUNTS = (
    Row(
        "read-only-service-dir",
        ("{file}: " + ATOMIC + ": Read-only file system (EROFS)", "remount it", "The file is as it was"),
        prepare=service_directory,
        mounts=lambda node: read_only_mount(node.site),
    ),
    Row(
        "full-service-dir",
        ("{file}: " + ATOMIC + ": No space left on device (ENOSPC)", "make room", "The file is as it was"),
        prepare=service_directory,
        mounts=lambda node: full_mount(node.site, kept_hook(node)),
        new_time=(".", "site"),
    ),
    Row(
        "full-service-dir-without-a-file",
        ("{file}: " + ATOMIC + ": No space left on device (ENOSPC)", "make room"),
        prepare=lambda node: node.site.mkdir(),
        mounts=lambda node: full_mount(node.site),
        new_time=(".", "site"),
    ),
    Row(
        "service-file-is-a-mount",
        ("{file}: " + ATOMIC + ": Device or resource busy (EBUSY)", "mount point of its own", "The file is as it was"),
        prepare=service_directory,
        mounts=lambda node: [["mount", "--bind", kept_hook(node), str(node.file)]],
        new_time=(".", "site"),
    ),
    Row(
        "read-only-site-packages",
        ("site-packages/sitecustomize.py: " + ATOMIC + ": Read-only file system (EROFS)", "scope: service"),
        prepare=in_site_packages,
        mounts=lambda node: read_only_mount(site_packages(node)),
    ),
    Row(
        "full-site-packages",
        ("site-packages/sitecustomize.py: " + ATOMIC + ": No space left on device (ENOSPC)", "make room"),
        prepare=in_site_packages,
        mounts=lambda node: full_mount(site_packages(node), kept_hook(node)),
        new_time=(".", f"venv/lib/{MINOR}/site-packages"),
    ),
    Row(
        "site-packages-file-is-a-mount",
        ("site-packages/sitecustomize.py: " + ATOMIC + ": Device or resource busy (EBUSY)", "scope: service"),
        prepare=in_site_packages,
        mounts=lambda node: [["mount", "--bind", kept_hook(node), str(site_packages(node) / "sitecustomize.py")]],
        new_time=(".", f"venv/lib/{MINOR}/site-packages"),
    ),
    Row(
        "read-only-etc",
        ("{node}/python/etc/" + MINOR + "/sitecustomize.py: " + ATOMIC + ": Read-only file system (EROFS)",),
        prepare=debian_like,
        mounts=lambda node: read_only_mount(etc(node)),
    ),
    Row(
        "conffile-is-a-mount",
        ("{node}/python/etc/" + MINOR + "/sitecustomize.py: " + ATOMIC + ": Device or resource busy (EBUSY)",),
        prepare=debian_like,
        mounts=lambda node: [["mount", "--bind", kept_hook(node), str(etc(node) / "sitecustomize.py")]],
        new_time=(".", f"python/etc/{MINOR}"),
    ),
    Row(
        "read-only-state",
        ("state_dir {node}/fs/state: cannot be made: Read-only file system", "nccl_env_state_dir"),
        prepare=state_on_a_file_system_of_its_own,
        mounts=lambda node: read_only_mount(node.root / "fs"),
    ),
    Row(
        "full-state",
        (
            "state_dir {node}/fs/state",
            "No space left on device",
            "Make room, or set state_dir (role variable nccl_env_state_dir)",
        ),
        prepare=state_on_a_file_system_of_its_own,
        mounts=lambda node: full_mount(node.root / "fs"),
        new_time=("fs",),
    ),
    Row(
        "full-state-that-is-a-mount",
        (
            "state_dir {node}/state",
            "No space left on device",
            "Make room, or set state_dir (role variable nccl_env_state_dir)",
        ),
        prepare=empty_state,
        mounts=lambda node: full_mount(node.state),
        new_time=("state",),
    ),
)


def held_lock(node) -> None:
    """Another run is at work on the node, for as long as this process holds the file."""
    node.state.mkdir()
    descriptor = os.open(node.state / "lock", os.O_RDWR | os.O_CREAT, 0o600)  # stays open until this process ends
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    node.vars["nccl_env_lock_timeout"] = 1


def refused_with_empty_state(node) -> None:
    empty_state(node)
    write(node.file, HIDDEN)


def broken_current(node) -> None:
    empty_state(node)
    write(node.state / "lock", b"", 0o600)
    write(node.state / "current", b"7\n", 0o600)


STATES = (
    Row(
        "is-a-file",
        (
            "state_dir {node}/state: not a directory",
            "Move it away, or set state_dir (role variable nccl_env_state_dir)",
        ),
        prepare=lambda node: write(node.state, b"mine\n"),
    ),
    Row(
        "is-a-dangling-link",
        (
            "state_dir {node}/state: not a directory",
            "Move it away, or set state_dir (role variable nccl_env_state_dir)",
        ),
        prepare=lambda node: node.state.symlink_to("nowhere"),
    ),
    Row(
        "below-a-file",
        ("state_dir", "{node}/file", "nccl_env_state_dir"),
        prepare=lambda node: (
            write(node.root / "file", b"mine\n"),
            node.vars.update(nccl_env_state_dir=str(node.root / "file" / "state")),
        ),
    ),
    Row(
        "held-lock",
        ("{node}/state/lock: another run has held the lock of this node for 1 s", "nccl_env_lock_timeout"),
        prepare=held_lock,
    ),
    Row(
        "empty-before",
        ("{file}: code outside the managed block sets NCCL_PROTO",),
        prepare=refused_with_empty_state,
        new_time=("state",),
    ),
    Row("broken-current", ("{node}/state/current", "not a link to a generation", "Remove it"), prepare=broken_current),
    Row("relative", ("state_dir", "absolute path"), {"nccl_env_state_dir": "state"}),
)


GROUPS = {
    "profile": Group(PROFILES, arguments=("-e", "profile=knwon_good")),
    "inventory_profile": Group(PROFILES_OF_THE_INVENTORY),
    "value": Group(VALUES),
    "option": Group(OPTIONS),
    "interpreter": Group(INTERPRETERS),
    "service_file": Group(SERVICE_FILES),
    "system_file": Group(SYSTEM_FILES),
    "template": Group(TEMPLATES),
    "state": Group(STATES),
    "unprivileged": Group(UNPRIVILEGED, prefix=tuple(WITHOUT_OVERRIDE)),
    "mount": Group(MOUNTS, mounted=True),
}


@pytest.fixture(scope="session")
def run_of(tmp_path_factory):
    """Function: name of a group -> (fleet, play). The group is run when its first row asks."""
    played = {}

    def run(name: str):
        if name not in played:
            group = GROUPS[name]
            prefix = group.prefix
            if group.mounted:
                need_root("unshare --mount")
            if prefix and os.geteuid() != 0:
                prefix = ()  # an ordinary user lacks these capabilities anyway
            fleet = Fleet(tmp_path_factory.mktemp(name) / "fleet")
            mounts = []
            for row in group.rows:
                node = fleet.node(row.id, **row.vars)
                node.yaml = row.yaml
                if row.prepare:
                    row.prepare(node)
                if row.mounts:
                    mounts += row.mounts(node)
            played[name] = fleet, fleet.play(*group.arguments, prefix=prefix, mounts=mounts if group.mounted else None)
        return played[name]

    return run


ROWS = [pytest.param(name, row, id=f"{name}-{row.id}") for name, group in GROUPS.items() for row in group.rows]


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_refused(run_of, name, row):
    fleet, play = run_of(name)
    node = fleet.nodes[row.id]
    assert play.rc == 2, str(play)
    message = play.message(node)
    places = {"node": node.root, "file": node.file, "template": node.scratch / "block.py.j2"}
    for words in row.says:
        for place, path in places.items():
            words = words.replace("{" + place + "}", str(path))  # noqa: PLW2901
        assert words in message, message
    assert not [words for words in DESPAIR if words in message], message
    assert len(message) < 1500, message
    changed = play.touched(node)
    for path in row.new_time:
        if path in changed and None not in changed[path]:
            before, after = (entry[:4] + entry[5:] for entry in changed[path])
            if before == after:
                del changed[path]
    assert changed == {}
    recap = play.recap(node)
    assert (recap["changed"], recap["failed"], recap["unreachable"]) == (0, 1, 0)


@pytest.mark.parametrize("name", [pytest.param(name, id=f"{name}-run") for name in GROUPS])
def test_no_run_shows_a_stack_trace(run_of, name):
    _fleet, play = run_of(name)
    output = play.stdout + play.stderr
    assert not [words for words in DESPAIR[:3] if words in output], output
    assert len(re.findall(r"^fatal: ", play.stdout, re.MULTILINE)) == len(GROUPS[name].rows)


@pytest.mark.parametrize("name", [pytest.param("interpreter", id="interpreter-children")])
def test_a_start_that_hangs_is_ended_with_its_children(run_of, name):
    fleet, _play = run_of(name)
    pids = [int(pid) for pid in (fleet.nodes["hangs-at-start"].scratch / "pids").read_text().split()]
    assert len(pids) >= 2
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


# --- what is not refused, because it is put right ----------------------------------------------------------------------


def test_values_that_yaml_or_nccl_would_misread_are_written_in_the_one_legal_spelling(fleet):
    spellings = {
        "lower-case": ("NCCL_P2P_LEVEL: sys", "NCCL_P2P_LEVEL", "SYS"),
        "hexadecimal-number": ("NCCL_MAX_NCHANNELS: 0x10", "NCCL_MAX_NCHANNELS", "16"),
        "number-with-separator": ("NCCL_BUFFSIZE: 16_777_216", "NCCL_BUFFSIZE", "16777216"),
        "number-as-text": ('NCCL_BUFFSIZE: "8388608"', "NCCL_BUFFSIZE", "8388608"),
        "lower-case-token": ("NCCL_PROTO: ll", "NCCL_PROTO", "LL"),
    }
    for name, (text, _variable, _value) in spellings.items():
        fleet.node(name).yaml = f"nccl_env_overrides:\n  {text}"
    play = fleet.play()
    assert play.rc == 0, str(play)
    for name, (_text, variable, value) in spellings.items():
        node = fleet.nodes[name]
        assert f"('{variable}', '{value}')" in node.file.read_text()
        assert node.environment_of_a_start() == KNOWN_GOOD | {variable: value}
    assert "NCCL_P2P_LEVEL='sys': written as SYS" in play.stdout + play.stderr


# --- the inventory -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("-e", "tuning_nodes=gpu_node")], ids=["no_group", "no_such_group"])
def test_an_inventory_without_gpu_nodes_is_refused(fleet, arguments):
    node = fleet.node("alone")
    play = fleet.play(*arguments, group="gpu_nodes" if arguments else "gpus")
    group = "gpu_node" if arguments else "gpu_nodes"
    assert play.rc == 2, str(play)
    assert f"no host in the group {group}." in play.message("localhost")
    assert "-e tuning_nodes=GROUP" in play.message("localhost")
    assert play.touched(node) == {}
    assert play.executions == {"alone": 0}


# --- two at once --------------------------------------------------------------------------------------------------------


def test_a_second_run_waits_for_the_first_and_then_sees_no_change(tmp_path):
    """Both are real runs. The first one's interpreter does not start before the second one's module runs."""
    first, second = Fleet(tmp_path / "first"), Fleet(tmp_path / "second")
    node, twin = first.node("node"), second.node("node")
    asked, starts = tmp_path / "asked", tmp_path / "starts"
    python = script(
        tmp_path / "python3",
        f'#!/bin/sh\ntouch "{asked}"\nuntil [ -s "{second.log_of_modules(twin)}" ]; do sleep 0.1; done\nsleep 0.3\n'
        f'"{node.vars["nccl_env_interpreter"]}" "$@"\nstatus=$?\n'
        f'echo "$PPID $(date +%s.%N)" >> "{starts}"\nexit $status\n',
    )
    node.vars |= {"nccl_env_interpreter": str(python), "nccl_env_probe_timeout": 60}
    twin.vars |= {key: value for key, value in node.vars.items() if key.startswith("nccl_env_")}
    plays = {}

    def play(name, fleet):
        plays[name] = fleet.play()

    runs = {"first": first, "second": second}
    threads = [threading.Thread(target=play, args=item) for item in runs.items()]
    threads[0].start()
    while not asked.exists() and threads[0].is_alive():
        time.sleep(0.02)
    threads[1].start()
    for thread in threads:
        thread.join()

    assert (plays["first"].rc, plays["second"].rc) == (0, 0), f"{plays['first']}\n{plays['second']}"
    log = [(line.split()[0], float(line.split()[1])) for line in starts.read_text().splitlines()]
    order = list(dict.fromkeys(module for module, _time in log))
    assert len(order) == 2
    # The starts of one module come after all starts of the other: nothing overlapped.
    assert [module for module, _time in log] == sorted((module for module, _time in log), key=order.index)
    # The second module ran already while the first was at work, so it has waited.
    assert second.start_of_modules(twin)[0] < min(when for module, when in log if module == order[0])
    assert [plays[name].result(node)["changed"] for name in ("first", "second")] == [True, False]
    assert node.environment_of_a_start() == KNOWN_GOOD


def test_a_run_that_waits_in_check_mode_writes_nothing(fleet):
    node = fleet.node("node")
    assert fleet.play().rc == 0
    with open(node.state / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        release = threading.Timer(4, fcntl.flock, (lock, fcntl.LOCK_UN))
        release.start()
        began = time.monotonic()
        play = fleet.play("--check")
        assert time.monotonic() - began > 4
        release.join()
    assert play.rc == 0, str(play)
    assert play.touched(node) == {}


def test_a_clean_node_is_not_taken_for_a_bad_one(fleet):
    """The counterpart of every row above: the same nodes without a fault are tuned."""
    plain, own, venv = fleet.node("plain"), fleet.node("own"), fleet.node("venv")
    own.own_python()
    venv.venv(venv.own_python())
    play = fleet.play()
    assert play.rc == 0, str(play)
    for node in (plain, own, venv):
        assert play.result(node)["changed"] is True
        assert node.environment_of_a_start() == KNOWN_GOOD
        assert trees.differences({}, play.trees[node.name]["before"]) != trees.differences(
            {}, play.trees[node.name]["after"]
        )
