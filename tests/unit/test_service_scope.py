# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service directory comes first on PYTHONPATH and must not hide the sitecustomize.py that it stands before."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.managed_block import join

from .interpreters import PATIENCE, asked, every_interpreter, make_venv, with_own_file
from .rendering import rendered

SHOW = (
    "import json, os, sys; print(json.dumps([{n: v for n, v in os.environ.items() if n.startswith(('NCCL_', 'HOOK_'))}, "
    "getattr(sys.modules.get('sitecustomize'), '__file__', None)]))"
)
HOOK = "import os\nos.environ['HOOK_RAN'] = __name__ + ' ' + __file__\nos.environ.setdefault('NCCL_PROTO', 'Simple')\nclass Late: pass\n"


def service(directory, env, precedence="respect"):
    directory.mkdir(exist_ok=True)
    (directory / "sitecustomize.py").write_bytes(join(b"", rendered(env, precedence, "service"), b""))
    return directory


def hook(directory, text=HOOK):
    directory.mkdir(exist_ok=True)
    (directory / "sitecustomize.py").write_text(text, encoding="utf-8")
    return directory


def start(executable, *pythonpath, options=(), cwd="/", **environment):
    """(environment, file of sitecustomize, standard error) of a started interpreter."""
    environment = {"PYTHONPATH": os.pathsep.join(map(str, pythonpath)), "LANG": "C.UTF-8", **environment}
    command = [executable, "-B", *options, "-c", SHOW]
    answer = subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment, cwd=cwd, timeout=PATIENCE
    )
    return *json.loads(answer.stdout), answer.stderr


@every_interpreter
def test_the_hidden_file_runs_after_ours(python, tmp_path):
    ours, hidden = service(tmp_path / "a", {"NCCL_PROTO": "LL"}), hook(tmp_path / "b")
    environment, file, errors = start(python.executable, ours, hidden)
    assert environment == {"NCCL_PROTO": "LL", "HOOK_RAN": f"sitecustomize {hidden}/sitecustomize.py"}
    assert (file, errors) == (f"{ours}/sitecustomize.py", "")


@every_interpreter
def test_two_service_directories_in_a_row(python, tmp_path):
    first = service(tmp_path / "a", {"NCCL_PROTO": "LL"})
    second = service(tmp_path / "b", {"NCCL_PROTO": "Simple", "NCCL_ALGO": "Ring"})
    hidden = hook(tmp_path / "c")
    environment, _file, errors = start(python.executable, first, second, hidden)
    assert environment == {
        "NCCL_PROTO": "LL",
        "NCCL_ALGO": "Ring",
        "HOOK_RAN": f"sitecustomize {hidden}/sitecustomize.py",
    }
    assert errors == ""


@with_own_file
def test_the_file_of_the_environment_is_the_hidden_one(python, tmp_path):
    venv = make_venv(python, tmp_path / "venv")
    hook(venv.site_packages)
    ours = service(tmp_path / "a", {"NCCL_PROTO": "LL"})
    hook_ran = f"sitecustomize {venv.file}"
    assert start(venv.executable, ours)[0] == {"NCCL_PROTO": "LL", "HOOK_RAN": hook_ran}
    environment, file, _errors = start(venv.executable, ours, options=["-I"])
    assert (environment, file) == ({"NCCL_PROTO": "Simple", "HOOK_RAN": hook_ran}, str(venv.file))


@every_interpreter
def test_without_a_hidden_file(python, tmp_path):
    ours = service(tmp_path / "a", {"NCCL_PROTO": "LL"})
    environment, file, errors = start(python.executable, ours)
    assert environment == {"NCCL_PROTO": "LL"}
    assert (file, errors) == (f"{ours}/sitecustomize.py", "")


@every_interpreter
@pytest.mark.parametrize("spelling", ["{}/", "{}/.", "a", "./a/../a"])
def test_spellings_of_pythonpath(python, tmp_path, spelling):
    ours, hidden = service(tmp_path / "a", {"NCCL_PROTO": "LL"}), hook(tmp_path / "b")
    environment, _file, errors = start(python.executable, spelling.format(ours), hidden, cwd=tmp_path)
    assert environment["NCCL_PROTO"] == "LL"
    assert environment["HOOK_RAN"].startswith("sitecustomize ")
    assert errors == ""


@every_interpreter
def test_a_linked_service_directory(python, tmp_path):
    service(tmp_path / "a", {"NCCL_PROTO": "LL"})
    (tmp_path / "link").symlink_to("a")
    environment, _file, _errors = start(python.executable, tmp_path / "link", hook(tmp_path / "b"))
    assert set(environment) == {"NCCL_PROTO", "HOOK_RAN"}


@every_interpreter
def test_a_hidden_file_that_fails_is_not_swallowed_and_ours_stands(python, tmp_path):
    ours, hidden = service(tmp_path / "a", {"NCCL_PROTO": "LL"}), hook(tmp_path / "b", "raise RuntimeError('hidden')\n")
    environment, _file, errors = start(python.executable, ours, hidden)
    assert environment == {"NCCL_PROTO": "LL"}
    assert "hidden" in errors


PACKAGE = {
    "__init__.py": (
        "import os\nFLAG = 'set'\nfrom . import before\nfrom .before import FLAG as again\n"
        "os.environ['HOOK_RAN'] = f'{__name__} {__package__} {again} {__file__}'\n"
        "def late():\n    from . import after, before\n    from .after import WORD\n    return WORD, before.FLAG\n"
        "os.late = late\n"
    ),
    "before.py": "from sitecustomize import FLAG\nfrom . import FLAG as same\nassert FLAG == same\n",
    "after.py": "WORD = 'late'\n",
}


@every_interpreter
def test_a_hidden_package_with_parts_of_its_own(python, tmp_path):
    """Its parts find it while it loads, and are found after that; what is imported as sitecustomize stays ours."""
    ours, package = service(tmp_path / "a", {"NCCL_PROTO": "LL"}), tmp_path / "b" / "sitecustomize"
    package.mkdir(parents=True)
    for name, text in PACKAGE.items():
        (package / name).write_text(text, encoding="utf-8")
    alone = start(python.executable, package.parent)[0]
    environment, file, errors = start(python.executable, ours, package.parent)
    assert environment == {"NCCL_PROTO": "LL", **alone}
    assert alone == {"HOOK_RAN": f"sitecustomize sitecustomize set {package}/__init__.py"}
    assert (file, errors) == (f"{ours}/sitecustomize.py", "")
    late = [python.executable, "-B", "-c", "import os; print(os.late())"]
    paths = f"{ours}:{package.parent}"
    answer = subprocess.run(late, check=True, capture_output=True, text=True, env={"PYTHONPATH": paths})
    assert answer.stdout == "('late', 'set')\n"


@every_interpreter
def test_a_hidden_file_finds_itself_under_its_name_while_it_runs(python, tmp_path):
    text = "import os, sys\nos.environ['HOOK_SEES'] = sys.modules['sitecustomize'].__file__ + repr(__package__)\n"
    ours, hidden = service(tmp_path / "a", {"NCCL_PROTO": "LL"}), hook(tmp_path / "b", text)
    environment, file, _errors = start(python.executable, ours, hidden)
    assert environment["HOOK_SEES"] == f"{hidden}/sitecustomize.py''"
    assert file == f"{ours}/sitecustomize.py"


@every_interpreter
def test_a_hidden_package_passes_the_trial(python, tmp_path):
    package = tmp_path / "b" / "sitecustomize"
    package.mkdir(parents=True)
    for name, text in PACKAGE.items():
        (package / name).write_text(text, encoding="utf-8")
    (tmp_path / "a").mkdir()
    block = join(b"", rendered({"NCCL_PROTO": "LL"}, "respect", "service"), b"")
    interpreter = asked(python, {"PYTHONPATH": f"{tmp_path / 'a'}:{package.parent}"})
    answer = interpreter.trial(block, str(tmp_path / "a" / "sitecustomize.py"))
    assert answer == {"env": {"NCCL_PROTO": "LL"}, "error": None}


@every_interpreter
def test_a_preset_value_wins_unless_forced(python, tmp_path):
    ours = service(tmp_path / "a", {"NCCL_PROTO": "LL"})
    assert start(python.executable, ours, NCCL_PROTO="")[0] == {"NCCL_PROTO": ""}
    service(ours, {"NCCL_PROTO": "LL"}, "force")
    assert start(python.executable, ours, NCCL_PROTO="")[0] == {"NCCL_PROTO": "LL"}
