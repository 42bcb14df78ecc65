"""docs/nccl_variables.md is what the catalogue and the rules say; with --write, make it so."""

from __future__ import annotations

from collections.abc import Iterator

from common import ROOT, generated_page, main, say, use_this_collection

use_this_collection()

from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_catalogue import (  # noqa: E402
    NOT_READ_BY_NCCL,
    NOT_READ_BY_NCCL_PREFIXES,
    VARIABLES,
)
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_conflicts import RULES  # noqa: E402
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_help import explain, when_read  # noqa: E402
from ansible_collections.gpu_node.tuning.plugins.module_utils.nccl_memory import estimate  # noqa: E402

PAGE = ROOT / "docs" / "nccl_variables.md"
MIB = 1024 * 1024

HEAD = """\
<!-- Written by `make pages` from plugins/module_utils; change it there. -->

# What does this NCCL variable do?

The catalogue of this collection in its own words: what the validator accepts, and what NCCL does with it. It was read from the public NCCL
sources and documentation up to 2.30.7, and for 2.31 and 2.32 from the binaries. The same on the command line, as text and as data:

```console
$ ansible localhost -m gpu_node.tuning.nccl_env_info -a name=NCCL_BUFFSIZE
```

[All variables](#all-variables) · [What each one does](#what-each-one-does) · [Names that NCCL does not read](#names-that-nccl-does-not-read) ·
[What is checked against a node](#what-is-checked-against-a-node) · [GPU memory](#gpu-memory)

NCCL reports neither an unknown name nor a value that it cannot read. A number is read up to the first character that is no digit: `4MB` is 4,
`010` is 8, `true` is 0 or the default. The validator therefore lets plain decimal numbers and the words below through, and nothing else.
"""

ON_A_NODE = """\
## What is checked against a node

What a value says by itself is checked everywhere: its type, range, case and grammar, and bounds that cross such as
`NCCL_MIN_NCHANNELS` above `NCCL_MAX_NCHANNELS`. These rules need the node's GPUs, its NCCL or its engine. A finding that is `refused` is an error. So is a
`risk`, unless `allow_risk` names the rule. A fact that is not known refuses nothing: a warning says what could not be checked and why.
aws-ofi-nccl is only noticed where `NCCL_NET_PLUGIN` or `NCCL_TUNER_PLUGIN` name it, or the facts of the node do.
"""

MEMORY = """\
## GPU memory

Each connection of the P2P transport has buffers for all three protocols, whatever `NCCL_PROTO` says. On each GPU they take

> channels x peers x (2 MiB to send + what it needs to receive) x communicators

where the receiving side is 4 KiB + `NCCL_LL_BUFFSIZE` + `NCCL_LL128_BUFFSIZE` + `NCCL_BUFFSIZE`, rounded up to 2 MiB.

A ring has one peer, a tree adds one more, and all-to-all traffic has every other GPU. SGLang has several communicators (world, tensor
parallel, ...). Without P2P (`NCCL_P2P_DISABLE=1` or `NCCL_P2P_LEVEL=LOC`) the same sum is host memory, in `/dev/shm`. Connections to other
nodes and NVLS come on top. From NCCL 2.22 on connections are made at their first use where cuMem is on, so that the memory right after the
start is not the peak. The number of channels is at most what `NCCL_MAX_NCHANNELS`, `NCCL_MAX_CTAS` and NCCL's own cap allow; NCCL may take fewer.
"""


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<") or "-"


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def overview() -> Iterator[str]:
    yield "## All variables\n"
    yield row("variable", "legal", "default", "read")
    yield "|---|---|---|---|"
    for name in sorted(VARIABLES):
        known = explain(name)
        yield row(f"[{name}](#{name.lower()})", cell(known["legal"]), cell(known["default"]), cell(when_read(name)))


def details() -> Iterator[str]:
    yield "\n## What each one does"
    for name in sorted(VARIABLES):
        known = explain(name)
        yield f"\n### {name}\n\n{cell(known['what'])}\n"
        yield f"- Legal: {cell(known['legal'])}"
        yield f"- Default: {cell(known['default'])}"
        yield f"- Read {cell(when_read(name))}" + ("" if known["documented"] else "; NVIDIA does not document it")
        for title, key in (("When wrong", "if_wrong"), ("Risk", "risk"), ("**Correction**", "mistaken_for")):
            if known[key]:
                yield f"- {title}: {cell(known[key])}"


def strangers() -> Iterator[str]:
    yield "\n## Names that NCCL does not read\n"
    yield "They are refused in a profile. What another program reads belongs into the environment of that program.\n"
    yield row("name", "who reads it", "instead")
    yield "|---|---|---|"
    families = {f"{prefix}...": (who, "") for prefix, who in NOT_READ_BY_NCCL_PREFIXES.items()}
    for name, (who, instead) in sorted({**NOT_READ_BY_NCCL, **families}.items()):
        yield row(f"`{name}`", cell(who), cell(instead))


def rules() -> Iterator[str]:
    yield f"\n{ON_A_NODE}"
    yield row("rule", "severity", "about", "why", "way on", "known from")
    yield "|---|---|---|---|---|---|"
    for rule in RULES:
        about = ", ".join(rule.variables) if len(rule.variables) <= 4 else f"{len(rule.variables)} variables"
        yield row(f"`{rule.name}`", rule.severity, about, *map(cell, (rule.why, rule.way_on, rule.source)))


def memory() -> Iterator[str]:
    sizes, shapes = (4, 16, 64), ((2, 2), (8, 2), (16, 2), (32, 8))
    yield f"\n{MEMORY}"
    yield row("MiB on each GPU", *(f"`NCCL_BUFFSIZE` of {size} MiB" for size in sizes))
    yield "|---|" + "---|" * len(sizes)
    for channels, gpus in shapes:
        pattern = "ring" if gpus == 2 else "all_to_all"
        found = [estimate({"NCCL_BUFFSIZE": size * MIB}, gpus, 1, pattern, channels) for size in sizes]
        peers = found[0]["terms"]["peers"]
        yield row(
            f"{channels} channels x {peers} peer{'s' if peers > 1 else ''}", *(str(each["mib"]) for each in found)
        )


def page() -> str:
    parts = ([HEAD], overview(), details(), strangers(), rules(), memory())
    return "\n".join(line for part in parts for line in part) + "\n"


def check() -> None:
    generated_page(PAGE, page())
    say(f"{len(VARIABLES)} variables, {len(RULES)} rules")


if __name__ == "__main__":
    main(check)
