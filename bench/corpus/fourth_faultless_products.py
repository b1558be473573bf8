"""Fourth round, matrix products without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def merged_adapter_kernel(
    w_ptr, a_ptr, b_ptr, out_ptr, N, scale, RANK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Adds a low-rank adapter to a layer's weights."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, ranks = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, RANK)
    a = tl.load(a_ptr + offs_m[:, None] * RANK + ranks[None, :])
    b = tl.load(b_ptr + ranks[:, None] * N + offs_n[None, :])
    at = offs_m[:, None] * N + offs_n[None, :]
    w = tl.load(w_ptr + at).to(tl.float32) + tl.dot(a, b) * scale
    tl.store(out_ptr + at, w.to(tl.bfloat16))


def _merged_adapter(small: bool) -> Launch:
    m, n = (128, 128) if small else (8192, 8192)
    w, a, b = (random(*s, dtype=torch.bfloat16) for s in ((m, n), (m, 16), (16, n)))
    out = torch.empty_like(w)
    options = {"RANK": 16, "BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4}
    args = (w, a, b, out, n, 0.5)
    return Launch(merged_adapter_kernel, (n // 64, m // 64), args, (out,), options)


@triton.jit
def weight_product_kernel(
    x_ptr, grad_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """The gradient of a layer's weights: its input, turned, times its output's gradient."""
    pid, across = tl.program_id(0), N // BLOCK_N
    band, inside = pid // (GROUP * across), pid % (GROUP * across)
    offs_m = (band * GROUP + inside % GROUP) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = inside // GROUP * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] + offs_k[None, :] * M
    grad = grad_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(grad), acc)
        x += BLOCK_K * M
        grad += BLOCK_K * N
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.bfloat16))


def _weight_product(small: bool) -> Launch:
    m, n, k = (1024, 256, 64) if small else (4096, 8448, 8192)
    x, grad = random(k, m, dtype=torch.bfloat16), random(k, n, dtype=torch.bfloat16)
    out = empty(m, n, dtype=torch.bfloat16)
    options = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP": 8, "num_warps": 8, "num_stages": 3}
    grid = (m // 128 * (n // 256),)
    return Launch(weight_product_kernel, grid, (x, grad, out, m, n, k), (out,), options)


@triton.jit
def expert_layer_kernel(
    x_ptr, w_ptr, expert_ptr, out_ptr, tiles, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Tokens, sorted by expert, times their experts' weights; a table knows the expert of a tile."""
    tile = tl.program_id(0) % tiles
    offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_k = tl.program_id(0) // tiles * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    expert = tl.load(expert_ptr + tile).to(tl.int64)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w = w_ptr + expert * N * K + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(w), acc)
        x += BLOCK_K
        w += BLOCK_K * N
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.bfloat16))


def _expert_layer(small: bool) -> Launch:
    tiles, experts, n, k = (2, 2, 256, 128) if small else (66, 8, 4096, 4096)
    expert = (torch.arange(tiles) * experts // tiles).int()
    x, w = random(tiles * 128, k, dtype=torch.bfloat16), random(experts, k, n, dtype=torch.bfloat16)
    out = empty(tiles * 128, n, dtype=torch.bfloat16)
    options = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
    args = (x, w, expert, out, tiles, n, k)
    return Launch(expert_layer_kernel, (tiles * (n // 256),), args, (out,), options)


@triton.jit
def shared_keys_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, GROUP: tl.constexpr, DIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention of GROUP heads of queries to each head of keys."""
    head = tl.program_id(1)
    base, keys = head.to(tl.int64) * length * DIM, (head // GROUP).to(tl.int64) * length * DIM
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, dims = tl.arange(0, BLOCK_N), tl.arange(0, DIM)
    scale: tl.constexpr = 0.08838835 * 1.44269504
    q = tl.load(q_ptr + base + offs_m[:, None] * DIM + dims[None, :])
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        k = tl.load(k_ptr + keys + (start + offs_n)[None, :] * DIM + dims[:, None])
        score = tl.dot(q, k)
        higher = tl.maximum(peak, tl.max(score, 1) * scale)
        share = tl.exp2(score * scale - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        v = tl.load(v_ptr + keys + (start + offs_n)[:, None] * DIM + dims[None, :])
        acc = tl.dot(share.to(tl.bfloat16), v, acc * shrink[:, None])
        peak = higher
    out = (acc * (1.0 / total)[:, None]).to(tl.bfloat16)
    tl.store(out_ptr + base + offs_m[:, None] * DIM + dims[None, :], out)


def _shared_keys(small: bool) -> Launch:
    heads, length = (2, 128) if small else (66, 4096)
    group = 2 if small else 6
    q = random(heads, length, 128, dtype=torch.bfloat16)
    k, v = (random(heads // group, length, 128, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(q)
    options = {"GROUP": group, "DIM": 128, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}
    grid = (length // 128, heads)
    return Launch(shared_keys_kernel, grid, (q, k, v, out, length), (out,), options)


@triton.jit
def partial_decode_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, total_ptr, length, PART: tl.constexpr, GROUP: tl.constexpr,
    DIM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Attention of a token's heads to a part of the keys they share; another kernel adds the parts."""
    sequence, part = tl.program_id(1), tl.program_id(0)
    heads, dims, offs_n = tl.arange(0, GROUP), tl.arange(0, DIM), tl.arange(0, BLOCK)
    base = (sequence.to(tl.int64) * length + part * PART) * DIM
    q = tl.load(q_ptr + (sequence * GROUP + heads)[:, None] * DIM + dims[None, :])
    peak = tl.full((GROUP,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((GROUP,), dtype=tl.float32)
    acc = tl.zeros((GROUP, DIM), dtype=tl.float32)
    for start in range(0, PART, BLOCK):
        k = tl.load(k_ptr + base + (start + offs_n)[None, :] * DIM + dims[:, None])
        score = tl.dot(q, k) * 0.1275174
        higher = tl.maximum(peak, tl.max(score, 1))
        share = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        v = tl.load(v_ptr + base + (start + offs_n)[:, None] * DIM + dims[None, :])
        acc = tl.dot(share.to(tl.float16), v, acc * shrink[:, None])
        peak = higher
    at = (sequence * tl.num_programs(0) + part) * GROUP + heads
    tl.store(out_ptr + at[:, None] * DIM + dims[None, :], acc / total[:, None])
    tl.store(total_ptr + at, peak + tl.log2(total))


def _partial_decode(small: bool) -> Launch:
    sequences, length, part = (1, 256, 128) if small else (132 * 4, 4096, 1024)
    q = random(sequences, 16, 128, dtype=torch.float16)
    k, v = (random(sequences, length, 128, dtype=torch.float16) for _ in range(2))
    parts = length // part
    out, total = empty(sequences, parts, 16, 128), empty(sequences, parts, 16)
    options = {"PART": part, "GROUP": 16, "DIM": 128, "BLOCK": 64, "num_warps": 4, "num_stages": 3}
    args = (q, k, v, out, total, length)
    return Launch(partial_decode_kernel, (parts, sequences), args, (out, total), options)


def _case(name: str, prepare: Prepare) -> Case:
    return Case(name, (), (), True, prepare, round=4)


CASES = (
    _case("good merged adapter", _merged_adapter),
    _case("good weight gradient", _weight_product),
    _case("good expert layer", _expert_layer),
    _case("good attention to shared keys", _shared_keys),
    _case("good parts of a decode", _partial_decode),
)
