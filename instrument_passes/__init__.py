"""Passes over Triton's TTGIR, by name, and the version.

Nothing is imported here, so that packaging and what shows a profile can read this.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LEVELS", "LOWERING", "PROGRESS"]

# What each level of a session records. "default" answers "where does the time go": the ops that a warp spends
# its time in or waits at, without a record per iteration. Scopes that a kernel names are wanted at each.
LEVELS: Final[dict[str, str]] = {
    "light": "kernel-span,scope-spans,loop-spans",
    "default": "kernel-span,scope-spans,loop-spans,op-spans{classes=load;store;atomic;wait;mma;call}",
    "heavy": "kernel-span,scope-spans,loop-spans,iteration-spans,op-spans",
}
# What every pipeline ends with that is to be compiled.
LOWERING: Final = "lower-records,allocate-buffer"
# What a session with `hang_s=` has in place of both.
PROGRESS: Final = "progress,allocate-buffer"


__version__ = "0.1.0.dev0"
