# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of one instance against the GPUs: are there enough, are they free, and does the memory leave room for the KV cache."""

from __future__ import annotations

import itertools
from typing import NamedTuple, Optional

from ansible_collections.gpu_node.tuning.plugins.module_utils import gpu_holders, sglang_weights
from ansible_collections.gpu_node.tuning.plugins.module_utils.check_verdict import OK, REFUSED, UNKNOWN, WARNING, Check
from ansible_collections.gpu_node.tuning.plugins.module_utils.gpu_holders import Gpu
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_sources import SourceMissing, Sources
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_instance import gpus_needed
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_memory import SMALLEST_SLACK, budget

MUCH = 1024  # MiB that somebody else holds on a GPU; less is a monitor's
LITTLE = 2.0  # GiB for the KV cache; what CUDA and NCCL take before the load is not in the arithmetic
CPU = "args device is cpu, so no GPU was looked at"
# MiB that SGLang reserves for a model with pictures, unless the environment says otherwise.
PICTURES = {"SGLANG_VLM_CACHE_SIZE_MB": 100}


class Gpus(NamedTuple):
    """The node's GPUs and who holds their memory, as they are now; ``missing``: why a list is not known."""

    found: list
    missing: Optional[str]
    holders: list
    holders_missing: Optional[str]


def look(sources: Sources, facts: Optional[dict], timeout: float, proc: str = "/proc") -> Gpus:
    """Never raises. Facts that were recorded replace the node's GPUs, as everywhere; nobody holds them then."""
    if facts and facts.get("source") == "recorded":
        found = [_recorded(gpu) for gpu in facts["gpus"]]
        return Gpus(found, None if found else "the recorded facts have no GPU", [], "the facts were recorded")
    try:
        found = gpu_holders.gpus(sources, timeout)
    except SourceMissing as error:
        return Gpus([], str(error), [], str(error))
    try:
        return Gpus(found, None, gpu_holders.holders(sources, found, timeout, proc), None)
    except SourceMissing as error:
        return Gpus(found, None, [], str(error))


def chosen(instance: dict, gpus: Gpus) -> list:
    """The Gpus of an instance: those that it names, or all."""
    named = instance.get("gpus") or []
    return [gpu for gpu in gpus.found if not named or any(_is_named(gpu, name) for name in named)]


def used(instance: dict, args: dict, gpus: Gpus) -> list:
    """Those of them that the ranks take."""
    first, step = args.get("base_gpu_id"), sglang_weights.count(args, "gpu_id_step")
    first = first if isinstance(first, int) and first > 0 else 0
    return chosen(instance, gpus)[first::step][: gpus_needed(args)]


def one_gpu_by_two_names(instances: list, gpus: Gpus) -> list:
    """A complaint for each two instances of which one names a GPU by its number, and the other the same by its name."""
    found = []
    named = [
        (instance, instance["gpus"])
        for instance in instances
        if isinstance(instance.get("gpus"), list) and not _is_on_cpu(instance.get("args"))
    ]
    for (one, its), (other, others) in itertools.combinations(named, 2):
        if not its or not others or set(map(str, its)) & set(map(str, others)):
            continue  # all of them, or the same words: sglang_instance has said so
        shared = sorted({gpu.index for gpu in chosen(one, gpus)} & {gpu.index for gpu in chosen(other, gpus)})
        if shared:
            names = f"sglang_instances[{one.get('name')!r}] and [{other.get('name')!r}]"
            found.append(
                f"{names}: both use GPU {', '.join(map(str, shared))}, under another name. Give each its own gpus."
            )
    return found


def _is_on_cpu(args: object) -> bool:
    return isinstance(args, dict) and args.get("device") == "cpu"


def _is_named(gpu: Gpu, name: object) -> bool:
    """As CUDA_VISIBLE_DEVICES has it: a number, or the beginning of a name."""
    return (
        gpu.uuid.startswith(name) if isinstance(name, str) and name.startswith("GPU-") else str(gpu.index) == str(name)
    )


def check_gpus(instance: dict, args: dict, gpus: Gpus) -> Check:
    if args.get("device") == "cpu":
        return Check("gpus", OK, CPU)
    if gpus.missing:
        return Check("gpus", UNKNOWN, f"which GPUs there are is not known: {gpus.missing}")
    named = instance.get("gpus") or []
    if any(str(name).startswith("MIG-") for name in named):
        return Check("gpus", UNKNOWN, "parts of a GPU in MIG mode were not looked for")
    absent = [str(name) for name in named if not any(_is_named(gpu, name) for gpu in gpus.found)]
    legal = ", ".join(str(gpu.index) for gpu in gpus.found) or "none"
    if absent:
        return Check(
            "gpus", REFUSED, f"gpus: {', '.join(absent)}; this node has {legal}. Name some of these, or none for all."
        )
    ours, wanted = chosen(instance, gpus), gpus_needed(args)
    sizes = (
        ", ".join(f"{name} {args[name]}" for name in ("tp_size", "pp_size", "dp_size", "nnodes") if name in args)
        or "tp_size 1"
    )
    if wanted > len(ours):
        why = f"{sizes}: takes {wanted} GPUs, and the instance has {len(ours)} ({legal} on this node). Lower tp_size, or name more in gpus."
        return Check("gpus", REFUSED, why)
    if wanted < len(ours) and instance.get("gpus"):
        return Check("gpus", WARNING, f"{sizes}: takes {wanted} of the {len(ours)} GPUs that are named")
    return Check("gpus", OK, f"{sizes}: takes {wanted} of {len(ours)} GPUs")


def check_leftovers(instance: dict, args: dict, gpus: Gpus, own_unit: Optional[str]) -> list:
    """One Check for every process that holds memory of the instance's GPUs. ``own_unit``: the instance's unit where it runs."""
    if args.get("device") == "cpu":
        return [Check("leftovers", OK, CPU)]
    if gpus.missing or gpus.holders_missing:
        return [Check("leftovers", UNKNOWN, f"who uses the GPUs is not known: {gpus.missing or gpus.holders_missing}")]
    ours = chosen(instance, gpus) if instance.get("gpus") else used(instance, args, gpus)
    in_use = {gpu.index: gpu.used for gpu in ours}
    found, told = [], set()
    for holder in gpus.holders:
        if holder.gpu not in in_use:
            continue
        told.add(holder.gpu)
        if own_unit and holder.process["unit"] == own_unit:
            continue
        held = in_use[holder.gpu] if holder.mib is None else holder.mib
        if held is not None and held < MUCH:
            found.append(Check("leftovers", WARNING, f"{holder}: little, and left alone"))
        else:
            found.append(Check("leftovers", REFUSED, f"{holder}. {_end(holder.process)}"))
    for gpu in ours:
        if gpu.index not in told and gpu.used is not None and gpu.used >= MUCH:
            why = f"GPU {gpu.index}: {gpu.used} MiB are in use, and nobody is named (a process of another container, or one that has died in the driver)"
            found.append(Check("leftovers", WARNING, f"{why}. Look with nvidia-smi on the host."))
    return found or [
        Check("leftovers", OK, "the GPUs are free" + (f", but for {own_unit}" if told and own_unit else ""))
    ]


def check_memory(
    instance: dict,
    args: dict,
    gpus: Gpus,
    own_unit: Optional[str],
    model: dict,
    draft: Optional[dict],
    environment: dict,
    nccl_mib: Optional[int] = None,
) -> Check:
    """``model``, ``draft``: results of sglang_model.inspect(). Refused only where no GPU can hold less than was counted.

    ``nccl_mib``: what NCCL's connections take with the profile; None where it is not known.
    """
    if args.get("device") == "cpu":
        return Check("memory", OK, "args device is cpu, so there is no GPU memory to count")
    free = _free(instance, args, gpus, own_unit)
    if isinstance(free, str):
        return Check("memory", UNKNOWN, f"{free}; the memory budget was not computed")
    if not model or model["weights"] is None:
        return Check(
            "memory", UNKNOWN, "the size of the weights is not known (see model); the memory budget was not computed"
        )
    loaded = sglang_weights.share(model["weights"], model["config"], args)
    extra = _draft_share(draft, args)
    if extra is None:
        return Check(
            "memory",
            UNKNOWN,
            "the size of the draft's weights is not known (see draft_model); the memory budget was not computed",
        )
    fraction = _fraction(args)
    reservation = _reservation(model["config"], environment)
    estimated = budget(free, loaded.estimate, None, fraction, reservation, extra.estimate)
    least = budget(free, loaded.least, None, fraction, 0, extra.least)
    assumed = _assumed(loaded, extra, args)
    if least.works is False:
        shrinks = sglang_weights.what_shrinks(args, model["config"])
        if shrinks:
            why = f"{least.sentence} {assumed}. Not refused, because {', '.join(shrinks)} may make the weights smaller."
            return Check("memory", WARNING, why)
        return Check("memory", REFUSED, f"{least.sentence} {assumed}; counted was the least that a GPU can hold.")
    if estimated.works is False:
        return Check("memory", WARNING, f"estimated: {estimated.sentence} {assumed}")
    if fraction is None:
        return Check("memory", UNKNOWN, f"{estimated.sentence} {assumed}")
    slack = free * (1 - fraction)
    nccl = nccl_mib if nccl_mib and sglang_weights.count(args, "tp_size") > 1 else 0
    if estimated.kv_gib < LITTLE + nccl / 1024:
        buffers = f"NCCL's buffers (about {nccl} MiB with this profile)" if nccl else "NCCL's buffers"
        why = f"{estimated.sentence} That is close: CUDA's context and {buffers} come off it first. {assumed}"
        return Check("memory", WARNING, why)
    if slack < SMALLEST_SLACK:
        why = f"{estimated.sentence} Only {slack:.2f} GiB are kept back for activations and graphs: out of memory wants a lower fraction. {assumed}"
        return Check("memory", WARNING, why)
    return Check("memory", OK, f"{estimated.sentence} {assumed}")


def _free(instance: dict, args: dict, gpus: Gpus, own_unit: Optional[str]):
    """GiB on the fullest of the GPUs once the own unit has stopped; a text where it is not known."""
    if gpus.missing:
        return f"free GPU memory is not known: {gpus.missing}"
    ours = used(instance, args, gpus)
    if not ours:
        return "free GPU memory is not known: the instance has no GPU here"
    amounts = []
    for gpu in ours:
        if gpu.free is None:
            return f"GPU {gpu.index}: the driver does not say how much memory is free"
        own = [
            holder.mib
            for holder in gpus.holders
            if holder.gpu == gpu.index and own_unit and holder.process["unit"] == own_unit
        ]
        if None in own:
            return f"GPU {gpu.index}: how much {own_unit} gives back when it stops is not known"
        amounts.append(gpu.free + sum(own))
    return min(amounts) / 1024


def _fraction(args: dict) -> Optional[float]:
    value = args.get("mem_fraction_static")
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1 else None


def _draft_share(draft: Optional[dict], args: dict) -> Optional[sglang_weights.Share]:
    """Nothing without a draft, and for one whose weights are not read; None where the size is not known."""
    if draft is None or args.get("speculative_draft_load_format") == "dummy":
        return sglang_weights.Share(0, 0, 0, 0)
    if draft["weights"] is None:
        return None
    one_stage = {**args, "pp_size": 1}
    loaded = sglang_weights.share(draft["weights"], draft["config"], one_stage)
    # Most drafts take the model's embeddings and head, and drop their own.
    without = {**draft["weights"], sglang_weights.EMBEDDINGS: 0, sglang_weights.HEAD: 0}
    return loaded._replace(least=sglang_weights.share(without, draft["config"], one_stage).least)


def _reservation(config: Optional[dict], environment: dict) -> float:
    if not (config or {}).get("multimodal"):
        return 0
    told = [environment.get(name, usual) for name, usual in PICTURES.items()]
    return sum(int(value) for value in told if str(value).isdecimal()) / 1024


def _assumed(loaded: sglang_weights.Share, extra: sglang_weights.Share, args: dict) -> str:
    """What was assumed of the spread of the weights, in words."""
    tensor, pipeline = sglang_weights.count(args, "tp_size"), sglang_weights.count(args, "pp_size")
    spread = f"tp_size {tensor}" + (f" x pp_size {pipeline}" if pipeline > 1 else "")
    words = f"Assumed: {loaded.whole:.2f} GiB of weights over {spread}"
    if tensor > 1:
        words += f", of which {loaded.kept:.2f} GiB (norms, routers, latent projections) are whole on every GPU"
    return words + (f", and {extra.whole:.2f} GiB of the draft's" if extra.whole else "")


def _recorded(gpu: dict) -> Gpu:
    memory = gpu.get("memory_mib") or {}
    return Gpu(gpu["index"], gpu.get("uuid") or "", memory.get("total"), memory.get("used"), memory.get("free"))


def _end(process: dict) -> str:
    if process["unit"]:
        return f"Stop it: systemctl stop {process['unit']}"
    return f"End it (kill {process['pid']}), or give the instance other gpus."
