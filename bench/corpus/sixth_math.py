"""Sixth round, faults of arithmetic: what is computed, how precisely, how often and across which threads."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def harmonics_kernel(x_ptr, table_ptr, out_ptr, degrees, BLOCK: tl.constexpr):
    """A sum of Legendre polynomials, in the precision of the table of their factors."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at).to(table_ptr.dtype.element_ty)
    before, last = x * 0.0 + 1.0, x
    total = tl.load(table_ptr + 2) * last + tl.load(table_ptr + 5)
    for degree in range(2, degrees):
        row = table_ptr + 3 * degree
        following = tl.load(row) * x * last - tl.load(row + 1) * before  # fault
        total += tl.load(row + 2) * following  # fault
        before, last = last, following
    tl.store(out_ptr + at, total.to(tl.float32))


def _harmonics(dtype: torch.dtype) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, degrees = (4096, 8) if small else (1 << 22, 128)
        degree = torch.arange(degrees, dtype=torch.float64).clamp(min=1)
        table = torch.stack(((2 * degree - 1) / degree, (degree - 1) / degree, 1 / degree), 1)
        x, out = 2 * torch.rand(n) - 1, empty(n)
        options = {"BLOCK": 1024, "num_warps": 4}
        args = (x, table.to(dtype).contiguous(), out, degrees)
        return Launch(harmonics_kernel, (n // 1024,), args, (out,), options)

    return prepare


@triton.jit
def absorption_kernel(
    wave_ptr, line_ptr, width_ptr, strength_ptr, out_ptr, lines, NARROW: tl.constexpr, BLOCK: tl.constexpr
):
    """How much a gas absorbs of light, by its spectral lines, whose places are exact."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wave = tl.load(wave_ptr + at)
    total = tl.zeros((BLOCK,), dtype=tl.float32 if NARROW else tl.float64)
    for line in range(lines):
        width, strength = tl.load(width_ptr + line), tl.load(strength_ptr + line)
        away = wave - tl.load(line_ptr + line)
        if NARROW:
            away = away.to(tl.float32)
        total += strength * width / (away * away + width * width)  # fault
    tl.store(out_ptr + at, total.to(tl.float32))


def _absorption(narrow: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, lines = (2048, 8) if small else (1 << 18, 256)
        wave = 2000.0 + 10.0 * torch.sort(torch.rand(n, dtype=torch.float64))[0]
        line = 2000.0 + 10.0 * torch.rand(lines, dtype=torch.float64)
        width, strength, out = 0.05 + 0.05 * torch.rand(lines), torch.rand(lines), empty(n)
        options = {"NARROW": narrow, "BLOCK": 512, "num_warps": 4}
        args = (wave, line, width, strength, out, lines)
        return Launch(absorption_kernel, (n // 512,), args, (out,), options)

    return prepare


@triton.jit
def count_loss_kernel(rate_ptr, count_ptr, out_ptr, steps, SERIES: tl.constexpr, BLOCK: tl.constexpr):
    """The loss of rates that should explain counts (Poisson), with the term of the counts alone."""
    loss = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(steps):
        at = (tl.program_id(0) * steps + step) * BLOCK + tl.arange(0, BLOCK)
        rate, count = tl.load(rate_ptr + at).to(tl.float32), tl.load(count_ptr + at).to(tl.float32)
        after = count + 1.0
        if SERIES:
            term = (
                (after - 0.5) * 0.69314718 * libdevice.fast_log2f(after) - after + 0.91893853 + 0.0828 / after
            )
        else:
            term = libdevice.lgamma(after)  # fault
        loss += rate - count * 0.69314718 * libdevice.fast_log2f(rate) + term
    tl.store(out_ptr + tl.program_id(0), tl.sum(loss, 0))


def _count_loss(series: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (2112, 16)
        n = programs * steps * 1024
        rate = 0.5 + 10.0 * torch.rand(n).half()
        count, out = integers(n, below=24, dtype=torch.uint8), empty(programs)
        options = {"SERIES": series, "BLOCK": 1024, "num_warps": 4}
        return Launch(count_loss_kernel, (programs,), (rate, count, out, steps), (out,), options)

    return prepare


@triton.jit
def reservoir_kernel(x_ptr, drive_ptr, out_ptr, steps, FAST: tl.constexpr, BLOCK: tl.constexpr):
    """Pairs of neurons that excite and inhibit each other, while a signal drives them."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    y = -x
    for step in range(steps):
        drive = tl.load(drive_ptr + step)
        x_sum, y_sum = 0.9 * x - 0.7 * y + drive, 0.6 * x + 0.5 * y - drive
        if FAST:
            x = 1.0 - tl.fdiv(2.0, 1.0 + tl.exp2(2.88539008 * x_sum))
            y = 1.0 - tl.fdiv(2.0, 1.0 + tl.exp2(2.88539008 * y_sum))
        else:
            x, y = libdevice.tanh(x_sum), libdevice.tanh(y_sum)  # fault
    tl.store(out_ptr + at, x + 2.0 * y)


def _reservoir(fast: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, steps = (2048, 8) if small else (1 << 20, 256)
        x, drive, out = random(n), 0.2 * random(steps), empty(n)
        options = {"FAST": fast, "BLOCK": 512, "num_warps": 4}
        return Launch(reservoir_kernel, (n // 512,), (x, drive, out, steps), (out,), options)

    return prepare


@triton.jit
def voters_kernel(voter_ptr, out_ptr, width, height, COMPARE: tl.constexpr, BLOCK: tl.constexpr):
    """Each voter of a world without edges follows the majority of itself and its four neighbours."""
    row, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if COMPARE:
        left = tl.where(at == 0, width - 1, at - 1)
        right = tl.where(at == width - 1, 0, at + 1)
    else:
        left = (at + width - 1) % width  # fault
        right = (at + 1) % width  # fault
    above, below = (row + height - 1) % height * width, (row + 1) % height * width
    votes = tl.load(voter_ptr + row * width + left) + tl.load(voter_ptr + row * width + right)
    votes += tl.load(voter_ptr + above + at) + tl.load(voter_ptr + below + at)
    votes += tl.load(voter_ptr + row * width + at)
    tl.store(out_ptr + row * width + at, (votes > 2).to(tl.int8))


def _voters(compare: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        height, width = (8, 1024) if small else (8192, 8192)
        voter = integers(height, width, below=2, dtype=torch.int8)
        out = torch.empty_like(voter)
        options = {"COMPARE": compare, "BLOCK": 1024, "num_warps": 4}
        grid = (width // 1024, height)
        return Launch(voters_kernel, grid, (voter, out, width, height), (out,), options)

    return prepare


@triton.jit
def pair_distance_kernel(point_ptr, out_ptr, points, pairs, BLOCK: tl.constexpr):
    """The distances of all pairs of points, one after the other without gaps."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    point = point_ptr + tl.program_id(1) * 3 * points
    ahead = 2 * points - 1
    root = tl.sqrt((ahead * ahead - 8 * at).to(tl.float32))  # fault
    one = ((ahead.to(tl.float32) - root) * 0.5).to(tl.int32)  # fault
    one = tl.where(one * (ahead - one) // 2 > at, one - 1, one)  # fault
    one = tl.where((one + 1) * (ahead - one - 1) // 2 <= at, one + 1, one)  # fault
    other = at - one * (ahead - one) // 2 + one + 1  # fault
    x = tl.load(point + one) - tl.load(point + other)
    y = tl.load(point + points + one) - tl.load(point + points + other)
    z = tl.load(point + 2 * points + one) - tl.load(point + 2 * points + other)
    tl.store(out_ptr + tl.program_id(1) * pairs + at, tl.sqrt(x * x + y * y + z * z).to(tl.float16))


@triton.jit
def row_distance_kernel(point_ptr, out_ptr, points, pairs, BLOCK: tl.constexpr):
    """As pair_distance_kernel; a program has pairs of one point."""
    one = tl.program_id(1)
    other = one + 1 + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    point = point_ptr + tl.program_id(2) * 3 * points
    if one + 1 + tl.program_id(0) * BLOCK < points:
        inside = other < points
        x = tl.load(point + one) - tl.load(point + other, mask=inside)
        y = tl.load(point + points + one) - tl.load(point + points + other, mask=inside)
        z = tl.load(point + 2 * points + one) - tl.load(point + 2 * points + other, mask=inside)
        at = tl.program_id(2) * pairs + one * (2 * points - 1 - one) // 2 + other - one - 1
        tl.store(out_ptr + at, tl.sqrt(x * x + y * y + z * z).to(tl.float16), mask=inside)


def _pair_distance(by_point: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        clouds, points = (1, 256) if small else (4, 8192)
        block = 128 if small else 1024
        pairs = points * (points - 1) // 2
        point, out = random(clouds, 3, points), empty(clouds, pairs, dtype=torch.float16)
        options = {"BLOCK": block, "num_warps": 4}
        args = (point, out, points, pairs)
        if by_point:
            grid = (points // block, points - 1, clouds)
            return Launch(row_distance_kernel, grid, args, (out,), options)
        return Launch(pair_distance_kernel, (pairs // block, clouds), args, (out,), options)

    return prepare


@triton.jit
def excitement_kernel(tick_ptr, out_ptr, past, decay, ONCE: tl.constexpr, BLOCK: tl.constexpr):
    """How much events still excite a later one (Hawkes' process); ONCE: ticks are numbers before the loop."""
    first = past + tl.program_id(0) * BLOCK
    at = first + tl.arange(0, BLOCK)
    begin = tl.load(tick_ptr + first)
    tick = tl.load(tick_ptr + at)
    since = (tick - begin).to(tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for back in range(past):
        earlier = tl.load(tick_ptr + first - 1 - back)
        time = since - (earlier - begin).to(tl.float32) if ONCE else (tick - earlier).to(tl.float32)  # fault
        total += tl.exp2(time * decay)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


def _excitement(once: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, past = (2048, 16) if small else (1 << 20, 512)
        tick = (1 << 50) + torch.cumsum(1 + integers(n + past, below=1000, dtype=torch.int64), 0)
        out = empty(n)
        options = {"ONCE": once, "BLOCK": 1024, "num_warps": 4}
        return Launch(excitement_kernel, (n // 1024,), (tick, out, past, -1e-5), (out,), options)

    return prepare


@triton.jit
def lag_products_kernel(x_ptr, out_ptr, size, LAGS: tl.constexpr, BLOCK: tl.constexpr):
    """The products of a frame of sound with itself at each lag, by which its pitch is found."""
    at = tl.program_id(0) * size + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    for lag in range(LAGS):
        product = tl.sum(x * tl.load(x_ptr + at + lag), 0)  # fault
        tl.store(out_ptr + tl.program_id(0) * LAGS + lag, product)


@triton.jit
def lag_rows_kernel(x_ptr, out_ptr, size, LAGS: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr):
    """As lag_products_kernel; all lags are summed up together, by row, and across lanes at the end."""
    lag, lanes = tl.arange(0, LAGS), tl.arange(0, STEP)
    frame = x_ptr + tl.program_id(0) * size
    acc = tl.zeros((LAGS, STEP), dtype=tl.float32)
    for start in range(0, BLOCK, STEP):
        x = tl.load(frame + start + lanes)
        acc += x[None, :] * tl.load(frame + start + lag[:, None] + lanes[None, :])
    tl.store(out_ptr + tl.program_id(0) * LAGS + lag, tl.sum(acc, 1))


def _lag_products(rows: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, lags, block = (2, 16, 512) if small else (8448, 64, 1024)
        x, out = random(frames, block + lags), empty(frames, lags)
        args, options = (x, out, block + lags), {"LAGS": lags, "BLOCK": block, "num_warps": 8}
        if rows:
            return Launch(lag_rows_kernel, (frames,), args, (out,), options | {"STEP": 32})
        return Launch(lag_products_kernel, (frames,), args, (out,), options)

    return prepare


@triton.jit
def preference_kernel(x_ptr, weight_ptr, out_ptr, criteria, SIZE: tl.constexpr, LATE: tl.constexpr):
    """How much each option is preferred to each other one, on balance, by several criteria."""
    option = tl.arange(0, SIZE)
    base = x_ptr + tl.program_id(0) * criteria * SIZE
    balance = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for criterion in range(criteria):
        x, weight = tl.load(base + criterion * SIZE + option), tl.load(weight_ptr + criterion)
        better = weight * tl.minimum(tl.maximum(x[:, None] - x[None, :], 0.0), 1.0)
        if LATE:
            balance += better
        else:
            balance += better - tl.trans(better)  # fault
    if LATE:
        balance -= tl.trans(balance)
    out = tl.program_id(0) * SIZE * SIZE + option[:, None] * SIZE + option[None, :]
    tl.store(out_ptr + out, balance)


def _preference(late: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        problems, criteria = (2, 4) if small else (2112, 128)
        x, weight = random(problems, criteria, 64), torch.rand(criteria)
        out = empty(problems, 64, 64)
        options = {"SIZE": 64, "LATE": late, "num_warps": 4}
        return Launch(preference_kernel, (problems,), (x, weight, out, criteria), (out,), options)

    return prepare


_case = faults_of(6)


CASES = (
    _case(
        "harmonics by a table of float64",
        ("fp64-arithmetic",),
        ("counts",),
        True,
        _harmonics(torch.float64),
        _harmonics(torch.float32),
    ),
    _case(
        "spectral lines wide in float64",
        ("fp64-arithmetic",),
        ("counts",),
        True,
        _absorption(False),
        _absorption(True),
    ),
    _case(
        "counts' term by lgamma",
        ("slow-math", "issue-bound"),
        ("counts",),
        True,
        _count_loss(False),
        _count_loss(True),
    ),
    _case(
        "neurons by exact tanh",
        ("slow-math", "issue-bound"),
        ("counts",),
        True,
        _reservoir(False),
        _reservoir(True),
    ),
    _case(
        "voters around a world by remainder",
        ("index-arithmetic", "issue-bound"),
        ("counts",),
        True,
        _voters(False),
        _voters(True),
    ),
    _case(
        "pairs numbered by a root",
        ("index-arithmetic", "issue-bound"),
        ("counts",),
        True,
        _pair_distance(False),
        _pair_distance(True),
    ),
    _case(
        "ticks of each pair of events converted",
        ("conversions",),
        ("counts",),
        True,
        _excitement(False),
        _excitement(True),
    ),
    _case(
        "products summed lag by lag",
        ("serial-reduction", "too-many-warps"),
        ("samples", "spans"),
        True,
        _lag_products(False),
        _lag_products(True),
    ),
    _case(
        "preferences balanced each step",
        ("layout-conversion",),
        ("counts", "samples"),
        True,
        _preference(False),
        _preference(True),
    ),
)
