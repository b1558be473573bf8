"""Fourth round, faults of matrix products."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def token_attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, length, DIM: tl.constexpr):
    """Causal linear attention of a head, token by token."""
    dims = tl.arange(0, DIM)
    base = tl.program_id(0) * length * DIM
    state = tl.zeros((DIM, DIM), dtype=tl.float32)
    for token in range(length):
        at = base + token * DIM + dims
        q, k, v = tl.load(q_ptr + at), tl.load(k_ptr + at), tl.load(v_ptr + at)
        state += k.to(tl.float32)[:, None] * v.to(tl.float32)[None, :]  # fault
        out = tl.sum(q.to(tl.float32)[:, None] * state, 0)  # fault
        tl.store(out_ptr + at, out.to(tl.float16))


@triton.jit
def chunk_attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, length, DIM: tl.constexpr, CHUNK: tl.constexpr):
    """As token_attention_kernel, by chunks of tokens."""
    dims, tokens = tl.arange(0, DIM), tl.arange(0, CHUNK)
    base = tl.program_id(0) * length * DIM
    state = tl.zeros((DIM, DIM), dtype=tl.float32)
    for start in range(0, length, CHUNK):
        at = base + (start + tokens)[:, None] * DIM + dims[None, :]
        q, k, v = tl.load(q_ptr + at), tl.load(k_ptr + at), tl.load(v_ptr + at)
        share = tl.where(tokens[:, None] >= tokens[None, :], tl.dot(q, tl.trans(k)), 0.0)
        out = tl.dot(q, state.to(tl.float16))
        out = tl.dot(share.to(tl.float16), v, out)
        state = tl.dot(tl.trans(k), v, state)
        tl.store(out_ptr + at, out.to(tl.float16))


def _linear_attention(by_chunk: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 64) if small else (264, 1024)
        q, k, v = (random(heads, length, 64, dtype=torch.float16) * 0.125 for _ in range(3))
        out = torch.empty_like(q)
        args = (q, k, v, out, length)
        if by_chunk:
            options = {"DIM": 64, "CHUNK": 64, "num_warps": 4}
            return Launch(chunk_attention_kernel, (heads,), args, (out,), options)
        return Launch(token_attention_kernel, (heads,), args, (out,), {"DIM": 64, "num_warps": 4})

    return prepare


@triton.jit
def expert_tiles_kernel(
    x_ptr, w_ptr, out_ptr, each, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Tokens, sorted by expert, times their experts' weights; each: tokens of an expert."""
    first = tl.program_id(0) * BLOCK_M
    offs_m, offs_n = first + tl.arange(0, BLOCK_M), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w = w_ptr + first // each * N * K + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(w), acc)  # fault
        x += BLOCK_K
        w += BLOCK_K * N
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.bfloat16))


def _expert_tiles(block: int, warps: int) -> Prepare:
    """block: tokens of a tile; with 32, an expert of a few tokens wastes little."""

    def prepare(small: bool) -> Launch:
        experts, each, n, k = (2, 128, 128, 128) if small else (16, 512, 2048, 2048)
        x = random(experts * each, k, dtype=torch.bfloat16)
        w = random(experts, k, n, dtype=torch.bfloat16)
        out = empty(experts * each, n, dtype=torch.bfloat16)
        options = {"BLOCK_M": block, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": warps, "num_stages": 3}
        grid = (experts * each // block, n // 128)
        return Launch(expert_tiles_kernel, grid, (x, w, out, each, n, k), (out,), options)

    return prepare


@triton.jit
def adapted_layer_kernel(
    x_ptr, w_ptr, a_ptr, b_ptr, out_ptr, N, K, LATE: tl.constexpr, RANK: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A layer with a low-rank adapter, x w + (x a) b; LATE: the product with b comes behind the loop."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k, ranks = tl.arange(0, BLOCK_K), tl.arange(0, RANK)
    b = tl.load(b_ptr + ranks[:, None] * N + offs_n[None, :])
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    low = tl.zeros((BLOCK_M, RANK), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(x_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        w = tl.load(w_ptr + (k + offs_k)[:, None] * N + offs_n[None, :])
        a = tl.load(a_ptr + (k + offs_k)[:, None] * RANK + ranks[None, :])
        acc = tl.dot(x, w, acc)
        if LATE:
            low = tl.dot(x, a, low)
        else:
            acc = tl.dot(tl.dot(x, a).to(tl.float16), b, acc)  # fault
    if LATE:
        acc = tl.dot(low.to(tl.float16), b, acc)
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16))


def _adapted_layer(late: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 128, 128) if small else (4096, 4096, 4096)
        x, w, a, b = (random(*s, dtype=torch.float16) for s in ((m, k), (k, n), (k, 16), (16, n)))
        out = empty(m, n, dtype=torch.float16)
        options = {"LATE": late, "RANK": 16, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        args = (x, w, a * 0.125, b * 0.125, out, n, k)
        return Launch(adapted_layer_kernel, (n // 128, m // 128), args, (out,), options)

    return prepare


@triton.jit
def float8_layer_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """A layer of float8 numbers; one partition of warps loads what another one multiplies."""
    rows = tl.make_tensor_descriptor(x_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    columns = tl.make_tensor_descriptor(w_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    out = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    off_m, off_n = tl.program_id(1) * BLOCK_M, tl.program_id(0) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), warp_specialize=True):
        x = rows.load([off_m, k * BLOCK_K])  # fault
        w = columns.load([off_n, k * BLOCK_K])  # fault
        acc = tl.dot(x, w.T, acc)  # fault
    out.store([off_m, off_n], acc.to(tl.bfloat16))


def _float8_layer(block_k: int, stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, k = (128, 128, 256) if small else (2048, 8192, 4096)
        x, w = (random(*shape, dtype=torch.float8_e4m3fn) for shape in ((m, k), (n, k)))
        out = empty(m, n, dtype=torch.bfloat16)
        options = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": block_k, "num_warps": 4, "num_stages": stages}
        grid = (n // 128, m // 128)
        return Launch(float8_layer_kernel, grid, (x, w, out, m, n, k), (out,), options)

    return prepare


@triton.jit
def image_layer_kernel(
    x_ptr, w_ptr, out_ptr, SIDE: tl.constexpr, CHANNELS: tl.constexpr, FILTERS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A convolution of 3 x 3, of images with a border, whose pixels have their channels side by side."""
    pixel = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_k = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    image, y, x = pixel // (SIDE * SIDE), pixel // SIDE % SIDE, pixel % SIDE
    corner = ((image * (SIDE + 2) + y) * (SIDE + 2) + x) * CHANNELS
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(9 * CHANNELS // BLOCK_K):
        tap, first = step // (CHANNELS // BLOCK_K), step % (CHANNELS // BLOCK_K) * BLOCK_K
        shift = (tap // 3 * (SIDE + 2) + tap % 3) * CHANNELS + first
        patch = tl.load(x_ptr + (corner + shift)[:, None] + offs_k[None, :])  # fault
        w = tl.load(w_ptr + (tap * CHANNELS + first + offs_k)[:, None] * FILTERS + offs_n[None, :])  # fault
        acc = tl.dot(patch, w, acc)  # fault
    tl.store(out_ptr + pixel[:, None] * FILTERS + offs_n[None, :], acc.to(tl.float16))


def _image_layer(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, side, channels, filters = (1, 16, 64, 128) if small else (16, 64, 256, 256)
        x = random(images, side + 2, side + 2, channels, dtype=torch.float16)
        w, out = (
            random(9, channels, filters, dtype=torch.float16),
            empty(images, side, side, filters, dtype=torch.float16),
        )
        options = {"SIDE": side, "CHANNELS": channels, "FILTERS": filters, "BLOCK_M": 128, "BLOCK_N": 128}
        options |= {"BLOCK_K": 64, "num_warps": 8, "num_stages": stages}
        grid = (images * side * side // 128, filters // 128)
        return Launch(image_layer_kernel, grid, (x, w, out), (out,), options)

    return prepare


@triton.jit
def key_gradient_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, peak_ptr, delta_ptr, dk_ptr, dv_ptr, length, DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Gradients of attention's keys and values; a program has a block of them, and reads all queries."""
    head = tl.program_id(1)
    base = head.to(tl.int64) * length * DIM
    offs_n, offs_m = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_M)
    dims = tl.arange(0, DIM)
    keys = base + offs_n[:, None] * DIM + dims[None, :]
    k, v = tl.load(k_ptr + keys), tl.load(v_ptr + keys)
    dk = tl.zeros((BLOCK_N, DIM), dtype=tl.float32)  # fault
    dv = tl.zeros((BLOCK_N, DIM), dtype=tl.float32)  # fault
    for start in range(0, length, BLOCK_M):
        queries = base + (start + offs_m)[:, None] * DIM + dims[None, :]
        q, grad = tl.load(q_ptr + queries), tl.load(grad_ptr + queries)
        peak = tl.load(peak_ptr + head * length + start + offs_m)
        delta = tl.load(delta_ptr + head * length + start + offs_m)
        share = tl.exp2(tl.dot(k, tl.trans(q)) * 0.1275 - peak[None, :])  # fault
        dv = tl.dot(share.to(tl.float16), grad, dv)  # fault
        slope = share * (tl.dot(v, tl.trans(grad)) - delta[None, :])  # fault
        dk = tl.dot(slope.to(tl.float16), q, dk)  # fault
    tl.store(dk_ptr + keys, (dk * 0.0884).to(tl.float16))  # fault
    tl.store(dv_ptr + keys, dv.to(tl.float16))  # fault


def _key_gradient(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 128) if small else (32, 2048)
        q, k, v, grad = (random(heads, length, 128, dtype=torch.float16) for _ in range(4))
        peak, delta = torch.rand(heads, length) + 10.0, random(heads, length)
        dk, dv = torch.empty_like(k), torch.empty_like(v)
        options = {"DIM": 128, "BLOCK_M": 64, "BLOCK_N": 128, "num_warps": warps, "num_stages": 1}
        args = (q, k, v, grad, peak, delta, dk, dv, length)
        return Launch(key_gradient_kernel, (length // 128, heads), args, (dk, dv), options)

    return prepare


@triton.jit
def filter_gradient_kernel(
    x_ptr, grad_ptr, out_ptr, steps, SIDE: tl.constexpr, CHANNELS: tl.constexpr, FILTERS: tl.constexpr,
    SPLIT: tl.constexpr, BLOCK: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    """The gradient of a convolution's filters; a program has a tile of one of the 3 x 3 taps."""
    tap = tl.program_id(1)
    row, column = tl.program_id(0) // (FILTERS // BLOCK), tl.program_id(0) % (FILTERS // BLOCK)
    channel, filters = row * BLOCK + tl.arange(0, BLOCK), column * BLOCK + tl.arange(0, BLOCK)
    shift = (tap // 3 * (SIDE + 2) + tap % 3) * CHANNELS
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for step in range(tl.program_id(2) * steps, tl.program_id(2) * steps + steps):
        pixel = step * PIXELS + tl.arange(0, PIXELS)
        image, y, x = pixel // (SIDE * SIDE), pixel // SIDE % SIDE, pixel % SIDE
        corner = ((image * (SIDE + 2) + y) * (SIDE + 2) + x) * CHANNELS + shift
        patch = tl.load(x_ptr + corner[None, :] + channel[:, None])
        grad = tl.load(grad_ptr + pixel[:, None] * FILTERS + filters[None, :])
        acc = tl.dot(patch, grad, acc)
    out = out_ptr + (tap * CHANNELS + channel)[:, None] * FILTERS + filters[None, :]
    if SPLIT == 1:
        tl.store(out, acc)
    else:
        tl.atomic_add(out, acc, sem="relaxed")


def _filter_gradient(split: int) -> Prepare:
    """36 tiles in all."""

    def prepare(small: bool) -> Launch:
        images, side, channels = (1, 16, 128) if small else (16, 64, 256)
        parts = min(split, 2) if small else split
        x = random(images, side + 2, side + 2, channels, dtype=torch.float16)
        grad, out = random(images, side, side, channels, dtype=torch.float16), zeros(9, channels, channels)
        steps = images * side * side // 64 // parts
        options = {"SIDE": side, "CHANNELS": channels, "FILTERS": channels, "SPLIT": parts, "BLOCK": 128}
        options |= {"PIXELS": 64, "num_warps": 8, "num_stages": 3}
        grid = ((channels // 128) ** 2, 9, parts)
        return Launch(filter_gradient_kernel, grid, (x, grad, out, steps), (out,), options)

    return prepare


CASES = (
    Case(
        "linear attention token by token",
        ("no-tensor-cores", "serial-reduction", "exposed-latency"),
        ("counts", "samples"),
        True,
        _linear_attention(False),
        _linear_attention(True),
        round=4,
    ),
    Case(
        "experts' tiles of 32 tokens",
        ("small-mma", "tile-reread"),
        ("counts", "counters"),
        False,
        _expert_tiles(32, 4),
        _expert_tiles(128, 8),
        round=4,
    ),
    Case(
        "adapter's second product each step",
        ("mma-not-overlapped",),
        ("samples", "counters"),
        False,
        _adapted_layer(False),
        _adapted_layer(True),
        round=4,
    ),
    Case(
        "float8 through thin buffers",
        ("partition-starved", "few-stages"),
        ("spans", "samples"),
        False,
        _float8_layer(32, 2),
        _float8_layer(128, 4),
        least=90,
        round=4,
    ),
    Case(
        "image layer of 1 stage",
        ("few-stages", "exposed-latency"),
        ("samples", "counters"),
        False,
        _image_layer(1),
        _image_layer(3),
        round=4,
    ),
    Case(
        "key gradients of 4 warps",
        ("register-spills",),
        ("counts", "resources"),
        True,
        _key_gradient(4),
        _key_gradient(8),
        round=4,
    ),
    Case(
        "filter gradients of 36 tiles",
        ("idle-sms",),
        ("ctas", "counters"),
        False,
        _filter_gradient(1),
        _filter_gradient(16),
        round=4,
    ),
)
