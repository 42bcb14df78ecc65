# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rules ask about a node. A question that its facts do not answer raises NotKnown with the reason."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from ansible_collections.gpu_node.tuning.plugins.module_utils.version_window import InvalidVersion, parse_version
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import show

# The paths of nvidia-smi's matrix over which NCCL uses P2P at each level. NODE is between host bridges of one socket,
# which NCCL counts as PHB.
WITHIN = {
    "PHB": ("PIX", "PXB", "PHB", "NODE"),
    "SYS": ("PIX", "PXB", "PHB", "NODE", "SYS"),
}

NAMES = {"nccl": "NCCL", "sglang": "SGLang"}


class NotKnown(Exception):
    """The facts do not answer; the message completes a sentence that ends in "because"."""


class NodeView:
    """The facts of one node (the dictionary gpu_node, or None), read with suspicion: any part of them may be absent."""

    def __init__(self, facts):
        self._facts = facts if isinstance(facts, Mapping) else None

    def version(self, software):
        """The version of a piece of software, as text that version_window reads."""
        name = NAMES.get(software, software)
        version = self._ask(f"which {name} the engine's interpreter has", (software, "torch"), "software", software)
        try:
            parse_version(version)
        except InvalidVersion:
            raise NotKnown(f"{show(version)} is no version of {name} that can be read") from None
        return version

    def has(self, software):
        """Whether the facts name this software at all; absent is no reason to warn anybody."""
        return bool(self._find("software", software))

    def interconnect(self):
        """nvlink, pcie, mixed, or none (fewer than two GPUs)."""
        return self._ask("how the GPUs are connected", ("topo",), "topology", "interconnect")

    def iommu_mode(self):
        """off, passthrough or translated."""
        return self._ask("in which mode the IOMMU is", ("iommu", "cmdline"), "iommu", "mode")

    def dev_shm_mib(self):
        return self._number_of(self._find("dev_shm_mib"), "how large /dev/shm is", ("shm",))

    def probe_problems(self):
        """What a probe that moved data found wrong; raises NotKnown where none was run, or none could be."""
        found = self._ask("what a probe that moves data finds", (), "p2p_probe")
        if _get(found, "verdict") in ("ok", "failed"):
            return _list(_get(found, "problems"))
        why = " ".join(map(str, _list(_get(found, "problems")))).rstrip(".")
        raise NotKnown(f"the probe answered {_get(found, 'verdict')}" + (f" ({why})" if why else ""))

    def has_probe(self):
        """Whether a probe was asked for at all."""
        return self._find("p2p_probe") is not None

    def fullest_gpu(self):
        """(index, free MiB) of the GPU with the least free memory; one that does not tell makes all unknown."""
        question = "how much memory is free on each GPU"
        free = {index: gpu.get("memory_mib") for index, gpu in self._gpus().items()}
        if not free:
            raise self._not_known(question, ("nvidia-smi",))
        amounts = {
            index: self._number_of(_get(memory, "free"), question, ("nvidia-smi",)) for index, memory in free.items()
        }
        index, least = min(amounts.items(), key=lambda item: item[1])
        return (int(index) if index.isdecimal() else index), least

    def pcie_pairs(self, level):
        """The pairs of GPUs that use P2P over PCIe when NCCL_P2P_LEVEL is PHB or SYS."""
        return [
            pair
            for pair in itertools.combinations(self._gpus(), 2)
            if self._driver_offers_p2p(*pair) and self._path(*pair) in WITHIN[level]
        ]

    def redirected(self, pairs):
        """Those of the pairs whose traffic an ACS redirect sends up to the root complex."""
        redirects = {}
        for entry in _list(self._ask("the ACS settings between the GPUs", ("acs", "pci"), "acs", "pairs")):
            redirects[frozenset(map(str, _list(_get(entry, "gpus"))))] = _get(entry, "redirect")
        answers = [redirects.get(frozenset(map(str, pair))) for pair in pairs]
        found = [pair for pair, redirect in zip(pairs, answers) if redirect]
        unknown = [pair for pair, redirect in zip(pairs, answers) if redirect is None]
        if unknown and not found:
            raise self._not_known(f"the ACS settings between {in_words(unknown)}", ("acs", "pci"))
        return found

    def _gpus(self):
        """The GPUs by their index."""
        gpus = _list(self._ask("which GPUs there are", ("nvidia-smi",), "gpus"))
        return {str(gpu.get("index", place)): gpu for place, gpu in enumerate(gpus) if isinstance(gpu, Mapping)}

    def _path(self, one, other):
        """The word of nvidia-smi's matrix, NV18 and its like included."""
        word = self._find("topology", "matrix", one, other)
        if not isinstance(word, str) or not (word.startswith("NV") or word in WITHIN["SYS"]):
            raise self._not_known(f"which path lies between {in_words([(one, other)])}", ("topo",))
        return word

    def _driver_offers_p2p(self, one, other):
        """NCCL asks the driver as well; where it says no, the level changes nothing."""
        answers = [self._find("p2p", kind, one, other) for kind in ("read", "write")]
        return all(answer in (None, "OK") for answer in answers)

    def _find(self, *path):
        found = self._facts
        for key in path:
            found = _get(found, key)
        return found

    def _ask(self, question, sources, *path):
        found = self._find(*path)
        if found is None:
            raise self._not_known(question, sources)
        return found

    def _number_of(self, found, question, sources):
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise self._not_known(question, sources)
        return found

    def _not_known(self, question, sources):
        if self._facts is None:
            return NotKnown("there are no facts of this node")
        reasons = [
            f"{_get(entry, 'source')}: {_get(entry, 'reason')}"
            for entry in _list(self._find("missing"))
            if any(word in str(_get(entry, "source")).lower() for word in sources)
        ]
        return NotKnown(f"the node's facts do not say {question}" + (f" ({reasons[0]})" if reasons else ""))


def _get(container, key):
    return container.get(key) if isinstance(container, Mapping) else None


def _list(value):
    return value if isinstance(value, (list, tuple)) else []


def in_words(pairs):
    """``GPUs 0 and 1, 0 and 2 and 26 more pairs``."""
    listed = ", ".join(f"{one} and {other}" for one, other in pairs[:3])
    more = len(pairs) - 3
    return f"GPUs {listed}" + (f" and {more} more pair{'s' if more > 1 else ''}" if more > 0 else "")
