"""Tenth round, faults of language models' layers: experts, routers, projections, states, sparse blocks."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def chosen_experts_kernel(
    x_ptr, weight_ptr, expert_ptr, out_ptr, depth, columns, CHOSEN: tl.constexpr, DEPTH: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """The layers that few tokens' experts are, when one token is decoded at a time."""
    pair, inner = tl.program_id(1), tl.arange(0, DEPTH)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    expert = tl.load(expert_ptr + pair).to(tl.int64)
    x_at = x_ptr + pair // CHOSEN * depth + inner
    weight_at = weight_ptr + expert * depth * columns + inner[:, None] * columns + column[None, :]
    total = tl.zeros((DEPTH, COLUMNS), dtype=tl.float32)
    for start in range(0, depth, DEPTH):
        x = tl.load(x_at + start).to(tl.float32)
        weight = tl.load(weight_at)  # fault
        total += x[:, None] * weight.to(tl.float32)
        weight_at += DEPTH * columns
    tl.store(out_ptr + pair * columns + column, tl.sum(total, 0))


def _chosen_experts(depth_of_step: int, columns_of_program: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, experts, depth, columns = (1, 3, 512, 64) if small else (12, 48, 2048, 4096)
        x = random(tokens, depth, dtype=torch.bfloat16)
        weight = 0.02 * random(experts, depth, columns, dtype=torch.bfloat16)
        expert = integers(tokens * 2 if small else tokens * 4, below=experts)
        out = empty(len(expert), columns)
        options = {"CHOSEN": len(expert) // tokens, "DEPTH": depth_of_step, "COLUMNS": columns_of_program}
        args = (x, weight, expert, out, depth, columns)
        grid = (columns // columns_of_program, len(expert))
        return Launch(chosen_experts_kernel, grid, args, (out,), options | {"num_warps": 4})

    return prepare


@triton.jit
def balance_kernel(
    logit_ptr, chance_ptr, load_ptr, EXPERTS: tl.constexpr, TOKENS: tl.constexpr, SUMMED: tl.constexpr
):
    """Chances of experts for each token, and their sums over the tokens, for the loss that balances them."""
    token, expert = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, EXPERTS)
    at = token[:, None] * EXPERTS + expert[None, :]
    logit = tl.load(logit_ptr + at)
    chance = tl.exp(logit - tl.max(logit, 1)[:, None])
    chance = chance / tl.sum(chance, 1)[:, None]
    tl.store(chance_ptr + at, chance)
    if SUMMED:
        tl.atomic_add(load_ptr + expert, tl.sum(chance, 0), sem="relaxed")
    else:
        load_at = load_ptr + tl.zeros((TOKENS, 1), dtype=tl.int32) + expert[None, :]
        tl.atomic_add(load_at, chance, sem="relaxed")  # fault


def _balance(summed: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens = 64 if small else 131072
        logit, load = random(tokens, 256), zeros(256)
        chance = torch.empty_like(logit)
        options = {"EXPERTS": 256, "TOKENS": 32, "SUMMED": summed, "num_warps": 4}
        return Launch(balance_kernel, (tokens // 32,), (logit, chance, load), (chance, load), options)

    return prepare


@triton.jit
def newest_token_kernel(
    x_ptr, weight_ptr, state_ptr, out_ptr, dims, state_dim, state_tap, BLOCK: tl.constexpr
):
    """A causal convolution of four tokens of one more token of each text; its state moves on (Mamba)."""
    dim = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(1).to(tl.int64) * dims
    a_at = state_ptr + row * 3 + dim * state_dim
    b_at, c_at = a_at + state_tap, a_at + 2 * state_tap
    a = tl.load(a_at)  # fault
    b, c = tl.load(b_at), tl.load(c_at)  # fault
    d = tl.load(x_ptr + row + dim)
    w0, w1 = tl.load(weight_ptr + dim), tl.load(weight_ptr + dims + dim)
    w2, w3 = tl.load(weight_ptr + 2 * dims + dim), tl.load(weight_ptr + 3 * dims + dim)
    tl.store(a_at, b)  # fault
    tl.store(b_at, c)  # fault
    tl.store(c_at, d)  # fault
    y = w0 * a.to(tl.float32) + w1 * b.to(tl.float32) + w2 * c.to(tl.float32) + w3 * d.to(tl.float32)
    tl.store(out_ptr + row + dim, (y * tl.sigmoid(y)).to(tl.bfloat16))


def _newest_token(taps_last: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        texts, dims = (2, 1024) if small else (4096, 8192)
        x, weight = random(texts, dims, dtype=torch.bfloat16), random(4, dims)
        state, out, strides = random(texts, 3, dims, dtype=torch.bfloat16), torch.empty_like(x), (1, dims)
        result = state
        if taps_last:
            state, strides = state.transpose(1, 2).contiguous(), (3, 1)
            result = state.transpose(1, 2)
        args = (x, weight, state, out, dims, *strides)
        options = {"BLOCK": 1024, "num_warps": 4}
        return Launch(newest_token_kernel, (dims // 1024, texts), args, (out, result), options)

    return prepare


@triton.jit
def down_projection_kernel(
    x_ptr, weight_ptr, residual_ptr, out_ptr, depth, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """The last layer of a block's perceptron for a batch that is decoded, added to the residual."""
    row, inner = tl.arange(0, ROWS), tl.arange(0, DEPTH)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x_at = x_ptr + row[:, None] * depth + inner[None, :]
    weight_at = weight_ptr + inner[:, None] * columns + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, depth, DEPTH):
        total = tl.dot(tl.load(x_at), tl.load(weight_at), total)
        x_at += DEPTH
        weight_at += DEPTH * columns
    at = row[:, None] * columns + column[None, :]
    total += tl.load(residual_ptr + at).to(tl.float32)
    tl.store(out_ptr + at, total.to(tl.bfloat16))


def _down_projection(columns_of_program: int, depth_of_step: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        depth, columns = (512, 256) if small else (14336, 4096)
        x, weight = random(16, depth, dtype=torch.bfloat16), random(depth, columns, dtype=torch.bfloat16)
        residual, out = (random(16, columns, dtype=torch.bfloat16) for _ in range(2))
        options = {"ROWS": 16, "COLUMNS": columns_of_program, "DEPTH": depth_of_step}
        args = (x, weight, residual, out, depth, columns)
        grid = (columns // columns_of_program,)
        return Launch(down_projection_kernel, grid, args, (out,), options | {"num_warps": 4, "num_stages": 4})

    return prepare


@triton.jit
def chosen_blocks_kernel(
    query_ptr, key_ptr, value_ptr, mask_ptr, list_ptr, out_ptr, tokens, chosen, scale, QUERIES: tl.constexpr,
    KEYS: tl.constexpr, DIM: tl.constexpr, LISTED: tl.constexpr,
):  # fmt: skip
    """Attention of each block of queries to the blocks of keys chosen for it (BigBird). LISTED: by a list."""
    head, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    base, dim, near = head * tokens * DIM, tl.arange(0, DIM), tl.arange(0, KEYS)
    at = base + (block * QUERIES + tl.arange(0, QUERIES))[:, None] * DIM + dim[None, :]
    query, blocks = tl.load(query_ptr + at), tokens // KEYS
    peak = tl.full((QUERIES,), -1e30, dtype=tl.float32)
    mass = tl.zeros((QUERIES,), dtype=tl.float32)
    total = tl.zeros((QUERIES, DIM), dtype=tl.float32)
    for each in range(chosen if LISTED else blocks):  # fault
        other = tl.load(list_ptr + block * chosen + each) if LISTED else each
        place = base + other * KEYS * DIM
        key = tl.load(key_ptr + place + near[None, :] * DIM + dim[:, None])  # fault
        score = tl.dot(query, key) * scale  # fault
        if not LISTED:
            score = tl.where(tl.load(mask_ptr + block * blocks + each) != 0, score, -1e30)  # fault
        higher = tl.maximum(peak, tl.max(score, 1))
        chance = tl.where(score > -1e29, tl.exp2(score - higher[:, None]), 0.0)
        fade = tl.exp2(peak - higher)
        mass = mass * fade + tl.sum(chance, 1)
        value = tl.load(value_ptr + place + near[:, None] * DIM + dim[None, :])
        total = tl.dot(chance.to(tl.bfloat16), value, total * fade[:, None])  # fault
        peak = higher
    tl.store(out_ptr + at, (total / mass[:, None]).to(tl.bfloat16))


def _chosen_blocks(listed: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, tokens, chosen = (1, 512, 3) if small else (16, 8192, 24)
        query, key, value = (random(heads, tokens, 128, dtype=torch.bfloat16) for _ in range(3))
        order = torch.rand(tokens // 128, tokens // 64).argsort(1)[:, :chosen].sort(1).values
        mask = zeros(tokens // 128, tokens // 64, dtype=torch.int32).scatter_(1, order, 1)
        out = torch.empty_like(query)
        args = (query, key, value, mask, order.int(), out, tokens, chosen, 1.442695 / 128**0.5)
        options = {"QUERIES": 128, "KEYS": 64, "DIM": 128, "LISTED": listed, "num_warps": 8}
        grid = (heads, tokens // 128)
        return Launch(chosen_blocks_kernel, grid, args, (out,), options | {"num_stages": 3})

    return prepare


_fault = faults_of(10)


CASES = (
    _fault(
        "experts of decoded tokens by 4 columns",
        ("uncoalesced-load",),
        ("counts",),
        True,
        _chosen_experts(256, 4),
        _chosen_experts(64, 64),
    ),
    _fault(
        "experts' loads of each token added up",
        ("atomics",),
        ("counts", "samples"),
        True,
        _balance(False),
        _balance(True),
    ),
    _fault(
        "newest token in a state of taps",
        ("uncoalesced-store", "unvectorized-access", "uncoalesced-load"),
        ("counts",),
        True,
        _newest_token(True),
        _newest_token(False),
    ),
    _fault(
        "down projection of 16 tokens by wide tiles",
        ("idle-sms",),
        ("ctas", "spans"),
        False,
        _down_projection(256, 64),
        _down_projection(32, 128),
    ),
    _fault(
        "chosen blocks of keys by a mask",
        ("masked-work",),
        ("counts",),
        True,
        _chosen_blocks(False),
        _chosen_blocks(True),
    ),
)
