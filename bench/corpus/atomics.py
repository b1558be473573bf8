"""Atomics on few addresses."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def counting_kernel(x_ptr, bins_ptr, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.atomic_add(bins_ptr + x, 1)  # fault


@triton.jit
def histogram_kernel(x_ptr, bins_ptr, steps, BINS: tl.constexpr, BLOCK: tl.constexpr):
    counts = tl.zeros((BINS,), dtype=tl.int32)
    for step in range(steps):
        offs = (tl.program_id(0) * steps + step) * BLOCK + tl.arange(0, BLOCK)
        counts += tl.histogram(tl.load(x_ptr + offs), BINS)
    tl.atomic_add(bins_ptr + tl.arange(0, BINS), counts)


def _histogram(aggregated: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, bins = (1 << 13, 16) if small else (1 << 22, 16)
        x, counts = integers(n, below=bins), zeros(bins, dtype=torch.int32)
        options = {"BINS": bins, "BLOCK": 1024}
        if aggregated:
            steps = 4
            return Launch(histogram_kernel, (n // 1024 // steps,), (x, counts, steps), (counts,), options)
        return Launch(counting_kernel, (n // 1024,), (x, counts), (counts,), options)

    return prepare


@triton.jit
def channel_moments_kernel(
    x_ptr, sum_ptr, square_ptr, steps, CHANNELS: tl.constexpr, PIXELS: tl.constexpr, LATE: tl.constexpr
):
    """Sums of each channel and of its squares, over all pixels, as a norm of batches needs them."""
    pixel, channel = tl.arange(0, PIXELS), tl.arange(0, CHANNELS)
    sums = tl.zeros((PIXELS, CHANNELS), dtype=tl.float32)
    squares = tl.zeros((PIXELS, CHANNELS), dtype=tl.float32)
    for step in range(steps):
        at = (tl.program_id(0) * steps + step) * PIXELS + pixel
        x = tl.load(x_ptr + at[:, None] * CHANNELS + channel[None, :]).to(tl.float32)
        if LATE:
            sums, squares = sums + x, squares + x * x
        else:
            tl.atomic_add(sum_ptr + channel, tl.sum(x, 0), sem="relaxed")  # fault
            tl.atomic_add(square_ptr + channel, tl.sum(x * x, 0), sem="relaxed")  # fault
    if LATE:
        tl.atomic_add(sum_ptr + channel, tl.sum(sums, 0), sem="relaxed")
        tl.atomic_add(square_ptr + channel, tl.sum(squares, 0), sem="relaxed")


def _channel_moments(late: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps = (4, 4) if small else (4224, 64)
        x = random(programs * steps * 8, 64, dtype=torch.float16) + 0.5
        sums, squares = zeros(64), zeros(64)
        options = {"CHANNELS": 64, "PIXELS": 8, "LATE": late, "num_warps": 1}
        args = (x, sums, squares, steps)
        return Launch(channel_moments_kernel, (programs,), args, (sums, squares), options)

    return prepare


CASES = (
    Case("bins in global memory", ("atomics",), _histogram(False), _histogram(True)),
    Case(
        "moments of channels added each step", ("atomics",), _channel_moments(False), _channel_moments(True)
    ),
)
