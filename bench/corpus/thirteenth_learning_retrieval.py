"""Thirteenth round, faults of retrieval: inverted lists, compressed vectors, hashes, duplicates."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def scanned_lists_kernel(x_ptr, query_ptr, item_ptr, out_ptr, DIM: tl.constexpr, ROWS: tl.constexpr):
    """Distances of queries to the vectors in the inverted lists that they look into."""
    item_at = item_ptr + 4 * tl.program_id(0)
    first, count = tl.load(item_at), tl.load(item_at + 1)
    place, dim, row = tl.load(item_at + 2), tl.arange(0, DIM), tl.arange(0, ROWS)
    query = tl.load(query_ptr + tl.load(item_at + 3) * DIM + dim)
    x_at = x_ptr + (first + row)[:, None] * DIM + dim[None, :]
    for start in range(0, count, ROWS):  # fault
        x = tl.load(x_at + start * DIM, mask=(start + row < count)[:, None], other=0.0)
        away = x.to(tl.float32) - query[None, :]
        tl.store(out_ptr + place + start + row, tl.sum(away * away, 1), mask=start + row < count)


def _scanned_lists(most: int | None) -> Prepare:
    """A few lists have many more vectors than others. most: vectors of an item of work; None: a list."""

    def prepare(small: bool) -> Launch:
        counts = ([200] * 3 + [1000]) if small else ([512] * 512 + [32768]) * 8
        dim, queries, items, first = 128, 4 if small else 256, [], 0
        for number, count in enumerate(counts):
            step = most or count
            for start in range(0, count, step):
                vectors = min(step, count - start)
                items.append((first + start, vectors, first + start, number % queries))
            first += count
        x = random(first, dim, dtype=torch.bfloat16)
        query, out = random(queries, dim), empty(first)
        table = torch.tensor(items, dtype=torch.int32)
        options = {"DIM": dim, "ROWS": 64, "num_warps": 4}
        args = (x, query, table, out)
        return Launch(scanned_lists_kernel, (len(items),), args, (out,), options)

    return prepare


@triton.jit
def code_distances_kernel(
    code_ptr, table_ptr, out_ptr, vectors, PARTS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr
):
    """Distances to vectors of product codes: sums of what a table says of each byte. ROWS: a row a vector."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    code_at = code_ptr + (at * PARTS if ROWS else at)  # fault
    step = 1 if ROWS else vectors
    for part in range(PARTS):
        code = tl.load(code_at + part * step)  # fault
        total += tl.load(table_ptr + part * 256 + code.to(tl.int32))
    tl.store(out_ptr + at, total)


def _code_distances(rows: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        vectors, parts = (2048, 16) if small else (1 << 22, 64)
        code = integers(vectors, parts, below=256, dtype=torch.uint8)
        table, out = torch.rand(parts, 256), empty(vectors)
        options = {"PARTS": parts, "BLOCK": 512, "ROWS": rows, "num_warps": 4}
        args = (code if rows else code.t().contiguous(), table, out, vectors)
        return Launch(code_distances_kernel, (vectors // 512,), args, (out,), options)

    return prepare


@triton.jit
def best_questions_kernel(
    x_ptr, question_ptr, out_ptr, passages, DIM: tl.constexpr, ROWS: tl.constexpr, COUNT: tl.constexpr,
    EACH: tl.constexpr,
):  # fmt: skip
    """How near each passage is to any of the questions of each user. EACH: users of a program."""
    row, dim = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)
    x = tl.load(x_ptr + row[:, None] * DIM + dim[None, :])  # fault
    question_at = question_ptr + tl.arange(0, COUNT)[None, :] * DIM + dim[:, None]
    for each in range(EACH):
        user = tl.program_id(1) * EACH + each
        score = tl.dot(x, tl.load(question_at + user * COUNT * DIM))  # fault
        tl.store(out_ptr + user * passages + row, tl.max(score, 1))


def _best_questions(each: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        passages, users = (512, 4) if small else (1 << 20, 16)
        x = random(passages, 128, dtype=torch.bfloat16)
        question = random(users, 64, 128, dtype=torch.bfloat16)
        out, own = empty(users, passages), min(each, users)
        options = {"DIM": 128, "ROWS": 256, "COUNT": 64, "EACH": own, "num_warps": 8, "num_stages": 2}
        args, grid = (x, question, out, passages), (passages // 256, users // own)
        return Launch(best_questions_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def candidates_kernel(x_ptr, query_ptr, id_ptr, out_ptr, candidates, DIM: tl.constexpr, ROWS: tl.constexpr):
    """Exact scores of each query's candidates, after a search among compressed vectors."""
    query, dim, row = tl.program_id(0), tl.arange(0, DIM), tl.arange(0, ROWS)
    q = tl.load(query_ptr + query * DIM + dim)
    for start in range(0, candidates, ROWS):  # fault
        at = query * candidates + start + row
        number = tl.load(id_ptr + at)
        x = tl.load(x_ptr + number[:, None].to(tl.int64) * DIM + dim[None, :])  # fault
        score = tl.sum(x.to(tl.float32) * q[None, :], 1)  # fault
        tl.store(out_ptr + at, score)


def _candidates(rows: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        vectors, queries, candidates = (512, 4, 64) if small else (1 << 20, 4224, 256)
        x, query = random(vectors, 512, dtype=torch.bfloat16), random(queries, 512)
        number, out = integers(queries, candidates, below=vectors), empty(queries, candidates)
        options = {"DIM": 512, "ROWS": rows, "num_warps": 4}
        return Launch(candidates_kernel, (queries,), (x, query, number, out, candidates), (out,), options)

    return prepare


@triton.jit
def byte_grams_kernel(
    byte_ptr, out_ptr, bytes_of_text, rows, MOST: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Rows of a table for the last 3, 4 ... bytes at each byte of a text (BLT). ROWS: how many, if fixed."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    code = tl.zeros((BLOCK,), dtype=tl.uint32)
    for back in tl.static_range(MOST):
        byte = tl.load(byte_ptr + at - back, mask=at >= back, other=0).to(tl.uint32)
        code = (code ^ byte) * 16777619
        if back >= 2:
            if ROWS:
                place = ((code ^ (code >> 15)) % ROWS).to(tl.int32)
            else:
                wide = (code ^ (code >> 15)).to(tl.int64)  # fault
                place = (wide % rows).to(tl.int32)  # fault
            tl.store(out_ptr + (back - 2) * bytes_of_text + at, place)


def _byte_grams(fixed: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        size, most, rows = 2048 if small else 1 << 24, 8, 500_009
        byte = integers(size, below=256, dtype=torch.uint8)
        out = empty(most - 2, size, dtype=torch.int32)
        options = {"MOST": most, "ROWS": rows if fixed else 0, "BLOCK": 512, "num_warps": 4}
        args = (byte, out, size, rows)
        return Launch(byte_grams_kernel, (size // 512,), args, (out,), options)

    return prepare


@triton.jit
def turned_vectors_kernel(
    x_ptr, turn_ptr, out_ptr, ROWS: tl.constexpr, DIM: tl.constexpr, DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Vectors turned before their parts are coded (OPQ), or binarised (RaBitQ)."""
    row, column, inner = tl.arange(0, ROWS), tl.arange(0, DIM), tl.arange(0, DEPTH)
    row += tl.program_id(0) * ROWS
    x_at = x_ptr + row[:, None] * DIM + inner[None, :]
    turn_at = turn_ptr + column[None, :] * DIM + inner[:, None]
    total = tl.zeros((ROWS, DIM), dtype=tl.float32)
    for start in range(0, DIM, DEPTH):  # fault
        x, turn = tl.load(x_at + start), tl.load(turn_at + start)
        total = tl.dot(x, turn, total, input_precision=PRECISION)  # fault
    tl.store(out_ptr + row[:, None] * DIM + column[None, :], total.to(tl.bfloat16))


def _turned_vectors(precision: str) -> Prepare:
    def prepare(small: bool) -> Launch:
        vectors, dim = (256, 128) if small else (1 << 20, 128)
        x, out = random(vectors, dim), empty(vectors, dim, dtype=torch.bfloat16)
        turn = random(dim, dim) * dim**-0.5
        options = {"ROWS": 128, "DIM": dim, "DEPTH": 32, "PRECISION": precision}
        options |= {"num_warps": 8, "num_stages": 3}
        return Launch(turned_vectors_kernel, (vectors // 128,), (x, turn, out), (out,), options)

    return prepare


@triton.jit
def nearest_duplicates_kernel(
    x_ptr, other_ptr, out_ptr, vectors, others, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DIM: tl.constexpr
):
    """The largest similarity of each vector to another set's, in the same cluster (SemDeDup)."""
    row, dim = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)
    row += tl.program_id(1) * vectors
    x = tl.load(x_ptr + row[:, None] * DIM + dim[None, :])
    column = tl.program_id(1) * others + tl.arange(0, COLUMNS)
    other_at = other_ptr + column[None, :] * DIM + dim[:, None]
    peak = tl.full((ROWS, COLUMNS), -1e30, dtype=tl.float32)
    for _ in range(0, others, COLUMNS):  # fault
        other = tl.load(other_at)  # fault
        peak = tl.maximum(peak, tl.dot(x, other))  # fault
        other_at += COLUMNS * DIM
    tl.store(out_ptr + row, tl.max(peak, 1))


def _nearest_duplicates(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        clusters, vectors, others, dim = (1, 256, 512, 128) if small else (8, 8448, 8192, 256)
        x, other = (
            torch.nn.functional.normalize(random(clusters * each, dim), dim=1).to(torch.bfloat16)
            for each in (vectors, others)
        )
        out = empty(clusters * vectors)
        options = {"ROWS": 128, "COLUMNS": 128, "DIM": dim, "num_warps": 8, "num_stages": stages}
        args, grid = (x, other, out, vectors, others), (vectors // 128, clusters)
        return Launch(nearest_duplicates_kernel, grid, args, (out,), options)

    return prepare


_fault = faults_of(13)

CASES = (
    _fault(
        "inverted lists scanned by a program each",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        False,
        _scanned_lists(None),
        _scanned_lists(512),
    ),
    _fault(
        "product codes read by a vector a lane",
        ("uncoalesced-load", "unvectorized-access"),
        ("counts", "counters"),
        True,
        _code_distances(True),
        _code_distances(False),
    ),
    _fault(
        "passages loaded for each user's questions",
        ("tile-reread", "redundant-load"),
        ("counts", "counters"),
        True,
        _best_questions(1),
        _best_questions(16),
    ),
    _fault(
        "candidates scored one by one",
        ("exposed-latency", "serial-reduction", "few-stages", "too-many-warps"),
        ("counts", "samples", "spans"),
        False,
        _candidates(1),
        _candidates(16),
    ),
    _fault(
        "byte grams in tables of any length",
        ("index-arithmetic", "slow-math", "issue-bound"),
        ("counts", "samples"),
        True,
        _byte_grams(False),
        _byte_grams(True),
    ),
    _fault(
        "vectors turned in float32",
        ("no-tensor-cores",),
        ("counts", "samples"),
        True,
        _turned_vectors("ieee"),
        _turned_vectors("tf32"),
    ),
    _fault(
        "nearest duplicates sought with 1 stage",
        ("few-stages", "exposed-latency", "mma-not-overlapped"),
        ("counts", "samples", "spans"),
        False,
        _nearest_duplicates(1),
        _nearest_duplicates(2),
    ),
)
