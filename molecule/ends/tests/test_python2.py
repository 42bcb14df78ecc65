"""The Python 2 beside Python 3 (Debian 11 is the last that has one) is none of our business."""
from __future__ import annotations

import pytest
from conftest import SHOW


def test_python2_is_left_alone(node):
    if node.suite != "bullseye":
        pytest.skip("no Python 2 in this release")
    assert node.ask("/usr/bin/python2", "-c", SHOW) == {}
    assert node.host.run("dpkg -V libpython2.7-minimal python2.7-minimal").stdout == ""
