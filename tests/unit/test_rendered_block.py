# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever text goes into the role's template: the block sets exactly that, or it is refused; nothing else ever runs."""

from __future__ import annotations

import ast
import base64
import json
import os
import pathlib
import subprocess

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.managed_block import join
from ansible_collections.gpu_node.tuning.plugins.module_utils.read_back import values_in_block
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from .interpreters import PATIENCE, every_interpreter
from .rendering import rendered

PRECEDENCES = ["respect", "force"]
SCOPES = ["system", "service"]
CANARY = "NCCL_CANARY"
HOSTILE = [
    "'); import os; os.environ['NCCL_CANARY'] = 'sings' #",
    '"), ("NCCL_CANARY", "sings"), (\'',
    "'''\"\"\"",
    '"""\nimport os\nos.environ["NCCL_CANARY"] = "sings"\n"""',
    "\nimport os; os.environ['NCCL_CANARY'] = 'sings'",
    "\rimport os; os.environ['NCCL_CANARY'] = 'sings'\r",
    "\x0cimport os; os.environ['NCCL_CANARY'] = 'sings'",
    "\u2028import os; os.environ['NCCL_CANARY'] = 'sings'\u2029\x85",
    "{{ 7 * 7 }}{% for x in y %}{# #}",
    "{{ lookup('pipe', 'id') }}",
    "\\",
    "\\'",
    "\\N{BULLET}\\u0041\\x41",
    "+ACcAKQ-: coding: utf-7",
    "-*- coding: utf-7 -*-",
    "+ACc-",
    "\U0001f600\U0010ffff",
    "\udcff\udc80",
    "\udcc3\udca9",
    "\ud800",
    "a\0b",
    "\ufeff",
    "",
    " ",
    "%s%(x)s{0}$HOME`id`",
]

texts = st.one_of(
    st.text(st.characters(codec=None)),
    st.text("'\"\\{}#%\n\r\x0c\x85\u2028()[],=:+- aN\0\ud800\udcc3\udca9\udcff"),
    st.sampled_from(HOSTILE),
    st.tuples(st.sampled_from(HOSTILE), st.text(max_size=3)).map("".join),
)
# A name with "=" is none; the validator refuses it long before.
names = texts.filter(lambda name: name and "=" not in name)
environments = st.dictionaries(names, texts, min_size=1, max_size=6)


def holdable(text: str) -> bool:
    """True for what os.environ gives back as it was put in."""
    try:
        return "\0" not in text and os.fsdecode(os.fsencode(text)) == text
    except UnicodeEncodeError:
        return False


def rendered_or_refused(env, precedence, scope, profile="known_good"):
    """The body, or None when it was refused; and it is refused for a reason."""
    try:
        return rendered(env, precedence, scope, profile)
    except ValueError:
        assert not all(holdable(text) for pair in env.items() for text in pair) or not holdable(profile)
        return None


def skeleton(source):
    """(the pairs, everything else as text) of a rendered file."""
    tree = ast.parse(source)
    (loop,) = [node for node in tree.body if isinstance(node, ast.For)]
    pairs = []
    for item in loop.iter.elts:
        assert isinstance(item, ast.Tuple)
        assert [type(part) for part in item.elts] == [ast.Constant, ast.Constant]
        pairs.append(tuple(part.value for part in item.elts))
    loop.iter.elts = []
    return pairs, ast.dump(tree)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("precedence", PRECEDENCES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(env=environments, profile=texts)
@example(env={"NCCL_X": "+ACcAKQ-"}, profile="x coding: utf-7")
@example(env={"NCCL_X": "1"}, profile="x\nraise SystemExit")
@example(env=dict.fromkeys(["é", "\udcc3\udca9"], "two names, one variable"), profile="x")
def test_the_template_is_the_only_code(precedence, scope, env, profile):
    body = rendered_or_refused(env, precedence, scope, profile)
    if body is None:
        return
    assert body.isascii()
    plain = join(b"", rendered({"NCCL_X": "1"}, precedence, scope), b"")
    file = join(b"", body, b"")
    pairs, code = skeleton(file)
    assert pairs == sorted(env.items())
    assert code == skeleton(plain)[1]
    assert len(file.splitlines()) == len(plain.splitlines()) + len(env) - 1
    assert {name: value for name, (value, _line) in values_in_block(file, "f").items()} == env


RUN = """
import base64, json, os, sys
answers = []
path = list(sys.path)
for source, preset in json.load(sys.stdin):
    os.environ.clear()
    os.environ.update(preset)
    space = {"__name__": "sitecustomize", "__file__": "/no/such/directory/sitecustomize.py"}
    exec(compile(base64.b64decode(source), space["__file__"], "exec", dont_inherit=True), space)
    answers.append([dict(os.environ), sorted(set(space) - {"__builtins__"})])
    assert sys.path == path
json.dump(answers, sys.stdout)
"""


def run_all(python, cases):
    """Start the interpreter once and run every (file, preset) in it: [environment, names that are left in the module]."""
    request = json.dumps([[base64.b64encode(source).decode(), preset] for source, preset in cases])
    environment = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    answer = subprocess.run(
        [python.executable, "-I", "-c", RUN],
        input=request,
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        cwd="/",
        timeout=PATIENCE,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    return json.loads(answer.stdout)


def drawn_cases(precedence, scope, count):
    """Environments from hypothesis with what is preset beside them; one start of an interpreter takes them all."""
    cases = []

    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(env=environments, other=texts, presets=st.integers(0, 3))
    def draw(env, other, presets):
        body = rendered_or_refused(env, precedence, scope)
        if body is not None:
            preset = dict.fromkeys(sorted(env)[:presets], other) if holdable(other) else {}
            cases.append((env, preset, join(b"import sys", body, b"")))

    draw()
    return cases


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("precedence", PRECEDENCES)
@every_interpreter
def test_every_interpreter_gives_back_exactly_the_declared_environment(python, precedence, scope):
    cases = drawn_cases(precedence, scope, 150)
    for text in filter(holdable, HOSTILE):
        env = {"NCCL_X": text}
        cases.append((env, {}, join(b"import sys", rendered(env, precedence, scope), b"")))
    assert len(cases) > 50
    answers = run_all(python, [(source, preset) for _env, preset, source in cases])
    for (env, preset, _source), (environment, left) in zip(cases, answers, strict=True):
        assert environment == ({**env, **preset} if precedence == "respect" else {**preset, **env})
        assert CANARY not in environment
        assert left == ["__file__", "__name__", "os", "sys"]


@every_interpreter
def test_no_value_runs_as_code(python, tmp_path):
    """The values that would write a file, at a real start of the interpreter."""
    canary = tmp_path / "canary"
    write = f"open({str(canary)!r}, 'w')"
    values = [
        f"'); {write} #",
        f'"""\n{write}\n"""',
        f"\n{write}\n",
        f"\\'); {write} #",
        f"{{{{ {write} }}}}",
        f"' + {write}.name + '",
        f"{write}",
    ]
    env = {f"NCCL_{number}": value for number, value in enumerate(values)}
    (tmp_path / "sitecustomize.py").write_bytes(
        join(b"", rendered(env, "force", "service", profile=f"x\n{write}"), b"")
    )
    command = [python.executable, "-B", "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    answer = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path), "LANG": "C.UTF-8"},
        timeout=PATIENCE,
    )
    assert answer.stderr == ""
    assert {name: value for name, value in json.loads(answer.stdout).items() if name.startswith("NCCL_")} == env
    assert sorted(pathlib.Path(tmp_path).iterdir()) == [tmp_path / "sitecustomize.py"]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("precedence", PRECEDENCES)
def test_the_block_imports_nothing_but_os(precedence, scope):
    tree = ast.parse(rendered({"NCCL_PROTO": "LL"}, precedence, scope))
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert [ast.unparse(node) for node in imports] == ["import os"]
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]  # it swallows nothing


def test_the_order_of_the_declaration_does_not_matter():
    assert rendered({"A": "1", "B": "2"}) == rendered({"B": "2", "A": "1"})


def test_the_body_says_profile_and_precedence():
    assert b"# profile: 'fewer_channels'; precedence: force\n" in rendered(
        {"A": "1"}, "force", profile="fewer_channels"
    )
    assert b"# profile: 'none'; precedence: respect\n" in rendered({"A": "1"}, profile=None)
