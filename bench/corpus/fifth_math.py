"""Fifth round, faults of arithmetic: what is computed, how precisely, how often and across which threads."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def nearest_station_kernel(
    x_ptr, y_ptr, station_x_ptr, station_y_ptr, out_ptr, stations, BLOCK: tl.constexpr
):
    """The squared distance of each point to its nearest station, in the precision of the coordinates."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    nearest = x * 0.0 + 1e9
    for station in range(stations):
        east = tl.load(station_x_ptr + station) - x  # fault
        north = tl.load(station_y_ptr + station) - y  # fault
        distance = east * east * (1.0 - 0.5 * y * y) + north * north  # fault
        nearest = tl.minimum(nearest, distance)  # fault
    tl.store(out_ptr + at, nearest.to(tl.float32))


def _nearest_station(dtype: torch.dtype) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, stations = (2048, 16) if small else (1 << 19, 1024)
        x, y, station_x, station_y = (torch.rand(count).to(dtype) for count in (n, n, stations, stations))
        out = empty(n)
        options = {"BLOCK": 512, "num_warps": 4}
        args = (x, y, station_x, station_y, out, stations)
        return Launch(nearest_station_kernel, (n // 512,), args, (out,), options)

    return prepare


@triton.jit
def patches_kernel(image_ptr, out_ptr, planes, patch, across, down, BLOCK: tl.constexpr):
    """The patches of images, each as a row: of any number of planes, and of any size."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    size = planes * patch * patch
    token, inside = at // size, at % size  # fault
    plane, pixel = inside // (patch * patch), inside % (patch * patch)  # fault
    image, place = token // (across * down), token % (across * down)  # fault
    y = place // across * patch + pixel // patch  # fault
    x = place % across * patch + pixel % patch  # fault
    source = ((image * planes + plane) * down * patch + y) * across * patch + x
    tl.store(out_ptr + at, tl.load(image_ptr + source))


@triton.jit
def patches_of_row_kernel(
    image_ptr, out_ptr, PLANES: tl.constexpr, PATCH: tl.constexpr, ACROSS: tl.constexpr, DOWN: tl.constexpr
):
    """As patches_kernel; a program puts a patch's rows of a plane, of a line of patches, in their places."""
    line, plane = tl.program_id(0), tl.program_id(1)
    y = tl.arange(0, PATCH)
    lanes = tl.arange(0, ACROSS * PATCH)
    source = ((line // DOWN * PLANES + plane) * DOWN + line % DOWN) * PATCH * ACROSS * PATCH
    x = tl.load(image_ptr + source + y[:, None] * (ACROSS * PATCH) + lanes[None, :])
    token = (line * ACROSS + lanes // PATCH) * (PLANES * PATCH * PATCH)
    out = token[None, :] + (plane * PATCH + y)[:, None] * PATCH + (lanes % PATCH)[None, :]
    tl.store(out_ptr + out, x)


def _patches(by_row: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, side = (1, 64) if small else (128, 512)
        across, patch = side // 16, 16
        image = random(images, 3, side, side, dtype=torch.float16)
        out = empty(images * across * across, 3 * patch * patch, dtype=torch.float16)
        if by_row:
            options = {"PLANES": 3, "PATCH": patch, "ACROSS": across, "DOWN": across, "num_warps": 4}
            grid = (images * across, 3)
            return Launch(patches_of_row_kernel, grid, (image, out), (out,), options)
        options = {"BLOCK": 1024, "num_warps": 4}
        args = (image, out, 3, patch, across, across)
        return Launch(patches_kernel, (image.numel() // 1024,), args, (out,), options)

    return prepare


@triton.jit
def dice_kernel(out_ptr, rolls, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of many rolls of a die with 64 sides; SHIFT: a roll is the highest bits of the random state."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = at.to(tl.uint32) * 747796405 + 289133645
    total = tl.zeros((BLOCK,), dtype=tl.int32)
    for _ in range(rolls):
        state = state * 1664525 + 1013904223
        if SHIFT:
            total += (state >> 26).to(tl.int32)
        else:
            total += (state.to(tl.float32) * 1.4901161e-8).to(tl.int32)  # fault
    tl.store(out_ptr + at, total)


def _dice(shift: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, rolls = (2048, 32) if small else (1 << 20, 512)
        out = empty(n, dtype=torch.int32)
        options = {"SHIFT": shift, "BLOCK": 512, "num_warps": 4}
        return Launch(dice_kernel, (n // 512,), (out, rolls), (out,), options)

    return prepare


@triton.jit
def counted_mean_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr, TOGETHER: tl.constexpr):
    """The mean of the middle half of a row; what is in the middle is found by comparing all with all."""
    columns, others = tl.arange(0, COLUMNS), tl.arange(0, TOGETHER)
    row = x_ptr + tl.program_id(0) * COLUMNS
    x = tl.load(row + columns)
    below = tl.zeros((COLUMNS, TOGETHER), dtype=tl.int32)
    for start in range(0, COLUMNS, TOGETHER):
        other = tl.load(row + start + others)
        below += (other[None, :] < x[:, None]).to(tl.int32)  # fault
    rank = tl.sum(below, 1)
    middle = (rank >= COLUMNS // 4) & (rank < COLUMNS // 4 * 3)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.where(middle, x, 0.0), 0) / (COLUMNS // 2))


@triton.jit
def sorted_mean_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    """As counted_mean_kernel, after a sort."""
    columns = tl.arange(0, COLUMNS)
    x = tl.sort(tl.load(x_ptr + tl.program_id(0) * COLUMNS + columns))
    middle = (columns >= COLUMNS // 4) & (columns < COLUMNS // 4 * 3)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.where(middle, x, 0.0), 0) / (COLUMNS // 2))


def _middle_mean(sort: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns = (2, 256) if small else (4096, 1024)
        x, out = torch.rand(rows, columns), empty(rows)
        if sort:
            options = {"COLUMNS": columns, "num_warps": 2}
            return Launch(sorted_mean_kernel, (rows,), (x, out), (out,), options)
        options = {"COLUMNS": columns, "TOGETHER": 8, "num_warps": 4}
        return Launch(counted_mean_kernel, (rows,), (x, out), (out,), options)

    return prepare


@triton.jit
def correlation_kernel(x_ptr, y_ptr, out_ptr, COLUMNS: tl.constexpr, LATE: tl.constexpr, BLOCK: tl.constexpr):
    """Pearson's correlation of pairs of rows; LATE: five sums are of lanes until the row ends."""
    base = tl.program_id(0) * COLUMNS + tl.arange(0, BLOCK)
    size: tl.constexpr = BLOCK if LATE else 1
    x_sum, y_sum = tl.zeros((size,), dtype=tl.float32), tl.zeros((size,), dtype=tl.float32)
    xx, yy = tl.zeros((size,), dtype=tl.float32), tl.zeros((size,), dtype=tl.float32)
    xy = tl.zeros((size,), dtype=tl.float32)
    for start in range(0, COLUMNS, BLOCK):
        x = tl.load(x_ptr + base + start).to(tl.float32)
        y = tl.load(y_ptr + base + start).to(tl.float32)
        if LATE:
            x_sum, y_sum, xx, yy, xy = x_sum + x, y_sum + y, xx + x * x, yy + y * y, xy + x * y
        else:
            x_sum += tl.sum(x, 0)  # fault
            y_sum += tl.sum(y, 0)  # fault
            xx += tl.sum(x * x, 0)  # fault
            yy += tl.sum(y * y, 0)  # fault
            xy += tl.sum(x * y, 0)  # fault
    x_mean, y_mean = tl.sum(x_sum, 0) / COLUMNS, tl.sum(y_sum, 0) / COLUMNS
    xx, yy = tl.sum(xx, 0) / COLUMNS - x_mean * x_mean, tl.sum(yy, 0) / COLUMNS - y_mean * y_mean
    tl.store(out_ptr + tl.program_id(0), (tl.sum(xy, 0) / COLUMNS - x_mean * y_mean) * tl.rsqrt(xx * yy))


def _correlation(late: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns = (2, 4096) if small else (2112, 65536)
        x = random(rows, columns, dtype=torch.bfloat16)
        y = (x + random(rows, columns, dtype=torch.bfloat16)).contiguous()
        out = empty(rows)
        options = {"COLUMNS": columns, "LATE": late, "BLOCK": 1024, "num_warps": 8}
        return Launch(correlation_kernel, (rows,), (x, y, out), (out,), options)

    return prepare


@triton.jit
def orbits_kernel(anomaly_ptr, eccentricity_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """The mean distance on many orbits, of which each solves Kepler's equation until it is exact enough."""
    lanes = tl.arange(0, BLOCK)
    total = 0.0
    for step in range(steps):
        at = (tl.program_id(0) * steps + step) * BLOCK + lanes
        anomaly, eccentricity = tl.load(anomaly_ptr + at), tl.load(eccentricity_ptr + at)
        solved = tl.inline_asm_elementwise(
            """{
            .reg .pred p; .reg .f32 e, f, d;
            mov.f32 e, $1;
            more:
            sin.approx.f32 f, e;
            fma.rn.f32 f, f, $2, $1;
            sub.f32 d, f, e;
            abs.f32 d, d;
            mov.f32 e, f;
            setp.gt.f32 p, d, 0f36000000;
            @p bra more;
            mov.f32 $0, e; }""",
            "=f,f,f", [anomaly, eccentricity], dtype=tl.float32, is_pure=False, pack=1,
        )  # fmt: skip
        total += tl.sum(1.0 - eccentricity * libdevice.fast_cosf(solved), 0)  # fault
    tl.store(out_ptr + tl.program_id(0), total)


def _orbits(in_step: bool) -> Prepare:
    """One warp has long orbits in each step; or (in_step) all warps have theirs in the same one."""

    def prepare(small: bool) -> Launch:
        programs, steps = (1, 8) if small else (1056, 64)
        shape = (programs * steps // 8, 8, 8, 32)
        step, warp = torch.arange(8)[:, None], torch.arange(8)[None, :]
        long = (step == warp)[None, :, :, None]
        eccentricity = torch.where(long, 0.95 + 0.02 * torch.rand(shape), 0.1 * torch.rand(shape))
        anomaly = torch.where(long, 0.002 + 0.01 * torch.rand(shape), 6.0 * torch.rand(shape))
        if in_step:
            old_step = (step + warp) % 8  # those of each warp come in step 0
            eccentricity, anomaly = eccentricity[:, old_step, warp], anomaly[:, old_step, warp]
        out = empty(programs)
        args = (anomaly.contiguous(), eccentricity.contiguous(), out, steps)
        options = {"BLOCK": 256, "num_warps": 8}
        return Launch(orbits_kernel, (programs,), args, (out,), options)

    return prepare


_case = faults_of(5)


CASES = (
    _case(
        "stations' coordinates in float64",
        ("fp64-arithmetic",),
        ("counts",),
        True,
        _nearest_station(torch.float64),
        _nearest_station(torch.float32),
    ),
    _case(
        "patches of any size by division",
        ("index-arithmetic", "issue-bound"),
        ("counts",),
        True,
        _patches(False),
        _patches(True),
    ),
    _case(
        "dice rolled through float32",
        ("conversions",),
        ("counts",),
        True,
        _dice(False),
        _dice(True),
    ),
    _case(
        "middle half by counting",
        ("issue-bound",),
        ("counts", "samples"),
        True,
        _middle_mean(False),
        _middle_mean(True),
    ),
    _case(
        "five sums of a correlation each step",
        ("serial-reduction",),
        ("samples", "spans"),
        True,
        _correlation(False),
        _correlation(True),
    ),
    _case(
        "long orbits of one warp",
        ("late-warp",),
        ("spans", "samples"),
        False,
        _orbits(False),
        _orbits(True),
    ),
)
