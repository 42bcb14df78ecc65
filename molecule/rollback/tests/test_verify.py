"""verify.yml: quiet without drift, exit status 2 and the right words with it, and never a byte written on a node."""

from __future__ import annotations

import pytest
from as_shipped import reset
from conftest import KNOWN_GOOD
from fleet import difference, times

ENTRY = ["drift", "imported", "origins", "path", "sentences", "shadowed", "variables"]
VARIABLE = ["declared", "drift", "file", "interpreter", "library", "name", "origin", "spawn", "state"]
UNIT = """[Service]
User=engine
ExecStart=/usr/bin/python3 -c "import time; time.sleep(3600)"
"""


@pytest.fixture(scope="module", autouse=True)
def _tuned(fleet, nodes):
    for node in nodes:
        reset(node)
    fleet.tune()
    for node in nodes:
        node.sh(f"rm -rf /root/tuned; cp -a /etc/python{node.python} /root/tuned")
    yield
    for node in nodes:
        node.sh("rm -rf /root/tuned")


def _back(node):
    node.sh(
        f"rm -rf /etc/python{node.python}; cp -a /root/tuned /etc/python{node.python}; ln -sfn {node.file} {node.link}; "
        f"rm -rf {node.link.rpartition('/')[0]}/__pycache__/sitecustomize.* /etc/nccl.conf /etc/systemd/system/engine.service*; "
        "systemctl daemon-reload"
    )


def _metrics(folder) -> dict:
    lines = (folder / "gpu_node_tuning.prom").read_text().splitlines()
    assert lines[1] == "# TYPE gpu_node_tuning_drift gauge"
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def _sample(node, variable: str) -> str:
    return f'gpu_node_tuning_drift{{node="{node.suite}",variable="{variable}"}}'


def test_no_drift(fleet, tmp_path):
    before = {node.suite: times(node) for node in fleet.nodes}
    play, report = fleet.verify(textfile_dir=str(tmp_path))
    for node in fleet.nodes:
        assert difference(before[node.suite], times(node)) == []
        assert play.changed(node) == 0
        entry = report["nodes"][node.suite]
        assert sorted(entry) == ENTRY
        assert (entry["drift"], entry["sentences"], entry["shadowed"]) == (False, [], [])
        assert entry["path"] == entry["imported"] == node.link
        assert [sorted(variable) for variable in entry["variables"]] == [VARIABLE] * len(KNOWN_GOOD)
        for layer in ("declared", "file", "interpreter", "spawn"):
            assert {variable["name"]: variable[layer] for variable in entry["variables"]} == KNOWN_GOOD
        for variable in entry["variables"]:
            line = node.read(node.file).decode().splitlines()[int(variable["origin"].rpartition(":")[2]) - 1]
            assert variable["name"] in line
    assert (report["schema"], report["drift"], report["differences"]) == (1, False, {})
    # The sample without a variable is the whole node.
    assert _metrics(tmp_path) == {_sample(node, name): "0" for node in fleet.nodes for name in ["", *KNOWN_GOOD]}


def _edit(old: bytes, new: bytes):
    def damage(node):
        content = node.read(node.file)
        assert content.count(old) == 1
        node.write(node.file, content.replace(old, new))

    return damage


def _append(code: str):
    return lambda node: node.write(node.file, node.read(node.file) + code.encode())


DAMAGES = {
    "another value": (
        _edit(b"'NCCL_PROTO', 'LL'", b"'NCCL_PROTO', 'Simple'"),
        ["NCCL_PROTO: declared 'LL', the interpreter has 'Simple'", "{link}"],
        {"NCCL_PROTO"},
    ),
    "a line is missing": (
        _edit(b"    ('NCCL_PROTO', 'LL'),\n", b""),
        ["NCCL_PROTO: declared 'LL', the interpreter has None: absent"],
        {"NCCL_PROTO"},
    ),
    "broken Python": (
        _edit(b" not in os.environ:", b" not in os.environ"),
        ["{link}, line {broken}: not valid Python"],
        set(),
    ),
    "code of others comes after it": (
        _append("os.environ['NCCL_ALGO'] = 'Tree'\n"),
        ["NCCL_ALGO: declared 'Ring', the interpreter has 'Tree': overridden", "{link}"],
        {"NCCL_ALGO"},
    ),
    "the package's file is back": (
        lambda node: node.write(node.file, node.vendor_bytes()),
        [f"{name}: declared {value!r}, the interpreter has None" for name, value in KNOWN_GOOD.items()],
        set(KNOWN_GOOD),
    ),
    "the target of the link is gone": (
        lambda node: node.sh(f"rm {node.file}"),
        ["{link}: dangling symbolic link to {file}", "--force-confmiss"],
        set(),
    ),
    "the link is gone": (
        lambda node: node.sh(f"rm {node.link}"),
        ["NCCL_PROTO: declared 'LL', the interpreter has None", "no sitecustomize is imported"],
        set(KNOWN_GOOD),
    ),
    "only root can read it": (
        lambda node: node.sh(f"chmod 0600 {node.file}"),
        ["NCCL_PROTO: declared 'LL', the interpreter has None"],
        set(KNOWN_GOOD),
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_drift(fleet, count, tmp_path, name):
    damage, words, drifting = DAMAGES[name]
    user = {"nccl_env_service_user": "engine"} if name == "only root can read it" else {}
    try:
        for node in fleet.nodes:
            damage(node)
        play, report = fleet.verify(rc=2, textfile_dir=str(tmp_path), **user)
        metrics = _metrics(tmp_path)
        assert report["drift"] is True
        for node in fleet.nodes:
            entry = report["nodes"][node.suite]
            assert entry["drift"] is True
            lines = node.read(node.file).splitlines() if node.host.file(node.file).exists else []
            places = {
                "link": node.link,
                "file": node.file,
                "broken": 1 + next((number for number, line in enumerate(lines) if line.endswith(b"os.environ")), 0),
            }
            for word in (template.format(**places) for template in words):
                assert word in "\n".join(entry["sentences"])
                assert word in play.message(node)
                assert word in play.stdout
            for variable in entry["variables"]:
                if name == "code of others comes after it" and variable["drift"]:
                    assert variable["origin"].startswith(f"{node.link}:{len(lines)} ")
            drifts = {variable["name"] for variable in entry["variables"] if variable["drift"]}
            assert drifts == drifting
            ones = {sample for sample, value in metrics.items() if value == "1" and f'"{node.suite}"' in sample}
            assert ones == {_sample(node, variable) for variable in {"", *drifting}}
        play, reported = fleet.verify(report_only=True, **user)
        assert reported == report
    finally:
        for node in fleet.nodes:
            _back(node)
    count("damages found by verify.yml", len(fleet.nodes))


def test_one_node_differs(fleet):
    """The group is compared too: the report names the variable and who has which value."""
    if len(fleet.nodes) < 2:
        pytest.fail("this scenario is about two nodes")
    odd, *others = fleet.nodes
    try:
        _edit(b"'NCCL_PROTO', 'LL'", b"'NCCL_PROTO', 'Simple'")(odd)
        play, report = fleet.verify(rc=2)
        assert report["differences"] == {"NCCL_PROTO": {"Simple": [odd.suite], "LL": [node.suite for node in others]}}
        assert "NCCL_PROTO differs between the nodes" in play.stdout
        assert [report["nodes"][node.suite]["drift"] for node in fleet.nodes] == [True] + [False] * len(others)
    finally:
        _back(odd)


def test_origins_of_a_unit_and_of_nccl_conf(fleet):
    try:
        for node in fleet.nodes:
            node.write("/etc/systemd/system/engine.service", UNIT)
            node.sh("mkdir -p /etc/systemd/system/engine.service.d")
            node.write("/etc/systemd/system/engine.service.d/nccl.conf", "[Service]\nEnvironment=NCCL_PROTO=Simple\n")
            node.write("/etc/nccl.conf", "# of the site\nNCCL_ALGO=Tree\nNCCL_SOCKET_IFNAME=eth0\n")
            node.sh("systemctl daemon-reload")
        play, report = fleet.verify(nccl_env_unit="engine.service", rc=2)
        for node in fleet.nodes:
            said = "NCCL_PROTO: the unit engine.service presets 'Simple' (/etc/systemd/system/engine.service.d/nccl.conf:2)"
            assert said in "\n".join(report["nodes"][node.suite]["sentences"])
            assert said in play.message(node)
            proto = next(v for v in report["nodes"][node.suite]["variables"] if v["name"] == "NCCL_PROTO")
            assert (proto["interpreter"], proto["state"], proto["drift"]) == ("Simple", "overridden", True)
            assert proto["origin"].startswith("/etc/systemd/system/engine.service.d/nccl.conf:2 ")
            found = report["nodes"][node.suite]["origins"]["variables"]
            strongest = found["NCCL_PROTO"][0]
            assert (strongest["where"], strongest["line"], strongest["value"]) == (
                "/etc/systemd/system/engine.service.d/nccl.conf",
                2,
                "Simple",
            )
            places = {
                name: {(place["where"], place["line"], place["value"]) for place in found[name]} for name in found
            }
            assert ("/etc/nccl.conf", 2, "Tree") in places["NCCL_ALGO"]
            assert ("/etc/nccl.conf", 3, "eth0") in places["NCCL_SOCKET_IFNAME"]
        known = {"NCCL_PROTO": "Simple"}
        _play, report = fleet.verify(nccl_env_unit="engine.service", nccl_env_service_environment=known)
        assert report["drift"] is False
    finally:
        for node in fleet.nodes:
            _back(node)


def test_a_unit_that_is_not_there(fleet):
    _play, report = fleet.verify(nccl_env_unit="no-such.service", report_only=True)
    for node in fleet.nodes:
        assert "unit 'no-such.service': systemd has not loaded such a unit" in "\n".join(
            report["nodes"][node.suite]["sentences"]
        )
