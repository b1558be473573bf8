"""The thresholds of all causes, with their sources.

Shares are 0 to 1. Measurements are those of `bench/corpus` on an NVIDIA H200, of the half that rules are
written by; "chosen" means that no figure stands behind a number but the findings on that half. A test halves
and doubles each number, and has a kernel for which it matters.
"""

from __future__ import annotations

from typing import Final

from profscope.analysis.cause import NOISE_PCT as _NOISE_PCT
from profscope.analysis.estimates import FEWEST_SAMPLES as _FEWEST_SAMPLES
from profscope.analysis.limits import ATTAINED as _ATTAINED
from profscope.analysis.limits import BOUND_PCT

# Of the architecture.
SCHEDULERS: Final = 4
"""Of an SM: with a warp for each, no warp hides another's wait (NVIDIA, "CUDA C++ Programming Guide", compute
capabilities)."""
VECTOR_BYTES: Final = 16
"""The widest access of a thread (NVIDIA, "PTX ISA", ld)."""
WGMMA_SIDE: Final = 64
"""Rows of a wgmma; one of fewer columns does not reach the tensor cores' rate of 4,096 FLOP a cycle and SM
(NVIDIA, "PTX ISA", wgmma)."""
LINE_SECTORS: Final = 4
"""Of a line of L1 or L2, of 32 bytes each; as many as L1 passes in a cycle (NVIDIA, "Nsight Compute", memory
tables)."""
IN_FLIGHT: Final = 4
"""Times as many loads hide latencies: the stages of tuned pipelines, where a faulty one has one (Triton,
"Matrix Multiplication" tutorial: num_stages of 3 to 5)."""
TRIANGLE: Final = 0.5
"""Of a square, which is what a mask by positions leaves."""
TILE_SIDE: Final = 128
"""Of a product's tile: two warp groups of 64 rows each, as good products of the open half have."""

# Published, or derived.
BOUND: Final = BOUND_PCT / 100
"""Of a peak: below, a kernel is bound by latency (NVIDIA, "Nsight Compute", triage guide)."""
FEWEST_SAMPLES: Final = _FEWEST_SAMPLES
"""Of a kernel: with fewer, the 95 % interval of a share of a half is wider than 14 points."""

# Measured.
NOISE_PCT: Final = _NOISE_PCT
"""Of a kernel's time: where the compiler puts code moves it by up to 3 %, and launches vary."""
ATTAINABLE_DRAM: Final = _ATTAINED["dram"]
"""Of DRAM's peak: copies and sums of 64 M elements reach 0.84 to 0.89."""
ATTAINABLE: Final = _ATTAINED["issue"]
"""Of the other resources' peaks: 0.93 of L2, 0.95 of L1, 0.94 of shared memory and of the tensor pipe,
and 0.96 of the issue slots."""
NEAR_ROOF: Final = _ATTAINED["tensor"]
"""Of the peak of DRAM or the tensor pipe: nothing but less work is faster, and a product without its cause
comes so far. Good ones have 0.8 to 0.94 of the tensor pipe, good copies 0.84 to 0.89 of DRAM."""
MUCH: Final = 0.15
"""Of samples or instructions, before a cause explains them. Chosen: it separates the faults of the open half
from its kernels without one."""
EXCESS: Final = 1.4
"""Times what bytes need: sectors or wavefronts. An unaligned row has up to
1.25; one that is taken apart has 2 and more."""
REREAD: Final = 3
"""Times the bytes that come from DRAM, which loads of a product ask for: 1.5 in a product of few rows without
a fault, 5 and more where tiles are too small."""
UNEVEN: Final = 0.35
"""The standard deviation of CTA times over their mean: alike CTAs have up to 0.3."""
CTA_START_CYCLES: Final = 256
"""Between the CTAs of an SM, below which starting them is what takes the time: 130 to 260 cycles where CTAs
of one or two warps do next to nothing."""
LAUNCH_US: Final = 3.0
"""Of a launch in which SMs have no warp yet, or no longer, however even its CTAs are: 2.6 to 4.5 us where
many short CTAs take alike times."""
PASSED_CYCLES: Final = 100
"""Of a wait on a barrier that has arrived, its record included."""
WIDEST_PCT: Final = 60.0
"""Of an interval of a gain, in points: a wider one says no more than its upper end. Chosen."""


def attainable(resource: str) -> float:
    """The part of a resource's peak that good kernels reach."""
    if resource == "tensor":
        return NEAR_ROOF
    return ATTAINABLE_DRAM if resource == "dram" else ATTAINABLE
