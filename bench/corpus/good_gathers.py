"""Kernels without a fault whose addresses are data or turned."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, empty, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def embedding_kernel(table_ptr, index_ptr, out_ptr, DIM: tl.constexpr):
    dims = tl.arange(0, DIM)
    row = tl.load(index_ptr + tl.program_id(0)).to(tl.int64)
    tl.store(out_ptr + tl.program_id(0) * DIM + dims, tl.load(table_ptr + row * DIM + dims))


def _embedding(small: bool) -> Launch:
    rows, tokens = (64, 8) if small else (50304, 65536)
    table, index = random(rows, 2048, dtype=torch.bfloat16), integers(tokens, below=rows)
    out = empty(tokens, 2048, dtype=torch.bfloat16)
    return Launch(embedding_kernel, (tokens,), (table, index, out), (out,), {"DIM": 2048, "num_warps": 4})


@triton.jit
def histogram_kernel(x_ptr, out_ptr, steps, BINS: tl.constexpr, BLOCK: tl.constexpr):
    counts = tl.zeros((BINS,), dtype=tl.int32)
    for step in range(steps):
        offs = (tl.program_id(0) * steps + step) * BLOCK + tl.arange(0, BLOCK)
        counts += tl.histogram(tl.load(x_ptr + offs), BINS)
    tl.store(out_ptr + tl.program_id(0) * BINS + tl.arange(0, BINS), counts)


def _histogram(small: bool) -> Launch:
    programs, steps = (2, 2) if small else (132 * 16, 8)
    x, out = integers(programs * steps * 2048, below=256), zeros(programs, 256, dtype=torch.int32)
    options = {"BINS": 256, "BLOCK": 2048, "num_warps": 4}
    return Launch(histogram_kernel, (programs,), (x, out, steps), (out,), options)


@triton.jit
def transpose_kernel(x_ptr, out_ptr, rows, cols, TILE: tl.constexpr):
    rs = tl.program_id(0) * TILE + tl.arange(0, TILE)
    cs = tl.program_id(1) * TILE + tl.arange(0, TILE)
    x = tl.load(x_ptr + rs[:, None] * cols + cs[None, :])
    tl.store(out_ptr + cs[:, None] * rows + rs[None, :], tl.trans(x))


def _transpose(small: bool) -> Launch:
    n = 128 if small else 8192
    x, out = random(n, n), empty(n, n)
    return Launch(transpose_kernel, (n // 64, n // 64), (x, out, n, n), (out,), {"TILE": 64, "num_warps": 8})


CASES = (
    Case("good embedding", (), _embedding),
    Case("good histogram", (), _histogram),
    Case("good transpose", (), _transpose),
)
