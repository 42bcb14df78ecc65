# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Statement forms that set variables, and what remains of a file when they are taken out."""

from __future__ import annotations

import textwrap

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.foreign_code import find_assignments, without_statements

# What Debian and Ubuntu ship.
HOOK = b"""\
# install the apport exception handler if available
try:
    import apport_python_hook
except ImportError:
    pass
else:
    apport_python_hook.install()
"""


def found_in(source):
    return find_assignments(textwrap.dedent(source).encode(), "f.py")


# source -> (name, value, line, first_line, last_line, removable) for each variable
FORMS = {
    "assignment": ("import os\nos.environ['A'] = '1'\n", [("A", "1", 2, 2, 2, True)]),
    "assignment of something computed": ("os.environ['A'] = str(1)\n", [("A", None, 1, 1, 1, False)]),
    "assignment of a number": ("os.environ['A'] = 1\n", [("A", None, 1, 1, 1, True)]),
    "two targets": (
        "os.environ['A'] = os.environ['B'] = '1'\n",
        [("A", "1", 1, 1, 1, True), ("B", "1", 1, 1, 1, True)],
    ),
    "a target that is something else": ("x = os.environ['A'] = '1'\n", [("A", "1", 1, 1, 1, False)]),
    "from os import environ": ("from os import environ\nenviron['A'] = '1'\n", [("A", "1", 2, 2, 2, True)]),
    "import os as o": ("import os as o\no.environ['A'] = '1'\n", [("A", "1", 2, 2, 2, True)]),
    "setdefault": ("os.environ.setdefault('A', '1')\n", [("A", "1", 1, 1, 1, True)]),
    "setdefault of something computed": ("os.environ.setdefault('A', f())\n", [("A", None, 1, 1, 1, False)]),
    "the value of setdefault is used": ("x = os.environ.setdefault('A', '1')\n", [("A", "1", 1, 1, 1, False)]),
    "update with a dict": (
        "os.environ.update({\n    'A': '1',\n    'B': '2',\n})\n",
        [("A", "1", 2, 1, 4, True), ("B", "2", 3, 1, 4, True)],
    ),
    "update with keywords": (
        "os.environ.update(A='1', B='2')\n",
        [("A", "1", 1, 1, 1, True), ("B", "2", 1, 1, 1, True)],
    ),
    "update with pairs": ("os.environ.update([('A', '1')])\n", [("A", "1", 1, 1, 1, True)]),
    "putenv": ("os.putenv('A', '1')\n", [("A", "1", 1, 1, 1, True)]),
    "when unset": ("if 'A' not in os.environ:\n    os.environ['A'] = '1'\n", [("A", "1", 2, 1, 2, True)]),
    "when unset, with get": ("if not os.environ.get('A'):\n    os.environ['A'] = '1'\n", [("A", "1", 2, 1, 2, True)]),
    "when a file is there": ("if os.path.exists('/x'):\n    os.environ['A'] = '1'\n", [("A", "1", 2, 1, 2, False)]),
    "if with else": ("if x:\n    os.environ['A'] = '1'\nelse:\n    f()\n", [("A", "1", 2, 1, 4, False)]),
    "if with more in it": ("if x:\n    os.environ['A'] = '1'\n    f()\n", [("A", "1", 2, 1, 3, False)]),
    "in a try": ("try:\n    os.environ['A'] = '1'\nexcept OSError:\n    pass\n", [("A", "1", 2, 1, 4, False)]),
    "in a function": ("def f():\n    os.environ['A'] = '1'\n\nf()\n", [("A", "1", 2, 1, 2, False)]),
    "two on a line": (
        "os.environ['A'] = '1'; os.environ['B'] = '2'\n",
        [("A", "1", 1, 1, 1, False), ("B", "2", 1, 1, 1, False)],
    ),
    "with a call on its line": ("os.environ['A'] = '1'; f()\n", [("A", "1", 1, 1, 1, False)]),
    "a walrus hides an effect": ("if (x := 1):\n    os.environ['A'] = '1'\n", [("A", "1", 2, 1, 2, False)]),
    "loop over a call": ("for k, v in f([('A', '1')]):\n    os.environ[k] = v\n", []),
    "loop that sets nothing": ("for k, v in [('A', '1')]:\n    print(k, v)\n", []),
    "reading only": ("x = os.environ['A']\nos.environ.get('B', '1')\nos.environ.pop('C')\n", []),
    "another mapping": ("config['A'] = '1'\nconfig.setdefault('B', '2')\nconfig.update(C='3')\n", []),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("source", "expected"), FORMS.values(), ids=FORMS)
def test_statement_form(source, expected):
    assert [tuple(found) for found in found_in(source)] == expected


LOOP_BODIES = {
    "not in": "    if _k not in os.environ:\n        os.environ[_k] = _v\n",
    "not in keys": "    if _k not in os.environ.keys():\n        os.environ[_k] = _v\n",
    "setdefault": "    os.environ.setdefault(_k, _v)\n",
    "not get": "    if not os.environ.get(_k):\n        os.environ[_k] = _v\n",
    "get is None": "    if os.environ.get(_k) is None:\n        os.environ[_k] = _v\n",
    "always": "    os.environ[_k] = _v\n",
}
LOOP_HEADS = {
    "list": 'for _k, _v in [\n    ("NCCL_PROTO", "LL"),\n    ("NCCL_ALGO", "Ring"),  # why\n]:\n',
    "tuple": 'for _k, _v in (\n    ("NCCL_PROTO", "LL"),\n    ("NCCL_ALGO", "Ring"),\n):\n',
    "lists in a list": 'for _k, _v in [["NCCL_PROTO", "LL"], ["NCCL_ALGO", "Ring"]]:\n',
    "dict items": 'for _k, _v in {\n    "NCCL_PROTO": "LL",\n    "NCCL_ALGO": "Ring",\n}.items():\n',
}
COMMENT = "# NCCL tuning - PCIe, no NVLink\n"
PREAMBLES = {
    "import above the comment": "import os\n" + COMMENT,
    "import below the comment": COMMENT + "import os\n",
    "import below the comment, blank lines": COMMENT + "import os\n\n",
    "import as": COMMENT.replace("NCCL", "# NCCL") + "import os\n",
    "long comment": COMMENT + "# more of it\nimport os\n",
}


@pytest.mark.parametrize("preamble", PREAMBLES.values(), ids=PREAMBLES)
@pytest.mark.parametrize("head", LOOP_HEADS.values(), ids=LOOP_HEADS)
@pytest.mark.parametrize("body", LOOP_BODIES.values(), ids=LOOP_BODIES)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_of_the_hand_written_file_exactly_the_hook_remains(preamble, head, body, end):
    source = (HOOK + b"\n" + (preamble + head + body).encode()).replace(b"\n", end)
    found = find_assignments(source, "f.py")
    assert [(one.name, one.value, one.removable) for one in found] == [
        ("NCCL_PROTO", "LL", True),
        ("NCCL_ALGO", "Ring", True),
    ]
    assert without_statements(source, "f.py", found) == HOOK.replace(b"\n", end)


def remaining(source, names=None):
    source = textwrap.dedent(source).encode()
    found = [one for one in find_assignments(source, "f.py") if names is None or one.name in names]
    assert found
    assert all(one.removable for one in found)
    return without_statements(source, "f.py", found).decode()


def test_a_file_that_only_sets_variables_becomes_empty():
    assert remaining(COMMENT + "import os\nfor k, v in [('A', '1')]:\n    os.environ[k] = v\n") == ""


def test_a_file_without_final_newline():
    assert remaining("import sys\nimport os\nos.environ['A'] = '1'") == "import sys\n"


def test_an_import_that_later_code_uses_stays():
    source = "import os\nfor k, v in [('A', '1')]:\n    os.environ[k] = v\nprint(os.getpid())\n"
    assert remaining(source) == "import os\nprint(os.getpid())\n"


def test_an_import_that_a_function_uses_stays():
    source = "import os\nos.environ['A'] = '1'\ndef f():\n    return os.getcwd()\n"
    assert remaining(source) == "import os\ndef f():\n    return os.getcwd()\n"


def test_an_import_that_nothing_needed_before_stays():
    assert remaining("import os\nfrom os import environ\nenviron['A'] = '1'\n") == "import os\nfrom os import environ\n"


def test_an_import_of_more_than_os_stays():
    assert remaining("import os, sys\nos.environ['A'] = '1'\n") == "import os, sys\n"


def test_an_import_that_shares_its_line_stays():
    assert remaining("import os; import sys\nos.environ['A'] = '1'\n") == "import os; import sys\n"


def test_an_import_over_two_lines_goes_as_a_whole():
    assert remaining("import sys\nimport \\\n    os\nos.environ['A'] = '1'\n") == "import sys\n"


def test_other_assignments_stay():
    source = "import os\n# one\nos.environ['A'] = '1'\n# two\nos.environ['B'] = '2'\n"
    assert remaining(source, ["A"]) == "import os\n# two\nos.environ['B'] = '2'\n"


def test_code_after_the_loop_keeps_its_blank_lines():
    source = "import sys\n\nimport os\nos.environ['A'] = '1'\n\nx = 1\n\n"
    assert remaining(source) == "import sys\n\n\nx = 1\n\n"


def test_a_comment_apart_from_the_statement_stays():
    assert remaining("# about the file\n\n# about A\nimport os\nos.environ['A'] = '1'\n") == "# about the file\n"


@pytest.mark.parametrize(
    "cookie", ["# -*- coding: latin-1 -*-", "# vim: set fileencoding=latin-1 :", "#!/usr/bin/python3"]
)
def test_the_line_that_names_the_encoding_stays(cookie):
    source = f"{cookie}\n# about A\nimport os\nos.environ['A'] = '1'\nname = '\xe9'\n".encode("latin-1")
    if cookie.startswith("#!"):
        source = source.replace(b"\xe9", b"e")
    rest = without_statements(source, "f.py", find_assignments(source, "f.py"))
    assert rest == source.replace(b"# about A\nimport os\nos.environ['A'] = '1'\n", b"")


def test_the_end_of_a_long_string_is_no_comment():
    source = 'text = """\n# not a comment"""\nimport os\nos.environ["A"] = "1"\n'
    assert remaining(source) == 'text = """\n# not a comment"""\n'


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"import os\nthis is no python\n", r"^f\.py, line 2: not valid Python"),
        (b"x = '\xe9'\n", r"^f\.py.*not valid Python"),
        (b"# -*- coding: no-such-encoding -*-\n", r"^f\.py.*not valid Python.*no-such-encoding"),
        (b"x = 1\0\n", r"^f\.py.*not valid Python.*null bytes"),
        (b"if x:\nx = 1\n", r"^f\.py, line 2: not valid Python"),
    ],
)
def test_broken_source_is_refused_with_the_place(source, message):
    with pytest.raises(TuningError, match=message):
        find_assignments(source, "f.py")


def test_a_latin_1_file_with_its_cookie_is_read():
    source = b"# -*- coding: latin-1 -*-\nimport os\nos.environ['A'] = '\xe9'\n"
    assert [(one.name, one.value) for one in find_assignments(source, "f.py")] == [("A", "\xe9")]
