"""Eighth round, faults in the layers of language models: positions, experts, heads, and narrow copies."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def image_rope_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, tokens, TIME: tl.constexpr, HEIGHT: tl.constexpr, HALF: tl.constexpr,
    BLOCK: tl.constexpr, HEAD_FIRST: tl.constexpr,
):  # fmt: skip
    """Rotate heads by three positions of each token: time, height and width (a vision-language model)."""
    if HEAD_FIRST:
        head, heads, block = tl.program_id(0), tl.num_programs(0), tl.program_id(1)
    else:
        block, head, heads = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    token = (block * BLOCK + tl.arange(0, BLOCK))[:, None]
    dim = tl.arange(0, HALF)[None, :]
    section = tl.where(dim < TIME, 0, tl.where(dim < TIME + HEIGHT, 1, 2))
    angle = (section * tokens + token) * HALF + dim
    cos, sin = tl.load(cos_ptr + angle), tl.load(sin_ptr + angle)  # fault
    at = (token * heads + head) * 2 * HALF + dim
    low, high = tl.load(x_ptr + at).to(tl.float32), tl.load(x_ptr + at + HALF).to(tl.float32)
    tl.store(out_ptr + at, (low * cos - high * sin).to(tl.bfloat16))
    tl.store(out_ptr + at + HALF, (high * cos + low * sin).to(tl.bfloat16))


def _image_rope(head_first: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, heads = (32, 4) if small else (3 << 16, 12)
        x = random(tokens, heads, 128, dtype=torch.bfloat16)
        angle = 6.28 * torch.rand(3, tokens, 64)
        cos, sin, out = angle.cos(), angle.sin(), torch.empty_like(x)
        options = {
            "TIME": 16,
            "HEIGHT": 24,
            "HALF": 64,
            "BLOCK": 16,
            "HEAD_FIRST": head_first,
            "num_warps": 4,
        }
        grid = (heads, tokens // 16) if head_first else (tokens // 16, heads)
        return Launch(image_rope_kernel, grid, (x, cos, sin, out, tokens), (out,), options)

    return prepare


@triton.jit
def received_swiglu_kernel(
    x_ptr, count_ptr, out_ptr, scale_ptr, places, WIDTH: tl.constexpr, LEAVE: tl.constexpr
):
    """SwiGLU of the tokens each expert received, as bytes with a scale; LEAVE: empty places end at once."""
    place, expert = tl.program_id(0), tl.program_id(1)
    filled = place < tl.load(count_ptr + expert)
    if LEAVE and not filled:
        return
    row, dim = expert * places + place, tl.arange(0, WIDTH)
    gate = tl.load(x_ptr + row * 2 * WIDTH + dim).to(tl.float32)  # fault
    value = tl.load(x_ptr + row * 2 * WIDTH + WIDTH + dim).to(tl.float32)  # fault
    out = gate * tl.sigmoid(gate) * value
    scale = tl.maximum(tl.max(tl.abs(out), 0), 1e-6) / 127.0
    tl.store(out_ptr + row * WIDTH + dim, tl.floor(out * (1.0 / scale) + 0.5).to(tl.int8), mask=filled)
    tl.store(scale_ptr + row, scale, mask=filled)


def _received_swiglu(leave: bool) -> Prepare:
    """A quarter of the places is filled, as buffers are made for the worst case."""

    def prepare(small: bool) -> Launch:
        experts, places = (2, 8) if small else (32, 4096)
        x = random(experts, places, 4096, dtype=torch.bfloat16)
        count = torch.linspace(places // 8, 3 * places // 8, experts).int()
        out, scale = zeros(experts, places, 2048, dtype=torch.int8), zeros(experts, places)
        options = {"WIDTH": 2048, "LEAVE": leave, "num_warps": 4}
        args = (x, count, out, scale, places)
        return Launch(received_swiglu_kernel, (places, experts), args, (out, scale), options)

    return prepare


@triton.jit
def capped_logits_kernel(
    x_ptr, weight_ptr, out_ptr, depth, columns, cap, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The last layer's logits, softly capped; WIDE: operands become float32 first."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, DEPTH)
    x_at = x_ptr + row[:, None] * depth + inner[None, :]
    weight_at = weight_ptr + column[None, :] * depth + inner[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, depth, DEPTH):
        x, weight = tl.load(x_at), tl.load(weight_at)
        if WIDE:
            x, weight = x.to(tl.float32), weight.to(tl.float32)  # fault
        total = tl.dot(x, weight, total)
        x_at += DEPTH
        weight_at += DEPTH
    squeezed = 1.0 - 2.0 / (1.0 + tl.exp(2.0 / cap * total))
    tl.store(out_ptr + row[:, None] * columns + column[None, :], (cap * squeezed).to(tl.bfloat16))


def _capped_logits(wide: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns, depth = (128, 256, 256) if small else (2048, 32768, 2304)
        x = random(rows, depth, dtype=torch.bfloat16)
        weight, out = random(columns, depth, dtype=torch.bfloat16), empty(rows, columns, dtype=torch.bfloat16)
        options = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 32, "WIDE": wide, "num_warps": 8, "num_stages": 4}
        args = (x, weight, out, depth, columns, 30.0)
        return Launch(capped_logits_kernel, (rows // 128, columns // 128), args, (out,), options)

    return prepare


@triton.jit
def experts_down_kernel(
    x_ptr, weight_ptr, expert_ptr, gate_ptr, out_ptr, depth, columns, each, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """The second product of each expert with its sorted tokens, times the router's gate."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    expert = tl.load(expert_ptr + tl.program_id(1) * ROWS // each).to(tl.int64)
    inner = tl.arange(0, DEPTH)
    x_at = x_ptr + row[:, None] * depth + inner[None, :]
    weight_at = weight_ptr + expert * depth * columns + column[None, :] * depth + inner[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, depth, DEPTH):
        total = tl.dot(tl.load(x_at), tl.load(weight_at), total)
        x_at += DEPTH
        weight_at += DEPTH
    total *= tl.load(gate_ptr + row)[:, None]
    tl.store(out_ptr + row[:, None] * columns + column[None, :], total.to(tl.bfloat16))


def _experts_down(rows: int) -> Prepare:
    """Tokens are padded to 128 for each expert, and blocks of 128 name their expert."""

    def prepare(small: bool) -> Launch:
        tokens, experts, depth, columns = (256, 2, 256, 128) if small else (16384, 16, 2048, 2048)
        x = random(tokens, depth, dtype=torch.bfloat16)
        weight = random(experts, columns, depth, dtype=torch.bfloat16)
        expert = torch.sort(torch.arange(tokens // 128) % experts)[0].int()
        gate, out = torch.rand(tokens), empty(tokens, columns, dtype=torch.bfloat16)
        options = {"ROWS": rows, "COLUMNS": 128, "DEPTH": 64, "num_warps": 4 if rows < 64 else 8}
        grid = (columns // 128, tokens // rows)
        args = (x, weight, expert, gate, out, depth, columns, 128)
        return Launch(experts_down_kernel, grid, args, (out,), options | {"num_stages": 3})

    return prepare


@triton.jit
def hidden_gradient_kernel(
    grad_ptr,
    weight_ptr,
    out_ptr,
    words,
    columns,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WORDS: tl.constexpr,
):
    """Gradients of the last hidden states, from those of the logits."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    word = tl.arange(0, WORDS)
    grad_at = grad_ptr + row[:, None] * words + word[None, :]
    weight_at = weight_ptr + word[:, None] * columns + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, words, WORDS):
        total = tl.dot(tl.load(grad_at), tl.load(weight_at), total)  # fault
        grad_at += WORDS
        weight_at += WORDS * columns
    tl.store(out_ptr + row[:, None] * columns + column[None, :], total.to(tl.bfloat16))


def _hidden_gradient(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns, words = (128, 256, 512) if small else (2048, 4096, 32768)
        grad = random(rows, words, dtype=torch.bfloat16)
        weight, out = random(words, columns, dtype=torch.bfloat16), empty(rows, columns, dtype=torch.bfloat16)
        options = {"ROWS": 128, "COLUMNS": 128, "WORDS": 64, "num_warps": 8, "num_stages": stages}
        args = (grad, weight, out, words, columns)
        return Launch(hidden_gradient_kernel, (columns // 128, rows // 128), args, (out,), options)

    return prepare


@triton.jit
def bytes_both_ways_kernel(
    x_ptr, out_ptr, turned_ptr, scale, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Activations as bytes, and once more transposed, as the backward pass multiplies them."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    x = tl.load(x_ptr + row * columns + column).to(tl.float32)
    code = tl.floor(tl.minimum(tl.maximum(x * scale, -127.0), 127.0) + 0.5).to(tl.int8)
    tl.store(out_ptr + row * columns + column, code)
    tl.store(turned_ptr + column * rows + row, code)  # fault


def _bytes_both_ways(height: int, width: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, columns = (64, 1024) if small else (32768, 8192)
        x = random(rows, columns, dtype=torch.bfloat16)
        out, turned = empty(rows, columns, dtype=torch.int8), empty(columns, rows, dtype=torch.int8)
        options = {"ROWS": height, "COLUMNS": width, "num_warps": 4}
        args = (x, out, turned, 30.0, rows, columns)
        grid = (columns // width, rows // height)
        return Launch(bytes_both_ways_kernel, grid, args, (out, turned), options)

    return prepare


@triton.jit
def grouped_router_kernel(
    logit_ptr, bias_ptr, gate_ptr, expert_ptr, GROUPS: tl.constexpr, EACH: tl.constexpr, BEST: tl.constexpr,
    TOP: tl.constexpr,
):  # fmt: skip
    """The TOP experts of a token, out of its BEST groups of experts (DeepSeek's router)."""
    token, group, member = tl.program_id(0), tl.arange(0, GROUPS), tl.arange(0, EACH)
    index = group[:, None] * EACH + member[None, :]
    gate = tl.sigmoid(tl.load(logit_ptr + token * GROUPS * EACH + index))
    score = gate + tl.load(bias_ptr + index)
    first, at = tl.max(score, 1, return_indices=True)
    second = tl.max(tl.where(member[None, :] == at[:, None], -1.0, score), 1)
    strength = first + second
    left, chosen = strength, group < 0
    for _ in tl.static_range(BEST):
        best = tl.argmax(left, 0)
        chosen |= group == best
        left = tl.where(group == best, -1.0, left)
    score = tl.where(chosen[:, None], score, -1.0)
    for place in tl.static_range(TOP):
        peak = tl.max(tl.max(score, 1), 0)
        expert = tl.min(tl.min(tl.where(score == peak, index, GROUPS * EACH), 1), 0)
        taken = index == expert
        tl.store(gate_ptr + token * TOP + place, tl.sum(tl.sum(tl.where(taken, gate, 0.0), 1), 0))
        tl.store(expert_ptr + token * TOP + place, expert)
        score = tl.where(taken, -1.0, score)


def _grouped_router(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens = 8 if small else 1 << 16
        logit, bias = random(tokens, 256), 0.1 * torch.rand(256)
        gate, expert = empty(tokens, 8), empty(tokens, 8, dtype=torch.int32)
        options = {"GROUPS": 8, "EACH": 32, "BEST": 4, "TOP": 8, "num_warps": warps}
        args = (logit, bias, gate, expert)
        return Launch(grouped_router_kernel, (tokens,), args, (gate, expert), options)

    return prepare


@triton.jit
def byte_matvec_kernel(
    x_ptr, weight_ptr, scale_ptr, out_ptr, DEPTH: tl.constexpr, BLOCK: tl.constexpr, LATE: tl.constexpr
):
    """One token's product with weights of bytes, a program a row; LATE: lanes are added up at the end."""
    row, lane = tl.program_id(0), tl.arange(0, BLOCK)
    weight_ptr += row.to(tl.int64) * DEPTH
    total = tl.zeros((BLOCK,), dtype=tl.float32) if LATE else 0.0
    for start in range(0, DEPTH, BLOCK):
        x = tl.load(x_ptr + start + lane).to(tl.float32)
        product = x * tl.load(weight_ptr + start + lane).to(tl.float32)
        if LATE:
            total += product
        else:
            total += tl.sum(product, 0)  # fault
    if LATE:
        total = tl.sum(total, 0)
    tl.store(out_ptr + row, total * tl.load(scale_ptr + row))


def _byte_matvec(late: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, depth = (8, 8192) if small else (53248, 16384)
        x = random(depth, dtype=torch.bfloat16)
        weight = torch.randint(-127, 128, (rows, depth), dtype=torch.int8)
        scale, out = torch.rand(rows), empty(rows)
        options = {"DEPTH": depth, "BLOCK": 1024, "LATE": late, "num_warps": 8}
        return Launch(byte_matvec_kernel, (rows,), (x, weight, scale, out), (out,), options)

    return prepare


_case = faults_of(8)


CASES = (
    _case(
        "angles loaded for each head",
        ("tile-reread",),
        ("counters",),
        False,
        _image_rope(False),
        _image_rope(True),
    ),
    _case(
        "places without a token activated",
        ("masked-work",),
        ("counts",),
        True,
        _received_swiglu(False),
        _received_swiglu(True),
    ),
    _case(
        "capped logits of operands in float32",
        ("conversions", "mma-not-overlapped"),
        ("counts", "samples"),
        False,
        _capped_logits(True),
        _capped_logits(False),
    ),
    _case(
        "experts' second layer by 16 tokens",
        ("small-mma", "tile-reread"),
        ("counts", "counters"),
        False,
        _experts_down(16),
        _experts_down(128),
    ),
    _case(
        "gradients of hidden states of 1 stage",
        ("few-stages", "exposed-latency"),
        ("samples",),
        False,
        _hidden_gradient(1),
        _hidden_gradient(4),
    ),
    _case(
        "activations turned four rows at a time",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _bytes_both_ways(4, 1024),
        _bytes_both_ways(64, 64),
    ),
    _case(
        "groups of experts by 8 warps",
        ("too-many-warps", "serial-reduction"),
        ("counts", "samples"),
        True,
        _grouped_router(8),
        _grouped_router(1),
    ),
    _case(
        "bytes' products summed over warps each step",
        ("serial-reduction",),
        ("counts", "samples"),
        True,
        _byte_matvec(False),
        _byte_matvec(True),
    ),
)
