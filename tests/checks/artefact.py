"""Build the collection and put the artefact through galaxy-importer. One warning is a failure."""

from __future__ import annotations

import os
import tarfile

from common import BIN, CheckFailed, main, run, say, scratch
from package import built


def check() -> None:
    with scratch("artefact") as folder:
        # The collection has no public address, and galaxy-importer looks at nothing else until there is one.
        archive = built(folder, repository="https://example.org/gpu_node.tuning")
        with tarfile.open(archive) as tar:
            members = sorted(tar.getnames())
        say("\n".join(members))
        foreign = [name for name in members if name.startswith(".") or name.endswith((".pyc", ".cfg", ".tar.gz"))]
        if foreign:
            raise CheckFailed(f"files that do not belong into an artefact: {', '.join(foreign)}")
        settings = {"GALAXY_IMPORTER_ANSIBLE_LOCAL_TMP": str(folder / "tmp")}
        output, _ = run([BIN / "python", "-m", "galaxy_importer.main", archive], cwd=folder, env=os.environ | settings)
        complaints = [line for line in output.splitlines() if line.startswith(("ERROR", "WARNING"))]
        if complaints:
            raise CheckFailed("galaxy-importer: " + "; ".join(complaints))
        say(f"{len(members)} files, {archive.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main(check)
