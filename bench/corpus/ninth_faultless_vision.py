"""Ninth round, kernels for pictures, sound, graphs and databases without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, empty, faultless_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def neighbour_shares_kernel(score_ptr, out_ptr, ROWS: tl.constexpr, NEIGHBOURS: tl.constexpr):
    """Softmax of the scores of each point's neighbours (point transformer). Bound by DRAM."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    at = row * NEIGHBOURS + tl.arange(0, NEIGHBOURS)[None, :]
    score = tl.load(score_ptr + at)
    share = tl.exp(score - tl.max(score, 1)[:, None])
    tl.store(out_ptr + at, share / tl.sum(share, 1)[:, None])


def _neighbour_shares(small: bool) -> Launch:
    points = 512 if small else 1 << 21
    score = random(points, 16)
    out = torch.empty_like(score)
    options = {"ROWS": 128, "NEIGHBOURS": 16, "num_warps": 4}
    return Launch(neighbour_shares_kernel, (points // 128,), (score, out), (out,), options)


@triton.jit
def instance_norm_kernel(x_ptr, weight_ptr, out_ptr, channels, PIXELS: tl.constexpr):
    """Norm of each channel of each picture, and a leaky ReLU after it. Bound by DRAM."""
    plane = tl.program_id(0)
    at = plane * PIXELS + tl.arange(0, PIXELS)
    scale = tl.load(weight_ptr + plane % channels)
    bias = tl.load(weight_ptr + channels + plane % channels)
    x = tl.load(x_ptr + at).to(tl.float32)
    x -= tl.sum(x, 0) * (1.0 / PIXELS)
    x *= scale * tl.rsqrt(tl.sum(x * x, 0) * (1.0 / PIXELS) + 1e-5)
    x += bias
    tl.store(out_ptr + at, tl.where(x > 0.0, x, 0.2 * x).to(tl.float16))


def _instance_norm(small: bool) -> Launch:
    images, channels = (1, 4) if small else (32, 512)
    x = random(images, channels, 64, 64, dtype=torch.float16)
    weight, out = torch.rand(2, channels), torch.empty_like(x)
    args = (x, weight, out, channels)
    options = {"PIXELS": 4096, "num_warps": 4}
    return Launch(instance_norm_kernel, (images * channels,), args, (out,), options)


@triton.jit
def power_spectra_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Levels of complex spectra, in bels. Bound by DRAM."""
    bin_ = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + 2 * bin_[:, None] + tl.arange(0, 2)[None, :])
    power = tl.sum(x * x, 1)
    tl.store(out_ptr + bin_, 0.30103 * libdevice.fast_log2f(tl.maximum(power, 1e-10)))


def _power_spectra(small: bool) -> Launch:
    bins = 1 << (12 if small else 25)
    x, out = random(bins, 2), empty(bins)
    options = {"BLOCK": 1024, "num_warps": 4}
    return Launch(power_spectra_kernel, (bins // 1024,), (x, out), (out,), options)


@triton.jit
def revenue_kernel(day_ptr, price_ptr, discount_ptr, quantity_ptr, out_ptr, first, last, BLOCK: tl.constexpr):
    """What discounts cost, summed over the sales of some days (TPC-H, query 6). Bound by DRAM."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    day, price = tl.load(day_ptr + row), tl.load(price_ptr + row)
    discount, quantity = tl.load(discount_ptr + row), tl.load(quantity_ptr + row)
    wanted = (day >= first) & (day < last) & (discount > 0.045) & (discount < 0.075) & (quantity < 24)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.where(wanted, price * discount, 0.0), 0))


def _revenue(small: bool) -> Launch:
    rows = 1 << (13 if small else 25)
    day = torch.randint(2500, (rows,), dtype=torch.int32)
    price, discount = 1000.0 * torch.rand(rows), 0.1 * torch.rand(rows)
    quantity = torch.randint(50, (rows,), dtype=torch.int32)
    out = empty(rows // 2048)
    args = (day, price, discount, quantity, out, 365, 730)
    return Launch(revenue_kernel, (rows // 2048,), args, (out,), {"BLOCK": 2048, "num_warps": 4})


@triton.jit
def median_of_frames_kernel(x_ptr, out_ptr, pixels, BLOCK: tl.constexpr):
    """Each pixel's median of three frames that follow each other. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c = tl.load(x_ptr + at), tl.load(x_ptr + pixels + at), tl.load(x_ptr + 2 * pixels + at)
    low, high = tl.minimum(a, b), tl.maximum(a, b)
    tl.store(out_ptr + at, tl.maximum(low, tl.minimum(high, c)))


def _median_of_frames(small: bool) -> Launch:
    pixels = 1 << (14 if small else 26)
    x, out = torch.randint(256, (3, pixels), dtype=torch.uint8), empty(pixels, dtype=torch.uint8)
    options = {"BLOCK": 4096, "num_warps": 4}
    return Launch(median_of_frames_kernel, (pixels // 4096,), (x, out, pixels), (out,), options)


@triton.jit
def speech_convolution_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, times, filters, CHANNELS: tl.constexpr, TIMES: tl.constexpr,
    FILTERS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """A convolution over time that halves the rate (Whisper's second layer). Bound by the tensor cores."""
    time, clip = tl.program_id(1) * TIMES + tl.arange(0, TIMES), tl.program_id(2)
    kind, inner = tl.program_id(0) * FILTERS + tl.arange(0, FILTERS), tl.arange(0, DEPTH)
    x = x_ptr + ((clip * (times + 1) + time[:, None]) * 2) * CHANNELS + inner[None, :]
    weight = weight_ptr + kind[None, :] * (3 * CHANNELS) + inner[:, None]
    total = tl.zeros((TIMES, FILTERS), dtype=tl.float32)
    for _ in range(0, 3 * CHANNELS, DEPTH):
        total = tl.dot(tl.load(x), tl.load(weight), total)
        x += DEPTH
        weight += DEPTH
    total += tl.load(bias_ptr + kind)[None, :]
    out = out_ptr + (clip * times + time[:, None]) * filters + kind[None, :]
    tl.store(out, tl.maximum(total, 0.0).to(tl.bfloat16))


def _speech_convolution(small: bool) -> Launch:
    clips, times, channels = (2, 128, 256) if small else (22, 1536, 1280)
    x = random(clips, 2 * times + 2, channels, dtype=torch.bfloat16)
    weight = random(channels, 3 * channels, dtype=torch.bfloat16) * 0.02
    bias, out = random(channels), empty(clips, times, channels, dtype=torch.bfloat16)
    options = {"CHANNELS": channels, "TIMES": 128, "FILTERS": 256, "DEPTH": 64}
    options |= {"num_warps": 8, "num_stages": 3}
    args = (x, weight, bias, out, times, channels)
    grid = (channels // 256, times // 128, clips)
    return Launch(speech_convolution_kernel, grid, args, (out,), options)


@triton.jit
def mel_bands_kernel(
    power_ptr, filter_ptr, out_ptr, FRAMES: tl.constexpr, BINS: tl.constexpr, BANDS: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """Levels of the bands of a mel scale, from spectra. Bound by DRAM."""
    frame, band = tl.program_id(0) * FRAMES + tl.arange(0, FRAMES), tl.arange(0, BANDS)
    inner = tl.arange(0, DEPTH)
    power = power_ptr + frame[:, None] * BINS + inner[None, :]
    weight = filter_ptr + inner[:, None] * BANDS + band[None, :]
    total = tl.zeros((FRAMES, BANDS), dtype=tl.float32)
    for _ in range(0, BINS, DEPTH):
        total = tl.dot(tl.load(power), tl.load(weight), total)
        power += DEPTH
        weight += DEPTH * BANDS
    level = 0.30103 * libdevice.fast_log2f(tl.maximum(total, 1e-10))
    tl.store(out_ptr + frame[:, None] * BANDS + band[None, :], level)


def _mel_bands(small: bool) -> Launch:
    frames = 256 if small else 1 << 18
    power = torch.rand(frames, 512).to(torch.bfloat16)
    weight = torch.rand(512, 128).to(torch.bfloat16)
    out = empty(frames, 128)
    options = {"FRAMES": 64, "BINS": 512, "BANDS": 128, "DEPTH": 64, "num_warps": 4, "num_stages": 3}
    return Launch(mel_bands_kernel, (frames // 64,), (power, weight, out), (out,), options)


@triton.jit
def hashed_ids_kernel(id_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    """Rows of a table that ids of any size share, by a product's upper half. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mixed = tl.load(id_ptr + at).to(tl.uint64, bitcast=True) * 0x9E3779B97F4A7C15
    row = ((mixed >> 32) * rows) >> 32
    tl.store(out_ptr + at, row.to(tl.int32))


def _hashed_ids(small: bool) -> Launch:
    n = 1 << (12 if small else 25)
    ids, out = torch.randint(1 << 62, (n,), dtype=torch.int64), empty(n, dtype=torch.int32)
    options = {"BLOCK": 1024, "num_warps": 4}
    return Launch(hashed_ids_kernel, (n // 1024,), (ids, out, 1_000_003), (out,), options)


_good = faultless_of(9)

CASES = (
    _good("good shares of neighbours", _neighbour_shares),
    _good("good norm of planes", _instance_norm),
    _good("good levels of spectra", _power_spectra),
    _good("good sums of some sales", _revenue),
    _good("good median of frames", _median_of_frames),
    _good("good convolution of speech", _speech_convolution),
    _good("good mel bands", _mel_bands),
    _good("good rows of hashed ids", _hashed_ids),
)
