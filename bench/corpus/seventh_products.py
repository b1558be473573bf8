"""Seventh round, faults in products of matrices and in layers made of them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def interaction_kernel(
    x_ptr, out_ptr, FEATURES: tl.constexpr, D: tl.constexpr, PART: tl.constexpr, DOT: tl.constexpr
):
    """Products of each two feature vectors of a sample, as a click model joins its features."""
    row, column = tl.arange(0, FEATURES), tl.arange(0, FEATURES)
    x = x_ptr + tl.program_id(0).to(tl.int64) * FEATURES * D
    if DOT:
        tile = tl.load(x + row[:, None] * D + tl.arange(0, D)[None, :])
        total = tl.dot(tile, tl.trans(tile))
    else:
        total = tl.zeros((FEATURES, FEATURES), dtype=tl.float32)
        for start in range(0, D, PART):
            part = (start + tl.arange(0, PART))[None, None, :]
            left = tl.load(x + row[:, None, None] * D + part).to(tl.float32)
            right = tl.load(x + column[None, :, None] * D + part).to(tl.float32)
            total += tl.sum(left * right, 2)  # fault
    out = out_ptr + tl.program_id(0) * FEATURES * FEATURES
    tl.store(out + row[:, None] * FEATURES + column[None, :], total.to(tl.float16))


def _interaction(dot: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        samples = 4 if small else 32768
        x = random(samples, 32, 128, dtype=torch.float16)
        out = empty(samples, 32, 32, dtype=torch.float16)
        options = {"FEATURES": 32, "D": 128, "PART": 16, "DOT": dot, "num_warps": 4}
        return Launch(interaction_kernel, (samples,), (x, out), (out,), options)

    return prepare


@triton.jit
def query_key_value_kernel(
    x_ptr, q_weight_ptr, k_weight_ptr, v_weight_ptr, q_ptr, k_ptr, v_ptr, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Queries, keys and values of tokens, with the tokens loaded once for all three."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    weight = offs_k[:, None] * N + offs_n[None, :]
    q = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    k = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    v = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        tokens = tl.load(x)
        q = tl.dot(tokens, tl.load(q_weight_ptr + weight), q)  # fault
        k = tl.dot(tokens, tl.load(k_weight_ptr + weight), k)  # fault
        v = tl.dot(tokens, tl.load(v_weight_ptr + weight), v)  # fault
        x += BLOCK_K
        weight += BLOCK_K * N
    out = offs_m[:, None] * N + offs_n[None, :]
    tl.store(q_ptr + out, q.to(tl.bfloat16))
    tl.store(k_ptr + out, k.to(tl.bfloat16))
    tl.store(v_ptr + out, v.to(tl.bfloat16))


def _query_key_value(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 128, 128) if small else (8448, 2048, 2048)
        x = random(m, k, dtype=torch.bfloat16)
        weights = [random(k, n, dtype=torch.bfloat16) * 0.02 for _ in range(3)]
        outs = [empty(m, n, dtype=torch.bfloat16) for _ in range(3)]
        options = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": warps, "num_stages": 3}
        args = (x, *weights, *outs, n, k)
        return Launch(query_key_value_kernel, (m // 128, n // 128), args, tuple(outs), options)

    return prepare


@triton.jit
def split_product_kernel(
    a_ptr, a_low_ptr, b_ptr, b_low_ptr, out_ptr, N, K, SPLIT: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A float32 product as three of bfloat16: of high and low halves. SPLIT: the matrices are split."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_at, b_at = offs_m[:, None] * K + offs_k[None, :], offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        a, b = tl.load(a_ptr + a_at), tl.load(b_ptr + b_at)
        if SPLIT:
            a_high, a_low = a, tl.load(a_low_ptr + a_at)
            b_high, b_low = b, tl.load(b_low_ptr + b_at)
        else:
            a_high, b_high = a.to(tl.bfloat16), b.to(tl.bfloat16)  # fault
            a_low = (a - a_high.to(tl.float32)).to(tl.bfloat16)  # fault
            b_low = (b - b_high.to(tl.float32)).to(tl.bfloat16)  # fault
        acc = tl.dot(a_low, b_high, acc)
        acc = tl.dot(a_high, b_low, acc)
        acc = tl.dot(a_high, b_high, acc)
        a_at += BLOCK_K
        b_at += BLOCK_K * N
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


def _halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    high = x.to(torch.bfloat16)
    return high, (x - high.float()).to(torch.bfloat16)


def _split_product(split: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 256, 128) if small else (4224, 4096, 2048)
        a, b, out = random(m, k), random(k, n), empty(m, n)
        pairs = _halves(a) + _halves(b) if split else (a, a, b, b)
        options = {"SPLIT": split, "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 32}
        options |= {"num_warps": 8, "num_stages": 3}
        grid = (m // 128, n // 256)
        return Launch(split_product_kernel, grid, (*pairs, out, n, k), (out,), options)

    return prepare


@triton.jit
def packed_layer_kernel(
    x_ptr, packed_ptr, scale_ptr, out_ptr, N, K, ONCE: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Tokens times weights of four bits, of which a word has those of eight rows; ONCE: it is loaded once."""
    offs_m, offs_k = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    packed = packed_ptr + (offs_k // 8)[:, None] * N + offs_n[None, :]
    words = packed_ptr + tl.arange(0, BLOCK_K // 8)[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        if ONCE:
            code = tl.load(words)[:, None, :] >> (4 * tl.arange(0, 8))[None, :, None]
            code = tl.reshape(code, (BLOCK_K, BLOCK_N))
        else:
            code = tl.load(packed) >> (offs_k % 8 * 4)[:, None]  # fault
        weight = ((code & 15) - 8).to(tl.float16)
        acc = tl.dot(tl.load(x), weight, acc)
        x += BLOCK_K
        packed += BLOCK_K // 8 * N
        words += BLOCK_K // 8 * N
    acc *= tl.load(scale_ptr + offs_n)[None, :]
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _packed_layer(once: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (64, 128, 256) if small else (64, 67584, 4096)
        x, scale = random(m, k, dtype=torch.float16), torch.rand(n) * 0.01
        packed, out = integers(k // 8, n, below=1 << 31), empty(m, n, dtype=torch.float16)
        options = {"ONCE": once, "BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64}
        options |= {"num_warps": 4, "num_stages": 3}
        args = (x, packed, scale, out, n, k)
        return Launch(packed_layer_kernel, (n // 128, m // 64), args, (out,), options)

    return prepare


@triton.jit
def convolution_kernel(
    x_ptr, weight_ptr, out_ptr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr,
    CHANNELS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """A layer of 3 by 3 filters over images whose border of zeros is stored with them."""
    at = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    image, row, column = at // (HEIGHT * WIDTH), at // WIDTH % HEIGHT, at % WIDTH
    pixel = (image * (HEIGHT + 2) + row) * (WIDTH + 2) + column
    channel, offs_n = tl.arange(0, CHANNELS), tl.arange(0, BLOCK_N)
    x = x_ptr + pixel[:, None] * CHANNELS + channel[None, :]
    weight = weight_ptr + channel[:, None] * BLOCK_N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    if UNROLL:
        for tap in tl.static_range(9):  # fault
            moved = tl.load(x + (tap // 3 * (WIDTH + 2) + tap % 3) * CHANNELS)  # fault
            acc = tl.dot(moved, tl.load(weight + tap * CHANNELS * BLOCK_N), acc)  # fault
    else:
        for tap in range(9):
            moved = tl.load(x + (tap // 3 * (WIDTH + 2) + tap % 3) * CHANNELS)
            acc = tl.dot(moved, tl.load(weight + tap * CHANNELS * BLOCK_N), acc)
    tl.store(out_ptr + at[:, None] * BLOCK_N + offs_n[None, :], acc.to(tl.float16))


def _convolution(unroll: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, size = (2, 8) if small else (66, 64)
        x = zeros(images, size + 2, size + 2, 128, dtype=torch.float16)
        x[:, 1:-1, 1:-1] = random(images, size, size, 128, dtype=torch.float16)
        weight = random(3, 3, 128, 128, dtype=torch.float16) * 0.05
        out = empty(images, size, size, 128, dtype=torch.float16)
        options = {"HEIGHT": size, "WIDTH": size, "UNROLL": unroll, "CHANNELS": 128}
        options |= {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8, "num_stages": 3}
        grid = (images * size * size // 128,)
        return Launch(convolution_kernel, grid, (x, weight, out), (out,), options)

    return prepare


@triton.jit
def hessian_kernel(
    x_ptr, out_ptr, N, steps, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Adds the products of all pairs of channels over the tokens of a calibration batch."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    token = tl.program_id(2) * steps * BLOCK_K + tl.arange(0, BLOCK_K)
    left = x_ptr + token[:, None] * N + offs_m[None, :]
    right = x_ptr + token[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(steps):
        acc = tl.dot(tl.trans(tl.load(left)), tl.load(right), acc)
        left += BLOCK_K * N
        right += BLOCK_K * N
    tl.atomic_add(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc, sem="relaxed")


def _hessian(parts: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, n = (512, 128) if small else (65536, 1024)
        x, out = random(tokens, n, dtype=torch.float16), zeros(n, n)
        options = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
        args = (x, out, n, tokens // 64 // parts)
        return Launch(hessian_kernel, (n // 128, n // 128, parts), args, (out,), options)

    return prepare


@triton.jit
def nearest_centre_kernel(
    point_ptr, centre_ptr, square_ptr, out_ptr, centres, D: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The nearest of all centres to each point: a step of k-means."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    lanes, dims = tl.arange(0, BLOCK_N), tl.arange(0, D)
    points = tl.load(point_ptr + offs_m[:, None] * D + dims[None, :])
    nearest = tl.full((BLOCK_M, BLOCK_N), 1e30, dtype=tl.float32)
    which = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for start in range(0, centres, BLOCK_N):
        offs_n = start + lanes
        block = tl.load(centre_ptr + offs_n[None, :] * D + dims[:, None])
        distance = tl.load(square_ptr + offs_n)[None, :] - 2.0 * tl.dot(points, block)
        which = tl.where(distance < nearest, start, which)
        nearest = tl.minimum(distance, nearest)
    best = tl.min(nearest, 1)
    which = tl.where(nearest == best[:, None], which + lanes[None, :], centres)
    tl.store(out_ptr + offs_m, tl.min(which, 1))


def _nearest_centre(block_m: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, centres = (128, 256) if small else (132 * 8192, 1024)
        point, centre = random(n, 128, dtype=torch.float16), random(centres, 128, dtype=torch.float16)
        square, out = centre.float().square().sum(1), empty(n, dtype=torch.int32)
        options = {"D": 128, "BLOCK_M": block_m, "BLOCK_N": 64, "num_warps": warps, "num_stages": 3}
        args = (point, centre, square, out, centres)
        return Launch(nearest_centre_kernel, (n // block_m,), args, (out,), options)

    return prepare


@triton.jit
def jagged_product_kernel(
    x_ptr, dense_ptr, first_ptr, out_ptr, N, K, TILES: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Each user's events times the user's own matrix; TILES: a program has one block of events."""
    user, lanes, offs_k = tl.program_id(1), tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    offs_n = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N)
    begin, end = tl.load(first_ptr + user), tl.load(first_ptr + user + 1)
    if TILES:
        begin += tl.program_id(0) * BLOCK_M
        end = tl.minimum(end, begin + BLOCK_M)
    for start in range(begin, end, BLOCK_M):  # fault
        event = start + lanes
        x = x_ptr + event[:, None] * K + offs_k[None, :]
        dense = dense_ptr + user * K * N + offs_k[:, None] * N + offs_n[None, :]
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for _ in range(0, K, BLOCK_K):
            acc = tl.dot(tl.load(x, mask=(event < end)[:, None], other=0.0), tl.load(dense), acc)
            x += BLOCK_K
            dense += BLOCK_K * N
        out = out_ptr + event[:, None] * N + offs_n[None, :]
        tl.store(out, acc.to(tl.bfloat16), mask=(event < end)[:, None])


def _jagged_product(tiles: bool) -> Prepare:
    """Each 32nd user has many events."""

    def prepare(small: bool) -> Launch:
        users, most, n, k = (4, 512, 128, 128) if small else (264, 8192, 256, 256)
        counts = 1 + torch.randint(most // 16, (users,))
        counts[::32] = most
        first = torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0))).int()
        events = int(first[-1])
        x, dense = random(events, k, dtype=torch.bfloat16), random(users, k, n, dtype=torch.bfloat16) * 0.1
        out = empty(events, n, dtype=torch.bfloat16)
        options = {"TILES": tiles, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        grid = (most // 128 if tiles else 1, users, n // 128)
        return Launch(jagged_product_kernel, grid, (x, dense, first, out, n, k), (out,), options)

    return prepare


@triton.jit
def vocabulary_kernel(
    x_ptr, weight_ptr, out_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Logits of all words for the last tokens of a batch."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    weight = weight_ptr + offs_n[None, :] * K + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(weight), acc)  # fault
        x += BLOCK_K
        weight += BLOCK_K
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.bfloat16))


def _vocabulary(block_m: int, warps: int) -> Prepare:
    """There are many more tiles of words than a GPU runs at once."""

    def prepare(small: bool) -> Launch:
        m, n, k = (256, 128, 128) if small else (256, 1 << 17, 2048)
        x, weight = random(m, k, dtype=torch.bfloat16), random(n, k, dtype=torch.bfloat16) * 0.02
        out = empty(m, n, dtype=torch.bfloat16)
        options = {"BLOCK_M": block_m, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": warps, "num_stages": 3}
        args = (x, weight, out, n, k)
        return Launch(vocabulary_kernel, (n // 128, m // block_m), args, (out,), options)

    return prepare


_case = faults_of(7)


CASES = (
    _case(
        "features of clicks paired by sums",
        ("no-tensor-cores",),
        ("counts",),
        True,
        _interaction(False),
        _interaction(True),
    ),
    _case(
        "queries, keys and values by 4 warps",
        ("register-spills",),
        ("resources", "counts"),
        True,
        _query_key_value(4),
        _query_key_value(8),
    ),
    _case(
        "float32 split into halves each step",
        ("mma-not-overlapped", "conversions"),
        ("counts", "samples"),
        True,
        _split_product(False),
        _split_product(True),
    ),
    _case(
        "packed words loaded for each of their rows",
        ("redundant-load",),
        ("counts",),
        True,
        _packed_layer(False),
        _packed_layer(True),
    ),
    _case(
        "taps of a convolution unrolled",
        ("few-stages", "exposed-latency"),
        ("spans", "samples", "resources"),
        False,
        _convolution(True),
        _convolution(False),
    ),
    _case(
        "Hessian of channels by 64 programs",
        ("idle-sms",),
        ("ctas", "spans"),
        True,
        _hessian(1),
        _hessian(4),
    ),
    _case(
        "32 points to each block of centres",
        ("small-mma", "tile-reread"),
        ("counts", "counters"),
        True,
        _nearest_centre(32, 4),
        _nearest_centre(128, 8),
    ),
    _case(
        "all events of a user in one program",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        True,
        _jagged_product(False),
        _jagged_product(True),
    ),
    _case(
        "words' weights for each 64 tokens",
        ("tile-reread",),
        ("counters", "counts"),
        False,
        _vocabulary(64, 4),
        _vocabulary(256, 8),
    ),
)
