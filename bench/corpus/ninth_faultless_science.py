"""Ninth round, kernels of scientific codes without a fault: finance, fluids, algebra, genomes, ensembles."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, empty, faultless_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def option_prices_kernel(share_ptr, out_ptr, count, rate, BLOCK: tl.constexpr):
    """Prices of calls, and how they follow the spot and its volatility (Black and Scholes). Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    spot, strike = tl.load(share_ptr + at), tl.load(share_ptr + count + at)
    years, wild = tl.load(share_ptr + 2 * count + at), tl.load(share_ptr + 3 * count + at)
    root, worth = tl.sqrt(years), strike * tl.exp2(-1.4426950 * rate * years)
    spread = wild * root
    first = tl.log2(spot / worth) * 0.69314718 / spread + 0.5 * spread
    delta = 0.5 + 0.5 * tl.erf(first * 0.70710678)
    vega = spot * root * 0.39894228 * tl.exp2(-0.72134752 * first * first)
    price = spot * delta - worth * (0.5 + 0.5 * tl.erf((first - spread) * 0.70710678))
    tl.store(out_ptr + at, price)
    tl.store(out_ptr + count + at, delta)
    tl.store(out_ptr + 2 * count + at, vega)
    tl.store(out_ptr + 3 * count + at, vega / (spot * spot * spread * root))


def _option_prices(small: bool) -> Launch:
    count = 1 << (12 if small else 24)
    low, high = torch.tensor([80.0, 80.0, 0.2, 0.1]), torch.tensor([120.0, 120.0, 2.0, 0.6])
    share, out = low[:, None] + (high - low)[:, None] * torch.rand(4, count), empty(4, count)
    args = (share, out, count, 0.03)
    return Launch(option_prices_kernel, (count // 512,), args, (out,), {"BLOCK": 512, "num_warps": 4})


@triton.jit
def shallow_water_kernel(
    state_ptr, out_ptr, plane, share, ROW: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """A step of heights and speeds of shallow water, linear and on staggered places. Bound by DRAM."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS) + 1
    at = row[:, None] * ROW + tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :] + 32
    height_ptr, u_ptr, v_ptr = state_ptr + at, state_ptr + plane + at, state_ptr + 2 * plane + at
    height, u, v = tl.load(height_ptr), tl.load(u_ptr), tl.load(v_ptr)
    out = height - share * (tl.load(u_ptr + 1) - u + tl.load(v_ptr + ROW) - v)
    tl.store(out_ptr + at, out)
    tl.store(out_ptr + plane + at, u - share * (height - tl.load(height_ptr - 1)))
    tl.store(out_ptr + 2 * plane + at, v - share * (height - tl.load(height_ptr - ROW)))


def _shallow_water(small: bool) -> Launch:
    rows, columns = (16, 512) if small else (4096, 4096)
    shape = (3, rows + 2, columns + 64)
    state, out = random(*shape), zeros(*shape)
    options = {"ROW": shape[2], "ROWS": 8, "COLUMNS": 256, "num_warps": 4}
    args = (state, out, shape[1] * shape[2], 0.1)
    return Launch(shallow_water_kernel, (columns // 256, rows // 8), args, (out,), options)


@triton.jit
def gaussian_process_kernel(
    x_ptr, square_ptr, out_ptr, points, noise, DIM: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Covariances of all points of a Gaussian process, with noise on the diagonal. Bound by DRAM's stores."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column, dim = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DIM)
    x = tl.load(x_ptr + row[:, None] * DIM + dim[None, :])
    y = tl.load(x_ptr + column[None, :] * DIM + dim[:, None])
    square = tl.load(square_ptr + row)[:, None] + tl.load(square_ptr + column)[None, :]
    near = tl.exp2(-0.72134752 * tl.maximum(square - 2.0 * tl.dot(x, y), 0.0))
    near = tl.where(row[:, None] == column[None, :], near + noise, near)
    tl.store(out_ptr + row[:, None].to(tl.int64) * points + column[None, :], near)


def _gaussian_process(small: bool) -> Launch:
    points = 256 if small else 16384
    x = (0.15 * random(points, 64)).half()
    square, out = (x.float() ** 2).sum(1), empty(points, points)
    options = {"DIM": 64, "ROWS": 64, "COLUMNS": 128, "num_warps": 4}
    args = (x, square, out, points, 0.01)
    return Launch(gaussian_process_kernel, (points // 128, points // 64), args, (out,), options)


@triton.jit
def block_reflector_kernel(
    x_ptr, vector_ptr, factor_ptr, out_ptr, columns, SIZE: tl.constexpr, RANK: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Columns reflected by a block of Householder vectors (compact WY form). Bound by DRAM."""
    row, rank = tl.arange(0, SIZE), tl.arange(0, RANK)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    at = row[:, None] * columns + column[None, :]
    x = tl.load(x_ptr + at)
    vectors = tl.load(vector_ptr + row[:, None] * RANK + rank[None, :])
    factor = tl.load(factor_ptr + rank[:, None] * RANK + rank[None, :])
    inner = tl.dot(factor, tl.dot(tl.trans(vectors), x).to(tl.bfloat16)).to(tl.bfloat16)
    tl.store(out_ptr + at, (x.to(tl.float32) - tl.dot(vectors, inner)).to(tl.bfloat16))


def _block_reflector(small: bool) -> Launch:
    columns = 256 if small else 1 << 19
    x, out = random(128, columns, dtype=torch.bfloat16), empty(128, columns, dtype=torch.bfloat16)
    vectors = torch.nn.functional.normalize(random(128, 64), dim=0)
    factor = torch.triu(0.5 * vectors.T @ vectors) + torch.eye(64)
    options = {"SIZE": 128, "RANK": 64, "COLUMNS": 64, "num_warps": 4}
    args = (x, vectors.bfloat16(), factor.bfloat16(), out, columns)
    return Launch(block_reflector_kernel, (columns // 64,), args, (out,), options)


@triton.jit
def lanczos_step_kernel(product_ptr, now_ptr, past_ptr, scalar_ptr, out_ptr, norm_ptr, BLOCK: tl.constexpr):
    """A product less its parts along the last two Lanczos vectors, and sums of its squares. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    along, before = tl.load(scalar_ptr), tl.load(scalar_ptr + 1)
    x = tl.load(product_ptr + at) - along * tl.load(now_ptr + at) - before * tl.load(past_ptr + at)
    tl.store(out_ptr + at, x)
    tl.store(norm_ptr + tl.program_id(0), tl.sum(x * x, 0))


def _lanczos_step(small: bool) -> Launch:
    n = 1 << (14 if small else 25)
    product, now, past = random(n), random(n), random(n)
    out, norm = empty(n), empty(n // 2048)
    args = (product, now, past, torch.tensor([0.7, 0.2]), out, norm)
    return Launch(lanczos_step_kernel, (n // 2048,), args, (out, norm), {"BLOCK": 2048, "num_warps": 4})


@triton.jit
def _sum_of_bytes(x):
    x = (x & 0x00FF00FF) + ((x >> 8) & 0x00FF00FF)
    return tl.sum((x & 0xFFFF) + (x >> 16), 0)


@triton.jit
def allele_counts_kernel(allele_ptr, single_ptr, double_ptr, words, BLOCK: tl.constexpr):
    """How many people have a marker's second allele once and twice, four people a word. Bound by DRAM."""
    marker = tl.program_id(0).to(tl.int64)
    single = tl.zeros((BLOCK,), dtype=tl.int32)
    double = tl.zeros((BLOCK,), dtype=tl.int32)
    for first in range(0, words, BLOCK):
        allele = tl.load(allele_ptr + marker * words + first + tl.arange(0, BLOCK))
        single += allele & 0x01010101
        double += (allele >> 1) & 0x01010101
    tl.store(single_ptr + marker, _sum_of_bytes(single))
    tl.store(double_ptr + marker, _sum_of_bytes(double))


def _allele_counts(small: bool) -> Launch:
    markers, people = (4, 32768) if small else (16384, 32768)
    allele = integers(markers, people, below=3, dtype=torch.uint8).view(torch.int32)
    single, double = empty(markers, dtype=torch.int32), empty(markers, dtype=torch.int32)
    args = (allele, single, double, people // 4)
    options = {"BLOCK": 2048, "num_warps": 4}
    return Launch(allele_counts_kernel, (markers,), args, (single, double), options)


@triton.jit
def _moved(x, step, chance, wide):
    new = x + wide * step
    change = (x * x - 1.0) * (x * x - 1.0) - (new * new - 1.0) * (new * new - 1.0)
    return tl.where(chance < tl.exp(4.0 * change), new, x)


@triton.jit
def metropolis_kernel(out_ptr, steps, seed, wide, BLOCK: tl.constexpr):
    """Chains that sample a double well, four moves for each two draws. Bound by instructions."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(0, steps, 4):
        a, b, c, d = tl.rand4x(seed + step, at)
        e, f, g, h = tl.rand4x(seed + step + 1, at)
        x = _moved(x, a - 0.5, e, wide)
        x = _moved(x, b - 0.5, f, wide)
        x = _moved(x, c - 0.5, g, wide)
        x = _moved(x, d - 0.5, h, wide)
    tl.store(out_ptr + at, x)


def _metropolis(small: bool) -> Launch:
    chains, steps = (1024, 8) if small else (1 << 20, 256)
    out = empty(chains)
    args = (out, steps, 1234, 1.5)
    return Launch(metropolis_kernel, (chains // 256,), args, (out,), {"BLOCK": 256, "num_warps": 4})


@triton.jit
def ensemble_kernel(x_ptr, mean_ptr, spread_ptr, cells, members, MEMBERS: tl.constexpr, BLOCK: tl.constexpr):
    """Mean and spread over the members of an ensemble of forecasts. Bound by DRAM."""
    cell = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((MEMBERS, BLOCK), dtype=tl.float32)
    square = tl.zeros((MEMBERS, BLOCK), dtype=tl.float32)
    for first in range(0, members, MEMBERS):
        member = first + tl.arange(0, MEMBERS)
        x = tl.load(x_ptr + member[:, None].to(tl.int64) * cells + cell[None, :])
        total += x
        square += x * x
    mean = tl.sum(total, 0) / members
    tl.store(mean_ptr + cell, mean)
    tl.store(spread_ptr + cell, tl.sqrt(tl.maximum(tl.sum(square, 0) / members - mean * mean, 0.0)))


def _ensemble(small: bool) -> Launch:
    members, cells = (16, 2048) if small else (64, 1 << 20)
    x, mean, spread = random(members, cells), empty(cells), empty(cells)
    options = {"MEMBERS": 8, "BLOCK": 512, "num_warps": 4}
    args = (x, mean, spread, cells, members)
    return Launch(ensemble_kernel, (cells // 512,), args, (mean, spread), options)


_good = faultless_of(9)

CASES = (
    _good("good prices of options", _option_prices),
    _good("good shallow water", _shallow_water),
    _good("good covariances of a process", _gaussian_process),
    _good("good block of reflections", _block_reflector),
    _good("good Lanczos step", _lanczos_step),
    _good("good counts of alleles", _allele_counts),
    _good("good Metropolis chains", _metropolis),
    _good("good mean and spread of forecasts", _ensemble),
)
