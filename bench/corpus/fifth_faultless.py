"""Fifth round, kernels without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def lion_kernel(weight_ptr, grad_ptr, speed_ptr, rate, decay, BLOCK: tl.constexpr):
    """A step of the optimizer Lion: only the sign of a weight's speed counts. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    grad, speed = tl.load(grad_ptr + at).to(tl.float32), tl.load(speed_ptr + at)
    weight = tl.load(weight_ptr + at)
    ahead = 0.9 * speed + 0.1 * grad
    step = tl.where(ahead > 0.0, 1.0, tl.where(ahead < 0.0, -1.0, 0.0))
    tl.store(weight_ptr + at, weight - rate * (step + decay * weight))
    tl.store(speed_ptr + at, 0.99 * speed + 0.01 * grad)


def _lion(small: bool) -> Launch:
    n = 4096 if small else 1 << 26
    weight, grad, speed = random(n), random(n, dtype=torch.bfloat16), random(n)
    args = (weight, grad, speed, 1e-3, 0.1)
    options = {"BLOCK": 1024, "num_warps": 4}
    return Launch(lion_kernel, (n // 1024,), args, (weight, speed), options)


@triton.jit
def gelu_gradient_kernel(x_ptr, grad_ptr, out_ptr, BLOCK: tl.constexpr):
    """The gradient of GELU's input, by the sigmoid that is close to it. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, grad = tl.load(x_ptr + at).to(tl.float32), tl.load(grad_ptr + at).to(tl.float32)
    open_ = 1.0 / (1.0 + tl.exp2(-2.4554669 * x))
    slope = open_ * (1.0 + 1.702 * x * (1.0 - open_))
    tl.store(out_ptr + at, (grad * slope).to(tl.bfloat16))


def _gelu_gradient(small: bool) -> Launch:
    n = 4096 if small else 1 << 27
    x, grad = random(n, dtype=torch.bfloat16), random(n, dtype=torch.bfloat16)
    out = torch.empty_like(x)
    options = {"BLOCK": 2048, "num_warps": 8}
    return Launch(gelu_gradient_kernel, (n // 2048,), (x, grad, out), (out,), options)


@triton.jit
def plane_norm_kernel(x_ptr, scale_ptr, shift_ptr, out_ptr, channels, PIXELS: tl.constexpr):
    """Instance norm: a program holds a plane of an image in registers. Bound by DRAM."""
    channel = tl.program_id(0) % channels
    at = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    x = tl.load(x_ptr + at).to(tl.float32)
    x -= tl.sum(x, 0) / PIXELS
    x *= tl.rsqrt(tl.sum(x * x, 0) / PIXELS + 1e-5)
    y = x * tl.load(scale_ptr + channel) + tl.load(shift_ptr + channel)
    tl.store(out_ptr + at, y.to(tl.float16))


def _plane_norm(small: bool) -> Launch:
    images, channels, pixels = (1, 4, 1024) if small else (128, 256, 4096)
    x = random(images * channels, pixels, dtype=torch.float16)
    out = torch.empty_like(x)
    options = {"PIXELS": pixels, "num_warps": 4}
    args = (x, random(channels), random(channels), out, channels)
    return Launch(plane_norm_kernel, (images * channels,), args, (out,), options)


@triton.jit
def triplet_loss_kernel(anchor_ptr, near_ptr, far_ptr, out_ptr, ROWS: tl.constexpr, DIM: tl.constexpr):
    """The loss of triplets: an anchor should be nearer to one vector than to the other. Bound by DRAM."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * DIM + tl.arange(0, DIM)[None, :]
    anchor = tl.load(anchor_ptr + at).to(tl.float32)
    near = anchor - tl.load(near_ptr + at).to(tl.float32)
    far = anchor - tl.load(far_ptr + at).to(tl.float32)
    tl.store(out_ptr + row, tl.maximum(tl.sum(near * near - far * far, 1) + 0.2, 0.0))


def _triplet_loss(small: bool) -> Launch:
    rows = 16 if small else 1 << 18
    anchor, near, far = (random(rows, 512, dtype=torch.float16) for _ in range(3))
    out = empty(rows)
    options = {"ROWS": 8, "DIM": 512, "num_warps": 4}
    return Launch(triplet_loss_kernel, (rows // 8,), (anchor, near, far, out), (out,), options)


@triton.jit
def dispatched_tokens_kernel(x_ptr, source_ptr, out_ptr, DIM: tl.constexpr):
    """Copies tokens to the places of their experts. Bound by DRAM."""
    dims = tl.arange(0, DIM)
    source = tl.load(source_ptr + tl.program_id(0))
    x = tl.load(x_ptr + source * DIM + dims)
    tl.store(out_ptr + tl.program_id(0) * DIM + dims, x)


def _dispatched_tokens(small: bool) -> Launch:
    tokens, dim = (8, 4096) if small else (1 << 16, 4096)
    x = random(tokens // 2, dim, dtype=torch.bfloat16)
    source, out = torch.randperm(tokens).int() // 2, empty(tokens, dim, dtype=torch.bfloat16)
    options = {"DIM": dim, "num_warps": 8}
    return Launch(dispatched_tokens_kernel, (tokens,), (x, source, out), (out,), options)


@triton.jit
def combined_experts_kernel(y_ptr, place_ptr, weight_ptr, out_ptr, DIM: tl.constexpr):
    """Weighted sums of what each token's two experts made. Bound by DRAM."""
    dims, token = tl.arange(0, DIM), tl.program_id(0)
    one, two = tl.load(place_ptr + 2 * token), tl.load(place_ptr + 2 * token + 1)
    y = tl.load(y_ptr + one * DIM + dims).to(tl.float32) * tl.load(weight_ptr + 2 * token)
    y += tl.load(y_ptr + two * DIM + dims).to(tl.float32) * tl.load(weight_ptr + 2 * token + 1)
    tl.store(out_ptr + token * DIM + dims, y.to(tl.bfloat16))


def _combined_experts(small: bool) -> Launch:
    tokens, dim = (4, 2048) if small else (1 << 16, 2048)
    y = random(2 * tokens, dim, dtype=torch.bfloat16)
    place, weight = torch.randperm(2 * tokens).int(), torch.rand(tokens, 2)
    out = empty(tokens, dim, dtype=torch.bfloat16)
    options = {"DIM": dim, "num_warps": 4}
    return Launch(combined_experts_kernel, (tokens,), (y, place, weight, out), (out,), options)


@triton.jit
def row_entropy_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    """The entropy of the distribution that each row of logits stands for. Bound by DRAM."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at).to(tl.float32) * 1.44269504
    x -= tl.max(x, 0)
    share = tl.exp2(x)
    total = tl.sum(share, 0)
    tl.store(out_ptr + tl.program_id(0), tl.log2(total) - tl.sum(share * x, 0) / total)


def _row_entropy(small: bool) -> Launch:
    rows, columns = (4, 1024) if small else (1 << 16, 4096)
    x, out = random(rows, columns, dtype=torch.float16), empty(rows)
    options = {"COLUMNS": columns, "num_warps": 4}
    return Launch(row_entropy_kernel, (rows,), (x, out), (out,), options)


@triton.jit
def doubled_image_kernel(x_ptr, out_ptr, SIDE: tl.constexpr, CHANNELS: tl.constexpr):
    """Repeats each pixel, whose channels lie side by side, in a square of four. Bound by DRAM."""
    column, channels = tl.arange(0, 16), tl.arange(0, CHANNELS)
    row = tl.program_id(1)
    first = tl.program_id(0) * 16 + column
    x = tl.load(x_ptr + (row * SIDE + first)[:, None] * CHANNELS + channels[None, :])
    out = out_ptr + (row * 4 * SIDE + 2 * first)[:, None] * CHANNELS + channels[None, :]
    tl.store(out, x)
    tl.store(out + CHANNELS, x)
    tl.store(out + 2 * SIDE * CHANNELS, x)
    tl.store(out + (2 * SIDE + 1) * CHANNELS, x)


def _doubled_image(small: bool) -> Launch:
    images, side, channels = (1, 16, 128) if small else (64, 128, 128)
    x = random(images, side, side, channels, dtype=torch.bfloat16)
    out = empty(images, 2 * side, 2 * side, channels, dtype=torch.bfloat16)
    options = {"SIDE": side, "CHANNELS": channels, "num_warps": 4}
    grid = (side // 16, images * side)
    return Launch(doubled_image_kernel, grid, (x, out), (out,), options)


@triton.jit
def scaled_sums_kernel(acc_ptr, row_ptr, column_ptr, out_ptr, N, BLOCK: tl.constexpr):
    """Half-precision numbers out of sums of a product of bytes, with scales of rows and columns. Bound by
    DRAM."""
    row, column = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.load(acc_ptr + row * N + column).to(tl.float32)
    y = acc * tl.load(row_ptr + row) * tl.load(column_ptr + column)
    tl.store(out_ptr + row * N + column, y.to(tl.float16))


def _scaled_sums(small: bool) -> Launch:
    m, n = (4, 2048) if small else (8192, 8192)
    acc = integers(m, n, below=1 << 16)
    row, column, out = torch.rand(m) * 0.01, torch.rand(n) * 0.01, empty(m, n, dtype=torch.float16)
    options = {"BLOCK": 2048, "num_warps": 4}
    return Launch(scaled_sums_kernel, (n // 2048, m), (acc, row, column, out, n), (out,), options)


@triton.jit
def column_peaks_kernel(x_ptr, out_ptr, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The largest absolute value of each column among some rows; another kernel joins them. Bound by DRAM."""
    column, rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, 16)
    peak = tl.zeros((16, BLOCK), dtype=tl.float32)
    for start in tl.static_range(0, ROWS, 16):
        row = tl.program_id(1) * ROWS + start + rows
        x = tl.load(x_ptr + row[:, None] * N + column[None, :]).to(tl.float32)
        peak = tl.maximum(peak, tl.abs(x))
    tl.store(out_ptr + tl.program_id(1) * N + column, tl.max(peak, 0))


def _column_peaks(small: bool) -> Launch:
    rows, n = (64, 256) if small else (1 << 15, 8192)
    x, out = random(rows, n, dtype=torch.bfloat16), empty(rows // 64, n)
    options = {"ROWS": 64, "BLOCK": 256, "num_warps": 4}
    return Launch(column_peaks_kernel, (n // 256, rows // 64), (x, out, n), (out,), options)


@triton.jit
def noisy_kernel(x_ptr, out_ptr, seed, spread, BLOCK: tl.constexpr):
    """Adds uniform noise, four numbers of a generator at a time. Bound by the issue of integer arithmetic."""
    lanes = tl.arange(0, BLOCK)
    first = tl.program_id(0) * (4 * BLOCK)
    a, b, c, d = tl.rand4x(seed, tl.program_id(0) * BLOCK + lanes)
    at = first + lanes
    tl.store(out_ptr + at, tl.load(x_ptr + at) + spread * (a - 0.5))
    tl.store(out_ptr + at + BLOCK, tl.load(x_ptr + at + BLOCK) + spread * (b - 0.5))
    tl.store(out_ptr + at + 2 * BLOCK, tl.load(x_ptr + at + 2 * BLOCK) + spread * (c - 0.5))
    tl.store(out_ptr + at + 3 * BLOCK, tl.load(x_ptr + at + 3 * BLOCK) + spread * (d - 0.5))


def _noisy(small: bool) -> Launch:
    n = 1 << (12 if small else 26)
    x, out = random(n), empty(n)
    options = {"BLOCK": 512, "num_warps": 4}
    return Launch(noisy_kernel, (n // 2048,), (x, out, 17, 0.1), (out,), options)


@triton.jit
def separable_filter_kernel(x_ptr, w_ptr, out_ptr, SIDE: tl.constexpr, CHANNELS: tl.constexpr):
    """A filter of 3 x 1 for each channel, of images whose pixels have their channels side by side, with a
    border above and below. Bound by DRAM."""
    column, channels = tl.arange(0, 16), tl.arange(0, CHANNELS)
    image, row = tl.program_id(1) // SIDE, tl.program_id(1) % SIDE
    pixel = tl.program_id(0) * 16 + column
    source = (image * (SIDE + 2) + row) * SIDE + pixel
    above = x_ptr + source[:, None] * CHANNELS + channels[None, :]
    y = tl.load(above).to(tl.float32) * tl.load(w_ptr + channels)[None, :]
    y += tl.load(above + SIDE * CHANNELS).to(tl.float32) * tl.load(w_ptr + CHANNELS + channels)[None, :]
    last = tl.load(w_ptr + 2 * CHANNELS + channels)
    y += tl.load(above + 2 * SIDE * CHANNELS).to(tl.float32) * last[None, :]
    out = (tl.program_id(1) * SIDE + pixel)[:, None] * CHANNELS + channels[None, :]
    tl.store(out_ptr + out, y.to(tl.float16))


def _separable_filter(small: bool) -> Launch:
    images, side, channels = (1, 16, 128) if small else (64, 128, 128)
    x = random(images, side + 2, side, channels, dtype=torch.float16)
    w, out = random(3, channels), empty(images, side, side, channels, dtype=torch.float16)
    options = {"SIDE": side, "CHANNELS": channels, "num_warps": 4}
    grid = (side // 16, images * side)
    return Launch(separable_filter_kernel, grid, (x, w, out), (out,), options)


@triton.jit
def stochastic_rounding_kernel(x_ptr, noise_ptr, out_ptr, BLOCK: tl.constexpr):
    """Rounds to bfloat16 up or down by 16 random bits. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bits = tl.load(x_ptr + at).to(tl.uint32, bitcast=True) + (tl.load(noise_ptr + at).to(tl.uint32) & 0xFFFF)
    tl.store(out_ptr + at, (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True))


def _stochastic_rounding(small: bool) -> Launch:
    n = 1 << (12 if small else 27)
    x, noise = random(n), integers(n, below=1 << 15, dtype=torch.int16)
    out = empty(n, dtype=torch.bfloat16)
    options = {"BLOCK": 2048, "num_warps": 8}
    return Launch(stochastic_rounding_kernel, (n // 2048,), (x, noise, out), (out,), options)


def _case(name: str, prepare: Prepare) -> Case:
    return Case(name, (), (), True, prepare, round=5)


CASES = (
    _case("good Lion step", _lion),
    _case("good GELU gradient", _gelu_gradient),
    _case("good instance norm", _plane_norm),
    _case("good triplet loss", _triplet_loss),
    _case("good dispatch of tokens", _dispatched_tokens),
    _case("good combination of experts", _combined_experts),
    _case("good entropy of rows", _row_entropy),
    _case("good doubled image", _doubled_image),
    _case("good scales of sums", _scaled_sums),
    _case("good peaks of columns", _column_peaks),
    _case("good uniform noise", _noisy),
    _case("good vertical filter", _separable_filter),
    _case("good stochastic rounding", _stochastic_rounding),
)
