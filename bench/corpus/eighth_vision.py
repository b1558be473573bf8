"""Eighth round, faults of networks that see: detection, restoration, flow, diffusion."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def roi_align_kernel(
    x_ptr, box_ptr, out_ptr, channel_stride, row_stride, pixel_stride, SIZE: tl.constexpr,
    CHANNELS: tl.constexpr,
):  # fmt: skip
    """Features of each box in SIZE by SIZE bins, the mean of four samples a bin (RoIAlign)."""
    cell, box, channel = tl.program_id(0), tl.program_id(1), tl.arange(0, CHANNELS)
    left, top = tl.load(box_ptr + 4 * box), tl.load(box_ptr + 4 * box + 1)
    width = (tl.load(box_ptr + 4 * box + 2) - left) / SIZE
    height = (tl.load(box_ptr + 4 * box + 3) - top) / SIZE
    total = tl.zeros((CHANNELS,), dtype=tl.float32)
    for sample in tl.static_range(4):
        y = top + (cell // SIZE + 0.25 + 0.5 * (sample // 2)) * height
        x = left + (cell % SIZE + 0.25 + 0.5 * (sample % 2)) * width
        row, column = y.to(tl.int32), x.to(tl.int32)
        down, right = y - row, x - column
        at = x_ptr + row * row_stride + column * pixel_stride + channel * channel_stride
        a, b = tl.load(at).to(tl.float32), tl.load(at + pixel_stride).to(tl.float32)  # fault
        c = tl.load(at + row_stride).to(tl.float32)  # fault
        d = tl.load(at + row_stride + pixel_stride).to(tl.float32)  # fault
        upper, lower = a + right * (b - a), c + right * (d - c)
        total += upper + down * (lower - upper)
    tl.store(out_ptr + (box * SIZE * SIZE + cell) * CHANNELS + channel, (0.25 * total).to(tl.float16))


def _roi_align(channels_last: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        size, boxes, height, width = (2, 4, 16, 24) if small else (7, 1024, 200, 304)
        x = random(1, 256, height, width, dtype=torch.float16)
        if channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        half = torch.tensor([width / 2 - 1, height / 2 - 1])
        corners = torch.rand(boxes, 2) * half
        box = torch.cat([corners, corners + torch.rand(boxes, 2) * half], 1)
        out = empty(boxes, size, size, 256, dtype=torch.float16)
        args = (x, box, out, x.stride(1), x.stride(2), x.stride(3))
        options = {"SIZE": size, "CHANNELS": 256, "num_warps": 4}
        return Launch(roi_align_kernel, (size * size, boxes), args, (out,), options)

    return prepare


@triton.jit
def pillars_kernel(
    x_ptr, place_ptr, out_ptr, pillars, frame_stride, channel_stride, place_stride, BLOCK: tl.constexpr,
    CHANNELS: tl.constexpr,
):  # fmt: skip
    """Features of a lidar's pillars, put where they stand in the map from above (PointPillars)."""
    pillar = tl.program_id(1) * pillars + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = tl.arange(0, CHANNELS)[None, :]
    place = tl.load(place_ptr + pillar)[:, None]
    x = tl.load(x_ptr + pillar[:, None] * CHANNELS + channel)
    out = out_ptr + tl.program_id(1) * frame_stride + place * place_stride + channel * channel_stride
    tl.store(out, x)  # fault


def _pillars(channels_last: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, pillars, places = (2, 128, 1024) if small else (16, 12288, 496 * 432)
        x = random(frames, pillars, 64, dtype=torch.float16)
        place = torch.stack([torch.randperm(places)[:pillars] for _ in range(frames)]).int()
        if channels_last:
            out = zeros(frames, places, 64, dtype=torch.float16).transpose(1, 2)
        else:
            out = zeros(frames, 64, places, dtype=torch.float16)
        args = (x, place, out, pillars, out.stride(0), out.stride(1), out.stride(2))
        options = {"BLOCK": 32, "CHANNELS": 64, "num_warps": 4}
        return Launch(pillars_kernel, (pillars // 32, frames), args, (out,), options)

    return prepare


@triton.jit
def source_of_window(at, height, width, channels, side, shift):
    """Where an element of the windows, numbered as they lie in memory, is in the shifted image."""
    channel, at = at % channels, at // channels
    right, at = at % side, at // side
    down, at = at % side, at // side
    across, at = at % (width // side), at // (width // side)
    along, image = at % (height // side), at // (height // side)
    row, column = (along * side + down + shift) % height, (across * side + right + shift) % width
    return ((image * height + row) * width + column) * channels + channel


@triton.jit
def windows_kernel(x_ptr, out_ptr, height, width, channels, side, shift, BLOCK: tl.constexpr):
    """Shifted windows of an image of any size, each behind the other (Swin)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source = source_of_window(at, height, width, channels, side, shift)  # fault
    tl.store(out_ptr + at, tl.load(x_ptr + source))


@triton.jit
def fixed_windows_kernel(
    x_ptr, out_ptr, height: tl.constexpr, width: tl.constexpr, channels: tl.constexpr, side: tl.constexpr,
    shift: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """As windows_kernel, for a size that the compiler knows."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + source_of_window(at, height, width, channels, side, shift)))


def _windows(fixed: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, side = (1, 16) if small else (128, 64)
        x = random(images, side, side, 180, dtype=torch.float16)
        out = torch.empty_like(x)
        kernel = fixed_windows_kernel if fixed else windows_kernel
        args = (x, out, side, side, 180, 8, 4)
        return Launch(kernel, (x.numel() // 1024,), args, (out,), {"BLOCK": 1024, "num_warps": 4})

    return prepare


@triton.jit
def predicted_kernels_kernel(
    x_ptr, weight_ptr, out_ptr, height, WIDTH: tl.constexpr, PITCH: tl.constexpr, BLOCK: tl.constexpr,
    ONCE: tl.constexpr,
):  # fmt: skip
    """A burst's noise taken away by a filter of 5 by 5 of each pixel's own (a kernel-prediction network)."""
    row, image = tl.program_id(1), tl.program_id(2)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plane = (height + 4) * PITCH
    x = x_ptr + image * 3 * plane + row * PITCH + column
    weight = weight_ptr + (image * 25 * height + row) * WIDTH + column
    out = out_ptr + (image * 3 * height + row) * WIDTH + column
    if ONCE:
        red = tl.zeros((BLOCK,), dtype=tl.float32)
        green = tl.zeros((BLOCK,), dtype=tl.float32)
        blue = tl.zeros((BLOCK,), dtype=tl.float32)
        for down in range(5):
            for right in tl.static_range(5):
                each = tl.load(weight + (down * 5 + right) * height * WIDTH)
                at = x + down * PITCH + right
                red += each * tl.load(at).to(tl.float32)
                green += each * tl.load(at + plane).to(tl.float32)
                blue += each * tl.load(at + 2 * plane).to(tl.float32)
        tl.store(out, red.to(tl.float16))
        tl.store(out + height * WIDTH, green.to(tl.float16))
        tl.store(out + 2 * height * WIDTH, blue.to(tl.float16))
    else:
        for colour in range(3):
            total = tl.zeros((BLOCK,), dtype=tl.float32)
            for down in range(5):
                for right in tl.static_range(5):
                    each = tl.load(weight + (down * 5 + right) * height * WIDTH)  # fault
                    at = x + colour * plane + down * PITCH + right
                    total += each * tl.load(at).to(tl.float32)
            tl.store(out + colour * height * WIDTH, total.to(tl.float16))


def _predicted_kernels(once: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, height, width = (1, 2, 512) if small else (8, 1024, 1024)
        x = random(images, 3, height + 4, width + 16, dtype=torch.float16)
        weight = torch.rand(images, 25, height, width)
        out = empty(images, 3, height, width, dtype=torch.float16)
        options = {"WIDTH": width, "PITCH": width + 16, "BLOCK": 512, "ONCE": once, "num_warps": 4}
        args = (x, weight, out, height)
        return Launch(predicted_kernels_kernel, (width // 512, height, images), args, (out,), options)

    return prepare


@triton.jit
def group_moments_kernel(x_ptr, out_ptr, size, BLOCK: tl.constexpr):
    """Sum and sum of squares of each group of channels (the group norm of a diffusion model's decoder)."""
    group = tl.program_id(1)
    first = x_ptr + (group * tl.num_programs(0) + tl.program_id(0)) * size
    total, squares = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(0, size, BLOCK):
        x = tl.load(first + at + tl.arange(0, BLOCK)).to(tl.float32)
        total += x
        squares += x * x
    tl.atomic_add(out_ptr + 2 * group, tl.sum(total), sem="relaxed")
    tl.atomic_add(out_ptr + 2 * group + 1, tl.sum(squares), sem="relaxed")


def _group_moments(parts: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        groups, size = (4, 1 << 15) if small else (32, 1 << 22)
        x, out = random(groups, size, dtype=torch.float16), zeros(groups, 2)
        options = {"BLOCK": 4096, "num_warps": 8}
        few = min(parts, 4) if small else parts
        args = (x, out, size // few)
        return Launch(group_moments_kernel, (few, groups), args, (out[:, 1],), options)

    return prepare


@triton.jit
def convex_upsample_kernel(
    flow_ptr, mask_ptr, out_ptr, height, WIDTH: tl.constexpr, PITCH: tl.constexpr, PIXELS: tl.constexpr,
    EACH: tl.constexpr,
):  # fmt: skip
    """Flow at eight times its size, of convex sums of nine neighbours (RAFT); EACH components a program."""
    image, first = tl.program_id(1), tl.program_id(2) * EACH
    pixel, part = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS), tl.arange(0, 64)[None, :]
    row, column = pixel // WIDTH, pixel % WIDTH
    mask = mask_ptr + (image * height * WIDTH + pixel[:, None]) * 576 + part
    plane = (height + 2) * PITCH
    flow = flow_ptr + (image * 2 + first) * plane + row * PITCH + column
    one = tl.zeros((PIXELS, 64), dtype=tl.float32)
    other, weights = one, one
    for tap in tl.static_range(9):
        weight = tl.exp(tl.load(mask + tap * 64).to(tl.float32))  # fault
        at = flow + (tap // 3) * PITCH + tap % 3
        weights += weight
        one += weight * tl.load(at)[:, None]
        if EACH == 2:
            other += weight * tl.load(at + plane)[:, None]
    above = ((image * 2 + first) * height + row[:, None]) * 8 + part // 8
    out = out_ptr + (above * WIDTH + column[:, None]) * 8 + part % 8
    scale = 8.0 / weights
    tl.store(out, one * scale)
    if EACH == 2:
        tl.store(out + height * WIDTH * 64, other * scale)


def _convex_upsample(each: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, height = (1, 1) if small else (64, 64)
        flow = random(images, 2, height + 2, 144)
        mask = random(images, height, 128, 576, dtype=torch.float16)
        out = empty(images, 2, height * 8, 1024)
        options = {"WIDTH": 128, "PITCH": 144, "PIXELS": 16, "EACH": each, "num_warps": 4}
        grid = (height * 8, images, 2 // each)
        return Launch(convex_upsample_kernel, grid, (flow, mask, out, height), (out,), options)

    return prepare


_case = faults_of(8)


CASES = (
    _case(
        "boxes' features gathered across planes",
        ("uncoalesced-load",),
        ("counts",),
        True,
        _roi_align(False),
        _roi_align(True),
    ),
    _case(
        "pillars scattered into planes",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _pillars(False),
        _pillars(True),
    ),
    _case(
        "windows of any size by division",
        ("index-arithmetic",),
        ("counts", "samples"),
        True,
        _windows(False),
        _windows(True),
    ),
    _case(
        "predicted kernels loaded for each colour",
        ("redundant-load", "tile-reread"),
        ("counts", "counters"),
        True,
        _predicted_kernels(False),
        _predicted_kernels(True),
    ),
    _case(
        "32 groups of an image by 32 programs",
        ("idle-sms",),
        ("spans", "ctas"),
        False,
        _group_moments(1),
        _group_moments(64),
    ),
    _case(
        "masks read for each component of flow",
        ("tile-reread", "redundant-load"),
        ("counters",),
        False,
        _convex_upsample(1),
        _convex_upsample(2),
    ),
)
