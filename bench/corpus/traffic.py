"""Faults of traffic: what is read again and again, and atomics on the same addresses."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES", "ordered_matmul"]


@triton.jit
def ordered_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """GROUP: rows of tiles that programs in sequence share."""
    pid = tl.program_id(0)
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    first = pid // (GROUP * blocks_n) * GROUP
    size = tl.minimum(blocks_m - first, GROUP)
    block_m = first + pid % (GROUP * blocks_n) % size
    block_n = pid % (GROUP * blocks_n) // size
    offs_m = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs)  # fault
        b = tl.load(b_ptrs)  # fault
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))


def ordered_matmul(
    size: tuple[int, int, int], tile: tuple[int, int, int], group: int, warps: int, stages: int,
    dtype: torch.dtype = torch.float16,
) -> Prepare:  # fmt: skip
    """Matmul with tiles in groups of rows."""

    def prepare(small: bool) -> Launch:
        m, n, k = (256, 256, 256) if small else size
        a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype)
        c = empty(m, n, dtype=torch.float16 if dtype.itemsize == 1 else dtype)
        options = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
        options |= {"GROUP": group, "num_warps": warps, "num_stages": stages}
        grid = ((m // tile[0]) * (n // tile[1]),)
        return Launch(ordered_matmul_kernel, grid, (a, b, c, m, n, k), (c,), options)

    return prepare


@triton.jit
def windows_kernel(x_ptr, w_ptr, out_ptr, length, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """A causal filter along time of each channel: a program for a channel's block of one channel each."""
    time, channel = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    channels = tl.num_programs(1) * BLOCK
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in range(TAPS):
        x = tl.load(x_ptr + (time + tap) * channels + channel)  # fault
        acc += x.to(tl.float32) * tl.load(w_ptr + tap)
    tl.store(out_ptr + time * channels + channel, acc.to(tl.float16))


@triton.jit
def long_windows_kernel(
    x_ptr, w_ptr, out_ptr, length, TAPS: tl.constexpr, BLOCK: tl.constexpr, TIMES: tl.constexpr
):
    """As windows_kernel, but a program keeps TIMES sums, so each row serves them all."""
    first = tl.program_id(0) * TIMES
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    channels = tl.num_programs(1) * BLOCK
    times = tl.arange(0, TIMES)
    acc = tl.zeros((TIMES, BLOCK), dtype=tl.float32)
    for row in range(TAPS + TIMES - 1):
        x = tl.load(x_ptr + (first + row) * channels + channel)
        tap = row - times
        w = tl.load(w_ptr + tap, mask=(tap >= 0) & (tap < TAPS), other=0.0)
        acc += x.to(tl.float32)[None, :] * w[:, None]
    offs = (first + times)[:, None] * channels + channel[None, :]
    tl.store(out_ptr + offs, acc.to(tl.float16))


def _windows(times: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        length, channels, taps = (16, 1024, 8) if small else (4096, 4096, 32)
        x, w = random(length + taps, channels, dtype=torch.float16), random(taps)
        out = empty(length, channels, dtype=torch.float16)
        options = {"TAPS": taps, "BLOCK": 1024, "num_warps": 4}
        if times > 1:
            options |= {"TIMES": times, "num_warps": 8}
        kernel = long_windows_kernel if times > 1 else windows_kernel
        return Launch(kernel, (length // times, channels // 1024), (x, w, out, length), (out,), options)

    return prepare


@triton.jit
def counting_kernel(x_ptr, bins_ptr, BINS: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.atomic_add(bins_ptr + x, 1)  # fault


@triton.jit
def histogram_kernel(x_ptr, bins_ptr, steps, BINS: tl.constexpr, BLOCK: tl.constexpr):
    counts = tl.zeros((BINS,), dtype=tl.int32)
    for step in range(steps):
        offs = (tl.program_id(0) * steps + step) * BLOCK + tl.arange(0, BLOCK)
        counts += tl.histogram(tl.load(x_ptr + offs), BINS)
    tl.atomic_add(bins_ptr + tl.arange(0, BINS), counts)


def _histogram(aggregated: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, bins = (1 << 13, 16) if small else (1 << 22, 16)
        x, counts = integers(n, below=bins), zeros(bins, dtype=torch.int32)
        options = {"BINS": bins, "BLOCK": 1024}
        if aggregated:
            steps = 4
            return Launch(histogram_kernel, (n // 1024 // steps,), (x, counts, steps), (counts,), options)
        return Launch(counting_kernel, (n // 1024,), (x, counts), (counts,), options)

    return prepare


@triton.jit
def total_each_step_kernel(x_ptr, total_ptr, steps, BLOCK: tl.constexpr):
    for step in range(steps):
        offs = (tl.program_id(0) * steps + step) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs)
        tl.atomic_add(total_ptr, tl.sum(x * x, 0))  # fault


@triton.jit
def total_once_kernel(x_ptr, total_ptr, steps, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(steps):
        offs = (tl.program_id(0) * steps + step) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs)
        acc += x * x
    tl.atomic_add(total_ptr, tl.sum(acc, 0))


def _total(once: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps = (8, 4) if small else (1056, 64)
        x, total = random(programs * steps * 512), zeros(1)
        kernel = total_once_kernel if once else total_each_step_kernel
        return Launch(kernel, (programs,), (x, total, steps), (total,), {"BLOCK": 512})

    return prepare


@triton.jit
def hot_rows_kernel(grad_ptr, index_ptr, out_ptr, RUN: tl.constexpr, DIM: tl.constexpr):
    """Gradient of an embedding: each token's row is added to its word's."""
    dims = tl.arange(0, DIM)
    for i in range(RUN):
        token = tl.program_id(0) * RUN + i
        word = tl.load(index_ptr + token)
        grad = tl.load(grad_ptr + token * DIM + dims)
        tl.atomic_add(out_ptr + word * DIM + dims, grad)  # fault


@triton.jit
def summed_rows_kernel(grad_ptr, index_ptr, out_ptr, RUN: tl.constexpr, DIM: tl.constexpr):
    """As hot_rows_kernel of sorted tokens, whose runs are of one word: one atomic for a run."""
    dims = tl.arange(0, DIM)
    acc = tl.zeros((DIM,), dtype=tl.float32)
    for i in range(RUN):
        acc += tl.load(grad_ptr + (tl.program_id(0) * RUN + i) * DIM + dims)
    word = tl.load(index_ptr + tl.program_id(0) * RUN)
    tl.atomic_add(out_ptr + word * DIM + dims, acc)


def _hot_rows(summed: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        runs, run, words = (8, 8, 4) if small else (4096, 64, 8)
        grad = random(runs * run, 128)
        index = torch.repeat_interleave(integers(runs, below=words), run)
        out = zeros(words, 128)
        kernel = summed_rows_kernel if summed else hot_rows_kernel
        options = {"RUN": run, "DIM": 128, "num_warps": 1}
        return Launch(kernel, (runs,), (grad, index, out), (out,), options)

    return prepare


@triton.jit
def read_thrice_kernel(x_ptr, out_ptr, COLS: tl.constexpr):
    offs = tl.program_id(0) * COLS + tl.arange(0, COLS)
    peak = tl.max(tl.load(x_ptr + offs), 0)
    total = tl.sum(tl.exp(tl.load(x_ptr + offs) - peak), 0)  # fault
    tl.store(out_ptr + offs, tl.exp(tl.load(x_ptr + offs) - peak) / total)  # fault


@triton.jit
def read_once_kernel(x_ptr, out_ptr, COLS: tl.constexpr):
    offs = tl.program_id(0) * COLS + tl.arange(0, COLS)
    x = tl.load(x_ptr + offs)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + offs, e / tl.sum(e, 0))


def _read_softmax(once: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (2, 4096) if small else (1024, 32768)
        x, out = random(rows, cols), empty(rows, cols)
        kernel = read_once_kernel if once else read_thrice_kernel
        return Launch(kernel, (rows,), (x, out), (out,), {"COLS": cols, "num_warps": 32})

    return prepare


@triton.jit
def affine_rows_kernel(x_ptr, w_ptr, b_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    """Weights of long rows: each block of them is loaded for each row."""
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        for start in range(0, cols, BLOCK):
            column = start + tl.arange(0, BLOCK)
            w = tl.load(w_ptr + column)  # fault
            b = tl.load(b_ptr + column)  # fault
            x = tl.load(x_ptr + row * cols + column).to(tl.float32)
            tl.store(out_ptr + row * cols + column, (x * w + b).to(tl.float16))


@triton.jit
def affine_blocks_kernel(x_ptr, w_ptr, b_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    """As affine_rows_kernel: a program keeps the weights of its block of columns for all its rows."""
    blocks = cols // BLOCK
    column = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(w_ptr + column)
    b = tl.load(b_ptr + column)
    for row in range(tl.program_id(0) // blocks, rows, tl.num_programs(0) // blocks):
        x = tl.load(x_ptr + row * cols + column).to(tl.float32)
        tl.store(out_ptr + row * cols + column, (x * w + b).to(tl.float16))


def _affine(held: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (4, 4096) if small else (2112, 32768)
        x, w, b = random(rows, cols, dtype=torch.float16), random(cols), random(cols)
        out = empty(rows, cols, dtype=torch.float16)
        kernel = affine_blocks_kernel if held else affine_rows_kernel
        grid = (4 if small else 132 * 8,)
        options = {"BLOCK": 2048, "num_warps": 8}
        return Launch(kernel, grid, (x, w, b, out, rows, cols), (out,), options)

    return prepare


_TALL = (16384, 8192, 2048)

CASES = (
    Case(
        "matmul down the columns",
        ("tile-reread",),
        ("counters",),
        False,
        ordered_matmul(_TALL, (128, 128, 64), 128, 4, 3),
        ordered_matmul(_TALL, (128, 128, 64), 8, 4, 3),
    ),
    Case(
        "matmul of small tiles",
        ("tile-reread", "small-mma"),
        ("counts", "counters"),
        True,
        ordered_matmul((4096,) * 3, (32, 32, 64), 8, 4, 3),
        ordered_matmul((4096,) * 3, (128, 128, 64), 8, 4, 3),
    ),
    Case(
        "filter by single rows",
        ("tile-reread", "redundant-load"),
        ("counts", "counters"),
        True,
        _windows(1),
        _windows(16),
    ),
    Case(
        "bins in global memory",
        ("atomics",),
        ("counts", "samples"),
        True,
        _histogram(False),
        _histogram(True),
    ),
    Case(
        "total each step",
        ("atomics", "serial-reduction"),
        ("counts", "samples"),
        True,
        _total(False),
        _total(True),
    ),
    Case(
        "gradient of hot words", ("atomics",), ("counts", "samples"), True, _hot_rows(False), _hot_rows(True)
    ),
    Case(
        "row read three times",
        ("redundant-load",),
        ("counts",),
        True,
        _read_softmax(False),
        _read_softmax(True),
    ),
    Case("weights in the row loop", ("redundant-load",), ("counts",), True, _affine(False), _affine(True)),
)
