"""Kernels for programmatic dependent launches and cooperative launches."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

# ruff: noqa: N803
__all__ = ["dependent_kernel", "meeting_kernel"]


@triton.jit
def dependent_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """out = x + 1, where x is what the launch before this one writes."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gdc_wait()
    x = tl.load(x_ptr + at)
    gdc_launch_dependents()
    tl.store(out_ptr + at, x + 1.0)


@triton.jit
def meeting_kernel(counter_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    """out = x + 1; no CTA goes on before all have arrived, so all must run at once."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.atomic_add(counter_ptr, 1)
    while tl.atomic_add(counter_ptr, 0) < tl.num_programs(0):
        pass
    tl.store(out_ptr + at, x + 1.0)
