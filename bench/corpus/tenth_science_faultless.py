"""Tenth round, kernels of scientific codes, finance and the handling of data without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faultless_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def sales_summary_kernel(
    group_ptr, quantity_ptr, price_ptr, out_ptr, GROUPS: tl.constexpr, BLOCK: tl.constexpr,
    STEPS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Counts, quantities and prices summed for each of a few groups of sales (TPC-H, query 1), a part of the
    sales for each program. Bound by DRAM."""
    each, lane = tl.arange(0, GROUPS)[:, None], tl.arange(0, BLOCK)[None, :]
    count = tl.zeros((GROUPS, BLOCK), dtype=tl.float32)
    quantity = tl.zeros((GROUPS, BLOCK), dtype=tl.float32)
    price = tl.zeros((GROUPS, BLOCK), dtype=tl.float32)
    for step in tl.range(STEPS, loop_unroll_factor=UNROLL):
        at = (tl.program_id(0) * STEPS + step) * BLOCK + lane
        own = tl.load(group_ptr + at) == each
        count += tl.where(own, 1.0, 0.0)
        quantity += tl.where(own, tl.load(quantity_ptr + at), 0.0)
        price += tl.where(own, tl.load(price_ptr + at), 0.0)
    out = out_ptr + tl.program_id(0) * 3 * GROUPS + tl.arange(0, GROUPS)
    tl.store(out, tl.sum(count, 1))
    tl.store(out + GROUPS, tl.sum(quantity, 1))
    tl.store(out + 2 * GROUPS, tl.sum(price, 1))


def _sales_summary(block: int, steps: int, unroll: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs = 2 if small else (1 << 25) // (block * steps)
        rows = programs * block * steps
        group = integers(rows, below=4, dtype=torch.int8)
        quantity, price, out = torch.rand(rows), torch.rand(rows), empty(programs, 3, 4)
        options = {"GROUPS": 4, "BLOCK": block, "STEPS": steps, "UNROLL": unroll, "num_warps": warps}
        args = (group, quantity, price, out)
        return Launch(sales_summary_kernel, (programs,), args, (out,), options)

    return prepare


@triton.jit
def band_matvec_kernel(
    band_ptr, x_ptr, out_ptr, size, REACH: tl.constexpr, FAR: tl.constexpr, BLOCK: tl.constexpr
):
    """A matrix of a few diagonals, stored one after the other, times a vector: those at 0 to REACH from the
    main one and at FAR from it, on both sides. Bound by DRAM."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x_at = x_ptr + FAR + row
    total = tl.load(band_ptr + row) * tl.load(x_at)
    for step in tl.static_range(1, REACH + 1):
        total += tl.load(band_ptr + (2 * step - 1) * size + row) * tl.load(x_at - step)
        total += tl.load(band_ptr + 2 * step * size + row) * tl.load(x_at + step)
    total += tl.load(band_ptr + (2 * REACH + 1) * size + row) * tl.load(x_at - FAR)
    total += tl.load(band_ptr + (2 * REACH + 2) * size + row) * tl.load(x_at + FAR)
    tl.store(out_ptr + row, total)


def _band_matvec(block: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        size, far = 4 * block if small else 1 << 23, 2048
        band, x, out = random(7, size), random(size + 2 * far), empty(size)
        options = {"REACH": 2, "FAR": far, "BLOCK": block, "num_warps": warps}
        return Launch(band_matvec_kernel, (size // block,), (band, x, out, size), (out,), options)

    return prepare


@triton.jit
def galactic_orbits_kernel(state_ptr, out_ptr, stars, steps, step, BLOCK: tl.constexpr):
    """Orbits of stars in a galaxy's plane (Henon and Heiles) by leapfrog. Bound by the FP32 pipe."""
    star = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(state_ptr + star), tl.load(state_ptr + stars + star)
    u, v = tl.load(state_ptr + 2 * stars + star), tl.load(state_ptr + 3 * stars + star)
    x, y = x + 0.5 * step * u, y + 0.5 * step * v
    for _ in range(steps):
        twice = 2.0 * y
        u -= step * (x + twice * x)
        v -= step * (y + x * x - y * y)
        x += step * u
        y += step * v
    tl.store(out_ptr + star, x - 0.5 * step * u)
    tl.store(out_ptr + stars + star, y - 0.5 * step * v)


def _galactic_orbits(block: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        stars, steps = (4 * block, 8) if small else (132 * 65536, 256)
        state, out = 0.15 * random(4, stars).clamp(-2.0, 2.0), empty(2, stars)
        args, options = (state, out, stars, steps, 0.02), {"BLOCK": block, "num_warps": warps}
        return Launch(galactic_orbits_kernel, (stars // block,), args, (out,), options)

    return prepare


@triton.jit
def schur_complement_kernel(
    a_ptr, b_ptr, c_ptr, out_ptr, columns, depth, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """What is left of a block of a matrix after a panel is eliminated (LU). Bound by tensor cores."""
    row = (tl.program_id(1) * GROUP + tl.program_id(0) % GROUP) * ROWS + tl.arange(0, ROWS)
    column, inner = tl.program_id(0) // GROUP * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    a_at = a_ptr + row[:, None] * depth + inner[None, :]
    b_at = b_ptr + inner[:, None] * columns + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, depth, DEPTH):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += DEPTH
        b_at += DEPTH * columns
    at = row[:, None] * columns + column[None, :]
    tl.store(out_ptr + at, (tl.load(c_ptr + at).to(tl.float32) - total).to(tl.float16))


def _schur_complement(rows: int, columns: int, depth: int, group: int, warps: int, stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        high, wide, inner = (rows, 2 * columns, 2 * depth) if small else (8192, 8192, 2048)
        a, b = random(high, inner, dtype=torch.float16), random(inner, wide, dtype=torch.float16)
        c = random(high, wide, dtype=torch.float16)
        out, together = torch.empty_like(c), 1 if small else group
        options = {"ROWS": rows, "COLUMNS": columns, "DEPTH": depth, "GROUP": together}
        grid, args = (together * wide // columns, high // rows // together), (a, b, c, out, wide, inner)
        options |= {"num_warps": warps, "num_stages": stages}
        return Launch(schur_complement_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def reaction_kernel(
    state_ptr, out_ptr, plane, feed, kill, ROW: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """A step of two chemicals that diffuse and react (Gray and Scott). Bound by DRAM."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS) + 1
    at = row[:, None] * ROW + tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :] + 32
    u_at, v_at = state_ptr + at, state_ptr + plane + at
    u, v = tl.load(u_at), tl.load(v_at)
    u_near = tl.load(u_at - 1) + tl.load(u_at + 1) + tl.load(u_at - ROW) + tl.load(u_at + ROW)
    v_near = tl.load(v_at - 1) + tl.load(v_at + 1) + tl.load(v_at - ROW) + tl.load(v_at + ROW)
    turned = u * v * v
    tl.store(out_ptr + at, u + 0.2 * (u_near - 4.0 * u) - turned + feed * (1.0 - u))
    tl.store(out_ptr + plane + at, v + 0.1 * (v_near - 4.0 * v) + turned - (feed + kill) * v)


def _reaction(rows: int, columns: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        high, wide = (2 * rows, 2 * columns) if small else (4096, 4096)
        shape = (2, high + 2, wide + 64)
        state, out = torch.rand(shape), zeros(*shape)
        options = {"ROW": shape[2], "ROWS": rows, "COLUMNS": columns, "num_warps": warps}
        args = (state, out, shape[1] * shape[2], 0.04, 0.06)
        return Launch(reaction_kernel, (wide // columns, high // rows), args, (out,), options)

    return prepare


@triton.jit
def parities_kernel(data_ptr, out_ptr, words, DISKS: tl.constexpr, BLOCK: tl.constexpr):
    """Both parities of the blocks of some disks (RAID 6): their XOR, and their sum with powers of 2 in the
    field of 256 elements, four bytes at a time. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plain = tl.load(data_ptr + (DISKS - 1) * words + at)
    powers = plain
    for disk in tl.static_range(DISKS - 2, -1, -1):
        word = tl.load(data_ptr + disk * words + at)
        powers = ((powers << 1) & -0x01010102) ^ (((powers >> 7) & 0x01010101) * 0x1D) ^ word
        plain ^= word
    tl.store(out_ptr + at, plain)
    tl.store(out_ptr + words + at, powers)


def _parities(block: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        words = 4 * block if small else 1 << 24
        data, out = integers(6, words, below=1 << 30), empty(2, words, dtype=torch.int32)
        options = {"DISKS": 6, "BLOCK": block, "num_warps": warps}
        return Launch(parities_kernel, (words // block,), (data, out, words), (out,), options)

    return prepare


@triton.jit
def uniform_numbers_kernel(out_ptr, seed, BLOCK: tl.constexpr):
    """Uniform random numbers by Philox, four of each counter. Bound by instructions and by DRAM's stores."""
    counter = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.rand4x(seed, counter)
    four = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (4 * BLOCK,))
    tl.store(out_ptr + tl.program_id(0).to(tl.int64) * (4 * BLOCK) + tl.arange(0, 4 * BLOCK), four)


def _uniform_numbers(block: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        count = 2 * block if small else 1 << 26
        out = empty(count, 4)
        options = {"BLOCK": block, "num_warps": warps}
        return Launch(uniform_numbers_kernel, (count // block,), (out, 42), (out,), options)

    return prepare


@triton.jit
def _higher(a, b):
    return tl.maximum(a, b)


@triton.jit
def drawdowns_kernel(price_ptr, out_ptr, worst_ptr, DAYS: tl.constexpr):
    """How far each share is below its highest price until then, and at most. Bound by DRAM."""
    at = tl.program_id(0) * DAYS + tl.arange(0, DAYS)
    price = tl.load(price_ptr + at)
    below = price / tl.associative_scan(price, 0, _higher) - 1.0
    tl.store(out_ptr + at, below)
    tl.store(worst_ptr + tl.program_id(0), tl.min(below, 0))


def _drawdowns(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        shares, days = 2 if small else 32768, 2048
        price, out, worst = torch.rand(shares, days) + 1.0, empty(shares, days), empty(shares)
        options = {"DAYS": days, "num_warps": warps}
        return Launch(drawdowns_kernel, (shares,), (price, out, worst), (out, worst), options)

    return prepare


_good = faultless_of(10)

CASES = (
    _good("good summary of sales", _sales_summary(block=512, steps=16, unroll=4, warps=4)),
    _good("good product with a few diagonals", _band_matvec(block=256, warps=4)),
    _good("good orbits in a galaxy", _galactic_orbits(block=2048, warps=4)),
    _good(
        "good Schur complement",
        _schur_complement(rows=128, columns=256, depth=64, group=8, warps=8, stages=4),
    ),
    _good("good step of a reaction", _reaction(rows=4, columns=256, warps=4)),
    _good("good parities of disks", _parities(block=1024, warps=4)),
    _good("good uniform numbers", _uniform_numbers(block=1024, warps=4)),
    _good("good drawdowns of shares", _drawdowns(warps=4)),
)
