"""Eighth round, kernels of scientific codes, optimisers and linear algebra without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, empty, faultless_of, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def verlet_kernel(x_ptr, v_ptr, force_ptr, mass_ptr, x_out_ptr, v_out_ptr, step, BLOCK: tl.constexpr):
    """The first half of a Verlet step: speeds by half a step, places by a whole one. Bound by DRAM."""
    at = tl.program_id(1) * tl.num_programs(0) * BLOCK + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inverse = tl.load(mass_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    v = tl.load(v_ptr + at) + 0.5 * step * inverse * tl.load(force_ptr + at)
    tl.store(v_out_ptr + at, v)
    tl.store(x_out_ptr + at, tl.load(x_ptr + at) + step * v)


def _verlet(small: bool) -> Launch:
    atoms = 1 << (12 if small else 23)
    x, v, force = random(3, atoms), random(3, atoms), random(3, atoms)
    mass, x_out, v_out = torch.rand(atoms), torch.empty_like(x), torch.empty_like(v)
    options = {"BLOCK": 1024, "num_warps": 8}
    args = (x, v, force, mass, x_out, v_out, 0.01)
    return Launch(verlet_kernel, (atoms // 1024, 3), args, (x_out, v_out), options)


@triton.jit
def two_momenta_kernel(
    weight_ptr, grad_ptr, fast_ptr, slow_ptr, square_ptr, out_ptr, fast_out_ptr, slow_out_ptr, square_out_ptr,
    rate, share, decay, BLOCK: tl.constexpr,
):  # fmt: skip
    """A step of AdEMAMix: Adam with a second, slow mean of gradients. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    weight, grad = tl.load(weight_ptr + at), tl.load(grad_ptr + at).to(tl.float32)
    fast = 0.9 * tl.load(fast_ptr + at) + 0.1 * grad
    slow = 0.9999 * tl.load(slow_ptr + at) + 0.0001 * grad
    square = 0.999 * tl.load(square_ptr + at) + 0.001 * grad * grad
    change = (fast + share * slow) / (tl.sqrt(square) + 1e-8) + decay * weight
    tl.store(out_ptr + at, weight - rate * change)
    tl.store(fast_out_ptr + at, fast)
    tl.store(slow_out_ptr + at, slow)
    tl.store(square_out_ptr + at, square)


def _two_momenta(small: bool) -> Launch:
    n = 1 << (12 if small else 25)
    weight, grad = random(n), random(n, dtype=torch.bfloat16)
    fast, slow, square = random(n), random(n), torch.rand(n)
    outs = [empty(n) for _ in range(4)]
    options = {"BLOCK": 1024, "num_warps": 8}
    args = (weight, grad, fast, slow, square, *outs, 1e-3, 5.0, 0.1)
    return Launch(two_momenta_kernel, (n // 1024,), args, tuple(outs), options)


@triton.jit
def symmetric_product_kernel(
    x_ptr, tile_ptr, out_ptr, ROWS: tl.constexpr, DEPTH: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Products of a momentum's rows with each other (Muon), below the diagonal. Bound by tensor cores."""
    tile = tl.load(tile_ptr + tl.program_id(0))
    offs_m = tile // 65536 * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tile % 65536 * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a = x_ptr + offs_m[:, None] * DEPTH + offs_k[None, :]
    b = x_ptr + offs_n[None, :] * DEPTH + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, DEPTH, BLOCK_K):
        acc = tl.dot(tl.load(a), tl.load(b), acc)
        a += BLOCK_K
        b += BLOCK_K
    tl.store(out_ptr + offs_m[:, None] * ROWS + offs_n[None, :], acc.to(tl.bfloat16))


def _symmetric_product(small: bool) -> Launch:
    """1056 tiles: eight for each of 132 SMs."""
    rows, depth = (256, 256) if small else (8192, 2048)
    x = random(rows, depth, dtype=torch.bfloat16)
    tiles = [(m << 16) + n for m in range(rows // 128) for n in range(m // 2 + 1)]
    out = zeros(rows, rows, dtype=torch.bfloat16)
    options = {"ROWS": rows, "DEPTH": depth, "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}
    options |= {"num_warps": 8, "num_stages": 3}
    args = (x, torch.tensor(tiles, dtype=torch.int32), out)
    return Launch(symmetric_product_kernel, (len(tiles),), args, (out,), options)


@triton.jit
def density_kernel(x_ptr, out_ptr, points, POINTS: tl.constexpr, OTHERS: tl.constexpr):
    """Density of points at each of them, by Gaussians of a width of 1. Bound by exponentials and FP32."""
    point = tl.program_id(0) * POINTS + tl.arange(0, POINTS)
    x, y, z = tl.load(x_ptr + point), tl.load(x_ptr + points + point), tl.load(x_ptr + 2 * points + point)
    x, y, z = 0.84932180 * x[:, None], 0.84932180 * y[:, None], 0.84932180 * z[:, None]
    total = tl.zeros((POINTS, OTHERS), dtype=tl.float32)
    for first in range(0, points, OTHERS):
        other = first + tl.arange(0, OTHERS)
        dx = x - 0.84932180 * tl.load(x_ptr + other)[None, :]
        dy = y - 0.84932180 * tl.load(x_ptr + points + other)[None, :]
        dz = z - 0.84932180 * tl.load(x_ptr + 2 * points + other)[None, :]
        total += tl.exp2(-(dx * dx + dy * dy + dz * dz))
    tl.store(out_ptr + point, tl.sum(total, 1))


def _density(small: bool) -> Launch:
    points = 128 if small else 33792
    x, out = random(3, points), empty(points)
    options = {"POINTS": 64, "OTHERS": 32, "num_warps": 4}
    return Launch(density_kernel, (points // 64,), (x, out, points), (out,), options)


@triton.jit
def electric_kernel(e_ptr, h_ptr, out_ptr, size, plane, step, ROW: tl.constexpr, BLOCK: tl.constexpr):
    """A step of electric fields by the curl of magnetic ones (Maxwell's equations). Bound by DRAM."""
    at = (tl.program_id(2) + 1) * plane + (tl.program_id(1) + 1) * ROW + 16
    at += tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h_x, h_y, h_z = h_ptr + at, h_ptr + size + at, h_ptr + 2 * size + at
    x, y, z = tl.load(h_x), tl.load(h_y), tl.load(h_z)
    curl_x = (z - tl.load(h_z - ROW)) - (y - tl.load(h_y - plane))
    curl_y = (x - tl.load(h_x - plane)) - (z - tl.load(h_z - 1))
    curl_z = (y - tl.load(h_y - 1)) - (x - tl.load(h_x - ROW))
    tl.store(out_ptr + at, tl.load(e_ptr + at) + step * curl_x)
    tl.store(out_ptr + size + at, tl.load(e_ptr + size + at) + step * curl_y)
    tl.store(out_ptr + 2 * size + at, tl.load(e_ptr + 2 * size + at) + step * curl_z)


def _electric(small: bool) -> Launch:
    depth, rows, columns = (2, 2, 512) if small else (256, 256, 512)
    shape = (3, depth + 1, rows + 1, columns + 32)
    e, h, out = random(*shape), random(*shape), zeros(*shape)
    options = {"ROW": shape[3], "BLOCK": 512, "num_warps": 4}
    args = (e, h, out, shape[1] * shape[2] * shape[3], shape[2] * shape[3], 0.5)
    return Launch(electric_kernel, (columns // 512, rows, depth), args, (out,), options)


@triton.jit
def spectra_kernel(x_ptr, filter_ptr, out_ptr, size, LENGTH: tl.constexpr, BLOCK: tl.constexpr):
    """Spectra of signals times that of a filter, with real and imaginary parts in planes. Bound by DRAM."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.program_id(1) * LENGTH + place
    a, b = tl.load(x_ptr + at), tl.load(x_ptr + size + at)
    c, d = tl.load(filter_ptr + place), tl.load(filter_ptr + LENGTH + place)
    tl.store(out_ptr + at, a * c - b * d)
    tl.store(out_ptr + size + at, a * d + b * c)


def _spectra(small: bool) -> Launch:
    signals, length = (2, 4096) if small else (1024, 32768)
    x, curve = random(2, signals, length), random(2, length)
    out = torch.empty_like(x)
    options = {"LENGTH": length, "BLOCK": 1024, "num_warps": 8}
    args = (x, curve, out, signals * length)
    return Launch(spectra_kernel, (length // 1024, signals), args, (out,), options)


@triton.jit
def tall_products_kernel(x_ptr, out_ptr, STEPS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """Products of the columns of a tall matrix, of a part of its rows in each program. Bound by DRAM."""
    dim, row = tl.arange(0, DIM), tl.arange(0, BLOCK)
    x = x_ptr + (tl.program_id(0) * STEPS * BLOCK + row[:, None]) * DIM + dim[None, :]
    acc = tl.zeros((DIM, DIM), dtype=tl.float32)
    for _ in range(STEPS):
        rows = tl.load(x)
        acc = tl.dot(tl.trans(rows), rows, acc)
        x += BLOCK * DIM
    tl.store(out_ptr + (tl.program_id(0) * DIM + dim[:, None]) * DIM + dim[None, :], acc)


def _tall_products(small: bool) -> Launch:
    programs, steps = (2, 4) if small else (528, 64)
    x, out = random(programs * steps * 64, 64, dtype=torch.bfloat16), empty(programs, 64, 64)
    options = {"STEPS": steps, "DIM": 64, "BLOCK": 64, "num_warps": 4, "num_stages": 5}
    return Launch(tall_products_kernel, (programs,), (x, out), (out,), options)


@triton.jit
def rotated_rows_kernel(
    x_ptr, pair_ptr, angle_ptr, out_ptr, pairs, COLUMNS: tl.constexpr, BLOCK: tl.constexpr
):
    """Pairs of a matrix's rows, rotated (a sweep of Jacobi's method). Bound by DRAM."""
    pair, place = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    one, other = tl.load(pair_ptr + pair), tl.load(pair_ptr + pairs + pair)
    cosine, sine = tl.load(angle_ptr + pair), tl.load(angle_ptr + pairs + pair)
    a, b = tl.load(x_ptr + one * COLUMNS + place), tl.load(x_ptr + other * COLUMNS + place)
    tl.store(out_ptr + one * COLUMNS + place, cosine * a + sine * b)
    tl.store(out_ptr + other * COLUMNS + place, cosine * b - sine * a)


def _rotated_rows(small: bool) -> Launch:
    pairs, columns = (2, 2048) if small else (4096, 8192)
    x, angle = random(2 * pairs, columns), random(pairs)
    pair, out = torch.randperm(2 * pairs, dtype=torch.int32), torch.empty_like(x)
    options = {"COLUMNS": columns, "BLOCK": 1024, "num_warps": 4}
    args = (x, pair, torch.cat([angle.cos(), angle.sin()]), out, pairs)
    return Launch(rotated_rows_kernel, (columns // 1024, pairs), args, (out,), options)


_good = faultless_of(8)

CASES = (
    _good("good Verlet step", _verlet),
    _good("good AdEMAMix step", _two_momenta),
    _good("good product of a momentum's rows", _symmetric_product),
    _good("good density of points", _density),
    _good("good electric fields", _electric),
    _good("good filtered spectra", _spectra),
    _good("good products of tall columns", _tall_products),
    _good("good rotated rows", _rotated_rows),
)
