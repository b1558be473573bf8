"""Sixth round, faults of matrix products."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, faults_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def triangle_inverse_kernel(x_ptr, out_ptr, PRECISION: tl.constexpr, SIDE: tl.constexpr):
    """Inverses of unit triangles, as the product of 1 + p, 1 + p^2, 1 + p^4 and so on."""
    rows, columns = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    at = tl.program_id(0) * SIDE * SIDE + rows * SIDE + columns
    power = tl.where(rows > columns, -tl.load(x_ptr + at), 0.0)
    inverse = power + tl.where(rows == columns, 1.0, 0.0)
    for _ in range(5):
        power = tl.dot(power, power, input_precision=PRECISION)  # fault
        inverse += tl.dot(inverse, power, input_precision=PRECISION)  # fault
    tl.store(out_ptr + at, inverse)


def _triangle_inverse(precision: str) -> Prepare:
    def prepare(small: bool) -> Launch:
        count = 2 if small else 4224
        x, out = random(count, 64, 64) * 0.05, empty(count, 64, 64)
        options = {"PRECISION": precision, "SIDE": 64, "num_warps": 4}
        return Launch(triangle_inverse_kernel, (count,), (x, out), (out,), options)

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


@triton.jit
def long_sums_kernel(
    x_ptr, y_ptr, out_ptr, N, K, DOUBLE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Products of features over many samples; DOUBLE: sums of parts of the samples in double precision."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    y = y_ptr + offs_n[None, :] * K + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float64 if DOUBLE else tl.float32)
    for _ in range(0, K, BLOCK_K):
        if DOUBLE:
            acc += tl.dot(tl.load(x), tl.load(y)).to(tl.float64)  # fault
        else:
            acc = tl.dot(tl.load(x), tl.load(y), acc)
        x += BLOCK_K
        y += BLOCK_K
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float32))


def _long_sums(double: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 128, 128) if small else (1408, 1536, 16384)
        x, y = random(m, k, dtype=torch.float16), random(n, k, dtype=torch.float16)
        out = empty(m, n)
        options = {"DOUBLE": double, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32}
        options |= {"num_warps": 8, "num_stages": 4}
        return Launch(long_sums_kernel, (n // 128, m // 128), (x, y, out, n, k), (out,), options)

    return prepare


@triton.jit
def enlarged_maps_kernel(
    x_ptr, w_ptr, out_ptr, SPREAD: tl.constexpr, SIDE: tl.constexpr, CHANNELS: tl.constexpr,
    FILTERS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A transposed convolution of 4 x 4 and stride 2, of maps with a border of zeros.

    SPREAD: pixels of the result in their order, and all 16 taps; otherwise one parity of rows and columns
    after the other, and the 4 taps that meet a pixel of the map.
    """
    pixel = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    filters, offs_k = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    image, inside = pixel // (4 * SIDE * SIDE), pixel % (4 * SIDE * SIDE)
    if SPREAD:
        row, column = inside // (2 * SIDE), inside % (2 * SIDE)
        taps: tl.constexpr = 16
    else:
        parity = tl.program_id(1) * BLOCK_M % (4 * SIDE * SIDE) // (SIDE * SIDE)
        inside = inside % (SIDE * SIDE)
        row, column = inside // SIDE * 2 + parity // 2, inside % SIDE * 2 + parity % 2
        taps: tl.constexpr = 4
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(taps * (CHANNELS // BLOCK_K)):  # fault
        tap, channel = step // (CHANNELS // BLOCK_K), step % (CHANNELS // BLOCK_K) * BLOCK_K + offs_k
        if SPREAD:
            tap_y, tap_x = tap // 4, tap % 4
        else:
            tap_y, tap_x = tap // 2 * 2 + 1 - parity // 2, tap % 2 * 2 + 1 - parity % 2
        y, x = row + 3 - tap_y, column + 3 - tap_x
        at = (image * (SIDE + 2) + y // 2) * (SIDE + 2) + x // 2
        if SPREAD:
            met = (y % 2 == 0) & (x % 2 == 0)
            tile = tl.load(x_ptr + at[:, None] * CHANNELS + channel[None, :], met[:, None], 0.0)  # fault
        else:
            tile = tl.load(x_ptr + at[:, None] * CHANNELS + channel[None, :])
        depth = (tap_y * 4 + tap_x) * CHANNELS + channel
        acc = tl.dot(tile, tl.load(w_ptr + depth[:, None] * FILTERS + filters[None, :]), acc)  # fault
    at = (image * 2 * SIDE + row) * 2 * SIDE + column
    tl.store(out_ptr + at[:, None] * FILTERS + filters[None, :], acc.to(tl.float16))


def _enlarged_maps(spread: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, side, channels, filters = (1, 16, 64, 128) if small else (33, 32, 256, 128)
        x = random(images, side + 2, side + 2, channels, dtype=torch.float16)
        x[:, 0], x[:, -1], x[:, :, 0], x[:, :, -1] = 0, 0, 0, 0
        w = random(16 * channels, filters, dtype=torch.float16) * 0.05
        out = empty(images, 2 * side, 2 * side, filters, dtype=torch.float16)
        options = {"SPREAD": spread, "SIDE": side, "CHANNELS": channels, "FILTERS": filters}
        options |= {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
        grid = (filters // 128, images * 4 * side * side // 128)
        return Launch(enlarged_maps_kernel, grid, (x, w, out), (out,), options)

    return prepare


@triton.jit
def graph_steps_kernel(
    link_ptr, x_ptr, out_ptr, steps, COLUMNS: tl.constexpr, NODES: tl.constexpr, BLOCK: tl.constexpr
):
    """Signals spread along the links of a small graph; COLUMNS: a tile has a signal in each column."""
    nodes, signal = tl.arange(0, NODES), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    link = tl.load(link_ptr + nodes[:, None] * NODES + nodes[None, :])
    at = signal[None, :] * NODES + nodes[:, None] if COLUMNS else signal[:, None] * NODES + nodes[None, :]
    x = tl.load(x_ptr + at)
    for _ in range(steps):
        y = tl.dot(link, x) if COLUMNS else tl.dot(x, link)  # fault
        x = tl.minimum(tl.maximum(y, -8.0), 8.0).to(tl.float16)  # fault
    tl.store(out_ptr + at, x)


def _graph_steps(columns: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        signals, steps = (128, 4) if small else (132 * 64, 256)
        link = torch.rand(64, 64)
        link = ((link + link.t()) / 65.0).to(torch.float16)
        x = random(signals, 64, dtype=torch.float16)
        out = torch.empty_like(x)
        options = {"COLUMNS": columns, "NODES": 64, "BLOCK": 64, "num_warps": 4}
        return Launch(graph_steps_kernel, (signals // 64,), (link, x, out, steps), (out,), options)

    return prepare


@triton.jit
def spectral_norm_kernel(x_ptr, start_ptr, out_ptr, peak_ptr, steps, EACH: tl.constexpr, SIDE: tl.constexpr):
    """Largest eigenvalues of symmetric matrices and their vectors; EACH: which are scaled each step."""
    rows, columns = tl.arange(0, SIDE), tl.arange(0, SIDE)
    x = tl.load(x_ptr + tl.program_id(0) * SIDE * SIDE + rows[:, None] * SIDE + columns[None, :])
    v = tl.load(start_ptr + columns)[None, :]
    for _ in range(steps):
        y = tl.sum(x * v, 1)
        if EACH:
            y *= tl.rsqrt(tl.sum(y * y, 0))  # fault
        v = tl.trans(y[:, None])
    v *= tl.rsqrt(tl.sum(v * v, 1))[:, None]
    y = tl.sum(x * v, 1)
    tl.store(out_ptr + tl.program_id(0) * SIDE + rows, y)
    tl.store(peak_ptr + tl.program_id(0), tl.sqrt(tl.sum(y * y, 0)))


def _spectral_norm(each: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        count, steps = (2, 8) if small else (264, 192)
        x, start = random(count, 64, 64), torch.rand(64)
        x = (torch.matmul(x, x.transpose(1, 2)) / 240.0).contiguous()
        out, peak = empty(count, 64), empty(count)
        options = {"EACH": each, "SIDE": 64, "num_warps": 8}
        args = (x, start, out, peak, steps)
        return Launch(spectral_norm_kernel, (count,), args, (out, peak), options)

    return prepare


@triton.jit
def described_pairs_kernel(
    x_ptr, out_ptr, rows, SIDE: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Products of all pairs of vectors of a set; a partition of warps loads what another one multiplies."""
    x_tiles = tl.make_tensor_descriptor(x_ptr, [rows, K], [K, 1], [BLOCK, BLOCK_K])
    out_tiles = tl.make_tensor_descriptor(out_ptr, [rows, SIDE], [SIDE, 1], [BLOCK, BLOCK])
    first = tl.program_id(2) * SIDE
    off_m, off_n = first + tl.program_id(1) * BLOCK, first + tl.program_id(0) * BLOCK
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in tl.range(0, K // BLOCK_K, warp_specialize=True):
        x = x_tiles.load([off_m, k * BLOCK_K])  # fault
        y = x_tiles.load([off_n, k * BLOCK_K])  # fault
        acc = tl.dot(x, y.T, acc)  # fault
    out_tiles.store([off_m, tl.program_id(0) * BLOCK], acc.to(tl.float16))


def _described_pairs(block_k: int, stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        sets, side, k = (1, 256, 128) if small else (33, 1024, 1024)
        x = random(sets * side, k, dtype=torch.float16)
        out = empty(sets * side, side, dtype=torch.float16)
        options = {"SIDE": side, "K": k, "BLOCK": 128, "BLOCK_K": block_k}
        options |= {"num_warps": 4, "num_stages": stages}
        grid = (side // 128, side // 128, sets)
        return Launch(described_pairs_kernel, grid, (x, out, sets * side), (out,), options)

    return prepare


@triton.jit
def volume_filters_kernel(
    x_ptr, w_ptr, offset_ptr, out_ptr, depth, ROW: tl.constexpr, PADDED: tl.constexpr, CHANNELS: tl.constexpr,
    FILTERS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A convolution of rows of maps, whose taps begin at listed offsets."""
    pixel = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    filters, offs_k = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    at = (pixel // ROW * PADDED + pixel % ROW) * CHANNELS
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)  # fault
    for k in range(0, depth, BLOCK_K):  # fault
        offset = tl.load(offset_ptr + k // CHANNELS) + k % CHANNELS
        x = tl.load(x_ptr + at[:, None] + (offset + offs_k)[None, :])  # fault
        w = tl.load(w_ptr + (k + offs_k)[:, None] * FILTERS + filters[None, :])  # fault
        acc = tl.dot(x, w, acc)  # fault
    tl.store(out_ptr + pixel[:, None] * FILTERS + filters[None, :], acc.to(tl.float16))  # fault


def _volume_filters(registers: int | None) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, channels, filters = (4, 64, 128) if small else (33 * 64, 128, 256)
        x = random(rows + 2, 66, channels, dtype=torch.float16)
        w = random(9 * channels, filters, dtype=torch.float16) * 0.05
        out = empty(rows, 64, filters, dtype=torch.float16)
        taps = torch.arange(9, dtype=torch.int32)
        offset = (taps // 3 * 66 + taps % 3) * channels
        options = {"ROW": 64, "PADDED": 66, "CHANNELS": channels, "FILTERS": filters, "BLOCK_M": 128}
        options |= {"BLOCK_N": 128, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}
        options |= {"maxnreg": registers} if registers else {}
        grid = (filters // 128, rows * 64 // 128)
        return Launch(volume_filters_kernel, grid, (x, w, offset, out, 9 * channels), (out,), options)

    return prepare


@triton.jit
def triangle_product_kernel(
    x_ptr, y_ptr, out_ptr, N, K, tiles, MIRROR: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A lower triangle times a matrix; a program has two rows of tiles, next to each other or mirrored."""
    offs_n, offs_k = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    for which in range(2):
        if MIRROR:
            tile = tl.program_id(1) if which == 0 else tiles - 1 - tl.program_id(1)
        else:
            tile = tl.program_id(1) * 2 + which  # fault
        offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
        x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
        y = y_ptr + offs_k[:, None] * N + offs_n[None, :]
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for _ in range(0, (tile + 1) * BLOCK_M, BLOCK_K):  # fault
            acc = tl.dot(tl.load(x), tl.load(y), acc)
            x += BLOCK_K
            y += BLOCK_K * N
        tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _triangle_product(mirror: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        side, n = (512, 256) if small else (8192, 1024)
        x, y = random(side, side, dtype=torch.float16).tril(), random(side, n, dtype=torch.float16)
        out = empty(side, n, dtype=torch.float16)
        options = {"MIRROR": mirror, "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        args = (x, y, out, n, side, side // 128)
        return Launch(triangle_product_kernel, (n // 256, side // 256), args, (out,), options)

    return prepare


_case = faults_of(6)


CASES = (
    _case(
        "inverses of triangles in exact products",
        ("no-tensor-cores",),
        ("counts",),
        True,
        _triangle_inverse("ieee"),
        _triangle_inverse("tf32"),
    ),
    _case(
        "the same tile of all pairs",
        ("tile-reread",),
        ("counters",),
        False,
        _batched_blocks(True),
        _batched_blocks(False),
    ),
    _case(
        "parts of sums in float64",
        ("fp64-arithmetic",),
        ("counts", "counters"),
        True,
        _long_sums(True),
        _long_sums(False),
    ),
    _case(
        "zeros between pixels",
        ("masked-work",),
        ("counts", "counters"),
        False,
        _enlarged_maps(True),
        _enlarged_maps(False),
    ),
    _case(
        "signals as columns of a chain",
        ("layout-conversion",),
        ("counts", "samples"),
        False,
        _graph_steps(True),
        _graph_steps(False),
    ),
    _case(
        "eigenvectors scaled each step",
        ("serial-reduction",),
        ("counts", "samples"),
        True,
        _spectral_norm(True),
        _spectral_norm(False),
    ),
    Case(
        "pairs through thin buffers",
        ("partition-starved", "few-stages"),
        ("spans", "samples"),
        False,
        _described_pairs(32, 2),
        _described_pairs(64, 4),
        least=90,
        round=6,
    ),
    _case(
        "filters in 128 registers",
        ("register-spills",),
        ("counts", "resources"),
        True,
        _volume_filters(128),
        _volume_filters(None),
    ),
    _case(
        "neighbours in a triangle",
        ("load-imbalance", "tail"),
        ("ctas", "counters"),
        False,
        _triangle_product(False),
        _triangle_product(True),
    ),
)
