"""One matmul kernel with other options."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def ordered_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """GROUP: rows of tiles that programs in sequence share."""
    pid = tl.program_id(0)
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    first = pid // (GROUP * blocks_n) * GROUP
    size = tl.minimum(blocks_m - first, GROUP)
    block_m = first + pid % (GROUP * blocks_n) % size
    block_n = pid % (GROUP * blocks_n) // size
    offs_m = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs)  # fault
        b = tl.load(b_ptrs)  # fault
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))


def _matmul(
    size: tuple[int, int, int], tile: tuple[int, int, int], warps: int, stages: int,
    dtype: torch.dtype = torch.float16,
) -> Prepare:  # fmt: skip
    def prepare(small: bool) -> Launch:
        m, n, k = (256, 256, 256) if small else size
        a, b, c = random(m, k, dtype=dtype), random(k, n, dtype=dtype), empty(m, n, dtype=dtype)
        options = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
        options |= {"GROUP": 8, "num_warps": warps, "num_stages": stages}
        grid = ((m // tile[0]) * (n // tile[1]),)
        return Launch(ordered_matmul_kernel, grid, (a, b, c, m, n, k), (c,), options)

    return prepare


_CUBE = (4096, 4096, 4096)

CASES = (
    Case(
        "matmul of 1 stage",
        ("few-stages", "exposed-latency"),
        _matmul(_CUBE, (128, 256, 64), 8, 1),
        _matmul(_CUBE, (128, 256, 64), 8, 3),
        emulator=False,
    ),
    Case(
        "matmul by 2 warps",
        ("small-mma",),
        _matmul(_CUBE, (64, 128, 64), 2, 3),
        _matmul(_CUBE, (64, 128, 64), 4, 3),
        emulator=False,
    ),
    Case("good matmul, bfloat16", (), _matmul((4224, 4096, 8192), (128, 256, 64), 8, 4, torch.bfloat16)),
)
