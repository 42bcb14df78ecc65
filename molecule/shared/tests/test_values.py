"""The interpreter's own answer: what a fresh /usr/bin/python3 has in its environment."""

from __future__ import annotations

import pytest
from conftest import KNOWN_GOOD, SHOW, SHOW_SPAWNED

PYTHON = "/usr/bin/python3"


def test_the_node_has_the_python_that_it_is_here_for(node):
    version = node.host.check_output("%s -c %s", PYTHON, "import sys; print('%d.%d' % sys.version_info[:2])")
    assert version == node.python


@pytest.mark.parametrize("user", ["root", "engine"])
@pytest.mark.parametrize("flags", [[], ["-I"]], ids=["plain", "isolated"])
@pytest.mark.parametrize("program", [SHOW, SHOW_SPAWNED], ids=["interpreter", "spawned child"])
def test_known_good_is_in_effect(node, user, flags, program):
    assert node.ask(PYTHON, *flags, "-c", program, user=user) == KNOWN_GOOD


@pytest.mark.parametrize("program", [SHOW, SHOW_SPAWNED], ids=["interpreter", "spawned child"])
def test_nothing_but_sitecustomize_sets_it(node, program):
    """-S skips sitecustomize. This is also the proof that the question can be answered with no."""
    assert node.ask(PYTHON, "-S", "-c", program) == {}


@pytest.mark.parametrize("value", ["Simple", ""], ids=["another value", "empty value"])
def test_a_preset_value_wins(node, value):
    assert node.ask(PYTHON, "-c", SHOW, preset={"NCCL_PROTO": value}) == {**KNOWN_GOOD, "NCCL_PROTO": value}


def test_a_virtual_environment_sees_it(node):
    folder = node.host.check_output("mktemp -d")
    try:
        node.host.check_output("%s -m venv --without-pip %s", PYTHON, folder)
        assert node.ask(f"{folder}/bin/python", "-c", SHOW) == KNOWN_GOOD
    finally:
        node.host.check_output("rm -r %s", folder)


def test_the_link_the_hook_and_the_mode_are_as_debian_has_them(node):
    link = node.host.file(node.link)
    assert link.is_symlink
    assert node.host.check_output("readlink %s", node.link) == node.file
    assert node.host.check_output("stat -c '%%F %%a %%U %%G' %s", node.file) == "regular file 644 root root"
    content = node.read(node.file)
    assert content.count(node.vendor_bytes()) == 1
    assert content != node.vendor_bytes()
