"""Kernels that rearrange, combine and choose: the rest of the language, each on one small block."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer, smid

# ruff: noqa: N803
__all__ = ["compare_swap_kernel", "shape_kernel", "where_am_i_kernel"]


@triton.jit
def shape_kernel(x_ptr, out_ptr, OP: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """A block of (ROWS, COLS) to one of as many elements, stored flat."""
    rows = tl.arange(0, ROWS)
    cols = tl.arange(0, COLS)
    x = tl.load(x_ptr + rows[:, None] * COLS + cols[None, :])
    if OP == "trans":
        y = tl.trans(x)
    elif OP == "flip":
        y = tl.flip(x, 1)
    elif OP == "gather":
        y = tl.gather(x, (rows[:, None] * 7 + cols[None, :] * 3) % COLS, 1)
    elif OP == "interleave":
        y = tl.interleave(x, -x)
    elif OP == "join":
        y = tl.permute(tl.join(x, x * 2), (2, 0, 1))
    else:
        a, b = tl.split(tl.reshape(x, (ROWS, COLS // 2, 2)))
        y = tl.join(b, a)
    flat = tl.ravel(y)
    tl.store(out_ptr + tl.arange(0, flat.shape[0]), flat)


@triton.jit
def compare_swap_kernel(x_ptr, expected_ptr, new_ptr, old_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    old = tl.atomic_cas(x_ptr + offs, tl.load(expected_ptr + offs), tl.load(new_ptr + offs))
    tl.store(old_ptr + offs, old)


@triton.jit
def where_am_i_kernel(out_ptr):
    pid = tl.program_id(0) + tl.num_programs(0) * (tl.program_id(1) + tl.num_programs(1) * tl.program_id(2))
    tl.store(out_ptr + pid * 2, smid().to(tl.int64))
    tl.store(out_ptr + pid * 2 + 1, globaltimer())
