"""Asked of one released SGLang: its options, and what its parser makes of configurations. Runs in another interpreter.

    python sglang_parser_program.py < QUESTION > ANSWER       (both JSON)

{"configurations": [{"path": FILE, "words": [...]}, ...]}  ->  {"version": ..., "options": [...], "verdicts": ["" or why not, ...]}

What the parser itself needs is real: SGLang, torch, transformers. Modules that only the engine runs are stand-ins: empty
classes under the right names. A value that one of them gives would be missing; the parser takes none from there.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import io
import json
import sys
import types

STAND_INS = ("torchvision", "triton", "xgrammar", "sentencepiece")


class _Named(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class Nothing(metaclass=_Named):
    """Stands for a class, a function and a decorator of a module that is not here."""

    def __init__(self, *_arguments, **_options):
        pass

    def __call__(self, *arguments, **options):
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) and not options else self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __class_getitem__(cls, _key):
        return cls

    @classmethod
    def __get_pydantic_core_schema__(cls, _source, _handler):
        from pydantic_core import core_schema

        return core_schema.any_schema()


class _StandIn(types.ModuleType):
    __path__: tuple = ()
    __version__ = "0.0.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__.startswith("triton"):
            return _TRITON.get(name) or type(name, (Nothing,), {})
        return type(name, (Nothing,), {})


class _NoDriver:
    @property
    def active(self):
        raise RuntimeError("stand-in: no driver")


def _decorator(function=None, **_options):
    return function if callable(function) else lambda decorated: decorated


def _decorator_of(*_arguments, **_options):
    return lambda decorated: decorated


_TRITON = {
    "jit": _decorator,
    "autotune": _decorator_of,
    "heuristics": _decorator_of,
    "cdiv": lambda a, b: -(-a // b),
    "driver": _NoDriver(),
    "runtime": types.SimpleNamespace(driver=_NoDriver()),
}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, _path=None, _target=None):
        if name.split(".")[0] in STAND_INS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _StandIn(spec.name)

    def exec_module(self, module):
        pass


def prepare():
    sys.meta_path.insert(0, _Finder())
    # One transformers for all versions: a newer one already has the models that an older SGLang registers.
    from transformers.models.auto.configuration_auto import _LazyConfigMapping

    register = _LazyConfigMapping.register
    _LazyConfigMapping.register = lambda self, key, value, exist_ok=False: register(self, key, value, exist_ok=True)


def merger_class():
    try:
        from sglang.srt.utils.server_args_config_parser import ConfigArgumentMerger
    except ImportError:  # up to 0.5.18
        from sglang.srt.server_args_config_parser import ConfigArgumentMerger
    return ConfigArgumentMerger


def parser():
    from sglang.srt.server_args import ServerArgs

    made = argparse.ArgumentParser(prog="sglang")
    ServerArgs.add_cli_args(made)
    return made


def options(made):
    """Every option as plain data; ``file`` are those of its long spellings that SGLang reads in a --config file."""
    merger = merger_class()(made)
    found = []
    for action in made._actions:
        spellings = [word[2:] for word in action.option_strings if word.startswith("--")]
        keys = {word: word.replace("-", "_") for word in spellings}
        is_flag = isinstance(action, argparse._StoreTrueAction)
        found.append(
            {
                "dest": action.dest,
                "spellings": spellings,
                "action": type(action).__name__,
                "type": getattr(action.type, "__name__", ""),
                "nargs": action.nargs,
                "choices": None if action.choices is None else list(action.choices),
                "file": [
                    word
                    for word in spellings
                    if keys[word] not in merger.unsupported_actions
                    and (not is_flag or keys[word] in merger.store_true_actions)
                ],
                "instead": getattr(action, "new_flag", None) or "",
            }
        )
    return found


def verdict(made, configuration):
    """What the parser says to one --config file and the words behind it: nothing, or why it refuses; and what it read."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            words = merger_class()(made).merge_config_with_args(
                ["--config", configuration["path"], *configuration["words"]]
            )
            read = vars(made.parse_args(words))
            # Its own parser guesses at abbreviations; what is written for it must not need that.
            made.allow_abbrev = False
            made.parse_args(words)
    except SystemExit:
        lines = said.getvalue().strip().splitlines()
        return {"refused": lines[-1] if lines else "exit without a word"}
    except Exception as error:  # noqa: BLE001 - whatever the parser raises is its answer
        return {"refused": f"{type(error).__name__}: {error}"}
    finally:
        made.allow_abbrev = True
    return {"refused": "", "read": {name: read[name] for name in sorted(read) if read[name] != made.get_default(name)}}


def main():
    question = json.load(sys.stdin)
    output, sys.stdout = sys.stdout, sys.stderr  # what the imports print is no answer
    prepare()
    import sglang

    made = parser()
    answer = {
        "version": sglang.__version__,
        "options": options(made),
        "verdicts": [verdict(made, configuration) for configuration in question["configurations"]],
    }
    json.dump(answer, output, default=repr)


if __name__ == "__main__":
    main()
