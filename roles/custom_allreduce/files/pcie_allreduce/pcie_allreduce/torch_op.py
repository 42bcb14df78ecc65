# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The torch operator pcie_allreduce::all_reduce. Importing this registers it, once in a process.

torch.compile and CUDA graph capture see one opaque operator with a known result; the communicator behind it is named by a number, because
an operator takes tensors and plain values only.
"""

from __future__ import annotations

import itertools
import weakref

import torch

_numbers = itertools.count(1)
_communicators: weakref.WeakValueDictionary = weakref.WeakValueDictionary()

# Kept for the life of the process: the operator is gone when the library object is.
_library = torch.library.Library("pcie_allreduce", "DEF")
_library.define("all_reduce(Tensor input, int communicator) -> Tensor")


def _all_reduce(tensor: torch.Tensor, communicator: int) -> torch.Tensor:
    return _communicators[communicator].launch(tensor)


def _shape_of_result(tensor: torch.Tensor, communicator: int) -> torch.Tensor:
    return torch.empty_like(tensor)


_library.impl("all_reduce", _all_reduce, "CompositeExplicitAutograd")
torch.library.register_fake("pcie_allreduce::all_reduce", _shape_of_result, lib=_library)


def number_of(communicator) -> int:
    """The number under which the operator finds this communicator as long as it lives."""
    number = next(_numbers)
    _communicators[number] = communicator
    return number


def all_reduce(tensor: torch.Tensor, number: int) -> torch.Tensor:
    return torch.ops.pcie_allreduce.all_reduce(tensor, number)
