"""Products by broadcast and sum."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def broadcast_matmul_kernel(
    a_ptr, b_ptr, c_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        b = tl.load(b_ptr + offs_n[:, None] * K + (k + offs_k)[None, :])
        acc += tl.sum(a.to(tl.float32)[:, None, :] * b.to(tl.float32)[None, :, :], 2)  # fault
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


@triton.jit
def transposed_matmul_kernel(
    a_ptr, b_ptr, c_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """b is stored by columns."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        b = tl.load(b_ptr + offs_n[:, None] * K + (k + offs_k)[None, :])
        acc = tl.dot(a, tl.trans(b), acc)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


def _transposed_matmul(
    kernel: Any, m: int, n: int, k: int, tile: tuple[int, int, int], warps: int = 4
) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols, depth = (64, 64, 128) if small else (m, n, k)
        a, b = random(rows, depth, dtype=torch.bfloat16), random(cols, depth, dtype=torch.bfloat16)
        c = empty(rows, cols)
        options = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
        options |= {"num_warps": warps, "num_stages": 3}
        grid = (cols // tile[1], rows // tile[0])
        return Launch(kernel, grid, (a, b, c, cols, depth), (c,), options)

    return prepare


@triton.jit
def interaction_kernel(
    x_ptr, out_ptr, FEATURES: tl.constexpr, D: tl.constexpr, PART: tl.constexpr, DOT: tl.constexpr
):
    """Products of each two feature vectors of a sample, as a click model joins its features."""
    row, column = tl.arange(0, FEATURES), tl.arange(0, FEATURES)
    x = x_ptr + tl.program_id(0).to(tl.int64) * FEATURES * D
    if DOT:
        tile = tl.load(x + row[:, None] * D + tl.arange(0, D)[None, :])
        total = tl.dot(tile, tl.trans(tile))
    else:
        total = tl.zeros((FEATURES, FEATURES), dtype=tl.float32)
        for start in range(0, D, PART):
            part = (start + tl.arange(0, PART))[None, None, :]
            left = tl.load(x + row[:, None, None] * D + part).to(tl.float32)
            right = tl.load(x + column[None, :, None] * D + part).to(tl.float32)
            total += tl.sum(left * right, 2)  # fault
    out = out_ptr + tl.program_id(0) * FEATURES * FEATURES
    tl.store(out + row[:, None] * FEATURES + column[None, :], total.to(tl.float16))


def _interaction(dot: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        samples = 4 if small else 32768
        x = random(samples, 32, 128, dtype=torch.float16)
        out = empty(samples, 32, 32, dtype=torch.float16)
        options = {"FEATURES": 32, "D": 128, "PART": 16, "DOT": dot, "num_warps": 4}
        return Launch(interaction_kernel, (samples,), (x, out), (out,), options)

    return prepare


CASES = (
    Case(
        "decode by broadcast",
        ("no-tensor-cores",),
        _transposed_matmul(broadcast_matmul_kernel, 64, 8192, 4096, (16, 32, 64), 8),
        _transposed_matmul(transposed_matmul_kernel, 64, 8192, 4096, (64, 64, 64)),
    ),
    Case("features of clicks paired by sums", ("no-tensor-cores",), _interaction(False), _interaction(True)),
)
