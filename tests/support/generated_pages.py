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

What each op of Triton 3.6 to 3.9 is to profscope. `op-spans{classes=...}` takes the classes; those marked
*default* are recorded unless told otherwise, those marked *never* have no time of their own. A span around an
op ends at its **issue**, when the warp goes on while the effect is under way, or at its **completion**, where
the op itself waits. An op that starts asynchronous work names the ops that finish it. An op is *shown as* the
last part of its name, unless another label is given.

*Bytes* tells which type gives the bytes that one CTA moves, *FLOPs* by which rule its operations are counted
(2 M N K of a dot, in whatever types); masks are not known, so both are those of a full tile. Triton has no op
for sparse products; a product of packed 4-bit floats counts its values, not its bytes.

A kernel with ops that have no row here carries a note about it in its profile.

Arithmetic on scalars is of class scalar whatever its row says; `ttg.local_alloc` and `ttng.tmem_alloc`
without an operand are of class alloc; `ttng.warp_group_dot` that is not asynchronous completes. Before Triton
3.9 `tl.extra.cuda.gdc_wait` and `gdc_launch_dependents` are inline assembly; they count as the ops that came.
"""


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
    """With the columns in which the ops of a class differ; a list if they are alike."""
    ends = {name: "completion" if info.completes else "issue" for name, info in ops.items()}
    columns = {
        "shown as": {name: info.label for name, info in ops.items()},
        "a span ends at": ends if len(set(ends.values())) > 1 else {},
        "finished by": {name: ", ".join(f"`{each}`" for each in info.partners) for name, info in ops.items()},
        "bytes": {name: info.moves for name, info in ops.items()},
        "FLOPs": {name: info.flops for name, info in ops.items()},
    }
    told = {title: column for title, column in columns.items() if any(column.values())}
    said = "" if told.get("a span ends at") else f"\nA span ends at its {next(iter(ends.values()))}.\n"
    if list(told) == ["shown as"]:
        return said + _names(ops)
    rows = [[f"`{name}`", *(column[name] for column in told.values())] for name in ops]
    lines = [f"| {' | '.join(cells)} |\n" for cells in [["op", *told], *rows]]
    return "".join([said, "\n", lines[0], f"|{'---|' * (1 + len(told))}\n", *lines[1:]])


def _names(ops: dict[str, OpInfo]) -> str:
    """Each with what it is shown as, unless that is the last part of its name."""
    told = [
        f"`{name}`" + (f" ({info.label})" if info.cls in SPANNABLE and _last(name) != info.label else "")
        for name, info in ops.items()
    ]
    return f"\n{', '.join(told)}\n"


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
