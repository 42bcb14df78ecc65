# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an interrupted run left half written in the state directory. Only what a run makes there is removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.file_kind import KINDS, kind_of
from ansible_collections.gpu_node.tuning.plugins.module_utils.option_names import option
from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import MOVE_AWAY
from ansible_collections.gpu_node.tuning.plugins.module_utils.recorded_generations import NUMBERED

PARTIAL = ".partial"


def strangers(state_dir: str) -> list:
    """One sentence for each thing that has the name of something half written, and that no run makes. Writes nothing."""
    said = []
    for path, made in _half_written(state_dir):
        with contextlib.suppress(FileNotFoundError):  # a run that goes on at this moment is done with it
            mode = os.lstat(path).st_mode
            if stat.S_IFMT(mode) != made:
                said.append(f"{path}: {kind_of(mode)}, where a run makes {KINDS[made]} only. {MOVE_AWAY}")
    return said


def remove_leftovers(state_dir: str) -> None:
    """Remove what an interrupted run left; strangers() must have found nothing. Raises TuningError that names what stays."""
    for path, made in _half_written(state_dir):
        try:
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(path) if made == stat.S_IFDIR else os.unlink(path)
        except OSError as error:
            raise TuningError(
                f"{path}: what an interrupted run left cannot be removed: {error.strerror or error}. "
                f"Nothing was changed. Remove it by hand, or set {option('state_dir')}."
            ) from error


def _half_written(state_dir: str) -> list:
    """(path, kind that a run makes there): the pointer, whether it is there or not, and the generations that are there."""
    generations = os.path.join(state_dir, "generations")
    try:
        names = sorted(os.listdir(generations))
    except OSError:
        names = []  # whoever asks for the generations gets the reason
    partial = [name for name in names if name.endswith(PARTIAL) and NUMBERED.fullmatch(name[: -len(PARTIAL)])]
    pointer = os.path.join(state_dir, "current" + PARTIAL)
    return [(pointer, stat.S_IFLNK)] + [(os.path.join(generations, name), stat.S_IFDIR) for name in partial]
