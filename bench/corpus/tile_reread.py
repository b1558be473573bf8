"""Tiles that programs read again from DRAM."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def biased_scores_kernel(
    score_ptr, bias_ptr, out_ptr, size, SEQUENCE_FIRST: tl.constexpr, BLOCK: tl.constexpr
):
    """Adds a learned bias, which all sequences share, to scores of attention."""
    if SEQUENCE_FIRST:
        sequence, block = tl.program_id(0), tl.program_id(1)
    else:
        sequence, block = tl.program_id(1), tl.program_id(0)
    at = block * BLOCK + tl.arange(0, BLOCK)
    bias = tl.load(bias_ptr + at)  # fault
    score = tl.load(score_ptr + sequence * size + at).to(tl.float32)
    tl.store(out_ptr + sequence * size + at, (0.125 * score + bias).to(tl.bfloat16))


def _biased_scores(sequence_first: bool) -> Prepare:
    """The bias has five times the size of the L2 cache."""

    def prepare(small: bool) -> Launch:
        sequences, heads, length = (2, 1, 64) if small else (4, 16, 2048)
        size = heads * length * length
        score, bias = random(sequences, size, dtype=torch.bfloat16), random(size)
        out = torch.empty_like(score)
        grid = (sequences, size // 2048) if sequence_first else (size // 2048, sequences)
        options = {"SEQUENCE_FIRST": sequence_first, "BLOCK": 2048, "num_warps": 4}
        return Launch(biased_scores_kernel, grid, (score, bias, out, size), (out,), options)

    return prepare


@triton.jit
def batched_blocks_kernel(
    x_ptr, y_ptr, out_ptr, batch, INTERLEAVE: tl.constexpr, SIDE: tl.constexpr, BLOCK: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Products of pairs of matrices; INTERLEAVE: the same tile of all pairs, then the next tile."""
    across: tl.constexpr = SIDE // BLOCK
    if INTERLEAVE:
        pair = (tl.program_id(0) % batch).to(tl.int64)  # fault
        tile = tl.program_id(0) // batch  # fault
    else:
        pair = (tl.program_id(0) // (across * across)).to(tl.int64)
        tile = tl.program_id(0) % (across * across)
    offs_m, offs_n = tile // across * BLOCK + tl.arange(0, BLOCK), tile % across * BLOCK + tl.arange(0, BLOCK)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + pair * SIDE * SIDE + offs_m[:, None] * SIDE + offs_k[None, :]
    y = y_ptr + pair * SIDE * SIDE + offs_k[:, None] * SIDE + offs_n[None, :]
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for _ in range(0, SIDE, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(y), acc)  # fault
        x += BLOCK_K
        y += BLOCK_K * SIDE
    out = out_ptr + pair * SIDE * SIDE + offs_m[:, None] * SIDE + offs_n[None, :]
    tl.store(out, acc.to(tl.float16))


def _batched_blocks(interleave: bool) -> Prepare:
    """The rows of tiles of all pairs are 134 MB, more than the L2 cache has room for."""

    def prepare(small: bool) -> Launch:
        batch, side = (2, 256) if small else (256, 512)
        x, y = (random(batch, side, side, dtype=torch.float16) for _ in range(2))
        out = torch.empty_like(x)
        options = {"INTERLEAVE": interleave, "SIDE": side, "BLOCK": 128, "BLOCK_K": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        grid = (batch * (side // 128) ** 2,)
        return Launch(batched_blocks_kernel, grid, (x, y, out, batch), (out,), options)

    return prepare


CASES = (
    Case(
        "bias read for each sequence",
        ("tile-reread",),
        _biased_scores(False),
        _biased_scores(True),
        emulator=False,
    ),
    Case(
        "the same tile of all pairs",
        ("tile-reread",),
        _batched_blocks(True),
        _batched_blocks(False),
        emulator=False,
    ),
)
