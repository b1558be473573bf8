"""Kernels that are bound by known things, each in one launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.traffic import ordered_matmul_kernel
from bench.planted_kernels import (
    atomics_kernel,
    attention_kernel,
    matmul_ws_kernel,
    spills_kernel,
    swizzled,
    transpose_kernel,
    unswizzled,
)
from tests.kernels.matmul_tma import matmul_tma_kernel

# ruff: noqa: N803
__all__ = ["CASES", "Launch", "Prepare", "matmul"]

Launch = Callable[[], Any]  # returns the compiled kernel
Prepare = Callable[[bool], Launch]  # makes tensors on torch's default device: small, or of a GPU's size


@triton.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * n_cols + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + offs, e / tl.sum(e, axis=0))


@triton.jit
def float32_dot_kernel(
    a_ptr, b_ptr, c_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        b = tl.load(b_ptr + (k + offs_k)[:, None] * N + offs_n[None, :])
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + tl.load(index_ptr + offs)))


@triton.jit
def scatter_kernel(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.load(index_ptr + offs), tl.load(x_ptr + offs))


@triton.jit
def division_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    """64-bit division for the indices of padded rows."""
    offs = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    row = offs // n_cols.to(tl.int64)
    column = offs % n_cols.to(tl.int64)
    tl.store(out_ptr + offs, tl.load(x_ptr + row * 4100 + column))


@triton.jit
def float64_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs).to(tl.float64)
    tl.store(out_ptr + offs, (tl.exp(x) + tl.sqrt(x * x + 1.0)).to(tl.float32))


def _random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=dtype)


def _copy(small: bool) -> Launch:
    x = _random(1 << (14 if small else 26))
    out = torch.empty_like(x)
    return lambda: copy_kernel[(x.numel() // 1024,)](x, out, BLOCK=1024)


def _softmax(small: bool) -> Launch:
    x = _random(16 if small else 8192, 4096)
    out = torch.empty_like(x)
    return lambda: softmax_kernel[(len(x),)](x, out, 4096, BLOCK=4096, num_warps=8)


def matmul(group: int, m: int = 4096, tile: int = 128, block_k: int = 64) -> Prepare:
    """Of m x m matrices; group: rows of tiles that programs in sequence share, 0 for all."""

    def prepare(small: bool) -> Launch:
        size = 4 * tile if small else m
        a, b = (_random(size, size, dtype=torch.float16) for _ in range(2))
        c = torch.empty_like(a)
        rows = size // tile
        tiles = {"BLOCK_M": tile, "BLOCK_N": tile, "BLOCK_K": block_k, "GROUP": group or rows}
        launch = ordered_matmul_kernel[(rows**2,)]
        return lambda: launch(a, b, c, size, size, size, **tiles, num_warps=4, num_stages=3)

    return prepare


def _float32_dot(small: bool) -> Launch:
    m = 128 if small else 2048
    a, b = (_random(m, m) for _ in range(2))
    c = torch.empty_like(a)
    tiles = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
    return lambda: float32_dot_kernel[(m // 64, m // 64)](a, b, c, m, m, **tiles, num_warps=4)


def _indexed(kernel: Any) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (14 if small else 24)
        x = _random(n)
        index = torch.randperm(n).to(torch.int32)
        out = torch.empty_like(x)
        return lambda: kernel[(n // 1024,)](x, index, out, BLOCK=1024)

    return prepare


def _division(small: bool) -> Launch:
    n = 1 << (14 if small else 24)
    x = _random(n + 3 * 4096)
    out = torch.empty(n)
    return lambda: division_kernel[(n // 1024,)](x, out, 4097, BLOCK=1024)


def _float64(small: bool) -> Launch:
    n = 1 << (14 if small else 24)
    x = _random(n)
    out = torch.empty_like(x)
    return lambda: float64_kernel[(n // 1024,)](x, out, BLOCK=1024)


def _atomics(small: bool) -> Launch:
    steps, programs = 16, 8 if small else 1056
    x = _random(steps * 256)
    counter = torch.zeros(1)
    out = torch.empty(programs)
    return lambda: atomics_kernel[(programs,)](x, counter, out, steps, EACH=True, BLOCK=256)


def _transpose(shared: Callable[[], Any]) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs = 8 if small else 1056
        x = _random(64, 64)
        out = torch.empty(programs, 64, 64)
        return lambda: transpose_kernel[(programs,)](x, out, 32, SIZE=64, SHARED=shared(), num_warps=4)

    return prepare


def _spills(small: bool) -> Launch:
    programs = 4 if small else 132
    x, y = (_random(8192) for _ in range(2))
    out = torch.empty(programs, 8192)
    return lambda: spills_kernel[(programs,)](x, y, out, 200, BLOCK=8192, num_warps=4, maxnreg=64)


def _tma(small: bool) -> Launch:
    m = 512 if small else 4096
    a, b = (_random(m, m, dtype=torch.float16) for _ in range(2))
    c = torch.empty_like(a)
    tiles = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "FLATTEN": False}
    return lambda: matmul_tma_kernel[(132,)](a, b, c, m, m, m, **tiles, num_warps=8, num_stages=3)


def _warp_specialised(small: bool) -> Launch:
    m = 512 if small else 4096
    a, b = (_random(m, m, dtype=torch.float16) for _ in range(2))
    c = torch.empty_like(a)
    tiles = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "BUFFERS": 3}
    return lambda: matmul_ws_kernel[(m // 128, m // 128)](a, b, c, m, m, m, **tiles, num_warps=4)


def _attention(small: bool) -> Launch:
    heads, length, head = (1, 256, 64) if small else (64, 4096, 64)
    q, k, v = (_random(heads, length, head, dtype=torch.float16) for _ in range(3))
    out = torch.empty_like(q)
    tiles = {"BLOCK_M": 128, "BLOCK_N": 64, "HEAD": head}
    grid = (length // 128, heads)
    return lambda: attention_kernel[grid](q, k, v, out, length, **tiles, num_warps=4, num_stages=2)


CASES: dict[str, Prepare] = {
    "copy": _copy,
    "softmax": _softmax,
    "matmul": matmul(8),
    "matmul, ungrouped": matmul(0, m=8192),
    "matmul, 32 x 32": matmul(8, tile=32, block_k=32, m=2048),
    "float32 dot": _float32_dot,
    "gather": _indexed(gather_kernel),
    "scatter": _indexed(scatter_kernel),
    "64-bit division": _division,
    "float64": _float64,
    "atomics": _atomics,
    "transpose, unswizzled": _transpose(unswizzled),
    "transpose, swizzled": _transpose(swizzled),
    "spills": _spills,
    "TMA matmul": _tma,
    "warp-specialised": _warp_specialised,
    "attention": _attention,
}
