# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare what a profile requires with what a node has. Pure: facts in, one verdict for each requirement out."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.version_window import InvalidVersion, matches

FITS, UNKNOWN, REFUSED = "fits", "unknown", "refused"
SOFTWARE = ("nccl", "sglang", "flashinfer")
NO_GPU = "no GPU"
P2P_WANTED = "reads and writes between all pairs"


class Requirement(NamedTuple):
    """One requirement of a profile. ``met``: None where the node's facts do not say."""

    name: str
    wanted: str
    found: str
    met: Optional[bool]

    def __str__(self):
        verdict = {True: "ok", False: "NOT MET", None: "not known"}[self.met]
        return f"{self.name}: requires {self.wanted}; found {self.found}: {verdict}"


def judge(requires: dict, facts: dict) -> list:
    """A Requirement for each key of ``requires`` (a checked profile's), in its order. ``facts``: the dictionary gpu_node."""
    unseen = why_unseen(facts)
    return [
        Requirement(name, _in_words(name, wanted), unseen, None)
        if unseen and name not in SOFTWARE
        else _JUDGES[name](name, wanted, facts)
        for name, wanted in requires.items()
    ]


def why_unseen(facts: dict) -> str:
    """Why it is not known which GPUs there are; empty where it is known, also that there is none."""
    if facts["gpus"] or facts["topology"]["interconnect"] == "none":
        return ""
    reasons = [
        f"{entry['source']}: {entry['reason']}"
        for entry in facts["missing"]
        if entry["source"].startswith("nvidia-smi")
    ]
    return f"nothing that says it ({reasons[0] if reasons else 'the GPUs could not be looked at'})"


def _in_words(name, wanted):
    return {"p2p": P2P_WANTED}.get(name) or (" or ".join(wanted) if isinstance(wanted, list) else str(wanted))


def verdict(requirements: list) -> str:
    """``refused`` where one is not met or the hardware does not tell, ``unknown`` where software does not tell, else ``fits``.

    Hardware that does not tell is no reason to go on; the engine's packages may be installed later, or elsewhere.
    """
    if any(entry.met is False or (entry.met is None and entry.name not in SOFTWARE) for entry in requirements):
        return REFUSED
    return UNKNOWN if any(entry.met is None for entry in requirements) else FITS


def _gpu(name, wanted, facts):
    names = [gpu["name"] or "a GPU without a name" for gpu in facts["gpus"]]
    met = bool(names) and all(wanted.lower() in found.lower() for found in names)
    return Requirement(name, wanted, _counted(names), met)


def _gpu_count(name, wanted, facts):
    found = str(len(facts["gpus"]))
    window = wanted if isinstance(wanted, str) else f"=={wanted}"
    return Requirement(name, str(wanted), found, matches(found, window))


def _interconnect(name, wanted, facts):
    found = facts["topology"]["interconnect"]
    return Requirement(name, wanted, found or "nothing that says it", None if found is None else found == wanted)


def _compute_capability(name, wanted, facts):
    capabilities = [gpu["compute_capability"] for gpu in facts["gpus"]]
    met = bool(capabilities) and all(capability in wanted for capability in capabilities)
    if not met and None in capabilities and all(capability in (None, *wanted) for capability in capabilities):
        met = None
    found = _counted([capability or "one that the driver does not say" for capability in capabilities])
    return Requirement(name, " or ".join(wanted), found, met)


def _p2p(name, _wanted, facts):
    """Reads and writes between all pairs, as the driver claims; only a probe that moves data proves it."""
    indices = [str(gpu["index"]) for gpu in facts["gpus"]]
    if len(indices) < 2:
        return Requirement(name, P2P_WANTED, f"{len(indices)} GPU", False)
    answers = [
        facts["p2p"][access].get(one, {}).get(other)
        for access in ("read", "write")
        for one in indices
        for other in indices
        if one != other
    ]
    refused = sorted({str(answer) for answer in answers if answer not in ("OK", None)})
    if refused:
        return Requirement(name, P2P_WANTED, f"the driver says {', '.join(refused)}", False)
    if None in answers:
        return Requirement(name, P2P_WANTED, "no answer of the driver for some pairs", None)
    return Requirement(name, P2P_WANTED, "OK", True)


def _software(name, wanted, facts):
    """What is not installed for the interpreter is not known rather than wrong: the engine may come later, or be elsewhere."""
    found = facts["software"].get(name)
    interpreter = facts["software"].get("interpreter") or "the interpreter"
    if found is None:
        return Requirement(name, wanted, f"none for {interpreter}", None)
    try:
        met = matches(found, wanted)
    except InvalidVersion:
        met = None
    return Requirement(name, wanted, found, met)


def _counted(words: list) -> str:
    """``8x RTX``, each different word once."""
    return ", ".join(f"{count}x {word}" for word, count in Counter(words).items()) or NO_GPU


_JUDGES = {
    "gpu": _gpu,
    "gpu_count": _gpu_count,
    "interconnect": _interconnect,
    "compute_capability": _compute_capability,
    "p2p": _p2p,
    **dict.fromkeys(SOFTWARE, _software),
}
