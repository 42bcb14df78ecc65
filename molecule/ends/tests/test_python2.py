"""The Python 2 beside Python 3 (Debian 11 is the last that has one) is none of our business."""

from __future__ import annotations


def test_python2_is_left_alone(node):
    if node.suite != "bullseye":
        assert not node.host.exists("/usr/bin/python2")
        return
    # No json in this minimal package.
    program = "import os; print(sorted(name for name in os.environ if name.startswith('NCCL_')))"
    assert node.host.check_output("env -i /usr/bin/python2 -c %s", program) == "[]"
    result = node.host.run("dpkg -V libpython2.7-minimal")
    assert (result.stdout, result.stderr) == ("", "")
