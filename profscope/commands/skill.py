"""`profscope skill`: instructions for agents, as a SKILL.md. Causes and options in it are those of this
version."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

from profscope.analysis.rules.diagnose import RULES
from profscope.errors import exit_status, run_command
from profscope.options import Options
from profscope.traces.output import whole_file
from profscope.tuning.remedies import REMEDIES
from profscope.version import __version__

__all__ = ["main", "make_parser", "skill_text"]

_NAME: Final = "profscope"
_WIDTH: Final = 110
_FLAGS: Final = ("kernels", "instrument", "ctas", "every", "overhead_pct", "evidence")
_EPILOG: Final = f"""\
examples:
  profscope skill | less
  profscope skill --write skills              writes skills/profscope/SKILL.md

{exit_status("done", "a file that cannot be written")}
"""
_TEXT: Final = """\
---
name: profscope
description: Find out why a Triton GPU kernel is slow, by source line, and verify that a change made it
  faster. Use for slow Triton kernels (also of torch.compile), to read a .pftrace.gz, or to compare two.
---

# profscope {version}

Records what each warp of a Triton kernel does, in an unchanged program, and says what each line costs, and
why.

## Steps

1. What this machine can measure. Its last line says what to do; without a GPU, kernels run on an emulator.

```sh
profscope doctor
```

2. Record, and read 4 KB that hold every kernel. Its last line is the next command.

```sh
profscope run -o before.pftrace.gz train.py
profscope view before.pftrace.gz --format brief
```

3. Evidence of all findings, then the line that a finding names, with its instructions.

```sh
profscope view before.pftrace.gz --show findings
profscope view before.pftrace.gz --source kernels.py:24
```

4. Try options and leave out lines, without an edit. Runs the program; results are compared with the launch's.

```sh
profscope explain --kernels attention train.py
profscope explain --kernels attention --vary BLOCK=64,128 train.py
```

5. Change one thing. Check that the results are equal, record again, and compare.

```sh
profscope run -o after.pftrace.gz train.py
profscope diff before.pftrace.gz after.pftrace.gz
profscope diff before.pftrace.gz after.pftrace.gz --fail-above 5%
```

More: JSON of at most 20 KB, and one table; `--kernels REGEX` chooses kernels.

```sh
profscope view before.pftrace.gz --format report
profscope view before.pftrace.gz --show lines --format csv
```

## How to read a finding

`uncoalesced-load kernels.py:24: 70 % (65 to 87 %), modelled, confidence: high`

- 70 %: of this kernel's time, saved if the cause goes; 65 to 87 %: the range.
- Weigh it by the kernel's share of all time.
- `measured`: an experiment saved it. `modelled`: a rule expects it; confirm with `explain` or an edit.
- `gain unknown (at most 87 %)`: the cause is there, what it costs is not known.
- A name that ends with `-bound`: the kernel has reached that limit. Only less work helps.
- Gains do not add up: two findings may share their time.
- account: where all of the kernel's time goes. It adds up to 100 %.

## What not to conclude

- EMULATED: cycles of a cost model, not GPU time. Causes and counts hold; speed, latency and gains do not.
- `do not trust`, `trust with care`: recording changed the kernel, or few CTAs recorded. Read the reasons.
- No finding is no proof: `not measured` names what was not looked for, and the option that would.
- A range that includes 0, or rows that `diff` calls noise: no change.
- One launch, or the first one: caches and clocks are cold.
- Faster in recorded time only: compare bare times (`bare` in the brief; `explain` times bare launches).
- Another GPU, Triton or input size: record there.

## Causes, and what to try

{causes}
- uncoalesced-store: as uncoalesced-load

`explain` tries options for: {remedies}.

## Options of `profscope run`

{options}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    return run_command("profscope skill", lambda: _main(words))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope skill",
        description="Print instructions for an agent that tunes kernels: a SKILL.md.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--write", type=Path, metavar="DIR", help="write DIR/profscope/SKILL.md instead")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _main(words: Sequence[str]) -> int:
    folder = make_parser().parse_args(words).write
    if folder is None:
        sys.stdout.write(skill_text())
        return 0
    path = folder / _NAME / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(skill_text().encode())
    sys.stdout.write(f"{path}\n")
    return 0


def skill_text() -> str:
    return _TEXT.format(
        version=__version__,
        causes="\n".join(_causes()),
        remedies=", ".join(REMEDIES),
        options="\n".join(_options()),
    )


def _causes() -> Iterator[str]:
    """Each once, with the first advice of its rules that have one."""
    advice = {rule.name: rule.advice for rule in reversed(RULES) if rule.advice}
    for name in dict.fromkeys(rule.name for rule in RULES):
        yield f"- {name}: {advice.get(name, 'see the finding')}"


def _options() -> Iterator[str]:
    says = {option.name: option.metadata["cli"] for option in fields(Options) if option.init}
    for name in _FLAGS:
        yield textwrap.fill(f"- `--{name.replace('_', '-')}`: {says[name]}", _WIDTH, subsequent_indent="  ")
