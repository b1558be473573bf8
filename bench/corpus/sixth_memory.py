"""Sixth round, faults of memory: how data is reached, how often, and what waits for it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def slower_signal_kernel(
    x_ptr, filter_ptr, out_ptr, length, RATE: tl.constexpr, TILES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Filters a signal and keeps one sample of RATE; TILES: a tile has the samples of RATE taps."""
    out = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if TILES:
        taps = tl.arange(0, RATE)
        acc = tl.zeros((BLOCK, RATE), dtype=tl.float32)
        for tap in range(0, length, RATE):
            x = tl.load(x_ptr + (out * RATE + tap)[:, None] + taps[None, :])
            acc += x * tl.load(filter_ptr + tap + taps)[None, :]
        y = tl.sum(acc, 1)
    else:
        y = tl.zeros((BLOCK,), dtype=tl.float32)
        for tap in range(length):
            y += tl.load(x_ptr + out * RATE + tap) * tl.load(filter_ptr + tap)  # fault
    tl.store(out_ptr + out, y)


def _slower_signal(tiles: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (11 if small else 22)
        x, weights, out = random(n * 8 + 32), random(32), empty(n)
        options = {"RATE": 8, "TILES": tiles, "BLOCK": 512, "num_warps": 4}
        return Launch(slower_signal_kernel, (n // 512,), (x, weights, out, 32), (out,), options)

    return prepare


@triton.jit
def unpacked_matrix_kernel(packed_ptr, out_ptr, SIDE: tl.constexpr, TILE: tl.constexpr, TURN: tl.constexpr):
    """Symmetric matrices out of their packed upper halves; TURN: tiles of the lower half are turned."""
    row_tile, column_tile, matrix = tl.program_id(1), tl.program_id(0), tl.program_id(2)
    rows, columns = row_tile * TILE + tl.arange(0, TILE), column_tile * TILE + tl.arange(0, TILE)
    packed = packed_ptr + matrix * (SIDE * (SIDE + 1) // 2)
    if TURN and row_tile > column_tile:
        begin = columns * (2 * SIDE - 1 - columns) // 2
        tile = tl.trans(tl.load(packed + begin[:, None] + rows[None, :]))
    else:
        low = tl.minimum(rows[:, None], columns[None, :])
        high = tl.maximum(rows[:, None], columns[None, :])
        tile = tl.load(packed + low * (2 * SIDE - 1 - low) // 2 + high)  # fault
    tl.store(out_ptr + matrix * SIDE * SIDE + rows[:, None] * SIDE + columns[None, :], tile)


def _unpacked_matrix(turn: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        matrices, side = (1, 256) if small else (16, 2048)
        packed = random(matrices, side * (side + 1) // 2, dtype=torch.bfloat16)
        out = empty(matrices, side, side, dtype=torch.bfloat16)
        options = {"SIDE": side, "TILE": 64, "TURN": turn, "num_warps": 4}
        grid = (side // 64, side // 64, matrices)
        return Launch(unpacked_matrix_kernel, grid, (packed, out), (out,), options)

    return prepare


@triton.jit
def surround_kernel(left_ptr, right_ptr, out_ptr, JOIN: tl.constexpr, BLOCK: tl.constexpr):
    """Eight channels of sound, sample by sample, out of two; JOIN: all of a sample are stored at once."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left, right = tl.load(left_ptr + at), tl.load(right_ptr + at)
    centre, apart = 0.7 * (left + right), 0.7 * (left - right)
    bass = 0.5 * centre
    left_back, right_back = 0.6 * left + 0.4 * apart, 0.6 * right - 0.4 * apart
    left_side, right_side = 0.8 * left + 0.2 * apart, 0.8 * right - 0.2 * apart
    if JOIN:
        even = tl.join(tl.join(left, left_back), tl.join(centre, left_side))
        odd = tl.join(tl.join(right, right_back), tl.join(bass, right_side))
        channel = tl.arange(0, 8)
        tl.store(out_ptr + at[:, None] * 8 + channel[None, :], tl.reshape(tl.join(even, odd), (BLOCK, 8)))
    else:
        tl.store(out_ptr + at * 8, left)  # fault
        tl.store(out_ptr + at * 8 + 1, right)  # fault
        tl.store(out_ptr + at * 8 + 2, centre)  # fault
        tl.store(out_ptr + at * 8 + 3, bass)  # fault
        tl.store(out_ptr + at * 8 + 4, left_back)  # fault
        tl.store(out_ptr + at * 8 + 5, right_back)  # fault
        tl.store(out_ptr + at * 8 + 6, left_side)  # fault
        tl.store(out_ptr + at * 8 + 7, right_side)  # fault


def _surround(join: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (12 if small else 24)
        left, right = random(n, dtype=torch.float16), random(n, dtype=torch.float16)
        out = empty(n, 8, dtype=torch.float16)
        options = {"JOIN": join, "BLOCK": 512, "num_warps": 4}
        return Launch(surround_kernel, (n // 512,), (left, right, out), (out,), options)

    return prepare


@triton.jit
def _row_in_image(row, width, height):
    """Where a row begins, or the nearest one that the image has."""
    return tl.minimum(tl.maximum(row, 0), height - 1) * width


@triton.jit
def vertical_blur_kernel(image_ptr, out_ptr, width, height, CLAMP: tl.constexpr, BLOCK: tl.constexpr):
    """A blur along the columns of an image; CLAMP: columns, too, are the nearest ones that there are."""
    row, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = at
    if CLAMP:
        column = tl.minimum(tl.maximum(at, 0), width - 1)  # fault
    total = tl.load(image_ptr + row * width + column).to(tl.int32) * 20  # fault
    for away in tl.static_range(1, 4):
        above = image_ptr + _row_in_image(row - away, width, height)
        below = image_ptr + _row_in_image(row + away, width, height)
        both = tl.load(above + column).to(tl.int32) + tl.load(below + column).to(tl.int32)  # fault
        total += both * (15 if away == 1 else 6 if away == 2 else 1)
    tl.store(out_ptr + row * width + at, ((total + 32) >> 6).to(tl.uint8))


def _vertical_blur(clamp: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        height, width = (8, 2048) if small else (16384, 8192)
        image = integers(height, width, below=256, dtype=torch.uint8)
        out = torch.empty_like(image)
        options = {"CLAMP": clamp, "BLOCK": 2048, "num_warps": 4}
        grid = (width // 2048, height)
        return Launch(vertical_blur_kernel, grid, (image, out, width, height), (out,), options)

    return prepare


@triton.jit
def biased_scores_kernel(
    score_ptr, bias_ptr, out_ptr, size, SEQUENCE_FIRST: tl.constexpr, BLOCK: tl.constexpr
):
    """Adds a learned bias, which all sequences share, to scores of attention."""
    if SEQUENCE_FIRST:
        sequence, block = tl.program_id(0), tl.program_id(1)
    else:
        sequence, block = tl.program_id(1), tl.program_id(0)
    at = block * BLOCK + tl.arange(0, BLOCK)
    bias = tl.load(bias_ptr + at)  # fault
    score = tl.load(score_ptr + sequence * size + at).to(tl.float32)
    tl.store(out_ptr + sequence * size + at, (0.125 * score + bias).to(tl.bfloat16))


def _biased_scores(sequence_first: bool) -> Prepare:
    """The bias has five times the size of the L2 cache."""

    def prepare(small: bool) -> Launch:
        sequences, heads, length = (2, 1, 64) if small else (4, 16, 2048)
        size = heads * length * length
        score, bias = random(sequences, size, dtype=torch.bfloat16), random(size)
        out = torch.empty_like(score)
        grid = (sequences, size // 2048) if sequence_first else (size // 2048, sequences)
        options = {"SEQUENCE_FIRST": sequence_first, "BLOCK": 2048, "num_warps": 4}
        return Launch(biased_scores_kernel, grid, (score, bias, out, size), (out,), options)

    return prepare


@triton.jit
def machines_kernel(
    state_ptr, command_ptr, table_ptr, out_ptr, machines, steps, state_stride, command_stride,
    SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The last states of machines that follow commands; a table has the next state for each."""
    machine = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    table = tl.load(table_ptr + tl.arange(0, SIZE))
    state = tl.load(state_ptr + machine)
    for step in range(steps):
        command = tl.load(command_ptr + step * machines + machine).to(tl.int32)
        state = tl.gather(table, state * state_stride + command * command_stride, 0)  # fault
    tl.store(out_ptr + machine, state)


def _machines(by_command: bool) -> Prepare:
    """Most machines have the same command in a step; by_command: the states of a command lie together."""

    def prepare(small: bool) -> Launch:
        machines, steps = (2048, 4) if small else (1 << 20, 64)
        table = torch.argsort(torch.rand(32, 32), 1).int()
        command = integers(steps, 1, below=32).expand(steps, machines)
        other = integers(steps, machines, below=32)
        command = torch.where(torch.rand(steps, machines) < 0.03, other, command).to(torch.uint8)
        state, out = integers(machines, below=32), empty(machines, dtype=torch.int32)
        table = table if by_command else table.t().contiguous()
        strides = (1, 32) if by_command else (32, 1)
        args = (state, command, table, out, machines, steps, *strides)
        options = {"SIZE": 1024, "BLOCK": 2048, "num_warps": 4}
        return Launch(machines_kernel, (machines // 2048,), args, (out,), options)

    return prepare


_case = faults_of(6)


CASES = (
    _case(
        "filtered signal at an eighth of its rate",
        ("uncoalesced-load",),
        ("counts",),
        True,
        _slower_signal(False),
        _slower_signal(True),
    ),
    _case(
        "lower halves out of packed matrices",
        ("uncoalesced-load",),
        ("counts",),
        True,
        _unpacked_matrix(False),
        _unpacked_matrix(True),
    ),
    _case(
        "surround channels stored one by one",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _surround(False),
        _surround(True),
    ),
    _case(
        "columns of a blur clamped",
        ("unvectorized-access",),
        ("counts",),
        True,
        _vertical_blur(True),
        _vertical_blur(False),
    ),
    _case(
        "bias read for each sequence",
        ("tile-reread",),
        ("counters",),
        False,
        _biased_scores(False),
        _biased_scores(True),
    ),
    _case(
        "machines' table with states as rows",
        ("bank-conflict",),
        ("counts",),
        True,
        _machines(False),
        _machines(True),
    ),
)
