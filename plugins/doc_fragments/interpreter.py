# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules that ask an interpreter."""

    DOCUMENTATION = r"""
options:
  interpreter:
    description:
      - Absolute path of the Python that runs the engine, on the node. Python 3.9 or newer.
      - The file is never guessed from a version; this interpreter is asked where it imports C(sitecustomize) from.
    type: path
    required: true
  scope:
    description:
      - V(system) is the file that the interpreter imports by itself. On Debian and Ubuntu all virtual environments of the system's Python share it.
      - V(service) is a file in O(service_dir), for services whose C(PYTHONPATH) names that directory. It loads the next C(sitecustomize) on
        the path after itself, so that the distribution's hook still runs.
    type: str
    choices: [system, service]
    default: system
  service_dir:
    description:
      - Absolute path of the directory for O(scope=service), in its shortest form and without C(:); made when missing.
      - Python code in it runs as the service, so nobody but root, the service's user and the user of the task may write there.
    type: path
  service_user:
    description:
      - User that the service runs as. The interpreter is asked as this user, which needs root.
      - Without it, the interpreter is asked as the user of the task.
    type: str
  service_environment:
    description:
      - Environment of the service, name to value, added to the minimal one that a service manager gives.
      - Nothing of the module's own environment reaches the interpreter.
      - With O(scope=service), C(PYTHONPATH) is O(service_dir) unless it is given here.
    type: dict
    default: {}
"""

    PROBE = r"""
options:
  probe_timeout:
    description: Time limit of every start of the interpreter, in seconds. A start that hangs is ended with all its children.
    type: float
    default: 20
"""
