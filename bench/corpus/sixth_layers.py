"""Sixth round, faults of layers and adapters."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def pending_layer_kernel(
    x_ptr, w_ptr, out_ptr, N, K, WHILE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A layer; WHILE: in a loop that ends when no depth is left."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w = w_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    if WHILE:
        left = K
        while left > 0:  # fault
            acc = tl.dot(tl.load(x), tl.load(w), acc)  # fault
            x += BLOCK_K
            w += BLOCK_K * N
            left -= BLOCK_K
    else:
        for _ in range(0, K, BLOCK_K):
            acc = tl.dot(tl.load(x), tl.load(w), acc)
            x += BLOCK_K
            w += BLOCK_K * N
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.bfloat16))


def _pending_layer(loop: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 128, 128) if small else (4096, 4224, 4096)
        x, w = random(m, k, dtype=torch.bfloat16), random(k, n, dtype=torch.bfloat16)
        out = empty(m, n, dtype=torch.bfloat16)
        options = {"WHILE": loop, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        return Launch(pending_layer_kernel, (n // 128, m // 128), (x, w, out, n, k), (out,), options)

    return prepare


@triton.jit
def float8_layer_kernel(
    x_ptr, w_ptr, scale_ptr, out_ptr, N, K, DEPTH: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A layer of float8; DEPTH: after how many products the tensor cores' sums are added in float32."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w = w_ptr + offs_n[None, :] * K + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(w), acc, max_num_imprecise_acc=DEPTH)  # fault
        x += BLOCK_K
        w += BLOCK_K
    acc *= tl.load(scale_ptr + offs_n)[None, :]
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _float8_layer(depth: int | None) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 128, 256) if small else (4224, 8192, 4096)
        x, w = random(m, k, dtype=torch.float8_e5m2), random(n, k, dtype=torch.float8_e5m2)
        scale, out = torch.rand(n), empty(m, n, dtype=torch.float16)
        options = {"DEPTH": depth, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128}
        options |= {"num_warps": 8, "num_stages": 3}
        args = (x, w, scale, out, n, k)
        return Launch(float8_layer_kernel, (n // 128, m // 128), args, (out,), options)

    return prepare


@triton.jit
def normed_layer_kernel(
    x_ptr, w_ptr, norm_ptr, out_ptr, N, K, NORM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A layer of tokens divided by their norm; NORM: which each program computes for its tokens."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    tokens = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    if NORM:
        squares = tl.zeros((BLOCK_M, BLOCK_K), dtype=tl.float32)
        for k in tl.range(0, K, BLOCK_K, num_stages=3):
            x = tl.load(tokens + k).to(tl.float32)  # fault
            squares += x * x  # fault
        norm = tl.rsqrt(tl.sum(squares, 1) / K + 1e-6)
    else:
        norm = tl.load(norm_ptr + offs_m)
    w = w_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(tokens + k), tl.load(w), acc)
        w += BLOCK_K * N
    out = (acc * norm[:, None]).to(tl.bfloat16)
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], out)


def _normed_layer(norm: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 128, 128) if small else (4096, 4224, 2048)
        x, w = random(m, k, dtype=torch.bfloat16), random(k, n, dtype=torch.bfloat16)
        known = torch.rsqrt((x.float() * x.float()).mean(1) + 1e-6)
        out = empty(m, n, dtype=torch.bfloat16)
        options = {"NORM": norm, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        args = (x, w, known, out, n, k)
        return Launch(normed_layer_kernel, (n // 128, m // 128), args, (out,), options)

    return prepare


@triton.jit
def adapter_shrink_kernel(
    x_ptr, a_ptr, out_ptr, K, part, RANK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Tokens times the narrow matrix of an adapter; programs of the same tokens add up parts of the depth."""
    offs_m, offs_k = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    ranks = tl.arange(0, RANK)
    acc = tl.zeros((BLOCK_M, RANK), dtype=tl.float32)
    for k in range(tl.program_id(1) * part, tl.program_id(1) * part + part, BLOCK_K):
        x = tl.load(x_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        a = tl.load(a_ptr + (k + offs_k)[:, None] * RANK + ranks[None, :])
        acc = tl.dot(x, a, acc)
    tl.atomic_add(out_ptr + offs_m[:, None] * RANK + ranks[None, :], acc, sem="relaxed")


def _adapter_shrink(parts: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, k = (128, 512) if small else (2048, 32768)
        x, a = random(tokens, k, dtype=torch.float16), random(k, 64, dtype=torch.float16) * 0.05
        out = zeros(tokens, 64)
        options = {"RANK": 64, "BLOCK_M": 128, "BLOCK_K": 64, "num_warps": 4, "num_stages": 3}
        args = (x, a, out, k, k // parts)
        return Launch(adapter_shrink_kernel, (tokens // 128, parts), args, (out,), options)

    return prepare


@triton.jit
def adapter_expand_kernel(
    x_ptr, b_ptr, out_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """A narrow activation times the wide matrix of an adapter."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    b = b_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(b), acc)
        x += BLOCK_K
        b += BLOCK_K * N
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _adapter_expand(stages: int) -> Prepare:
    """Buffers of 5 stages are 120 KB, so an SM holds one CTA, whose loads, products and stores alternate."""

    def prepare(small: bool) -> Launch:
        m, n, k = (128, 256, 128) if small else (16896, 4096, 128)
        x, b = random(m, k, dtype=torch.float16), random(k, n, dtype=torch.float16) * 0.1
        out = empty(m, n, dtype=torch.float16)
        options = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "num_warps": 4, "num_stages": stages}
        return Launch(adapter_expand_kernel, (n // 64, m // 128), (x, b, out, n, k), (out,), options)

    return prepare


@triton.jit
def turned_float8_kernel(
    x_ptr, w_ptr, out_ptr, N, K, stride_k, stride_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A layer of float8, with weights of any order."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w = w_ptr + offs_k[:, None] * stride_k + offs_n[None, :] * stride_n
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(w), acc)  # fault
        x += BLOCK_K
        w += BLOCK_K * stride_k
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.bfloat16))


def _turned_float8(turn: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 128, 256) if small else (4224, 4096, 4096)
        x, w = random(m, k, dtype=torch.float8_e5m2), random(n, k, dtype=torch.float8_e5m2)
        out = empty(m, n, dtype=torch.bfloat16)
        strides = (n, 1) if turn else (1, k)
        w = w.t().contiguous() if turn else w
        options = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "num_warps": 8, "num_stages": 3}
        args = (x, w, out, n, k, *strides)
        return Launch(turned_float8_kernel, (n // 128, m // 128), args, (out,), options)

    return prepare


@triton.jit
def summed_bytes_kernel(
    x_ptr, w_ptr, scale_ptr, out_ptr, N, K, FLOAT: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A layer of signed bytes; FLOAT: with sums in float32, which no depth makes overflow."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w = w_ptr + offs_n[None, :] * K + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32 if FLOAT else tl.int32)
    for _ in range(0, K, BLOCK_K):
        if FLOAT:
            acc += tl.dot(tl.load(x), tl.load(w), out_dtype=tl.int32).to(tl.float32)  # fault
        else:
            acc = tl.dot(tl.load(x), tl.load(w), acc, out_dtype=tl.int32)
        x += BLOCK_K
        w += BLOCK_K
    y = acc.to(tl.float32) * tl.load(scale_ptr + offs_n)[None, :]
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], y.to(tl.float16))


def _summed_bytes(float_sums: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 128, 256) if small else (4224, 8192, 4096)
        x, w = ((integers(*shape, below=255) - 127).to(torch.int8) for shape in ((m, k), (n, k)))
        scale, out = torch.rand(n) * 0.0001, empty(m, n, dtype=torch.float16)
        options = {"FLOAT": float_sums, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
        options |= {"num_warps": 8, "num_stages": 4}
        args = (x, w, scale, out, n, k)
        return Launch(summed_bytes_kernel, (n // 128, m // 128), args, (out,), options)

    return prepare


_case = faults_of(6)


CASES = (
    _case(
        "layer while depth is left",
        ("few-stages", "exposed-latency"),
        ("samples", "counters"),
        False,
        _pending_layer(True),
        _pending_layer(False),
    ),
    _case(
        "float8 sums promoted each step",
        ("mma-not-overlapped",),
        ("samples", "counters"),
        False,
        _float8_layer(32),
        _float8_layer(None),
    ),
    _case(
        "norm of tokens for each tile",
        ("redundant-load",),
        ("samples", "counters"),
        False,
        _normed_layer(True),
        _normed_layer(False),
    ),
    _case(
        "adapter's ranks by 16 programs",
        ("idle-sms", "low-occupancy"),
        ("ctas", "counters"),
        False,
        _adapter_shrink(1),
        _adapter_shrink(8),
    ),
    _case(
        "short depth of 5 stages",
        ("low-occupancy",),
        ("resources", "samples"),
        False,
        _adapter_expand(5),
        _adapter_expand(2),
    ),
    _case(
        "float8 weights turned for each step",
        ("layout-conversion", "bank-conflict"),
        ("counts", "samples"),
        False,
        _turned_float8(True),
        _turned_float8(False),
    ),
    _case(
        "bytes summed in float32",
        ("conversions", "mma-not-overlapped"),
        ("counts", "samples"),
        False,
        _summed_bytes(True),
        _summed_bytes(False),
    ),
)
