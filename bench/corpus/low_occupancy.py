"""SMs with few warps, which wait for memory at the same time."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def mean_of_rows_kernel(table_ptr, index_ptr, out_ptr, bags, BAG: tl.constexpr, DIM: tl.constexpr):
    """Means of a bag's rows; programs walk over bags."""
    dims = tl.arange(0, DIM)
    for bag in range(tl.program_id(0), bags, tl.num_programs(0)):
        acc = tl.zeros((DIM,), dtype=tl.float32)
        for i in range(BAG):
            row = tl.load(index_ptr + bag * BAG + i)
            acc += tl.load(table_ptr + row * DIM + dims).to(tl.float32)
        tl.store(out_ptr + bag * DIM + dims, acc / BAG)


def _mean_of_rows(programs: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        bags, rows = (16, 64) if small else (16384, 1 << 20)
        table = random(rows, 128, dtype=torch.float16)
        index, out = integers(bags, 16, below=rows), empty(bags, 128)
        grid = (programs // 132 if small else programs,)
        options = {"BAG": 16, "DIM": 128, "num_warps": 1}
        return Launch(mean_of_rows_kernel, grid, (table, index, out, bags), (out,), options)

    return prepare


@triton.jit
def adapter_expand_kernel(
    x_ptr, b_ptr, out_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """A narrow activation times the wide matrix of an adapter."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    b = b_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(b), acc)
        x += BLOCK_K
        b += BLOCK_K * N
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _adapter_expand(stages: int) -> Prepare:
    """Buffers of 5 stages are 120 KB, so an SM holds one CTA, whose loads, products and stores alternate."""

    def prepare(small: bool) -> Launch:
        m, n, k = (128, 256, 128) if small else (16896, 4096, 128)
        x, b = random(m, k, dtype=torch.float16), random(k, n, dtype=torch.float16) * 0.1
        out = empty(m, n, dtype=torch.float16)
        options = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": stages}
        return Launch(adapter_expand_kernel, (n // 64, m // 128), (x, b, out, n, k), (out,), options)

    return prepare


CASES = (
    Case(
        "bags of rows by lone warps",
        ("low-occupancy", "exposed-latency"),
        _mean_of_rows(132 * 2),
        _mean_of_rows(132 * 32),
        emulator=False,
    ),
    Case(
        "short depth of 5 stages", ("low-occupancy",), _adapter_expand(5), _adapter_expand(2), emulator=False
    ),
)
