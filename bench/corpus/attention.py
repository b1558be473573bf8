"""Attention: without a fault, and with 16 rows of queries in each product."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES", "attention"]


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
        k = tl.load(k_ptr + base + keys[:, None] * HEAD + offs_d[None, :])
        s = tl.dot(q, tl.trans(k)) * scale
        now = tl.maximum(peak, tl.max(s, 1))
        p = tl.exp2(s - now[:, None])
        shrink = tl.exp2(peak - now)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + base + keys[:, None] * HEAD + offs_d[None, :])
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


def attention(*, causal: bool, rows: int, keys: int, head: int, warps: int, stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 256) if small else (64, 4096)
        q, k, v = (random(heads, length, head, dtype=torch.float16) for _ in range(3))
        out = empty(heads, length, head, dtype=torch.float16)
        options = {"BLOCK_M": rows, "BLOCK_N": keys, "HEAD": head, "CAUSAL": causal}
        options |= {"num_warps": warps, "num_stages": stages}
        args = (q, k, v, out, length, head**-0.5 * 1.44269504)
        return Launch(attention_kernel, (length // rows, heads), args, (out,), options)

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


CASES = (
    Case("good attention", (), attention(causal=False, rows=128, keys=128, head=128, warps=8, stages=2)),
    Case(
        "attention of 16 queries",
        ("small-mma", "tile-reread"),
        _grouped_attention(16),
        _grouped_attention(64),
    ),
)
