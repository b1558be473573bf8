"""A convolution without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


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


CASES = (Case("good convolution of speech", (), _speech_convolution),)
