"""Tenth round, faults of simulation, finance, signals and linear algebra."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def seismic_kernel(
    now_ptr, past_ptr, speed_ptr, out_ptr, ROW: tl.constexpr, PLANE: tl.constexpr, Z: tl.constexpr,
    Y: tl.constexpr, X: tl.constexpr,
):  # fmt: skip
    """A step of the acoustic wave equation, of eighth order in space, as reverse time migration takes it."""
    z = tl.program_id(2) * Z + tl.arange(0, Z)[:, None, None] + 4
    y = tl.program_id(1) * Y + tl.arange(0, Y)[None, :, None] + 4
    at = z * PLANE + y * ROW + tl.program_id(0) * X + tl.arange(0, X)[None, None, :] + 32
    near = now_ptr + at
    now = tl.load(near)
    around = -8.541667 * now
    for k in tl.static_range(1, 5):
        ring = tl.load(near - k) + tl.load(near + k)
        ring += tl.load(near - k * ROW) + tl.load(near + k * ROW)  # fault
        ring += tl.load(near - k * PLANE) + tl.load(near + k * PLANE)  # fault
        around += ring * (1.6 if k == 1 else -0.2 if k == 2 else 0.0253968 if k == 3 else -0.0017857)
    tl.store(out_ptr + at, 2.0 * now - tl.load(past_ptr + at) + tl.load(speed_ptr + at) * around)


def _seismic(z: int, y: int, x: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        depth, height, width = (4, 8, 512) if small else (384, 384, 512)
        shape = (depth + 8, height + 8, width + 64)
        now, past, speed, out = random(*shape), random(*shape), 0.1 * torch.rand(shape), zeros(*shape)
        options = {"ROW": shape[2], "PLANE": shape[1] * shape[2], "Z": z, "Y": y, "X": x, "num_warps": 4}
        grid = (width // x, height // y, depth // z)
        return Launch(seismic_kernel, grid, (now, past, speed, out), (out,), options)

    return prepare


@triton.jit
def garch_kernel(return_ptr, model_ptr, out_ptr, series, days, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Log likelihoods of GARCH(1, 1) models of the returns of shares, a share for each lane."""
    share = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    base, shock = tl.load(model_ptr + share), tl.load(model_ptr + series + share)
    keep = tl.load(model_ptr + 2 * series + share)
    variance, total = base / (1.0 - shock - keep), tl.zeros((BLOCK,), dtype=tl.float32)
    for day in tl.range(0, days, num_stages=STAGES):
        gain = tl.load(return_ptr + day * series + share)  # fault
        square = gain * gain  # fault
        total -= 0.6931472 * tl.log2(variance) + square / variance
        variance = base + shock * square + keep * variance
    tl.store(out_ptr + share, 0.5 * total)


def _garch(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        series, days = (256, 16) if small else (16896, 2048)
        model, out = 0.05 + 0.1 * torch.rand(3, series), empty(series)
        model[2] += 0.6
        args = (random(days, series), model, out, series, days)
        options = {"BLOCK": 128, "STAGES": stages, "num_warps": 4}
        return Launch(garch_kernel, (series // 128,), args, (out,), options)

    return prepare


@triton.jit
def _moved(share, wild, chance, turn, other):
    """A step of a price's logarithm and its variance, with two normal numbers by Box and Muller."""
    far = tl.sqrt(-1.3862944 * tl.log2(tl.maximum(chance, 1e-7)))
    first, second = far * libdevice.fast_cosf(6.2831853 * turn), far * libdevice.fast_sinf(6.2831853 * turn)
    root = tl.sqrt(tl.maximum(wild, 0.0))
    share += -0.005 * wild + 0.1 * root * first
    share = tl.where(other < 0.002, share - 0.05, share)
    wild += 0.015 * (0.04 - wild) + 0.04 * root * (0.714 * second - 0.7 * first)
    return share, wild


@triton.jit
def bates_kernel(out_ptr, steps, seed, strike, BLOCK: tl.constexpr):
    """Payoffs of calls on a price that jumps at times and whose volatility is random as well (Bates)."""
    path = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    share = tl.zeros((BLOCK,), dtype=tl.float32)
    wild = tl.full((BLOCK,), 0.04, dtype=tl.float32)
    for step in range(steps):
        chance, turn, other, _ = tl.rand4x(seed + step, path)
        share, wild = _moved(share, wild, chance, turn, other)
    tl.store(out_ptr + path, tl.maximum(tl.exp2(1.442695 * share) - strike, 0.0))


def _bates(block: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        paths, steps = (4096, 4) if small else (140 * 4096, 200)
        out = empty(paths)
        options = {"BLOCK": block, "num_warps": warps}
        return Launch(bates_kernel, (paths // block,), (out, steps, 7, 1.0), (out,), options)

    return prepare


@triton.jit
def realised_variances_kernel(price_ptr, out_ptr, ticks, length, BLOCK: tl.constexpr):
    """Sums of squares of shares' returns from tick to tick, from logarithms of prices."""
    share = tl.program_id(0)
    start = share * ticks + tl.program_id(1) * length
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, length, BLOCK):
        at = start + first + tl.arange(0, BLOCK)
        price = tl.load(price_ptr + at)
        inside = at + 1 < (share + 1) * ticks
        change = tl.load(price_ptr + at + 1, mask=inside, other=0.0) - tl.where(inside, price, 0.0)
        total += change * change
    tl.atomic_add(out_ptr + share, tl.sum(total, 0), sem="relaxed")


def _realised_variances(parts: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        shares, ticks = (2, 8192) if small else (64, 1 << 20)
        price, out = random(shares, ticks), zeros(shares)
        length = ticks // (2 if small and parts > 1 else parts)
        args, options = (price, out, ticks, length), {"BLOCK": 2048, "num_warps": 8}
        return Launch(realised_variances_kernel, (shares, ticks // length), args, (out,), options)

    return prepare


@triton.jit
def inverse_updates_kernel(
    inverse_ptr, left_ptr, right_ptr, out_ptr, updates, SIZE: tl.constexpr, COLUMNS: tl.constexpr
):
    """Inverses of matrices after changes of rank one (Sherman and Morrison; quantum Monte Carlo)."""
    matrix = tl.program_id(0)
    row, column = tl.arange(0, SIZE), tl.arange(0, COLUMNS)
    at = matrix * SIZE * COLUMNS + row[:, None] * COLUMNS + column[None, :]
    inverse = tl.load(inverse_ptr + at)  # fault
    for each in range(updates):
        left = tl.load(left_ptr + (matrix * updates + each) * COLUMNS + column)
        right = tl.load(right_ptr + (matrix * updates + each) * SIZE + row)
        down = tl.sum(inverse * left[None, :], 1)  # fault
        across = tl.sum(inverse * right[:, None], 0)  # fault
        scale = 1.0 / (1.0 + tl.sum(right * down, 0))
        inverse -= (scale * down)[:, None] * across[None, :]  # fault
    tl.store(out_ptr + at, inverse)  # fault


def _inverse_updates(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        matrices, updates, size = (2, 2, 128) if small else (1056, 8, 128)
        inverse = torch.eye(size) + 0.01 * random(matrices, size, size)
        left, right = 0.05 * random(matrices, updates, size), 0.05 * random(matrices, updates, size)
        out = torch.empty_like(inverse)
        options = {"SIZE": size, "COLUMNS": size, "num_warps": warps}
        args = (inverse, left, right, out, updates)
        return Launch(inverse_updates_kernel, (matrices,), args, (out,), options)

    return prepare


@triton.jit
def posterior_kernel(seen_ptr, out_ptr, times, STATES: tl.constexpr, EACH: tl.constexpr):
    """Chances of the values that a sensor may measure, after all its readings (Bayes on a grid). EACH: made
    to sum up to 1 after each reading, or after eight."""
    state, sensor = tl.arange(0, STATES), tl.program_id(0) * times
    value = state * (4.0 / STATES) - 2.0
    chance = tl.full((STATES,), 1.0 / STATES, dtype=tl.float32)
    for first in range(0, times, 8):
        for each in tl.static_range(8):
            gap = tl.load(seen_ptr + sensor + first + each) - value
            chance *= tl.exp2(-0.72134752 * gap * gap)  # fault
            if EACH:
                chance /= tl.sum(chance, 0)  # fault
        if not EACH:
            chance /= tl.sum(chance, 0)
    tl.store(out_ptr + tl.program_id(0) * STATES + state, chance)


def _posterior(each: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        sensors, times = (2, 16) if small else (1056, 2048)
        seen, out = torch.rand(sensors, 1) + 0.5 * random(sensors, times), empty(sensors, 512)
        options = {"STATES": 512, "EACH": each, "num_warps": 4}
        return Launch(posterior_kernel, (sensors,), (seen, out, times), (out,), options)

    return prepare


@triton.jit
def sorted_lists_kernel(key_ptr, out_ptr, SIZE: tl.constexpr):
    """Short lists of keys, each sorted (candidates of a search before they are merged)."""
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(out_ptr + at, tl.sort(tl.load(key_ptr + at)))


def _sorted_lists(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        lists = 2 if small else 65536
        key = integers(lists, 256, below=1 << 30)
        out = torch.empty_like(key)
        return Launch(sorted_lists_kernel, (lists,), (key, out), (out,), {"SIZE": 256, "num_warps": warps})

    return prepare


@triton.jit
def prime_product_kernel(
    a_ptr, b_ptr, out_ptr, columns, depth, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    GROUP: tl.constexpr, EACH: tl.constexpr,
):  # fmt: skip
    """The exact product of matrices modulo 127, from remainders -63 to 63; b is transposed. EACH: the sums
    are reduced at each step, though 32 bits hold them all."""
    row = (tl.program_id(1) * GROUP + tl.program_id(0) % GROUP) * ROWS + tl.arange(0, ROWS)
    column, inner = tl.program_id(0) // GROUP * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    a_at = a_ptr + row[:, None] * depth + inner[None, :]
    b_at = b_ptr + column[None, :] * depth + inner[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.int32)
    for _ in range(0, depth, DEPTH):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total, out_dtype=tl.int32)  # fault
        if EACH:
            total %= 127  # fault
        a_at += DEPTH
        b_at += DEPTH
    total %= 127
    total = tl.where(total < 0, total + 127, total)
    tl.store(out_ptr + row[:, None] * columns + column[None, :], total.to(tl.int8))


def _prime_product(each: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns, depth = (128, 256, 256) if small else (8192, 4096, 4096)
        a = integers(rows, depth, below=127, dtype=torch.int8) - 63
        b = integers(columns, depth, below=127, dtype=torch.int8) - 63
        out, group = empty(rows, columns, dtype=torch.int8), min(8, rows // 128)
        options = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 128, "GROUP": group, "EACH": each}
        grid = (group * columns // 128, rows // 128 // group)
        args = (a, b, out, columns, depth)
        return Launch(prime_product_kernel, grid, args, (out,), options | {"num_warps": 8, "num_stages": 3})

    return prepare


_case = faults_of(10)


CASES = (
    _case(
        "a seismic wave line by line",
        ("tile-reread",),
        ("counters",),
        False,
        _seismic(1, 1, 512),
        _seismic(4, 8, 64),
    ),
    _case(
        "likelihoods of GARCH models day by day",
        ("few-stages", "exposed-latency", "low-occupancy"),
        ("spans", "samples"),
        False,
        _garch(1),
        _garch(8),
    ),
    _case(
        "paths with jumps by 140 programs",
        ("tail", "idle-sms"),
        ("ctas",),
        False,
        _bates(4096, 32),
        _bates(512, 4),
    ),
    _case(
        "variances of 64 shares",
        ("idle-sms",),
        ("ctas",),
        False,
        _realised_variances(1),
        _realised_variances(32),
    ),
    _case(
        "inverse matrices updated by two warps",
        ("register-spills",),
        ("resources", "counts"),
        False,
        _inverse_updates(2),
        _inverse_updates(8),
    ),
    _case(
        "readings of sensors weighed one by one",
        ("serial-reduction",),
        ("counts", "samples"),
        True,
        _posterior(True),
        _posterior(False),
    ),
    _case(
        "short lists sorted by eight warps",
        ("too-many-warps", "serial-reduction", "layout-conversion"),
        ("samples", "counts"),
        True,
        _sorted_lists(8),
        _sorted_lists(1),
    ),
    _case(
        "an exact product modulo 127",
        ("slow-math", "mma-not-overlapped"),
        ("counts", "samples"),
        True,
        _prime_product(True),
        _prime_product(False),
    ),
)
