"""Third round, kernels without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def average_weights_kernel(average_ptr, weight_ptr, out_ptr, decay, BLOCK: tl.constexpr):
    """The moving average of a model's weights."""
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    average, weight = tl.load(average_ptr + offs), tl.load(weight_ptr + offs).to(tl.float32)
    tl.store(out_ptr + offs, average + (1.0 - decay) * (weight - average))


def _average_weights(small: bool) -> Launch:
    n = 4096 if small else 1 << 26
    average, weight, out = random(n), random(n, dtype=torch.bfloat16), empty(n)
    args = (average, weight, out, 0.999)
    options = {"BLOCK": 1024, "num_warps": 4}
    return Launch(average_weights_kernel, (n // 1024,), args, (out,), options)


@triton.jit
def dense_gelu_kernel(
    x_ptr, w_ptr, bias_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """A dense layer: product, bias and GELU."""
    pid = tl.program_id(0)
    across = tl.cdiv(N, BLOCK_N)
    first = pid // (GROUP * across) * GROUP
    rows = tl.minimum(tl.cdiv(M, BLOCK_M) - first, GROUP)
    inside = pid % (GROUP * across)
    offs_m = (first + inside % rows) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = inside // rows * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w = w_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(w), acc)
        x += BLOCK_K
        w += BLOCK_K * N
    acc += tl.load(bias_ptr + offs_n)[None, :].to(tl.float32)
    acc = acc * tl.sigmoid(1.702 * acc)
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.bfloat16))


def _dense_gelu(small: bool) -> Launch:
    m, n, k = (128, 256, 128) if small else (8192, 4096, 4096)
    x, w, bias = (random(*shape, dtype=torch.bfloat16) for shape in ((m, k), (k, n), (n,)))
    out = empty(m, n, dtype=torch.bfloat16)
    options = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP": 8, "num_warps": 8, "num_stages": 3}
    grid = (m // 128 * (n // 256),)
    return Launch(dense_gelu_kernel, grid, (x, w, bias, out, m, n, k), (out,), options)


@triton.jit
def long_softmax_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    """Softmax of long rows, each of which stays in the registers of its program."""
    offs = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + offs).to(tl.float32)
    x = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + offs, (x * (1.0 / tl.sum(x, 0))).to(tl.float16))


def _long_softmax(small: bool) -> Launch:
    rows, columns = 4 if small else 8192, 16384
    x, out = random(rows, columns, dtype=torch.float16), empty(rows, columns, dtype=torch.float16)
    return Launch(long_softmax_kernel, (rows,), (x, out), (out,), {"COLUMNS": columns, "num_warps": 16})


@triton.jit
def group_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, GROUPS: tl.constexpr, CHANNELS: tl.constexpr, PIXELS: tl.constexpr
):
    """Normalises a group of an image's channels; a group stays in registers."""
    channels, pixels = tl.arange(0, CHANNELS), tl.arange(0, PIXELS)
    group = tl.program_id(0)
    at = group * CHANNELS * PIXELS + channels[:, None] * PIXELS + pixels[None, :]
    x = tl.load(x_ptr + at).to(tl.float32)
    mean = tl.sum(x) / (CHANNELS * PIXELS)
    x -= mean
    scale = tl.rsqrt(tl.sum(x * x) / (CHANNELS * PIXELS) + 1e-5)
    channel = group % GROUPS * CHANNELS + channels
    weight, bias = tl.load(weight_ptr + channel), tl.load(bias_ptr + channel)
    tl.store(out_ptr + at, (x * (scale * weight)[:, None] + bias[:, None]).to(tl.bfloat16))


def _group_norm(small: bool) -> Launch:
    images, groups, channels, pixels = (1, 2, 8, 256) if small else (64, 32, 16, 1024)
    x = random(images, groups * channels, pixels, dtype=torch.bfloat16)
    weight, bias = random(groups * channels), random(groups * channels)
    out = torch.empty_like(x)
    options = {"GROUPS": groups, "CHANNELS": channels, "PIXELS": pixels, "num_warps": 8}
    return Launch(group_norm_kernel, (images * groups,), (x, weight, bias, out), (out,), options)


@triton.jit
def causal_convolution_kernel(
    x_ptr, w_ptr, out_ptr, length, CHANNELS: tl.constexpr, TIMES: tl.constexpr, BLOCK: tl.constexpr
):
    """A short causal convolution of each channel over time, and SiLU, as before a state-space scan."""
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(1) * TIMES
    at = tl.program_id(2).to(tl.int64) * length * CHANNELS + first * CHANNELS + channel
    one = tl.load(x_ptr + at - 3 * CHANNELS, mask=first > 0, other=0.0).to(tl.float32)
    two = tl.load(x_ptr + at - 2 * CHANNELS, mask=first > 0, other=0.0).to(tl.float32)
    three = tl.load(x_ptr + at - CHANNELS, mask=first > 0, other=0.0).to(tl.float32)
    w0, w1 = tl.load(w_ptr + channel), tl.load(w_ptr + CHANNELS + channel)
    w2, w3 = tl.load(w_ptr + 2 * CHANNELS + channel), tl.load(w_ptr + 3 * CHANNELS + channel)
    for time in tl.static_range(TIMES):
        four = tl.load(x_ptr + at + time * CHANNELS).to(tl.float32)
        y = w0 * one + w1 * two + w2 * three + w3 * four
        tl.store(out_ptr + at + time * CHANNELS, (y * tl.sigmoid(y)).to(tl.bfloat16))
        one, two, three = two, three, four


def _causal_convolution(small: bool) -> Launch:
    sequences, length, channels = (1, 32, 512) if small else (8, 4096, 2048)
    x, w = random(sequences, length, channels, dtype=torch.bfloat16), random(4, channels)
    out = torch.empty_like(x)
    options = {"CHANNELS": channels, "TIMES": 16, "BLOCK": 512, "num_warps": 2}
    grid = (channels // 512, length // 16, sequences)
    return Launch(causal_convolution_kernel, grid, (x, w, out, length), (out,), options)


@triton.jit
def alibi_attention_kernel(
    q_ptr, k_ptr, v_ptr, slope_ptr, out_ptr, length, DIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention with a bias that falls with the distance."""
    head = tl.program_id(1)
    base = head.to(tl.int64) * length * DIM
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, dims = tl.arange(0, BLOCK_N), tl.arange(0, DIM)
    slope = tl.load(slope_ptr + head) * 1.44269504
    scale: tl.constexpr = 0.125 * 1.44269504
    q = tl.load(q_ptr + base + offs_m[:, None] * DIM + dims[None, :])
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        k = tl.load(k_ptr + base + (start + offs_n)[None, :] * DIM + dims[:, None])
        away = tl.abs(offs_m[:, None] - (start + offs_n)[None, :]).to(tl.float32)
        score = tl.dot(q, k) * scale - slope * away
        higher = tl.maximum(peak, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        v = tl.load(v_ptr + base + (start + offs_n)[:, None] * DIM + dims[None, :])
        acc = tl.dot(share.to(tl.float16), v, acc * shrink[:, None])
        peak = higher
    out = (acc * (1.0 / total)[:, None]).to(tl.float16)
    tl.store(out_ptr + base + offs_m[:, None] * DIM + dims[None, :], out)


def _alibi_attention(small: bool) -> Launch:
    heads, length = (1, 128) if small else (64, 2048)
    q, k, v = (random(heads, length, 64, dtype=torch.float16) for _ in range(3))
    slope = torch.exp2(-8.0 * (torch.arange(heads) % 16 + 1) / 16)
    out = torch.empty_like(q)
    options = {"DIM": 64, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3}
    grid = (length // 128, heads)
    return Launch(alibi_attention_kernel, grid, (q, k, v, slope, out, length), (out,), options)


@triton.jit
def complex_scale_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    """Complex numbers times others, each a real part and an imaginary one behind it."""
    offs = tl.program_id(0).to(tl.int64) * BLOCK * 2 + tl.arange(0, BLOCK * 2)
    a, b = tl.split(tl.reshape(tl.load(x_ptr + offs), (BLOCK, 2)))
    c, d = tl.split(tl.reshape(tl.load(y_ptr + offs), (BLOCK, 2)))
    tl.store(out_ptr + offs, tl.interleave(a * c - b * d, a * d + b * c))


def _complex_scale(small: bool) -> Launch:
    n = 2048 if small else 1 << 24
    x, y, out = random(n, 2), random(n, 2), empty(n, 2)
    options = {"BLOCK": 512, "num_warps": 4}
    return Launch(complex_scale_kernel, (n // 512,), (x, y, out), (out,), options)


@triton.jit
def residual_dropout_kernel(x_ptr, residual_ptr, out_ptr, seed, rate, BLOCK: tl.constexpr):
    """Dropout and the residual's sum; four numbers of Philox a call."""
    lanes = tl.arange(0, BLOCK)
    first = tl.program_id(0) * BLOCK * 4
    one, two, three, four = tl.rand4x(seed, tl.program_id(0) * BLOCK + lanes)
    keep = 1.0 / (1.0 - rate)
    for part in tl.static_range(4):
        offs = first + part * BLOCK + lanes
        draw = one if part == 0 else two if part == 1 else three if part == 2 else four
        x, residual = tl.load(x_ptr + offs).to(tl.float32), tl.load(residual_ptr + offs).to(tl.float32)
        kept = tl.where(draw > rate, x * keep, 0.0)
        tl.store(out_ptr + offs, (kept + residual).to(tl.bfloat16))


def _residual_dropout(small: bool) -> Launch:
    n = 1 << 13 if small else 1 << 26
    x, residual = random(n, dtype=torch.bfloat16), random(n, dtype=torch.bfloat16)
    out = torch.empty_like(x)
    options = {"BLOCK": 1024, "num_warps": 4}
    return Launch(residual_dropout_kernel, (n // 4096,), (x, residual, out, 42, 0.1), (out,), options)


@triton.jit
def circle_share_kernel(out_ptr, seed, draws, BLOCK: tl.constexpr):
    """Points in a square that fall into the circle."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = tl.zeros((BLOCK,), dtype=tl.int32)
    for draw in range(draws):
        a, b, c, d = tl.rand4x(seed + draw, lane)
        inside += (a * a + b * b < 1.0).to(tl.int32) + (c * c + d * d < 1.0).to(tl.int32)
    tl.store(out_ptr + tl.program_id(0), tl.sum(inside, 0))


def _circle_share(small: bool) -> Launch:
    programs, draws = (2, 4) if small else (132 * 64, 16)
    out = empty(programs, dtype=torch.int32)
    options = {"BLOCK": 512, "num_warps": 4}
    return Launch(circle_share_kernel, (programs,), (out, 7, draws), (out,), options)


@triton.jit
def banded_product_kernel(value_ptr, column_ptr, x_ptr, out_ptr, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """A sparse matrix of equal rows near the diagonal times a vector."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    value, column = tl.load(value_ptr + at), tl.load(column_ptr + at)
    tl.store(out_ptr + row, tl.sum(value * tl.load(x_ptr + column), 1))


def _banded_product(small: bool) -> Launch:
    rows, width = (128, 64) if small else (1 << 19, 64)
    value, x, out = random(rows, width), random(rows), empty(rows)
    column = (torch.arange(rows)[:, None] + torch.arange(width)[None, :]) % rows
    options = {"ROWS": 32, "WIDTH": width, "num_warps": 4}
    return Launch(banded_product_kernel, (rows // 32,), (value, column.int(), x, out), (out,), options)


@triton.jit
def split_sum_kernel(part_ptr, bias_ptr, out_ptr, size, columns, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Adds the parts of a product that was split along K, and the bias."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs = tl.program_id(1) * columns + column
    total = tl.load(bias_ptr + column)
    for part in tl.static_range(PARTS):
        total += tl.load(part_ptr + part * size + offs)
    tl.store(out_ptr + offs, total.to(tl.float16))


def _split_sum(small: bool) -> Launch:
    rows, columns = (4, 1024) if small else (2048, 4096)
    part, bias = random(8, rows, columns), random(columns)
    out = empty(rows, columns, dtype=torch.float16)
    options = {"PARTS": 8, "BLOCK": 1024, "num_warps": 4}
    args = (part, bias, out, rows * columns, columns)
    return Launch(split_sum_kernel, (columns // 1024, rows), args, (out,), options)


@triton.jit
def focal_loss_kernel(logit_ptr, label_ptr, out_ptr, alpha, BLOCK: tl.constexpr):
    """The focal loss of each anchor's logit."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    logit, label = tl.load(logit_ptr + offs), tl.load(label_ptr + offs)
    signed = tl.where(label > 0.5, logit, -logit)
    right = tl.sigmoid(signed)
    weight = tl.where(label > 0.5, alpha, 1.0 - alpha)
    tl.store(out_ptr + offs, -weight * (1.0 - right) * (1.0 - right) * tl.log(right + 1e-8))


def _focal_loss(small: bool) -> Launch:
    n = 4096 if small else 1 << 25
    logit, label, out = random(n), (torch.rand(n) > 0.9).float(), empty(n)
    options = {"BLOCK": 1024, "num_warps": 4}
    return Launch(focal_loss_kernel, (n // 1024,), (logit, label, out, 0.25), (out,), options)


@triton.jit
def swapped_bytes_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Words in the other order of bytes."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    word = tl.load(x_ptr + offs)
    word = ((word & 0x00FF00FF) << 8) | ((word >> 8) & 0x00FF00FF)
    tl.store(out_ptr + offs, (word << 16) | ((word >> 16) & 0xFFFF))


def _swapped_bytes(small: bool) -> Launch:
    n = 4096 if small else 1 << 25
    x = integers(n, below=(1 << 31) - 1)
    out = torch.empty_like(x)
    return Launch(swapped_bytes_kernel, (n // 1024,), (x, out), (out,), {"BLOCK": 1024, "num_warps": 4})


@triton.jit
def gram_kernel(
    x_ptr, out_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """The products of all rows with each other."""
    pid = tl.program_id(0)
    across = N // BLOCK_N
    band = pid // (GROUP * across)
    inside = pid % (GROUP * across)
    off_m = (band * GROUP + inside % GROUP) * BLOCK_M
    off_n = inside // GROUP * BLOCK_N
    rows = tl.make_tensor_descriptor(x_ptr, [N, K], [K, 1], [BLOCK_M, BLOCK_K])
    columns = tl.make_tensor_descriptor(x_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    out = tl.make_tensor_descriptor(out_ptr, [N, N], [N, 1], [BLOCK_M, BLOCK_N])
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(rows.load([off_m, k]), columns.load([off_n, k]).T, acc)
    out.store([off_m, off_n], acc.to(tl.bfloat16))


def _gram(small: bool) -> Launch:
    n, k = (256, 128) if small else (6144, 4096)
    x, out = random(n, k, dtype=torch.bfloat16), empty(n, n, dtype=torch.bfloat16)
    options = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
    options["GROUP"] = 2 if small else 8
    return Launch(gram_kernel, (n // 128 * (n // 256),), (x, out, n, k), (out,), options)


@triton.jit
def cosine_kernel(x_ptr, y_ptr, out_ptr, ROWS: tl.constexpr, DIM: tl.constexpr):
    """How alike pairs of vectors are."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * DIM + tl.arange(0, DIM)[None, :]
    x, y = tl.load(x_ptr + at).to(tl.float32), tl.load(y_ptr + at).to(tl.float32)
    norms = tl.sum(x * x, 1) * tl.sum(y * y, 1)
    tl.store(out_ptr + row, tl.sum(x * y, 1) * tl.rsqrt(norms + 1e-12))


def _cosine(small: bool) -> Launch:
    rows, dim = (32, 512) if small else (1 << 16, 512)
    x, y = (random(rows, dim, dtype=torch.bfloat16) for _ in range(2))
    out = empty(rows)
    options = {"ROWS": 8, "DIM": dim, "num_warps": 4}
    return Launch(cosine_kernel, (rows // 8,), (x, y, out), (out,), options)


@triton.jit
def max_pool_kernel(x_ptr, out_ptr, width, CHANNELS: tl.constexpr, COLUMNS: tl.constexpr):
    """The largest of two by two pixels, channels innermost."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[:, None]
    channel = tl.arange(0, CHANNELS)[None, :]
    line = tl.program_id(1).to(tl.int64)
    at = x_ptr + (line * 2 * width + column * 2) * CHANNELS + channel
    upper = tl.maximum(tl.load(at), tl.load(at + CHANNELS))
    lower = tl.maximum(tl.load(at + width * CHANNELS), tl.load(at + (width + 1) * CHANNELS))
    out = out_ptr + (line * (width // 2) + column) * CHANNELS + channel
    tl.store(out, tl.maximum(upper, lower))


def _max_pool(small: bool) -> Launch:
    images, side, channels = (1, 16, 64) if small else (64, 224, 64)
    x = random(images, side, side, channels, dtype=torch.float16)
    out = empty(images, side // 2, side // 2, channels, dtype=torch.float16)
    options = {"CHANNELS": channels, "COLUMNS": 8 if small else 16, "num_warps": 4}
    grid = (side // 2 // options["COLUMNS"], images * side // 2)
    return Launch(max_pool_kernel, grid, (x, out, side), (out,), options)


def _good(name: str, prepare: Prepare, least: int = 80) -> Case:
    return Case(name, (), (), True, prepare, least=least, round=3)


CASES = (
    _good("good average of weights", _average_weights),
    _good("good dense layer", _dense_gelu),
    _good("good long softmax", _long_softmax),
    _good("good group norm", _group_norm),
    _good("good causal convolution", _causal_convolution),
    _good("good ALiBi attention", _alibi_attention),
    _good("good complex products", _complex_scale),
    _good("good dropout", _residual_dropout),
    _good("good circle of points", _circle_share),
    _good("good banded product", _banded_product),
    _good("good sum of parts", _split_sum),
    _good("good focal loss", _focal_loss),
    _good("good swapped bytes", _swapped_bytes),
    _good("good Gram matrix", _gram, least=90),
    _good("good cosines of pairs", _cosine),
    _good("good max pool", _max_pool),
)
