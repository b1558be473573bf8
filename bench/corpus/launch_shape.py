"""Faults of the launch: too few, too many, uneven or too small CTAs."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def softmax_loop_kernel(x_ptr, out_ptr, rows, COLS: tl.constexpr):
    """Each program walks over rows of softmax."""
    cols = tl.arange(0, COLS)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * COLS + cols)
        e = tl.exp(x - tl.max(x, 0))
        tl.store(out_ptr + row * COLS + cols, e / tl.sum(e, 0))


def _softmax_loop(programs: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (16, 512) if small else (8192, 4096)
        x, out = random(rows, cols), empty(rows, cols)
        grid = (max(1, programs // 64) if small else programs,)
        return Launch(softmax_loop_kernel, grid, (x, out, rows), (out,), {"COLS": cols, "num_warps": 8})

    return prepare


@triton.jit
def split_matmul_kernel(
    a_ptr, b_ptr, c_ptr, N, K, SPLIT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.program_id(2) * (K // SPLIT) + tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * N + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K // SPLIT, BLOCK_K):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    c_ptrs = c_ptr + offs_m[:, None] * N + offs_n[None, :]
    if SPLIT == 1:
        tl.store(c_ptrs, acc)
    else:
        tl.atomic_add(c_ptrs, acc)


def _deep_matmul(split: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, k = (128, 512) if small else (512, 16384)
        a, b, c = random(m, k, dtype=torch.float16), random(k, m, dtype=torch.float16), zeros(m, m)
        options = {
            "SPLIT": split,
            "BLOCK_M": 128,
            "BLOCK_N": 128,
            "BLOCK_K": 64,
            "num_warps": 8,
            "num_stages": 3,
        }
        return Launch(split_matmul_kernel, (m // 128, m // 128, split), (a, b, c, m, k), (c,), options)

    return prepare


@triton.jit
def channel_scale_kernel(x_ptr, w_ptr, out_ptr, length, BLOCK: tl.constexpr):
    channel = tl.program_id(0)
    w = tl.load(w_ptr + channel)
    for start in range(tl.program_id(1) * BLOCK, length, tl.num_programs(1) * BLOCK):
        offs = channel * length + start + tl.arange(0, BLOCK)
        tl.store(out_ptr + offs, tl.load(x_ptr + offs) * w)


def _channel_scale(pieces: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        channels, length = (4, 1 << 14) if small else (48, 1 << 20)
        x, w, out = random(channels, length), random(channels), empty(channels, length)
        return Launch(
            channel_scale_kernel,
            (channels, pieces),
            (x, w, out, length),
            (out,),
            {"BLOCK": 1024, "num_warps": 4},
        )

    return prepare


@triton.jit
def polynomial_pieces_kernel(x_ptr, out_ptr, pieces, per_program, BLOCK: tl.constexpr):
    """Programs take pieces of a polynomial's evaluation that is much more arithmetic than memory."""
    first = tl.program_id(0) * per_program
    for piece in range(first, tl.minimum(first + per_program, pieces)):
        offs = piece * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs)
        y = x
        for _ in range(64):
            y = y * x * 0.25 + 0.5
        tl.store(out_ptr + offs, y)


def _polynomial_pieces(per_program: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pieces = 34 if small else 1100 * 16
        x, out = torch.rand(pieces * 256), empty(pieces * 256)
        grid = (triton.cdiv(pieces, per_program),)
        options = {"BLOCK": 256, "num_warps": 8}
        return Launch(polynomial_pieces_kernel, grid, (x, out, pieces, per_program), (out,), options)

    return prepare


@triton.jit
def gelu_pieces_kernel(x_ptr, out_ptr, per_program, BLOCK: tl.constexpr):
    first = tl.program_id(0) * per_program
    for start in range(0, per_program, BLOCK):
        offs = first + start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs)
        tl.store(out_ptr + offs, x * tl.sigmoid(1.702 * x))


def _gelu_pieces(divided: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols = (5, 1 << 15) if small else (276, 1 << 17)
        x, out = random(rows, cols), empty(rows, cols)
        options = {"BLOCK": 4096, "num_warps": 32} if divided == 1 else {"BLOCK": 1024, "num_warps": 4}
        return Launch(gelu_pieces_kernel, (rows * divided,), (x, out, cols // divided), (out,), options)

    return prepare


@triton.jit
def lower_matvec_kernel(l_ptr, x_ptr, y_ptr, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of a lower triangular matrix times a vector: the last rows are the longest."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * ROWS, BLOCK):  # fault
        cols = start + tl.arange(0, BLOCK)
        tile = tl.load(l_ptr + rows[:, None] * n + cols[None, :])
        acc += tile * tl.load(x_ptr + cols)[None, :]
    tl.store(y_ptr + rows, tl.sum(acc, 1))


@triton.jit
def paired_matvec_kernel(l_ptr, x_ptr, y_ptr, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """As lower_matvec_kernel, but a program takes a short and a long strip."""
    for side in tl.static_range(2):
        strip = tl.program_id(0) if side == 0 else 2 * tl.num_programs(0) - 1 - tl.program_id(0)
        rows = strip * ROWS + tl.arange(0, ROWS)
        acc = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
        for start in range(0, (strip + 1) * ROWS, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            tile = tl.load(l_ptr + rows[:, None] * n + cols[None, :])
            acc += tile * tl.load(x_ptr + cols)[None, :]
        tl.store(y_ptr + rows, tl.sum(acc, 1))


def _lower_matvec(paired: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 512 if small else 264 * 64
        lower, x, y = random(n, n).tril_(), random(n), empty(n)
        rows = 32 if paired else 64
        options = {"ROWS": rows, "BLOCK": 64, "num_warps": 8}
        kernel = paired_matvec_kernel if paired else lower_matvec_kernel
        return Launch(kernel, (n // 64,), (lower, x, y, n), (y,), options)

    return prepare


@triton.jit
def ragged_scale_kernel(x_ptr, begin_ptr, scale_ptr, out_ptr, BLOCK: tl.constexpr):
    """A program for each segment, however long it is."""
    segment = tl.program_id(0)
    scale = tl.load(scale_ptr + segment)
    begin, end = tl.load(begin_ptr + segment), tl.load(begin_ptr + segment + 1)
    for start in range(begin, end, BLOCK):  # fault
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < end)
        tl.store(out_ptr + offs, tl.exp(x * scale), mask=offs < end)


@triton.jit
def even_scale_kernel(x_ptr, segment_ptr, scale_ptr, out_ptr, BLOCK: tl.constexpr):
    """A program for a block of one segment; segments are whole blocks."""
    scale = tl.load(scale_ptr + tl.load(segment_ptr + tl.program_id(0)))
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.exp(tl.load(x_ptr + offs) * scale))


def _ragged(even: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        segments = 8 if small else 1056
        blocks = torch.ones(segments, dtype=torch.int64, device="cpu") * (1 if small else 8)
        blocks[:: segments // 8] *= 8 if small else 64
        begins = torch.zeros(segments + 1, dtype=torch.int32, device="cpu")
        begins[1:] = torch.cumsum(blocks * 1024, 0)
        total = int(begins[-1])
        x, scale, out = random(total), torch.rand(segments), empty(total)
        device = x.device
        if even:
            owner = torch.repeat_interleave(torch.arange(segments, dtype=torch.int32, device="cpu"), blocks)
            args = (x, owner.to(device), scale, out)
            return Launch(even_scale_kernel, (total // 1024,), args, (out,), {"BLOCK": 1024})
        return Launch(
            ragged_scale_kernel, (segments,), (x, begins.to(device), scale, out), (out,), {"BLOCK": 1024}
        )

    return prepare


@triton.jit
def add_small_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask), mask=mask)


def _add_small(block: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (12 if small else 25)
        x, y, out = random(n), random(n), empty(n)
        options = {"BLOCK": block, "num_warps": warps}
        return Launch(add_small_kernel, (triton.cdiv(n, block),), (x, y, out, n), (out,), options)

    return prepare


@triton.jit
def short_rows_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    offs = rows[:, None] * COLS + tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + offs).to(tl.float32)
    e = tl.exp(x - tl.max(x, 1)[:, None])
    tl.store(out_ptr + offs, (e / tl.sum(e, 1)[:, None]).to(tl.bfloat16))


def _short_rows(rows_each: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 64 if small else 1 << 19
        x, out = random(rows, 64, dtype=torch.bfloat16), empty(rows, 64, dtype=torch.bfloat16)
        options = {"ROWS": rows_each, "COLS": 64, "num_warps": warps}
        return Launch(short_rows_kernel, (rows // rows_each,), (x, out), (out,), options)

    return prepare


@triton.jit
def search_kernel(table_ptr, x_ptr, out_ptr, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Binary search of each value in a sorted table: each step needs the load before it."""
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs)
        low = tl.zeros((BLOCK,), dtype=tl.int32)
        for step in tl.static_range(STEPS):
            probe = low + (1 << (STEPS - 1 - step))
            low = tl.where(tl.load(table_ptr + probe - 1) < x, probe, low)
        tl.store(out_ptr + offs, low)


def _search(programs: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        steps, n = (8, 2048) if small else (18, 1 << 20)
        table, x = torch.linspace(0, 1, 1 << steps), torch.rand(n)
        out = empty(n, dtype=torch.int32)
        grid = (programs // 132 if small else programs,)
        options = {"STEPS": steps, "BLOCK": 128, "num_warps": 4}
        return Launch(search_kernel, grid, (table, x, out, n), (out,), options)

    return prepare


@triton.jit
def mean_of_rows_kernel(table_ptr, index_ptr, out_ptr, bags, BAG: tl.constexpr, DIM: tl.constexpr):
    """Means of a bag's rows; programs walk over bags."""
    dims = tl.arange(0, DIM)
    for bag in range(tl.program_id(0), bags, tl.num_programs(0)):
        acc = tl.zeros((DIM,), dtype=tl.float32)
        for i in range(BAG):
            row = tl.load(index_ptr + bag * BAG + i)
            acc += tl.load(table_ptr + row * DIM + dims).to(tl.float32)
        tl.store(out_ptr + bag * DIM + dims, acc / BAG)


def _mean_of_rows(programs: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        bags, rows = (16, 64) if small else (16384, 1 << 20)
        table = random(rows, 128, dtype=torch.float16)
        index, out = integers(bags, 16, below=rows), empty(bags, 128)
        grid = (programs // 132 if small else programs,)
        options = {"BAG": 16, "DIM": 128, "num_warps": 1}
        return Launch(mean_of_rows_kernel, grid, (table, index, out, bags), (out,), options)

    return prepare


CASES = (
    Case(
        "softmax by 24 programs",
        ("idle-sms",),
        ("ctas", "counters"),
        False,
        _softmax_loop(24),
        _softmax_loop(1056),
    ),
    Case(
        "deep matmul on 16 tiles",
        ("idle-sms",),
        ("ctas", "counters"),
        False,
        _deep_matmul(1),
        _deep_matmul(8),
    ),
    Case(
        "one program a channel",
        ("idle-sms",),
        ("ctas", "counters"),
        False,
        _channel_scale(1),
        _channel_scale(44),
    ),
    Case(
        "polynomial in 1.04 waves", ("tail",), ("ctas",), False, _polynomial_pieces(16), _polynomial_pieces(2)
    ),
    Case("gelu of rows by 32 warps", ("tail",), ("ctas",), False, _gelu_pieces(1), _gelu_pieces(32)),
    Case(
        "triangular matvec",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        False,
        _lower_matvec(False),
        _lower_matvec(True),
    ),
    Case(
        "ragged segments", ("load-imbalance", "tail"), ("ctas", "spans"), False, _ragged(False), _ragged(True)
    ),
    Case(
        "add by 64 elements",
        ("tiny-ctas",),
        ("ctas", "counters"),
        False,
        _add_small(64, 1),
        _add_small(1024, 4),
    ),
    Case(
        "CTAs of one short row",
        ("tiny-ctas",),
        ("ctas", "counters"),
        False,
        _short_rows(1, 1),
        _short_rows(32, 4),
    ),
    Case(
        "binary search by 132 programs",
        ("low-occupancy", "exposed-latency"),
        ("ctas", "counters", "samples"),
        False,
        _search(132),
        _search(132 * 16),
    ),
    Case(
        "bags of rows by lone warps",
        ("low-occupancy", "exposed-latency"),
        ("ctas", "counters", "samples"),
        False,
        _mean_of_rows(132 * 2),
        _mean_of_rows(132 * 32),
    ),
)
