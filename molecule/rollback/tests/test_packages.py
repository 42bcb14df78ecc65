"""The package that owns the file, reinstalled and upgraded by dpkg itself. The upgrades are Debian's own package, built again
with a higher version; dpkg then asks whose sitecustomize.py shall stay, for only the second one brings another."""

from __future__ import annotations

import pytest
from as_shipped import reset
from conftest import KNOWN_GOOD, SHOW

PYTHON = "/usr/bin/python3"
DEBS = "/root/debs"
NEW_VENDOR = b"# a newer hook of the vendor\n"

BUILD = """
rm -rf {folder}; mkdir -p {folder}
for name in same changed; do
    dpkg-deb -R {deb} {folder}/tree
    sed -i -E 's/^(Version: .*)$/\\1+later1/' {folder}/tree/DEBIAN/control
    if [ $name = changed ]; then printf '{text}' >> {folder}/tree{file}; fi
    dpkg-deb -Znone -b {folder}/tree {folder}/$name.deb >/dev/null
    rm -r {folder}/tree
done
"""


@pytest.fixture(scope="module", autouse=True)
def _later_packages(nodes):
    for node in nodes:
        text = NEW_VENDOR.decode().replace("\n", "\\n")
        node.sh(BUILD.format(folder=DEBS, deb=node.deb, file=node.file, text=text))
    yield
    for node in nodes:
        reset(node)
        node.sh(f"rm -r {DEBS}")


@pytest.fixture(autouse=True)
def _tuned(fleet, _later_packages):
    for node in fleet.nodes:
        reset(node)
    fleet.tune()


def install(node, deb: str, *options: str):
    words = " ".join(options)
    # Other packages depend on exactly the version that they were built with, which is not what this is about.
    return node.host.run(f"DEBIAN_FRONTEND=noninteractive dpkg --force-depends {words} -i {deb} </dev/null")


def status(node) -> str:
    return node.host.check_output("dpkg-query -W -f '${Status}' %s", node.package)


def version(node) -> str:
    return node.host.check_output("dpkg-query -W -f '${Version}' %s", node.package)


def ask(node) -> dict:
    return node.ask(PYTHON, "-c", SHOW)


def as_found(node, vendor: bytes) -> None:
    assert node.read(node.file) == vendor
    assert node.host.check_output("readlink %s", node.link) == node.file
    assert ask(node) == {}


@pytest.mark.parametrize("package", ["reinstalled", "upgraded"])
def test_an_unchanged_conffile_stays(fleet, count, package):
    for node in fleet.nodes:
        before = version(node)
        result = install(node, node.deb if package == "reinstalled" else f"{DEBS}/same.deb")
        assert result.rc == 0, result
        assert version(node) == before + ("" if package == "reinstalled" else "+later1")
        assert ask(node) == KNOWN_GOOD
        count("damages by others survived")
    fleet.verify()
    again = fleet.tune()
    back = fleet.rollback()
    for node in fleet.nodes:
        assert again.changed(node) == back.changed(node) == 0
    fleet.rollback(generation=0)
    for node in fleet.nodes:
        as_found(node, node.vendor_bytes())


def test_a_changed_conffile_and_the_administrator_keeps_ours(fleet, count):
    for node in fleet.nodes:
        result = install(node, f"{DEBS}/changed.deb", "--force-confold")
        assert result.rc == 0, result
        assert node.read(f"{node.file}.dpkg-dist") == node.vendor_bytes() + NEW_VENDOR
        assert ask(node) == KNOWN_GOOD
        count("damages by others survived")
    fleet.verify()
    again = fleet.tune()
    for node in fleet.nodes:
        assert again.changed(node) == 0
    fleet.rollback(generation=0)
    for node in fleet.nodes:
        as_found(node, node.vendor_bytes())


def test_a_changed_conffile_and_the_administrator_takes_the_new_one(fleet, count):
    for node in fleet.nodes:
        result = install(node, f"{DEBS}/changed.deb", "--force-confnew")
        assert result.rc == 0, result
        assert node.read(node.file) == node.vendor_bytes() + NEW_VENDOR
        count("damages by others survived")
    play, _report = fleet.verify(rc=2)
    for node in fleet.nodes:
        assert "NCCL_PROTO: declared 'LL', the interpreter has None: absent" in play.message(node)
    tuned = fleet.tune()
    for node in fleet.nodes:
        assert tuned.changed(node) == 1
        assert node.read(node.file).startswith(node.vendor_bytes() + NEW_VENDOR)
        assert ask(node) == KNOWN_GOOD
    fleet.verify()
    # The new vendor file is a generation of its own, and 0 is what was there before the first run, an older vendor file.
    fleet.rollback(generation=2)
    for node in fleet.nodes:
        as_found(node, node.vendor_bytes() + NEW_VENDOR)
    fleet.rollback(generation=0)
    for node in fleet.nodes:
        as_found(node, node.vendor_bytes())


def test_a_changed_conffile_and_nobody_to_ask(fleet, count):
    """DEBIAN_FRONTEND=noninteractive does not answer dpkg: the package stays half way, and the tuning stays in effect."""
    for node in fleet.nodes:
        result = install(node, f"{DEBS}/changed.deb")
        assert result.rc == 1, result
        assert "end of file on stdin at conffile prompt" in result.stderr
        assert status(node) == "install ok unpacked"
        assert ask(node) == KNOWN_GOOD
        count("damages by others survived")
    fleet.verify()
    again = fleet.tune()
    for node in fleet.nodes:
        assert again.changed(node) == 0
    # The way out that docs/how_to_get_back.md names, and the one before an upgrade: with the vendor's own file dpkg asks nothing.
    fleet.rollback(generation=0)
    for node in fleet.nodes:
        result = node.host.run(
            "DEBIAN_FRONTEND=noninteractive dpkg --force-depends --configure %s </dev/null", node.package
        )
        assert result.rc == 0, result
        assert status(node) == "install ok installed"
        as_found(node, node.vendor_bytes() + NEW_VENDOR)
    fleet.tune()
    for node in fleet.nodes:
        assert ask(node) == KNOWN_GOOD
