"""Atomic operations: on blocks and scalars, with and without use of the old value, and a lock."""

from __future__ import annotations

import triton
import triton.language as tl

# ruff: noqa: N803
__all__ = ["atomic_kernel", "lock_kernel"]


@triton.jit
def atomic_kernel(x_ptr, index_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0)
    index = tl.load(index_ptr + offs, mask=mask, other=0)
    if OP == "add":
        tl.atomic_add(out_ptr + index, x, mask=mask)
    elif OP == "max":
        tl.atomic_max(out_ptr + index, x, mask=mask)
    elif OP == "min":
        tl.atomic_min(out_ptr + index, x, mask=mask)
    elif OP == "and":
        tl.atomic_and(out_ptr + index, x, mask=mask)
    elif OP == "or":
        tl.atomic_or(out_ptr + index, x, mask=mask)
    elif OP == "xor":
        tl.atomic_xor(out_ptr + index, x, mask=mask)
    else:
        tl.atomic_xchg(out_ptr + index, x, mask=mask)


@triton.jit
def lock_kernel(lock_ptr, total_ptr, x_ptr):
    """A critical section: the sum is right only if the lock is."""
    x = tl.load(x_ptr + tl.program_id(0))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(total_ptr, tl.load(total_ptr) + x)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)
