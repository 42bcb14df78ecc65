# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin of SGLang (entry point group ``sglang.srt.plugins``, from 0.5.11): offers the communicator where SGLang picks its own.

SGLang logs a plugin that fails and goes on without it, so nothing here may fail where stock SGLang works.
"""

from __future__ import annotations

import logging

from . import crossover

logger = logging.getLogger("pcie_allreduce")

TARGET = "sglang.srt.distributed.device_communicators.custom_all_reduce.dispatch_custom_allreduce"


def register() -> None:
    """What the entry point names. Loads neither torch nor SGLang's device code: this runs in every process of SGLang."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(TARGET, around_dispatch, HookType.AROUND)


def around_dispatch(original, *args, **kwargs):
    """The class that SGLang shall construct. SGLang 0.5.11 gives no arguments, later ones give group and device."""
    return ours_or(original(*args, **kwargs))


def ours_or(stock):
    """A class whose construction gives a communicator that is on, or what ``stock`` gives. All ranks get the same kind."""

    class PcieAllReduceOrStock:
        def __new__(cls, group, device, **more):
            return started(group, device) or stock(group=group, device=device, **more)

    return PcieAllReduceOrStock


def started(group, device):
    """A communicator that is on, or None."""
    try:
        return _started(group, device)
    except Exception as error:  # noqa: BLE001 - SGLang would not start where it starts without this package
        logger.warning("pcie_allreduce: off, because %s: %s", type(error).__name__, error)
        return None


def _started(group, device):
    import torch.distributed

    from .communicator import Communicator

    reason = off_before_start(torch.distributed.get_world_size(group), device)
    if reason:
        logger.info("pcie_allreduce: off, because %s", reason)
        return None
    ours = Communicator(group=group, device=device)
    return None if ours.disabled else ours


def off_before_start(world: int, device):
    """Why no rank of this group needs to ask the others; None where they ask.

    Only what is the same on all ranks may decide here. A rank that stayed away for what its own environment or table says would leave the
    others in an exchange, and that would take the next message of the group for an answer.
    """
    if not crossover.LEAST_RANKS <= world <= crossover.MOST_RANKS:
        return f"the group has {world} ranks; legal: {crossover.LEAST_RANKS} to {crossover.MOST_RANKS}"
    if not isinstance(device, int) and not str(device).startswith("cuda"):
        return f"the device is {device}, not an NVIDIA GPU"
    return None
