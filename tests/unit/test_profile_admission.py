# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A profile meets a node: each requirement has a node that meets it beside one that does not, and one message says all."""

from __future__ import annotations

import pytest
from ansible.playbook.task import Task
from ansible_collections.gpu_node.tuning.plugins.action import resolve_profile as resolve_profile_action
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_admission import (
    NotForThisNode,
    Policy,
    admit,
    fits,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_requirements import judge, verdict
from ansible_collections.gpu_node.tuning.plugins.module_utils.profiles import resolve

from .test_profiles import FILES, PROFILES, load

NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


def node(count=8, name=NAME, capability="12.0", interconnect="pcie", p2p="OK", free=97000, **software):
    """The part of gpu_facts' answer that the requirements look at."""
    indices = [str(index) for index in range(count)]
    matrix = {one: {other: p2p for other in indices if other != one} for one in indices if p2p}
    paths = {one: dict.fromkeys(set(indices) - {one}, "NV18" if interconnect == "nvlink" else "SYS") for one in indices}
    pairs = [{"gpus": [one, other], "redirect": False} for one in range(count) for other in range(one + 1, count)]
    return {
        "gpus": [
            {"index": index, "name": name, "compute_capability": capability, "memory_mib": {"free": free}}
            for index in range(count)
        ],
        "topology": {"interconnect": interconnect if count > 1 else "none", "matrix": paths},
        "iommu": {"mode": "off"},
        "acs": {"pairs": pairs},
        "p2p": {"read": matrix, "write": matrix, "atomics": {}},
        "software": {"interpreter": "/opt/sglang/bin/python", "nccl": "2.28.9", "sglang": "0.5.22", **software},
    }


def profile(**changes):
    base = {"name": "mine", "status": "known_good", "lesson": "", "requires": {}, "evidence": [], "env": {}}
    return {**base, "sglang": {"env": {}, "args": {}}, "allreduce": "nccl", **changes}


def one_way(facts):
    """The driver gave no answer for writes."""
    return {**facts, "p2p": {**facts["p2p"], "write": {}}}


NOT_CHECKED = {"check": "off", "verdict": "not checked", "requirements": [], "allow_risk": []}


# requirement, node that meets it, node that does not, node that does not say (None where every node says), words of the refusal
REQUIREMENTS = {
    "gpu": ("RTX PRO 6000", node(), node(name="NVIDIA H200"), None, "found 8x NVIDIA H200"),
    "gpu, none there": ("RTX PRO 6000", node(), node(count=0), None, "found no GPU"),
    "gpu_count": (8, node(), node(count=4), None, "requires 8; found 4"),
    "gpu_count, window": (">=2,<=8", node(count=2), node(count=16), None, "requires >=2,<=8; found 16"),
    "interconnect": ("pcie", node(), node(interconnect="nvlink"), node(interconnect=None), "found nvlink"),
    "compute_capability": (
        ["12.0", "12.1"],
        node(capability="12.1"),
        node(capability="9.0"),
        node(capability=None),
        "requires 12.0 or 12.1; found 8x 9.0",
    ),
    "p2p": (True, node(), node(p2p="GNS"), node(p2p=None), "found the driver says GNS"),
    "p2p, one way": (True, node(), node(p2p="GNS"), one_way(node()), "found the driver says GNS"),
    "p2p, one GPU": (True, node(), node(count=1), None, "found 1 GPU"),
    "nccl": (">=2.21", node(), node(nccl="2.20.5"), node(nccl=None), "requires >=2.21; found 2.20.5"),
    "sglang": (">=0.5.22", node(), node(sglang="0.5.21"), node(sglang=None), "found 0.5.21"),
    "flashinfer": (">=0.7", node(flashinfer="0.7.1"), node(flashinfer="0.6.18"), node(), "found 0.6.18"),
    "a version that is none": (">=2.21", node(), node(nccl="2.2"), node(nccl="unreadable"), "found 2.2"),
}


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_requirement(name):
    wanted, good, bad, silent, words = REQUIREMENTS[name]
    key = {"a version that is none": "nccl"}.get(name, name.split(",")[0])
    requires = {key: wanted}
    assert verdict(judge(requires, good)) == "fits"
    (refused,) = judge(requires, bad)
    assert (refused.name, refused.met) == (key, False)
    assert words in str(refused)
    assert str(refused).endswith("NOT MET")
    if silent:
        (unknown,) = judge(requires, silent)
        assert unknown.met is None
        assert verdict([unknown]) == ("unknown" if key in ("nccl", "sglang", "flashinfer") else "refused")


def test_mixed_models_are_counted():
    mixed = node(count=2)
    mixed["gpus"][1]["name"] = "NVIDIA GeForce RTX 5090"
    (entry,) = judge({"gpu": "RTX PRO 6000"}, mixed)
    assert (entry.met, entry.found) == (False, f"1x {NAME}, 1x NVIDIA GeForce RTX 5090")


WAY_ON = (
    "Profiles that fit this node: stock. Choose one with -e profile=NAME, or apply this one all the same with "
    "-e hardware_check=warn; the generation records that."
)


def test_a_refusal_lists_every_requirement_and_the_profiles_that_fit():
    wanted = profile(requires={"gpu": "RTX PRO 6000", "gpu_count": 8, "nccl": ">=2.21", "sglang": ">=0.5"})
    h200 = node(count=2, name="NVIDIA H200", interconnect="nvlink", sglang=None)
    with pytest.raises(NotForThisNode) as caught:
        admit(wanted, h200, Policy(), lambda: ["stock"])
    assert str(caught.value).splitlines() == [
        "profile mine is not for this node (2x NVIDIA H200, nvlink):",
        "- gpu: requires RTX PRO 6000; found 2x NVIDIA H200: NOT MET",
        "- gpu_count: requires 8; found 2: NOT MET",
        "- nccl: requires >=2.21; found 2.28.9: ok",
        "- sglang: requires >=0.5; found none for /opt/sglang/bin/python: not known",
        WAY_ON,
    ]


def test_warn_goes_on_and_off_does_not_look():
    wanted, small = profile(requires={"gpu_count": 8}), node(count=2)
    record, memory, _notes, warnings = admit(wanted, small, Policy("warn"))
    assert memory is None
    assert (record["check"], record["verdict"], record["node"]) == ("warn", "refused", f"2x {NAME}, pcie")
    assert record["requirements"] == [{"name": "gpu_count", "wanted": "8", "found": "2", "met": False}]
    assert "gpu_count: requires 8; found 2: NOT MET" in warnings[0]
    assert admit(wanted, None, Policy("off")) == (NOT_CHECKED, None, [], [])


def test_what_cannot_be_told_is_a_warning():
    record, _memory, _notes, warnings = admit(profile(requires={"sglang": ">=0.5"}), node(sglang=None), Policy())
    assert record["verdict"] == "unknown"
    assert warnings == ["profile mine: sglang: requires >=0.5; found none for /opt/sglang/bin/python: not known"]
    assert admit(profile(requires={"sglang": ">=0.5"}), node(), Policy()).warnings == []


def test_gpus_that_cannot_be_seen_are_not_no_gpus():
    hidden = node(count=0)
    hidden["topology"]["interconnect"] = None
    hidden["missing"] = [{"source": "nvidia-smi -q -x", "reason": "no answer within 15 s; it was stopped"}]
    with pytest.raises(NotForThisNode) as caught:
        admit(profile(requires={"gpu_count": 8, "p2p": True, "nccl": ">=2.21"}), hidden, Policy())
    unseen = "found nothing that says it (nvidia-smi -q -x: no answer within 15 s; it was stopped): not known"
    assert str(caught.value).splitlines()[:4] == [
        "profile mine is not for this node (its GPUs could not be seen):",
        f"- gpu_count: requires 8; {unseen}",
        f"- p2p: requires reads and writes between all pairs; {unseen}",
        "- nccl: requires >=2.21; found 2.28.9: ok",
    ]


def test_an_unreadable_version_of_nccl_stops_nothing():
    limited = profile(env={"NCCL_ALGO": "Ring", "NCCL_MAX_NCHANNELS": "16"}, requires={"nccl": ">=2.21"})
    admitted = admit(limited, node(nccl="weird"), Policy())
    assert admitted.hardware["verdict"] == "unknown"
    assert admitted.memory["mib"] == 16 * 12


def test_without_admission_nothing_is_asked():
    worst = profile(status="dead_end", lesson="x", env={"NCCL_GRAPH_FILE": "/x"}, requires={"gpu_count": 8})
    admitted = admit(worst, None, Policy(admission=False, hardware_check="refuse"))
    assert admitted == (NOT_CHECKED, None, [], [])


def test_the_environment_of_the_service_is_looked_at_too():
    ipc = profile(allreduce="bundled", env={})
    segments = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert admit(ipc, node(), Policy()).warnings == []
    with pytest.raises(NotForThisNode, match="expandable_segments_over_ipc"):
        admit(ipc, node(), Policy(service_environment=segments))


def test_a_dead_end_needs_a_word_and_tells_its_lesson():
    figure = {
        "metric": "time",
        "value": 24.1,
        "baseline": 12.3,
        "unit": "us",
        "workload": "w",
        "versions": "NCCL 2.28.9",
    }
    dead = profile(status="dead_end", lesson="It was slow.", evidence=[figure, {**figure, "baseline": None}])
    for policy in (Policy(), Policy("warn"), Policy("off")):
        with pytest.raises(NotForThisNode) as caught:
            admit(dead, node(), policy)
        assert str(caught.value).splitlines() == [
            "profile mine is a dead end: it was tried and failed. It was slow.",
            "- time: 24.1 against 12.3 us (w; NCCL 2.28.9)",
            "- time: 24.1 us (w; NCCL 2.28.9)",
            "To apply it all the same, write -e allow_dead_end=true.",
        ]
    assert admit(dead, node(), Policy(allow_dead_end=True)).hardware["verdict"] == "fits"


def test_a_dead_end_on_the_wrong_node_says_both():
    dead = profile(status="dead_end", lesson="It was slow.", requires={"gpu_count": 8})
    with pytest.raises(NotForThisNode) as caught:
        admit(dead, node(count=2), Policy())
    assert "is a dead end" in str(caught.value)
    assert "gpu_count: requires 8; found 2: NOT MET" in str(caught.value)
    assert "Profiles that fit this node: none." in str(caught.value)


def test_a_risk_is_refused_until_it_is_named():
    risky = profile(env={"NCCL_PROTO": "LL128"})
    for policy in (Policy(), Policy("warn")):
        with pytest.raises(NotForThisNode, match="Or accept it: add ll128_over_pcie to allow_risk"):
            admit(risky, node(), policy)
    admitted = admit(risky, node(), Policy(allow_risk=("ll128_over_pcie",)))
    assert "Accepted by allow_risk." in admitted.warnings[0]
    assert admitted.hardware["allow_risk"] == ["ll128_over_pcie"]
    assert not fits(risky, node())
    assert fits(risky, node(interconnect="nvlink"))
    with pytest.raises(TuningError, match="'everything' is no risk"):
        admit(risky, node(), Policy(allow_risk=("everything",)))


def test_the_memory_is_estimated_for_the_node_or_for_what_the_profile_requires():
    sixteen = profile(
        env={"NCCL_ALGO": "Ring", "NCCL_MAX_NCHANNELS": "16", "NCCL_BUFFSIZE": "16777216"}, requires={"gpu_count": 8}
    )
    there = admit(sixteen, node(), Policy(communicators=2))
    assert (there.memory["mib"], there.memory["fits"], there.warnings) == (16 * 24 * 2, True, [])
    full = admit(sixteen, node(free=300), Policy())
    assert (full.memory["mib"], full.memory["fits"]) == (16 * 24, False)
    assert "384 MiB is more than the 300 MiB that are free on GPU 0" in full.warnings[0]
    unseen = admit(sixteen, None, Policy("off"))
    assert (unseen.memory["mib"], unseen.memory["fits"], unseen.warnings) == (16 * 24, None, [])
    assert admit(profile(env=sixteen["env"]), None, Policy("off")).memory is None


def test_a_probe_counts_with_any_check_and_one_that_could_not_run_is_said():
    far = profile(env={"NCCL_P2P_LEVEL": "SYS"})
    failed = {"p2p_probe": {"verdict": "failed", "problems": ["GPU 0 -> GPU 1: store: hung."]}}
    for facts, policy in ((failed, Policy("off")), ({**node(), **failed}, Policy())):
        with pytest.raises(NotForThisNode, match=r"GPU 0 -> GPU 1: store: hung.*add p2p_probe_failed to allow_risk"):
            admit(far, facts, policy)
    assert admit(profile(env={"NCCL_P2P_DISABLE": "1"}), {**node(), **failed}, Policy()).warnings == []
    unable = {**node(), "p2p_probe": {"verdict": "not_possible", "problems": ["no driver"]}}
    for policy in (Policy(), Policy("off")):
        (warning,) = admit(far, unable, policy).warnings
        assert "whether data gets from GPU to GPU could not be checked" in warning


def test_what_sglang_sets_is_a_note():
    admitted = admit(profile(), node(), Policy())
    assert admitted.warnings == []
    assert any("NCCL_CUMEM_ENABLE: not set here: SGLang sets it to 0" in note for note in admitted.notes)


# --- the action -------------------------------------------------------------------------------------------------------


class FakeConnection:
    """The action reaches no node, but its base class looks at the shell of a connection."""

    class _shell:
        tmpdir = "-"


def act(facts=None, **options):
    """The result of the action on a node that gives these facts."""
    task = Task()
    task.args = {"shipped": str(PROFILES), **options}
    action = resolve_profile_action.ActionModule(task, FakeConnection(), None, None, None, None)
    asked = []

    def execute(module_name, module_args, task_vars):
        asked.append((module_name, module_args))
        return {"ansible_facts": {"gpu_node": facts}} if facts else {"failed": True, "msg": "gpu_facts: no"}

    action._execute_module = execute
    return {**action.run(), "asked": asked}


def test_the_action_proposes_what_fits():
    said = act(name="known_good", facts=node(count=2, name="NVIDIA H200", capability="9.0"), hardware_check="refuse")
    assert said["failed"] is True
    assert "Profiles that fit this node: custom_allreduce, known_good_no_p2p, pcie_ipc, stock." in said["msg"]
    own = {"mine": {"summary": "s", "status": "experimental", "requires": {"gpu": "H200"}}, "broken": 3}
    facts = node(count=2, name="NVIDIA H200", interconnect="nvlink")
    said = act(name="known_good", facts=facts, hardware_check="refuse", tuning_profiles=own)
    assert "Profiles that fit this node: mine, stock." in said["msg"]


def test_the_action_returns_the_record():
    said = act(name="known_good", facts=node(), hardware_check="refuse")
    assert said["hardware"]["verdict"] == "fits"
    assert said["env"]["NCCL_PROTO"] == "LL"
    assert said["warnings"] == []
    assert act(name="known_good")["hardware"] == NOT_CHECKED


def test_the_action_looks_only_where_it_is_asked_to():
    look = {"interpreter": "/opt/sglang/bin/python"}
    asked = [("gpu_node.tuning.gpu_facts", look)]
    assert act(name="stock", look=look, hardware_check="warn", facts=node())["asked"] == asked
    for options in ({}, {"hardware_check": "warn", "admission": False}, {"allow_probe": True, "admission": False}):
        assert act(name="stock", look=look, facts=node(), **options)["asked"] == []
    assert act(name="stock", allow_probe=True, facts=node())["asked"] == [("gpu_node.tuning.p2p_probe", {})]


def test_a_look_that_fails_is_the_result():
    said = act(name="stock", hardware_check="refuse")
    assert (said["failed"], said["msg"]) == (True, "gpu_facts: no")


# --- the shipped profiles ---------------------------------------------------------------------------------------------


def test_the_shipped_profiles():
    profiles = {path.stem: load(path) for path in FILES}
    assert {name: resolve(name, profiles)["status"] for name in profiles} == {
        "custom_allreduce": "experimental",
        "fewer_channels": "dead_end",
        "flashinfer_fusion": "dead_end",
        "known_good": "known_good",
        "known_good_no_p2p": "known_good",
        "pcie_ipc": "experimental",
        "stock": "known_good",
    }
    assert resolve("known_good_no_p2p", profiles)["env"]["NCCL_P2P_DISABLE"] == "1"
    assert "NCCL_P2P_LEVEL" not in resolve("known_good_no_p2p", profiles)["env"]


def test_the_known_good_set_is_for_the_node_that_it_was_measured_on():
    known_good = resolve("known_good", {path.stem: load(path) for path in FILES})
    assert fits(known_good, node())
    for other in (
        node(count=4),
        node(name="NVIDIA H200", capability="9.0"),
        node(interconnect="nvlink"),
        node(nccl="2.20.1"),
    ):
        assert not fits(known_good, other)
