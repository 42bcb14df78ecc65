"""Build the artefact from a clean copy of the sources, and install it where Ansible's tools look for collections."""

from __future__ import annotations

import os
from pathlib import Path

from common import BIN, clean_clone, run, say


def built(folder: Path, repository: str | None = None) -> Path:
    """Build from a clean copy, so that nothing which is ignored by git can slip into the artefact."""
    source = folder / "source"
    source.mkdir()
    clean_clone(source)
    metadata = source / "galaxy.yml"
    if repository and "\nrepository:" not in metadata.read_text(encoding="utf-8"):
        say(f"galaxy.yml names no repository; this build names {repository}")
        with metadata.open("a", encoding="utf-8") as stream:
            stream.write(f"repository: {repository}\n")
    run([BIN / "ansible-galaxy", "collection", "build", "--output-path", folder, source], cwd=folder)
    (archive,) = folder.glob("gpu_node-tuning-*.tar.gz")
    return archive


def installed(folder: Path) -> Path:
    """Install the artefact below `folder` and return the directory of the collection."""
    archive = built(folder)
    # Without the path in the environment, the checkout itself would count as the installed collection.
    env = os.environ | {"ANSIBLE_COLLECTIONS_PATH": str(folder)}
    command = ["collection", "install", "--offline", "--collections-path", folder, archive]
    run([BIN / "ansible-galaxy", *command], cwd=folder, env=env)
    return folder / "ansible_collections" / "gpu_node" / "tuning"
