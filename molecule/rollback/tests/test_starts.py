"""Every state that a node can be found in: tune, go back to generation 0, and not one byte, link, mode or owner differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from as_shipped import SERVICE_DIR, reset
from conftest import KNOWN_GOOD, SHOW
from fleet import difference, times, tree

FOREIGN = b"\n# Of the site.\nimport os\n\nos.environ.setdefault('SITE_OF_OTHERS', 'yes')\n"

BY_HAND = b"""# install the apport exception handler if available
try:
    import apport_python_hook
except ImportError:
    pass
else:
    apport_python_hook.install()

# NCCL tuning - PCIe, no NVLink
import os

for _k, _v in [
    ("NCCL_PROTO", "Simple"),
    ("NCCL_ALGO", "Ring"),
    ("NCCL_P2P_LEVEL", "SYS"),
    ("NCCL_MAX_NCHANNELS", "8"),
    ("NCCL_BUFFSIZE", "16777216"),
    ("NCCL_NTHREADS", "512"),
]:
    if _k not in os.environ:
        os.environ[_k] = _v
"""


@dataclass
class Start:
    """``prepare``: make the node so. ``extra``: variables of the tune. ``ask``: the interpreter, its user and its environment."""

    name: str
    prepare: Callable
    extra: dict = field(default_factory=dict)
    python: str = "/usr/bin/python3"
    user: str = "root"
    preset: dict = field(default_factory=dict)


def _absent(node):
    node.sh(f"rm -r {node.link} /etc/python{node.python}")


def _nothing(node):
    pass


def _foreign(ending: bytes):
    return lambda node: node.write(node.file, node.vendor_bytes() + FOREIGN.rstrip(b"\n") + ending)


def _by_hand(node):
    node.write(node.file, BY_HAND)


def _plain_file(node):
    node.sh(f"rm {node.link}; cp {node.file} {node.link}")


def _empty(node):
    node.sh(f": > {node.file}; chmod 0640 {node.file}; chgrp engine {node.file}")


def _venv(node):
    node.sh("python3 -m venv --without-pip /opt/engine")


SERVICE = {"nccl_env_scope": "service", "nccl_env_service_user": "engine"}
STARTS = [
    Start("absent", _absent),
    Start("vendor file", _nothing),
    Start("foreign code", _foreign(b"\n")),
    Start("foreign code without a final newline", _foreign(b"")),
    Start("tuned by hand", _by_hand, {"nccl_env_takeover": "replace"}),
    Start("link replaced by a file", _plain_file),
    Start("empty file of another mode and group", _empty),
    Start("virtual environment", _venv, {"nccl_env_interpreter": "/opt/engine/bin/python"}, "/opt/engine/bin/python"),
    Start("service of a user", _nothing, SERVICE, user="engine", preset={"PYTHONPATH": SERVICE_DIR}),
]


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.name)
def test_there_and_back_again(fleet, count, start):
    def ask(node):
        values = node.ask(start.python, "-c", SHOW, user=start.user, preset=start.preset)
        return {name: value for name, value in values.items() if name.startswith("NCCL_")}

    for node in fleet.nodes:
        reset(node)
        start.prepare(node)
    found = {node.suite: tree(times(node)) for node in fleet.nodes}
    values = {node.suite: ask(node) for node in fleet.nodes}

    tuned = fleet.tune(**start.extra)
    for node in fleet.nodes:
        assert tuned.changed(node) == 1
        assert ask(node) == KNOWN_GOOD

    before = {node.suite: times(node) for node in fleet.nodes}
    for node in fleet.nodes:
        # The comparison that must find nothing later finds the tune now.
        assert tuned[node]["target"][1:] in "".join(difference(found[node.suite], tree(before[node.suite])))
    foretold = fleet.rollback("--check", "--diff", generation=0)
    for node in fleet.nodes:
        assert difference(before[node.suite], times(node)) == [], "the check wrote something"
        assert foretold.changed(node) == 1

    back = fleet.rollback("--diff", generation=0)
    for node in fleet.nodes:
        assert difference(found[node.suite], tree(times(node))) == []
        assert ask(node) == values[node.suite]
        assert back.changed(node) == 1
        shown = [
            {key: play[node][key] for key in ("changed", "diff", "files", "generation")} for play in (foretold, back)
        ]
        assert shown[0] == shown[1], "the check showed something else than what was done"
        assert shown[0]["files"] == [tuned[node]["path"]]

    fleet.tune(**start.extra)
    again = fleet.tune(**start.extra)
    stays = fleet.rollback()
    for node in fleet.nodes:
        assert ask(node) == KNOWN_GOOD
        assert again.changed(node) == stays.changed(node) == 0
        count("starts tried")
