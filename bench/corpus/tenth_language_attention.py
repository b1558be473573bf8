"""Tenth round, faults of language models' attention: shared out blocks, indexers, latents, positions."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def shared_out_attention_kernel(
    query_ptr, key_ptr, value_ptr, out_ptr, tokens, scale, QUERIES: tl.constexpr, KEYS: tl.constexpr,
    DIM: tl.constexpr, SHARE: tl.constexpr, FOLDED: tl.constexpr,
):  # fmt: skip
    """Causal attention by few programs, each of SHARE blocks of queries. FOLDED: of early and late ones."""
    sharers = tokens // QUERIES // SHARE
    mine, base = tl.program_id(0) % sharers, (tl.program_id(0) // sharers).to(tl.int64) * tokens * DIM
    dim, near = tl.arange(0, DIM), tl.arange(0, KEYS)
    for each in range(SHARE):
        if FOLDED:
            block = each * sharers + tl.where(each % 2 == 0, mine, sharers - 1 - mine)
        else:
            block = mine * SHARE + each  # fault
        token = block * QUERIES + tl.arange(0, QUERIES)
        at = base + token[:, None] * DIM + dim[None, :]
        query = tl.load(query_ptr + at)
        peak = tl.full((QUERIES,), -1e30, dtype=tl.float32)
        mass = tl.zeros((QUERIES,), dtype=tl.float32)
        total = tl.zeros((QUERIES, DIM), dtype=tl.float32)
        for start in range(0, (block + 1) * QUERIES, KEYS):  # fault
            other = start + near
            key = tl.load(key_ptr + base + other[None, :] * DIM + dim[:, None])
            score = tl.dot(query, key) * scale
            score = tl.where(other[None, :] <= token[:, None], score, -1e30)
            higher = tl.maximum(peak, tl.max(score, 1))
            chance, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak - higher)
            mass = mass * fade + tl.sum(chance, 1)
            value = tl.load(value_ptr + base + other[:, None] * DIM + dim[None, :])
            total = tl.dot(chance.to(tl.bfloat16), value, total * fade[:, None])
            peak = higher
        tl.store(out_ptr + at, (total / mass[:, None]).to(tl.bfloat16))


def _shared_out_attention(folded: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, tokens, share = (1, 512, 2) if small else (16, 8192, 8)
        query, key, value = (random(heads, tokens, 128, dtype=torch.bfloat16) for _ in range(3))
        out = torch.empty_like(query)
        options = {"QUERIES": 128, "KEYS": 64, "DIM": 128, "SHARE": share, "FOLDED": folded}
        args = (query, key, value, out, tokens, 1.442695 / 128**0.5)
        grid = (heads * tokens // 128 // share,)
        return Launch(
            shared_out_attention_kernel, grid, args, (out,), options | {"num_warps": 8, "num_stages": 3}
        )

    return prepare


@triton.jit
def _indexed(key, query, weight):
    score = tl.dot(key, tl.trans(query))
    return tl.sum(tl.maximum(score, 0.0) * weight[None, :], 1)


@triton.jit
def token_indexer_kernel(
    query_ptr, key_ptr, weight_ptr, out_ptr, keys, HEADS: tl.constexpr, DIM: tl.constexpr,
    KEYS: tl.constexpr, SPAN: tl.constexpr, KEYS_STAY: tl.constexpr,
):  # fmt: skip
    """How much each token wants each key, by light heads (sparse attention of DeepSeek).
    KEYS_STAY: SPAN tokens pass by a program's keys; otherwise SPAN keys pass by a token's heads."""
    head, dim, near = tl.arange(0, HEADS), tl.arange(0, DIM), tl.arange(0, KEYS)
    query_at = query_ptr + head[:, None] * DIM + dim[None, :]
    key_at = key_ptr + near[:, None] * DIM + dim[None, :]
    if KEYS_STAY:
        first, start = tl.program_id(1) * SPAN, tl.program_id(0) * KEYS
        key = tl.load(key_at + start * DIM)
        for token in range(first, first + SPAN):
            query = tl.load(query_at + token * HEADS * DIM)
            wanted = _indexed(key, query, tl.load(weight_ptr + token * HEADS + head))
            tl.store(out_ptr + token * keys + start + near, wanted)
    else:
        token, first = tl.program_id(0), tl.program_id(1) * SPAN
        query = tl.load(query_at + token * HEADS * DIM)
        weight = tl.load(weight_ptr + token * HEADS + head)
        for start in range(first, first + SPAN, KEYS):
            key = tl.load(key_at + start * DIM)  # fault
            tl.store(out_ptr + token * keys + start + near, _indexed(key, query, weight))


def _token_indexer(keys_stay: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, keys = (4, 512) if small else (2048, 16384)
        query, key = random(tokens, 64, 128, dtype=torch.bfloat16), random(keys, 128, dtype=torch.bfloat16)
        weight, out = torch.rand(tokens, 64), empty(tokens, keys)
        span = min(64, tokens) if keys_stay else keys
        block, num_warps = (256, 8) if keys_stay else (128, 4)
        grid = (keys // block, tokens // span) if keys_stay else (tokens, 1)
        options = {"HEADS": 64, "DIM": 128, "KEYS": block, "SPAN": span, "KEYS_STAY": keys_stay}
        args = (query, key, weight, out, keys)
        return Launch(
            token_indexer_kernel, grid, args, (out,), options | {"num_warps": num_warps, "num_stages": 3}
        )

    return prepare


@triton.jit
def latent_prompt_kernel(
    query_ptr, turned_ptr, key_ptr, place_ptr, value_ptr, out_ptr, tokens, scale, QUERIES: tl.constexpr,
    KEYS: tl.constexpr, DIM: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """Causal attention to a prompt, with a part for positions that heads share (MLA)."""
    head, first = tl.program_id(0), (tl.num_programs(1) - 1 - tl.program_id(1)) * QUERIES
    dim, turn, near = tl.arange(0, DIM), tl.arange(0, TURNED), tl.arange(0, KEYS)
    token, base = first + tl.arange(0, QUERIES), head.to(tl.int64) * tokens
    query = tl.load(query_ptr + (base + token[:, None]) * DIM + dim[None, :])
    turned = tl.load(turned_ptr + (base + token[:, None]) * TURNED + turn[None, :])
    peak = tl.full((QUERIES,), -1e30, dtype=tl.float32)
    mass = tl.zeros((QUERIES,), dtype=tl.float32)
    total = tl.zeros((QUERIES, DIM), dtype=tl.float32)
    for start in range(0, first + QUERIES, KEYS):
        other = start + near
        key = tl.load(key_ptr + (base + other[None, :]) * DIM + dim[:, None])
        place = tl.load(place_ptr + other[None, :] * TURNED + turn[:, None])
        score = tl.dot(turned, place, tl.dot(query, key)) * scale  # fault
        score = tl.where(other[None, :] <= token[:, None], score, -1e30)  # fault
        higher = tl.maximum(peak, tl.max(score, 1))
        chance, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak - higher)  # fault
        mass = mass * fade + tl.sum(chance, 1)
        value = tl.load(value_ptr + (base + other[:, None]) * DIM + dim[None, :])
        total = tl.dot(chance.to(tl.bfloat16), value, total * fade[:, None])  # fault
        peak = higher
    total = total / mass[:, None]
    tl.store(out_ptr + (base + token[:, None]) * DIM + dim[None, :], total.to(tl.bfloat16))


def _latent_prompt(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, tokens = (1, 256) if small else (32, 4096)
        query, key, value = (random(heads, tokens, 128, dtype=torch.bfloat16) for _ in range(3))
        turned, place = (random(n, tokens, 64, dtype=torch.bfloat16) for n in (heads, 1))
        out = torch.empty_like(query)
        args = (query, turned, key, place, value, out, tokens, 1.442695 / 192**0.5)
        options = {"QUERIES": 128, "KEYS": 128, "DIM": 128, "TURNED": 64, "num_warps": warps}
        grid = (heads, tokens // 128)
        return Launch(latent_prompt_kernel, grid, args, (out,), options | {"num_stages": 2})

    return prepare


@triton.jit
def forgetting_attention_kernel(
    query_ptr, key_ptr, value_ptr, gate_ptr, out_ptr, tokens, scale, QUERIES: tl.constexpr,
    KEYS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """Causal attention that forgets by the tokens' gates, given as sums of their logarithms (FoX)."""
    head, first = tl.program_id(0), (tl.num_programs(1) - 1 - tl.program_id(1)) * QUERIES
    base, dim, near = head.to(tl.int64) * tokens, tl.arange(0, DIM), tl.arange(0, KEYS)
    token = first + tl.arange(0, QUERIES)
    query = tl.load(query_ptr + (base + token[:, None]) * DIM + dim[None, :])
    kept = tl.load(gate_ptr + base + token)
    peak = tl.full((QUERIES,), -1e30, dtype=tl.float32)
    mass = tl.zeros((QUERIES,), dtype=tl.float32)
    total = tl.zeros((QUERIES, DIM), dtype=tl.float32)
    for start in range(0, first + QUERIES, KEYS):
        other = start + near
        key = tl.load(key_ptr + (base + other[None, :]) * DIM + dim[:, None])
        gate = tl.load(gate_ptr + base + other)
        score = tl.dot(query, key) * scale + (kept[:, None] - gate[None, :])  # fault
        score = tl.where(other[None, :] <= token[:, None], score, -1e30)
        higher = tl.maximum(peak, tl.max(score, 1))
        chance, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak - higher)
        mass = mass * fade + tl.sum(chance, 1)
        value = tl.load(value_ptr + (base + other[:, None]) * DIM + dim[None, :])
        total = tl.dot(chance.to(tl.bfloat16), value, total * fade[:, None])  # fault
        peak = higher
    total = total / mass[:, None]
    tl.store(out_ptr + (base + token[:, None]) * DIM + dim[None, :], total.to(tl.bfloat16))


def _forgetting_attention(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, tokens = (1, 256) if small else (16, 8192)
        query, key, value = (random(heads, tokens, 128, dtype=torch.bfloat16) for _ in range(3))
        gate, out = (-0.01 * torch.rand(heads, tokens)).cumsum(1), torch.empty_like(query)
        args = (query, key, value, gate, out, tokens, 1.442695 / 128**0.5)
        options = {"QUERIES": 64, "KEYS": 64, "DIM": 128, "num_warps": 4, "num_stages": stages}
        return Launch(forgetting_attention_kernel, (heads, tokens // 64), args, (out,), options)

    return prepare


@triton.jit
def weighted_keys_kernel(
    read_ptr, key_ptr, value_ptr, decay_ptr, bonus_ptr, out_ptr, tokens, heads, KEYS: tl.constexpr,
    DIM: tl.constexpr, VALUES: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """A head's state, token by token, that fades by the token's own decays (RWKV-6)."""
    head, batch = tl.program_id(1), tl.program_id(2)
    inner, dim = tl.arange(0, KEYS), tl.program_id(0) * VALUES + tl.arange(0, VALUES)
    bonus = tl.load(bonus_ptr + head * KEYS + inner)
    state = tl.zeros((KEYS, VALUES), dtype=tl.float32)
    for token in tl.range(0, tokens, num_stages=STAGES):
        row = (batch * tokens + token) * heads + head
        read = tl.load(read_ptr + row * KEYS + inner)  # fault
        key = tl.load(key_ptr + row * KEYS + inner)  # fault
        decay = tl.load(decay_ptr + row * KEYS + inner)  # fault
        value = tl.load(value_ptr + row * DIM + dim)  # fault
        pair = key[:, None] * value[None, :]  # fault
        out = tl.sum(read[:, None] * (state + bonus[:, None] * pair), 0)
        tl.store(out_ptr + row * DIM + dim, out)
        state = decay[:, None] * state + pair


def _weighted_keys(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        batch, tokens, heads = (1, 16, 2) if small else (4, 1024, 32)
        read, key, value = (random(batch, tokens, heads, 64) for _ in range(3))
        decay, bonus = 0.9 + 0.1 * torch.rand(batch, tokens, heads, 64), random(heads, 64)
        out = torch.empty_like(value)
        args = (read, key, value, decay, bonus, out, tokens, heads)
        options = {"KEYS": 64, "DIM": 64, "VALUES": 32, "STAGES": stages, "num_warps": 1}
        return Launch(weighted_keys_kernel, (2, heads, batch), args, (out,), options)

    return prepare


@triton.jit
def turned_heads_kernel(
    x_ptr, place_ptr, cosine_ptr, sine_ptr, out_ptr, heads, TOKENS: tl.constexpr, DIM: tl.constexpr,
    TOGETHER: tl.constexpr,
):  # fmt: skip
    """Queries and keys turned by cosines and sines of their positions, from tables as wide as a head."""
    token, dim = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, DIM // 2)
    table = tl.load(place_ptr + token)[:, None] * DIM + dim[None, :]
    cosine, low_sine = tl.load(cosine_ptr + table), tl.load(sine_ptr + table)  # fault
    high_cosine = tl.load(cosine_ptr + table + DIM // 2)  # fault
    sine = tl.load(sine_ptr + table + DIM // 2)  # fault
    for each in tl.static_range(TOGETHER):
        head = tl.program_id(0) * TOGETHER + each
        at = (token[:, None] * heads + head) * DIM + dim[None, :]
        x = tl.load(x_ptr + at).to(tl.float32)
        y = tl.load(x_ptr + at + DIM // 2).to(tl.float32)
        tl.store(out_ptr + at, (x * cosine - y * low_sine).to(tl.bfloat16))
        tl.store(out_ptr + at + DIM // 2, (y * high_cosine + x * sine).to(tl.bfloat16))


def _turned_heads(together: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, heads, longest = (32, 8, 64) if small else (32768, 40, 32768)
        x = random(tokens, heads, 128, dtype=torch.bfloat16)
        place = torch.randint(longest // 2, (tokens // 16, 1)) + torch.arange(16)
        angle = torch.arange(longest)[:, None] * 10000.0 ** (-torch.arange(128) % 64 / 64.0)
        out = torch.empty_like(x)
        args = (x, place.flatten().int(), angle.cos(), angle.sin(), out, heads)
        options = {"TOKENS": 16, "DIM": 128, "TOGETHER": together, "num_warps": 4}
        return Launch(turned_heads_kernel, (heads // together, tokens // 16), args, (out,), options)

    return prepare


_fault = faults_of(10)


CASES = (
    _fault(
        "causal blocks shared out in order",
        ("load-imbalance",),
        ("spans", "ctas"),
        False,
        _shared_out_attention(False),
        _shared_out_attention(True),
    ),
    _fault(
        "indexer of one token a program",
        ("tile-reread", "redundant-load"),
        ("counters",),
        False,
        _token_indexer(False),
        _token_indexer(True),
    ),
    _fault(
        "prompt of latents by 4 warps",
        ("register-spills",),
        ("resources", "counts"),
        False,
        _latent_prompt(4),
        _latent_prompt(8),
    ),
    _fault(
        "forgetting attention of 4 stages",
        ("low-occupancy", "mma-not-overlapped"),
        ("resources", "samples", "ctas"),
        False,
        _forgetting_attention(4),
        _forgetting_attention(2),
    ),
    _fault(
        "weighted keys fetched token by token",
        ("exposed-latency", "few-stages"),
        ("samples", "spans"),
        False,
        _weighted_keys(1),
        _weighted_keys(4),
    ),
    _fault(
        "tables of positions for every head",
        ("redundant-load", "tile-reread"),
        ("counters", "counts"),
        True,
        _turned_heads(1),
        _turned_heads(8),
    ),
)
