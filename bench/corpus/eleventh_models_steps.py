"""Eleventh round, faults of models that go step by step: agents, answers, recurrences, voices, faces."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def vtrace_kernel(
    reward_ptr, value_ptr, ratio_ptr, last_ptr, out_ptr, steps, worlds, discount, BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Targets of values from the last step to the first, by ratios of chances cut off at 1 (IMPALA)."""
    world = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    later, error = tl.load(last_ptr + world), tl.zeros((BLOCK,), dtype=tl.float32)
    for back in tl.range(0, steps, num_stages=STAGES):  # fault
        at = (steps - 1 - back) * worlds + world
        reward = tl.load(reward_ptr + at)  # fault
        value = tl.load(value_ptr + at)  # fault
        ratio = tl.minimum(tl.load(ratio_ptr + at), 1.0)  # fault
        error = ratio * (reward + discount * (later + error) - value)  # fault
        tl.store(out_ptr + at, value + error)
        later = value


def _vtrace(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        steps, worlds = (12, 256) if small else (256, 33792)
        reward, value = (random(steps, worlds) for _ in range(2))
        ratio, last = torch.exp(0.2 * random(steps, worlds)), random(worlds)
        out = torch.empty_like(value)
        args = (reward, value, ratio, last, out, steps, worlds, 0.99)
        options = {"BLOCK": 128, "STAGES": stages, "num_warps": 4}
        return Launch(vtrace_kernel, (worlds // 128,), args, (out,), options)

    return prepare


@triton.jit
def answer_ratio_kernel(new_ptr, old_ptr, answer_ptr, out_ptr, BLOCK: tl.constexpr):
    """Logarithms of ratios of chances summed over the tokens of each answer; answers are packed (GSPO)."""
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ratio = tl.load(new_ptr + token) - tl.load(old_ptr + token)
    tl.atomic_add(out_ptr + tl.load(answer_ptr + token), ratio, sem="relaxed")  # fault


@triton.jit
def whole_answer_ratio_kernel(new_ptr, old_ptr, start_ptr, out_ptr, BLOCK: tl.constexpr):
    """As answer_ratio_kernel, with a program for each answer; answers start at multiples of 8."""
    answer, lane = tl.program_id(0), tl.arange(0, BLOCK)
    first = tl.multiple_of(tl.load(start_ptr + answer), 8)
    last = tl.multiple_of(tl.load(start_ptr + answer + 1), 8)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(first, last, BLOCK):
        token = tl.multiple_of(start, 8) + lane
        new = tl.load(new_ptr + token, mask=token < last, other=0.0)
        total += new - tl.load(old_ptr + token, mask=token < last, other=0.0)
    tl.store(out_ptr + answer, tl.sum(total, 0))


def _answer_ratios(by_answer: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        answers, most = (4, 128) if small else (8192, 512)
        length = 8 * (most // 2 + integers(answers, below=most // 2))
        length[-1] += -int(length.sum()) % 1024
        start = torch.cat([torch.zeros(1, dtype=torch.int64), length.cumsum(0)]).int()
        tokens = int(start[-1])
        new, old, out = random(tokens), random(tokens), zeros(answers)
        if by_answer:
            options = {"BLOCK": 1024, "num_warps": 4}
            return Launch(whole_answer_ratio_kernel, (answers,), (new, old, start, out), (out,), options)
        answer = torch.repeat_interleave(torch.arange(answers, dtype=torch.int32), length.long())
        options = {"BLOCK": 1024, "num_warps": 4}
        return Launch(answer_ratio_kernel, (tokens // 1024,), (new, old, answer, out), (out,), options)

    return prepare


@triton.jit
def elman_kernel(
    x_ptr, weight_ptr, out_ptr, steps, texts, ROWS: tl.constexpr, DIM: tl.constexpr, KEPT: tl.constexpr
):
    """A plain recurrence over time of some texts: h = tanh(x + h W). KEPT: the weights are loaded once."""
    row, dim = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)
    at = row[:, None] * DIM + dim[None, :]
    weight_at = weight_ptr + dim[:, None] * DIM + dim[None, :]
    hidden = tl.zeros((ROWS, DIM), dtype=tl.bfloat16)
    if KEPT:
        weight = tl.load(weight_at)
    for _ in range(steps):
        x = tl.load(x_ptr + at).to(tl.float32)
        if not KEPT:
            weight = tl.load(weight_at)  # fault
        hidden = (2.0 * tl.sigmoid(2.0 * tl.dot(hidden, weight, x)) - 1.0).to(tl.bfloat16)
        tl.store(out_ptr + at, hidden)
        at += texts * DIM


def _elman(kept: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        steps, texts = (3, 32) if small else (128, 2112)
        x = random(steps, texts, 256, dtype=torch.bfloat16)
        weight, out = 0.06 * random(256, 256, dtype=torch.bfloat16), torch.empty_like(x)
        options = {"ROWS": 16, "DIM": 256, "KEPT": kept, "num_warps": 8, "num_stages": 1}
        return Launch(elman_kernel, (texts // 16,), (x, weight, out, steps, texts), (out,), options)

    return prepare


@triton.jit
def snake_kernel(x_ptr, rate_ptr, height_ptr, out_ptr, samples, BLOCK: tl.constexpr, FAST: tl.constexpr):
    """The periodic activation of a vocoder, x + sin(a x) ^ 2 / b with a and b of each channel (BigVGAN)."""
    channel, row = tl.program_id(1), tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
    at = row * samples + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rate, height = tl.exp(tl.load(rate_ptr + channel)), tl.exp(tl.load(height_ptr + channel))
    x = tl.load(x_ptr + at).to(tl.float32)
    if FAST:
        sine = libdevice.fast_sinf(x * rate)
        square = sine * sine
    else:
        square = libdevice.pow(libdevice.sin(x * rate), 2.0)  # fault
    tl.store(out_ptr + at, (x + square * (1.0 / (height + 1e-9))).to(tl.float16))


def _snake(fast: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        clips, channels, samples = (1, 2, 2048) if small else (8, 512, 32768)
        x, rate = random(clips, channels, samples, dtype=torch.float16), 0.3 * random(channels)
        height, out = 0.3 * random(channels), torch.empty_like(x)
        options = {"BLOCK": 2048, "FAST": fast, "num_warps": 4}
        grid = (samples // 2048, channels, clips)
        return Launch(snake_kernel, grid, (x, rate, height, out, samples), (out,), options)

    return prepare


@triton.jit
def margin_kernel(
    cosine_ptr, label_ptr, loss_ptr, grad_ptr, scale, cosine_of_margin, sine_of_margin,
    ROWS: tl.constexpr, CLASSES: tl.constexpr,
):  # fmt: skip
    """The loss of faces with a margin of the angle to their own class, and its gradient (ArcFace)."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, CLASSES)[None, :]
    label = tl.load(label_ptr + row)
    own = tl.load(cosine_ptr + row * CLASSES + label).to(tl.float32)
    sine = tl.sqrt(tl.maximum(1.0 - own * own, 1e-6))
    moved = own * cosine_of_margin - sine * sine_of_margin
    at = row[:, None] * CLASSES + column
    cosine = tl.load(cosine_ptr + at).to(tl.float32)  # fault
    is_own = column == label[:, None]
    logit = scale * tl.where(is_own, moved[:, None], cosine)  # fault
    peak = tl.max(logit, 1)  # fault
    chance = tl.exp(logit - peak[:, None])  # fault
    mass = tl.sum(chance, 1)  # fault
    tl.store(loss_ptr + row, tl.log(mass) + peak - scale * moved)
    chance *= (scale / mass)[:, None]  # fault
    turned = (chance - scale) * (cosine_of_margin + sine_of_margin * own / sine)[:, None]  # fault
    tl.store(grad_ptr + at, tl.where(is_own, turned, chance).to(tl.float16))  # fault


def _margin(rows_of_program: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 8 if small else 16384
        cosine = (0.2 * random(rows, 8192)).clamp(-0.9, 0.9).half()
        label, loss, grad = integers(rows, below=8192), empty(rows), torch.empty_like(cosine)
        options = {"ROWS": rows_of_program, "CLASSES": 8192, "num_warps": warps}
        args = (cosine, label, loss, grad, 64.0, 0.87758, 0.47943)
        return Launch(margin_kernel, (rows // rows_of_program,), args, (loss, grad), options)

    return prepare


_fault = faults_of(11)


CASES = (
    _fault(
        "targets of values a step at a time",
        ("few-stages", "exposed-latency", "low-occupancy"),
        ("samples", "counts"),
        False,
        _vtrace(1),
        _vtrace(6),
    ),
    _fault(
        "packed answers summed by their tokens",
        ("atomics",),
        ("counts", "samples"),
        True,
        _answer_ratios(False),
        _answer_ratios(True),
    ),
    _fault(
        "a plain recurrence whose weights come anew",
        ("redundant-load", "exposed-latency"),
        ("counts", "samples"),
        True,
        _elman(False),
        _elman(True),
    ),
    _fault(
        "voices through squares of sines",
        ("slow-math",),
        ("counts", "samples"),
        True,
        _snake(False),
        _snake(True),
    ),
    _fault(
        "margins of four faces of 8192",
        ("register-spills", "low-occupancy"),
        ("resources", "counters"),
        False,
        _margin(4, 4),
        _margin(1, 8),
    ),
)
