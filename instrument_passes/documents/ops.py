"""Writes docs/ops.md: `python -m instrument_passes.documents.ops > docs/ops.md`."""

from __future__ import annotations

import sys
from typing import Final

from instrument_passes.analyses.opclasses import CLASSES, DEFAULT_CLASSES, OPS, SPANNABLE, OpInfo

__all__ = ["document"]

_INTRODUCTION: Final = """\
# Ops

<!-- Generated: python -m instrument_passes.documents.ops > docs/ops.md -->

What each op of Triton 3.6 to 3.9 is to profscope. `op-spans{classes=...}` takes the classes; those marked
*default* are recorded unless told otherwise, those marked *never* have no time of their own. A span around an
op ends at its **issue**, when the warp goes on while the effect is under way, or at its **completion**, where
the op itself waits. An op that starts asynchronous work names the ops that finish it.

*Bytes* tells which type gives the bytes that one CTA moves, *FLOPs* by which rule its operations are counted
(2 M N K of a dot, in whatever types); masks are not known, so both are those of a full tile. Triton has no op
for sparse products; a product of packed 4-bit floats counts its values, not its bytes.

`profscope opt --coverage file.ttgir` counts the ops of a module by these classes and names those that have no
row here; a kernel that has any carries a note about it in its profile.

Arithmetic on scalars is of class scalar whatever its row says; `ttg.local_alloc` and `ttng.tmem_alloc`
without an operand are of class alloc; `ttng.warp_group_dot` that is not asynchronous completes. Before Triton
3.9 `tl.extra.cuda.gdc_wait` and `gdc_launch_dependents` are inline assembly; they count as the ops that came.
"""


def document() -> str:
    """The text of docs/ops.md."""
    parts = [_INTRODUCTION]
    for cls, covers in CLASSES.items():
        recorded = "default" if cls in DEFAULT_CLASSES else "on request" if cls in SPANNABLE else "never"
        parts.append(f"\n## {cls}\n\n{covers[0].upper()}{covers[1:]}. Recorded: *{recorded}*.\n")
        ops = {name: info for name, info in sorted(OPS.items()) if info.cls == cls}
        parts.append(_table(ops) if cls in SPANNABLE else _names(ops))
    return "".join(parts)


def _table(ops: dict[str, OpInfo]) -> str:
    rows = ["\n| op | shown as | a span ends at | finished by | bytes | FLOPs |\n|---|---|---|---|---|---|\n"]
    for name, info in ops.items():
        end = "completion" if info.completes else "issue"
        partners = ", ".join(f"`{partner}`" for partner in info.partners)
        rows.append(f"| `{name}` | {info.label} | {end} | {partners} | {info.moves} | {info.flops} |\n")
    return "".join(rows)


def _names(ops: dict[str, OpInfo]) -> str:
    return "\n" + ", ".join(f"`{name}`" for name in ops) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
