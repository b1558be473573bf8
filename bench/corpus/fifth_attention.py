"""Fifth round, faults of attention."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def _attend(
    q, k_ptr, v_ptr, base, begin, end, DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Attention of queries, which the softmax' scale was multiplied into, to keys from begin to end."""
    offs_n, dims = tl.arange(0, BLOCK_N), tl.arange(0, DIM)
    peak = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(begin, end, BLOCK_N):
        inside = start + offs_n < end
        at = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        k = tl.load(k_ptr + at, mask=inside[:, None], other=0.0)
        score = tl.where(inside[None, :], tl.dot(q, tl.trans(k)), -1e30)
        higher = tl.maximum(peak, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        v = tl.load(v_ptr + at, mask=inside[:, None], other=0.0)
        acc = tl.dot(share.to(tl.float16), v, acc * shrink[:, None])
        peak = higher
    return acc, peak, total


@triton.jit
def split_decode_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, total_ptr, length, part, GROUP: tl.constexpr, DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Attention of a token's heads to their keys, without the peak, as scores are small; parts add up."""
    sequence = tl.program_id(1)
    heads, dims, offs_n = tl.arange(0, GROUP), tl.arange(0, DIM), tl.arange(0, BLOCK)
    base = sequence.to(tl.int64) * length * DIM
    first = tl.program_id(0) * part
    q = tl.load(q_ptr + (sequence * GROUP + heads)[:, None] * DIM + dims[None, :])
    total = tl.zeros((GROUP, BLOCK), dtype=tl.float32)
    acc = tl.zeros((GROUP, DIM), dtype=tl.float32)
    for start in range(first, first + part, BLOCK):
        at = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        share = tl.exp2(tl.dot(q, tl.trans(tl.load(k_ptr + at))))
        total += share
        acc = tl.dot(share.to(tl.float16), tl.load(v_ptr + at), acc)
    row = sequence * GROUP + heads
    tl.atomic_add(out_ptr + row[:, None] * DIM + dims[None, :], acc, sem="relaxed")
    tl.atomic_add(total_ptr + row, tl.sum(total, 1), sem="relaxed")


def _split_decode(parts: int) -> Prepare:
    """Four sequences of eight heads of keys are 32 programs, if no head is split."""

    def prepare(small: bool) -> Launch:
        sequences, length = (2, 512) if small else (32, 32768)
        part = length // min(parts, 4) if small else length // parts
        q = random(sequences, 16, 128, dtype=torch.float16) * 0.05
        k, v = (random(sequences, length, 128, dtype=torch.float16) for _ in range(2))
        out, total = zeros(sequences, 16, 128), zeros(sequences, 16)
        options = {"GROUP": 16, "DIM": 128, "BLOCK": 64, "num_warps": 4, "num_stages": 3}
        args = (q, k, v, out, total, length, part)
        return Launch(split_decode_kernel, (length // part, sequences), args, (out, total), options)

    return prepare


@triton.jit
def broad_heads_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Attention with heads of 256 dimensions."""
    base = tl.program_id(1).to(tl.int64) * length * DIM
    offs_m, offs_n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    q = tl.load(q_ptr + base + offs_m[:, None] * DIM + dims[None, :])
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)  # fault
    for start in range(0, length, BLOCK_N):  # fault
        at = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        score = tl.dot(q, tl.trans(tl.load(k_ptr + at))) * 0.09016844  # fault
        higher = tl.maximum(peak, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        acc = tl.dot(share.to(tl.float16), tl.load(v_ptr + at), acc * shrink[:, None])  # fault
        peak = higher
    out = (acc * (1.0 / total)[:, None]).to(tl.float16)  # fault
    tl.store(out_ptr + base + offs_m[:, None] * DIM + dims[None, :], out)  # fault


def _broad_heads(warps: int) -> Prepare:
    """The sums alone take all 256 registers of the threads of 4 warps."""

    def prepare(small: bool) -> Launch:
        heads, length = (1, 128) if small else (33, 2048)
        q, k, v = (random(heads, length, 256, dtype=torch.float16) for _ in range(3))
        out = torch.empty_like(q)
        options = {"DIM": 256, "BLOCK_M": 128, "BLOCK_N": 32, "num_warps": warps, "num_stages": 3}
        grid = (length // 128, heads)
        return Launch(broad_heads_kernel, grid, (q, k, v, out, length), (out,), options)

    return prepare


@triton.jit
def added_gradient_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, peak_ptr, delta_ptr, out_ptr, length, DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of attention's queries; a program has a block of keys, and adds its share to all queries."""
    head = tl.program_id(1)
    base = head.to(tl.int64) * length * DIM
    offs, dims = tl.arange(0, BLOCK), tl.arange(0, DIM)
    keys = base + (tl.program_id(0) * BLOCK + offs)[:, None] * DIM + dims[None, :]
    k, v = tl.load(k_ptr + keys), tl.load(v_ptr + keys)
    for start in range(0, length, BLOCK):
        queries = base + (start + offs)[:, None] * DIM + dims[None, :]
        q, grad = tl.load(q_ptr + queries), tl.load(grad_ptr + queries)
        peak = tl.load(peak_ptr + head * length + start + offs)
        delta = tl.load(delta_ptr + head * length + start + offs)
        share = tl.exp2(tl.dot(q, tl.trans(k)) * 0.1803369 - peak[:, None])
        slope = share * (tl.dot(grad, tl.trans(v)) - delta[:, None])
        tl.atomic_add(out_ptr + queries, tl.dot(slope.to(tl.float16), k), sem="relaxed")  # fault


@triton.jit
def query_gradient_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, peak_ptr, delta_ptr, out_ptr, length, DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """As added_gradient_kernel; a program has a block of queries, and adds the shares of all keys to it."""
    head = tl.program_id(1)
    base = head.to(tl.int64) * length * DIM
    offs, dims = tl.arange(0, BLOCK), tl.arange(0, DIM)
    row = tl.program_id(0) * BLOCK + offs
    queries = base + row[:, None] * DIM + dims[None, :]
    q, grad = tl.load(q_ptr + queries), tl.load(grad_ptr + queries)
    peak, delta = tl.load(peak_ptr + head * length + row), tl.load(delta_ptr + head * length + row)
    acc = tl.zeros((BLOCK, DIM), dtype=tl.float32)
    for start in range(0, length, BLOCK):
        keys = base + (start + offs)[:, None] * DIM + dims[None, :]
        k, v = tl.load(k_ptr + keys), tl.load(v_ptr + keys)
        share = tl.exp2(tl.dot(q, tl.trans(k)) * 0.1803369 - peak[:, None])
        slope = share * (tl.dot(grad, tl.trans(v)) - delta[:, None])
        acc = tl.dot(slope.to(tl.float16), k, acc)
    tl.store(out_ptr + queries, acc)


def _query_gradient(add: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 128) if small else (64, 2048)
        q, k, v, grad = (random(heads, length, 64, dtype=torch.float16) for _ in range(4))
        peak, delta = torch.rand(heads, length) + 8.0, random(heads, length)
        out = zeros(heads, length, 64)
        options = {"DIM": 64, "BLOCK": 64, "num_warps": 4, "num_stages": 2}
        kernel = added_gradient_kernel if add else query_gradient_kernel
        args = (q, k, v, grad, peak, delta, out, length)
        return Launch(kernel, (length // 64, heads), args, (out,), options)

    return prepare


@triton.jit
def listed_blocks_kernel(
    q_ptr, k_ptr, v_ptr, block_ptr, out_ptr, length, each, DIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention of a block of queries to those blocks of keys that a list names."""
    base = tl.program_id(1).to(tl.int64) * length * DIM
    offs_m, offs_n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    q = tl.load(q_ptr + base + offs_m[:, None] * DIM + dims[None, :])
    listed = block_ptr + (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)) * each
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for i in range(each):
        at = base + (tl.load(listed + i) * BLOCK_N + offs_n)[:, None] * DIM + dims[None, :]  # fault
        k = tl.load(k_ptr + at)  # fault
        score = tl.dot(q, tl.trans(k)) * 0.1275174
        higher = tl.maximum(peak, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        v = tl.load(v_ptr + at)  # fault
        acc = tl.dot(share.to(tl.float16), v, acc * shrink[:, None])
        peak = higher
    out = (acc * (1.0 / total)[:, None]).to(tl.float16)
    tl.store(out_ptr + base + offs_m[:, None] * DIM + dims[None, :], out)


def _listed_blocks(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length, each = (1, 256, 3) if small else (32, 8192, 24)
        q, k, v = (random(heads, length, 128, dtype=torch.float16) for _ in range(3))
        block = torch.argsort(torch.rand(heads, length // 128, length // 64), 2)[:, :, :each].int()
        out = torch.empty_like(q)
        options = {"DIM": 128, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": stages}
        args = (q, k, v, block.contiguous(), out, length, each)
        return Launch(listed_blocks_kernel, (length // 128, heads), args, (out,), options)

    return prepare


@triton.jit
def retention_kernel(
    q_ptr, k_ptr, v_ptr, gamma_ptr, out_ptr, length, POWER: tl.constexpr, DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Causal retention: products of queries and keys fade with their distance."""
    head = tl.program_id(1)
    base = head.to(tl.int64) * length * DIM
    offs_m, offs_n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    gamma = tl.load(gamma_ptr + head)
    q = tl.load(q_ptr + base + offs_m[:, None] * DIM + dims[None, :])
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BLOCK_M, BLOCK_N):
        at = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        distance = (offs_m[:, None] - (start + offs_n)[None, :]).to(tl.float32)
        if POWER:
            fade = libdevice.pow(tl.zeros_like(distance) + gamma, distance)  # fault
        else:
            fade = tl.exp2(distance * libdevice.fast_log2f(gamma))
        score = tl.dot(q, tl.trans(tl.load(k_ptr + at))) * fade
        share = tl.where(distance >= 0.0, score, 0.0)
        acc = tl.dot(share.to(tl.float16), tl.load(v_ptr + at), acc)
    tl.store(out_ptr + base + offs_m[:, None] * DIM + dims[None, :], acc.to(tl.float16))


def _retention(power: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length, dim = (1, 128, 64) if small else (32, 2048, 128)
        q, k, v = (random(heads, length, dim, dtype=torch.float16) * 0.3 for _ in range(3))
        gamma, out = 1.0 - 0.02 * torch.rand(heads), torch.empty_like(q)
        options = {"POWER": power, "DIM": dim, "BLOCK_M": dim, "BLOCK_N": 32}
        options |= {"num_warps": 8, "num_stages": 3}
        args = (q, k, v, gamma, out, length)
        return Launch(retention_kernel, (length // dim, heads), args, (out,), options)

    return prepare


@triton.jit
def squared_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, TURN: tl.constexpr, DIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention whose weights are squares of positive scores; TURN: scores have keys as rows until used."""
    base = tl.program_id(1).to(tl.int64) * length * DIM
    offs_m, offs_n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    q = tl.load(q_ptr + base + offs_m[:, None] * DIM + dims[None, :])
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        at = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        k, v = tl.load(k_ptr + at), tl.load(v_ptr + at)
        if TURN:
            weight = tl.maximum(tl.dot(k, tl.trans(q)), 0.0)
            acc = tl.dot(tl.trans((weight * weight).to(tl.float16)), v, acc)  # fault
        else:
            weight = tl.maximum(tl.dot(q, tl.trans(k)), 0.0)
            acc = tl.dot((weight * weight).to(tl.float16), v, acc)
    tl.store(out_ptr + base + offs_m[:, None] * DIM + dims[None, :], acc.to(tl.float16))


def _squared_attention(turn: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 128) if small else (66, 2048)
        q, k, v = (random(heads, length, 64, dtype=torch.float16) * 0.25 for _ in range(3))
        out = torch.empty_like(q)
        options = {"TURN": turn, "DIM": 64, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3}
        args = (q, k, v, out, length)
        return Launch(squared_attention_kernel, (length // 128, heads), args, (out,), options)

    return prepare


@triton.jit
def packed_sequences_kernel(
    q_ptr, k_ptr, v_ptr, length_ptr, tile_ptr, out_ptr, tokens, WALK: tl.constexpr, DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Attention inside each of many sequences; WALK: a program walks over their lengths to find its own."""
    if WALK:
        sequence, first, begin = 0, 0, 0
        length = tl.load(length_ptr)
        while first + tl.cdiv(length, BLOCK) <= tl.program_id(0):
            first += tl.cdiv(length, BLOCK)
            begin += length
            sequence += 1
            length = tl.load(length_ptr + sequence)  # fault
        row = begin + (tl.program_id(0) - first) * BLOCK
    else:
        begin, length = tl.load(tile_ptr + tl.program_id(0) * 3), tl.load(tile_ptr + tl.program_id(0) * 3 + 1)
        row = tl.load(tile_ptr + tl.program_id(0) * 3 + 2)
    base = tl.program_id(1).to(tl.int64) * tokens * DIM
    offs_m, dims = row + tl.arange(0, BLOCK), tl.arange(0, DIM)
    inside = (offs_m < begin + length)[:, None]
    at = base + offs_m[:, None] * DIM + dims[None, :]
    q = (tl.load(q_ptr + at, mask=inside, other=0.0).to(tl.float32) * 0.1803369).to(tl.float16)
    acc, _, total = _attend(q, k_ptr, v_ptr, base, begin, begin + length, DIM, BLOCK, BLOCK)
    tl.store(out_ptr + at, (acc * (1.0 / total)[:, None]).to(tl.float16), mask=inside)


def _packed_sequences(walk: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, sequences = (1, 3) if small else (16, 512)
        length = 32 + integers(sequences, below=160, dtype=torch.int64)
        tiles = (length + 63) // 64
        sequence = torch.repeat_interleave(torch.arange(sequences), tiles)
        inside = torch.arange(len(sequence)) - torch.repeat_interleave(torch.cumsum(tiles, 0) - tiles, tiles)
        begin = (torch.cumsum(length, 0) - length)[sequence]
        tile = torch.stack((begin, length[sequence], begin + inside * 64), 1).int().contiguous()
        tokens = int(length.sum())
        q, k, v = (random(heads, tokens, 64, dtype=torch.float16) for _ in range(3))
        out = torch.empty_like(q)
        args = (q, k, v, length.int(), tile, out, tokens)
        options = {"WALK": walk, "DIM": 64, "BLOCK": 64, "num_warps": 4, "num_stages": 2}
        return Launch(packed_sequences_kernel, (len(sequence), heads), args, (out,), options)

    return prepare


_case = faults_of(5)


CASES = (
    _case(
        "32 programs for a long cache",
        ("idle-sms", "low-occupancy"),
        ("ctas", "counters"),
        False,
        _split_decode(1),
        _split_decode(16),
    ),
    _case(
        "256 dimensions by 4 warps",
        ("register-spills",),
        ("counts", "resources"),
        True,
        _broad_heads(4),
        _broad_heads(8),
    ),
    _case(
        "query gradients added by each block of keys",
        ("atomics",),
        ("counters", "samples"),
        True,
        _query_gradient(True),
        _query_gradient(False),
    ),
    _case(
        "sparse blocks of 1 stage",
        ("few-stages", "exposed-latency"),
        ("samples", "counters"),
        False,
        _listed_blocks(1),
        _listed_blocks(3),
    ),
    _case(
        "retention's fading by pow",
        ("slow-math",),
        ("counts", "samples"),
        True,
        _retention(True),
        _retention(False),
    ),
    _case(
        "scores with keys as rows",
        ("layout-conversion",),
        ("counts", "samples"),
        True,
        _squared_attention(True),
        _squared_attention(False),
    ),
    _case(
        "a walk over lengths before each tile",
        ("exposed-latency",),
        ("samples", "spans"),
        False,
        _packed_sequences(True),
        _packed_sequences(False),
    ),
)
