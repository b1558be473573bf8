"""Ninth round, faults of kernels for graphs and points in space."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def graph_attention_kernel(
    x_ptr, from_ptr, to_ptr, order_ptr, first_ptr, source_ptr, out_ptr, DIM: tl.constexpr,
    EDGES: tl.constexpr,
):  # fmt: skip
    """Attention of a node to its neighbours (GAT), in one pass; a program for each node."""
    node = tl.load(order_ptr + tl.program_id(0))  # fault
    first, last = tl.load(first_ptr + node), tl.load(first_ptr + node + 1)
    dim = tl.arange(0, DIM)
    own = tl.load(to_ptr + node)
    total, peak, weight = tl.zeros((DIM,), dtype=tl.float32), -1e30, 0.0
    for start in range(first, last, EDGES):  # fault
        edge = start + tl.arange(0, EDGES)
        inside = edge < last
        source = tl.load(source_ptr + edge, mask=inside, other=0)
        score = own + tl.load(from_ptr + source)
        score = tl.where(inside, tl.where(score > 0.0, score, 0.2 * score), -1e30)
        newest = tl.maximum(peak, tl.max(score, 0))
        share, fade = tl.exp(score - newest), tl.exp(peak - newest)
        x = tl.load(x_ptr + source[:, None] * DIM + dim[None, :], mask=inside[:, None], other=0.0)
        total = fade * total + tl.sum(share[:, None] * x.to(tl.float32), 0)
        weight = fade * weight + tl.sum(share, 0)
        peak = newest
    tl.store(out_ptr + node * DIM + dim, (total / weight).to(tl.float16))


def _graph_attention(popular_first: bool) -> Prepare:
    """Users with 16 neighbours each, and behind them items, of which few are very popular."""

    def prepare(small: bool) -> Launch:
        users, items, most = (64, 8, 128) if small else (300_000, 1024, 6144)
        fame = most / (1 + torch.arange(items) // (items // 8)).float() ** 2
        degree = torch.cat([torch.full((users,), 16), fame.int()])
        first = torch.cat([torch.zeros(1, dtype=torch.int32), degree.cumsum(0).int()])
        count = users + items
        edges = 16 * users + sum(int(most / (1 + each) ** 2) for each in range(8)) * (items // 8)
        source = integers(edges, below=count)
        x = random(count, 128, dtype=torch.float16)
        sent, received = random(count), random(count)
        order = torch.arange(count, dtype=torch.int32)
        if popular_first:
            order = order.roll(items)
        out = empty(count, 128, dtype=torch.float16)
        args = (x, sent, received, order, first, source, out)
        options = {"DIM": 128, "EDGES": 16, "num_warps": 1}
        return Launch(graph_attention_kernel, (count,), args, (out,), options)

    return prepare


@triton.jit
def sparse_convolution_kernel(
    x_ptr, weight_ptr, neighbour_ptr, out_ptr, rows, filters, taps, CHANNELS: tl.constexpr,
    ROWS: tl.constexpr, FILTERS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """A convolution over the voxels that hold points; each has a list of its neighbours, -1 for none."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    kind, inner = tl.program_id(0) * FILTERS + tl.arange(0, FILTERS), tl.arange(0, DEPTH)
    total = tl.zeros((ROWS, FILTERS), dtype=tl.float32)
    for step in range(taps * (CHANNELS // DEPTH)):
        tap, part = step // (CHANNELS // DEPTH), step % (CHANNELS // DEPTH) * DEPTH
        source = tl.load(neighbour_ptr + tap * rows + row)
        x_at = x_ptr + source[:, None] * CHANNELS + part + inner[None, :]
        x = tl.load(x_at, mask=source[:, None] >= 0, other=0.0)  # fault
        weight = tl.load(weight_ptr + (step * DEPTH + inner[:, None]) * filters + kind[None, :])
        total = tl.dot(x, weight, total)
    tl.store(out_ptr + row[:, None] * filters + kind[None, :], total.to(tl.float16))


def _sparse_convolution(filters_of_program: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, taps, filters = (256, 4, 128) if small else (131072, 27, 256)
        x = random(rows, 128, dtype=torch.float16)
        weight = random(taps * 128, filters, dtype=torch.float16) * 0.03
        near = torch.arange(rows, dtype=torch.int32) + torch.randint(-300, 300, (taps, rows))
        neighbour = torch.where(torch.rand(taps, rows) < 0.7, near.clamp(0, rows - 1), -1).int()
        out = empty(rows, filters, dtype=torch.float16)
        options = {"CHANNELS": 128, "ROWS": 128, "FILTERS": filters_of_program, "DEPTH": 64}
        options |= {"num_warps": 8, "num_stages": 3}
        args = (x, weight, neighbour, out, rows, filters, taps)
        grid = (filters // filters_of_program, rows // 128)
        return Launch(sparse_convolution_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def pillar_features_kernel(
    point_ptr, count_ptr, weight_ptr, out_ptr, most, FEATURES: tl.constexpr, POINTS: tl.constexpr,
    OWN: tl.constexpr,
):  # fmt: skip
    """Features of a lidar's pillars: the greatest of their points, after a layer. OWN: no other points."""
    pillar, feature = tl.program_id(0), tl.arange(0, FEATURES)[None, :]
    count = tl.load(count_ptr + pillar)
    wx, wy = tl.load(weight_ptr + feature), tl.load(weight_ptr + FEATURES + feature)
    wz, wi = tl.load(weight_ptr + 2 * FEATURES + feature), tl.load(weight_ptr + 3 * FEATURES + feature)
    bias = tl.load(weight_ptr + 4 * FEATURES + feature)
    best = tl.zeros((POINTS, FEATURES), dtype=tl.float32)
    for first in range(0, count if OWN else most, POINTS):  # fault
        each = first + tl.arange(0, POINTS)[:, None]
        inside = each < count
        point = point_ptr + (pillar * most + each) * 4
        x, y = tl.load(point, mask=inside, other=0.0), tl.load(point + 1, mask=inside, other=0.0)
        z, i = tl.load(point + 2, mask=inside, other=0.0), tl.load(point + 3, mask=inside, other=0.0)
        value = bias + x * wx + y * wy + z * wz + i * wi  # fault
        best = tl.maximum(best, tl.where(inside, value, 0.0))  # fault
    tl.store(out_ptr + pillar * FEATURES + feature, tl.max(best, 0)[None, :].to(tl.float16))


def _pillar_features(own: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        pillars, most = (16, 128) if small else (120_000, 128)
        point, weight = random(pillars, most, 4), random(5, 64)
        count = (1 + 10 * torch.rand(pillars) ** 2).int()
        out = empty(pillars, 64, dtype=torch.float16)
        options = {"FEATURES": 64, "POINTS": 16, "OWN": own, "num_warps": 4}
        args = (point, count, weight, out, most)
        return Launch(pillar_features_kernel, (pillars,), args, (out,), options)

    return prepare


_case = faults_of(9)


CASES = (
    _case(
        "popular items' neighbours summed last",
        ("load-imbalance", "tail"),
        ("spans", "ctas"),
        False,
        _graph_attention(False),
        _graph_attention(True),
    ),
    _case(
        "voxels' neighbours gathered for each 32 filters",
        ("tile-reread", "small-mma"),
        ("counters",),
        False,
        _sparse_convolution(32),
        _sparse_convolution(128),
    ),
    _case(
        "pillars of few points padded to 128",
        ("masked-work",),
        ("counts", "spans"),
        True,
        _pillar_features(False),
        _pillar_features(True),
    ),
)
