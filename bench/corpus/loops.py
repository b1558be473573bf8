"""Faults of loops: what each step waits for, and how its work is shared among warps."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def indexed_sum_kernel(x_ptr, index_ptr, out_ptr, STEPS: tl.constexpr, DIM: tl.constexpr):
    """Sums rows; where the next one is, is loaded only when it is needed."""
    dims = tl.arange(0, DIM)
    at = tl.program_id(0)
    acc = tl.zeros((DIM,), dtype=tl.float32)
    for _ in range(STEPS):
        at = tl.load(index_ptr + at)  # fault
        acc += tl.load(x_ptr + at * DIM + dims)
    tl.store(out_ptr + tl.program_id(0) * DIM + dims, acc)


@triton.jit
def listed_sum_kernel(x_ptr, list_ptr, out_ptr, STEPS: tl.constexpr, DIM: tl.constexpr):
    """As indexed_sum_kernel: the rows are listed for each program, and loaded together."""
    dims, steps = tl.arange(0, DIM), tl.arange(0, STEPS)
    at = tl.load(list_ptr + tl.program_id(0) * STEPS + steps)
    x = tl.load(x_ptr + at[:, None] * DIM + dims[None, :])
    tl.store(out_ptr + tl.program_id(0) * DIM + dims, tl.sum(x, 0))


def _indexed_sum(listed: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, programs = (64, 4) if small else (1 << 17, 528)
        x, out = random(rows, 64), empty(programs, 64)
        chain = torch.randint(rows, (rows,), dtype=torch.int32)
        options = {"STEPS": 64, "DIM": 64, "num_warps": 4 if listed else 2}
        if not listed:
            return Launch(indexed_sum_kernel, (programs,), (x, chain, out), (out,), options)
        at = torch.arange(programs, dtype=torch.int64)
        found = []
        for _ in range(64):
            at = chain[at].long()
            found.append(at)
        lists = torch.stack(found, 1).int().contiguous()
        return Launch(listed_sum_kernel, (programs,), (x, lists, out), (out,), options)

    return prepare


@triton.jit
def recurrence_kernel(a_ptr, x_ptr, out_ptr, length, channels, BLOCK: tl.constexpr):
    """A gated recurrence over time: each step loads what it needs at once."""
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = tl.zeros((BLOCK,), dtype=tl.float32)
    for t in range(length):
        a = tl.load(a_ptr + t * channels + channel)  # fault
        x = tl.load(x_ptr + t * channels + channel)  # fault
        h = a * h + x
        tl.store(out_ptr + t * channels + channel, h)


@triton.jit
def ahead_recurrence_kernel(a_ptr, x_ptr, out_ptr, length, channels, BLOCK: tl.constexpr):
    """As recurrence_kernel, with loads eight steps ahead."""
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = tl.zeros((BLOCK,), dtype=tl.float32)
    for t in tl.range(length, num_stages=8):
        a = tl.load(a_ptr + t * channels + channel)
        x = tl.load(x_ptr + t * channels + channel)
        h = a * h + x
        tl.store(out_ptr + t * channels + channel, h)


def _recurrence(ahead: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        length, channels = (16, 512) if small else (1024, 132 * 256)
        a, x, out = torch.rand(length, channels), random(length, channels), empty(length, channels)
        kernel = ahead_recurrence_kernel if ahead else recurrence_kernel
        options = {"BLOCK": 256, "num_warps": 2}
        return Launch(kernel, (channels // 256,), (a, x, out, length, channels), (out,), options)

    return prepare


@triton.jit
def streamed_sum_kernel(x_ptr, out_ptr, steps, STAGES: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of what streams by, in few CTAs."""
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in tl.range(steps, num_stages=STAGES):
        offs = (step * tl.num_programs(0) + tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs)  # fault
        acc += x * x
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), acc)


def _streamed(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps = (2, 8) if small else (264, 192)
        x, out = random(programs * steps * 2048), empty(programs * 2048)
        options = {"STAGES": stages, "BLOCK": 2048, "num_warps": 4}
        return Launch(streamed_sum_kernel, (programs,), (x, out, steps), (out,), options)

    return prepare


@triton.jit
def row_norm_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """The norm of a long row, reduced over all warps in each step."""
    total = 0.0
    for start in range(0, cols, BLOCK):
        x = tl.load(x_ptr + tl.program_id(0) * cols + start + tl.arange(0, BLOCK))
        total += tl.sum(x * x, 0)  # fault
    tl.store(out_ptr + tl.program_id(0), tl.sqrt(total))


@triton.jit
def row_norm_once_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        x = tl.load(x_ptr + tl.program_id(0) * cols + start + tl.arange(0, BLOCK))
        acc += x * x
    tl.store(out_ptr + tl.program_id(0), tl.sqrt(tl.sum(acc, 0)))


@triton.jit
def online_stats_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """The logarithm of a row's sum of exponentials, with the row's peak and sum in each step."""
    peak, total = -1e30, 0.0
    for start in range(0, cols, BLOCK):
        x = tl.load(x_ptr + tl.program_id(0) * cols + start + tl.arange(0, BLOCK)).to(tl.float32)
        now = tl.maximum(peak, tl.max(x, 0))  # fault
        total = total * tl.exp(peak - now) + tl.sum(tl.exp(x - now), 0)  # fault
        peak = now
    tl.store(out_ptr + tl.program_id(0), peak + tl.log(total))


@triton.jit
def online_vectors_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    """As online_stats_kernel: peaks and sums of each lane, reduced at the end."""
    peak = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        x = tl.load(x_ptr + tl.program_id(0) * cols + start + tl.arange(0, BLOCK)).to(tl.float32)
        now = tl.maximum(peak, x)
        total = total * tl.exp(peak - now) + tl.exp(x - now)
        peak = now
    most = tl.max(peak, 0)
    tl.store(out_ptr + tl.program_id(0), most + tl.log(tl.sum(total * tl.exp(peak - most), 0)))


def _rows(
    kernel: Any, rows: int, cols: int, block: int, warps: int, dtype: torch.dtype = torch.float32
) -> Prepare:
    def prepare(small: bool) -> Launch:
        count, length = (2, 8192) if small else (rows, cols)
        x, out = random(count, length, dtype=dtype), empty(count)
        options = {"BLOCK": block, "num_warps": warps}
        return Launch(kernel, (count,), (x, out, length), (out,), options)

    return prepare


@triton.jit
def tile_totals_kernel(x_ptr, out_ptr, steps, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Sums of columns: each tile is reduced over its rows, which are in different warps."""
    rs, cs = tl.arange(0, ROWS), tl.arange(0, COLS)
    acc = tl.zeros((COLS,), dtype=tl.float32)
    for step in range(steps):
        row = (tl.program_id(0) * steps + step) * ROWS
        acc += tl.sum(tl.load(x_ptr + (row + rs)[:, None] * COLS + cs[None, :]).to(tl.float32), 0)  # fault
    tl.store(out_ptr + tl.program_id(0) * COLS + cs, acc)


@triton.jit
def tile_totals_once_kernel(x_ptr, out_ptr, steps, ROWS: tl.constexpr, COLS: tl.constexpr):
    rs, cs = tl.arange(0, ROWS), tl.arange(0, COLS)
    acc = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for step in range(steps):
        row = (tl.program_id(0) * steps + step) * ROWS
        acc += tl.load(x_ptr + (row + rs)[:, None] * COLS + cs[None, :]).to(tl.float32)
    tl.store(out_ptr + tl.program_id(0) * COLS + cs, tl.sum(acc, 0))


def _tile_totals(once: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (528, 128)
        x, out = random(programs * steps * 16, 128, dtype=torch.float16), empty(programs, 128)
        kernel = tile_totals_once_kernel if once else tile_totals_kernel
        options = {"ROWS": 16, "COLS": 128, "num_warps": 8}
        return Launch(kernel, (programs,), (x, out, steps), (out,), options)

    return prepare


@triton.jit
def rms_row_kernel(x_ptr, w_ptr, out_ptr, COLS: tl.constexpr):
    cols = tl.arange(0, COLS)
    x = tl.load(x_ptr + tl.program_id(0) * COLS + cols).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, 0) / COLS + 1e-6) * tl.load(w_ptr + cols)
    tl.store(out_ptr + tl.program_id(0) * COLS + cols, y.to(tl.bfloat16))


def _rms_row(rows: int, cols: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        count = 4 if small else rows
        x, w = random(count, cols, dtype=torch.bfloat16), random(cols)
        out = empty(count, cols, dtype=torch.bfloat16)
        return Launch(rms_row_kernel, (count,), (x, w, out), (out,), {"COLS": cols, "num_warps": warps})

    return prepare


@triton.jit
def three_norms_kernel(x_ptr, out_ptr, COLS: tl.constexpr):
    """A row that is normed, clipped, and normed again, by reductions over all warps."""
    cols = tl.arange(0, COLS)
    x = tl.load(x_ptr + tl.program_id(0) * COLS + cols)
    for _ in tl.static_range(6):
        x -= tl.sum(x, 0) / COLS
        x = x / (tl.max(tl.abs(x), 0) + 1e-6)
    tl.store(out_ptr + tl.program_id(0) * COLS + cols, x)


def _three_norms(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (4, 1024) if small else (1 << 15, 1024)
        x, out = random(rows, cols), empty(rows, cols)
        return Launch(three_norms_kernel, (rows,), (x, out), (out,), {"COLS": cols, "num_warps": warps})

    return prepare


@triton.jit
def iterated_kernel(count_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Iterates each element as often as it says, and sums over the CTA in each step."""
    lanes = tl.arange(0, BLOCK)
    total = 0.0
    for step in range(steps):
        count = tl.load(count_ptr + (tl.program_id(0) * steps + step) * BLOCK + lanes)
        y = tl.inline_asm_elementwise(
            """{
            .reg .pred p; .reg .s32 n; .reg .f32 y;
            mov.s32 n, $1; mov.f32 y, 0f3F800000;
            more:
            fma.rn.f32 y, y, 0f3F000000, 0f3E800000;
            sub.s32 n, n, 1; setp.gt.s32 p, n, 0;
            @p bra more;
            mov.f32 $0, y; }""",
            "=f,r", [count], dtype=tl.float32, is_pure=False, pack=1,
        )  # fmt: skip
        total += tl.sum(y, 0)  # fault
    tl.store(out_ptr + tl.program_id(0), total)


def _iterated(together: bool) -> Prepare:
    """together: what is long in a step is so for all warps; else in each step for one warp of four."""

    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (528, 64)
        step, warp = torch.arange(steps)[:, None, None], torch.arange(4)[None, :, None]
        late = step % 4 == 0 if together else step % 4 == warp
        count = torch.where(late, 60 if small else 800, 20).to(torch.int32)
        count = count.expand(steps, 4, 32).repeat(programs, 1, 1).contiguous()
        out = empty(programs)
        return Launch(
            iterated_kernel, (programs,), (count, out, steps), (out,), {"BLOCK": 128, "num_warps": 4}
        )

    return prepare


@triton.jit
def bag_kernel(table_ptr, index_ptr, weight_ptr, out_ptr, BAG: tl.constexpr, DIM: tl.constexpr):
    """A weighted sum of a bag's rows; the index of each is loaded right before it."""
    dims = tl.arange(0, DIM)
    acc = tl.zeros((DIM,), dtype=tl.float32)
    for i in tl.range(BAG, num_stages=1, loop_unroll_factor=1):
        row = tl.load(index_ptr + tl.program_id(0) * BAG + i)  # fault
        weight = tl.load(weight_ptr + row)
        acc = acc * 0.5 + tl.load(table_ptr + row * DIM + dims).to(tl.float32) * weight  # fault
    tl.store(out_ptr + tl.program_id(0) * DIM + dims, acc)


def _bag(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        bags, rows, bag = (4, 64, 16) if small else (2048, 1 << 20, 64)
        table, weight = random(rows, 128, dtype=torch.float16), torch.rand(rows)
        index, out = integers(bags, bag, below=rows), empty(bags, 128)
        kernel = bag_kernel if stages == 1 else unrolled_bag_kernel
        options = {"BAG": bag, "DIM": 128, "num_warps": 1}
        return Launch(kernel, (bags,), (table, index, weight, out), (out,), options)

    return prepare


@triton.jit
def unrolled_bag_kernel(table_ptr, index_ptr, weight_ptr, out_ptr, BAG: tl.constexpr, DIM: tl.constexpr):
    """As bag_kernel: eight rows at a time, each with its share of the sum."""
    dims, eight = tl.arange(0, DIM), tl.arange(0, 8)
    acc = tl.zeros((DIM,), dtype=tl.float32)
    for start in tl.range(0, BAG, 8):
        row = tl.load(index_ptr + tl.program_id(0) * BAG + start + eight)
        weight = tl.load(weight_ptr + row) * tl.exp2((eight - 7).to(tl.float32))
        rows = tl.load(table_ptr + row[:, None] * DIM + dims[None, :]).to(tl.float32)
        acc = acc * 0.00390625 + tl.sum(rows * weight[:, None], 0)
    tl.store(out_ptr + tl.program_id(0) * DIM + dims, acc)


CASES = (
    Case(
        "chain of rows",
        ("exposed-latency",),
        ("spans", "samples"),
        False,
        _indexed_sum(False),
        _indexed_sum(True),
    ),
    Case(
        "recurrence over time",
        ("exposed-latency", "few-stages", "low-occupancy"),
        ("spans", "samples"),
        False,
        _recurrence(False),
        _recurrence(True),
    ),
    Case("bag row by row", ("exposed-latency",), ("spans", "samples"), False, _bag(1), _bag(8)),
    Case(
        "stream of 1 stage",
        ("few-stages", "exposed-latency"),
        ("spans", "samples"),
        False,
        _streamed(1),
        _streamed(4),
    ),
    Case(
        "norm summed each step",
        ("serial-reduction",),
        ("spans", "samples"),
        True,
        _rows(row_norm_kernel, 528, 65536, 1024, 8),
        _rows(row_norm_once_kernel, 528, 65536, 1024, 8),
    ),
    Case(
        "peak and sum each step",
        ("serial-reduction",),
        ("spans", "samples"),
        True,
        _rows(online_stats_kernel, 1056, 65536, 1024, 8, torch.bfloat16),
        _rows(online_vectors_kernel, 1056, 65536, 1024, 8, torch.bfloat16),
    ),
    Case(
        "columns summed each step",
        ("serial-reduction",),
        ("spans", "samples"),
        True,
        _tile_totals(False),
        _tile_totals(True),
    ),
    Case(
        "short row of 32 warps",
        ("too-many-warps",),
        ("spans", "counts"),
        True,
        _rms_row(1 << 15, 1024, 32),
        _rms_row(1 << 15, 1024, 4),
    ),
    Case(
        "norms of a row by 32 warps",
        ("too-many-warps",),
        ("spans", "counts"),
        True,
        _three_norms(32),
        _three_norms(4),
    ),
    Case(
        "a late warp each step", ("late-warp",), ("spans", "samples"), True, _iterated(False), _iterated(True)
    ),
)
