"""Ninth round, faults of layers: experts, adapters, quantised weights, positions, logits and pooling."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def experts_combine_kernel(
    row_ptr, weight_ptr, token_ptr, place_ptr, out_ptr, DIM: tl.constexpr, CHOSEN: tl.constexpr,
    GATHER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Experts' results, weighted and summed for each token. GATHER: a program sums all rows of its token."""
    dim = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    if GATHER:
        token = tl.program_id(0)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for chosen in tl.static_range(CHOSEN):
            place = tl.load(place_ptr + token * CHOSEN + chosen)
            row = tl.load(row_ptr + place * DIM + dim).to(tl.float32)
            total += tl.load(weight_ptr + place) * row
        tl.store(out_ptr + token * DIM + dim, total)
    else:
        place = tl.program_id(0)
        row = tl.load(row_ptr + place * DIM + dim).to(tl.float32)
        token = tl.load(token_ptr + place)
        tl.atomic_add(out_ptr + token * DIM + dim, tl.load(weight_ptr + place) * row)  # fault


def _experts_combine(gather: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, chosen, dim = (8, 4, 1024) if small else (8192, 8, 2048)
        rows = tokens * chosen
        row, weight, out = random(rows, dim, dtype=torch.bfloat16), torch.rand(rows), zeros(tokens, dim)
        place = torch.randperm(rows, dtype=torch.int32)
        token = torch.empty_like(place)
        token[place.long()] = torch.arange(rows, dtype=torch.int32) // chosen
        args = (row, weight, token, place, out)
        options = {"DIM": dim, "CHOSEN": chosen, "GATHER": gather, "BLOCK": 1024, "num_warps": 4}
        return Launch(
            experts_combine_kernel, (tokens if gather else rows, dim // 1024), args, (out,), options
        )

    return prepare


@triton.jit
def group_quantise_kernel(x_ptr, code_ptr, scale_ptr, GROUP: tl.constexpr, GROUPS: tl.constexpr):
    """Activations as bytes, with a scale for each group of channels."""
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    at = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    x = tl.load(x_ptr + at).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), 1), 1e-10) * (1.0 / 127.0)
    code = tl.floor(x * (1.0 / scale)[:, None] + 0.5)
    tl.store(code_ptr + at, code.to(tl.int8))
    tl.store(scale_ptr + group, scale)


def _group_quantise(groups: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, dim = (8, 2048) if small else (16384, 7168)
        x = random(tokens, dim, dtype=torch.bfloat16)
        code, scale = empty(tokens, dim, dtype=torch.int8), empty(tokens, dim // 128)
        options = {"GROUP": 128, "GROUPS": groups, "num_warps": num_warps}
        grid = (tokens * dim // 128 // groups,)
        return Launch(group_quantise_kernel, grid, (x, code, scale), (code, scale), options)

    return prepare


@triton.jit
def packed_weights_kernel(
    word_ptr, scale_ptr, out_ptr, depth, columns, WORDS: tl.constexpr, COLUMNS: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """Weights of four bits, eight rows a word, become a layer's matrix. WHOLE: a tile is stored at once."""
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    packed = tl.load(word_ptr + word[:, None] * columns + column[None, :])
    scale = tl.load(scale_ptr + tl.program_id(0) * WORDS // 16 * columns + column).to(tl.float32)[None, :]
    if WHOLE:
        shift = 4 * tl.arange(0, 8)
        code = tl.reshape((packed[:, None, :] >> shift[None, :, None]) & 15, (WORDS * 8, COLUMNS))
        row = tl.program_id(0) * WORDS * 8 + tl.arange(0, WORDS * 8)
        weight = ((code - 8).to(tl.float32) * scale).to(tl.bfloat16)
        tl.store(out_ptr + column[None, :] * depth + row[:, None], weight)
    else:
        for each in tl.static_range(8):
            weight = (((packed >> (4 * each)) & 15) - 8).to(tl.float32) * scale
            row = word[:, None] * 8 + each
            tl.store(out_ptr + column[None, :] * depth + row, weight.to(tl.bfloat16))  # fault


def _packed_weights(whole: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        depth, columns = (512, 128) if small else (12288, 16384)
        word = torch.randint(-(2**31), 2**31 - 1, (depth // 8, columns), dtype=torch.int32)
        scale = (0.1 + torch.rand(depth // 128, columns)).to(torch.bfloat16)
        out = empty(columns, depth, dtype=torch.bfloat16)
        options = {"WORDS": 16, "COLUMNS": 64, "WHOLE": whole, "num_warps": 4}
        args = (word, scale, out, depth, columns)
        return Launch(packed_weights_kernel, (depth // 128, columns // 64), args, (out,), options)

    return prepare


@triton.jit
def computed_rotary_kernel(
    x_ptr, out_ptr, heads, first, base, TOKENS: tl.constexpr, DIM: tl.constexpr, FAST: tl.constexpr
):
    """Heads turned by their token's position; angles are computed, not loaded. FAST: by the hardware."""
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    dim = tl.arange(0, DIM // 2)
    at = (token[:, None] * heads + tl.program_id(0)) * DIM + dim[None, :]
    x = tl.load(x_ptr + at).to(tl.float32)
    y = tl.load(x_ptr + at + DIM // 2).to(tl.float32)
    place = (first + token).to(tl.float32)
    share = dim.to(tl.float32) * (2.0 / DIM)
    if FAST:
        turns = place[:, None] * tl.exp2(-tl.log2(base) * share)[None, :] * 0.15915494
        angle = (turns - tl.floor(turns)) * 6.2831853
        sine, cosine = libdevice.fast_sinf(angle), libdevice.fast_cosf(angle)
    else:
        angle = place[:, None] / libdevice.pow(base, share)[None, :]  # fault
        sine, cosine = libdevice.sin(angle), libdevice.cos(angle)  # fault
    tl.store(out_ptr + at, (x * cosine - y * sine).to(tl.bfloat16))
    tl.store(out_ptr + at + DIM // 2, (y * cosine + x * sine).to(tl.bfloat16))


def _computed_rotary(fast: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, heads = (64, 2) if small else (32768, 32)
        x = random(tokens, heads, 128, dtype=torch.bfloat16)
        out = torch.empty_like(x)
        options = {"TOKENS": 16, "DIM": 128, "FAST": fast, "num_warps": 4}
        args = (x, out, heads, 512, 10000.0)
        return Launch(computed_rotary_kernel, (heads, tokens // 16), args, (out,), options)

    return prepare


@triton.jit
def entropy_kernel(logit_ptr, out_ptr, words, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """The entropy of each token's distribution of the next word, in one pass. WIDE: in float64."""
    row, lane = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    peak = tl.full((BLOCK,), -1e30, tl.float64 if WIDE else tl.float32)
    total, weighted = tl.zeros_like(peak), tl.zeros_like(peak)
    for start in range(0, words, BLOCK):
        inside = start + lane < words
        logit = tl.load(logit_ptr + row * words + start + lane, mask=inside, other=-1e30)
        x = logit.to(tl.float64 if WIDE else tl.float32)
        higher = tl.maximum(peak, x)
        fade, chance = tl.exp(peak - higher), tl.exp(x - higher)  # fault
        total = total * fade + chance  # fault
        weighted = weighted * fade + chance * x  # fault
        peak = higher
    top = tl.max(peak, 0)
    fade = tl.exp(peak - top)
    mass = tl.sum(total * fade, 0)
    entropy = top + tl.log(mass) - tl.sum(weighted * fade, 0) / mass
    tl.store(out_ptr + tl.program_id(0), entropy.to(tl.float32))


def _entropy(wide: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, words = (4, 8000) if small else (4096, 32000)
        logit, out = (3.0 * random(rows, words)).to(torch.bfloat16), empty(rows)
        options = {"BLOCK": 1024, "WIDE": wide, "num_warps": 4}
        return Launch(entropy_kernel, (rows,), (logit, out, words), (out,), options)

    return prepare


@triton.jit
def adapters_expand_kernel(
    low_ptr, weight_ptr, adapter_ptr, out_ptr, columns, RANK: tl.constexpr, TOKENS: tl.constexpr,
    COLUMNS: tl.constexpr, LEAVE: tl.constexpr,
):  # fmt: skip
    """What adapters add to a layer's results. LEAVE: blocks of tokens without an adapter end at once."""
    adapter = tl.load(adapter_ptr + tl.program_id(1))
    if LEAVE:  # noqa: SIM102
        if adapter < 0:
            return
    token = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    rank = tl.arange(0, RANK)
    low = tl.load(low_ptr + token[:, None] * RANK + rank[None, :])
    first = tl.maximum(adapter, 0) * columns
    weight = tl.load(weight_ptr + (first + column[None, :]) * RANK + rank[:, None])
    change = tl.dot(low, weight)  # fault
    at = out_ptr + token[:, None] * columns + column[None, :]
    change = tl.where(adapter >= 0, change, 0.0)  # fault
    tl.store(at, (tl.load(at).to(tl.float32) + change).to(tl.bfloat16))  # fault


def _adapters_expand(leave: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, columns = (512, 256) if small else (32768, 8192)
        low = 0.1 * random(tokens, 32)
        weight = random(8, columns, 32, dtype=torch.bfloat16)
        adapter = integers(tokens // 64, below=24) - 16
        adapter[0] = 3
        out = random(tokens, columns, dtype=torch.bfloat16)
        options = {"RANK": 32, "TOKENS": 64, "COLUMNS": 128, "LEAVE": leave, "num_warps": 4}
        args = (low.to(torch.bfloat16), weight, adapter.clamp(min=-1), out, columns)
        return Launch(adapters_expand_kernel, (columns // 128, tokens // 64), args, (out,), options)

    return prepare


@triton.jit
def pooled_texts_kernel(x_ptr, length_ptr, out_ptr, longest, dims, TOKENS: tl.constexpr, DIMS: tl.constexpr):
    """Mean of each text's tokens, an embedding of the text."""
    text = tl.program_id(1)
    dim = tl.program_id(0) * DIMS + tl.arange(0, DIMS)
    length = tl.load(length_ptr + text)
    first = text.to(tl.int64) * longest
    total = tl.zeros((TOKENS, DIMS), dtype=tl.float32)
    for start in range(0, length, TOKENS):
        token = start + tl.arange(0, TOKENS)[:, None]
        at = (first + token) * dims + dim[None, :]
        total += tl.load(x_ptr + at, mask=token < length, other=0.0).to(tl.float32)
    tl.store(out_ptr + text * dims + dim, tl.sum(total, 0) / length)


def _pooled_texts(dims: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        texts, longest, width = (2, 64, 1024) if small else (16, 4096, 4096)
        x = random(texts, longest, width, dtype=torch.bfloat16)
        length, out = longest - integers(texts, below=longest // 16), empty(texts, width)
        options = {"TOKENS": 8192 // dims, "DIMS": dims, "num_warps": 4}
        args = (x, length, out, longest, width)
        return Launch(pooled_texts_kernel, (width // dims, texts), args, (out,), options)

    return prepare


@triton.jit
def expert_gradients_kernel(
    x_ptr, grad_ptr, bound_ptr, out_ptr, depth, columns, DEPTH: tl.constexpr, COLUMNS: tl.constexpr,
    TOKENS: tl.constexpr,
):  # fmt: skip
    """Gradients of experts' weights, of tokens sorted by expert and filled up to whole blocks."""
    expert = tl.program_id(2)
    row = tl.program_id(0) * DEPTH + tl.arange(0, DEPTH)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    begin, end = tl.load(bound_ptr + expert), tl.load(bound_ptr + expert + 1)
    token = begin + tl.arange(0, TOKENS)[:, None]
    x_at, grad_at = x_ptr + token * depth + row[None, :], grad_ptr + token * columns + column[None, :]
    total = tl.zeros((DEPTH, COLUMNS), dtype=tl.float32)
    for _ in range(begin, end, TOKENS):
        x, grad = tl.load(x_at), tl.load(grad_at)  # fault
        total = tl.dot(tl.trans(x), grad, total)
        x_at += TOKENS * depth
        grad_at += TOKENS * columns
    at = (expert * depth + row[:, None]) * columns + column[None, :]
    tl.store(out_ptr + at, total.to(tl.bfloat16))


def _expert_gradients(num_stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        experts, blocks, depth, columns = (2, 10, 128, 256) if small else (8, 256, 4096, 4096)
        x = random(blocks * 64, depth, dtype=torch.bfloat16)
        grad = random(blocks * 64, columns, dtype=torch.bfloat16)
        bound = torch.linspace(0, blocks, experts + 1).int() * 64
        out = empty(experts, depth, columns, dtype=torch.bfloat16)
        options = {"DEPTH": 128, "COLUMNS": 256, "TOKENS": 64, "num_warps": 8, "num_stages": num_stages}
        grid = (depth // 128, columns // 256, experts)
        args = (x, grad, bound, out, depth, columns)
        return Launch(expert_gradients_kernel, grid, args, (out,), options)

    return prepare


_case = faults_of(9)


CASES = (
    _case(
        "experts' results added row by row",
        ("atomics",),
        ("counts", "samples"),
        True,
        _experts_combine(False),
        _experts_combine(True),
    ),
    _case(
        "a CTA for each 128 channels as bytes",
        ("tiny-ctas",),
        ("spans", "ctas"),
        True,
        _group_quantise(1, 1),
        _group_quantise(32, 4),
    ),
    _case(
        "unpacked weights stored row by row",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _packed_weights(False),
        _packed_weights(True),
    ),
    _case(
        "rotary angles by pow and sin",
        ("slow-math",),
        ("counts",),
        True,
        _computed_rotary(False),
        _computed_rotary(True),
    ),
    _case(
        "entropy of words in float64",
        ("fp64-arithmetic",),
        ("counts",),
        True,
        _entropy(True),
        _entropy(False),
    ),
    _case(
        "tokens without an adapter adapted",
        ("masked-work",),
        ("counts",),
        False,
        _adapters_expand(False),
        _adapters_expand(True),
    ),
    _case(
        "texts pooled by 64 programs",
        ("idle-sms",),
        ("spans", "ctas"),
        False,
        _pooled_texts(1024),
        _pooled_texts(64),
    ),
    _case(
        "gradients of experts of 1 stage",
        ("few-stages", "exposed-latency"),
        ("samples",),
        False,
        _expert_gradients(1),
        _expert_gradients(3),
    ),
)
