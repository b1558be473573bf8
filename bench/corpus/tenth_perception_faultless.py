"""Tenth round, kernels of perception without a fault: scenes, maps, graphs, sound and noise."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faultless_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def projected_gaussians_kernel(x_ptr, out_ptr, points, focus, BLOCK: tl.constexpr):
    """Where Gaussians in space are in a picture, and the inverse of how they spread there. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y, z = tl.load(x_ptr + at), tl.load(x_ptr + points + at), tl.load(x_ptr + 2 * points + at)
    w, i = tl.load(x_ptr + 3 * points + at), tl.load(x_ptr + 4 * points + at)
    j, k = tl.load(x_ptr + 5 * points + at), tl.load(x_ptr + 6 * points + at)
    first, second = tl.load(x_ptr + 7 * points + at), tl.load(x_ptr + 8 * points + at)
    third = tl.load(x_ptr + 9 * points + at)
    twice = 2.0 / (w * w + i * i + j * j + k * k)
    near = 1.0 / z
    u, v, scale = x * near, y * near, focus * near
    # rows of (the projection's derivative) times (rotation), less the scale, which comes with the spreads
    a = first * (1.0 - twice * (j * j + k * k) - u * twice * (i * k - w * j))
    b = second * (twice * (i * j - w * k) - u * twice * (j * k + w * i))
    c = third * (twice * (i * k + w * j) - u * (1.0 - twice * (i * i + j * j)))
    d = first * (twice * (i * j + w * k) - v * twice * (i * k - w * j))
    e = second * (1.0 - twice * (i * i + k * k) - v * twice * (j * k + w * i))
    f = third * (twice * (j * k - w * i) - v * (1.0 - twice * (i * i + j * j)))
    wide = scale * scale * (a * a + b * b + c * c) + 0.3
    mixed = scale * scale * (a * d + b * e + c * f)
    high = scale * scale * (d * d + e * e + f * f) + 0.3
    inverse = 1.0 / (wide * high - mixed * mixed)
    tl.store(out_ptr + at, focus * u)
    tl.store(out_ptr + points + at, focus * v)
    tl.store(out_ptr + 2 * points + at, high * inverse)
    tl.store(out_ptr + 3 * points + at, -mixed * inverse)
    tl.store(out_ptr + 4 * points + at, wide * inverse)


def _projected_gaussians(BLOCK: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        points = 4096 if small else 1 << 23
        x, out = random(10, points), empty(5, points)
        x[2] = x[2].abs() + 1.0
        x[7:] = 0.1 * x[7:].abs() + 0.01
        options = {"BLOCK": BLOCK, "num_warps": num_warps}
        args = (x, out, points, 1000.0)
        return Launch(projected_gaussians_kernel, (points // BLOCK,), args, (out,), options)

    return prepare


@triton.jit
def ray_colours_kernel(
    x_ptr, out_ptr, rays, SAMPLES: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    """Colours of rays from the densities and colours of their samples (NeRF). Bound by DRAM."""
    ray = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    through = tl.full((BLOCK,), 1.0, dtype=tl.float32)
    red = tl.zeros((BLOCK,), dtype=tl.float32)
    green, blue = red, red
    x = x_ptr + ray
    for _ in tl.range(SAMPLES, num_stages=STAGES):
        seen = through * tl.exp(-tl.load(x).to(tl.float32))
        weight = through - seen
        red += weight * tl.load(x + rays).to(tl.float32)
        green += weight * tl.load(x + 2 * rays).to(tl.float32)
        blue += weight * tl.load(x + 3 * rays).to(tl.float32)
        through = seen
        x += 4 * rays
    tl.store(out_ptr + ray, red)
    tl.store(out_ptr + rays + ray, green)
    tl.store(out_ptr + 2 * rays + ray, blue)


def _ray_colours(BLOCK: int, STAGES: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        samples, rays = (8, 2048) if small else (64, 1 << 20)
        x, out = torch.rand(samples, 4, rays).half(), empty(3, rays)
        options = {"SAMPLES": samples, "BLOCK": BLOCK, "STAGES": STAGES, "num_warps": num_warps}
        return Launch(ray_colours_kernel, (rays // BLOCK,), (x, out, rays), (out,), options)

    return prepare


@triton.jit
def doubled_maps_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, width, channels, filters, TILES: tl.constexpr,
    PIXELS: tl.constexpr, FILTERS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """A transposed convolution of 2 by 2 that doubles a map's size, channels last. Bound by tensor cores."""
    pixel, inner = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS), tl.arange(0, DEPTH)
    column = tl.program_id(0) * FILTERS + tl.arange(0, FILTERS)
    corner, kind = tl.program_id(0) // TILES, tl.program_id(0) % TILES * FILTERS + tl.arange(0, FILTERS)
    x = x_ptr + pixel[:, None] * channels + inner[None, :]
    weight = weight_ptr + inner[:, None] * (4 * filters) + column[None, :]
    total = tl.zeros((PIXELS, FILTERS), dtype=tl.float32)
    for _ in range(0, channels, DEPTH):
        total = tl.dot(tl.load(x), tl.load(weight), total)
        x += DEPTH
        weight += DEPTH * 4 * filters
    total += tl.load(bias_ptr + kind)[None, :]
    target = (pixel // width * 2 + corner // 2) * (2 * width) + pixel % width * 2 + corner % 2
    tl.store(out_ptr + target[:, None] * filters + kind[None, :], total.to(tl.bfloat16))


def _doubled_maps(PIXELS: int, FILTERS: int, DEPTH: int, num_warps: int, num_stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, size, channels, filters = (1, 16, 128, 256) if small else (16, 64, 1024, 512)
        x = random(images, size, size, channels, dtype=torch.bfloat16)
        weight = random(channels, 4 * filters, dtype=torch.bfloat16) * channels**-0.5
        bias, out = random(filters), empty(images, 2 * size, 2 * size, filters, dtype=torch.bfloat16)
        options = {"TILES": filters // FILTERS, "PIXELS": PIXELS, "FILTERS": FILTERS, "DEPTH": DEPTH}
        args = (x, weight, bias, out, size, channels, filters)
        grid = (4 * filters // FILTERS, images * size * size // PIXELS)
        warps = {"num_warps": num_warps, "num_stages": num_stages}
        return Launch(doubled_maps_kernel, grid, args, (out,), options | warps)

    return prepare


@triton.jit
def edge_scores_kernel(x_ptr, from_ptr, to_ptr, out_ptr, EDGES: tl.constexpr, DIM: tl.constexpr):
    """How likely edges of a graph are, by products of what their ends are like. Bound by L2."""
    edge, dim = tl.program_id(0) * EDGES + tl.arange(0, EDGES), tl.arange(0, DIM)[None, :]
    one, other = tl.load(from_ptr + edge)[:, None], tl.load(to_ptr + edge)[:, None]
    x, y = tl.load(x_ptr + one * DIM + dim), tl.load(x_ptr + other * DIM + dim)
    tl.store(out_ptr + edge, tl.sigmoid(tl.sum(x.to(tl.float32) * y.to(tl.float32), 1)))


def _edge_scores(EDGES: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        edges, nodes = (512, 64) if small else (1 << 21, 1 << 16)
        x, out = 0.3 * random(nodes, 128, dtype=torch.float16), empty(edges)
        one, other = integers(edges, below=nodes), integers(edges, below=nodes)
        options = {"EDGES": EDGES, "DIM": 128, "num_warps": num_warps}
        return Launch(edge_scores_kernel, (edges // EDGES,), (x, one, other, out), (out,), options)

    return prepare


@triton.jit
def windowed_frames_kernel(
    x_ptr, window_ptr, out_ptr, HOP: tl.constexpr, WINDOW: tl.constexpr, FRAMES: tl.constexpr
):
    """Overlapping frames of sound about their means, times a window. Bound by DRAM."""
    frame, at = tl.program_id(0) * FRAMES + tl.arange(0, FRAMES)[:, None], tl.arange(0, WINDOW)[None, :]
    x = tl.load(x_ptr + frame * HOP + at).to(tl.float32)
    x -= tl.sum(x, 1)[:, None] * (1.0 / WINDOW)
    tl.store(out_ptr + frame * WINDOW + at, (x * tl.load(window_ptr + at)).to(tl.float16))


def _windowed_frames(FRAMES: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames = 32 if small else 1 << 18
        x, out = random(frames * 160 + 512, dtype=torch.float16), empty(frames, 512, dtype=torch.float16)
        window = (torch.arange(512) * (math.pi / 512)).sin() ** 2
        options = {"HOP": 160, "WINDOW": 512, "FRAMES": FRAMES, "num_warps": num_warps}
        return Launch(windowed_frames_kernel, (frames // FRAMES,), (x, window, out), (out,), options)

    return prepare


@triton.jit
def expected_disparities_kernel(
    cost_ptr, out_ptr, pixels, DISPARITIES: tl.constexpr, CHUNK: tl.constexpr, PIXELS: tl.constexpr
):
    """The mean disparity of each pixel under the softmax of its costs (GC-Net). Bound by DRAM."""
    image, pixel = tl.program_id(1), tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    each = tl.arange(0, CHUNK)[:, None]
    at = cost_ptr + (image * DISPARITIES + each) * pixels + pixel[None, :]
    disparity = each.to(tl.float32)
    least = tl.full((PIXELS,), 1e30, dtype=tl.float32)
    total = tl.zeros((PIXELS,), dtype=tl.float32)
    first = total
    for _ in range(0, DISPARITIES, CHUNK):
        cost = tl.load(at).to(tl.float32)
        lower = tl.minimum(least, tl.min(cost, 0))
        fade, share = tl.exp(lower - least), tl.exp(lower[None, :] - cost)
        total = fade * total + tl.sum(share, 0)
        first = fade * first + tl.sum(share * disparity, 0)
        least = lower
        disparity += CHUNK
        at += CHUNK * pixels
    tl.store(out_ptr + image * pixels + pixel, first / total)


def _expected_disparities(CHUNK: int, PIXELS: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, pixels = (1, 2048) if small else (8, 544 * 960)
        cost, out = random(images, 64, pixels, dtype=torch.float16), empty(images, pixels)
        options = {"DISPARITIES": 64, "CHUNK": CHUNK, "PIXELS": PIXELS, "num_warps": num_warps}
        grid = (pixels // PIXELS, images)
        return Launch(expected_disparities_kernel, grid, (cost, out, pixels), (out,), options)

    return prepare


@triton.jit
def normed_maps_kernel(
    x_ptr, moment_ptr, weight_ptr, out_ptr, pixels, each, CHANNELS: tl.constexpr, GROUP: tl.constexpr,
    PIXELS: tl.constexpr,
):  # fmt: skip
    """Group norm by known moments, then SiLU (a diffusion model's decoder), channels last. Bound by DRAM."""
    image, channel = tl.program_id(1), tl.arange(0, CHANNELS)[None, :]
    moment = moment_ptr + (image * (CHANNELS // GROUP) + channel // GROUP) * 2
    scale = tl.load(weight_ptr + channel) * tl.load(moment + 1)
    shift = tl.load(weight_ptr + CHANNELS + channel) - scale * tl.load(moment)
    first = image * pixels + tl.program_id(0) * each
    at = (first + tl.arange(0, PIXELS)[:, None]) * CHANNELS + channel
    for _ in range(0, each, PIXELS):
        y = tl.load(x_ptr + at).to(tl.float32) * scale + shift
        tl.store(out_ptr + at, (y * tl.sigmoid(y)).to(tl.float16))
        at += PIXELS * CHANNELS


def _normed_maps(PIXELS: int, each: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, pixels = (1, 256) if small else (16, 256 * 256)
        x = random(images, pixels, 256, dtype=torch.float16)
        moment, weight, out = torch.rand(images, 32, 2), random(2, 256), torch.empty_like(x)
        options = {"CHANNELS": 256, "GROUP": 8, "PIXELS": PIXELS, "num_warps": num_warps}
        args = (x, moment, weight, out, pixels, each)
        return Launch(normed_maps_kernel, (pixels // each, images), args, (out,), options)

    return prepare


@triton.jit
def cloud_noise_kernel(
    out_ptr, width, scale, OCTAVES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Clouds: smooth noise of eight scales, from hashes of corners. Bound by arithmetic."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    x, y = column * scale, row * scale
    total, height = tl.zeros((ROWS, COLUMNS), dtype=tl.float32), 0.5 / 65536.0
    for _ in tl.static_range(OCTAVES):
        left, top = tl.floor(x), tl.floor(y)
        right, down = x - left, y - top
        across, along = right * right * (3.0 - 2.0 * right), down * down * (3.0 - 2.0 * down)
        a, c = left.to(tl.int32) * 0x1B873593, top.to(tl.int32) * 0x0E6546B6
        b, d = a + 0x1B873593, c + 0x0E6546B6
        ac, bc, ad, bd = (
            (a ^ c) * 0x05EBCA6B,
            (b ^ c) * 0x05EBCA6B,
            (a ^ d) * 0x05EBCA6B,
            (b ^ d) * 0x05EBCA6B,
        )
        ac, bc = ((ac >> 15) & 65535).to(tl.float32), ((bc >> 15) & 65535).to(tl.float32)
        ad, bd = ((ad >> 15) & 65535).to(tl.float32), ((bd >> 15) & 65535).to(tl.float32)
        upper, lower = ac + across * (bc - ac), ad + across * (bd - ad)
        total += height * (upper + along * (lower - upper))
        x, y, height = 2.0 * x + 17.0, 2.0 * y + 31.0, 0.5 * height
    tl.store(out_ptr + row * width + column, total.to(tl.float16))


def _cloud_noise(ROWS: int, COLUMNS: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        height, width = (16, 128) if small else (4096, 4096)
        out = empty(height, width, dtype=torch.float16)
        options = {"OCTAVES": 8, "ROWS": ROWS, "COLUMNS": COLUMNS, "num_warps": num_warps}
        grid = (width // COLUMNS, height // ROWS)
        return Launch(cloud_noise_kernel, grid, (out, width, 1.0 / 64), (out,), options)

    return prepare


_good = faultless_of(10)

CASES = (
    _good("good projected Gaussians", _projected_gaussians(BLOCK=512, num_warps=4)),
    _good("good colours of rays", _ray_colours(BLOCK=1024, STAGES=5, num_warps=4)),
    _good("good doubled maps", _doubled_maps(PIXELS=128, FILTERS=256, DEPTH=64, num_warps=8, num_stages=4)),
    _good("good scores of edges", _edge_scores(EDGES=32, num_warps=4)),
    _good("good windowed frames", _windowed_frames(FRAMES=4, num_warps=1)),
    _good("good expected disparities", _expected_disparities(CHUNK=8, PIXELS=1024, num_warps=4)),
    _good("good normed maps", _normed_maps(PIXELS=16, each=16, num_warps=4)),
    _good("good noise of clouds", _cloud_noise(ROWS=8, COLUMNS=128, num_warps=4)),
)
