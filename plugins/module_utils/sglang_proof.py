# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a server that answers still has to prove: it generates, the same every time, and speculation is really on."""

from __future__ import annotations

import time
from typing import NamedTuple

from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_http
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_http import Server

PROMPT = "One, two, three, four, five, six, seven, eight,"
TOKENS = 16
TRIES = 3


class NotProved(Exception):
    """The message says what the server did, and what to do about it."""


class Wanted(NamedTuple):
    """``models``: list of names; ``metrics``: whether /metrics has to answer."""

    generate: bool = True
    speculative: bool = False
    models: list = []  # noqa: RUF012 (a default of a tuple's field; nobody changes it)
    metrics: bool = False


def prove(server: Server, wanted: Wanted, limit: float) -> dict:
    """{generation, spec_verify_ct, spec_accept_length, models, metrics}; null for what was not asked for. Raises NotProved.

    ``limit``: seconds for one answer; a first generation may compile kernels.
    """
    proved = {"generation": None, "spec_verify_ct": None, "spec_accept_length": None, "models": None, "metrics": None}
    if wanted.models:
        proved["models"] = _models(server, wanted.models, limit)
    if wanted.generate or wanted.speculative:
        proved["generation"], told = _generation(server, limit)
        proved["spec_verify_ct"] = told.get("spec_verify_ct")
        proved["spec_accept_length"] = told.get("spec_accept_length")
    if wanted.speculative and not proved["spec_verify_ct"]:
        raise NotProved(
            f"speculation is off: meta_info.spec_verify_ct of a generation is {proved['spec_verify_ct']!r}, and it has to be above 0. "
            "Set speculative_algorithm and draft_model, or do not ask for speculation (speculative: false)."
        )
    if wanted.metrics:
        proved["metrics"] = _metrics(server, limit)
    return proved


def _models(server: Server, wanted: list, limit: float) -> list:
    answer = _asked(server, "/v1/models", limit)
    data = answer.data
    entries = data.get("data") if isinstance(data, dict) else None
    served = [str(entry.get("id")) for entry in entries or [] if isinstance(entry, dict)]
    missing = [name for name in wanted if name not in served]
    if missing:
        raise NotProved(
            f"the server does not serve {', '.join(missing)}, but {', '.join(served) or 'nothing'}. Set served_model_name, or the models that are asked for."
        )
    return served


def _generation(server: Server, limit: float) -> tuple:
    """(what is returned of it, meta_info of the last one). Two in a row have to be equal.

    The first one meets an empty prefix cache, and may be computed by other kernels than those that follow; that alone is no fault.
    """
    body = {"text": PROMPT, "sampling_params": {"temperature": 0, "max_new_tokens": TOKENS, "ignore_eos": True}}
    texts, seconds = [], []
    while len(texts) < TRIES:
        began = time.monotonic()
        data = _asked(server, "/generate", limit, body).data
        seconds.append(round(time.monotonic() - began, 3))
        told = data.get("meta_info") if isinstance(data, dict) else None
        if not isinstance(told, dict) or not isinstance(data.get("text"), str):
            raise NotProved("/generate did not answer as SGLang does. Is another program on this port?")
        if not told.get("completion_tokens"):
            raise NotProved("/generate answered without a token. Look at the journal for an error of the scheduler.")
        texts.append(data["text"])
        if len(texts) > 1 and texts[-1] == texts[-2]:
            return {
                "text": texts[-1],
                "tokens": told["completion_tokens"],
                "seconds": seconds[-1],
                "first_seconds": seconds[0],
                "equal": True,
                "requests": len(texts),
            }, told
    raise NotProved(
        f"the same prompt with temperature 0 gave {TRIES} different answers: {', '.join(repr(text[:60]) for text in texts)}. Data is damaged on its way "
        "(p2p_probe), or a kernel is not deterministic: go back to the known-good profile. Skip this proof with generate: false."
    )


def _metrics(server: Server, limit: float) -> bool:
    if "sglang:" not in _asked(server, "/metrics", limit).text:
        raise NotProved("/metrics has no metric of SGLang. Set enable_metrics: true, or do not ask for metrics.")
    return True


def _asked(server: Server, path: str, limit: float, body=None) -> sglang_http.Answer:
    answer = sglang_http.ask(server, path, limit, body)
    if answer.status == 200:
        return answer
    if answer.status in (401, 403):
        way_on = "Give api_key as the server has it."
        if server.api_key:
            way_on = "The api_key that was given is not the server's."
    elif answer.status == 404:
        way_on = "The server does not have this: another program, an embedding model (generate: false), or a metric that is not enabled."
    else:
        way_on = "The journal of the unit says more."
    raise NotProved(f"{path}: {answer.words}. {way_on}")
