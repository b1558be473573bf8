"""Faults of attention and of products with a triangle."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES", "attention"]


@triton.jit
def masked_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, scale, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
):  # fmt: skip
    """Causal attention over all blocks of keys, those of the future included."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_d = tl.arange(0, BLOCK_N), tl.arange(0, HEAD)
    base = tl.program_id(1) * length * HEAD
    q = tl.load(q_ptr + base + offs_m[:, None] * HEAD + offs_d[None, :])
    peak = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):  # fault
        keys = start + offs_n
        k = tl.load(k_ptr + base + keys[:, None] * HEAD + offs_d[None, :])
        s = tl.dot(q, tl.trans(k)) * scale
        s = tl.where(offs_m[:, None] >= keys[None, :], s, -1e30)  # fault
        now = tl.maximum(peak, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        shrink = tl.exp2(peak - now)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + base + keys[:, None] * HEAD + offs_d[None, :])
        acc = tl.dot(p.to(tl.float16), v, acc * shrink[:, None])
        peak = now
    out = (acc / total[:, None]).to(tl.float16)
    tl.store(out_ptr + base + offs_m[:, None] * HEAD + offs_d[None, :], out)


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, scale, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Attention; causal, it masks at the diagonal alone, and takes the longest rows first."""
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    offs_m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_d = tl.arange(0, BLOCK_N), tl.arange(0, HEAD)
    base = tl.program_id(1) * length * HEAD
    q = tl.load(q_ptr + base + offs_m[:, None] * HEAD + offs_d[None, :])
    peak = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    full = block * BLOCK_M if CAUSAL else length
    for start in range(0, full, BLOCK_N):
        keys = start + offs_n
        k = tl.load(k_ptr + base + keys[:, None] * HEAD + offs_d[None, :])  # fault
        s = tl.dot(q, tl.trans(k)) * scale
        now = tl.maximum(peak, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        shrink = tl.exp2(peak - now)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + base + keys[:, None] * HEAD + offs_d[None, :])  # fault
        acc = tl.dot(p.to(tl.float16), v, acc * shrink[:, None])
        peak = now
    if CAUSAL:
        for start in range(full, full + BLOCK_M, BLOCK_N):
            keys = start + offs_n
            k = tl.load(k_ptr + base + keys[:, None] * HEAD + offs_d[None, :])
            s = tl.dot(q, tl.trans(k)) * scale
            s = tl.where(offs_m[:, None] >= keys[None, :], s, -1e30)
            now = tl.maximum(peak, tl.max(s, 1))
            p = tl.exp2(s - now[:, None])
            shrink = tl.exp2(peak - now)
            total = total * shrink + tl.sum(p, 1)
            v = tl.load(v_ptr + base + keys[:, None] * HEAD + offs_d[None, :])
            acc = tl.dot(p.to(tl.float16), v, acc * shrink[:, None])
            peak = now
    out = (acc / total[:, None]).to(tl.float16)
    tl.store(out_ptr + base + offs_m[:, None] * HEAD + offs_d[None, :], out)


def attention(
    *, causal: bool, masked: bool = False, rows: int = 128, keys: int = 64, head: int = 64, warps: int = 4,
    stages: int = 3,
) -> Prepare:  # fmt: skip
    """Attention; masked: causal by the kernel that computes the future, too."""

    def prepare(small: bool) -> Launch:
        heads, length = (1, 256) if small else (64, 4096)
        q, k, v = (random(heads, length, head, dtype=torch.float16) for _ in range(3))
        out = empty(heads, length, head, dtype=torch.float16)
        options: dict[str, Any] = {"BLOCK_M": rows, "BLOCK_N": keys, "HEAD": head}
        options |= {"num_warps": warps, "num_stages": stages}
        kernel = masked_attention_kernel
        if not masked:
            kernel, options["CAUSAL"] = attention_kernel, causal
        scale = head**-0.5 * 1.44269504
        return Launch(kernel, (length // rows, heads), (q, k, v, out, length, scale), (out,), options)

    return prepare


@triton.jit
def triangular_matmul_kernel(
    l_ptr, b_ptr, c_ptr, N, K, SKIP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A lower triangular matrix times b."""
    block_m = tl.num_programs(1) - 1 - tl.program_id(1)
    offs_m = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    end = (block_m + 1) * BLOCK_M if SKIP else K
    for k in range(0, end, BLOCK_K):  # fault
        columns = k + offs_k
        inside = offs_m[:, None] >= columns[None, :]
        a = tl.load(l_ptr + offs_m[:, None] * K + columns[None, :], mask=inside, other=0.0)  # fault
        b = tl.load(b_ptr + columns[:, None] * N + offs_n[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _triangular(skip: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n = (256, 128) if small else (4096, 4096)
        lower, b = random(m, m, dtype=torch.float16), random(m, n, dtype=torch.float16)
        c = empty(m, n, dtype=torch.float16)
        options = {
            "SKIP": skip,
            "BLOCK_M": 128,
            "BLOCK_N": 128,
            "BLOCK_K": 64,
            "num_warps": 8,
            "num_stages": 3,
        }
        return Launch(triangular_matmul_kernel, (n // 128, m // 128), (lower, b, c, n, m), (c,), options)

    return prepare


CASES = (
    Case(
        "attention to the future",
        ("masked-work",),
        ("spans", "counts"),
        True,
        attention(causal=True, masked=True),
        attention(causal=True),
    ),
    Case(
        "zeros of a triangle",
        ("masked-work",),
        ("spans", "counts"),
        True,
        _triangular(False),
        _triangular(True),
    ),
    Case(
        "attention of 1 stage",
        ("few-stages", "exposed-latency"),
        ("spans", "samples"),
        False,
        attention(causal=False, stages=1),
        attention(causal=False, stages=3),
    ),
)
