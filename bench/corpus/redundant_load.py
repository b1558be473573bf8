"""Data that a program loads twice."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def pooled_tokens_kernel(
    x_ptr, query_ptr, out_ptr, length, scale, ONLINE: tl.constexpr, TOKENS: tl.constexpr, D: tl.constexpr
):
    """The mean of a document's tokens, weighted by a softmax of their products with one query."""
    lanes, dims = tl.arange(0, TOKENS), tl.arange(0, D)
    x_ptr += tl.program_id(0).to(tl.int64) * length * D + lanes[:, None] * D + dims[None, :]
    query = tl.load(query_ptr + dims).to(tl.float32) * scale
    peak = tl.full((TOKENS,), -1e9, dtype=tl.float32)
    total = tl.zeros((TOKENS,), dtype=tl.float32)
    acc = tl.zeros((TOKENS, D), dtype=tl.float32)
    for start in tl.range(0, length, TOKENS, num_stages=3):
        x = tl.load(x_ptr + start * D).to(tl.float32)
        score = tl.sum(x * query[None, :], 1)
        higher = tl.maximum(peak, score)
        fade, p = tl.exp2(peak - higher), tl.exp2(score - higher)
        total = total * fade + p
        if ONLINE:
            acc = acc * fade[:, None] + x * p[:, None]
        peak = higher
    highest = tl.max(peak, 0)
    share = tl.exp2(peak - highest)
    total = tl.sum(total * share, 0)
    if ONLINE:
        acc *= share[:, None]
    else:
        for start in tl.range(0, length, TOKENS, num_stages=3):
            x = tl.load(x_ptr + start * D).to(tl.float32)  # fault
            p = tl.exp2(tl.sum(x * query[None, :], 1) - highest)  # fault
            acc += x * p[:, None]
    tl.store(out_ptr + tl.program_id(0) * D + dims, (tl.sum(acc, 0) / total).to(tl.bfloat16))


def _pooled_tokens(online: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        documents, length = (2, 128) if small else (1056, 2048)
        x, query = random(documents, length, 256, dtype=torch.bfloat16), random(256, dtype=torch.bfloat16)
        out = empty(documents, 256, dtype=torch.bfloat16)
        options = {"ONLINE": online, "TOKENS": 32, "D": 256, "num_warps": 8}
        args = (x, query, out, length, 256**-0.5 * 1.44269504)
        return Launch(pooled_tokens_kernel, (documents,), args, (out,), options)

    return prepare


@triton.jit
def predicted_kernels_kernel(
    x_ptr, weight_ptr, out_ptr, height, WIDTH: tl.constexpr, PITCH: tl.constexpr, BLOCK: tl.constexpr,
    ONCE: tl.constexpr,
):  # fmt: skip
    """A burst's noise taken away by a filter of 5 by 5 of each pixel's own (a kernel-prediction network)."""
    row, image = tl.program_id(1), tl.program_id(2)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plane = (height + 4) * PITCH
    x = x_ptr + image * 3 * plane + row * PITCH + column
    weight = weight_ptr + (image * 25 * height + row) * WIDTH + column
    out = out_ptr + (image * 3 * height + row) * WIDTH + column
    if ONCE:
        red = tl.zeros((BLOCK,), dtype=tl.float32)
        green = tl.zeros((BLOCK,), dtype=tl.float32)
        blue = tl.zeros((BLOCK,), dtype=tl.float32)
        for down in range(5):
            for right in tl.static_range(5):
                each = tl.load(weight + (down * 5 + right) * height * WIDTH)
                at = x + down * PITCH + right
                red += each * tl.load(at).to(tl.float32)
                green += each * tl.load(at + plane).to(tl.float32)
                blue += each * tl.load(at + 2 * plane).to(tl.float32)
        tl.store(out, red.to(tl.float16))
        tl.store(out + height * WIDTH, green.to(tl.float16))
        tl.store(out + 2 * height * WIDTH, blue.to(tl.float16))
    else:
        for colour in range(3):
            total = tl.zeros((BLOCK,), dtype=tl.float32)
            for down in range(5):
                for right in tl.static_range(5):
                    each = tl.load(weight + (down * 5 + right) * height * WIDTH)  # fault
                    at = x + colour * plane + down * PITCH + right
                    total += each * tl.load(at).to(tl.float32)
            tl.store(out + colour * height * WIDTH, total.to(tl.float16))


def _predicted_kernels(once: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, height, width = (1, 2, 512) if small else (8, 1024, 1024)
        x = random(images, 3, height + 4, width + 16, dtype=torch.float16)
        weight = torch.rand(images, 25, height, width)
        out = empty(images, 3, height, width, dtype=torch.float16)
        options = {"WIDTH": width, "PITCH": width + 16, "BLOCK": 512, "ONCE": once, "num_warps": 4}
        args = (x, weight, out, height)
        return Launch(predicted_kernels_kernel, (width // 512, height, images), args, (out,), options)

    return prepare


CASES = (
    Case("pooled tokens read twice", ("redundant-load",), _pooled_tokens(False), _pooled_tokens(True)),
    Case(
        "predicted kernels loaded for each colour",
        ("redundant-load", "tile-reread"),
        _predicted_kernels(False),
        _predicted_kernels(True),
    ),
)
