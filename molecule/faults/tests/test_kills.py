"""The module as Ansible sends it, on the real file of the real interpreter, killed at every system call that writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from as_shipped import reset
from fleet import STATE

PROGRAM = (Path(__file__).parent / "kill_everywhere.py").read_text()
MODULES = "/run/ansible"
# Ansible sends modules through a pipe otherwise, and leaves nothing to run again.
LEAVE_THE_MODULE = {"ANSIBLE_KEEP_REMOTE_FILES": "1", "ANSIBLE_PIPELINING": "0"}


def kill_everywhere(fleet, node, playbook: str, module: str, **extra) -> dict:
    """Let the playbook leave its module on the node, put the node back to where it was, and kill the module everywhere."""
    node.sh(
        f"rm -rf {MODULES} /root/kept; mkdir /root/kept; cp -a {node.file} /root/kept/; cp -a {STATE} /root/kept/ || true"
    )
    fleet.play(playbook, rc=0, settings=LEAVE_THE_MODULE, **extra)
    node.sh(
        f"rm -rf {STATE}; cp -a --remove-destination /root/kept/sitecustomize.py {node.file}; cp -a /root/kept/gpu_node_tuning {STATE} || true; "
        f"rm -f {node.link.rpartition('/')[0]}/__pycache__/sitecustomize.*"
    )
    program = node.host.check_output("find %s -name %s", MODULES, f"AnsiballZ_{module}.py")
    specification = {
        "module": program,
        "link": node.link,
        "file": node.file,
        "state": STATE,
        "kept": node.vendor_bytes().decode(),
    }
    node.write("/root/specification.json", json.dumps(specification))
    return json.loads(node.feed(PROGRAM, "python3", "-B", "-", "/root/specification.json"))


@pytest.mark.parametrize(
    ("playbook", "module", "extra", "least"),
    [
        ("tune", "sitecustomize", {}, 60),
        ("rollback", "generation", {"generation": 0}, 12),
    ],
    ids=["first tune", "back to generation 0"],
)
def test_killed_at_every_write(fleet, nodes, count, playbook, module, extra, least):
    (node,) = nodes
    reset(node)
    if playbook == "rollback":
        fleet.tune()
    report = kill_everywhere(fleet, node, playbook, module, **extra)
    count("kill points survived", report["kills"])
    count("lost bytes", report["lost_bytes"])
    assert report["broken"] == []
    assert report["lost_bytes"] == 0
    # Fewer would mean that the trace misses what the module does: bytes, their fsync, renames, records and history.
    assert report["kills"] == report["calls"] >= least, report
