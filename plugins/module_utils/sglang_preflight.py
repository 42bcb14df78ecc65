# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that can be known of a start of SGLang before a weight is loaded: checks with a verdict and the way on. Changes nothing."""

from __future__ import annotations

import functools
import os
import textwrap
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import (
    listening_sockets,
    model_cache,
    port_binding,
    service_resources,
    sglang_gpu_checks,
    sglang_instance,
    sglang_model,
    sglang_unit_text,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.bounded_child import ChildFailed, call_as
from ansible_collections.gpu_node.tuning.plugins.module_utils.check_verdict import (
    OK,
    REFUSED,
    UNKNOWN,
    WARNING,
    Check,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import Sources
from ansible_collections.gpu_node.tuning.plugins.module_utils.process_identity import identify, in_words
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_options import KNOWN_VERSIONS
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_software import (
    Starter,
    check_configurations,
    check_software,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.text_table import text_table

NODE = ("sglang", "together", "user", "shared_memory", "disk", "locked_memory", "profile")
EACH = ("options", "parser", "model", "draft_model", "architecture", "port", "gpus", "leftovers", "memory")
CHECKS = NODE + EACH
REFUSE, WARN, OFF = "refuse", "warn", "off"
HOW = (REFUSE, WARN, OFF)
WIDTH = 110  # characters of a message in one line of the table


class Asked(NamedTuple):
    """The module's options. ``version``: of the SGLang that will be installed, for a node that has none yet; ``switches``: check to HOW."""

    interpreter: str
    user: Optional[str]
    instances: list
    profile: dict
    facts: Optional[dict] = None
    running: tuple = ()
    version: Optional[str] = None
    defaults: Optional[dict] = None
    probe_timeout: float = 120
    timeout: float = 60
    memlock: str = "infinity"
    directories: tuple = ()
    switches: Optional[dict] = None


class Node(NamedTuple):
    """Where the node is looked at; tests play one."""

    sources: Sources
    proc: str = "/proc"


def preflight(asked: Asked, node: Node) -> dict:
    """{version, node, instances, refused, lines}. Raises TuningError for options that make no sense."""
    _refuse_bad_options(asked)
    user, account = service_resources.check_user(asked.user)
    starter = Starter(asked.interpreter, account, asked.timeout, asked.probe_timeout)
    software, installed = check_software(starter, _environment(asked.defaults or {}, None))
    version = installed["version"] or asked.version or KNOWN_VERSIONS[-1]
    gpus = sglang_gpu_checks.look(node.sources, asked.facts, asked.timeout, node.proc)
    plans = [_planned(instance, asked, version) for instance in asked.instances]
    # Forks come before threads.
    looked = [_look(instance, plan, asked, account) for instance, plan in zip(asked.instances, plans)]
    parsed = check_configurations(starter, [plan for plan, _complaints in plans], installed)
    several = any(
        sglang_instance.gpus_needed(_args(instance, plan, asked)) > 1
        for instance, (plan, _complaints) in zip(asked.instances, plans)
    )
    directories = list(dict.fromkeys(asked.directories))
    of_node = [
        software,
        *_together(asked, gpus),
        user,
        service_resources.check_shared_memory(several),
        *service_resources.check_disk(directories),
        service_resources.check_locked_memory(asked.memlock, node.proc),
        service_resources.check_profile(asked.profile),
    ]
    instances = []
    for instance, (plan, complaints), seen, parser in zip(asked.instances, plans, looked, parsed):
        checks = [*_options(complaints), parser, *_of_files(seen), _architecture(seen, installed)]
        checks += [*_port(instance, seen, asked, node), *_of_gpus(instance, plan, seen, asked, gpus)]
        instances.append({"name": str(instance.get("name")), "plan": plan, "checks": _switched(checks, asked.switches)})
    result = {"version": installed["version"], "node": _switched(of_node, asked.switches), "instances": instances}
    every = [check for _name, check in _all(result)]
    return {**result, "refused": any(check["verdict"] == REFUSED for check in every), "lines": table(result)}


def table(result: dict) -> list:
    rows = []
    for name, check in _all(result):
        first, *rest = textwrap.wrap(check["message"], WIDTH, break_on_hyphens=False) or [""]
        rows.append((name, check["check"], check["verdict"], first))
        rows += [("", "", "", line) for line in rest]
    return text_table(("instance", "check", "verdict", "what was found"), rows)


def refusal(result: dict) -> str:
    """One message with every refusal."""
    said = [
        f"- {name}: {check['check']}: {check['message']}" for name, check in _all(result) if check["verdict"] == REFUSED
    ]
    head = f"SGLang would not start as declared ({len(said)} found). Nothing was changed, and a running service was not touched:"
    return "\n".join([head, *said])


def _all(result: dict) -> list:
    found = [("node", check) for check in result["node"]]
    return found + [(instance["name"], check) for instance in result["instances"] for check in instance["checks"]]


def _refuse_bad_options(asked: Asked) -> None:
    for name, how in (asked.switches or {}).items():
        if name not in CHECKS or how not in (*HOW, False):
            raise TuningError(
                f"checks: {name}: {how!r}; legal: {', '.join(CHECKS)}, each {', '.join(HOW)}. Write one of these in sglang_preflight."
            )
    if not os.path.isabs(asked.interpreter):
        raise TuningError(f"interpreter {asked.interpreter!r}; legal: an absolute path. Set sglang_interpreter.")
    for instance in asked.instances:
        if not isinstance(instance, dict):
            raise TuningError(
                f"instances: {instance!r}; legal: a list of dictionaries, each with name, model and port."
            )


def _switched(checks: list, switches: Optional[dict]) -> list:
    """The checks as dictionaries; one that is off is named once, and says so."""
    found = []
    for check in checks:
        switched = _switch(
            check, (switches or {}).get(check.check, REFUSE) or OFF
        )  # off without quotes is false in YAML
        if switched not in found:
            found.append(switched)
    return [check._asdict() for check in found]


def _switch(check: Check, how: str) -> Check:
    if how == OFF:
        return Check(check.check, UNKNOWN, f"not checked: sglang_preflight has {check.check}: off")
    if how == WARN and check.verdict == REFUSED:
        return Check(check.check, WARNING, f"{check.message} (allowed: sglang_preflight has {check.check}: warn)")
    return check


def _args(instance: dict, plan: Optional[dict], asked: Asked) -> dict:
    """ServerArgs that count; of an instance that could not be planned, what can be told of them."""
    if plan:
        return plan["args"]
    layers = ((asked.defaults or {}).get("args"), (asked.profile.get("sglang") or {}).get("args"), instance.get("args"))
    together = {}
    for layer in layers:
        together.update(layer if isinstance(layer, dict) else {})
    return together


def _environment(instance: dict, plan: Optional[dict]) -> dict:
    own = plan["environment"] if plan else instance.get("environment")
    return {str(name): str(value) for name, value in (own if isinstance(own, dict) else {}).items()}


def _planned(instance: dict, asked: Asked, version: str) -> tuple:
    """(plan or None, complaints)."""
    defaults = {"interpreter": asked.interpreter, **(asked.defaults or {})}
    try:
        return sglang_instance.planned(instance, asked.profile, version, defaults), []
    except sglang_instance.InstanceError as error:
        return None, list(error.messages)


def _together(asked: Asked, gpus: sglang_gpu_checks.Gpus) -> list:
    count = len(gpus.found) if not gpus.missing else None
    found = sglang_instance.complaints_together(asked.instances, count)
    found += sglang_gpu_checks.one_gpu_by_two_names(asked.instances, gpus)
    if found:
        return [Check("together", REFUSED, complaint) for complaint in found]
    return (
        [Check("together", OK, f"{len(asked.instances)} instances, none in another's way")]
        if len(asked.instances) > 1
        else []
    )


def _options(complaints: list) -> list:
    if complaints:
        return [Check("options", REFUSED, complaint) for complaint in complaints]
    return [Check("options", OK, "every option is one of this version's")]


class _Seen(NamedTuple):
    """What the service's user sees. ``model``, ``draft``: results of sglang_model.inspect(), None where there is none to look at."""

    model: Optional[dict]
    draft: Optional[dict]
    args: dict
    environment: dict
    bind: object


def _look(instance: dict, planned: tuple, asked: Asked, account) -> _Seen:
    plan, args = planned[0], _args(instance, planned[0], asked)
    environment = _environment(instance, plan)
    home = environment.get("HOME") or sglang_unit_text.home_of(str(instance.get("name")))
    path, draft = instance.get("model"), instance.get("draft_model")
    tokenizer = None if args.get("skip_tokenizer_init") else args.get("tokenizer_path") or path
    reader = account if os.geteuid() == 0 else None
    ask = functools.partial(_inspected, environment=environment, home=home, reader=reader, limit=asked.timeout)
    draft_format = args.get("speculative_draft_load_format") or args.get("load_format") or "auto"
    return _Seen(
        ask(path, args.get("load_format") or "auto", tokenizer, args.get("revision")) if path else None,
        ask(draft, draft_format, None, args.get("speculative_draft_model_revision")) if draft else None,
        {**args, "speculative_draft_model_path": draft} if draft else args,
        environment,
        _bind(instance, reader),
    )


def _inspected(
    path: object, load_format: str, tokenizer: Optional[str], revision, environment, home, reader, limit
) -> dict:
    nothing = {"findings": [], "config": None, "weights": None}
    if not isinstance(path, str) or "\0" in path:
        return {
            **nothing,
            "findings": [[REFUSED, f"{path!r}; legal: an absolute path, or ORG/NAME. Write one of these."]],
        }
    try:
        return call_as(reader, lambda: _in_child(path, load_format, tokenizer, revision, environment, home), limit)
    except ChildFailed as error:
        return {**nothing, "findings": [[UNKNOWN, f"{path}: was not looked into: {error}"]]}


def _in_child(path: str, load_format: str, tokenizer: Optional[str], revision, environment: dict, home: str) -> dict:
    if os.path.isabs(path):
        found = sglang_model.inspect(path, str(load_format), tokenizer)
        below = service_resources.hidden_from_unit(path)
        if below:
            where = f"{path}: {below}. Move it, for instance below /srv."
            found["findings"].insert(0, [REFUSED, where])
        return found
    nothing = {"config": None, "weights": None}
    if not model_cache.NAME.match(path):
        return {
            **nothing,
            "findings": [
                [REFUSED, f"{path!r}; legal: an absolute path, or ORG/NAME of Hugging Face. Write one of these."]
            ],
        }
    place = model_cache.find(path, revision, environment, home)
    if place.path:
        return sglang_model.inspect(place.path, str(load_format), place.path if tokenizer == path else tokenizer)
    told = f"{path}: is not in the cache {place.cache}"
    fetch = f"Fetch it first, as the service's user: HF_HUB_CACHE={place.cache} hf download {path}"
    if model_cache.is_offline(environment):
        return {
            **nothing,
            "findings": [[REFUSED, f"{told}, and HF_HUB_OFFLINE forbids a download. {fetch}"]],
        }
    return {
        **nothing,
        "findings": [[UNKNOWN, f"{told}: SGLang would download it at its start. {fetch}"]],
    }


def _of_files(seen: _Seen) -> list:
    if seen.model is None:
        return [Check("model", REFUSED, "no model is named. Set model of this instance.")]
    found = [Check("model", *finding) for finding in seen.model["findings"]]
    if (seen.model["config"] or {}).get("own_code") and not seen.args.get("trust_remote_code"):
        found.append(
            Check(
                "model",
                WARNING,
                "config.json brings code of its own (auto_map), and args has no trust_remote_code: true",
            )
        )
    if seen.draft is None:
        return found
    found += [Check("draft_model", *finding) for finding in seen.draft["findings"]]
    algorithm = seen.args.get("speculative_algorithm")
    complaints = sglang_model.draft_complaints(seen.model["config"], seen.draft["config"], algorithm)
    return found + [Check("draft_model", *finding) for finding in complaints]


def _architecture(seen: _Seen, installed: dict) -> Check:
    named = (seen.model or {}).get("config") or {}
    if not named.get("architectures") or not installed["architectures"]:
        return Check("architecture", UNKNOWN, "whether this SGLang has the model's class is not known")
    unknown = [name for name in named["architectures"] if name not in installed["architectures"]]
    if unknown:
        # It may come from a plugin, or be run by transformers.
        why = f"SGLang {installed['version']} has no class {', '.join(unknown)}; a newer version may have it"
        return Check("architecture", WARNING, why)
    return Check("architecture", OK, f"SGLang {installed['version']} has {', '.join(named['architectures'])}")


def _address(instance: dict) -> tuple:
    return str(instance.get("host") or sglang_instance.DEFAULT_HOST), instance.get("port", sglang_instance.DEFAULT_PORT)


def _bind(instance: dict, reader) -> object:
    """What the service's user gets when it binds the port: None, [name, words], or a Check where nobody could look."""
    host, port = _address(instance)
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        return Check("port", REFUSED, f"port {port!r}; legal: a number from 1 to 65535. Set port of this instance.")
    try:
        return call_as(reader, lambda: port_binding.why_not_bound(host, port), 10)
    except ChildFailed as error:
        return Check("port", UNKNOWN, f"whether port {port} is free is not known: {error}")


def _port(instance: dict, seen: _Seen, asked: Asked, node: Node) -> list:
    host, port = _address(instance)
    if isinstance(seen.bind, Check):
        return [seen.bind]
    if seen.bind is None:
        return [Check("port", OK, f"{host}:{port} is free")]
    name, words = seen.bind
    unit = _own_unit(instance, asked)
    listening = listening_sockets.listeners(host, port, node.proc)
    who = [identify(pid, node.proc) for pid in sorted({entry.pid for entry in listening if entry.pid})]
    if unit and who and all(process["unit"] == unit for process in who):
        return [Check("port", OK, f"{host}:{port} is held by this instance itself ({unit})")]
    if name == "EACCES":
        return [
            Check("port", REFUSED, f"{host}:{port}: the service's user may not listen there. Take a port above 1023.")
        ]
    if name != "EADDRINUSE":
        return [
            Check(
                "port", REFUSED, f"{host}:{port}: cannot be listened to: {words}. Set host to an address of this node."
            )
        ]
    held = "; ".join(in_words(process) for process in who) or "a process that cannot be seen from here"
    where = ", ".join(sorted({f"{entry.address}:{port}" for entry in listening})) or f"{host}:{port}"
    return [Check("port", REFUSED, f"{where} is taken by {held}. Stop it, or give the instance another port.")]


def _own_unit(instance: dict, asked: Asked) -> Optional[str]:
    unit = f"sglang@{instance.get('name')}.service"
    return unit if unit in asked.running else None


def _of_gpus(instance: dict, plan, seen: _Seen, asked: Asked, gpus) -> list:
    unit, nccl = _own_unit(instance, asked), (asked.profile.get("memory") or {}).get("mib")
    return [
        sglang_gpu_checks.check_gpus(instance, seen.args, gpus),
        *sglang_gpu_checks.check_leftovers(instance, seen.args, gpus, unit),
        sglang_gpu_checks.check_memory(
            instance,
            seen.args,
            gpus,
            unit,
            seen.model,
            seen.draft,
            seen.environment,
            nccl if isinstance(nccl, int) else None,
        ),
    ]
