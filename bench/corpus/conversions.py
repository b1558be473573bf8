"""Values converted in each step."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, integers

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def depthwise_bytes_kernel(
    x_ptr, weight_ptr, out_ptr, scale, height, WIDTH: tl.constexpr, CHANNELS: tl.constexpr,
    PIXELS: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Each channel of bytes with its own filter of 7 by 7; WHOLE: the products are added as integers."""
    lanes = tl.arange(0, PIXELS * CHANNELS)
    line = tl.program_id(2) * (height + 6) + tl.program_id(1)
    x = x_ptr + (line * (WIDTH + 6) + tl.program_id(0) * PIXELS) * CHANNELS + lanes
    filters = weight_ptr + lanes % CHANNELS
    if WHOLE:
        total = tl.zeros((PIXELS * CHANNELS,), dtype=tl.int32)
    else:
        total = tl.zeros((PIXELS * CHANNELS,), dtype=tl.float32)
    for down in range(7):
        for right in tl.static_range(7):
            value = tl.load(x + (down * (WIDTH + 6) + right) * CHANNELS)
            weight = tl.load(filters + (down * 7 + right) * CHANNELS)
            if WHOLE:
                total += value.to(tl.int32) * weight.to(tl.int32)
            else:
                total += value.to(tl.float32) * weight.to(tl.float32)  # fault
    out = ((tl.program_id(2) * height + tl.program_id(1)) * WIDTH + tl.program_id(0) * PIXELS) * CHANNELS
    rounded = tl.minimum(tl.maximum(total.to(tl.float32) * scale, -128.0), 127.0)
    tl.store(out_ptr + out + lanes, rounded.to(tl.int8))


def _depthwise_bytes(whole: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, height, width = (1, 2, 8) if small else (8, 64, 64)
        x = (integers(images, height + 6, width + 6, 512, below=256) - 128).to(torch.int8)
        weight = (integers(49, 512, below=256) - 128).to(torch.int8)
        out = empty(images, height, width, 512, dtype=torch.int8)
        args = (x, weight, out, 2.0**-10, height)
        options = {"WIDTH": width, "CHANNELS": 512, "PIXELS": 4, "WHOLE": whole, "num_warps": 4}
        return Launch(depthwise_bytes_kernel, (width // 4, height, images), args, (out,), options)

    return prepare


@triton.jit
def half_state_kernel(x_ptr, out_ptr, steps, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    """A recurrence whose state is rounded to a narrow type, and widened, in each step."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    state = (x * 0.0).to(DTYPE)
    for _ in range(steps):
        state = (state.to(tl.float32) * 0.5 + x).to(DTYPE)  # fault
    tl.store(out_ptr + offs, state.to(tl.float32))


def _half_state(dtype: Any) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (12 if small else 24)
        x, out = torch.rand(n) + 0.5, empty(n)
        return Launch(half_state_kernel, (n // 1024,), (x, out, 200), (out,), {"BLOCK": 1024, "DTYPE": dtype})

    return prepare


CASES = (
    Case("depthwise bytes in float32", ("conversions",), _depthwise_bytes(False), _depthwise_bytes(True)),
    Case("state narrowed each step", ("conversions",), _half_state(tl.float16), _half_state(tl.float32)),
)
