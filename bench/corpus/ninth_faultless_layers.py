"""Ninth round, kernels of language models and diffusion without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, empty, faultless_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def joined_keys_kernel(
    head_ptr, place_ptr, out_ptr, HEADS: tl.constexpr, WIDE: tl.constexpr, NARROW: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """Keys of a head, followed by the part with positions that all heads share (MLA). Bound by DRAM."""
    token = tl.program_id(1)
    head = tl.program_id(0) * GROUP + tl.arange(0, GROUP)
    row = token.to(tl.int64) * HEADS + head[:, None]
    wide, narrow = tl.arange(0, WIDE)[None, :], tl.arange(0, NARROW)
    place = tl.load(place_ptr + token * NARROW + narrow)[None, :]
    tl.store(out_ptr + row * (WIDE + NARROW) + wide, tl.load(head_ptr + row * WIDE + wide))
    place = tl.broadcast_to(place, (GROUP, NARROW))
    tl.store(out_ptr + row * (WIDE + NARROW) + WIDE + narrow[None, :], place)


def _joined_keys(small: bool) -> Launch:
    tokens, heads = (8, 64) if small else (8192, 128)
    head, place = random(tokens, heads, 128, dtype=torch.bfloat16), random(tokens, 64, dtype=torch.bfloat16)
    out = empty(tokens, heads, 192, dtype=torch.bfloat16)
    options = {"HEADS": heads, "WIDE": 128, "NARROW": 64, "GROUP": 32, "num_warps": 4}
    return Launch(joined_keys_kernel, (heads // 32, tokens), (head, place, out), (out,), options)


@triton.jit
def likely_words_kernel(logit_ptr, out_ptr, words, least, BLOCK: tl.constexpr):
    """Logits of words that are not far less likely than the best (min-p). Bound by DRAM."""
    lane = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * words + lane
    logit = tl.load(logit_ptr + at, mask=lane < words, other=-1e30)
    kept = tl.where(logit >= tl.max(logit, 0) + least, logit, -1e4)
    tl.store(out_ptr + at, kept, mask=lane < words)


def _likely_words(small: bool) -> Launch:
    rows, words = (4, 8000) if small else (4096, 16000)
    logit = random(rows, words)
    out = torch.empty_like(logit)
    block = triton.next_power_of_2(words)
    options = {"BLOCK": block, "num_warps": block // 1024}
    return Launch(likely_words_kernel, (rows,), (logit, out, words, -3.0), (out,), options)


@triton.jit
def table_weights_kernel(code_ptr, table_ptr, scale_ptr, out_ptr, GROUPS: tl.constexpr, HALF: tl.constexpr):
    """Weights of four bits, by a table and a scale for each group of them (NF4). Bound by DRAM."""
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)[:, None]
    code = tl.load(code_ptr + group * HALF + tl.arange(0, HALF)[None, :])
    first, second = tl.load(table_ptr + (code >> 4)), tl.load(table_ptr + (code & 15))
    weight = tl.interleave(first, second) * tl.load(scale_ptr + group)
    tl.store(out_ptr + group * (2 * HALF) + tl.arange(0, 2 * HALF)[None, :], weight.to(tl.bfloat16))


def _table_weights(small: bool) -> Launch:
    groups = 256 if small else 1 << 22
    code = torch.randint(256, (groups, 32), dtype=torch.uint8)
    table = torch.erfinv(torch.linspace(-0.94, 0.94, 16))
    scale, out = 0.1 + torch.rand(groups), empty(groups, 64, dtype=torch.bfloat16)
    args = (code, table, scale, out)
    return Launch(
        table_weights_kernel, (groups // 64,), args, (out,), {"GROUPS": 64, "HALF": 32, "num_warps": 4}
    )


@triton.jit
def _attended(
    query, key_at, value_at, start, token, peak, mass, total, scale, KEYS: tl.constexpr, DIM: tl.constexpr,
    DIAGONAL: tl.constexpr,
):  # fmt: skip
    score = tl.dot(query, tl.load(key_at + start * DIM)) * scale
    if DIAGONAL:
        other = start + tl.arange(0, KEYS)
        score = tl.where(other[None, :] <= token[:, None], score, -1e30)
    higher = tl.maximum(peak, tl.max(score, 1))
    chance, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak - higher)
    total = tl.dot(chance.to(tl.bfloat16), tl.load(value_at + start * DIM), total * fade[:, None])
    return higher, mass * fade + tl.sum(chance, 1), total


@triton.jit
def sink_attention_kernel(
    query_ptr, key_ptr, value_ptr, sink_ptr, out_ptr, tokens, scale, QUERIES: tl.constexpr,
    KEYS: tl.constexpr, DIM: tl.constexpr, SHARING: tl.constexpr,
):  # fmt: skip
    """Causal attention, each head of which may attend to nothing (gpt-oss). Bound by the tensor cores."""
    head, block = tl.program_id(0), tl.num_programs(1) - 1 - tl.program_id(1)
    first, dim, near = block * QUERIES, tl.arange(0, DIM), tl.arange(0, KEYS)
    token = first + tl.arange(0, QUERIES)
    at = (head.to(tl.int64) * tokens + token[:, None]) * DIM + dim[None, :]
    base = (head // SHARING).to(tl.int64) * tokens * DIM
    key_at = key_ptr + base + near[None, :] * DIM + dim[:, None]
    value_at = value_ptr + base + near[:, None] * DIM + dim[None, :]
    query = tl.load(query_ptr + at)
    peak = tl.full((QUERIES,), 0.0, dtype=tl.float32) + tl.load(sink_ptr + head) * 1.442695
    mass = tl.full((QUERIES,), 1.0, dtype=tl.float32)
    total = tl.zeros((QUERIES, DIM), dtype=tl.float32)
    for start in range(first, first + QUERIES, KEYS):
        peak, mass, total = _attended(
            query, key_at, value_at, start, token, peak, mass, total, scale, KEYS, DIM, True
        )
    for start in range(0, first, KEYS):
        peak, mass, total = _attended(
            query, key_at, value_at, start, token, peak, mass, total, scale, KEYS, DIM, False
        )
    tl.store(out_ptr + at, (total / mass[:, None]).to(tl.bfloat16))


def _sink_attention(small: bool) -> Launch:
    heads, tokens = (2, 384) if small else (32, 8192)
    query = random(heads, tokens, 128, dtype=torch.bfloat16)
    key, value = (random(heads // 2, tokens, 128, dtype=torch.bfloat16) for _ in range(2))
    sink, out = random(heads), torch.empty_like(query)
    args = (query, key, value, sink, out, tokens, 1.442695 / 128**0.5)
    options = {"QUERIES": 128, "KEYS": 64, "DIM": 128, "SHARING": 2, "num_warps": 8, "num_stages": 3}
    return Launch(sink_attention_kernel, (heads, tokens // 128), args, (out,), options)


@triton.jit
def experts_layer_kernel(
    x_ptr, weight_ptr, token_ptr, expert_ptr, out_ptr, depth, columns, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """A layer of experts, whose tokens are gathered block by block. Bound by the tensor cores."""
    down, across = tl.program_id(0) % GROUP, tl.program_id(0) // GROUP
    block = tl.program_id(1) * GROUP + down
    row = block * ROWS + tl.arange(0, ROWS)
    column, inner = across * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    token, expert = tl.load(token_ptr + row), tl.load(expert_ptr + block)
    x_at = x_ptr + token[:, None] * depth + inner[None, :]
    weight_at = weight_ptr + (expert * columns + column[None, :]) * depth + inner[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    tl.assume(depth > 0)
    for start in range(0, depth, DEPTH):
        total = tl.dot(tl.load(x_at + start), tl.load(weight_at + start), total)
    tl.store(out_ptr + row[:, None] * columns + column[None, :], total.to(tl.bfloat16))


def _experts_layer(small: bool) -> Launch:
    tokens, experts, depth, columns = (64, 2, 320, 256) if small else (8192, 8, 4096, 4096)
    rows = max(256, 2 * tokens)
    x = random(tokens, depth, dtype=torch.bfloat16)
    weight = random(experts, columns, depth, dtype=torch.bfloat16)
    token = torch.cat([torch.randperm(tokens) for _ in range(rows // tokens)]).int()
    expert = torch.arange(rows // 128, dtype=torch.int32) * experts // (rows // 128)
    out, group = empty(rows, columns, dtype=torch.bfloat16), min(8, rows // 128)
    options = {"ROWS": 128, "COLUMNS": 256, "DEPTH": 64, "GROUP": group, "num_warps": 8, "num_stages": 3}
    grid = (group * columns // 256, rows // 128 // group)
    args = (x, weight, token, expert, out, depth, columns)
    return Launch(experts_layer_kernel, grid, args, (out,), options)


@triton.jit
def flow_loss_kernel(
    guess_ptr, image_ptr, noise_ptr, weight_ptr, grad_ptr, loss_ptr, size, BLOCK: tl.constexpr
):
    """The weighted loss of a guessed flow from images to noise, and its gradient. Bound by DRAM."""
    image = tl.program_id(1)
    at = image.to(tl.int64) * size + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    guess, clean = tl.load(guess_ptr + at).to(tl.float32), tl.load(image_ptr + at).to(tl.float32)
    error = guess - (tl.load(noise_ptr + at).to(tl.float32) - clean)
    weight = tl.load(weight_ptr + image)
    tl.store(grad_ptr + at, (2.0 * weight * error).to(tl.bfloat16))
    tl.store(loss_ptr + image * tl.num_programs(0) + tl.program_id(0), weight * tl.sum(error * error, 0))


def _flow_loss(small: bool) -> Launch:
    images, size = (2, 8192) if small else (64, 1 << 20)
    guess, image, noise = (random(images, size, dtype=torch.bfloat16) for _ in range(3))
    weight, grad, loss = torch.rand(images), torch.empty_like(guess), empty(images, size // 4096)
    args = (guess, image, noise, weight, grad, loss, size)
    options = {"BLOCK": 4096, "num_warps": 8}
    return Launch(flow_loss_kernel, (size // 4096, images), args, (grad, loss), options)


@triton.jit
def gate_gradients_kernel(x_ptr, grad_ptr, out_ptr, dims, BLOCK: tl.constexpr):
    """Gradients of a gated unit's two halves (SwiGLU). Bound by DRAM."""
    row, dim = tl.program_id(1).to(tl.int64), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gate_at = row * 2 * dims + dim
    gate = tl.load(x_ptr + gate_at).to(tl.float32)
    value = tl.load(x_ptr + gate_at + dims).to(tl.float32)
    grad = tl.load(grad_ptr + row * dims + dim).to(tl.float32)
    share = tl.sigmoid(gate)
    slope = share * (1.0 + gate * (1.0 - share))
    tl.store(out_ptr + gate_at, (grad * value * slope).to(tl.bfloat16))
    tl.store(out_ptr + gate_at + dims, (grad * gate * share).to(tl.bfloat16))


def _gate_gradients(small: bool) -> Launch:
    rows, dims = (4, 4096) if small else (8192, 8192)
    x, grad = random(rows, 2 * dims, dtype=torch.bfloat16), random(rows, dims, dtype=torch.bfloat16)
    out = torch.empty_like(x)
    args, options = (x, grad, out, dims), {"BLOCK": 2048, "num_warps": 8}
    return Launch(gate_gradients_kernel, (dims // 2048, rows), args, (out,), options)


@triton.jit
def score_gradients_kernel(chance_ptr, grad_ptr, out_ptr, scale, KEYS: tl.constexpr):
    """Gradients of scores before their softmax. Bound by DRAM."""
    at = tl.program_id(0).to(tl.int64) * KEYS + tl.arange(0, KEYS)
    chance, grad = tl.load(chance_ptr + at).to(tl.float32), tl.load(grad_ptr + at).to(tl.float32)
    mean = tl.sum(chance * grad, 0)
    tl.store(out_ptr + at, (scale * chance * (grad - mean)).to(tl.bfloat16))


def _score_gradients(small: bool) -> Launch:
    rows, keys = (8, 2048) if small else (32768, 4096)
    chance = torch.softmax(3.0 * random(rows, keys), 1).to(torch.bfloat16)
    grad = random(rows, keys, dtype=torch.bfloat16)
    out = torch.empty_like(grad)
    options = {"KEYS": keys, "num_warps": 4 if small else 8}
    return Launch(score_gradients_kernel, (rows,), (chance, grad, out, 0.125), (out,), options)


_good = faultless_of(9)

CASES = (
    _good("good joined keys", _joined_keys),
    _good("good likely words", _likely_words),
    _good("good weights by a table", _table_weights),
    _good("good attention with a sink", _sink_attention),
    _good("good layer of experts", _experts_layer),
    _good("good loss of a flow", _flow_loss),
    _good("good gradients of gates", _gate_gradients),
    _good("good gradients of scores", _score_gradients),
)
