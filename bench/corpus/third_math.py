"""Third round, faults of arithmetic: what is computed, how precisely, how often and across which threads."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def molar_volume_kernel(pressure_ptr, out_ptr, WIDE: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """The volume of a van der Waals gas at a reduced temperature of 1.2, by Newton's method."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pressure = tl.load(pressure_ptr + offs)
    if WIDE:
        pressure = pressure.to(tl.float64)  # fault
    volume = 3.2 / pressure + 0.4
    for _ in range(STEPS):
        value = ((3.0 * pressure * volume - (pressure + 9.6)) * volume + 9.0) * volume - 3.0  # fault
        slope = (9.0 * pressure * volume - 2.0 * (pressure + 9.6)) * volume + 9.0  # fault
        volume -= value / slope  # fault
    tl.store(out_ptr + offs, volume.to(tl.float32))


def _molar_volume(wide: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 2048 if small else 1 << 22
        pressure, out = torch.rand(n) * 0.5 + 0.25, empty(n)
        options = {"WIDE": wide, "STEPS": 8, "BLOCK": 512, "num_warps": 4}
        return Launch(molar_volume_kernel, (n // 512,), (pressure, out), (out,), options)

    return prepare


@triton.jit
def ball_distance_kernel(
    square_ptr, a_ptr, b_ptr, out_ptr, n, FAST: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Distances in Poincare's ball from squared ones of the plane; a, b: one less the squared norms."""
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    at = rows[:, None] * n + columns[None, :]
    square = tl.load(square_ptr + at).to(tl.float32)
    a, b = tl.load(a_ptr + rows)[:, None], tl.load(b_ptr + columns)[None, :]
    if FAST:
        over = 2.0 * square / (a * b)
        distance = 0.6931472 * tl.log2(1.0 + over + tl.sqrt(over * (over + 2.0)))
    else:
        distance = libdevice.acosh(1.0 + tl.div_rn(2.0 * square, a * b))  # fault
    tl.store(out_ptr + at, distance.to(tl.float16))


def _ball_distance(fast: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 128 if small else 8192
        square = (torch.rand(n, n) + 0.05).half()
        a, b = torch.rand(n) * 0.8 + 0.1, torch.rand(n) * 0.8 + 0.1
        out = empty(n, n, dtype=torch.float16)
        options = {"FAST": fast, "ROWS": 8, "COLUMNS": 128, "num_warps": 4}
        grid = (n // 128, n // 8)
        return Launch(ball_distance_kernel, grid, (square, a, b, out, n), (out,), options)

    return prepare


@triton.jit
def windows_by_element_kernel(x_ptr, out_ptr, count, side, windows, window, channels, BLOCK: tl.constexpr):
    """Windows of an image, one behind the other, as SwinIR attends to them."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    channel = at % channels  # fault
    rest = at // channels  # fault
    j = rest % window  # fault
    rest = rest // window  # fault
    i = rest % window  # fault
    rest = rest // window  # fault
    x = rest % windows  # fault
    rest = rest // windows  # fault
    y = rest % windows  # fault
    image = rest // windows  # fault
    source = ((image * side + y * window + i) * side + x * window + j) * channels + channel
    tl.store(out_ptr + at, tl.load(x_ptr + source, mask=at < count), mask=at < count)


@triton.jit
def windows_by_row_kernel(x_ptr, out_ptr, side, windows, window, channels, BLOCK: tl.constexpr):
    """As windows_by_element_kernel; a program copies the pieces of one row of windows."""
    offs = tl.arange(0, BLOCK)
    inside = offs < window * channels
    y, image = tl.program_id(0), tl.program_id(1)
    source = x_ptr + (image * side + y) * side * channels + offs
    target = out_ptr + (image * windows + y // window) * windows * window * window * channels
    target += y % window * window * channels + offs
    for x in range(windows):
        piece = tl.load(source + x * window * channels, mask=inside)
        tl.store(target + x * window * window * channels, piece, mask=inside)


def _windows(by_row: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, windows, window, channels = (1, 2, 8, 60) if small else (32, 8, 8, 180)
        side = windows * window
        x, out = random(images, side, side, channels), empty(images, side, side, channels)
        if by_row:
            args = (x, out, side, windows, window, channels)
            options = {"BLOCK": triton.next_power_of_2(window * channels), "num_warps": 4}
            return Launch(windows_by_row_kernel, (side, images), args, (out,), options)
        args = (x, out, x.numel(), side, windows, window, channels)
        grid = (triton.cdiv(x.numel(), 512),)
        return Launch(windows_by_element_kernel, grid, args, (out,), {"BLOCK": 512, "num_warps": 4})

    return prepare


@triton.jit
def washed_image_kernel(
    x_ptr, colour_ptr, share_ptr, out_ptr, layers, NARROW: tl.constexpr, BLOCK: tl.constexpr
):
    """Washes of a colour over an image of bytes; NARROW: each of them gives bytes again."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pixel = tl.load(x_ptr + offs)
    light = pixel.to(tl.float32)
    for layer in range(layers):
        colour, share = tl.load(colour_ptr + layer), tl.load(share_ptr + layer)
        if NARROW:
            light = pixel.to(tl.float32)  # fault
        light += share * (colour - light)
        if NARROW:
            pixel = (light + 0.5).to(tl.uint8)  # fault
    tl.store(out_ptr + offs, pixel if NARROW else (light + 0.5).to(tl.uint8))


def _washed_image(narrow: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, layers = (4096, 4) if small else (1 << 24, 24)
        x, out = integers(n, below=256, dtype=torch.uint8), empty(n, dtype=torch.uint8)
        colour, share = torch.rand(layers) * 255, torch.rand(layers) * 0.2 + 0.05
        options = {"NARROW": narrow, "BLOCK": 2048, "num_warps": 4}
        grid = (n // 2048,)
        return Launch(washed_image_kernel, grid, (x, colour, share, out, layers), (out,), options)

    return prepare


@triton.jit
def base_mismatches_kernel(read_ptr, seed_ptr, out_ptr, seeds, n, PACKED: tl.constexpr, BLOCK: tl.constexpr):
    """The least number of bases in which pieces of 16 bases, of two bits each, differ from some seeds."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    read = tl.load(read_ptr + offs)
    least = tl.full((BLOCK,), 16, dtype=tl.int32)
    for seed in range(seeds):
        other = read ^ tl.load(seed_ptr + seed)
        if PACKED:
            different = (other | (other >> 1)) & 0x55555555
            count = libdevice.popc(different)
        else:
            count = tl.zeros((BLOCK,), dtype=tl.int32)
            for base in tl.static_range(16):
                count += ((other >> (2 * base)) & 3 != 0).to(tl.int32)  # fault
        least = tl.minimum(least, count)
    tl.store(out_ptr + offs, least)


def _base_mismatches(packed: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, seeds = (512, 4) if small else (1 << 20, 64)
        read, seed = (integers(each, below=(1 << 31) - 1) for each in (n, seeds))
        out = empty(n, dtype=torch.int32)
        options = {"PACKED": packed, "BLOCK": 256, "num_warps": 4}
        args = (read, seed, out, seeds, n)
        return Launch(base_mismatches_kernel, (n // 256,), args, (out,), options)

    return prepare


@triton.jit
def gradient_check_kernel(
    grad_ptr, peak_ptr, bad_ptr, scale, STEPS: tl.constexpr, EACH: tl.constexpr, BLOCK: tl.constexpr
):
    """The largest unscaled gradient and how many are above a bound, for the scaling of a loss."""
    base = grad_ptr + tl.program_id(0).to(tl.int64) * STEPS * BLOCK + tl.arange(0, BLOCK)
    if EACH:
        peak, bad = 0.0, 0
        for step in range(STEPS):
            grad = tl.abs(tl.load(base + step * BLOCK).to(tl.float32)) * scale
            peak = tl.maximum(peak, tl.max(grad, 0))  # fault
            bad += tl.sum((grad > 1.0).to(tl.int32), 0)  # fault
        tl.store(peak_ptr + tl.program_id(0), peak)
        tl.store(bad_ptr + tl.program_id(0), bad)
    else:
        peaks = tl.zeros((BLOCK,), dtype=tl.float32)
        bads = tl.zeros((BLOCK,), dtype=tl.int32)
        for step in range(STEPS):
            grad = tl.abs(tl.load(base + step * BLOCK).to(tl.float32)) * scale
            peaks = tl.maximum(peaks, grad)
            bads += (grad > 1.0).to(tl.int32)
        tl.store(peak_ptr + tl.program_id(0), tl.max(peaks, 0))
        tl.store(bad_ptr + tl.program_id(0), tl.sum(bads, 0))


def _gradient_check(each: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (132 * 8, 64)
        grad = random(programs, steps, 1024, dtype=torch.bfloat16)
        peak, bad = empty(programs), empty(programs, dtype=torch.int32)
        options = {"STEPS": steps, "EACH": each, "BLOCK": 1024, "num_warps": 8}
        args = (grad, peak, bad, 0.5)
        return Launch(gradient_check_kernel, (programs,), args, (peak, bad), options)

    return prepare


@triton.jit
def sinkhorn_kernel(x_ptr, out_ptr, steps, SIDE: tl.constexpr):
    """Makes rows and columns of small matrices sum to one, by dividing by their sums in alternation."""
    row, column = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    at = tl.program_id(0) * SIDE * SIDE + row * SIDE + column
    x = tl.load(x_ptr + at)
    for _ in range(steps):
        x = x * (1.0 / tl.sum(x, 1))[:, None]
        x = x * (1.0 / tl.sum(x, 0))[None, :]
    tl.store(out_ptr + at, x)


@triton.jit
def turned_sinkhorn_kernel(x_ptr, out_ptr, halves, SIDE: tl.constexpr):
    """As sinkhorn_kernel, by rows alone: the matrix is turned after each division."""
    row, column = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    at = tl.program_id(0) * SIDE * SIDE + row * SIDE + column
    x = tl.load(x_ptr + at)
    for _ in range(halves):
        x = tl.trans(x * (1.0 / tl.sum(x, 1))[:, None])  # fault
    tl.store(out_ptr + at, x)


def _sinkhorn(turned: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        matrices, steps = (2, 2) if small else (4096, 16)
        x, out = torch.rand(matrices, 64, 64) + 0.1, empty(matrices, 64, 64)
        options = {"SIDE": 64, "num_warps": 4}
        if turned:
            return Launch(turned_sinkhorn_kernel, (matrices,), (x, out, 2 * steps), (out,), options)
        return Launch(sinkhorn_kernel, (matrices,), (x, out, steps), (out,), options)

    return prepare


@triton.jit
def panel_kernel(a_ptr, out_ptr, steps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """LU factors of a panel of a matrix with a strong diagonal, without pivots."""
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    at = tl.program_id(0) * ROWS * COLUMNS + row[:, None] * COLUMNS + column[None, :]
    a = tl.load(a_ptr + at)  # fault
    for k in range(steps):
        here = tl.sum(tl.where(row[:, None] == k, a, 0.0), 0)  # fault
        below = tl.sum(tl.where(column[None, :] == k, a, 0.0), 1)  # fault
        pivot = tl.sum(tl.where(column == k, here, 0.0), 0)
        factor = tl.where(row > k, below * (1.0 / pivot), 0.0)
        rest = a - factor[:, None] * tl.where(column > k, here, 0.0)[None, :]  # fault
        a = tl.where((column[None, :] == k) & (row[:, None] > k), factor[:, None], rest)  # fault
    tl.store(out_ptr + at, a)  # fault


def _panel(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        panels, steps = (1, 3) if small else (1056, 32)
        a, out = random(panels, 128, 64), empty(panels, 128, 64)
        a[:, :64] += 16.0 * torch.eye(64)
        options = {"ROWS": 128, "COLUMNS": 64, "num_warps": warps, "maxnreg": 96}
        return Launch(panel_kernel, (panels,), (a, out, steps), (out,), options)

    return prepare


_case = faults_of(3)


CASES = (
    _case(
        "gas volumes in float64",
        ("fp64-arithmetic",),
        ("counts",),
        True,
        _molar_volume(True),
        _molar_volume(False),
    ),
    _case(
        "hyperbolic distances by acosh",
        ("slow-math",),
        ("counts", "samples"),
        True,
        _ball_distance(False),
        _ball_distance(True),
    ),
    _case(
        "windows found element by element",
        ("index-arithmetic",),
        ("counts",),
        True,
        _windows(False),
        _windows(True),
    ),
    _case(
        "washes of colour in bytes",
        ("conversions",),
        ("counts",),
        True,
        _washed_image(True),
        _washed_image(False),
    ),
    _case(
        "bases compared one by one",
        ("issue-bound",),
        ("counts",),
        True,
        _base_mismatches(False),
        _base_mismatches(True),
    ),
    _case(
        "gradients checked each step",
        ("serial-reduction",),
        ("samples", "spans"),
        True,
        _gradient_check(True),
        _gradient_check(False),
    ),
    _case(
        "matrix turned for each sum",
        ("layout-conversion",),
        ("counts", "samples"),
        True,
        _sinkhorn(True),
        _sinkhorn(False),
    ),
    _case(
        "panel of two warps",
        ("register-spills",),
        ("counts", "resources"),
        True,
        _panel(2),
        _panel(8),
    ),
)
