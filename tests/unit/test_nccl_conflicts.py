# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule has settings that it must catch on a node, next to settings that it must let through."""

from __future__ import annotations

import copy
import pathlib

import pytest
import yaml
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_conflicts import (
    RISKS,
    RULES,
    UnknownRisk,
    blocking,
    check_allow_risk,
    check_on_node,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_rule import SEVERITIES
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_validate import check_env, describe
from ansible_collections.gpu_node.tuning.plugins.module_utils.profiles import resolve
from hypothesis import given
from hypothesis import strategies as st

PROFILES = pathlib.Path(__file__).resolve().parents[2] / "roles" / "profile" / "vars" / "profiles"


def node(interconnect="pcie", path="SYS", gpus=2, nccl="2.28.9", iommu="off", redirect=False, p2p="OK", **software):
    """The facts of a node on which every pair of GPUs is alike."""
    indices = range(gpus)
    every_pair = {str(one): {str(other): path for other in indices if other != one} for one in indices}
    answers = {one: dict.fromkeys(others, p2p) for one, others in every_pair.items()}
    return {
        "schema_version": 1,
        "gpus": [{"index": index, "memory_mib": {"total": 97887, "used": 0, "free": 97887}} for index in indices],
        "topology": {"matrix": every_pair, "interconnect": interconnect},
        "p2p": {"read": answers, "write": answers},
        "iommu": {"mode": iommu},
        "acs": {"pairs": [{"gpus": [a, b], "redirect": redirect} for a in indices for b in indices if a < b]},
        "software": {"torch": "2.11.0", "nccl": nccl, "sglang": None, **software},
        "missing": [],
    }


def profile(allreduce="nccl", env=None, args=None):
    return {"allreduce": allreduce, "sglang": {"env": env or {}, "args": args or {}}}


def probed(verdict, *problems):
    """The same with the result of a probe that moved data."""
    return {**node(), "p2p_probe": {"verdict": verdict, "problems": list(problems)}}


NVLINK = {"interconnect": "nvlink", "path": "NV18"}
SEGMENTS = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:512, expandable_segments:True"}
OFI = {"NCCL_TUNER_PLUGIN": "/opt/amazon/ofi-nccl/lib/libnccl-ofi-tuner.so"}
DECIDED = {"NCCL_CUMEM_ENABLE": 0, "NCCL_NVLS_ENABLE": 0}

# Rule, settings that it catches, words of its message; then the settings of which it says nothing.
# Settings are an environment, the facts, and a profile where the rule looks at one.
EXAMPLES = {
    "ll128_over_pcie": (
        [
            ({"NCCL_PROTO": "LL128"}, node(), None, "no GPUs of this node have NVLink"),
            ({"NCCL_PROTO": "^LL"}, node(), None, "takes LL128 out of its automatic mode"),
            ({"NCCL_PROTO": "^Simple"}, node(), None, "takes LL128 out of its automatic mode"),
            ({"NCCL_PROTO": "LL,LL128,Simple"}, node(), None, "Legal here: LL, Simple, LL,Simple, ^LL128"),
            ({"NCCL_PROTO": "LL;AllReduce:LL128"}, node(), None, "takes LL128 out of its automatic mode"),
            ({"NCCL_PROTO": "LL128"}, node("mixed"), None, "only some of the GPUs of this node have NVLink"),
            ({"NCCL_PROTO": "LL128"}, node(nccl="2.31.2"), None, "nothing is left to run"),
        ],
        [
            ({"NCCL_PROTO": "LL"}, node(), None),
            ({"NCCL_PROTO": "LL,Simple"}, node(), None),
            ({"NCCL_PROTO": "^LL128"}, node(), None),
            ({"NCCL_PROTO": "^LL,LL128"}, node(), None),
            ({"NCCL_PROTO": "LL128"}, node(**NVLINK), None),
            ({"NCCL_PROTO": "LL128"}, node("none", gpus=1), None),
            ({}, node(), None),
        ],
    ),
    "p2p_probe_failed": (
        [
            (
                {"NCCL_P2P_LEVEL": "SYS"},
                probed("failed", "GPU 0 -> GPU 1: store: hung."),
                None,
                "GPU 0 -> GPU 1: store: hung",
            ),
            (
                {"NCCL_PROTO": "LL"},
                probed("failed", "GPU 1 -> GPU 0: wrong."),
                None,
                "data does not get from GPU to GPU",
            ),
        ],
        [
            ({"NCCL_P2P_LEVEL": "SYS"}, probed("ok"), None),
            ({"NCCL_P2P_DISABLE": 1}, probed("failed", "GPU 0 -> GPU 1: store: hung."), None),
            ({"NCCL_P2P_LEVEL": "SYS"}, node(), None),
            ({}, probed("failed", "GPU 0 -> GPU 1: store: hung."), None),
        ],
    ),
    "p2p_across_acs": (
        [
            ({"NCCL_P2P_LEVEL": "SYS"}, node(redirect=True), None, "between GPUs 0 and 1 an ACS redirect"),
            ({"NCCL_P2P_LEVEL": "sys"}, node(redirect=True), None, "NCCL_P2P_LEVEL=SYS: between"),
            ({"NCCL_P2P_LEVEL": 4}, node(redirect=True), None, "Legal here: LOC, NVL, PIX, PXB. Write PXB"),
            ({"NCCL_P2P_LEVEL": "PHB"}, node(path="NODE", redirect=True), None, "pci=disable_acs_redir="),
            ({"NCCL_P2P_LEVEL": "SYS"}, node(gpus=8, redirect=True), None, "0 and 1, 0 and 2, 0 and 3 and 25 more"),
        ],
        [
            ({"NCCL_P2P_LEVEL": "SYS"}, node(), None),
            ({"NCCL_P2P_LEVEL": "PXB"}, node(redirect=True), None),
            ({"NCCL_P2P_LEVEL": "PHB"}, node(path="SYS", redirect=True), None),
            ({"NCCL_P2P_LEVEL": "SYS", "NCCL_P2P_DISABLE": 1}, node(redirect=True), None),
            ({"NCCL_P2P_LEVEL": "SYS"}, node(redirect=True, **NVLINK), None),
            ({"NCCL_P2P_LEVEL": "SYS"}, node(redirect=True, p2p="GNS"), None),
            ({"NCCL_P2P_LEVEL": "SYS"}, node(gpus=1, redirect=True), None),
            ({}, node(redirect=True), None),
        ],
    ),
    "p2p_behind_iommu": (
        [
            (
                {"NCCL_P2P_LEVEL": "SYS"},
                node(iommu="translated"),
                None,
                "the IOMMU translates the peer traffic of GPUs",
            ),
            ({"NCCL_P2P_LEVEL": "PHB"}, node(path="PHB", iommu="translated"), None, "iommu=pt"),
        ],
        [
            ({"NCCL_P2P_LEVEL": "SYS"}, node(iommu="passthrough"), None),
            ({"NCCL_P2P_LEVEL": "SYS"}, node(iommu="off"), None),
            ({"NCCL_P2P_LEVEL": "PXB"}, node(iommu="translated"), None),
            ({"NCCL_P2P_LEVEL": "SYS"}, node(iommu="translated", **NVLINK), None),
        ],
    ),
    "graph_file": (
        [({"NCCL_GRAPH_FILE": "/etc/nccl/graph.xml"}, node(), None, "Remove it")],
        [
            ({"NCCL_GRAPH_DUMP_FILE": "/var/log/graph.xml"}, node(), None),
            ({"NCCL_TOPO_FILE": "/etc/topo.xml"}, node(), None),
        ],
    ),
    "expandable_segments_over_ipc": (
        [
            ({}, node(sglang="0.5.21"), profile("sglang_pcie_ipc", SEGMENTS), "before SGLang 0.5.22 shares memory"),
            ({}, node(sglang="0.5.23"), profile("bundled", SEGMENTS), "the all-reduce bundled shares memory"),
            ({}, node(), profile("bundled", {"PYTORCH_ALLOC_CONF": "expandable_segments:true"}), "PYTORCH_ALLOC_CONF="),
        ],
        [
            ({}, node(sglang="0.5.22"), profile("sglang_pcie_ipc", SEGMENTS)),
            ({}, node(sglang="0.5.21"), profile("sglang_pcie_ipc")),
            ({}, node(sglang="0.5.21"), profile("nccl", SEGMENTS)),
            ({}, node(), profile("bundled", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"})),
            (
                {},
                node(),
                profile("bundled", {"PYTORCH_CUDA_ALLOC_CONF": "", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
            ),
            ({}, node(), None),
        ],
    ),
    "aws_ofi_tuner": (
        [
            ({"NCCL_ALGO": "Ring", **OFI}, node(), None, "NCCL_ALGO=Ring: aws-ofi-nccl is in use"),
            ({"NCCL_PROTO": "LL", "NCCL_NET_PLUGIN": "aws-ofi"}, node(), None, "NCCL_TUNER_PLUGIN=none"),
            ({"NCCL_PROTO": "LL"}, node(aws_ofi_nccl="1.16.0"), None, "NCCL_PROTO=LL: aws-ofi-nccl is in use"),
        ],
        [
            (OFI, node(), None),
            ({"NCCL_PROTO": "LL", "NCCL_TUNER_PLUGIN": "none"}, node(aws_ofi_nccl="1.16.0"), None),
            ({"NCCL_PROTO": "LL", "NCCL_TUNER_PLUGIN": "libprofiler.so"}, node(aws_ofi_nccl=None), None),
            ({"NCCL_PROTO": "LL"}, None, None),
        ],
    ),
    "set_by_sglang": (
        [
            (
                {},
                node(sglang="0.5.23"),
                None,
                "NCCL_CUMEM_ENABLE: not set here: SGLang sets it to 0 when it starts; connections are made at",
            ),
            (
                {},
                node(sglang="0.5.23"),
                None,
                "NCCL_NVLS_ENABLE: not set here: SGLang sets it to 0 when it starts; multicast",
            ),
            (
                {},
                node(sglang="0.5.23"),
                profile(args={"--enable-symm-mem": True}),
                "sets it to 1 when it starts because of",
            ),
            (
                DECIDED,
                node(sglang="0.5.23"),
                profile(args={"enable_nccl_nvls": None, "enable-symm-mem": ""}),
                "Write 1",
            ),
        ],
        [
            (DECIDED, node(sglang="0.5.23"), None),
            (DECIDED, node(sglang="0.5.23"), profile(args={"enable_symm_mem": False})),
            ({**DECIDED, "NCCL_NVLS_ENABLE": 1}, node(sglang="0.5.23"), profile(args={"enable_nccl_nvls": True})),
            ({}, node(), None),
            ({}, None, None),
        ],
    ),
    "not_read_yet": (
        [
            ({"NCCL_CONF_FILE": "/etc/x"}, node(nccl="2.22.3"), None, "NCCL 2.22.3 on this node does not read it yet"),
            ({"NCCL_CHECK_MODE": "DEFAULT"}, node(nccl="2.28.9"), None, "it came with 2.29.7"),
        ],
        [
            ({"NCCL_CONF_FILE": "/etc/x"}, node(nccl="2.23.4"), None),
            ({"NCCL_BUFFSIZE": 4194304, "NCCL_ALGO": "Ring"}, node(nccl=None), None),
        ],
    ),
    "no_longer_read": (
        [
            ({"NCCL_SHM_USE_CUDA_MEMCPY": 1}, node(nccl="2.30.7"), None, "NCCL 2.30.7 on this node reads it no longer"),
            ({"NCCL_TREE_THRESHOLD": 1}, node(), None, "Write NCCL_ALGO instead."),
            ({"NCCL_CHECKS_DISABLE": 1}, node(), None, "reads it no longer"),
        ],
        [({"NCCL_SHM_USE_CUDA_MEMCPY": 1}, node(nccl="2.28.9"), None)],
    ),
    "read_otherwise": (
        [
            ({"NCCL_ALGO": "AllReduce:Ring"}, node(nccl="2.23.4"), None, "knows no function in front of a colon"),
            ({"NCCL_PROTO": "LL;AllReduce:Simple"}, node(nccl="2.21.5"), None, "bring NCCL 2.24 or newer"),
            ({"NCCL_MAX_NCHANNELS": 64}, node(nccl="2.24.3"), None, "has no more than 32 channels"),
            ({"NCCL_MIN_CTAS": 33}, node(nccl="2.24.3"), None, "Write 32 or less"),
            ({"NCCL_DEBUG": "attn"}, node(nccl="2.31.2"), None, "logs nothing"),
            ({"NCCL_CTA_POLICY": "EFFICIENCY"}, node(nccl="2.28.9"), None, "a name is 0 (DEFAULT)"),
            ({"NCCL_CTA_POLICY": 2}, node(nccl="2.27.3"), None, "does not know 2"),
            ({"NCCL_NET_PLUGIN": "a,b"}, node(nccl="2.26.5"), None, "as the name of one plugin"),
            ({"NCCL_IB_HCA": "mlx5_0:1:2"}, node(nccl="2.29.7"), None, "neither rail nor plane"),
            ({"NCCL_IB_FIFO_TC": 0}, node(nccl="2.23.4"), None, "takes 0 as not set"),
        ],
        [
            ({"NCCL_ALGO": "Ring;AllReduce:Tree"}, node(nccl="2.24.3"), None),
            ({"NCCL_ALGO": "Ring"}, node(nccl="2.21.5"), None),
            ({"NCCL_MAX_NCHANNELS": 64}, node(nccl="2.25.1"), None),
            ({"NCCL_MAX_NCHANNELS": 32}, node(nccl="2.24.3"), None),
            ({"NCCL_DEBUG": "WARN"}, node(nccl="2.21.5"), None),
            ({"NCCL_DEBUG": "ATTN"}, node(nccl="2.32.3"), None),
            ({"NCCL_CTA_POLICY": "EFFICIENCY"}, node(nccl="2.29.2"), None),
            ({"NCCL_CTA_POLICY": 2}, node(nccl="2.28.9"), None),
            ({"NCCL_NET_PLUGIN": "a,b"}, node(nccl="2.27.3"), None),
            ({"NCCL_IB_HCA": "mlx5_0:1,mlx5_1:1"}, node(nccl="2.21.5"), None),
            ({"NCCL_IB_FIFO_TC": 0}, node(nccl="2.24.3"), None),
        ],
    ),
    "functions_without_algorithm": (
        [
            (
                {"NCCL_ALGO": "AllReduce:Ring", "NCCL_PROTO": "LL"},
                node(nccl="2.31.2"),
                None,
                "with NCCL_PROTO=LL NCCL 2.31.2 on this node has no algorithm for Broadcast, Reduce, AllGather, ReduceScatter",
            ),
            (
                {"NCCL_ALGO": "AllReduce:Ring", "NCCL_PROTO": "AllReduce:LL;AllGather:LL"},
                node(nccl="2.31.2"),
                None,
                "has no algorithm for AllGather. ",
            ),
            ({"NCCL_ALGO": "AllReduce:Ring"}, node(nccl="2.32.3"), None, "goes on to choose one. From NCCL 2.31 on"),
        ],
        [
            ({"NCCL_ALGO": "Ring;AllReduce:Tree", "NCCL_PROTO": "LL"}, node(nccl="2.31.2"), None),
            ({"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}, node(nccl="2.31.2"), None),
            ({"NCCL_ALGO": "AllReduce:Ring", "NCCL_PROTO": "LL"}, node(nccl="2.30.7"), None),
            ({"NCCL_PROTO": "AllReduce:LL"}, node(nccl="2.31.2"), None),
        ],
    ),
}

BAD = [(rule, *example) for rule, (bad, _good) in EXAMPLES.items() for example in bad]
GOOD = [(rule, *example) for rule, (_bad, good) in EXAMPLES.items() for example in good]


def test_every_rule_has_a_bad_and_a_good_example():
    assert set(EXAMPLES) == {rule.name for rule in RULES}
    assert all(bad and good for bad, good in EXAMPLES.values())
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_every_rule_says_why_from_where_and_the_way_on():
    for rule in RULES:
        assert rule.severity in SEVERITIES
        assert rule.looks_for
        assert rule.variables
        assert rule.source
        for sentence in (rule.why, rule.way_on):
            assert sentence[0].isupper()
            assert sentence.endswith(".")
        if rule.severity in ("refused", "risk"):
            assert "Legal" in rule.way_on


@pytest.mark.parametrize(("rule", "env", "facts", "settings", "text"), BAD)
def test_a_bad_example_is_caught(rule, env, facts, settings, text):
    found = [finding for finding in check_on_node(env, facts, settings) if finding.rule == rule]
    assert any(text in finding.message for finding in found)
    for finding in found:
        value = env.get(finding.variable)
        if value is not None:
            canonical = check_env(env)[0].get(finding.variable, value)
            assert finding.message.startswith(f"{finding.variable}={canonical}: ")
        assert "could not be checked" not in finding.message
        assert finding.message.isprintable()
        assert finding.message.endswith(".")
        assert (
            " Write " in finding.message
            or " Leave " in finding.message
            or " Remove " in finding.message
            or " Set " in finding.message
        )


@pytest.mark.parametrize(("rule", "env", "facts", "settings"), GOOD)
def test_the_good_example_beside_it_passes(rule, env, facts, settings):
    assert [finding for finding in check_on_node(env, facts, settings) if finding.rule == rule] == []


@pytest.mark.parametrize(("rule", "env", "facts", "settings", "text"), BAD)
def test_the_severity_is_that_of_the_rule(rule, env, facts, settings, text):
    severity = next(known.severity for known in RULES if known.name == rule)
    found = [finding for finding in check_on_node(env, facts, settings) if finding.rule == rule]
    if rule == "read_otherwise" and ":" in "".join(str(env.get(name, "")) for name in ("NCCL_ALGO", "NCCL_PROTO")):
        severity = "refused"
    if rule == "functions_without_algorithm" and "NCCL_PROTO" not in env:
        severity = "warning"
    if rule == "set_by_sglang" and "NCCL_CUMEM_ENABLE" in env:
        severity = "warning"
    assert {finding.severity for finding in found} == {severity}
    assert bool(blocking(found)) is (severity in ("refused", "risk"))


@pytest.mark.parametrize(
    ("rule", "env", "facts", "settings", "text"), [example for example in BAD if example[0] in RISKS]
)
def test_a_risk_can_be_accepted_and_stays_visible(rule, env, facts, settings, text):
    refused = [finding for finding in check_on_node(env, facts, settings) if finding.rule == rule]
    assert all(finding.message.endswith(f"Or accept it: add {rule} to allow_risk.") for finding in refused)
    accepted = [finding for finding in check_on_node(env, facts, settings, [rule]) if finding.rule == rule]
    assert [finding.variable for finding in accepted] == [finding.variable for finding in refused]
    assert {finding.severity for finding in accepted} == {"warning"}
    assert all(finding.message.endswith("Accepted by allow_risk.") for finding in accepted)


def test_to_accept_one_risk_accepts_no_other():
    env, facts = {"NCCL_PROTO": "LL128", "NCCL_P2P_LEVEL": "SYS"}, node(redirect=True, iommu="translated")
    found = check_on_node(env, facts, None, ["ll128_over_pcie", "p2p_across_acs"])
    assert [finding.rule for finding in blocking(found)] == ["p2p_behind_iommu"]


def test_the_gravest_come_first_and_make_one_message():
    env = {"NCCL_PROTO": "LL128", "NCCL_ALGO": "AllReduce:Ring", "NCCL_GRAPH_FILE": "/etc/graph.xml"}
    found = check_on_node(env, node(nccl="2.31.2", sglang="0.5.23"))
    assert [finding.severity for finding in found] == ["refused", "risk", "risk", "note", "note"]
    lines = describe(blocking(found), "the settings for this node").splitlines()
    assert lines[0] == "3 faults in the settings for this node (NCCL_ALGO, NCCL_GRAPH_FILE, NCCL_PROTO):"
    assert len(lines) == 4


@pytest.mark.parametrize("allow_risk", [None, [], (), ["graph_file"], {"graph_file", "ll128_over_pcie"}])
def test_risks_that_can_be_allowed(allow_risk):
    assert check_allow_risk(allow_risk) == frozenset(allow_risk or ())


@pytest.mark.parametrize(
    ("allow_risk", "text"),
    [
        (["ll128_over_pci"], "'ll128_over_pci' is no risk, did you mean ll128_over_pcie?"),
        (["read_otherwise"], "'read_otherwise' is no risk"),
        (["functions_without_algorithm"], "is no risk"),
        ([True], "True is no risk"),
        (True, "allow_risk=True: a boolean where a list is needed"),
        ("graph_file", "allow_risk='graph_file': a string where a list is needed"),
        ({"graph_file": True}, "a mapping where a list is needed"),
    ],
)
def test_what_is_no_risk_cannot_be_allowed(allow_risk, text):
    with pytest.raises(UnknownRisk) as caught:
        check_on_node({}, None, None, allow_risk)
    assert text in str(caught.value)
    assert f"Legal: a list of these: {', '.join(RISKS)}." in str(caught.value)


# --- facts that do not answer ---------------------------------------------------------------------------------------


def without(*path):
    facts = copy.deepcopy(node(redirect=True, iommu="translated"))
    *parents, last = path
    inner = facts
    for key in parents:
        inner = inner[key]
    inner[last] = None
    return facts


UNKNOWN = [
    ("ll128_over_pcie", {"NCCL_PROTO": "LL128"}, without("topology"), None, "do not say how the GPUs are connected"),
    ("p2p_across_acs", {"NCCL_P2P_LEVEL": "SYS"}, without("acs"), None, "do not say the ACS settings between the GPUs"),
    ("p2p_across_acs", {"NCCL_P2P_LEVEL": "SYS"}, node(redirect=None), None, "the ACS settings between GPUs 0 and 1"),
    ("p2p_behind_iommu", {"NCCL_P2P_LEVEL": "SYS"}, without("iommu", "mode"), None, "in which mode the IOMMU is"),
    (
        "p2p_across_acs",
        {"NCCL_P2P_LEVEL": "SYS"},
        without("topology", "matrix"),
        None,
        "which path lies between GPUs 0",
    ),
    (
        "p2p_behind_iommu",
        {"NCCL_P2P_LEVEL": "SYS"},
        node(path="FAR", iommu="translated"),
        None,
        "which path lies between",
    ),
    ("p2p_behind_iommu", {"NCCL_P2P_LEVEL": "SYS"}, without("gpus"), None, "do not say which GPUs there are"),
    ("expandable_segments_over_ipc", {}, node(), profile("sglang_pcie_ipc", SEGMENTS), "which SGLang the engine's"),
    ("functions_without_algorithm", {"NCCL_ALGO": "AllReduce:Ring"}, node(nccl=None), None, "which NCCL the engine's"),
    (
        "functions_without_algorithm",
        {"NCCL_ALGO": "AllReduce:Ring"},
        node(nccl="new"),
        None,
        "'new' is no version of NCCL that can be read",
    ),
    (
        "read_otherwise",
        {"NCCL_ALGO": "AllReduce:Ring"},
        node(nccl=None),
        None,
        "which NCCL the engine's interpreter has",
    ),
    ("not_read_yet", {"NCCL_CONF_FILE": "/etc/x"}, node(nccl=None), None, "which NCCL the engine's interpreter has"),
]


@pytest.mark.parametrize(("rule", "env", "facts", "settings", "text"), UNKNOWN)
@pytest.mark.parametrize("lost", [False, True])
def test_a_fact_that_is_not_known_refuses_nothing_and_is_reported(rule, env, facts, settings, text, lost):
    found = [finding for finding in check_on_node(env, None if lost else facts, settings) if finding.rule == rule]
    assert [finding.severity for finding in found] == ["unchecked"]
    assert "could not be checked, because" in found[0].message
    assert ("there are no facts of this node" if lost else text) in found[0].message
    assert found[0].variable


def test_the_reason_of_a_missing_source_is_given():
    facts = without("acs")
    facts["missing"] = [{"source": "ACS of /sys/bus/pci/devices", "reason": "only root can read it"}]
    (found,) = [each for each in check_on_node({"NCCL_P2P_LEVEL": "SYS"}, facts) if each.rule == "p2p_across_acs"]
    assert "(ACS of /sys/bus/pci/devices: only root can read it). P2P across a host bridge" in found.message


def test_one_pair_with_a_redirect_is_enough():
    facts = node(gpus=3)
    facts["acs"]["pairs"] = [{"gpus": [2, 1], "redirect": True}, {"gpus": [0, 1], "redirect": None}]
    (found,) = blocking(check_on_node({"NCCL_P2P_LEVEL": "SYS"}, facts))
    assert "between GPUs 1 and 2 an ACS redirect" in found.message


def test_the_shipped_profiles_on_the_node_they_are_for():
    facts = node(gpus=8, path="NODE", sglang="0.5.23")
    profiles = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in PROFILES.glob("*.yml")}
    for name in sorted(profiles):
        settings = resolve(name, profiles)
        assert blocking(check_on_node(settings["env"], facts, settings)) == []
        assert {finding.rule for finding in check_on_node(settings["env"], facts, settings)} == {"set_by_sglang"}


def test_a_node_without_facts_is_told_of_what_matters_only():
    settings = resolve("known_good", {"known_good": yaml.safe_load((PROFILES / "known_good.yml").read_text())})
    assert {finding.rule for finding in check_on_node(settings["env"])} == {"p2p_across_acs", "p2p_behind_iommu"}


def test_what_the_validator_refuses_is_left_to_it():
    assert (
        check_on_node(
            {"NCCL_MAX_NCHANNELS": "many", "NCCL_IB_FIFO_TC": "0x0", "NCCL_RINGS": 4, 3: 4}, node(nccl="2.21")
        )
        == []
    )


# --- properties -----------------------------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["SYS", "pcie"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["gpus", "index", "redirect", "pairs", "source", "matrix", "0"]), inner, max_size=3
        ),
    ),
    max_leaves=8,
)
FACTS = st.one_of(
    ANYTHING,
    st.fixed_dictionaries({}, optional=dict.fromkeys(node(), ANYTHING)),
    st.builds(
        lambda changes: {**node(redirect=True, iommu="translated"), **changes},
        st.fixed_dictionaries({}, optional=dict.fromkeys(node(), ANYTHING)),
    ),
)
EVERYTHING_RISKY = {
    "NCCL_PROTO": "LL128",
    "NCCL_ALGO": "AllReduce:Ring",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_MAX_NCHANNELS": 64,
    "NCCL_CONF_FILE": "/etc/x",
}


@given(FACTS)
def test_any_facts_give_findings_and_never_an_error(facts):
    found = check_on_node(EVERYTHING_RISKY, facts, profile("sglang_pcie_ipc", SEGMENTS))
    for finding in found:
        assert finding.severity in SEVERITIES
        if "could not be checked" in finding.message:
            assert finding.severity == "unchecked"
