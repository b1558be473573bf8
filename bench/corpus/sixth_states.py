"""Sixth round, faults of caches and of chunked recurrences."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def cumulated_decay_kernel(
    x_ptr, rate_ptr, out_ptr, heads, DOUBLE: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr
):
    """Sums of a state-space model's decays along chunks of tokens; DOUBLE: in double precision."""
    token, head = (
        tl.program_id(1) * CHUNK + tl.arange(0, CHUNK),
        tl.program_id(0) * BLOCK + tl.arange(0, BLOCK),
    )
    at = token[:, None] * heads + head[None, :]
    x, rate = tl.load(x_ptr + at).to(tl.float32), tl.load(rate_ptr + head)
    if DOUBLE:
        x, rate = x.to(tl.float64), rate.to(tl.float64)  # fault
    decay = tl.log(1.0 + tl.exp(x)) * rate[None, :]  # fault
    tl.store(out_ptr + at, tl.cumsum(decay, 0).to(tl.float32))  # fault


def _cumulated_decay(double: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, heads = (128, 32) if small else (135168, 128)
        x, rate = random(tokens, heads, dtype=torch.bfloat16), torch.rand(heads) + 0.5
        out = empty(tokens, heads)
        options = {"DOUBLE": double, "CHUNK": 64, "BLOCK": 32, "num_warps": 4}
        args = (x, rate, out, heads)
        return Launch(cumulated_decay_kernel, (heads // 32, tokens // 64), args, (out,), options)

    return prepare


@triton.jit
def timed_events_kernel(
    q_ptr, k_ptr, v_ptr, time_ptr, rate_ptr, out_ptr, length, DIM: tl.constexpr, BLOCK: tl.constexpr
):
    """Linear attention of events that fades until none is left; their times are of any type."""
    base = tl.program_id(1).to(tl.int64) * length * DIM
    offs_m, offs_n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    dims = tl.arange(0, DIM)
    rate, mine = tl.load(rate_ptr + tl.program_id(1)), tl.load(time_ptr + offs_m)
    q = tl.load(q_ptr + base + offs_m[:, None] * DIM + dims[None, :])
    acc = tl.zeros((BLOCK, DIM), dtype=tl.float32)
    for start in range(0, length, BLOCK):
        at = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        time = tl.load(time_ptr + start + offs_n)
        past = (mine[:, None] - time[None, :]).to(tl.float32)  # fault
        share = tl.dot(q, tl.trans(tl.load(k_ptr + at))) * tl.maximum(1.0 - rate * tl.abs(past), 0.0)
        acc = tl.dot(share.to(tl.float16), tl.load(v_ptr + at), acc)
    tl.store(out_ptr + base + offs_m[:, None] * DIM + dims[None, :], acc.to(tl.float16))


def _timed_events(whole: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 128) if small else (66, 4096)
        q, k, v = (random(heads, length, 32, dtype=torch.float16) * 0.5 for _ in range(3))
        time, rate = torch.arange(length) * 250, torch.rand(heads) * 1e-6
        time = time + (1 << 40) if whole else time.float()
        out = torch.empty_like(q)
        options = {"DIM": 32, "BLOCK": 64, "num_warps": 4, "num_stages": 3}
        args = (q, k, v, time, rate, out, length)
        return Launch(timed_events_kernel, (length // 64, heads), args, (out,), options)

    return prepare


@triton.jit
def kept_pages_kernel(
    q_ptr, k_ptr, v_ptr, page_ptr, out_ptr, total_ptr, pages, FLAGS: tl.constexpr, GROUP: tl.constexpr,
    DIM: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """Attention of a token's heads to the kept pages of a part of its cache, without the peak.

    FLAGS: each page of the part has a flag, whether it is kept; otherwise a list has the kept pages.
    """
    part = tl.program_id(0)
    heads, dims, offs_n = tl.arange(0, GROUP), tl.arange(0, DIM), tl.arange(0, PAGE)
    q = tl.load(q_ptr + (part * GROUP + heads)[:, None] * DIM + dims[None, :])
    total = tl.zeros((GROUP, PAGE), dtype=tl.float32)
    acc = tl.zeros((GROUP, DIM), dtype=tl.float32)
    if FLAGS:
        for page in range(part * pages, part * pages + pages):
            if tl.load(page_ptr + page) != 0:  # fault
                at = page.to(tl.int64) * PAGE * DIM + offs_n[:, None] * DIM + dims[None, :]
                share = tl.exp2(tl.dot(q, tl.trans(tl.load(k_ptr + at))))  # fault
                total += share
                acc = tl.dot(share.to(tl.float16), tl.load(v_ptr + at), acc)  # fault
    else:
        for i in range(part * pages, part * pages + pages):
            at = tl.load(page_ptr + i).to(tl.int64) * PAGE * DIM + offs_n[:, None] * DIM + dims[None, :]
            share = tl.exp2(tl.dot(q, tl.trans(tl.load(k_ptr + at))))
            total += share
            acc = tl.dot(share.to(tl.float16), tl.load(v_ptr + at), acc)
    row = part * GROUP + heads
    tl.store(out_ptr + row[:, None] * DIM + dims[None, :], acc)
    tl.store(total_ptr + row, tl.sum(total, 1))


def _kept_pages(flags: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        parts, pages = (2, 4) if small else (132, 128)
        q = random(parts, 16, 128, dtype=torch.float16) * 0.05
        k, v = (random(parts, pages, 32, 128, dtype=torch.float16) for _ in range(2))
        out, total = empty(parts, 16, 128), empty(parts, 16)
        order = torch.argsort(torch.rand(parts, pages), 1)
        kept = torch.sort(order[:, : pages // 2]).values + torch.arange(parts)[:, None] * pages
        flag = torch.zeros(parts * pages, dtype=torch.int32)
        flag[kept.flatten()] = 1
        page, each = (flag, pages) if flags else (kept.int().contiguous(), pages // 2)
        options = {"FLAGS": flags, "GROUP": 16, "DIM": 128, "PAGE": 32, "num_warps": 4, "num_stages": 4}
        args = (q, k, v, page, out, total, each)
        return Launch(kept_pages_kernel, (parts,), args, (out, total), options)

    return prepare


@triton.jit
def broad_state_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, chunks, CHUNK: tl.constexpr, DIM: tl.constexpr, VALUE: tl.constexpr
):
    """Causal linear attention, a chunk of tokens after the other, with the whole state of a head."""
    offs, dims, values = tl.arange(0, CHUNK), tl.arange(0, DIM), tl.arange(0, VALUE)
    before = offs[:, None] >= offs[None, :]
    state = tl.zeros((DIM, VALUE), dtype=tl.float32)  # fault
    for chunk in range(chunks):  # fault
        token = (tl.program_id(0) * chunks + chunk) * CHUNK + offs
        q = tl.load(q_ptr + token[:, None] * DIM + dims[None, :])
        k = tl.load(k_ptr + token[:, None] * DIM + dims[None, :])
        v = tl.load(v_ptr + token[:, None] * VALUE + values[None, :])
        share = tl.where(before, tl.dot(q, tl.trans(k)), 0.0).to(tl.float16)  # fault
        out = tl.dot(share, v, tl.dot(q, state.to(tl.float16)))  # fault
        state = tl.dot(tl.trans(k), v, state)  # fault
        tl.store(out_ptr + token[:, None] * VALUE + values[None, :], out.to(tl.float16))  # fault


def _broad_state(warps: int) -> Prepare:
    """The state and the results of a chunk take 256 registers of the threads of 4 warps."""

    def prepare(small: bool) -> Launch:
        heads, chunks = (1, 3) if small else (132, 64)
        q, k = (random(heads, chunks * 64, 64, dtype=torch.float16) * 0.1 for _ in range(2))
        v = random(heads, chunks * 64, 256, dtype=torch.float16)
        out = torch.empty_like(v)
        options = {"CHUNK": 64, "DIM": 64, "VALUE": 256, "num_warps": warps, "num_stages": 1}
        return Launch(broad_state_kernel, (heads,), (q, k, v, out, chunks), (out,), options)

    return prepare


@triton.jit
def unequal_contexts_kernel(
    q_ptr, k_ptr, v_ptr, task_ptr, out_ptr, total_ptr, tokens, GROUP: tl.constexpr, DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Attention of a token's heads to the keys from begin to end that a task names; without the peak."""
    task = task_ptr + tl.program_id(1) * 3
    sequence, begin, end = tl.load(task), tl.load(task + 1), tl.load(task + 2)
    heads, dims, offs_n = tl.arange(0, GROUP), tl.arange(0, DIM), tl.arange(0, BLOCK)
    base = tl.program_id(0).to(tl.int64) * tokens * DIM
    row = (sequence * tl.num_programs(0) + tl.program_id(0)) * GROUP + heads
    q = tl.load(q_ptr + row[:, None] * DIM + dims[None, :])
    total = tl.zeros((GROUP, BLOCK), dtype=tl.float32)
    acc = tl.zeros((GROUP, DIM), dtype=tl.float32)
    for start in range(begin, end, BLOCK):  # fault
        at = base + (start + offs_n)[:, None] * DIM + dims[None, :]
        share = tl.exp2(tl.dot(q, tl.trans(tl.load(k_ptr + at))))
        total += share
        acc = tl.dot(share.to(tl.float16), tl.load(v_ptr + at), acc)
    tl.atomic_add(out_ptr + row[:, None] * DIM + dims[None, :], acc, sem="relaxed")
    tl.atomic_add(total_ptr + row, tl.sum(total, 1), sem="relaxed")


def _unequal_contexts(most: int) -> Prepare:
    """One conversation is as long as a book; most: keys of a task."""

    def prepare(small: bool) -> Launch:
        heads, lengths = (1, [64, 320, 128]) if small else (8, [512 + 64 * (i * 7 % 17) for i in range(32)])
        if not small:
            lengths[11] = 49152
        begin = [sum(lengths[:i]) for i in range(len(lengths))]
        tasks = [
            (i, first + at, first + min(at + most, length))
            for i, (first, length) in enumerate(zip(begin, lengths, strict=True))
            for at in range(0, length, most)
        ]
        q = random(len(lengths), heads, 16, 128, dtype=torch.float16) * 0.05
        k, v = (random(heads, sum(lengths), 128, dtype=torch.float16) for _ in range(2))
        out, total = zeros(len(lengths), heads, 16, 128), zeros(len(lengths), heads, 16)
        task = torch.tensor(tasks, dtype=torch.int32)
        options = {"GROUP": 16, "DIM": 128, "BLOCK": 64, "num_warps": 4, "num_stages": 3}
        args = (q, k, v, task, out, total, sum(lengths))
        return Launch(unequal_contexts_kernel, (heads, len(tasks)), args, (out, total), options)

    return prepare


@triton.jit
def linked_pages_kernel(
    q_ptr, k_ptr, v_ptr, page_ptr, out_ptr, total_ptr, pages, LINKS: tl.constexpr, RECORD: tl.constexpr,
    GROUP: tl.constexpr, DIM: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """Attention of a token's heads to the pages of a cache, without the peak.

    LINKS: a page's record begins with the page that follows; otherwise a list has them in their order.
    """
    heads, dims, offs_n = tl.arange(0, GROUP), tl.arange(0, DIM), tl.arange(0, PAGE)
    row = tl.program_id(0) * GROUP + heads
    q = tl.load(q_ptr + row[:, None] * DIM + dims[None, :])
    total = tl.zeros((GROUP, PAGE), dtype=tl.float32)
    acc = tl.zeros((GROUP, DIM), dtype=tl.float32)
    page = tl.program_id(0)
    for i in range(pages):
        if not LINKS:
            page = tl.load(page_ptr + tl.program_id(0) * pages + i)
        at = page.to(tl.int64) * PAGE * DIM + offs_n[:, None] * DIM + dims[None, :]
        share = tl.exp2(tl.dot(q, tl.trans(tl.load(k_ptr + at))))
        total += share
        acc = tl.dot(share.to(tl.float16), tl.load(v_ptr + at), acc)
        if LINKS:
            page = tl.load(page_ptr + page * RECORD)  # fault
    tl.store(out_ptr + row[:, None] * DIM + dims[None, :], acc)
    tl.store(total_ptr + row, tl.sum(total, 1))


def _linked_pages(links: bool) -> Prepare:
    """The first pages of the sequences are the first pages of the cache; all others lie anywhere."""

    def prepare(small: bool) -> Launch:
        sequences, pages = (2, 4) if small else (132, 256)
        q = random(sequences, 16, 64, dtype=torch.float16) * 0.05
        k, v = (random(sequences * pages, 16, 64, dtype=torch.float16) for _ in range(2))
        out, total = empty(sequences, 16, 64), empty(sequences, 16)
        others = sequences + torch.randperm(sequences * (pages - 1))
        first = torch.arange(sequences)
        listed = torch.cat((first[:, None], others.reshape(sequences, pages - 1)), 1)
        record = torch.zeros(sequences * pages, 64, dtype=torch.int32)
        record[listed[:, :-1].flatten(), 0] = listed[:, 1:].flatten().int()
        page = record if links else listed.int().contiguous()
        options = {"LINKS": links, "RECORD": 64, "GROUP": 16, "DIM": 64, "PAGE": 16}
        options |= {"num_warps": 4, "num_stages": 5}
        args = (q, k, v, page, out, total, pages)
        return Launch(linked_pages_kernel, (sequences,), args, (out, total), options)

    return prepare


_case = faults_of(6)


CASES = (
    _case(
        "decays added up in float64",
        ("fp64-arithmetic",),
        ("counts", "counters"),
        True,
        _cumulated_decay(True),
        _cumulated_decay(False),
    ),
    _case(
        "ages of events from 64-bit times",
        ("conversions",),
        ("counts", "samples"),
        True,
        _timed_events(True),
        _timed_events(False),
    ),
    _case(
        "pages skipped by a branch",
        ("few-stages", "exposed-latency"),
        ("samples", "counters"),
        False,
        _kept_pages(True),
        _kept_pages(False),
    ),
    _case(
        "broad state of 4 warps",
        ("register-spills",),
        ("counts", "resources"),
        True,
        _broad_state(4),
        _broad_state(8),
    ),
    _case(
        "a long context in one program",
        ("load-imbalance", "tail"),
        ("ctas", "counters"),
        False,
        _unequal_contexts(1 << 20),
        _unequal_contexts(1024),
    ),
    _case(
        "each page names the next",
        ("exposed-latency", "few-stages"),
        ("samples", "counters"),
        False,
        _linked_pages(True),
        _linked_pages(False),
    ),
)
