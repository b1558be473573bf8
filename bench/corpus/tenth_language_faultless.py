"""Tenth round, kernels of language models without a fault: optimisers, caches, windows, adapters, drafts."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faultless_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def lion_kernel(weight_ptr, moment_ptr, grad_ptr, rate, decay, BLOCK: tl.constexpr):
    """A step of Lion: the sign of a momentum, and the weights' decay. Bound by DRAM."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    weight, moment = tl.load(weight_ptr + at), tl.load(moment_ptr + at)
    grad = tl.load(grad_ptr + at)
    blend = moment + 0.1 * (grad - moment)
    sign = tl.where(blend > 0.0, 1.0, tl.where(blend < 0.0, -1.0, 0.0))
    tl.store(weight_ptr + at, weight - rate * (sign + decay * weight))
    tl.store(moment_ptr + at, moment + 0.01 * (grad - moment))


def _lion(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        size = 4 * block if small else 1 << 26
        weight, moment, grad = (random(size) for _ in range(3))
        options = {"BLOCK": block, "num_warps": num_warps}
        args = (weight, moment, grad, 3e-4, 0.1)
        return Launch(lion_kernel, (size // block,), args, (weight, moment), options)

    return prepare


@triton.jit
def forked_pages_kernel(key_ptr, value_ptr, from_ptr, to_ptr, PAGE: tl.constexpr, BLOCK: tl.constexpr):
    """Pages of keys and values copied for texts that fork, before they are written to. Bound by DRAM."""
    pair, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source = tl.load(from_ptr + pair).to(tl.int64) * PAGE + at
    target = tl.load(to_ptr + pair).to(tl.int64) * PAGE + at
    key, value = tl.load(key_ptr + source), tl.load(value_ptr + source)
    tl.store(key_ptr + target, key)
    tl.store(value_ptr + target, value)


def _forked_pages(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pairs, page = (3, 8192) if small else (6144, 16384)
        key, value = (random(2 * pairs, page, dtype=torch.bfloat16) for _ in range(2))
        source = torch.randperm(pairs, dtype=torch.int32)
        target = pairs + torch.randperm(pairs, dtype=torch.int32)
        options = {"PAGE": page, "BLOCK": block, "num_warps": num_warps}
        args = (key, value, source, target)
        return Launch(forked_pages_kernel, (page // block, pairs), args, (key, value), options)

    return prepare


@triton.jit
def _windowed(
    query, key_at, value_at, start, token, window, peak, mass, total, scale, KEYS: tl.constexpr,
    DIM: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    score = tl.dot(query, tl.load(key_at + start * DIM)) * scale
    if EDGE:
        away = token[:, None] - (start + tl.arange(0, KEYS))[None, :]
        score = tl.where((away >= 0) & (away < window), score, -1e30)
    higher = tl.maximum(peak, tl.max(score, 1))
    chance, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak - higher)
    total = tl.dot(chance.to(tl.bfloat16), tl.load(value_at + start * DIM), total * fade[:, None])
    return higher, mass * fade + tl.sum(chance, 1), total


@triton.jit
def near_attention_kernel(
    query_ptr, key_ptr, value_ptr, out_ptr, tokens, window, scale, QUERIES: tl.constexpr,
    KEYS: tl.constexpr, DIM: tl.constexpr, SHARING: tl.constexpr,
):  # fmt: skip
    """Causal attention to the last keys only, a window of whole blocks (Mistral). Bound by tensor cores."""
    head, first = tl.program_id(1), tl.program_id(0) * QUERIES
    dim, near, token = tl.arange(0, DIM), tl.arange(0, KEYS), first + tl.arange(0, QUERIES)
    at = (head.to(tl.int64) * tokens + token[:, None]) * DIM + dim[None, :]
    base = (head // SHARING).to(tl.int64) * tokens * DIM
    key_at = key_ptr + base + near[None, :] * DIM + dim[:, None]
    value_at = value_ptr + base + near[:, None] * DIM + dim[None, :]
    query = tl.load(query_ptr + at)
    peak = tl.full((QUERIES,), -1e30, dtype=tl.float32)
    mass = tl.zeros((QUERIES,), dtype=tl.float32)
    total = tl.zeros((QUERIES, DIM), dtype=tl.float32)
    far, inner = tl.maximum(first - window, 0), tl.maximum(first - window + QUERIES, 0)
    for start in range(first, first + QUERIES, KEYS):
        peak, mass, total = _windowed(
            query, key_at, value_at, start, token, window, peak, mass, total, scale, KEYS, DIM, True
        )
    for start in range(inner, first, KEYS):
        peak, mass, total = _windowed(
            query, key_at, value_at, start, token, window, peak, mass, total, scale, KEYS, DIM, False
        )
    for start in range(far, inner, KEYS):
        peak, mass, total = _windowed(
            query, key_at, value_at, start, token, window, peak, mass, total, scale, KEYS, DIM, True
        )
    tl.store(out_ptr + at, (total / mass[:, None]).to(tl.bfloat16))


def _near_attention(queries: int, keys: int, num_warps: int, num_stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, tokens, window = (2, 512, 256) if small else (32, 16384, 2048)
        query = random(heads, tokens, 128, dtype=torch.bfloat16)
        key, value = (random(max(1, heads // 4), tokens, 128, dtype=torch.bfloat16) for _ in range(2))
        out = torch.empty_like(query)
        args = (query, key, value, out, tokens, window, 1.442695 / 128**0.5)
        options = {"QUERIES": queries, "KEYS": keys, "DIM": 128, "SHARING": heads // len(key)}
        options |= {"num_warps": num_warps, "num_stages": num_stages}
        return Launch(near_attention_kernel, (tokens // queries, heads), args, (out,), options)

    return prepare


@triton.jit
def shared_exponents_kernel(x_ptr, code_ptr, scale_ptr, GROUPS: tl.constexpr):
    """Gradients as float8, with a power of two for each 32 of them (MXFP8). Bound by DRAM."""
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    at = group[:, None] * 32 + tl.arange(0, 32)[None, :]
    x = tl.load(x_ptr + at).to(tl.float32)
    largest = tl.max(tl.abs(x), 1).to(tl.int32, bitcast=True)
    exponent = tl.maximum((largest >> 23) - 15, 1)
    inverse = ((254 - exponent) << 23).to(tl.float32, bitcast=True)
    code = tl.minimum(tl.maximum(x * inverse[:, None], -57344.0), 57344.0)
    tl.store(code_ptr + at, code.to(tl.float8e5))
    tl.store(scale_ptr + group, exponent.to(tl.uint8))


def _shared_exponents(groups: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, dims = (8, 2048) if small else (16384, 16384)
        x = random(tokens, dims, dtype=torch.bfloat16)
        code = empty(tokens, dims, dtype=torch.float8_e5m2)
        scale = empty(tokens, dims // 32, dtype=torch.uint8)
        options = {"GROUPS": groups, "num_warps": num_warps}
        grid = (tokens * dims // 32 // groups,)
        return Launch(shared_exponents_kernel, grid, (x, code, scale), (code, scale), options)

    return prepare


@triton.jit
def settled_adapter_kernel(
    weight_ptr, down_ptr, up_ptr, out_ptr, depth, scale, RANK: tl.constexpr, ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """An adapter of low rank added to the weights that it adapts. Bound by DRAM."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inner, rank = tl.program_id(0) * DEPTH + tl.arange(0, DEPTH), tl.arange(0, RANK)
    at = row[:, None].to(tl.int64) * depth + inner[None, :]
    weight = tl.load(weight_ptr + at)
    up = tl.load(up_ptr + row[:, None] * RANK + rank[None, :])
    down = tl.load(down_ptr + rank[:, None] * depth + inner[None, :])
    change = tl.dot(up, down) * scale
    tl.store(out_ptr + at, (weight.to(tl.float32) + change).to(tl.bfloat16))


def _settled_adapter(rows: int, depth_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        columns, depth = (256, 512) if small else (28672, 8192)
        weight = random(columns, depth, dtype=torch.bfloat16)
        down, up = random(32, depth, dtype=torch.bfloat16), random(columns, 32, dtype=torch.bfloat16)
        out = torch.empty_like(weight)
        options = {"RANK": 32, "ROWS": rows, "DEPTH": depth_of_program, "num_warps": num_warps}
        grid = (depth // depth_of_program, columns // rows)
        return Launch(settled_adapter_kernel, grid, (weight, down, up, out, depth, 0.5), (out,), options)

    return prepare


@triton.jit
def _rounded(x_ptr, out_ptr, at, chance):
    bits = tl.load(x_ptr + at).to(tl.uint32, bitcast=True) + (chance.to(tl.uint32, bitcast=True) >> 16)
    tl.store(out_ptr + at, (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True))


@triton.jit
def chance_rounding_kernel(x_ptr, out_ptr, seed, BLOCK: tl.constexpr):
    """Weights rounded up or down by chance; a draw of Philox serves four of them. Bound by DRAM."""
    lane = tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, tl.program_id(0) * BLOCK + lane)
    at = tl.program_id(0).to(tl.int64) * (4 * BLOCK) + lane
    _rounded(x_ptr, out_ptr, at, a)
    _rounded(x_ptr, out_ptr, at + BLOCK, b)
    _rounded(x_ptr, out_ptr, at + 2 * BLOCK, c)
    _rounded(x_ptr, out_ptr, at + 3 * BLOCK, d)


def _chance_rounding(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        size = 16 * block if small else 1 << 28
        x, out = random(size), empty(size, dtype=torch.bfloat16)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(chance_rounding_kernel, (size // block // 4,), (x, out, 7), (out,), options)

    return prepare


@triton.jit
def left_chances_kernel(target_ptr, draft_ptr, out_ptr, ROWS: tl.constexpr, WORDS: tl.constexpr):
    """Chances left to words after a draft was rejected (speculative decoding). Bound by DRAM."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    at = row * WORDS + tl.arange(0, WORDS)[None, :]
    left = tl.maximum(tl.load(target_ptr + at) - tl.load(draft_ptr + at), 0.0)
    tl.store(out_ptr + at, left * (1.0 / tl.sum(left, 1))[:, None])


def _left_chances(rows_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, words = (4, 2048) if small else (16384, 8192)
        target, draft = (torch.softmax(2.0 * random(rows, words), 1) for _ in range(2))
        out = torch.empty_like(target)
        options = {"ROWS": rows_of_program, "WORDS": words, "num_warps": num_warps}
        grid = (rows // rows_of_program,)
        return Launch(left_chances_kernel, grid, (target, draft, out), (out,), options)

    return prepare


@triton.jit
def absorbed_queries_kernel(
    query_ptr, weight_ptr, out_ptr, heads, DIM: tl.constexpr, LATENT: tl.constexpr, TOKENS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Queries of heads taken to the latents that keys are made of, once for a token (MLA). Bound by DRAM."""
    parts: tl.constexpr = LATENT // COLUMNS
    head = tl.program_id(0) // parts
    column = tl.program_id(0) % parts * COLUMNS + tl.arange(0, COLUMNS)
    token, dim = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, DIM)
    row = token[:, None] * heads + head
    query = tl.load(query_ptr + row * DIM + dim[None, :])
    weight = tl.load(weight_ptr + (head * DIM + dim[:, None]) * LATENT + column[None, :])
    latent = tl.dot(query, weight)
    tl.store(out_ptr + row.to(tl.int64) * LATENT + column[None, :], latent.to(tl.bfloat16))


def _absorbed_queries(tokens_of_program: int, columns: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, heads, latent = (128, 2, 256) if small else (8192, 64, 512)
        query = random(tokens, heads, 128, dtype=torch.bfloat16)
        weight = 0.1 * random(heads, 128, latent, dtype=torch.bfloat16)
        out = empty(tokens, heads, latent, dtype=torch.bfloat16)
        options = {"DIM": 128, "LATENT": latent, "TOKENS": tokens_of_program, "COLUMNS": columns}
        grid = (heads * latent // columns, tokens // tokens_of_program)
        args = (query, weight, out, heads)
        return Launch(absorbed_queries_kernel, grid, args, (out,), options | {"num_warps": num_warps})

    return prepare


_good = faultless_of(10)

CASES = (
    _good("good step of Lion", _lion(2048, 8)),
    _good("good pages of forked texts", _forked_pages(4096, 8)),
    _good("good attention to the last keys", _near_attention(64, 64, 4, 3)),
    _good("good gradients of shared exponents", _shared_exponents(128, 4)),
    _good("good adapter added for good", _settled_adapter(64, 128, 4)),
    _good("good rounding by chance", _chance_rounding(512, 4)),
    _good("good chances left by drafts", _left_chances(2, 32)),
    _good("good queries of latents", _absorbed_queries(64, 128, 4)),
)
