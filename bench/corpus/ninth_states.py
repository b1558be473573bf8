"""Ninth round, faults of states, caches and attention: state spaces, moved caches, wide heads, streams."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def causal_filter_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, tokens, dims, x_token, x_dim, STEPS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """A causal convolution of four tokens for each channel, then SiLU (Mamba)."""
    dim = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(1) * STEPS
    batch = tl.program_id(2).to(tl.int64) * tokens * dims
    x_at = x_ptr + batch + first * x_token + dim * x_dim
    out_at = out_ptr + batch + first * dims + dim
    weight_at = weight_ptr + dim * 4
    w0, w1 = tl.load(weight_at), tl.load(weight_at + 1)
    w2, w3 = tl.load(weight_at + 2), tl.load(weight_at + 3)
    bias = tl.load(bias_ptr + dim)
    a = tl.load(x_at - 3 * x_token, mask=first > 0, other=0.0).to(tl.float32)
    b = tl.load(x_at - 2 * x_token, mask=first > 0, other=0.0).to(tl.float32)
    c = tl.load(x_at - x_token, mask=first > 0, other=0.0).to(tl.float32)
    for _ in range(STEPS):
        d = tl.load(x_at).to(tl.float32)  # fault
        y = bias + w0 * a + w1 * b + w2 * c + w3 * d
        tl.store(out_at, (y * tl.sigmoid(y)).to(tl.bfloat16))
        a, b, c = b, c, d
        x_at += x_token
        out_at += dims


def _causal_filter(tokens_last: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        batch, tokens, dims = (1, 64, 1024) if small else (4, 4096, 8192)
        x = random(batch, tokens, dims, dtype=torch.bfloat16)
        weight, bias, out = random(dims, 4), random(dims), torch.empty_like(x)
        strides = (dims, 1)
        if tokens_last:
            x, strides = x.transpose(1, 2).contiguous(), (1, tokens)
        steps = 16 if small else 64
        grid = (dims // 512, tokens // steps, batch)
        args = (x, weight, bias, out, tokens, dims, *strides)
        options = {"STEPS": steps, "BLOCK": 512, "num_warps": 4}
        return Launch(causal_filter_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def selective_scan_kernel(
    x_ptr, step_ptr, decay_ptr, in_ptr, out_ptr, y_ptr, tokens, dims, STATES: tl.constexpr,
    DIMS: tl.constexpr,
):  # fmt: skip
    """A selective state space, token by token: a state of STATES numbers for each channel (Mamba)."""
    dim, state = tl.program_id(0) * DIMS + tl.arange(0, DIMS), tl.arange(0, STATES)
    first = tl.program_id(1) * tokens
    decay = tl.load(decay_ptr + state[:, None] * dims + dim[None, :])
    h = tl.zeros((STATES, DIMS), dtype=tl.float32)
    at = first.to(tl.int64) * dims + dim
    shared = first * STATES + state
    for _ in range(tokens):
        x, step = tl.load(x_ptr + at).to(tl.float32), tl.load(step_ptr + at).to(tl.float32)
        write = tl.load(in_ptr + shared).to(tl.float32)
        read = tl.load(out_ptr + shared).to(tl.float32)
        h = tl.exp2(step[None, :] * decay) * h + write[:, None] * (step * x)[None, :]
        y = tl.sum(h * read[:, None], 0)  # fault
        tl.store(y_ptr + at, y.to(tl.bfloat16))
        at += dims
        shared += STATES


def _selective_scan(num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        batch, tokens, dims = (1, 12, 128) if small else (16, 512, 8192)
        x = random(batch, tokens, dims, dtype=torch.bfloat16)
        step = (0.01 + 0.1 * torch.rand(batch, tokens, dims)).to(torch.bfloat16)
        decay = -(1.0 + torch.arange(16.0)[:, None] + 0.2 * torch.rand(16, dims))
        write, read = (random(batch, tokens, 16, dtype=torch.bfloat16) for _ in range(2))
        y = torch.empty_like(x)
        args = (x, step, decay, write, read, y, tokens, dims)
        options = {"STATES": 16, "DIMS": 32, "num_warps": num_warps}
        return Launch(selective_scan_kernel, (dims // 32, batch), args, (y,), options)

    return prepare


@triton.jit
def chunk_states_kernel(
    key_ptr, x_ptr, fade_ptr, out_ptr, tokens, heads, CHUNK: tl.constexpr, KEYS: tl.constexpr,
    DIM: tl.constexpr, PRODUCT: tl.constexpr,
):  # fmt: skip
    """What a chunk of tokens leaves in each head's state (Mamba-2). PRODUCT: by products of matrices."""
    head, chunk = tl.program_id(0), tl.program_id(1)
    key, dim = tl.arange(0, KEYS), tl.arange(0, DIM)
    first = chunk * CHUNK
    state = tl.zeros((KEYS, DIM), dtype=tl.float32)
    if PRODUCT:
        for start in range(0, CHUNK, 64):
            token = first + start + tl.arange(0, 64)
            fade = tl.load(fade_ptr + head * tokens + token)
            x = tl.load(x_ptr + (token[:, None] * heads + head) * DIM + dim[None, :])
            keys = tl.load(key_ptr + token[None, :] * KEYS + key[:, None])
            state = tl.dot(keys, (x.to(tl.float32) * fade[:, None]).to(tl.bfloat16), state)
    else:
        for start in range(0, CHUNK, 4):
            for each in tl.static_range(4):
                token = first + start + each
                fade = tl.load(fade_ptr + head * tokens + token)
                x = tl.load(x_ptr + (token * heads + head) * DIM + dim[None, :]).to(tl.float32)
                keys = tl.load(key_ptr + token * KEYS + key[:, None]).to(tl.float32)
                state += keys * (fade * x)  # fault
    at = out_ptr + ((chunk * heads + head).to(tl.int64) * KEYS + key[:, None]) * DIM + dim[None, :]
    tl.store(at, state)


def _chunk_states(product: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, heads = (256, 2) if small else (32768, 64)
        chunk = 128 if small else 256
        key = random(tokens, 128, dtype=torch.bfloat16)
        x = random(tokens, heads, 64, dtype=torch.bfloat16)
        fade, out = torch.rand(heads, tokens), empty(tokens // chunk, heads, 128, 64)
        options = {"CHUNK": chunk, "KEYS": 128, "DIM": 64, "PRODUCT": product, "num_warps": 4}
        args = (key, x, fade, out, tokens, heads)
        return Launch(chunk_states_kernel, (heads, tokens // chunk), args, (out,), options)

    return prepare


@triton.jit
def moved_cache_kernel(
    address_ptr, from_ptr, to_ptr, TOKENS: tl.constexpr, BYTES: tl.constexpr, ALIGNED: tl.constexpr
):
    """Tokens of all layers' caches moved to other slots. ALIGNED: the compiler knows how caches begin."""
    cache = tl.load(address_ptr + tl.program_id(0)).to(tl.pointer_type(tl.uint8))
    if ALIGNED:
        cache = tl.multiple_of(cache, 16)
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    source = tl.load(from_ptr + token).to(tl.int64)[:, None] * BYTES
    target = tl.load(to_ptr + token).to(tl.int64)[:, None] * BYTES
    at = tl.arange(0, BYTES)[None, :]
    row = tl.load(cache + source + at)  # fault
    tl.store(cache + target + at, row)  # fault


def _moved_cache(aligned: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        caches, slots = (2, 64) if small else (64, 16384)
        cache = torch.randint(256, (caches, slots, 1024), dtype=torch.uint8)
        address = cache.data_ptr() + slots * 1024 * torch.arange(caches)
        place = torch.randperm(slots, dtype=torch.int32)
        source, target = place[: slots // 2].clone(), place[slots // 2 :].clone()
        options = {"TOKENS": 4, "BYTES": 1024, "ALIGNED": aligned, "num_warps": 4}
        args = (address, source, target)
        return Launch(moved_cache_kernel, (caches, slots // 8), args, (cache,), options)

    return prepare


@triton.jit
def prefix_attention_kernel(
    query_ptr, key_ptr, value_ptr, out_ptr, tokens, prefix, scale, QUERIES: tl.constexpr,
    KEYS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    """Attention that is causal after a prefix, which all tokens see (PaliGemma), with wide heads."""
    first, base = tl.program_id(0) * QUERIES, tl.program_id(1).to(tl.int64) * tokens * DIM
    dim, token = tl.arange(0, DIM), first + tl.arange(0, QUERIES)
    query = tl.load(query_ptr + base + token[:, None] * DIM + dim[None, :])
    peak = tl.full((QUERIES,), -1e30, dtype=tl.float32)
    mass = tl.zeros((QUERIES,), dtype=tl.float32)
    total = tl.zeros((QUERIES, DIM), dtype=tl.float32)
    for start in range(0, tl.maximum(first + QUERIES, prefix), KEYS):
        other = start + tl.arange(0, KEYS)
        key = tl.load(key_ptr + base + other[None, :] * DIM + dim[:, None])
        score = tl.dot(query, key) * scale
        score = tl.where((other[None, :] <= token[:, None]) | (other[None, :] < prefix), score, -1e30)
        higher = tl.maximum(peak, tl.max(score, 1))
        chance, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak - higher)
        value = tl.load(value_ptr + base + other[:, None] * DIM + dim[None, :])
        total = tl.dot(chance.to(tl.bfloat16), value, total * fade[:, None])  # fault
        mass = mass * fade + tl.sum(chance, 1)
        peak = higher
    tl.store(out_ptr + base + token[:, None] * DIM + dim[None, :], (total / mass[:, None]).to(tl.bfloat16))


def _prefix_attention(num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, tokens = (1, 256) if small else (32, 4096)
        query, key, value = (random(heads, tokens, 256, dtype=torch.bfloat16) for _ in range(3))
        out = torch.empty_like(query)
        args = (query, key, value, out, tokens, tokens // 4, 1.442695 / 16.0)
        options = {"QUERIES": 128, "KEYS": 32 if small else 64, "DIM": 256, "num_warps": num_warps}
        options |= {"num_stages": 2}
        return Launch(prefix_attention_kernel, (tokens // 128, heads), args, (out,), options)

    return prepare


@triton.jit
def cached_prompt_kernel(
    query_ptr, key_ptr, value_ptr, key_scale_ptr, value_scale_ptr, out_ptr, queries, keys, scale,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, DIM: tl.constexpr, BYTES: tl.constexpr,
):  # fmt: skip
    """Attention of a prompt's later part to its earlier part, of cached bytes with a scale for each token."""
    head = tl.program_id(1).to(tl.int64)
    base = head * keys * DIM
    dim, token = tl.arange(0, DIM), tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    at = (head * queries + token[:, None]) * DIM + dim[None, :]
    query = tl.load(query_ptr + at)
    peak = tl.full((QUERIES,), -1e30, dtype=tl.float32)
    mass = tl.zeros((QUERIES,), dtype=tl.float32)
    total = tl.zeros((QUERIES, DIM), dtype=tl.float32)
    for start in range(0, keys, KEYS):
        other = start + tl.arange(0, KEYS)
        key = tl.load(key_ptr + base + other[None, :] * DIM + dim[:, None])
        value = tl.load(value_ptr + base + other[:, None] * DIM + dim[None, :])
        if BYTES:
            key_scale = tl.load(key_scale_ptr + head * keys + other)
            value_scale = tl.load(value_scale_ptr + head * keys + other)
            key = (key.to(tl.float32) * key_scale[None, :]).to(tl.bfloat16)  # fault
            value = (value.to(tl.float32) * value_scale[:, None]).to(tl.bfloat16)  # fault
        score = tl.dot(query, key) * scale
        higher = tl.maximum(peak, tl.max(score, 1))
        chance, fade = tl.exp2(score - higher[:, None]), tl.exp2(peak - higher)
        total = tl.dot(chance.to(tl.bfloat16), value, total * fade[:, None])
        mass = mass * fade + tl.sum(chance, 1)
        peak = higher
    tl.store(out_ptr + at, (total / mass[:, None]).to(tl.bfloat16))


def _cached_prompt(as_bytes: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, queries, keys = (1, 256, 256) if small else (32, 4096, 8192)
        query = random(heads, queries, 128, dtype=torch.bfloat16)
        key, value = (torch.randint(-127, 128, (heads, keys, 128), dtype=torch.int8) for _ in range(2))
        key_scale, value_scale = (0.01 + 0.02 * torch.rand(heads, keys, 1) for _ in range(2))
        if not as_bytes:
            key, value = (key * key_scale).to(torch.bfloat16), (value * value_scale).to(torch.bfloat16)
        out = torch.empty_like(query)
        args = (query, key, value, key_scale, value_scale, out, queries, keys, 0.127517)
        options = {"QUERIES": 128, "KEYS": 64, "DIM": 128, "BYTES": as_bytes}
        options |= {"num_warps": 8, "num_stages": 3}
        return Launch(cached_prompt_kernel, (queries // 128, heads), args, (out,), options)

    return prepare


@triton.jit
def mixed_streams_kernel(
    stream_ptr, layer_ptr, mix_ptr, share_ptr, out_ptr, blocks, DIM: tl.constexpr, BLOCK: tl.constexpr
):
    """Four residual streams, mixed by each token's matrix, and a layer's results (hyper-connections)."""
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        token, dim = block // (DIM // BLOCK), block % (DIM // BLOCK) * BLOCK + tl.arange(0, BLOCK)
        at = token.to(tl.int64) * (4 * DIM) + dim
        a = tl.load(stream_ptr + at).to(tl.float32)
        b = tl.load(stream_ptr + at + DIM).to(tl.float32)
        c = tl.load(stream_ptr + at + 2 * DIM).to(tl.float32)
        d = tl.load(stream_ptr + at + 3 * DIM).to(tl.float32)
        y = tl.load(layer_ptr + token.to(tl.int64) * DIM + dim).to(tl.float32)
        for each in tl.static_range(4):
            mix_at = mix_ptr + token * 16 + each * 4
            mixed = tl.load(mix_at) * a + tl.load(mix_at + 1) * b
            mixed += tl.load(mix_at + 2) * c + tl.load(mix_at + 3) * d
            mixed += tl.load(share_ptr + token * 4 + each) * y
            tl.store(out_ptr + at + each * DIM, mixed.to(tl.bfloat16))


def _mixed_streams(programs: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, dim = (32, 2048) if small else (16384, 2048)
        stream = random(tokens, 4, dim, dtype=torch.bfloat16)
        layer = random(tokens, dim, dtype=torch.bfloat16)
        mix, share, out = torch.rand(tokens, 16), torch.rand(tokens, 4), torch.empty_like(stream)
        args = (stream, layer, mix, share, out, tokens * dim // 512)
        options = {"DIM": dim, "BLOCK": 512, "num_warps": 4}
        grid = (programs // 33 if small else programs,)
        return Launch(mixed_streams_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def gated_down_kernel(
    gate_ptr, up_ptr, weight_ptr, out_ptr, depth, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, GROUP: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """The last layer of a gated unit. GATED: gate_ptr holds gates times values already."""
    down, across = tl.program_id(0) % GROUP, tl.program_id(0) // GROUP
    row = (tl.program_id(1) * GROUP + down) * ROWS + tl.arange(0, ROWS)
    column, inner = across * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    at = row[:, None] * depth + inner[None, :]
    gate_at, up_at = gate_ptr + at, up_ptr + at
    weight_at = weight_ptr + column[None, :] * depth + inner[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    tl.assume(depth > 0)
    for start in range(0, depth, DEPTH):
        hidden = tl.load(gate_at + start)
        if not GATED:
            gate = hidden.to(tl.float32)  # fault
            gate *= tl.load(up_at + start).to(tl.float32) * tl.sigmoid(gate)  # fault
            hidden = gate.to(tl.bfloat16)  # fault
        total = tl.dot(hidden, tl.load(weight_at + start), total)
    tl.store(out_ptr + row[:, None] * columns + column[None, :], total.to(tl.bfloat16))


def _gated_down(gated: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns, depth = (256, 256, 320) if small else (8192, 4096, 8192)
        gate, up = (random(rows, depth, dtype=torch.bfloat16) for _ in range(2))
        weight, out = random(columns, depth, dtype=torch.bfloat16), empty(rows, columns, dtype=torch.bfloat16)
        if gated:
            gate = (torch.nn.functional.silu(gate.float()) * up.float()).to(torch.bfloat16)
        group = min(8, rows // 128)
        options = {"ROWS": 128, "COLUMNS": 256, "DEPTH": 64, "GROUP": group, "GATED": gated}
        options |= {"num_warps": 8, "num_stages": 3}
        grid = (group * columns // 256, rows // 128 // group)
        args = (gate, up, weight, out, depth, columns)
        return Launch(gated_down_kernel, grid, args, (out,), options)

    return prepare


_case = faults_of(9)


CASES = (
    _case(
        "channels filtered along far tokens",
        ("uncoalesced-load",),
        ("counts",),
        True,
        _causal_filter(True),
        _causal_filter(False),
    ),
    _case(
        "selective scan of 4 warps",
        ("serial-reduction", "too-many-warps"),
        ("counts", "samples"),
        True,
        _selective_scan(4),
        _selective_scan(1),
    ),
    _case(
        "chunks' states added token by token",
        ("no-tensor-cores",),
        ("counts",),
        True,
        _chunk_states(False),
        _chunk_states(True),
    ),
    _case(
        "caches moved byte by byte",
        ("unvectorized-access",),
        ("counts",),
        True,
        _moved_cache(False),
        _moved_cache(True),
    ),
    _case(
        "heads of 256 dimensions by 4 warps",
        ("register-spills",),
        ("resources", "counts"),
        False,
        _prefix_attention(4),
        _prefix_attention(8),
    ),
    _case(
        "cached bytes converted for each block of queries",
        ("conversions", "mma-not-overlapped"),
        ("samples", "counts"),
        False,
        _cached_prompt(True),
        _cached_prompt(False),
    ),
    _case(
        "streams mixed by 132 programs",
        ("low-occupancy", "exposed-latency"),
        ("ctas", "samples"),
        False,
        _mixed_streams(132),
        _mixed_streams(132 * 8),
    ),
    _case(
        "gates applied in the next layer",
        ("mma-not-overlapped",),
        ("samples", "counters"),
        False,
        _gated_down(False),
        _gated_down(True),
    ),
)
