"""Fourth round, kernels without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def norm_gradient_kernel(x_ptr, grad_ptr, weight_ptr, mean_ptr, scale_ptr, out_ptr, COLUMNS: tl.constexpr):
    """The gradient of a layer norm's input, row by row."""
    row, columns = tl.program_id(0), tl.arange(0, COLUMNS)
    at = row.to(tl.int64) * COLUMNS + columns
    scale = tl.load(scale_ptr + row)
    x = (tl.load(x_ptr + at).to(tl.float32) - tl.load(mean_ptr + row)) * scale
    grad = tl.load(grad_ptr + at).to(tl.float32) * tl.load(weight_ptr + columns)
    along, level = tl.sum(x * grad, 0) / COLUMNS, tl.sum(grad, 0) / COLUMNS
    tl.store(out_ptr + at, ((grad - x * along - level) * scale).to(tl.bfloat16))


def _norm_gradient(small: bool) -> Launch:
    rows, columns = (4, 512) if small else (1 << 15, 4096)
    x, grad = random(rows, columns, dtype=torch.bfloat16), random(rows, columns, dtype=torch.bfloat16)
    weight, mean, scale = random(columns), random(rows) * 0.1, torch.rand(rows) + 0.5
    out = torch.empty_like(x)
    options = {"COLUMNS": columns, "num_warps": 8}
    args = (x, grad, weight, mean, scale, out)
    return Launch(norm_gradient_kernel, (rows,), args, (out,), options)


@triton.jit
def added_norm_kernel(x_ptr, residual_ptr, weight_ptr, sum_ptr, out_ptr, COLUMNS: tl.constexpr):
    """Adds to the residual stream, and norms the sum by its root mean square."""
    columns = tl.arange(0, COLUMNS)
    at = tl.program_id(0).to(tl.int64) * COLUMNS + columns
    x = tl.load(x_ptr + at).to(tl.float32) + tl.load(residual_ptr + at).to(tl.float32)
    tl.store(sum_ptr + at, x.to(tl.bfloat16))
    x *= tl.rsqrt(tl.sum(x * x, 0) / COLUMNS + 1e-6)
    tl.store(out_ptr + at, (x * tl.load(weight_ptr + columns)).to(tl.bfloat16))


def _added_norm(small: bool) -> Launch:
    rows, columns = (4, 512) if small else (1 << 14, 8192)
    x, residual = random(rows, columns, dtype=torch.bfloat16), random(rows, columns, dtype=torch.bfloat16)
    total, out = torch.empty_like(x), torch.empty_like(x)
    options = {"COLUMNS": columns, "num_warps": 8}
    args = (x, residual, random(columns), total, out)
    return Launch(added_norm_kernel, (rows,), args, (total, out), options)


@triton.jit
def paired_rotation_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, HEADS: tl.constexpr, HALF: tl.constexpr):
    """Rotary embedding of neighbouring dimensions, of all heads of a token."""
    lanes, heads = tl.arange(0, 2 * HALF), tl.arange(0, HEADS)
    halves, token = tl.arange(0, HALF), tl.program_id(0)
    cos = tl.load(cos_ptr + token * HALF + halves)[None, :]
    sin = tl.load(sin_ptr + token * HALF + halves)[None, :]
    at = (token * HEADS + heads)[:, None] * 2 * HALF + lanes[None, :]
    one, two = tl.split(tl.reshape(tl.load(x_ptr + at).to(tl.float32), (HEADS, HALF, 2)))
    turned = tl.join(one * cos - two * sin, two * cos + one * sin)
    tl.store(out_ptr + at, tl.reshape(turned, (HEADS, 2 * HALF)).to(tl.bfloat16))


def _paired_rotation(small: bool) -> Launch:
    tokens, heads = (4, 16) if small else (1 << 15, 16)
    x = random(tokens, heads, 128, dtype=torch.bfloat16)
    angle, out = torch.rand(tokens, 64) * 6.28, torch.empty_like(x)
    options = {"HEADS": heads, "HALF": 64, "num_warps": 4}
    args = (x, angle.cos(), angle.sin(), out)
    return Launch(paired_rotation_kernel, (tokens,), args, (out,), options)


@triton.jit
def smoothed_loss_kernel(logit_ptr, label_ptr, out_ptr, smoothing, WORDS: tl.constexpr):
    """The cross-entropy of tokens with smoothed labels; a row of logits stays in registers."""
    row = tl.program_id(0)
    at = logit_ptr + row.to(tl.int64) * WORDS
    logit = tl.load(at + tl.arange(0, WORDS)).to(tl.float32)
    right = tl.load(at + tl.load(label_ptr + row)).to(tl.float32)
    peak = tl.max(logit, 0)
    total = peak + tl.log(tl.sum(tl.exp(logit - peak), 0))
    mean = tl.sum(logit, 0) / WORDS
    tl.store(out_ptr + row, total - (1.0 - smoothing) * right - smoothing * mean)


def _smoothed_loss(small: bool) -> Launch:
    rows, words = (4, 2048) if small else (1 << 14, 16384)
    logit, label = random(rows, words, dtype=torch.bfloat16), integers(rows, below=words)
    out = empty(rows)
    options = {"WORDS": words, "num_warps": 16}
    return Launch(smoothed_loss_kernel, (rows,), (logit, label, out, 0.1), (out,), options)


@triton.jit
def word_gradient_kernel(grad_ptr, order_ptr, out_ptr, DIM: tl.constexpr, EACH: tl.constexpr):
    """The gradient of a word's embedding: the sum of its tokens' gradients, which a sort put together."""
    token, dims = tl.arange(0, EACH), tl.program_id(1) * 256 + tl.arange(0, 256)
    order = tl.load(order_ptr + tl.program_id(0) * EACH + token)
    grad = tl.load(grad_ptr + order[:, None] * DIM + dims[None, :]).to(tl.float32)
    tl.store(out_ptr + tl.program_id(0) * DIM + dims, tl.sum(grad, 0))


def _word_gradient(small: bool) -> Launch:
    words, each, dim = (4, 16, 256) if small else (8192, 16, 1024)
    grad, order = random(words * each, dim, dtype=torch.bfloat16), torch.randperm(words * each).int()
    out = empty(words, dim)
    options = {"DIM": dim, "EACH": each, "num_warps": 4}
    return Launch(word_gradient_kernel, (words, dim // 256), (grad, order, out), (out,), options)


@triton.jit
def nesterov_kernel(weight_ptr, grad_ptr, speed_ptr, rate, momentum, BLOCK: tl.constexpr):
    """A step of gradient descent with Nesterov's momentum."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    grad = tl.load(grad_ptr + at)
    speed = momentum * tl.load(speed_ptr + at) + grad
    tl.store(speed_ptr + at, speed)
    tl.store(weight_ptr + at, tl.load(weight_ptr + at) - rate * (grad + momentum * speed))


def _nesterov(small: bool) -> Launch:
    n = 4096 if small else 1 << 26
    weight, grad, speed = random(n), random(n), random(n)
    args = (weight, grad, speed, 1e-3, 0.9)
    options = {"BLOCK": 1024, "num_warps": 4}
    return Launch(nesterov_kernel, (n // 1024,), args, (weight, speed), options)


@triton.jit
def divergence_kernel(log_share_ptr, target_ptr, out_ptr, WORDS: tl.constexpr):
    """The Kullback-Leibler divergence of rows of log-probabilities from probabilities."""
    at = tl.program_id(0).to(tl.int64) * WORDS + tl.arange(0, WORDS)
    target = tl.load(target_ptr + at).to(tl.float32)
    away = libdevice.fast_logf(tl.maximum(target, 1e-10)) - tl.load(log_share_ptr + at).to(tl.float32)
    tl.store(out_ptr + tl.program_id(0), tl.sum(target * away, 0))


def _divergence(small: bool) -> Launch:
    rows, words = (4, 2048) if small else (1 << 14, 16384)
    target = torch.rand(rows, words).to(torch.bfloat16)
    log_share, out = random(rows, words, dtype=torch.bfloat16), empty(rows)
    options = {"WORDS": words, "num_warps": 8}
    return Launch(divergence_kernel, (rows,), (log_share, target, out), (out,), options)


@triton.jit
def normed_plane_kernel(x_ptr, scale_ptr, shift_ptr, out_ptr, channels, PIXELS: tl.constexpr):
    """Batch norm with fixed statistics, and ReLU; a program has one channel of an image."""
    channel = tl.program_id(0) % channels
    at = tl.program_id(0).to(tl.int64) * PIXELS + tl.arange(0, PIXELS)
    x = tl.load(x_ptr + at).to(tl.float32) * tl.load(scale_ptr + channel) + tl.load(shift_ptr + channel)
    tl.store(out_ptr + at, tl.maximum(x, 0.0).to(tl.float16))


def _normed_plane(small: bool) -> Launch:
    images, channels, pixels = (1, 4, 1024) if small else (64, 256, 4096)
    x = random(images * channels, pixels, dtype=torch.float16)
    out = torch.empty_like(x)
    options = {"PIXELS": pixels, "num_warps": 4}
    args = (x, random(channels), random(channels), out, channels)
    return Launch(normed_plane_kernel, (images * channels,), args, (out,), options)


@triton.jit
def weighted_bag_kernel(table_ptr, row_ptr, weight_ptr, out_ptr, DIM: tl.constexpr, EACH: tl.constexpr):
    """Weighted sums of rows of a table, all rows of a bag at once."""
    lanes, dims = tl.arange(0, EACH), tl.arange(0, DIM)
    at = tl.program_id(0) * EACH + lanes
    row, weight = tl.load(row_ptr + at), tl.load(weight_ptr + at)
    entries = tl.load(table_ptr + row[:, None] * DIM + dims[None, :]).to(tl.float32)
    tl.store(out_ptr + tl.program_id(0) * DIM + dims, tl.sum(entries * weight[:, None], 0).to(tl.float16))


def _weighted_bag(small: bool) -> Launch:
    bags, rows, dim = (4, 64, 256) if small else (1 << 15, 1 << 20, 256)
    table, weight = random(rows, dim, dtype=torch.float16), torch.rand(bags, 32)
    row, out = integers(bags, 32, below=rows), empty(bags, dim, dtype=torch.float16)
    options = {"DIM": dim, "EACH": 32, "num_warps": 4}
    return Launch(weighted_bag_kernel, (bags,), (table, row, weight, out), (out,), options)


@triton.jit
def gate_gradient_kernel(grad_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr, BLOCK: tl.constexpr):
    """The gradients of SwiGLU's two inputs."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    grad, gate = tl.load(grad_ptr + at).to(tl.float32), tl.load(gate_ptr + at).to(tl.float32)
    up, open_ = tl.load(up_ptr + at).to(tl.float32), tl.sigmoid(gate)
    tl.store(dup_ptr + at, (grad * gate * open_).to(tl.bfloat16))
    slope = open_ * (1.0 + gate * (1.0 - open_))
    tl.store(dgate_ptr + at, (grad * up * slope).to(tl.bfloat16))


def _gate_gradient(small: bool) -> Launch:
    n = 4096 if small else 1 << 26
    grad, gate, up = (random(n, dtype=torch.bfloat16) for _ in range(3))
    dgate, dup = torch.empty_like(gate), torch.empty_like(up)
    options = {"BLOCK": 1024, "num_warps": 4}
    args = (grad, gate, up, dgate, dup)
    return Launch(gate_gradient_kernel, (n // 1024,), args, (dgate, dup), options)


@triton.jit
def softmax_gradient_kernel(share_ptr, grad_ptr, out_ptr, COLUMNS: tl.constexpr):
    """The gradient of a softmax' input."""
    at = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    share, grad = tl.load(share_ptr + at).to(tl.float32), tl.load(grad_ptr + at).to(tl.float32)
    level = tl.sum(share * grad, 0)
    tl.store(out_ptr + at, (share * (grad - level)).to(tl.float16))


def _softmax_gradient(small: bool) -> Launch:
    rows, columns = (4, 1024) if small else (1 << 16, 2048)
    share = torch.softmax(random(rows, columns), 1).half()
    grad, out = random(rows, columns, dtype=torch.float16), torch.empty_like(share)
    options = {"COLUMNS": columns, "num_warps": 4}
    return Launch(softmax_gradient_kernel, (rows,), (share, grad, out), (out,), options)


@triton.jit
def mean_pool_kernel(x_ptr, out_ptr, SIDE: tl.constexpr, CHANNELS: tl.constexpr, PIXELS: tl.constexpr):
    """Means of 2 x 2 pixels, whose channels lie side by side."""
    pixel, channels = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS), tl.arange(0, CHANNELS)
    half: tl.constexpr = SIDE // 2
    corner = (pixel // half * 2 * SIDE + pixel % half * 2)[:, None] * CHANNELS + channels[None, :]
    total = tl.load(x_ptr + corner).to(tl.float32) + tl.load(x_ptr + corner + CHANNELS).to(tl.float32)
    below = corner + SIDE * CHANNELS
    total += tl.load(x_ptr + below).to(tl.float32) + tl.load(x_ptr + below + CHANNELS).to(tl.float32)
    tl.store(out_ptr + pixel[:, None] * CHANNELS + channels[None, :], (total * 0.25).to(tl.bfloat16))


def _mean_pool(small: bool) -> Launch:
    images, side, channels = (1, 16, 128) if small else (64, 128, 128)
    x = random(images, side, side, channels, dtype=torch.bfloat16)
    out = empty(images, side // 2, side // 2, channels, dtype=torch.bfloat16)
    options = {"SIDE": side, "CHANNELS": channels, "PIXELS": 16, "num_warps": 4}
    return Launch(mean_pool_kernel, (images * side * side // 64,), (x, out), (out,), options)


@triton.jit
def _normal_below(x):
    """The normal distribution, by Zelen's and Severo's polynomial."""
    t = 1.0 / (1.0 + 0.2316419 * tl.abs(x))
    tail = ((((1.330274429 * t - 1.821255978) * t + 1.781477937) * t - 0.356563782) * t + 0.31938153) * t
    tail *= 0.39894228 * tl.exp(-0.5 * x * x)
    return tl.where(x < 0.0, tail, 1.0 - tail)


@triton.jit
def option_price_kernel(spot_ptr, strike_ptr, years_ptr, call_ptr, put_ptr, rate, sigma, BLOCK: tl.constexpr):
    """Black's and Scholes' prices of options."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    spot, strike, years = tl.load(spot_ptr + at), tl.load(strike_ptr + at), tl.load(years_ptr + at)
    spread = sigma * tl.sqrt(years)
    one = (tl.log(spot / strike) + (rate + 0.5 * sigma * sigma) * years) / spread
    later = strike * tl.exp(-rate * years)
    call = spot * _normal_below(one) - later * _normal_below(one - spread)
    tl.store(call_ptr + at, call)
    tl.store(put_ptr + at, call + later - spot)


def _option_price(small: bool) -> Launch:
    n = 4096 if small else 1 << 25
    spot, strike, years = (torch.rand(n) + 0.5 for _ in range(3))
    call, put = empty(n), empty(n)
    args = (spot, strike, years, call, put, 0.02, 0.3)
    options = {"BLOCK": 512, "num_warps": 4}
    return Launch(option_price_kernel, (n // 512,), args, (call, put), options)


@triton.jit
def squared_norm_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Partial sums of the squares of a gradient."""
    x = tl.load(x_ptr + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)).to(tl.float32)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x * x, 0))


def _squared_norm(small: bool) -> Launch:
    n = 1 << (15 if small else 28)
    x, out = random(n, dtype=torch.bfloat16), empty(n // 8192)
    options = {"BLOCK": 8192, "num_warps": 8}
    return Launch(squared_norm_kernel, (n // 8192,), (x, out), (out,), options)


@triton.jit
def masked_fill_kernel(x_ptr, mask_ptr, out_ptr, value, BLOCK: tl.constexpr):
    """Replaces the elements that a mask of bytes selects."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.where(tl.load(mask_ptr + at) != 0, value, tl.load(x_ptr + at)))


def _masked_fill(small: bool) -> Launch:
    n = 1 << (14 if small else 27)
    x, mask = random(n, dtype=torch.float16), integers(n, below=2, dtype=torch.int8)
    out = torch.empty_like(x)
    options = {"BLOCK": 2048, "num_warps": 4}
    return Launch(masked_fill_kernel, (n // 2048,), (x, mask, out, -1e4), (out,), options)


@triton.jit
def mixed_average_kernel(x_ptr, y_ptr, share_ptr, out_ptr, COLUMNS: tl.constexpr):
    """Mixup: each image of a batch, and another one, by a share of its own."""
    at = tl.program_id(1).to(tl.int64) * tl.num_programs(0) * COLUMNS
    at += tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    share = tl.load(share_ptr + tl.program_id(1))
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, y + share * (x - y))


def _mixed_average(small: bool) -> Launch:
    images, pixels = (2, 2048) if small else (256, 3 * 65536)
    x, y, share = random(images, pixels), random(images, pixels), torch.rand(images)
    out = torch.empty_like(x)
    options = {"COLUMNS": 1024, "num_warps": 4}
    return Launch(mixed_average_kernel, (pixels // 1024, images), (x, y, share, out), (out,), options)


def _case(name: str, prepare: Prepare) -> Case:
    return Case(name, (), (), True, prepare, round=4)


CASES = (
    _case("good norm gradient", _norm_gradient),
    _case("good added norm", _added_norm),
    _case("good rotation of pairs", _paired_rotation),
    _case("good smoothed loss", _smoothed_loss),
    _case("good word gradient", _word_gradient),
    _case("good Nesterov step", _nesterov),
    _case("good divergence", _divergence),
    _case("good batch norm", _normed_plane),
    _case("good weighted bags", _weighted_bag),
    _case("good gate gradient", _gate_gradient),
    _case("good softmax gradient", _softmax_gradient),
    _case("good mean pool", _mean_pool),
    _case("good option prices", _option_price),
    _case("good squared norm", _squared_norm),
    _case("good masked fill", _masked_fill),
    _case("good mixup", _mixed_average),
)
