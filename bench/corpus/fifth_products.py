"""Fifth round, faults of matrix products."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, faults_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def tall_layer_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A layer of many tokens; GROUP: rows of tiles whose tiles follow each other, column by column."""
    across = tl.cdiv(N, BLOCK_N)
    first = tl.program_id(0) // (GROUP * across) * GROUP
    rows = tl.minimum(tl.cdiv(M, BLOCK_M) - first, GROUP)
    inside = tl.program_id(0) % (GROUP * across)
    offs_m = (first + inside % rows) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = inside // rows * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w = w_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(w), acc)  # fault
        x += BLOCK_K
        w += BLOCK_K * N
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _tall_layer(group: int) -> Prepare:
    """One group of all rows reads all tokens for each column of tiles; they do not fit into the L2 cache."""

    def prepare(small: bool) -> Launch:
        m, n, k = (512, 256, 64) if small else (32768, 2048, 4096)
        x, w = random(m, k, dtype=torch.float16), random(k, n, dtype=torch.float16)
        out = empty(m, n, dtype=torch.float16)
        options = {"GROUP": min(group, m // 128), "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        grid = (m // 128 * (n // 128),)
        return Launch(tall_layer_kernel, grid, (x, w, out, m, n, k), (out,), options)

    return prepare


@triton.jit
def plain_layer_kernel(
    x_ptr, w_ptr, out_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """A layer."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w = w_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(w), acc)
        x += BLOCK_K
        w += BLOCK_K * N
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.bfloat16))


def _plain_layer(block_n: int, warps: int) -> Prepare:
    """14 x 10 tiles of 128 x 256 are 8 more than the SMs, each of which holds one."""

    def prepare(small: bool) -> Launch:
        m, n, k = (128, 256, 128) if small else (1792, 2560, 4096)
        x, w = random(m, k, dtype=torch.bfloat16), random(k, n, dtype=torch.bfloat16)
        out = empty(m, n, dtype=torch.bfloat16)
        options = {"BLOCK_M": 128, "BLOCK_N": block_n, "BLOCK_K": 64, "num_warps": warps, "num_stages": 3}
        grid = (n // block_n, m // 128)
        return Launch(plain_layer_kernel, grid, (x, w, out, n, k), (out,), options)

    return prepare


@triton.jit
def masked_experts_kernel(
    x_ptr, expert_ptr, w_ptr, out_ptr, experts, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Each token times the weights of its expert: times those of all experts, with zeros for other tokens."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    mine = tl.load(expert_ptr + offs_m)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(experts * (K // BLOCK_K)):  # fault
        expert, k = step // (K // BLOCK_K), step % (K // BLOCK_K) * BLOCK_K
        x = tl.load(x_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        w = tl.load(w_ptr + (expert * K + k + offs_k)[:, None] * N + offs_n[None, :])
        acc = tl.dot(tl.where((mine == expert)[:, None], x, 0.0), w, acc)  # fault
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


@triton.jit
def sorted_experts_kernel(
    x_ptr, order_ptr, w_ptr, out_ptr, each, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """As masked_experts_kernel; tokens come in the order of their experts, each of which has as many."""
    token = tl.load(order_ptr + tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M))
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + token[:, None] * K + offs_k[None, :]
    w = w_ptr + (tl.program_id(1) * BLOCK_M // each * K + offs_k)[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(w), acc)
        x += BLOCK_K
        w += BLOCK_K * N
    tl.store(out_ptr + token[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _experts(sort: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, experts, n, k = (256, 2, 128, 128) if small else (8192, 8, 2048, 1024)
        x, w = random(tokens, k, dtype=torch.float16), random(experts, k, n, dtype=torch.float16)
        expert = torch.randperm(tokens) % experts
        order, out = torch.argsort(expert).int(), empty(tokens, n, dtype=torch.float16)
        options = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
        grid = (n // 128, tokens // 128)
        if sort:
            args = (x, order, w, out, tokens // experts, n, k)
            return Launch(sorted_experts_kernel, grid, args, (out,), options)
        args = (x, expert.int(), w, out, experts, n, k)
        return Launch(masked_experts_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def gated_cell_kernel(
    x_ptr, w_ptr, cell_ptr, out_ptr, HIDDEN, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A step of an LSTM: the products of all four gates, and the new cell and output from them."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w = w_ptr + offs_k[:, None] * (4 * HIDDEN) + offs_n[None, :]
    enter = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)  # fault
    forget = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)  # fault
    new = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)  # fault
    leave = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)  # fault
    for _ in range(0, K, BLOCK_K):  # fault
        tile = tl.load(x)  # fault
        enter = tl.dot(tile, tl.load(w), enter)  # fault
        forget = tl.dot(tile, tl.load(w + HIDDEN), forget)  # fault
        new = tl.dot(tile, tl.load(w + 2 * HIDDEN), new)  # fault
        leave = tl.dot(tile, tl.load(w + 3 * HIDDEN), leave)  # fault
        x += BLOCK_K
        w += BLOCK_K * 4 * HIDDEN
    at = offs_m[:, None] * HIDDEN + offs_n[None, :]
    cell = tl.sigmoid(forget) * tl.load(cell_ptr + at)  # fault
    cell += tl.sigmoid(enter) * (2.0 * tl.sigmoid(2.0 * new) - 1.0)  # fault
    out = tl.sigmoid(leave) * (2.0 * tl.sigmoid(2.0 * cell) - 1.0)  # fault
    tl.store(out_ptr + at, out.to(tl.float16))


def _gated_cell(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        batch, hidden, k = (64, 128, 64) if small else (4224, 1024, 2048)
        x, w = random(batch, k, dtype=torch.float16), random(k, 4 * hidden, dtype=torch.float16) * 0.05
        cell, out = random(batch, hidden), empty(batch, hidden, dtype=torch.float16)
        options = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 32, "num_warps": warps, "num_stages": 3}
        grid = (hidden // 128, batch // 64)
        return Launch(gated_cell_kernel, grid, (x, w, cell, out, hidden, k), (out,), options)

    return prepare


@triton.jit
def four_bit_layer_kernel(
    x_ptr, w_ptr, scale_ptr, out_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HALF: tl.constexpr,
):  # fmt: skip
    """A layer with weights of four bits; a byte has one of the first and one of the second half of a step."""
    offs_m = tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, HALF)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, 2 * HALF):
        x = x_ptr + offs_m[:, None] * K + (k + offs_k)[None, :]
        low, high = tl.load(x), tl.load(x + HALF)  # fault
        code = tl.load(w_ptr + (k // 2 + offs_k)[:, None] * N + offs_n[None, :])  # fault
        one, two = (code & 15).to(tl.int16) | 0x6400, (code >> 4).to(tl.int16) | 0x6400
        acc = tl.dot(low, one.to(tl.float16, bitcast=True) - 1032.0, acc)  # fault
        acc = tl.dot(high, two.to(tl.float16, bitcast=True) - 1032.0, acc)  # fault
    acc *= tl.load(scale_ptr + offs_n)[None, :]
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _four_bit_layer(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, k = (128, 256) if small else (16896, 16384)
        x, scale = random(64, k, dtype=torch.float16), torch.rand(n) * 0.01
        w = torch.randint(256, (k // 2, n), dtype=torch.uint8)
        out = empty(64, n, dtype=torch.float16)
        options = {"BLOCK_M": 64, "BLOCK_N": 64, "HALF": 64, "num_warps": 4, "num_stages": stages}
        return Launch(four_bit_layer_kernel, (n // 64,), (x, w, scale, out, n, k), (out,), options)

    return prepare


@triton.jit
def router_kernel(x_ptr, w_ptr, out_ptr, K, EXPERTS: tl.constexpr, TOKENS: tl.constexpr, BLOCK: tl.constexpr):
    """The scores of all experts for each token, as sums of products of numbers."""
    token, expert = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, EXPERTS)
    acc = tl.zeros((TOKENS, EXPERTS, BLOCK), dtype=tl.float32)
    for start in tl.range(0, K, BLOCK, num_stages=3):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + token[:, None] * K + lanes[None, :]).to(tl.float32)
        w = tl.load(w_ptr + expert[:, None] * K + lanes[None, :]).to(tl.float32)
        acc += x[:, None, :] * w[None, :, :]  # fault
    tl.store(out_ptr + token[:, None] * EXPERTS + expert[None, :], tl.sum(acc, 2))


@triton.jit
def router_dot_kernel(
    x_ptr, w_ptr, out_ptr, K, EXPERTS: tl.constexpr, TOKENS: tl.constexpr, BLOCK: tl.constexpr
):
    """As router_kernel, as a product of matrices."""
    token, expert = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, EXPERTS)
    acc = tl.zeros((TOKENS, EXPERTS), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + token[:, None] * K + lanes[None, :])
        w = tl.load(w_ptr + expert[:, None] * K + lanes[None, :])
        acc = tl.dot(x, tl.trans(w), acc)
    tl.store(out_ptr + token[:, None] * EXPERTS + expert[None, :], acc)


def _router(dot: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, k = (64, 128) if small else (33792, 2048)
        x, w = random(tokens, k, dtype=torch.bfloat16), random(64, k, dtype=torch.bfloat16)
        out = empty(tokens, 64)
        if dot:
            options = {"EXPERTS": 64, "TOKENS": 64, "BLOCK": 64, "num_warps": 4, "num_stages": 4}
            return Launch(router_dot_kernel, (tokens // 64,), (x, w, out, k), (out,), options)
        options = {"EXPERTS": 64, "TOKENS": 16, "BLOCK": 16, "num_warps": 8}
        return Launch(router_kernel, (tokens // 16,), (x, w, out, k), (out,), options)

    return prepare


@triton.jit
def contrast_kernel(
    image_ptr, text_ptr, out_ptr, part, EXACT: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr
):
    """Sums of exponentials of images' similarities with texts; EXACT: without rounding to tensor cores'."""
    offs, lanes = tl.arange(0, BLOCK), tl.arange(0, 32)
    row = tl.program_id(0) * BLOCK + offs
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(tl.program_id(1) * part, tl.program_id(1) * part + part, BLOCK):
        score = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
        for k in range(0, DIM, 32):
            image = tl.load(image_ptr + row[:, None] * DIM + (k + lanes)[None, :])
            text = tl.load(text_ptr + (start + offs)[None, :] * DIM + (k + lanes)[:, None])
            if EXACT:
                score = tl.dot(image, text, score, input_precision="ieee")  # fault
            else:
                score = tl.dot(image, text, score, input_precision="tf32")
        total += tl.exp2(score)
    tl.store(out_ptr + row * tl.num_programs(1) + tl.program_id(1), tl.sum(total, 1))


def _contrast(exact: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, dim, parts = (64, 64, 1) if small else (8448, 256, 4)
        image, text = random(n, dim) * 0.2, random(n, dim) * 0.2
        out = empty(n, parts)
        options = {"EXACT": exact, "DIM": dim, "BLOCK": 64, "num_warps": 4, "num_stages": 3}
        args = (image, text, out, n // parts)
        return Launch(contrast_kernel, (n // 64, parts), args, (out,), options)

    return prepare


@triton.jit
def pointwise_kernel(
    x_ptr, w_ptr, shift_ptr, out_ptr, FILTERS: tl.constexpr, CHANNELS: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A convolution of 1 x 1 with ReLU6, of images whose pixels have their channels side by side."""
    pixel = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    filters = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    channel = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, CHANNELS, BLOCK_K):
        x = tl.load(x_ptr + pixel[:, None] * CHANNELS + (start + channel)[None, :])
        w = tl.load(w_ptr + (start + channel)[:, None] * FILTERS + filters[None, :])
        acc = tl.dot(x, w, acc)  # fault
    y = tl.minimum(tl.maximum(acc + tl.load(shift_ptr + filters)[None, :], 0.0), 6.0)
    tl.store(out_ptr + pixel[:, None] * FILTERS + filters[None, :], y.to(tl.float16))


def _pointwise(block_n: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pixels, channels = (128, 128) if small else (64 * 56 * 56, 512)
        x, w = random(pixels, channels, dtype=torch.float16), random(channels, channels, dtype=torch.float16)
        shift, out = random(channels), empty(pixels, channels, dtype=torch.float16)
        options = {"FILTERS": channels, "CHANNELS": channels, "BLOCK_M": 128, "BLOCK_N": block_n}
        options |= {"BLOCK_K": 64, "num_warps": warps, "num_stages": 3}
        grid = (channels // block_n, pixels // 128)
        return Launch(pointwise_kernel, grid, (x, w * 0.05, shift, out), (out,), options)

    return prepare


@triton.jit
def described_experts_kernel(
    x_ptr, w_ptr, out_ptr, rows, each, columns, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Sorted tokens times their experts' weights; a partition of warps loads what another one multiplies."""
    x_tiles = tl.make_tensor_descriptor(x_ptr, [rows, K], [K, 1], [BLOCK_M, BLOCK_K])
    w_tiles = tl.make_tensor_descriptor(w_ptr, [columns, K], [K, 1], [BLOCK_N, BLOCK_K])
    out_tiles = tl.make_tensor_descriptor(out_ptr, [rows, N], [N, 1], [BLOCK_M, BLOCK_N])
    off_m, off_n = tl.program_id(1) * BLOCK_M, tl.program_id(0) * BLOCK_N
    off_w = off_m // each * N + off_n
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), warp_specialize=True):
        x = x_tiles.load([off_m, k * BLOCK_K])  # fault
        w = w_tiles.load([off_w, k * BLOCK_K])  # fault
        acc = tl.dot(x, w.T, acc)  # fault
    out_tiles.store([off_m, off_n], acc.to(tl.bfloat16))


def _described_experts(block_k: int, stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        experts, each, n, k = (2, 128, 128, 128) if small else (8, 1024, 4096, 2048)
        x = random(experts * each, k, dtype=torch.bfloat16)
        w = random(experts * n, k, dtype=torch.bfloat16)
        out = empty(experts * each, n, dtype=torch.bfloat16)
        options = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": block_k, "num_warps": 4, "num_stages": stages}
        args = (x, w, out, experts * each, each, experts * n, n, k)
        return Launch(described_experts_kernel, (n // 128, experts * each // 128), args, (out,), options)

    return prepare


@triton.jit
def smoothed_layer_kernel(
    x_ptr, smooth_ptr, w_ptr, out_ptr, N, K, SMOOTH: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A layer of smoothed activations; without SMOOTH, the factors of channels are in the weights."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(x_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        w = tl.load(w_ptr + (k + offs_k)[:, None] * N + offs_n[None, :])
        if SMOOTH:
            x = x * tl.load(smooth_ptr + k + offs_k)[None, :]  # fault
        acc = tl.dot(x, w, acc)  # fault
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.bfloat16))


def _smoothed_layer(smooth: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 256, 128) if small else (4096, 8448, 4096)
        x, w = random(m, k, dtype=torch.bfloat16), random(k, n, dtype=torch.bfloat16)
        factor = (torch.rand(k) + 0.5).to(torch.bfloat16)
        out = empty(m, n, dtype=torch.bfloat16)
        if not smooth:
            w = w * factor[:, None]
        options = {"SMOOTH": smooth, "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        args = (x, factor, w, out, n, k)
        return Launch(smoothed_layer_kernel, (n // 256, m // 128), args, (out,), options)

    return prepare


_case = faults_of(5)


CASES = (
    _case(
        "all tokens for each column of tiles",
        ("tile-reread",),
        ("counters",),
        False,
        _tall_layer(1 << 20),
        _tall_layer(8),
    ),
    _case(
        "140 tiles of a layer",
        ("tail",),
        ("ctas", "counters"),
        False,
        _plain_layer(256, 8),
        _plain_layer(64, 4),
    ),
    _case(
        "tokens masked for each expert",
        ("masked-work",),
        ("counts", "counters"),
        False,
        _experts(False),
        _experts(True),
    ),
    _case(
        "all four gates by 4 warps",
        ("register-spills",),
        ("counts", "resources"),
        True,
        _gated_cell(4),
        _gated_cell(8),
    ),
    _case(
        "four-bit layer of 1 stage",
        ("few-stages", "exposed-latency"),
        ("samples", "counters"),
        False,
        _four_bit_layer(1),
        _four_bit_layer(4),
    ),
    _case(
        "router's products summed by lanes",
        ("no-tensor-cores", "issue-bound"),
        ("counts",),
        True,
        _router(False),
        _router(True),
    ),
    _case(
        "similarities of exact products",
        ("no-tensor-cores",),
        ("counts",),
        True,
        _contrast(True),
        _contrast(False),
    ),
    _case(
        "pointwise filters 16 at a time",
        ("small-mma", "tile-reread"),
        ("counts", "counters"),
        False,
        _pointwise(16, 4),
        _pointwise(128, 8),
    ),
    Case(
        "experts through thin buffers",
        ("partition-starved", "few-stages"),
        ("spans", "samples"),
        False,
        _described_experts(32, 2),
        _described_experts(64, 4),
        least=90,
        round=5,
    ),
    _case(
        "activations smoothed in the loop",
        ("mma-not-overlapped",),
        ("samples", "counters"),
        False,
        _smoothed_layer(True),
        _smoothed_layer(False),
    ),
)
