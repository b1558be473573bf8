"""A fused softmax, and a matrix product with a fault: its loop of one stage waits for each load."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["matmul", "softmax"]


@triton.jit
def softmax_kernel(out_ptr, in_ptr, rows, cols, BLOCK: tl.constexpr):  # noqa: N803
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        offs = tl.arange(0, BLOCK)
        x = tl.load(in_ptr + row * cols + offs, mask=offs < cols, other=-float("inf"))
        weights = tl.exp(x - tl.max(x, 0))
        tl.store(out_ptr + row * cols + offs, weights / tl.sum(weights, 0), mask=offs < cols)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr  # noqa: N803
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K, num_stages=1):  # fault: few-stages
        a = tl.load(a_ptr + rows[:, None] * K + (k + inner)[None, :])
        b = tl.load(b_ptr + (k + inner)[:, None] * N + cols[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], total.to(tl.float16))


def softmax(x: torch.Tensor, programs: int) -> torch.Tensor:
    """Softmax of each row of a contiguous float32 matrix, by this many programs."""
    out = torch.empty_like(x)
    rows, cols = x.shape
    softmax_kernel[(programs,)](out, x, rows, cols, BLOCK=triton.next_power_of_2(cols))
    return out


def matmul(a: torch.Tensor, b: torch.Tensor, block: int) -> torch.Tensor:
    """Product of two contiguous float16 matrices whose sizes are multiples of `block` (at least 32)."""
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    matmul_kernel[(m // block, n // block)](a, b, c, m, n, k, BLOCK_M=block, BLOCK_N=block, BLOCK_K=32)
    return c
