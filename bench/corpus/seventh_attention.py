"""Seventh round, faults in attention and in what takes its place."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def image_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, length, D: tl.constexpr, WIDE: tl.constexpr, REST: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention of an image encoder's patches. REST: dimensions behind a power of two, as their own tiles."""
    base = tl.program_id(1) * length * D
    rows, lanes = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, WIDE)
    q = tl.load(q_ptr + base + rows[:, None] * D + dims[None, :], mask=(dims < D)[None, :], other=0.0)
    acc = tl.zeros((BLOCK_M, WIDE), dtype=tl.float32)
    if REST:
        rest = WIDE + tl.arange(0, REST)
        q_rest = tl.load(q_ptr + base + rows[:, None] * D + rest[None, :])
        acc_rest = tl.zeros((BLOCK_M, REST), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), -1e9, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        at = base + (start + lanes) * D
        k = tl.load(k_ptr + at[None, :] + dims[:, None], mask=(dims < D)[:, None], other=0.0)
        score = tl.dot(q, k)  # fault
        if REST:
            score = tl.dot(q_rest, tl.load(k_ptr + at[None, :] + rest[:, None]), score)
        score *= scale
        higher = tl.maximum(peak, tl.max(score, 1))
        p = tl.exp2(score - higher[:, None])
        fade = tl.exp2(peak - higher)
        total = total * fade + tl.sum(p, 1)
        v = tl.load(v_ptr + at[:, None] + dims[None, :], mask=(dims < D)[None, :], other=0.0)
        acc = tl.dot(p.to(tl.bfloat16), v, acc * fade[:, None])  # fault
        if REST:
            v_rest = tl.load(v_ptr + at[:, None] + rest[None, :])
            acc_rest = tl.dot(p.to(tl.bfloat16), v_rest, acc_rest * fade[:, None])
        peak = higher
    out = out_ptr + base + rows[:, None] * D
    out_mask = (dims < D)[None, :]
    tl.store(out + dims[None, :], (acc / total[:, None]).to(tl.bfloat16), mask=out_mask)
    if REST:
        tl.store(out + rest[None, :], (acc_rest / total[:, None]).to(tl.bfloat16))


def _image_attention(wide: int, rest: int) -> Prepare:
    """80 dimensions a head, as of the encoder of SAM."""

    def prepare(small: bool) -> Launch:
        heads, length = (1, 256) if small else (66, 4096)
        q, k, v = (random(heads, length, 80, dtype=torch.bfloat16) for _ in range(3))
        out = torch.empty_like(q)
        options = {"D": 80, "WIDE": wide, "REST": rest, "BLOCK_M": 128, "BLOCK_N": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        args = (q, k, v, out, 80**-0.5 * 1.44269504, length)
        return Launch(image_attention_kernel, (length // 128, heads), args, (out,), options)

    return prepare


@triton.jit
def text_encoder_kernel(
    q_ptr, k_ptr, v_ptr, length_ptr, out_ptr, scale, longest, heads, SHORT: tl.constexpr,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention in both directions of texts that are filled up to the longest; SHORT: up to their ends."""
    length = tl.load(length_ptr + tl.program_id(1) // heads)
    base = tl.program_id(1) * longest * D
    rows, lanes = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, D)
    end = longest
    if SHORT:
        end = tl.where(tl.program_id(0) * BLOCK_M < length, length, 0)
    q = tl.load(q_ptr + base + rows[:, None] * D + dims[None, :])
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), -1e9, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in range(0, end, BLOCK_N):
        column = start + lanes
        k = tl.load(k_ptr + base + column[None, :] * D + dims[:, None])
        score = tl.where((column < length)[None, :], tl.dot(q, k) * scale, -1e9)  # fault
        higher = tl.maximum(peak, tl.max(score, 1))
        p = tl.exp2(score - higher[:, None])
        fade = tl.exp2(peak - higher)
        total = total * fade + tl.sum(p, 1)
        v = tl.load(v_ptr + base + column[:, None] * D + dims[None, :])
        acc = tl.dot(p.to(tl.float16), v, acc * fade[:, None])  # fault
        peak = higher
    out = out_ptr + base + rows[:, None] * D + dims[None, :]
    tl.store(out, (acc / total[:, None]).to(tl.float16), mask=(rows < length)[:, None])


def _text_encoder(short: bool) -> Prepare:
    """Texts have a third of the longest one's tokens on average."""

    def prepare(small: bool) -> Launch:
        texts, heads, longest = (2, 2, 256) if small else (132, 12, 512)
        length = torch.randint(20, 320, (texts,), dtype=torch.int32) * longest // 512
        q, k, v = (random(texts * heads, longest, 64, dtype=torch.float16) for _ in range(3))
        out = torch.zeros_like(q)
        options = {"SHORT": short, "D": 64, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3}
        args = (q, k, v, length, out, 0.125 * 1.44269504, longest, heads)
        return Launch(text_encoder_kernel, (longest // 128, texts * heads), args, (out,), options)

    return prepare


@triton.jit
def two_maps_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, weight, scale, length, D: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Differential attention: the results of one map of scores, less those of another map."""
    base, rows = tl.program_id(1) * length, tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes, dims, wide = tl.arange(0, BLOCK_N), tl.arange(0, D), tl.arange(0, WIDE)
    q = q_ptr + (base + rows)[:, None] * 2 * D + dims[None, :]
    q_first, q_second = tl.load(q), tl.load(q + D)
    first = tl.zeros((BLOCK_M, WIDE), dtype=tl.float32)
    second = tl.zeros((BLOCK_M, WIDE), dtype=tl.float32)
    total_first = tl.zeros((BLOCK_M,), dtype=tl.float32)
    total_second = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak_first = tl.full((BLOCK_M,), -1e9, dtype=tl.float32)
    peak_second = tl.full((BLOCK_M,), -1e9, dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        at = base + start + lanes
        k = k_ptr + at[None, :] * 2 * D + dims[:, None]
        v = tl.load(v_ptr + at[:, None] * WIDE + wide[None, :])
        score = tl.dot(q_first, tl.load(k)) * scale
        higher = tl.maximum(peak_first, tl.max(score, 1))
        p, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak_first - higher)
        total_first = total_first * fade + tl.sum(p, 1)
        first = tl.dot(p.to(tl.bfloat16), v, first * fade[:, None])  # fault
        peak_first = higher
        score = tl.dot(q_second, tl.load(k + D)) * scale
        higher = tl.maximum(peak_second, tl.max(score, 1))
        p, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak_second - higher)
        total_second = total_second * fade + tl.sum(p, 1)
        second = tl.dot(p.to(tl.bfloat16), v, second * fade[:, None])  # fault
        peak_second = higher
    result = first / total_first[:, None] - weight * second / total_second[:, None]
    tl.store(out_ptr + (base + rows)[:, None] * WIDE + wide[None, :], result.to(tl.bfloat16))


def _two_maps(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 128) if small else (66, 2048)
        q, k, v = (random(heads, length, 128, dtype=torch.bfloat16) for _ in range(3))
        out = torch.empty_like(q)
        options = {"D": 64, "WIDE": 128, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": warps, "num_stages": 2}
        args = (q, k, v, out, 0.3, 0.125 * 1.44269504, length)
        return Launch(two_maps_kernel, (length // 128, heads), args, (out,), options)

    return prepare


@triton.jit
def pooled_tokens_kernel(
    x_ptr, query_ptr, out_ptr, length, scale, ONLINE: tl.constexpr, TOKENS: tl.constexpr, D: tl.constexpr
):
    """The mean of a document's tokens, weighted by a softmax of their products with one query."""
    lanes, dims = tl.arange(0, TOKENS), tl.arange(0, D)
    x_ptr += tl.program_id(0).to(tl.int64) * length * D + lanes[:, None] * D + dims[None, :]
    query = tl.load(query_ptr + dims).to(tl.float32) * scale
    peak = tl.full((TOKENS,), -1e9, dtype=tl.float32)
    total = tl.zeros((TOKENS,), dtype=tl.float32)
    acc = tl.zeros((TOKENS, D), dtype=tl.float32)
    for start in tl.range(0, length, TOKENS, num_stages=3):
        x = tl.load(x_ptr + start * D).to(tl.float32)
        score = tl.sum(x * query[None, :], 1)
        higher = tl.maximum(peak, score)
        fade, p = tl.exp2(peak - higher), tl.exp2(score - higher)
        total = total * fade + p
        if ONLINE:
            acc = acc * fade[:, None] + x * p[:, None]
        peak = higher
    highest = tl.max(peak, 0)
    share = tl.exp2(peak - highest)
    total = tl.sum(total * share, 0)
    if ONLINE:
        acc *= share[:, None]
    else:
        for start in tl.range(0, length, TOKENS, num_stages=3):
            x = tl.load(x_ptr + start * D).to(tl.float32)  # fault
            p = tl.exp2(tl.sum(x * query[None, :], 1) - highest)  # fault
            acc += x * p[:, None]
    tl.store(out_ptr + tl.program_id(0) * D + dims, (tl.sum(acc, 0) / total).to(tl.bfloat16))


def _pooled_tokens(online: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        documents, length = (2, 128) if small else (1056, 2048)
        x, query = random(documents, length, 256, dtype=torch.bfloat16), random(256, dtype=torch.bfloat16)
        out = empty(documents, 256, dtype=torch.bfloat16)
        options = {"ONLINE": online, "TOKENS": 32, "D": 256, "num_warps": 8}
        args = (x, query, out, length, 256**-0.5 * 1.44269504)
        return Launch(pooled_tokens_kernel, (documents,), args, (out,), options)

    return prepare


@triton.jit
def float8_attention_kernel(
    q_ptr, k_ptr, v_ptr, scale_ptr, out_ptr, length, TURNED: tl.constexpr, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention of float8, with a scale for the scores of each head; TURNED: the values lie as columns."""
    base, rows = tl.program_id(1) * length, tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes, dims = tl.arange(0, BLOCK_N), tl.arange(0, D)
    scale = tl.load(scale_ptr + tl.program_id(1))
    q = tl.load(q_ptr + (base + rows)[:, None] * D + dims[None, :])
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), -1e9, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        at = start + lanes
        k = tl.load(k_ptr + (base + at)[None, :] * D + dims[:, None])
        score = tl.dot(q, k) * scale
        higher = tl.maximum(peak, tl.max(score, 1))
        p, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak - higher)
        total = total * fade + tl.sum(p, 1)
        if TURNED:
            v = tl.load(v_ptr + base * D + dims[None, :] * length + at[:, None])
        else:
            v = tl.load(v_ptr + (base + at)[:, None] * D + dims[None, :])  # fault
        acc = tl.dot(p.to(tl.float8e5), v, acc * fade[:, None])  # fault
        peak = higher
    out = out_ptr + (base + rows)[:, None] * D + dims[None, :]
    tl.store(out, (acc / total[:, None]).to(tl.bfloat16))


def _float8_attention(turned: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 256) if small else (66, 4096)
        q, k, v = (random(heads, length, 128, dtype=torch.float8_e5m2) for _ in range(3))
        if turned:
            v = v.view(torch.uint8).mT.contiguous().view(torch.float8_e5m2)
        scale, out = torch.rand(heads) * 0.12, empty(heads, length, 128, dtype=torch.bfloat16)
        options = {"TURNED": turned, "D": 128, "BLOCK_M": 128, "BLOCK_N": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        grid = (length // 128, heads)
        return Launch(float8_attention_kernel, grid, (q, k, v, scale, out, length), (out,), options)

    return prepare


@triton.jit
def distance_attention_kernel(
    q_ptr, k_ptr, v_ptr, position_ptr, out_ptr, scale, slope, length, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention whose scores fall with the distance of positions, which are given as one type or another."""
    base, rows = tl.program_id(1) * length, tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes, dims = tl.arange(0, BLOCK_N), tl.arange(0, D)
    q = tl.load(q_ptr + (base + rows)[:, None] * D + dims[None, :])
    mine = tl.load(position_ptr + rows)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), -1e9, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        at = base + start + lanes
        k = tl.load(k_ptr + at[None, :] * D + dims[:, None])
        theirs = tl.load(position_ptr + start + lanes)
        distance = (mine[:, None] - theirs[None, :]).to(tl.float32)  # fault
        score = tl.dot(q, k) * scale - slope * tl.abs(distance)
        higher = tl.maximum(peak, tl.max(score, 1))
        p, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak - higher)
        total = total * fade + tl.sum(p, 1)
        v = tl.load(v_ptr + at[:, None] * D + dims[None, :])
        acc = tl.dot(p.to(tl.bfloat16), v, acc * fade[:, None])
        peak = higher
    out = out_ptr + (base + rows)[:, None] * D + dims[None, :]
    tl.store(out, (acc / total[:, None]).to(tl.bfloat16))


def _distance_attention(dtype: torch.dtype) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 256) if small else (66, 4096)
        q, k, v = (random(heads, length, 64, dtype=torch.bfloat16) for _ in range(3))
        position, out = torch.arange(length, dtype=dtype), torch.empty_like(q)
        options = {"D": 64, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 2}
        args = (q, k, v, position, out, 0.125 * 1.44269504, 0.03, length)
        return Launch(distance_attention_kernel, (length // 128, heads), args, (out,), options)

    return prepare


@triton.jit
def resident_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, length, tasks, DEAL: tl.constexpr, D: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Causal attention by programs that stay; DEAL: the blocks are dealt to them like cards."""
    program, programs, blocks = tl.program_id(0), tl.num_programs(0), length // BLOCK
    share = tl.cdiv(tasks, programs)
    lanes, dims = tl.arange(0, BLOCK), tl.arange(0, D)
    for turn in range(share):  # fault
        task = program * share + turn
        if DEAL:
            task = program + turn * programs
        if task < tasks:
            base, first = task // blocks * length, task % blocks * BLOCK
            rows = base + first + lanes
            q = tl.load(q_ptr + rows[:, None] * D + dims[None, :])
            acc = tl.zeros((BLOCK, D), dtype=tl.float32)
            peak = tl.full((BLOCK,), -1e9, dtype=tl.float32)
            total = tl.zeros((BLOCK,), dtype=tl.float32)
            for start in range(0, first + BLOCK, BLOCK):
                at = base + start + lanes
                k = tl.load(k_ptr + at[None, :] * D + dims[:, None])
                score = tl.where(rows[:, None] >= at[None, :], tl.dot(q, k) * scale, -1e9)
                higher = tl.maximum(peak, tl.max(score, 1))
                p, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak - higher)
                total = total * fade + tl.sum(p, 1)
                v = tl.load(v_ptr + at[:, None] * D + dims[None, :])
                acc = tl.dot(p.to(tl.bfloat16), v, acc * fade[:, None])
                peak = higher
            out = out_ptr + rows[:, None] * D + dims[None, :]
            tl.store(out, (acc / total[:, None]).to(tl.bfloat16))


def _resident_attention(deal: bool) -> Prepare:
    """About 16 blocks for each program, one after the other of a head of 64 blocks."""

    def prepare(small: bool) -> Launch:
        heads, length, programs = (2, 512, 4) if small else (32, 8192, 132)
        q, k, v = (random(heads, length, 128, dtype=torch.bfloat16) for _ in range(3))
        out = zeros(heads, length, 128, dtype=torch.bfloat16)
        options = {"DEAL": deal, "D": 128, "BLOCK": 128, "num_warps": 8, "num_stages": 2}
        args = (q, k, v, out, 128**-0.5 * 1.44269504, length, heads * length // 128)
        return Launch(resident_attention_kernel, (programs,), args, (out,), options)

    return prepare


_case = faults_of(7)


CASES = (
    _case(
        "80 dimensions filled up to 128",
        ("masked-work",),
        ("counts",),
        True,
        _image_attention(128, 0),
        _image_attention(64, 16),
    ),
    _case(
        "attention to the ends of the longest text",
        ("masked-work",),
        ("counts",),
        True,
        _text_encoder(False),
        _text_encoder(True),
    ),
    _case(
        "two maps of scores by 4 warps",
        ("register-spills",),
        ("resources", "counts"),
        True,
        _two_maps(4),
        _two_maps(8),
    ),
    _case(
        "pooled tokens read twice",
        ("redundant-load",),
        ("counts", "counters"),
        True,
        _pooled_tokens(False),
        _pooled_tokens(True),
    ),
    _case(
        "float8 values as rows",
        ("layout-conversion", "bank-conflict"),
        ("counts", "samples"),
        False,
        _float8_attention(False),
        _float8_attention(True),
    ),
    _case(
        "distances of tokens from 64-bit positions",
        ("conversions",),
        ("counts", "samples"),
        True,
        _distance_attention(torch.int64),
        _distance_attention(torch.float32),
    ),
    _case(
        "blocks of a triangle in a row for each program",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        True,
        _resident_attention(False),
        _resident_attention(True),
    ),
)
