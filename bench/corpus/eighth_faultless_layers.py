"""Eighth round, kernels of language models without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, empty, faultless_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def added_norm_kernel(x_ptr, residual_ptr, weight_ptr, sum_ptr, out_ptr, scale_ptr, DIM: tl.constexpr):
    """A residual is added, and the sum's norm becomes bytes with a scale for each token. Bound by DRAM."""
    dim = tl.arange(0, DIM)
    at = tl.program_id(0) * DIM + dim
    x = tl.load(x_ptr + at).to(tl.float32) + tl.load(residual_ptr + at).to(tl.float32)
    tl.store(sum_ptr + at, x.to(tl.bfloat16))
    x *= tl.rsqrt(tl.sum(x * x, 0) / DIM + 1e-6) * tl.load(weight_ptr + dim).to(tl.float32)
    scale = tl.max(tl.abs(x), 0) * (1.0 / 127.0)
    tl.store(scale_ptr + tl.program_id(0), scale)
    tl.store(out_ptr + at, tl.floor(x * (1.0 / scale) + 0.5).to(tl.int8))


def _added_norm(small: bool) -> Launch:
    tokens = 8 if small else 32768
    x, residual = (random(tokens, 4096, dtype=torch.bfloat16) for _ in range(2))
    weight, total = random(4096, dtype=torch.bfloat16), torch.empty_like(x)
    out, scale = empty(tokens, 4096, dtype=torch.int8), empty(tokens)
    args = (x, residual, weight, total, out, scale)
    return Launch(added_norm_kernel, (tokens,), args, (total, out, scale), {"DIM": 4096, "num_warps": 8})


@triton.jit
def distillation_kernel(student_ptr, teacher_ptr, grad_ptr, loss_ptr, words, BLOCK: tl.constexpr):
    """The divergence of a student's log probabilities from the teacher's, and its gradient. Bound by DRAM."""
    row, lane = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, words, BLOCK):
        at = row * words + start + lane
        inside = start + lane < words
        student = tl.load(student_ptr + at, mask=inside, other=0.0).to(tl.float32)
        teacher = tl.load(teacher_ptr + at, mask=inside, other=-1e9).to(tl.float32)
        chance = tl.exp(teacher)
        total += chance * (teacher - student)
        tl.store(grad_ptr + at, (-chance).to(tl.bfloat16), mask=inside)
    tl.store(loss_ptr + row, tl.sum(total, 0))


def _distillation(small: bool) -> Launch:
    rows, words = (4, 5000) if small else (8192, 32000)
    student = torch.log_softmax(random(rows, words), 1).to(torch.bfloat16)
    teacher = torch.log_softmax(random(rows, words), 1).to(torch.bfloat16)
    grad, loss = torch.empty_like(student), empty(rows)
    args = (student, teacher, grad, loss, words)
    options = {"BLOCK": 2048, "num_warps": 8}
    return Launch(distillation_kernel, (rows,), args, (grad, loss), options)


@triton.jit
def policy_loss_kernel(
    new_ptr, old_ptr, reference_ptr, gain_ptr, loss_ptr, grad_ptr, low, high, share, size, BLOCK: tl.constexpr
):
    """A clipped policy loss of each token with a penalty, and its gradient (GRPO). Bound by DRAM."""
    at = tl.program_id(1) * size + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gain = tl.load(gain_ptr + tl.program_id(1))
    new, old, reference = tl.load(new_ptr + at), tl.load(old_ptr + at), tl.load(reference_ptr + at)
    ratio = tl.exp(new - old)
    clipped = tl.minimum(tl.maximum(ratio, low), high)
    is_free = ratio * gain <= clipped * gain
    apart = tl.exp(reference - new)
    loss = share * (apart - (reference - new) - 1.0) - tl.where(is_free, ratio, clipped) * gain
    tl.store(loss_ptr + at, loss)
    tl.store(grad_ptr + at, share * (1.0 - apart) - tl.where(is_free, ratio * gain, 0.0))


def _policy_loss(small: bool) -> Launch:
    answers, size = (2, 4096) if small else (2048, 16384)
    new, old, reference = (-torch.rand(answers, size) for _ in range(3))
    gain, loss, grad = random(answers), torch.empty_like(new), torch.empty_like(new)
    args = (new, old, reference, gain, loss, grad, 0.8, 1.2, 0.04, size)
    options = {"BLOCK": 1024, "num_warps": 8}
    return Launch(policy_loss_kernel, (size // 1024, answers), args, (loss, grad), options)


@triton.jit
def cached_bytes_kernel(
    key_ptr, slot_ptr, out_ptr, scale_ptr, HEADS: tl.constexpr, DIM: tl.constexpr, ROWS: tl.constexpr
):
    """Keys as bytes with a scale each, stored in the slots of a cache. Bound by DRAM."""
    row, dim = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)[None, :]
    key = tl.load(key_ptr + row[:, None] * DIM + dim).to(tl.float32)
    place = tl.load(slot_ptr + row // HEADS) * HEADS + row % HEADS
    scale = tl.maximum(tl.max(tl.abs(key), 1), 1e-6) * (1.0 / 127.0)
    code = (key * (1.0 / scale)[:, None] + 128.5).to(tl.uint8)
    tl.store(out_ptr + place[:, None] * DIM + dim, code)
    tl.store(scale_ptr + place, scale)


def _cached_bytes(small: bool) -> Launch:
    tokens = 16 if small else 1 << 18
    key, slot = random(tokens, 8, 128, dtype=torch.bfloat16), torch.randperm(tokens).int()
    out, scale = empty(tokens, 8, 128, dtype=torch.uint8), empty(tokens, 8)
    options = {"HEADS": 8, "DIM": 128, "ROWS": 32, "num_warps": 4}
    args = (key, slot, out, scale)
    return Launch(cached_bytes_kernel, (tokens // 4,), args, (out, scale), options)


@triton.jit
def gated_norm_kernel(x_ptr, gate_ptr, weight_ptr, out_ptr, DIM: tl.constexpr):
    """Groups of a token's channels, gated and then normed (Mamba-2). Bound by DRAM."""
    dim, group = tl.arange(0, DIM), tl.program_id(0)
    at = (tl.program_id(1) * tl.num_programs(0) + group) * DIM + dim
    gate = tl.load(gate_ptr + at).to(tl.float32)
    x = tl.load(x_ptr + at).to(tl.float32) * gate * tl.sigmoid(gate)
    x *= tl.rsqrt(tl.sum(x * x, 0) / DIM + 1e-5)
    tl.store(out_ptr + at, (x * tl.load(weight_ptr + group * DIM + dim).to(tl.float32)).to(tl.bfloat16))


def _gated_norm(small: bool) -> Launch:
    tokens = 4 if small else 32768
    x, gate = (random(tokens, 2, 2048, dtype=torch.bfloat16) for _ in range(2))
    weight, out = random(2, 2048, dtype=torch.bfloat16), torch.empty_like(x)
    args = (x, gate, weight, out)
    return Launch(gated_norm_kernel, (2, tokens), args, (out,), {"DIM": 2048, "num_warps": 4})


@triton.jit
def faded_scores_kernel(
    key_ptr, beta_ptr, decay_ptr, out_ptr, tokens, heads, CHUNK: tl.constexpr, DIM: tl.constexpr
):
    """How much of each key a chunk's earlier keys hold, faded (gated delta rule). Bound by DRAM."""
    step, dim, head = tl.arange(0, CHUNK), tl.arange(0, DIM), tl.program_id(0)
    token = tl.program_id(1) * CHUNK + step
    key = tl.load(key_ptr + (token[:, None] * heads + head) * DIM + dim[None, :])
    beta, decay = tl.load(beta_ptr + head * tokens + token), tl.load(decay_ptr + head * tokens + token)
    earlier = step[:, None] > step[None, :]
    fade = tl.exp(tl.where(earlier, decay[:, None] - decay[None, :], 0.0))
    score = tl.where(earlier, tl.dot(key, tl.trans(key)) * fade * beta[:, None], 0.0)
    tl.store(out_ptr + (token[:, None] * heads + head) * CHUNK + step[None, :], score.to(tl.bfloat16))


def _faded_scores(small: bool) -> Launch:
    tokens, heads = (256, 2) if small else (65536, 32)
    key = random(tokens, heads, 128, dtype=torch.bfloat16)
    beta = torch.rand(heads, tokens)
    decay = -0.1 * torch.cumsum(torch.rand(heads, tokens // 64, 64), 2)
    out = empty(tokens, heads, 64, dtype=torch.bfloat16)
    options = {"CHUNK": 64, "DIM": 128, "num_warps": 4}
    args = (key, beta, decay, out, tokens, heads)
    return Launch(faded_scores_kernel, (heads, tokens // 64), args, (out,), options)


@triton.jit
def normed_heads_kernel(
    x_ptr, weight_ptr, gain_ptr, out_ptr, depth, columns, ROWS: tl.constexpr, HEADS: tl.constexpr,
    DIM: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """A layer whose results are normed head by head before they are stored. Bound by the tensor cores."""
    down, across = tl.program_id(0) % GROUP, tl.program_id(0) // GROUP
    row = (tl.program_id(1) * GROUP + down) * ROWS + tl.arange(0, ROWS)
    column = across * HEADS * DIM + tl.arange(0, HEADS * DIM)
    inner = tl.arange(0, DEPTH)
    x_at = x_ptr + row[:, None] * depth + inner[None, :]
    weight_at = weight_ptr + column[None, :] * depth + inner[:, None]
    total = tl.zeros((ROWS, HEADS * DIM), dtype=tl.float32)
    for _ in range(0, depth, DEPTH):
        total = tl.dot(tl.load(x_at), tl.load(weight_at), total)
        x_at += DEPTH
        weight_at += DEPTH
    heads = tl.reshape(total, (ROWS, HEADS, DIM))
    heads *= tl.rsqrt(tl.sum(heads * heads, 2) / DIM + 1e-6)[:, :, None]
    out = tl.reshape(heads, (ROWS, HEADS * DIM)) * tl.load(gain_ptr + column)[None, :]
    tl.store(out_ptr + row[:, None] * columns + column[None, :], out.to(tl.bfloat16))


def _normed_heads(small: bool) -> Launch:
    rows, columns, depth = (256, 256, 256) if small else (8192, 4096, 4096)
    x = random(rows, depth, dtype=torch.bfloat16)
    weight, gain = random(columns, depth, dtype=torch.bfloat16), torch.rand(columns)
    out, group = empty(rows, columns, dtype=torch.bfloat16), min(8, rows // 128)
    options = {"ROWS": 128, "HEADS": 2, "DIM": 128, "DEPTH": 64, "GROUP": group}
    args = (x, weight, gain, out, depth, columns)
    grid = (group * columns // 256, rows // 128 // group)
    return Launch(normed_heads_kernel, grid, args, (out,), options | {"num_warps": 8, "num_stages": 3})


@triton.jit
def grammar_kernel(logit_ptr, allowed_ptr, out_ptr, words, cold, BLOCK: tl.constexpr):
    """Logits by temperature, and only of the words that a grammar allows, a bit each. Bound by DRAM."""
    row, bit = tl.program_id(1).to(tl.int64), tl.arange(0, 32)[None, :]
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    inside = index < words // 32
    bits = tl.load(allowed_ptr + row * (words // 32) + index, mask=inside, other=0)
    at = row * words + index * 32 + bit
    logit = tl.load(logit_ptr + at, mask=inside, other=0.0)
    tl.store(out_ptr + at, tl.where((bits >> bit) & 1 != 0, logit * cold, -1e4), mask=inside)


def _grammar(small: bool) -> Launch:
    rows, words = (4, 5024) if small else (1024, 128256)
    logit = random(rows, words)
    allowed = torch.randint(-(2**31), 2**31 - 1, (rows, words // 32), dtype=torch.int32)
    out = torch.empty_like(logit)
    args = (logit, allowed, out, words, 1.25)
    grid = (-(-words // 2048), rows)
    return Launch(grammar_kernel, grid, args, (out,), {"BLOCK": 64, "num_warps": 8})


_good = faultless_of(8)

CASES = (
    _good("good norm of a sum as bytes", _added_norm),
    _good("good distillation", _distillation),
    _good("good clipped policy loss", _policy_loss),
    _good("good cache of bytes", _cached_bytes),
    _good("good norm of gated groups", _gated_norm),
    _good("good faded scores of keys", _faded_scores),
    _good("good layer of normed heads", _normed_heads),
    _good("good words of a grammar", _grammar),
)
