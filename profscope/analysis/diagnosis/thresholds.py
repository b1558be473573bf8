"""Every number that a cause compares with, and where it is from.

Shares are 0 to 1. Measurements are those of `bench/corpus` on an NVIDIA H200, of the half that rules are
written by; a test halves and doubles each number, and has a kernel of that half for which it matters.
"""

from __future__ import annotations

from typing import Final

ATTAINABLE_DRAM: Final = 0.89
"""Of DRAM's peak: copies and sums of 64 M elements reach 0.84 to 0.89."""
ATTAINABLE: Final = 0.95
"""Of the other resources' peaks: 0.93 of L2, 0.95 of L1, 0.94 of shared memory and of the tensor pipe,
and 0.96 of the issue slots."""
SCHEDULERS: Final = 4
"""Of an SM: with a warp for each, no warp hides another's wait (NVIDIA, "CUDA C++ Programming Guide", compute
capabilities)."""
