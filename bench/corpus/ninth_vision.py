"""Ninth round, faults of kernels for pictures and videos."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def correlation_lookup_kernel(
    volume_ptr, flow_ptr, out_ptr, pixels, height, width, PIXELS: tl.constexpr, TAPS: tl.constexpr,
    REACH: tl.constexpr,
):  # fmt: skip
    """Correlations around where each pixel went, by linear interpolation (RAFT). TAPS columns at once."""
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)[:, None]
    x, y = tl.load(flow_ptr + pixel), tl.load(flow_ptr + pixels + pixel)
    left, top = tl.floor(x), tl.floor(y)
    right, low = x - left, y - top
    column, row = left.to(tl.int32) - REACH, top.to(tl.int32) - REACH
    plane = volume_ptr + pixel.to(tl.int64) * height * width
    for dy in range(2 * REACH + 1):
        upper = row + dy
        in_upper, in_lower = (upper >= 0) & (upper < height), (upper >= -1) & (upper < height - 1)
        for first in tl.static_range(0, 2 * REACH + 1, TAPS):
            dx = first + tl.arange(0, TAPS)[None, :]
            at = column + dx
            wanted = dx < 2 * REACH + 1
            in_left, in_right = wanted & (at >= 0) & (at < width), wanted & (at >= -1) & (at < width - 1)
            corner = plane + upper * width + at
            a = tl.load(corner, mask=in_upper & in_left, other=0.0).to(tl.float32)  # fault
            b = tl.load(corner + 1, mask=in_upper & in_right, other=0.0).to(tl.float32)  # fault
            c = tl.load(corner + width, mask=in_lower & in_left, other=0.0).to(tl.float32)  # fault
            d = tl.load(corner + width + 1, mask=in_lower & in_right, other=0.0).to(tl.float32)  # fault
            value = (1.0 - low) * ((1.0 - right) * a + right * b) + low * ((1.0 - right) * c + right * d)
            out = out_ptr + (dy * (2 * REACH + 1) + dx) * pixels + pixel
            tl.store(out, value.to(tl.float16), mask=wanted)


def _correlation_lookup(pixels_of_program: int, taps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, height, width = (2, 16, 16) if small else (8, 55, 128)
        pixels = images * height * width
        volume = random(pixels, height, width, dtype=torch.float16)
        flow = torch.stack([torch.rand(pixels) * width, torch.rand(pixels) * height])
        out = empty(81, pixels, dtype=torch.float16)
        options = {"PIXELS": pixels_of_program, "TAPS": taps, "REACH": 4, "num_warps": 4}
        args = (volume, flow, out, pixels, height, width)
        return Launch(correlation_lookup_kernel, (pixels // pixels_of_program,), args, (out,), options)

    return prepare


@triton.jit
def detections_kernel(
    class_ptr, object_ptr, out_ptr, pixels, classes, PIXELS: tl.constexpr, CLASSES: tl.constexpr
):
    """Scores of each pixel of a detector's map: planes of logits become a row of classes for each pixel."""
    image = tl.program_id(1)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)[:, None]
    certain = tl.sigmoid(tl.load(object_ptr + image * pixels + pixel).to(tl.float32))
    for first in range(0, classes, CLASSES):
        kind = first + tl.arange(0, CLASSES)[None, :]
        logit = tl.load(class_ptr + (image * classes + kind) * pixels + pixel).to(tl.float32)
        score = certain * tl.sigmoid(logit)
        tl.store(out_ptr + (image * pixels + pixel) * classes + kind, score)  # fault


def _detections(pixels_of_program: int, together: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, pixels, classes = (1, 512, 16) if small else (64, 6400, 80)
        logit = random(images, classes, pixels, dtype=torch.float16)
        certain = random(images, pixels, dtype=torch.float16)
        out = empty(images, pixels, classes)
        options = {"PIXELS": pixels_of_program, "CLASSES": together, "num_warps": 4}
        args = (logit, certain, out, pixels, classes)
        return Launch(detections_kernel, (pixels // pixels_of_program, images), args, (out,), options)

    return prepare


@triton.jit
def gated_convolution_kernel(
    x_ptr, weight_ptr, gate_ptr, out_ptr, height, width, filters, CHANNELS: tl.constexpr,
    PIXELS: tl.constexpr, FILTERS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """A convolution of 3 by 3 that another one gates (inpainting), channels last."""
    row, image = tl.program_id(1) // (width // PIXELS), tl.program_id(2)
    column = tl.program_id(1) % (width // PIXELS) * PIXELS + tl.arange(0, PIXELS)
    kind, inner = tl.program_id(0) * FILTERS + tl.arange(0, FILTERS), tl.arange(0, DEPTH)
    pixel = (image * (height + 2) + row) * (width + 2) + column
    x = x_ptr + pixel[:, None] * CHANNELS + inner[None, :]
    weight = inner[:, None] * filters + kind[None, :]
    total = tl.zeros((PIXELS, FILTERS), dtype=tl.float32)  # fault
    gates = tl.zeros((PIXELS, FILTERS), dtype=tl.float32)  # fault
    for step in range(9 * CHANNELS // DEPTH):
        tap, part = step // (CHANNELS // DEPTH), step % (CHANNELS // DEPTH) * DEPTH
        features = tl.load(x + (tap // 3 * (width + 2) + tap % 3) * CHANNELS + part)
        at = step * DEPTH * filters + weight
        total = tl.dot(features, tl.load(weight_ptr + at), total)  # fault
        gates = tl.dot(features, tl.load(gate_ptr + at), gates)  # fault
    out = out_ptr + ((image * height + row) * width + column)[:, None] * filters + kind[None, :]
    tl.store(out, (tl.maximum(total, 0.0) * tl.sigmoid(gates)).to(tl.float16))


def _gated_convolution(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, size, filters = (1, 128, 128) if small else (8, 128, 256)
        height = 1 if small else size
        x = random(images, height + 2, size + 2, 128, dtype=torch.float16)
        weight, gate = (random(1152, filters, dtype=torch.float16) * 0.03 for _ in range(2))
        out = empty(images, height, size, filters, dtype=torch.float16)
        options = {"CHANNELS": 128, "PIXELS": 128, "FILTERS": 128, "DEPTH": 64}
        options |= {"num_warps": warps, "num_stages": 3}
        args = (x, weight, gate, out, height, size, filters)
        grid = (filters // 128, height * size // 128, images)
        return Launch(gated_convolution_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def outer_convolution_kernel(
    x_ptr, weight_ptr, out_ptr, height, width, CHANNELS: tl.constexpr, FILTERS: tl.constexpr,
    PIXELS: tl.constexpr,
):  # fmt: skip
    """A convolution of 3 by 3, channels last: each channel of some pixels times its filters' weights."""
    row, image = tl.program_id(1), tl.program_id(2)
    column, filters = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS), tl.arange(0, FILTERS)
    first = x_ptr + ((image * (height + 2) + row) * (width + 2) + column) * CHANNELS
    total = tl.zeros((PIXELS, FILTERS), dtype=tl.float32)
    for tap in range(9):
        x = first + (tap // 3 * (width + 2) + tap % 3) * CHANNELS
        weight = weight_ptr + tap * CHANNELS * FILTERS + filters
        for channel in range(CHANNELS):
            pixels = tl.load(x + channel).to(tl.float32)  # fault
            weights = tl.load(weight + channel * FILTERS).to(tl.float32)  # fault
            total += pixels[:, None] * weights[None, :]  # fault
    out = out_ptr + ((image * height + row) * width + column[:, None]) * FILTERS + filters[None, :]
    tl.store(out, total.to(tl.float16))


@triton.jit
def product_convolution_kernel(
    x_ptr, weight_ptr, out_ptr, height, width, CHANNELS: tl.constexpr, FILTERS: tl.constexpr,
    PIXELS: tl.constexpr,
):  # fmt: skip
    """As outer_convolution_kernel, by a product of matrices for each tap."""
    row, image = tl.program_id(1), tl.program_id(2)
    column, filters = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS), tl.arange(0, FILTERS)
    channel = tl.arange(0, CHANNELS)
    first = ((image * (height + 2) + row) * (width + 2) + column[:, None]) * CHANNELS + channel[None, :]
    total = tl.zeros((PIXELS, FILTERS), dtype=tl.float32)
    for tap in range(9):
        x = tl.load(x_ptr + first + (tap // 3 * (width + 2) + tap % 3) * CHANNELS)
        weight = tl.load(weight_ptr + (tap * CHANNELS + channel[:, None]) * FILTERS + filters[None, :])
        total = tl.dot(x, weight, total)
    out = out_ptr + ((image * height + row) * width + column[:, None]) * FILTERS + filters[None, :]
    tl.store(out, total.to(tl.float16))


def _convolution(by_product: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, height, width, channels = (1, 2, 128, 16) if small else (4, 256, 256, 64)
        x = random(images, height + 2, width + 2, channels, dtype=torch.float16)
        weight = random(3, 3, channels, 64, dtype=torch.float16)
        out = empty(images, height, width, 64, dtype=torch.float16)
        options = {"CHANNELS": channels, "FILTERS": 64, "PIXELS": 64, "num_warps": 4}
        kernel = product_convolution_kernel if by_product else outer_convolution_kernel
        args = (x, weight, out, height, width)
        return Launch(kernel, (width // 64, height, images), args, (out,), options)

    return prepare


@triton.jit
def exposure_kernel(x_ptr, out_ptr, gain, BLOCK: tl.constexpr, FAST: tl.constexpr):
    """Pictures of bytes (sRGB) made brighter in linear light. FAST: approximate powers."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at).to(tl.float32) * (1.0 / 255.0)
    base = (x + 0.055) * (1.0 / 1.055)
    bright = libdevice.fast_powf(base, 2.4) if FAST else libdevice.pow(base, 2.4)  # fault
    light = gain * tl.where(x > 0.04045, bright, x * (1.0 / 12.92))
    light = tl.minimum(light, 1.0)
    bright = libdevice.fast_powf(light, 1.0 / 2.4) if FAST else libdevice.pow(light, 1.0 / 2.4)  # fault
    y = tl.where(light > 0.0031308, 1.055 * bright - 0.055, 12.92 * light)
    tl.store(out_ptr + at, (255.0 * y + 0.5).to(tl.uint8))


def _exposure(fast: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 4096 if small else 16 * 3 * 1080 * 1920
        x, out = torch.randint(256, (n,), dtype=torch.uint8), empty(n, dtype=torch.uint8)
        options = {"BLOCK": 1024, "FAST": fast, "num_warps": 4}
        return Launch(exposure_kernel, (n // 1024,), (x, out, 1.4), (out,), options)

    return prepare


@triton.jit
def video_patches_kernel(
    x_ptr, out_ptr, channels, frames, height, width, deep, high, wide, BLOCK: tl.constexpr
):
    """Patches of a video, each the row of a token, for any sizes."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dx = at % wide  # fault
    rest = at // wide  # fault
    dy = rest % high  # fault
    rest = rest // high  # fault
    dt = rest % deep  # fault
    rest = rest // deep  # fault
    channel = rest % channels  # fault
    rest = rest // channels  # fault
    x = rest % (width // wide) * wide + dx  # fault
    rest = rest // (width // wide)  # fault
    y = rest % (height // high) * high + dy  # fault
    rest = rest // (height // high)  # fault
    t = rest % (frames // deep) * deep + dt  # fault
    video = rest // (frames // deep)  # fault
    source = (((video * channels + channel) * frames + t) * height + y) * width + x
    tl.store(out_ptr + at, tl.load(x_ptr + source))


@triton.jit
def cut_patches_kernel(
    x_ptr, out_ptr, frames, height, width, CHANNELS: tl.constexpr, DEEP: tl.constexpr, HIGH: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """As video_patches_kernel, with a program for each token."""
    column, across = tl.program_id(0), tl.num_programs(0)
    row, down = tl.program_id(1), tl.num_programs(1)
    along = frames // DEEP
    video, step = tl.program_id(2) // along, tl.program_id(2) % along
    part: tl.constexpr = DEEP * HIGH * WIDE
    inside = tl.arange(0, part)
    dx, dy, dt = inside % WIDE, inside // WIDE % HIGH, inside // (WIDE * HIGH)
    token = ((video * along + step) * down + row) * across + column
    y, x = row * HIGH + dy, column * WIDE + dx
    for channel in tl.static_range(CHANNELS):
        source = ((video * CHANNELS + channel) * frames + step * DEEP + dt) * height * width
        tl.store(
            out_ptr + (token * CHANNELS + channel) * part + inside,
            tl.load(x_ptr + source + y * width + x),
        )


def _video_patches(by_token: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        videos, frames, height, width = (1, 2, 32, 64) if small else (8, 16, 384, 384)
        x = random(videos, 3, frames, height, width, dtype=torch.float16)
        down, across, along = height // 16, width // 16, frames // 2
        out = empty(videos * along * down * across, 1536, dtype=torch.float16)
        if by_token:
            options = {"CHANNELS": 3, "DEEP": 2, "HIGH": 16, "WIDE": 16, "num_warps": 4}
            grid = (across, down, videos * along)
            return Launch(cut_patches_kernel, grid, (x, out, frames, height, width), (out,), options)
        args = (x, out, 3, frames, height, width, 2, 16, 16)
        options = {"BLOCK": 512, "num_warps": 4}
        return Launch(video_patches_kernel, (x.numel() // 512,), args, (out,), options)

    return prepare


@triton.jit
def motion_kernel(
    now_ptr, past_ptr, out_ptr, WIDTH: tl.constexpr, PITCH: tl.constexpr, SIDE: tl.constexpr,
    SEARCH: tl.constexpr,
):  # fmt: skip
    """From where each block of a frame moved: the least sum of differences of all places."""
    pixel = tl.arange(0, SIDE * SIDE)
    row, column = tl.program_id(1) * SIDE + pixel // SIDE, tl.program_id(0) * SIDE + pixel % SIDE
    now = tl.load(now_ptr + row * WIDTH + column).to(tl.int32)
    best = 0x7FFFFFFF
    for place in range(SEARCH * SEARCH):
        at = (row + place // SEARCH) * PITCH + column + place % SEARCH
        past = tl.load(past_ptr + at).to(tl.int32)
        cost = tl.sum(tl.abs(now - past), 0)  # fault
        best = tl.minimum(best, cost * (SEARCH * SEARCH) + place)  # fault
    tl.store(out_ptr + tl.program_id(1) * tl.num_programs(0) + tl.program_id(0), best)


@triton.jit
def motion_of_rows_kernel(
    now_ptr, past_ptr, out_ptr, WIDTH: tl.constexpr, PITCH: tl.constexpr, SIDE: tl.constexpr,
    SEARCH: tl.constexpr,
):  # fmt: skip
    """As motion_kernel, with the sums of a row of places side by side."""
    row, column = tl.program_id(1) * SIDE, tl.program_id(0) * SIDE + tl.arange(0, SIDE)[None, :]
    across = tl.arange(0, SEARCH)
    now_at, past_at = now_ptr + row * WIDTH + column, past_ptr + row * PITCH + column + across[:, None]
    best = tl.full((SEARCH,), 0x7FFFFFFF, tl.int32)
    for down in range(SEARCH):
        costs = tl.zeros((SEARCH, SIDE), dtype=tl.int32)
        for line in tl.static_range(SIDE):
            now = tl.load(now_at + line * WIDTH).to(tl.int32)
            past = tl.load(past_at + line * PITCH).to(tl.int32)
            costs += tl.abs(now - past)
        best = tl.minimum(best, tl.sum(costs, 1) * (SEARCH * SEARCH) + down * SEARCH + across)
        past_at += PITCH
    tl.store(out_ptr + tl.program_id(1) * tl.num_programs(0) + tl.program_id(0), tl.min(best, 0))


def _motion(by_rows: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        height, width, search = (32, 32, 8) if small else (1088, 1920, 16)
        past = torch.randint(256, (height + 16, width + 16), dtype=torch.uint8)
        now = past[5 : height + 5, 3 : width + 3].contiguous()
        out = empty(height // 16, width // 16, dtype=torch.int32)
        options = {"WIDTH": width, "PITCH": width + 16, "SIDE": 16, "SEARCH": search, "num_warps": 4}
        args = (now, past, out)
        kernel = motion_of_rows_kernel if by_rows else motion_kernel
        return Launch(kernel, (width // 16, height // 16), args, (out,), options)

    return prepare


@triton.jit
def quiet_video_kernel(x_ptr, out_ptr, frames, pixels, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Noise of a video reduced over time: a pixel follows its changes the faster, the larger they are."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, out = x_ptr + at, out_ptr + at
    value = tl.load(x).to(tl.float32)
    for _ in tl.range(0, frames, num_stages=STAGES):
        change = tl.load(x).to(tl.float32) - value  # fault
        value += change * tl.minimum(0.1 + tl.abs(change), 1.0)  # fault
        tl.store(out, value.to(tl.float16))
        x += pixels
        out += pixels


def _quiet_video(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, pixels = (8, 1024) if small else (512, 256 * 512)
        x = torch.rand(frames, pixels).to(torch.float16)
        out = torch.empty_like(x)
        args = (x, out, frames, pixels)
        options = {"BLOCK": 256, "STAGES": stages, "num_warps": 4}
        return Launch(quiet_video_kernel, (pixels // 256,), args, (out,), options)

    return prepare


_case = faults_of(9)


CASES = (
    _case(
        "correlation windows by a thread each",
        ("uncoalesced-load",),
        ("counts",),
        True,
        _correlation_lookup(128, 1),
        _correlation_lookup(16, 16),
    ),
    _case(
        "detections' scores stored class by class",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _detections(128, 1),
        _detections(64, 16),
    ),
    _case(
        "gated convolution by 4 warps",
        ("register-spills",),
        ("resources",),
        False,
        _gated_convolution(4),
        _gated_convolution(8),
    ),
    _case(
        "convolution by outer products",
        ("no-tensor-cores",),
        ("counts",),
        True,
        _convolution(False),
        _convolution(True),
    ),
    _case(
        "exposure of pictures by pow",
        ("slow-math",),
        ("counts",),
        True,
        _exposure(False),
        _exposure(True),
    ),
    _case(
        "video patches cut by division",
        ("index-arithmetic",),
        ("counts",),
        True,
        _video_patches(False),
        _video_patches(True),
    ),
    _case(
        "motion searched place by place",
        ("serial-reduction",),
        ("counts", "samples"),
        True,
        _motion(False),
        _motion(True),
    ),
    _case(
        "noise of a video reduced frame by frame",
        ("exposed-latency", "few-stages"),
        ("spans", "samples"),
        False,
        _quiet_video(1),
        _quiet_video(6),
    ),
)
