"""Eighth round, faults in states, caches, attention's gradients, and sampling of language models."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def recovered_token_kernel(
    draft_ptr, target_ptr, noise_ptr, token_ptr, chance_ptr, words, BLOCK: tl.constexpr, ONCE: tl.constexpr
):
    """A token for a rejected draft, from what the target gives more chance; ONCE: one pass does all."""
    row, lane = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    draft_ptr += row * words
    target_ptr += row * words
    noise_ptr += row * words
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    if not ONCE:
        for start in range(0, words, BLOCK):
            inside = start + lane < words
            draft = tl.load(draft_ptr + start + lane, mask=inside, other=0.0)  # fault
            target = tl.load(target_ptr + start + lane, mask=inside, other=0.0)  # fault
            total += tl.maximum(target - draft, 0.0)
    best, token = tl.full((BLOCK,), -1.0, dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.int32)
    chance = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, words, BLOCK):
        inside = start + lane < words
        draft = tl.load(draft_ptr + start + lane, mask=inside, other=0.0)
        target = tl.load(target_ptr + start + lane, mask=inside, other=0.0)
        noise = tl.load(noise_ptr + start + lane, mask=inside, other=0.0)
        rest = tl.maximum(target - draft, 0.0)
        better = rest * noise > best
        best = tl.where(better, rest * noise, best)
        chance = tl.where(better, rest, chance)
        token = tl.where(better, start + lane, token)
        if ONCE:
            total += rest
    winner = tl.min(tl.where(best == tl.max(best, 0), token, words), 0)
    tl.store(token_ptr + row, winner)
    tl.store(chance_ptr + row, tl.sum(tl.where(token == winner, chance, 0.0), 0) / tl.sum(total, 0))


def _recovered_token(once: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, words = (4, 20000) if small else (1024, 128256)
        draft, target = torch.rand(rows, words), torch.rand(rows, words)
        noise = 1.0 / empty(rows, words).exponential_()
        token, chance = empty(rows, dtype=torch.int32), empty(rows)
        options = {"BLOCK": 2048, "ONCE": once, "num_warps": 8}
        args = (draft, target, noise, token, chance, words)
        return Launch(recovered_token_kernel, (rows,), args, (token, chance), options)

    return prepare


@triton.jit
def fade_and_add(fade, add, later_fade, later_add):
    return fade * later_fade, add * later_fade + later_add


@triton.jit
def gated_recurrence_kernel(
    x_ptr, reset_ptr, input_ptr, rate_ptr, out_ptr, tokens, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
    EACH: tl.constexpr,
):  # fmt: skip
    """A recurrent layer whose gates fade its state (Griffin); EACH tokens are loaded at once."""
    dim = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    step = tl.arange(0, EACH)[:, None]
    rate = -8.0 * tl.log(1.0 + tl.exp(tl.load(rate_ptr + dim)))
    state = tl.zeros((1, BLOCK), dtype=tl.float32)
    for start in range(0, tokens, EACH):
        at = (tl.program_id(1) * tokens + start + step) * WIDTH + dim
        x = tl.load(x_ptr + at).to(tl.float32)  # fault
        reset = tl.load(reset_ptr + at).to(tl.float32)  # fault
        entry = tl.load(input_ptr + at).to(tl.float32)  # fault
        log_fade = rate * tl.sigmoid(reset)
        fade, add = tl.exp(log_fade), tl.sqrt(1.0 - tl.exp(2.0 * log_fade)) * tl.sigmoid(entry) * x
        if EACH == 1:
            state = fade * state + add
            tl.store(out_ptr + at, state.to(tl.bfloat16))
        else:
            faded, added = tl.associative_scan((fade, add), 0, fade_and_add)
            states = faded * state + added
            tl.store(out_ptr + at, states.to(tl.bfloat16))
            state = tl.sum(tl.where(step == EACH - 1, states, 0.0), 0)[None, :]


def _gated_recurrence(each: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        sequences, tokens, width = (2, 64, 256) if small else (8, 2048, 2560)
        shape = (sequences, tokens, width)
        x, reset, entry = (random(*shape, dtype=torch.bfloat16) for _ in range(3))
        rate, out = random(width), empty(*shape, dtype=torch.bfloat16)
        options = {"WIDTH": width, "BLOCK": 128, "EACH": each, "num_warps": 4}
        args = (x, reset, entry, rate, out, tokens)
        return Launch(gated_recurrence_kernel, (width // 128, sequences), args, (out,), options)

    return prepare


@triton.jit
def summed_decays_kernel(
    decay_ptr, out_ptr, tokens, HEADS: tl.constexpr, EACH: tl.constexpr, BLOCK: tl.constexpr
):
    """Log decays summed from the start of each sequence on, for EACH heads of a program."""
    head = tl.program_id(0) * EACH + tl.arange(0, EACH)[None, :]
    step = tl.arange(0, BLOCK)[:, None]
    before = tl.zeros((1, EACH), dtype=tl.float32)
    for start in range(0, tokens, BLOCK):
        at = (tl.program_id(1) * tokens + start + step) * HEADS + head
        decay = tl.load(decay_ptr + at)  # fault
        tl.store(out_ptr + at, before + tl.cumsum(decay, 0))  # fault
        before += tl.sum(decay, 0)[None, :]


def _summed_decays(each: int, block: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        sequences, tokens = (1, 1024) if small else (128, 4096)
        decay = -torch.rand(sequences, tokens, 64)
        out = torch.empty_like(decay)
        options = {"HEADS": 64, "EACH": each, "BLOCK": block, "num_warps": 4}
        grid = (64 // each, sequences)
        return Launch(summed_decays_kernel, grid, (decay, out, tokens), (out,), options)

    return prepare


@triton.jit
def corrected_kernel(
    matrix_ptr, key_ptr, value_ptr, beta_ptr, decay_ptr, new_key_ptr, new_value_ptr, CHUNK: tl.constexpr,
    KEY: tl.constexpr, VALUE: tl.constexpr, BLOCK: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Keys and values of a chunk without what its earlier tokens hold of them (gated delta rule)."""
    step, inner = tl.arange(0, CHUNK), tl.arange(0, BLOCK)
    token = tl.program_id(0) * CHUNK + step
    matrix = tl.load(matrix_ptr + token[:, None] * CHUNK + step[None, :])
    beta = tl.load(beta_ptr + token)
    for start in range(0, VALUE, BLOCK):
        at = token[:, None] * VALUE + start + inner[None, :]
        value = tl.load(value_ptr + at) * beta[:, None]
        if EXACT:
            out = tl.dot(matrix, value, input_precision="ieee")  # fault
        else:
            out = tl.dot(matrix.to(tl.bfloat16), value.to(tl.bfloat16))
        tl.store(new_value_ptr + at, out.to(tl.bfloat16))
    beta *= tl.exp(tl.load(decay_ptr + token))
    for start in range(0, KEY, BLOCK):
        at = token[:, None] * KEY + start + inner[None, :]
        key = tl.load(key_ptr + at) * beta[:, None]
        if EXACT:
            out = tl.dot(matrix, key, input_precision="ieee")  # fault
        else:
            out = tl.dot(matrix.to(tl.bfloat16), key.to(tl.bfloat16))
        tl.store(new_key_ptr + at, out.to(tl.bfloat16))


def _corrected(exact: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        chunks = 4 if small else 8192
        tokens = chunks * 64
        matrix = torch.tril(0.1 * random(chunks, 64, 64), -1) + torch.eye(64)
        key, value = random(tokens, 128, dtype=torch.bfloat16), random(tokens, 256, dtype=torch.bfloat16)
        beta, decay = torch.rand(tokens), -torch.rand(tokens)
        new_key, new_value = torch.empty_like(key), torch.empty_like(value)
        options = {"CHUNK": 64, "KEY": 128, "VALUE": 256, "BLOCK": 64, "EXACT": exact, "num_warps": 8}
        args = (matrix, key, value, beta, decay, new_key, new_value)
        return Launch(corrected_kernel, (chunks,), args, (new_key, new_value), options)

    return prepare


@triton.jit
def rotated_rows_kernel(
    x_ptr, matrix_ptr, out_ptr, scale_ptr, DIM: tl.constexpr, LOG: tl.constexpr, SIDE: tl.constexpr,
    STEPS: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Walsh-Hadamard transforms of hidden states, as bytes with a scale; DOT: products, no butterflies."""
    square = tl.arange(0, SIDE)[:, None] * SIDE + tl.arange(0, SIDE)[None, :]
    lane = tl.arange(0, DIM)
    if DOT:
        matrix, lane = tl.load(matrix_ptr + square), square
    for step in range(STEPS):
        row = tl.program_id(0) * STEPS + step
        x = tl.load(x_ptr + row * DIM + lane)
        if DOT:
            half = tl.dot(matrix, x) * (1.0 / SIDE)
            y = tl.dot(half.to(tl.float16), matrix)
        else:
            y = x.to(tl.float32) * (1.0 / SIDE)
            for stage in tl.static_range(LOG):
                pairs = tl.reshape(y, (DIM >> (stage + 1), 2, 1 << stage))
                low, high = tl.split(tl.permute(pairs, (0, 2, 1)))  # fault
                pairs = tl.permute(tl.join(low + high, low - high), (0, 2, 1))  # fault
                y = tl.reshape(pairs, (DIM,))  # fault
        scale = tl.max(tl.abs(y)) / 127.0
        tl.store(out_ptr + row * DIM + lane, tl.floor(y * (1.0 / scale) + 0.5).to(tl.int8))
        tl.store(scale_ptr + row, scale)


def _rotated_rows(dot: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 16 if small else 1 << 17
        x, matrix = random(rows, 4096, dtype=torch.float16), torch.ones(1, 1)
        for _ in range(6):
            matrix = torch.cat((torch.cat((matrix, matrix), 1), torch.cat((matrix, -matrix), 1)))
        out, scale = empty(rows, 4096, dtype=torch.int8), empty(rows)
        options = {"DIM": 4096, "LOG": 12, "SIDE": 64, "STEPS": 4, "DOT": dot, "num_warps": 4}
        args = (x, matrix.half(), out, scale)
        return Launch(rotated_rows_kernel, (rows // 4,), args, (out, scale), options)

    return prepare


@triton.jit
def key_value_gradients_kernel(
    query_ptr, key_ptr, value_ptr, grad_ptr, log_sum_ptr, delta_ptr, key_grad_ptr, value_grad_ptr, tokens,
    scale, DIM: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Gradients of keys and values of attention, for a block of keys of a head."""
    dim, head = tl.arange(0, DIM), tl.program_id(1) * tokens
    token = head + tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    key = tl.load(key_ptr + token[:, None] * DIM + dim[None, :])
    value = tl.load(value_ptr + token[:, None] * DIM + dim[None, :])
    key_grad = tl.zeros((KEYS, DIM), dtype=tl.float32)
    value_grad = tl.zeros((KEYS, DIM), dtype=tl.float32)
    for start in range(0, tokens, QUERIES):
        asker = head + start + tl.arange(0, QUERIES)
        query = tl.load(query_ptr + asker[:, None] * DIM + dim[None, :])
        grad = tl.load(grad_ptr + asker[:, None] * DIM + dim[None, :])
        score = tl.dot(key, tl.trans(query))
        share = tl.exp2(score * scale - tl.load(log_sum_ptr + asker)[None, :])
        value_grad = tl.dot(share.to(tl.bfloat16), grad, value_grad)  # fault
        slope = tl.dot(value, tl.trans(grad)) - tl.load(delta_ptr + asker)[None, :]
        key_grad = tl.dot((share * slope).to(tl.bfloat16), query, key_grad)  # fault
    at = token[:, None] * DIM + dim[None, :]
    tl.store(key_grad_ptr + at, (key_grad * (scale * 0.6931471805599453)).to(tl.bfloat16))
    tl.store(value_grad_ptr + at, value_grad.to(tl.bfloat16))


def _key_value_gradients(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, tokens = (1, 256) if small else (64, 2048)
        query, key, value, grad = (random(heads, tokens, 128, dtype=torch.bfloat16) for _ in range(4))
        log_sum, delta = torch.full((heads, tokens), 12.0), 0.1 * random(heads, tokens)
        key_grad, value_grad = torch.empty_like(key), torch.empty_like(key)
        options = {"DIM": 128, "QUERIES": 64, "KEYS": 128, "num_warps": warps, "num_stages": 2}
        args = (query, key, value, grad, log_sum, delta, key_grad, value_grad, tokens, 0.1275)
        grid = (tokens // 128, heads)
        return Launch(key_value_gradients_kernel, grid, args, (key_grad, value_grad), options)

    return prepare


@triton.jit
def gathered_cache_kernel(
    cache_ptr, table_ptr, pages_ptr, first_ptr, out_ptr, most, each, PAGE: tl.constexpr, DIM: tl.constexpr
):
    """Copy each request's pages of a cache in a row, `each` pages by one program."""
    request, first = tl.program_id(0), tl.program_id(1) * each
    token, dim = tl.arange(0, PAGE)[:, None], tl.arange(0, DIM)[None, :]
    out_ptr += tl.load(first_ptr + request).to(tl.int64) * PAGE * DIM
    last = tl.minimum(first + each, tl.load(pages_ptr + request))
    for index in range(first, last):  # fault
        page = tl.load(table_ptr + request * most + index).to(tl.int64)
        vectors = tl.load(cache_ptr + (page * PAGE + token) * DIM + dim)
        tl.store(out_ptr + (index * PAGE + token) * DIM + dim, vectors)


def _gathered_cache(each: int) -> Prepare:
    """Most requests are short, and a few have long contexts."""

    def prepare(small: bool) -> Launch:
        requests, most = (8, 64) if small else (256, 1024)
        share = torch.arange(1, requests + 1) / requests
        pages = torch.clamp((most * share**16).int(), min=4)[torch.randperm(requests)].int()
        first = (torch.cumsum(pages, 0) - pages).int()
        count = int(pages.sum())
        table = torch.zeros(requests, most, dtype=torch.int32)
        names = torch.randperm(count).int()
        for request in range(requests):
            start, size = int(first[request]), int(pages[request])
            table[request, :size] = names[start : start + size]
        cache, out = (
            random(count * 16, 512, dtype=torch.bfloat16),
            empty(count * 16, 512, dtype=torch.bfloat16),
        )
        options = {"PAGE": 16, "DIM": 512, "num_warps": 4}
        args = (cache, table, pages, first, out, most, min(each, most))
        return Launch(gathered_cache_kernel, (requests, -(-most // each)), args, (out,), options)

    return prepare


@triton.jit
def read_gradients_kernel(
    grad_ptr, state_ptr, out_ptr, heads, EACH: tl.constexpr, BLOCK: tl.constexpr, DIM: tl.constexpr,
    SIZE: tl.constexpr, LATE: tl.constexpr,
):  # fmt: skip
    """Gradients of the vector that all heads read their states with; LATE: EACH heads add up first."""
    token = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    dim, place = tl.arange(0, DIM), tl.arange(0, SIZE)
    out = out_ptr + token[:, None] * SIZE + place[None, :]
    total = tl.zeros((BLOCK, SIZE), dtype=tl.float32)
    for head in range(tl.program_id(0) * EACH, tl.program_id(0) * EACH + EACH):
        grad = tl.load(grad_ptr + (token[:, None] * heads + head) * DIM + dim[None, :])
        state_at = (tl.program_id(1) * heads + head) * DIM + dim
        state = tl.load(state_ptr + state_at[:, None] * SIZE + place[None, :])
        if LATE:
            total = tl.dot(grad, state, total)
        else:
            tl.atomic_add(out, tl.dot(grad, state), sem="relaxed")  # fault
    if LATE:
        tl.atomic_add(out, total, sem="relaxed")


def _read_gradients(late: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, heads = (256, 16) if small else (65536, 64)
        grad = random(tokens, heads, 64, dtype=torch.bfloat16)
        state, out = random(tokens // 128, heads, 64, 128, dtype=torch.bfloat16), zeros(tokens, 128)
        options = {"EACH": 16, "BLOCK": 128, "DIM": 64, "SIZE": 128, "LATE": late, "num_warps": 8}
        args = (grad, state, out, heads)
        options["num_stages"] = 2
        return Launch(read_gradients_kernel, (heads // 16, tokens // 128), args, (out,), options)

    return prepare


_case = faults_of(8)


CASES = (
    _case(
        "rejected drafts read twice",
        ("redundant-load",),
        ("counts",),
        True,
        _recovered_token(False),
        _recovered_token(True),
    ),
    _case(
        "gated recurrence token by token",
        ("exposed-latency",),
        ("samples", "spans"),
        True,
        _gated_recurrence(1),
        _gated_recurrence(16),
    ),
    _case(
        "log decays summed head by head",
        ("uncoalesced-load", "uncoalesced-store"),
        ("counts",),
        True,
        _summed_decays(1, 256),
        _summed_decays(8, 128),
    ),
    _case(
        "chunks corrected by exact products",
        ("no-tensor-cores",),
        ("counts", "samples"),
        True,
        _corrected(True),
        _corrected(False),
    ),
    _case(
        "hidden states rotated by butterflies",
        ("layout-conversion", "no-tensor-cores"),
        ("counts",),
        True,
        _rotated_rows(False),
        _rotated_rows(True),
    ),
    _case(
        "gradients of keys and values by 4 warps",
        ("register-spills",),
        ("resources", "counts"),
        False,
        _key_value_gradients(4),
        _key_value_gradients(8),
    ),
    _case(
        "pages gathered request by request",
        ("load-imbalance", "tail"),
        ("ctas",),
        True,
        _gathered_cache(1024),
        _gathered_cache(32),
    ),
    _case(
        "read gradients added head by head",
        ("atomics",),
        ("counts", "samples"),
        True,
        _read_gradients(False),
        _read_gradients(True),
    ),
)
