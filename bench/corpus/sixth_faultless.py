"""Sixth round, kernels without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def adagrad_kernel(weight_ptr, grad_ptr, square_ptr, rate, BLOCK: tl.constexpr):
    """A step of the optimizer Adagrad. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    weight, grad, square = tl.load(weight_ptr + at), tl.load(grad_ptr + at), tl.load(square_ptr + at)
    square += grad * grad
    tl.store(square_ptr + at, square)
    tl.store(weight_ptr + at, weight - rate * grad * tl.rsqrt(square + 1e-10))


def _adagrad(small: bool) -> Launch:
    n = 4096 if small else 1 << 26
    weight, grad, square = random(n), random(n), torch.rand(n)
    options = {"BLOCK": 1024, "num_warps": 4}
    args = (weight, grad, square, 1e-3)
    return Launch(adagrad_kernel, (n // 1024,), args, (weight, square), options)


@triton.jit
def unit_rows_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    """Rows of length 1. Bound by DRAM."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at).to(tl.float32)
    tl.store(out_ptr + at, (x * tl.rsqrt(tl.sum(x * x, 0) + 1e-12)).to(tl.bfloat16))


def _unit_rows(small: bool) -> Launch:
    rows, columns = (4, 2048) if small else (1 << 16, 2048)
    x = random(rows, columns, dtype=torch.bfloat16)
    out = torch.empty_like(x)
    options = {"COLUMNS": columns, "num_warps": 4}
    return Launch(unit_rows_kernel, (rows,), (x, out), (out,), options)


@triton.jit
def shifted_tokens_kernel(x_ptr, mix_ptr, out_ptr, length, DIM: tl.constexpr):
    """A mixture of each token with the one before it, as RWKV has it. Bound by DRAM."""
    dims, token = tl.arange(0, DIM), tl.program_id(0)
    x = tl.load(x_ptr + token * DIM + dims).to(tl.float32)
    inside = (token % length > 0) & (dims < DIM)
    before = tl.load(x_ptr + token * DIM - DIM + dims, mask=inside, other=0.0).to(tl.float32)
    mix = tl.load(mix_ptr + dims)
    tl.store(out_ptr + token * DIM + dims, (before + mix * (x - before)).to(tl.bfloat16))


def _shifted_tokens(small: bool) -> Launch:
    sequences, length, dim = (2, 4, 2048) if small else (32, 2048, 2048)
    x = random(sequences * length, dim, dtype=torch.bfloat16)
    mix, out = torch.rand(dim), torch.empty_like(x)
    options = {"DIM": dim, "num_warps": 4}
    grid = (sequences * length,)
    return Launch(shifted_tokens_kernel, grid, (x, mix, out, length), (out,), options)


@triton.jit
def best_class_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    """The place of the largest number of each row. Bound by DRAM."""
    columns = tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + tl.program_id(0) * COLUMNS + columns).to(tl.float32)
    best = tl.max(x, 0)
    tl.store(out_ptr + tl.program_id(0), tl.min(tl.where(x == best, columns, COLUMNS), 0))


def _best_class(small: bool) -> Launch:
    rows, columns = (4, 4096) if small else (1 << 15, 8192)
    x, out = random(rows, columns, dtype=torch.float16), empty(rows, dtype=torch.int32)
    options = {"COLUMNS": columns, "num_warps": 8}
    return Launch(best_class_kernel, (rows,), (x, out), (out,), options)


@triton.jit
def summed_up_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The sums of each row up to each of its numbers; a warp has a row. Bound by DRAM."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out_ptr + at, tl.cumsum(tl.load(x_ptr + at), 1))


def _summed_up(small: bool) -> Launch:
    rows, columns = (16, 128) if small else (1 << 20, 128)
    x, out = random(rows, columns), empty(rows, columns)
    options = {"ROWS": 16, "COLUMNS": columns, "num_warps": 4}
    return Launch(summed_up_kernel, (rows // 16,), (x, out), (out,), options)


@triton.jit
def gradient_norm_kernel(x_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """The sum of all squares, of which each program adds its share at its end. Bound by DRAM."""
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    first = tl.program_id(0) * steps * BLOCK + tl.arange(0, BLOCK)
    for step in range(steps):
        x = tl.load(x_ptr + first + step * BLOCK).to(tl.float32)
        total += x * x
    tl.atomic_add(out_ptr, tl.sum(total, 0), sem="relaxed")


def _gradient_norm(small: bool) -> Launch:
    programs, steps = (2, 4) if small else (8192, 8)
    x, out = random(programs * steps * 4096, dtype=torch.bfloat16), zeros(1)
    options = {"BLOCK": 4096, "num_warps": 8}
    return Launch(gradient_norm_kernel, (programs,), (x, out, steps), (out,), options)


@triton.jit
def packed_codes_kernel(x_ptr, out_ptr, scale, BLOCK: tl.constexpr):
    """Numbers as codes of four bits, two in a byte: those of a block's halves share one. Bound by DRAM."""
    lanes = tl.arange(0, BLOCK)
    x = x_ptr + tl.program_id(0) * 2 * BLOCK + lanes
    low = tl.load(x).to(tl.float32) * scale + 8.5
    high = tl.load(x + BLOCK).to(tl.float32) * scale + 8.5
    low_code = tl.minimum(tl.maximum(low, 0.0), 15.0).to(tl.int32)
    high_code = tl.minimum(tl.maximum(high, 0.0), 15.0).to(tl.int32)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + lanes, (low_code | (high_code << 4)).to(tl.uint8))


def _packed_codes(small: bool) -> Launch:
    n = 1 << (13 if small else 27)
    x, out = random(n), empty(n // 2, dtype=torch.uint8)
    options = {"BLOCK": 2048, "num_warps": 4}
    return Launch(packed_codes_kernel, (n // 4096,), (x, out, 2.5), (out,), options)


@triton.jit
def pooled_pixels_kernel(x_ptr, out_ptr, SIDE: tl.constexpr, CHANNELS: tl.constexpr, PIXELS: tl.constexpr):
    """Means of squares of four pixels, whose channels lie side by side. Bound by DRAM."""
    channels, row = tl.arange(0, CHANNELS), tl.program_id(1)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    x = x_ptr + (row * 2 * SIDE + 2 * pixel)[:, None] * CHANNELS + channels[None, :]
    total = tl.load(x).to(tl.float32) + tl.load(x + CHANNELS).to(tl.float32)
    total += tl.load(x + SIDE * CHANNELS).to(tl.float32)
    total += tl.load(x + (SIDE + 1) * CHANNELS).to(tl.float32)
    out = (row * (SIDE // 2) + pixel)[:, None] * CHANNELS + channels[None, :]
    tl.store(out_ptr + out, (0.25 * total).to(tl.float16))


def _pooled_pixels(small: bool) -> Launch:
    images, side, channels = (1, 16, 128) if small else (128, 128, 128)
    x = random(images, side, side, channels, dtype=torch.float16)
    out = empty(images, side // 2, side // 2, channels, dtype=torch.float16)
    options = {"SIDE": side, "CHANNELS": channels, "PIXELS": 8, "num_warps": 4}
    grid = (side // 16, images * side // 2)
    return Launch(pooled_pixels_kernel, grid, (x, out), (out,), options)


@triton.jit
def gated_residual_kernel(x_ptr, y_ptr, gate_ptr, out_ptr, BLOCK: tl.constexpr):
    """Between what came into a layer and what it made of it, as a gate says. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at).to(tl.float32), tl.load(y_ptr + at).to(tl.float32)
    open_ = 1.0 / (1.0 + tl.exp2(-1.44269504 * tl.load(gate_ptr + at).to(tl.float32)))
    tl.store(out_ptr + at, (x + open_ * (y - x)).to(tl.float16))


def _gated_residual(small: bool) -> Launch:
    n = 1 << (12 if small else 26)
    x, y, gate = (random(n, dtype=torch.float16) for _ in range(3))
    out = torch.empty_like(x)
    options = {"BLOCK": 2048, "num_warps": 8}
    return Launch(gated_residual_kernel, (n // 2048,), (x, y, gate, out), (out,), options)


@triton.jit
def similar_rows_kernel(x_ptr, y_ptr, out_ptr, ROWS: tl.constexpr, DIM: tl.constexpr):
    """The cosines of the angles between pairs of vectors. Bound by DRAM."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * DIM + tl.arange(0, DIM)[None, :]
    x, y = tl.load(x_ptr + at).to(tl.float32), tl.load(y_ptr + at).to(tl.float32)
    lengths = tl.sum(x * x, 1) * tl.sum(y * y, 1)
    tl.store(out_ptr + row, tl.sum(x * y, 1) * tl.rsqrt(lengths + 1e-12))


def _similar_rows(small: bool) -> Launch:
    rows, dim = (32, 256) if small else (1 << 19, 256)
    x, y = (random(rows, dim, dtype=torch.bfloat16) for _ in range(2))
    out = empty(rows)
    options = {"ROWS": 16, "DIM": dim, "num_warps": 4}
    return Launch(similar_rows_kernel, (rows // 16,), (x, y, out), (out,), options)


@triton.jit
def gathered_means_kernel(x_ptr, place_ptr, out_ptr, EACH: tl.constexpr, DIM: tl.constexpr):
    """Means of EACH rows of a table, all of which a program loads at once. Bound by DRAM."""
    dims = tl.arange(0, DIM)
    place = tl.load(place_ptr + tl.program_id(0) * EACH + tl.arange(0, EACH))
    x = tl.load(x_ptr + place.to(tl.int64)[:, None] * DIM + dims[None, :]).to(tl.float32)
    tl.store(out_ptr + tl.program_id(0) * DIM + dims, (tl.sum(x, 0) * (1.0 / EACH)).to(tl.float16))


def _gathered_means(small: bool) -> Launch:
    rows, bags = (256, 8) if small else (1 << 20, 1 << 16)
    x, place = random(rows, 512, dtype=torch.float16), integers(bags, 8, below=rows)
    out = empty(bags, 512, dtype=torch.float16)
    options = {"EACH": 8, "DIM": 512, "num_warps": 4}
    return Launch(gathered_means_kernel, (bags,), (x, place, out), (out,), options)


@triton.jit
def huber_kernel(x_ptr, y_ptr, grad_ptr, loss_ptr, scale, BLOCK: tl.constexpr):
    """Huber's loss of a block, and its gradient. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    away = tl.load(x_ptr + at).to(tl.float32) - tl.load(y_ptr + at).to(tl.float32)
    near = tl.minimum(tl.maximum(away, -1.0), 1.0)
    tl.store(grad_ptr + at, (near * scale).to(tl.float16))
    tl.store(loss_ptr + tl.program_id(0), tl.sum(near * (away - 0.5 * near), 0) * scale)


def _huber(small: bool) -> Launch:
    n = 1 << (13 if small else 26)
    x, y = random(n, dtype=torch.float16), random(n, dtype=torch.float16)
    grad, loss = torch.empty_like(x), empty(n // 4096)
    options = {"BLOCK": 4096, "num_warps": 8}
    args = (x, y, grad, loss, 0.5)
    return Launch(huber_kernel, (n // 4096,), args, (grad, loss), options)


@triton.jit
def float8_rows_kernel(x_ptr, out_ptr, scale_ptr, COLUMNS: tl.constexpr):
    """Rows as float8 (e5m2), with a scale for each. Bound by DRAM."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at).to(tl.float32)
    peak = tl.maximum(tl.max(tl.abs(x), 0), 1e-6)
    tl.store(scale_ptr + tl.program_id(0), peak * (1.0 / 16384.0))
    tl.store(out_ptr + at, (x * (16384.0 / peak)).to(tl.float8e5))


def _float8_rows(small: bool) -> Launch:
    rows, columns = (4, 2048) if small else (1 << 15, 4096)
    x = random(rows, columns, dtype=torch.bfloat16)
    out, scale = empty(rows, columns, dtype=torch.float8_e5m2), empty(rows)
    options = {"COLUMNS": columns, "num_warps": 4}
    return Launch(float8_rows_kernel, (rows,), (x, out, scale), (scale, out), options)


@triton.jit
def pendulums_kernel(angle_ptr, speed_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Where pendulums, which friction slows down, are after some time. Bound by the FP32 pipe."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    angle, speed = tl.load(angle_ptr + at), tl.load(speed_ptr + at)
    for _ in range(steps):
        square = angle * angle
        force = angle * (1.0 + square * (-0.16666667 + square * (0.00833333 - 0.00019841 * square)))
        speed = 0.999 * speed - 0.01 * force
        angle += 0.01 * speed
    tl.store(out_ptr + at, angle)


def _pendulums(small: bool) -> Launch:
    n, steps = (4096, 16) if small else (132 * 8 * 2048, 512)
    angle, speed, out = torch.rand(n), random(n), empty(n)
    options = {"BLOCK": 1024, "num_warps": 4}
    args = (angle, speed, out, steps)
    return Launch(pendulums_kernel, (n // 1024,), args, (out,), options)


@triton.jit
def directions_kernel(x_ptr, y_ptr, wave_ptr, out_ptr, waves, BLOCK: tl.constexpr):
    """Sums of waves from many directions at each point. Bound by the special-function unit."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for wave in range(waves):
        east, north = tl.load(wave_ptr + 2 * wave), tl.load(wave_ptr + 2 * wave + 1)
        total += libdevice.fast_cosf(x * east + y * north)
    tl.store(out_ptr + at, total)


def _directions(small: bool) -> Launch:
    n, waves = (2048, 16) if small else (132 * 16 * 512, 256)
    x, y, wave, out = random(n), random(n), 3.0 * random(waves, 2), empty(n)
    options = {"BLOCK": 512, "num_warps": 4}
    args = (x, y, wave, out, waves)
    return Launch(directions_kernel, (n // 512,), args, (out,), options)


def _case(name: str, prepare: Prepare) -> Case:
    return Case(name, (), (), True, prepare, round=6)


CASES = (
    _case("good Adagrad step", _adagrad),
    _case("good rows of length 1", _unit_rows),
    _case("good shift of tokens", _shifted_tokens),
    _case("good best class", _best_class),
    _case("good sums up to each number", _summed_up),
    _case("good norm of gradients", _gradient_norm),
    _case("good codes of four bits", _packed_codes),
    _case("good mean of four pixels", _pooled_pixels),
    _case("good gated residual", _gated_residual),
    _case("good cosines of rows", _similar_rows),
    _case("good means of gathered rows", _gathered_means),
    _case("good Huber loss", _huber),
    _case("good rows of float8", _float8_rows),
    _case("good pendulums", _pendulums),
    _case("good waves from everywhere", _directions),
)
