"""Twelfth round, faults of serving: decoding, caches, quantised weights, experts, recurrent states."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def page_bounds_kernel(
    key_ptr, low_ptr, high_ptr, tokens, pages_of_program, PAGE: tl.constexpr, DIM: tl.constexpr
):
    """Bounds of the keys of each page of a cache, by which queries choose pages (Quest)."""
    chunk, head, dim = tl.program_id(0), tl.program_id(1), tl.arange(0, DIM)
    tile = tl.arange(0, PAGE)[:, None] * DIM + dim[None, :]
    pages = tokens // PAGE
    for each in range(pages_of_program):
        page = head * pages + chunk * pages_of_program + each
        key = tl.load(key_ptr + page * (PAGE * DIM) + tile)
        tl.store(low_ptr + page * DIM + dim, tl.min(key, 0))
        tl.store(high_ptr + page * DIM + dim, tl.max(key, 0))


def _page_bounds(chunks: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, tokens = (2, 1024) if small else (64, 16384)
        key = random(heads, tokens, 128, dtype=torch.float16)
        low, high = (empty(heads, tokens // 64, 128, dtype=torch.float16) for _ in range(2))
        options = {"PAGE": 64, "DIM": 128, "num_warps": 4}
        args = (key, low, high, tokens, tokens // 64 // chunks)
        return Launch(page_bounds_kernel, (chunks, heads), args, (low, high), options)

    return prepare


@triton.jit
def expert_bytes_kernel(
    x_ptr, start_ptr, out_ptr, scale_ptr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, GROUP: tl.constexpr
):
    """Gated rows of each expert as bytes, with a scale for each group of columns."""
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    group = tl.program_id(0) * (BLOCK // GROUP) + tl.arange(0, BLOCK // GROUP)
    first = tl.load(start_ptr + tl.program_id(2))
    last = tl.load(start_ptr + tl.program_id(2) + 1)
    for row in range(first + tl.program_id(1), last, tl.num_programs(1)):  # fault
        gate = tl.load(x_ptr + row * (2 * WIDTH) + column).to(tl.float32)
        up = tl.load(x_ptr + row * (2 * WIDTH) + WIDTH + column).to(tl.float32)
        y = tl.reshape(gate * tl.sigmoid(gate) * up, (BLOCK // GROUP, GROUP))
        scale = tl.maximum(tl.max(tl.abs(y), 1), 1e-6) * (1.0 / 127.0)
        code = y * (1.0 / scale)[:, None] + 0.5
        code = tl.reshape(tl.floor(code), (BLOCK,)).to(tl.int8)
        tl.store(out_ptr + row * WIDTH + column, code)
        tl.store(scale_ptr + row * (WIDTH // GROUP) + group, scale)


def _expert_bytes(programs: int) -> Prepare:
    """Some experts have many more tokens than others."""

    def prepare(small: bool) -> Launch:
        width = 512 if small else 2048
        counts = [20, 3] if small else [128] * 124 + [4096] * 4
        starts = [sum(counts[:each]) for each in range(len(counts) + 1)]
        rows = starts[-1]
        x = random(rows, 2 * width, dtype=torch.bfloat16)
        out, scale = empty(rows, width, dtype=torch.int8), empty(rows, width // 128)
        options = {"WIDTH": width, "BLOCK": 512, "GROUP": 128, "num_warps": 4}
        args = (x, torch.tensor(starts, dtype=torch.int32), out, scale)
        grid = (width // 512, min(programs, 8) if small else programs, len(counts))
        return Launch(expert_bytes_kernel, grid, args, (out, scale), options)

    return prepare


@triton.jit
def normal_floats_kernel(code_ptr, peak_ptr, level_ptr, out_ptr, BLOCK: tl.constexpr):
    """Weights from levels of four bits and the peak of each 64 weights (NF4)."""
    at = tl.program_id(0) * (BLOCK // 2) + tl.arange(0, BLOCK // 2)
    code = tl.load(code_ptr + at).to(tl.int32)
    peak = tl.load(peak_ptr + at // 32)
    high, low = tl.load(level_ptr + (code >> 4)), tl.load(level_ptr + (code & 15))
    weight = tl.reshape(tl.join(high * peak, low * peak), (BLOCK,))
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), weight.to(tl.bfloat16))


def _normal_floats(block: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        weights = 4096 if small else 1 << 27
        each = min(block, 1024) if small else block
        code = integers(weights // 2, below=256, dtype=torch.uint8)
        peak, level = torch.rand(weights // 64) + 0.5, torch.linspace(-1.0, 1.0, 16)
        out = empty(weights, dtype=torch.bfloat16)
        options = {"BLOCK": each, "num_warps": warps}
        return Launch(normal_floats_kernel, (weights // each,), (code, peak, level, out), (out,), options)

    return prepare


@triton.jit
def nibble_planes_kernel(
    packed_ptr, low_ptr, high_ptr, from_ptr, to_ptr, BLOCK: tl.constexpr, ALIGNED: tl.constexpr
):
    """Packed weights of experts parted into planes of nibbles, from and to the places that tables name."""
    source, target = tl.load(from_ptr + tl.program_id(1)), tl.load(to_ptr + tl.program_id(1))
    if ALIGNED:
        source, target = tl.multiple_of(source, 16), tl.multiple_of(target, 16)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    packed = tl.load(packed_ptr + source + at)  # fault
    tl.store(low_ptr + target + at, packed & 15)  # fault
    tl.store(high_ptr + target + at, packed >> 4)  # fault


def _nibble_planes(aligned: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        experts, size = (2, 8192) if small else (128, 1 << 21)
        packed = integers(experts * size, below=256, dtype=torch.uint8)
        low, high = (torch.empty_like(packed) for _ in range(2))
        source = torch.arange(experts, dtype=torch.int32) * size
        target = torch.flip(source, (0,))
        options = {"BLOCK": 4096, "ALIGNED": aligned, "num_warps": 4}
        args = (packed, low, high, source, target)
        return Launch(nibble_planes_kernel, (size // 4096, experts), args, (low, high), options)

    return prepare


@triton.jit
def beam_caches_kernel(cache_ptr, parent_ptr, out_ptr, beams, size, BLOCK: tl.constexpr, FLAT: tl.constexpr):
    """The caches of all layers in the order of the beams that go on. FLAT: from the number of an element."""
    if FLAT:
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        row = at // size  # fault
        inner = at % size  # fault
        parent = tl.load(parent_ptr + row % beams)  # fault
        source = (row // beams * beams + parent) * size + inner  # fault
    else:
        layer, beam = tl.program_id(1) // beams, tl.program_id(1) % beams
        inner = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        at = tl.program_id(1) * size + inner
        source = (layer * beams + tl.load(parent_ptr + beam)) * size + inner
    tl.store(out_ptr + at, tl.load(cache_ptr + source))


def _beam_caches(flat: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        layers, beams, size = (1, 4, 2048) if small else (16, 8, 1 << 20)
        cache = random(layers, beams, size, dtype=torch.bfloat16)
        parent, out = integers(beams, below=beams), torch.empty_like(cache)
        options = {"BLOCK": 1024, "FLAT": flat, "num_warps": 4}
        grid = (layers * beams * size // 1024,) if flat else (size // 1024, layers * beams)
        return Launch(beam_caches_kernel, grid, (cache, parent, out, beams, size), (out,), options)

    return prepare


@triton.jit
def channel_peaks_kernel(
    x_ptr, peak_ptr, channels, ROWS: tl.constexpr, BLOCK: tl.constexpr, EACH: tl.constexpr
):
    """Peaks of channels over all tokens, as bits of float32, to choose scales by (SmoothQuant)."""
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x_at = x_ptr + tl.program_id(1) * ROWS * channels + channel
    peak = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(ROWS):
        size = tl.abs(tl.load(x_at + row * channels).to(tl.float32))
        if EACH:
            tl.atomic_max(peak_ptr + channel, size.to(tl.int32, bitcast=True), sem="relaxed")  # fault
        else:
            peak = tl.maximum(peak, size)
    if not EACH:
        tl.atomic_max(peak_ptr + channel, peak.to(tl.int32, bitcast=True), sem="relaxed")


def _channel_peaks(each: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, channels = (32, 1024) if small else (65536, 4096)
        rows = 8 if small else 64
        x, peak = random(tokens, channels, dtype=torch.bfloat16), zeros(channels, dtype=torch.int32)
        options = {"ROWS": rows, "BLOCK": 512, "EACH": each, "num_warps": 4}
        grid = (channels // 512, tokens // rows)
        return Launch(channel_peaks_kernel, grid, (x, peak, channels), (peak,), options)

    return prepare


@triton.jit
def streamed_attention_kernel(
    q_ptr, key_ptr, value_ptr, cos_ptr, sin_ptr, out_ptr, queries, keys, scale,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, HALF: tl.constexpr, ROTATE: tl.constexpr,
):  # fmt: skip
    """Attention of new tokens to a cache. ROTATE: whose keys get their places in the cache as angles now
    (StreamingLLM)."""
    head, half, inner = tl.program_id(1), tl.arange(0, HALF), tl.arange(0, COLUMNS)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    q_at = q_ptr + (head * queries + row)[:, None] * (2 * HALF) + half[None, :]
    q_low, q_high = tl.load(q_at), tl.load(q_at + HALF)
    key_at = key_ptr + (head * keys + inner)[None, :] * (2 * HALF) + half[:, None]
    angle = inner[None, :] * HALF + half[:, None]
    dim = tl.arange(0, 2 * HALF)
    value_at = value_ptr + (head * keys + inner)[:, None] * (2 * HALF) + dim[None, :]
    peak = tl.full((ROWS,), -1e30, dtype=tl.float32)
    mass = tl.zeros((ROWS,), dtype=tl.float32)
    total = tl.zeros((ROWS, 2 * HALF), dtype=tl.float32)
    for start in range(0, keys, COLUMNS):
        low, high = tl.load(key_at), tl.load(key_at + HALF)
        if ROTATE:
            cos = tl.load(cos_ptr + angle + start * HALF)  # fault
            sin = tl.load(sin_ptr + angle + start * HALF)  # fault
            turned = low.to(tl.float32) * cos - high.to(tl.float32) * sin  # fault
            high = (high.to(tl.float32) * cos + low.to(tl.float32) * sin).to(tl.bfloat16)  # fault
            low = turned.to(tl.bfloat16)  # fault
        score = tl.dot(q_low, low)  # fault
        score = tl.dot(q_high, high, score) * scale  # fault
        new = tl.maximum(peak, tl.max(score, 1))
        weight, fade = tl.exp2(score - new[:, None]), tl.exp2(peak - new)
        mass = mass * fade + tl.sum(weight, 1)
        total = tl.dot(weight.to(tl.bfloat16), tl.load(value_at), total * fade[:, None])
        peak = new
        key_at += COLUMNS * 2 * HALF
        value_at += COLUMNS * 2 * HALF
    out_at = out_ptr + (head * queries + row)[:, None] * (2 * HALF) + dim[None, :]
    tl.store(out_at, (total / mass[:, None]).to(tl.bfloat16))


def _streamed_attention(rotate: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, queries, keys = (1, 128, 256) if small else (16, 4096, 8192)
        q, key, value = (random(heads, each, 128, dtype=torch.bfloat16) for each in (queries, keys, keys))
        place = torch.arange(keys, dtype=torch.float32)[:, None]
        angle = place * torch.exp2(torch.arange(64, dtype=torch.float32)[None, :] * (-13.28 / 64))
        cos, sin = torch.cos(angle).to(torch.bfloat16), torch.sin(angle).to(torch.bfloat16)
        if not rotate:
            low, high = key[:, :, :64].float(), key[:, :, 64:].float()
            key = torch.cat([low * cos - high * sin, high * cos + low * sin], 2).to(torch.bfloat16)
        out = torch.empty_like(q)
        options = {"ROWS": 128, "COLUMNS": 64, "HALF": 64, "ROTATE": rotate, "num_warps": 8}
        args = (q, key, value, cos, sin, out, queries, keys, 128**-0.5 * 1.4427)
        grid = (queries // 128, heads)
        return Launch(streamed_attention_kernel, grid, args, (out,), options | {"num_stages": 3})

    return prepare


@triton.jit
def router_logits_kernel(
    x_ptr, weight_ptr, out_ptr, dim, experts, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    EXACT: tl.constexpr,
):  # fmt: skip
    """Logits of experts for each token, of operands in bfloat16. EXACT: multiplied as float32."""
    row, inner = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, DEPTH)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x_at = x_ptr + row[:, None] * dim + inner[None, :]
    weight_at = weight_ptr + column[None, :] * dim + inner[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, dim, DEPTH):
        x, weight = tl.load(x_at), tl.load(weight_at)
        if EXACT:
            x, weight = x.to(tl.float32), weight.to(tl.float32)  # fault
            total = tl.dot(x, weight, total, input_precision="tf32x3")  # fault
        else:
            total = tl.dot(x, weight, total)
        x_at += DEPTH
        weight_at += DEPTH
    tl.store(out_ptr + row[:, None] * experts + column[None, :], total)


def _router_logits(exact: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, dim, experts = (128, 128, 256) if small else (32768, 4096, 256)
        x, weight = random(tokens, dim, dtype=torch.bfloat16), random(experts, dim, dtype=torch.bfloat16)
        out = empty(tokens, experts)
        options = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64, "EXACT": exact, "num_warps": 8}
        args, grid = (x, weight, out, dim, experts), (experts // 128, tokens // 128)
        return Launch(router_logits_kernel, grid, args, (out,), options | {"num_stages": 3})

    return prepare


@triton.jit
def weighted_values_kernel(
    key_ptr, value_ptr, fade_ptr, bonus_ptr, out_ptr, tokens, CHANNELS: tl.constexpr, BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Means of values so far, weighted by keys that fade, as the fourth RWKV reads a prompt."""
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.program_id(1) * tokens * CHANNELS + channel
    fade, bonus = tl.load(fade_ptr + channel), tl.load(bonus_ptr + channel)
    above = tl.zeros((BLOCK,), dtype=tl.float32)
    below = tl.zeros((BLOCK,), dtype=tl.float32)
    peak = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    for token in tl.range(0, tokens, num_stages=STAGES):  # fault
        key = tl.load(key_ptr + at + token * CHANNELS).to(tl.float32)  # fault
        value = tl.load(value_ptr + at + token * CHANNELS).to(tl.float32)  # fault
        new = tl.maximum(peak, key + bonus)
        old, own = tl.exp2(peak - new), tl.exp2(key + bonus - new)
        mean = (old * above + own * value) / (old * below + own)  # fault
        tl.store(out_ptr + at + token * CHANNELS, mean.to(tl.bfloat16))
        new = tl.maximum(peak - fade, key)  # fault
        old, own = tl.exp2(peak - fade - new), tl.exp2(key - new)
        above, below, peak = old * above + own * value, old * below + own, new


def _weighted_values(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        texts, tokens, channels = (1, 32, 128) if small else (16, 1024, 2048)
        key, value = (random(texts, tokens, channels, dtype=torch.bfloat16) for _ in range(2))
        fade, bonus, out = torch.rand(channels), random(channels), torch.empty_like(key)
        options = {"CHANNELS": channels, "BLOCK": 64, "STAGES": stages, "num_warps": 1}
        args = (key, value, fade, bonus, out, tokens)
        return Launch(weighted_values_kernel, (channels // 64, texts), args, (out,), options)

    return prepare


@triton.jit
def token_mixes_kernel(
    x_ptr, share_ptr, out_ptr, tokens, DIM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    MIXES: tl.constexpr,
):  # fmt: skip
    """Five mixes of each token and the one before, for receptance, keys, values, gates and decays (RWKV)."""
    row, column = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    column += tl.program_id(0) * BLOCK
    at = row[:, None] * DIM + column[None, :]
    x = tl.load(x_ptr + at).to(tl.float32)  # fault
    last = tl.load(x_ptr + at - DIM, mask=row[:, None] > 0, other=0.0).to(tl.float32)  # fault
    for each in tl.static_range(MIXES):
        mix = tl.program_id(2) * MIXES + each  # fault
        share = tl.load(share_ptr + mix * DIM + column[None, :])
        tl.store(out_ptr + mix * tokens * DIM + at, (x + (last - x) * share).to(tl.bfloat16))


def _token_mixes(mixes: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, dim = (8, 512) if small else (16384, 4096)
        x, share = random(tokens, dim, dtype=torch.bfloat16), torch.rand(5, dim)
        out = empty(5, tokens, dim, dtype=torch.bfloat16)
        options = {"DIM": dim, "ROWS": 4, "BLOCK": 512, "MIXES": mixes, "num_warps": 4}
        grid = (dim // 512, tokens // 4, 5 // mixes)
        return Launch(token_mixes_kernel, grid, (x, share, out, tokens), (out,), options)

    return prepare


_fault = faults_of(12)


CASES = (
    _fault(
        "bounds of cached keys by a program a head",
        ("idle-sms", "low-occupancy", "exposed-latency"),
        ("ctas", "spans"),
        True,
        _page_bounds(1),
        _page_bounds(16),
    ),
    _fault(
        "gated rows of a few busy experts",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        True,
        _expert_bytes(8),
        _expert_bytes(64),
    ),
    _fault(
        "a CTA for two blocks of normal floats",
        ("tiny-ctas",),
        ("ctas", "counts"),
        True,
        _normal_floats(128, 1),
        _normal_floats(4096, 4),
    ),
    _fault(
        "nibbles parted from places in a table",
        ("unvectorized-access",),
        ("counts",),
        True,
        _nibble_planes(False),
        _nibble_planes(True),
    ),
    _fault(
        "beams' caches reordered from flat numbers",
        ("index-arithmetic", "issue-bound", "unvectorized-access"),
        ("counts", "samples"),
        True,
        _beam_caches(True),
        _beam_caches(False),
    ),
    _fault(
        "channels' peaks raised by each token",
        ("atomics",),
        ("counts", "counters", "samples"),
        True,
        _channel_peaks(True),
        _channel_peaks(False),
    ),
    _fault(
        "cached keys rotated for each block of queries",
        ("mma-not-overlapped", "conversions", "issue-bound", "redundant-load"),
        ("counts", "samples", "counters"),
        False,
        _streamed_attention(True),
        _streamed_attention(False),
    ),
    _fault(
        "experts' logits multiplied as float32",
        ("small-mma", "conversions", "mma-not-overlapped"),
        ("counts", "samples"),
        True,
        _router_logits(True),
        _router_logits(False),
    ),
    _fault(
        "fading keys loaded when their token is due",
        ("exposed-latency", "few-stages", "low-occupancy"),
        ("spans", "samples"),
        False,
        _weighted_values(1),
        _weighted_values(6),
    ),
    _fault(
        "five mixes of tokens in five passes",
        ("redundant-load", "tile-reread"),
        ("counts", "counters"),
        True,
        _token_mixes(1),
        _token_mixes(5),
    ),
)
