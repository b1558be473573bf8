"""Second round, kernels without a fault: near a roof of the GPU, or tuned."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, empty, faultless_of, integers, random
from bench.corpus.second_launch import cached_heads
from bench.corpus.second_math import best_logit, n_body
from bench.corpus.second_products import attention_window, convolution, decode_product, gate_and_up

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def adam_kernel(p_ptr, g_ptr, m_ptr, v_ptr, p_out_ptr, m_out_ptr, v_out_ptr, rate, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(g_ptr + offs)
    m = 0.9 * tl.load(m_ptr + offs) + 0.1 * g
    v = 0.999 * tl.load(v_ptr + offs) + 0.001 * g * g
    tl.store(m_out_ptr + offs, m)
    tl.store(v_out_ptr + offs, v)
    tl.store(p_out_ptr + offs, tl.load(p_ptr + offs) - rate * m / (tl.sqrt(v) + 1e-8))


def _adam(small: bool) -> Launch:
    n = 1 << (12 if small else 25)
    p, g, m, v = random(n), random(n), random(n), torch.rand(n)
    outs = (empty(n), empty(n), empty(n))
    options = {"BLOCK": 1024, "num_warps": 4}
    return Launch(adam_kernel, (n // 1024,), (p, g, m, v, *outs, 1e-3), outs, options)


@triton.jit
def five_points_kernel(x_ptr, out_ptr, HEIGHT, WIDTH, ROWS: tl.constexpr, COLS: tl.constexpr):
    """One step of heat flow over an image with a border; neighbours come from the cache."""
    row = 1 + tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    at = row[:, None] * WIDTH + col[None, :]
    inside = (col > 0) & (col < WIDTH - 1)
    x = tl.load(x_ptr + at)
    left = tl.load(x_ptr + at - 1, mask=inside[None, :], other=0.0)
    right = tl.load(x_ptr + at + 1, mask=inside[None, :], other=0.0)
    around = tl.load(x_ptr + at - WIDTH) + tl.load(x_ptr + at + WIDTH) + left + right
    tl.store(out_ptr + at, x + 0.1 * (around - 4.0 * x))


def _five_points(small: bool) -> Launch:
    height, width = (16, 512) if small else (16384, 8192)
    x, out = random(height + 2, width), torch.zeros(height + 2, width)
    options = {"ROWS": 4, "COLS": 512, "num_warps": 8}
    grid = (width // 512, height // 4)
    return Launch(five_points_kernel, grid, (x, out, height, width), (out,), options)


@triton.jit
def quantised_rows_kernel(x_ptr, out_ptr, scale_ptr, COLS: tl.constexpr):
    """Rows as bytes, scaled by the row's peak."""
    offs = tl.program_id(0) * COLS + tl.arange(0, COLS)
    x = tl.load(x_ptr + offs).to(tl.float32)
    peak = tl.max(tl.abs(x), 0)
    tl.store(out_ptr + offs, (x * (127.0 / peak)).to(tl.int8))
    tl.store(scale_ptr + tl.program_id(0), peak / 127.0)


def _quantised_rows(small: bool) -> Launch:
    rows, cols = (4, 4096) if small else (32768, 4096)
    x, out = random(rows, cols, dtype=torch.bfloat16), empty(rows, cols, dtype=torch.int8)
    scale = empty(rows)
    options = {"COLS": cols, "num_warps": 4}
    return Launch(quantised_rows_kernel, (rows,), (x, out, scale), (out, scale), options)


@triton.jit
def sorted_tokens_kernel(x_ptr, order_ptr, out_ptr, DIM: tl.constexpr):
    """Tokens in the order of their experts."""
    dims = tl.arange(0, DIM)
    token = tl.load(order_ptr + tl.program_id(0)).to(tl.int64)
    tl.store(out_ptr + tl.program_id(0) * DIM + dims, tl.load(x_ptr + token * DIM + dims))


def _sorted_tokens(small: bool) -> Launch:
    tokens = 8 if small else 32768
    x, out = (random(tokens, 4096, dtype=torch.bfloat16) for _ in range(2))
    order = torch.randperm(tokens).int()
    options = {"DIM": 4096, "num_warps": 4}
    return Launch(sorted_tokens_kernel, (tokens,), (x, order, out), (out,), options)


@triton.jit
def swapped_heads_kernel(x_ptr, out_ptr, length, heads, ROWS: tl.constexpr, DIM: tl.constexpr):
    """[batch, position, head, dim] to [batch, head, position, dim]."""
    position = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d, head, batch = tl.arange(0, DIM), tl.program_id(1), tl.program_id(2)
    x = tl.load(x_ptr + ((batch * length + position) * heads + head)[:, None] * DIM + d[None, :])
    tl.store(out_ptr + ((batch * heads + head) * length + position)[:, None] * DIM + d[None, :], x)


def _swapped_heads(small: bool) -> Launch:
    batch, length, heads, dim = (1, 64, 2, 128) if small else (8, 4096, 32, 128)
    x = random(batch, length, heads, dim, dtype=torch.float16)
    out = empty(batch, heads, length, dim, dtype=torch.float16)
    options = {"ROWS": 32, "DIM": dim, "num_warps": 4}
    grid = (length // 32, heads, batch)
    return Launch(swapped_heads_kernel, grid, (x, out, length, heads), (out,), options)


@triton.jit
def pooled_rows_kernel(x_ptr, out_ptr, pixels, PIXELS: tl.constexpr, CHANNELS: tl.constexpr):
    """Peaks of channels over the pixels of an image, channels last."""
    channel = tl.arange(0, CHANNELS)
    acc = tl.full((PIXELS, CHANNELS), -1e30, dtype=tl.float32)
    for start in range(0, pixels, PIXELS):
        pixel = tl.program_id(0) * pixels + start + tl.arange(0, PIXELS)
        acc = tl.maximum(acc, tl.load(x_ptr + pixel[:, None] * CHANNELS + channel[None, :]).to(tl.float32))
    tl.store(out_ptr + tl.program_id(0) * CHANNELS + channel, tl.max(acc, 0))


def _pooled_rows(small: bool) -> Launch:
    images, pixels = (2, 64) if small else (2112, 512)
    x, out = random(images, pixels, 256, dtype=torch.float16), empty(images, 256)
    options = {"PIXELS": 16, "CHANNELS": 256, "num_warps": 4}
    return Launch(pooled_rows_kernel, (images,), (x, out, pixels), (out,), options)


@triton.jit
def bytes_matmul_kernel(
    a_ptr, b_ptr, c_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Products of bytes, b stored by columns."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        b = tl.load(b_ptr + offs_n[:, None] * K + (k + offs_k)[None, :])
        acc = tl.dot(a, tl.trans(b), acc, out_dtype=tl.int32)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


def _bytes_matmul(small: bool) -> Launch:
    m, n, k = (128, 256, 256) if small else (4224, 4096, 8192)
    a, b = (integers(rows, k, below=127, dtype=torch.int8) for rows in (m, n))
    c = empty(m, n, dtype=torch.int32)
    options = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 128, "num_warps": 8, "num_stages": 3}
    return Launch(bytes_matmul_kernel, (n // 256, m // 128), (a, b, c, n, k), (c,), options)


_good = faultless_of(2)

CASES = (
    _good("good Adam step", _adam),
    _good("good heat step", _five_points),
    _good("good rows as bytes", _quantised_rows),
    _good("good sorted tokens", _sorted_tokens),
    _good("good swap of heads", _swapped_heads),
    _good("good pool of channels", _pooled_rows),
    _good("good product of bytes", _bytes_matmul),
    _good("good paged cache", cached_heads(32, 4)),
    _good("good greedy sampling", best_logit(False, 2112, 2048)),
    _good("good forces", n_body(False, 132 * 160)),
    _good("good convolution", convolution(256, 8, 1024)),
    _good("good decode product", decode_product(4)),
    _good("good gate and up", gate_and_up(8, 4096)),
    _good("good window attention", attention_window(False, 1024, 64)),
)
