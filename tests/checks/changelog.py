"""The fragments are well formed, and CHANGELOG.rst is what antsibull-changelog makes of changelog.yaml."""

from __future__ import annotations

import yaml
from common import BIN, ROOT, CheckFailed, clean_clone, main, run, say, scratch


def check() -> None:
    run([BIN / "antsibull-changelog", "lint"])
    run([BIN / "antsibull-changelog", "lint-changelog-yaml", "changelogs/changelog.yaml"])
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    releases = yaml.safe_load((ROOT / "changelogs" / "changelog.yaml").read_text(encoding="utf-8"))["releases"]
    if version not in releases:
        raise CheckFailed(f"galaxy.yml says {version}, changelogs/changelog.yaml knows {', '.join(releases)}")
    with scratch("changelog") as folder:
        clean_clone(folder)
        before = (folder / "CHANGELOG.rst").read_text(encoding="utf-8")
        run([BIN / "antsibull-changelog", "generate"], cwd=folder)
        if (folder / "CHANGELOG.rst").read_text(encoding="utf-8") != before:
            raise CheckFailed("CHANGELOG.rst is stale: run antsibull-changelog generate")
    fragments = len(list((ROOT / "changelogs" / "fragments").glob("*.y*ml")))
    say(f"{fragments} fragments")


if __name__ == "__main__":
    main(check)
