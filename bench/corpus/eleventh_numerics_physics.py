"""Eleventh round, faults of numerics: plasmas, attractors, variograms, products over genes and people."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def plasma_charge_kernel(
    x_ptr, y_ptr, charge_ptr, grid_ptr, side, CELLS: tl.constexpr, EACH: tl.constexpr, FIRST_SUM: tl.constexpr
):
    """The charge of particles, sorted by cells, spread over the four corners of their cell (PIC).
    FIRST_SUM: over a cell's particles."""
    cell = tl.program_id(0) * CELLS + tl.arange(0, CELLS)
    at = cell[:, None] * EACH + tl.arange(0, EACH)[None, :]
    x, y, charge = tl.load(x_ptr + at), tl.load(y_ptr + at), tl.load(charge_ptr + at)
    right, lower = charge * x, charge * y
    both = right * y
    corner = grid_ptr + cell // side * (side + 1) + cell % side
    if FIRST_SUM:
        all_right, all_lower, all_both = tl.sum(right, 1), tl.sum(lower, 1), tl.sum(both, 1)
        rest = tl.sum(charge, 1) - all_right - all_lower + all_both
        tl.atomic_add(corner, rest, sem="relaxed")
        tl.atomic_add(corner + 1, all_right - all_both, sem="relaxed")
        tl.atomic_add(corner + side + 1, all_lower - all_both, sem="relaxed")
        tl.atomic_add(corner + side + 2, all_both, sem="relaxed")
    else:
        corners = corner[:, None] + tl.zeros((CELLS, EACH), dtype=tl.int32)
        tl.atomic_add(corners, charge - right - lower + both, sem="relaxed")  # fault
        tl.atomic_add(corners + 1, right - both, sem="relaxed")  # fault
        tl.atomic_add(corners + side + 1, lower - both, sem="relaxed")  # fault
        tl.atomic_add(corners + side + 2, both, sem="relaxed")  # fault


def _plasma_charge(first_sum: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        side = 8 if small else 512
        x, y, charge = (torch.rand(side * side, 32) for _ in range(3))
        out = zeros(side + 1, side + 1)
        options = {"CELLS": 32, "EACH": 32, "FIRST_SUM": first_sum, "num_warps": 4}
        args = (x, y, charge, out, side)
        return Launch(plasma_charge_kernel, (side * side // 32,), args, (out,), options)

    return prepare


@triton.jit
def correlation_sum_kernel(x_ptr, out_ptr, points, near, TARGETS: tl.constexpr, SOURCES: tl.constexpr):
    """How many states of a system are near to each, in four delayed coordinates (Grassberger, Procaccia)."""
    target = x_ptr + tl.program_id(0) * TARGETS + tl.arange(0, TARGETS)[:, None]
    a, b = tl.load(target), tl.load(target + points)
    c, d = tl.load(target + 2 * points), tl.load(target + 3 * points)
    count = tl.zeros((TARGETS, SOURCES), dtype=tl.int32)
    for start in range(0, points, SOURCES):
        source = x_ptr + start + tl.arange(0, SOURCES)[None, :]
        away = tl.abs(a - tl.load(source))  # fault
        away = tl.maximum(away, tl.abs(b - tl.load(source + points)))  # fault
        away = tl.maximum(away, tl.abs(c - tl.load(source + 2 * points)))  # fault
        away = tl.maximum(away, tl.abs(d - tl.load(source + 3 * points)))  # fault
        count += (away < near).to(tl.int32)
    tl.store(out_ptr + tl.program_id(0) * TARGETS + tl.arange(0, TARGETS), tl.sum(count, 1))


def _correlation_sum(targets: int, sources: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        points, programs = (1024, 16 // targets) if small else (24576, 24576 // targets)
        x, out = random(4, points), empty(points, dtype=torch.int32)
        options = {"TARGETS": targets, "SOURCES": sources, "num_warps": 4}
        args = (x, out, points, 0.8)
        return Launch(correlation_sum_kernel, (programs,), args, (out[: programs * targets],), options)

    return prepare


@triton.jit
def variogram_kernel(x_ptr, out_ptr, each, BLOCK: tl.constexpr):
    """Half the mean square of differences of a series from itself some time before, for each lag, in
    steps of 16 times."""
    lag, first = (tl.program_id(0) + 1) * 16, tl.program_id(1) * each
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(first, first + each, BLOCK):
        at = x_ptr + start + tl.arange(0, BLOCK)
        away = tl.load(at + lag) - tl.load(at)
        total += away * away
    tl.atomic_add(out_ptr + tl.program_id(0), tl.sum(total, 0) * 0.5, sem="relaxed")


def _variogram(parts: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        times, lags = (8192, 2) if small else (1 << 20, 48)
        many = min(parts, 2) if small else parts
        x, out = random(times + 16 * lags), zeros(lags)
        args = (x, out, times // many)
        return Launch(variogram_kernel, (lags, many), args, (out,), {"BLOCK": 1024, "num_warps": 4})

    return prepare


@triton.jit
def kinship_kernel(
    x_ptr, other_ptr, out_ptr, people, sites, ROWS: tl.constexpr, COLUMNS: tl.constexpr, SITES: tl.constexpr
):
    """How related people of two cohorts are: products of their genotypes, of -1, 0 and 1, over all sites."""
    row, column = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    column += tl.program_id(0) * COLUMNS
    site = tl.arange(0, SITES)
    x_at = x_ptr + row[:, None] * sites + site[None, :]
    y_at = other_ptr + column[None, :] * sites + site[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.int32)
    for _ in range(0, sites, SITES):
        x = tl.load(x_at)  # fault
        y = tl.load(y_at)  # fault
        total = tl.dot(x, y, total, out_dtype=tl.int32)  # fault
        x_at += SITES
        y_at += SITES
    at = out_ptr + row[:, None] * people + column[None, :]
    tl.store(at, total.to(tl.float32) / sites)


def _kinship(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        people, sites = (256, 512) if small else (4096, 16384)
        x, other = (integers(people, sites, below=3, dtype=torch.int8) - 1 for _ in range(2))
        out = empty(people, people)
        options = {"ROWS": 128, "COLUMNS": 128, "SITES": 128, "num_warps": 8, "num_stages": stages}
        grid = (people // 128, people // 128)
        return Launch(kinship_kernel, grid, (x, other, out, people, sites), (out,), options)

    return prepare


@triton.jit
def coexpression_kernel(
    x_ptr, degree_ptr, samples, least, BLOCK: tl.constexpr, SAMPLES: tl.constexpr, SKIP: tl.constexpr
):
    """With how many genes of higher number each gene is expressed alike, from standardised samples."""
    first, other = tl.program_id(1) * BLOCK, tl.program_id(0) * BLOCK
    if SKIP and other < first:
        return
    row, column, sample = first + tl.arange(0, BLOCK), other + tl.arange(0, BLOCK), tl.arange(0, SAMPLES)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, samples, SAMPLES):
        at = start + sample
        x = tl.load(x_ptr + row[:, None] * samples + at[None, :])  # fault
        y = tl.load(x_ptr + column[None, :] * samples + at[:, None])  # fault
        total = tl.dot(x, y, total)  # fault
    alike = (total > least) & (row[:, None] < column[None, :])  # fault
    tl.atomic_add(degree_ptr + row, tl.sum(alike.to(tl.int32), 1), sem="relaxed")


def _coexpression(skip: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        genes, samples = (256, 64) if small else (16384, 512)
        x, degree = random(genes, samples, dtype=torch.float16), zeros(genes, dtype=torch.int32)
        options = {"BLOCK": 128, "SAMPLES": 64, "SKIP": skip, "num_warps": 8, "num_stages": 3}
        args = (x, degree, samples, 0.5 * samples**0.5)
        return Launch(coexpression_kernel, (genes // 128, genes // 128), args, (degree,), options)

    return prepare


_fault = faults_of(11)


CASES = (
    _fault(
        "charge of a plasma spread particle by particle",
        ("atomics",),
        ("counts", "counters", "samples"),
        True,
        _plasma_charge(False),
        _plasma_charge(True),
    ),
    _fault(
        "states near to each state of a system",
        ("tile-reread", "redundant-load"),
        ("counts", "counters"),
        True,
        _correlation_sum(1, 512),
        _correlation_sum(16, 128),
    ),
    _fault(
        "a variogram's lags by one program each",
        ("idle-sms", "low-occupancy"),
        ("ctas",),
        False,
        _variogram(1),
        _variogram(32),
    ),
    _fault(
        "kinship over genotypes as bytes",
        ("few-stages", "exposed-latency"),
        ("samples", "spans"),
        False,
        _kinship(1),
        _kinship(3),
    ),
    _fault(
        "genes expressed alike counted in a square",
        ("masked-work",),
        ("counts",),
        True,
        _coexpression(False),
        _coexpression(True),
    ),
)
