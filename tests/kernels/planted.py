"""Kernels with a known fault. A comment `# fault: NAME` stands on each line that a finding may name."""

from __future__ import annotations

import triton
import triton.language as tl

# ruff: noqa: N803
__all__ = ["late_warp_kernel", "layer_norm_kernel", "one_pass_kernel"]


@triton.jit
def layer_norm_kernel(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    """A row a program, read three times."""
    x_ptr += tl.program_id(0) * n_cols
    y_ptr += tl.program_id(0) * n_cols
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, n_cols, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n_cols
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, n_cols, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)  # fault: redundant-load
        x = tl.where(cols < n_cols, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / n_cols + eps)
    for off in range(0, n_cols, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)  # fault: redundant-load
        tl.store(y_ptr + cols, (x - mean) * rstd, mask=cols < n_cols)


@triton.jit
def one_pass_kernel(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    """The same, with the row in registers."""
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + tl.program_id(0) * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    x = tl.where(mask, x - tl.sum(x, axis=0) / n_cols, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(y_ptr + tl.program_id(0) * n_cols + cols, x * rstd, mask=mask)


@triton.jit
def late_warp_kernel(x_ptr, turns_ptr, out_ptr, rounds, BLOCK: tl.constexpr):
    """Threads go round as often as their element says; then the CTA reduces."""
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    turns = tl.load(turns_ptr + offs)
    total = 0.0
    for _ in range(rounds):
        x = tl.inline_asm_elementwise(  # fault: late-warp
            """{
            .reg .pred %more;
            .reg .u32 %i;
            mov.u32 %i, $2;
            mov.f32 $0, $1;
            again:
            fma.rn.f32 $0, $0, 0f3F7FBE77, 0f3F000000;
            sub.u32 %i, %i, 1;
            setp.ne.u32 %more, %i, 0;
            @%more bra again;
            }""",
            "=&f,f,r",
            [x, turns],  # fault: late-warp
            dtype=tl.float32,
            is_pure=False,
            pack=1,
        )
        total += tl.sum(x, axis=0)  # fault: late-warp
    tl.store(out_ptr + tl.program_id(0), total)
