# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd runs before it starts an instance of SGLang: refuses where the node is not what the inventory declares.

    PYTHON before_start.py /etc/gpu_node_tuning/sglang/NAME.json

This file is copied to the node as it is and imports the standard library alone. It runs with the engine's interpreter, user and
environment, so what it sees is what SGLang will see. Exit status 1 with a line for every reason; otherwise the configuration with the
keys, and what this start is made of, lie in the runtime directory.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import socket
import stat
import sys


def read(path):
    with open(path, "rb") as stream:
        return stream.read()


def digest(content):
    return hashlib.sha256(content).hexdigest()


def unit_files(declared):
    """The unit and every drop-in of it in /etc, also those that somebody else has written."""
    return [declared["unit"], *(path for folder in drop_in_folders(declared) for path in drop_ins(folder))]


def drop_in_folders(declared):
    return [f"{declared['unit']}.d", f"{declared['instance_unit']}.d"]


def is_closed(folder):
    """Whether the folder is there and not for everybody to list. Decided by its mode, so that root and the service's user say the same."""
    return os.path.isdir(folder) and os.stat(folder).st_mode & 0o005 != 0o005


def drop_ins(folder):
    """The drop-ins in a folder; one that is not for everybody to list stands for all that is in it."""
    if is_closed(folder):
        return [folder]
    return [path for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.conf"))) if os.path.exists(path)]


def read_unit_file(path):
    """Its bytes; where it is not for everybody to read, when it was written. A device in its place is how a drop-in is taken away."""
    found = os.stat(path)
    if stat.S_ISREG(found.st_mode) and found.st_mode & 0o004:
        return read(path)
    if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
        return f"{found.st_mtime_ns} {found.st_size}".encode()
    return b""


def parts_of(declared, read=read, unit_files=unit_files, read_unit_file=read_unit_file):
    """Name to digest of everything that makes a start what it is. A running instance is restarted when one of them has changed."""
    parts = {
        "unit": digest(b"\0".join(path.encode() + b"\0" + read_unit_file(path) for path in unit_files(declared))),
        "configuration": digest(read(declared["config"])),
        "keys": digest(read(declared["keys"])) if declared["keys"] else "",
        "version of SGLang": str(declared["version"]),
        "tuning": digest(json.dumps(declared["environment"], sort_keys=True).encode()),
    }
    if declared["sitecustomize"]:
        parts["tuning"] += " " + declared["sitecustomize"]["sha256"]
    return parts


def version_of(package):
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def complaints_about_tuning(declared, environment, imported):
    """The read-back, from within: the file that this interpreter has imported, its bytes, and the values that it left."""
    found, wanted = [], declared["sitecustomize"]
    if wanted and imported != os.path.realpath(wanted["path"]):
        found.append(f"this interpreter imported {imported or 'no sitecustomize.py'}, not {wanted['path']}")
    elif wanted and digest(read(wanted["path"])) != wanted["sha256"]:
        found.append(f"{wanted['path']} was changed after it had been read back")
    for name, value in sorted(declared["environment"].items()):
        if environment.get(name) != value:
            found.append(f"{name} is {environment.get(name)!r} in the environment of the service, declared {value!r}")
    return found


def complaint_about_port(host, port):
    """SGLang would load everything first and find out then."""
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
            tried.listen(1)
    except OSError as error:
        return [
            f"{host}:{port} cannot be listened on: {error.strerror or error}; stop what holds it, or set another port"
        ]
    return []


def complaints_about_files(paths):
    """What cannot be read, a line for each."""
    found = []
    for path in paths:
        try:
            read(path)
        except OSError as error:
            found.append(f"{path}: {error.strerror}")
    return found


def files_of(declared):
    """What SGLang reads at once: its configuration, the keys, and of each model what says how it is made."""
    keys = [declared["keys"]] if declared["keys"] else []
    return [declared["config"], *keys, *(os.path.join(path, "config.json") for path in declared["models"])]


def complaints(declared):
    module = sys.modules.get("sitecustomize")
    imported = os.path.realpath(module.__file__) if getattr(module, "__file__", None) else None
    found = complaints_about_tuning(declared, os.environ, imported)
    version = version_of("sglang")
    if version != declared["version"]:
        found.append(f"{sys.executable} has SGLang {version}, declared {declared['version']}")
    return found + complaints_about_files(files_of(declared)) + complaint_about_port(declared["host"], declared["port"])


def write(path, text):
    """Readable for this user alone: the configuration may have keys in it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)


def main():
    declared = json.loads(read(sys.argv[1]))
    found = complaints(declared)
    for line in found:
        sys.stderr.write(f"gpu_node.tuning: not started: {line}\n")
    if found:
        sys.stderr.write("gpu_node.tuning: playbook sglang.yml puts the node into the declared state\n")
        return 1
    runtime = os.environ["RUNTIME_DIRECTORY"]
    parts = parts_of(declared)
    configuration = read(declared["config"]) + (read(declared["keys"]) if declared["keys"] else b"")
    write(os.path.join(runtime, "config.yaml"), configuration.decode())
    write(os.path.join(runtime, "started.json"), json.dumps({"parts": parts, "generation": declared["generation"]}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
