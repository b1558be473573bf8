"""Fifth round, matrix products and attention without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def _swizzled(pid, across, down, GROUP: tl.constexpr):
    """Row and column of a tile; GROUP rows of tiles follow each other column by column."""
    first = pid // (GROUP * across) * GROUP
    rows = tl.minimum(down - first, GROUP)
    return first + pid % (GROUP * across) % rows, pid % (GROUP * across) // rows


@triton.jit
def gelu_layer_kernel(
    x_ptr, w_ptr, shift_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A layer with GELU, by the sigmoid that is close to it. Bound by tensor cores."""
    tile_m, tile_n = _swizzled(tl.program_id(0), tl.cdiv(N, BLOCK_N), tl.cdiv(M, BLOCK_M), 8)
    offs_m, offs_n = tile_m * BLOCK_M + tl.arange(0, BLOCK_M), tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w = w_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(w), acc)
        x += BLOCK_K
        w += BLOCK_K * N
    y = acc + tl.load(shift_ptr + offs_n)[None, :]
    y = y / (1.0 + tl.exp2(-2.4554669 * y))
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], y.to(tl.bfloat16))


def _gelu_layer(small: bool) -> Launch:
    m, n, k = (128, 256, 128) if small else (8448, 8192, 4096)
    x, w = random(m, k, dtype=torch.bfloat16), random(k, n, dtype=torch.bfloat16) * 0.02
    shift, out = random(n), empty(m, n, dtype=torch.bfloat16)
    options = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
    grid = (m // 128 * (n // 256),)
    return Launch(gelu_layer_kernel, grid, (x, w, shift, out, m, n, k), (out,), options)


@triton.jit
def byte_layer_kernel(
    x_ptr, w_ptr, row_ptr, column_ptr, out_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A layer of signed bytes, with scales of tokens and outputs. Bound by tensor cores."""
    tile_m, tile_n = _swizzled(tl.program_id(0), tl.cdiv(N, BLOCK_N), tl.cdiv(M, BLOCK_M), 8)
    offs_m, offs_n = tile_m * BLOCK_M + tl.arange(0, BLOCK_M), tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w = w_ptr + offs_n[None, :] * K + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(w), acc, out_dtype=tl.int32)
        x += BLOCK_K
        w += BLOCK_K
    y = acc.to(tl.float32) * tl.load(row_ptr + offs_m)[:, None] * tl.load(column_ptr + offs_n)[None, :]
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], y.to(tl.float16))


def _byte_layer(small: bool) -> Launch:
    m, n, k = (128, 256, 256) if small else (8448, 8192, 4096)
    x, w = ((integers(*shape, below=255) - 127).to(torch.int8) for shape in ((m, k), (n, k)))
    row, column, out = torch.rand(m) * 0.001, torch.rand(n), empty(m, n, dtype=torch.float16)
    options = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 128, "num_warps": 8, "num_stages": 3}
    args = (x, w, row, column, out, m, n, k)
    return Launch(byte_layer_kernel, (m // 128 * (n // 256),), args, (out,), options)


@triton.jit
def decoded_float8_kernel(
    x_ptr, w_ptr, scale_ptr, out_ptr, N, K, part, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A layer of 16 tokens with weights of float8, a part of its depth. Bound by DRAM."""
    offs_m, offs_n = tl.arange(0, BLOCK_M), tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.program_id(1) * part, tl.program_id(1) * part + part, BLOCK_K):
        x = tl.load(x_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        w = tl.load(w_ptr + offs_n[None, :] * K + (k + offs_k)[:, None])
        acc = tl.dot(x, w.to(tl.float16), acc)
    acc *= tl.load(scale_ptr + offs_n)[None, :]
    out = out_ptr + tl.program_id(1) * BLOCK_M * N
    tl.store(out + offs_m[:, None] * N + offs_n[None, :], acc)


def _decoded_float8(small: bool) -> Launch:
    n, k, parts = (128, 512, 2) if small else (16896, 16384, 4)
    x, scale = random(16, k, dtype=torch.float16), torch.rand(n) * 0.01
    w, out = random(n, k, dtype=torch.float8_e5m2), empty(parts, 16, n)
    options = {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "num_warps": 4, "num_stages": 5}
    args = (x, w, scale, out, n, k, k // parts)
    return Launch(decoded_float8_kernel, (n // 64, parts), args, (out,), options)


@triton.jit
def cross_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Attention to keys of another sequence. Bound by tensor cores and the softmax."""
    base = tl.program_id(1).to(tl.int64) * tl.num_programs(0) * BLOCK_M * DIM
    keys = tl.program_id(1).to(tl.int64) * length * DIM
    offs_m, offs_n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    q = tl.load(q_ptr + base + offs_m[:, None] * DIM + dims[None, :])
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        at = keys + (start + offs_n)[:, None] * DIM + dims[None, :]
        score = tl.dot(q, tl.trans(tl.load(k_ptr + at)))
        higher = tl.maximum(peak, tl.max(score, 1) * 0.1275174)
        share = tl.exp2(score * 0.1275174 - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        acc = tl.dot(share.to(tl.float16), tl.load(v_ptr + at), acc * shrink[:, None])
        peak = higher
    out = (acc * (1.0 / total)[:, None]).to(tl.float16)
    tl.store(out_ptr + base + offs_m[:, None] * DIM + dims[None, :], out)


def _cross_attention(small: bool) -> Launch:
    heads, queries, length = (1, 128, 128) if small else (66, 4096, 1024)
    q = random(heads, queries, 128, dtype=torch.float16)
    k, v = (random(heads, length, 128, dtype=torch.float16) for _ in range(2))
    out = torch.empty_like(q)
    options = {"DIM": 128, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}
    args = (q, k, v, out, length)
    return Launch(cross_attention_kernel, (queries // 128, heads), args, (out,), options)


@triton.jit
def chunk_states_kernel(
    b_ptr, x_ptr, fade_ptr, out_ptr, CHUNK: tl.constexpr, STATE: tl.constexpr, DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """States that chunks of tokens leave in a state-space model, as sums of outer products. Bound by DRAM."""
    chunk = tl.program_id(0)
    tokens, states, dims = tl.arange(0, BLOCK), tl.arange(0, STATE), tl.arange(0, DIM)
    acc = tl.zeros((STATE, DIM), dtype=tl.float32)
    for start in range(0, CHUNK, BLOCK):
        token = chunk * CHUNK + start + tokens
        x = tl.load(x_ptr + token[:, None] * DIM + dims[None, :])
        x = (x * tl.load(fade_ptr + token)[:, None]).to(tl.bfloat16)
        b = tl.load(b_ptr + token[:, None] * STATE + states[None, :])
        acc = tl.dot(tl.trans(b), x, acc)
    at = chunk * STATE * DIM + states[:, None] * DIM + dims[None, :]
    tl.store(out_ptr + at, acc.to(tl.bfloat16))


def _chunk_states(small: bool) -> Launch:
    chunks = 2 if small else 1056 * 8
    b = random(chunks, 128, 128, dtype=torch.bfloat16)
    x = random(chunks, 128, 64, dtype=torch.bfloat16)
    fade, out = torch.rand(chunks, 128), empty(chunks, 128, 64, dtype=torch.bfloat16)
    options = {"CHUNK": 128, "STATE": 128, "DIM": 64, "BLOCK": 64, "num_warps": 4, "num_stages": 2}
    return Launch(chunk_states_kernel, (chunks,), (b, x, fade, out), (out,), options)


@triton.jit
def similarity_maps_kernel(
    x_ptr, y_ptr, out_ptr, N, DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Products of all pairs of vectors of two images. Bound by DRAM, which takes the products."""
    image = tl.program_id(2).to(tl.int64)
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    x = tl.load(x_ptr + image * N * DIM + offs_m[:, None] * DIM + dims[None, :])
    y = tl.load(y_ptr + image * N * DIM + offs_n[None, :] * DIM + dims[:, None])
    out = out_ptr + image * N * N + offs_m[:, None] * N + offs_n[None, :]
    tl.store(out, tl.dot(x, y).to(tl.float16))


def _similarity_maps(small: bool) -> Launch:
    images, n = (1, 256) if small else (8, 6144)
    x, y = (random(images, n, 64, dtype=torch.float16) for _ in range(2))
    out = empty(images, n, n, dtype=torch.float16)
    options = {"DIM": 64, "BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8}
    grid = (n // 128, n // 128, images)
    return Launch(similarity_maps_kernel, grid, (x, y, out, n), (out,), options)


@triton.jit
def listed_experts_kernel(
    x_ptr, w_ptr, tile_ptr, out_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Sorted tokens times their experts' weights; a table has each tile's expert. Bound by tensor cores."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    w = w_ptr + tl.load(tile_ptr + tl.program_id(1)) * N * K + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(w), acc)
        x += BLOCK_K
        w += BLOCK_K * N
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.bfloat16))


def _listed_experts(small: bool) -> Launch:
    experts, tiles, n, k = (2, 4, 256, 128) if small else (8, 132, 4096, 2048)
    x = random(tiles * 128, k, dtype=torch.bfloat16)
    w = random(experts, k, n, dtype=torch.bfloat16)
    tile = torch.sort(integers(tiles, below=experts)).values.int()
    out = empty(tiles * 128, n, dtype=torch.bfloat16)
    options = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
    grid = (n // 256, tiles)
    return Launch(listed_experts_kernel, grid, (x, w, tile, out, n, k), (out,), options)


@triton.jit
def value_gradient_kernel(
    q_ptr, k_ptr, grad_ptr, peak_ptr, out_ptr, length, DIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Gradients of attention's values. Bound by tensor cores and exponentials."""
    head = tl.program_id(1)
    base = head.to(tl.int64) * length * DIM
    offs_n, offs_m = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_M)
    dims = tl.arange(0, DIM)
    keys = base + offs_n[:, None] * DIM + dims[None, :]
    k = tl.load(k_ptr + keys)
    acc = tl.zeros((BLOCK_N, DIM), dtype=tl.float32)
    for start in range(0, length, BLOCK_M):
        queries = base + (start + offs_m)[:, None] * DIM + dims[None, :]
        q, grad = tl.load(q_ptr + queries), tl.load(grad_ptr + queries)
        peak = tl.load(peak_ptr + head * length + start + offs_m)
        share = tl.exp2(tl.dot(k, tl.trans(q)) * 0.1275174 - peak[None, :])
        acc = tl.dot(share.to(tl.bfloat16), grad, acc)
    tl.store(out_ptr + keys, acc.to(tl.bfloat16))


def _value_gradient(small: bool) -> Launch:
    heads, length = (1, 128) if small else (66, 2048)
    q, k, grad = (random(heads, length, 128, dtype=torch.bfloat16) for _ in range(3))
    peak, out = torch.rand(heads, length) + 10.0, torch.empty_like(k)
    options = {"DIM": 128, "BLOCK_M": 64, "BLOCK_N": 128, "num_warps": 8, "num_stages": 3}
    args = (q, k, grad, peak, out, length)
    return Launch(value_gradient_kernel, (length // 128, heads), args, (out,), options)


@triton.jit
def wide_filters_kernel(
    x_ptr, w_ptr, out_ptr, depth, PIXELS: tl.constexpr, FILTERS: tl.constexpr, TAPS: tl.constexpr,
    CHANNELS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A convolution over time, of sounds whose steps have their channels side by side. Bound by tensor
    cores."""
    step = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    filters, offs_k = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    row = (step // PIXELS * (PIXELS + TAPS - 1) + step % PIXELS) * CHANNELS
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, depth, BLOCK_K):
        x = tl.load(x_ptr + row[:, None] + (start + offs_k)[None, :])
        w = tl.load(w_ptr + (start + offs_k)[:, None] * FILTERS + filters[None, :])
        acc = tl.dot(x, w, acc)
    tl.store(out_ptr + step[:, None] * FILTERS + filters[None, :], acc.to(tl.float16))


def _wide_filters(small: bool) -> Launch:
    sounds, steps, channels, filters = (1, 128, 64, 256) if small else (33, 4096, 256, 256)
    x = random(sounds, steps + 4, channels, dtype=torch.float16)
    w, out = (
        random(5 * channels, filters, dtype=torch.float16) * 0.05,
        empty(sounds, steps, filters, dtype=torch.float16),
    )
    options = {"PIXELS": steps, "FILTERS": filters, "TAPS": 5, "CHANNELS": channels}
    options |= {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
    grid = (filters // 256, sounds * steps // 128)
    return Launch(wide_filters_kernel, grid, (x, w, out, 5 * channels), (out,), options)


def _case(name: str, prepare: Prepare) -> Case:
    return Case(name, (), (), True, prepare, round=5)


CASES = (
    _case("good layer with GELU", _gelu_layer),
    _case("good layer of bytes", _byte_layer),
    _case("good decode of float8 weights", _decoded_float8),
    _case("good cross-attention", _cross_attention),
    _case("good states of chunks", _chunk_states),
    _case("good maps of similarities", _similarity_maps),
    _case("good experts by table", _listed_experts),
    _case("good value gradients", _value_gradient),
    _case("good filters over time", _wide_filters),
)
