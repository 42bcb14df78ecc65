"""Lint the documentation of the collection, and build it with antsibull-docs and Sphinx. One warning is a failure."""

from __future__ import annotations

import os
import shutil

from common import BIN, CACHE, CheckFailed, main, run, say, scratch
from package import installed

CONF = '''\
"""Sphinx settings of the build that only proves that the documentation can be built."""

project = "gpu_node.tuning"
extensions = ["sphinx_antsibull_ext"]
html_theme = "alabaster"
pygments_style = "ansible"
highlight_language = "YAML+Jinja"
smartquotes = False


# Labels of Ansible's own pages that antsibull-docs refers to.
ELSEWHERE = {"action_plugins", "ansible_configuration_settings", "common_return_values"}


def outside(app, env, node, contnode):
    """A reference to Ansible's pages or to another collection becomes plain text: they are not part of this build."""
    target = node.get("reftarget", "")
    ours = target.startswith("ansible_collections.gpu_node.tuning.")
    return contnode if target in ELSEWHERE or target.startswith("ansible_collections.") and not ours else None


def setup(app):
    app.connect("missing-reference", outside)
'''


def check() -> None:
    with scratch("docs") as folder:
        collection = installed(folder)
        env = os.environ | {"ANSIBLE_COLLECTIONS_PATH": str(folder), "HOME": str(folder)}  # antsibull logs into HOME
        env.pop("ANSIBLE_CONFIG", None)
        lint = [
            "lint-collection-docs",
            "--plugin-docs",
            "--skip-rstcheck",
            "--validate-collection-refs",
            "self",
            collection,
        ]
        run([BIN / "antsibull-docs", *lint], cwd=folder, env=env)
        rst = folder / "rst"
        rst.mkdir()
        (rst / "conf.py").write_text(CONF, encoding="utf-8")
        build = [
            "collection",
            "--use-current",
            "--squash-hierarchy",
            "--fail-on-error",
            "--dest-dir",
            rst,
            "gpu_node.tuning",
        ]
        output, _ = run([BIN / "antsibull-docs", *build], cwd=folder, env=env)
        if warnings := [line for line in output.splitlines() if "WARNING" in line or "ERROR" in line]:
            raise CheckFailed("antsibull-docs: " + "; ".join(warnings))
        html = CACHE / "docs"
        shutil.rmtree(html, ignore_errors=True)
        run([BIN / "sphinx-build", "-W", "--keep-going", "-q", "-b", "html", rst, html], cwd=folder, env=env)
        pages = [page.name for page in html.glob("*.html") if page.name not in ("genindex.html", "search.html")]
        say("\n".join(sorted(pages)))
        say(f"{len(pages)} pages")


if __name__ == "__main__":
    main(check)
