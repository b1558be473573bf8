"""Sixth round, matrix products, attention and recurrences without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def narrow_adapter_kernel(
    x_ptr, a_ptr, out_ptr, K, RANK: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr
):
    """Tokens times the narrow matrix of an adapter. Bound by DRAM."""
    offs_m, offs_k = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    ranks = tl.arange(0, RANK)
    x = x_ptr + offs_m[:, None] * K + offs_k[None, :]
    a = a_ptr + offs_k[:, None] * RANK + ranks[None, :]
    acc = tl.zeros((BLOCK_M, RANK), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(a), acc)
        x += BLOCK_K
        a += BLOCK_K * RANK
    tl.store(out_ptr + offs_m[:, None] * RANK + ranks[None, :], acc.to(tl.bfloat16))


def _narrow_adapter(small: bool) -> Launch:
    tokens, k = (256, 256) if small else (33792, 4096)
    x, a = random(tokens, k, dtype=torch.bfloat16), random(k, 64, dtype=torch.bfloat16) * 0.05
    out = empty(tokens, 64, dtype=torch.bfloat16)
    options = {"RANK": 64, "BLOCK_M": 128, "BLOCK_K": 64, "num_warps": 4, "num_stages": 4}
    return Launch(narrow_adapter_kernel, (tokens // 128,), (x, a, out, k), (out,), options)


@triton.jit
def diagonal_blocks_kernel(x_ptr, w_ptr, out_ptr, width, SIDE: tl.constexpr, BLOCK_M: tl.constexpr):
    """A layer whose weights are blocks on the diagonal. Bound by DRAM."""
    offs_m, side = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, SIDE)
    at = offs_m[:, None] * width + tl.program_id(0) * SIDE + side[None, :]
    w = tl.load(w_ptr + tl.program_id(0) * SIDE * SIDE + side[:, None] * SIDE + side[None, :])
    tl.store(out_ptr + at, tl.dot(tl.load(x_ptr + at), w).to(tl.float16))


def _diagonal_blocks(small: bool) -> Launch:
    tokens, blocks = (256, 2) if small else (16896, 32)
    x = random(tokens, blocks * 64, dtype=torch.float16)
    w, out = random(blocks, 64, 64, dtype=torch.float16) * 0.1, torch.empty_like(x)
    options = {"SIDE": 64, "BLOCK_M": 128, "num_warps": 4}
    grid = (blocks, tokens // 128)
    return Launch(diagonal_blocks_kernel, grid, (x, w, out, blocks * 64), (out,), options)


@triton.jit
def patch_layer_kernel(
    x_ptr, w_ptr, shift_ptr, out_ptr, N, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A layer of patches of 16 x 16 pixels of three colours. Bound by tensor cores."""
    patch = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_k = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    corner = patch // WIDTH * (16 * 48 * WIDTH) + patch % WIDTH * 48
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, 768, BLOCK_K):
        k = start + offs_k
        x = tl.load(x_ptr + corner[:, None] + (k // 48 * (48 * WIDTH) + k % 48)[None, :])
        acc = tl.dot(x, tl.load(w_ptr + k[:, None] * N + offs_n[None, :]), acc)
    out = acc + tl.load(shift_ptr + offs_n)[None, :]
    tl.store(out_ptr + patch[:, None] * N + offs_n[None, :], out.to(tl.float16))


def _patch_layer(small: bool) -> Launch:
    images, width, n = (2, 8, 256) if small else (256, 14, 1024)
    x = random(images, width * 16, width * 16, 3, dtype=torch.float16)
    w, shift = random(768, n, dtype=torch.float16) * 0.05, random(n)
    out = empty(images * width * width, n, dtype=torch.float16)
    options = {"WIDTH": width, "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}
    options |= {"num_warps": 8, "num_stages": 3}
    grid = (n // 256, images * width * width // 128)
    return Launch(patch_layer_kernel, grid, (x, w, shift, out, n), (out,), options)


@triton.jit
def matrix_polynomial_kernel(
    x_ptr, out_ptr, first, second, SIDE: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A matrix and its square, weighted and added. Bound by tensor cores."""
    across: tl.constexpr = SIDE // BLOCK_N
    inside = tl.program_id(0) % (GROUP * across)
    tile_m = tl.program_id(0) // (GROUP * across) * GROUP + inside % GROUP
    offs_m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n, offs_k = inside // GROUP * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    x = x_ptr + offs_m[:, None] * SIDE + offs_k[None, :]
    y = x_ptr + offs_k[:, None] * SIDE + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, SIDE, BLOCK_K):
        acc = tl.dot(tl.load(x), tl.load(y), acc)
        x += BLOCK_K
        y += BLOCK_K * SIDE
    at = offs_m[:, None] * SIDE + offs_n[None, :]
    out = first * tl.load(x_ptr + at).to(tl.float32) + second * acc
    tl.store(out_ptr + at, out.to(tl.bfloat16))


def _matrix_polynomial(small: bool) -> Launch:
    side = 256 if small else 4096
    x = random(side, side, dtype=torch.bfloat16) * 0.02
    out = torch.empty_like(x)
    options = {"SIDE": side, "GROUP": 2 if small else 8, "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}
    options |= {"num_warps": 8, "num_stages": 3}
    grid = (side // 128 * (side // 256),)
    return Launch(matrix_polynomial_kernel, grid, (x, out, -4.775, 2.0315), (out,), options)


@triton.jit
def described_batch_kernel(
    x_ptr, y_ptr, out_ptr, batch, SIDE: tl.constexpr, K: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Products of pairs of matrices, by tensor descriptors. Bound by tensor cores."""
    x_tiles = tl.make_tensor_descriptor(x_ptr, [batch * SIDE, K], [K, 1], [BLOCK_M, BLOCK_K])
    y_tiles = tl.make_tensor_descriptor(y_ptr, [batch * SIDE, K], [K, 1], [BLOCK_N, BLOCK_K])
    out_tiles = tl.make_tensor_descriptor(out_ptr, [batch * SIDE, SIDE], [SIDE, 1], [BLOCK_M, BLOCK_N])
    off_m = tl.program_id(2) * SIDE + tl.program_id(1) * BLOCK_M
    off_n = tl.program_id(0) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = x_tiles.load([off_m, k])
        y = y_tiles.load([tl.program_id(2) * SIDE + off_n, k])
        acc = tl.dot(x, y.T, acc)
    out_tiles.store([off_m, off_n], acc.to(tl.bfloat16))


def _described_batch(small: bool) -> Launch:
    batch, side, k = (1, 256, 128) if small else (33, 1024, 1024)
    x, y = (random(batch, side, k, dtype=torch.bfloat16) for _ in range(2))
    out = empty(batch, side, side, dtype=torch.bfloat16)
    options = {"SIDE": side, "K": k, "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}
    options |= {"num_warps": 8, "num_stages": 3}
    grid = (side // 256, side // 128, batch)
    return Launch(described_batch_kernel, grid, (x, y, out, batch), (out,), options)


@triton.jit
def unpacked_weights_kernel(
    code_ptr, scale_ptr, out_ptr, rows, width, GROUP: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Weights of half precision from codes of four bits; a byte has one of each half. Bound by DRAM."""
    row, column = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    column += tl.program_id(0) * BLOCK_N
    group = tl.program_id(1) * BLOCK_M // GROUP
    at = row[:, None] * width + column[None, :]
    code = tl.load(code_ptr + at)
    low_scale = tl.load(scale_ptr + group * width + column)[None, :]
    high_scale = tl.load(scale_ptr + (group + rows // GROUP) * width + column)[None, :]
    low = ((code & 15).to(tl.float32) - 8.0) * low_scale
    high = ((code >> 4).to(tl.float32) - 8.0) * high_scale
    tl.store(out_ptr + at, low.to(tl.float16))
    tl.store(out_ptr + rows * width + at, high.to(tl.float16))


def _unpacked_weights(small: bool) -> Launch:
    rows, width = (64, 1024) if small else (4096, 16384)
    code = torch.randint(256, (rows, width), dtype=torch.uint8)
    scale, out = random(2 * rows // 64, width), empty(2 * rows, width, dtype=torch.float16)
    options = {"GROUP": 64, "BLOCK_M": 8, "BLOCK_N": 256, "num_warps": 8}
    args = (code, scale, out, rows, width)
    return Launch(unpacked_weights_kernel, (width // 256, rows // 8), args, (out,), options)


@triton.jit
def continued_prompt_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, queries, keys, DIM: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention of a prompt's last tokens to all before them. Bound by tensor cores and the softmax."""
    base = tl.program_id(1).to(tl.int64) * keys * DIM
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    offs_m, offs_n = block * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    mine = tl.program_id(1) * queries * DIM + offs_m[:, None] * DIM + dims[None, :]
    q = tl.load(q_ptr + mine)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    first = keys - queries + block * BLOCK_M
    for start in range(0, first, BLOCK_N):
        at = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        score = tl.dot(q, tl.trans(tl.load(k_ptr + at)))
        higher = tl.maximum(peak, tl.max(score, 1) * 0.1275174)
        share = tl.exp2(score * 0.1275174 - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        acc = tl.dot(share.to(tl.bfloat16), tl.load(v_ptr + at), acc * shrink[:, None])
        peak = higher
    for start in range(first, first + BLOCK_M, BLOCK_N):
        at = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        score = tl.dot(q, tl.trans(tl.load(k_ptr + at)))
        before = (start + offs_n)[None, :] <= (keys - queries + offs_m)[:, None]
        score = tl.where(before, score, float("-inf"))
        higher = tl.maximum(peak, tl.max(score, 1) * 0.1275174)
        share = tl.exp2(score * 0.1275174 - higher[:, None])
        shrink = tl.exp2(peak - higher)
        total = total * shrink + tl.sum(share, 1)
        acc = tl.dot(share.to(tl.bfloat16), tl.load(v_ptr + at), acc * shrink[:, None])
        peak = higher
    tl.store(out_ptr + mine, (acc * (1.0 / total)[:, None]).to(tl.bfloat16))


def _continued_prompt(small: bool) -> Launch:
    heads, queries, keys = (1, 128, 256) if small else (33, 1024, 8192)
    q = random(heads, queries, 128, dtype=torch.bfloat16)
    k, v = (random(heads, keys, 128, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(q)
    options = {"DIM": 128, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}
    args = (q, k, v, out, queries, keys)
    return Launch(continued_prompt_kernel, (queries // 128, heads), args, (out,), options)


@triton.jit
def passed_states_kernel(new_ptr, fade_ptr, out_ptr, chunks, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """States before each chunk, from what chunks leave and how states fade in them. Bound by DRAM."""
    head, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK,), dtype=tl.float32)
    for chunk in tl.range(0, chunks, num_stages=3):
        where = (head * chunks + chunk) * SIZE + at
        new, fade = tl.load(new_ptr + where), tl.load(fade_ptr + head * chunks + chunk)
        tl.store(out_ptr + where, state)
        state = state * fade + new


def _passed_states(small: bool) -> Launch:
    heads, chunks, size = (2, 4, 512) if small else (132, 32, 8192)
    new, fade = random(heads, chunks, size), torch.rand(heads, chunks)
    out = torch.empty_like(new)
    options = {"SIZE": size, "BLOCK": 512, "num_warps": 4}
    args = (new, fade, out, chunks)
    return Launch(passed_states_kernel, (size // 512, heads), args, (out,), options)


@triton.jit
def chunk_outputs_kernel(q_ptr, k_ptr, v_ptr, state_ptr, out_ptr, CHUNK: tl.constexpr, DIM: tl.constexpr):
    """Results of linear attention, from the states before chunks and the chunks themselves. Bound by DRAM."""
    offs, dims = tl.arange(0, CHUNK), tl.arange(0, DIM)
    at = tl.program_id(0) * CHUNK * DIM + offs[:, None] * DIM + dims[None, :]
    q, k, v = tl.load(q_ptr + at), tl.load(k_ptr + at), tl.load(v_ptr + at)
    state = tl.load(state_ptr + tl.program_id(0) * DIM * DIM + dims[:, None] * DIM + dims[None, :])
    share = tl.where(offs[:, None] >= offs[None, :], tl.dot(q, tl.trans(k)), 0.0).to(tl.bfloat16)
    out = tl.dot(share, v, tl.dot(q, state))
    tl.store(out_ptr + at, out.to(tl.bfloat16))


def _chunk_outputs(small: bool) -> Launch:
    chunks = 2 if small else 8448
    q, k, v, state = (random(chunks, 64, 64, dtype=torch.bfloat16) * 0.3 for _ in range(4))
    out = torch.empty_like(v)
    options = {"CHUNK": 64, "DIM": 64, "num_warps": 4}
    return Launch(chunk_outputs_kernel, (chunks,), (q, k, v, state, out), (out,), options)


@triton.jit
def state_step_kernel(
    state_ptr, q_ptr, k_ptr, v_ptr, fade_ptr, new_ptr, out_ptr, DIM: tl.constexpr, BLOCK: tl.constexpr
):
    """A token's step of a matrix memory: it fades, gets a product added, and is read. Bound by DRAM."""
    head, dims = tl.program_id(1), tl.arange(0, DIM)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = head * DIM * DIM + dims[:, None] * DIM + column[None, :]
    q, k = tl.load(q_ptr + head * DIM + dims), tl.load(k_ptr + head * DIM + dims)
    v, fade = tl.load(v_ptr + head * DIM + column), tl.load(fade_ptr + head)
    state = tl.load(state_ptr + at) * fade + k[:, None] * v[None, :]
    tl.store(new_ptr + at, state)
    tl.store(out_ptr + head * DIM + column, tl.sum(state * q[:, None], 0))


def _state_step(small: bool) -> Launch:
    heads = 2 if small else 4224
    state, fade = random(heads, 128, 128), torch.rand(heads)
    q, k, v = (random(heads, 128) for _ in range(3))
    new, out = torch.empty_like(state), empty(heads, 128)
    options = {"DIM": 128, "BLOCK": 32, "num_warps": 4}
    args = (state, q, k, v, fade, new, out)
    return Launch(state_step_kernel, (4, heads), args, (new, out), options)


@triton.jit
def gradient_sums_kernel(o_ptr, grad_ptr, out_ptr, DIM: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of attention's results times their gradients, which its backward pass needs. Bound by DRAM."""
    row, dims = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, DIM)
    at = row[:, None] * DIM + dims[None, :]
    o, grad = tl.load(o_ptr + at).to(tl.float32), tl.load(grad_ptr + at).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(o * grad, 1))


def _gradient_sums(small: bool) -> Launch:
    rows = 128 if small else 540672
    o, grad = (random(rows, 128, dtype=torch.float16) for _ in range(2))
    out = empty(rows)
    options = {"DIM": 128, "BLOCK": 32, "num_warps": 4}
    return Launch(gradient_sums_kernel, (rows // 32,), (o, grad, out), (out,), options)


@triton.jit
def late_interaction_kernel(
    q_ptr, word_ptr, out_ptr, QUERY: tl.constexpr, WORDS: tl.constexpr, DIM: tl.constexpr
):
    """Sums of the best match of each word of a query in each document. Bound by DRAM."""
    words, dims, query = tl.arange(0, WORDS), tl.arange(0, DIM), tl.arange(0, QUERY)
    word = tl.load(word_ptr + (tl.program_id(0) * WORDS + words)[:, None] * DIM + dims[None, :])
    q = tl.load(q_ptr + query[None, :] * DIM + dims[:, None])
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.max(tl.dot(word, q), 0), 0))


def _late_interaction(small: bool) -> Launch:
    documents = 3 if small else 12672
    q, word = random(32, 128, dtype=torch.float16), random(documents, 128, 128, dtype=torch.float16)
    out = empty(documents)
    options = {"QUERY": 32, "WORDS": 128, "DIM": 128, "num_warps": 4}
    return Launch(late_interaction_kernel, (documents,), (q, word, out), (out,), options)


@triton.jit
def cached_keys_kernel(
    k_ptr, cosine_ptr, sine_ptr, slot_ptr, cache_ptr, HEADS: tl.constexpr, HALF: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Keys turned by the angles of their places, and written to the slots of a cache. Bound by DRAM."""
    row, dims = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, HALF)
    token = row // HEADS
    at = row[:, None] * (2 * HALF) + dims[None, :]
    angle = token[:, None] * HALF + dims[None, :]
    one, two = tl.load(k_ptr + at).to(tl.float32), tl.load(k_ptr + at + HALF).to(tl.float32)
    cosine, sine = tl.load(cosine_ptr + angle).to(tl.float32), tl.load(sine_ptr + angle).to(tl.float32)
    slot = tl.load(slot_ptr + token) * HEADS + row % HEADS
    to = slot[:, None] * (2 * HALF) + dims[None, :]
    tl.store(cache_ptr + to, (one * cosine - two * sine).to(tl.float16))
    tl.store(cache_ptr + to + HALF, (two * cosine + one * sine).to(tl.float16))


def _cached_keys(small: bool) -> Launch:
    tokens = 32 if small else 67584
    k, cache = random(tokens, 8, 128, dtype=torch.float16), empty(tokens, 8, 128, dtype=torch.float16)
    angle = torch.rand(tokens, 64) * 6.0
    cosine, sine = torch.cos(angle).to(torch.float16), torch.sin(angle).to(torch.float16)
    slot = torch.randperm(tokens).int()
    options = {"HEADS": 8, "HALF": 64, "BLOCK": 32, "num_warps": 4}
    args = (k, cosine, sine, slot, cache)
    return Launch(cached_keys_kernel, (tokens * 8 // 32,), args, (cache,), options)


@triton.jit
def prompt_gradient_kernel(
    q_ptr, k_ptr, v_ptr, grad_ptr, peak_ptr, delta_ptr, out_ptr, length, DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Gradients of attention's queries. Bound by tensor cores and exponentials."""
    head = tl.program_id(1)
    base = head.to(tl.int64) * length * DIM
    offs_m, offs_n = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    queries = base + offs_m[:, None] * DIM + dims[None, :]
    q, grad = tl.load(q_ptr + queries), tl.load(grad_ptr + queries)
    peak, delta = tl.load(peak_ptr + head * length + offs_m), tl.load(delta_ptr + head * length + offs_m)
    acc = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(0, length, BLOCK_N):
        keys = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        k, v = tl.load(k_ptr + keys), tl.load(v_ptr + keys)
        share = tl.exp2(tl.dot(q, tl.trans(k)) * 0.1803369 - peak[:, None])
        slope = share * (tl.dot(grad, tl.trans(v)) - delta[:, None])
        acc = tl.dot(slope.to(tl.bfloat16), k, acc)
    tl.store(out_ptr + queries, acc.to(tl.bfloat16))


def _prompt_gradient(small: bool) -> Launch:
    heads, length = (1, 128) if small else (66, 2048)
    q, k, v, grad = (random(heads, length, 64, dtype=torch.bfloat16) for _ in range(4))
    peak, delta = torch.rand(heads, length) + 8.0, random(heads, length)
    out = torch.empty_like(q)
    options = {"DIM": 64, "BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3}
    args = (q, k, v, grad, peak, delta, out, length)
    return Launch(prompt_gradient_kernel, (length // 128, heads), args, (out,), options)


def _case(name: str, prepare: Prepare, least: int = 80) -> Case:
    return Case(name, (), (), True, prepare, least=least, round=6)


CASES = (
    _case("good narrow adapter", _narrow_adapter),
    _case("good blocks on a diagonal", _diagonal_blocks),
    _case("good layer of patches", _patch_layer),
    _case("good polynomial of a matrix", _matrix_polynomial),
    _case("good TMA batch", _described_batch, least=90),
    _case("good unpacked weights", _unpacked_weights),
    _case("good continued prompt", _continued_prompt),
    _case("good passed states", _passed_states),
    _case("good outputs of chunks", _chunk_outputs),
    _case("good step of a memory", _state_step),
    _case("good sums of gradients", _gradient_sums),
    _case("good late interaction", _late_interaction),
    _case("good cached keys", _cached_keys),
    _case("good prompt gradients", _prompt_gradient),
)
