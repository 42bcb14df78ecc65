"""Every default of a role is an option of its argument_specs with the same default, and the other way round."""

from __future__ import annotations

from pathlib import Path

import yaml
from common import ROOT, CheckFailed, main, say

NOTHING = object()


class Loader(yaml.SafeLoader):
    """Ansible's own tags, such as !unsafe, carry their plain value here."""


Loader.add_multi_constructor("!", lambda loader, _suffix, node: loader.construct_scalar(node))


def load(path: Path) -> dict:
    return (yaml.load(path.read_text(encoding="utf-8"), Loader) or {}) if path.exists() else {}  # noqa: S506 a SafeLoader


def shown(value: object) -> str:
    return "no default" if value is NOTHING else repr(value)


def differences(role: Path) -> tuple[list[str], int]:
    """What is wrong with one role, and how many variables were compared."""
    defaults = load(role / "defaults" / "main.yml")
    specs = load(role / "meta" / "argument_specs.yml").get("argument_specs", {})
    if "main" not in specs:
        return [f"{role.name}: meta/argument_specs.yml has no entry point main"], 0
    options = specs["main"].get("options", {})
    wrong = [
        line for point, spec in specs.items() if point != "main" for line in strangers(role, point, spec, defaults)
    ]
    for name in sorted(defaults.keys() | options.keys()):
        if name not in options:
            wrong.append(f"{role.name}: {name} is in defaults/main.yml and not in meta/argument_specs.yml")
            continue
        declared = options[name].get("default", NOTHING)
        given = defaults.get(name, NOTHING)
        # Of an option without a default there is nothing to compare: the role asks for it, or works without it.
        if given is NOTHING and declared is NOTHING:
            continue
        if type(given) is not type(declared) or given != declared:
            wrong.append(
                f"{role.name}: {name}: defaults/main.yml has {shown(given)}, argument_specs.yml has {shown(declared)}"
            )
    return wrong, len(defaults.keys() | options.keys())


def strangers(role: Path, point: str, spec: dict, defaults: dict) -> list[str]:
    """What is wrong with another entry point: an option with a default has the role's default; the others have none."""
    options = spec.get("options", {})
    return [
        f"{role.name}: {name}: defaults/main.yml has {shown(defaults.get(name, NOTHING))}, entry point {point} has "
        f"{shown(option.get('default', NOTHING))}"
        for name, option in sorted(options.items())
        if option.get("default", NOTHING) != defaults.get(name, NOTHING)
    ]


def check() -> None:
    roles = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())
    wrong, variables = [], 0
    for role in roles:
        found, count = differences(role)
        wrong += found
        variables += count
    if wrong:
        raise CheckFailed("\n".join(["", *wrong]))
    if not roles:
        raise CheckFailed("there is no role")
    say(f"{len(roles)} roles, {variables} variables")


if __name__ == "__main__":
    main(check)
