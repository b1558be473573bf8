"""Fourteenth round, kernels of ranking and finance without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faultless_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def table_step_kernel(
    id_ptr, grad_ptr, moment_ptr, table_ptr, out_ptr, rate, ROWS: tl.constexpr, DIM: tl.constexpr
):
    """A step of those rows of a table that a batch used, with one moment a row (row-wise Adagrad).
    Bound by DRAM."""
    row, dim = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)
    name = tl.load(id_ptr + row)
    grad = tl.load(grad_ptr + row[:, None] * DIM + dim[None, :]).to(tl.float32)
    at = name[:, None] * DIM + dim[None, :]
    weight = tl.load(table_ptr + at).to(tl.float32)
    moment = tl.load(moment_ptr + name) + tl.sum(grad * grad, 1) * (1.0 / DIM)
    weight -= rate * tl.rsqrt(moment + 1e-8)[:, None] * grad
    tl.store(out_ptr + at, weight.to(tl.float16))


def _table_step(rows_of_program: int, num_warps: int) -> Prepare:
    """Writes beside the table, so that launches do the same."""

    def prepare(small: bool) -> Launch:
        rows, used, dim = (1024, 4 * rows_of_program, 128) if small else (1 << 21, 1 << 19, 128)
        name = (torch.arange(used) * 1000003 % rows).int()
        grad, table = random(used, dim, dtype=torch.float16), random(rows, dim, dtype=torch.float16)
        moment, out = torch.rand(rows), torch.zeros_like(table)
        options = {"ROWS": rows_of_program, "DIM": dim, "num_warps": num_warps}
        args = (name, grad, moment, table, out, 0.01)
        return Launch(table_step_kernel, (used // rows_of_program,), args, (out,), options)

    return prepare


@triton.jit
def batch_scores_kernel(
    user_ptr, item_ptr, fame_ptr, out_ptr, items, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DIM: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Scores of users for all items of a batch, less the logarithms of how often those are drawn.
    Bound by DRAM, which takes the scores."""
    row, column = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    column += tl.program_id(0) * COLUMNS
    inner = tl.arange(0, DEPTH)
    user_at = user_ptr + row[:, None] * DIM + inner[None, :]
    item_at = item_ptr + column[None, :] * DIM + inner[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, DIM, DEPTH):
        total = tl.dot(tl.load(user_at + start), tl.load(item_at + start), total)
    total -= tl.load(fame_ptr + column)[None, :]
    tl.store(out_ptr + row[:, None] * items + column[None, :], total.to(tl.bfloat16))


def _batch_scores(rows_of_program: int, columns: int, depth: int, num_warps: int, num_stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        users, items, dim = (256, 256, 128) if small else (16384, 16384, 128)
        user, item = random(users, dim, dtype=torch.bfloat16), random(items, dim, dtype=torch.bfloat16)
        fame, out = random(items), empty(users, items, dtype=torch.bfloat16)
        options = {"ROWS": rows_of_program, "COLUMNS": columns, "DIM": dim, "DEPTH": depth}
        grid = (items // columns, users // rows_of_program)
        options |= {"num_warps": num_warps, "num_stages": num_stages}
        return Launch(batch_scores_kernel, grid, (user, item, fame, out, items), (out,), options)

    return prepare


@triton.jit
def likely_keys_kernel(key_ptr, word_ptr, out_ptr, words, BLOCK: tl.constexpr):
    """Whether keys may be in the other relation of a join, by three bits of one word of a filter (Bloom).
    Bound by DRAM, a sector of which each key needs."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + at).to(tl.uint32, bitcast=True)
    key = (key ^ (key >> 16)) * 0x85EBCA6B
    key ^= key >> 13
    word = tl.load(word_ptr + (key & (words - 1)))
    key = (key * 0xC2B2AE35) >> 12
    bits = (1 << (key & 31).to(tl.int32)) | (1 << ((key >> 5) & 31).to(tl.int32))
    bits |= 1 << ((key >> 10) & 31).to(tl.int32)
    tl.store(out_ptr + at, ((word & bits) == bits).to(tl.int8))


def _likely_keys(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        keys, words = (4 * block, 1 << 12) if small else (1 << 25, 1 << 26)
        key, word = integers(keys, below=1 << 30), integers(words, below=2147483647)
        out = empty(keys, dtype=torch.int8)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(likely_keys_kernel, (keys // block,), (key, word, out, words), (out,), options)

    return prepare


@triton.jit
def _normal_share(x, bell):
    """The share of normal numbers below x, whose density is bell (Abramowitz and Stegun, 26.2.17)."""
    t = 1.0 / (1.0 + 0.2316419 * tl.abs(x))
    tail = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    return tl.where(x > 0.0, 1.0 - bell * tail, bell * tail)


@triton.jit
def implied_spreads_kernel(price_ptr, money_ptr, out_ptr, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Volatilities, times the root of time, that prices of options imply: steps of Newton.
    money: logarithms of forward over strike. Bound by issue and XU."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    price, money = tl.load(price_ptr + at), tl.load(money_ptr + at)
    strike = tl.exp2(-1.4426950408889634 * money)
    spread = tl.sqrt(2.0 * tl.abs(money)) + 0.1
    for _ in range(STEPS):
        near = money / spread + 0.5 * spread
        far = near - spread
        bell = 0.3989422804014327 * tl.exp2(-0.7213475204444817 * near * near)
        far_bell = 0.3989422804014327 * tl.exp2(-0.7213475204444817 * far * far)
        off = _normal_share(near, bell) - strike * _normal_share(far, far_bell) - price
        spread = tl.minimum(tl.maximum(spread - off / (bell + 1e-4), 0.01), 4.0)
    tl.store(out_ptr + at, spread)


def _implied_spreads(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        count = 4 * block if small else 1 << 24
        money, spread, out = 0.2 * random(count), 0.2 + 0.4 * torch.rand(count), empty(count)
        near = money / spread + 0.5 * spread
        price = torch.special.ndtr(near) - torch.exp(-money) * torch.special.ndtr(near - spread)
        options = {"STEPS": 8, "BLOCK": block, "num_warps": num_warps}
        return Launch(implied_spreads_kernel, (count // block,), (price, money, out), (out,), options)

    return prepare


@triton.jit
def _crossed(out_at, price, fast, slow):
    fast += 0.1538 * (price - fast)
    slow += 0.0741 * (price - slow)
    tl.store(out_at, fast - slow)
    return fast, slow


@triton.jit
def crossing_averages_kernel(price_ptr, out_ptr, shares, days, BLOCK: tl.constexpr):
    """How far a fast fading average of each share is above a slow one, day by day (MACD); eight days of
    prices are loaded at once. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    price_at, out_at = price_ptr + at, out_ptr + at
    fast = tl.load(price_at)
    slow = fast
    for _ in range(0, days, 8):
        a, b = tl.load(price_at), tl.load(price_at + shares)
        c, d = tl.load(price_at + 2 * shares), tl.load(price_at + 3 * shares)
        e, f = tl.load(price_at + 4 * shares), tl.load(price_at + 5 * shares)
        g, h = tl.load(price_at + 6 * shares), tl.load(price_at + 7 * shares)
        fast, slow = _crossed(out_at, a, fast, slow)
        fast, slow = _crossed(out_at + shares, b, fast, slow)
        fast, slow = _crossed(out_at + 2 * shares, c, fast, slow)
        fast, slow = _crossed(out_at + 3 * shares, d, fast, slow)
        fast, slow = _crossed(out_at + 4 * shares, e, fast, slow)
        fast, slow = _crossed(out_at + 5 * shares, f, fast, slow)
        fast, slow = _crossed(out_at + 6 * shares, g, fast, slow)
        fast, slow = _crossed(out_at + 7 * shares, h, fast, slow)
        price_at += 8 * shares
        out_at += 8 * shares


def _crossing_averages(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        days, shares = (32, 4 * block) if small else (128, 132 * 2048)
        price, out = random(days, shares), empty(days, shares)
        args = (price, out, shares, days)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(crossing_averages_kernel, (shares // block,), args, (out,), options)

    return prepare


@triton.jit
def leaning_books_kernel(
    bid_ptr, ask_ptr, fade_ptr, out_ptr, near_ptr, books, LEVELS: tl.constexpr, BLOCK: tl.constexpr
):
    """How far books of orders lean to buyers, of all levels faded and of the first. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bid, ask = tl.load(bid_ptr + at), tl.load(ask_ptr + at)
    tl.store(near_ptr + at, (bid - ask) / (bid + ask))
    over, total = bid - ask, bid + ask
    for level in tl.static_range(1, LEVELS):
        fade = tl.load(fade_ptr + level)
        bid, ask = tl.load(bid_ptr + level * books + at), tl.load(ask_ptr + level * books + at)
        over += fade * (bid - ask)
        total += fade * (bid + ask)
    tl.store(out_ptr + at, over / total)


def _leaning_books(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        books, levels = 4 * block if small else 1 << 22, 10
        bid, ask = torch.rand(levels, books) + 0.1, torch.rand(levels, books) + 0.1
        fade, out, near = torch.rand(levels), empty(books), empty(books)
        options = {"LEVELS": levels, "BLOCK": block, "num_warps": num_warps}
        args = (bid, ask, fade, out, near, books)
        return Launch(leaning_books_kernel, (books // block,), args, (out, near), options)

    return prepare


@triton.jit
def rare_groups_kernel(group_ptr, price_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr):
    """Sums of sales by customer, of whom there are millions. Bound by atomics in L2, one of each sale."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    group, sale = tl.load(group_ptr + at), tl.load(price_ptr + at) * tl.load(count_ptr + at)
    tl.atomic_add(out_ptr + group, sale, sem="relaxed")


def _rare_groups(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        sales, groups = (4 * block, 4096) if small else (1 << 25, 1 << 22)
        group, price = integers(sales, below=groups), torch.rand(sales)
        count, out = torch.rand(sales), zeros(groups)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(rare_groups_kernel, (sales // block,), (group, price, count, out), (out,), options)

    return prepare


@triton.jit
def chosen_rows_kernel(
    day_ptr, price_ptr, share_ptr, first_ptr, last_ptr, out_ptr, count_ptr, BLOCK: tl.constexpr
):
    """The numbers of rows that a question chooses, close together in each block. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first, last = tl.load(first_ptr), tl.load(last_ptr)
    day, price, share = tl.load(day_ptr + at), tl.load(price_ptr + at), tl.load(share_ptr + at)
    chosen = ((day >= first) & (day < last) & (price < 0.6) & (share > 0.3)).to(tl.int32)
    place = tl.cumsum(chosen, 0) - chosen
    tl.store(out_ptr + tl.program_id(0) * BLOCK + place, at, mask=chosen > 0)
    tl.store(count_ptr + tl.program_id(0), tl.sum(chosen, 0))


def _chosen_rows(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 4 * block if small else 1 << 25
        day, price, share = integers(rows, below=1000), torch.rand(rows), torch.rand(rows)
        first, last = (torch.full((1,), each, dtype=torch.int32) for each in (200, 500))
        out, count = zeros(rows, dtype=torch.int32), empty(rows // block, dtype=torch.int32)
        options = {"BLOCK": block, "num_warps": num_warps}
        args = (day, price, share, first, last, out, count)
        return Launch(chosen_rows_kernel, (rows // block,), args, (out, count), options)

    return prepare


@triton.jit
def decoded_column_kernel(code_ptr, word_ptr, scale_ptr, out_ptr, BLOCK: tl.constexpr):
    """A column of values from codes of 16 bits and the short list of values that they stand for, times
    another column. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    code, scale = tl.load(code_ptr + at), tl.load(scale_ptr + at)
    tl.store(out_ptr + at, tl.load(word_ptr + code.to(tl.int32)) * scale)


def _decoded_column(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, words = 4 * block if small else 1 << 26, 256
        code, word = integers(rows, below=words, dtype=torch.int16), random(words)
        scale, out = torch.rand(rows), empty(rows)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(decoded_column_kernel, (rows // block,), (code, word, scale, out), (out,), options)

    return prepare


@triton.jit
def summed_steps_kernel(step_ptr, base_ptr, out_ptr, ROWS: tl.constexpr, FRAME: tl.constexpr):
    """A column of times from their steps as 16 bits and the first time of each frame. Bound by DRAM."""
    row, place = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, FRAME)
    at = row[:, None] * FRAME + place[None, :]
    steps = tl.cumsum(tl.load(step_ptr + at).to(tl.int32), 1)
    tl.store(out_ptr + at, tl.load(base_ptr + row)[:, None] + steps)


def _summed_steps(rows_of_program: int, frame: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 4 * rows_of_program if small else (1 << 26) // frame
        step = integers(rows, frame, below=1000, dtype=torch.int16)
        base, out = integers(rows, below=1 << 30), empty(rows, frame, dtype=torch.int32)
        options = {"ROWS": rows_of_program, "FRAME": frame, "num_warps": num_warps}
        args = (step, base, out)
        return Launch(summed_steps_kernel, (rows // rows_of_program,), args, (out,), options)

    return prepare


@triton.jit
def expert_layer_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, rows, dim, units, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """Layers of all experts that the tasks of a model share, which see the same users. Bound by tensor
    cores."""
    expert, row = tl.program_id(0) // (units // COLUMNS), tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) % (units // COLUMNS) * COLUMNS + tl.arange(0, COLUMNS)
    inner = tl.arange(0, DEPTH)
    x_at = x_ptr + row[:, None] * dim + inner[None, :]
    weight_at = weight_ptr + expert * dim * units + inner[:, None] * units + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, dim, DEPTH):
        total = tl.dot(tl.load(x_at), tl.load(weight_at), total)
        x_at += DEPTH
        weight_at += DEPTH * units
    total = tl.maximum(total + tl.load(bias_ptr + expert * units + column)[None, :], 0.0)
    out_at = out_ptr + (expert * rows + row)[:, None] * units + column[None, :]
    tl.store(out_at, total.to(tl.bfloat16))


def _expert_layer(rows_of_program: int, columns: int, depth: int, num_warps: int, num_stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        experts, rows, dim, units = (2, 128, 256, 256) if small else (8, 132 * 128, 2048, 512)
        x, weight = random(rows, dim, dtype=torch.bfloat16), random(experts, dim, units).bfloat16()
        bias, out = random(experts, units), empty(experts, rows, units, dtype=torch.bfloat16)
        options = {"ROWS": rows_of_program, "COLUMNS": columns, "DEPTH": depth}
        options |= {"num_warps": num_warps, "num_stages": num_stages}
        args = (x, weight, bias, out, rows, dim, units)
        grid = (experts * (units // columns), rows // rows_of_program)
        return Launch(expert_layer_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def mixed_experts_kernel(
    expert_ptr, gate_ptr, out_ptr, of_expert, of_task, UNITS: tl.constexpr, ROWS: tl.constexpr,
    EXPERTS: tl.constexpr,
):  # fmt: skip
    """Inputs of three tasks, each of which weighs what experts say with gates of its own (MMoE).
    Bound by DRAM."""
    row, unit = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, UNITS)
    at = row[:, None] * UNITS + unit[None, :]
    gate_at = gate_ptr + row * (3 * EXPERTS)
    first, second = tl.zeros((ROWS, UNITS), dtype=tl.float32), tl.zeros((ROWS, UNITS), dtype=tl.float32)
    third = tl.zeros((ROWS, UNITS), dtype=tl.float32)
    for expert in tl.static_range(EXPERTS):
        said = tl.load(expert_ptr + expert * of_expert + at).to(tl.float32)
        first += tl.load(gate_at + expert)[:, None] * said
        second += tl.load(gate_at + EXPERTS + expert)[:, None] * said
        third += tl.load(gate_at + 2 * EXPERTS + expert)[:, None] * said
    tl.store(out_ptr + at, first.to(tl.bfloat16))
    tl.store(out_ptr + of_task + at, second.to(tl.bfloat16))
    tl.store(out_ptr + 2 * of_task + at, third.to(tl.bfloat16))


def _mixed_experts(rows_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        experts, rows, units = 6, 4 * rows_of_program if small else 1 << 17, 256
        expert = random(experts, rows, units, dtype=torch.bfloat16)
        gate, out = torch.softmax(random(rows, 3, experts), 2), empty(3, rows, units, dtype=torch.bfloat16)
        options = {"UNITS": units, "ROWS": rows_of_program, "EXPERTS": experts, "num_warps": num_warps}
        args = (expert, gate, out, rows * units, rows * units)
        return Launch(mixed_experts_kernel, (rows // rows_of_program,), args, (out,), options)

    return prepare


_good = faultless_of(14)

CASES = (
    _good("good step of tables", _table_step(16, 4)),
    _good("good scores in a batch", _batch_scores(128, 128, 64, 4, 2)),
    _good("good filter of likely keys", _likely_keys(1024, 4)),
    _good("good implied volatilities", _implied_spreads(1024, 4)),
    _good("good crossing averages", _crossing_averages(256, 4)),
    _good("good leaning of books", _leaning_books(128, 1)),
    _good("good sums by customer", _rare_groups(1024, 4)),
    _good("good chosen rows", _chosen_rows(512, 4)),
    _good("good decoded column", _decoded_column(1024, 4)),
    _good("good times from steps", _summed_steps(4, 512, 4)),
    _good("good layers of shared experts", _expert_layer(128, 256, 64, 8, 4)),
    _good("good mixtures for three tasks", _mixed_experts(1, 1)),
)
