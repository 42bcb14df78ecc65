# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped profiles on the controller: one file each, read when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping

import yaml
from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_admission import fits
from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_form import InvalidProfile
from ansible_collections.gpu_node.tuning.plugins.module_utils.profiles import resolve_with_warnings

try:
    from yaml import CSafeLoader as SafeLoader
except ImportError:
    from yaml import SafeLoader


class ProfileDirectory(Mapping):
    """The profiles of a directory by name; a file is read when its profile is asked for."""

    def __init__(self, path):
        self.path = path
        try:
            files = os.listdir(path)
        except OSError as error:
            raise InvalidProfile(f"{path}: cannot list the profiles: {error.strerror}.") from error
        self.names = sorted(name[: -len(".yml")] for name in files if name.endswith(".yml"))

    def __getitem__(self, name):
        if name not in self.names:
            raise KeyError(name)
        path = os.path.join(self.path, f"{name}.yml")
        try:
            with open(path, "rb") as stream:
                return yaml.load(stream, Loader=SafeLoader)
        except (OSError, yaml.YAMLError, ValueError) as error:
            raise InvalidProfile(f"{path}: cannot read the profile: {error}") from error

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return len(self.names)


def resolve_named(name, shipped, tuning_profiles=None, overrides=None):
    """(profile, warnings), see profiles.resolve_with_warnings. ``shipped`` may be the path of a directory of profiles."""
    return resolve_with_warnings(name, _profiles(shipped), tuning_profiles, overrides)


def names_that_fit(facts, shipped, tuning_profiles=None):
    """Names of the profiles, shipped ones and the inventory's own, that a node with these facts may be given."""
    shipped = _profiles(shipped)
    names = sorted({*shipped, *(tuning_profiles or {})})
    return [name for name in names if _fits(name, facts, shipped, tuning_profiles)]


def _fits(name, facts, shipped, tuning_profiles):
    try:
        return fits(resolve_with_warnings(name, shipped, tuning_profiles)[0], facts)
    except InvalidProfile:
        return False  # it is proposed to nobody; whoever picks it is told what is wrong with it


def _profiles(shipped):
    return ProfileDirectory(str(shipped)) if isinstance(shipped, str) else shipped
