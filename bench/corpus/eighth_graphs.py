"""Eighth round, faults of kernels for recommenders, maps and points in space."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def byte_bags_kernel(
    table_ptr, index_ptr, out_ptr, row_bytes, EACH: tl.constexpr, BAGS: tl.constexpr, DIM: tl.constexpr,
    ALIGNED: tl.constexpr,
):  # fmt: skip
    """Sums of EACH rows of a table of bytes; a row's scale and offset stand behind its bytes (FBGEMM)."""
    bag, dim = tl.program_id(0) * BAGS + tl.arange(0, BAGS), tl.arange(0, DIM)[None, :]
    total, offsets = tl.zeros((BAGS, DIM), dtype=tl.float32), tl.zeros((BAGS,), dtype=tl.float32)
    for step in range(EACH):
        start = tl.load(index_ptr + bag * EACH + step) * row_bytes
        if ALIGNED:
            start = tl.multiple_of(start, 8)
        parameters = (table_ptr + start + DIM).to(tl.pointer_type(tl.float32))
        scale = tl.load(parameters)
        offsets += tl.load(parameters + 1)
        x = tl.load(table_ptr + start[:, None] + dim)  # fault
        total += scale[:, None] * x.to(tl.float32)
    tl.store(out_ptr + bag[:, None] * DIM + dim, (total + offsets[:, None]).to(tl.float16))


def _byte_bags(aligned: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        bags, rows = (64, 64) if small else (1 << 18, 512)
        each = 8 if small else 32
        parameters = torch.rand(rows, 2) - 0.3
        table = torch.randint(256, (rows, 136), dtype=torch.uint8)
        table[:, 128:] = parameters.view(torch.uint8)
        index, out = integers(bags, each, below=rows), empty(bags, 128, dtype=torch.float16)
        options = {"EACH": each, "BAGS": 16, "DIM": 128, "ALIGNED": aligned, "num_warps": 4}
        args = (table, index, out, 136)
        return Launch(byte_bags_kernel, (bags // 16,), args, (out,), options)

    return prepare


@triton.jit
def bird_view_kernel(
    x_ptr, source_ptr, depth_ptr, cell_ptr, first_ptr, out_ptr, BLOCK: tl.constexpr, DIM: tl.constexpr,
    BY_CELL: tl.constexpr,
):  # fmt: skip
    """Features of cameras' pixels, lifted to their depths and added up in a map's cells (BEV pooling).

    The points are sorted by cell.
    """
    row, dim = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, DIM)[None, :]
    if BY_CELL:
        first = tl.load(first_ptr + row)
        points = tl.load(first_ptr + row + 1) - first
        total = tl.zeros((BLOCK, DIM), dtype=tl.float32)
        for step in range(tl.max(points, 0)):
            inside = step < points
            source = tl.load(source_ptr + first + step, mask=inside, other=0)
            depth = tl.load(depth_ptr + first + step, mask=inside, other=0.0)
            total += tl.load(x_ptr + source[:, None] * DIM + dim).to(tl.float32) * depth[:, None]
        tl.store(out_ptr + row[:, None] * DIM + dim, total)
    else:
        source, depth = tl.load(source_ptr + row), tl.load(depth_ptr + row)
        feature = tl.load(x_ptr + source[:, None] * DIM + dim).to(tl.float32) * depth[:, None]
        cell = tl.load(cell_ptr + row)[:, None]
        tl.atomic_add(out_ptr + cell * DIM + dim, feature, sem="relaxed")  # fault


def _bird_view(by_cell: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        points, cells, pixels = (256, 32, 64) if small else (1 << 22, 1 << 16, 1 << 15)
        x, source = random(pixels, 64, dtype=torch.float16), integers(points, below=pixels)
        depth = torch.rand(points)
        cell = torch.sort(integers(points, below=cells))[0]
        first = torch.searchsorted(cell, torch.arange(cells + 1, dtype=torch.int32)).int()
        out = zeros(cells, 64)
        block = 8 if by_cell else 32
        options = {"BLOCK": block, "DIM": 64, "BY_CELL": by_cell, "num_warps": 4}
        args = (x, source, depth, cell, first, out)
        grid = ((cells if by_cell else points) // block,)
        return Launch(bird_view_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def history_mean_kernel(
    x_ptr, first_ptr, out_ptr, longest, BLOCK: tl.constexpr, DIM: tl.constexpr, OWN: tl.constexpr
):
    """The mean of what a user has seen, of histories as long as they are; OWN: up to its own length."""
    user, dim = tl.program_id(0), tl.arange(0, DIM)[None, :]
    first = tl.load(first_ptr + user)
    length = tl.load(first_ptr + user + 1) - first
    until = length if OWN else longest
    total = tl.zeros((BLOCK, DIM), dtype=tl.float32)
    for start in range(0, until, BLOCK):
        event = start + tl.arange(0, BLOCK)[:, None]
        x = tl.load(x_ptr + (first + event) * DIM + dim, mask=event < length, other=0.0)  # fault
        total += x.to(tl.float32)  # fault
    mean = tl.sum(total, 0) / tl.maximum(length, 1)
    tl.store(out_ptr + user * DIM + tl.arange(0, DIM), mean)


def _history_mean(own: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        users, usual, longest = (8, 8, 128) if small else (1 << 16, 32, 1024)
        lengths = (1 - torch.rand(users)).log().mul(-usual).int().clamp(1, longest)
        lengths[users // 2] = longest
        first = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()
        x, out = random(int(first[-1]), 64, dtype=torch.float16), empty(users, 64)
        options = {"BLOCK": 16, "DIM": 64, "OWN": own, "num_warps": 4}
        return Launch(history_mean_kernel, (users,), (x, first, out, longest), (out,), options)

    return prepare


@triton.jit
def interpolated_kernel(x_ptr, source_ptr, weight_ptr, out_ptr, POINTS: tl.constexpr, DIM: tl.constexpr):
    """Features of each point from its three nearest ones of a coarser cloud (PointNet++)."""
    point, dim = tl.program_id(0) * POINTS + tl.arange(0, POINTS), tl.arange(0, DIM)[None, :]
    total = tl.zeros((POINTS, DIM), dtype=tl.float32)
    for near in tl.static_range(3):
        source = tl.load(source_ptr + point * 3 + near)[:, None]
        weight = tl.load(weight_ptr + point * 3 + near)[:, None]
        total += weight * tl.load(x_ptr + source * DIM + dim).to(tl.float32)
    tl.store(out_ptr + point[:, None] * DIM + dim, total.to(tl.float16))


def _interpolated(each: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        points, coarse = (128, 32) if small else (1 << 20, 1 << 16)
        x, source = random(coarse, 64, dtype=torch.float16), integers(points, 3, below=coarse)
        weight = torch.softmax(random(points, 3), 1)
        out = empty(points, 64, dtype=torch.float16)
        options = {"POINTS": each, "DIM": 64, "num_warps": 4}
        args = (x, source, weight, out)
        return Launch(interpolated_kernel, (points // each,), args, (out,), options)

    return prepare


@triton.jit
def cross_layer_kernel(
    first_ptr, x_ptr, weight_ptr, bias_ptr, out_ptr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """A layer of a deep and cross network: the first features times a layer of the last, plus the last."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, WIDTH, DEPTH):
        x = tl.load(x_ptr + row * WIDTH + start + depth[None, :])  # fault
        weight = tl.load(weight_ptr + column[None, :] * WIDTH + start + depth[:, None])  # fault
        total = tl.dot(x, weight, total)
    total += tl.load(bias_ptr + column)[None, :]
    at = row * WIDTH + column[None, :]
    out = tl.load(first_ptr + at).to(tl.float32) * total + tl.load(x_ptr + at).to(tl.float32)
    tl.store(out_ptr + at, out.to(tl.bfloat16))


def _cross_layer(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, width = (128, 256) if small else (256, 8192)
        first, x = (random(rows, width, dtype=torch.bfloat16) for _ in range(2))
        weight = random(width, width, dtype=torch.bfloat16) / width**0.5
        bias, out = random(width), torch.empty_like(x)
        options = {"WIDTH": width, "ROWS": 128, "COLUMNS": 128, "DEPTH": 64}
        options |= {"num_warps": 8, "num_stages": stages}
        args = (first, x, weight, bias, out)
        return Launch(cross_layer_kernel, (width // 128, rows // 128), args, (out,), options)

    return prepare


_case = faults_of(8)


CASES = (
    _case(
        "bags of bytes at unknown places",
        ("unvectorized-access", "uncoalesced-load"),
        ("counts", "samples"),
        True,
        _byte_bags(False),
        _byte_bags(True),
    ),
    _case(
        "lifted pixels added point by point",
        ("atomics",),
        ("counts", "samples"),
        True,
        _bird_view(False),
        _bird_view(True),
    ),
    _case(
        "histories read to the end of the longest",
        ("masked-work",),
        ("counts", "spans"),
        True,
        _history_mean(False),
        _history_mean(True),
    ),
    _case(
        "a CTA for each interpolated point",
        ("tiny-ctas",),
        ("spans", "ctas"),
        False,
        _interpolated(1),
        _interpolated(32),
    ),
    _case(
        "cross layer of 1 stage",
        ("few-stages", "exposed-latency"),
        ("spans", "samples"),
        True,
        _cross_layer(1),
        _cross_layer(4),
    ),
)
