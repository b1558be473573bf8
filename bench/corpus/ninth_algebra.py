"""Ninth round, faults of linear algebra: spectral layers, complex products, projections, mixtures, sweeps."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def mixed_modes_kernel(
    x_ptr, weight_ptr, out_ptr, modes, rows, columns, depth, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, MODE_FIRST: tl.constexpr,
):  # fmt: skip
    """Channels of each mode of a spectrum mixed by the mode's own weights (Fourier neural operator).
    MODE_FIRST: neighbouring programs have the same tile of different modes."""
    tile_columns = columns // COLUMNS
    tiles = rows // ROWS * tile_columns
    if MODE_FIRST:
        mode, tile = tl.program_id(0) % modes, tl.program_id(0) // modes  # fault
    else:
        mode, tile = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    row = tile // tile_columns * ROWS + tl.arange(0, ROWS)
    column = tile % tile_columns * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, DEPTH)
    x_at = x_ptr + mode.to(tl.int64) * rows * depth + row[:, None] * depth + inner[None, :]
    weight_at = weight_ptr + mode.to(tl.int64) * depth * columns + inner[:, None] * columns + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, depth, DEPTH):
        total = tl.dot(tl.load(x_at), tl.load(weight_at), total)
        x_at += DEPTH
        weight_at += DEPTH * columns
    out_at = out_ptr + mode.to(tl.int64) * rows * columns + row[:, None] * columns + column[None, :]
    tl.store(out_at, total.to(tl.float16))


def _mixed_modes(mode_first: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        modes, width = (3, 256) if small else (1024, 512)
        x = random(modes, width, width, dtype=torch.float16)
        weight, out = random(modes, width, width, dtype=torch.float16), torch.empty_like(x)
        options = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64, "MODE_FIRST": mode_first}
        args = (x, weight, out, modes, width, width, width)
        grid = (modes * (width // 128) ** 2,)
        return Launch(mixed_modes_kernel, grid, args, (out,), options | {"num_warps": 4, "num_stages": 3})

    return prepare


@triton.jit
def complex_product_kernel(
    a_ptr, b_ptr, out_ptr, rows, columns, depth, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Product of complex matrices in planes of parts; b has a third one, of negated imaginary parts."""
    down, across = tl.program_id(0) % GROUP, tl.program_id(0) // GROUP
    row = (tl.program_id(1) * GROUP + down) * ROWS + tl.arange(0, ROWS)
    column = across * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, DEPTH)
    a_at = a_ptr + row[:, None] * depth + inner[None, :]
    b_at = b_ptr + inner[:, None] * columns + column[None, :]
    real = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    imaginary = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, depth, DEPTH):
        a_real, a_imaginary = tl.load(a_at), tl.load(a_at + rows * depth)
        b_real, b_imaginary = tl.load(b_at), tl.load(b_at + depth * columns)
        b_negated = tl.load(b_at + 2 * depth * columns)
        real = tl.dot(a_real, b_real, real)  # fault
        real = tl.dot(a_imaginary, b_negated, real)  # fault
        imaginary = tl.dot(a_real, b_imaginary, imaginary)  # fault
        imaginary = tl.dot(a_imaginary, b_real, imaginary)  # fault
        a_at += DEPTH
        b_at += DEPTH * columns
    out_at = out_ptr + row[:, None] * columns + column[None, :]
    tl.store(out_at, real)
    tl.store(out_at + rows * columns, imaginary)


def _complex_product(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns, depth = (256, 256, 128) if small else (4096, 4096, 2048)
        a, b = random(2, rows, depth, dtype=torch.bfloat16), random(2, depth, columns, dtype=torch.bfloat16)
        b = torch.cat([b, -b[1:]])
        out, group = empty(2, rows, columns), min(8, rows // 128)
        options = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 32, "GROUP": group}
        args = (a, b, out, rows, columns, depth)
        grid = (group * columns // 128, rows // 128 // group)
        return Launch(
            complex_product_kernel, grid, args, (out,), options | {"num_warps": warps, "num_stages": 3}
        )

    return prepare


@triton.jit
def orthogonal_vector_kernel(
    basis_ptr, x_ptr, factor_ptr, out_ptr, basis, SIZE: tl.constexpr, STAGES: tl.constexpr
):
    """A new vector of each Krylov space made orthogonal to its basis, vector by vector (Gram and Schmidt)."""
    system, at = tl.program_id(0), tl.arange(0, SIZE)
    x = tl.load(x_ptr + system * SIZE + at)
    for each in tl.range(0, basis, num_stages=STAGES):
        other = tl.load(basis_ptr + (system * basis + each).to(tl.int64) * SIZE + at)  # fault
        factor = tl.sum(x * other, 0)  # fault
        x -= factor * other  # fault
        tl.store(factor_ptr + system * basis + each, factor)
    tl.store(out_ptr + system * SIZE + at, x * tl.rsqrt(tl.sum(x * x, 0)))


def _orthogonal_vector(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        systems, basis, size = (2, 8, 2048) if small else (128, 256, 2048)
        vectors = torch.nn.functional.normalize(random(systems, basis, size), dim=2)
        x, factor, out = random(systems, size), empty(systems, basis), empty(systems, size)
        options = {"SIZE": size, "STAGES": stages, "num_warps": 4}
        args = (vectors, x, factor, out, basis)
        return Launch(orthogonal_vector_kernel, (systems,), args, (factor, out), options)

    return prepare


@triton.jit
def projected_gradient_kernel(
    gradient_ptr, basis_ptr, moment_ptr, square_ptr, out_ptr, depth, rank, ROWS: tl.constexpr,
    RANKS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Gradients of a layer projected to few ranks, and Adam's moments and step there (GaLore)."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column, inner = tl.program_id(0) * RANKS + tl.arange(0, RANKS), tl.arange(0, DEPTH)
    gradient_at = gradient_ptr + row[:, None] * depth + inner[None, :]
    basis_at = basis_ptr + inner[:, None] * rank + column[None, :]
    total = tl.zeros((ROWS, RANKS), dtype=tl.float32)
    for _ in range(0, depth, DEPTH):
        total = tl.dot(tl.load(gradient_at), tl.load(basis_at), total)  # fault
        gradient_at += DEPTH
        basis_at += DEPTH * rank
    at = row[:, None] * rank + column[None, :]
    moment = 0.9 * tl.load(moment_ptr + at) + 0.1 * total
    square = 0.999 * tl.load(square_ptr + at) + 0.001 * total * total
    tl.store(out_ptr + at, moment * tl.rsqrt(square + 1e-8))


def _projected_gradient(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, depth, rank = (128, 256, 128) if small else (16384, 8192, 256)
        gradient = random(rows, depth, dtype=torch.bfloat16)
        basis = random(depth, rank, dtype=torch.bfloat16)
        moment, square, out = random(rows, rank), torch.rand(rows, rank), empty(rows, rank)
        options = {"ROWS": 64, "RANKS": 128, "DEPTH": 64, "num_warps": 4, "num_stages": stages}
        args = (gradient, basis, moment, square, out, depth, rank)
        return Launch(projected_gradient_kernel, (rank // 128, rows // 64), args, (out,), options)

    return prepare


@triton.jit
def mixture_kernel(
    x_ptr, mean_ptr, precision_ptr, constant_ptr, out_ptr, PARTS: tl.constexpr, ROWS: tl.constexpr,
    DIM: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Log likelihoods of points under a mixture of normals, each with its mean and inverse covariance."""
    row, dim = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)
    x = tl.load(x_ptr + row[:, None] * DIM + dim[None, :])
    peak = tl.full((ROWS,), -1e30, dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    for part in range(PARTS):
        precision = tl.load(precision_ptr + part * DIM * DIM + dim[:, None] * DIM + dim[None, :])
        away = x - tl.load(mean_ptr + part * DIM + dim)[None, :]
        if DOT:
            square = tl.sum(tl.dot(away, precision) * away, 1)
        else:
            products = away[:, :, None] * precision[None, :, :] * away[:, None, :]  # fault
            square = tl.sum(tl.sum(products, 2), 1)  # fault
        score = tl.load(constant_ptr + part) - 0.5 * square
        higher = tl.maximum(peak, score)
        total = total * tl.exp(peak - higher) + tl.exp(score - higher)
        peak = higher
    tl.store(out_ptr + row, peak + tl.log(total))


def _mixture(rows: int, dot: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        points, parts = (256, 4) if small else (1 << 16, 64)
        x, root = random(points, 32), 0.2 * random(parts, 32, 32)
        mean, constant, out = random(parts, 32), random(parts), empty(points)
        options = {"PARTS": parts, "ROWS": rows, "DIM": 32, "DOT": dot, "num_warps": 4}
        args = (x, mean, root @ root.transpose(1, 2), constant, out)
        return Launch(mixture_kernel, (points // rows,), args, (out,), options)

    return prepare


@triton.jit
def electron_density_kernel(
    basis_ptr, orbital_ptr, filled_ptr, out_ptr, functions, orbitals, POINTS: tl.constexpr,
    ORBITALS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Density of electrons at points, from orbitals as sums of basis functions and how filled each is."""
    point, inner = tl.program_id(0) * POINTS + tl.arange(0, POINTS), tl.arange(0, DEPTH)
    density = tl.zeros((POINTS,), dtype=tl.float32)
    for first in range(0, orbitals, ORBITALS):
        orbital = first + tl.arange(0, ORBITALS)
        value = tl.zeros((POINTS, ORBITALS), dtype=tl.float32)
        for start in range(0, functions, DEPTH):
            basis = tl.load(basis_ptr + point[:, None] * functions + start + inner[None, :])
            weight = tl.load(orbital_ptr + (start + inner)[:, None] * orbitals + orbital[None, :])
            value = tl.dot(basis, weight, value)  # fault
        density += tl.sum(value * value * tl.load(filled_ptr + orbital)[None, :], 1)
    tl.store(out_ptr + point, density)


def _electron_density(points: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        size, functions, orbitals = (256, 128, 256) if small else (131072, 512, 1024)
        basis = random(size, functions, dtype=torch.float16)
        orbital, filled = random(functions, orbitals, dtype=torch.float16), torch.rand(orbitals)
        out = empty(size)
        options = {"POINTS": points, "ORBITALS": 128, "DEPTH": 64, "num_warps": 4, "num_stages": 3}
        args = (basis, orbital, filled, out, functions, orbitals)
        return Launch(electron_density_kernel, (size // points,), args, (out,), options)

    return prepare


@triton.jit
def jacobi_sweeps_kernel(
    matrix_ptr, right_ptr, out_ptr, residual_ptr, SWEEPS: tl.constexpr, SIZE: tl.constexpr,
    AGAIN: tl.constexpr,
):  # fmt: skip
    """Damped Jacobi sweeps of small dense systems, stored by columns, with the residual of each sweep."""
    system, row, column = tl.program_id(0), tl.arange(0, SIZE), tl.arange(0, SIZE)
    at = matrix_ptr + system * SIZE * SIZE + row[:, None] + column[None, :] * SIZE
    right = tl.load(right_ptr + system * SIZE + row)
    matrix = tl.load(at)
    inverse = 0.8 / tl.sum(tl.where(row[:, None] == column[None, :], matrix, 0.0), 1)
    x = right * inverse
    for sweep in range(SWEEPS):
        if AGAIN:
            matrix = tl.load(at)  # fault
        across = tl.reshape(x, (1, SIZE))
        change = right - tl.sum(matrix * across, 1)
        tl.store(residual_ptr + system * SWEEPS + sweep, tl.sum(change * change, 0))
        x += inverse * change
    tl.store(out_ptr + system * SIZE + row, x)


def _jacobi_sweeps(again: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        systems, sweeps = (3, 6) if small else (8192, 64)
        matrix = random(systems, 64, 64) + 64.0 * torch.eye(64)
        right, out, residual = random(systems, 64), empty(systems, 64), empty(systems, sweeps)
        options = {"SWEEPS": sweeps, "SIZE": 64, "AGAIN": again, "num_warps": 4}
        args = (matrix, right, out, residual)
        return Launch(jacobi_sweeps_kernel, (systems,), args, (out, residual), options)

    return prepare


_case = faults_of(9)


CASES = (
    _case(
        "mixed modes with the mode first",
        ("tile-reread",),
        ("counters",),
        False,
        _mixed_modes(True),
        _mixed_modes(False),
    ),
    _case(
        "complex product by 4 warps",
        ("register-spills",),
        ("resources", "counts"),
        False,
        _complex_product(4),
        _complex_product(8),
    ),
    _case(
        "basis vectors loaded when their step begins",
        ("exposed-latency", "few-stages"),
        ("samples", "spans"),
        False,
        _orthogonal_vector(1),
        _orthogonal_vector(4),
    ),
    _case(
        "projected gradients of 1 stage",
        ("few-stages", "exposed-latency"),
        ("samples",),
        False,
        _projected_gradient(1),
        _projected_gradient(4),
    ),
    _case(
        "mixture of normals by broadcast",
        ("no-tensor-cores",),
        ("counts",),
        True,
        _mixture(16, False),
        _mixture(64, True),
    ),
    _case(
        "32 points of electrons at a time",
        ("small-mma", "tile-reread"),
        ("counts", "counters"),
        False,
        _electron_density(32),
        _electron_density(128),
    ),
    _case(
        "matrices loaded for each Jacobi sweep",
        ("redundant-load",),
        ("counts",),
        True,
        _jacobi_sweeps(True),
        _jacobi_sweeps(False),
    ),
)
