"""A product of few rows, bound by the weights that stream by."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


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


def _decode_product(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, k = (64, 512) if small else (132 * 128, 16384)
        x, w = random(16, k, dtype=torch.float16), random(n, k, dtype=torch.float16)
        out = empty(16, n, dtype=torch.float16)
        options = {"TOKENS": 16, "BLOCK_N": 32, "BLOCK_K": 128, "STAGES": stages, "num_warps": 4}
        return Launch(decode_product_kernel, (n // 32,), (x, w, out, n, k), (out,), options)

    return prepare


CASES = (
    Case(
        "decode product of 1 stage",
        ("few-stages", "exposed-latency"),
        _decode_product(1),
        _decode_product(5),
        emulator=False,
    ),
    Case("good decode product", (), _decode_product(4)),
)
