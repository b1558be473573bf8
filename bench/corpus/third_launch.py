"""Third round, faults of the launch: how work is shared among SMs, CTAs and warps."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def layer_norms_kernel(grad_ptr, out_ptr, size, share, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    """The squared norm of each layer's gradient, for LAMB's trust ratio; share: elements of a program."""
    layer = tl.program_id(0)
    base = grad_ptr + layer.to(tl.int64) * size + tl.program_id(1) * share
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, share, BLOCK):
        grad = tl.load(base + start + tl.arange(0, BLOCK))
        acc += grad * grad
    total = tl.sum(acc, 0)
    if SPLIT == 1:
        tl.store(out_ptr + layer, total)
    else:
        tl.atomic_add(out_ptr + layer, total, sem="relaxed")


def _layer_norms(split: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        layers, size = (2, 1 << 15) if small else (48, 1 << 20)
        parts = min(split, 4) if small else split
        grad, out = random(layers, size), zeros(layers)
        options = {"SPLIT": parts, "BLOCK": 8192, "num_warps": 16}
        args = (grad, out, size, size // parts)
        return Launch(layer_norms_kernel, (layers, parts), args, (out,), options)

    return prepare


@triton.jit
def asian_option_kernel(out_ptr, paths, per_program, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Pays the mean of a simulated price above the strike, path by path."""
    first = tl.program_id(0) * per_program
    for start in range(first, tl.minimum(first + per_program, paths), BLOCK):
        path = start + tl.arange(0, BLOCK)
        log_price = tl.zeros((BLOCK,), dtype=tl.float32)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for step in range(STEPS):
            uniform = tl.rand(1234, path * STEPS + step)
            log_price += 0.0002 + 0.06 * (uniform - 0.5)
            total += tl.exp(log_price)
        tl.store(out_ptr + path, tl.maximum(total / STEPS - 1.0, 0.0))


def _asian_option(per_program: int) -> Prepare:
    """Each SM has room for four programs of 16 warps: 528 in all."""

    def prepare(small: bool) -> Launch:
        each = 512 if small else per_program
        paths = 2 * 512 if small else 552 * 4096
        out = empty(paths)
        options = {"STEPS": 4 if small else 32, "BLOCK": 512, "num_warps": 16, "maxnreg": 32}
        return Launch(asian_option_kernel, (triton.cdiv(paths, each),), (out, paths, each), (out,), options)

    return prepare


@triton.jit
def sparse_rows_kernel(
    value_ptr, column_ptr, begin_ptr, x_ptr, out_ptr, per_program, apart, next_program, BLOCK: tl.constexpr
):
    """A sparse matrix in CSR times a vector; a program takes some rows, apart from each other by `apart`."""
    lanes = tl.arange(0, BLOCK)
    for i in range(per_program):
        row = tl.program_id(0) * next_program + i * apart
        begin, end = tl.load(begin_ptr + row), tl.load(begin_ptr + row + 1)
        acc = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(begin, end, BLOCK):  # fault
            inside = start + lanes < end
            column = tl.load(column_ptr + start + lanes, mask=inside, other=0)
            value = tl.load(value_ptr + start + lanes, mask=inside, other=0.0)
            acc += value * tl.load(x_ptr + column)
        tl.store(out_ptr + row, tl.sum(acc, 0))


def _sparse_rows(dealt: bool) -> Prepare:
    """Rows are sorted by length, as a graph's nodes by degree; all programs run at once."""

    def prepare(small: bool) -> Launch:
        programs, each, longest = (4, 4, 300) if small else (132 * 8, 32, 6000)
        rows = programs * each
        rank = torch.arange(1, rows + 1, device="cpu").double()
        length = (longest / rank.pow(0.45)).long().clamp(min=4).flip(0)
        begin = torch.zeros(rows + 1, dtype=torch.int32, device="cpu")
        begin[1:] = torch.cumsum(length, 0)
        count = int(begin[-1])
        x = random(rows)
        value, column = random(count), integers(count, below=rows)
        out = empty(rows)
        steps = (programs, 1) if dealt else (1, each)
        args = (value, column, begin.to(x.device), x, out, each, *steps)
        return Launch(sparse_rows_kernel, (programs,), args, (out,), {"BLOCK": 128, "num_warps": 4})

    return prepare


@triton.jit
def lower_case_kernel(text_ptr, out_ptr, STRINGS: tl.constexpr, WIDTH: tl.constexpr):
    """Strings of a fixed width in lower case."""
    offs = tl.program_id(0) * STRINGS * WIDTH + tl.arange(0, STRINGS * WIDTH)
    byte = tl.load(text_ptr + offs)
    upper = (byte >= 65) & (byte <= 90)
    tl.store(out_ptr + offs, tl.where(upper, byte + 32, byte))


def _lower_case(strings: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        count = 512 if small else 1 << 19
        text = integers(count, 32, below=128, dtype=torch.uint8)
        out = torch.empty_like(text)
        options = {"STRINGS": strings, "WIDTH": 32, "num_warps": warps}
        return Launch(lower_case_kernel, (count // strings,), (text, out), (out,), options)

    return prepare


@triton.jit
def hash_probe_kernel(
    query_ptr, key_ptr, value_ptr, out_ptr, queries, slots, PROBES: tl.constexpr, BLOCK: tl.constexpr
):
    """Looks keys up in a table of open addressing, which probes one slot after the other."""
    for start in range(tl.program_id(0) * BLOCK, queries, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        query = tl.load(query_ptr + at)
        slot = (query * -1640531535) & (slots - 1)
        key = tl.load(key_ptr + slot)
        for _ in range(PROBES):
            slot = tl.where(key == query, slot, (slot * 5 + 1) & (slots - 1))
            key = tl.load(key_ptr + slot)
        value = tl.load(value_ptr + slot)
        tl.store(out_ptr + at, tl.where(key == query, value, -1))


def _hash_probe(programs: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        queries, slots = (512, 1 << 10) if small else (132 * 8192, 1 << 25)
        inverse = pow(-1640531535 % slots, -1, slots)
        home = torch.arange(queries) * 40507 % slots  # each another one, so that no two keys claim a slot
        query = (home * inverse % slots + integers(queries, below=(1 << 30) // slots) * slots).int()
        key, value = integers(slots, below=1 << 30), integers(slots, below=1 << 20)
        second = (home * 5 + 1) & (slots - 1)
        key[second[1::2]] = query[1::2]
        key[home[::2]] = query[::2]
        out = empty(queries, dtype=torch.int32)
        args = (query, key, value, out, queries, slots)
        grid = (2 if small else programs,)
        return Launch(hash_probe_kernel, grid, args, (out,), {"PROBES": 3, "BLOCK": 128, "num_warps": 4})

    return prepare


@triton.jit
def nucleus_kernel(logit_ptr, mass_ptr, least_ptr, bound, COUNT: tl.constexpr):
    """The nucleus of a token's best candidates: those with most of the probability."""
    lanes = tl.arange(0, COUNT)
    token = tl.program_id(0)
    logit = tl.load(logit_ptr + token * COUNT + lanes)
    share = tl.exp(logit - tl.max(logit, 0))
    share = tl.sort(share / tl.sum(share, 0), descending=True)
    before = tl.cumsum(share, 0) - share
    kept = tl.where(before < bound, share, 0.0)
    tl.store(mass_ptr + token, tl.sum(kept, 0))
    tl.store(least_ptr + token, tl.min(tl.where(kept > 0, kept, 1.0), 0))


def _nucleus(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens = 4 if small else 1 << 15
        logit = random(tokens, 128)
        mass, least = empty(tokens), empty(tokens)
        options = {"COUNT": 128, "num_warps": warps}
        return Launch(nucleus_kernel, (tokens,), (logit, mass, least, 0.9), (mass, least), options)

    return prepare


@triton.jit
def string_digest_kernel(word_ptr, length_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """The sum of the hashes of strings; a string goes on until its own length."""
    lanes = tl.arange(0, BLOCK)
    total = 0
    for step in range(steps):
        offs = (tl.program_id(0) * steps + step) * BLOCK + lanes
        word, length = tl.load(word_ptr + offs), tl.load(length_ptr + offs)
        digest = tl.inline_asm_elementwise(
            """{
            .reg .pred p; .reg .u32 h, n, t;
            mov.u32 h, $1; mov.u32 n, $2;
            more:
            shr.u32 t, h, 13; xor.b32 h, h, t; mad.lo.u32 h, h, 1540483477, n;
            sub.u32 n, n, 1;
            setp.ne.u32 p, n, 0;
            @p bra more;
            mov.u32 $0, h; }""",
            "=r,r,r", [word, length], dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip
        total += tl.sum(digest & 65535, 0)  # fault
    tl.store(out_ptr + tl.program_id(0), total)


def _string_digest(sorted_by_length: bool) -> Prepare:
    """Long strings: of one warp in each step, or (sorted_by_length) of all warps in one step of four."""

    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (1056, 64)
        step, warp = torch.arange(4)[:, None], torch.arange(4)[None, :]
        length = torch.where(step == warp, 160, 4).to(torch.int32)[None, None, :, :, None]
        length = length.expand(programs, steps // 4, 4, 4, 32)
        word = integers(programs, steps // 4, 4, 4, 32, below=1 << 30)
        if sorted_by_length:
            old_step = (step + warp) % 4  # the long string of each warp comes in step 0
            length, word = (each[:, :, old_step, warp] for each in (length, word))
        out = empty(programs, dtype=torch.int32)
        args = (word.contiguous(), length.contiguous(), out, steps)
        return Launch(string_digest_kernel, (programs,), args, (out,), {"BLOCK": 128, "num_warps": 4})

    return prepare


@triton.jit
def mandelbrot_kernel(out_ptr, width, scale, LIMIT: tl.constexpr, STOP: tl.constexpr, BLOCK: tl.constexpr):
    """How many steps points of the plane take to escape; STOP: a tile ends when all its points have."""
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.program_id(1)
    real, imaginary = x * scale - 0.2, y * scale + 0.7
    re = tl.zeros((BLOCK,), dtype=tl.float32)
    im = tl.zeros((BLOCK,), dtype=tl.float32)
    steps = tl.zeros((BLOCK,), dtype=tl.int32)
    done = 0
    while done < LIMIT:  # fault
        for _ in range(8):
            inside = re * re + im * im < 4.0  # fault
            following = re * re - im * im + real  # fault
            im = tl.where(inside, 2.0 * re * im + imaginary, im)  # fault
            re = tl.where(inside, following, re)  # fault
            steps += inside.to(tl.int32)  # fault
        done += 8
        if STOP and tl.max((re * re + im * im < 4.0).to(tl.int32), 0) == 0:
            done = LIMIT
    tl.store(out_ptr + y * width + x, steps)


def _mandelbrot(stop: bool) -> Prepare:
    """Points of which most escape early."""

    def prepare(small: bool) -> Launch:
        width, height, limit = (256, 2, 32) if small else (2048, 1024, 256)
        out = empty(height, width, dtype=torch.int32)
        options = {"LIMIT": limit, "STOP": stop, "BLOCK": 128, "num_warps": 4}
        grid = (width // 128, height)
        return Launch(mandelbrot_kernel, grid, (out, width, 1.0 / width), (out,), options)

    return prepare


_case = faults_of(3)


CASES = (
    _case(
        "norms of 48 layers",
        ("idle-sms",),
        ("ctas", "counters"),
        False,
        _layer_norms(1),
        _layer_norms(32),
    ),
    _case(
        "options in 1.05 waves",
        ("tail",),
        ("ctas",),
        False,
        _asian_option(4096),
        _asian_option(512),
    ),
    _case(
        "sparse rows in order of length",
        ("load-imbalance",),
        ("ctas", "spans"),
        False,
        _sparse_rows(False),
        _sparse_rows(True),
    ),
    _case(
        "a CTA for each string",
        ("tiny-ctas",),
        ("ctas", "counters"),
        False,
        _lower_case(1, 1),
        _lower_case(128, 4),
    ),
    _case(
        "hash table probed by 132 programs",
        ("low-occupancy", "exposed-latency"),
        ("ctas", "counters", "samples"),
        False,
        _hash_probe(132),
        _hash_probe(132 * 16),
    ),
    _case(
        "nucleus sorted by 16 warps",
        ("too-many-warps",),
        ("counts", "resources"),
        True,
        _nucleus(16),
        _nucleus(1),
    ),
    _case(
        "long strings of one warp",
        ("late-warp",),
        ("spans", "samples"),
        False,
        _string_digest(False),
        _string_digest(True),
    ),
    _case(
        "escaped points iterated",
        ("masked-work", "issue-bound"),
        ("counts", "samples"),
        True,
        _mandelbrot(False),
        _mandelbrot(True),
    ),
)
