# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one instance of SGLang becomes on a node: its --config file, its environment and its command. Nothing here is a secret."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping

from ansible_collections.gpu_node.tuning.plugins.module_utils.profile_form import (
    MAX_DEPTH,
    InvalidProfile,
    is_list,
    plain,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_options import (
    UnknownVersion,
    complaints,
    config,
    table_version,
    words,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import did_you_mean, kind_of, label, show

KEYS = (
    "name",
    "model",
    "draft_model",
    "host",
    "port",
    "gpus",
    "environment",
    "api_key",
    "admin_api_key",
    "args",
)
SECRETS = ("api_key", "admin_api_key")
CONFIG_DIRECTORY = "/etc/gpu_node_tuning/sglang"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 30000
LISTENING = ("nccl_port", "grpc_port", "gated_launch_port", "smg_http_sidecar_port")  # besides the port itself
EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - names the addresses, binds none
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?", re.ASCII)
MAX_PATH = 4096

# No sd_notify, no state: whatever the version, this form takes everything from the file. `sglang serve` wants the model on
# the command line besides, and opens it to guess whether it draws pictures before it reads anything else.
MODULE = ("-m", "sglang.launch_server")

_HOST = re.compile(r"[A-Za-z0-9.:_-]{1,253}", re.ASCII)
_DEVICE = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{1,80}", re.ASCII)
_KEY = re.compile(r"[\x21-\x7e]{1,512}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_SECRET_VARIABLE = re.compile(
    r"(?:^|_)(?:(?<!PER_)TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_KEY|ACCESS_KEY_ID)$", re.ASCII
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_@:,./=+-]+", re.ASCII)

HEADER = """\
# Written by Ansible (gpu_node.tuning) for {unit}; the next play puts it back.
# Options as SGLang {version} spells them. Keys of the API are not in here.
"""


class InstanceError(ValueError):
    """What is wrong with an instance; ``messages`` has one sentence for each fault."""

    def __init__(self, messages):
        super().__init__("\n".join(messages))
        self.messages = list(messages)


def planned(instance: Mapping, profile: Mapping, version: str, defaults: Mapping) -> dict:
    """The files, environment and command of one instance. Raises InstanceError with every fault.

    ``defaults``: interpreter (needed), config_directory, args and environment. Weakest first: the defaults, the profile,
    the instance; null takes an argument or a variable away.
    """
    if not isinstance(instance, Mapping):
        raise InstanceError([f"sglang_instances: each must be a mapping, not {kind_of(instance)} ({show(instance)})."])
    where = _where(instance)
    try:
        given, profile, defaults = plain(instance), plain(profile or {}), plain(defaults)
    except InvalidProfile as error:
        fault = (
            f"{where}: it, or the profile, is nested deeper than {MAX_DEPTH} levels. Does an anchor refer to itself?"
        )
        raise InstanceError([fault]) from error
    faults = _faults(given, where)
    try:
        known, remark = table_version(version)
    except UnknownVersion as error:
        raise InstanceError([*faults, str(error)]) from error
    layers = _layers(given, profile, defaults, where)
    for options, _variables, origin in layers:
        faults += complaints(options, version, f"{origin}args")
    faults += [fault for _options, environment, origin in layers for fault in _environment_faults(environment, origin)]
    args = _merged(layer[0] for layer in layers)
    if not faults:
        faults += _faults_of_speculation(given, args, where) + _faults_of_ranks(given, args, where)
    if faults:
        raise InstanceError(faults)

    directory = defaults.get("config_directory") or CONFIG_DIRECTORY
    name, unit = given["name"], f"sglang@{given['name']}.service"
    path = f"{directory}/{name}.yaml"
    host, port = given.get("host") or DEFAULT_HOST, given.get("port", DEFAULT_PORT)
    whole = {**args, "model_path": given["model"], "host": host, "port": port}
    if given.get("draft_model"):
        whole["speculative_draft_model_path"] = given["draft_model"]
    settings = config(whole, version)
    return {
        "name": name,
        "unit": unit,
        "host": host,
        "port": port,
        "gpus": given.get("gpus") or [],
        "args": {key: value for key, value in sorted(args.items()) if value is not None},
        "config": settings,
        "config_text": HEADER.format(unit=unit, version=known) + yaml_text(settings),
        "config_path": path,
        "environment": _environment(layers, given),
        "command": [defaults["interpreter"], *MODULE, "--config", path, *words(whole, version)],
        "remarks": [remark] if remark else [],
    }


def complaints_together(instances: list, gpu_count: int | None) -> list:
    """What is wrong with the instances of one node beside each other; ``gpu_count`` is None where it is not known."""
    if not is_list(instances):
        return [f"sglang_instances: must be a list, not {kind_of(instances)} ({show(instances)})."]
    usable = [instance for instance in instances if isinstance(instance, Mapping)]
    found = []
    names = [instance.get("name") for instance in usable]
    for name in dict.fromkeys(name for name in names if isinstance(name, str)):
        if names.count(name) > 1:
            found.append(
                f"sglang_instances: {label(name)} is the name of {names.count(name)} instances. Give each its own."
            )
    for one, other in itertools.combinations(usable, 2):
        found += _clash_of_ports(one, other) + _clash_of_gpus(one, other)
    for instance in usable:
        found += _beyond_the_node(instance, gpu_count)
    return found


def gpus_needed(args: Mapping) -> int:
    """GPUs of this node that the ranks of one instance take, one each."""

    def size(name):
        value = args.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1

    ranks = size("tp_size") * size("pp_size")
    within_tp = args.get("enable_dp_attention") is True or size("attn_dp_size") > 1
    return -(-ranks * (1 if within_tp else size("dp_size")) // size("nnodes"))


def gpus_to_be_seen(args: Mapping) -> int:
    """GPUs that must be visible: the ranks take them from base_gpu_id on, in steps of gpu_id_step."""
    base, step = (args.get(name) for name in ("base_gpu_id", "gpu_id_step"))
    first = base if isinstance(base, int) and base > 0 else 0
    return first + (gpus_needed(args) - 1) * (step if isinstance(step, int) and step > 1 else 1) + 1


def systemd_word(text: str, in_command: bool = True) -> str:
    """One word of ExecStart=, or one NAME=value of Environment= (``in_command=False``), that systemd reads as this text.

    In a command systemd puts variables in for ``$``; in Environment= it does not, and ``$$`` would stay two signs.
    """
    if "\0" in text:
        raise ValueError("no word of a unit can hold a NUL")
    if _PLAIN_WORD.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    if in_command:
        escaped = escaped.replace("$", "$$")
    escaped = re.sub(r"[\x01-\x1f\x7f]", lambda match: f"\\x{ord(match[0]):02x}", escaped)
    return f'"{escaped}"'


def yaml_text(settings: Mapping) -> str:
    """The mapping as YAML in plain ASCII, one line a key: SGLang opens the file in whatever encoding its locale has."""
    return "".join(f"{key}: {_scalar(value)}\n" for key, value in settings.items())


def _scalar(value):
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    if isinstance(value, str):
        # JSON's own escapes write a character beyond 16 bits as two, which YAML reads as two.
        text = json.dumps(value, ensure_ascii=False)
        return re.sub(r"[^\x20-\x7e]", lambda match: f"\\U{ord(match[0]):08x}", text)
    return json.dumps(value)


def _where(given):
    name = given.get("name")
    return f"sglang_instances[{label(name) if isinstance(name, str) else show(name)}]"


def _layers(given, profile, defaults, where):
    """(args, environment, how a message begins that is about them), the weakest first."""
    sglang = profile.get("sglang") or {}
    named = f"profile {profile['name']}, sglang." if profile.get("name") else "the profile's sglang."
    return [
        (defaults.get("args") or {}, defaults.get("environment") or {}, "sglang_defaults."),
        (sglang.get("args") or {}, sglang.get("env") or {}, named),
        (_or_empty(given, "args"), _or_empty(given, "environment"), f"{where}."),
    ]


def _or_empty(given, key):
    return {} if given.get(key) is None else given[key]


def _merged(layers):
    together = {}
    for layer in layers:
        if isinstance(layer, Mapping):
            together.update(layer)
    return together


def _environment(layers, given):
    together = _merged(environment for _args, environment, _origin in layers)
    if given.get("gpus"):
        together["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, given["gpus"]))
    return {name: str(value) for name, value in sorted(together.items()) if value is not None}


def _faults(given, where):
    found = []
    for key in given:
        if key not in KEYS:
            hint = did_you_mean(key, KEYS) if isinstance(key, str) else ""
            found.append(
                f"{where}.{show(key)}: unknown key{', ' + hint if hint else '.'} Legal keys: {', '.join(KEYS)}. "
                "An option of SGLang belongs into args."
            )
    name = given.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        found.append(
            f"{where}.name: {show(name)} is not legal. Legal: 1 to 32 of a-z, 0-9 and '-', and no '-' at either end; it is part "
            "of the unit's name. Write for example kimi-k2."
        )
    found += [f"{where}.{key}: {fault}." for key, fault in _faults_of_fields(given) if fault]
    return found


def _faults_of_fields(given):
    yield "model", _path_fault(given.get("model"), "the directory of the weights, or a name that the hub knows")
    if given.get("draft_model") not in (None, ""):
        yield (
            "draft_model",
            _path_fault(given["draft_model"], "the directory of the draft's weights, or empty for none"),
        )
    host = given.get("host")
    if host not in (None, "") and (not isinstance(host, str) or not _HOST.fullmatch(host)):
        yield "host", f"{show(host)} is not an address. Write for example 127.0.0.1, or 0.0.0.0 for all addresses"
    port = given.get("port", DEFAULT_PORT)
    if isinstance(port, bool) or not isinstance(port, int) or not 1024 <= port <= 65535:
        yield "port", f"{show(port)} is not legal. Legal: a whole number from 1024 to 65535; the service is not root"
    yield "gpus", _gpus_fault(given.get("gpus"))
    for key in SECRETS:
        yield key, _secret_fault(given.get(key))


def _path_fault(value, what):
    if not isinstance(value, str) or not value.strip():
        return f"must be {what}, not {show(value)}"
    if len(value) > MAX_PATH or _CONTROL.search(value):
        return f"{show(value)} holds a line break or another control character, or is too long. Write {what}"
    if value[0] in "-~" or value != value.strip():
        return f"{show(value)} begins with '{value[0]}' or has a blank at an end. Write {what}, without '-' or '~' in front"
    return ""


def _gpus_fault(gpus):
    legal = "a list of numbers such as [0, 1], or of names such as ['GPU-8f1a...'], or [] for all"
    if gpus is None:
        return ""
    if not is_list(gpus):
        return f"must be {legal}, not {kind_of(gpus)} ({show(gpus)})"
    for gpu in gpus:
        is_number = isinstance(gpu, int) and not isinstance(gpu, bool) and 0 <= gpu < 1024
        if not is_number and not (isinstance(gpu, str) and _DEVICE.fullmatch(gpu)):
            return f"{show(gpu)} is not a GPU. Legal: {legal}"
    if len(set(map(str, gpus))) < len(gpus):
        return f"{show(gpus)} names a GPU twice. Name each once"
    if len({type(gpu) for gpu in gpus}) > 1:
        return f"{show(gpus)} mixes numbers and names. CUDA takes one or the other"
    return ""


def _secret_fault(value):
    """Says nothing of the value: the message is printed."""
    if value in (None, ""):
        return ""
    if not isinstance(value, str):
        return f"must be a string, not {kind_of(value)} (the value is not shown). Write it in quotes"
    if not _KEY.fullmatch(value):
        return (
            "holds a line break, a blank or a character that no HTTP header carries, or is longer than 512 (the value is not "
            "shown). Legal: printable ASCII without blanks; a file read with lookup('file', ...) loses its last line break, "
            "slurp needs | trim"
        )
    return ""


def _environment_faults(environment, origin):
    where = f"{origin}env" if origin.endswith("sglang.") else f"{origin}environment"
    if not isinstance(environment, Mapping):
        return [f"{where}: must be a mapping of NAME: value, not {kind_of(environment)} ({show(environment)})."]
    found = []
    for name, value in environment.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            found.append(f"{where}.{show(name)}: is not the name of a variable. Legal: letters, digits and '_'.")
            continue
        fault = _variable_fault(name, value, origin.endswith("sglang."))
        if fault:
            found.append(f"{where}.{label(name)}: {fault}.")
    return found


def _variable_fault(name, value, in_profile):
    if value is None:
        return ""
    if name == "CUDA_VISIBLE_DEVICES":
        return "is set from the instance's `gpus`. Write the GPUs there"
    if name.startswith("NCCL_") and not in_profile:
        return (
            "a variable in the service's environment would win against the profile, unseen. Write it into nccl_env_overrides, "
            "or into a profile"
        )
    if _SECRET_VARIABLE.search(name):
        return (
            "looks like a secret, and everybody on the node can read the environment of a unit (the value is not shown). Put it "
            "into a file that only the service's user can read; Hugging Face reads its token from $HF_HOME/token"
        )
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return f"must be a string, not {kind_of(value)} ({show(value)}). Write it in quotes"
    if _CONTROL.search(str(value)):
        return (
            f"{show(value)} holds a line break or another control character, which no environment of a unit can carry"
        )
    return ""


def _faults_of_speculation(given, args, where):
    algorithm = args.get("speculative_algorithm")
    if given.get("draft_model") and not algorithm:
        return [
            f"{where}.draft_model: needs args.speculative_algorithm, and would not be used without it. Write for example EAGLE3."
        ]
    return []


def _faults_of_ranks(given, args, where):
    needed, gpus = gpus_to_be_seen(args), given.get("gpus") or []
    if gpus and needed > len(gpus) and args.get("device") != "cpu":
        return [
            f"{where}.gpus: {len(gpus)} of them, and {_ranks_of(args)} needs {needed}. Name {needed}, or lower args.tp_size."
        ]
    return []


def _ranks_of(args):
    names = ("tp_size", "pp_size", "dp_size", "nnodes", "base_gpu_id", "gpu_id_step")
    said = [f"{name} {args[name]}" for name in names if args.get(name) not in (None, 1)]
    return ", ".join(said) if said else "tp_size 1"


def _args_of(instance):
    args = instance.get("args")
    return args if isinstance(args, Mapping) else {}


def _pair(one, other):
    return f"sglang_instances[{show(one.get('name'))}] and [{show(other.get('name'))}]"


def _clash_of_ports(one, other):
    hosts = [_address_of(instance) for instance in (one, other)]
    if hosts[0] != hosts[1] and not any(host in EVERYWHERE for host in hosts):
        return []
    said = " and ".join(dict.fromkeys(map(str, hosts)))
    return [
        f"{_pair(one, other)}: both listen on port {show(port)} ({said}). Give each its own."
        for port in _ports_of(one)
        if port in _ports_of(other)
    ]


def _address_of(instance):
    host = instance.get("host") or DEFAULT_HOST
    return DEFAULT_HOST if host == "localhost" else host


def _ports_of(instance):
    args = _args_of(instance)
    return [instance.get("port", DEFAULT_PORT), *(args[name] for name in LISTENING if isinstance(args.get(name), int))]


def _clash_of_gpus(one, other):
    if "cpu" in (_args_of(one).get("device"), _args_of(other).get("device")):
        return []
    first, second = ([str(gpu) for gpu in instance.get("gpus") or []] for instance in (one, other))
    if first and second:
        shared = [gpu for gpu in first if gpu in second]
        if not shared:
            return []
        said = f"both use GPU {', '.join(shared)}"
    else:
        said = "one of them has no `gpus`, and therefore uses all"
    return [f"{_pair(one, other)}: {said}. Give each its own gpus."]


def _beyond_the_node(instance, gpu_count):
    if gpu_count is None or _args_of(instance).get("device") == "cpu":
        return []
    where = _where(instance)
    gpus = instance.get("gpus") or []
    missing = [gpu for gpu in gpus if isinstance(gpu, int) and gpu >= gpu_count]
    if missing:
        return [f"{where}.gpus: {show(missing)} of {show(gpus)} is not there: the node has {_numbered(gpu_count)}."]
    needed = gpus_to_be_seen(_args_of(instance))
    if needed > gpu_count:
        return [
            f"{where}.args.tp_size: {_ranks_of(_args_of(instance))} needs {needed} GPUs, the node has {_numbered(gpu_count)}. Lower it."
        ]
    return []


def _numbered(count):
    if not count:
        return "none that could be seen"
    return f"{count}, numbered 0 to {count - 1}" if count > 1 else "1, numbered 0"
