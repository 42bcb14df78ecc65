# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet for each test, and the order in which pytest-xdist hands out tests that share one run of ansible-playbook."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# pytest imports these files by path (importlib), which leaves their folder out of the module search path.
TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / name) for name in ("integration", "unit", "checks")]

from common import use_this_collection  # noqa: E402

use_this_collection()


@pytest.fixture
def fleet(tmp_path):
    from fleet import Fleet

    return Fleet(tmp_path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep all tests of one group on one worker: `test_x[group-row]`."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return nodeid.rsplit("[", 1)[1].split("-", 1)[0] if "[" in nodeid else nodeid

    return Groups(config, log)
