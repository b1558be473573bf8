"""Fourteenth round, faults of finance: trades, curves, early exercise, books of orders, risk of desks."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def quotes_joined_kernel(
    symbol_ptr, trade_start_ptr, quote_start_ptr, time_ptr, price_ptr, quote_time_ptr, quote_ptr, out_ptr,
    depth, BLOCK: tl.constexpr, BY_SYMBOL: tl.constexpr,
):  # fmt: skip
    """What trades cost above the last quote before them of the same symbol (a join as of a time).
    BY_SYMBOL: a program has all trades of one, else the same number as any other."""
    if BY_SYMBOL:
        first, last = (
            tl.load(trade_start_ptr + tl.program_id(0)),
            tl.load(trade_start_ptr + tl.program_id(0) + 1),
        )
    else:
        first, last = tl.program_id(0) * BLOCK, tl.program_id(0) * BLOCK + BLOCK
    for start in range(first, last, BLOCK):  # fault
        trade = start + tl.arange(0, BLOCK)
        inside = trade < last
        symbol = tl.load(symbol_ptr + trade, mask=inside, other=0)  # fault
        time = tl.load(time_ptr + trade, mask=inside, other=0)  # fault
        low, high = tl.load(quote_start_ptr + symbol), tl.load(quote_start_ptr + symbol + 1)  # fault
        for _ in range(depth):  # fault
            middle = (low + high) // 2  # fault
            before = tl.load(quote_time_ptr + middle) <= time  # fault
            low, high = tl.where(before, middle, low), tl.where(before, high, middle)  # fault
        price = tl.load(price_ptr + trade, mask=inside, other=0.0)  # fault
        tl.store(out_ptr + trade, price - tl.load(quote_ptr + low), mask=inside)  # fault


def _quotes_joined(by_symbol: bool) -> Prepare:
    """Each symbol has 8 quotes a trade, and fewer trades the later it comes in the order of fame."""

    def prepare(small: bool) -> Launch:
        symbols, trades, block = (16, 2048, 64) if small else (2048, 1 << 23, 512)
        shares = [1.0 / (each * 1003 % symbols + (1 if small else 20)) for each in range(symbols)]
        total = sum(shares)
        counts = [int(trades * share / total) for share in shares]
        counts[0] += trades - sum(counts)
        start = torch.tensor([0, *counts]).cumsum(0)
        end, at = start[1:].contiguous(), torch.arange(trades)
        symbol = torch.searchsorted(end, at, right=True)
        time = (at - start[symbol]) * 56 + torch.randint(56, (trades,))
        quote_at = torch.arange(8 * trades)
        quote_start = 8 * start
        of_quote = torch.searchsorted(8 * end, quote_at, right=True)
        quote_time = ((quote_at - quote_start[of_quote]) * 7).int()
        price, quote, out = random(trades) + 100.0, random(8 * trades) + 100.0, empty(trades)
        depth = (8 * max(counts)).bit_length()
        args = (
            symbol.int(),
            start.int(),
            quote_start.int(),
            time.int(),
            price,
            quote_time,
            quote,
            out,
            depth,
        )
        options = {"BLOCK": block, "BY_SYMBOL": by_symbol, "num_warps": 4}
        grid = (symbols if by_symbol else trades // block,)
        return Launch(quotes_joined_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def filled_orders_kernel(
    price_ptr, size_ptr, middle_ptr, fee_ptr, out_ptr, of_order, of_field, rate, BLOCK: tl.constexpr
):
    """What is to be known of filled orders, of buying and selling: eight fields of each."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    price, size = tl.load(price_ptr + at), tl.load(size_ptr + at)
    middle, fee = tl.load(middle_ptr + at), tl.load(fee_ptr + at)
    gross = price * size
    slip = (price - middle) * size
    fees = tl.abs(gross) * fee
    out_at = out_ptr + at * of_order
    tl.store(out_at, gross)  # fault
    tl.store(out_at + of_field, slip)  # fault
    tl.store(out_at + 2 * of_field, fees)  # fault
    tl.store(out_at + 3 * of_field, gross + fees)  # fault
    tl.store(out_at + 4 * of_field, slip + fees)  # fault
    tl.store(out_at + 5 * of_field, middle * size)  # fault
    tl.store(out_at + 6 * of_field, tl.maximum(gross, 0.0) * rate)  # fault
    tl.store(out_at + 7 * of_field, (price - middle) * 1e4)  # fault


def _filled_orders(as_records: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        orders = 4096 if small else 1 << 23
        price, size = 100.0 + random(orders), 100.0 * random(orders)
        middle, fee = 100.0 + random(orders), 1e-3 * torch.rand(orders)
        out = empty(orders, 8) if as_records else empty(8, orders)
        args = (price, size, middle, fee, out, *((8, 1) if as_records else (1, orders)), 1e-3)
        result = out if as_records else out.t()
        options = {"BLOCK": 1024, "num_warps": 4}
        return Launch(filled_orders_kernel, (orders // 1024,), args, (result,), options)

    return prepare


@triton.jit
def heston_kernel(seed_ptr, out_ptr, paths, steps, pull, mean, width, tilt, BLOCK: tl.constexpr):
    """Final logarithms of prices, averages, highs and lows on paths of stochastic volatility (Heston), whose
    shocks go up or down by one (a weak scheme of Euler)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.load(seed_ptr + at).to(tl.uint32, bitcast=True)
    price, average = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    high, low = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    variance = tl.zeros((BLOCK,), dtype=tl.float32) + mean
    for _ in range(steps):  # fault
        state ^= state << 13  # fault
        state ^= state >> 17  # fault
        state ^= state << 5  # fault
        spread = tl.sqrt(tl.maximum(variance, 0.0))  # fault
        first = tl.where((state & 1) != 0, spread, -spread)  # fault
        second = tl.where((state & 256) != 0, spread, -spread)  # fault
        price += first - 0.5 * variance  # fault
        variance += pull * (mean - variance) + width * (tilt * first + second)  # fault
        average += price  # fault
        high, low = tl.maximum(high, price), tl.minimum(low, price)  # fault
    tl.store(out_ptr + at, price)  # fault
    tl.store(out_ptr + paths + at, average)  # fault
    tl.store(out_ptr + 2 * paths + at, high)  # fault
    tl.store(out_ptr + 3 * paths + at, low)  # fault


def _heston(block: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        paths, steps = (8192, 4) if small else (528 * 8192, 64)
        seed, out = integers(paths, below=2147483647), empty(4, paths)
        args = (seed, out, paths, steps, 0.02, 0.04, 0.1, -0.7)
        return Launch(heston_kernel, (paths // block,), args, (out,), {"BLOCK": block, "num_warps": 4})

    return prepare


@triton.jit
def curve_prices_kernel(
    curve_ptr, payment_ptr, out_ptr, curves, payments, BLOCK: tl.constexpr, WIDE: tl.constexpr
):
    """Prices of a bond on each of many curves of yields (Svensson: a level and three humps)."""
    at = curve_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    level, slope, hump = tl.load(at), tl.load(at + curves), tl.load(at + 2 * curves)
    second, fast, slow = tl.load(at + 3 * curves), tl.load(at + 4 * curves), tl.load(at + 5 * curves)
    if WIDE:
        level, slope, hump = level.to(tl.float64), slope.to(tl.float64), hump.to(tl.float64)  # fault
        second, fast, slow = second.to(tl.float64), fast.to(tl.float64), slow.to(tl.float64)  # fault
    early, late = (slope + hump) / fast, second / slow
    price = level * 0.0
    for each in range(payments):
        time, paid = tl.load(payment_ptr + 2 * each), tl.load(payment_ptr + 2 * each + 1)
        near, far = tl.exp(-time * fast), tl.exp(-time * slow)  # fault
        total = level * time + early * (1.0 - near) - hump * time * near  # fault
        total += late * (1.0 - far) - second * time * far  # fault
        price += paid * tl.exp(-total)  # fault
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), price.to(tl.float32))


def _curve_prices(wide: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        curves, payments = (1024, 8) if small else (1 << 21, 40)
        curve, out = 0.05 * torch.rand(6, curves), empty(curves)
        curve[4] = curve[4] * 20.0 + 0.5
        curve[5] = curve[5] * 2.0 + 0.1
        payment = torch.stack([0.5 * (torch.arange(payments) + 1.0), torch.full((payments,), 0.02)], 1)
        options = {"BLOCK": 256, "WIDE": wide, "num_warps": 4}
        args = (curve, payment, out, curves, payments)
        return Launch(curve_prices_kernel, (curves // 256,), args, (out,), options)

    return prepare


@triton.jit
def exercise_moments_kernel(
    price_ptr, value_ptr, out_ptr, paths, STEPS: tl.constexpr, BLOCK: tl.constexpr, EACH: tl.constexpr
):
    """Moments of prices and of later values on a date's paths, to regress the worth of waiting
    (Longstaff and Schwartz). EACH: every block of paths is summed when it comes."""
    first = tl.program_id(1) * paths + tl.program_id(0) * (STEPS * BLOCK)
    lanes: tl.constexpr = 1 if EACH else BLOCK
    one, two = tl.zeros((lanes,), dtype=tl.float32), tl.zeros((lanes,), dtype=tl.float32)
    three, four = tl.zeros((lanes,), dtype=tl.float32), tl.zeros((lanes,), dtype=tl.float32)
    worth, once = tl.zeros((lanes,), dtype=tl.float32), tl.zeros((lanes,), dtype=tl.float32)
    twice = tl.zeros((lanes,), dtype=tl.float32)
    for step in range(STEPS):
        at = first + step * BLOCK + tl.arange(0, BLOCK)
        price, value = tl.load(price_ptr + at).to(tl.float32), tl.load(value_ptr + at).to(tl.float32)
        square = price * price
        if EACH:
            one += tl.sum(price, 0)  # fault
            two += tl.sum(square, 0)  # fault
            three += tl.sum(square * price, 0)  # fault
            four += tl.sum(square * square, 0)  # fault
            worth += tl.sum(value, 0)  # fault
            once += tl.sum(value * price, 0)  # fault
            twice += tl.sum(value * square, 0)  # fault
        else:
            one += price
            two += square
            three += square * price
            four += square * square
            worth += value
            once += value * price
            twice += value * square
    out_at = out_ptr + (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)) * 7
    tl.store(out_at, tl.sum(one, 0))
    tl.store(out_at + 1, tl.sum(two, 0))
    tl.store(out_at + 2, tl.sum(three, 0))
    tl.store(out_at + 3, tl.sum(four, 0))
    tl.store(out_at + 4, tl.sum(worth, 0))
    tl.store(out_at + 5, tl.sum(once, 0))
    tl.store(out_at + 6, tl.sum(twice, 0))


def _exercise_moments(each: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        dates, parts, steps, block = (2, 2, 8, 512) if small else (64, 33, 64, 512)
        paths = parts * steps * block
        price = (1.0 + 0.2 * random(dates, paths)).half()
        value, out = torch.rand(dates, paths).half(), empty(dates, parts, 7)
        options = {"STEPS": steps, "BLOCK": block, "EACH": each, "num_warps": 4}
        args = (price, value, out, paths)
        return Launch(exercise_moments_kernel, (parts, dates), args, (out,), options)

    return prepare


@triton.jit
def tick_slots_kernel(
    time_ptr, slot_ptr, second_ptr, opened, day_length, bar_length, unit, bars, BLOCK: tl.constexpr,
    DAY: tl.constexpr, BAR: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """The bar of a day that each tick belongs to and the second in it, of times in nanoseconds.
    DAY, BAR, UNIT: the lengths, if the compiler may know them."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    time = tl.load(time_ptr + at) - opened
    if DAY:
        day = time // DAY
        time -= day * DAY
        bar = time // BAR
        second = (time - bar * BAR) // UNIT
    else:
        day = time // day_length  # fault
        time -= day * day_length  # fault
        bar = time // bar_length  # fault
        second = (time - bar * bar_length) // unit  # fault
    tl.store(slot_ptr + at, (day * bars + bar).to(tl.int32))
    tl.store(second_ptr + at, second.to(tl.int32))


def _tick_slots(known: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        ticks = 4096 if small else 1 << 24
        lengths, opened = (86_400_000_000_000, 300_000_000_000, 1_000_000_000), 1_700_000_000_000_000_000
        time = torch.randint(250 * lengths[0], (ticks,)) + opened
        slot, second = (empty(ticks, dtype=torch.int32) for _ in range(2))
        options = dict(zip(("DAY", "BAR", "UNIT"), lengths if known else (0, 0, 0), strict=True))
        args = (time, slot, second, opened, *lengths, 288)
        options |= {"BLOCK": 512, "num_warps": 4}
        return Launch(tick_slots_kernel, (ticks // 512,), args, (slot, second), options)

    return prepare


@triton.jit
def book_costs_kernel(
    price_ptr, size_ptr, order_ptr, out_ptr, left_ptr, ROWS: tl.constexpr, LEVELS: tl.constexpr
):
    """What an order would cost that takes the levels of a book one after the other, and what is left."""
    row, level = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, LEVELS)
    at = row[:, None] * LEVELS + level[None, :]
    price, size = tl.load(price_ptr + at), tl.load(size_ptr + at)
    order = tl.load(order_ptr + row)
    before = tl.cumsum(size, 1) - size  # fault
    taken = tl.minimum(tl.maximum(order[:, None] - before, 0.0), size)
    tl.store(out_ptr + row, tl.sum(taken * price, 1))  # fault
    tl.store(left_ptr + row, order - tl.sum(taken, 1))  # fault


def _book_costs(rows: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        books, levels = 64 if small else 1 << 18, 128
        price, size = 100.0 + torch.rand(books, levels), torch.rand(books, levels)
        order = 128.0 * torch.rand(books)
        out, left = empty(books), empty(books)
        options = {"ROWS": rows, "LEVELS": levels, "num_warps": num_warps}
        args = (price, size, order, out, left)
        return Launch(book_costs_kernel, (books // rows,), args, (out, left), options)

    return prepare


@triton.jit
def desk_losses_kernel(
    held_ptr, shock_ptr, out_ptr, desks, scenarios, kinds, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Gains of desks in scenarios: what they hold of each kind of risk times its change."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for kind in range(kinds):  # fault
        held = tl.load(held_ptr + kind * desks + row).to(tl.float32)
        shock = tl.load(shock_ptr + kind * scenarios + column).to(tl.float32)
        total += held[:, None] * shock[None, :]  # fault
    tl.store(out_ptr + row[:, None] * scenarios + column[None, :], total.to(tl.bfloat16))


@triton.jit
def desk_products_kernel(
    held_ptr, shock_ptr, out_ptr, desks, scenarios, kinds, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """Gains of desks in scenarios by tensor cores."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column, inner = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    held_at = held_ptr + row[:, None] + inner[None, :] * desks
    shock_at = shock_ptr + inner[:, None] * scenarios + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, kinds, DEPTH):
        total = tl.dot(tl.load(held_at), tl.load(shock_at), total)
        held_at += DEPTH * desks
        shock_at += DEPTH * scenarios
    tl.store(out_ptr + row[:, None] * scenarios + column[None, :], total.to(tl.bfloat16))


def _desk_losses(by_products: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        desks, scenarios, kinds = (128, 256, 128) if small else (33 * 128, 4096, 2048)
        held, shock = random(kinds, desks, dtype=torch.bfloat16), random(kinds, scenarios).bfloat16()
        out = empty(desks, scenarios, dtype=torch.bfloat16)
        args = (held, shock, out, desks, scenarios, kinds)
        if by_products:
            options = {"ROWS": 128, "COLUMNS": 256, "DEPTH": 64, "num_warps": 8, "num_stages": 4}
            return Launch(desk_products_kernel, (scenarios // 256, desks // 128), args, (out,), options)
        options = {"ROWS": 128, "COLUMNS": 128, "num_warps": 8}
        return Launch(desk_losses_kernel, (scenarios // 128, desks // 128), args, (out,), options)

    return prepare


_fault = faults_of(14)

CASES = (
    _fault(
        "trades of a symbol joined to quotes by one program",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        True,
        _quotes_joined(True),
        _quotes_joined(False),
    ),
    _fault(
        "filled orders as records of eight fields",
        ("uncoalesced-store", "unvectorized-access"),
        ("counts",),
        True,
        _filled_orders(True),
        _filled_orders(False),
    ),
    _fault(
        "paths of stochastic volatility 64 a thread",
        ("register-spills", "low-occupancy"),
        ("resources", "counts"),
        True,
        _heston(8192),
        _heston(512),
    ),
    _fault(
        "bonds on curves of yields in float64",
        ("fp64-arithmetic", "slow-math"),
        ("counts", "samples"),
        True,
        _curve_prices(True),
        _curve_prices(False),
    ),
    _fault(
        "moments of early exercise summed block by block",
        ("serial-reduction", "issue-bound"),
        ("counts", "samples", "spans"),
        True,
        _exercise_moments(True),
        _exercise_moments(False),
    ),
    _fault(
        "ticks put into bars of any length",
        ("index-arithmetic", "slow-math", "issue-bound"),
        ("counts", "samples"),
        True,
        _tick_slots(False),
        _tick_slots(True),
    ),
    _fault(
        "depths of books by 8 warps each",
        ("too-many-warps", "tiny-ctas", "serial-reduction"),
        ("counts", "ctas", "samples"),
        True,
        _book_costs(1, 8),
        _book_costs(16, 4),
    ),
    _fault(
        "gains of desks by outer products",
        ("no-tensor-cores", "issue-bound"),
        ("counts",),
        True,
        _desk_losses(False),
        _desk_losses(True),
    ),
)
