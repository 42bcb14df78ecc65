"""The plugin of role custom_allreduce against released SGLang: what it relies on is read in the wheels' source, and nothing of them is run.

    python tests/checks/sglang_contract.py [VERSION ...]

Wheels are fetched without their dependencies and stay in .cache/sglang.
"""

from __future__ import annotations

import ast
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

from common import BIN, CACHE, ROOT, CheckFailed, main, run, say

VERSIONS = (
    "0.5.11",
    "0.5.13",
    "0.5.20",
    "0.5.23",
)  # the first with plugins, a changed call, the last two that were opened
PYTHON = "3.12"  # SGLang has wheels for this one in every version
LARGEST = 100 * 1024 * 1024  # bytes of one wheel
WHEELS = CACHE / "sglang"
PROJECT = ROOT / "roles" / "custom_allreduce" / "files" / "pcie_allreduce"
DISTRIBUTED = "sglang/srt/distributed"
DISPATCH = f"{DISTRIBUTED}/device_communicators/custom_all_reduce.py"


def wheel(version: str) -> Path:
    """The wheel, from the cache or from the package index."""
    found = sorted(WHEELS.glob(f"sglang-{version}-*.whl"))
    if not found:
        WHEELS.mkdir(parents=True, exist_ok=True)
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON, "--dest", WHEELS]
        run([BIN / "python", "-m", "pip", "download", *options, f"sglang=={version}"])
        found = sorted(WHEELS.glob(f"sglang-{version}-*.whl"))
    if not found or found[0].stat().st_size > LARGEST:
        raise CheckFailed(f"sglang {version}: no wheel, or one above {LARGEST} bytes")
    return found[0]


class Source:
    """The Python files of one wheel as syntax trees."""

    def __init__(self, path: Path):
        self._archive = zipfile.ZipFile(path)

    def tree(self, name: str) -> ast.Module:
        try:
            return ast.parse(self._archive.read(name))
        except KeyError as error:
            raise CheckFailed(f"there is no {name}") from error

    def function(self, name: str, function: str) -> ast.FunctionDef:
        for node in ast.walk(self.tree(name)):
            if isinstance(node, ast.FunctionDef) and node.name == function:
                return node
        raise CheckFailed(f"{name} has no function {function}")


def parameters(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in function.args.args + function.args.kwonlyargs]


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Calls of a function or method of that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name in (getattr(node.func, "id", None), getattr(node.func, "attr", None)):
            yield node


def keywords(call: ast.Call) -> list[str]:
    return [keyword.arg or "**" for keyword in call.keywords]


def registers(source: Source) -> str:
    """HookRegistry.register(target, hook, hook_type) and HookType.AROUND, whose hook gets the original and its arguments."""
    registry = "sglang/srt/plugins/hook_registry.py"
    names = parameters(source.function(registry, "register"))
    if names[:4] != ["cls", "target", "hook", "hook_type"]:
        raise CheckFailed(f"HookRegistry.register takes {names}")
    around = {
        target.id
        for node in ast.walk(source.tree(registry))
        if isinstance(node, ast.ClassDef) and node.name == "HookType"
        for line in node.body
        if isinstance(line, ast.Assign)
        for target in line.targets
    }
    if "AROUND" not in around:
        raise CheckFailed(f"HookType has {sorted(around)}")
    forms = {ast.unparse(call) for call in calls(source.function(registry, "_wrap_fn"), "hook")}
    if "hook(original_fn, *args, **kwargs)" not in forms:
        raise CheckFailed(f"hooks are called as {sorted(forms)}")
    return f"register({', '.join(names[1:])}); around: hook(original_fn, *args, **kwargs)"


def loads(source: Source) -> str:
    """The group of entry points, and that each rank loads them."""
    text = ast.unparse(source.tree("sglang/srt/plugins/__init__.py"))
    with open(PROJECT / "pyproject.toml", "rb") as stream:
        (group,) = tomllib.load(stream)["project"]["entry-points"]
    if f"'{group}'" not in text:
        raise CheckFailed(f"SGLang does not load entry points of {group}")
    if not list(calls(source.function("sglang/srt/managers/scheduler.py", "run_scheduler_process"), "load_plugins")):
        raise CheckFailed("run_scheduler_process does not load plugins")
    return f"{group}, in run_scheduler_process"


def dispatches(source: Source) -> str:
    """dispatch_custom_allreduce is where the plugin hooks in; GroupCoordinator calls it, and constructs what it returns."""
    takes = parameters(source.function(DISPATCH, "dispatch_custom_allreduce"))
    coordinator = source.function(f"{DISTRIBUTED}/parallel_state.py", "__init__")
    imported = [
        node.module
        for node in ast.walk(coordinator)
        if isinstance(node, ast.ImportFrom) and "dispatch_custom_allreduce" in [name.name for name in node.names]
    ]
    if f"{imported[0]}.dispatch_custom_allreduce" != target():
        raise CheckFailed(f"GroupCoordinator imports it from {imported}, and the plugin hooks {target()}")
    (dispatch,) = calls(coordinator, "dispatch_custom_allreduce")
    (construct,) = calls(coordinator, "CAClass")
    if dispatch.args or keywords(dispatch) != takes or construct.args or keywords(construct) != ["group", "device"]:
        raise CheckFailed(f"called as {ast.unparse(dispatch)}, {ast.unparse(construct)}")
    return f"dispatch_custom_allreduce({', '.join(takes)}), then {ast.unparse(construct)}"


def target() -> str:
    tree = ast.parse((PROJECT / "pcie_allreduce" / "sglang_plugin.py").read_text(encoding="utf-8"))
    return next(
        node.value.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "TARGET"
    )


def asks(source: Source) -> str:
    """Every attribute that GroupCoordinator uses of ca_comm without asking first whether it is there, is one of the communicator."""
    tree = source.tree(f"{DISTRIBUTED}/parallel_state.py")
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and (getattr(node.value, "id", None) == "ca_comm" or getattr(node.value, "attr", None) == "ca_comm")
    }
    guarded = {
        call.args[1].value
        for name in ("hasattr", "getattr")
        for call in calls(tree, name)
        if ast.unparse(call.args[0]).endswith("ca_comm") and isinstance(call.args[1], ast.Constant)
    }
    wanted = {name for name in used if name not in guarded or name in provided()}
    # all_gather and reduce_scatter of ROCm's classes: their helpers stand behind a question of the same method
    if missing := sorted(wanted - provided() - asked_before(tree, guarded)):
        raise CheckFailed(f"GroupCoordinator uses {missing} of ca_comm, which the communicator does not have")
    return f"{', '.join(sorted(wanted & provided()))}; only where offered: {', '.join(sorted((guarded | used) - provided()))}"


def asked_before(tree: ast.AST, guarded: set[str]) -> set[str]:
    """Attributes that are used in functions which ask for another attribute that the communicator does not have."""
    absent = guarded - provided()
    found: set[str] = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            asked = {node.value for node in ast.walk(function) if isinstance(node, ast.Constant)}
            if asked & absent:
                found |= {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    return found


def provided() -> set[str]:
    """Methods of the communicator, and attributes that it sets of itself."""
    tree = ast.parse((PROJECT / "pcie_allreduce" / "communicator.py").read_text(encoding="utf-8"))
    (made,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Communicator"]
    methods = {node.name for node in made.body if isinstance(node, ast.FunctionDef)}
    attributes = {
        node.attr
        for node in ast.walk(made)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and getattr(node.value, "id", "") == "self"
    }
    return methods | attributes


QUESTIONS = {"registers": registers, "loads": loads, "dispatches": dispatches, "asks": asks}


def check() -> None:
    versions = sys.argv[1:] or VERSIONS
    wrong = []
    for version in versions:
        source = Source(wheel(version))
        for name, question in QUESTIONS.items():
            try:
                say(f"{version} {name}: {question(source)}")
            except CheckFailed as finding:
                wrong.append(f"sglang {version}, {name}: {finding}")
    if wrong:
        raise CheckFailed("\n".join(["", *wrong]))
    say(f"{len(versions)} versions x {len(QUESTIONS)} questions")


if __name__ == "__main__":
    main(check)
