# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real interpreters answer: where they import from, what a candidate does, what is in effect."""

from __future__ import annotations

import os
import pathlib
import pwd
import shutil
import subprocess
import time

import pytest
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.interpreter import Interpreter, Service
from ansible_collections.gpu_node.tuning.plugins.module_utils.module_interface import shadowed_by
from ansible_collections.gpu_node.tuning.plugins.module_utils.sitecustomize_file import drop_bytecode, look

from .interpreters import (
    PATIENCE,
    REQUIRED,
    as_root,
    asked,
    every_interpreter,
    interpreters,
    make_venv,
    open_directory,
    other_user,
    reachable_by_others,
    with_own_file,
    with_system_file,
    without_system_file,
)

BLOCK = "import os\nos.environ.setdefault('NCCL_PROTO', 'LL')\n"
PROTO = ["NCCL_PROTO"]


@pytest.fixture
def venv(python, tmp_path):
    return make_venv(python, tmp_path / "venv")


@pytest.fixture
def service_dir(tmp_path):
    (tmp_path / "service").mkdir()
    return tmp_path / "service"


def test_the_required_interpreters_are_here():
    versions = {python.version[:2] for python in interpreters()}
    assert versions
    assert set(REQUIRED) <= versions


@every_interpreter
def test_our_quick_virtual_environment_is_like_one_of_the_venv_module(python, tmp_path):
    real, quick = tmp_path / "real", make_venv(python, tmp_path / "quick")
    subprocess.run([python.executable, "-I", "-m", "venv", "--without-pip", str(real)], check=True)
    genuine = quick._replace(directory=real)
    assert genuine.site_packages.is_dir()
    for site_packages in (genuine.site_packages, quick.site_packages):
        (site_packages / "sitecustomize.py").write_text(BLOCK, encoding="utf-8")
    seen = []
    for venv in (genuine, quick):
        answer = venv.asked().resolve()
        seen.append(
            {
                key: str(answer[key]).replace(str(venv.directory), "VENV")
                for key in ("version", "prefix", "base_prefix", "path", "purelib", "origin")
            }
        )
    assert seen[0] == seen[1]
    assert seen[0]["prefix"] == "VENV"


@with_system_file
def test_an_interpreter_with_a_file_of_its_own_can_be_made_of_one_of_the_distribution(python, tmp_path):
    """Else the tests of one would be skipped on a machine that has none but the distribution's."""
    made = without_system_file(python, tmp_path / "made")
    assert (made.version, made.has_system_file) == (python.version, False)
    venv = make_venv(made, tmp_path / "venv")
    assert venv.asked().resolve()["origin"] is None
    venv.file.write_text(BLOCK, encoding="utf-8")
    assert venv.asked().resolve()["origin"] == str(venv.file)
    assert venv.asked().read_back(PROTO)["env"] == {"NCCL_PROTO": "LL"}


# --- resolve


@with_own_file
def test_a_virtual_environment_uses_its_own_file(venv):
    answer = venv.asked().resolve()
    assert answer["origin"] is None
    assert answer["purelib"] == str(venv.site_packages)
    assert answer["version"] == ".".join(map(str, venv.python.version))
    venv.file.write_text("", encoding="utf-8")
    answer = venv.asked().resolve()
    assert answer["origin"] == str(venv.file)
    assert answer["cached"].startswith(str(venv.site_packages / "__pycache__" / "sitecustomize."))
    assert shadowed_by(answer["origin"], answer) == []


@with_system_file
def test_a_virtual_environment_of_the_distribution_uses_the_system_file(venv):
    system = os.path.join(venv.python.library, "sitecustomize.py")
    answer = venv.asked().resolve()
    assert answer["origin"] == system
    assert shadowed_by(system, answer) == []
    venv.file.write_text("", encoding="utf-8")
    answer = venv.asked().resolve()
    assert answer["origin"] == system
    assert shadowed_by(system, answer) == [str(venv.file)]


@every_interpreter
def test_pythonpath_comes_first(python, service_dir):
    (service_dir / "sitecustomize.py").write_text("raise SystemExit('resolve must not run it')\n", encoding="utf-8")
    answer = asked(python, {"PYTHONPATH": str(service_dir)}).resolve()
    assert answer["origin"] == str(service_dir / "sitecustomize.py")


@every_interpreter
def test_resolve_names_what_has_the_name_but_does_not_load(python, service_dir):
    (service_dir / "sitecustomize.py").mkdir()
    answer = asked(python, {"PYTHONPATH": str(service_dir)}).resolve()
    assert answer["candidates"][0] == str(service_dir / "sitecustomize.py")
    assert answer["origin"] != str(service_dir / "sitecustomize.py")


@with_own_file
def test_resolve_sees_what_a_pth_file_sets(venv):
    (venv.site_packages / "a.pth").write_text("import os; os.environ['NCCL_PROTO'] = 'Simple'\n", encoding="utf-8")
    assert venv.asked().resolve()["env"] == {"NCCL_PROTO": "Simple"}


# --- trial


@every_interpreter
def test_trial_runs_the_candidate_without_writing_it(python, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    answer = asked(python).trial(BLOCK.encode(), str(tmp_path / "sitecustomize.py"))
    assert answer == {"env": {"NCCL_PROTO": "LL"}, "error": None}
    assert sorted(tmp_path.rglob("*")) == before


@every_interpreter
def test_trial_shows_the_candidate_its_own_name(python):
    source = b"import os, sys\nos.environ['NCCL_X'] = __name__ + __file__ + str(sys.modules[__name__].__file__ == __file__)\n"
    assert asked(python).trial(source, "/x/sitecustomize.py")["env"] == {
        "NCCL_X": "sitecustomize/x/sitecustomize.pyTrue"
    }


FATAL = {
    "SystemExit": (b"import sys\n\nsys.exit(3)\n", ("SystemExit", "3", 3)),
    "KeyboardInterrupt": (b"\nraise KeyboardInterrupt('now')\n", ("KeyboardInterrupt", "now", 2)),
    "error": (b"import os\nos.environ['NCCL_X'] = 1\n", ("TypeError", "str expected, not int", 2)),
    "error in a function": (b"def f():\n    1 / 0\nf()\n", ("ZeroDivisionError", "division by zero", 2)),
    "missing module": (b"import no_such_module\n", ("ModuleNotFoundError", "No module named 'no_such_module'", 1)),
}


@every_interpreter
@pytest.mark.parametrize(("source", "error"), FATAL.values(), ids=FATAL)
def test_trial_reports_what_ends_the_candidate(python, source, error):
    answer = asked(python).trial(source, "/x/sitecustomize.py")
    assert (answer["error"]["type"], answer["error"]["text"], answer["error"]["line"]) == error


@every_interpreter
def test_trial_reports_broken_source(python):
    error = asked(python).trial(b"\nx = = 1\n", "/x/sitecustomize.py")["error"]
    assert (error["type"], error["line"]) == ("SyntaxError", 2)
    error = asked(python).trial(b"x = '\xe9'\n", "/x/sitecustomize.py")["error"]
    assert error["type"] in ("SyntaxError", "UnicodeDecodeError")
    error = asked(python).trial(b"x = 1\0\n", "/x/sitecustomize.py")["error"]
    assert error["type"] in ("SyntaxError", "ValueError")


ENCODINGS = {
    "latin-1 cookie": b"# -*- coding: latin-1 -*-\nimport os\nos.environ['NCCL_X'] = '\xe9'\n",
    "BOM": b"\xef\xbb\xbfimport os\nos.environ['NCCL_X'] = '\xc3\xa9'\n",
    "UTF-8": b"import os\nos.environ['NCCL_X'] = '\xc3\xa9'\n",
    "CRLF": b"import os\r\nos.environ['NCCL_X'] = '\xc3\xa9'\r\n",
    "no final newline": b"import os\nos.environ['NCCL_X'] = '\xc3\xa9'",
}


@every_interpreter
@pytest.mark.parametrize("source", ENCODINGS.values(), ids=ENCODINGS)
def test_trial_reads_every_encoding_that_python_reads(python, source):
    assert asked(python).trial(source, "/x/sitecustomize.py") == {"env": {"NCCL_X": "\xe9"}, "error": None}


@every_interpreter
def test_trial_is_not_misled_by_output(python):
    source = b"import sys\nprint('{}' * 1000)\nsys.stdout.flush()\nprint('bad', file=sys.stderr)\n" + BLOCK.encode()
    assert asked(python).trial(source, "/x/sitecustomize.py")["env"] == {"NCCL_PROTO": "LL"}


@every_interpreter
def test_trial_of_a_candidate_that_ends_the_process(python):
    with pytest.raises(
        TuningError, match=rf"^interpreter {python.executable}: started, but ended \(exit status 3\) without an answer"
    ):
        asked(python).trial(b"import os\nos._exit(3)\n", "/x/sitecustomize.py")


@every_interpreter
def test_a_hang_is_ended_with_every_process_that_it_started(python, tmp_path):
    pids = tmp_path / "pids"
    source = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
with open({str(pids)!r}, "w") as stream:
    stream.write(f"{{os.getpid()}} {{child.pid}}")
time.sleep(600)
"""
    start = time.monotonic()
    with pytest.raises(TuningError, match=r"gave no answer within 2 s, so it was stopped.*nccl_env_probe_timeout"):
        asked(python, timeout=2).trial(source.encode(), "/x/sitecustomize.py")
    assert time.monotonic() - start < 30
    for pid in pids.read_text().split():
        assert ended(int(pid))


def ended(pid, patience=10):
    """True when the process is gone (a zombie that nobody has collected yet counts as gone)."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False


@with_own_file
def test_a_file_that_hangs_at_a_real_start_is_ended(venv):
    venv.file.write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    with pytest.raises(TuningError, match="gave no answer within 1 s"):
        venv.asked(timeout=1).read_back(PROTO)


# --- read_back


@with_own_file
def test_read_back_in_the_interpreter_its_child_and_isolated(venv):
    venv.file.write_text(BLOCK, encoding="utf-8")
    expected = {"file": str(venv.file), "env": {"NCCL_PROTO": "LL"}}
    assert venv.asked().read_back(["NCCL_PROTO", "NCCL_ALGO"]) == {**expected, "spawn": expected}
    assert venv.asked().read_back(PROTO, isolated=True) == expected
    assert not (venv.site_packages / "__pycache__").exists()


@every_interpreter
def test_isolated_does_not_see_a_service_directory(python, service_dir):
    (service_dir / "sitecustomize.py").write_text(BLOCK, encoding="utf-8")
    interpreter = asked(python, {"PYTHONPATH": str(service_dir)})
    answer = interpreter.read_back(PROTO)
    assert answer["env"] == answer["spawn"]["env"] == {"NCCL_PROTO": "LL"}
    assert answer["file"] == answer["spawn"]["file"] == str(service_dir / "sitecustomize.py")
    answer = interpreter.read_back(PROTO, isolated=True)
    assert answer["env"] == {}
    assert answer["file"] != str(service_dir / "sitecustomize.py")


@with_own_file
@pytest.mark.parametrize("preset", ["Simple", "", "LL"])
def test_read_back_has_the_environment_of_the_service(venv, preset):
    venv.file.write_text(BLOCK, encoding="utf-8")
    answer = venv.asked({"NCCL_PROTO": preset}).read_back(PROTO)
    assert answer["env"] == answer["spawn"]["env"] == {"NCCL_PROTO": preset}


@every_interpreter
def test_nothing_of_our_own_environment_leaks(python, service_dir, monkeypatch):
    monkeypatch.setenv("NCCL_PROTO", "Simple")
    monkeypatch.setenv("PYTHONPATH", str(service_dir))
    monkeypatch.setenv("PYTHONSTARTUP", "/no/such/file")
    (service_dir / "sitecustomize.py").write_text("raise SystemExit('leaked')\n", encoding="utf-8")
    interpreter = asked(python)
    assert interpreter.resolve()["env"] == {}
    assert interpreter.trial(BLOCK.encode(), "/x/sitecustomize.py")["env"] == {"NCCL_PROTO": "LL"}
    answer = interpreter.read_back(["NCCL_PROTO", "PYTHONPATH", "PYTHONSTARTUP", "HOME"])
    assert answer["env"] == {"HOME": pwd.getpwuid(os.geteuid()).pw_dir}


@with_own_file
def test_a_pth_file_wins_over_set_if_unset(venv):
    (venv.site_packages / "a.pth").write_text("import os; os.environ['NCCL_PROTO'] = 'Simple'\n", encoding="utf-8")
    venv.file.write_text(BLOCK, encoding="utf-8")
    assert venv.asked().read_back(PROTO)["env"] == {"NCCL_PROTO": "Simple"}


@with_own_file
def test_a_broken_file_is_not_fatal_and_shows_no_value(venv):
    venv.file.write_text(
        "import os\nos.environ['NCCL_PROTO'] = 'LL'\nraise RuntimeError\nos.environ['NCCL_ALGO'] = 'Ring'\n",
        encoding="utf-8",
    )
    assert venv.asked().read_back(["NCCL_PROTO", "NCCL_ALGO"])["env"] == {"NCCL_PROTO": "LL"}


@with_own_file
def test_a_file_that_ends_every_start_is_one_clear_error(venv):
    venv.file.write_text("raise SystemExit(5)\n", encoding="utf-8")
    with pytest.raises(TuningError, match=r"started, but ended .* without an answer"):
        venv.asked().read_back(PROTO)
    assert venv.asked().resolve()["origin"] == str(venv.file)  # that question must still be answered


@with_own_file
def test_bytecode_of_the_same_second_and_size_is_stale_until_it_is_dropped(venv):
    """Shows the trap, then that drop_bytecode gets out of it."""
    moment = int(time.time())
    interpreter = venv.asked()

    def put(value):
        venv.file.write_text(BLOCK.replace("'LL'", repr(value)), encoding="utf-8")
        os.utime(venv.file, (moment, moment))

    put("LL")
    assert interpreter.read_back(PROTO, writes_bytecode=True)["env"] == {"NCCL_PROTO": "LL"}
    assert list((venv.site_packages / "__pycache__").glob("sitecustomize.*.pyc"))
    put("XX")
    assert interpreter.read_back(PROTO, writes_bytecode=True)["env"] == {"NCCL_PROTO": "LL"}
    drop_bytecode(look(str(venv.file)))
    assert interpreter.read_back(PROTO, writes_bytecode=True)["env"] == {"NCCL_PROTO": "XX"}


# --- another user


@as_root
def test_the_service_user_sees_what_it_may_read():
    reachable = reachable_by_others(interpreters())
    if not reachable:
        pytest.skip("no interpreter of this machine can be started by another user")
    for python in reachable:
        with open_directory() as directory:
            path = directory / "sitecustomize.py"
            path.write_text(BLOCK, encoding="utf-8")
            path.chmod(0o644)
            interpreter = asked(python, {"PYTHONPATH": str(directory)}, user=other_user())
            answer = interpreter.read_back([*PROTO, "HOME", "USER"])
            assert answer["env"] == {
                "NCCL_PROTO": "LL",
                "HOME": pwd.getpwnam(other_user()).pw_dir,
                "USER": other_user(),
            }
            assert answer["spawn"]["env"] == answer["env"]
            path.chmod(0o600)
            answer = interpreter.read_back(PROTO)
            assert (answer["env"], answer["spawn"]["env"]) == ({}, {})
            assert asked(python, {"PYTHONPATH": str(directory)}).read_back(PROTO)["env"] == {"NCCL_PROTO": "LL"}


@as_root
def test_the_service_user_runs_the_trial_too(tmp_path):
    reachable = reachable_by_others(interpreters())
    if not reachable:
        pytest.skip("no interpreter of this machine can be started by another user")
    source = b"import os\nos.environ['NCCL_X'] = ' '.join(map(str, (os.getuid(), os.geteuid(), os.getgid(), 0 in os.getgroups())))\n"
    account = pwd.getpwnam(other_user())
    answer = asked(reachable[0], user=other_user()).trial(source, "/x/sitecustomize.py")
    assert answer["env"] == {"NCCL_X": f"{account.pw_uid} {account.pw_uid} {account.pw_gid} False"}


@every_interpreter
def test_a_user_that_does_not_exist_is_refused(python):
    with pytest.raises(TuningError, match=r"^service_user 'no-such-user': no such user.*Legal"):
        asked(python, user="no-such-user").resolve()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may start a process as any user")
def test_only_root_can_start_as_another_user():
    with pytest.raises(TuningError, match="only root can start an interpreter as another user"):
        asked(interpreters()[0], user=other_user()).resolve()


# --- what is no interpreter


def script(path, text):
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def refusal(executable, timeout=20):
    with pytest.raises(TuningError) as caught:
        Interpreter(executable, Service({}, None), timeout).resolve()
    message = str(caught.value)
    assert message.startswith(f"interpreter {executable}: ")
    return message


def test_an_interpreter_that_does_not_exist(tmp_path):
    assert "cannot be started: No such file or directory. Legal:" in refusal(str(tmp_path / "python"))


def test_an_interpreter_that_cannot_be_executed(tmp_path):
    (tmp_path / "python").touch(mode=0o644)
    assert "cannot be started: Permission denied" in refusal(str(tmp_path / "python"))
    assert "cannot be started: Permission denied" in refusal(str(tmp_path))


def test_a_program_that_is_not_python(tmp_path):
    assert "not a Python interpreter (exit status 1, it said: nothing)" in refusal("/bin/false")
    assert "not a Python interpreter" in refusal(shutil.which("cat"))
    assert "cannot be started: Exec format error" in refusal(script(tmp_path / "python", "no program\n"))
    assert "not a Python interpreter (exit status 0, it said: hello)" in refusal(
        script(tmp_path / "hello", "#!/bin/sh\necho hello\n")
    )


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONHOME": "/nowhere"}, {"A": "1", "PYTHONHOME": "/nowhere", "Z": "2"}],
    ids=["alone", "among others"],
)
@every_interpreter
def test_an_environment_that_keeps_the_interpreter_from_starting_is_blamed_itself(python, environment):
    with pytest.raises(TuningError) as caught:
        asked(python, environment).resolve()
    message = str(caught.value)
    assert message.startswith(f"service_environment: PYTHONHOME='/nowhere': {python.executable} starts without it and")
    assert "Take it out of service_environment (role variable nccl_env_service_environment)" in message
    assert "its words: Fatal Python error: " in message
    assert "not a Python interpreter" not in message


def test_variables_that_only_together_keep_it_from_starting_are_all_named(tmp_path):
    executable = script(
        tmp_path / "python", f'#!/bin/sh\n[ "$A$B" = 12 ] && exit 1\nexec {interpreters()[-1].executable} "$@"\n'
    )
    with pytest.raises(TuningError, match=r"^service_environment: A, B: "):
        Interpreter(executable, Service({"A": "1", "B": "2"}, None), PATIENCE).resolve()
    assert Interpreter(executable, Service({"A": "1"}, None), PATIENCE).resolve()["version"]


def test_an_environment_is_not_blamed_for_what_is_no_python():
    with pytest.raises(TuningError, match=r"^interpreter /bin/false: not a Python interpreter"):
        Interpreter("/bin/false", Service({"PYTHONHOME": "/nowhere"}, None), PATIENCE).resolve()


def test_an_interpreter_that_hangs(tmp_path):
    start = time.monotonic()
    assert "gave no answer within 0.5 s" in refusal(script(tmp_path / "python", "#!/bin/sh\nsleep 600\n"), timeout=0.5)
    assert time.monotonic() - start < 30


def test_an_old_python_is_refused(tmp_path):
    """A stand-in that answers as Python 2.7 does; a real one is taken where there is one."""
    fake = script(
        tmp_path / "python",
        '#!/bin/sh\n[ "$1" = -S ] && case "$3" in import*) echo "python 2 7"; exit;; esac\nexit 1\n',
    )
    assert "Python 2.7; legal: Python 3.9 or newer" in refusal(fake)
    real = shutil.which("python2.7")
    if real and subprocess.run([real, "-V"], check=False, capture_output=True).returncode == 0:
        assert "Python 2.7; legal: Python 3.9 or newer" in refusal(real)


def test_the_text_of_a_path_with_a_nul_is_refused():
    assert "cannot be started: embedded null byte" in refusal("/x/\0python")
