"""Faults of arithmetic: the wrong width, the slow function, or work that nobody needs."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


def _elementwise(
    kernel: Any, n: int, *extra: Any, positive: bool = False, block: int = 1024, **options: Any
) -> Prepare:
    """kernel(x, out, *extra) over n elements; an extra that is called makes a tensor."""

    def prepare(small: bool) -> Launch:
        length = 4096 if small else n
        x, out = torch.rand(length) + 0.5 if positive else random(length), empty(length)
        args = (x, out, *(each() if callable(each) else each for each in extra))
        return Launch(kernel, (length // block,), args, (out,), {"BLOCK": block, **options})

    return prepare


@triton.jit
def growth_kernel(x_ptr, out_ptr, rate_ptr, BLOCK: tl.constexpr):
    """The rate is a tensor's element; a float64 one makes all of it float64."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rate = tl.load(rate_ptr)
    x = tl.load(x_ptr + offs) * rate  # fault
    y = x
    for _ in tl.static_range(16):
        y = y * x + rate  # fault
    tl.store(out_ptr + offs, (y / (x * x + 1.0)).to(tl.float32))  # fault


def _rate(dtype: torch.dtype) -> Any:
    return lambda: torch.full((1,), 0.37, dtype=dtype)


@triton.jit
def double_norm_kernel(x_ptr, out_ptr, COLS: tl.constexpr, DTYPE: tl.constexpr):
    """A norm whose sums are in float64, and the rest with them."""
    offs = tl.program_id(0) * COLS + tl.arange(0, COLS)
    x = tl.load(x_ptr + offs).to(DTYPE)  # fault
    away = x - tl.sum(x, 0) / COLS  # fault
    y = away / tl.sqrt(tl.sum(away * away, 0) / COLS + 1e-5)  # fault
    tl.store(out_ptr + offs, y.to(tl.float16))


def _double_norm(dtype: Any) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (4, 1024) if small else (8192, 4096)
        x, out = random(rows, cols, dtype=torch.float16), empty(rows, cols, dtype=torch.float16)
        return Launch(
            double_norm_kernel, (rows,), (x, out), (out,), {"COLS": cols, "DTYPE": dtype, "num_warps": 8}
        )

    return prepare


@triton.jit
def cube_by_power_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    cube = libdevice.pow(x, 3.0)  # fault
    tl.store(out_ptr + offs, x + 0.044715 * cube)


@triton.jit
def cube_by_products_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, x + 0.044715 * x * x * x)


@triton.jit
def phases_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Sine and cosine for any angle, of small ones."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = x
    for i in tl.static_range(1, 3):
        y += libdevice.sin(x * i) * libdevice.cos(x * i)  # fault
    tl.store(out_ptr + offs, y)


@triton.jit
def fast_phases_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = x
    for i in tl.static_range(1, 3):
        y += libdevice.fast_sinf(x * i) * libdevice.fast_cosf(x * i)
    tl.store(out_ptr + offs, y)


@triton.jit
def divided_kernel(x_ptr, out_ptr, s_ptr, BLOCK: tl.constexpr):
    """Divides by what is the same for all, correctly rounded."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    for i in tl.static_range(8):
        x = tl.div_rn(x + 1.0, tl.load(s_ptr + i))  # fault
    tl.store(out_ptr + offs, x)


@triton.jit
def multiplied_kernel(x_ptr, out_ptr, s_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    for i in tl.static_range(8):
        x = (x + 1.0) * (1.0 / tl.load(s_ptr + i))
    tl.store(out_ptr + offs, x)


def _divisors() -> torch.Tensor:
    return torch.rand(8) + 1.0


@triton.jit
def channels_last_kernel(x_ptr, out_ptr, C, H, W, BLOCK: tl.constexpr):
    """NCHW of NHWC, by indices of 64 bits."""
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    c = offs % C  # fault
    w = offs // C % W  # fault
    h = offs // (C.to(tl.int64) * W) % H  # fault
    n = offs // (C.to(tl.int64) * W * H)  # fault
    bias = (c + w + h + n).to(tl.float32)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs) + bias)


@triton.jit
def channels_of_rows_kernel(x_ptr, out_ptr, C: tl.constexpr, H, W, BLOCK: tl.constexpr):
    """As channels_last_kernel: what the program knows once, and 32 bits."""
    pixel = tl.program_id(0) * (BLOCK // C)
    pixels = pixel + tl.arange(0, BLOCK // C)
    c = tl.arange(0, C)
    place = pixels % W + pixels // W % H + pixels // (W * H)
    offs = pixels[:, None] * C + c[None, :]
    tl.store(out_ptr + offs, tl.load(x_ptr + offs) + (c[None, :] + place[:, None]).to(tl.float32))


def _channels(rows: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, h, w, c = (1, 8, 8, 64) if small else (16, 112, 112, 64)
        total = n * h * w * c
        x, out = random(total), empty(total)
        kernel = channels_of_rows_kernel if rows else channels_last_kernel
        args = (x, out, h, w) if rows else (x, out, c, h, w)
        options = {"C": c, "BLOCK": 1024} if rows else {"BLOCK": 1024}
        if rows:
            return Launch(kernel, (total // 1024,), (x, out), (out,), options | {"H": h, "W": w})
        return Launch(kernel, (total // 1024,), args, (out,), options)

    return prepare


@triton.jit
def ring_kernel(x_ptr, ring_ptr, out_ptr, size, first, BLOCK: tl.constexpr):
    """Reads a ring buffer: the remainder for each of eight taps."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.load(x_ptr + offs)
    for tap in range(8):
        at = (offs.to(tl.int64) + first + tap) % size  # fault
        acc += tl.load(ring_ptr + at)
    tl.store(out_ptr + offs, acc)


@triton.jit
def wrapped_ring_kernel(x_ptr, ring_ptr, out_ptr, size, first, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.load(x_ptr + offs)
    start = (tl.program_id(0) * BLOCK + first) % size
    for tap in range(8):
        at = start + tl.arange(0, BLOCK) + tap
        at = tl.where(at >= size, at - size, at)
        acc += tl.load(ring_ptr + at)
    tl.store(out_ptr + offs, acc)


def _ring(wrapped: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, size = (4096, 3000) if small else (1 << 23, 1_000_003)
        x, ring, out = random(n), random(size), empty(n)
        kernel = wrapped_ring_kernel if wrapped else ring_kernel
        return Launch(kernel, (n // 1024,), (x, ring, out, size, 77), (out,), {"BLOCK": 1024})

    return prepare


@triton.jit
def positions_kernel(x_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Sums of positions, each of which is converted from an integer."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    place = tl.arange(0, BLOCK)
    acc = x
    for i in range(steps):
        acc = acc * 0.5 + ((place + i) * 3 % 1024).to(tl.float32) * x  # fault
    tl.store(out_ptr + offs, acc)


@triton.jit
def float_positions_kernel(x_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    place = (tl.arange(0, BLOCK) * 3 % 1024).to(tl.float32)
    acc = x
    for _ in range(steps):
        acc = acc * 0.5 + place * x
        place += 3.0
        place = tl.where(place >= 1024.0, place - 1024.0, place)
    tl.store(out_ptr + offs, acc)


@triton.jit
def half_state_kernel(x_ptr, out_ptr, steps, DTYPE: tl.constexpr, BLOCK: tl.constexpr):
    """A recurrence whose state is rounded to a narrow type, and widened, in each step."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    state = (x * 0.0).to(DTYPE)
    for _ in range(steps):
        state = (state.to(tl.float32) * 0.5 + x).to(DTYPE)  # fault
    tl.store(out_ptr + offs, state.to(tl.float32))


@triton.jit
def bit_count_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Counts bits one after the other."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    count = x & 0
    for _ in range(32):
        count += x & 1  # fault
        x = (x >> 1) & 0x7FFFFFFF  # fault
    tl.store(out_ptr + offs, count.to(tl.float32))


@triton.jit
def popcount_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, libdevice.popc(tl.load(x_ptr + offs)).to(tl.float32))


def _bits(kernel: Any) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 4096 if small else 1 << 24
        x, out = integers(n, below=(1 << 31) - 1), empty(n)
        return Launch(kernel, (n // 1024,), (x, out), (out,), {"BLOCK": 1024})

    return prepare


@triton.jit
def powers_kernel(x_ptr, w_ptr, out_ptr, degree, BLOCK: tl.constexpr):
    """A polynomial each of whose powers is multiplied out from the start."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = x * 0.0
    for i in range(degree):
        power = x * 0.0 + 1.0
        for _ in range(i):
            power *= x  # fault
        y += tl.load(w_ptr + i) * power
    tl.store(out_ptr + offs, y)


@triton.jit
def horner_kernel(x_ptr, w_ptr, out_ptr, degree, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = x * 0.0
    for i in range(degree):
        y = y * x + tl.load(w_ptr + degree - 1 - i)
    tl.store(out_ptr + offs, y)


def _powers(kernel: Any) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 4096 if small else 1 << 24
        x, w, out = torch.rand(n), torch.rand(20), empty(n)
        return Launch(kernel, (n // 1024,), (x, w, out, 20), (out,), {"BLOCK": 1024})

    return prepare


@triton.jit
def padded_rows_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """A row of a little more than half a block: the other lanes compute for nobody."""
    lanes = tl.arange(0, BLOCK)
    offs = tl.program_id(0) * cols + lanes
    x = tl.load(x_ptr + offs, mask=lanes < cols, other=0.0)  # fault
    y = x
    for _ in range(48):
        y = y * x * 0.25 + 0.5  # fault
    tl.store(out_ptr + offs, y, mask=lanes < cols)


def _padded(flat: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (64, 528) if small else (1 << 15, 528)
        x, out = torch.rand(rows * cols), empty(rows * cols)
        length = 1024 if flat else cols
        return Launch(
            padded_rows_kernel, (triton.cdiv(rows * cols, length),), (x, out, length), (out,), {"BLOCK": 1024}
        )

    return prepare


_MIDDLE, _LARGE = 1 << 24, 1 << 26

CASES = (
    Case(
        "rate of float64",
        ("fp64-arithmetic",),
        ("counts", "counters"),
        True,
        _elementwise(growth_kernel, _MIDDLE, _rate(torch.float64)),
        _elementwise(growth_kernel, _MIDDLE, _rate(torch.float32)),
    ),
    Case(
        "norm in float64",
        ("fp64-arithmetic",),
        ("counts", "counters"),
        True,
        _double_norm(tl.float64),
        _double_norm(tl.float32),
    ),
    Case(
        "cube by pow",
        ("slow-math",),
        ("counts", "samples"),
        True,
        _elementwise(cube_by_power_kernel, _LARGE),
        _elementwise(cube_by_products_kernel, _LARGE),
    ),
    Case(
        "phases of any size",
        ("slow-math",),
        ("counts", "samples"),
        True,
        _elementwise(phases_kernel, _MIDDLE),
        _elementwise(fast_phases_kernel, _MIDDLE),
    ),
    Case(
        "division by a scalar",
        ("slow-math",),
        ("counts", "samples"),
        True,
        _elementwise(divided_kernel, _LARGE, _divisors),
        _elementwise(multiplied_kernel, _LARGE, _divisors),
    ),
    Case(
        "channels by 64-bit remainders",
        ("index-arithmetic",),
        ("counts", "samples"),
        True,
        _channels(False),
        _channels(True),
    ),
    Case(
        "ring buffer by remainder",
        ("index-arithmetic",),
        ("counts", "samples"),
        True,
        _ring(False),
        _ring(True),
    ),
    Case(
        "positions from integers",
        ("conversions", "issue-bound"),
        ("counts", "samples"),
        True,
        _elementwise(positions_kernel, _MIDDLE, 64),
        _elementwise(float_positions_kernel, _MIDDLE, 64),
    ),
    Case(
        "state narrowed each step",
        ("conversions",),
        ("counts", "samples"),
        True,
        _elementwise(half_state_kernel, _MIDDLE, 200, positive=True, DTYPE=tl.float16),
        _elementwise(half_state_kernel, _MIDDLE, 200, positive=True, DTYPE=tl.float32),
    ),
    Case(
        "bits one by one",
        ("issue-bound",),
        ("counts", "counters"),
        True,
        _bits(bit_count_kernel),
        _bits(popcount_kernel),
    ),
    Case(
        "powers from the start",
        ("issue-bound",),
        ("counts", "counters"),
        True,
        _powers(powers_kernel),
        _powers(horner_kernel),
    ),
    Case("rows padded to 1024", ("masked-work",), ("counts",), True, _padded(False), _padded(True)),
)
