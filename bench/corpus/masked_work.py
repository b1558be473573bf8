"""Lanes whose results a mask drops."""

from __future__ import annotations

from dataclasses import replace

import torch
import triton
import triton.language as tl

from bench.corpus.attention import attention
from bench.corpus.case import Case, Launch, Prepare, empty

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def padded_rows_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """A row of a little more than half a block: the other lanes compute for nobody."""
    lanes = tl.arange(0, BLOCK)
    offs = tl.program_id(0) * cols + lanes
    x = tl.load(x_ptr + offs, mask=lanes < cols, other=0.0)  # fault
    y = x
    for _ in range(48):
        y = y * x * 0.25 + 0.5  # fault
    tl.store(out_ptr + offs, y, mask=lanes < cols)


def _padded(flat: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (64, 528) if small else (1 << 15, 528)
        x, out = torch.rand(rows * cols), empty(rows * cols)
        length = 1024 if flat else cols
        return Launch(
            padded_rows_kernel, (triton.cdiv(rows * cols, length),), (x, out, length), (out,), {"BLOCK": 1024}
        )

    return prepare


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


def _masked_attention(small: bool) -> Launch:
    """The launch of its twin, with the other kernel."""
    twin = _CAUSAL(small)
    options = {name: value for name, value in twin.options.items() if name != "CAUSAL"}
    return replace(twin, kernel=masked_attention_kernel, options=options)


_CAUSAL = attention(causal=True, rows=128, keys=64, head=64, warps=4, stages=3)

CASES = (
    Case("rows padded to 1024", ("masked-work",), _padded(False), _padded(True)),
    Case("attention to the future", ("masked-work",), _masked_attention, _CAUSAL),
)
