# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A STAND-IN for CUDA's compiler: a shell script that says a version, and a library with the right functions that do nothing.

What it builds can be loaded and nothing else: no kernel was compiled, and no sum is right.
"""

from __future__ import annotations

VERSION = 'case "$*" in *--version*) echo "Cuda compilation tools, release {0}, V{0}.88"; exit 0 ;; esac\n'
LIBRARY = """
int pcar_abi(void) { return ABI; } const char *pcar_last_error(void) { return ""; } unsigned long pcar_handle_bytes(void) { return 8; }
int pcar_create(void) { return 0; } int pcar_export(void) { return 0; } int pcar_import(void) { return 0; }
int pcar_probe(void) { return 0; } int pcar_max_bytes(void) { return 0; } int pcar_all_reduce(void) { return 0; } int pcar_status(void) { return 0; }
int pcar_reset_status(void) { return 0; } int pcar_destroy(void) { return 0; }
"""
GCC = ("-shared", "-fPIC", "-nostdlib", "-x", "c", "-")
# The last words of the command line of build.py name the output.
OUTPUT = 'while [ "$1" != -o ]; do shift; done\n'


def script_of(version: str, body: str) -> str:
    """The stand-in as text: ``body`` is what it does when it is asked to compile."""
    return "#!/bin/sh\n" + VERSION.format(version) + body + "\n"


ABI = 2  # of abi.py


def compiles_with_gcc(abi: int = ABI) -> str:
    return OUTPUT + f"printf '%s' '{LIBRARY}' | gcc -DABI={abi} -o \"$2\" {' '.join(GCC)}"


def copies(library: str) -> str:
    """For a node without any compiler: the library lies there already."""
    return OUTPUT + f'cp {library} "$2"'
