"""Profile a fused softmax and a pipelined matrix product, check their results and save the trace.

    python -m profscope.demo trace.json

Runs on the GPU where there is one, else on the emulator, with smaller inputs.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import triton
import triton.language as tl

import profscope

__all__ = ["main", "matmul", "softmax"]


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
    for k in tl.range(0, K, BLOCK_K, num_stages=3):
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


def main(argv: list[str]) -> int:
    """Write the trace to the path given; returns an exit code."""
    if len(argv) != 1:
        print("usage: python -m profscope.demo TRACE.json", file=sys.stderr)  # noqa: T201
        return 2
    gpu = torch.cuda.is_available()
    size: dict[str, Any] = (
        {"rows": 8192, "cols": 4096, "side": 2048, "block": 128}
        if gpu
        else {"rows": 1024, "cols": 1024, "side": 512, "block": 64}
    )
    device = "cuda" if gpu else "cpu"
    torch.manual_seed(0)
    x = torch.randn(size["rows"], size["cols"], device=device)
    a, b = (torch.randn(size["side"], size["side"], device=device).half() for _ in range(2))
    with profscope.session() as prof:
        weights = softmax(x, programs=128)
        c = matmul(a, b, size["block"])
    torch.testing.assert_close(weights, torch.softmax(x, 1))
    torch.testing.assert_close(c, (a.float() @ b.float()).half(), rtol=1e-2, atol=1e-1)
    prof.save(argv[0])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
