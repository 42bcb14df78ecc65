# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version that goes into the records is that of the collection."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.gpu_node.tuning.plugins.module_utils.version import VERSION, as_numbers

GALAXY = pathlib.Path(__file__).resolve().parents[2] / "galaxy.yml"


def test_it_is_that_of_the_collection():
    assert yaml.safe_load(GALAXY.read_text(encoding="utf-8"))["version"] == VERSION


def test_as_numbers():
    assert as_numbers(VERSION)
    assert as_numbers("1.10.2") == (1, 10, 2) > as_numbers("1.9.30")
    assert as_numbers("1.0.0-beta.1") == as_numbers("1.0.0+build.5") == (1, 0, 0)


@pytest.mark.parametrize("version", ["", "x", "1.x", "1..2"])
def test_as_numbers_refuses(version):
    with pytest.raises(ValueError, match="invalid literal"):
        as_numbers(version)
