"""Fourteenth round, faults of ranking: tables of ids, clicks, slates, towers, gates, crossed features."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def pooled_ids_kernel(
    id_ptr,
    table_ptr,
    out_ptr,
    bags,
    of_row,
    of_dim,
    BAGS: tl.constexpr,
    EACH: tl.constexpr,
    DIM: tl.constexpr,
):
    """Means of the rows of a table that the ids of each bag name."""
    bag, dim = tl.program_id(0) * BAGS + tl.arange(0, BAGS), tl.arange(0, DIM)
    total = tl.zeros((BAGS, DIM), dtype=tl.float32)
    for each in tl.static_range(EACH):
        row = tl.load(id_ptr + each * bags + bag)
        at = row[:, None] * of_row + dim[None, :] * of_dim  # fault
        total += tl.load(table_ptr + at).to(tl.float32)  # fault
    tl.store(out_ptr + bag[:, None] * DIM + dim[None, :], (total * (1.0 / EACH)).to(tl.float16))


def _pooled_ids(rows_first: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        bags, rows, each, dim = (64, 1024, 8, 64) if small else (1 << 18, 1 << 20, 8, 64)
        ids, table = integers(each, bags, below=rows), random(rows, dim, dtype=torch.float16)
        out = empty(bags, dim, dtype=torch.float16)
        if not rows_first:
            table = table.t().contiguous()
        strides = (dim, 1) if rows_first else (1, rows)
        options = {"BAGS": 16, "EACH": each, "DIM": dim, "num_warps": 4}
        return Launch(pooled_ids_kernel, (bags // 16,), (ids, table, out, bags, *strides), (out,), options)

    return prepare


@triton.jit
def examined_ranks_kernel(
    click_ptr, appeal_ptr, seen_ptr, out_ptr, STEPS: tl.constexpr, ROWS: tl.constexpr, RANKS: tl.constexpr,
    LATER: tl.constexpr,
):  # fmt: skip
    """How often users looked at each rank, expected of their clicks (a position-based model's step of EM).
    LATER: summed in registers until the program ends."""
    rank = tl.arange(0, RANKS)
    seen = tl.load(seen_ptr + rank)[None, :]
    total = tl.zeros((ROWS, RANKS), dtype=tl.float32)
    for step in range(STEPS):
        row = (tl.program_id(0) * STEPS + step) * ROWS + tl.arange(0, ROWS)
        at = row[:, None] * RANKS + rank[None, :]
        click, appeal = tl.load(click_ptr + at), tl.load(appeal_ptr + at)
        missed = seen * (1.0 - appeal) / (1.0 - seen * appeal)
        looked = click + (1.0 - click) * missed
        if LATER:
            total += looked
        else:
            tl.atomic_add(out_ptr + rank[None, :] + row[:, None] * 0, looked, sem="relaxed")  # fault
    if LATER:
        tl.atomic_add(out_ptr + rank, tl.sum(total, 0), sem="relaxed")


def _examined_ranks(later: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        steps, rows, ranks = (4, 128, 16) if small else (8, 128, 16)
        queries = 4 * steps * rows if small else 1 << 20
        click = (torch.rand(queries, ranks) < 0.2).float()
        appeal, seen, out = 0.9 * torch.rand(queries, ranks), 0.9 * torch.rand(ranks), zeros(ranks)
        options = {"STEPS": steps, "ROWS": rows, "RANKS": ranks, "LATER": later, "num_warps": 4}
        args = (click, appeal, seen, out)
        return Launch(examined_ranks_kernel, (queries // rows // steps,), args, (out,), options)

    return prepare


@triton.jit
def list_gradients_kernel(
    score_ptr, gain_ptr, drop_ptr, out_ptr, length, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    KNOWN: tl.constexpr,
):  # fmt: skip
    """Gradients of a loss of sorted lists, whose pairs count as far as the discounts of their distance
    differ (LambdaLoss). KNOWN: those differences are in a table."""
    first = tl.program_id(1) * length
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    score, gain = tl.load(score_ptr + first + row)[:, None], tl.load(gain_ptr + first + row)[:, None]
    place = row.to(tl.float32)[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, length, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        other = tl.load(score_ptr + first + column)[None, :]
        gap = gain - tl.load(gain_ptr + first + column)[None, :]
        if KNOWN:
            weight = tl.load(drop_ptr + length + column[None, :] - row[:, None])
        else:
            far = tl.maximum(tl.abs(place - column.to(tl.float32)[None, :]), 1.0)  # fault
            weight = 1.0 / tl.log2(far + 1.0) - 1.0 / tl.log2(far + 2.0)  # fault
        chance = 1.0 / (1.0 + tl.exp2(score - other))
        total += gap * weight * tl.where(gap > 0.0, chance, 1.0 - chance)
    tl.store(out_ptr + first + row, tl.sum(total, 1))


def _list_gradients(known: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        lists, length = (1, 256) if small else (512, 1024)
        score, gain = random(lists, length), integers(lists, length, below=5).float()
        far = (torch.arange(2 * length) - length).abs().clamp(min=1).float()
        drop = 1.0 / torch.log2(far + 1.0) - 1.0 / torch.log2(far + 2.0)
        out = empty(lists, length)
        options = {"ROWS": 32, "COLUMNS": 64, "KNOWN": known, "num_warps": 4}
        args = (score, gain, drop, out, length)
        return Launch(list_gradients_kernel, (length // 32, lists), args, (out,), options)

    return prepare


@triton.jit
def slates_kernel(
    score_ptr, label_ptr, out_ptr, SLATE: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr
):
    """Gradients of a loss of all pairs of the items that a user was shown (RankNet)."""
    slate, item = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, LANES)  # fault
    first, inside = (slate * SLATE)[:, None], (item < SLATE)[None, :]
    score = tl.load(score_ptr + first + item[None, :], mask=inside, other=0.0)
    label = tl.load(label_ptr + first + item[None, :], mask=inside, other=0.0)
    total = tl.zeros((ROWS, LANES), dtype=tl.float32)
    for other in range(SLATE):  # fault
        chance = 1.0 / (1.0 + tl.exp2(score - tl.load(score_ptr + first + other)))  # fault
        gap = label - tl.load(label_ptr + first + other)  # fault
        total += gap * tl.where(gap > 0.0, chance, 1.0 - chance)  # fault
    tl.store(out_ptr + first + item[None, :], total, mask=inside)  # fault


@triton.jit
def flat_slates_kernel(score_ptr, label_ptr, out_ptr, SLATE: tl.constexpr, BLOCK: tl.constexpr):
    """Gradients of a loss of all pairs of the items that a user was shown, with an item for each lane."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = at // SLATE * SLATE
    score, label = tl.load(score_ptr + at), tl.load(label_ptr + at)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for other in range(SLATE):
        chance = 1.0 / (1.0 + tl.exp2(score - tl.load(score_ptr + first + other)))
        gap = label - tl.load(label_ptr + first + other)
        total += gap * tl.where(gap > 0.0, chance, 1.0 - chance)
    tl.store(out_ptr + at, total)


def _slates(flat: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        slates, items = 128 if small else 1 << 18, 36
        score, label = random(slates, items), integers(slates, items, below=3).float()
        out, args = empty(slates, items), (score, label)
        if flat:
            options = {"SLATE": items, "BLOCK": 512, "num_warps": 4}
            return Launch(flat_slates_kernel, (slates * items // 512,), (*args, out), (out,), options)
        options = {"SLATE": items, "ROWS": 8, "LANES": 64, "num_warps": 4}
        return Launch(slates_kernel, (slates // 8,), (*args, out), (out,), options)

    return prepare


@triton.jit
def tower_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, dim, units, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """A layer of the tower that users' features pass: product, bias, ReLU."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column, inner = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    x_at = x_ptr + row[:, None] * dim + inner[None, :]
    weight_at = weight_ptr + inner[:, None] * units + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, dim, DEPTH):  # fault
        x, weight = tl.load(x_at), tl.load(weight_at)  # fault
        total = tl.dot(x, weight, total)  # fault
        x_at += DEPTH
        weight_at += DEPTH * units
    total = tl.maximum(total + tl.load(bias_ptr + column)[None, :], 0.0)
    tl.store(out_ptr + row[:, None] * units + column[None, :], total.to(tl.bfloat16))


def _tower(columns: int, num_warps: int, num_stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, dim, units = (128, 256, 256) if small else (132 * 128, 2048, 2048)
        x, weight = random(rows, dim, dtype=torch.bfloat16), random(dim, units, dtype=torch.bfloat16)
        bias, out = random(units), empty(rows, units, dtype=torch.bfloat16)
        options = {"ROWS": 128, "COLUMNS": columns, "DEPTH": 64, "num_warps": num_warps}
        args = (x, weight, bias, out, dim, units)
        grid = (units // columns, rows // 128)
        return Launch(tower_kernel, grid, args, (out,), options | {"num_stages": num_stages})

    return prepare


@triton.jit
def gated_input_kernel(
    x_ptr, gate_ptr, mean_ptr, spread_ptr, weight_ptr, out_ptr, dim, units, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, DEPTH: tl.constexpr, READY: tl.constexpr,
):  # fmt: skip
    """A layer whose normed inputs a user's own gates let through (PPNet). READY: x is gated already."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column, inner = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    at = row[:, None] * dim + inner[None, :]
    weight_at = weight_ptr + inner[:, None] * units + column[None, :]
    mean, spread = tl.load(mean_ptr + row)[:, None], tl.load(spread_ptr + row)[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, dim, DEPTH):
        x = tl.load(x_ptr + at + start)
        if not READY:
            gate = tl.load(gate_ptr + at + start).to(tl.float32)  # fault
            x = ((x.to(tl.float32) - mean) * spread * gate).to(tl.bfloat16)  # fault
        total = tl.dot(x, tl.load(weight_at), total)  # fault
        weight_at += DEPTH * units
    tl.store(out_ptr + row[:, None] * units + column[None, :], total.to(tl.bfloat16))


def _gated_input(ready: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, dim, units = (128, 256, 256) if small else (132 * 128, 2048, 1024)
        x, gate = random(rows, dim, dtype=torch.bfloat16), torch.rand(rows, dim).bfloat16()
        weight, mean = random(dim, units, dtype=torch.bfloat16), 0.1 * random(rows)
        spread, out = torch.rand(rows) + 0.5, empty(rows, units, dtype=torch.bfloat16)
        if ready:
            x = ((x.float() - mean[:, None]) * spread[:, None] * gate.float()).bfloat16()
        options = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64, "READY": ready, "num_warps": 8}
        args = (x, gate, mean, spread, weight, out, dim, units)
        grid = (units // 128, rows // 128)
        return Launch(gated_input_kernel, grid, args, (out,), options | {"num_stages": 3})

    return prepare


@triton.jit
def task_losses_kernel(score_ptr, label_ptr, out_ptr, samples, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Logarithmic losses and biases of the tasks of one model, each over all samples."""
    first = tl.program_id(0) * samples + tl.program_id(1) * (STEPS * BLOCK)
    loss, bias = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(STEPS):
        at = first + step * BLOCK + tl.arange(0, BLOCK)
        score, label = tl.load(score_ptr + at), tl.load(label_ptr + at)
        odds = tl.exp2(-1.4426950408889634 * tl.abs(score))
        loss += 0.6931471805599453 * tl.log2(1.0 + odds) + tl.maximum(score, 0.0) - score * label
        bias += tl.where(score > 0.0, 1.0, odds) / (1.0 + odds) - label
    tl.atomic_add(out_ptr + 2 * tl.program_id(0), tl.sum(loss, 0), sem="relaxed")
    tl.atomic_add(out_ptr + 2 * tl.program_id(0) + 1, tl.sum(bias, 0), sem="relaxed")


def _task_losses(parts: int, block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tasks, samples = (2, 32768) if small else (24, 44 * 48 * 1024)
        divided = min(parts, 4) if small else parts
        score, label = random(tasks, samples), (torch.rand(tasks, samples) < 0.3).float()
        out = zeros(tasks, 2)
        options = {"STEPS": samples // divided // block, "BLOCK": block, "num_warps": num_warps}
        args = (score, label, out, samples)
        return Launch(task_losses_kernel, (tasks, divided), args, (out,), options)

    return prepare


@triton.jit
def cross_layer_kernel(
    first_ptr, x_ptr, weight_ptr, bias_ptr, out_ptr, dim, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """A layer that crosses features with those the model began with: first * (x W + b)."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column, inner = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    x_at = x_ptr + row[:, None] * dim + inner[None, :]
    weight_at = weight_ptr + inner[:, None] * dim + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, dim, DEPTH):  # fault
        x, weight = tl.load(x_at), tl.load(weight_at)  # fault
        total = tl.dot(x, weight, total)  # fault
        x_at += DEPTH
        weight_at += DEPTH * dim
    at = row[:, None] * dim + column[None, :]
    total = tl.load(first_ptr + at) * (total + tl.load(bias_ptr + column)[None, :])
    tl.store(out_ptr + at, total.to(tl.bfloat16))


def _cross_layer(num_stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, dim = (128, 256) if small else (132 * 128, 2048)
        first, x = (random(rows, dim, dtype=torch.bfloat16) for _ in range(2))
        weight, bias, out = random(dim, dim, dtype=torch.bfloat16), random(dim), torch.empty_like(x)
        options = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64, "num_warps": 4, "num_stages": num_stages}
        args = (first, x, weight, bias, out, dim)
        return Launch(cross_layer_kernel, (dim // 128, rows // 128), args, (out,), options)

    return prepare


_fault = faults_of(14)

CASES = (
    _fault(
        "pooled rows of a table with dimensions first",
        ("uncoalesced-load", "unvectorized-access", "redundant-load"),
        ("counts",),
        True,
        _pooled_ids(False),
        _pooled_ids(True),
    ),
    _fault(
        "looks at ranks added query by query",
        ("atomics",),
        ("counts", "samples"),
        True,
        _examined_ranks(False),
        _examined_ranks(True),
    ),
    _fault(
        "discounts of pairs by logarithms",
        ("slow-math", "issue-bound"),
        ("counts", "samples"),
        True,
        _list_gradients(False),
        _list_gradients(True),
    ),
    _fault(
        "slates of 36 items by 64 lanes",
        ("masked-work",),
        ("counts",),
        True,
        _slates(False),
        _slates(True),
    ),
    _fault(
        "a tower's layer by 16 units",
        ("small-mma", "tile-reread", "redundant-load"),
        ("counts", "counters"),
        False,
        _tower(16, 4, 4),
        _tower(256, 8, 4),
    ),
    _fault(
        "users' gates applied in the product",
        ("mma-not-overlapped", "conversions", "issue-bound"),
        ("counts", "counters", "samples"),
        True,
        _gated_input(False),
        _gated_input(True),
    ),
    _fault(
        "losses of 24 tasks by a program each",
        ("idle-sms", "low-occupancy", "exposed-latency"),
        ("ctas", "counters"),
        True,
        _task_losses(1, 4096, 16),
        _task_losses(44, 1024, 4),
    ),
    _fault(
        "crossed layer of 1 stage",
        ("few-stages", "exposed-latency", "mma-not-overlapped"),
        ("spans", "samples", "counters"),
        False,
        _cross_layer(1),
        _cross_layer(3),
    ),
)
