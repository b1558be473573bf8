"""Thirteenth round, faults of rendering: warps, fields of light, meshes, textures, strands, lamps."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def spline_warp_kernel(knot_ptr, out_ptr, width, pixels, knots, BLOCK: tl.constexpr):
    """Where each pixel of a picture goes that a thin plate bends, which knots hold."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = (at % width).to(tl.float32) * 1e-3, (at // width).to(tl.float32) * 1e-3
    across, down = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    for knot in range(knots):
        knot_at = knot_ptr + 4 * knot
        dx, dy = x - tl.load(knot_at), y - tl.load(knot_at + 1)
        square = dx * dx + dy * dy + 1e-9
        bend = square * tl.log2(square)
        across += tl.load(knot_at + 2) * bend
        down += tl.load(knot_at + 3) * bend
    tl.store(out_ptr + at, x + across)
    tl.store(out_ptr + pixels + at, y + down)


def _spline_warp(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pixels, knots = (16384, 8) if small else (140 * 8192, 512)
        knot, out = random(knots, 4), empty(2, pixels)
        options = {"BLOCK": block, "num_warps": num_warps}
        args = (knot, out, 1024, pixels, knots)
        return Launch(spline_warp_kernel, (pixels // block,), args, (out,), options)

    return prepare


@triton.jit
def contracted_kernel(mean_ptr, spread_ptr, out_ptr, out_spread_ptr, points, BLOCK: tl.constexpr):
    """Points of an unbounded scene and their spreads drawn into a ball of radius 2 (mip-NeRF 360)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(mean_ptr + at), tl.load(mean_ptr + points + at)
    z, spread = tl.load(mean_ptr + 2 * points + at), tl.load(spread_ptr + at)
    square = x * x + y * y + z * z
    inverse = tl.rsqrt(tl.maximum(square, 1.0))
    scale = tl.where(square > 1.0, (2.0 - inverse) * inverse, 1.0)
    tl.store(out_ptr + at, x * scale)
    tl.store(out_ptr + points + at, y * scale)
    tl.store(out_ptr + 2 * points + at, z * scale)
    tl.store(out_spread_ptr + at, spread * scale * inverse)


def _contracted(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        points = 8 * block if small else 1 << 24
        points = max(points, 4096)
        mean, spread = 2.0 * random(3, points), torch.rand(points)
        out, out_spread = empty(3, points), empty(points)
        options = {"BLOCK": block, "num_warps": num_warps}
        args = (mean, spread, out, out_spread, points)
        return Launch(contracted_kernel, (points // block,), args, (out, out_spread), options)

    return prepare


@triton.jit
def coarse_light_kernel(
    grad_ptr, albedo_ptr, out_ptr, height, width, CELL: tl.constexpr, CELLS: tl.constexpr,
    EACH: tl.constexpr,
):  # fmt: skip
    """Gradients of light that is coarser than the picture: of the pixels of each of its cells."""
    row = tl.program_id(1) * CELL + tl.arange(0, CELL)
    column = tl.program_id(0) * (CELLS * CELL) + tl.arange(0, CELLS * CELL)
    at = tl.program_id(2) * height * width + row[:, None] * width + column[None, :]
    grad = tl.load(grad_ptr + at).to(tl.float32) * tl.load(albedo_ptr + at).to(tl.float32)
    out_at = out_ptr + (tl.program_id(2) * (height // CELL) + tl.program_id(1)) * (width // CELL)
    if EACH:
        cell = (row * 0)[:, None] + (column // CELL)[None, :]
        tl.atomic_add(out_at + cell, grad, sem="relaxed")  # fault
    else:
        total = tl.sum(tl.reshape(tl.sum(grad, 0), (CELLS, CELL)), 1)
        tl.store(out_at + tl.program_id(0) * CELLS + tl.arange(0, CELLS), total)


def _coarse_light(each: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        colours, height, width = (1, 32, 512) if small else (3, 4096, 4096)
        grad, albedo = (random(colours, height, width, dtype=torch.float16) for _ in range(2))
        out = zeros(colours, height // 16, width // 16)
        options = {"CELL": 16, "CELLS": 16, "EACH": each, "num_warps": 4}
        grid = (width // 256, height // 16, colours)
        args = (grad, albedo, out, height, width)
        return Launch(coarse_light_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def lamps_kernel(place_ptr, normal_ptr, view_ptr, lamp_ptr, out_ptr, pixels, lamps, BLOCK: tl.constexpr):
    """Pixels of a deferred picture lit by lamps, diffuse and with highlights (Blinn and Phong)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(place_ptr + at), tl.load(place_ptr + pixels + at)  # fault
    z, across = tl.load(place_ptr + 2 * pixels + at), tl.load(normal_ptr + at)  # fault
    along, up = tl.load(normal_ptr + pixels + at), tl.load(normal_ptr + 2 * pixels + at)  # fault
    view_x, view_y = tl.load(view_ptr + at), tl.load(view_ptr + pixels + at)  # fault
    view_z = tl.load(view_ptr + 2 * pixels + at)  # fault
    red, green = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)  # fault
    blue = tl.zeros((BLOCK,), dtype=tl.float32)  # fault
    for lamp in range(lamps):  # fault
        lamp_at = lamp_ptr + 8 * lamp  # fault
        dx, dy, dz = tl.load(lamp_at) - x, tl.load(lamp_at + 1) - y, tl.load(lamp_at + 2) - z  # fault
        near = tl.rsqrt(dx * dx + dy * dy + dz * dz + 1e-2)  # fault
        facing = tl.maximum((dx * across + dy * along + dz * up) * near, 0.0)  # fault
        hx, hy, hz = dx * near + view_x, dy * near + view_y, dz * near + view_z  # fault
        shine = (hx * across + hy * along + hz * up) * tl.rsqrt(hx * hx + hy * hy + hz * hz + 1e-2)  # fault
        shine *= shine  # fault
        shine *= shine  # fault
        light = (facing + shine * shine) * near * near  # fault
        red += light * tl.load(lamp_at + 3)  # fault
        green += light * tl.load(lamp_at + 4)  # fault
        blue += light * tl.load(lamp_at + 5)  # fault
    tl.store(out_ptr + at, red)
    tl.store(out_ptr + pixels + at, green)
    tl.store(out_ptr + 2 * pixels + at, blue)


def _lamps(block: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pixels, lamps = (16384, 4) if small else (1 << 21, 64)
        place, lamp = random(3, pixels), random(lamps, 8)
        normal, view = (torch.nn.functional.normalize(random(3, pixels), dim=0) for _ in range(2))
        out = empty(3, pixels)
        args, options = (place, normal, view, lamp, out, pixels, lamps), {"BLOCK": block, "num_warps": 4}
        return Launch(lamps_kernel, (pixels // block,), args, (out,), options)

    return prepare


@triton.jit
def z_curve_kernel(
    place_ptr, low_ptr, scale_ptr, out_ptr, points, bits, BLOCK: tl.constexpr, ALL: tl.constexpr
):
    """Places of centres of triangles on a curve through all cells, to build a tree of boxes (LBVH).
    ALL: ten bits of each axis at once, not one after the other."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    code = tl.zeros((BLOCK,), dtype=tl.int32)
    for axis in tl.static_range(3):
        low, scale = tl.load(low_ptr + axis), tl.load(scale_ptr + axis)
        place = (tl.load(place_ptr + axis * points + at) - low) * scale
        cell = tl.minimum(tl.maximum(place, 0.0), 1023.0).to(tl.int32)
        if not ALL:
            for bit in range(bits):  # fault
                code |= ((cell >> bit) & 1) << (3 * bit + axis)  # fault
        else:
            cell = (cell | (cell << 16)) & 0x030000FF
            cell = (cell | (cell << 8)) & 0x0300F00F
            cell = (cell | (cell << 4)) & 0x030C30C3
            code |= ((cell | (cell << 2)) & 0x09249249) << axis
    tl.store(out_ptr + at, code)


def _z_curve(at_once: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        points = 4096 if small else 1 << 25
        place, out = torch.rand(3, points), empty(points, dtype=torch.int32)
        low, scale = torch.zeros(3), torch.full((3,), 1024.0)
        options = {"BLOCK": 512, "ALL": at_once, "num_warps": 4}
        args = (place, low, scale, out, points, 10)
        return Launch(z_curve_kernel, (points // 512,), args, (out,), options)

    return prepare


@triton.jit
def _pooled(x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    return 0.25 * tl.sum(tl.sum(tl.reshape(x, (ROWS // 2, 2, COLUMNS // 2, 2)), 3), 1)


@triton.jit
def _put(x, level_ptr, first, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = first + tl.arange(0, ROWS)[:, None] * width + tl.arange(0, COLUMNS)[None, :]
    tl.store(level_ptr + at, x.to(tl.float16))


@triton.jit
def levels_kernel(
    x_ptr, first_ptr, second_ptr, third_ptr, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    APART: tl.constexpr,
):  # fmt: skip
    """Three smaller levels of planes of a texture. APART: each by other programs."""
    top = tl.program_id(1) * height + tl.program_id(0) // (width // COLUMNS) * ROWS
    left = tl.program_id(0) % (width // COLUMNS) * COLUMNS
    x_at = x_ptr + top * width + left + tl.arange(0, COLUMNS)[None, :]
    x_at += tl.arange(0, ROWS // 2)[:, None] * (2 * width)
    x = tl.load(x_at).to(tl.float32) + tl.load(x_at + width).to(tl.float32)  # fault
    x = 0.25 * tl.sum(tl.reshape(x, (ROWS // 2, COLUMNS // 2, 2)), 2)
    first, second = top // 2 * (width // 2) + left // 2, top // 4 * (width // 4) + left // 4
    third = top // 8 * (width // 8) + left // 8
    if APART:
        if tl.program_id(2) == 0:
            _put(x, first_ptr, first, width // 2, ROWS // 2, COLUMNS // 2)
        if tl.program_id(2) == 1:
            _put(_pooled(x, ROWS // 2, COLUMNS // 2), second_ptr, second, width // 4, ROWS // 4, COLUMNS // 4)
        if tl.program_id(2) == 2:
            low = _pooled(_pooled(x, ROWS // 2, COLUMNS // 2), ROWS // 4, COLUMNS // 4)
            _put(low, third_ptr, third, width // 8, ROWS // 8, COLUMNS // 8)
    else:
        half = _pooled(x, ROWS // 2, COLUMNS // 2)
        _put(x, first_ptr, first, width // 2, ROWS // 2, COLUMNS // 2)
        _put(half, second_ptr, second, width // 4, ROWS // 4, COLUMNS // 4)
        low = _pooled(half, ROWS // 4, COLUMNS // 4)
        _put(low, third_ptr, third, width // 8, ROWS // 8, COLUMNS // 8)


def _levels(apart: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        planes, height, width = (1, 32, 512) if small else (4, 8192, 8192)
        x = random(planes, height, width, dtype=torch.float16)
        out = tuple(empty(planes, height >> n, width >> n, dtype=torch.float16) for n in (1, 2, 3))
        options = {"ROWS": 16, "COLUMNS": 256, "APART": apart, "num_warps": 4}
        grid = (height // 16 * (width // 256), planes, 3 if apart else 1)
        return Launch(levels_kernel, grid, (x, *out, height, width), out, options)

    return prepare


@triton.jit
def strands_kernel(
    place_ptr, pace_ptr, out_ptr, of_strand, of_point, of_axis, step, length, POINTS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """A step of strands of hair, each point of which follows the one before at a fixed distance."""
    strand = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = strand * of_strand
    x, y = tl.load(place_ptr + at), tl.load(place_ptr + at + of_axis)  # fault
    z = tl.load(place_ptr + at + 2 * of_axis)  # fault
    for _ in tl.static_range(1, POINTS):
        at += of_point
        dx = tl.load(place_ptr + at) + step * tl.load(pace_ptr + at) - x  # fault
        dy = tl.load(place_ptr + at + of_axis) + step * tl.load(pace_ptr + at + of_axis) - y  # fault
        dz = tl.load(place_ptr + at + 2 * of_axis) + step * tl.load(pace_ptr + at + 2 * of_axis) - z  # fault
        pull = length * tl.rsqrt(dx * dx + dy * dy + dz * dz + 1e-6)
        x, y, z = x + pull * dx, y + pull * dy, z + pull * dz
        tl.store(out_ptr + at, x)  # fault
        tl.store(out_ptr + at + of_axis, y)  # fault
        tl.store(out_ptr + at + 2 * of_axis, z)  # fault


def _strands(strand_first: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        strands, points = 1024 if small else 1 << 20, 16
        place, pace = random(strands, points, 3), random(strands, points, 3)
        strides = (3 * points, 3, 1)
        if not strand_first:
            place, pace = (each.permute(1, 2, 0).contiguous() for each in (place, pace))
            strides = (1, 3 * strands, strands)
        out = torch.zeros_like(place)
        options = {"POINTS": points, "BLOCK": 256, "num_warps": 4}
        result = out if strand_first else out.permute(2, 0, 1)
        args = (place, pace, out, *strides, 0.01, 0.1)
        return Launch(strands_kernel, (strands // 256,), args, (result,), options)

    return prepare


@triton.jit
def radial_field_kernel(
    place_ptr, centre_ptr, near_ptr, weight_ptr, out_ptr, points, centres, units, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, DEPTH: tl.constexpr, KNOWN: tl.constexpr,
):  # fmt: skip
    """Features of points of a field by their nearness to centres. KNOWN: nearness is there for all."""
    row, column = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.program_id(0) * COLUMNS
    column += tl.arange(0, COLUMNS)
    inner = tl.arange(0, DEPTH)
    x, y = tl.load(place_ptr + row), tl.load(place_ptr + points + row)
    z = tl.load(place_ptr + 2 * points + row)
    near_at = near_ptr + row[:, None] * centres + inner[None, :]
    weight_at = weight_ptr + inner[:, None] * units + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, centres, DEPTH):
        if KNOWN:
            near = tl.load(near_at + start)
        else:
            centre_at = centre_ptr + start + inner
            dx = x[:, None] - tl.load(centre_at)[None, :]  # fault
            dy = y[:, None] - tl.load(centre_at + centres)[None, :]  # fault
            dz = z[:, None] - tl.load(centre_at + 2 * centres)[None, :]  # fault
            near = tl.exp2(-(dx * dx + dy * dy + dz * dz)).to(tl.bfloat16)  # fault
        total = tl.dot(near, tl.load(weight_at), total)  # fault
        weight_at += DEPTH * units
    tl.store(out_ptr + row[:, None] * units + column[None, :], total.to(tl.bfloat16))


def _radial_field(known: bool, depth: int, stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        points, centres, units = (256, 128, 512) if small else (132 * 1024, 512, 512)
        place, centre = random(3, points), random(3, centres)
        weight = random(centres, units, dtype=torch.bfloat16)
        near, out = empty(1, 1, dtype=torch.bfloat16), empty(points, units, dtype=torch.bfloat16)
        if known:
            square = (place[0][:, None] - centre[0][None, :]) ** 2
            for axis in (1, 2):
                square += (place[axis][:, None] - centre[axis][None, :]) ** 2
            near = torch.exp2(-square).to(torch.bfloat16)
        options = {"ROWS": 128, "COLUMNS": 128, "DEPTH": depth, "KNOWN": known, "num_warps": 8}
        args = (place, centre, near, weight, out, points, centres, units)
        options |= {"num_stages": stages}
        return Launch(radial_field_kernel, (units // 128, points // 128), args, (out,), options)

    return prepare


_fault = faults_of(13)

CASES = (
    _fault(
        "a picture bent by 140 programs",
        ("tail", "load-imbalance"),
        ("ctas", "spans"),
        True,
        _spline_warp(8192, 8),
        _spline_warp(256, 4),
    ),
    _fault(
        "far points drawn nearer 32 a program",
        ("tiny-ctas", "exposed-latency"),
        ("ctas", "spans"),
        True,
        _contracted(32, 1),
        _contracted(512, 4),
    ),
    _fault(
        "gradients of coarse light added pixel by pixel",
        ("atomics",),
        ("counts", "samples"),
        True,
        _coarse_light(True),
        _coarse_light(False),
    ),
    _fault(
        "lamps shining on 64 pixels a thread",
        ("register-spills",),
        ("resources", "counts"),
        True,
        _lamps(8192),
        _lamps(512),
    ),
    _fault(
        "cells along a curve bit by bit",
        ("index-arithmetic", "issue-bound"),
        ("counts", "samples"),
        True,
        _z_curve(False),
        _z_curve(True),
    ),
    _fault(
        "levels of a texture each from the finest",
        ("redundant-load", "tile-reread"),
        ("counts", "counters"),
        True,
        _levels(True),
        _levels(False),
    ),
    _fault(
        "strands of hair by a lane each",
        ("uncoalesced-load", "uncoalesced-store"),
        ("counts",),
        True,
        _strands(True),
        _strands(False),
    ),
    _fault(
        "nearness to centres for each block of features",
        ("mma-not-overlapped", "slow-math", "issue-bound", "conversions"),
        ("counts", "counters", "samples"),
        True,
        _radial_field(False, 32, 3),
        _radial_field(True, 64, 3),
    ),
)
