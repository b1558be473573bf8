"""What a kernel computes and throws away: tiles beyond a mask, and results that a condition replaces."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import triton
import triton.language as tl

from profscope.analysis.diagnosis.masked_causes import masked_points, masked_results
from profscope.analysis.diagnosis.masks import discarded_loops, discarded_products, masked_loop
from profscope.instrument_passes.ir.model import Op
from tests.support.kernel_facts import facts_in
from tests.support.sessions import session

torch = pytest.importorskip("torch")

# ruff: noqa: N803


@triton.jit
def scores_kernel(x_ptr, first_ptr, out_ptr, SIDE: tl.constexpr, FROM: tl.constexpr, KIND: tl.constexpr):
    """A row's largest score with the keys up to its own block; KIND: which scores are left out."""
    at = tl.arange(0, SIDE)
    rows = tl.program_id(0) * SIDE + at
    first = tl.load(first_ptr + rows)
    q = tl.load(x_ptr + rows[:, None] * SIDE + at[None, :])
    begin = tl.load(first_ptr + tl.program_id(0) * SIDE) // SIDE * SIDE if FROM else 0
    peak = tl.full((SIDE,), -1e30, dtype=tl.float32)
    for start in range(begin, (tl.program_id(0) + 1) * SIDE, SIDE):
        keys = start + at
        score = tl.dot(q, tl.trans(tl.load(x_ptr + keys[:, None] * SIDE + at[None, :])))
        if KIND == "later":
            score = tl.where(keys[None, :] <= rows[:, None], score, -1e30)
        elif KIND == "later, inverted":
            score = tl.where(keys[None, :] > rows[:, None], -1e30, score)
        else:
            score = tl.where(keys[None, :] >= first[:, None], score, -1e30)
        peak = tl.maximum(peak, tl.max(score, 1))
    tl.store(out_ptr + rows, peak)


@triton.jit
def powers_kernel(x_ptr, asked_ptr, out_ptr, steps, count, BY: tl.constexpr, BLOCK: tl.constexpr):
    """BY: what decides between the loop's result and the input."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    power = x
    for _ in range(steps):
        power = power * x + 1.0
    if BY == "data":
        power = tl.where(tl.load(asked_ptr + at) > 0, power, x)
    elif BY == "position":
        power = tl.where(at < count, power, x)
    elif BY == "result":
        power = tl.where(power < 100.0, power, x)
    tl.store(out_ptr + at, power)


@triton.jit
def chosen_tiles_kernel(x_ptr, chosen_ptr, out_ptr, tiles, SIDE: tl.constexpr, BY: tl.constexpr):
    """BY: what leaves a tile of a product out."""
    at, row = tl.arange(0, SIDE), tl.program_id(0)
    place = at[:, None] * SIDE + at[None, :]
    x, total = tl.load(x_ptr + place), tl.zeros((SIDE, SIDE), dtype=tl.float32)
    asked = tl.load(chosen_ptr + row)
    if BY == "asked":  # noqa: SIM102
        if asked == 0:
            return
    for tile in range(tiles):
        product = tl.dot(x, tl.load(x_ptr + tile * SIDE * SIDE + place))
        if BY == "asked":
            product = tl.where(asked != 0, product, -1.0)
        elif BY == "number":
            product = tl.where(tl.load(chosen_ptr + row * tiles + tile) != 0, product, -1.0)
        elif BY == "elements":
            product = tl.where(tl.load(chosen_ptr + at)[None, :] != 0, product, -1.0)
        elif BY == "counter":
            product = tl.where(tile % 2 == 0, product, -1.0)
        total += product
    tl.store(out_ptr + row * SIDE * SIDE + place, total)


def ops_of(prof: Any) -> list[Op]:
    return [op for op, _, _ in facts_in(prof.profile.tables).located_ops]


@pytest.mark.parametrize(
    ("skips", "kind", "is_masked"),
    [
        (False, "earlier", True),
        (True, "earlier", False),
        (False, "later", False),
        (False, "later, inverted", False),
    ],
)
def test_a_mask_throws_tiles_away_if_the_end_that_it_cuts_off_is_not_the_loops(
    skips: bool, kind: str, is_masked: bool
) -> None:
    x, first = torch.rand(64, 16, dtype=torch.float16), torch.zeros(64, dtype=torch.int32)
    with session() as prof:
        scores_kernel[(4,)](x, first, torch.empty(64), SIDE=16, FROM=skips, KIND=kind)
    assert bool(masked_loop(ops_of(prof))) == is_masked


@triton.jit
def signs_kernel(x_ptr, out_ptr, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of a row, where HOW says what its place in the row changes."""
    row, total = tl.program_id(0), tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at)
        if HOW == "sign":
            total += tl.where(at < row, x, -x)
        elif HOW == "scale":
            total += x * tl.where(at < row, 0.5, 0.25)
        elif HOW == "diagonal":
            total += tl.where(at == row, x + 1.0, x)
        elif HOW == "others":
            total += tl.where(at != row, x, 0.0)
        elif HOW == "before":
            total += tl.where(at < row, x, 0.0)
        elif HOW == "behind":
            total += tl.where(at < row, 0.0, x)
        elif HOW == "factor":
            total += x * (at < row).to(tl.float32)
        elif HOW == "kept":
            total = tl.where(at < row, total + x, total)
        elif HOW == "own":
            total += tl.where(at == row, x, 0.0)
    tl.store(out_ptr + row * BLOCK + tl.arange(0, BLOCK), total)


@pytest.mark.parametrize(
    ("how", "throws_away"),
    [
        ("sign", False),
        ("scale", False),
        ("diagonal", False),
        ("others", False),
        ("before", True),
        ("behind", True),
        ("factor", True),
        ("kept", True),
        ("own", True),
    ],
)
def test_a_mask_of_positions_throws_something_away_or_not(how: str, throws_away: bool) -> None:
    with session() as prof:
        signs_kernel[(4,)](torch.rand(4, 256), torch.empty(4, 32), 256, HOW=how, BLOCK=32)
    found = masked_loop(ops_of(prof))
    assert (found is not None) == throws_away
    assert found is None or not found.by_data
    shown = prof.profile.findings().query("finding == 'masked-work'")
    assert shown["evidence"].str.contains("without this").sum() == 0  # as it may be nothing


@pytest.mark.parametrize(
    ("by", "is_discarded"), [("data", True), ("position", False), ("result", False), ("nothing", False)]
)
def test_a_loops_result_is_thrown_away_by_what_was_loaded_before(by: str, is_discarded: bool) -> None:
    x, asked = torch.rand(512), torch.ones(512, dtype=torch.int32)
    with session() as prof:
        powers_kernel[(4,)](x, asked, torch.empty(512), 5, 500, BY=by, BLOCK=128)
    assert bool(list(discarded_loops(ops_of(prof)))) == is_discarded


@pytest.mark.parametrize(
    ("by", "is_discarded"),
    [("number", True), ("asked", False), ("elements", False), ("counter", False), ("nothing", False)],
)
def test_a_product_is_thrown_away_by_a_number_that_was_loaded(by: str, is_discarded: bool) -> None:
    x, chosen = torch.rand(4, 16, 16, dtype=torch.float16), torch.ones(16, dtype=torch.int32)
    with session() as prof:
        chosen_tiles_kernel[(2,)](x, chosen, torch.empty(2, 16, 16), 4, SIDE=16, BY=by)
    assert bool(list(discarded_products(ops_of(prof)))) == is_discarded


@triton.jit
def biased_kernel(x_ptr, w_ptr, bias_ptr, out_ptr, n, valid, SIDE: tl.constexpr):
    """A tile of a product, and a bias for its first columns."""
    at = tl.arange(0, SIDE)
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for start in range(0, n, SIDE):
        x = tl.load(x_ptr + at[:, None] * n + start + at[None, :])
        total = tl.dot(x, tl.load(w_ptr + (start + at[:, None]) * SIDE + at[None, :]), total)
    total += tl.load(bias_ptr + at, mask=at < valid, other=0.0)[None, :]
    tl.store(out_ptr + at[:, None] * SIDE + at[None, :], total)


def test_lanes_of_a_small_load_are_few_of_those_of_all_copies() -> None:
    x, w = torch.randn(64, 1024).half(), torch.randn(1024, 64).half()
    with session() as prof:
        biased_kernel[(1,)](x, w, torch.randn(64), torch.empty(64, 64), 1024, 8, SIDE=64)
    assert "masked-work" not in set(prof.profile.findings()["finding"])


@triton.jit
def asked_rows_kernel(
    x_ptr, asked_ptr, out_ptr, EARLY: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Roots of the rows that are asked for, up to a width; EARLY: the others are not loaded either."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    asked = tl.load(asked_ptr + row) != 0
    x = tl.load(x_ptr + row * BLOCK + at, mask=asked | (not EARLY))  # loaded
    mask = asked if WIDTH == BLOCK else asked & (at < WIDTH)
    tl.store(out_ptr + row * BLOCK + at, tl.sqrt(x), mask=mask)


@pytest.mark.parametrize(
    ("early", "asked_rows", "width", "is_masked"),
    [(False, 4, 512, True), (False, 15, 512, False), (True, 4, 512, False), (False, 4, 500, False)],
)
def test_what_no_program_stores_is_computed_for_nobody(
    early: bool, asked_rows: int, width: int, is_masked: bool
) -> None:
    """If loads are masked as stores are, that is the finding; if lanes have masks of their own, others may
    need what is loaded."""
    x, asked = torch.rand(16, 512), (torch.arange(16) < asked_rows).int()
    with session() as prof:
        asked_rows_kernel[(16,)](x, asked, torch.empty_like(x), EARLY=early, WIDTH=width, BLOCK=512)
    found = [
        (each.finding, each.line, each.gain.expected)
        for each in masked_results(facts_in(prof.profile.tables))
    ]
    source, first = inspect.getsourcelines(asked_rows_kernel.fn)
    line = first + next(at for at, text in enumerate(source) if "# loaded" in text)
    expected = [("masked-work", line, pytest.approx(100 * (1 - asked_rows / 16)))]
    assert found == (expected if is_masked else [])


@triton.jit
def charges_kernel(x_ptr, out_ptr, charges, width, OWN: tl.constexpr, BLOCK: tl.constexpr):
    """Sums over charges at the points of a row; OWN: each point loads its own."""
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for each in range(charges):
        x = tl.load(x_ptr + each * BLOCK + at) if OWN else tl.load(x_ptr + each)
        total += tl.rsqrt(x + at)
    tl.store(out_ptr + tl.program_id(0) * width + at, total, mask=at < width)


@pytest.mark.parametrize(
    ("own", "width", "is_masked"), [(False, 384, True), (False, 512, False), (True, 384, False)]
)
def test_points_that_no_store_has_are_computed_for_nobody(own: bool, width: int, is_masked: bool) -> None:
    x = torch.rand(4 * 512) + 1.0
    with session() as prof:
        charges_kernel[(4,)](x, torch.empty(4 * 512), 4, width, OWN=own, BLOCK=512)
    found = [(each.finding, each.gain.expected > 0) for each in masked_points(facts_in(prof.profile.tables))]
    assert found == ([("masked-work", True)] if is_masked else [])


@triton.jit
def padded_product_kernel(
    x_ptr, out_ptr, steps, WIDTH: tl.constexpr, LANES: tl.constexpr, SIDE: tl.constexpr
):
    """Products of tiles of SIDE rows of WIDTH numbers each, by LANES lanes."""
    at, lane = tl.arange(0, SIDE), tl.arange(0, LANES)
    total = tl.zeros((SIDE, SIDE), tl.float32)
    q = tl.load(x_ptr + at[:, None] * WIDTH + lane[None, :], mask=(lane < WIDTH)[None, :], other=0.0)
    for step in range(steps):
        k_at = x_ptr + (step * SIDE + at)[None, :] * WIDTH + lane[:, None]
        total = tl.dot(q, tl.load(k_at, mask=(lane < WIDTH)[:, None], other=0.0), total)
    tl.store(out_ptr + at[:, None] * SIDE + at[None, :], total)


@pytest.mark.parametrize(("width", "masked_pct"), [(40, 37.5), (24, 62.5), (64, 0.0)])
def test_copies_of_few_steps_are_masked_off_as_often_as_those_of_many(width: int, masked_pct: float) -> None:
    """The last steps of a pipelined loop copy nothing, and its first copies are in front of it."""
    x = torch.randn(4 * 64, width).half()
    with session() as prof:
        padded_product_kernel[(1,)](x, torch.empty(64, 64), 4, WIDTH=width, LANES=64, SIDE=64, num_stages=3)
    found = prof.profile.findings().query("finding == 'masked-work'")
    masked = [each["masked"]["value"] for each in found["evidence_values"]]
    assert masked == ([pytest.approx(masked_pct, abs=2.0)] if masked_pct else [])


@triton.jit
def lengths_kernel(x_ptr, length_ptr, out_ptr, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of rows of any length up to n; MASKED: no load goes beyond it, else sums leave that out."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    length = tl.load(length_ptr + row)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        if MASKED:
            total += tl.load(x_ptr + row * n + start + at, mask=start + at < length, other=0.0)
        else:
            total += tl.where(start + at < length, tl.load(x_ptr + row * n + start + at), 0.0)
    tl.store(out_ptr + row * BLOCK + at, total)


@pytest.mark.parametrize("masked", [True, False])
def test_a_loaded_end_is_no_triangle_if_lanes_of_loads_tell(masked: bool) -> None:
    lengths = torch.full((8,), 250, dtype=torch.int32)
    with session() as prof:
        lengths_kernel[(8,)](torch.rand(8, 256), lengths, torch.empty(8, 32), 256, MASKED=masked, BLOCK=32)
    found = masked_loop(ops_of(prof))
    assert (found is None) == masked
    assert found is None or found.by_data


@triton.jit
def shifted_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, SUMMED: tl.constexpr):
    """Loads one element of four; SUMMED: their sum, else each of their lanes, is stored."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * BLOCK + at, mask=at < n, other=0.0)
    y = tl.exp(x) * tl.log(x + 1.0) + tl.sqrt(x)
    if SUMMED:
        tl.store(out_ptr + row, tl.sum(y, 0))
    else:
        tl.store(out_ptr + row * BLOCK + at, y)


@pytest.mark.parametrize("summed", [True, False])
def test_lanes_that_are_stored_are_not_thrown_away(summed: bool) -> None:
    with session() as prof:
        shifted_kernel[(16,)](torch.rand(16, 1024), torch.empty(16, 1024), 256, BLOCK=1024, SUMMED=summed)
    assert ("masked-work" in set(prof.profile.findings()["finding"])) == summed


@triton.jit
def pairs_kernel(x_ptr, out_ptr, width, steps, LANES: tl.constexpr):
    """Sums over a row's own numbers at each of its lanes; only the first loads have a mask of lanes."""
    row, lane = tl.program_id(0), tl.arange(0, LANES)
    own = tl.load(x_ptr + row * width + lane, mask=lane < width, other=0.0)
    total = tl.zeros((LANES,), tl.float32)
    for other in range(steps):
        total += tl.exp(own - tl.load(x_ptr + row * width + other))
    tl.store(out_ptr + row * width + lane, total, mask=lane < width)


@pytest.mark.parametrize(("width", "is_masked"), [(576, True), (1024, False)])
def test_numbers_that_all_lanes_load_alike_tell_nothing_of_masked_lanes(width: int, is_masked: bool) -> None:
    with session() as prof:
        pairs_kernel[(4,)](torch.rand(4, width), torch.empty(4, width), width, 64, LANES=1024, num_warps=8)
    found = prof.profile.findings().query("finding == 'masked-work'")
    source, first = inspect.getsourcelines(pairs_kernel.fn)
    line = first + next(at for at, text in enumerate(source) if "tl.exp(" in text)
    assert found["line"].tolist() == ([line] if is_masked else [])
