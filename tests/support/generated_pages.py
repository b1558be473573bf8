"""Writes the pages of docs/ that tables here make: `python -m tests.support.generated_pages docs`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from profscope.instrument_passes import LEVELS
from profscope.instrument_passes.ops import CLASSES, DEFAULT_CLASSES, OPS, SPANNABLE, OpInfo
from profscope.instrument_passes.passes import Pass, passes, signature, spelled, summary

_INTRODUCTION: Final = """\
# Ops

<!-- Generated: python -m tests.support.generated_pages docs -->

The ops of Triton 3.6 to 3.9, by class. `op-spans{classes=...}` accepts these classes: *default* classes are
recorded unless you choose others, *never* classes have no time of their own. A span ends at the op's
**issue**, when the warp continues while the effect is pending, or at its **completion**, if the op itself
waits. A span has the label in parentheses, else the last part of the op's name.

*Bytes*: the type that gives the bytes which one CTA moves. *FLOPs*: the rule that counts operations (2 M N K
for a dot of any types). Both are for a full tile, since masks are unknown. A product of packed 4-bit floats
counts values, not bytes.

If a kernel has an op without a row here, its profile has a note.

Exceptions: arithmetic on scalars is of class scalar; `ttg.local_alloc` and `ttng.tmem_alloc` without an
operand are of class alloc; a synchronous `ttng.warp_group_dot` ends at completion. Before Triton 3.9
`tl.extra.cuda.gdc_wait` and `gdc_launch_dependents` are inline assembly; they count as the later ops.
"""


_OF_TOOLS: Final = ("profscope.", "proton.", "proton_gpu.", "tti.experimental_")


def ops_page() -> str:
    """The text of docs/ops.md."""
    parts = [_INTRODUCTION]
    for cls, covers in CLASSES.items():
        recorded = "default" if cls in DEFAULT_CLASSES else "on request" if cls in SPANNABLE else "never"
        parts.append(f"\n## {cls}\n\n{covers[0].upper()}{covers[1:]}. Recorded: *{recorded}*.\n")
        ops = {name: info for name, info in sorted(OPS.items()) if info.cls == cls}
        parts.append(_table(ops) if cls in SPANNABLE else _names(ops))
    return "".join(parts)


def _table(ops: dict[str, OpInfo]) -> str:
    """With the columns in which the ops of a class differ; a list if they do not."""
    ends = {name: "completion" if info.completes else "issue" for name, info in ops.items()}
    columns = {
        "a span ends at": ends if len(set(ends.values())) > 1 else {},
        "finished by": {name: ", ".join(f"`{each}`" for each in info.partners) for name, info in ops.items()},
        "bytes": {name: info.moves for name, info in ops.items()},
        "FLOPs": {name: info.flops for name, info in ops.items()},
    }
    told = {title: column for title, column in columns.items() if any(column.values())}
    said = "" if told.get("a span ends at") else f"\nA span ends at its {next(iter(ends.values()))}.\n"
    if not told:
        return said + _names(ops)
    rows = [[_name(name, ops[name]), *(column[name] for column in told.values())] for name in ops]
    lines = [f"| {' | '.join(cells)} |\n" for cells in [["op", *told], *rows]]
    return "".join([said, "\n", lines[0], f"|{'---|' * (1 + len(told))}\n", *lines[1:]])


def _names(ops: dict[str, OpInfo]) -> str:
    """A list; ops for debugging that only tools emit are one entry for each prefix."""
    is_debug = {name for name, info in ops.items() if info.cls == "debug" and name.startswith(_OF_TOOLS)}
    told = [_name(name, info) for name, info in ops.items() if name not in is_debug]
    prefixes = [each for each in _OF_TOOLS if any(name.startswith(each) for name in is_debug)]
    return f"\n{', '.join([*told, *(f'other `{each}*`' for each in prefixes)])}\n"


def _name(name: str, info: OpInfo) -> str:
    """With the label of its spans, unless that is the last part of the name."""
    return f"`{name}`" + (f" ({info.label})" if info.cls in SPANNABLE and _last(name) != info.label else "")


def _last(name: str) -> str:
    return name.rpartition(".")[2].replace("_", " ")


# Passes of installed packages are documented by those.
OURS: Final = "profscope.instrument_passes.passes."
_TABLE: Final = re.compile(r"(?<=<!-- table: )(\w+)( -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
_PAGE: Final = re.compile(r"\bdocs/([\w-]+\.md)")


def passes_page(text: str) -> str:
    """The page with its tables, each between `<!-- table: NAME -->` and `<!-- end -->`, written anew."""
    return _TABLE.sub(lambda match: f"{match[1]}{match[2]}{_TABLES[match[1]]()}", text)


def _passes() -> str:
    ours = {name: cls for name, cls in passes().items() if cls.__module__.startswith(OURS)}
    rows = [f"| `{name}` | {_options(cls)} | {_does(cls)} |" for name, cls in ours.items()]
    return "\n".join(["| pass | options and defaults | what it does |", "|---|---|---|", *rows])


def _options(cls: type[Pass]) -> str:
    return "<br>".join(f"`{name}={spelled(default)}`" for name, (_, default) in signature(cls).items())


def _does(cls: type[Pass]) -> str:
    """The docstring: its text in one cell, a line for each option."""
    lines = [""]
    for paragraph in summary(cls):
        option, colon, rest = paragraph.partition(": ")
        if colon and option in signature(cls):
            lines.append(f"`{option}`: {rest}")
        else:
            lines[0] = f"{lines[0]} {paragraph}".strip()
    return _PAGE.sub(r"[\1](\1)", "<br>".join(lines)).replace("|", "\\|")


def _levels() -> str:
    rows = [f'| `"{name}"` | `{passes}` |' for name, passes in LEVELS.items()]
    return "\n".join(["| level | passes |", "|---|---|", *rows])


_TABLES: Final[Mapping[str, Callable[[], str]]] = {"passes": _passes, "levels": _levels}


if __name__ == "__main__":
    docs = Path(sys.argv[1])
    (docs / "ops.md").write_text(ops_page())
    passes_md = docs / "passes.md"
    passes_md.write_text(passes_page(passes_md.read_text()))
