"""What a session can record, by name. What shows a profile reads it, without any pass."""

from __future__ import annotations

from typing import Final

__all__ = ["LEVELS", "LOWERING"]

# What each level of a session records. "default" answers "where does the time go": the ops that a warp spends
# its time in or waits at, without a record per iteration. Scopes that a kernel names are wanted at each.
LEVELS: Final[dict[str, str]] = {
    "light": "kernel-span,scope-spans,loop-spans",
    "default": "kernel-span,scope-spans,loop-spans,op-spans{classes=load;store;atomic;wait;mma;call}",
    "heavy": "kernel-span,scope-spans,loop-spans,iteration-spans,op-spans",
}
# What every pipeline ends with that is to be compiled.
LOWERING: Final = "lower-records,allocate-buffer"
