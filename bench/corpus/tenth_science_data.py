"""Tenth round, faults of databases, genomics, statistics, cryptography and sparse matrices."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def wanted_rows_kernel(
    key_ptr, value_ptr, count_ptr, queue_ptr, low, high, slots, BLOCK: tl.constexpr, TOGETHER: tl.constexpr
):
    """Values of the rows whose keys are in a range, put into a queue (a ring of slots, a power of two).
    TOGETHER: a block takes the places of all its rows at once."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key, value = tl.load(key_ptr + row), tl.load(value_ptr + row)
    wanted = (key >= low) & (key < high)
    if TOGETHER:
        rank = tl.cumsum(wanted.to(tl.int32), 0)
        first = tl.atomic_add(count_ptr, tl.sum(wanted.to(tl.int32), 0), sem="relaxed")
        place = first + rank - 1
    else:
        one = tl.full((BLOCK,), 1, tl.int32)
        place = tl.atomic_add(count_ptr + 0 * row, one, mask=wanted, sem="relaxed")  # fault
    tl.store(queue_ptr + (place & (slots - 1)), value, mask=wanted)


def _wanted_rows(together: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, slots = (1 << 13, 1 << 11) if small else (1 << 24, 1 << 21)
        key, value = integers(rows, below=1000), random(rows)
        count, queue = zeros(1, dtype=torch.int32), zeros(slots)
        options = {"BLOCK": 2048, "TOGETHER": together, "num_warps": 8}
        args = (key, value, count, queue, 300, 400, slots)
        return Launch(wanted_rows_kernel, (rows // 2048,), args, (count,), options)

    return prepare


@triton.jit
def order_totals_kernel(
    start_ptr, price_ptr, discount_ptr, out_ptr, ORDERS: tl.constexpr, LINES: tl.constexpr
):
    """What each order comes to, of up to LINES lines, which lie one order after the other (TPC-H)."""
    order = tl.program_id(0) * ORDERS + tl.arange(0, ORDERS)
    start, end = tl.load(start_ptr + order), tl.load(start_ptr + order + 1)
    line = start[:, None] + tl.arange(0, LINES)[None, :]
    used = line < end[:, None]
    price = tl.load(price_ptr + line, mask=used, other=0.0)
    discount = tl.load(discount_ptr + line, mask=used, other=0.0)
    tl.store(out_ptr + order, tl.sum(price * (1.0 - discount), 1))


def _order_totals(orders: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        count = 256 if small else 3 << 20
        start = torch.zeros(count + 1, dtype=torch.int32)
        start[1:] = integers(count, below=7).add_(1).cumsum(0)
        lines = int(start[-1])
        price, discount, out = 1000.0 * torch.rand(lines), 0.1 * torch.rand(lines), empty(count)
        options = {"ORDERS": orders, "LINES": 8, "num_warps": warps}
        args, result = (start, price, discount, out), out[:2] if small else out
        return Launch(order_totals_kernel, (2 if small else count // orders,), args, (result,), options)

    return prepare


@triton.jit
def sparse_matvec_kernel(
    start_ptr, column_ptr, value_ptr, x_ptr, out_ptr, ROWS: tl.constexpr, LANES: tl.constexpr
):
    """A sparse matrix (CSR) of a mesh times a vector, LANES entries of each row at a time."""
    row, lane = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, LANES)
    start, end = tl.load(start_ptr + row), tl.load(start_ptr + row + 1)
    total = tl.zeros((ROWS, LANES), dtype=tl.float32)
    for first in range(0, tl.max(end - start, 0), LANES):
        at = (start + first)[:, None] + lane[None, :]
        used = at < end[:, None]
        column = tl.load(column_ptr + at, mask=used, other=0)  # fault
        value = tl.load(value_ptr + at, mask=used, other=0.0)  # fault
        total += value * tl.load(x_ptr + column, mask=used, other=0.0)
    tl.store(out_ptr + row, tl.sum(total, 1))


def _sparse_matvec(rows: int, lanes: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        count = 256 if small else 1 << 20
        start = torch.zeros(count + 1, dtype=torch.int32)
        start[1:] = integers(count, below=17).add_(24).cumsum(0)
        entries = int(start[-1])
        row = torch.repeat_interleave(torch.arange(count), start.diff().long())
        column = (row + torch.randint(-256, 257, (entries,))).clamp(0, count - 1).int()
        value, x, out = random(entries), random(count), empty(count)
        options = {"ROWS": rows, "LANES": lanes, "num_warps": 4}
        args = (start, column, value, x, out)
        return Launch(sparse_matvec_kernel, (count // rows,), args, (out,), options)

    return prepare


@triton.jit
def key_switch_kernel(
    digit_ptr, key_ptr, out_ptr, size, prime, DIGITS: tl.constexpr, BLOCK: tl.constexpr, EACH: tl.constexpr
):
    """Digits of a ciphertext times keys, summed modulo a prime of 29 bits (key switching, in the domain of
    the number theoretic transform). EACH: the sum is reduced after each digit; it has 62 bits otherwise."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.int64)
    for digit in tl.static_range(DIGITS):
        value = tl.load(digit_ptr + digit * size + at).to(tl.int64)
        total += value * tl.load(key_ptr + digit * size + at)
        if EACH:
            total %= prime  # fault
    if not EACH:
        total %= prime
    tl.store(out_ptr + at, total.to(tl.int32))


def _key_switch(each: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        size, prime = 1 << (11 if small else 22), 536813569
        digit, key = integers(16, size, below=prime), integers(16, size, below=prime)
        out = empty(size, dtype=torch.int32)
        options = {"DIGITS": 16, "BLOCK": 512, "EACH": each, "num_warps": 4}
        args = (digit, key, out, size, prime)
        return Launch(key_switch_kernel, (size // 512,), args, (out,), options)

    return prepare


@triton.jit
def trait_scores_kernel(
    dose_ptr, effect_ptr, out_ptr, markers, PEOPLE: tl.constexpr, MARKERS: tl.constexpr,
    TRAITS: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Polygenic scores: people's doses of alleles, in bytes, times the effects of the markers on traits."""
    person = tl.program_id(0) * PEOPLE + tl.arange(0, PEOPLE)
    marker, trait = tl.arange(0, MARKERS), tl.arange(0, TRAITS)
    dose_at = dose_ptr + person[:, None] * markers + marker[None, :]
    effect_at = effect_ptr + trait[:, None] * markers + marker[None, :]
    total = tl.zeros((PEOPLE, TRAITS), dtype=tl.float32)
    for _ in range(0, markers, MARKERS):
        dose, effect = tl.load(dose_at), tl.load(effect_at)
        if DOT:
            total = tl.dot(dose.to(tl.float16), tl.trans(effect), total)
        else:
            product = dose.to(tl.float32)[:, None, :] * effect.to(tl.float32)[None, :, :]  # fault
            total += tl.sum(product, 2)  # fault
        dose_at += MARKERS
        effect_at += MARKERS
    tl.store(out_ptr + person[:, None] * TRAITS + trait[None, :], total)


def _trait_scores(dot: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        people, markers = (128, 256) if small else (16384, 16384)
        dose, effect = integers(people, markers, below=3, dtype=torch.int8), random(16, markers).half()
        out = empty(people, 16)
        options = {"PEOPLE": 64, "MARKERS": 128 if dot else 32, "TRAITS": 16, "DOT": dot}
        options |= {"num_warps": 4 if dot else 8, "num_stages": 4}
        return Launch(trait_scores_kernel, (people // 64,), (dose, effect, out, markers), (out,), options)

    return prepare


@triton.jit
def covering_features_kernel(
    begin_ptr, end_ptr, feature_begin_ptr, feature_end_ptr, range_ptr, out_ptr, features,
    READS: tl.constexpr, FEATURES: tl.constexpr, NEAR: tl.constexpr,
):  # fmt: skip
    """How many features of a genome each read overlaps; both are sorted. NEAR: only those between the bounds
    of the block of reads are looked at."""
    read = tl.program_id(0) * READS + tl.arange(0, READS)
    begin, end = tl.load(begin_ptr + read)[:, None], tl.load(end_ptr + read)[:, None]
    total = tl.zeros((READS, FEATURES), dtype=tl.int32)
    first, last = 0, features
    if NEAR:
        first, last = tl.load(range_ptr + 2 * tl.program_id(0)), tl.load(range_ptr + 2 * tl.program_id(0) + 1)
    for start in range(first, last, FEATURES):  # fault
        feature = start + tl.arange(0, FEATURES)
        feature_begin = tl.load(feature_begin_ptr + feature, mask=feature < last, other=2147483647)  # fault
        feature_end = tl.load(feature_end_ptr + feature, mask=feature < last, other=0)  # fault
        total += ((begin < feature_end[None, :]) & (end > feature_begin[None, :])).to(tl.int32)  # fault
    tl.store(out_ptr + read, tl.sum(total, 1))


def _covering_features(near: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        reads, features = (1024, 64) if small else (1 << 23, 512)
        length = 16 * reads
        begin = integers(reads, below=length).sort().values
        feature_begin = integers(features, below=length).sort().values
        feature_end = feature_begin + length // features
        end = begin + 150
        blocks = begin.view(-1, 256)
        low = torch.searchsorted(feature_begin + length // features, blocks[:, 0].contiguous(), right=True)
        high = torch.searchsorted(feature_begin, blocks[:, -1].contiguous() + 150)
        bounds, out = torch.stack([low, high], 1).int(), empty(reads, dtype=torch.int32)
        options = {"READS": 256, "FEATURES": 8, "NEAR": near, "num_warps": 4}
        args = (begin, end, feature_begin, feature_end, bounds, out, features)
        return Launch(covering_features_kernel, (reads // 256,), args, (out,), options)

    return prepare


@triton.jit
def concordance_kernel(x_ptr, y_ptr, out_ptr, ROWS: tl.constexpr, OTHERS: tl.constexpr, PARTS: tl.constexpr):
    """Each row's pairs with rows before it that are in order less those that are not (Kendall's tau).
    PARTS: 2 for a block of rows from the start and one from the end."""
    for part in tl.static_range(PARTS):
        block = tl.program_id(0) if part == 0 else PARTS * tl.num_programs(0) - 1 - tl.program_id(0)  # fault
        row = block * ROWS + tl.arange(0, ROWS)[:, None]
        x, y = tl.load(x_ptr + row), tl.load(y_ptr + row)
        total = tl.zeros((ROWS, OTHERS), dtype=tl.float32)
        for first in range(0, (block + 1) * ROWS, OTHERS):  # fault
            other = first + tl.arange(0, OTHERS)[None, :]
            order = (x - tl.load(x_ptr + other)) * (y - tl.load(y_ptr + other))
            total += tl.where(other < row, tl.where(order > 0.0, 1.0, -1.0), 0.0)
        tl.store(out_ptr + block * ROWS + tl.arange(0, ROWS), tl.sum(total, 1))


def _concordance(parts: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 2048 if small else 65536
        x = random(rows)
        y, out = 0.5 * x + random(rows), empty(rows)
        options = {"ROWS": 512 // parts, "OTHERS": 32, "PARTS": parts, "num_warps": 16 // parts}
        return Launch(concordance_kernel, (rows // 512,), (x, y, out), (out,), options)

    return prepare


@triton.jit
def state_chances_kernel(
    step_ptr, emission_ptr, seen_ptr, out_ptr, times, STATES: tl.constexpr, HELD: tl.constexpr
):
    """Chances of the states of a hidden Markov model at each time of a sequence (forward algorithm); the
    emissions are scaled."""
    sequence, other = tl.program_id(0) * times, tl.arange(0, STATES)
    step_at = step_ptr + other[:, None] * STATES + other[None, :]
    step = tl.load(step_at)
    chance = tl.full((STATES,), 1.0 / STATES, dtype=tl.float32)
    for time in range(times):
        if not HELD:
            step = tl.load(step_at)  # fault
        emission = tl.load(emission_ptr + tl.load(seen_ptr + sequence + time) * STATES + other)
        chance = tl.sum(chance[:, None] * step, 0) * emission
        tl.store(out_ptr + (sequence + time) * STATES + other, chance)


def _state_chances(held: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        sequences, times = (2, 6) if small else (2112, 256)
        step, emission = torch.softmax(random(64, 64), 1), 0.75 + 0.5 * torch.rand(32, 64)
        seen, out = integers(sequences, times, below=32), empty(sequences, times, 64)
        options = {"STATES": 64, "HELD": held, "num_warps": 4}
        return Launch(state_chances_kernel, (sequences,), (step, emission, seen, out, times), (out,), options)

    return prepare


_case = faults_of(10)


CASES = (
    _case(
        "wanted rows each taking its place in a queue",
        ("atomics",),
        ("counts", "samples"),
        True,
        _wanted_rows(False),
        _wanted_rows(True),
    ),
    _case(
        "totals of orders one by one",
        ("tiny-ctas", "exposed-latency"),
        ("ctas", "spans"),
        False,
        _order_totals(1, 1),
        _order_totals(128, 4),
    ),
    _case(
        "rows of a mesh's matrix each by one lane",
        ("uncoalesced-load",),
        ("counts",),
        True,
        _sparse_matvec(128, 1),
        _sparse_matvec(32, 16),
    ),
    _case(
        "key switching modulo a prime at each digit",
        ("slow-math", "index-arithmetic"),
        ("counts",),
        True,
        _key_switch(True),
        _key_switch(False),
    ),
    _case(
        "polygenic scores summed over products",
        ("no-tensor-cores", "serial-reduction"),
        ("counts",),
        True,
        _trait_scores(False),
        _trait_scores(True),
    ),
    _case(
        "reads compared to all features",
        ("masked-work",),
        ("counts",),
        True,
        _covering_features(False),
        _covering_features(True),
    ),
    _case(
        "pairs in order counted from the first row",
        ("load-imbalance", "idle-sms", "tail"),
        ("ctas", "spans"),
        True,
        _concordance(1),
        _concordance(2),
    ),
    _case(
        "chances of hidden states step by step",
        ("redundant-load", "exposed-latency"),
        ("counts", "samples"),
        True,
        _state_chances(False),
        _state_chances(True),
    ),
)
