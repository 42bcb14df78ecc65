# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole transaction on a real interpreter, without Ansible: every promise about the file and the state directory."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    managed_block,
    sitecustomize_file,
    tuning_transaction,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter, Service
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import diff_of
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory
from ansible_collections.gpu_node.tuning.plugins.module_utils.tuning_plan import Wish
from ansible_collections.gpu_node.tuning.plugins.module_utils.tuning_transaction import ReadBackFailed, tune

from .interpreters import PATIENCE, every_interpreter, interpreters, make_venv, real_files, times, tree
from .rendering import rendered

CONFTEST = pathlib.Path(__file__).with_name("conftest.py")
ENV = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}
HOOK = b"try:\n    import apport_python_hook\nexcept ImportError:\n    pass\nelse:\n    apport_python_hook.install()\n"
LOOP = b"""
# NCCL tuning - PCIe only
import os
for _k, _v in [
    ("NCCL_PROTO", "LL"),
    ("NCCL_ALGO", "Tree"),
    ("NCCL_NTHREADS", "512"),
]:
    if _k not in os.environ:
        os.environ[_k] = _v
"""


class Node:
    """A node below one directory: a virtual environment, its sitecustomize.py, and a state directory that does not exist yet."""

    def __init__(self, python, root):
        self.root, self.python = root, python
        self.venv = make_venv(python, root / "venv")
        # A distribution's interpreter imports the system's file in every virtual environment, and that one is not ours to write.
        self.scope = "service" if python.has_system_file else "system"
        self.service_dir = root / "opt" / "service"
        self.file = self.venv.file if self.scope == "system" else self.service_dir / "sitecustomize.py"
        self.state = StateDirectory(str(root / "var" / "state"))
        self.preset = {}

    def wish(self, env=None, **options):
        env = ENV if env is None else env
        defaults = {
            "body": rendered(env, options.get("precedence", "respect"), self.scope),
            "env": env,
            "scope": self.scope,
            "service_dir": str(self.service_dir),
            "precedence": "respect",
            "takeover": "refuse",
            "profile": "known_good",
            "profile_status": "known_good",
            "evidence": [],
        }
        return Wish(**{**defaults, **options})

    @property
    def absent(self):
        return self.wish({}, body=None)

    def interpreter(self):
        environment = dict(self.preset)
        if self.scope == "service":
            environment["PYTHONPATH"] = str(self.service_dir)
        return Interpreter(self.venv.executable, Service(environment, None), PATIENCE)

    def tune(self, wish=None, check=False):
        return tune(wish or self.wish(), self.interpreter(), self.state, PATIENCE, check)

    def put(self, content, mode=0o644):
        if content is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_bytes(content)
            self.file.chmod(mode)

    def bytes(self):
        return self.file.read_bytes() if self.file.exists() else None

    def tree(self):
        """All of the node but the bytecode that an ordinary start leaves."""
        return {path: facts for path, facts in tree(self.root).items() if "__pycache__" not in path}

    def kept(self, number, side="before"):
        """Where generation ``number`` keeps the bytes of the file."""
        return pathlib.Path(self.state.path, "generations", f"{int(number):04d}", side, *self.file.parts[1:])

    def history(self):
        return [
            json.loads(line)
            for line in pathlib.Path(self.state.path, "history.jsonl").read_text(encoding="utf-8").splitlines()
        ]


def usual_python():
    """One that brings its own file where there is one; which one does not matter, the others have their turn in the short tests."""
    return next((python for python in reversed(interpreters()) if not python.has_system_file), interpreters()[-1])


@pytest.fixture
def node(tmp_path):
    return Node(usual_python(), tmp_path)


@pytest.fixture(autouse=True)
def the_machine_stays_as_it_is(monkeypatch, tmp_path):
    real, before = sitecustomize_file.look, real_files()

    def guarded(path):
        assert path.startswith(str(tmp_path)), f"{path} is not the test's own file"
        return real(path)

    monkeypatch.setattr(sitecustomize_file, "look", guarded)
    yield
    assert real_files() == before


# --- every interpreter: there, again, back


@every_interpreter
def test_tune_again_and_back(python, tmp_path):
    node = Node(python, tmp_path)
    before = node.tree()
    outcome = node.tune()
    assert (outcome.changed, outcome.generation) == (True, 1)
    assert outcome.read_back.version == ".".join(map(str, python.version))
    assert outcome.read_back.imported == str(node.file)
    assert [(v.name, v.declared, v.file, v.interpreter, v.spawn, v.state) for v in outcome.read_back.variables] == [
        ("NCCL_ALGO", "Ring", "Ring", "Ring", "Ring", "effective"),
        ("NCCL_PROTO", "LL", "LL", "LL", "LL", "effective"),
    ]
    isolated = None if node.scope == "service" else "LL"
    assert outcome.read_back.variables[1].isolated == isolated
    assert stat.S_IMODE(node.file.stat().st_mode) == 0o644
    tuned = node.tree()

    again = node.tune()
    assert (again.changed, again.generation) == (False, 1)
    assert again.read_back == outcome.read_back
    assert node.tree() == tuned

    gone = node.tune(node.absent)
    assert (gone.changed, gone.generation) == (True, 2)
    assert [(v.name, v.declared, v.interpreter, v.state) for v in gone.read_back.variables] == [
        ("NCCL_ALGO", None, None, "absent"),
        ("NCCL_PROTO", None, None, "absent"),
    ]
    after = {path: facts for path, facts in node.tree().items() if not path.startswith(str(tmp_path / "var"))}
    assert after == before
    assert node.tune(node.absent).changed is False


# --- start states: what check predicts is what happens

ABSENT = None
BLOCK = managed_block.join(b"", rendered(ENV), b"")
OTHER = managed_block.join(HOOK, rendered({"NCCL_PROTO": "Simple"}, profile="other"), b"x = 1\n")
STATES = {
    "absent": (ABSENT, "refuse", True),
    "empty": (b"", "refuse", True),
    "vendor hook": (HOOK, "refuse", True),
    "vendor hook without final newline": (HOOK.rstrip(b"\n"), "refuse", True),
    "foreign code": (b"import sys\nsys.flag = 1\n", "refuse", True),
    "foreign code that sets other variables": (
        b"import os\nos.environ['HTTP_PROXY'] = 'x'\nos.environ['NCCL_DEBUG'] = 'WARN'\n",
        "refuse",
        True,
    ),
    "CRLF, BOM": (b"\xef\xbb\xbfimport sys\r\n", "refuse", True),
    "latin-1": (b"# -*- coding: latin-1 -*-\nname = '\xe9'\n", "refuse", True),
    "hand-written": (HOOK + LOOP, "replace", True),
    "block of another profile": (OTHER, "refuse", True),
    "block edited by hand": (OTHER.replace(b"'Simple'", b"'LL128'"), "refuse", True),
    "block edited by hand so that it is no Python": (
        managed_block.join(HOOK, b"x = = 1\n", b"x = 1\n"),
        "refuse",
        True,
    ),
    "block and hand-written": (
        managed_block.join(HOOK + LOOP, rendered({"NCCL_PROTO": "Simple"}), b""),
        "replace",
        True,
    ),
    "block, hand-written after it": (
        managed_block.join(HOOK, rendered({"NCCL_PROTO": "Simple"}), LOOP),
        "replace",
        True,
    ),
    "as declared, never recorded": ("as declared", "refuse", False),
}


def start_state(node, content):
    if content == "as declared":
        content = managed_block.join(HOOK, rendered(ENV, scope=node.scope), b"")
    node.put(content)
    return content


def shown_diff(node, outcome):
    plan = outcome.plan
    return diff_of(plan.state, plan.content, plan.values_before, ENV) if outcome.changed else None


@pytest.mark.parametrize(("content", "takeover", "changes"), STATES.values(), ids=STATES)
def test_check_writes_nothing_and_predicts_exactly(node, content, takeover, changes):
    content = start_state(node, content)
    wish = node.wish(takeover=takeover)
    before, moments = tree(node.root), times(node.root)
    predicted = node.tune(wish, check=True)
    assert tree(node.root) == before
    assert times(node.root) == moments
    assert node.bytes() == content
    real = node.tune(wish)
    assert predicted.changed is real.changed is changes
    assert shown_diff(node, predicted) == shown_diff(node, real)
    assert predicted.plan.content == node.bytes()
    assert predicted.plan.remarks == real.plan.remarks
    assert (predicted.read_back is None) is changes
    assert {v.name: v.interpreter for v in real.read_back.variables} == ENV

    tuned, moments = tree(node.root), times(node.root)
    settled = node.tune(wish, check=True)
    assert settled.changed is False
    assert settled.read_back is not None
    assert tree(node.root) == tuned
    assert times(node.root) == moments
    assert node.tune(wish).changed is False

    # What was there is in generation 0, absence included.
    kept = node.kept(0)
    assert (kept.read_bytes() if kept.exists() else None) == content


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, (_content, takeover, changes) in STATES.items()
        if takeover == "refuse" and changes and "block" not in name
    ],
)
def test_removal_gives_the_original_bytes_back(node, name):
    content = STATES[name][0]
    node.put(content, 0o640)
    before = node.tree()
    node.tune()
    assert node.bytes() != content
    node.tune(node.wish({"NCCL_PROTO": "Simple"}))  # a second generation in between changes nothing
    checked = node.tree()
    assert node.tune(node.absent, check=True).changed is True
    assert node.tree() == checked
    assert node.tune(node.absent).changed is True
    assert node.bytes() == content
    assert {path: facts for path, facts in node.tree().items() if not path.startswith(str(node.root / "var"))} == before
    assert not list(node.root.rglob("__pycache__/sitecustomize.*.pyc")) or content is not None


def test_removal_of_what_was_never_there_changes_nothing(node):
    before = node.tree()
    assert node.tune(node.absent).changed is False
    assert node.tune(node.absent, check=True).changed is False
    assert node.tree() == before


def test_removal_takes_the_directories_that_were_made(tmp_path):
    node = Node(usual_python(), tmp_path)
    node.scope, node.file = "service", node.service_dir / "sitecustomize.py"
    assert node.tune().changed
    assert node.file.exists()
    node.tune(node.absent)
    assert not (tmp_path / "opt").exists()


def test_directories_that_a_deleted_file_left_are_a_change_and_predicted(tmp_path):
    node = Node(usual_python(), tmp_path)
    node.scope, node.file = "service", node.service_dir / "sitecustomize.py"
    node.tune()
    node.file.unlink()
    assert node.tune(node.absent, check=True).changed
    assert node.service_dir.exists()
    assert node.tune(node.absent).changed
    assert not (tmp_path / "opt").exists()
    assert not node.tune(node.absent).changed


# --- takeover


def test_of_the_hand_written_file_the_hook_remains_and_the_values_are_shown(node):
    node.put(HOOK + LOOP)
    outcome = node.tune(node.wish(takeover="replace"))
    assert node.bytes() == managed_block.join(HOOK, rendered(ENV, scope=node.scope), b"")
    assert outcome.plan.values_before == {"NCCL_PROTO": "LL", "NCCL_ALGO": "Tree", "NCCL_NTHREADS": "512"}
    (remark,) = outcome.remarks
    assert "line 13: NCCL_NTHREADS='512' goes with the statement that is taken over" in remark
    assert (
        shown_diff(node, outcome)[1]["prepared"]
        == "NCCL_ALGO: Tree -> Ring\nNCCL_NTHREADS: 512 -> (not set)\nNCCL_PROTO: LL -> LL\n"
    )


REFUSED = {
    "sets one of ours": (
        HOOK + LOOP,
        "refuse",
        "line 11 sets NCCL_PROTO='LL'; line 12 sets NCCL_ALGO='Tree'.*takeover: replace",
    ),
    "in a function": (
        b"import os\ndef f():\n    os.environ['NCCL_PROTO'] = 'LL'\nf()\n",
        "replace",
        "line 3: sets NCCL_PROTO in a statement that does more",
    ),
    "with others in one loop": (
        b"import os\nfor k, v in [('NCCL_PROTO', 'LL'), ('OMP_NUM_THREADS', '8')]:\n    os.environ.setdefault(k, v)\n",
        "replace",
        "also sets OMP_NUM_THREADS='8'",
    ),
    "hides the name": (
        b"import os\nos.environ['NCCL_' + 'PROTO'] = 'LL'\n",
        "replace",
        "sets NCCL_PROTO when it runs, in a way that hides the line",
    ),
    "hides it in an in-place union": (
        b"import os\nos.environ |= {'NCCL_PROTO': 'LL'}\n",
        "refuse",
        "sets NCCL_PROTO when it runs",
    ),
    "broken": (b"x = = 1\n", "refuse", "line 1: not valid Python"),
    "fails": (b"import no_such_module\n", "refuse", "line 1: is broken: ModuleNotFoundError"),
    "ends every start": (b"raise SystemExit(1)\n", "refuse", "line 1: is broken: SystemExit.*would end every Python"),
    "not UTF-8": (b"name = '\xe9'\n", "refuse", "not valid Python"),
    "unpaired marker": (managed_block.BEGIN + b"\n", "refuse", "do not pair up"),
    "directory": ("directory", "refuse", "a directory. Legal"),
    "dangling link": ("link", "refuse", "dangling symbolic link"),
    "loop": ("loop", "refuse", "a loop of symbolic links"),
    "50 MB": ("huge", "refuse", "52428800 bytes; legal"),
    "fifo": ("fifo", "refuse", "not a plain file"),
}


def put_odd(node, content):
    node.file.parent.mkdir(parents=True, exist_ok=True)
    {
        "directory": node.file.mkdir,
        "link": lambda: node.file.symlink_to("nowhere"),
        "loop": lambda: node.file.symlink_to(node.file.name),
        "huge": lambda: (node.file.touch(), os.truncate(node.file, 50 * 1024 * 1024)),
        "fifo": lambda: os.mkfifo(node.file),
    }[content]()


@pytest.mark.parametrize(("content", "takeover", "message"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_leaves_the_node_byte_identical(node, content, takeover, message):
    put_odd(node, content) if isinstance(content, str) else node.put(content)
    wish = node.wish(takeover=takeover)
    before = tree(node.root)
    for check in (True, False):
        with pytest.raises(TuningError, match=message) as caught:
            node.tune(wish, check)
        assert str(caught.value).startswith(str(node.file))
        assert tree(node.root) == before


BODIES = {
    "nothing of what is declared": (b"import os\n", "does not set NCCL_ALGO, NCCL_PROTO"),
    "another value": (
        rendered({**ENV, "NCCL_PROTO": "Simple"}),
        r"does not set NCCL_PROTO \(declared 'LL', found 'Simple'\)",
    ),
    "SystemExit": (
        b"raise SystemExit\n",
        "would be broken by the rendered candidate: SystemExit.*would end every Python",
    ),
    "KeyboardInterrupt": (b"raise KeyboardInterrupt\n", "KeyboardInterrupt.*would end every Python"),
    "broken": (b"x = = 1\n", "would be broken by the rendered candidate: SyntaxError"),
    "a marker": (managed_block.END + b"\n", "contains a marker line"),
    "ends the process": (b"import os\nos._exit(0)\n", "ended .* without an answer"),
}


@pytest.mark.parametrize(("body", "message"), BODIES.values(), ids=BODIES)
def test_a_bad_candidate_never_replaces_anything(node, body, message):
    node.put(HOOK)
    before = tree(node.root)
    for check in (True, False):
        with pytest.raises(TuningError, match=message):
            node.tune(node.wish(body=body), check)
        assert tree(node.root) == before


# --- failures after the write


@pytest.mark.parametrize("content", [HOOK, None], ids=["a file", "absence"])
def test_a_failed_read_back_puts_the_old_bytes_back(node, content):
    """The candidate behaves in the trial and not at a real start."""
    node.put(content, 0o640)
    body = rendered(ENV, scope=node.scope) + b"if os.sys.flags.no_site == 0:\n    os.environ['NCCL_PROTO'] = 'Simple'\n"
    before = node.tree()
    with pytest.raises(
        ReadBackFailed,
        match=r"NCCL_PROTO: declared 'LL', the interpreter has 'Simple': overridden.*The old file was put back",
    ) as caught:
        node.tune(node.wish(body=body))
    assert {v.name: v.interpreter for v in caught.value.read_back.variables} == {
        "NCCL_ALGO": "Ring",
        "NCCL_PROTO": "Simple",
    }
    after = node.tree()
    assert {path: facts for path, facts in after.items() if not path.startswith(str(node.root / "var"))} == before
    assert node.bytes() == content
    assert [entry["outcome"] for entry in node.history()] == ["found", "failed"]
    assert node.state.current() == 0
    assert node.tune().changed is True  # and the way is free for a good one


@pytest.mark.parametrize("elsewhere", [False, True], ids=["beside the file", "PYTHONPYCACHEPREFIX"])
@pytest.mark.parametrize("others", [False, True], ids=["no folder before", "a folder before"])
def test_a_failed_read_back_leaves_no_folder_for_bytecode_that_was_not_there(node, others, elsewhere):
    node.put(HOOK)
    node.preset = {"PYTHONPYCACHEPREFIX": str(node.root / "cache")} if elsewhere else {}
    compiled = (
        node.root / "cache" / str(node.file.parent).lstrip("/") if elsewhere else node.file.parent / "__pycache__"
    )
    if others:
        compiled.mkdir(parents=True)
    body = rendered(ENV, scope=node.scope) + b"if os.sys.flags.no_site == 0:\n    os.environ['NCCL_PROTO'] = 'Simple'\n"
    with pytest.raises(ReadBackFailed):
        node.tune(node.wish(body=body))
    assert compiled.exists() is others
    assert not list(node.root.rglob("sitecustomize.*.pyc"))


@pytest.mark.parametrize("action", ["tune", "remove"])
def test_a_record_that_cannot_be_written_puts_the_old_bytes_back(node, action, monkeypatch):
    """The disk of the state directory is full after the write."""
    if action == "remove":
        node.tune()
    wish, before = (node.wish(), None) if action == "tune" else (node.absent, node.bytes())

    def full(self, *arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def unnoted(self, entry):
        raise TuningError("history.jsonl: cannot be written")

    real = StateDirectory.record

    def record(self, changes, facts):
        if facts["outcome"] == "applied":
            monkeypatch.setattr(StateDirectory, "_write_generation", full)
            monkeypatch.setattr(StateDirectory, "note", unnoted)
        return real(self, changes, facts)

    monkeypatch.setattr(StateDirectory, "record", record)
    with pytest.raises(TuningError, match=r"generation \d cannot be written: No space left on device") as caught:
        node.tune(wish)
    assert "COULD NOT BE PUT BACK" not in str(caught.value)
    assert node.bytes() == before
    monkeypatch.undo()


@pytest.mark.parametrize(
    "number", [errno.EBUSY, errno.EXDEV, errno.ENOTSUP, errno.ENOSPC, errno.EIO, errno.EROFS], ids=errno.errorcode.get
)
def test_a_failed_write_leaves_no_trace(node, monkeypatch, number):
    node.put(HOOK)
    before = tree(node.root)
    real = os.replace

    def replace(source, target):
        if target == str(node.file):
            raise OSError(number, os.strerror(number))
        real(source, target)

    monkeypatch.setattr(sitecustomize_file.os, "replace", replace)
    with pytest.raises(TuningError, match="cannot be replaced atomically"):
        node.tune()
    assert tree(node.root) == before


def test_a_failed_write_later_keeps_the_records(node, monkeypatch):
    node.tune()
    before = tree(node.root)

    def write(state, content):
        raise TuningError("cannot be replaced")

    monkeypatch.setattr(sitecustomize_file, "write", write)
    with pytest.raises(TuningError, match="cannot be replaced"):
        node.tune(node.wish({"NCCL_PROTO": "Simple"}))
    assert tree(node.root) == before


def test_an_interrupt_after_the_write_puts_the_old_bytes_back(node, monkeypatch):
    node.put(HOOK)

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning_transaction, "read_back", interrupted)
    with pytest.raises(KeyboardInterrupt):
        node.tune()
    assert node.bytes() == HOOK


def test_an_old_file_that_cannot_be_put_back_is_said_loudly(node, monkeypatch):
    node.put(HOOK)
    body = rendered(ENV, scope=node.scope) + b"if os.sys.flags.no_site == 0:\n    os.environ['NCCL_PROTO'] = 'Simple'\n"
    real, calls = sitecustomize_file.write, []

    def write(state, content):
        calls.append(content)
        if len(calls) == 2:
            raise TuningError("no.")
        return real(state, content)

    monkeypatch.setattr(sitecustomize_file, "write", write)
    with pytest.raises(TuningError, match="THE OLD FILE COULD NOT BE PUT BACK: no"):
        node.tune(node.wish(body=body))
    kept = node.kept(0)
    assert kept.read_bytes() == HOOK


# --- bytecode, presets, precedence, mode


@pytest.mark.parametrize("elsewhere", [False, True], ids=["beside the file", "PYTHONPYCACHEPREFIX"])
def test_a_rewrite_of_the_same_size_in_the_same_second_does_not_run_old_bytecode(node, elsewhere):
    node.preset = {"PYTHONPYCACHEPREFIX": str(node.root / "cache")} if elsewhere else {}
    node.tune(node.wish({"NCCL_PROTO": "LL"}))
    moment, size = int(node.file.stat().st_mtime), node.file.stat().st_size
    os.utime(node.file, (moment, moment))
    node.interpreter().read_back(["NCCL_PROTO"], writes_bytecode=True)
    assert list((node.root / "cache" if elsewhere else node.file.parent).rglob("sitecustomize.*.pyc"))
    real = os.replace

    def replace(source, target):
        os.utime(source, (moment, moment))
        real(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sitecustomize_file.os, "replace", replace)
        outcome = node.tune(node.wish({"NCCL_PROTO": "XX"}))
    assert (node.file.stat().st_size, node.file.stat().st_mtime) == (size, moment)
    assert outcome.read_back.variables[0].interpreter == "XX"


@pytest.mark.parametrize("preset", ["", "Simple"])
def test_a_preset_wins_by_right_and_is_said(node, preset):
    node.preset = {"NCCL_PROTO": preset}
    outcome = node.tune()
    states = {v.name: (v.state, v.origin, v.interpreter) for v in outcome.read_back.variables}
    assert states["NCCL_PROTO"] == ("overridden", "environment", preset)
    assert states["NCCL_ALGO"][0] == "effective"
    (remark,) = outcome.remarks
    assert "NCCL_PROTO" in remark
    forced = node.tune(node.wish(precedence="force"))
    assert forced.changed is True
    assert {v.name: v.interpreter for v in forced.read_back.variables} == ENV
    assert forced.remarks == []


def test_a_pth_file_that_sets_it_first_is_refused_before_the_write(node):
    (node.venv.site_packages / "a.pth").write_text("import os; os.environ['NCCL_PROTO'] = 'Simple'\n", encoding="utf-8")
    before = node.tree()
    with pytest.raises(TuningError, match=r"does not set NCCL_PROTO .*found 'Simple'.*\.pth file"):
        node.tune()
    assert node.tree() == before
    assert node.tune(node.wish(precedence="force")).changed is True


def test_our_own_environment_does_not_mislead(node, monkeypatch):
    monkeypatch.setenv("NCCL_PROTO", "Simple")
    outcome = node.tune()
    assert {v.name: v.state for v in outcome.read_back.variables} == dict.fromkeys(ENV, "effective")


def test_a_mode_that_shuts_others_out_is_kept_and_said(node):
    node.put(HOOK, 0o600)
    outcome = node.tune()
    assert stat.S_IMODE(node.file.stat().st_mode) == 0o600
    (remark,) = outcome.remarks
    assert "mode 0600" in remark


def test_the_link_of_a_distribution_stays(node):
    target = node.root / "etc" / "sitecustomize.py"
    target.parent.mkdir()
    target.write_bytes(HOOK)
    node.file.parent.mkdir(parents=True, exist_ok=True)
    node.file.symlink_to(target)
    outcome = node.tune()
    assert os.readlink(node.file) == str(target)
    assert not target.is_symlink()
    assert outcome.plan.state.target == str(target)
    assert target.read_bytes().startswith(HOOK + managed_block.BEGIN)
    node.tune(node.absent)
    assert os.readlink(node.file) == str(target)
    assert target.read_bytes() == HOOK


def test_what_was_edited_by_hand_between_two_runs_is_kept(node):
    node.tune()
    edited = node.bytes() + b"x = 1\n"
    node.put(edited)
    assert node.tune(node.wish({"NCCL_PROTO": "Simple"})).generation == 3
    kept = node.kept(2)
    assert kept.read_bytes() == edited
    assert node.bytes().endswith(managed_block.END + b"\nx = 1\n")
    assert [entry["outcome"] for entry in node.history()] == ["found", "applied", "found", "applied"]


def test_what_a_killed_run_left_beside_the_file_is_swept(node):
    node.put(HOOK)
    leftover = node.file.with_name("sitecustomize.py.gpu_node.tuning.abc")
    leftover.touch()
    node.tune(check=True)
    assert leftover.exists()
    node.tune()
    assert not leftover.exists()


# --- two runs at once

TUNE = """
import pathlib, runpy, sys
sys.dont_write_bytecode = True
conftest, executable, service_dir, state, scope, body = sys.argv[1:]
runpy.run_path(conftest)
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter, Service
from ansible_collections.gpu_node.tuning.plugins.module_utils.state_directory import StateDirectory
from ansible_collections.gpu_node.tuning.plugins.module_utils.tuning_plan import Wish
from ansible_collections.gpu_node.tuning.plugins.module_utils.tuning_transaction import tune
environment = {"PYTHONPATH": service_dir} if scope == "service" else {}
wish = Wish(bytes.fromhex(body), {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}, scope, service_dir, "respect", "refuse", "known_good", "known_good", [])
print("ready", flush=True)
sys.stdin.readline()
print(tune(wish, Interpreter(executable, Service(environment, None), 60), StateDirectory(state), 120, False).changed)
"""


def test_of_two_runs_at_once_one_changes_and_the_other_finds_it_done(node):
    command = [
        sys.executable,
        "-c",
        TUNE,
        str(CONFTEST),
        node.venv.executable,
        str(node.service_dir),
        node.state.path,
        node.scope,
        node.wish().body.hex(),
    ]
    runs = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for run in runs:
        assert run.stdout.readline() == "ready\n"
    for run in runs:
        run.stdin.write("\n")
        run.stdin.flush()
    answers = [run.communicate(timeout=180) for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], answers
    assert sorted(out.strip() for out, _err in answers) == ["False", "False", "True"]
    assert node.state.current() == 1
    assert len(node.history()) == 2
