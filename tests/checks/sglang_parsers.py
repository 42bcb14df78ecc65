"""The real parsers of released SGLang: they know the options of the catalogue, and read what the role writes for an instance.

    python tests/checks/sglang_parsers.py [VERSION ... | all | --write]

Wheels without their dependencies, and one environment with what the parsers import, stay in .cache/sglang-parsers. Five
releases are asked unless others are named; --write asks all, and makes the catalogue say what they say. A version that
cannot be asked is a failure; none is left out in silence.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from common import BIN, CACHE, ROOT, CheckFailed, generated_page, main, run, say, scratch, use_this_collection
from sglang_table import Table, fields_of
from sglang_table import form_of as form_of_option

use_this_collection()

from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_catalogue import (  # noqa: E402
    KNOWN_VERSIONS,
    OPTIONS,
    RENAMED,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_instance import planned, yaml_text  # noqa: E402
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_options import (  # noqa: E402
    RESERVED,
    complaints,
    config,
    form_of,
    words,
)

RELEASES = tuple(f"0.5.{number}" for number in range(11, 24))  # the catalogue's
VERSIONS = (
    "0.5.11",
    "0.5.13",
    "0.5.18",
    "0.5.20",
    "0.5.23",
)  # the oldest, the newest, and what was renamed between them
PYTHON = "python3.11"
FOLDER = CACHE / "sglang-parsers"
PACKAGES = ROOT / "requirements" / "sglang_parsers.txt"
PROGRAM = ROOT / "tests" / "checks" / "sglang_parser_program.py"
CATALOGUE = ROOT / "plugins" / "module_utils" / "sglang_catalogue.py"
AT_ONCE = 2
SECONDS = 180  # of one version's program; it takes 10

# The first customer's instance: 8 GPUs, a draft, and the parsers of its model.
KIMI = {
    "name": "kimi",
    "model": "/models/Kimi-K2.5",
    "draft_model": "/models/Kimi-K2.5-eagle3",
    "host": "0.0.0.0",  # noqa: S104 - written into a file, bound by nobody
    "args": {
        "tp_size": 8,
        "trust_remote_code": True,
        "mem_fraction_static": 0.78,
        "tool_call_parser": "kimi_k2",
        "reasoning_parser": "kimi_k2",
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
        "enable_metrics": True,
    },
}
INSTANCES = {
    "kimi": KIMI,
    "plain": {"name": "plain", "model": "org/model"},
    "graphs": {
        "name": "graphs",
        "model": "/models/a",
        "args": {"cuda_graph_max_bs_decode": 16, "cuda_graph_bs_decode": [1, 2, 4, 8, 16]},
    },
    "no-graphs": {
        "name": "no-graphs",
        "model": "/models/a",
        "args": {"disable_cuda_graph": True, "lora_strict_loading": False, "context_length": "32k", "page_size": 1},
    },
    "path": {
        "name": "path",
        "model": "/models/100% of it, $HOME \\ \"quoted\" 'twice' #1: \u00e9\U0001f600",
        "port": 30001,
    },
    "not-true": {"name": "not-true", "model": "null", "args": {"served_model_name": "yes", "tokenizer_path": "1e3"}},
}
# What the parser must have read, by the name of its field.
READ = {
    "kimi": {
        "tp_size": 8,
        "mem_fraction_static": 0.78,
        "speculative_algorithm": "EAGLE3",
        "speculative_num_draft_tokens": 4,
        "speculative_draft_model_path": KIMI["draft_model"],
        "trust_remote_code": True,
        "enable_metrics": True,
    },
    "graphs": {"cuda_graph_max_bs_decode": 16, "cuda_graph_bs_decode": [1, 2, 4, 8, 16]},
    "no-graphs": {"context_length": 32000, "page_size": 1, "disable_cuda_graph": True},
    "path": {"model_path": INSTANCES["path"]["model"], "port": 30001},
    "not-true": {"model_path": "null", "served_model_name": "yes", "tokenizer_path": "1e3"},
}
FUSION = {"name": "flashinfer_fusion", "sglang": {"args": {"flashinfer_allreduce_fusion_backend": "auto"}, "env": {}}}
# Refused by the role, and by every parser when it is written nevertheless.
WRONG = {
    "a word for a number": {"mem_fraction_static": "lots"},
    "a number in words": {"tp_size": "eight"},
    "no such choice": {"attention_backend": "flashinfr"},
    "no such option": {"mem_fraction_sttic": 0.8},
}
# What people have in a file written by hand, and the last of VERSIONS that reads it.
BY_HAND = {"cuda-graph-max-bs": (16, "0.5.18")}
SAMPLES = {
    "text": "x",
    "texts": ["a", "b"],
    "int": 3,
    "ints": [1, 2],
    "float": 0.5,
    "floats": [0.5, 1.5],
    "size": "32k",
    "flag": True,
    "switch": False,
    "json": {"a": 1},
    "json_mapping": {},
    "json_list": [{"a": 1}],
    "lora": ["a=/b", {"lora_name": "c", "lora_path": "/d"}],
}


def pip(python: Path) -> list[object]:
    options = ["--quiet", "--no-deps", "--no-compile", "--only-binary=:all:", "--disable-pip-version-check"]
    return [python, "-m", "pip", "install", *options]


def environment() -> Path:
    """The Python that has what the parsers import."""
    wanted = hashlib.sha256(PACKAGES.read_bytes()).hexdigest()
    stamp, python = FOLDER / "stamp", FOLDER / "venv" / "bin" / "python"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    found = shutil.which(PYTHON)
    if not found:
        raise CheckFailed(f"no version could be asked: {PYTHON} is missing")
    shutil.rmtree(FOLDER, ignore_errors=True)
    run([found, "-m", "venv", FOLDER / "venv"])
    run([*pip(python), "--requirement", PACKAGES])
    stamp.write_text(wanted, encoding="utf-8")
    return python


def installed(version: str, python: Path) -> Path:
    """A folder with nothing but this SGLang."""
    folder = FOLDER / version
    if not folder.exists():
        new = FOLDER / f"{version}.new"
        shutil.rmtree(new, ignore_errors=True)
        run([*pip(python), "--target", new, f"sglang=={version}"])
        new.rename(folder)
    return folder


def ask(version: str, python: Path, question: dict) -> dict:
    env = {name: os.environ[name] for name in ("HOME", "PATH", "TMPDIR", "LANG", "LC_ALL") if name in os.environ}
    try:
        done = subprocess.run(
            [python, "-W", "ignore", PROGRAM],
            env=env | {"PYTHONPATH": str(installed(version, python)), "CUDA_VISIBLE_DEVICES": ""},
            input=json.dumps(question),
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise CheckFailed(f"SGLang {version} could not be asked: no answer in {SECONDS} s") from error
    if done.returncode:
        raise CheckFailed(f"SGLang {version} could not be asked:\n{done.stderr[-3000:]}")
    answer = json.loads(done.stdout)
    if answer["version"] != version:
        raise CheckFailed(f"SGLang {version} could not be asked: {answer['version']} answered")
    return answer


class Case:
    """One configuration, and what the parser must make of it."""

    def __init__(self, name: str, text: str, more: list[str], refused: bool = False, read: dict | None = None):
        self.name, self.text, self.words, self.refused, self.read = name, text, more, refused, read or {}

    def fault(self, verdict: dict) -> str:
        if self.refused:
            return "" if verdict["refused"] else "was read without a complaint"
        if verdict["refused"]:
            return f"was refused: {verdict['refused']}"
        found = {RENAMED.get(name, name): value for name, value in verdict["read"].items()}
        wrong = [
            f"{name} {found.get(name)!r}, not {value!r}"
            for name, value in self.read.items()
            if found.get(name) != value
        ]
        return f"was read as {', '.join(wrong)}" if wrong else ""


def cases(version: str) -> Iterator[Case]:
    for name, instance in INSTANCES.items():
        for profile in ({}, FUSION):
            plan = planned(instance, profile, version, {"interpreter": "/opt/sglang/bin/python"})
            read = READ.get(name, {})
            yield Case(f"{name} {profile.get('name', '')}".strip(), plan["config_text"], plan["command"][5:], read=read)
    for name, args in WRONG.items():
        if not complaints(args, version, "args"):
            raise CheckFailed(f"{name}, {args}: the role has no complaint for SGLang {version}")
        text = yaml_text({"model-path": "m", **{key.replace("_", "-"): value for key, value in args.items()}})
        yield Case(name, text, [], refused=True)
    for key, (value, last) in BY_HAND.items():
        if version in VERSIONS:
            text = yaml_text({"model-path": "m", key: value})
            yield Case(f"{key} by hand", text, [], refused=VERSIONS.index(version) > VERSIONS.index(last))


def every_option(version: str) -> Iterator[Case]:
    """Each option by itself: whatever the catalogue has, the role can write so that the parser reads it."""
    for field in OPTIONS:
        form = form_of(field, version)
        if form is not None:
            choice = form.choices.split()[:1]
            value = SAMPLES[form.kind]
            if choice:
                value = int(choice[0]) if form.kind == "int" else choice * 2 if form.kind == "texts" else choice[0]
            args = {"model_path": "m", field: value}
            if field not in RESERVED and (faults := complaints({field: value}, version, "args")):
                raise CheckFailed(f"SGLang {version}: the role refuses what the catalogue has: {faults[0]}")
            yield Case(f"{field}: {value!r}", yaml_text(config(args, version)), words(args, version))


def asked(version: str, python: Path, folder: Path, known: bool) -> tuple[dict, list[str], int]:
    """(answer, findings, configurations) of one version."""
    put = [*cases(version), *every_option(version)] if known else []
    question = []
    for number, case in enumerate(put):
        path = folder / f"{version}-{number}.yaml"
        path.write_text(case.text, encoding="ascii")
        question.append({"path": str(path), "words": case.words})
    answer = ask(version, python, {"configurations": question})
    faults = [(case.name, case.fault(verdict)) for case, verdict in zip(put, answer["verdicts"], strict=True)]
    return answer, [f"SGLang {version}: {name} {fault}" for name, fault in faults if fault], len(put)


def differences(version: str, options: list[dict]) -> Iterator[str]:
    """Where the catalogue says something else of this version than its parser does."""
    there = {spelling: option for option, _all in fields_of(options).values() for spelling in option["spellings"]}
    known = {field: form for field in OPTIONS if (form := form_of(field, version))}
    for field, form in known.items():
        option = there.get(form.option)
        said = option and form_of_option(field, option)
        if said != (form.option, form.kind, form.choices, form.in_file):
            yield f"SGLang {version}, {field}: the catalogue has {tuple(form)}, the parser {said}"
    if len(known) != len(fields_of(options)):
        spelled = {spelling for form in known.values() for spelling in there.get(form.option, {}).get("spellings", [])}
        yield f"SGLang {version}: the catalogue lacks {', '.join(sorted(there.keys() - spelled))}"


def catalogue(answers: list[dict]) -> str:
    """The source of the table, as the formatter leaves it."""
    command = [BIN / "ruff", "format", "--quiet", "--stdin-filename", CATALOGUE, "-"]
    return subprocess.run(command, input=Table(answers).source(), capture_output=True, text=True, check=True).stdout


def check() -> None:
    write, named = sys.argv[1:] == ["--write"], sys.argv[1:]
    versions = RELEASES if write or named == ["all"] else named or VERSIONS
    python = environment()
    findings, answers, number, there = [], [], 0, []
    for version in versions:
        try:
            installed(version, python)
            there.append(version)
        except CheckFailed as finding:
            findings.append(f"SGLang {version} could not be asked: {finding}")
    with scratch("sglang-parsers") as folder, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        futures = [
            pool.submit(asked, version, python, folder, version in KNOWN_VERSIONS and not write) for version in there
        ]
        for version, future in zip(there, futures, strict=True):
            try:
                answer, wrong, count = future.result()
            except CheckFailed as finding:
                findings.append(str(finding))
                continue
            if version in KNOWN_VERSIONS and not write:
                wrong += differences(version, answer["options"])
            say(f"{version}: {len(answer['options'])} options, {count} configurations, {len(wrong)} findings")
            findings += wrong
            number += count
            answers.append(answer)
        if findings:
            raise CheckFailed("\n".join(["", *findings[:60]]))
    if versions == RELEASES:
        generated_page(CATALOGUE, catalogue(answers), "make sglang-options")
    say(f"{len(versions)} versions, {number} configurations")


if __name__ == "__main__":
    main(check)
