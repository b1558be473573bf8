"""Eighth round, faults of kernels that work on pictures and series without a network."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def sinc(x, FAST: tl.constexpr):
    x = tl.where(tl.abs(x) < 1e-4, 1e-4, 3.14159265 * x)
    if FAST:  # noqa: SIM108  only the chosen branch is compiled
        sine = libdevice.fast_sinf(x)
    else:
        sine = tl.sin(x)
    return sine / x


@triton.jit
def other_view_kernel(
    x_ptr, disparity_ptr, out_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, FAST: tl.constexpr
):
    """A picture as the other eye sees it: each pixel from its disparity away, by Lanczos' filter."""
    row, column = tl.program_id(1) * WIDTH, tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = column - tl.load(disparity_ptr + row + column).to(tl.float32)
    place = tl.minimum(tl.maximum(place, 2.0), WIDTH - 4.0)
    first = place.to(tl.int32)
    part = place - first
    total, weights = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in tl.static_range(-2, 4):
        weight = sinc(part - tap, FAST) * sinc((part - tap) * (1 / 3), FAST)  # fault
        total += weight * tl.load(x_ptr + row + first + tap).to(tl.float32)
        weights += weight
    tl.store(out_ptr + row + column, (total / weights).to(tl.float16))


def _other_view(fast: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, width = (2, 512) if small else (32 * 1024, 1024)
        x = 10 + random(rows, width, dtype=torch.float16)
        disparity = 24 * torch.rand(rows, 1) + 2 * torch.rand(rows, width)
        out = torch.empty_like(x)
        options = {"WIDTH": width, "BLOCK": 256, "FAST": fast, "num_warps": 4}
        args = (x, disparity.half(), out)
        return Launch(other_view_kernel, (width // 256, rows), args, (out,), options)

    return prepare


@triton.jit
def integral_image_kernel(x_ptr, out_ptr, rows, WIDTH: tl.constexpr):
    """Sums of all pixels above and left of each one, row by row."""
    at = tl.program_id(0) * rows * WIDTH + tl.arange(0, WIDTH)
    above = tl.zeros((WIDTH,), dtype=tl.int32)
    for row in range(rows):
        above += tl.cumsum(tl.load(x_ptr + at + row * WIDTH).to(tl.int32), 0)
        tl.store(out_ptr + at + row * WIDTH, above)


def _integral_image(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        planes, rows = (2, 6) if small else (1056, 128)
        x = torch.randint(256, (planes, rows, 1024), dtype=torch.uint8)
        out = empty(planes, rows, 1024, dtype=torch.int32)
        options = {"WIDTH": 1024, "num_warps": warps}
        return Launch(integral_image_kernel, (planes,), (x, out, rows), (out,), options)

    return prepare


@triton.jit
def homography_kernel(
    x_ptr, matrix_ptr, out_ptr, height, WIDTH: tl.constexpr, BLOCK: tl.constexpr, DTYPE: tl.constexpr
):
    """A camera's picture as seen from elsewhere, by a matrix in float64 as OpenCV gives it."""
    row, image = tl.program_id(1), tl.program_id(2)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    matrix = matrix_ptr + image * 9
    h0, h1, h2 = tl.load(matrix).to(DTYPE), tl.load(matrix + 1).to(DTYPE), tl.load(matrix + 2).to(DTYPE)
    h3, h4, h5 = tl.load(matrix + 3).to(DTYPE), tl.load(matrix + 4).to(DTYPE), tl.load(matrix + 5).to(DTYPE)
    h6, h7, h8 = tl.load(matrix + 6).to(DTYPE), tl.load(matrix + 7).to(DTYPE), tl.load(matrix + 8).to(DTYPE)
    scale = 1.0 / (h6 * column + (h7 * row + h8))  # fault
    x = (h0 * column + (h1 * row + h2)) * scale  # fault
    y = (h3 * column + (h4 * row + h5)) * scale  # fault
    left, top = tl.floor(x), tl.floor(y)  # fault
    right, down = (x - left).to(tl.float32), (y - top).to(tl.float32)  # fault
    i, j = left.to(tl.int32), top.to(tl.int32)  # fault
    inside = (i >= 0) & (i < WIDTH - 1) & (j >= 0) & (j < height - 1)
    at = x_ptr + (image * height + j) * WIDTH + i
    a, b = tl.load(at, mask=inside, other=0).to(tl.float32), tl.load(at + 1, mask=inside, other=0)
    c, d = tl.load(at + WIDTH, mask=inside, other=0), tl.load(at + WIDTH + 1, mask=inside, other=0)
    upper = a + right * (b.to(tl.float32) - a)
    lower = c.to(tl.float32) + right * (d.to(tl.float32) - c.to(tl.float32))
    value = upper + down * (lower - upper)
    tl.store(out_ptr + (image * height + row) * WIDTH + column, (value + 0.5).to(tl.uint8))


def _homography(dtype: tl.dtype) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, height, width = (1, 4, 1024) if small else (32, 1024, 2048)
        x = torch.randint(256, (images, height, width), dtype=torch.uint8)
        plain = torch.tensor([[1.01, 0.002, -6.3], [0.001, 0.99, 0.4], [1e-6, 2e-6, 1.0]])
        matrix = plain.double().expand(images, 3, 3).contiguous()
        out = torch.empty_like(x)
        options = {"WIDTH": width, "BLOCK": 512, "DTYPE": dtype, "num_warps": 4}
        grid = (width // 512, height, images)
        return Launch(homography_kernel, grid, (x, matrix, out, height), (out,), options)

    return prepare


@triton.jit
def band_covariances_kernel(x_ptr, out_ptr, pixels, dates, BLOCK: tl.constexpr):
    """How the five bands of a satellite's pictures vary together, for each pixel over all dates."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    none = tl.zeros((BLOCK,), dtype=tl.float32)
    a, b, c, d, e = none, none, none, none, none
    aa, ab, ac, ad, ae, bb, bc, bd, be = none, none, none, none, none, none, none, none, none
    cc, cd, ce, dd, de, ee = none, none, none, none, none, none
    for date in range(dates):
        x = x_ptr + date * 5 * pixels + at
        blue, green = tl.load(x).to(tl.float32), tl.load(x + pixels).to(tl.float32)
        red, edge = tl.load(x + 2 * pixels).to(tl.float32), tl.load(x + 3 * pixels).to(tl.float32)
        near = tl.load(x + 4 * pixels).to(tl.float32)
        a, b, c, d, e = a + blue, b + green, c + red, d + edge, e + near  # fault
        aa, ab, ac, ad = aa + blue * blue, ab + blue * green, ac + blue * red, ad + blue * edge  # fault
        ae, bb, bc, bd = ae + blue * near, bb + green * green, bc + green * red, bd + green * edge  # fault
        be, cc, cd, ce = be + green * near, cc + red * red, cd + red * edge, ce + red * near  # fault
        dd, de, ee = dd + edge * edge, de + edge * near, ee + near * near  # fault
    out, share = out_ptr + at, 1.0 / dates
    tl.store(out, (aa - a * a * share) * share)
    tl.store(out + pixels, (ab - a * b * share) * share)
    tl.store(out + 2 * pixels, (ac - a * c * share) * share)
    tl.store(out + 3 * pixels, (ad - a * d * share) * share)
    tl.store(out + 4 * pixels, (ae - a * e * share) * share)
    tl.store(out + 5 * pixels, (bb - b * b * share) * share)
    tl.store(out + 6 * pixels, (bc - b * c * share) * share)
    tl.store(out + 7 * pixels, (bd - b * d * share) * share)
    tl.store(out + 8 * pixels, (be - b * e * share) * share)
    tl.store(out + 9 * pixels, (cc - c * c * share) * share)
    tl.store(out + 10 * pixels, (cd - c * d * share) * share)
    tl.store(out + 11 * pixels, (ce - c * e * share) * share)
    tl.store(out + 12 * pixels, (dd - d * d * share) * share)
    tl.store(out + 13 * pixels, (de - d * e * share) * share)
    tl.store(out + 14 * pixels, (ee - e * e * share) * share)


def _band_covariances(block: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pixels, dates = (1 << 12, 4) if small else (1 << 21, 48)
        x = torch.randint(256, (dates, 5, pixels), dtype=torch.uint8)
        out = empty(15, pixels)
        options = {"BLOCK": block, "num_warps": 4}
        args = (x, out, pixels, dates)
        return Launch(band_covariances_kernel, (pixels // block,), args, (out,), options)

    return prepare


@gluon.jit
def decayed_sum(share, x, other_share, other):
    return share * other_share, x * other_share + other


@gluon.jit
def smoothed_kernel(
    x_ptr, out_ptr, decay, LENGTH: gl.constexpr, ROWS: gl.constexpr, TIMES: gl.constexpr,
    SHARED: gl.constexpr,
):  # fmt: skip
    """Exponential moving sums of series; shared memory gives each thread a series, of TIMES a step."""
    apart: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0])
    whole: gl.constexpr = gl.BlockedLayout([1, TIMES], [32, 1], [4, 1], [1, 0])
    row = gl.program_id(0) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, apart))
    time = gl.arange(0, TIMES, layout=gl.SliceLayout(0, apart))
    at = row[:, None] * LENGTH + time[None, :]
    place = gl.arange(0, TIMES, layout=gl.SliceLayout(0, whole))[None, :]
    tile = gl.allocate_shared_memory(gl.float32, [ROWS, TIMES], SHARED)
    before = gl.full([ROWS], 0.0, gl.float32, layout=gl.SliceLayout(1, whole))
    for start in range(0, LENGTH, TIMES):
        tile.store(gl.load(x_ptr + at + start).to(gl.float32))
        x = tile.load(whole)  # fault
        x += gl.where(place == 0, decay * before[:, None], 0.0)
        shares = gl.full([ROWS, TIMES], 1.0, gl.float32, layout=whole) * decay
        sums = gl.associative_scan((shares, x), 1, decayed_sum)[1]
        before = gl.sum(gl.where(place == TIMES - 1, sums, 0.0), 1)
        tile.store(sums)  # fault
        gl.store(out_ptr + at + start, tile.load(apart).to(gl.float16))


def _smoothed(vector: int, phases: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, length = (256, 128) if small else (1 << 17, 1024)
        x = random(rows, length, dtype=torch.float16)
        out = torch.empty_like(x)
        shared = gl.SwizzledSharedLayout(vector, 1, phases, [1, 0])
        options = {"LENGTH": length, "ROWS": 128, "TIMES": 32, "SHARED": shared, "num_warps": 4}
        return Launch(smoothed_kernel, (rows // 128,), (x, out, 0.9), (out,), options)

    return prepare


_case = faults_of(8)


CASES = (
    _case(
        "Lanczos' weights by exact sines",
        ("slow-math",),
        ("counts", "samples"),
        True,
        _other_view(False),
        _other_view(True),
    ),
    _case(
        "integral images by 32 warps",
        ("too-many-warps", "serial-reduction"),
        ("counts", "samples"),
        True,
        _integral_image(32),
        _integral_image(4),
    ),
    _case(
        "pictures warped in float64",
        ("fp64-arithmetic",),
        ("counts", "samples"),
        True,
        _homography(tl.float64),
        _homography(tl.float32),
    ),
    _case(
        "covariances of five bands by 4 warps",
        ("register-spills",),
        ("resources", "samples"),
        False,
        _band_covariances(2048),
        _band_covariances(512),
    ),
    _case(
        "series smoothed through plain shared memory",
        ("bank-conflict",),
        ("counts", "samples"),
        True,
        _smoothed(1, 1),
        _smoothed(4, 8),
    ),
)
