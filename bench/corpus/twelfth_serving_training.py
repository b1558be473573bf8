"""Twelfth round, faults of training: losses, optimisers, layers, attention variants, convolutions."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def frame_projection_kernel(
    x_ptr, weight_ptr, out_ptr, tokens, dim, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """The projection of a clip's tokens, of 64 for each frame, into a language model."""
    row, inner = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DEPTH)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = row[:, None] < tokens
    x_at = x_ptr + row[:, None] * dim + inner[None, :]
    weight_at = weight_ptr + column[None, :] * dim + inner[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, dim, DEPTH):
        total = tl.dot(tl.load(x_at, mask=inside, other=0.0), tl.load(weight_at), total)
        x_at += DEPTH
        weight_at += DEPTH
    tl.store(out_ptr + row[:, None] * columns + column[None, :], total.to(tl.bfloat16), mask=inside)


def _frame_projection(rows: int, warps: int, stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, dim, columns = (64, 128, 512) if small else (33 * 64, 8192, 2048)
        x, weight = random(tokens, dim, dtype=torch.bfloat16), random(columns, dim, dtype=torch.bfloat16)
        out = empty(tokens, columns, dtype=torch.bfloat16)
        options = {"ROWS": rows, "COLUMNS": 256, "DEPTH": 64, "num_warps": warps, "num_stages": stages}
        args = (x, weight, out, tokens, dim, columns)
        grid = (-(-tokens // rows), columns // 256)
        return Launch(frame_projection_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def turned_gradient_step_kernel(
    weight_ptr, past_ptr, grad_ptr, new_weight_ptr, new_past_ptr, rate, keep, rows, columns,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """A step with momentum for a matrix whose gradient lies in memory transposed."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    at = row * columns + column
    grad = tl.load(grad_ptr + column * rows + row).to(tl.float32)  # fault
    past = keep * tl.load(past_ptr + at).to(tl.float32) + grad
    weight = tl.load(weight_ptr + at).to(tl.float32) - rate * past
    tl.store(new_past_ptr + at, past.to(tl.bfloat16))
    tl.store(new_weight_ptr + at, weight.to(tl.bfloat16))


def _turned_gradient_step(rows_of_program: int, columns_of_program: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns = (64, 128) if small else (8192, 8192)
        each, wide = min(rows_of_program, rows), min(columns_of_program, columns)
        weight, past = (random(rows, columns, dtype=torch.bfloat16) for _ in range(2))
        grad = random(columns, rows, dtype=torch.bfloat16)
        new_weight, new_past = torch.empty_like(weight), torch.empty_like(past)
        options = {"ROWS": each, "COLUMNS": wide, "num_warps": 4}
        args = (weight, past, grad, new_weight, new_past, 1e-2, 0.9, rows, columns)
        grid = (columns // wide, rows // each)
        return Launch(turned_gradient_step_kernel, grid, args, (new_weight, new_past), options)

    return prepare


@triton.jit
def noised_patches_kernel(
    x_ptr, noise_ptr, time_ptr, out_ptr, CHANNELS: tl.constexpr, PAIRS: tl.constexpr, SIZE: tl.constexpr,
    ALL: tl.constexpr,
):  # fmt: skip
    """Latent frames mixed with noise and cut into patches of two by two, as a flow of pictures learns."""
    frame, line, column = tl.program_id(1), tl.arange(0, CHANNELS * PAIRS * 2), tl.arange(0, SIZE)
    channel = tl.program_id(2) * CHANNELS + line // (PAIRS * 2)
    y = tl.program_id(0) * (PAIRS * 2) + line % (PAIRS * 2)
    at = ((frame * ALL + channel) * SIZE + y)[:, None] * SIZE + column[None, :]
    time = tl.load(time_ptr + frame)
    x, noise = tl.load(x_ptr + at).to(tl.float32), tl.load(noise_ptr + at).to(tl.float32)
    mixed = tl.reshape(x + (noise - x) * time, (CHANNELS, PAIRS, 2, SIZE // 2, 2))
    patch = tl.reshape(tl.permute(mixed, (1, 3, 0, 2, 4)), (PAIRS * (SIZE // 2), CHANNELS * 4))
    token = (frame * (SIZE // 2) + tl.program_id(0) * PAIRS) * (SIZE // 2) + tl.arange(0, PAIRS * SIZE // 2)
    feature = tl.program_id(2) * (CHANNELS * 4) + tl.arange(0, CHANNELS * 4)
    out_at = out_ptr + token[:, None] * (ALL * 4) + feature[None, :]
    tl.store(out_at, patch.to(tl.bfloat16))  # fault


def _noised_patches(channels: int, pairs: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, every, size = (1, 16, 32) if small else (256, 16, 128)
        x, noise = (random(frames, every, size, size, dtype=torch.bfloat16) for _ in range(2))
        time, out = torch.rand(frames), empty(frames, size * size // 4, every * 4, dtype=torch.bfloat16)
        options = {"CHANNELS": channels, "PAIRS": pairs, "SIZE": size, "ALL": every, "num_warps": 4}
        grid = (size // (2 * pairs), frames, every // channels)
        return Launch(noised_patches_kernel, grid, (x, noise, time, out), (out,), options)

    return prepare


@triton.jit
def word_gradients_kernel(
    grad_ptr, x_ptr, out_ptr, tokens, words, dim, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, WORDS_FIRST: tl.constexpr,
):  # fmt: skip
    """Gradients of the words' matrix from those of the logits and the hidden states."""
    if WORDS_FIRST:
        block, part = tl.program_id(0) % (words // ROWS), tl.program_id(0) // (words // ROWS)  # fault
    else:
        block, part = tl.program_id(0) // (dim // COLUMNS), tl.program_id(0) % (dim // COLUMNS)
    word, inner = block * ROWS + tl.arange(0, ROWS), tl.arange(0, DEPTH)
    column = part * COLUMNS + tl.arange(0, COLUMNS)
    grad_at = grad_ptr + inner[None, :] * words + word[:, None]
    x_at = x_ptr + inner[:, None] * dim + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, tokens, DEPTH):  # fault
        grad = tl.load(grad_at)  # fault
        x = tl.load(x_at)  # fault
        total = tl.dot(grad, x, total)  # fault
        grad_at += DEPTH * words
        x_at += DEPTH * dim
    tl.store(out_ptr + word[:, None] * dim + column[None, :], total.to(tl.bfloat16))


def _word_gradients(words_first: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, words, dim = (128, 256, 256) if small else (4096, 33792, 2048)
        grad, x = random(tokens, words, dtype=torch.bfloat16), random(tokens, dim, dtype=torch.bfloat16)
        out = empty(words, dim, dtype=torch.bfloat16)
        options = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64, "WORDS_FIRST": words_first, "num_warps": 4}
        args, grid = (grad, x, out, tokens, words, dim), (words // 128 * (dim // 128),)
        return Launch(word_gradients_kernel, grid, args, (out,), options | {"num_stages": 3})

    return prepare


@triton.jit
def scalar_memory_kernel(
    x_ptr, weight_ptr, cell_ptr, out_ptr, dim, units, ROWS: tl.constexpr, UNITS: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """A step of a recurrent layer for many texts: four gates' products, the new cell and the output."""
    row, inner = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, DEPTH)
    unit = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    x_at = x_ptr + row[:, None] * dim + inner[None, :]
    weight_at, gate = weight_ptr + unit[None, :] * dim + inner[:, None], units * dim
    enter = tl.zeros((ROWS, UNITS), dtype=tl.float32)
    keep = tl.zeros((ROWS, UNITS), dtype=tl.float32)
    value = tl.zeros((ROWS, UNITS), dtype=tl.float32)
    leave = tl.zeros((ROWS, UNITS), dtype=tl.float32)
    for _ in range(0, dim, DEPTH):  # fault
        x = tl.load(x_at)  # fault
        enter = tl.dot(x, tl.load(weight_at), enter)  # fault
        keep = tl.dot(x, tl.load(weight_at + gate), keep)  # fault
        value = tl.dot(x, tl.load(weight_at + 2 * gate), value)  # fault
        leave = tl.dot(x, tl.load(weight_at + 3 * gate), leave)  # fault
        x_at += DEPTH
        weight_at += DEPTH
    at = row[:, None] * units + unit[None, :]
    cell = tl.load(cell_ptr + at).to(tl.float32) * tl.sigmoid(keep)
    cell += tl.sigmoid(enter) * (2.0 * tl.sigmoid(2.0 * value) - 1.0)
    tl.store(out_ptr + at, (tl.sigmoid(leave) * (2.0 * tl.sigmoid(2.0 * cell) - 1.0)).to(tl.bfloat16))


def _scalar_memory(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, dim = (64, 128) if small else (8448, 2048)
        x, weight = random(rows, dim, dtype=torch.bfloat16), random(4, dim, dim, dtype=torch.bfloat16)
        cell, out = random(rows, dim, dtype=torch.bfloat16), empty(rows, dim, dtype=torch.bfloat16)
        options = {"ROWS": 64, "UNITS": 128, "DEPTH": 32, "num_warps": warps, "num_stages": 3}
        args, grid = (x, dim**-0.5 * weight, cell, out, dim, dim), (dim // 128, rows // 64)
        return Launch(scalar_memory_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def long_filters_kernel(
    filter_ptr, x_ptr, out_ptr, tokens, texts, ROWS: tl.constexpr, DEPTH: tl.constexpr, TEXTS: tl.constexpr,
    ALL: tl.constexpr,
):  # fmt: skip
    """Causal filters as long as the text, one for each channel, as products with Toeplitz matrices (Hyena);
    a filter lies behind as many zeros, eight times, shifted, for loads of eight numbers."""
    channel, first = tl.program_id(1), (tl.num_programs(0) - 1 - tl.program_id(0)) * ROWS
    row, inner, text = first + tl.arange(0, ROWS), tl.arange(0, DEPTH), tl.arange(0, TEXTS)
    filter_at = filter_ptr + (8 * channel + row % 8)[:, None] * (2 * tokens) + inner[None, :]
    filter_at += tokens - (row // 8 * 8)[:, None]
    x_at = x_ptr + (channel * tokens + inner)[:, None] * texts + text[None, :]
    last = first + ROWS
    if ALL:
        last = tokens
    total = tl.zeros((ROWS, TEXTS), dtype=tl.float32)
    for start in range(0, last, DEPTH):  # fault
        taps = tl.load(filter_at + start)  # fault
        total = tl.dot(taps, tl.load(x_at + start * texts), total)  # fault
    tl.store(out_ptr + (channel * tokens + row)[:, None] * texts + text[None, :], total.to(tl.bfloat16))


def _long_filters(every: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        channels, tokens = (1, 256) if small else (256, 2048)
        taps, x = random(channels, tokens) * tokens**-0.5, random(channels, tokens, 64, dtype=torch.bfloat16)
        lag = torch.arange(8)[:, None] + tokens - torch.arange(2 * tokens)[None, :]
        taps = taps[:, lag.clamp(0, tokens - 1)] * ((lag >= 0) & (lag < tokens))
        out = torch.empty_like(x)
        options = {"ROWS": 128, "DEPTH": 64, "TEXTS": 64, "ALL": every, "num_warps": 8}
        args, grid = (taps.to(torch.bfloat16), x, out, tokens, 64), (tokens // 128, channels)
        return Launch(long_filters_kernel, grid, args, (out,), options | {"num_stages": 3})

    return prepare


@triton.jit
def talking_heads_kernel(
    score_ptr, mix_ptr, out_ptr, pairs, HEADS: tl.constexpr, BLOCK: tl.constexpr, DOT: tl.constexpr
):
    """Scores of attention mixed among all heads, for each pair of tokens (talking heads)."""
    head, pair = tl.arange(0, HEADS), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if DOT:
        mix = tl.load(mix_ptr + head[None, :] * HEADS + head[:, None]).to(tl.bfloat16)
        total = tl.dot(mix, tl.load(score_ptr + head[:, None] * pairs + pair[None, :]))
    else:
        total = tl.zeros((HEADS, BLOCK), dtype=tl.float32)
        for other in range(HEADS):  # fault
            mix = tl.load(mix_ptr + other * HEADS + head[:, None])  # fault
            score = tl.load(score_ptr + other * pairs + pair[None, :]).to(tl.float32)  # fault
            total += mix * score  # fault
    tl.store(out_ptr + head[:, None] * pairs + pair[None, :], total.to(tl.bfloat16))


def _talking_heads(dot: bool, block: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pairs = 512 if small else 1 << 21
        score, mix = random(64, pairs, dtype=torch.bfloat16), random(64, 64)
        out = torch.empty_like(score)
        options = {"HEADS": 64, "BLOCK": block, "DOT": dot, "num_warps": 4}
        return Launch(talking_heads_kernel, (pairs // block,), (score, mix, out, pairs), (out,), options)

    return prepare


@triton.jit
def state_filters_kernel(
    rate_ptr, share_ptr, out_ptr, tokens, STATES: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr
):
    """The filters that state-space layers amount to: sums of fading states for each channel (S4D)."""
    channel = tl.program_id(1)
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if WIDE:
        time = token.to(tl.float64)
        total = tl.zeros((BLOCK,), dtype=tl.float64)
    else:
        time = token.to(tl.float32)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
    for state in range(STATES):
        rate, share = tl.load(rate_ptr + channel * STATES + state), tl.load(share_ptr + state)
        if WIDE:
            total += share.to(tl.float64) * tl.exp(rate.to(tl.float64) * time)  # fault
        else:
            total += share * tl.exp(rate * time)
    tl.store(out_ptr + channel * tokens + token, total.to(tl.float32))


def _state_filters(wide: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        channels, tokens = (2, 1024) if small else (4096, 8192)
        rate, share = -0.01 * torch.rand(channels, 16) - 1e-4, random(16)
        out = empty(channels, tokens)
        options = {"STATES": 16, "BLOCK": 512, "WIDE": wide, "num_warps": 4}
        args, grid = (rate, share, out, tokens), (tokens // 512, channels)
        return Launch(state_filters_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def mish_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr, EXACT: tl.constexpr):
    """x tanh(log(1 + exp(x))) of activations."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at).to(tl.float32)
    raised = tl.exp(tl.minimum(x, 20.0))
    if EXACT:
        gate = libdevice.tanh(libdevice.log1p(raised))  # fault
    else:
        square = raised * (raised + 2.0)
        gate = square / (square + 2.0)
    tl.store(out_ptr + at, (x * gate).to(tl.bfloat16))


def _mish(exact: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        count = 8192 if small else 1 << 27
        x = random(count, dtype=torch.bfloat16)
        out = torch.empty_like(x)
        options = {"BLOCK": 2048, "EXACT": exact, "num_warps": 4}
        return Launch(mish_kernel, (count // 2048,), (x, out), (out,), options)

    return prepare


@triton.jit
def spectral_norms_kernel(weight_ptr, out_ptr, DIM: tl.constexpr, STEPS: tl.constexpr):
    """The largest singular values of small matrices, one for each head, by power iteration."""
    dim = tl.arange(0, DIM)
    at = tl.program_id(0) * (DIM * DIM) + dim[:, None] * DIM + dim[None, :]
    weight = tl.load(weight_ptr + at)
    right = tl.full((DIM,), 1.0, dtype=tl.float32)
    norm = 1.0
    for _ in range(STEPS):  # fault
        left = tl.sum(weight * right[None, :], 1)  # fault
        left *= tl.rsqrt(tl.sum(left * left, 0))  # fault
        right = tl.sum(weight * left[:, None], 0)  # fault
        norm = tl.sqrt(tl.sum(right * right, 0))  # fault
        right *= 1.0 / norm  # fault
    tl.store(out_ptr + tl.program_id(0), norm)


def _spectral_norms(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        matrices = 4 if small else 8192
        weight, out = random(matrices, 64, 64), empty(matrices)
        options = {"DIM": 64, "STEPS": 16, "num_warps": warps}
        return Launch(spectral_norms_kernel, (matrices,), (weight, out), (out,), options)

    return prepare


_fault = faults_of(12)


CASES = (
    _fault(
        "33 frames of a clip in blocks of two",
        ("tail",),
        ("ctas", "spans"),
        False,
        _frame_projection(128, 8, 3),
        _frame_projection(64, 4, 2),
    ),
    _fault(
        "momentum from a gradient that lies transposed",
        ("uncoalesced-load", "redundant-load", "tile-reread"),
        ("counts", "counters"),
        True,
        _turned_gradient_step(1, 1024),
        _turned_gradient_step(64, 64),
    ),
    _fault(
        "noised patches of one channel at a time",
        ("uncoalesced-store",),
        ("counts", "counters"),
        True,
        _noised_patches(1, 16),
        _noised_patches(16, 1),
    ),
    _fault(
        "words' gradients with all words first",
        ("tile-reread",),
        ("counters", "samples"),
        False,
        _word_gradients(True),
        _word_gradients(False),
    ),
    _fault(
        "four gates of a cell by 4 warps",
        ("register-spills",),
        ("resources", "counts"),
        True,
        _scalar_memory(4),
        _scalar_memory(8),
    ),
    _fault(
        "taps after the token multiplied",
        ("masked-work",),
        ("counts",),
        True,
        _long_filters(True),
        _long_filters(False),
    ),
    _fault(
        "heads talking by sums",
        ("no-tensor-cores", "issue-bound", "redundant-load"),
        ("counts", "samples"),
        True,
        _talking_heads(False, 256),
        _talking_heads(True, 128),
    ),
    _fault(
        "filters of fading states in float64",
        ("fp64-arithmetic", "slow-math"),
        ("counts", "samples"),
        True,
        _state_filters(True),
        _state_filters(False),
    ),
    _fault(
        "Mish by tanh and log1p",
        ("slow-math", "issue-bound"),
        ("counts", "samples"),
        True,
        _mish(True),
        _mish(False),
    ),
    _fault(
        "singular values of heads by 16 warps",
        ("too-many-warps", "serial-reduction", "layout-conversion"),
        ("counts", "samples", "spans"),
        True,
        _spectral_norms(16),
        _spectral_norms(2),
    ),
)
