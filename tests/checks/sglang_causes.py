"""docs/why_did_it_not_start.md is what the table of causes says, with lines of the saved logs; with --write, make it so."""

from __future__ import annotations

import re

from common import ROOT, CheckFailed, generated_page, main, say, use_this_collection

use_this_collection()

from ansible_collections.gpu_node.tuning.plugins.module_utils import sglang_causes  # noqa: E402
from ansible_collections.gpu_node.tuning.plugins.module_utils.sglang_diagnosis import diagnose  # noqa: E402

PAGE = ROOT / "docs" / "why_did_it_not_start.md"
LOGS = ROOT / "tests" / "fixtures" / "sglang_logs"
LONGEST = 160  # characters shown of a line

HEAD = """\
<!-- Written by `make pages` from plugins/module_utils/sglang_causes.py and tests/fixtures/sglang_logs; change it there. -->

# Why did SGLang not start?

```console
$ ansible gpu_nodes -m gpu_node.tuning.sglang_diagnose -a unit=sglang@kimi.service
$ ansible localhost -m gpu_node.tuning.sglang_diagnose -a path=/tmp/sglang.log
```

The first reads the journal of the unit, as root, and asks systemd how it ended; the second a log that somebody saved. Both change nothing. Each
finding has the cause, the lines that show it, what to do, and the setting to change. The playbook does the same by itself when a start fails.

- **The root comes first.** SGLang's main process kills itself with SIGKILL when a child fails, so status 137 says nothing; a rank that died takes the
  others with it; a collective that times out may wait for a rank that has crashed. The findings are ordered: what ends a start by itself, in the
  order of the log; what follows from something else; what SGLang only logs.
- **What came before `The server is fired up` did not keep it from starting**, and is listed as only logged. The exception is a port that another
  SGLang answers on.
- **Of several starts in a log**, the last one that says something is meant, so that a unit that is just being started again still tells why it
  failed.
- **Prompts are no errors.** Lines about requests are left out, source text in a traceback too.
- **Secrets are hidden.** SGLang prints its API keys in clear in the line `server_args=`. What is returned has `(hidden)` in their place, wherever
  they stand. The journal itself still has them: `journalctl` needs root or group `systemd-journal` for a reason.
- **A large log is read from its end** (4 MiB of a file, 20,000 lines of a journal), and the answer says so.
- **An error that is not in the table** comes back as `unrecognised` with the last exception of the log.

## A cause of your own

```yaml
- gpu_node.tuning.sglang_diagnose:
    unit: sglang@kimi.service
    causes:
      - name: licence
        patterns: ['.*LicenceError: (?P<why>.*)']
        cause: "The licence server refused: {why}"
        advice: Ask the licence team.
        setting: environment
```

Patterns are regular expressions of Python, tried at the start of a line, behind time, rank and level. An entry with the name of a shipped cause
replaces it.

## What readiness means

`gpu_node.tuning.sglang_ready` waits for a server and says so in one line for each change, at least every 30 seconds:

```text
node1 sglang@kimi.service: 4:31 weights: weights 29/64; GPU memory 33.1 to 33.4 of 95.6 GiB (8 GPUs)
```

It is ready when `/health` answers 200 and the socket that listens is one of the unit's processes'. `/health` generates a token and may take more than
20 seconds, so the client waits 25. The words in the log do not count: a server whose port is taken by another SGLang logs that it is ready, because
its warm-up asked the other one, and exits with status 3. Then the same prompt is generated twice with temperature 0, and has to come out equal (a
third time where the first met an empty prefix cache), `spec_verify_ct` has to be above 0 where speculation is asked for, and `/v1/models` and
`/metrics` have to say what is expected of them.

A bar ends with a carriage return, and journald shows a line only when it is complete. In a journal, `weights i/n` therefore appears when the weights
are loaded, or every 48 KiB; until then the GPU memory shows that it goes on. A log in a file (`StandardOutput=append:`) shows every step.

## The causes

The last column has a line of a saved log. *real*: SGLang 0.5.23 wrote it, on 2026-11-30, on a machine with two cores and without a GPU
(`tests/fixtures/sglang_logs` says how). *synthetic*: written by hand in the words of the released sources, so it proves the table and not what a GPU
node writes. *none*: no saved log.
"""
SECTIONS = (
    (sglang_causes.ROOT, "What ends a start by itself"),
    (sglang_causes.CONSEQUENCE, "What follows from something else"),
    (sglang_causes.LOGGED, "What SGLang only logs"),
)


def examples() -> dict[str, tuple[str, str]]:
    """Name of a cause to (real or synthetic, a line that shows it); a real log is preferred."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(LOGS.glob("*.txt"), key=lambda path: (path.name.startswith("synthetic_"), path.name)):
        header, _newline, text = path.read_bytes().decode("utf-8").partition("\n")
        status = re.match(r"# exit status: (\d+)\n", text)
        if not status:
            raise CheckFailed(f"{path.relative_to(ROOT)} does not say its exit status")
        for finding in diagnose(text[status.end() :], int(status.group(1))):
            if finding.lines:
                found.setdefault(finding.name, (header[2:].partition(":")[0], finding.lines[0]))
    return found


def cell(text: str) -> str:
    return re.sub(r"([|<])", r"\\\1", text)


def blank(text: str) -> str:
    """A sentence of the table, with words in place of what a line would tell."""
    return re.sub(r"\{(\w+)\}", r"*\1*", text)


def page(shown: dict[str, tuple[str, str]]) -> str:
    lines = [HEAD]
    for kind, title in SECTIONS:
        lines += [f"### {title}\n", "| name | cause | what to do | setting | seen in |", "|---|---|---|---|---|"]
        for cause in sglang_causes.CAUSES:
            if cause.kind == kind:
                origin, line = shown.get(cause.name, ("none", ""))
                if len(line) > LONGEST:
                    line = line[:LONGEST] + " ..."
                seen = f"*{origin}*: `{line.replace('`', chr(39))}`" if line else f"*{origin}*"
                cells = [f"`{cause.name}`", *map(blank, (cause.cause, cause.advice, cause.setting or "-")), seen]
                lines.append(f"| {' | '.join(map(cell, cells))} |")
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def check() -> None:
    shown = examples()
    generated_page(PAGE, page(shown))
    real = sum(origin == "real" for origin, _line in shown.values())
    say(f"{len(sglang_causes.CAUSES)} causes, {real} seen in real logs, {len(shown) - real} in synthetic ones")


if __name__ == "__main__":
    main(check)
