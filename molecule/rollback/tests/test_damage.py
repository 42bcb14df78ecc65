"""Damage by others, each row of docs/how_to_get_back.md: what tune.yml and rollback.yml make of it."""

from __future__ import annotations

import json

import pytest
from as_shipped import reset
from conftest import KNOWN_GOOD, SHOW
from fleet import STATE, difference, times, tree
from profiles import FEWER, FEWER_VALUES

PYTHON = "/usr/bin/python3"

# As docs/what_is_written.md describes the checksum, so that this proves the page as well.
EDIT_MANIFEST = """
import hashlib, json, sys
path = "{path}"
with open(path, encoding="utf-8") as stream:
    manifest = json.load(stream)
del manifest["checksum"]
manifest.update({changes})
text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
manifest["checksum"] = hashlib.sha256(text.encode()).hexdigest()
with open(path, "w", encoding="utf-8") as stream:
    json.dump(manifest, stream)
"""


@pytest.fixture(autouse=True)
def found(nodes) -> dict:
    """The trees of the nodes before anything happens."""
    for node in nodes:
        reset(node)
    return {node.suite: tree(times(node)) for node in nodes}


def ask(node) -> dict:
    return node.ask(PYTHON, "-c", SHOW)


def is_as_found(fleet, found) -> None:
    for node in fleet.nodes:
        assert difference(found[node.suite], tree(times(node))) == []
        assert ask(node) == {}


def edit_manifest(node, number: int, **changes) -> str:
    """Change a manifest and make its checksum fit. Returns its path."""
    path = f"{STATE}/generations/{number:04d}/manifest.json"
    node.feed(EDIT_MANIFEST.format(path=path, changes=changes), PYTHON, "-B", "-")
    return path


# -- the file ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "works"),
    [
        (b"'NCCL_PROTO', 'LL'", b"'NCCL_PROTO', 'Simple'", True),
        (b" not in os.environ:", b" not in os.environ", False),
    ],
    ids=["another value", "broken Python"],
)
def test_block_edited_by_hand(fleet, found, count, old, new, works):
    fleet.tune()
    edited = {}
    for node in fleet.nodes:
        edited[node.suite] = node.read(node.file).replace(old, new)
        assert edited[node.suite] != node.read(node.file)
        node.write(node.file, edited[node.suite])
    tuned = fleet.tune()
    for node in fleet.nodes:
        assert tuned.changed(node) == 1
        assert ask(node) == KNOWN_GOOD
        # The edit is not lost.
        assert node.read(f"{STATE}/generations/0002/after{node.link}") == edited[node.suite]
        count("damages by others survived")
    if works:
        fleet.rollback(generation=2)
        for node in fleet.nodes:
            assert node.read(node.file) == edited[node.suite]
    fleet.rollback(generation=0)
    is_as_found(fleet, found)


def test_target_of_the_link_deleted(fleet, found, count):
    fleet.tune()
    for node in fleet.nodes:
        node.sh(f"rm {node.file}")
    before = {node.suite: times(node) for node in fleet.nodes}
    refused = fleet.tune(rc=2)
    for node in fleet.nodes:
        assert f"{node.link}: dangling symbolic link to {node.file}" in refused.message(node)
        assert "--force-confmiss" in refused.message(node)
        assert difference(before[node.suite], times(node)) == []
        count("damages by others survived")
    fleet.rollback()
    for node in fleet.nodes:
        assert ask(node) == KNOWN_GOOD
        assert node.host.check_output("readlink %s", node.link) == node.file
    for node in fleet.nodes:
        node.sh(f"rm {node.file}")
    fleet.rollback(generation=0)
    is_as_found(fleet, found)


def test_link_deleted(fleet, found, count):
    fleet.tune()
    for node in fleet.nodes:
        node.sh(f"rm {node.link}")
    tuned = fleet.tune()
    for node in fleet.nodes:
        assert tuned[node]["path"] != node.link
        assert ask(node) == KNOWN_GOOD
        count("damages by others survived")
    fleet.rollback(generation=0)
    is_as_found(fleet, found)


def test_link_and_target_deleted(fleet, found, count):
    fleet.tune()
    for node in fleet.nodes:
        node.sh(f"rm {node.link} {node.file}")
    fleet.rollback()
    for node in fleet.nodes:
        assert ask(node) == KNOWN_GOOD
        assert node.host.check_output("readlink %s", node.link) == node.file
        count("damages by others survived")
    fleet.rollback(generation=0)
    is_as_found(fleet, found)


def test_link_replaced_by_ansibles_own_copy(fleet, found, count):
    fleet.tune()
    links = {node.suite: node.link for node in fleet.nodes}
    content = "import os\n\nos.environ.setdefault('NCCL_DEBUG', 'WARN')\n"
    fleet.ad_hoc("ansible.builtin.copy", content=content, dest="{{ " + str(links) + "[inventory_hostname] }}")
    for node in fleet.nodes:
        assert node.host.file(node.link).is_file
        assert not node.host.file(node.link).is_symlink
    tuned = fleet.tune()
    for node in fleet.nodes:
        assert f"{node.link}: was a symbolic link to {node.file} and is a plain file now" in tuned.warnings(node)
        assert not node.host.file(node.link).is_symlink
        assert ask(node) == {**KNOWN_GOOD, "NCCL_DEBUG": "WARN"}
    back = fleet.rollback(generation=1)
    for node in fleet.nodes:
        assert back.changed(node) == 1
        assert node.host.check_output("readlink %s", node.link) == node.file
        assert ask(node) == KNOWN_GOOD
        assert node.read(f"{STATE}/generations/0002/after{node.link}").decode() == content
        count("damages by others survived")
    fleet.rollback(generation=0)
    is_as_found(fleet, found)


# -- the records -------------------------------------------------------------------------------------------------------


def test_state_directory_deleted(fleet, count):
    fleet.tune()
    tuned_tree = {node.suite: tree(times(node)) for node in fleet.nodes}
    for node in fleet.nodes:
        node.sh(f"rm -r {STATE}")
    again = fleet.tune()
    for node in fleet.nodes:
        assert again.changed(node) == 0
        assert f"{STATE}: holds no generation, though {node.link} has the managed block" in again.warnings(node)
    other = fleet.tune(**FEWER)
    for node in fleet.nodes:
        assert other.changed(node) == 1
        assert ask(node) == FEWER_VALUES
        count("damages by others survived")
    # The way back ends where the records began: at the tuned file.
    fleet.rollback(generation=0)
    for node in fleet.nodes:
        assert difference(tuned_tree[node.suite], tree(times(node))) == []


GENERATION_1 = f"{STATE}/generations/0001"
RECORDS = {
    "manifest missing": (lambda node: node.sh(f"rm {GENERATION_1}/manifest.json"), "manifest.json: cannot be read"),
    "bytes missing": (lambda node: node.sh(f"rm -r {GENERATION_1}/after"), "after{link}: cannot be read"),
    "bytes changed": (
        lambda node: node.sh(f"echo '# more' >> {GENERATION_1}/after{node.link}"),
        "after{link}: its bytes are not those that were recorded",
    ),
    "manifest edited": (
        lambda node: node.sh(f'sed -i \'s/"Ring"/"Tree"/\' {GENERATION_1}/manifest.json'),
        "manifest.json: its checksum does not fit",
    ),
    "newer version of the collection": (
        lambda node: edit_manifest(node, 1, collection_version="1.2.3"),
        "manifest.json: recorded by version 1.2.3 of the collection; this is version",
    ),
    "newer form": (
        lambda node: edit_manifest(node, 1, schema=2, collection_version="1.2.3"),
        "manifest.json: written by version 1.2.3 of the collection, in a form (schema 2)",
    ),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_damaged_generation_is_refused_and_the_others_work(fleet, found, count, name):
    damage, words = RECORDS[name]
    fleet.tune()
    fleet.tune(**FEWER)
    for node in fleet.nodes:
        damage(node)
    before = {node.suite: times(node) for node in fleet.nodes}
    refused = fleet.rollback(rc=2, generation=1)
    for node in fleet.nodes:
        assert f"{GENERATION_1}/{words.format(link=node.link)}" in refused.message(node)
        assert difference(before[node.suite], times(node)) == []
    _play, report = fleet.history()
    for node in fleet.nodes:
        entry = report["nodes"][node.suite]
        version = (
            name == "newer version of the collection"
        )  # readable and whole, and yet not for this version to activate
        assert entry["generations"][1]["intact"] is version
        assert any(GENERATION_1 in problem for problem in entry["problems"]) is not version
        count("damages by others survived")
    fleet.tune()
    for node in fleet.nodes:
        assert ask(node) == KNOWN_GOOD
    fleet.rollback(generation=2)
    for node in fleet.nodes:
        assert ask(node) == FEWER_VALUES
    fleet.rollback(generation=0)
    is_as_found(fleet, found)


def test_the_current_generation_is_damaged(fleet, found, count):
    fleet.tune()
    for node in fleet.nodes:
        node.sh(f'sed -i \'s/"Ring"/"Tree"/\' {GENERATION_1}/manifest.json')
    tuned = fleet.tune(**FEWER)
    for node in fleet.nodes:
        assert f"{GENERATION_1}/manifest.json: its checksum does not fit" in tuned.warnings(node)
        assert ask(node) == FEWER_VALUES
        count("damages by others survived")
    fleet.rollback(generation=0)
    is_as_found(fleet, found)


def test_the_clock_went_back(fleet, found, count):
    """The clock of a container is that of its host, so it is the records that come from the future instead."""
    fleet.tune()
    for node in fleet.nodes:
        for number in (0, 1):
            edit_manifest(node, number, time="2099-01-01T00:00:00Z")
        node.sh(f'sed -i -E \'s/"time": "[^"]+"/"time": "2099-01-01T00:00:00Z"/\' {STATE}/history.jsonl')
    tuned = fleet.tune(**FEWER)
    for node in fleet.nodes:
        assert tuned[node]["generation"] == 2
    back = fleet.rollback()
    for node in fleet.nodes:
        assert back[node]["generation"] == 1
        assert ask(node) == KNOWN_GOOD
        lines = [json.loads(line) for line in node.read(f"{STATE}/history.jsonl").decode().splitlines()]
        assert [line["generation"] for line in lines] == [0, 1, 2, 1]
        assert lines[1]["time"] > lines[2]["time"]
        count("damages by others survived")
    fleet.rollback(generation=0)
    is_as_found(fleet, found)
