#!/usr/bin/env python3
# Copyright: gpu_node.tuning contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare what sglang_preflight says of GPU memory with the memory of the machine that this runs on, and read NCCL's own log.

1. nvidia-smi's free memory is what CUDA finds, but for its own context.
2. A process that holds memory is refused by its pid, and gone from the list once it has ended.
3. The weights of a model, counted from the headers of its shards, take the memory that was predicted (within 2 %), and the smallest
   mem_fraction_static that is named is the one of the measured numbers. A KV cache of the predicted size leaves what the fraction keeps back.
4. A fraction that is too small is refused in seconds, with no weight loaded.
5. Two ranks of a real all-reduce with the variables of known_good: nccl_log finds every one of them in the log of each rank.

Needs one GPU that nobody uses, two for the fifth, and a Python with torch (--interpreter). The weights are tensors of the sizes that the
headers name; SGLang itself is not needed, and not run. Exit status 0 only when every step held.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holding import Checks
from probe_this_machine import collection

ROOT = Path(__file__).resolve().parents[2]
TORCH = "/usr/bin/python3"
GIB = 1024**3
KEPT = ("NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS", "LD_LIBRARY_PATH")
DECLARED = re.compile(r"^  (NCCL_\w+):\n    value: (\S+)$", re.MULTILINE)
PATIENCE = 60  # seconds for one start of torch
# A dense model's layer, in 16 bits.
LAYER = {
    "self_attn.q_proj": (8192, 8192),
    "self_attn.k_proj": (1024, 8192),
    "self_attn.v_proj": (1024, 8192),
    "self_attn.o_proj": (8192, 8192),
    "mlp.gate_proj": (28672, 8192),
    "mlp.up_proj": (28672, 8192),
    "mlp.down_proj": (8192, 28672),
    "input_layernorm": (8192,),
    "post_attention_layernorm": (8192,),
}
LAYER_BYTES = sum(2 * shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in LAYER.values())
# Holds tensors of the sizes that it reads, one list a line, and says what is free.
HOLDER = """
import json, sys, torch
torch.zeros(1, device="cuda")
kept = []
def say():
    torch.cuda.synchronize()
    print(json.dumps(torch.cuda.mem_get_info(0)[0]), flush=True)
say()
for line in sys.stdin:
    kept.append([torch.empty(size, dtype=torch.uint8, device="cuda") for size in json.loads(line)])
    say()
"""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = TORCH if os.path.exists(TORCH) else "/usr/bin/python3"
    options.add_argument("--interpreter", default=usual, help="the Python that has torch (default: %(default)s)")
    arguments = options.parse_args()
    began, checks = time.monotonic(), Checks()
    gpus = look().found
    if not gpus:
        print(f"preflight_this_machine: a GPU is needed, nothing was proved: {look().missing}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model"
        layers = max(1, int(gpus[0].free * 1024**2 / 3 / LAYER_BYTES))
        write_model(model, layers)
        leftover(checks, arguments.interpreter)
        weights_and_memory(checks, arguments.interpreter, model)
        refused_in_seconds(checks, arguments.interpreter, model)
        if len(gpus) > 1:
            nccl_says(checks, arguments.interpreter, Path(scratch))
        else:
            print("        not run: NCCL's log, which takes two GPUs")
    describe(time.monotonic() - began, layers)
    return checks.finish()


def look():
    """The GPUs and who holds them, as the module finds them."""
    return collection("sglang_gpu_checks").look(collection("node_sources").Sources(), None, PATIENCE)


@contextlib.contextmanager
def holder(interpreter: str):
    """A process with a CUDA context on GPU 0; ``hold(sizes)`` makes it hold tensors of these bytes. Both give what is free, in bytes."""
    process = subprocess.Popen(
        [interpreter, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "0"},
    )

    def hold(sizes: list) -> int:
        process.stdin.write(json.dumps(sizes) + "\n")
        process.stdin.flush()
        return answer()

    def answer() -> int:
        line = process.stdout.readline()
        if not line:
            sys.exit(f"preflight_this_machine: the process that holds memory ended (status {process.wait()})")
        return json.loads(line)

    try:
        yield process.pid, answer(), hold
    finally:
        process.stdin.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(PATIENCE)


def leftover(checks: Checks, interpreter: str) -> None:
    gpu_checks, instance = collection("sglang_gpu_checks"), {"name": "proof", "gpus": [0]}
    free = look().found[0].free
    checks.hold(f"GPU 0 is free to begin with ({free} MiB)", verdicts_of_gpu_0() == ["ok"])
    with holder(interpreter) as (pid, of_cuda, hold):
        less = free / 1024 - of_cuda / GIB
        checks.hold(
            f"CUDA finds {of_cuda / GIB:.2f} GiB free, nvidia-smi {free / 1024:.2f}: {less:.2f} are its context's",
            0 <= less < 1.5,
        )
        hold([8 * GIB])
        found = [
            check for check in gpu_checks.check_leftovers(instance, {}, look(), None) if check.verdict == "refused"
        ]
        told = " ".join(check.message for check in found)
        checks.hold(f"a process that holds 8 GiB is refused by its pid: {told[:120]}", f"pid {pid} (" in told)
    deadline = time.monotonic() + 15
    while verdicts_of_gpu_0() != ["ok"] and time.monotonic() < deadline:
        time.sleep(0.5)
    checks.hold("once it has ended, the GPU is free", verdicts_of_gpu_0() == ["ok"])


def verdicts_of_gpu_0() -> list:
    checked = collection("sglang_gpu_checks").check_leftovers({"name": "proof", "gpus": [0]}, {}, look(), None)
    return [check.verdict for check in checked]


def weights_and_memory(checks: Checks, interpreter: str, model: Path) -> None:
    weights, memory = collection("sglang_weights"), collection("sglang_memory")
    found = collection("bounded_child").call_as(None, lambda: collection("sglang_model").inspect(str(model)), PATIENCE)
    share = weights.share(found["weights"], found["config"], {})
    sizes = [
        tensor.size
        for path in sorted(model.glob("*.safetensors"))
        for tensor in collection("safetensors_file").read_shard(str(path)).tensors
    ]
    checks.hold(
        f"the headers of {len(sizes)} tensors say {share.whole:.2f} GiB",
        round(share.whole * GIB) == sum(sizes)
        and not any(verdict == "refused" for verdict, _message in found["findings"]),
    )
    with holder(interpreter) as (_pid, free, hold):
        before = free / GIB
        predicted = memory.budget(before, weights_gib=share.estimate, fraction=0.9)
        after = hold(sizes) / GIB
        off = (before - share.estimate - after) / after
        checks.hold(
            f"free after the weights: predicted {before - share.estimate:.2f} GiB, measured {after:.2f} ({100 * off:+.2f} %)",
            abs(off) <= 0.02,
        )
        measured = memory.budget(before, free_after_gib=after, fraction=0.9)
        checks.hold(
            f"smallest mem_fraction_static: predicted {predicted.smallest_fraction}, of the measured numbers {measured.smallest_fraction}",
            predicted.smallest_fraction is not None
            and abs(predicted.smallest_fraction - measured.smallest_fraction) < 0.011,
        )
        left = hold([int(predicted.kv_gib * GIB)]) / GIB
        kept = before * 0.1
        checks.hold(
            f"a KV cache of {predicted.kv_gib:.2f} GiB (f = 0.9) leaves {left:.2f} GiB, predicted {kept:.2f}",
            abs(left - kept) <= 0.02 * kept,
        )


def refused_in_seconds(checks: Checks, interpreter: str, model: Path) -> None:
    """The module's whole logic; there is no SGLang here, which is refused as well."""
    preflight = collection("sglang_preflight")
    instance = {"name": "proof", "model": str(model), "port": 31234, "gpus": [0], "args": {"mem_fraction_static": 0.2}}
    asked = preflight.Asked(interpreter, None, [instance], {}, directories=(str(model),))
    began = time.monotonic()
    result = preflight.preflight(asked, preflight.Node(collection("node_sources").Sources()))
    seconds = time.monotonic() - began
    print("\n".join(result["lines"]))
    refused = {
        check["check"]: check["message"] for check in result["instances"][0]["checks"] if check["verdict"] == "refused"
    }
    told = refused.get("memory", "nothing")
    checks.hold(
        f"mem_fraction_static 0.2 is refused after {seconds:.1f} s: {told[:230]}",
        "smallest mem_fraction_static that works" in told and seconds < 30,
    )
    checks.hold(
        "nothing else of the instance is refused, but for its tokenizer",
        set(refused) <= {"memory", "model"} and "tokenizer" in refused.get("model", ""),
    )


def nccl_says(checks: Checks, interpreter: str, scratch: Path) -> None:
    profile = (ROOT / "roles/profile/vars/profiles/known_good.yml").read_text(encoding="utf-8")
    declared = dict(DECLARED.findall(profile))
    checks.hold(f"known_good declares {len(declared)} variables", len(declared) == 6)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(scratch),
        "LANG": "C.UTF-8",
        "NCCL_NVLS_ENABLE": "0",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
        "NVSHMEM_DISABLE_NVLS": "1",
        **{name: os.environ[name] for name in KEPT if name in os.environ},
        **declared,
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "ENV",
    }
    logs = [scratch / f"nccl.{rank}.log" for rank in range(2)]
    ranks = [
        subprocess.Popen(
            [interpreter, str(ROOT / "tests/gpu/nccl_rank.py"), str(rank), "2", str(port)],
            env={**environment, "NCCL_DEBUG_FILE": str(log)},
            cwd=scratch,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank, log in enumerate(logs)
    ]
    said = []
    for rank in ranks:
        try:
            said.append(rank.communicate(timeout=PATIENCE)[0])
        except subprocess.TimeoutExpired:
            rank.kill()
            said.append(rank.communicate()[0] + "\nno end in time")
    sums = all(rank.returncode == 0 and '"sum_is_right": true' in text for rank, text in zip(ranks, said, strict=True))
    checks.hold("two ranks have the right sum" + ("" if sums else ": " + " ".join(said)[-400:]), sums)
    for rank, log in enumerate(logs):
        try:
            found = collection("nccl_log").values_in_log(str(log))
        except collection("errors").TuningError as error:
            checks.hold(str(error), False)
            continue
        wrong = {name: found.get(name) for name, value in declared.items() if found.get(name) != [value]}
        checks.hold(
            f"the log of rank {rank} names all {len(declared)} with their values{f', but {wrong}' if wrong else ''}",
            not wrong,
        )


def write_model(folder: Path, layers: int) -> None:
    """A model of sparse shards, one a layer: headers as a real model's, and no data that takes room."""
    folder.mkdir()
    places = {}
    for number in range(layers):
        name, header, end = f"model-{number + 1:05d}-of-{layers:05d}.safetensors", {}, 0
        for part, shape in LAYER.items():
            size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
            tensor = f"model.layers.{number}.{part}.weight"
            header[tensor] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [end, end + size]}
            places[tensor], end = name, end + size
        text = json.dumps(header).encode()
        with open(folder / name, "wb") as stream:
            stream.write(struct.pack("<Q", len(text)) + text)
            stream.truncate(8 + len(text) + end)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 8192,
        "num_hidden_layers": layers,
        "num_key_value_heads": 8,
    }
    (folder / "config.json").write_text(json.dumps(config))


def describe(seconds: float, layers: int) -> None:
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        gpu = ["unknown"]
    size = layers * LAYER_BYTES / GIB
    print(f"\n{len(gpu)}x {gpu[0]}, Python {sys.version.split()[0]}, weights of {size:.2f} GiB, {seconds:.0f} s in all")


if __name__ == "__main__":
    sys.exit(main())
