"""Divisions and remainders of indices."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def ring_kernel(x_ptr, ring_ptr, out_ptr, size, first, BLOCK: tl.constexpr):
    """Reads a ring buffer: the remainder for each of eight taps."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.load(x_ptr + offs)
    for tap in range(8):
        at = (offs.to(tl.int64) + first + tap) % size  # fault
        acc += tl.load(ring_ptr + at)
    tl.store(out_ptr + offs, acc)


@triton.jit
def wrapped_ring_kernel(x_ptr, ring_ptr, out_ptr, size, first, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.load(x_ptr + offs)
    start = (tl.program_id(0) * BLOCK + first) % size
    for tap in range(8):
        at = start + tl.arange(0, BLOCK) + tap
        at = tl.where(at >= size, at - size, at)
        acc += tl.load(ring_ptr + at)
    tl.store(out_ptr + offs, acc)


def _ring(wrapped: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, size = (4096, 3000) if small else (1 << 23, 1_000_003)
        x, ring, out = random(n), random(size), empty(n)
        kernel = wrapped_ring_kernel if wrapped else ring_kernel
        return Launch(kernel, (n // 1024,), (x, ring, out, size, 77), (out,), {"BLOCK": 1024})

    return prepare


@triton.jit
def divided_upsample_kernel(x_ptr, out_ptr, height, width, out_height, out_width, BLOCK: tl.constexpr):
    """Nearest pixels of a smaller image, all found from the place in out."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = offs % out_width * width // out_width  # fault
    row = offs // out_width % out_height * height // out_height  # fault
    plane = offs // (out_width * out_height)  # fault
    tl.store(out_ptr + offs, tl.load(x_ptr + (plane * height + row) * width + column))


@triton.jit
def upsample_kernel(x_ptr, out_ptr, height, width, out_height, OUT_WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """As divided_upsample_kernel: a program for rows of a plane, with columns found once."""
    out_column, plane = tl.arange(0, OUT_WIDTH), tl.program_id(1)
    column = out_column * width // OUT_WIDTH
    for i in range(ROWS):
        out_row = tl.program_id(0) * ROWS + i
        row = out_row * height // out_height
        x = tl.load(x_ptr + (plane * height + row) * width + column)
        tl.store(out_ptr + (plane * out_height + out_row) * OUT_WIDTH + out_column, x)


def _upsample(divided: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        planes, side, out_side = (1, 50, 128) if small else (64, 401, 1024)
        x = random(planes, side, side, dtype=torch.float16)
        out = empty(planes, out_side, out_side, dtype=torch.float16)
        if divided:
            args = (x, out, side, side, out_side, out_side)
            options = {"BLOCK": 1024, "num_warps": 4}
            return Launch(divided_upsample_kernel, (out.numel() // 1024,), args, (out,), options)
        options = {"OUT_WIDTH": out_side, "ROWS": 8, "num_warps": 4}
        grid = (out_side // 8, planes)
        return Launch(upsample_kernel, grid, (x, out, side, side, out_side), (out,), options)

    return prepare


CASES = (
    Case("ring buffer by remainder", ("index-arithmetic",), _ring(False), _ring(True)),
    Case("upsampled by division", ("index-arithmetic",), _upsample(True), _upsample(False)),
)
