# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin of SGLang (entry point group ``sglang.srt.plugins``, from 0.5.11): offers the communicator where SGLang picks its own.

SGLang logs a plugin that fails and goes on without it, so nothing here may fail where stock SGLang works.
"""

from __future__ import annotations

import logging
import os

from . import crossover, settings

logger = logging.getLogger("pcie_allreduce")

TARGET = "sglang.srt.distributed.device_communicators.custom_all_reduce.dispatch_custom_allreduce"


def register() -> None:
    """What the entry point names. Loads neither torch nor SGLang's device code: this runs in every process of SGLang."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(TARGET, around_dispatch, HookType.AROUND)


def around_dispatch(original, *args, **kwargs):
    """The class that SGLang shall construct. SGLang 0.5.11 gives no arguments, later ones give group and device."""
    stock = original(*args, **kwargs)
    reason = off_before_start(os.environ)
    if reason:
        logger.info("pcie_allreduce: off, because %s", reason)
        return stock
    return ours_or(stock)


def off_before_start(environment, world=None):
    """Why this node cannot use it for a group of ``world`` ranks, seen without the other ranks; None where it is worth a start.

    Nothing is exchanged before this, so that a group with ranks on a node without this package does not wait for them.
    """
    try:
        chosen = settings.from_environment(environment)
        if not chosen.wanted:
            return "PCIE_ALLREDUCE is off"
        table = crossover.read(chosen.table)
    except (settings.SettingError, crossover.TableError) as error:
        return str(error)
    if not table["enabled"]:
        return f"it is not enabled on this node: {table['reason']}"
    if world not in (None, table["world"]):
        return f"its table is for {table['world']} ranks, and this group has {world}"
    return None


def ours_or(stock):
    """A class whose construction gives a communicator that is on, or what ``stock`` gives. All ranks get the same kind."""

    class PcieAllReduceOrStock:
        def __new__(cls, group, device, **more):
            return started(group, device) or stock(group=group, device=device, **more)

    return PcieAllReduceOrStock


def started(group, device):
    """A communicator that is on, or None."""
    import torch.distributed

    from .communicator import Communicator

    reason = off_before_start(os.environ, torch.distributed.get_world_size(group))
    if reason:
        logger.info("pcie_allreduce: off, because %s", reason)
        return None
    try:
        ours = Communicator(group=group, device=device)
    except Exception as error:  # noqa: BLE001 - SGLang would not start where it starts without this package
        logger.warning("pcie_allreduce: off, because %s: %s", type(error).__name__, error)
        return None
    return None if ours.disabled else ours
