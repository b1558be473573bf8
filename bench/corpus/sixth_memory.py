"""Sixth round, faults of memory: how data is reached, how often, and what waits for it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

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
