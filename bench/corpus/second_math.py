"""Second round, faults of arithmetic, reductions and layouts."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES", "best_logit", "n_body"]


@triton.jit
def running_variance_kernel(x_ptr, out_ptr, COLS: tl.constexpr, BLOCK: tl.constexpr, DTYPE: tl.constexpr):
    """Variances of rows by Welford's update, of each lane, and merged at the end."""
    mean = tl.zeros((BLOCK,), dtype=DTYPE)
    spread = tl.zeros((BLOCK,), dtype=DTYPE)
    for step in range(COLS // BLOCK):
        at = tl.program_id(0) * COLS + step * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at).to(DTYPE)  # fault
        away = x - mean
        mean += away / (step + 1).to(DTYPE)  # fault
        spread += away * (x - mean)  # fault
    away = mean - tl.sum(mean, 0) / BLOCK
    out = (tl.sum(spread, 0) + tl.sum(away * away, 0) * (COLS // BLOCK)) / COLS
    tl.store(out_ptr + tl.program_id(0), out.to(tl.float32))


def _variance(dtype: Any) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (2, 4096) if small else (4224, 16384)
        x, out = random(rows, cols), empty(rows)
        options = {"COLS": cols, "BLOCK": 1024, "DTYPE": dtype, "num_warps": 4}
        return Launch(running_variance_kernel, (rows,), (x, out), (out,), options)

    return prepare


@triton.jit
def exact_forces_kernel(x_ptr, y_ptr, m_ptr, fx_ptr, fy_ptr, n, BODIES: tl.constexpr, OTHERS: tl.constexpr):
    """Forces between bodies of a plane, with a root and a division that are rounded exactly."""
    body = tl.program_id(0) * BODIES + tl.arange(0, BODIES)
    x, y = tl.load(x_ptr + body), tl.load(y_ptr + body)
    fx, fy = tl.zeros((BODIES, OTHERS), dtype=tl.float32), tl.zeros((BODIES, OTHERS), dtype=tl.float32)
    for start in range(0, n, OTHERS):
        other = start + tl.arange(0, OTHERS)
        dx = tl.load(x_ptr + other)[None, :] - x[:, None]
        dy = tl.load(y_ptr + other)[None, :] - y[:, None]
        away = tl.sqrt_rn(dx * dx + dy * dy + 0.01)  # fault
        pull = tl.div_rn(tl.load(m_ptr + other)[None, :], away * away * away)  # fault
        fx += dx * pull
        fy += dy * pull
    tl.store(fx_ptr + body, tl.sum(fx, 1))
    tl.store(fy_ptr + body, tl.sum(fy, 1))


@triton.jit
def forces_kernel(x_ptr, y_ptr, m_ptr, fx_ptr, fy_ptr, n, BODIES: tl.constexpr, OTHERS: tl.constexpr):
    """As exact_forces_kernel, by the approximate inverse root."""
    body = tl.program_id(0) * BODIES + tl.arange(0, BODIES)
    x, y = tl.load(x_ptr + body), tl.load(y_ptr + body)
    fx, fy = tl.zeros((BODIES, OTHERS), dtype=tl.float32), tl.zeros((BODIES, OTHERS), dtype=tl.float32)
    for start in range(0, n, OTHERS):
        other = start + tl.arange(0, OTHERS)
        dx = tl.load(x_ptr + other)[None, :] - x[:, None]
        dy = tl.load(y_ptr + other)[None, :] - y[:, None]
        near = tl.rsqrt(dx * dx + dy * dy + 0.01)
        pull = tl.load(m_ptr + other)[None, :] * near * near * near
        fx += dx * pull
        fy += dy * pull
    tl.store(fx_ptr + body, tl.sum(fx, 1))
    tl.store(fy_ptr + body, tl.sum(fy, 1))


def n_body(exact: bool, bodies: int = 132 * 128) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 128 if small else bodies
        x, y, m = random(n), random(n), torch.rand(n)
        fx, fy = empty(n), empty(n)
        kernel = exact_forces_kernel if exact else forces_kernel
        options = {"BODIES": 16, "OTHERS": 128, "num_warps": 4}
        return Launch(kernel, (n // 16,), (x, y, m, fx, fy, n), (fx, fy), options)

    return prepare


@triton.jit
def divided_upsample_kernel(x_ptr, out_ptr, height, width, out_height, out_width, BLOCK: tl.constexpr):
    """Nearest pixels of a smaller image, all found from the place in out."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = offs % out_width * width // out_width  # fault
    row = offs // out_width % out_height * height // out_height  # fault
    plane = offs // (out_width * out_height)  # fault
    tl.store(out_ptr + offs, tl.load(x_ptr + (plane * height + row) * width + column))


@triton.jit
def upsample_kernel(x_ptr, out_ptr, height, width, out_height, OUT_WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """As divided_upsample_kernel: a program for rows of a plane, with columns found once."""
    out_column, plane = tl.arange(0, OUT_WIDTH), tl.program_id(1)
    column = out_column * width // OUT_WIDTH
    for i in range(ROWS):
        out_row = tl.program_id(0) * ROWS + i
        row = out_row * height // out_height
        x = tl.load(x_ptr + (plane * height + row) * width + column)
        tl.store(out_ptr + (plane * out_height + out_row) * OUT_WIDTH + out_column, x)


def _upsample(divided: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        planes, side, out_side = (1, 50, 128) if small else (64, 401, 1024)
        x = random(planes, side, side, dtype=torch.float16)
        out = empty(planes, out_side, out_side, dtype=torch.float16)
        if divided:
            args = (x, out, side, side, out_side, out_side)
            options = {"BLOCK": 1024, "num_warps": 4}
            return Launch(divided_upsample_kernel, (out.numel() // 1024,), args, (out,), options)
        options = {"OUT_WIDTH": out_side, "ROWS": 8, "num_warps": 4}
        grid = (out_side // 8, planes)
        return Launch(upsample_kernel, grid, (x, out, side, side, out_side), (out,), options)

    return prepare


@triton.jit
def scale_search_kernel(x_ptr, out_ptr, LONG: tl.constexpr, TRIES: tl.constexpr, BLOCK: tl.constexpr):
    """The least squared error of each value when it is rounded to multiples of some scales, summed."""
    least = tl.full((BLOCK,), 1e30, dtype=tl.float32)
    x = tl.abs(tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)))
    for i in tl.static_range(TRIES):
        y = x * (8.0 + i)
        # a float32 of this size has no fraction
        whole = (y + 0.5).to(tl.int64).to(tl.float32) if LONG else (y + 8388608.0) - 8388608.0  # fault
        error = (y - whole) * (1.0 / (8.0 + i))
        least = tl.minimum(least, error * error)
    tl.store(out_ptr + tl.program_id(0), tl.sum(least, 0))


def _scale_search(long: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (12 if small else 26)
        x, out = random(n), empty(n // 1024)
        options = {"LONG": long, "TRIES": 16, "BLOCK": 1024, "num_warps": 4}
        return Launch(scale_search_kernel, (n // 1024,), (x, out), (out,), options)

    return prepare


@triton.jit
def wasteful_dropout_kernel(x_ptr, out_ptr, quarter, seed, BLOCK: tl.constexpr):
    """Dropout: each element draws four random numbers, and takes that of its quarter."""
    part = tl.program_id(1)
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.rand4x(seed, offs)  # fault
    draw = tl.where(part < 2, tl.where(part == 0, a, b), tl.where(part == 2, c, d))
    x = tl.load(x_ptr + part * quarter + offs)
    tl.store(out_ptr + part * quarter + offs, tl.where(draw > 0.25, x * (4.0 / 3.0), 0.0))


@triton.jit
def _drop(x_ptr, out_ptr, offs, draw):
    tl.store(out_ptr + offs, tl.where(draw > 0.25, tl.load(x_ptr + offs) * (4.0 / 3.0), 0.0))


@triton.jit
def dropout_kernel(x_ptr, out_ptr, quarter, seed, BLOCK: tl.constexpr):
    """As wasteful_dropout_kernel: an element of each quarter shares what is drawn."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b, c, d = tl.rand4x(seed, offs)
    _drop(x_ptr, out_ptr, offs, a)
    _drop(x_ptr, out_ptr, quarter + offs, b)
    _drop(x_ptr, out_ptr, 2 * quarter + offs, c)
    _drop(x_ptr, out_ptr, 3 * quarter + offs, d)


def _dropout(wasteful: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        length = 1 << (12 if small else 26)
        x, out = random(length), empty(length)
        kernel = wasteful_dropout_kernel if wasteful else dropout_kernel
        options = {"BLOCK": 1024, "num_warps": 4}
        grid = (length // 4096, 4 if wasteful else 1)
        return Launch(kernel, grid, (x, out, length // 4, 1234), (out,), options)

    return prepare


@triton.jit
def best_each_step_kernel(x_ptr, at_ptr, best_ptr, cols, BLOCK: tl.constexpr):
    """Greedy sampling: the best logit of a row, found in each of its blocks."""
    best, at = -1e30, 0
    for start in range(0, cols, BLOCK):
        x = tl.load(x_ptr + tl.program_id(0) * cols + start + tl.arange(0, BLOCK))
        value, place = tl.max(x, 0, return_indices=True)  # fault
        at = tl.where(value > best, start + place, at)
        best = tl.maximum(best, value)
    tl.store(at_ptr + tl.program_id(0), at)
    tl.store(best_ptr + tl.program_id(0), best)


@triton.jit
def best_of_lanes_kernel(x_ptr, at_ptr, best_ptr, cols, BLOCK: tl.constexpr):
    """As best_each_step_kernel: each lane keeps its best one."""
    lanes = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    at = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, cols, BLOCK):
        x = tl.load(x_ptr + tl.program_id(0) * cols + start + lanes)
        at = tl.where(x > best, start + lanes, at)
        best = tl.maximum(best, x)
    value, lane = tl.max(best, 0, return_indices=True)
    tl.store(at_ptr + tl.program_id(0), tl.sum(tl.where(lanes == lane, at, 0), 0))
    tl.store(best_ptr + tl.program_id(0), value)


def best_logit(each_step: bool, rows: int = 1056, block: int = 1024) -> Prepare:
    def prepare(small: bool) -> Launch:
        count, cols = (2, 8192) if small else (rows, 131072)
        x, at, best = random(count, cols), empty(count, dtype=torch.int32), empty(count)
        kernel = best_each_step_kernel if each_step else best_of_lanes_kernel
        options = {"BLOCK": block, "num_warps": 4}
        return Launch(kernel, (count,), (x, at, best, cols), (at, best), options)

    return prepare


@gluon.jit
def frame_peaks_kernel(x_ptr, out_ptr, steps, FRAMES: gl.constexpr, SIDE: gl.constexpr, TURN: gl.constexpr):
    """The peak of each pixel over frames; TURN: each frame is converted to the layout that is written."""
    by_rows: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    by_columns: gl.constexpr = gl.BlockedLayout([4, 1], [16, 2], [1, 4], [0, 1])
    rows = gl.arange(0, SIDE, layout=gl.SliceLayout(1, by_rows))
    cols = gl.arange(0, SIDE, layout=gl.SliceLayout(0, by_rows))
    offs = rows[:, None] * SIDE + cols[None, :]
    peak = gl.full([SIDE, SIDE], -1e30, gl.float32, by_columns if TURN else by_rows)
    for step in range(steps):
        frame = (gl.program_id(0) * steps + step) % FRAMES
        x = gl.load(x_ptr + frame * SIDE * SIDE + offs)
        if TURN:
            x = gl.convert_layout(x, by_columns)  # fault
        peak = gl.maximum(peak, x)
    peak = gl.convert_layout(peak, by_columns)
    rows_out = gl.arange(0, SIDE, layout=gl.SliceLayout(1, by_columns))
    cols_out = gl.arange(0, SIDE, layout=gl.SliceLayout(0, by_columns))
    out = out_ptr + gl.program_id(0) * SIDE * SIDE + cols_out[None, :] * SIDE + rows_out[:, None]
    gl.store(out, peak)


def _frame_peaks(turn: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps, frames = (2, 4, 8) if small else (132 * 8, 64, 512)
        x, out = random(frames, 64, 64), empty(programs, 64, 64)
        options = {"FRAMES": frames, "SIDE": 64, "TURN": turn, "num_warps": 4}
        return Launch(frame_peaks_kernel, (programs,), (x, out, steps), (out,), options)

    return prepare


CASES = (
    Case(
        "Welford in float64",
        ("fp64-arithmetic",),
        ("counts",),
        True,
        _variance(tl.float64),
        _variance(tl.float32),
        round=2,
    ),
    Case(
        "forces rounded exactly",
        ("slow-math", "issue-bound"),
        ("counts",),
        True,
        n_body(True),
        n_body(False),
        round=2,
    ),
    Case(
        "upsampled by division",
        ("index-arithmetic",),
        ("counts",),
        True,
        _upsample(True),
        _upsample(False),
        round=2,
    ),
    Case(
        "scales tried through int64",
        ("conversions",),
        ("counts",),
        True,
        _scale_search(True),
        _scale_search(False),
        round=2,
    ),
    Case(
        "four draws for one",
        ("issue-bound", "index-arithmetic"),
        ("counts", "counters"),
        True,
        _dropout(True),
        _dropout(False),
        round=2,
    ),
    Case(
        "best logit each step",
        ("serial-reduction",),
        ("spans", "samples"),
        True,
        best_logit(True),
        best_logit(False),
        round=2,
    ),
    Case(
        "frames turned one by one",
        ("layout-conversion",),
        ("counts", "spans"),
        True,
        _frame_peaks(True),
        _frame_peaks(False),
        round=2,
    ),
)
