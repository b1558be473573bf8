"""Second round, faults of memory: addresses, traffic, atomics, and waiting for loads."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def pooled_channel_kernel(x_ptr, out_ptr, channels, pixels, BLOCK: tl.constexpr):
    """The mean of each channel of an image, channels last; a program for a channel."""
    base = tl.program_id(1) * pixels * channels + tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, pixels, BLOCK):
        acc += tl.load(x_ptr + base + (start + tl.arange(0, BLOCK)) * channels)  # fault
    tl.store(out_ptr + tl.program_id(1) * channels + tl.program_id(0), tl.sum(acc, 0) / pixels)


@triton.jit
def pooled_channels_kernel(x_ptr, out_ptr, channels, pixels, PIXELS: tl.constexpr, CHANNELS: tl.constexpr):
    """As pooled_channel_kernel, a program for some channels."""
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    base = tl.program_id(1) * pixels * channels
    acc = tl.zeros((PIXELS, CHANNELS), dtype=tl.float32)
    for start in range(0, pixels, PIXELS):
        pixel = start + tl.arange(0, PIXELS)
        acc += tl.load(x_ptr + base + pixel[:, None] * channels + channel[None, :])
    tl.store(out_ptr + tl.program_id(1) * channels + channel, tl.sum(acc, 0) / pixels)


def _pooled(together: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, channels, pixels = (1, 64, 1024) if small else (64, 256, 4096)
        x, out = random(images, pixels, channels), empty(images, channels)
        args = (x, out, channels, pixels)
        if together:
            options = {"PIXELS": 32, "CHANNELS": 32, "num_warps": 4}
            return Launch(pooled_channels_kernel, (channels // 32, images), args, (out,), options)
        options = {"BLOCK": 1024, "num_warps": 4}
        return Launch(pooled_channel_kernel, (channels, images), args, (out,), options)

    return prepare


@triton.jit
def token_to_cache_kernel(k_ptr, out_ptr, length, DIM: tl.constexpr):
    """Writes keys to a cache whose last axis is the position; a program for a token of a head."""
    dims = tl.arange(0, DIM)
    head, token = tl.program_id(1), tl.program_id(0)
    k = tl.load(k_ptr + (head * length + token) * DIM + dims)
    tl.store(out_ptr + (head * DIM + dims) * length + token, k)  # fault


@triton.jit
def tokens_to_cache_kernel(k_ptr, out_ptr, length, DIM: tl.constexpr, TOKENS: tl.constexpr):
    """As token_to_cache_kernel, a program for some tokens."""
    dims, token = tl.arange(0, DIM), tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    head = tl.program_id(1)
    k = tl.load(k_ptr + (head * length + token)[:, None] * DIM + dims[None, :])
    tl.store(out_ptr + (head * DIM + dims)[:, None] * length + token[None, :], tl.trans(k))


def _to_cache(together: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 64) if small else (32, 8192)
        k, out = random(heads, length, 128), empty(heads, 128, length)
        if together:
            options = {"DIM": 128, "TOKENS": 32, "num_warps": 4}
            return Launch(tokens_to_cache_kernel, (length // 32, heads), (k, out, length), (out,), options)
        options = {"DIM": 128, "num_warps": 1}
        return Launch(token_to_cache_kernel, (length, heads), (k, out, length), (out,), options)

    return prepare


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
def city_distance_kernel(
    x_ptr, c_ptr, out_ptr, N, M, DIM: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr
):
    """Sums of absolute differences of points and centres, both stored by coordinate."""
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
    for d in range(DIM):
        x = tl.load(x_ptr + d * N + offs_n)  # fault
        c = tl.load(c_ptr + d * M + offs_m)  # fault
        acc += tl.abs(x[:, None] - c[None, :])
    tl.store(out_ptr + offs_n[:, None] * M + offs_m[None, :], acc)


def _city_distance(block_n: int, block_m: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, m, dim = (64, 128, 8) if small else (8192, 4096, 128)
        x, c, out = random(dim, n), random(dim, m), empty(n, m)
        options = {"DIM": dim, "BLOCK_N": block_n, "BLOCK_M": block_m, "num_warps": 4}
        grid = (n // block_n, m // block_m)
        return Launch(city_distance_kernel, grid, (x, c, out, n, m), (out,), options)

    return prepare


@triton.jit
def byte_matvec_kernel(w_ptr, scale_ptr, x_ptr, out_ptr, K, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of bytes times a vector; each column has a scale."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        w = tl.load(w_ptr + rows[:, None] * K + cols[None, :]).to(tl.float32)
        x = tl.load(x_ptr + cols) * tl.load(scale_ptr + cols)  # fault
        acc += w * x[None, :]
    tl.store(out_ptr + rows, tl.sum(acc, 1))


def _byte_matvec(rows: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, k = (16, 2048) if small else (1 << 16, 8192)
        w = integers(m, k, below=127, dtype=torch.int8)
        scale, x, out = torch.rand(k), random(k), empty(m)
        options = {"ROWS": rows, "BLOCK": 1024, "num_warps": 4}
        return Launch(byte_matvec_kernel, (m // rows,), (w, scale, x, out, k), (out,), options)

    return prepare


@gluon.jit
def _add(a, b):
    return a + b


@gluon.jit
def scanned_rows_kernel(x_ptr, out_ptr, ROWS: gl.constexpr, COLS: gl.constexpr, SHARED: gl.constexpr):
    """Running sums of short rows: a tile goes through shared memory, so that each thread has a row."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    by_row: gl.constexpr = gl.BlockedLayout([1, COLS], [32, 1], [4, 1], [1, 0])
    rows = gl.program_id(0) * ROWS + gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    cols = gl.arange(0, COLS, layout=gl.SliceLayout(0, layout))
    offs = rows[:, None] * COLS + cols[None, :]
    tile = gl.allocate_shared_memory(gl.float32, [ROWS, COLS], SHARED, gl.load(x_ptr + offs))
    x = tile.load(by_row)  # fault
    tile.store(gl.associative_scan(x, 1, _add))  # fault
    gl.store(out_ptr + offs, tile.load(layout))


def _scanned_rows(shared: Any) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 256 if small else 1 << 20
        x, out = random(rows, 32), empty(rows, 32)
        options = {"ROWS": 128, "COLS": 32, "SHARED": shared, "num_warps": 4}
        return Launch(scanned_rows_kernel, (rows // 128,), (x, out), (out,), options)

    return prepare


_PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
_SWIZZLED = gl.SwizzledSharedLayout(4, 1, 8, [1, 0])


@triton.jit
def weight_gradient_kernel(x_ptr, dy_ptr, dw_ptr, db_ptr, EACH: tl.constexpr, COLS: tl.constexpr):
    """Gradients of a norm's weight and bias: of rows of dy, by x, normed, and by itself."""
    cols = tl.arange(0, COLS)
    dw = tl.zeros((COLS,), dtype=tl.float32)
    db = tl.zeros((COLS,), dtype=tl.float32)
    for i in range(EACH):
        offs = (tl.program_id(0) * EACH + i) * COLS + cols
        x, dy = tl.load(x_ptr + offs).to(tl.float32), tl.load(dy_ptr + offs).to(tl.float32)
        dw += x * tl.rsqrt(tl.sum(x * x, 0) / COLS + 1e-6) * dy
        db += dy
    tl.atomic_add(dw_ptr + cols, dw)  # fault
    tl.atomic_add(db_ptr + cols, db)  # fault


def _weight_gradient(each: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (16, 1024) if small else (16896, 4096)
        x, dy = (random(rows, cols, dtype=torch.bfloat16) for _ in range(2))
        dw, db = zeros(cols), zeros(cols)
        options = {"EACH": min(each, 8) if small else each, "COLS": cols, "num_warps": 8}
        grid = (rows // options["EACH"],)
        return Launch(weight_gradient_kernel, grid, (x, dy, dw, db), (dw, db), options)

    return prepare


@triton.jit
def backtrace_kernel(parent_ptr, token_ptr, out_ptr, length, BEAMS: tl.constexpr):
    """The tokens of the best beam, from its last step to its first, each found by the step after it."""
    base = tl.program_id(0) * length
    beam = 0
    for step in range(length):
        at = (base + length - 1 - step) * BEAMS + beam
        tl.store(out_ptr + base + length - 1 - step, tl.load(token_ptr + at))
        beam = tl.load(parent_ptr + at)  # fault


@triton.jit
def ahead_backtrace_kernel(parent_ptr, token_ptr, out_ptr, length, BEAMS: tl.constexpr):
    """As backtrace_kernel: all beams of a step are loaded, eight steps ahead, and one is chosen."""
    base = tl.program_id(0) * length
    beams = tl.arange(0, BEAMS)
    beam = 0
    for step in tl.range(length, num_stages=8):
        at = (base + length - 1 - step) * BEAMS + beams
        parents, tokens = tl.load(parent_ptr + at), tl.load(token_ptr + at)
        chosen = beams == beam
        tl.store(out_ptr + base + length - 1 - step, tl.sum(tl.where(chosen, tokens, 0), 0))
        beam = tl.sum(tl.where(chosen, parents, 0), 0)


def _backtrace(ahead: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        batch, length = (4, 16) if small else (528, 512)
        parent, token = integers(batch, length, 32, below=32), integers(batch, length, 32, below=32000)
        out = empty(batch, length, dtype=torch.int32)
        kernel = ahead_backtrace_kernel if ahead else backtrace_kernel
        options = {"BEAMS": 32, "num_warps": 1}
        return Launch(kernel, (batch,), (parent, token, out, length), (out,), options)

    return prepare


@triton.jit
def quantile_blocks_kernel(
    x_ptr, out_ptr, wanted, COLS: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr
):
    """The value that `wanted` entries of a row exceed, by bisection."""
    base = tl.program_id(0) * COLS
    low, high = -8.0, 8.0
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        count = tl.zeros((BLOCK,), dtype=tl.int32)
        for start in range(0, COLS, BLOCK):
            x = tl.load(x_ptr + base + start + tl.arange(0, BLOCK))  # fault
            count += (x > middle).to(tl.int32)
        many = tl.sum(count, 0) > wanted
        low, high = tl.where(many, middle, low), tl.where(many, high, middle)
    tl.store(out_ptr + tl.program_id(0), high)


@triton.jit
def quantile_row_kernel(x_ptr, out_ptr, wanted, COLS: tl.constexpr, STEPS: tl.constexpr):
    """As quantile_blocks_kernel, with the row in registers."""
    x = tl.load(x_ptr + tl.program_id(0) * COLS + tl.arange(0, COLS))
    low, high = -8.0, 8.0
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        many = tl.sum((x > middle).to(tl.int32), 0) > wanted
        low, high = tl.where(many, middle, low), tl.where(many, high, middle)
    tl.store(out_ptr + tl.program_id(0), high)


def _quantile(held: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (2, 4096) if small else (2112, 32768)
        x, out = random(rows, cols), empty(rows)
        options: dict[str, Any] = {"COLS": cols, "STEPS": 20, "num_warps": 32}
        if held:
            return Launch(quantile_row_kernel, (rows,), (x, out, cols // 16), (out,), options)
        options["BLOCK"] = 4096
        return Launch(quantile_blocks_kernel, (rows,), (x, out, cols // 16), (out,), options)

    return prepare


CASES = (
    Case(
        "pool over pixels of a channel",
        ("uncoalesced-load",),
        ("counts", "counters"),
        True,
        _pooled(False),
        _pooled(True),
        round=2,
    ),
    Case(
        "keys scattered by dimension",
        ("uncoalesced-store",),
        ("counts", "counters"),
        True,
        _to_cache(False),
        _to_cache(True),
        round=2,
    ),
    Case(
        "bytes one by one",
        ("unvectorized-access",),
        ("counts",),
        True,
        _signed_bytes(1),
        _signed_bytes(16),
        round=2,
    ),
    Case(
        "distances of 8 by 64",
        ("tile-reread", "l1-bound"),
        ("counts", "counters"),
        True,
        _city_distance(8, 64),
        _city_distance(64, 128),
        round=2,
    ),
    Case(
        "vector loaded for each row",
        ("l1-bound", "tile-reread", "redundant-load"),
        ("counts", "counters"),
        True,
        _byte_matvec(1),
        _byte_matvec(8),
        round=2,
    ),
    Case(
        "a row for each thread",
        ("bank-conflict",),
        ("counts",),
        True,
        _scanned_rows(_PLAIN),
        _scanned_rows(_SWIZZLED),
        round=2,
    ),
    Case(
        "weight gradient of each row",
        ("atomics",),
        ("counts", "samples"),
        True,
        _weight_gradient(1),
        _weight_gradient(64),
        round=2,
    ),
    Case(
        "beams traced back",
        ("exposed-latency",),
        ("spans", "samples"),
        False,
        _backtrace(False),
        _backtrace(True),
        round=2,
    ),
    Case(
        "quantile from memory",
        ("redundant-load",),
        ("counts", "counters"),
        True,
        _quantile(False),
        _quantile(True),
        round=2,
    ),
)
