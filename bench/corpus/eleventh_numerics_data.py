"""Eleventh round, faults of numerics and data: genomes, tables, savings, points that fill a cube."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def halton_kernel(out_ptr, base_ptr, first, points, DIGITS: tl.constexpr, BLOCK: tl.constexpr):
    """Quasi-random points of four dimensions: digits of a point's number mirrored (Halton)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for axis in range(4):
        base = tl.load(base_ptr + axis)
        number, share = first + at.to(tl.int64), 1.0 / base.to(tl.float32)
        total, scale = tl.zeros((BLOCK,), dtype=tl.float32), share
        for _ in range(DIGITS):
            total += (number % base).to(tl.float32) * scale  # fault
            number = number // base  # fault
            scale *= share
        tl.store(out_ptr + axis * points + at, total)


@triton.jit
def _mirrored(number, DIGITS: tl.constexpr, BASE: tl.constexpr):
    total, scale = number.to(tl.float32) * 0.0, 1.0 / BASE
    for _ in range(DIGITS):
        rest = number // BASE
        total += (number - rest * BASE).to(tl.float32) * scale
        number, scale = rest, scale * (1.0 / BASE)
    return total


@triton.jit
def known_halton_kernel(out_ptr, base_ptr, first, points, DIGITS: tl.constexpr, BLOCK: tl.constexpr):
    """As halton_kernel, of numbers below 2**32 and bases that the compiler knows."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    number = (first + at).to(tl.uint32)
    tl.store(out_ptr + at, _mirrored(number, DIGITS, 3))
    tl.store(out_ptr + points + at, _mirrored(number, DIGITS, 5))
    tl.store(out_ptr + 2 * points + at, _mirrored(number, DIGITS, 7))
    tl.store(out_ptr + 3 * points + at, _mirrored(number, DIGITS, 11))


def _halton(known: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        points = 1024 if small else 1 << 22
        out, base = empty(4, points), torch.tensor([3, 5, 7, 11])
        options = {"DIGITS": 15, "BLOCK": 512, "num_warps": 4}
        kernel = known_halton_kernel if known else halton_kernel
        return Launch(kernel, (points // 512,), (out, base, 409, points), (out,), options)

    return prepare


@triton.jit
def linkage_kernel(
    x_ptr, y_ptr, out_ptr, sites, people, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PEOPLE: tl.constexpr,
    DOT: tl.constexpr,
):  # fmt: skip
    """Squared correlations of the genotypes at sites of two chromosomes, standardised before."""
    row, column = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    column += tl.program_id(0) * COLUMNS
    person = tl.arange(0, PEOPLE)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, people, PEOPLE):
        at = start + person
        x = tl.load(x_ptr + row[:, None] * people + at[None, :])
        if DOT:
            y = tl.load(y_ptr + column[None, :] * people + at[:, None])
            total = tl.dot(x, y, total)
        else:
            y = tl.load(y_ptr + column[:, None] * people + at[None, :])
            both = x[:, None, :].to(tl.float32) * y[None, :, :].to(tl.float32)  # fault
            total += tl.sum(both, 2)  # fault
    total *= 1.0 / people
    tl.store(out_ptr + row[:, None] * sites + column[None, :], total * total)


def _linkage(dot: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        sites, people = (64, 64) if small else (2048, 1024)
        x, y = (random(sites, people, dtype=torch.float16) for _ in range(2))
        out = empty(sites, sites)
        rows, each = (64, 64) if dot else (32, 16)
        options = {"ROWS": rows, "COLUMNS": rows, "PEOPLE": each, "DOT": dot, "num_warps": 4}
        grid = (sites // rows, sites // rows)
        return Launch(linkage_kernel, grid, (x, y, out, sites, people), (out,), options)

    return prepare


@triton.jit
def read_errors_kernel(quality_ptr, start_ptr, read_ptr, out_ptr, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    """The errors to expect in each read of a nanopore, from its bases' qualities. PARTS: not a read but a
    part of one for each program, its read listed."""
    part = tl.program_id(0)
    read = part
    if PARTS:
        read = tl.load(read_ptr + part)
    begin = tl.multiple_of(tl.load(start_ptr + part), 16)
    end = tl.multiple_of(tl.load(start_ptr + part + 1), 16)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(begin, end, BLOCK):  # fault
        at = first + tl.arange(0, BLOCK)
        quality = tl.load(quality_ptr + at, mask=at < end, other=255)
        total += tl.where(at < end, tl.exp2(quality.to(tl.float32) * -0.33219281), 0.0)
    tl.atomic_add(out_ptr + read, tl.sum(total, 0), sem="relaxed")


def _read_errors(parts: bool) -> Prepare:
    """Of each hundred reads one is ultra-long."""

    def prepare(small: bool) -> Launch:
        reads, usual, longest = (4, 512, 4096) if small else (4096, 8192, 1 << 20)
        length = torch.full((reads,), usual)
        length[2 :: 4 if small else 100] = longest
        most = 2048 if small else 16384
        quality = integers(int(length.sum()), below=40, dtype=torch.uint8)
        of, out = torch.arange(reads), zeros(reads)
        if parts:
            pieces = (length + most - 1) // most
            of = of.repeat_interleave(pieces)
            length = torch.minimum(length.repeat_interleave(pieces), torch.tensor(most))
        start = torch.cat([torch.zeros(1, dtype=torch.int64), length.cumsum(0)]).int()
        block = 1024 if small else 4096
        options = {"BLOCK": block, "PARTS": parts, "num_warps": 4}
        args = (quality, start, of.int(), out)
        return Launch(read_errors_kernel, (of.shape[0],), args, (out,), options)

    return prepare


@triton.jit
def savings_kernel(
    income_ptr, wealth_ptr, future_ptr, value_ptr, aversion, patience, choices, BLOCK: tl.constexpr,
    SQUARE: tl.constexpr,
):  # fmt: skip
    """A step of a household's value: the best of all savings, by utility of consumption and what follows.
    SQUARE: for the usual aversion, of 2."""
    state = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    means = tl.load(income_ptr + state)
    best = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    for choice in range(choices):
        left = tl.maximum(means - tl.load(wealth_ptr + choice), 1e-3)
        if SQUARE:
            utility = 1.0 - 1.0 / left
        else:
            utility = (libdevice.pow(left, 1.0 - aversion) - 1.0) / (1.0 - aversion)  # fault
        best = tl.maximum(best, utility + patience * tl.load(future_ptr + choice))
    tl.store(value_ptr + state, best)


def _savings(square: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        states, choices = (1024, 32) if small else (1 << 20, 256)
        income, wealth = 1.0 + 9.0 * torch.rand(states), torch.arange(choices) * (8.0 / choices)
        future, value = -1.0 / (0.5 + wealth), empty(states)
        options = {"BLOCK": 512, "SQUARE": square, "num_warps": 4}
        args = (income, wealth, future, value, 2.0, 0.96, choices)
        return Launch(savings_kernel, (states // 512,), args, (value,), options)

    return prepare


@triton.jit
def scanned_orders_kernel(
    table_ptr, out_ptr, field, row, low, high, BLOCK: tl.constexpr, STEPS: tl.constexpr
):
    """What orders of some dates and amounts would earn, for a part of the table a program."""
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(STEPS):
        at = table_ptr + ((tl.program_id(0) * STEPS + step) * BLOCK + tl.arange(0, BLOCK)) * row
        date = tl.load(at)  # fault
        amount = tl.load(at + 5 * field)  # fault
        price = tl.load(at + 11 * field)  # fault
        total += tl.where(
            (date >= low) & (date < high) & (amount < 500), (amount * price).to(tl.float32), 0.0
        )
    tl.store(out_ptr + tl.program_id(0), tl.sum(total, 0))


def _scanned_orders(by_column: bool) -> Prepare:
    """Of orders of 16 fields, in a row, or in a column for each field."""

    def prepare(small: bool) -> Launch:
        orders, steps = (4096, 2) if small else (1 << 23, 8)
        table = integers(orders, 16, below=1000)
        field, row = 1, 16
        if by_column:
            table, field, row = table.T.contiguous(), orders, 1
        programs = orders // 1024 // steps
        out = empty(programs)
        options = {"BLOCK": 1024, "STEPS": steps, "num_warps": 4}
        args = (table, out, field, row, 100, 900)
        return Launch(scanned_orders_kernel, (programs,), args, (out,), options)

    return prepare


_fault = faults_of(11)


CASES = (
    _fault(
        "mirrored digits of any base",
        ("index-arithmetic", "slow-math"),
        ("counts", "samples"),
        True,
        _halton(False),
        _halton(True),
    ),
    _fault(
        "linkage of sites summed over people",
        ("no-tensor-cores",),
        ("counts",),
        True,
        _linkage(False),
        _linkage(True),
    ),
    _fault(
        "ultra-long reads of a nanopore",
        ("load-imbalance",),
        ("spans", "ctas"),
        False,
        _read_errors(False),
        _read_errors(True),
    ),
    _fault(
        "savings of households of any aversion",
        ("slow-math",),
        ("counts", "samples"),
        True,
        _savings(False),
        _savings(True),
    ),
    _fault(
        "orders scanned row by row",
        ("uncoalesced-load",),
        ("counts", "counters"),
        True,
        _scanned_orders(False),
        _scanned_orders(True),
    ),
)
