"""The package that owns sitecustomize.py: dpkg's view of the file, and a reinstall with dpkg itself."""

from __future__ import annotations

from conftest import KNOWN_GOOD, SHOW


def test_dpkg_sees_an_edited_conffile_and_nothing_else(node):
    # dpkg -V exits with 1 or 0 here, depending on its version. Its lines are what counts.
    result = node.host.run("dpkg -V %s", node.package)
    assert (result.stdout.splitlines(), result.stderr) == ([f"??5?????? c {node.file}"], "")


def test_a_reinstall_keeps_the_block(node):
    # A reinstall puts a lost link back: without this line it would repair what it must show.
    assert node.host.check_output("readlink %s", node.link) == node.file
    before = node.read(node.file)
    inode = node.host.check_output("stat -c %%i /usr/lib/python%s/os.py", node.python)
    result = node.host.run("DEBIAN_FRONTEND=noninteractive dpkg -i %s </dev/null", node.deb)
    assert result.rc == 0, result
    # It was a real one: dpkg has put a new file in place of each that is not a conffile.
    assert node.host.check_output("stat -c %%i /usr/lib/python%s/os.py", node.python) != inode
    assert node.host.check_output("readlink %s", node.link) == node.file
    assert node.read(node.file) == before
    # Neither .dpkg-new nor .dpkg-dist nor .dpkg-old: dpkg found nothing to decide.
    assert node.host.check_output("ls /etc/python%s", node.python) == "sitecustomize.py"
    assert node.ask("/usr/bin/python3", "-c", SHOW) == KNOWN_GOOD
