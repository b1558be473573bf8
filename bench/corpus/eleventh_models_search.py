"""Eleventh round, faults of models that look up and learn: retrieval, recommenders, graphs, agents."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def hyperbolic_distances_kernel(
    user_ptr, item_ptr, out_ptr, items, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DIM: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """Distances of users and items on a hyperboloid; the users' first coordinates have their signs turned."""
    row, dim = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    user = tl.load(user_ptr + row[:, None] * DIM + dim[None, :])
    item = tl.load(item_ptr + column[None, :] * DIM + dim[:, None])
    product = -tl.dot(user, item, input_precision="tf32x3")
    if WIDE:
        cosh = tl.maximum(product.to(tl.float64), 1.0)  # fault
        distance = tl.log(cosh + tl.sqrt(cosh * cosh - 1.0)).to(tl.float32)  # fault
    else:
        cosh = tl.maximum(product, 1.0)
        distance = tl.log(cosh + tl.sqrt((cosh - 1.0) * (cosh + 1.0)))
    tl.store(out_ptr + row[:, None] * items + column[None, :], distance)


def _hyperbolic_distances(wide: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        users, items = (128, 256) if small else (8192, 8192)
        user, item = 0.3 * random(users, 32), 0.3 * random(items, 32)
        user[:, 0] = -torch.sqrt(1.0 + user[:, 1:].square().sum(1))
        item[:, 0] = torch.sqrt(1.0 + item[:, 1:].square().sum(1))
        out = empty(users, items)
        options = {"ROWS": 64, "COLUMNS": 128, "DIM": 32, "WIDE": wide, "num_warps": 8}
        grid = (items // 128, users // 64)
        return Launch(hyperbolic_distances_kernel, grid, (user, item, out, items), (out,), options)

    return prepare


@triton.jit
def translated_triples_kernel(
    entity_ptr, relation_ptr, head_ptr, kind_ptr, tail_ptr, out_ptr, TRIPLES: tl.constexpr,
    DIM: tl.constexpr,
):  # fmt: skip
    """How far heads moved by their relations are from tails, for triples of a graph of facts (TransE)."""
    triple, dim = tl.program_id(0) * TRIPLES + tl.arange(0, TRIPLES), tl.arange(0, DIM)[None, :]
    head, kind, tail = tl.load(head_ptr + triple), tl.load(kind_ptr + triple), tl.load(tail_ptr + triple)
    source = tl.load(entity_ptr + head[:, None] * DIM + dim).to(tl.float32)
    target = tl.load(entity_ptr + tail[:, None] * DIM + dim).to(tl.float32)
    move = tl.load(relation_ptr + kind[:, None] * DIM + dim).to(tl.float32)
    tl.store(out_ptr + triple, 12.0 - tl.sum(tl.abs(source + move - target), 1))


def _translated_triples(together: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        triples, entities = (8, 100) if small else (1 << 20, 200000)
        each = min(together, 8) if small else together
        entity = random(entities, 128, dtype=torch.float16)
        relation = random(1000, 128, dtype=torch.float16)
        head, tail = (integers(triples, below=entities) for _ in range(2))
        kind, out = integers(triples, below=1000), empty(triples)
        options = {"TRIPLES": each, "DIM": 128, "num_warps": warps}
        args = (entity, relation, head, kind, tail, out)
        return Launch(translated_triples_kernel, (triples // each,), args, (out,), options)

    return prepare


@triton.jit
def pooled_tables_kernel(
    row_ptr, id_ptr, work_ptr, pool_ptr, base_ptr, out_ptr, tables, ROWS: tl.constexpr, DIM: tl.constexpr
):
    """Rows of many tables summed for each sample; each table has its own number of rows a sample (DLRM)."""
    work, dim = work_ptr + tl.program_id(0) * 3, tl.arange(0, DIM)
    table, first, last = tl.load(work), tl.load(work + 1), tl.load(work + 2)
    pool, id_at = tl.load(pool_ptr + table), id_ptr + tl.load(base_ptr + table)
    for sample in range(first, last):  # fault
        total = tl.zeros((ROWS, DIM), dtype=tl.float32)
        for start in range(0, pool, ROWS):  # fault
            each = start + tl.arange(0, ROWS)
            row = tl.load(id_at + sample * pool + each, mask=each < pool, other=0)
            at = row_ptr + row[:, None] * DIM + dim[None, :]
            total += tl.load(at, mask=(each < pool)[:, None], other=0.0).to(tl.float32)
        pooled = tl.sum(total, 0).to(tl.float16)
        tl.store(out_ptr + (sample * tables + table) * DIM + dim, pooled)


def _pooled_tables(by_work: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        samples, rows, programs = (8, 50, 8) if small else (4096, 100000, 1040)
        pools = [2, 40, 1] if small else [2] * 9 + [200] + [20] * 3 + [200, 1, 200] + [1, 3] * 5
        cost = [-(-pool // 16) + 1 if by_work else 1 for pool in pools]
        work = []
        for table, each in enumerate(cost):
            parts = max(1, programs * each // sum(cost))
            ends = [samples * part // parts for part in range(parts + 1)]
            work += [(table, ends[part], ends[part + 1]) for part in range(parts)]
        row = random(len(pools) * rows, 128, dtype=torch.float16)
        ids = [table * rows + integers(samples * pool, below=rows) for table, pool in enumerate(pools)]
        pool = torch.tensor(pools, dtype=torch.int32)
        base = ((pool.cumsum(0) - pool) * samples).int()
        out = empty(samples, len(pools), 128, dtype=torch.float16)
        args = (row, torch.cat(ids), torch.tensor(work, dtype=torch.int32), pool, base, out, len(pools))
        options = {"ROWS": 16, "DIM": 128, "num_warps": 4}
        return Launch(pooled_tables_kernel, (len(work),), args, (out,), options)

    return prepare


@triton.jit
def joined_graphs_kernel(
    link_ptr, x_ptr, span_ptr, out_ptr, nodes, ROWS: tl.constexpr, DEPTH: tl.constexpr, DIM: tl.constexpr,
    WITHIN: tl.constexpr,
):  # fmt: skip
    """Features passed on along the links of graphs that a batch joins. WITHIN: each row to its own graph."""
    block, inner, dim = tl.program_id(0), tl.arange(0, DEPTH), tl.arange(0, DIM)
    row = block * ROWS + tl.arange(0, ROWS)
    link_at = link_ptr + row[:, None].to(tl.int64) * nodes + inner[None, :]
    x_at = x_ptr + inner[:, None] * DIM + dim[None, :]
    first, last = 0, nodes
    if WITHIN:
        first, last = tl.load(span_ptr + block * 2) * DEPTH, tl.load(span_ptr + block * 2 + 1) * DEPTH
    total = tl.zeros((ROWS, DIM), dtype=tl.float32)
    for start in range(first, last, DEPTH):  # fault
        link = tl.load(link_at + start)  # fault
        x = tl.load(x_at + start * DIM)  # fault
        total = tl.dot(link, x, total)  # fault
    tl.store(out_ptr + row[:, None] * DIM + dim[None, :], total.to(tl.bfloat16))


def _joined_graphs(within: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        sizes = [192, 320] if small else [3008, 5184, 4608, 3584]
        nodes = sum(sizes)
        ends = [sum(sizes[: each + 1]) for each in range(len(sizes))]
        link = zeros(nodes, nodes, dtype=torch.bfloat16)
        for end, size in zip(ends, sizes, strict=True):
            near = torch.rand(size, size)
            link[end - size : end, end - size : end] = torch.where(near < 0.3, near / size, 0.0)
        spans = []
        for row in range(0, nodes, 128):
            inside = [at for at, end in enumerate(ends) if end > row and end - sizes[at] < row + 128]
            spans.append(((ends[inside[0]] - sizes[inside[0]]) // 64, ends[inside[-1]] // 64))
        x, out = random(nodes, 256, dtype=torch.bfloat16), empty(nodes, 256, dtype=torch.bfloat16)
        options = {"ROWS": 128, "DEPTH": 64, "DIM": 256, "WITHIN": within, "num_warps": 8}
        args = (link, x, torch.tensor(spans, dtype=torch.int32), out, nodes)
        return Launch(joined_graphs_kernel, (nodes // 128,), args, (out,), options | {"num_stages": 3})

    return prepare


@triton.jit
def ready_features_kernel(
    x_ptr, mean_ptr, scale_ptr, out_ptr, features, ROWS: tl.constexpr, FEATURES: tl.constexpr
):
    """Features of a table of numbers centred, scaled and cut off, as a model of such tables takes them."""
    feature = tl.program_id(0) * FEATURES + tl.arange(0, FEATURES)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * features + feature[None, :]
    mean, scale = tl.load(mean_ptr + feature)[None, :], tl.load(scale_ptr + feature)[None, :]
    x = tl.load(x_ptr + at)  # fault
    x = tl.clamp((x - mean) * scale, -5.0, 5.0)
    tl.store(out_ptr + at, x.to(tl.float16))  # fault


def _ready_features(rows_of_program: int, features_of_program: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, features, each = (1024, 8, 8) if small else (1 << 18, 256, 256)
        each = min(features_of_program, each)
        x, mean, scale = random(rows, features), random(features), torch.rand(features) + 0.5
        out = empty(rows, features, dtype=torch.float16)
        options = {"ROWS": rows_of_program, "FEATURES": each, "num_warps": 4}
        grid = (features // each, rows // rows_of_program)
        return Launch(ready_features_kernel, grid, (x, mean, scale, out, features), (out,), options)

    return prepare


_fault = faults_of(11)


CASES = (
    _fault(
        "distances on a hyperboloid",
        ("fp64-arithmetic", "slow-math"),
        ("counts", "samples"),
        True,
        _hyperbolic_distances(True),
        _hyperbolic_distances(False),
    ),
    _fault(
        "facts scored a triple a program",
        ("tiny-ctas", "low-occupancy", "exposed-latency"),
        ("ctas", "counts", "spans"),
        True,
        _translated_triples(1, 1),
        _translated_triples(32, 4),
    ),
    _fault(
        "tables of many rows in as many programs",
        ("load-imbalance",),
        ("ctas", "spans"),
        True,
        _pooled_tables(False),
        _pooled_tables(True),
    ),
    _fault(
        "links between graphs of one batch",
        ("masked-work",),
        ("counts",),
        True,
        _joined_graphs(False),
        _joined_graphs(True),
    ),
    _fault(
        "features made ready column by column",
        ("uncoalesced-load", "uncoalesced-store"),
        ("counts",),
        True,
        _ready_features(1024, 1),
        _ready_features(16, 256),
    ),
)
