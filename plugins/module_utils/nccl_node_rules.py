# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the node's hardware, and about the engine that runs on it."""

from __future__ import annotations

import re

from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_catalogue import VARIABLES
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_func_list import entries
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_rule import NOTE, RISK, WARNING, Hit, Rule
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_view import WITHIN, in_words
from ansible_collections.gpu_node.tuning.plugins.module_utils.version_window import matches

# An all-reduce over CUDA IPC, and the SGLang versions in which it shares memory that it allocates itself: torch's
# expandable segments cannot be exported. Nothing is known to work where the window is empty.
IPC_BESIDE_EXPANDABLE_SEGMENTS = {"bundled": "", "sglang_pcie_ipc": ">=0.5.22"}
ALLOCATOR_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")

# What SGLang writes for NCCL when it starts, by the arguments that turn it to 1.
SET_BY_SGLANG = {
    "NCCL_CUMEM_ENABLE": ("enable_symm_mem",),
    "NCCL_NVLS_ENABLE": ("enable_nccl_nvls", "enable_symm_mem"),
}
WITHOUT = {
    "NCCL_CUMEM_ENABLE": "connections are made at start-up and symmetric memory is off",
    "NCCL_NVLS_ENABLE": "multicast over NVSwitch is off",
}


def _ll128_over_pcie(case):
    if "NCCL_PROTO" not in case.env:
        return
    protocols = entries(case.env["NCCL_PROTO"], VARIABLES["NCCL_PROTO"].choices)
    if not any("LL128" in entry.tokens for entry in protocols):
        return
    interconnect = case.node.interconnect()
    if interconnect in ("pcie", "mixed"):
        between = "no GPUs" if interconnect == "pcie" else "only some of the GPUs"
        yield Hit("NCCL_PROTO", f"it takes LL128 out of its automatic mode, and {between} of this node have NVLink")


def _far_pairs(case):
    """The pairs that the value of NCCL_P2P_LEVEL lets talk over PCIe across a host bridge."""
    level = case.env.get("NCCL_P2P_LEVEL")
    if level not in WITHIN or case.env.get("NCCL_P2P_DISABLE") == "1":
        return []
    return case.node.pcie_pairs(level)


def _p2p_across_acs(case):
    pairs = _far_pairs(case)
    redirected = case.node.redirected(pairs) if pairs else []
    if redirected:
        yield Hit("NCCL_P2P_LEVEL", f"between {in_words(redirected)} an ACS redirect sends peer traffic to the CPU")


def _p2p_probe_failed(case):
    """Only where NCCL would use P2P, and where somebody asked for the probe."""
    if not case.node.has_probe() or case.env.get("NCCL_P2P_DISABLE") == "1" or not case.env:
        return
    problems = case.node.probe_problems()
    if problems:
        variable = "NCCL_P2P_LEVEL" if "NCCL_P2P_LEVEL" in case.env else "NCCL_P2P_DISABLE"
        yield Hit(variable, f"data does not get from GPU to GPU: {' '.join(problems)}".rstrip("."))


def _p2p_behind_iommu(case):
    pairs = _far_pairs(case)
    if pairs and case.node.iommu_mode() == "translated":
        yield Hit("NCCL_P2P_LEVEL", f"the IOMMU translates the peer traffic of {in_words(pairs)}")


def _graph_file(case):
    if "NCCL_GRAPH_FILE" in case.env:
        yield Hit("NCCL_GRAPH_FILE", "it replaces the search for rings and trees by a recorded answer")


def _aws_ofi(case):
    limits = [name for name in ("NCCL_ALGO", "NCCL_PROTO") if name in case.env]
    plugins = [case.env.get(name, "") for name in ("NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN")]
    named = any(re.search(r"(^|[^a-z])(ofi|aws)([^a-z]|$)", plugin.lower()) for plugin in plugins)
    if limits and plugins[1] != "none" and (named or case.node.has("aws_ofi_nccl")):
        for name in limits:
            yield Hit(name, "aws-ofi-nccl is in use, whose tuner does not run beside this variable")


def _expandable_segments(case):
    if case.allreduce not in IPC_BESIDE_EXPANDABLE_SEGMENTS:
        return
    # torch reads the second name only where the first one is not set.
    name = next((name for name in ALLOCATOR_VARIABLES if name in case.sglang_env), None)
    options = str(case.sglang_env.get(name, "")).replace(" ", "").lower().split(",")
    if "expandable_segments:true" not in options:
        return
    window = IPC_BESIDE_EXPANDABLE_SEGMENTS[case.allreduce]
    if window and matches(case.node.version("sglang"), window):
        return
    since = f" before SGLang {window.lstrip('>=')}" if window else ""
    yield Hit(
        name, f"the all-reduce {case.allreduce}{since} shares memory over CUDA IPC, which such segments do not allow"
    )


def _set_by_sglang(case):
    if not case.node.has("sglang"):
        return
    for name, arguments in SET_BY_SGLANG.items():
        forced = [argument for argument in arguments if _is_on(case.sglang_args, argument)]
        value = "1" if forced else "0"
        if name not in case.env:
            effect = f"; {WITHOUT[name]}" if value == "0" else f" because of {forced[0]}"
            yield Hit(name, f"not set here: SGLang sets it to {value} when it starts{effect}")
        elif forced and case.env[name] != value:
            yield Hit(
                name,
                f"SGLang sets it to {value} when it starts, whatever it was, because of {forced[0]}",
                way_on=f"Write {value}, or drop {forced[0]} from the profile's sglang.args.",
                severity=WARNING,
            )


def _is_on(arguments, name):
    """Whether a switch is among the arguments, in the spelling of the command line or of Python."""
    return any(
        str(key).lstrip("-").replace("-", "_") == name and value not in (False, None, "false")
        for key, value in arguments.items()
    )


P2P_WAY_ON = (
    "Legal here: LOC, NVL, PIX, PXB. Write PXB, and such pairs go through host memory; "
    "or {cure}, and prove P2P with a timed transfer that compares the data."
)

RULES = (
    Rule(
        name="ll128_over_pcie",
        severity=RISK,
        looks_for="LL128 is kept away from PCIe",
        why=(
            "LL128 relies on 128 bytes arriving in order, which PCIe does not promise: results can be wrong without any "
            "message. Up to NCCL 2.30 a forced LL128 is not tested against the path; the public source of 2.31 tests it "
            "again, and where only LL128 was named nothing is left to run."
        ),
        source="NCCL's user guide on NCCL_PROTO; NCCL sources of 2.30.7 and 2.31; public issues of NVIDIA/nccl",
        way_on="Legal here: LL, Simple, LL,Simple, ^LL128, also behind a function. Write one of these.",
        variables=("NCCL_PROTO",),
        find=_ll128_over_pcie,
    ),
    Rule(
        name="p2p_across_acs",
        severity=RISK,
        looks_for="an ACS redirect stands in the way of P2P",
        why="P2P across a host bridge with such a redirect is known to hang the first collective.",
        source="reports from hosts with RTX PRO 6000 cards; NCCL's troubleshooting guide on PCI access control",
        way_on=P2P_WAY_ON.format(cure="switch the redirect off (firmware, or the kernel's pci=disable_acs_redir=)"),
        variables=("NCCL_P2P_LEVEL",),
        find=_p2p_across_acs,
    ),
    Rule(
        name="p2p_probe_failed",
        severity=RISK,
        looks_for="data gets from GPU to GPU",
        why="NCCL would use the same path, and hang or give wrong sums.",
        source="the probe itself (docs/p2p_probe.md)",
        way_on="Legal here: NCCL_P2P_DISABLE=1. Write that, for instance with profile known_good_no_p2p.",
        variables=("NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE"),
        find=_p2p_probe_failed,
    ),
    Rule(
        name="p2p_behind_iommu",
        severity=RISK,
        looks_for="the IOMMU translates P2P",
        why="P2P across a host bridge behind a translating IOMMU is known to hang the first collective.",
        source="reports from hosts with RTX PRO 6000 cards and AMD CPUs; NCCL's troubleshooting guide on PCI access control",
        way_on=P2P_WAY_ON.format(cure="start the kernel with iommu=pt or with the IOMMU off"),
        variables=("NCCL_P2P_LEVEL",),
        find=_p2p_behind_iommu,
    ),
    Rule(
        name="graph_file",
        severity=RISK,
        looks_for="a recorded graph is in use",
        why=(
            "Such a file is valid for one set of GPUs only: with another count, or after a change of hardware, "
            "communicators fail or take bad paths. NCCL's maintainers advise against it in production."
        ),
        source="what NCCL's maintainers answer in public issues of NVIDIA/nccl",
        way_on="Legal: to leave it out. Remove it, and say which path NCCL misses with NCCL_TOPO_FILE if need be.",
        variables=("NCCL_GRAPH_FILE",),
        find=_graph_file,
    ),
    Rule(
        name="expandable_segments_over_ipc",
        severity=RISK,
        looks_for="the all-reduce can share memory beside expandable segments",
        why="CUDA IPC exports only what cudaMalloc gave, so the all-reduce fails as soon as it registers memory of torch.",
        source="CUDA's documentation of cudaIpcGetMemHandle; public issues of vLLM; sources of SGLang 0.5.23 and FlashInfer 0.7.2",
        way_on="Legal here: expandable_segments:False, or allreduce: nccl. Write one of these.",
        variables=ALLOCATOR_VARIABLES,
        find=_expandable_segments,
    ),
    Rule(
        name="aws_ofi_tuner",
        severity=WARNING,
        looks_for="the tuner of aws-ofi-nccl is in the way",
        why="That tuner fails to start where the environment has chosen an algorithm or a protocol already.",
        source="public reports",
        way_on="Leave NCCL_ALGO and NCCL_PROTO to the tuner, or write NCCL_TUNER_PLUGIN=none.",
        variables=("NCCL_ALGO", "NCCL_PROTO"),
        find=_aws_ofi,
    ),
    Rule(
        name="set_by_sglang",
        severity=NOTE,
        looks_for="SGLang sets the variable itself",
        why="It writes the variable into its own environment before it starts its workers.",
        source="sglang/srt/entrypoints/engine.py of SGLang 0.5.23",
        way_on="Set it in the profile to decide it yourself.",
        variables=tuple(SET_BY_SGLANG),
        find=_set_by_sglang,
    ),
)
