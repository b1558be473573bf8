"""Warp-specialised products, fed from few buffers or from enough."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random
from tests.kernels.matmul_tma import matmul_tma_kernel

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def specialised_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    off_m, off_n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), warp_specialize=True, num_stages=STAGES):
        a = a_desc.load([off_m, k * BLOCK_K])  # fault
        b = b_desc.load([off_n, k * BLOCK_K])  # fault
        acc = tl.dot(a, b.T, acc)
    c_desc.store([off_m, off_n], acc.to(tl.float16))


def _specialised(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        m = 256 if small else 4096
        a, b = (random(m, m, dtype=torch.float16) for _ in range(2))
        c = empty(m, m, dtype=torch.float16)
        options = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "STAGES": stages, "num_warps": 4}
        grid = (m // 128, m // 128)
        return Launch(specialised_matmul_kernel, grid, (a, b, c, m, m, m), (c,), options)

    return prepare


@triton.jit
def described_pairs_kernel(
    x_ptr, out_ptr, rows, SIDE: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Products of all pairs of vectors of a set; a partition of warps loads what another one multiplies."""
    x_tiles = tl.make_tensor_descriptor(x_ptr, [rows, K], [K, 1], [BLOCK, BLOCK_K])
    out_tiles = tl.make_tensor_descriptor(out_ptr, [rows, SIDE], [SIDE, 1], [BLOCK, BLOCK])
    first = tl.program_id(2) * SIDE
    off_m, off_n = first + tl.program_id(1) * BLOCK, first + tl.program_id(0) * BLOCK
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in tl.range(0, K // BLOCK_K, warp_specialize=True):
        x = x_tiles.load([off_m, k * BLOCK_K])  # fault
        y = x_tiles.load([off_n, k * BLOCK_K])  # fault
        acc = tl.dot(x, y.T, acc)  # fault
    out_tiles.store([off_m, tl.program_id(0) * BLOCK], acc.to(tl.float16))


def _described_pairs(block_k: int, stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        sets, side, k = (1, 256, 128) if small else (33, 1024, 1024)
        x = random(sets * side, k, dtype=torch.float16)
        out = empty(sets * side, side, dtype=torch.float16)
        options = {"SIDE": side, "K": k, "BLOCK": 128, "BLOCK_K": block_k}
        options |= {"num_warps": 4, "num_stages": stages}
        grid = (side // 128, side // 128, sets)
        return Launch(described_pairs_kernel, grid, (x, out, sets * side), (out,), options)

    return prepare


def _tma_matmul(small: bool) -> Launch:
    m, n, k = (256, 256, 256) if small else (128 * 33, 4096, 4096)
    a, b = random(m, k, dtype=torch.float16), random(n, k, dtype=torch.float16)
    c = empty(m, n, dtype=torch.float16)
    options = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "FLATTEN": False}
    options |= {"num_warps": 8, "num_stages": 3}
    grid = (2 if small else 132,)
    return Launch(matmul_tma_kernel, grid, (a, b, c, m, n, k), (c,), options)


CASES = (
    Case(
        "partitions with two buffers",
        ("partition-starved", "few-stages"),
        _specialised(2),
        _specialised(4),
        emulator=False,
    ),
    Case(
        "pairs through thin buffers",
        ("partition-starved", "few-stages"),
        _described_pairs(32, 2),
        _described_pairs(64, 4),
        emulator=False,
        least=90,
    ),
    Case("good TMA matmul", (), _tma_matmul),
)
