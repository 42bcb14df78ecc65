# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tune.yml with the hardware check on. The nodes give the recorded answers of other machines."""

from __future__ import annotations

import json

import pytest
from fleet import KNOWN_GOOD, PLAYBOOKS
from recorded_nodes import facts_of

CUSTOMER = "rtx-pro-6000-x8-acs-off"
RISKY = "rtx-pro-6000-x8-direct"


def recorded(name: str, **software) -> dict:
    """Variables of a host that is played by a recorded machine."""
    facts = facts_of(name)
    facts["software"].update({"nccl": "2.28.9", "sglang": "0.5.23", "flashinfer": "0.7.2"} | software)
    return {"tuning_hardware_check": "refuse", "tuning_gpu_facts": facts}


def manifest(node, number: int) -> dict:
    return json.loads((node.state / "generations" / f"{number:04d}" / "manifest.json").read_text())


def test_nodes_of_different_kinds_each_get_their_verdict(fleet):
    fits = fleet.node("fits", **recorded(CUSTOMER))
    other = fleet.node("other", **recorded("h200-x2"))
    risky = fleet.node("risky", **recorded(RISKY))
    bare = fleet.node("bare", tuning_hardware_check="refuse")  # this machine itself: it is not eight of these
    old = fleet.node("old", **recorded(CUSTOMER, nccl="2.20.5", sglang="0.5.10"))
    play = fleet.play()
    assert play.rc == 2, str(play)

    assert play.recap(fits)["changed"] == 1
    assert fits.environment_of_a_start() == KNOWN_GOOD
    assert manifest(fits, 1)["hardware"]["verdict"] == "fits"
    assert "fits: GPU memory of NCCL's connections (estimate): at most 384 MiB on each GPU" in play.stdout
    assert "NCCL_CUMEM_ENABLE: not set here: SGLang sets it to 0" in play.stdout

    for node, words in (
        (
            other,
            [
                "(2x NVIDIA H200, nvlink)",
                "gpu_count: requires 8; found 2: NOT MET",
                "Profiles that fit this node: stock.",
            ],
        ),
        (risky, ["an ACS redirect sends peer traffic to the CPU", "add p2p_across_acs to allow_risk"]),
        (bare, ["gpu: requires RTX PRO 6000; found", "NOT MET"]),
        (old, ["nccl: requires >=2.21; found 2.20.5: NOT MET", "sglang: requires >=0.5.11; found 0.5.10: NOT MET"]),
    ):
        said = play.message(node)
        assert [word for word in words if word not in said] == []
        assert play.touched(node) == {}, node.name


def test_what_is_applied_all_the_same_goes_on_record(fleet):
    other, risky = fleet.node("other", **recorded("h200-x2")), fleet.node("risky", **recorded(RISKY))
    play = fleet.play("-e", "hardware_check=warn", "-e", "allow_risk=p2p_across_acs,p2p_behind_iommu")
    assert play.rc == 0, str(play)
    assert (manifest(other, 1)["hardware"]["check"], manifest(other, 1)["hardware"]["verdict"]) == ("warn", "refused")
    assert manifest(risky, 1)["hardware"]["allow_risk"] == ["p2p_across_acs", "p2p_behind_iommu"]
    assert "Accepted by allow_risk." in play.stdout + play.stderr
    again = fleet.play("-e", "hardware_check=off")
    assert [again.recap(node)["changed"] for node in (other, risky)] == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["profile=fewer_channels"], ["is a dead end", "24.9 against 12.6 us", "write -e allow_dead_end=true"]),
        (["profile=flashinfer_fusion", "hardware_check=off"], ["is a dead end", "FlashInfer 0.6.17 added SM 12.x"]),
        (["hardware_check=maybe"], ["hardware_check", "maybe", "refuse, warn, off"]),
        (["hardware_check=off", "allow_risk=all"], ["allow_risk: 'all' is no risk", "ll128_over_pcie"]),
    ],
    ids=["dead end", "dead end, unseen node", "no such check", "no such risk"],
)
def test_refused_with_the_way_on(fleet, arguments, words):
    node = fleet.node("a", **recorded(CUSTOMER))
    play = fleet.play(*(part for argument in arguments for part in ("-e", argument)))
    assert play.rc == 2, str(play)
    assert [word for word in words if word not in str(play)] == []
    assert play.touched(node) == {}


def test_a_dead_end_that_is_allowed(fleet):
    node = fleet.node("a", **recorded(CUSTOMER))
    play = fleet.play("-e", "profile=fewer_channels", "-e", "allow_dead_end=true")
    assert play.rc == 0, str(play)
    assert manifest(node, 1)["profile_status"] == "dead_end"
    assert node.environment_of_a_start()["NCCL_MAX_NCHANNELS"] == "2"


def test_verify_asks_for_what_is_declared_whatever_the_hardware(fleet):
    node = fleet.node("a", **recorded(CUSTOMER))
    assert fleet.play("-e", "profile=fewer_channels", "-e", "allow_dead_end=true").rc == 0
    report = node.scratch / "verify.json"
    verified = fleet.play(
        "-e", "profile=fewer_channels", "-e", f"verify_file={report}", playbook=PLAYBOOKS / "verify.yml"
    )
    assert verified.rc == 0, str(verified)


def test_verify_asks_the_same_of_a_risk_that_was_accepted(fleet):
    node = fleet.node("a")
    graph = {"summary": "s", "status": "experimental", "env": {"NCCL_GRAPH_FILE": "/etc/graph.xml"}}
    node.vars["tuning_profiles"] = {"graph": graph}
    assert fleet.play("-e", "profile=graph").rc == 2
    assert fleet.play("-e", "profile=graph", "-e", "allow_risk=graph_file").rc == 0
    report = node.scratch / "verify.json"
    words = ("-e", "profile=graph", "-e", f"verify_file={report}")
    verified = fleet.play(*words, playbook=PLAYBOOKS / "verify.yml")
    assert verified.rc == 0, str(verified)
    assert json.loads(report.read_text())["drift"] is False


def test_yaml_reads_off_as_false(fleet):
    node = fleet.node("a")
    node.yaml = "tuning_hardware_check: off"
    del node.vars["nccl_env_scope"]
    node.yaml += "\nnccl_env_scope: service"
    play = fleet.play()
    assert play.rc == 0, str(play)
    assert manifest(node, 1)["hardware"] == {
        "check": "off",
        "verdict": "not checked",
        "requirements": [],
        "allow_risk": [],
    }
