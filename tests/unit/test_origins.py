# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where else a variable gets its value: NCCL's files, units, Python's start-up code, login shells; one table a rule."""

from __future__ import annotations

import os
import textwrap

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    nccl_conf_file,
    origins,
    python_start,
    systemd_environment,
)
from hypothesis import example, given
from hypothesis import strategies as st

PADDING = b"x" * 4087

# content, version -> what setenv() is called with. Each row was compared with libnccl 2.26.5 or 2.32.3.
CONF_LINES = {
    "plain": (b"NCCL_A=1\nNCCL_B=2\n", None, [("NCCL_A", "1", 1), ("NCCL_B", "2", 2)]),
    "no newline at the end": (b"NCCL_A=1", None, [("NCCL_A", "1", 1)]),
    "first = splits": (b"NCCL_A=b=c\n", None, [("NCCL_A", "b=c", 1)]),
    "blanks belong to both": (b"A = b\n", None, [("A ", " b", 1)]),
    "export": (b"export X=1\n", None, [("export X", "1", 1)]),
    "quotes stay": (b'A="1"\n', None, [("A", '"1"', 1)]),
    "empty value": (b"A=\n", None, [("A", "", 1)]),
    "empty name": (b"=1\n", None, []),
    "no =": (b"NCCL_A\n\n", None, []),
    "comment": (b"#A=1\n", None, []),
    "comment since 2.26": (b"#A=1\n", (2, 26), []),
    "no comment in 2.25": (b"#A=1\n", (2, 25), [("#A", "1", 1)]),
    "comment not in the first column": (b" #A=1\n", None, [(" #A", "1", 1)]),
    "carriage return": (b"A=1\r\n", (2, 30), [("A", "1", 1)]),
    "carriage return up to 2.29": (b"A=1\r\n", (2, 29), [("A", "1\r", 1)]),
    "two carriage returns": (b"A=1\r\r\n", None, [("A", "1\r", 1)]),
    "the first one stands first": (b"A=1\nA=2\n", None, [("A", "1", 1), ("A", "2", 2)]),
    "NUL ends the line": (b"A=b\0c\nD\0=1\n", None, [("A", "b", 1)]),
    "cut value": (b"A=" + b"x" * 1024 + b"\n", None, [("A", "x" * 1023, 1)]),
    "cut name": (b"n" * 1024 + b"=1\n", None, [("n" * 1023, "1", 1)]),
    "a long line goes on as another": (
        b"LONG=xyz" + PADDING + b"B=2\n",
        None,
        [("LONG", "xyz" + "x" * 1020, 1), ("B", "2", 1)],
    ),
    "not before 2.30": (b"LONG=xyz" + PADDING + b"B=2\n", (2, 29), [("LONG", "xyz" + "x" * 1020, 1)]),
    "not UTF-8": (b"A=\xff\n", None, [("A", "\udcff", 1)]),
}


@pytest.mark.parametrize(("content", "version", "expected"), CONF_LINES.values(), ids=CONF_LINES)
def test_nccl_conf_line(content, version, expected):
    assert [tuple(entry) for entry in nccl_conf_file.parse(content, version).entries] == expected


CONF_TRAPS = {
    "blanks in the name": (b"NCCL_A = 1\n", None, "blanks belong to the name"),
    "export": (b"export NCCL_A=1\n", None, "this is no shell"),
    "quotes": (b"NCCL_A='1'\n", None, "quotes are part of the value"),
    "carriage return": (b"NCCL_A=1\r\n", (2, 27), "carriage return"),
    "blank behind the value": (b"NCCL_A=1 \n", None, "blanks around the value"),
    "comment behind the value": (b"NCCL_A=1 # why\n", None, "looks like a comment"),
    "indented comment": (b"  #NCCL_A=1\n", None, "only in the first column"),
    "comment before 2.26": (b"#NCCL_A=1\n", (2, 25), "only from NCCL 2.26"),
    "too long": (b"NCCL_A=" + b"x" * 1024, None, "cut at 1023 bytes"),
    "far too long": (b"NCCL_A=" + b"x" * 5000, None, "reads the rest as a new line"),
    "twice": (b"NCCL_A=1\nNCCL_A=2\n", None, "is set in line 1 already"),
    "no =": (b"NCCL_A 1\n", None, "there is no '='"),
    "byte order mark": (b"\xef\xbb\xbfNCCL_A=1\n", None, "byte order mark"),
}


@pytest.mark.parametrize(("content", "version", "expected"), CONF_TRAPS.values(), ids=CONF_TRAPS)
def test_nccl_conf_trap_is_remarked(content, version, expected):
    assert expected in " ".join(text for _line, text in nccl_conf_file.parse(content, version).remarks)


def test_nccl_conf_without_traps_has_no_remarks():
    assert nccl_conf_file.parse(b"# tuned\n\nNCCL_A=1\nNCCL_PROTO=LL,Simple\n").remarks == []


# environment, passwd home, version -> path, skipped, words of a remark
USER_FILES = {
    "home": ({"HOME": "/h"}, "/h", (2, 30), "/h/.nccl.conf", None, None),
    "$HOME from 2.30": ({"HOME": "/e"}, "/p", (2, 30), "/e/.nccl.conf", None, "differ"),
    "passwd up to 2.29": ({"HOME": "/e"}, "/p", (2, 29), "/p/.nccl.conf", None, "differ"),
    "no HOME from 2.30": ({}, "/p", (2, 30), None, None, "HOME is not set"),
    "no HOME up to 2.29": ({}, "/p", (2, 29), "/p/.nccl.conf", None, None),
    "named": ({"HOME": "/h", "NCCL_CONF_FILE": "/c"}, "/h", None, "/c", "/h/.nccl.conf", None),
    "named, empty": ({"HOME": "/h", "NCCL_CONF_FILE": ""}, "/h", None, "/h/.nccl.conf", None, None),
    "named, before 2.23": ({"HOME": "/h", "NCCL_CONF_FILE": "/c"}, "/h", (2, 22), "/h/.nccl.conf", None, "no effect"),
    "tilde": ({"HOME": "/h", "NCCL_CONF_FILE": "~/c"}, "/h", None, "~/c", "/h/.nccl.conf", "does not expand ~"),
    "relative": ({"HOME": "/h", "NCCL_CONF_FILE": "c"}, "/h", None, "c", "/h/.nccl.conf", "relative"),
}


@pytest.mark.parametrize(
    ("environment", "home", "version", "path", "skipped", "remark"), USER_FILES.values(), ids=USER_FILES
)
def test_nccl_user_file(environment, home, version, path, skipped, remark):
    found = nccl_conf_file.user_file(environment, home, version)
    assert (found.path, found.skipped) == (path, skipped)
    assert (remark in " ".join(found.remarks)) if remark else found.remarks == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2.27.3", (2, 27)), ("2.27.3+cuda12.9", (2, 27)), ("2", None), ("", None), (None, None), ("v2.1", None)],
)
def test_nccl_version(text, expected):
    assert nccl_conf_file.version_of(text) == expected


# lines behind [Service] -> name, value, line. Each row was compared with libsystemd-shared 252.
UNIT_LINES = {
    "several on a line": ('Environment=A=1 B=2 "C=3 4"\n', [("A", "1", 2), ("B", "2", 2), ("C", "3 4", 2)]),
    "quotes inside a word": ("Environment=A='b c'd\n", [("A", "b cd", 2)]),
    "later ones follow": ("Environment=A=1\nEnvironment=A=2\n", [("A", "1", 2), ("A", "2", 3)]),
    "empty resets": ("Environment=A=1\nEnvironment=\nEnvironment=B=2\n", [("B", "2", 4)]),
    "empty value": ("Environment=A=\n", [("A", "", 2)]),
    "C escapes": (r"Environment=A=\x41\102\t\u00e9\s" + "\n", [("A", "AB\té ", 2)]),
    "unknown escape loses the rest": (r"Environment=A=1 B=\q C=2" + "\n", [("A", "1", 2)]),
    "NUL escape": (r"Environment=A=\x00" + "\n", []),
    "open quote": ('Environment=A=1 "B=2\n', [("A", "1", 2)]),
    "no assignment": ("Environment=A\n", []),
    "no name": ("Environment=1A=1 B-C=2 =3\n", []),
    "%%": ("Environment=A=1%%\n", [("A", "1%", 2)]),
    "specifier stays": ("Environment=A=%h/x\n", [("A", "%h/x", 2)]),
    "continuation": (
        "Environment=A=1 \\\n  B=2 \\\n  C=3\nEnvironment=D=4\n",
        [("A", "1", 2), ("B", "2", 3), ("C", "3", 4), ("D", "4", 5)],
    ),
    "comment in a continuation": ("Environment=A=1 \\\n# B=2 \\\n  C=3\n", [("A", "1", 2), ("C", "3", 4)]),
    "empty line ends a continuation": ("Environment=A=1 \\\n\nEnvironment=B=2\n", [("A", "1", 2), ("B", "2", 4)]),
    "comment": ("#Environment=A=1\n ;Environment=B=2\n", []),
    "blanks around": (" Environment = A=1 \n", [("A", "1", 2)]),
    "carriage returns": ("Environment=A=1\r\nEnvironment=B=2\r\n", [("A", "1", 2), ("B", "2", 3)]),
    "another section": ("[Unit]\nEnvironment=A=1\n[Service]\nEnvironment=B=2\n", [("B", "2", 5)]),
    "broken section header": ("Environment=A=1\n[Service\nEnvironment=B=2\n", [("A", "1", 2)]),
    "not UTF-8": ("Environment=A=\udcff\nEnvironment=B=2\n", []),
}


@pytest.mark.parametrize(("text", "expected"), UNIT_LINES.values(), ids=UNIT_LINES)
def test_unit_environment(text, expected):
    unit = systemd_environment.parse_unit([("u", "[Service]\n" + text)])
    assert [(entry.name, entry.value, entry.line) for entry in unit.environment] == expected


UNIT_REMARKS = {
    "specifier": ("Environment=A=%h\n", "u:2: Environment='A=%h' has a specifier"),
    "lost rest": ('Environment=A=1 "B=2\n', "a quote is not closed"),
    "shell": ('Environment="export A=1"\n', "this is no shell"),
    "passed on": ("PassEnvironment=NCCL_A\n", "hands NCCL_A down from the manager"),
    "passed with a value": ("PassEnvironment=NCCL_A=1\n", "not an assignment"),
    "relative file": ("EnvironmentFile=etc/x\n", "no absolute path"),
    "specifier in a file": ("EnvironmentFile=/etc/%i\n", "the file was not read"),
    "PAM": ("PAMName=login\n", "with pam_env that is /etc/environment too"),
    "command": ("ExecStart=/usr/bin/env NCCL_A=1 python3\n", "the command of ExecStart= sets NCCL_A by itself"),
    "broken header": ("[X\n", "no valid section header"),
}


@pytest.mark.parametrize(("text", "expected"), UNIT_REMARKS.values(), ids=UNIT_REMARKS)
def test_unit_remark(text, expected):
    assert expected in " ".join(systemd_environment.parse_unit([("u", "[Service]\n" + text)]).remarks)


def test_unit_files_and_user():
    text = "[Service]\nEnvironmentFile=/a\nEnvironmentFile=\nEnvironmentFile=-/b/*.env\nUser=llm\n"
    unit = systemd_environment.parse_unit([("u", text), ("d", "[Service]\nEnvironmentFile=/c\n")])
    assert [tuple(entry) for entry in unit.files] == [("/b/*.env", True, "u", 4), ("/c", False, "d", 2)]
    assert (unit.user, unit.remarks) == ("llm", [])


# Each row was compared with libsystemd-shared 252.
ENVIRONMENT_FILES = {
    "plain": (b"A=1\nB=2\n", [("A", "1", 1), ("B", "2", 2)]),
    "comments": (b"# A=1\n ; B=2\n\nC=3\n", [("C", "3", 4)]),
    "no comment behind a value": (b"A=1 # x\n", [("A", "1 # x", 1)]),
    "blanks are cut off": (b" A = 1 2 \n", [("A", "1 2", 1)]),
    "single quotes": (b"A='1 \\n'\n", [("A", "1 \\n", 1)]),
    "double quotes": (b'A="1 \\"2\\" \\$ \\n"\n', [("A", '1 "2" $ \\n', 1)]),
    "quotes joined": (b"A='a' \"b\"\n", [("A", "ab", 1)]),
    "quotes inside are letters": (b"A=a'b'\n", [("A", "a'b'", 1)]),
    "over lines": (b"A='1\n2'\nB=3\n", [("A", "1\n2", 1), ("B", "3", 3)]),
    "continuation": (b"A=1 \\\n2\nB=3\n", [("A", "1 2", 1), ("B", "3", 3)]),
    "no continuation of a comment": (b"# x \\\nA=1\n", [("A", "1", 2)]),
    "escape": (b"A=\\1\\ \n", [("A", "1 ", 1)]),
    "export": (b"export A=1\nB=2\n", [("B", "2", 2)]),
    "no =": (b"A\nB=2\n", [("B", "2", 2)]),
    "empty": (b"A=\n", [("A", "", 1)]),
    "specifiers are not resolved": (b"A=%h $HOME\n", [("A", "%h $HOME", 1)]),
    "carriage returns": (b"A=1\r\nB=2\r\n", [("A", "1", 1), ("B", "2", 2)]),
    "no newline at the end": (b"A=1 ", [("A", "1", 1)]),
    "twice": (b"A=1\nA=2\n", [("A", "1", 1), ("A", "2", 2)]),
}


@pytest.mark.parametrize(("content", "expected"), ENVIRONMENT_FILES.values(), ids=ENVIRONMENT_FILES)
def test_environment_file(content, expected):
    parsed = systemd_environment.parse_environment_file(content, "f")
    assert parsed.refused is None
    assert [(entry.name, entry.value, entry.line) for entry in parsed.assignments] == expected


@pytest.mark.parametrize(("content", "why"), [(b"A=\0\n", "NUL"), (b"A=1\nB=\xff\n", "line 2 is not valid UTF-8")])
def test_environment_file_refused_as_a_whole(content, why):
    parsed = systemd_environment.parse_environment_file(content, "f")
    assert why in parsed.refused
    assert parsed.assignments == []


# fragment, environment file -> value and line of NCCL_A, how many lose
MERGES = {
    "one": ("Environment=NCCL_A=1", b"", ("1", "u", 2), 0),
    "the later one": ("Environment=NCCL_A=1\nEnvironment=NCCL_A=2", b"", ("2", "u", 3), 1),
    "the file, wherever it stands": ("EnvironmentFile=/f\nEnvironment=NCCL_A=1", b"NCCL_A=2", ("2", "/f", 1), 1),
    "unset": ("Environment=NCCL_A=1\nUnsetEnvironment=NCCL_A", b"", None, 1),
    "unset, of a file too": ("UnsetEnvironment=NCCL_A", b"NCCL_A=2", None, 1),
    "unset of that value": ("Environment=NCCL_A=1\nUnsetEnvironment=NCCL_A=1", b"", None, 1),
    "unset of another value": ("Environment=NCCL_A=1\nUnsetEnvironment=NCCL_A=2", b"", ("1", "u", 2), 0),
    "unset taken back": ("Environment=NCCL_A=1\nUnsetEnvironment=NCCL_A\nUnsetEnvironment=", b"", ("1", "u", 2), 0),
}


@pytest.mark.parametrize(("text", "content", "winner", "losers"), MERGES.values(), ids=MERGES)
def test_merge(text, content, winner, losers):
    unit = systemd_environment.parse_unit([("u", "[Service]\n" + text + "\n")])
    files = systemd_environment.parse_environment_file(content, "/f").assignments
    effective = systemd_environment.merge(unit, files)
    found = effective.winners.get("NCCL_A")
    assert (found and (found.value, found.path, found.line)) == winner
    assert len(effective.losers) == losers


SHOW = """\
Environment=NCCL_A=1 "NCCL_B=x y" "NCCL_C=\\"\\$\\"" $'NCCL_D=a\\nb'
EnvironmentFiles=/etc/a (ignore_errors=no)
EnvironmentFiles=/etc/b (ignore_errors=yes)
FragmentPath=/etc/systemd/system/s.service
DropInPaths=/etc/systemd/system/s.service.d/1.conf /run/systemd/system/s.service.d/2.conf
User=llm
NeedDaemonReload=yes
"""


def test_show():
    shown = systemd_environment.parse_show(SHOW)
    assert shown.environment == {"NCCL_A": "1", "NCCL_B": "x y", "NCCL_C": '"$"', "NCCL_D": "a\nb"}
    assert shown.environment_files == [("/etc/a", False), ("/etc/b", True)]
    assert shown.fragment == "/etc/systemd/system/s.service"
    assert len(shown.drop_ins) == 2
    assert (shown.user, shown.needs_reload) == ("llm", True)


def test_show_of_nothing():
    shown = systemd_environment.parse_show("Environment=\nFragmentPath=\nUser=\n")
    assert shown == systemd_environment.Shown({}, [], None, [], None, False)


PTH_LINES = {
    "sets": ("import os; os.environ['NCCL_A'] = '1'\n", [("NCCL_A", "1", 1, True)]),
    "sets when unset": ("import os; os.environ.setdefault('NCCL_A', '1')\n", [("NCCL_A", "1", 1, False)]),
    "computed": ("# x\nimport os; os.environ['NCCL_A'] = str(1)\n", [("NCCL_A", None, 2, True)]),
    "only mentioned": ("import nccl_setup; nccl_setup.put('NCCL_A')\n", [("NCCL_A", None, 1, None)]),
    "a directory": ("/opt/NCCL_A\n", []),
    "indented import is a directory": (" import os; os.environ['NCCL_A'] = '1'\n", []),
    "comment": ("# import os; os.environ['NCCL_A'] = '1'\n", []),
    "no Python": ("import os; os.environ['NCCL_A' = \n", []),
    "another variable": ("import os; os.environ['PATH'] = '1'\n", []),
    "byte order mark": ("\ufeffimport os; os.environ['NCCL_A'] = '1'\n", [("NCCL_A", "1", 1, True)]),
}


@pytest.mark.parametrize(("text", "expected"), PTH_LINES.values(), ids=PTH_LINES)
def test_pth_line(text, expected):
    found = python_start.parse_pth(text.encode(), "p")
    assert [(entry.name, entry.value, entry.line, entry.overwrites) for entry in found] == expected


OTEL = b"from opentelemetry.instrumentation.auto_instrumentation import initialize\n\ninitialize()\n"
DDTRACE = b"import ddtrace\nimport sys\ndel sys.modules['sitecustomize']\ntry:\n    import sitecustomize\nexcept ImportError:\n    pass\n"
CHAINS = {
    "imports it": (b"import sitecustomize\n", True),
    "imports from it": (b"from sitecustomize import x\n", True),
    "by name": (b"__import__('sitecustomize')\n", True),
    "importlib": (b"import importlib\nimportlib.import_module('sitecustomize')\n", True),
    "runs a file": (b"import runpy\nrunpy.run_path('/etc/python3.11/sitecustomize.py')\n", True),
    "ddtrace": (DDTRACE, True),
    "OpenTelemetry": (OTEL, False),
    "names it only": (b"# import sitecustomize\nimport sys\nsys.modules.pop('sitecustomize', None)\n", False),
    "a module inside a package": (b"from .sitecustomize import x\n", False),
    "no Python": (b"import sitecustomize(\n", False),
    "empty": (b"", False),
}


@pytest.mark.parametrize(("content", "expected"), CHAINS.values(), ids=CHAINS)
def test_chains_on(content, expected):
    assert python_start.chains_on(content) is expected


KINDS = {
    "OpenTelemetry by path": (
        "/s/opentelemetry/instrumentation/auto_instrumentation/sitecustomize.py",
        b"",
        "OpenTelemetry",
    ),
    "OpenTelemetry by text": ("/x/sitecustomize.py", OTEL, "OpenTelemetry"),
    "ddtrace by path": ("/s/ddtrace/bootstrap/sitecustomize.py", b"", "ddtrace"),
    "ddtrace by text": ("/x/sitecustomize.py", DDTRACE, "ddtrace"),
    "pydevd": ("/s/pydevd/pydev_sitecustomize/sitecustomize.py", b"", "debugger"),
    "nobody's": ("/x/sitecustomize.py", b"x = 1\n", "other"),
}


@pytest.mark.parametrize(("path", "content", "expected"), KINDS.values(), ids=KINDS)
def test_kind_of_sitecustomize(path, content, expected):
    assert python_start.kind_of(path, content) == expected


# candidates in order -> state of each
RANKS = {
    "ours alone": ([("/o", b"")], ["imported"]),
    "ours first": ([("/o", b""), ("/x", DDTRACE)], ["imported", "shadowed"]),
    "OpenTelemetry before ours": ([("/x", OTEL), ("/o", b"")], ["imported", "shadowed"]),
    "ddtrace before ours": ([("/x", DDTRACE), ("/o", b"")], ["imported", "chained to"]),
    "ddtrace, OpenTelemetry, ours": (
        [("/x", DDTRACE), ("/y", OTEL), ("/o", b"")],
        ["imported", "chained to", "shadowed"],
    ),
    "unreadable before ours": ([("/x", None), ("/o", b"")], ["imported", "shadowed"]),
    "none": ([], []),
}


@pytest.mark.parametrize(("candidates", "states"), RANKS.values(), ids=RANKS)
def test_rank(candidates, states):
    assert [site.state for site in python_start.rank(candidates, "/o")] == states


class Tree:
    """A node below a temporary directory."""

    def __init__(self, root):
        self.root = root

    def put(self, path, text):
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
        return path

    def origins(self, service=None, python=None):
        return origins.find_origins(service or origins.Service(), python or origins.Python(), root=str(self.root))


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def brief(found, name="NCCL_A"):
    return [(origin.place, origin.value, origin.reach, origin.standing) for origin in found.variables.get(name, [])]


def test_a_bare_node_has_no_origins_and_no_remarks(tree):
    assert tree.origins() == origins.Origins({}, [], [])


def test_everything_in_order_of_precedence(tree):
    site = "/usr/lib/python3/dist-packages"
    unit = tree.put(
        "/etc/systemd/system/s.service",
        "[Service]\nUser=llm\nEnvironment=NCCL_A=unit\nEnvironmentFile=/etc/default/s\n",
    )
    tree.put("/etc/default/s", "\nNCCL_A=file\n")
    tree.put("/etc/systemd/system.conf", "[Manager]\nDefaultEnvironment=NCCL_A=manager\n")
    tree.put(f"{site}/force.pth", "import os; os.environ['NCCL_A'] = 'pth'\n")
    tree.put(f"{site}/gentle.pth", "import os; os.environ.setdefault('NCCL_A', 'gentle')\n")
    customize = tree.put("/usr/lib/python3.11/sitecustomize.py", "import os\nos.environ['NCCL_A'] = 'site'\n")
    tree.put("/home/llm/.nccl.conf", "NCCL_A=user\n")
    tree.put("/etc/nccl.conf", "NCCL_A=system\n")
    tree.put("/etc/environment", 'NCCL_A="login"\n')
    found = tree.origins(
        origins.Service(unit_files=[unit], account_home="/home/llm"),
        origins.Python(path=("/usr/lib/python3.11", site), candidates=(customize,), ours=customize),
    )
    assert brief(found) == [
        (f"{customize}:2", "site", origins.SITECUSTOMIZE, origins.WINS),
        (f"{site}/force.pth:1", "pth", origins.START_FILE, origins.WINS),
        ("/etc/default/s:2", "file", origins.UNIT, origins.GIVEN),
        (f"{unit}:3", "unit", origins.UNIT, origins.LOSES),
        ("/etc/systemd/system.conf:2", "manager", origins.UNIT, origins.LOSES),
        (f"{site}/gentle.pth:1", "gentle", origins.START_FILE, origins.LOSES),
        ("/home/llm/.nccl.conf:1", "user", origins.NCCL_FILE, origins.LOSES),
        ("/etc/nccl.conf:1", "system", origins.NCCL_FILE, origins.LOSES),
        ("/etc/environment:1", "login", origins.LOGIN_SHELLS, origins.UNSEEN),
    ]
    assert {origin.reach for entries in found.variables.values() for origin in entries} <= set(origins.REACHES)
    assert {origin.standing for entries in found.variables.values() for origin in entries} <= set(origins.STANDINGS)
    assert found.as_dict()["variables"]["NCCL_A"][0]["line"] == 2


def test_nccl_conf_file_of_the_unit_replaces_the_per_user_file(tree):
    unit = tree.put("/u", "[Service]\nUser=llm\nEnvironment=NCCL_CONF_FILE=/opt/n.conf\n")
    tree.put("/opt/n.conf", "NCCL_A=named\n")
    tree.put("/home/llm/.nccl.conf", "NCCL_A=user\n")
    tree.put("/etc/nccl.conf", "NCCL_A=system\n")
    found = tree.origins(origins.Service(unit_files=[unit], account_home="/home/llm"))
    assert [(value, standing) for _place, value, _reach, standing in brief(found)] == [
        ("named", origins.LOSES),
        ("system", origins.LOSES),
        ("user", origins.UNSEEN),
    ]


@pytest.mark.parametrize("source", ["managed", "pth"])
def test_nccl_conf_file_set_by_python_counts(tree, source):
    tree.put("/opt/n.conf", "NCCL_A=named\n")
    tree.put(
        "/s/site-packages/x.pth",
        "import os; os.environ.setdefault('NCCL_CONF_FILE', '/opt/n.conf')\n" if source == "pth" else "",
    )
    managed = {"NCCL_CONF_FILE": "/opt/n.conf"} if source == "managed" else None
    found = tree.origins(python=origins.Python(path=("/s/site-packages",), managed=managed))
    assert [value for _place, value, _reach, _standing in brief(found)] == ["named"]


def test_missing_nccl_conf_file_leaves_the_per_user_file_out(tree):
    tree.put("/home/llm/.nccl.conf", "NCCL_A=user\n")
    found = tree.origins(origins.Service(environment={"NCCL_CONF_FILE": "/gone"}, account_home="/home/llm"))
    assert brief(found)[0][3] == origins.UNSEEN
    assert "NCCL leaves /home/llm/.nccl.conf out too" in " ".join(found.remarks)


def test_a_unit_without_user_has_no_home(tree):
    tree.put("/root/.nccl.conf", "NCCL_A=user\n")
    unit = tree.put("/u", "[Service]\nExecStart=/x\n")
    new = tree.origins(origins.Service(unit_files=[unit], account_home="/root", nccl_version="2.30.7"))
    old = tree.origins(origins.Service(unit_files=[unit], account_home="/root", nccl_version="2.27.3"))
    assert brief(new) == []
    assert "HOME is not set for the service" in " ".join(new.remarks)
    assert brief(old)[0][0] == "/root/.nccl.conf:1"


def test_manager_resolves_specifiers_and_names_what_differs(tree):
    unit = tree.put("/u", "[Service]\nEnvironment=NCCL_A=%H NCCL_B=new NCCL_C=1\n")
    show = f"FragmentPath={unit}\nEnvironment=NCCL_A=node7 NCCL_B=old NCCL_D=4\nNeedDaemonReload=yes\n"
    found = tree.origins(origins.Service(show=show))
    assert brief(found)[0][:2] == ("/u:2", "node7")
    assert brief(found, "NCCL_B")[0][:2] == ("/u:2", "old")
    assert brief(found, "NCCL_D")[0][:2] == ("systemctl show", "4")
    remarks = " ".join(found.remarks)
    assert "the file says NCCL_B='new', the manager 'old'" in remarks
    assert "the file sets NCCL_C, the manager does not know of it" in remarks


def test_what_a_unit_starts_its_process_with(tree):
    tree.put("/etc/default/s", "NCCL_B=file\n")
    unit = tree.put(
        "/u",
        "[Service]\nUser=llm\nEnvironment=NCCL_A=%H NCCL_B=unit PATH=/opt NCCL_C=1\nEnvironmentFile=/etc/default/s\n"
        "UnsetEnvironment=NCCL_C\nPassEnvironment=NCCL_E\n",
    )
    show = f"FragmentPath={unit}\nUser=llm\nEnvironment=NCCL_A=node7 NCCL_B=unit PATH=/opt NCCL_C=1 NCCL_D=4\n"
    environment, user = origins.started_with(show, root=str(tree.root))
    assert environment == {"NCCL_A": "node7", "NCCL_B": "file", "PATH": "/opt", "NCCL_D": "4"}
    assert user == "llm"
    assert origins.started_with("Environment=\nUser=\n", root=str(tree.root)) == ({}, None)


def test_service_environment_that_the_unit_does_not_give_is_remarked(tree):
    unit = tree.put("/u", "[Service]\nEnvironment=NCCL_A=1\n")
    found = tree.origins(origins.Service(unit_files=[unit], environment={"NCCL_A": "2", "NCCL_B": "3"}))
    assert "service_environment says NCCL_A='2', but the unit gives '1' (/u:2)" in " ".join(found.remarks)
    assert "NCCL_B='3', but the unit does not set it" in " ".join(found.remarks)


@pytest.mark.parametrize(("line", "expected"), [("/gone", "does not start the unit"), ("-/gone", "")])
def test_missing_environment_file(tree, line, expected):
    unit = tree.put("/u", f"[Service]\nEnvironmentFile={line}\n")
    remarks = " ".join(tree.origins(origins.Service(unit_files=[unit])).remarks)
    assert (expected in remarks) if expected else remarks == ""


def test_environment_files_by_pattern_in_order(tree):
    tree.put("/e/2.env", "NCCL_A=2\n")
    tree.put("/e/1.env", "NCCL_A=1\n")
    unit = tree.put("/u", "[Service]\nEnvironmentFile=/e/*.env\n")
    assert [place for place, *_rest in brief(tree.origins(origins.Service(unit_files=[unit])))] == [
        "/e/2.env:1",
        "/e/1.env:1",
    ]


def test_start_files_count_from_python_3_15_and_replace_the_pth_of_their_name(tree):
    tree.put("/s/site-packages/a.pth", "import os; os.environ['NCCL_A'] = '1'\n")
    tree.put("/s/site-packages/a.start", "nccl_setup:apply\n")
    new = tree.origins(python=origins.Python(path=("/s/site-packages",), version="3.15.2"))
    old = tree.origins(python=origins.Python(path=("/s/site-packages",), version="3.14.0"))
    assert brief(new)[0][3] == origins.UNSEEN
    assert "/s/site-packages/a.start:1: Python calls nccl_setup:apply" in new.remarks[0]
    assert (brief(old)[0][3], old.remarks) == (origins.WINS, [])


def test_pth_outside_a_site_directory_is_not_read(tree):
    tree.put("/opt/x.pth", "import os; os.environ['NCCL_A'] = '1'\n")
    assert tree.origins(python=origins.Python(path=("/opt",))).variables == {}


@pytest.mark.parametrize(
    ("foreign", "remark"),
    [(OTEL, "OpenTelemetry comes before it"), (DDTRACE, "runs because /x/sitecustomize.py (ddtrace)")],
)
def test_another_sitecustomize_before_ours(tree, foreign, remark):
    other = tree.put("/x/sitecustomize.py", foreign)
    ours = tree.put("/o/sitecustomize.py", "")
    found = tree.origins(python=origins.Python(candidates=(other, ours), ours=ours))
    assert remark in " ".join(found.remarks)


def test_a_package_comes_before_the_module_and_a_folder_is_nothing(tree):
    package = tree.put("/x/sitecustomize/__init__.py", "import os\nos.environ['NCCL_A'] = '1'\n")
    module = tree.put("/x/sitecustomize.py", "")
    (tree.root / "y/sitecustomize").mkdir(parents=True)
    found = tree.origins(python=origins.Python(candidates=(module, "/x/sitecustomize", "/y/sitecustomize")))
    assert [(site.path, site.state) for site in found.sitecustomize] == [(package, "imported"), (module, "shadowed")]


def test_our_block_is_no_origin(tree):
    begin, end = "# >>> gpu_node.tuning: managed block, change the inventory instead >>>", "# <<< gpu_node.tuning <<<"
    ours = tree.put(
        "/o/sitecustomize.py", f"import os\n{begin}\nos.environ['NCCL_A'] = '1'\n{end}\nos.environ['NCCL_B'] = '2'\n"
    )
    found = tree.origins(python=origins.Python(candidates=(ours,), ours=ours))
    assert brief(found) == []
    assert brief(found, "NCCL_B") == [(f"{ours}:5", "2", origins.SITECUSTOMIZE, origins.WINS)]


def test_what_cannot_be_read_is_said_and_a_pipe_does_not_hang(tree):
    (tree.root / "etc").mkdir()
    os.mkfifo(tree.root / "etc/nccl.conf")
    (tree.root / "etc/environment").symlink_to("environment")
    remarks = " ".join(tree.origins().remarks)
    assert "/etc/environment: cannot be read" in remarks
    assert "/etc/nccl.conf: is no regular file" in remarks


def test_dev_null_is_a_file_with_nothing_in_it(tree):
    tree.put("/home/llm/.nccl.conf", "NCCL_A=user\n")
    found = tree.origins(origins.Service(environment={"NCCL_CONF_FILE": "/dev/null"}, account_home="/home/llm"))
    assert (brief(found)[0][3], found.remarks) == (origins.UNSEEN, [])


def test_a_broken_sitecustomize_is_remarked(tree):
    broken = tree.put("/x/sitecustomize.py", "import (\n")
    assert "not valid Python" in " ".join(tree.origins(python=origins.Python(candidates=(broken,))).remarks)


# value, library -> words of the explanation
EXPLANATIONS = {
    "unit": ("unit", False, "/u:2 (Environment=, environment of the unit)"),
    "stale": ("older", False, "probably /u:3"),
    "not NCCL's file": ("conf", False, "no place that is known"),
    "NCCL's file": ("conf", True, "/etc/nccl.conf:1 (line, NCCL configuration file)"),
    "login": ("login", False, "probably /etc/environment:1"),
    "unknown": ("x", True, "no place that is known"),
    "unset": (None, True, "not set"),
}


@pytest.mark.parametrize(("value", "library", "expected"), EXPLANATIONS.values(), ids=EXPLANATIONS)
def test_explain(tree, value, library, expected):
    text = "[Service]\nEnvironment=NCCL_A=unit\n"
    unit = tree.put(
        "/u", text if value != "older" else "[Service]\n\nEnvironment=NCCL_A=older\nEnvironment=NCCL_A=unit\n"
    )
    tree.put("/etc/nccl.conf", "NCCL_A=conf\n")
    tree.put("/etc/environment", "NCCL_A=login\n")
    found = tree.origins(origins.Service(unit_files=[unit]))
    assert origins.explain("NCCL_A", value, found, library)[0].startswith(expected)


def test_explain_names_code_whose_value_is_computed(tree):
    tree.put("/s/site-packages/a.pth", "import os; os.environ['NCCL_A'] = str(1)\n")
    found = tree.origins(python=origins.Python(path=("/s/site-packages",)))
    text, origin = origins.explain("NCCL_A", "1", found)
    assert text.startswith("probably /s/site-packages/a.pth:1")
    assert origin.value is None


@given(st.binary(max_size=300), st.sampled_from([None, (2, 22), (2, 26), (2, 30)]))
@example(b"NCCL_A\0=1\r\n#", None)
def test_nccl_conf_parser_takes_anything(content, version):
    for entry in nccl_conf_file.parse(content, version).entries:
        assert entry.name
        assert "=" not in entry.name
        again = f"{entry.name}={entry.value}\n".encode("utf-8", "surrogateescape")
        if version == (2, 22):
            assert [(e.name, e.value) for e in nccl_conf_file.parse(again, version).entries] == [
                (entry.name, entry.value)
            ]


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@given(st.binary(max_size=300))
def test_environment_file_parser_takes_anything(content):
    systemd_environment.parse_environment_file(content, "f")


@given(NAMES, VALUES)
def test_a_quoted_value_comes_out_of_an_environment_file(name, value):
    quoted = "".join("\\" + char if char in '"\\`$' else char for char in value)
    parsed = systemd_environment.parse_environment_file(f'{name}="{quoted}"\n'.encode(), "f")
    assert [(entry.name, entry.value) for entry in parsed.assignments] == [(name, value)]


@given(st.text(max_size=200))
@example("[Service]\nEnvironment=\\")
@example("[Service]\nEnvironment=\\U")
@example("[Service]\nEnvironment=\\08")
def test_unit_parser_takes_anything(text):
    last = text.count("\n") + text.count("\r") + text.count("\0") + 4
    for entry in systemd_environment.parse_unit([("u", "[Service]\nEnvironment=" + text)]).environment:
        assert 1 <= entry.line <= last


@given(NAMES, VALUES)
def test_an_escaped_value_comes_out_of_a_unit(name, value):
    escaped = "".join(f"\\U{ord(char):08x}" for char in value)
    unit = systemd_environment.parse_unit([("u", f'[Service]\nEnvironment="{name}={escaped}"\n')])
    expected = [] if systemd_environment._resolve_percent(value) is None else value.replace("%%", "%")
    assert [entry.value for entry in unit.environment] == ([expected] if isinstance(expected, str) else [value])


@given(st.text(max_size=200))
def test_show_parser_takes_anything(text):
    systemd_environment.parse_show("Environment=" + text + "\nDropInPaths=" + text)


@given(st.binary(max_size=200))
@example(b"import " + b"(" * 500)
def test_start_up_parsers_take_anything(content):
    python_start.parse_pth(b"import " + content, "p")
    python_start.parse_start(content, "p")
    python_start.chains_on(content)
