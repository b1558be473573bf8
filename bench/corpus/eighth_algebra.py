"""Eighth round, faults of linear algebra: factors, sparse rows, products of matrices."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def whitening_kernel(factor_ptr, x_ptr, out_ptr, samples, SERIES: tl.constexpr, BLOCK: tl.constexpr):
    """Samples of series that are made independent: a triangular system for each of them."""
    series = tl.arange(0, SERIES)
    at = series[:, None] * samples + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + at)
    for row in range(SERIES):
        factor = tl.load(factor_ptr + row * SERIES + series)
        scale = 1.0 / tl.load(factor_ptr + row * SERIES + row)
        weight = tl.where(series < row, -factor, tl.where(series == row, 1.0, 0.0))
        solved = tl.sum(weight[:, None] * x, 0) * scale  # fault
        x = tl.where(series[:, None] == row, solved[None, :], x)
    tl.store(out_ptr + at, x)


def _whitening(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        series, samples = (32, 64) if small else (64, 1 << 18)
        factor = torch.tril(0.1 * random(series, series)) + torch.diag(1.0 + torch.rand(series))
        x, out = random(series, samples), empty(series, samples)
        options = {"SERIES": series, "BLOCK": 16, "num_warps": warps}
        return Launch(whitening_kernel, (samples // 16,), (factor, x, out, samples), (out,), options)

    return prepare


@triton.jit
def sparse_rows_kernel(bound_ptr, start_ptr, column_ptr, value_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    """A sparse matrix (CSR) times a vector; a program has the rows between its two bounds."""
    lane = tl.arange(0, BLOCK)
    first, last = tl.load(bound_ptr + tl.program_id(0)), tl.load(bound_ptr + tl.program_id(0) + 1)
    for row in range(first, last):  # fault
        start, end = tl.load(start_ptr + row), tl.load(start_ptr + row + 1)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for at in range(start, end, BLOCK):  # fault
            inside = at + lane < end
            column = tl.load(column_ptr + at + lane, mask=inside, other=0)
            value = tl.load(value_ptr + at + lane, mask=inside, other=0.0)
            total += value * tl.load(x_ptr + column, mask=inside, other=0.0)
        tl.store(out_ptr + row, tl.sum(total, 0))


def _sparse_rows(balanced: bool) -> Prepare:
    """Rows are numbered by how much they hold, as reordered graphs are."""

    def prepare(small: bool) -> Launch:
        rows, programs, knee = (64, 8, 8) if small else (1 << 16, 2048, 96)
        length = 200.0 + 24000.0 / (1.0 + torch.arange(rows, dtype=torch.float64) / knee) ** 0.9
        start = torch.zeros(rows + 1, dtype=torch.int64)
        start[1:] = torch.cumsum((length / (8 if small else 1)).long(), 0)
        bound = torch.arange(programs + 1) * (rows // programs)
        if balanced:
            bound = torch.searchsorted(start, torch.arange(programs + 1) * (int(start[-1]) / programs))
        held = int(start[-1])
        column, value, x = integers(held, below=rows), random(held), random(rows)
        out = empty(rows)
        options = {"BLOCK": 256, "num_warps": 4}
        args = (bound.int(), start.int(), column, value, x, out)
        return Launch(sparse_rows_kernel, (programs,), args, (out,), options)

    return prepare


@triton.jit
def covariance_kernel(
    x_ptr, mean_ptr, out_ptr, samples, DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, LATE: tl.constexpr,
):  # fmt: skip
    """Covariances of features over samples. LATE: means are taken out of the finished sum."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    mean_m, mean_n = tl.load(mean_ptr + offs_m), tl.load(mean_ptr + offs_n)
    a_at, b_at = (
        x_ptr + offs_k[:, None] * DIM + offs_m[None, :],
        x_ptr + offs_k[:, None] * DIM + offs_n[None, :],
    )
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, samples, BLOCK_K):
        a, b = tl.load(a_at), tl.load(b_at)
        if not LATE:
            a, b = a - mean_m[None, :], b - mean_n[None, :]  # fault
        acc = tl.dot(tl.trans(a), b, acc)
        a_at += BLOCK_K * DIM
        b_at += BLOCK_K * DIM
    acc *= 1.0 / samples
    if LATE:
        acc -= mean_m.to(tl.float32)[:, None] * mean_n.to(tl.float32)[None, :]
    tl.store(out_ptr + offs_m[:, None] * DIM + offs_n[None, :], acc)


def _covariance(late: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        samples, dim = (256, 256) if small else (8192, 4096)
        x = (random(samples, dim) + 0.3 * random(dim)).half()
        mean, out = x.float().mean(0).half(), empty(dim, dim)
        options = {"DIM": dim, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "LATE": late}
        options |= {"num_warps": 8, "num_stages": 3}
        args = (x, mean, out, samples)
        return Launch(covariance_kernel, (dim // 128, dim // 128), args, (out,), options)

    return prepare


@triton.jit
def cosines_kernel(x_ptr, basis_ptr, out_ptr, BLOCK: tl.constexpr, STEPS: tl.constexpr, EXACT: tl.constexpr):
    """Cosine transforms of 8 by 8 pixels, as products with a matrix of 64 by 64."""
    pixel = tl.arange(0, 64)
    basis = tl.load(basis_ptr + pixel[:, None] * 64 + pixel[None, :])
    first = tl.program_id(0) * STEPS * BLOCK
    for step in range(STEPS):
        block = first + step * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + block[:, None] * 64 + pixel[None, :])
        if EXACT:
            out = tl.dot(x.to(tl.float32), basis.to(tl.float32), input_precision="ieee")  # fault
        else:
            out = tl.dot(x, basis)
        tl.store(out_ptr + block[:, None] * 64 + pixel[None, :], out.to(tl.float16))


def _cosines(exact: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        blocks, steps = (512, 4) if small else (1 << 20, 8)
        place = torch.arange(8, dtype=torch.float64)
        line = 0.5 * torch.cos((2 * place[:, None] + 1) * place[None, :] * math.pi / 16)
        line[:, 0] *= math.sqrt(0.5)
        basis = torch.kron(line, line).half()
        x, out = random(blocks, 64, dtype=torch.float16), empty(blocks, 64, dtype=torch.float16)
        options = {"BLOCK": 64, "STEPS": steps, "EXACT": exact, "num_warps": 8}
        return Launch(cosines_kernel, (blocks // (64 * steps),), (x, basis, out), (out,), options)

    return prepare


@triton.jit
def antenna_beams_kernel(
    weight_ptr, signal_ptr, out_ptr, times, BEAMS: tl.constexpr, ANTENNAS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Power of beams of antennas at each time: a complex product, with real and imaginary parts in planes."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    weight = weight_ptr + offs_m[:, None] * ANTENNAS + offs_k[None, :]
    signal = signal_ptr + offs_k[:, None] * times + offs_n[None, :]
    real = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    turned, imaginary = tl.zeros_like(real), tl.zeros_like(real)
    for _ in range(0, ANTENNAS, BLOCK_K):
        a, b = tl.load(weight), tl.load(weight + BEAMS * ANTENNAS)  # fault
        c, d = tl.load(signal), tl.load(signal + ANTENNAS * times)  # fault
        real = tl.dot(a, c, real)  # fault
        turned = tl.dot(b, d, turned)
        imaginary = tl.dot(a, d, imaginary)
        imaginary = tl.dot(b, c, imaginary)
        weight += BLOCK_K
        signal += BLOCK_K * times
    real -= turned
    out = offs_m[:, None] * times + offs_n[None, :]
    tl.store(out_ptr + out, real * real + imaginary * imaginary)


def _antenna_beams(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        beams, antennas, times = (128, 256, 128) if small else (1024, 1024, 16896)
        weight = random(2, beams, antennas, dtype=torch.float16)
        signal, out = 0.05 * random(2, antennas, times), empty(beams, times)
        options = {"BEAMS": beams, "ANTENNAS": antennas, "BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64}
        options |= {"num_warps": 8, "num_stages": stages}
        grid = (beams // 128, times // 64)
        return Launch(antenna_beams_kernel, grid, (weight, signal.half(), out, times), (out,), options)

    return prepare


@triton.jit
def lagged_covariance_kernel(
    x_ptr, out_ptr, times, kept, DIM: tl.constexpr, BLOCK: tl.constexpr, LATE: tl.constexpr
):
    """Symmetric covariances of a molecule's places with those a step later, of which older ones fade."""
    dim, time = tl.arange(0, DIM), tl.arange(0, BLOCK)
    x = x_ptr + tl.program_id(0) * (times + 1) * DIM + time[:, None] * DIM + dim[None, :]
    total = tl.zeros((DIM, DIM), dtype=tl.float32)
    for _ in range(0, times, BLOCK):
        now = tl.dot(tl.trans(tl.load(x)), tl.load(x + DIM))
        if not LATE:
            now = 0.5 * (now + tl.trans(now))  # fault
        total = kept * total + now
        x += BLOCK * DIM
    if LATE:
        total = 0.5 * (total + tl.trans(total))
    tl.store(out_ptr + (tl.program_id(0) * DIM + dim[:, None]) * DIM + dim[None, :], total)


def _lagged_covariance(late: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        walks, times = (2, 128) if small else (528, 4096)
        x, out = random(walks, times + 1, 128, dtype=torch.float16), empty(walks, 128, 128)
        options = {"DIM": 128, "BLOCK": 32, "LATE": late, "num_warps": 8, "num_stages": 3}
        return Launch(lagged_covariance_kernel, (walks,), (x, out, times, 0.98), (out,), options)

    return prepare


@triton.jit
def right_statistics_kernel(
    grad_ptr, out_ptr, rows, DIM: tl.constexpr, ROW: tl.constexpr, COLUMN: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Products of a gradient's columns (Shampoo), in tf32. ROW, COLUMN: steps to the next one in memory."""
    offs_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    offs_k = tl.arange(0, BLOCK_K)
    a_at = grad_ptr + offs_m[:, None] * COLUMN + offs_k[None, :] * ROW
    b_at = grad_ptr + offs_k[:, None] * ROW + offs_n[None, :] * COLUMN
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for _ in range(0, rows, BLOCK_K):
        acc = tl.dot(tl.load(a_at), tl.load(b_at), acc)  # fault
        a_at += BLOCK_K * ROW
        b_at += BLOCK_K * ROW
    tl.store(out_ptr + offs_m[:, None] * DIM + offs_n[None, :], acc)


def _right_statistics(by_rows: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, dim = (128, 128) if small else (4096, 4096)
        grad, out = random(rows, dim), empty(dim, dim)
        row, column = (dim, 1) if by_rows else (1, rows)
        if not by_rows:
            grad = grad.T.contiguous()
        options = {"DIM": dim, "ROW": row, "COLUMN": column, "BLOCK": 128, "BLOCK_K": 32}
        options |= {"num_warps": 8, "num_stages": 3}
        grid = (dim // 128, dim // 128)
        return Launch(right_statistics_kernel, grid, (grad, out, rows), (out,), options)

    return prepare


@triton.jit
def small_factors_kernel(x_ptr, out_ptr, SIZE: tl.constexpr, KEEP: tl.constexpr):
    """LU factors of small matrices, without pivots. KEEP: a matrix stays in registers."""
    row, column = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    out = out_ptr + tl.program_id(0) * SIZE * SIZE
    x = tl.load(x_ptr + tl.program_id(0) * SIZE * SIZE + row * SIZE + column)
    if not KEEP:
        tl.store(out + row * SIZE + column, x)
    for step in range(SIZE - 1):
        if KEEP:
            across = tl.sum(tl.where(row == step, x, 0.0), 0)[None, :]
            down = tl.sum(tl.where(column == step, x, 0.0), 1)[:, None]
            pivot = tl.sum(tl.where(column == step, across, 0.0))
        else:
            tl.debug_barrier()
            x = tl.load(out + row * SIZE + column)  # fault
            across, down = tl.load(out + step * SIZE + column), tl.load(out + row * SIZE + step)  # fault
            pivot = tl.load(out + step * SIZE + step)
            tl.debug_barrier()
        lower = down / pivot
        x = tl.where((row > step) & (column > step), x - lower * across, x)
        x = tl.where((row > step) & (column == step), lower, x)
        if not KEEP:
            tl.store(out + row * SIZE + column, x)  # fault
    if KEEP:
        tl.store(out + row * SIZE + column, x)


def _small_factors(keep: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        count, size = (4, 32) if small else (2112, 64)
        x = random(count, size, size) + 16.0 * torch.eye(size)
        out = torch.empty_like(x)
        options = {"SIZE": size, "KEEP": keep, "num_warps": 4}
        return Launch(small_factors_kernel, (count,), (x, out), (out,), options)

    return prepare


@triton.jit
def tapered_kernel(
    cover_ptr, x_ptr, out_ptr, PLACES: tl.constexpr, MEMBERS: tl.constexpr, NEAR: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NEAR_ONLY: tl.constexpr,
):  # fmt: skip
    """Covariances of places near each other, times an ensemble; blocks of far places are not loaded."""
    first = tl.program_id(0) * BLOCK_M
    offs_m, offs_k = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    start, end = 0, PLACES
    if NEAR_ONLY:
        start, end = tl.maximum(first - NEAR, 0), tl.minimum(first + BLOCK_M + NEAR, PLACES)
    for k in range(start, end, BLOCK_K):  # fault
        near = (k + BLOCK_K > first - NEAR) & (k < first + BLOCK_M + NEAR)
        place = k + offs_k
        cover = tl.load(cover_ptr + offs_m[:, None] * PLACES + place[None, :], mask=near, other=0.0)
        x = tl.load(x_ptr + place[:, None] * MEMBERS + offs_n[None, :])
        acc = tl.dot(cover, x, acc)  # fault
    tl.store(out_ptr + offs_m[:, None] * MEMBERS + offs_n[None, :], acc.to(tl.float16))


def _tapered(near_only: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        places, members, near = (512, 128, 64) if small else (8192, 2048, 768)
        cover, x = 0.02 * random(places, places), random(places, members, dtype=torch.float16)
        out = empty(places, members, dtype=torch.float16)
        options = {"PLACES": places, "MEMBERS": members, "NEAR": near, "NEAR_ONLY": near_only}
        options |= {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
        grid = (places // 128, members // 128)
        return Launch(tapered_kernel, grid, (cover.half(), x, out), (out,), options)

    return prepare


_case = faults_of(8)


CASES = (
    _case(
        "series whitened by 4 warps",
        ("serial-reduction", "too-many-warps"),
        ("counts", "samples"),
        True,
        _whitening(4),
        _whitening(1),
    ),
    _case(
        "sparse rows shared out by number",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        True,
        _sparse_rows(False),
        _sparse_rows(True),
    ),
    _case(
        "features centred in the product",
        ("mma-not-overlapped",),
        ("samples", "counters"),
        False,
        _covariance(False),
        _covariance(True),
    ),
    _case(
        "cosine transforms in float32",
        ("no-tensor-cores",),
        ("counts",),
        True,
        _cosines(True),
        _cosines(False),
    ),
    _case(
        "beams of antennas of 1 stage",
        ("few-stages", "exposed-latency"),
        ("spans", "samples", "resources"),
        False,
        _antenna_beams(1),
        _antenna_beams(3),
    ),
    _case(
        "lagged covariances symmetric each step",
        ("layout-conversion", "mma-not-overlapped"),
        ("counts", "samples"),
        True,
        _lagged_covariance(False),
        _lagged_covariance(True),
    ),
    _case(
        "statistics of columns stored by rows",
        ("bank-conflict", "unvectorized-access"),
        ("counters", "counts"),
        False,
        _right_statistics(True),
        _right_statistics(False),
    ),
    _case(
        "small matrices factorised in memory",
        ("redundant-load", "exposed-latency"),
        ("counts", "samples"),
        True,
        _small_factors(False),
        _small_factors(True),
    ),
    _case(
        "covariances of far places multiplied",
        ("masked-work",),
        ("counts",),
        True,
        _tapered(False),
        _tapered(True),
    ),
)
