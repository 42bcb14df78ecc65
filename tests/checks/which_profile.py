"""docs/which_profile.md is what every shipped profile says to every recorded node; with --write, make it so."""

from __future__ import annotations

import sys

import yaml
from common import ROOT, CheckFailed, generated_page, main, say, use_this_collection

use_this_collection()
sys.path.insert(0, str(ROOT))

from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_conflicts import blocking, check_on_node  # noqa: E402
from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_admission import (  # noqa: E402
    NotForThisNode,
    Policy,
    admit,
    describe_node,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_requirements import SOFTWARE as SOFTWARE_NAMES  # noqa: E402
from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_requirements import judge  # noqa: E402
from ansible_collections.gpu_node.tuning.plugins.plugin_utils.profile_directory import (  # noqa: E402
    ProfileDirectory,
    resolve_named,
)

from tests.unit.recorded_nodes import HARDWARE, NAMES, facts_of  # noqa: E402

PAGE = ROOT / "docs" / "which_profile.md"
PROFILES = str(ROOT / "roles" / "profile" / "vars" / "profiles")
# The recorded nodes say nothing of the engine's packages; these are what the node would have to have.
SOFTWARE = {"nccl": "2.28.9", "sglang": "0.5.23", "flashinfer": "0.7.2"}

HEAD = f"""\
<!-- Written by `make pages` from the shipped profiles and tests/fixtures/hardware; change it there. -->

# Which profile is for which node?

Each row is a recorded node of `tests/fixtures/hardware`, each column a shipped profile, each cell what `tune.yml` says. The engine's packages are taken to be
NCCL {SOFTWARE["nccl"]}, SGLang {SOFTWARE["sglang"]} and FlashInfer {SOFTWARE["flashinfer"]}. One row is a real machine; the others are written by hand in the
form of its answers (`provenance.yml` beside each says which), so they prove the verdicts and not the hardware.

| word | meaning |
|---|---|
| fits | it is applied |
| not: ... | refused; these requirements are not met; `-e hardware_check=warn` applies it all the same |
| unseen: ... | refused, because the node's GPUs could not be looked at |
| unknown: ... | applied with a warning, because the engine's packages do not say it |
| risk: ... | refused until `-e allow_risk=...` names the rule (docs/nccl_variables.md says what each one is about) |
| dead end | refused until `-e allow_dead_end=true`; the other words say what would come next |
"""


def check() -> None:
    profiles = {name: resolve_named(name, PROFILES)[0] for name in ProfileDirectory(PROFILES)}
    lines = [HEAD, f"| node | {' | '.join(profiles)} |", "|---|" + "---|" * len(profiles)]
    for name in NAMES:
        facts = facts_of(name)
        facts["software"].update(SOFTWARE)
        cells = [verdict(profile, facts) for profile in profiles.values()]
        lines.append(f"| `{name}` ({kind(name)}): {describe_node(facts)} | {' | '.join(cells)} |")
    say("\n".join(lines[1:]))
    generated_page(PAGE, "\n".join(lines) + "\n")
    say(f"{len(profiles)} profiles x {len(NAMES)} nodes")


def verdict(profile: dict, facts: dict) -> str:
    words = in_words(profile, facts)
    refused = any(word in words for word in ("not:", "unseen:", "risk:", "dead end"))
    try:
        admit(profile, facts, Policy())
    except NotForThisNode:
        if refused:
            return words
        raise
    if refused:
        raise CheckFailed(f"{profile['name']} on {describe_node(facts)}: '{words}', and yet it is applied")
    return words


def in_words(profile: dict, facts: dict) -> str:
    requirements = judge(profile["requires"], facts)
    risks = blocking(check_on_node(profile["env"], facts, profile))
    words = [
        "dead end" if profile["status"] == "dead_end" else "",
        listed("not", [entry.name for entry in requirements if entry.met is False]),
        listed(
            "unseen", [entry.name for entry in requirements if entry.met is None and entry.name not in SOFTWARE_NAMES]
        ),
        listed("unknown", [entry.name for entry in requirements if entry.met is None and entry.name in SOFTWARE_NAMES]),
        listed("risk", sorted({finding.rule for finding in risks})),
    ]
    return "; ".join(filter(None, words)) or "fits"


def listed(word: str, names: list[str]) -> str:
    return f"{word}: {', '.join(names)}" if names else ""


def kind(name: str) -> str:
    return yaml.safe_load((HARDWARE / name / "provenance.yml").read_text(encoding="utf-8"))["kind"]


if __name__ == "__main__":
    main(check)
