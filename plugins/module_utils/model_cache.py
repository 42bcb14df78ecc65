# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where Hugging Face's cache has a model that is named ORG/NAME instead of by a path. Reads two small files, downloads nothing."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils.plain_file import read_plain

NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}\Z", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}\Z")
TRUE = ("1", "on", "yes", "true")


class Place(NamedTuple):
    """``path``: of the snapshot, None where the cache has none; ``cache``: the directory that was looked into."""

    path: Optional[str]
    cache: str


def find(name: str, revision: Optional[str], environment: dict, home: str) -> Place:
    """``environment``: the service's. Never raises."""
    cache = cache_of(environment, home)
    folder = os.path.join(cache, "models--" + name.replace("/", "--"))
    commit = revision if revision and COMMIT.match(revision) else _commit(folder, revision or "main")
    path = os.path.join(folder, "snapshots", commit) if commit else None
    return Place(path if path and os.path.isdir(path) else None, cache)


def cache_of(environment: dict, home: str) -> str:
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(variable):
            return environment[variable]
    base = environment.get("HF_HOME") or os.path.join(
        environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "huggingface"
    )
    return os.path.join(base, "hub")


def is_offline(environment: dict) -> bool:
    return any(str(environment.get(name, "")).lower() in TRUE for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def _commit(folder: str, reference: str) -> Optional[str]:
    if ".." in reference.split("/") or os.path.isabs(reference):
        return None
    try:
        text = read_plain(os.path.join(folder, "refs", reference), follow=True, most=64).decode("ascii").strip()
    except (OSError, ValueError):
        return None
    return text if COMMIT.match(text) else None
