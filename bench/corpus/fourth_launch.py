"""Fourth round, faults of the launch: how work is shared among SMs, CTAs and warps."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def row_codes_kernel(x_ptr, out_ptr, scale_ptr, rows, COLUMNS: tl.constexpr):
    """Rows as signed bytes, with a scale each; every program works on many rows."""
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        at = row * COLUMNS + tl.arange(0, COLUMNS)
        x = tl.load(x_ptr + at).to(tl.float32)
        peak = tl.max(tl.abs(x), 0)
        tl.store(scale_ptr + row, peak * (1.0 / 127.0))
        tl.store(out_ptr + at, (x * (127.0 / peak)).to(tl.int8))


def _row_codes(programs: int) -> Prepare:
    """A grid of 40 was right for the 40 SMs of another GPU."""

    def prepare(small: bool) -> Launch:
        rows, columns = (8, 512) if small else (1 << 14, 4096)
        x = random(rows, columns, dtype=torch.bfloat16)
        out, scale = empty(rows, columns, dtype=torch.int8), empty(rows)
        grid = (2 if small else programs,)
        options = {"COLUMNS": columns, "num_warps": 8}
        return Launch(row_codes_kernel, grid, (x, out, scale, rows), (scale, out), options)

    return prepare


@triton.jit
def _attend(
    q_ptr, k_ptr, v_ptr, out_ptr, base, first, full, end, DIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention of a block of queries to all keys before full, and causally to those before end."""
    offs_m, offs_n, dims = first + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, DIM)
    scale: tl.constexpr = 0.125 * 1.44269504
    q = tl.load(q_ptr + base + offs_m[:, None] * DIM + dims[None, :])
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(0, full, BLOCK_N):
        k = tl.load(k_ptr + base + (start + offs_n)[None, :] * DIM + dims[:, None])
        score = tl.dot(q, k) * scale
        higher = tl.maximum(peak, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        v = tl.load(v_ptr + base + (start + offs_n)[:, None] * DIM + dims[None, :])
        acc = tl.dot(share.to(tl.float16), v, acc * shrink[:, None])
        peak = higher
    for start in range(full, end, BLOCK_N):
        k = tl.load(k_ptr + base + (start + offs_n)[None, :] * DIM + dims[:, None])
        later = (start + offs_n)[None, :] > offs_m[:, None]
        score = tl.where(later, float("-inf"), tl.dot(q, k) * scale)
        higher = tl.maximum(peak, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        v = tl.load(v_ptr + base + (start + offs_n)[:, None] * DIM + dims[None, :])
        acc = tl.dot(share.to(tl.float16), v, acc * shrink[:, None])
        peak = higher
    out = (acc * (1.0 / total)[:, None]).to(tl.float16)
    tl.store(out_ptr + base + offs_m[:, None] * DIM + dims[None, :], out)


@triton.jit
def causal_order_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, heads, LONG_FIRST: tl.constexpr, DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Causal attention; later blocks of queries attend to more keys."""
    block = tl.program_id(0) // heads
    if LONG_FIRST:
        block = length // BLOCK_M - 1 - block
    base = (tl.program_id(0) % heads).to(tl.int64) * length * DIM
    first = block * BLOCK_M
    _attend(q_ptr, k_ptr, v_ptr, out_ptr, base, first, first, first + BLOCK_M, DIM, BLOCK_M, BLOCK_N)


def _causal_order(long_first: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 256) if small else (20, 4096)
        q, k, v = (random(heads, length, 64, dtype=torch.float16) for _ in range(3))
        out = torch.empty_like(q)
        options = {"LONG_FIRST": long_first, "DIM": 64, "BLOCK_M": 128, "BLOCK_N": 64}
        options |= {"num_warps": 4, "num_stages": 3}
        grid = (length // 128 * heads,)
        return Launch(causal_order_kernel, grid, (q, k, v, out, length, heads), (out,), options)

    return prepare


@triton.jit
def packed_attention_kernel(
    q_ptr, k_ptr, v_ptr, begin_ptr, document_ptr, first_ptr, last_ptr, out_ptr, tokens, DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Causal attention inside each of many documents; a program has some blocks of one document's queries."""
    document = tl.load(document_ptr + tl.program_id(1))
    base = (tl.program_id(0) * tokens + tl.load(begin_ptr + document)) * DIM
    last = tl.load(last_ptr + tl.program_id(1))
    for block in range(tl.load(first_ptr + tl.program_id(1)), last):  # fault
        first = block * BLOCK
        _attend(q_ptr, k_ptr, v_ptr, out_ptr, base, first, first, first + BLOCK, DIM, BLOCK, BLOCK)  # fault


def _packed_attention(whole: bool) -> Prepare:
    """whole: a program has a whole document, which is of 2 to 32 blocks; or one block, long ones first."""

    def prepare(small: bool) -> Launch:
        heads, documents = (1, 3) if small else (16, 40)
        blocks = torch.tensor(
            [1 + at if small else 2 + 30 * at**3 // (documents - 1) ** 3 for at in range(documents)],
            device="cpu",
        )
        blocks = blocks[torch.arange(documents, device="cpu") * 7 % documents]
        begin = (torch.cumsum(blocks, 0) - blocks) * 64
        tokens = int(blocks.sum()) * 64
        if whole:
            programs = [(at, 0, int(count)) for at, count in enumerate(blocks)]
        else:
            programs = [(at, each, each + 1) for at, count in enumerate(blocks) for each in range(count)]
            programs.sort(key=lambda program: -program[1])
        q, k, v = (random(heads, tokens, 64, dtype=torch.float16) for _ in range(3))
        out = torch.empty_like(q)
        tables = [
            torch.tensor(column, dtype=torch.int32, device=q.device) for column in zip(*programs, strict=True)
        ]
        args = (q, k, v, begin.int().to(q.device), *tables, out, tokens)
        options = {"DIM": 64, "BLOCK": 64, "num_warps": 4, "num_stages": 2}
        return Launch(packed_attention_kernel, (heads, len(programs)), args, (out,), options)

    return prepare


@triton.jit
def staged_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Attention to all keys; the launch says how many blocks of keys are loaded ahead."""
    base = tl.program_id(1).to(tl.int64) * length * DIM
    first = tl.program_id(0) * BLOCK_M
    _attend(q_ptr, k_ptr, v_ptr, out_ptr, base, first, length, length, DIM, BLOCK_M, BLOCK_N)


def _staged_attention(stages: int) -> Prepare:
    """Five stages take 176 KiB of shared memory, so that an SM holds one CTA of four warps."""

    def prepare(small: bool) -> Launch:
        heads, length = (1, 128) if small else (64, 2048)
        q, k, v = (random(heads, length, 128, dtype=torch.float16) for _ in range(3))
        out = torch.empty_like(q)
        options = {"DIM": 128, "BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": stages}
        grid = (length // 64, heads)
        return Launch(staged_attention_kernel, grid, (q, k, v, out, length), (out,), options)

    return prepare


@triton.jit
def _sorted(a, b):
    return tl.minimum(a, b), tl.maximum(a, b)


@triton.jit
def median_filter_kernel(x_ptr, out_ptr, width, steps, BLOCK: tl.constexpr):
    """The median of each pixel's 3 x 3 neighbours; a program filters a strip of the image."""
    first = tl.program_id(0) * steps * BLOCK + tl.arange(0, BLOCK)
    for step in range(steps):
        at = first + step * BLOCK
        a, b, c = tl.load(x_ptr + at), tl.load(x_ptr + at + 1), tl.load(x_ptr + at + 2)
        d, e = tl.load(x_ptr + at + width), tl.load(x_ptr + at + width + 1)
        f, g = tl.load(x_ptr + at + width + 2), tl.load(x_ptr + at + 2 * width)
        h, i = tl.load(x_ptr + at + 2 * width + 1), tl.load(x_ptr + at + 2 * width + 2)
        a, b = _sorted(a, b)
        b, c = _sorted(b, c)
        a, b = _sorted(a, b)
        d, e = _sorted(d, e)
        e, f = _sorted(e, f)
        d, e = _sorted(d, e)
        g, h = _sorted(g, h)
        h, i = _sorted(h, i)
        g, h = _sorted(g, h)
        low = tl.maximum(tl.maximum(a, d), g)
        high = tl.minimum(tl.minimum(c, f), i)
        b, e = _sorted(b, e)
        middle = tl.maximum(b, tl.minimum(e, h))
        low, middle = _sorted(low, middle)
        tl.store(out_ptr + at, tl.maximum(low, tl.minimum(middle, high)))


def _median_filter(programs: int, block: int, warps: int) -> Prepare:
    """An SM holds one program of 32 warps: 132 of 144 run in the first wave."""

    def prepare(small: bool) -> Launch:
        width, strips, steps = (256, programs // 72, 1) if small else (4096, programs, 16)
        count = strips * steps * block
        x, out = random(count + 2 * width + 2), empty(count)
        options = {"BLOCK": block, "num_warps": warps}
        return Launch(median_filter_kernel, (strips,), (x, out, width, steps), (out,), options)

    return prepare


@triton.jit
def rotated_heads_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, HEADS: tl.constexpr, GROUP: tl.constexpr, HALF: tl.constexpr
):
    """Rotary embedding of a token's heads; a program turns GROUP of them."""
    token = tl.program_id(0)
    lanes = tl.arange(0, HALF)
    cos = tl.load(cos_ptr + token * HALF + lanes)[None, :]
    sin = tl.load(sin_ptr + token * HALF + lanes)[None, :]
    heads = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    at = (token * HEADS + heads)[:, None] * 2 * HALF + lanes[None, :]
    one, two = tl.load(x_ptr + at).to(tl.float32), tl.load(x_ptr + at + HALF).to(tl.float32)
    tl.store(out_ptr + at, (one * cos - two * sin).to(tl.bfloat16))
    tl.store(out_ptr + at + HALF, (two * cos + one * sin).to(tl.bfloat16))


def _rotated_heads(group: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, heads = (8, 32) if small else (16384, 32)
        x = random(tokens, heads, 128, dtype=torch.bfloat16)
        angle = torch.rand(tokens, 64) * 6.28
        out = torch.empty_like(x)
        options = {"HEADS": heads, "GROUP": group, "HALF": 64, "num_warps": warps}
        grid = (tokens, heads // group)
        return Launch(rotated_heads_kernel, grid, (x, angle.cos(), angle.sin(), out), (out,), options)

    return prepare


@triton.jit
def pooled_sentences_kernel(
    x_ptr, length_ptr, out_ptr, longest, STOP: tl.constexpr, DIM: tl.constexpr, TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The mean of the tokens of each sentence, which are padded to the longest one."""
    sentence = tl.program_id(1)
    dims = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    length = tl.load(length_ptr + sentence)
    end = length if STOP else longest
    base = x_ptr + sentence.to(tl.int64) * longest * DIM
    acc = tl.zeros((TOKENS, BLOCK), dtype=tl.float32)
    for start in range(0, end, TOKENS):  # fault
        token = start + tl.arange(0, TOKENS)
        x = tl.load(base + token[:, None] * DIM + dims[None, :])  # fault
        acc += tl.where((token < length)[:, None], x.to(tl.float32), 0.0)  # fault
    tl.store(out_ptr + sentence * DIM + dims, tl.sum(acc, 0) / length.to(tl.float32))


def _pooled_sentences(stop: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        sentences, longest, dim = (2, 64, 256) if small else (512, 512, 1024)
        x = random(sentences, longest, dim, dtype=torch.bfloat16)
        length = longest // 4 + integers(sentences, below=longest // 16)
        out = empty(sentences, dim)
        options = {"STOP": stop, "DIM": dim, "TOKENS": 16, "BLOCK": 256, "num_warps": 4}
        grid = (dim // 256, sentences)
        return Launch(pooled_sentences_kernel, grid, (x, length, out, longest), (out,), options)

    return prepare


@triton.jit
def wide_heads_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, DIM: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr
):
    """Attention with heads of 80 dimensions, padded to the next power of two."""
    base = tl.program_id(1).to(tl.int64) * length * DIM
    offs_m, offs_n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, 64)
    dims = tl.arange(0, PADDED)
    inside = dims < DIM
    scale: tl.constexpr = 0.1118 * 1.44269504
    q = tl.load(q_ptr + base + offs_m[:, None] * DIM + dims[None, :], mask=inside[None, :], other=0.0)
    peak = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    acc = tl.zeros((BLOCK, PADDED), dtype=tl.float32)
    for start in range(0, length, 64):
        k_at = base + (start + offs_n)[None, :] * DIM + dims[:, None]
        k = tl.load(k_ptr + k_at, mask=inside[:, None], other=0.0)  # fault
        score = tl.dot(q, k) * scale  # fault
        higher = tl.maximum(peak, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        v_at = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        v = tl.load(v_ptr + v_at, mask=inside[None, :], other=0.0)  # fault
        acc = tl.dot(share.to(tl.float16), v, acc * shrink[:, None])  # fault
        peak = higher
    out = (acc * (1.0 / total)[:, None]).to(tl.float16)
    tl.store(out_ptr + base + offs_m[:, None] * DIM + dims[None, :], out, mask=inside[None, :])


@triton.jit
def divided_heads_kernel(q_ptr, k_ptr, v_ptr, out_ptr, length, BLOCK: tl.constexpr):
    """As wide_heads_kernel, of 64 and 16 dimensions."""
    base = tl.program_id(1).to(tl.int64) * length * 80
    offs_m, offs_n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, 64)
    most, rest = tl.arange(0, 64), 64 + tl.arange(0, 16)
    scale: tl.constexpr = 0.1118 * 1.44269504
    q_rows, out_rows = q_ptr + base + offs_m[:, None] * 80, out_ptr + base + offs_m[:, None] * 80
    q_most, q_rest = tl.load(q_rows + most[None, :]), tl.load(q_rows + rest[None, :])
    peak = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    acc_most = tl.zeros((BLOCK, 64), dtype=tl.float32)
    acc_rest = tl.zeros((BLOCK, 16), dtype=tl.float32)
    for start in range(0, length, 64):
        k_columns = k_ptr + base + (start + offs_n)[None, :] * 80
        score = tl.dot(q_most, tl.load(k_columns + most[:, None]))
        score = tl.dot(q_rest, tl.load(k_columns + rest[:, None]), score) * scale
        higher = tl.maximum(peak, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        v_rows = v_ptr + base + (start + offs_n)[:, None] * 80
        acc_most = tl.dot(share.to(tl.float16), tl.load(v_rows + most[None, :]), acc_most * shrink[:, None])
        acc_rest = tl.dot(share.to(tl.float16), tl.load(v_rows + rest[None, :]), acc_rest * shrink[:, None])
        peak = higher
    over = (1.0 / total)[:, None]
    tl.store(out_rows + most[None, :], (acc_most * over).to(tl.float16))
    tl.store(out_rows + rest[None, :], (acc_rest * over).to(tl.float16))


def _heads_of_80(padded: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 128) if small else (64, 2048)
        q, k, v = (random(heads, length, 80, dtype=torch.float16) for _ in range(3))
        out = torch.empty_like(q)
        options = {"BLOCK": 128, "num_warps": 8, "num_stages": 2, "maxnreg": 128}
        args, grid = (q, k, v, out, length), (length // 128, heads)
        if padded:
            options |= {"DIM": 80, "PADDED": 128}
            return Launch(wide_heads_kernel, grid, args, (out,), options)
        return Launch(divided_heads_kernel, grid, args, (out,), options)

    return prepare


_case = faults_of(4)


CASES = (
    _case(
        "bytes of rows by 40 programs",
        ("idle-sms", "low-occupancy"),
        ("ctas", "counters"),
        False,
        _row_codes(40),
        _row_codes(132 * 4),
    ),
    _case(
        "longest queries last",
        ("tail", "load-imbalance"),
        ("ctas",),
        False,
        _causal_order(False),
        _causal_order(True),
    ),
    _case(
        "median of 144 strips",
        ("tail", "load-imbalance"),
        ("ctas",),
        False,
        _median_filter(144, 8192, 32),
        _median_filter(576, 2048, 8),
    ),
    _case(
        "a CTA for each document",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        False,
        _packed_attention(True),
        _packed_attention(False),
    ),
    _case(
        "a CTA for each head's rotation",
        ("tiny-ctas",),
        ("ctas", "counters"),
        False,
        _rotated_heads(1, 1),
        _rotated_heads(32, 4),
    ),
    _case(
        "attention of 5 stages",
        ("low-occupancy",),
        ("ctas", "resources", "samples"),
        False,
        _staged_attention(5),
        _staged_attention(2),
    ),
    _case(
        "padding pooled",
        ("masked-work",),
        ("counts", "counters"),
        True,
        _pooled_sentences(False),
        _pooled_sentences(True),
    ),
    _case(
        "80 dimensions as 128",
        ("masked-work",),
        ("counts", "samples"),
        True,
        _heads_of_80(True),
        _heads_of_80(False),
    ),
)
