"""Accesses of one byte a thread."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from bench.corpus.case import Case, Launch, Prepare, empty, integers

# ruff: noqa: N803
__all__ = ["CASES"]


@gluon.jit
def signed_bytes_kernel(x_ptr, out_ptr, BLOCK: gl.constexpr, EACH: gl.constexpr):
    """Bytes around 128 to bytes around 0; a thread reads and writes EACH neighbours."""
    layout: gl.constexpr = gl.BlockedLayout([EACH], [32], [4], [0])
    offs = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    x = gl.load(x_ptr + offs)  # fault
    gl.store(out_ptr + offs, x ^ -128)  # fault


def _signed_bytes(each: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (13 if small else 29)
        x, out = integers(n, below=127, dtype=torch.int8), empty(n, dtype=torch.int8)
        options = {"BLOCK": 2048, "EACH": each, "num_warps": 4}
        return Launch(signed_bytes_kernel, (n // 2048,), (x, out), (out,), options)

    return prepare


@triton.jit
def clipped_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)  # fault
    y = tl.load(y_ptr + offs, mask=offs < n)  # fault
    tl.store(out_ptr + offs, tl.maximum(x, y), mask=offs < n)  # fault


def _clipped(rounded: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        room = 1 << (13 if small else 27)
        n = room - 5
        x, y = (integers(room, below=127, dtype=torch.int8) for _ in range(2))
        out = empty(room, dtype=torch.int8)
        args = (x, y, out, room if rounded else n)
        return Launch(clipped_kernel, (room // 4096,), args, (out[:n],), {"BLOCK": 4096, "num_warps": 4})

    return prepare


CASES = (
    Case("bytes one by one", ("unvectorized-access",), _signed_bytes(1), _signed_bytes(16)),
    Case("mask of an odd length", ("unvectorized-access",), _clipped(False), _clipped(True)),
)
