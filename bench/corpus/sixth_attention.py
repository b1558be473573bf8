"""Sixth round, faults of attention."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def capped_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, cap, EXACT: tl.constexpr, DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention with scores that a hyperbolic tangent caps."""
    base = tl.program_id(1).to(tl.int64) * length * DIM
    offs_m, offs_n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    q = tl.load(q_ptr + base + offs_m[:, None] * DIM + dims[None, :])
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        at = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        score = tl.dot(q, tl.trans(tl.load(k_ptr + at))) * (0.08838835 / cap)
        if EXACT:
            grown = libdevice.expm1(2.0 * score)  # fault
            score = tl.div_rn(grown, grown + 2.0)  # fault
        else:
            score = 1.0 - libdevice.fast_dividef(2.0, 1.0 + tl.exp2(2.8853901 * score))
        score *= 1.442695 * cap
        higher = tl.maximum(peak, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        acc = tl.dot(share.to(tl.float16), tl.load(v_ptr + at), acc * shrink[:, None])
        peak = higher
    out = (acc * (1.0 / total)[:, None]).to(tl.float16)
    tl.store(out_ptr + base + offs_m[:, None] * DIM + dims[None, :], out)


def _capped_attention(exact: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 128) if small else (33, 2048)
        q, k, v = (random(heads, length, 128, dtype=torch.float16) for _ in range(3))
        out = torch.empty_like(q)
        options = {"EXACT": exact, "DIM": 128, "BLOCK_M": 128, "BLOCK_N": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        args = (q, k, v, out, length, 2.5)
        return Launch(capped_attention_kernel, (length // 128, heads), args, (out,), options)

    return prepare


@triton.jit
def encoder_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, HEADS_FIRST: tl.constexpr, DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention in many short sequences; HEADS_FIRST: one block of all heads comes before the next."""
    head = tl.program_id(0) if HEADS_FIRST else tl.program_id(1)  # fault
    block = tl.program_id(1) if HEADS_FIRST else tl.program_id(0)  # fault
    base = head.to(tl.int64) * length * DIM
    offs_m, offs_n = block * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    q = tl.load(q_ptr + base + offs_m[:, None] * DIM + dims[None, :])
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        at = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        score = tl.dot(q, tl.trans(tl.load(k_ptr + at)))  # fault
        higher = tl.maximum(peak, tl.max(score, 1) * 0.1275174)
        share = tl.exp2(score * 0.1275174 - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        acc = tl.dot(share.to(tl.float16), tl.load(v_ptr + at), acc * shrink[:, None])  # fault
        peak = higher
    out = (acc * (1.0 / total)[:, None]).to(tl.float16)
    tl.store(out_ptr + base + offs_m[:, None] * DIM + dims[None, :], out)


def _encoder_attention(heads_first: bool) -> Prepare:
    """Keys and values of all heads are 138 MB, more than the L2 cache has room for."""

    def prepare(small: bool) -> Launch:
        heads, length = (2, 128) if small else (528, 512)
        q, k, v = (random(heads, length, 128, dtype=torch.float16) for _ in range(3))
        out = torch.empty_like(q)
        options = {"HEADS_FIRST": heads_first, "DIM": 128, "BLOCK_M": 64, "BLOCK_N": 64}
        options |= {"num_warps": 4, "num_stages": 2}
        grid = (heads, length // 64) if heads_first else (length // 64, heads)
        return Launch(encoder_attention_kernel, grid, (q, k, v, out, length), (out,), options)

    return prepare


@triton.jit
def key_value_gradient_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, grad_ptr, peak_ptr, delta_ptr, k_grad_ptr, v_grad_ptr, length,
    DELTA: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gradients of attention's keys and values; DELTA: from the results, whose products it sums up itself."""
    head = tl.program_id(1)
    base = head.to(tl.int64) * length * DIM
    offs, dims = tl.arange(0, BLOCK), tl.arange(0, DIM)
    keys = base + (tl.program_id(0) * BLOCK + offs)[:, None] * DIM + dims[None, :]
    k, v = tl.load(k_ptr + keys), tl.load(v_ptr + keys)
    k_grad = tl.zeros((BLOCK, DIM), dtype=tl.float32)
    v_grad = tl.zeros((BLOCK, DIM), dtype=tl.float32)
    for start in range(0, length, BLOCK):
        queries = base + (start + offs)[:, None] * DIM + dims[None, :]
        q, grad = tl.load(q_ptr + queries), tl.load(grad_ptr + queries)
        peak = tl.load(peak_ptr + head * length + start + offs)
        share = tl.exp2(tl.dot(k, tl.trans(q)) * 0.1803369 - peak[None, :])
        v_grad = tl.dot(share.to(tl.float16), grad, v_grad)
        if DELTA:
            o = tl.load(o_ptr + queries)  # fault
            delta = tl.sum(o.to(tl.float32) * grad.to(tl.float32), 1)  # fault
        else:
            delta = tl.load(delta_ptr + head * length + start + offs)
        slope = share * (tl.dot(v, tl.trans(grad)) - delta[None, :])
        k_grad = tl.dot(slope.to(tl.float16), q, k_grad)
    tl.store(k_grad_ptr + keys, k_grad.to(tl.float16))
    tl.store(v_grad_ptr + keys, v_grad.to(tl.float16))


def _key_value_gradient(delta: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 128) if small else (66, 2048)
        q, k, v, o, grad = (random(heads, length, 64, dtype=torch.float16) * 0.5 for _ in range(5))
        peak = torch.rand(heads, length) + 4.0
        known = (o.float() * grad.float()).sum(2)
        results = (torch.empty_like(k), torch.empty_like(v))
        options = {"DELTA": delta, "DIM": 64, "BLOCK": 64, "num_warps": 4, "num_stages": 2}
        args = (q, k, v, o, grad, peak, known, *results, length)
        return Launch(key_value_gradient_kernel, (length // 64, heads), args, results, options)

    return prepare


@triton.jit
def packed_documents_kernel(
    q_ptr, k_ptr, v_ptr, first_ptr, out_ptr, length, SKIP: tl.constexpr, DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Causal attention of packed documents, inside each; SKIP: from the first key of a block's documents."""
    base = tl.program_id(1).to(tl.int64) * length * DIM
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    offs_m, offs_n = block * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    first = tl.load(first_ptr + offs_m)
    begin = tl.load(first_ptr + block * BLOCK_M) // BLOCK_N * BLOCK_N if SKIP else 0
    q = tl.load(q_ptr + base + offs_m[:, None] * DIM + dims[None, :])
    peak = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(begin, (block + 1) * BLOCK_M, BLOCK_N):  # fault
        key = start + offs_n
        at = base + key[:, None] * DIM + dims[None, :]
        score = tl.dot(q, tl.trans(tl.load(k_ptr + at))) * 0.1803369  # fault
        inside = (key[None, :] <= offs_m[:, None]) & (key[None, :] >= first[:, None])
        score = tl.where(inside, score, -1e30)  # fault
        higher = tl.maximum(peak, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        acc = tl.dot(share.to(tl.float16), tl.load(v_ptr + at), acc * shrink[:, None])  # fault
        peak = higher
    out = (acc * (1.0 / total)[:, None]).to(tl.float16)
    tl.store(out_ptr + base + offs_m[:, None] * DIM + dims[None, :], out)


def _packed_documents(skip: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length, documents = (1, 256, 3) if small else (24, 8192, 5)
        border = torch.arange(documents, dtype=torch.int32) * (length // documents)
        token = torch.arange(length, dtype=torch.int32)
        first = border[torch.searchsorted(border, token, right=True) - 1].contiguous()
        q, k, v = (random(heads, length, 64, dtype=torch.float16) for _ in range(3))
        out = torch.empty_like(q)
        options = {"SKIP": skip, "DIM": 64, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}
        args = (q, k, v, first, out, length)
        return Launch(packed_documents_kernel, (length // 128, heads), args, (out,), options)

    return prepare


@triton.jit
def kernel_regression_kernel(
    x_ptr, point_ptr, value_ptr, norm_ptr, out_ptr, points, DIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Means of values, weighted by how close their points are to a vector."""
    offs_m, offs_n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    x = tl.load(x_ptr + offs_m[:, None] * DIM + dims[None, :])
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(0, points, BLOCK_N):
        at = (start + offs_n)[:, None] * DIM + dims[None, :]
        norm = tl.load(norm_ptr + start + offs_n)
        weight = tl.exp2(tl.dot(x, tl.trans(tl.load(point_ptr + at))) - norm[None, :])  # fault
        total += weight
        acc = tl.dot(weight.to(tl.float16), tl.load(value_ptr + at), acc)  # fault
    out = acc * (1.0 / tl.sum(total, 1))[:, None]
    tl.store(out_ptr + offs_m[:, None] * DIM + dims[None, :], out.to(tl.float16))


def _kernel_regression(rows: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        vectors, points = (128, 128) if small else (33792, 4096)
        x, value = random(vectors, 128, dtype=torch.float16) * 0.3, random(points, 128, dtype=torch.float16)
        point = random(points, 128, dtype=torch.float16) * 0.3
        norm = (point.float() * point.float()).sum(1) * 0.5
        out = empty(vectors, 128, dtype=torch.float16)
        options = {"DIM": 128, "BLOCK_M": rows, "BLOCK_N": 64, "num_warps": rows // 16, "num_stages": 3}
        args = (x, point, value, norm, out, points)
        return Launch(kernel_regression_kernel, (vectors // rows,), args, (out,), options)

    return prepare


@triton.jit
def memory_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, queries, keys, DIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention of some latent vectors to a long memory."""
    offs_m, offs_n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    mine = tl.program_id(1) * queries * DIM + offs_m[:, None] * DIM + dims[None, :]
    base = tl.program_id(1) * keys * DIM
    q = tl.load(q_ptr + mine)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(0, keys, BLOCK_N):
        at = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        score = tl.dot(q, tl.trans(tl.load(k_ptr + at)))
        higher = tl.maximum(peak, tl.max(score, 1) * 0.1803369)
        share = tl.exp2(score * 0.1803369 - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        acc = tl.dot(share.to(tl.bfloat16), tl.load(v_ptr + at), acc * shrink[:, None])
        peak = higher
    tl.store(out_ptr + mine, (acc * (1.0 / total)[:, None]).to(tl.bfloat16))


def _memory_attention(rows: int) -> Prepare:
    """14 heads of 10 blocks of 128 latent vectors are 8 more than the SMs, each of which holds one."""

    def prepare(small: bool) -> Launch:
        heads, queries, keys = (1, 128, 256) if small else (14, 1280, 8192)
        q = random(heads, queries, 64, dtype=torch.bfloat16)
        k, v = (random(heads, keys, 64, dtype=torch.bfloat16) for _ in range(2))
        out = torch.empty_like(q)
        options = {"DIM": 64, "BLOCK_M": rows, "BLOCK_N": 128, "num_warps": rows // 16, "num_stages": 2}
        args = (q, k, v, out, queries, keys)
        return Launch(memory_attention_kernel, (queries // rows, heads), args, (out,), options)

    return prepare


@triton.jit
def shared_value_gradient_kernel(
    q_ptr, k_ptr, grad_ptr, peak_ptr, out_ptr, heads, length, DIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Gradients of values that all heads share; programs add up the shares of their heads."""
    offs_n, offs_m = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_M)
    dims = tl.arange(0, DIM)
    k = tl.load(k_ptr + offs_n[:, None] * DIM + dims[None, :])
    acc = tl.zeros((BLOCK_N, DIM), dtype=tl.float32)
    first = tl.program_id(1) * heads * length
    for row in range(first, first + heads * length, BLOCK_M):
        at = (row + offs_m)[:, None] * DIM + dims[None, :]
        q, grad = tl.load(q_ptr + at), tl.load(grad_ptr + at)
        peak = tl.load(peak_ptr + row + offs_m)
        share = tl.exp2(tl.dot(k, tl.trans(q)) * 0.1275174 - peak[None, :])
        acc = tl.dot(share.to(tl.float16), grad, acc)
    tl.atomic_add(out_ptr + offs_n[:, None] * DIM + dims[None, :], acc, sem="relaxed")


def _shared_value_gradient(parts: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (4, 128) if small else (8, 4096)
        q, grad = (random(heads, length, 128, dtype=torch.float16) for _ in range(2))
        k, peak = random(length, 128, dtype=torch.float16), torch.rand(heads, length) + 10.0
        out = zeros(length, 128)
        options = {"DIM": 128, "BLOCK_M": 64, "BLOCK_N": 128, "num_warps": 8, "num_stages": 3}
        args = (q, k, grad, peak, out, heads // parts, length)
        return Launch(shared_value_gradient_kernel, (length // 128, parts), args, (out,), options)

    return prepare


_case = faults_of(6)


CASES = (
    _case(
        "scores capped exactly",
        ("slow-math",),
        ("counts", "samples"),
        True,
        _capped_attention(True),
        _capped_attention(False),
    ),
    _case(
        "one block of all heads",
        ("tile-reread",),
        ("counters",),
        False,
        _encoder_attention(True),
        _encoder_attention(False),
    ),
    _case(
        "results loaded for each block of keys",
        ("redundant-load",),
        ("counts", "samples"),
        False,
        _key_value_gradient(True),
        _key_value_gradient(False),
    ),
    _case(
        "keys of other documents",
        ("masked-work",),
        ("counts", "counters"),
        False,
        _packed_documents(False),
        _packed_documents(True),
    ),
    _case(
        "regression of 32 vectors",
        ("small-mma", "tile-reread"),
        ("counts", "counters"),
        False,
        _kernel_regression(32),
        _kernel_regression(128),
    ),
    _case(
        "140 blocks of latent vectors",
        ("tail",),
        ("ctas", "counters"),
        False,
        _memory_attention(128),
        _memory_attention(64),
    ),
    _case(
        "values' gradients by 32 programs",
        ("idle-sms",),
        ("ctas", "counters"),
        False,
        _shared_value_gradient(1),
        _shared_value_gradient(4),
    ),
)
