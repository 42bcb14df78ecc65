"""Put the collection containers.podman beside ansible-core, without the other hundred collections.

The PyPI package `ansible` is the one source of this collection that needs neither a Galaxy server nor a
registry of containers. Installed whole it is half a gigabyte and pins an ansible-core of its own; the one
folder that Molecule uses is less than a megabyte. ansible-core finds collections in site-packages by itself.

Usage: unpack_podman.py REQUIREMENTS_FILE DOWNLOAD_FOLDER
"""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

WANTED = "ansible_collections/containers/podman/"


def main(requirements: str, folder: str) -> None:
    command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--requirement", requirements, "--dest", folder], check=True)
    pin = next(line for line in Path(requirements).read_text().splitlines() if line.startswith("ansible=="))
    wheel = Path(folder) / f"ansible-{pin.removeprefix('ansible==').strip()}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.startswith(WANTED)]
        if not members:
            sys.exit(f"{wheel.name} has no {WANTED}")
        archive.extractall(sysconfig.get_path("purelib"), members)


if __name__ == "__main__":
    main(*sys.argv[1:])
