"""Seventh round, matrix products, attention and layers without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def residual_layer_kernel(
    x_ptr, weight_ptr, bias_ptr, residual_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """A layer with a bias, added to what skips it. Bound by the tensor cores."""
    across = GROUP * (N // BLOCK_N)
    group = tl.program_id(0) // across
    tall = tl.minimum(M // BLOCK_M - group * GROUP, GROUP)
    offs_m = (group * GROUP + tl.program_id(0) % across % tall) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) % across // tall * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    weight = weight_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(weight), acc)
        x += BLOCK_K
        weight += BLOCK_K * N
    at = offs_m[:, None] * N + offs_n[None, :]
    acc += tl.load(bias_ptr + offs_n).to(tl.float32)[None, :]
    tl.store(out_ptr + at, acc.to(tl.bfloat16) + tl.load(residual_ptr + at))


def _residual_layer(small: bool) -> Launch:
    m, n, k = (128, 256, 128) if small else (8448, 8192, 4096)
    x, weight = random(m, k, dtype=torch.bfloat16), random(k, n, dtype=torch.bfloat16) * 0.02
    bias, residual = random(n, dtype=torch.bfloat16), random(m, n, dtype=torch.bfloat16)
    out = torch.empty_like(residual)
    options = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP": 8, "num_warps": 8, "num_stages": 3}
    args = (x, weight, bias, residual, out, m, n, k)
    return Launch(residual_layer_kernel, (m // 128 * (n // 256),), args, (out,), options)


@triton.jit
def row_scaled_kernel(
    x_ptr, weight_ptr, row_scale_ptr, column_scale_ptr, out_ptr, N, K, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A layer of float8, with a scale for each token and for each channel. Bound by the tensor cores."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    weight = weight_ptr + offs_n[None, :] * K + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(weight), acc)
        x += BLOCK_K
        weight += BLOCK_K
    acc *= tl.load(row_scale_ptr + offs_m)[:, None] * tl.load(column_scale_ptr + offs_n)[None, :]
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.bfloat16))


def _row_scaled(small: bool) -> Launch:
    m, n, k = (128, 256, 256) if small else (8448, 8192, 4096)
    x, weight = random(m, k, dtype=torch.float8_e5m2), random(n, k, dtype=torch.float8_e5m2)
    out = empty(m, n, dtype=torch.bfloat16)
    options = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 128, "num_warps": 8, "num_stages": 3}
    args = (x, weight, torch.rand(m), torch.rand(n) * 0.1, out, n, k)
    return Launch(row_scaled_kernel, (m // 128, n // 256), args, (out,), options)


@triton.jit
def wide_adapter_kernel(
    hidden_ptr, b_ptr, y_ptr, N, RANK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Adds the products of an adapter's ranks and its wide matrix to a layer's results. Bound by DRAM."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, ranks = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, RANK)
    hidden = tl.load(hidden_ptr + offs_m[:, None] * RANK + ranks[None, :])
    b = tl.load(b_ptr + ranks[:, None] * N + offs_n[None, :])
    y = y_ptr + offs_m[:, None] * N + offs_n[None, :]
    tl.store(y, tl.load(y) + tl.dot(hidden, b).to(tl.bfloat16))


def _wide_adapter(small: bool) -> Launch:
    tokens, n = (128, 256) if small else (16384, 8192)
    hidden, b = random(tokens, 32, dtype=torch.bfloat16), random(32, n, dtype=torch.bfloat16) * 0.001
    y = random(tokens, n, dtype=torch.bfloat16)
    options = {"RANK": 32, "BLOCK_M": 64, "BLOCK_N": 128, "num_warps": 4}
    return Launch(wide_adapter_kernel, (n // 128, tokens // 64), (hidden, b, y, n), (y,), options)


@triton.jit
def chunk_factors_kernel(
    inverse_ptr, k_ptr, v_ptr, beta_ptr, w_ptr, u_ptr, CHUNK: tl.constexpr, D: tl.constexpr
):
    """A chunk's keys and values times its triangle, as a delta rule in chunks needs them. Bound by DRAM."""
    rows, dims, chunk = tl.arange(0, CHUNK), tl.arange(0, D), tl.program_id(0)
    inverse = tl.load(inverse_ptr + chunk * CHUNK * CHUNK + rows[:, None] * CHUNK + rows[None, :])
    beta = tl.load(beta_ptr + chunk * CHUNK + rows)[:, None]
    at = (chunk * CHUNK + rows)[:, None] * D + dims[None, :]
    k, v = tl.load(k_ptr + at), tl.load(v_ptr + at)
    tl.store(w_ptr + at, tl.dot(inverse, k * beta).to(tl.bfloat16))
    tl.store(u_ptr + at, tl.dot(inverse, v * beta).to(tl.bfloat16))


def _chunk_factors(small: bool) -> Launch:
    chunks = 2 if small else 8448
    inverse = torch.tril(random(chunks, 64, 64, dtype=torch.bfloat16))
    k, v = (random(chunks, 64, 128, dtype=torch.bfloat16) for _ in range(2))
    beta, w, u = torch.rand(chunks, 64).to(torch.bfloat16), torch.empty_like(k), torch.empty_like(v)
    options = {"CHUNK": 64, "D": 128, "num_warps": 4}
    return Launch(chunk_factors_kernel, (chunks,), (inverse, k, v, beta, w, u), (w, u), options)


@triton.jit
def pointwise_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, CHANNELS: tl.constexpr, PIXELS: tl.constexpr):
    """Filters of one pixel over all channels, with a bias and a ReLU. Bound by DRAM."""
    pixel, channel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS), tl.arange(0, CHANNELS)
    weight = tl.load(weight_ptr + channel[:, None] * CHANNELS + channel[None, :])
    at = pixel[:, None] * CHANNELS + channel[None, :]
    out = tl.dot(tl.load(x_ptr + at), weight) + tl.load(bias_ptr + channel).to(tl.float32)[None, :]
    tl.store(out_ptr + at, tl.maximum(out, 0.0).to(tl.float16))


def _pointwise(small: bool) -> Launch:
    pixels = 256 if small else 1 << 21
    x, weight = random(pixels, 64, dtype=torch.float16), random(64, 64, dtype=torch.float16) * 0.1
    bias, out = random(64, dtype=torch.float16), torch.empty_like(x)
    options = {"CHANNELS": 64, "PIXELS": 128, "num_warps": 4}
    return Launch(pointwise_kernel, (pixels // 128,), (x, weight, bias, out), (out,), options)


@triton.jit
def doubled_size_kernel(
    x_ptr, weight_ptr, out_ptr, WIDTH: tl.constexpr, CHANNELS: tl.constexpr, FILTERS: tl.constexpr,
    PIXELS: tl.constexpr,
):  # fmt: skip
    """A transposed convolution: each pixel gives two by two others. Bound by DRAM."""
    pixel, channel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS), tl.arange(0, CHANNELS)
    row, column = pixel // WIDTH, pixel % WIDTH
    offs_n = tl.arange(0, 2 * FILTERS)
    x = tl.load(x_ptr + pixel[:, None] * CHANNELS + channel[None, :])
    weight = weight_ptr + channel[:, None] * 4 * FILTERS + offs_n[None, :]
    out = out_ptr + (row * 4 * WIDTH + 2 * column)[:, None] * FILTERS + offs_n[None, :]
    upper = tl.dot(x, tl.load(weight))
    tl.store(out, upper.to(tl.float16))
    lower = tl.dot(x, tl.load(weight + 2 * FILTERS))
    tl.store(out + 2 * WIDTH * FILTERS, lower.to(tl.float16))


def _doubled_size(small: bool) -> Launch:
    images, size = (1, 16) if small else (66, 128)
    x = random(images * size * size, 128, dtype=torch.float16)
    weight = random(128, 256, dtype=torch.float16) * 0.1
    out = empty(images, 2 * size, 2 * size, 64, dtype=torch.float16)
    options = {"WIDTH": size, "CHANNELS": 128, "FILTERS": 64, "PIXELS": 128, "num_warps": 8}
    grid = (images * size * size // 128,)
    return Launch(doubled_size_kernel, grid, (x, weight, out), (out,), options)


@triton.jit
def fourier_kernel(
    real_ptr, imag_ptr, cos_ptr, sin_ptr, real_out_ptr, imag_out_ptr, SIZE: tl.constexpr, ROWS: tl.constexpr
):
    """Fourier transforms of 64 points, as products with a matrix. Bound by DRAM."""
    lanes, rows = tl.arange(0, SIZE), tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    table, at = lanes[:, None] * SIZE + lanes[None, :], rows[:, None] * SIZE + lanes[None, :]
    cos, sin = tl.load(cos_ptr + table), tl.load(sin_ptr + table)
    real, imag = tl.load(real_ptr + at), tl.load(imag_ptr + at)
    tl.store(real_out_ptr + at, tl.dot(imag, sin, tl.dot(real, cos)).to(tl.float16))
    tl.store(imag_out_ptr + at, (tl.dot(imag, cos) - tl.dot(real, sin)).to(tl.float16))


def _fourier(small: bool) -> Launch:
    rows = 256 if small else 1 << 20
    real, imag = random(rows, 64, dtype=torch.float16), random(rows, 64, dtype=torch.float16)
    angle = torch.arange(64)[:, None] * torch.arange(64)[None, :] % 64 * (2 * torch.pi / 64)
    outs = torch.empty_like(real), torch.empty_like(imag)
    options = {"SIZE": 64, "ROWS": 64, "num_warps": 4}
    args = (real, imag, angle.cos().half(), angle.sin().half(), *outs)
    return Launch(fourier_kernel, (rows // 64,), args, outs, options)


@triton.jit
def routing_kernel(
    x_ptr, weight_ptr, out_ptr, K, EXPERTS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr
):
    """The probabilities of experts for tokens: a narrow product and its softmax. Bound by DRAM."""
    offs_m, offs_k = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    experts = tl.arange(0, EXPERTS)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    weight = weight_ptr + experts[None, :] * K + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, EXPERTS), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(weight), acc)
        x += BLOCK_K
        weight += BLOCK_K
    p = tl.exp2((acc - tl.max(acc, 1)[:, None]) * 1.44269504)
    tl.store(out_ptr + offs_m[:, None] * EXPERTS + experts[None, :], p / tl.sum(p, 1)[:, None])


def _routing(small: bool) -> Launch:
    tokens, k = (128, 256) if small else (67584, 4096)
    x, weight = random(tokens, k, dtype=torch.bfloat16), random(64, k, dtype=torch.bfloat16) * 0.02
    out = empty(tokens, 64)
    options = {"EXPERTS": 64, "BLOCK_M": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": 3}
    return Launch(routing_kernel, (tokens // 64,), (x, weight, out, k), (out,), options)


@triton.jit
def sloped_attention_kernel(
    q_ptr, k_ptr, v_ptr, slope_ptr, out_ptr, scale, length, D: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Causal attention with a slope over distances. Bound by the tensor cores and exponentials."""
    first = (tl.num_programs(1) - 1 - tl.program_id(1)) * BLOCK_M  # the longest rows first
    base, rows = tl.program_id(0) * length, first + tl.arange(0, BLOCK_M)
    lanes, dims = tl.arange(0, BLOCK_N), tl.arange(0, D)
    slope = tl.load(slope_ptr + tl.program_id(0)) * 1.44269504
    slopes = slope * lanes.to(tl.float32)
    q = tl.load(q_ptr + (base + rows)[:, None] * D + dims[None, :])
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), -1e9, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in range(0, first, BLOCK_N):
        at = start + lanes
        k = tl.load(k_ptr + (base + at)[None, :] * D + dims[:, None])
        score = tl.dot(q, k) * scale + (slopes + slope * (start - first))[None, :]
        higher = tl.maximum(peak, tl.max(score, 1))
        p, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak - higher)
        total = total * fade + tl.sum(p, 1)
        v = tl.load(v_ptr + (base + at)[:, None] * D + dims[None, :])
        acc = tl.dot(p.to(tl.bfloat16), v, acc * fade[:, None])
        peak = higher
    for start in range(first, first + BLOCK_M, BLOCK_N):
        at = start + lanes
        k = tl.load(k_ptr + (base + at)[None, :] * D + dims[:, None])
        score = tl.dot(q, k) * scale + (slopes + slope * (start - first))[None, :]
        score = tl.where(rows[:, None] >= at[None, :], score, -1e9)
        higher = tl.maximum(peak, tl.max(score, 1))
        p, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak - higher)
        total = total * fade + tl.sum(p, 1)
        v = tl.load(v_ptr + (base + at)[:, None] * D + dims[None, :])
        acc = tl.dot(p.to(tl.bfloat16), v, acc * fade[:, None])
        peak = higher
    out = out_ptr + (base + rows)[:, None] * D + dims[None, :]
    tl.store(out, (acc / total[:, None]).to(tl.bfloat16))


def _sloped_attention(small: bool) -> Launch:
    heads, length = (2, 256) if small else (64, 8192)
    q, k, v = (random(heads, length, 128, dtype=torch.bfloat16) for _ in range(3))
    slope, out = 2.0 ** (-8 * (1 + torch.arange(heads)) / heads), torch.empty_like(q)
    options = {"D": 128, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}
    args = (q, k, v, slope, out, 128**-0.5 * 1.44269504, length)
    return Launch(sloped_attention_kernel, (heads, length // 128), args, (out,), options)


@triton.jit
def query_gradient_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, log_ptr, delta_ptr, out_ptr, scale, length, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Gradients of attention's queries. Bound by the tensor cores and exponentials."""
    base = tl.program_id(1) * length
    rows, lanes = base + tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + dims[None, :])
    grad = tl.load(grad_ptr + rows[:, None] * D + dims[None, :])
    log_sum, delta = tl.load(log_ptr + rows), tl.load(delta_ptr + rows)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        at = base + start + lanes
        k = tl.load(k_ptr + at[None, :] * D + dims[:, None])
        v = tl.load(v_ptr + at[None, :] * D + dims[:, None])
        p = tl.exp2(tl.dot(q, k) * scale - log_sum[:, None])
        d_score = p * (tl.dot(grad, v) - delta[:, None])
        acc = tl.dot(d_score.to(tl.float16), tl.trans(k), acc)
    tl.store(out_ptr + rows[:, None] * D + dims[None, :], (acc * (scale * 0.69314718)).to(tl.float16))


def _query_gradient(small: bool) -> Launch:
    heads, length = (1, 256) if small else (66, 4096)
    q, k, v, grad = (random(heads, length, 64, dtype=torch.float16) for _ in range(4))
    log_sum = 10 + random(heads, length)
    delta, out = random(heads, length), torch.empty_like(q)
    options = {"D": 64, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 2}
    args = (q, k, v, grad, log_sum, delta, out, 0.125 * 1.44269504, length)
    return Launch(query_gradient_kernel, (length // 128, heads), args, (out,), options)


@triton.jit
def covariance_step_kernel(step_ptr, noise_ptr, covariance_ptr, out_ptr, SIZE: tl.constexpr):
    """Covariances of filters' states after a step, with noise added. Bound by DRAM."""
    lanes, at = tl.arange(0, SIZE), tl.program_id(0) * SIZE * SIZE
    tile = lanes[:, None] * SIZE + lanes[None, :]
    step = tl.load(step_ptr + tile)
    turned = tl.load(step_ptr + lanes[None, :] * SIZE + lanes[:, None])
    half = tl.dot(step, tl.load(covariance_ptr + at + tile)).to(tl.float16)
    out = tl.dot(half, turned, tl.load(noise_ptr + tile))
    tl.store(out_ptr + at + tile, out.to(tl.float16))


def _covariance_step(small: bool) -> Launch:
    filters = 4 if small else 1 << 16
    step = torch.eye(64, dtype=torch.float16) + random(64, 64, dtype=torch.float16) * 0.1
    covariance = random(filters, 64, 64, dtype=torch.float16)
    noise, out = torch.eye(64), torch.empty_like(covariance)
    options = {"SIZE": 64, "num_warps": 4}
    args = (step, noise, covariance, out)
    return Launch(covariance_step_kernel, (filters,), args, (out,), options)


@triton.jit
def outer_products_kernel(
    a_ptr, b_ptr, out_ptr, N, K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Products of all pairs of short vectors. Bound by the stores to DRAM."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_k = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, K)
    a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :])
    b = tl.load(b_ptr + offs_n[None, :] * K + offs_k[:, None])
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], tl.dot(a, b).to(tl.float16))


def _outer_products(small: bool) -> Launch:
    n = 256 if small else 16384
    a, b = random(n, 64, dtype=torch.float16), random(n, 64, dtype=torch.float16)
    out = empty(n, n, dtype=torch.float16)
    options = {"K": 64, "BLOCK_M": 64, "BLOCK_N": 128, "num_warps": 4}
    return Launch(outer_products_kernel, (n // 128, n // 64), (a, b, out, n), (out,), options)


def _case(name: str, prepare: Prepare) -> Case:
    return Case(name, (), (), True, prepare, round=7)


CASES = (
    _case("good residual layer", _residual_layer),
    _case("good layer of scaled rows", _row_scaled),
    _case("good wide adapter", _wide_adapter),
    _case("good factors of chunks", _chunk_factors),
    _case("good filters of one pixel", _pointwise),
    _case("good doubled size", _doubled_size),
    _case("good short Fourier transforms", _fourier),
    _case("good gate of experts", _routing),
    _case("good sloped attention", _sloped_attention),
    _case("good query gradients", _query_gradient),
    _case("good covariances a step later", _covariance_step),
    _case("good products of all pairs", _outer_products),
)
