# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The project of the custom all-reduce on its way to a node: packed on the controller into one option, unpacked into a scratch directory."""

from __future__ import annotations

import base64
import binascii
import io
import os
import zipfile

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError

LEFT_OUT = ("__pycache__", "build", "table.json", "stamp.json")
ENDINGS_LEFT_OUT = (".so", ".pyc", ".egg-info", ".unfinished")


def read(folder: str) -> dict:
    """Relative path to bytes of every source file. Raises TuningError for a folder without a project."""
    if not os.path.isfile(os.path.join(folder, "pyproject.toml")):
        raise TuningError(
            f"src {folder!r}: has no pyproject.toml; legal: the folder files/pcie_allreduce of role custom_allreduce."
        )
    files = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if _is_source(name)]
        for name in filter(_is_source, names):
            path = os.path.join(place, name)
            with open(path, "rb") as stream:
                files[os.path.relpath(path, folder)] = stream.read()
    return files


def _is_source(name: str) -> bool:
    return name not in LEFT_OUT and not name.endswith(ENDINGS_LEFT_OUT) and not name.startswith(".")


def pack(files: dict) -> str:
    """One line of text."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name), files[name], zipfile.ZIP_DEFLATED)
    return base64.b64encode(whole.getvalue()).decode("ascii")


def unpack(text: str) -> dict:
    """What was packed. Raises TuningError for anything else."""
    try:
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(text, validate=True))) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
    except (binascii.Error, zipfile.BadZipFile, ValueError) as error:
        raise TuningError(
            f"source: is not a packed project: {error}. Legal: what the action plugin allreduce_build makes of src."
        ) from error
    strange = [name for name in files if os.path.isabs(name) or ".." in name.split("/")]
    if strange:
        raise TuningError(f"source: {strange[0]!r} lies outside the project; legal: relative paths.")
    return files


def write(files: dict, folder: str) -> None:
    for name, content in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(content)
