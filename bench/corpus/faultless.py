"""Kernels without a fault: near a roof of the GPU, or tuned."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random, zeros
from bench.corpus.traffic import ordered_matmul
from bench.corpus.triangles import attention
from tests.kernels.matmul_tma import matmul_tma_kernel

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs) + tl.load(y_ptr + offs))


@triton.jit
def swiglu_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + offs).to(tl.float32), tl.load(y_ptr + offs).to(tl.float32)
    tl.store(out_ptr + offs, (x * tl.sigmoid(x) * y).to(tl.bfloat16))


@triton.jit
def polynomial_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = x
    for _ in tl.static_range(96):
        y = y * x + 0.25
    tl.store(out_ptr + offs, y)


@triton.jit
def exponentials_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """A logarithm of sums of exponentials that no cheaper form has."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    for _ in tl.static_range(16):
        x = tl.exp2(x * -0.5)
    tl.store(out_ptr + offs, x)


@triton.jit
def quantise_kernel(x_ptr, out_ptr, scale, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs).to(tl.float32) * scale
    x = tl.minimum(tl.maximum(x, -127.0), 127.0)
    tl.store(out_ptr + offs, x.to(tl.int8))


def _elementwise(
    kernel: Any,
    n: int,
    inputs: int,
    dtype: torch.dtype,
    block: int = 2048,
    *,
    scalars: tuple[Any, ...] = (),
    out_dtype: torch.dtype | None = None,
    positive: bool = False,
    warps: int = 4,
) -> Prepare:
    def prepare(small: bool) -> Launch:
        length = 4 * block if small else n
        make = torch.rand if positive else random
        xs = tuple(make(length).to(dtype) for _ in range(inputs))
        out = empty(length, dtype=out_dtype or dtype)
        options = {"BLOCK": block, "num_warps": warps}
        return Launch(kernel, (length // block,), (*xs, out, *scalars), (out,), options)

    return prepare


_quantise = _elementwise(quantise_kernel, 1 << 27, 1, torch.float16, scalars=(32.0,), out_dtype=torch.int8)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, COLS: tl.constexpr):
    offs = tl.program_id(0) * COLS + tl.arange(0, COLS)
    x = tl.load(x_ptr + offs).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + offs, (e / tl.sum(e, 0)).to(out_ptr.dtype.element_ty))


@triton.jit
def layer_norm_kernel(x_ptr, out_ptr, w_ptr, b_ptr, COLS: tl.constexpr):
    cols = tl.arange(0, COLS)
    offs = tl.program_id(0) * COLS + cols
    x = tl.load(x_ptr + offs).to(tl.float32)
    away = x - tl.sum(x, 0) / COLS
    y = away * tl.rsqrt(tl.sum(away * away, 0) / COLS + 1e-5)
    tl.store(out_ptr + offs, (y * tl.load(w_ptr + cols) + tl.load(b_ptr + cols)).to(tl.bfloat16))


@triton.jit
def rms_norm_kernel(x_ptr, out_ptr, w_ptr, COLS: tl.constexpr):
    cols = tl.arange(0, COLS)
    offs = tl.program_id(0) * COLS + cols
    x = tl.load(x_ptr + offs).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, 0) / COLS + 1e-6)
    tl.store(out_ptr + offs, (y * tl.load(w_ptr + cols)).to(tl.float16))


@triton.jit
def running_sum_kernel(x_ptr, out_ptr, COLS: tl.constexpr):
    offs = tl.program_id(0) * COLS + tl.arange(0, COLS)
    tl.store(out_ptr + offs, tl.cumsum(tl.load(x_ptr + offs), 0))


def _by_row(kernel: Any, rows: int, cols: int, dtype: torch.dtype, warps: int, weights: int = 0) -> Prepare:
    def prepare(small: bool) -> Launch:
        count = 4 if small else rows
        x, out = random(count, cols, dtype=dtype), empty(count, cols, dtype=dtype)
        more = tuple(random(cols) for _ in range(weights))
        return Launch(kernel, (count,), (x, out, *more), (out,), {"COLS": cols, "num_warps": warps})

    return prepare


@triton.jit
def cross_entropy_kernel(x_ptr, target_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """Loss of a row of logits in one pass, with peaks and sums of each lane."""
    base = tl.program_id(0).to(tl.int64) * cols
    peak = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        x = tl.load(x_ptr + base + start + tl.arange(0, BLOCK)).to(tl.float32)
        now = tl.maximum(peak, x)
        total = total * tl.exp(peak - now) + tl.exp(x - now)
        peak = now
    most = tl.max(peak, 0)
    target = tl.load(x_ptr + base + tl.load(target_ptr + tl.program_id(0))).to(tl.float32)
    loss = most + tl.log(tl.sum(total * tl.exp(peak - most), 0)) - target
    tl.store(out_ptr + tl.program_id(0), loss)


def _cross_entropy(small: bool) -> Launch:
    rows, cols = (2, 8192) if small else (4096, 65536)
    x, target, out = random(rows, cols, dtype=torch.bfloat16), integers(rows, below=cols), empty(rows)
    options = {"BLOCK": 4096, "num_warps": 8}
    return Launch(cross_entropy_kernel, (rows,), (x, target, out, cols), (out,), options)


@triton.jit
def sum_kernel(x_ptr, out_ptr, per_program, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    base = tl.program_id(0) * per_program
    for start in range(0, per_program, BLOCK):
        acc += tl.load(x_ptr + base + start + tl.arange(0, BLOCK))
    tl.store(out_ptr + tl.program_id(0), tl.sum(acc, 0))


def _sum(small: bool) -> Launch:
    programs, each = (2, 16384) if small else (132 * 16, 1 << 15)
    x, out = random(programs * each), empty(programs)
    return Launch(sum_kernel, (programs,), (x, out, each), (out,), {"BLOCK": 4096, "num_warps": 4})


@triton.jit
def column_sum_kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    columns = tl.program_id(0) * COLS + tl.arange(0, COLS)
    acc = tl.zeros((ROWS, COLS), dtype=tl.float32)
    first = tl.program_id(1) * (rows // tl.num_programs(1))
    for start in range(0, rows // tl.num_programs(1), ROWS):
        row = first + start + tl.arange(0, ROWS)
        acc += tl.load(x_ptr + row[:, None] * cols + columns[None, :]).to(tl.float32)
    tl.store(out_ptr + tl.program_id(1) * cols + columns, tl.sum(acc, 0))


def _column_sum(small: bool) -> Launch:
    rows, cols, splits = (128, 512, 2) if small else (1 << 14, 8448, 32)
    x, out = random(rows, cols, dtype=torch.float16), empty(splits, cols)
    options = {"ROWS": 16, "COLS": 256, "num_warps": 4}
    return Launch(column_sum_kernel, (cols // 256, splits), (x, out, rows, cols), (out,), options)


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
def rope_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, HEADS: tl.constexpr, HALF: tl.constexpr):
    """Rotates the halves of each head of one position."""
    heads, half = tl.arange(0, HEADS), tl.arange(0, HALF)
    base = tl.program_id(0) * HEADS * HALF * 2
    offs = base + heads[:, None] * (2 * HALF) + half[None, :]
    cos = tl.load(cos_ptr + tl.program_id(0) * HALF + half)[None, :]
    sin = tl.load(sin_ptr + tl.program_id(0) * HALF + half)[None, :]
    x, y = tl.load(x_ptr + offs).to(tl.float32), tl.load(x_ptr + offs + HALF).to(tl.float32)
    tl.store(out_ptr + offs, (x * cos - y * sin).to(tl.bfloat16))
    tl.store(out_ptr + offs + HALF, (y * cos + x * sin).to(tl.bfloat16))


def _rope(small: bool) -> Launch:
    positions = 4 if small else 32768
    x, out = (random(positions, 32, 128, dtype=torch.bfloat16) for _ in range(2))
    angles = torch.rand(positions, 64)
    args = (x, angles.cos(), angles.sin(), out)
    return Launch(rope_kernel, (positions,), args, (out,), {"HEADS": 32, "HALF": 64, "num_warps": 4})


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
def matvec_kernel(w_ptr, x_ptr, out_ptr, K, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        w = tl.load(w_ptr + rows[:, None] * K + cols[None, :]).to(tl.float32)
        acc += w * tl.load(x_ptr + cols).to(tl.float32)[None, :]
    tl.store(out_ptr + rows, tl.sum(acc, 1))


def _matvec(small: bool) -> Launch:
    m, k = (32, 1024) if small else (33792, 8192)
    w, x, out = random(m, k, dtype=torch.float16), random(k, dtype=torch.float16), empty(m)
    return Launch(matvec_kernel, (m // 8,), (w, x, out, k), (out,), {"ROWS": 8, "BLOCK": 512, "num_warps": 4})


@triton.jit
def batched_matmul_kernel(a_ptr, b_ptr, c_ptr, SIDE: tl.constexpr):
    """One product of small matrices a program; bound by memory."""
    rs, cs = tl.arange(0, SIDE), tl.arange(0, SIDE)
    offs = tl.program_id(0) * SIDE * SIDE + rs[:, None] * SIDE + cs[None, :]
    c = tl.dot(tl.load(a_ptr + offs), tl.load(b_ptr + offs))
    tl.store(c_ptr + offs, c.to(tl.float16))


def _batched_matmul(small: bool) -> Launch:
    batch = 4 if small else 1 << 14
    a, b, c = (random(batch, 64, 64, dtype=torch.float16) for _ in range(3))
    return Launch(batched_matmul_kernel, (batch,), (a, b, c), (c,), {"SIDE": 64, "num_warps": 4})


@triton.jit
def persistent_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    blocks_m, blocks_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    for tile in range(tl.program_id(0), blocks_m * blocks_n, tl.num_programs(0)):
        first = tile // (GROUP * blocks_n) * GROUP
        size = tl.minimum(blocks_m - first, GROUP)
        offs_m = (first + tile % (GROUP * blocks_n) % size) * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = tile % (GROUP * blocks_n) // size * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
            b = tl.load(b_ptr + (k + offs_k)[:, None] * N + offs_n[None, :])
            acc = tl.dot(a, b, acc)
        tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _persistent_matmul(small: bool) -> Launch:
    m, n, k = (256, 256, 128) if small else (128 * 33, 256 * 16, 4096)
    a, b = random(m, k, dtype=torch.float16), random(k, n, dtype=torch.float16)
    c = empty(m, n, dtype=torch.float16)
    options = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP": 8, "num_warps": 8, "num_stages": 3}
    grid = (2 if small else 132,)
    return Launch(persistent_matmul_kernel, grid, (a, b, c, m, n, k), (c,), options)


def _tma_matmul(depth: int, block_k: int, dtype: torch.dtype) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (256, 256, 256) if small else (128 * 33, 4096, depth)
        a, b = random(m, k, dtype=dtype), random(n, k, dtype=dtype)
        c = empty(m, n, dtype=torch.float16)
        options = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": block_k, "FLATTEN": False}
        options |= {"num_warps": 8, "num_stages": 3}
        grid = (2 if small else 132,)
        return Launch(matmul_tma_kernel, grid, (a, b, c, m, n, k), (c,), options)

    return prepare


def _liger_rms_norm(small: bool) -> Launch:
    from liger_kernel.ops.rms_norm import _rms_norm_forward_kernel

    rows, cols = (4, 1024) if small else (16384, 4096)
    x, w = random(rows, cols, dtype=torch.bfloat16), random(cols, dtype=torch.bfloat16)
    out, rstd = empty(rows, cols, dtype=torch.bfloat16), empty(rows)
    args = (out, cols, x, cols, w, 1, rstd, 1, cols, 1e-6, 0.0)
    options = {"casting_mode": 0, "elementwise_affine": True, "BLOCK_SIZE": cols, "num_warps": 8}
    return Launch(_rms_norm_forward_kernel, (rows,), args, (out,), options)


def _liger_swiglu(small: bool) -> Launch:
    from liger_kernel.ops.swiglu import _swiglu_forward_kernel

    rows, cols = (4, 1024) if small else (16384, 4096)
    a, b, c = (random(rows, cols, dtype=torch.bfloat16) for _ in range(3))
    options = {"n_cols": cols, "BLOCK_SIZE": cols, "num_warps": 8}
    return Launch(_swiglu_forward_kernel, (rows,), (a, b, c, cols, 1.0), (c,), options)


def _liger_geglu(small: bool) -> Launch:
    from liger_kernel.ops.geglu import _geglu_tanh_forward_kernel

    rows, cols = (4, 1024) if small else (16384, 4096)
    a, b, c = (random(rows, cols, dtype=torch.bfloat16) for _ in range(3))
    options = {"n_cols": cols, "BLOCK_SIZE": cols, "num_warps": 8}
    return Launch(_geglu_tanh_forward_kernel, (rows,), (a, b, c, cols), (c,), options)


def _good(name: str, prepare: Prepare, least: int = 80) -> Case:
    return Case(name, (), (), True, prepare, least=least)


_FP8 = torch.float8_e4m3fn
_bfloat16_matmul = ordered_matmul((4224, 4096, 8192), (128, 256, 64), 8, 8, 4, torch.bfloat16)

CASES = (
    _good("good copy", _elementwise(copy_kernel, 1 << 27, 1, torch.bfloat16)),
    _good("good add", _elementwise(add_kernel, 1 << 26, 2, torch.float32, 1024)),
    _good("good swiglu", _elementwise(swiglu_kernel, 1 << 26, 2, torch.bfloat16)),
    _good("good polynomial", _elementwise(polynomial_kernel, 1 << 26, 1, torch.float32, 1024, positive=True)),
    _good("good exponentials", _elementwise(exponentials_kernel, 1 << 26, 1, torch.float32, 1024)),
    _good("good quantise", _quantise),
    _good("good softmax", _by_row(softmax_kernel, 16384, 4096, torch.float32, 8)),
    _good("good layer norm", _by_row(layer_norm_kernel, 16384, 4096, torch.bfloat16, 8, 2)),
    _good("good rms norm", _by_row(rms_norm_kernel, 32768, 2048, torch.float16, 4, 1)),
    _good("good running sum", _by_row(running_sum_kernel, 32768, 2048, torch.float32, 4)),
    _good("good cross-entropy", _cross_entropy),
    _good("good sum", _sum),
    _good("good column sum", _column_sum),
    _good("good transpose", _transpose),
    _good("good embedding", _embedding),
    _good("good rope", _rope),
    _good("good histogram", _histogram),
    _good("good matvec", _matvec),
    _good("good batched matmul", _batched_matmul),
    _good("good matmul", ordered_matmul((4224, 4096, 4096), (128, 256, 64), 8, 8, 3)),
    _good("good matmul, bfloat16", _bfloat16_matmul),
    _good("good TMA matmul, float8", _tma_matmul(8192, 128, _FP8), 90),
    _good("good persistent matmul", _persistent_matmul),
    _good("good TMA matmul", _tma_matmul(4096, 64, torch.float16)),
    _good("good attention", attention(causal=False, rows=128, keys=128, head=128, warps=8, stages=2)),
    _good("good causal attention", attention(causal=True, warps=4, stages=3)),
    _good("liger rms norm", _liger_rms_norm),
    _good("liger swiglu", _liger_swiglu),
    _good("liger geglu", _liger_geglu),
)  # fmt: skip
