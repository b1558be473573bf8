"""Fourth round, faults of memory: which bytes are moved, how often, and how they lie."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def tied_embedding_kernel(
    table_ptr, word_ptr, out_ptr, stride_word, stride_dim, DIM: tl.constexpr, WORDS: tl.constexpr
):
    """The embedding of each token, out of a table that is also the last layer's weight."""
    token = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    dims = tl.program_id(1) * 256 + tl.arange(0, 256)
    word = tl.load(word_ptr + token)
    row = tl.load(table_ptr + word[:, None] * stride_word + dims[None, :] * stride_dim)  # fault
    tl.store(out_ptr + token[:, None] * DIM + dims[None, :], row)


def _tied_embedding(by_word: bool) -> Prepare:
    """The last layer wants the words of a dimension side by side; by_word: the dimensions of a word are."""

    def prepare(small: bool) -> Launch:
        tokens, words, dim = (16, 64, 256) if small else (1 << 14, 32768, 1024)
        table = random(words, dim, dtype=torch.float16)
        if not by_word:
            table = table.t().contiguous().t()
        word, out = integers(tokens, below=words), empty(tokens, dim, dtype=torch.float16)
        args = (table, word, out, *table.stride())
        options = {"DIM": dim, "WORDS": 8, "num_warps": 4}
        return Launch(tied_embedding_kernel, (tokens // 8, dim // 256), args, (out,), options)

    return prepare


@triton.jit
def reversed_bits_kernel(x_ptr, out_ptr, BITS: tl.constexpr, BLOCK: tl.constexpr):
    """Puts each element where the bits of its index, reversed, say: the last step of an FFT."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    target = (libdevice.brev(offs) >> (32 - BITS)) & ((1 << BITS) - 1)
    tl.store(out_ptr + target, tl.load(x_ptr + offs))  # fault


@triton.jit
def reversed_tiles_kernel(x_ptr, out_ptr, BITS: tl.constexpr):
    """As reversed_bits_kernel; the first five bits of the index and the last five make a tile."""
    i, j = tl.arange(0, 32), tl.arange(0, 32)
    first, last = (libdevice.brev(i) >> 27) & 31, (libdevice.brev(j) >> 27) & 31
    middle = tl.program_id(0)
    turned = (libdevice.brev(middle) >> (42 - BITS)) & ((1 << (BITS - 10)) - 1)
    x = tl.load(x_ptr + (first << (BITS - 5))[:, None] + middle * 32 + j[None, :])
    tl.store(out_ptr + (last << (BITS - 5))[None, :] + turned * 32 + i[:, None], x)


def _reversed_bits(tiled: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        bits = 12 if small else 24
        x, out = random(1 << bits), empty(1 << bits)
        if tiled:
            options = {"BITS": bits, "num_warps": 4}
            return Launch(reversed_tiles_kernel, (1 << (bits - 10),), (x, out), (out,), options)
        options = {"BITS": bits, "BLOCK": 1024, "num_warps": 4}
        return Launch(reversed_bits_kernel, (1 << (bits - 10),), (x, out), (out,), options)

    return prepare


@triton.jit(do_not_specialize=["stride_column"])
def scaled_codes_kernel(
    x_ptr, scale_ptr, out_ptr, stride_row, stride_column, KNOWN: tl.constexpr, COLUMNS: tl.constexpr
):
    """Rows of signed bytes times their scales; the stride of neighbours is 1, but only KNOWN tells."""
    row, columns = tl.program_id(0), tl.arange(0, COLUMNS)
    step = 1 if KNOWN else stride_column
    x = tl.load(x_ptr + row * stride_row + columns * step)  # fault
    y = x.to(tl.float16) * tl.load(scale_ptr + row)
    tl.store(out_ptr + row * stride_row + columns * step, y)  # fault


def _scaled_codes(known: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns = (4, 2048) if small else (1 << 14, 8192)
        x = (integers(rows, columns, below=255) - 127).to(torch.int8)
        scale, out = random(rows, dtype=torch.float16), empty(rows, columns, dtype=torch.float16)
        args = (x, scale, out, columns, 1)
        options = {"KNOWN": known, "COLUMNS": columns, "num_warps": 8}
        return Launch(scaled_codes_kernel, (rows,), args, (out,), options)

    return prepare


@triton.jit
def token_matvec_kernel(w_ptr, x_ptr, out_ptr, K, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """A layer's output for a few tokens; a program has some of the outputs of one token."""
    rows, token = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1)
    acc = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        w = tl.load(w_ptr + rows[:, None] * K + columns[None, :]).to(tl.float32)  # fault
        acc += w * tl.load(x_ptr + token * K + columns)[None, :]
    tl.store(out_ptr + token * N + rows, tl.sum(acc, 1))


@triton.jit
def tokens_matvec_kernel(
    w_ptr, x_ptr, out_ptr, K, N, TOKENS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """As token_matvec_kernel, of all tokens."""
    rows, token = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, TOKENS)
    acc = tl.zeros((TOKENS, ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        w = tl.load(w_ptr + rows[None, :, None] * K + columns[None, None, :]).to(tl.float32)
        acc += w * tl.load(x_ptr + token[:, None, None] * K + columns[None, None, :])
    tl.store(out_ptr + token[:, None] * N + rows[None, :], tl.sum(acc, 2))


def _few_tokens(together: bool) -> Prepare:
    """The weights are larger than the L2 cache."""

    def prepare(small: bool) -> Launch:
        tokens, n, k = (4, 16, 1024) if small else (4, 8192, 8192)
        w, x, out = random(n, k, dtype=torch.bfloat16), random(tokens, k), empty(tokens, n)
        args = (w, x, out, k, n)
        if together:
            options = {"TOKENS": tokens, "ROWS": 4, "BLOCK": 512, "num_warps": 4}
            return Launch(tokens_matvec_kernel, (n // 4,), args, (out,), options)
        options = {"ROWS": 4, "BLOCK": 1024, "num_warps": 4}
        return Launch(token_matvec_kernel, (n // 4, tokens), args, (out,), options)

    return prepare


@triton.jit
def expanded_sound_kernel(code_ptr, table_ptr, out_ptr, LOOK: tl.constexpr, BLOCK: tl.constexpr):
    """Sound out of logarithmic codes of 12 bits, of which the highest is the sign."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    code = tl.load(code_ptr + offs).to(tl.int32)
    if LOOK:
        sample = tl.load(table_ptr + code)  # fault
    else:
        size = (tl.exp2((code & 2047).to(tl.float32) * 0.00390625) - 1.0) * 0.00392157
        sample = tl.where(code < 2048, size, -size)
    tl.store(out_ptr + offs, sample.to(tl.float16))


def _expanded_sound(look: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (12 if small else 25)
        code = integers(n, below=4096, dtype=torch.int16)
        every = torch.arange(4096)
        size = (torch.exp2((every % 2048) / 256.0) - 1.0) / 255.0
        table = torch.where(every < 2048, size, -size)
        out = empty(n, dtype=torch.float16)
        options = {"LOOK": look, "BLOCK": 1024, "num_warps": 4}
        return Launch(expanded_sound_kernel, (n // 1024,), (code, table, out), (out,), options)

    return prepare


@triton.jit
def apart_channels_kernel(
    x_ptr, out_ptr, frames, GATHER: tl.constexpr, CHANNELS: tl.constexpr, FRAMES: tl.constexpr
):
    """The channels of a recording, which holds all channels of a frame together, one behind the other."""
    size: tl.constexpr = CHANNELS * FRAMES
    first = tl.program_id(0) * FRAMES
    lanes = tl.arange(0, size)
    x = tl.load(x_ptr + first * CHANNELS + lanes)
    if GATHER:
        source = lanes % FRAMES * CHANNELS + lanes // FRAMES
        x = tl.gather(x, source, 0)  # fault
        tl.store(out_ptr + lanes // FRAMES * frames + first + lanes % FRAMES, x)
    else:
        x = tl.trans(tl.reshape(x, (FRAMES, CHANNELS)))
        channel, frame = tl.arange(0, CHANNELS), tl.arange(0, FRAMES)
        tl.store(out_ptr + channel[:, None] * frames + first + frame[None, :], x)


def _apart_channels(gather: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames = 256 if small else 1 << 20
        x, out = random(frames, 32), empty(32, frames)
        options = {"GATHER": gather, "CHANNELS": 32, "FRAMES": 128, "num_warps": 4}
        return Launch(apart_channels_kernel, (frames // 128,), (x, out, frames), (out,), options)

    return prepare


@triton.jit
def largest_entry_kernel(x_ptr, out_ptr, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """The largest absolute value of a tensor, for its scale; EACH: every lane offers its own."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    size = tl.abs(tl.load(x_ptr + offs).to(tl.float32))
    if EACH:
        tl.atomic_max(out_ptr + tl.zeros((BLOCK,), dtype=tl.int32), size, sem="relaxed")  # fault
    else:
        tl.atomic_max(out_ptr, tl.max(size, 0), sem="relaxed")


def _largest_entry(each: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 4096 if small else 1 << 22
        x, out = random(n, dtype=torch.bfloat16), zeros(1)
        options = {"EACH": each, "BLOCK": 2048, "num_warps": 8}
        return Launch(largest_entry_kernel, (n // 2048,), (x, out), (out,), options)

    return prepare


@triton.jit
def paged_decode_kernel(
    q_ptr, k_ptr, v_ptr, page_ptr, out_ptr, pages, AHEAD: tl.constexpr, DIM: tl.constexpr, PAGE: tl.constexpr
):
    """Attention of a query to keys in pages of a cache; scores are small enough to go without their peak."""
    tokens, dims = tl.arange(0, PAGE), tl.arange(0, DIM)
    inside = tokens[:, None] * DIM + dims[None, :]
    table = page_ptr + tl.program_id(0) * pages
    q = tl.load(q_ptr + tl.program_id(0) * DIM + dims)
    total = tl.zeros((PAGE,), dtype=tl.float32)
    acc = tl.zeros((PAGE, DIM), dtype=tl.float32)
    if AHEAD:
        at = tl.load(table) * PAGE * DIM + inside
        k, v = tl.load(k_ptr + at), tl.load(v_ptr + at)
        page = tl.load(table + 1)
        for i in range(pages):
            at = page * PAGE * DIM + inside
            next_k, next_v = tl.load(k_ptr + at), tl.load(v_ptr + at)
            page = tl.load(table + tl.minimum(i + 2, pages - 1))
            share = tl.exp(tl.sum(k.to(tl.float32) * q[None, :], 1))
            total += share
            acc += share[:, None] * v.to(tl.float32)
            k, v = next_k, next_v
    else:
        for i in range(pages):
            at = tl.load(table + i) * PAGE * DIM + inside  # fault
            k = tl.load(k_ptr + at).to(tl.float32)  # fault
            share = tl.exp(tl.sum(k * q[None, :], 1))
            total += share
            acc += share[:, None] * tl.load(v_ptr + at).to(tl.float32)  # fault
    tl.store(out_ptr + tl.program_id(0) * DIM + dims, tl.sum(acc, 0) / tl.sum(total, 0))


def _paged_decode(ahead: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        queries, pages = (2, 4) if small else (264, 128)
        q = random(queries, 128) * 0.05
        k, v = (random(queries * pages, 16, 128, dtype=torch.float16) for _ in range(2))
        page = torch.randperm(queries * pages).int()
        out = empty(queries, 128)
        options = {"AHEAD": ahead, "DIM": 128, "PAGE": 16, "num_warps": 4}
        return Launch(paged_decode_kernel, (queries,), (q, k, v, page, out, pages), (out,), options)

    return prepare


@triton.jit
def strided_grid_kernel(x_ptr, gate_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Gated activations; programs go over the tensors in steps of the grid."""
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs).to(tl.float32)  # fault
        gate = tl.load(gate_ptr + offs).to(tl.float32)  # fault
        tl.store(out_ptr + offs, (x * tl.sigmoid(x) * gate).to(tl.bfloat16))


def _strided_grid(each: int) -> Prepare:
    """each: programs for an SM."""

    def prepare(small: bool) -> Launch:
        n = 8192 if small else 1 << 26
        x, gate = random(n, dtype=torch.bfloat16), random(n, dtype=torch.bfloat16)
        out = torch.empty_like(x)
        options = {"BLOCK": 1024, "num_warps": 4}
        grid = (2 if small else 132 * each,)
        return Launch(strided_grid_kernel, grid, (x, gate, out, n), (out,), options)

    return prepare


@triton.jit
def best_eight_kernel(x_ptr, out_ptr, AGAIN: tl.constexpr, COLUMNS: tl.constexpr):
    """The eight largest of a row's numbers, which all differ; AGAIN: each of them is found in memory."""
    row = tl.program_id(0)
    at = x_ptr + row.to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(at)
    best = tl.max(x, 0)
    tl.store(out_ptr + row * 8, best)
    for i in range(1, 8):
        if AGAIN:
            x = tl.load(at)  # fault
        x = tl.where(x < best, x, float("-inf"))
        best = tl.max(x, 0)
        tl.store(out_ptr + row * 8 + i, best)


def _best_eight(again: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns = (2, 2048) if small else (2112, 32768)
        order = torch.argsort(torch.rand(rows, columns), 1)
        x, out = order.float() - columns / 2, empty(rows, 8)
        options = {"AGAIN": again, "COLUMNS": columns, "num_warps": 16}
        return Launch(best_eight_kernel, (rows,), (x, out), (out,), options)

    return prepare


_case = faults_of(4)


CASES = (
    _case(
        "tied table read down its columns",
        ("uncoalesced-load",),
        ("counts",),
        True,
        _tied_embedding(False),
        _tied_embedding(True),
    ),
    _case(
        "bits reversed by scattering",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _reversed_bits(False),
        _reversed_bits(True),
    ),
    _case(
        "stride that nobody knows",
        ("unvectorized-access",),
        ("counts",),
        True,
        _scaled_codes(False),
        _scaled_codes(True),
    ),
    _case(
        "weights read for each token",
        ("tile-reread", "redundant-load"),
        ("counters",),
        False,
        _few_tokens(False),
        _few_tokens(True),
    ),
    _case(
        "sound out of a table",
        ("l1-bound", "uncoalesced-load"),
        ("counts", "counters"),
        True,
        _expanded_sound(True),
        _expanded_sound(False),
    ),
    _case(
        "channels put apart by a gather",
        ("bank-conflict", "layout-conversion"),
        ("counts",),
        True,
        _apart_channels(True),
        _apart_channels(False),
    ),
    _case(
        "largest entry offered by each lane",
        ("atomics",),
        ("counters", "samples"),
        True,
        _largest_entry(True),
        _largest_entry(False),
    ),
    _case(
        "page looked up when needed",
        ("exposed-latency", "few-stages", "low-occupancy"),
        ("samples", "spans"),
        False,
        _paged_decode(False),
        _paged_decode(True),
    ),
    _case(
        "activations in steps of a small grid",
        ("low-occupancy", "exposed-latency"),
        ("ctas", "counters", "samples"),
        False,
        _strided_grid(2),
        _strided_grid(14),
    ),
    _case(
        "row loaded for each of its best",
        ("redundant-load", "tile-reread"),
        ("counts", "counters"),
        True,
        _best_eight(True),
        _best_eight(False),
    ),
)
