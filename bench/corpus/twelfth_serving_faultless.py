"""Twelfth round, kernels of serving and training without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faultless_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def causal_taps_kernel(
    x_ptr, tap_ptr, out_ptr, tokens, DIM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    TAPS: tl.constexpr,
):  # fmt: skip
    """A short causal filter of each channel and its activation, before a state-space layer. Bound by DRAM."""
    row, column = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    column += tl.program_id(0) * BLOCK
    at = row[:, None] * DIM + column[None, :]
    place = row % tokens
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for back in tl.static_range(TAPS):
        tap = tl.load(tap_ptr + back * DIM + column[None, :])
        x = tl.load(x_ptr + at - back * DIM, mask=place[:, None] >= back, other=0.0)
        total += x.to(tl.float32) * tap
    tl.store(out_ptr + at, (total * tl.sigmoid(total)).to(tl.bfloat16))


def _causal_taps(rows_of_program: int, block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        texts, tokens, dim = (1, 2 * rows_of_program, 1024) if small else (8, 4096, 4096)
        x, tap = random(texts, tokens, dim, dtype=torch.bfloat16), random(4, dim)
        out = torch.empty_like(x)
        options = {"DIM": dim, "ROWS": rows_of_program, "BLOCK": block, "TAPS": 4, "num_warps": num_warps}
        grid = (dim // block, texts * tokens // rows_of_program)
        return Launch(causal_taps_kernel, grid, (x, tap, out, tokens), (out,), options)

    return prepare


@triton.jit
def seen_words_kernel(logit_ptr, seen_ptr, penalty_ptr, out_ptr, WORDS: tl.constexpr, BLOCK: tl.constexpr):
    """Logits of words that a text already has made less likely; a bit for each word says which it has.
    Bound by DRAM."""
    text, word = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = text * WORDS + word
    inside = word < WORDS
    logit = tl.load(logit_ptr + at, mask=inside, other=0.0)
    seen = tl.load(seen_ptr + text * (WORDS // 32) + word // 32, mask=inside, other=0)
    penalty = tl.load(penalty_ptr + text)
    less = tl.where(logit > 0.0, logit * (1.0 / penalty), logit * penalty)
    tl.store(out_ptr + at, tl.where((seen >> (word % 32)) & 1 != 0, less, logit), mask=inside)


def _seen_words(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        texts, words = (2, 8192) if small else (512, 152064)
        logit, penalty = random(texts, words), torch.rand(texts) + 1.0
        seen, out = integers(texts, words // 32, below=1 << 31), torch.empty_like(logit)
        options = {"WORDS": words, "BLOCK": block, "num_warps": num_warps}
        args = (logit, seen, penalty, out)
        return Launch(seen_words_kernel, (-(-words // block), texts), args, (out,), options)

    return prepare


@triton.jit
def exchanged_pages_kernel(from_ptr, to_ptr, source_ptr, target_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Pages of a cache moved to where a list says, when texts change places. Bound by DRAM."""
    source = tl.load(source_ptr + tl.program_id(1)) * SIZE
    target = tl.load(target_ptr + tl.program_id(1)) * SIZE
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(to_ptr + target + at, tl.load(from_ptr + source + at))


def _exchanged_pages(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pages, size = (4, 16384) if small else (4096, 32768)
        source = random(pages, size, dtype=torch.bfloat16)
        target = torch.empty_like(source)
        place = torch.arange(pages, dtype=torch.int32)
        first, last = place * 5 % pages if small else place * 1021 % pages, place * 3 % pages
        options = {"SIZE": size, "BLOCK": block, "num_warps": num_warps}
        args = (source, target, first.int(), last.int())
        if small:
            target.zero_()
        return Launch(exchanged_pages_kernel, (size // block, pages), args, (target,), options)

    return prepare


@triton.jit
def factored_step_kernel(
    weight_ptr, grad_ptr, row_ptr, column_ptr, out_ptr, rate, columns, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """A step whose second moments are products of one number a row and one a column (Adafactor).
    Bound by DRAM."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    at = row[:, None] * columns + column[None, :]
    weight, grad = tl.load(weight_ptr + at).to(tl.float32), tl.load(grad_ptr + at).to(tl.float32)
    by_row = rate * tl.rsqrt(tl.load(row_ptr + row))
    by_column = tl.rsqrt(tl.load(column_ptr + column[None, :]))
    weight -= grad * by_row[:, None] * by_column
    tl.store(out_ptr + at, weight.to(tl.bfloat16))


def _factored_step(rows_of_program: int, columns_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns = (2 * rows_of_program, 2048) if small else (8192, 14336)
        weight, grad = (random(rows, columns, dtype=torch.bfloat16) for _ in range(2))
        row, column, out = torch.rand(rows) + 0.1, torch.rand(columns) + 0.1, torch.empty_like(weight)
        options = {"ROWS": rows_of_program, "COLUMNS": columns_of_program, "num_warps": num_warps}
        args = (weight, grad, row, column, out, 1e-2, columns)
        grid = (columns // columns_of_program, rows // rows_of_program)
        return Launch(factored_step_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def logit_gradients_kernel(
    logit_ptr, mass_ptr, label_ptr, out_ptr, scale, WORDS: tl.constexpr, BLOCK: tl.constexpr
):
    """Gradients of a loss of smoothed labels by its logits, whose masses are known. Bound by DRAM."""
    token, word = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mass, label = tl.load(mass_ptr + token), tl.load(label_ptr + token)
    logit = tl.load(logit_ptr + token * WORDS + word).to(tl.float32)
    share = tl.exp2(logit * 1.4426950408889634 - mass) - tl.where(word == label, 0.9, 0.1 / WORDS)
    tl.store(out_ptr + token * WORDS + word, (share * scale).to(tl.bfloat16))


def _logit_gradients(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, words = (2, 16384) if small else (4096, 131072)
        logit, mass = random(tokens, words, dtype=torch.bfloat16), torch.rand(tokens) + 17.0
        label, out = integers(tokens, below=words), torch.empty_like(logit)
        options = {"WORDS": words, "BLOCK": block, "num_warps": num_warps}
        args = (logit, mass, label, out, 1.0)
        return Launch(logit_gradients_kernel, (words // block, tokens), args, (out,), options)

    return prepare


@triton.jit
def squared_gradients_kernel(
    grad_ptr, weight_ptr, before_ptr, out_ptr, dim, units, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Gradients before a squared ReLU: those after the next layer by its weights, times 2 relu(x).
    Bound by tensor cores."""
    group = tl.program_id(0) // (GROUP * (units // COLUMNS))
    rest = tl.program_id(0) % (GROUP * (units // COLUMNS))
    row = (group * GROUP + rest % GROUP) * ROWS + tl.arange(0, ROWS)
    column, inner = rest // GROUP * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    grad_at = grad_ptr + row[:, None] * dim + inner[None, :]
    weight_at = weight_ptr + inner[:, None] * units + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, dim, DEPTH):
        total = tl.dot(tl.load(grad_at), tl.load(weight_at), total)
        grad_at += DEPTH
        weight_at += DEPTH * units
    at = row[:, None] * units + column[None, :]
    before = tl.load(before_ptr + at).to(tl.float32)
    tl.store(out_ptr + at, (total * tl.maximum(2.0 * before, 0.0)).to(tl.bfloat16))


def _squared_gradients(
    rows_of_program: int, columns_of_program: int, depth: int, num_warps: int, num_stages: int
) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, dim, units = (256, 128, 512) if small else (8448, 4096, 16384)
        grad, weight = random(tokens, dim, dtype=torch.bfloat16), random(dim, units, dtype=torch.bfloat16)
        before, out = random(tokens, units, dtype=torch.bfloat16), empty(tokens, units, dtype=torch.bfloat16)
        options = {"ROWS": rows_of_program, "COLUMNS": columns_of_program, "DEPTH": depth}
        options |= {"GROUP": 1 if small else 11, "num_warps": num_warps, "num_stages": num_stages}
        grid = (tokens // rows_of_program * (units // columns_of_program),)
        args = (grad, weight, before, out, dim, units)
        return Launch(squared_gradients_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def pair_counts_kernel(word_ptr, count_ptr, bins, BLOCK: tl.constexpr):
    """How often tokens follow one another in a corpus, by a hash of both; any may follow any.
    Bound by atomics in L2, which each pair needs."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first, second = tl.load(word_ptr + at), tl.load(word_ptr + at + 1)
    key = first.to(tl.uint32) * 2654435761 + second.to(tl.uint32) * 2246822519
    key ^= key >> 15
    tl.atomic_add(count_ptr + (key & (bins - 1)), 1, sem="relaxed")


def _pair_counts(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        words = 2 * block if small else 1 << 25
        word, count = integers(words + 1, below=100000), zeros(1 << 22, dtype=torch.int32)
        options = {"BLOCK": block, "num_warps": num_warps}
        args = (word, count, 1 << 22)
        return Launch(pair_counts_kernel, (words // block,), args, (count,), options)

    return prepare


@triton.jit
def joined_inputs_kernel(
    word_ptr, table_ptr, picture_ptr, out_ptr, DIM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Inputs of a language model: rows of words, or of pictures where a token stands for one.
    Bound by DRAM."""
    row, column = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    column += tl.program_id(0) * BLOCK
    word = tl.load(word_ptr + row)
    base = tl.where(word >= 0, word, -1 - word).to(tl.int64) * DIM
    source = tl.where((word >= 0)[:, None], table_ptr + base[:, None], picture_ptr + base[:, None])
    tl.store(out_ptr + row[:, None] * DIM + column[None, :], tl.load(source + column[None, :]))


def _joined_inputs(rows_of_program: int, block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, words, dim = (2 * rows_of_program, 100, 4096) if small else (32768, 65536, 4096)
        table, pictures = random(words, dim, dtype=torch.bfloat16), random(words // 2, dim).bfloat16()
        of_picture = torch.arange(tokens, dtype=torch.int32) // 256 % 2
        word = integers(tokens, below=words)
        row = torch.arange(tokens, dtype=torch.int32) % (words // 2)
        out = empty(tokens, dim, dtype=torch.bfloat16)
        word = torch.where(of_picture > 0, -1 - row, word)
        options = {"DIM": dim, "ROWS": rows_of_program, "BLOCK": block, "num_warps": num_warps}
        grid = (dim // block, tokens // rows_of_program)
        return Launch(joined_inputs_kernel, grid, (word, table, pictures, out), (out,), options)

    return prepare


@triton.jit
def norm_gradients_kernel(
    x_ptr, grad_ptr, weight_ptr, inverse_ptr, out_ptr, ROWS: tl.constexpr, DIM: tl.constexpr
):
    """Gradients of a layer's input by those of its norm, whose inverse lengths are kept. Bound by DRAM."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)
    at = row[:, None] * DIM + column[None, :]
    x, grad = tl.load(x_ptr + at).to(tl.float32), tl.load(grad_ptr + at).to(tl.float32)
    inverse = tl.load(inverse_ptr + row)[:, None]
    grad *= tl.load(weight_ptr + column[None, :])
    along = tl.sum(grad * x, 1)[:, None] * (inverse * inverse * (1.0 / DIM))
    tl.store(out_ptr + at, (inverse * (grad - x * along)).to(tl.bfloat16))


def _norm_gradients(rows_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens = 4 * rows_of_program if small else 32768
        x, grad = (random(tokens, 4096, dtype=torch.bfloat16) for _ in range(2))
        weight, inverse, out = random(4096), torch.rand(tokens) + 0.5, torch.empty_like(x)
        options = {"ROWS": rows_of_program, "DIM": 4096, "num_warps": num_warps}
        args = (x, grad, weight, inverse, out)
        return Launch(norm_gradients_kernel, (tokens // rows_of_program,), args, (out,), options)

    return prepare


@triton.jit
def angles_of_axes_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, TOKENS: tl.constexpr, HEADS: tl.constexpr, HALF: tl.constexpr
):
    """Queries turned by angles of time, height and width, of a table that all heads share. Bound by DRAM."""
    token, half = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, HALF)
    head = tl.arange(0, HEADS)
    angle = (token[:, None] * HALF + half[None, :])[:, None, :]
    cos, sin = tl.load(cos_ptr + angle), tl.load(sin_ptr + angle)
    row = token[:, None] * HEADS + head[None, :]
    at = row[:, :, None] * (2 * HALF) + half[None, None, :]
    low, high = tl.load(x_ptr + at).to(tl.float32), tl.load(x_ptr + at + HALF).to(tl.float32)
    tl.store(out_ptr + at, (low * cos - high * sin).to(tl.bfloat16))
    tl.store(out_ptr + at + HALF, (high * cos + low * sin).to(tl.bfloat16))


def _angles_of_axes(tokens_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens = 4 * tokens_of_program if small else 32768
        x = random(tokens, 32, 128, dtype=torch.bfloat16)
        turn, out = 6.28 * torch.rand(tokens, 64), torch.empty_like(x)
        cos, sin = torch.cos(turn), torch.sin(turn)
        options = {"TOKENS": tokens_of_program, "HEADS": 32, "HALF": 64, "num_warps": num_warps}
        grid = (tokens // tokens_of_program,)
        return Launch(angles_of_axes_kernel, grid, (x, cos, sin, out), (out,), options)

    return prepare


_good = faultless_of(12)

CASES = (
    _good("good taps of causal channels", _causal_taps(8, 256, 4)),
    _good("good logits of words seen before", _seen_words(1024, 8)),
    _good("good pages exchanged", _exchanged_pages(4096, 4)),
    _good("good factored step", _factored_step(2, 1024, 4)),
    _good("good gradients of smoothed labels", _logit_gradients(2048, 8)),
    _good("good gradients before a squared ReLU", _squared_gradients(128, 256, 32, 8, 4)),
    _good("good counts of pairs of words", _pair_counts(1024, 4)),
    _good("good inputs of words and pictures", _joined_inputs(1, 4096, 4)),
    _good("good gradients through a norm", _norm_gradients(1, 8)),
    _good("good angles of time and place", _angles_of_axes(1, 8)),
)
