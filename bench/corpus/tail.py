"""Launches whose last wave of CTAs leaves most SMs idle."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def gelu_pieces_kernel(x_ptr, out_ptr, per_program, BLOCK: tl.constexpr):
    first = tl.program_id(0) * per_program
    for start in range(0, per_program, BLOCK):
        offs = first + start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs)
        tl.store(out_ptr + offs, x * tl.sigmoid(1.702 * x))


def _gelu_pieces(divided: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (5, 1 << 15) if small else (276, 1 << 17)
        x, out = random(rows, cols), empty(rows, cols)
        options = {"BLOCK": 4096, "num_warps": 32} if divided == 1 else {"BLOCK": 1024, "num_warps": 4}
        return Launch(gelu_pieces_kernel, (rows * divided,), (x, out, cols // divided), (out,), options)

    return prepare


@triton.jit
def nonces_kernel(out_ptr, seed, rounds, BLOCK: tl.constexpr):
    """What a hash makes of each nonce after some rounds."""
    nonce = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = nonce.to(tl.uint32) ^ seed
    b = nonce.to(tl.uint32) * 2654435769
    for _ in range(rounds):
        a = (a + b) * 2246822519
        b = ((b << 7) | (b >> 25)) ^ a
        a = a ^ (a >> 15)
    tl.store(out_ptr + nonce, ((a ^ b) >> 8).to(tl.int32))


def _nonces(block: int, warps: int) -> Prepare:
    """150 programs of 16384 nonces; an SM has room for one."""

    def prepare(small: bool) -> Launch:
        n, rounds = (32768, 8) if small else (150 * 16384, 256)
        out = empty(n, dtype=torch.int32)
        options = {"BLOCK": block, "num_warps": warps}
        return Launch(nonces_kernel, (n // block,), (out, 12345, rounds), (out,), options)

    return prepare


CASES = (
    Case("gelu of rows by 32 warps", ("tail",), _gelu_pieces(1), _gelu_pieces(32), emulator=False),
    Case("nonces in 1.14 waves", ("tail",), _nonces(16384, 32), _nonces(1024, 4), emulator=False),
)
