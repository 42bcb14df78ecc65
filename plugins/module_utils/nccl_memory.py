# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Estimate the GPU memory that NCCL's connections take: channels x peers x buffers x communicators.

Counted are the connections of the P2P transport, as NCCL allocates them whatever NCCL_PROTO says. Connections to other
nodes, NVLS, and the engine's own buffers come on top. The number of channels is an upper bound unless it is given:
NCCL may take fewer.
"""

from __future__ import annotations

from ansible_collections.gpu_node.tuning.plugins.module_utils.errors import TuningError
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_catalogue import (
    ALLOCATION_UNIT,
    CHANNEL_CAPS,
    CONNECTION_HEADER,
    VARIABLES,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_validate import check_env
from ansible_collections.gpu_node.tuning.plugins.module_utils.node_view import NodeView, NotKnown
from ansible_collections.gpu_node.tuning.plugins.module_utils.version_window import matches
from ansible_collections.gpu_node.tuning.plugins.module_utils.wording import show

MIB = 1024 * 1024
# Peers that a GPU receives from on each channel. A tree shares the connection to the ring's neighbour and adds one.
PATTERNS = {"ring": 1, "ring_and_tree": 2, "all_to_all": None}


class InvalidEstimate(TuningError, ValueError):
    """One of the arguments cannot be used."""


def estimate(env, gpu_count, communicators=1, pattern=None, channels=None, nccl=None):
    """The memory of one GPU under `env` (canonical values), as {mib, host_mib, terms, text}.

    Without `pattern` NCCL_ALGO decides it. Without `channels` it is the most that `env` and the version `nccl` permit.
    """
    for name, value in (("gpu_count", gpu_count), ("communicators", communicators), ("channels", channels)):
        if isinstance(value, bool) or not (
            (isinstance(value, int) and value > 0) or (name == "channels" and value is None)
        ):
            raise InvalidEstimate(f"{name}={show(value)}: not a count. Legal: a whole number from 1. Write one.")
    pattern = _pattern_of(env) if pattern is None else pattern
    if pattern not in PATTERNS:
        raise InvalidEstimate(f"pattern={show(pattern)}: not known. Legal: {', '.join(PATTERNS)}. Write one of these.")
    receive, send = _connection(env)
    terms = {
        "channels": _most_channels(env, pattern, nccl) if channels is None else channels,
        "peers": min(PATTERNS[pattern] or gpu_count, gpu_count - 1),
        "pattern": pattern,
        "receive_mib": receive // MIB,
        "send_mib": send // MIB,
        "gpu_count": gpu_count,
        "nccl": nccl,
        "communicators": communicators,
        "exact": channels is not None,
    }
    total = terms["channels"] * terms["peers"] * (terms["receive_mib"] + terms["send_mib"]) * communicators
    without_p2p = _why_no_p2p(env)
    return {
        "mib": 0 if without_p2p else total,
        "host_mib": total if without_p2p else 0,
        "terms": terms,
        "text": _in_words(total, terms, without_p2p),
    }


def memory_line(estimated, before):
    """``estimated``, of the variables that are wanted, beside the same for those that were set ``before`` (any values), in one line."""
    terms = estimated["terms"]
    old = estimate(check_env(before)[0], terms["gpu_count"], terms["communicators"], nccl=terms["nccl"])
    bound = "" if terms["exact"] else "at most "
    changes = [
        f"{place} {bound}{old[key]} MiB -> {bound}{estimated[key]} MiB"
        for place, key in (("GPU memory", "mib"), ("host memory", "host_mib"))
        if old[key] or estimated[key]
    ]
    return f"NCCL's connections (estimate for each GPU): {', '.join(changes)}"


def compare(estimated, facts):
    """Hold an estimate against the GPU with the least free memory, as {fits, free_mib, gpu, text}; fits is None if unknown."""
    unknown = {"fits": None, "free_mib": None, "gpu": None}
    try:
        if estimated["host_mib"]:
            return _compare_host(estimated, NodeView(facts), unknown)
        gpu, free = NodeView(facts).fullest_gpu()
    except NotKnown as reason:
        return {**unknown, "text": f"not compared with the free memory, because {reason}"}
    fits = estimated["mib"] <= free
    verdict = "fits into" if fits else "is more than"
    text = f"{estimated['mib']} MiB {verdict} the {free} MiB that are free on GPU {gpu}, the one with the least"
    return {"fits": fits, "free_mib": free, "gpu": gpu, "text": text}


def _compare_host(estimated, node, unknown):
    count, size = estimated["terms"]["gpu_count"], node.dev_shm_mib()
    mib = estimated["host_mib"] * count
    fits = mib <= size
    verdict = "fits into" if fits else "is more than"
    text = f"{mib} MiB of host memory for all {count} GPUs {verdict} the {size} MiB of /dev/shm"
    return {**unknown, "fits": fits, "text": text}


def _number(env, name):
    """The value of a variable, or its default where the catalogue has a plain number."""
    return int(env.get(name, VARIABLES[name].default))


def _connection(env):
    """Bytes of (receiving, sending side) of one connection; the reading variant keeps the Simple buffer at the sender."""
    simple = _number(env, "NCCL_BUFFSIZE")
    receive = CONNECTION_HEADER + _number(env, "NCCL_LL_BUFFSIZE") + _number(env, "NCCL_LL128_BUFFSIZE")
    send = CONNECTION_HEADER
    if env.get("NCCL_P2P_READ_ENABLE") == "1":
        send += simple
    else:
        receive += simple
    return _rounded_up(receive), _rounded_up(send)


def _rounded_up(size):
    return -(-size // ALLOCATION_UNIT) * ALLOCATION_UNIT


def _pattern_of(env):
    return "ring" if env.get("NCCL_ALGO") == "Ring" else "ring_and_tree"


def _most_channels(env, pattern, nccl):
    cap = next(most for window, most in CHANNEL_CAPS.items() if nccl is None or matches(nccl, window))
    names = ("NCCL_MAX_P2P_NCHANNELS",) if pattern == "all_to_all" else ("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS")
    limits = [int(env[name]) for name in names if name in env]
    if pattern != "all_to_all" and "NCCL_MAX_NCHANNELS" not in env and "NCCL_MAX_NRINGS" in env:
        limits.append(int(env["NCCL_MAX_NRINGS"]))
    return min([cap, *limits])


def _why_no_p2p(env):
    """The setting that sends all traffic through host memory, or an empty text."""
    for name, value in (("NCCL_P2P_DISABLE", "1"), ("NCCL_P2P_LEVEL", "LOC")):
        if env.get(name) == value:
            return f"{name}={value}"
    return ""


def _in_words(total, terms, without_p2p):
    bound = "" if terms["exact"] else "at most "
    place = f"of host memory for each GPU and none on it, because of {without_p2p}" if without_p2p else "on each GPU"
    each = terms["receive_mib"] + terms["send_mib"]
    return (
        f"{bound}{total} MiB {place}: {_count(terms['channels'], 'channel')} x {_count(terms['peers'], 'peer')} "
        f"({terms['pattern'].replace('_', ' ')}) x {each} MiB ({terms['receive_mib']} to receive, {terms['send_mib']} to send) "
        f"x {_count(terms['communicators'], 'communicator')}"
    )


def _count(number, word):
    return f"{number} {word}" + ("" if number == 1 else "s")
