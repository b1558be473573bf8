"""Second round, faults of matrix products and attention."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, random, zeros

# ruff: noqa: N803
__all__ = ["CASES", "attention_window", "convolution", "decode_product", "gate_and_up"]


@triton.jit
def convolution_kernel(
    x_ptr, w_ptr, out_ptr, width, C_IN: tl.constexpr, C_OUT: tl.constexpr, TAPS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A convolution along rows of pixels, channels last: a product for each tap."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, TAPS * C_IN, BLOCK_K):
        pixel = offs_m + k // C_IN
        x = tl.load(x_ptr + pixel[:, None] * C_IN + (k % C_IN + offs_k)[None, :])  # fault
        w = tl.load(w_ptr + (k + offs_k)[:, None] * C_OUT + offs_n[None, :])
        acc = tl.dot(x, w, acc)
    tl.store(out_ptr + offs_m[:, None] * C_OUT + offs_n[None, :], acc.to(tl.float16))


def convolution(columns: int, warps: int, channels: int = 512) -> Prepare:
    """columns: output channels of a program."""

    def prepare(small: bool) -> Launch:
        pixels, c = (128, 256) if small else (132 * 256, channels)
        taps = 3
        x = random(pixels + taps - 1, c, dtype=torch.float16)
        w = random(taps * c, c, dtype=torch.float16)
        out = empty(pixels, c, dtype=torch.float16)
        options = {"C_IN": c, "C_OUT": c, "TAPS": taps, "BLOCK_M": 128, "BLOCK_N": columns, "BLOCK_K": 64}
        options |= {"num_warps": warps, "num_stages": 3}
        grid = (c // columns, pixels // 128)
        return Launch(convolution_kernel, grid, (x, w, out, pixels), (out,), options)

    return prepare


@triton.jit
def gate_and_up_kernel(
    x_ptr, gate_ptr, up_ptr, out_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Both products of a gated layer, and the gate applied to the other."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(x_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        weights = (k + offs_k)[:, None] * N + offs_n[None, :]
        gate = tl.dot(x, tl.load(gate_ptr + weights), gate)  # fault
        up = tl.dot(x, tl.load(up_ptr + weights), up)  # fault
    out = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], out.to(tl.bfloat16))


def gate_and_up(warps: int, k: int = 2048) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, depth = (128, 128, 128) if small else (4224, 4096, k)
        x = random(m, depth, dtype=torch.bfloat16)
        gate, up = (random(depth, n, dtype=torch.bfloat16) for _ in range(2))
        out = empty(m, n, dtype=torch.bfloat16)
        options = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": warps, "num_stages": 3}
        args = (x, gate, up, out, n, depth)
        return Launch(gate_and_up_kernel, (n // 128, m // 128), args, (out,), options)

    return prepare


@triton.jit
def added_product_kernel(
    a_ptr, b_ptr, c_ptr, N, K, share, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """A weight's gradient: programs add the products of their share of the tokens."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = tl.program_id(2) * share
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(first, first + share, BLOCK_K):
        offs_k = k + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + offs_m[:, None] * K + offs_k[None, :])
        b = tl.load(b_ptr + offs_k[:, None] * N + offs_n[None, :])
        acc = tl.dot(a, b, acc)
    tl.atomic_add(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)  # fault


def _added_product(split: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, k, parts = (128, 512, min(split, 4)) if small else (1024, 16384, split)
        a, b = random(m, k, dtype=torch.float16), random(k, m, dtype=torch.float16)
        c = zeros(m, m)
        options = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
        args = (a, b, c, m, k, k // parts)
        return Launch(added_product_kernel, (m // 128, m // 128, parts), args, (c,), options)

    return prepare


@triton.jit
def decode_product_kernel(
    x_ptr, w_ptr, out_ptr, N, K, TOKENS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """A few tokens times weights that stream by."""
    tokens = tl.arange(0, TOKENS)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((TOKENS, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K, num_stages=STAGES):
        offs_k = k + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + tokens[:, None] * K + offs_k[None, :])  # fault
        w = tl.load(w_ptr + offs_n[:, None] * K + offs_k[None, :])  # fault
        acc = tl.dot(x, tl.trans(w), acc)
    tl.store(out_ptr + tokens[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def decode_product(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, k = (64, 512) if small else (132 * 128, 16384)
        x, w = random(16, k, dtype=torch.float16), random(n, k, dtype=torch.float16)
        out = empty(16, n, dtype=torch.float16)
        options = {"TOKENS": 16, "BLOCK_N": 32, "BLOCK_K": 128, "STAGES": stages, "num_warps": 4}
        return Launch(decode_product_kernel, (n // 32,), (x, w, out, n, k), (out,), options)

    return prepare


@triton.jit
def square_distance_kernel(
    x_ptr, c_ptr, out_ptr, N, M, DIM: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr
):
    """Squared distances of points and centres, stored by coordinate."""
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for d in range(DIM):
        x = tl.load(x_ptr + d * N + offs_n).to(tl.float32)
        c = tl.load(c_ptr + d * M + offs_m).to(tl.float32)
        away = x[:, None] - c[None, :]  # fault
        acc += away * away  # fault
    tl.store(out_ptr + offs_n[:, None] * M + offs_m[None, :], acc)


@triton.jit
def product_distance_kernel(
    x_ptr, c_ptr, out_ptr, N, M, DIM: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr
):
    """As square_distance_kernel, from squares and a product."""
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, DIM)
    x = tl.load(x_ptr + dims[:, None] * N + offs_n[None, :])
    c = tl.load(c_ptr + dims[:, None] * M + offs_m[None, :])
    x_wide, c_wide = x.to(tl.float32), c.to(tl.float32)
    squares = tl.sum(x_wide * x_wide, 0)[:, None] + tl.sum(c_wide * c_wide, 0)[None, :]
    tl.store(out_ptr + offs_n[:, None] * M + offs_m[None, :], squares - 2.0 * tl.dot(tl.trans(x), c))


def _square_distance(by_product: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, m = (64, 64) if small else (16384, 4096)
        x, c = random(128, n, dtype=torch.float16), random(128, m, dtype=torch.float16)
        out = empty(n, m)
        options = {"DIM": 128, "BLOCK_N": 64, "BLOCK_M": 64, "num_warps": 4}
        kernel = product_distance_kernel if by_product else square_distance_kernel
        return Launch(kernel, (n // 64, m // 64), (x, c, out, n, m), (out,), options)

    return prepare


@triton.jit
def grouped_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, keys, scale, GROUP: tl.constexpr, HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention to a prompt; GROUP heads of queries share the keys and values of one."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, dims = tl.arange(0, BLOCK_N), tl.arange(0, HEAD)
    queries = (tl.program_id(1) * length + offs_m)[:, None] * HEAD + dims[None, :]
    base = tl.program_id(1) // GROUP * keys * HEAD
    q = tl.load(q_ptr + queries)
    peak = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    for start in range(0, keys, BLOCK_N):
        at = base + (start + offs_n)[:, None] * HEAD + dims[None, :]
        s = tl.dot(q, tl.trans(tl.load(k_ptr + at))) * scale  # fault
        now = tl.maximum(peak, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        shrink = tl.exp2(peak - now)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(v_ptr + at), acc * shrink[:, None])  # fault
        peak = now
    tl.store(out_ptr + queries, (acc / total[:, None]).to(tl.float16))


def _grouped_attention(rows: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length, keys = (4, 128, 128) if small else (32, 2048, 2048)
        q, out = (random(heads, length, 128, dtype=torch.float16) for _ in range(2))
        k, v = (random(heads // 4, keys, 128, dtype=torch.float16) for _ in range(2))
        options = {"GROUP": 4, "HEAD": 128, "BLOCK_M": rows, "BLOCK_N": 64, "num_warps": 4}
        options |= {"num_stages": 2}
        args = (q, k, v, out, length, keys, 128**-0.5 * 1.44269504)
        return Launch(grouped_attention_kernel, (length // rows, heads), args, (out,), options)

    return prepare


@triton.jit
def scaled_rows_kernel(
    a_ptr, scale_ptr, b_ptr, c_ptr, N, K, EARLY: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows that have a scale, times b; EARLY: the scale is applied before each step's product."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    scale = tl.load(scale_ptr + offs_m)[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        if EARLY:
            a = (a.to(tl.float32) * scale).to(tl.float16)  # fault
        b = tl.load(b_ptr + (k + offs_k)[:, None] * N + offs_n[None, :])
        acc = tl.dot(a, b, acc)  # fault
    if not EARLY:
        acc *= scale
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _scaled_rows(early: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 128, 128) if small else (4224, 4096, 4096)
        a, b = random(m, k, dtype=torch.float16), random(k, n, dtype=torch.float16)
        scale, c = torch.rand(m), empty(m, n, dtype=torch.float16)
        options = {"EARLY": early, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
        options |= {"num_warps": 4, "num_stages": 3}
        return Launch(scaled_rows_kernel, (n // 128, m // 128), (a, scale, b, c, n, k), (c,), options)

    return prepare


@triton.jit
def window_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, scale, ALL: tl.constexpr, WINDOW: tl.constexpr,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention to the keys at most WINDOW positions away; ALL: of a loop over all keys."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, dims = tl.arange(0, BLOCK_N), tl.arange(0, HEAD)
    base = tl.program_id(1) * length * HEAD
    q = tl.load(q_ptr + base + offs_m[:, None] * HEAD + dims[None, :])
    peak = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    begin, end = 0, length
    if not ALL:
        begin = tl.maximum(tl.program_id(0) * BLOCK_M - WINDOW, 0)
        end = tl.minimum(tl.program_id(0) * BLOCK_M + BLOCK_M + WINDOW, length)
    for start in range(begin, end, BLOCK_N):  # fault
        keys = start + offs_n
        at = base + keys[:, None] * HEAD + dims[None, :]
        s = tl.dot(q, tl.trans(tl.load(k_ptr + at))) * scale
        away = offs_m[:, None] - keys[None, :]
        s = tl.where((away <= WINDOW) & (away >= -WINDOW), s, -1e29)  # fault
        now = tl.maximum(peak, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        shrink = tl.exp2(peak - now)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), tl.load(v_ptr + at), acc * shrink[:, None])
        peak = now
    out = (acc / total[:, None]).to(tl.float16)
    tl.store(out_ptr + base + offs_m[:, None] * HEAD + dims[None, :], out)


def attention_window(everything: bool, window: int = 512, heads: int = 32) -> Prepare:
    def prepare(small: bool) -> Launch:
        count, length, width = (1, 512, 64) if small else (heads, 4096, window)
        q, k, v, out = (random(count, length, 64, dtype=torch.float16) for _ in range(4))
        options: dict[str, Any] = {"ALL": everything, "WINDOW": width, "HEAD": 64}
        options |= {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3}
        args = (q, k, v, out, length, 64**-0.5 * 1.44269504)
        return Launch(window_attention_kernel, (length // 128, count), args, (out,), options)

    return prepare


@triton.jit
def head_by_head_kernel(
    q_ptr, k_ptr, out_ptr, keys, HEADS: tl.constexpr, HEAD: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Peaks of the scores of one token's heads, that share their keys; each head reads them."""
    dims = tl.arange(0, HEAD)
    base = tl.program_id(0) * keys * HEAD
    for head in range(HEADS):
        q = tl.load(q_ptr + (tl.program_id(0) * HEADS + head) * HEAD + dims).to(tl.float32)
        peak = tl.full((BLOCK_N,), -1e30, dtype=tl.float32)
        for start in range(0, keys, BLOCK_N):
            at = base + (start + tl.arange(0, BLOCK_N))[:, None] * HEAD + dims[None, :]
            k = tl.load(k_ptr + at).to(tl.float32)  # fault
            peak = tl.maximum(peak, tl.sum(k * q[None, :], 1))
        tl.store(out_ptr + tl.program_id(0) * HEADS + head, tl.max(peak, 0))


@triton.jit
def heads_together_kernel(
    q_ptr, k_ptr, out_ptr, keys, HEADS: tl.constexpr, HEAD: tl.constexpr, BLOCK_N: tl.constexpr
):
    """As head_by_head_kernel: all heads, which are few, are multiplied with the keys at once."""
    dims, heads = tl.arange(0, HEAD), tl.arange(0, HEADS)
    base = tl.program_id(0) * keys * HEAD
    q = tl.load(q_ptr + (tl.program_id(0) * HEADS + heads)[:, None] * HEAD + dims[None, :])
    peak = tl.full((HEADS, BLOCK_N), -1e30, dtype=tl.float32)
    for start in range(0, keys, BLOCK_N):
        at = base + (start + tl.arange(0, BLOCK_N))[:, None] * HEAD + dims[None, :]
        peak = tl.maximum(peak, tl.dot(q, tl.trans(tl.load(k_ptr + at))))
    tl.store(out_ptr + tl.program_id(0) * HEADS + heads, tl.max(peak, 1))


def _peaks_of_heads(together: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        batch, keys = (2, 256) if small else (528, 1024)
        q = random(batch, 16, 128, dtype=torch.float16)
        k, out = random(batch, keys, 128, dtype=torch.float16), empty(batch, 16)
        options = {"HEADS": 16, "HEAD": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3}
        kernel = heads_together_kernel if together else head_by_head_kernel
        return Launch(kernel, (batch,), (q, k, out, keys), (out,), options)

    return prepare


_fault = faults_of(2)


CASES = (
    _fault(
        "convolution to 32 channels",
        ("tile-reread", "small-mma"),
        ("counts", "counters"),
        True,
        convolution(32, 4),
        convolution(256, 8),
    ),
    _fault(
        "gate and up by 4 warps",
        ("register-spills",),
        ("counts", "resources"),
        False,
        gate_and_up(4),
        gate_and_up(8),
    ),
    _fault(
        "product added 128 times",
        ("atomics",),
        ("counts", "samples"),
        True,
        _added_product(128),
        _added_product(4),
    ),
    _fault(
        "decode product of 1 stage",
        ("few-stages", "exposed-latency"),
        ("spans", "samples"),
        False,
        decode_product(1),
        decode_product(5),
    ),
    _fault(
        "distances by differences",
        ("no-tensor-cores", "issue-bound"),
        ("counts",),
        True,
        _square_distance(False),
        _square_distance(True),
    ),
    _fault(
        "attention of 16 queries",
        ("small-mma", "tile-reread"),
        ("counts", "counters"),
        True,
        _grouped_attention(16),
        _grouped_attention(64),
    ),
    _fault(
        "rows scaled before the product",
        ("mma-not-overlapped", "conversions"),
        ("spans", "samples"),
        False,
        _scaled_rows(True),
        _scaled_rows(False),
    ),
    _fault(
        "window over all keys",
        ("masked-work",),
        ("spans", "counts"),
        True,
        attention_window(True),
        attention_window(False),
    ),
    _fault(
        "keys read by each head",
        ("redundant-load", "no-tensor-cores"),
        ("counts", "counters"),
        True,
        _peaks_of_heads(False),
        _peaks_of_heads(True),
    ),
)
