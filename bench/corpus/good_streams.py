"""Element-wise kernels without a fault."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))


@triton.jit
def swiglu_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + offs).to(tl.float32), tl.load(y_ptr + offs).to(tl.float32)
    tl.store(out_ptr + offs, (x * tl.sigmoid(x) * y).to(tl.bfloat16))


@triton.jit
def exponentials_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """A logarithm of sums of exponentials that no cheaper form has."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    for _ in tl.static_range(16):
        x = tl.exp2(x * -0.5)
    tl.store(out_ptr + offs, x)


def _stream(kernel: Any, n: int, inputs: int, dtype: torch.dtype, block: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        length = 4 * block if small else n
        xs = tuple(random(length).to(dtype) for _ in range(inputs))
        out = empty(length, dtype=dtype)
        options = {"BLOCK": block, "num_warps": 4}
        return Launch(kernel, (length // block,), (*xs, out), (out,), options)

    return prepare


CASES = (
    Case("good copy", (), _stream(copy_kernel, 1 << 27, 1, torch.bfloat16, 2048)),
    Case("good swiglu", (), _stream(swiglu_kernel, 1 << 26, 2, torch.bfloat16, 2048)),
    Case("good exponentials", (), _stream(exponentials_kernel, 1 << 26, 1, torch.float32, 1024)),
)
