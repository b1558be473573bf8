"""Eleventh round, kernels of models without a fault: optimisers, pairs, agents, graphs, recurrences."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faultless_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def nearer_orthogonal_kernel(
    gram_ptr, x_ptr, out_ptr, rows, columns, share, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """The last product of a step of Newton and Schulz, a X + B X (Muon). Bound by tensor cores."""
    group = tl.program_id(0) // (GROUP * (columns // COLUMNS))
    rest = tl.program_id(0) % (GROUP * (columns // COLUMNS))
    row = (group * GROUP + rest % GROUP) * ROWS + tl.arange(0, ROWS)
    column, inner = rest // GROUP * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    gram_at = gram_ptr + row[:, None] * rows + inner[None, :]
    x_at = x_ptr + inner[:, None] * columns + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, rows, DEPTH):
        total = tl.dot(tl.load(gram_at), tl.load(x_at), total)
        gram_at += DEPTH
        x_at += DEPTH * columns
    at = row[:, None] * columns + column[None, :]
    total += share * tl.load(x_ptr + at).to(tl.float32)
    tl.store(out_ptr + at, total.to(tl.bfloat16))


def _nearer_orthogonal(
    rows_of_program: int, columns_of_program: int, depth: int, num_warps: int, num_stages: int
) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns = (256, 512) if small else (4096, 14336)
        gram = rows**-0.5 * random(rows, rows, dtype=torch.bfloat16)
        x = random(rows, columns, dtype=torch.bfloat16)
        out = torch.empty_like(x)
        options = {"ROWS": rows_of_program, "COLUMNS": columns_of_program, "DEPTH": depth}
        options |= {"GROUP": min(16, rows // rows_of_program), "num_warps": num_warps}
        grid = (rows // rows_of_program * (columns // columns_of_program),)
        args = (gram, x, out, rows, columns, 3.4445)
        return Launch(nearer_orthogonal_kernel, grid, args, (out,), options | {"num_stages": num_stages})

    return prepare


@triton.jit
def pair_loss_kernel(
    image_ptr, text_ptr, loss_ptr, texts, warmth, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DIM: tl.constexpr
):
    """How unlikely each image's own text is among all texts; vectors of length 1 bound the logits (CLIP).
    Bound by tensor cores and exponentials."""
    row, dim = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)
    image = tl.load(image_ptr + row[:, None] * DIM + dim[None, :])
    text_at = text_ptr + tl.arange(0, COLUMNS)[None, :] * DIM + dim[:, None]
    scale = warmth * 1.4426950408889634
    mass = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, texts, COLUMNS):
        mass += tl.exp2(tl.dot(image, tl.load(text_at)) * scale - scale)
        text_at += COLUMNS * DIM
    own = tl.load(text_ptr + row[:, None] * DIM + dim[None, :]).to(tl.float32)
    near = tl.sum(image.to(tl.float32) * own, 1)
    tl.store(loss_ptr + row, tl.log(tl.sum(mass, 1)) + warmth * (1.0 - near))


def _pair_loss(rows_of_program: int, columns: int, num_warps: int, num_stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pairs = 256 if small else 16896
        image, text = (
            torch.nn.functional.normalize(random(pairs, 128), dim=1).to(torch.bfloat16) for _ in range(2)
        )
        loss = empty(pairs)
        options = {"ROWS": rows_of_program, "COLUMNS": columns, "DIM": 128, "num_warps": num_warps}
        args = (image, text, loss, pairs, 14.0)
        grid = (pairs // rows_of_program,)
        return Launch(pair_loss_kernel, grid, args, (loss,), options | {"num_stages": num_stages})

    return prepare


@triton.jit
def quantile_loss_kernel(
    own_ptr, target_ptr, loss_ptr, grad_ptr, QUANTILES: tl.constexpr, CHUNK: tl.constexpr
):
    """The loss of a distribution's quantiles against all of another's, and its gradient (QR-DQN).
    Bound by arithmetic."""
    quantile = tl.arange(0, QUANTILES)
    at, other = tl.program_id(0) * QUANTILES + quantile, tl.program_id(0) * QUANTILES + tl.arange(0, CHUNK)
    own = tl.load(own_ptr + at)[:, None]
    share = ((quantile.to(tl.float32) + 0.5) * (1.0 / QUANTILES))[:, None]
    left = 1.0 - share
    loss = tl.zeros((QUANTILES, CHUNK), dtype=tl.float32)
    grad = tl.zeros((QUANTILES, CHUNK), dtype=tl.float32)
    for start in tl.static_range(0, QUANTILES, CHUNK):
        error = tl.load(target_ptr + other + start)[None, :] - own
        cut = tl.clamp(error, -1.0, 1.0)
        pull = cut * tl.where(error < 0.0, left, share)
        loss += pull * (error - 0.5 * cut)
        grad += pull
    tl.store(loss_ptr + tl.program_id(0), tl.sum(loss) * (1.0 / QUANTILES))
    tl.store(grad_ptr + at, tl.sum(grad, 1) * (-1.0 / QUANTILES))


def _quantile_loss(chunk: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        samples = 4 if small else 32768
        own, target = (random(samples, 128) for _ in range(2))
        loss, grad = empty(samples), torch.empty_like(own)
        options = {"QUANTILES": 128, "CHUNK": chunk, "num_warps": num_warps}
        return Launch(quantile_loss_kernel, (samples,), (own, target, loss, grad), (loss, grad), options)

    return prepare


@triton.jit
def neighbours_peak_kernel(
    x_ptr, near_ptr, out_ptr, points, NEIGHBOURS: tl.constexpr, POINTS: tl.constexpr, DIM: tl.constexpr
):
    """The peaks of features of each point's nearest points; indices are kept neighbour by neighbour.
    Bound by L2."""
    point, dim = tl.program_id(0) * POINTS + tl.arange(0, POINTS), tl.arange(0, DIM)[None, :]
    peak = tl.full((POINTS, DIM), -65504.0, dtype=tl.float16)
    for each in tl.static_range(NEIGHBOURS):
        near = tl.load(near_ptr + each * points + point)
        peak = tl.maximum(peak, tl.load(x_ptr + near[:, None] * DIM + dim))
    tl.store(out_ptr + point[:, None] * DIM + dim, peak)


def _neighbours_peak(points_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        points = 4 * points_of_program if small else 1 << 17
        x, near = random(points, 64, dtype=torch.float16), integers(16, points, below=points)
        out = torch.empty_like(x)
        options = {"NEIGHBOURS": 16, "POINTS": points_of_program, "DIM": 64, "num_warps": num_warps}
        grid = (points // points_of_program,)
        return Launch(neighbours_peak_kernel, grid, (x, near, out, points), (out,), options)

    return prepare


@triton.jit
def recurrent_gates_kernel(
    x_ptr, past_ptr, state_ptr, out_ptr, UNITS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Gates of a recurrent unit from its two products, and its next state (GRU). Bound by DRAM."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    unit = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    gate, at = row * (3 * UNITS) + unit, row * UNITS + unit
    x_reset, past_reset = tl.load(x_ptr + gate), tl.load(past_ptr + gate)
    x_keep, past_keep = tl.load(x_ptr + gate + UNITS), tl.load(past_ptr + gate + UNITS)
    x_new, past_new = tl.load(x_ptr + gate + 2 * UNITS), tl.load(past_ptr + gate + 2 * UNITS)
    state = tl.load(state_ptr + at).to(tl.float32)
    reset = tl.sigmoid(x_reset.to(tl.float32) + past_reset.to(tl.float32))
    keep = tl.sigmoid(x_keep.to(tl.float32) + past_keep.to(tl.float32))
    new = 2.0 * tl.sigmoid(2.0 * (x_new.to(tl.float32) + reset * past_new.to(tl.float32))) - 1.0
    tl.store(out_ptr + at, (new + keep * (state - new)).to(tl.bfloat16))


def _recurrent_gates(rows_of_program: int, block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 2 * rows_of_program if small else 32768
        x, past = (random(rows, 3, 1024, dtype=torch.bfloat16) for _ in range(2))
        state, out = random(rows, 1024, dtype=torch.bfloat16), empty(rows, 1024, dtype=torch.bfloat16)
        options = {"UNITS": 1024, "ROWS": rows_of_program, "BLOCK": block, "num_warps": num_warps}
        grid = (1024 // block, rows // rows_of_program)
        return Launch(recurrent_gates_kernel, grid, (x, past, state, out), (out,), options)

    return prepare


_good = faultless_of(11)

CASES = (
    _good("good matrices nearer to orthogonal", _nearer_orthogonal(128, 256, 64, 8, 4)),
    _good("good losses of pairs among all pairs", _pair_loss(64, 128, 4, 3)),
    _good("good quantiles of returns", _quantile_loss(8, 2)),
    _good("good peaks of nearest points", _neighbours_peak(8, 1)),
    _good("good gates of recurrent units", _recurrent_gates(1, 1024, 4)),
)
