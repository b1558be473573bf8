"""Eleventh round, kernels of numerics and data without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def gaussian_kernel_matrix_kernel(
    x_ptr, y_ptr, x_norm_ptr, y_norm_ptr, out_ptr, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DIM: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """A Gaussian of the distance of each sample from each centre, by a product. Bound by DRAM."""
    across = columns // COLUMNS
    first = tl.program_id(0) // (GROUP * across) * GROUP
    row_block = first + tl.program_id(0) % GROUP
    column_block = tl.program_id(0) % (GROUP * across) // GROUP
    row, column = row_block * ROWS + tl.arange(0, ROWS), column_block * COLUMNS + tl.arange(0, COLUMNS)
    dim = tl.arange(0, DIM)
    x = tl.load(x_ptr + row[:, None] * DIM + dim[None, :])
    y = tl.load(y_ptr + column[None, :] * DIM + dim[:, None])
    # The norms are halved, and all is scaled for powers of two, before.
    power = tl.dot(x, y) - tl.load(x_norm_ptr + row)[:, None] - tl.load(y_norm_ptr + column)[None, :]
    tl.store(out_ptr + row[:, None] * columns + column[None, :], tl.exp2(power).to(tl.float16))


def _gaussian_kernel_matrix(ROWS: int, COLUMNS: int, GROUP: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns = (ROWS * GROUP, COLUMNS * 2) if small else (16384, 16384)
        x, y = (0.3 * random(n, 64, dtype=torch.float16) for n in (rows, columns))
        x_norm, y_norm = (0.5 * each.float().square().sum(1) for each in (x, y))
        out = empty(rows, columns, dtype=torch.float16)
        options = {"ROWS": ROWS, "COLUMNS": COLUMNS, "DIM": 64, "GROUP": GROUP, "num_warps": num_warps}
        args = (x, y, x_norm, y_norm, out, columns)
        grid = (rows // ROWS * (columns // COLUMNS),)
        return Launch(gaussian_kernel_matrix_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def stabilised_step_kernel(
    x_ptr, direction_ptr, residual_ptr, product_ptr, alpha, omega, x_out_ptr, residual_out_ptr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The end of a step of stabilised biconjugate gradients: x and its residual. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, direction = tl.load(x_ptr + at), tl.load(direction_ptr + at)
    residual, product = tl.load(residual_ptr + at), tl.load(product_ptr + at)
    tl.store(x_out_ptr + at, x + alpha * direction + omega * residual)
    tl.store(residual_out_ptr + at, residual - omega * product)


def _stabilised_step(BLOCK: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        size = 4 * BLOCK if small else 1 << 25
        x, direction, residual, product = (random(size) for _ in range(4))
        x_out, residual_out = empty(size), empty(size)
        args = (x, direction, residual, product, 0.37, 0.81, x_out, residual_out)
        options = {"BLOCK": BLOCK, "num_warps": num_warps}
        return Launch(stabilised_step_kernel, (size // BLOCK,), args, (x_out, residual_out), options)

    return prepare


@triton.jit
def enciphered_pages_kernel(low_ptr, high_ptr, key_ptr, low_out_ptr, high_out_ptr, BLOCK: tl.constexpr):
    """Columns of a table enciphered, low and high words apart, by 32 rounds of XTEA. Bound by arithmetic."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    low, high = tl.load(low_ptr + at), tl.load(high_ptr + at)
    for turn in tl.static_range(32):
        key = tl.load(key_ptr + 2 * turn)
        low += (((high << 4) ^ (high >> 5)) + high) ^ key
        key = tl.load(key_ptr + 2 * turn + 1)
        high += (((low << 4) ^ (low >> 5)) + low) ^ key
    tl.store(low_out_ptr + at, low)
    tl.store(high_out_ptr + at, high)


def _enciphered_pages(BLOCK: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        size = 2 * BLOCK if small else 1 << 24
        low, high, key = (integers(n, below=1 << 31).view(torch.uint32) for n in (size, size, 64))
        outs = (torch.empty_like(low), torch.empty_like(low))
        options = {"BLOCK": BLOCK, "num_warps": num_warps}
        shown = tuple(each.view(torch.int32) for each in outs)
        return Launch(enciphered_pages_kernel, (size // BLOCK,), (low, high, key, *outs), shown, options)

    return prepare


@triton.jit
def _spread(well, ill, infection, recovery):
    new, healed = infection * well * ill, recovery * ill
    return -new, new - healed


@triton.jit
def epidemics_kernel(infection_ptr, recovery_ptr, out_ptr, steps, step, BLOCK: tl.constexpr):
    """How many fell ill by the end, for many guesses of rates (SIR, Runge and Kutta). Bound by arithmetic."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    infection, recovery = tl.load(infection_ptr + at) * step, tl.load(recovery_ptr + at) * step
    well, ill = tl.full((BLOCK,), 0.99, dtype=tl.float32), tl.full((BLOCK,), 0.01, dtype=tl.float32)
    for _ in range(steps):
        a, b = _spread(well, ill, infection, recovery)
        c, d = _spread(well + 0.5 * a, ill + 0.5 * b, infection, recovery)
        e, f = _spread(well + 0.5 * c, ill + 0.5 * d, infection, recovery)
        g, h = _spread(well + e, ill + f, infection, recovery)
        well += (a + g) * (1.0 / 6) + (c + e) * (1.0 / 3)
        ill += (b + h) * (1.0 / 6) + (d + f) * (1.0 / 3)
    tl.store(out_ptr + at, 1.0 - well)


def _epidemics(BLOCK: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        guesses, steps = (2 * BLOCK, 8) if small else (1 << 22, 128)
        infection, recovery = 0.2 + 0.3 * torch.rand(guesses), 0.05 + 0.1 * torch.rand(guesses)
        out = empty(guesses)
        args = (infection, recovery, out, steps, 0.5)
        options = {"BLOCK": BLOCK, "num_warps": num_warps}
        return Launch(epidemics_kernel, (guesses // BLOCK,), args, (out,), options)

    return prepare


@triton.jit
def bars_of_ticks_kernel(price_ptr, volume_ptr, out_ptr, bars, BARS: tl.constexpr, TICKS: tl.constexpr):
    """Highest, lowest and average price, and the volume, of each TICKS trades. Bound by DRAM."""
    bar = tl.program_id(0) * BARS + tl.arange(0, BARS)
    at = bar[:, None] * TICKS + tl.arange(0, TICKS)[None, :]
    price, volume = tl.load(price_ptr + at), tl.load(volume_ptr + at)
    total = tl.sum(volume, 1)
    tl.store(out_ptr + bar, tl.max(price, 1))
    tl.store(out_ptr + bars + bar, tl.min(price, 1))
    tl.store(out_ptr + 2 * bars + bar, tl.sum(price * volume, 1) / total)
    tl.store(out_ptr + 3 * bars + bar, total)


def _bars_of_ticks(BARS: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        bars = 4 * BARS if small else 1 << 20
        price, volume = 90.0 + 20.0 * torch.rand(bars, 64), 1.0 + torch.rand(bars, 64)
        out = empty(4, bars)
        options = {"BARS": BARS, "TICKS": 64, "num_warps": num_warps}
        return Launch(bars_of_ticks_kernel, (bars // BARS,), (price, volume, out, bars), (out,), options)

    return prepare


def _good(name: str, needs: tuple[str, ...], prepare: Prepare) -> Case:
    return Case(name, (), needs, True, prepare, round=11)


CASES = (
    _good(
        "good kernel matrix of Gaussians",
        (),
        _gaussian_kernel_matrix(ROWS=64, COLUMNS=128, GROUP=8, num_warps=4),
    ),
    _good("good end of a stabilised step", (), _stabilised_step(BLOCK=1024, num_warps=4)),
    _good("good enciphered pages", (), _enciphered_pages(BLOCK=512, num_warps=4)),
    _good("good epidemics of guessed rates", (), _epidemics(BLOCK=256, num_warps=4)),
    _good("good bars of ticks", (), _bars_of_ticks(BARS=32, num_warps=4)),
)
