"""plugins/module_utils/sglang_catalogue.py out of what the parsers of several released SGLang say of their options."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

HEAD = '''\
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of SGLang's server in the released versions below: data only, the rules are in sglang_options.

Written by tests/checks/sglang_parsers.py --write from what the parsers of these versions say of themselves; change it there.
"""

from __future__ import annotations

from typing import NamedTuple


class Form(NamedTuple):
    """An option as it is from one known version to another one, both included."""

    since: str
    until: str
    option: str  # exact long spelling, without the dashes
    kind: str  # text, texts, int, ints, float, floats, size, flag, switch, json, json_mapping, json_list, lora
    choices: str = ""  # with blanks between them
    in_file: bool = True  # whether SGLang reads it in a --config file; otherwise only on the command line


'''

TYPES = {
    "": "text",
    "str": "text",
    "nullable_str": "text",
    "parse_cuda_graph_backend_arg": "text",
    "int": "int",
    "float": "float",
    "human_readable_int": "size",
    "loads": "json",
    "parse_cuda_graph_config_arg": "json_mapping",
    "json_list_type": "json_list",
}
ACTIONS = {
    "_StoreTrueAction": "flag",
    "DeprecatedStoreTrueAction": "flag",
    "BooleanOptionalAction": "switch",
    "LoRAPathAction": "lora",
}
VALUED = ("_StoreAction", "DeprecatedAliasStoreAction")
ALIAS = ("DeprecatedAliasStoreAction", "DeprecatedStoreTrueAction")  # an old spelling of the field of the same name
NO_FIELD = ("_HelpAction", "DeprecatedAction", "DeprecatedStoreConstAction")
NOT_OPTIONS = ("config",)


def kind_of(option: dict) -> str:
    action = option["action"]
    if action in ACTIONS:
        return ACTIONS[action]
    if action not in VALUED:
        raise ValueError(f"action {action} of --{option['spellings'][0]} is not known")
    kind = TYPES[option["type"]]
    return f"{kind}s" if option["nargs"] in ("+", "*") else kind


def fields_of(options: list[dict]) -> dict[str, tuple[dict, list[str]]]:
    """Field -> its option, and all spellings that end in it."""
    found: dict[str, tuple[dict, list[str]]] = {}
    for option in sorted(options, key=lambda each: each["action"] in ALIAS):
        if option["action"] in NO_FIELD or option["dest"] in NOT_OPTIONS:
            continue
        if option["dest"] in found:
            found[option["dest"]][1].extend(option["spellings"])
        else:
            found[option["dest"]] = (option, list(option["spellings"]))
    return found


def form_of(field: str, option: dict) -> tuple:
    """What the catalogue has of one option; its choices are sorted, because some of SGLang's are a set."""
    wanted = field.replace("_", "-")
    spelling = wanted if wanted in option["spellings"] else option["spellings"][0]
    return spelling, kind_of(option), " ".join(map(str, sorted(option["choices"] or ()))), spelling in option["file"]


def text(words: str) -> str:
    """A literal of several short ones, because the formatter does not break a long one."""
    pieces = textwrap.wrap(words, 90, break_long_words=False, break_on_hyphens=False) or [""]
    return " ".join(repr(piece + " ") for piece in pieces[:-1]) + repr(pieces[-1])


class Table:
    """Answers of the program, newest last, put together under the names that the newest one has."""

    def __init__(self, answers: list[dict]):
        self.versions = [answer["version"] for answer in answers]
        self.forms: dict[str, dict[str, tuple]] = {}
        self.renamed: dict[str, str] = {}
        self.instead: dict[str, str] = {}
        for answer in reversed(answers):
            self._add(answer["version"], answer["options"])

    def _add(self, version: str, options: list[dict]) -> None:
        found = fields_of(options)
        for dest, (option, spellings) in found.items():
            names = [dest, *(spelling.replace("-", "_") for spelling in spellings)]
            field = next((self.renamed[name] for name in names if name in self.renamed), dest)
            field = dest if dest in self.forms else field
            forms = self.forms.setdefault(field, {})
            if version in forms:
                raise ValueError(f"SGLang {version}: {field} is two options")
            forms[version] = form_of(field, option)
            if option["action"] != "BooleanOptionalAction":
                for name in names:
                    self.renamed.setdefault(name, field)
        for option in options:
            name = option["spellings"][0].replace("-", "_")
            if option["instead"] and self.renamed.get(name, name) == name:
                self.instead.setdefault(name, option["instead"])

    def renames(self) -> Iterator[tuple[str, str]]:
        for name, field in sorted(self.renamed.items()):
            if name != field and name not in self.forms:
                yield name, field

    def runs(self, field: str) -> Iterator[tuple]:
        """(first version, last version, form), one for each stretch in which nothing changes."""
        forms, start = self.forms[field], None
        for number, version in enumerate(self.versions):
            form = forms.get(version)
            if form is None:
                start = None
                continue
            start = version if start is None else start
            following = self.versions[number + 1] if number + 1 < len(self.versions) else ""
            if forms.get(following) != form:
                yield start, version, form
                start = None

    def source(self) -> str:
        lines = [HEAD, f"KNOWN_VERSIONS = {tuple(self.versions)!r}\n", "OPTIONS = {\n"]
        for field in sorted(self.forms):
            forms = []
            for since, until, (spelling, kind, choices, in_file) in self.runs(field):
                rest = f", {text(choices)}" if choices or not in_file else ""
                rest += "" if in_file else ", False"
                forms.append(f"Form({since!r}, {until!r}, {spelling!r}, {kind!r}{rest})")
            lines.append(f"    {field!r}: ({', '.join(forms)},),\n")
        lines += ["}\n\n", "# Other spellings, and earlier names, of the fields above.\n", "RENAMED = {\n"]
        lines += [f"    {name!r}: {field!r},\n" for name, field in self.renames()]
        lines += [
            "}\n\n",
            "# What SGLang itself names as the successor of an option that it has given up.\n",
            "INSTEAD = {\n",
        ]
        lines += [f"    {name!r}: {text!r},\n" for name, text in sorted(self.instead.items())]
        return "".join([*lines, "}\n"])
