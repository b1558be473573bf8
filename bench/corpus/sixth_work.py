"""Sixth round, faults of the work: spills, atomics, waits, and what is loaded or computed for nothing."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def joined_paths_kernel(a_ptr, b_ptr, length_ptr, over_ptr, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The shortest ways from each town by some third one to each other town, and which one that is."""
    row, base = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.program_id(2) * N * N
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    shortest = tl.full((ROWS, COLUMNS), 1e9, dtype=tl.float32)
    over = tl.zeros((ROWS, COLUMNS), dtype=tl.int32)
    for town in range(N):
        first, second = tl.load(a_ptr + base + town * N + row), tl.load(b_ptr + base + town * N + column)
        way = first[:, None] + second[None, :]
        over = tl.where(way < shortest, town, over)  # fault
        shortest = tl.minimum(way, shortest)  # fault
    out = base + row[:, None] * N + column[None, :]
    tl.store(length_ptr + out, shortest)
    tl.store(over_ptr + out, over)


def _joined_paths(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        maps, n = (1, 128) if small else (16, 512)
        a, b, length = torch.rand(maps, n, n), torch.rand(maps, n, n), empty(maps, n, n)
        over = empty(maps, n, n, dtype=torch.int32)
        options = {"ROWS": 64, "COLUMNS": 128, "num_warps": warps}
        args = (a, b, length, over, n)
        return Launch(joined_paths_kernel, (n // 128, n // 64, maps), args, (length, over), options)

    return prepare


@triton.jit
def time_scales_kernel(frame_ptr, out_ptr, pixels, frames, BLOCK: tl.constexpr):
    """How much each pixel of a film moves on ten scales of time, by their means' differences."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.zeros((BLOCK,), dtype=tl.float32)
    b, c, d, e, f, g, h, i, j = a, a, a, a, a, a, a, a, a
    for frame in range(frames):
        x = tl.load(frame_ptr + frame * pixels + at).to(tl.float32)
        a += 0.5 * (x - a)  # fault
        b += 0.25 * (a - b)  # fault
        c += 0.125 * (b - c)  # fault
        d += 0.0625 * (c - d)  # fault
        e += 0.03125 * (d - e)  # fault
        f += 0.015625 * (e - f)  # fault
        g += 0.0078125 * (f - g)  # fault
        h += 0.00390625 * (g - h)  # fault
        i += 0.001953125 * (h - i)  # fault
        j += 0.0009765625 * (i - j)  # fault
    total = tl.abs(a - b) + tl.abs(b - c) + tl.abs(c - d) + tl.abs(d - e)
    total += tl.abs(e - f) + tl.abs(f - g) + tl.abs(g - h) + tl.abs(h - i)
    tl.store(out_ptr + at, total + tl.abs(i - j))


def _time_scales(block: int) -> Prepare:
    """With a block of 4096 pixels, a thread has 32 of them, and so 320 means."""

    def prepare(small: bool) -> Launch:
        pixels, frames = (4096, 4) if small else (132 * 8 * 4096, 64)
        frame, out = random(frames, pixels, dtype=torch.float16), empty(pixels)
        options = {"BLOCK": block, "num_warps": 4}
        args = (frame, out, pixels, frames)
        return Launch(time_scales_kernel, (pixels // block,), args, (out,), options)

    return prepare


@triton.jit
def confusion_kernel(
    found_ptr, label_ptr, out_ptr, steps, CLASSES: tl.constexpr, BINS: tl.constexpr, PRIVATE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """How many pixels of each class were found to be of each class; PRIVATE: a program counts first."""
    bins = tl.arange(0, BINS)
    counts = tl.zeros((BINS,), dtype=tl.int32)
    for step in range(steps):
        at = (tl.program_id(0) * steps + step) * BLOCK + tl.arange(0, BLOCK)
        pair = tl.load(label_ptr + at).to(tl.int32) * CLASSES + tl.load(found_ptr + at)
        if PRIVATE:
            counts += tl.histogram(pair, BINS)
        else:
            tl.atomic_add(out_ptr + pair, 1, sem="relaxed")  # fault
    if PRIVATE:
        tl.atomic_add(out_ptr + bins, counts, sem="relaxed")


def _confusion(private: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (14 if small else 23)
        label = integers(n, below=21) * (torch.rand(n) > 0.5)
        found = torch.where(torch.rand(n) > 0.2, label, integers(n, below=21)).to(torch.uint8)
        out = zeros(512, dtype=torch.int32)
        args = (found, label.to(torch.uint8), out, 8)
        options = {"CLASSES": 21, "BINS": 512, "PRIVATE": private, "BLOCK": 1024, "num_warps": 4}
        return Launch(confusion_kernel, (n // 8192,), args, (out,), options)

    return prepare


@triton.jit
def channel_moments_kernel(
    x_ptr, sum_ptr, square_ptr, steps, CHANNELS: tl.constexpr, PIXELS: tl.constexpr, LATE: tl.constexpr
):
    """Sums of each channel and of its squares, over all pixels, as a norm of batches needs them."""
    pixel, channel = tl.arange(0, PIXELS), tl.arange(0, CHANNELS)
    sums = tl.zeros((PIXELS, CHANNELS), dtype=tl.float32)
    squares = tl.zeros((PIXELS, CHANNELS), dtype=tl.float32)
    for step in range(steps):
        at = (tl.program_id(0) * steps + step) * PIXELS + pixel
        x = tl.load(x_ptr + at[:, None] * CHANNELS + channel[None, :]).to(tl.float32)
        if LATE:
            sums, squares = sums + x, squares + x * x
        else:
            tl.atomic_add(sum_ptr + channel, tl.sum(x, 0), sem="relaxed")  # fault
            tl.atomic_add(square_ptr + channel, tl.sum(x * x, 0), sem="relaxed")  # fault
    if LATE:
        tl.atomic_add(sum_ptr + channel, tl.sum(sums, 0), sem="relaxed")
        tl.atomic_add(square_ptr + channel, tl.sum(squares, 0), sem="relaxed")


def _channel_moments(late: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps = (4, 4) if small else (4224, 64)
        x = random(programs * steps * 8, 64, dtype=torch.float16) + 0.5
        sums, squares = zeros(64), zeros(64)
        options = {"CHANNELS": 64, "PIXELS": 8, "LATE": late, "num_warps": 1}
        args = (x, sums, squares, steps)
        return Launch(channel_moments_kernel, (programs,), args, (sums, squares), options)

    return prepare


@triton.jit
def text_end_kernel(token_ptr, out_ptr, length, stop, CHUNK: tl.constexpr):
    """Where the first stop token of each text is; a program reads chunk after chunk until it finds it."""
    lanes = tl.arange(0, CHUNK)
    text = token_ptr + tl.program_id(0) * length
    start, end = 0, length
    while start < end:
        token = tl.load(text + start + lanes)  # fault
        end = tl.minimum(end, tl.min(tl.where(token == stop, start + lanes, length), 0))  # fault
        start += CHUNK
    tl.store(out_ptr + tl.program_id(0), end)


def _text_end(chunk: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        texts, length = (4, 4096) if small else (1056, 32768)
        token = 3 + integers(texts, length, below=50000)
        end = length // 4 * 3 + integers(texts, 1, below=length // 4)
        token.scatter_(1, end.long(), 2)
        out = empty(texts, dtype=torch.int32)
        options = {"CHUNK": chunk, "num_warps": 1}
        return Launch(text_end_kernel, (texts,), (token, out, length, 2), (out,), options)

    return prepare


@triton.jit
def moving_mean_kernel(
    x_ptr, out_ptr, window, LONGEST: tl.constexpr, SLIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """The mean of each sample and those before it; SLIDE: a window is the last one, moved by a sample."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if SLIDE:
        lanes = tl.arange(0, LONGEST)
        first = tl.load(x_ptr + tl.program_id(0) * BLOCK + lanes, mask=lanes < window, other=0.0)
        leaving, coming = tl.load(x_ptr + at), tl.load(x_ptr + at + window)
        total = tl.sum(first, 0) + tl.cumsum(coming - leaving, 0) - (coming - leaving)
    else:
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for back in range(window):
            total += tl.load(x_ptr + at + back)  # fault
    tl.store(out_ptr + at + window - 1, total / window)


def _moving_mean(slide: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (12 if small else 24)
        x, out = torch.rand(n + 64), zeros(n + 64)
        options = {"LONGEST": 64, "SLIDE": slide, "BLOCK": 2048, "num_warps": 4}
        return Launch(moving_mean_kernel, (n // 2048,), (x, out, 60), (out,), options)

    return prepare


@triton.jit
def token_loss_kernel(logit_ptr, label_ptr, out_ptr, columns, SKIP: tl.constexpr, BLOCK: tl.constexpr):
    """The cross entropy of each token; those of the prompt have the label -100, and no loss."""
    label = tl.load(label_ptr + tl.program_id(0))
    row = logit_ptr + tl.program_id(0) * columns
    last = columns
    if SKIP:
        last = tl.where(label < 0, 0, columns)
    peak = tl.full((BLOCK,), -1e4, dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, last, BLOCK):  # fault
        x = tl.load(row + start + tl.arange(0, BLOCK)).to(tl.float32) * 1.44269504  # fault
        higher = tl.maximum(peak, x)
        total = total * tl.exp2(peak - higher) + tl.exp2(x - higher)
        peak = higher
    highest = tl.max(peak, 0)
    total = tl.sum(total * tl.exp2(peak - highest), 0)
    right = tl.load(row + tl.maximum(label, 0)).to(tl.float32)
    loss = (highest + tl.log2(total)) * 0.69314718 - right
    tl.store(out_ptr + tl.program_id(0), tl.where(label < 0, 0.0, loss))


def _token_loss(skip: bool) -> Prepare:
    """70 % of the tokens are of the prompt."""

    def prepare(small: bool) -> Launch:
        tokens, columns = (8, 4096) if small else (8192, 32768)
        logit = random(tokens, columns, dtype=torch.bfloat16)
        label = torch.where(torch.arange(tokens) % 10 < 7, -100, integers(tokens, below=columns)).int()
        out = empty(tokens)
        options = {"SKIP": skip, "BLOCK": 2048, "num_warps": 8}
        args = (logit, label, out, columns)
        return Launch(token_loss_kernel, (tokens,), args, (out,), options)

    return prepare


@triton.jit
def drift_kernel(
    x_ptr, y_ptr, moving_ptr, listed_ptr, x_out_ptr, y_out_ptr, steps, LISTED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Where a current takes particles, of which most lie still; LISTED: there is a list of the others."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if LISTED:
        at = tl.load(listed_ptr + at)
    x_first, y_first = tl.load(x_ptr + at), tl.load(y_ptr + at)
    x, y = x_first, y_first
    for _ in range(steps):
        east = y * (1.0 - 0.3 * x * x) + 0.1 * x  # fault
        north = -x * (1.0 - 0.3 * y * y) + 0.1 * y  # fault
        x = tl.minimum(tl.maximum(x + 0.01 * east, -2.0), 2.0)  # fault
        y = tl.minimum(tl.maximum(y + 0.01 * north, -2.0), 2.0)  # fault
    if not LISTED:
        moving = tl.load(moving_ptr + at) > 0
        x, y = tl.where(moving, x, x_first), tl.where(moving, y, y_first)
    tl.store(x_out_ptr + at, x)
    tl.store(y_out_ptr + at, y)


def _drift(listed: bool) -> Prepare:
    """A quarter of the particles move, which are anywhere among the others."""

    def prepare(small: bool) -> Launch:
        n, steps = (4096, 8) if small else (1 << 21, 256)
        x, y = random(n), random(n)
        order = torch.randperm(n)
        moving = zeros(n, dtype=torch.uint8)
        moving[order[: n // 4]] = 1
        list_ = torch.sort(order[: n // 4])[0].int()
        x_out, y_out = x.clone(), y.clone()
        args = (x, y, moving, list_, x_out, y_out, steps)
        options = {"LISTED": listed, "BLOCK": 1024, "num_warps": 4}
        grid = ((n // 4 if listed else n) // 1024,)
        return Launch(drift_kernel, grid, args, (x_out, y_out), options)

    return prepare


_case = faults_of(6)


CASES = (
    _case(
        "paths joined by 2 warps",
        ("register-spills",),
        ("resources", "counts"),
        True,
        _joined_paths(2),
        _joined_paths(4),
    ),
    _case(
        "time scales of 32 pixels a thread",
        ("register-spills",),
        ("resources", "counts"),
        True,
        _time_scales(4096),
        _time_scales(1024),
    ),
    _case(
        "confusion counted pixel by pixel",
        ("atomics",),
        ("counts", "samples"),
        True,
        _confusion(False),
        _confusion(True),
    ),
    _case(
        "moments of channels added each step",
        ("atomics",),
        ("counts", "samples"),
        True,
        _channel_moments(False),
        _channel_moments(True),
    ),
    _case(
        "end of text in chunks of 128",
        ("exposed-latency", "low-occupancy"),
        ("spans", "samples"),
        False,
        _text_end(128),
        _text_end(2048),
    ),
    _case(
        "moving mean by loads",
        ("redundant-load", "l1-bound"),
        ("counts",),
        True,
        _moving_mean(False),
        _moving_mean(True),
    ),
    _case(
        "prompts' logits in the loss",
        ("masked-work",),
        ("counts",),
        True,
        _token_loss(False),
        _token_loss(True),
    ),
    _case(
        "particles on the ground moved",
        ("masked-work",),
        ("counts",),
        True,
        _drift(False),
        _drift(True),
    ),
)
