"""Launches of which one CTA in many records: do their totals stand for a grid whose columns differ?"""

from __future__ import annotations

import functools
import math
import re

import numpy as np
import pandas as pd
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from instrument_passes.selection import Selection
from profscope import Profile
from profscope.decoding.left_out_ctas import most_unseen
from tests.support.sessions import session

GRIDS = [(16, 64), (8, 16, 8), (128, 3)]


@triton.jit
def columns_kernel(out_ptr, columns, BLOCK: tl.constexpr):  # noqa: N803
    """Every eighth column has one step more than there are columns, the others as many as their number."""
    column = tl.program_id(0)
    steps = tl.where(column % 8 == 0, columns + 1, column)
    total = tl.zeros([BLOCK], dtype=tl.int32)
    for step in range(steps):
        total += step
        tl.store(out_ptr + column * BLOCK + tl.arange(0, BLOCK), total)


def steps_of(grid: tuple[int, ...]) -> int:
    """Of all CTAs together."""
    columns = np.arange(grid[0])
    each = np.where(columns % 8 == 0, grid[0] + 1, columns)
    return int(each.sum()) * int(np.prod(grid[1:]))


@functools.cache
def recorded(grid: tuple[int, ...], ctas: int) -> Profile:
    with session(instrument="heavy", ctas=ctas) as prof:
        columns_kernel[grid](torch.zeros(grid[0] * 32, dtype=torch.int32), grid[0], BLOCK=32, num_warps=1)
    assert prof.profile.validate() == []
    return prof.profile


def figures(profile: Profile) -> pd.DataFrame:
    return profile.summary().set_index(["kind", "scope"])[["count", "total_cycles"]]


@pytest.mark.parametrize("grid", GRIDS)
def test_totals_of_one_cta_in_sixteen_stand_for_those_of_all(grid: tuple[int, ...]) -> None:
    every, some = (figures(recorded(grid, ctas)) for ctas in (1, 16))
    stores = every.index[[kind == "op" for kind, _ in every.index]]
    assert every.loc[stores, "count"].eq(steps_of(grid)).all()
    assert set(some.index) == set(every.index)  # some scopes take as long as others
    ratio = some / every
    assert ratio.min().min() > 0.8
    assert ratio.max().max() < 1.25


@given(ctas=st.integers(1, 1 << 20), stride_log2=st.integers(0, 31))
def test_each_area_has_a_cta_of_the_grid_and_each_cta_an_area_or_none(ctas: int, stride_log2: int) -> None:
    chosen = Selection()
    areas = chosen.areas(ctas, stride_log2)
    ids = chosen.cta(np.arange(areas + 1), stride_log2)
    assert ids[0] == 0
    assert (ids >> stride_log2 == np.arange(areas + 1)).all()
    assert ids[-2] < ctas <= ids[-1]


@pytest.mark.parametrize("most", [64, 256])
@pytest.mark.parametrize("columns", [2, 3, 8, 12, 16, 64, 100, 256, 1024])
def test_ctas_are_spread_over_columns_as_over_rows(columns: int, most: int) -> None:
    for rows in (4096 // columns, 65536 // columns):
        stride_log2 = max(0, (-(-columns * rows // most) - 1).bit_length())
        chosen = Selection()
        ids = chosen.cta(np.arange(chosen.areas(columns * rows, stride_log2)), stride_log2)
        for place, count in ((ids % columns, columns), (ids // columns, rows)):
            assert place.mean() == pytest.approx((count - 1) / 2, abs=0.05 * count)


_STANDARD_ERROR = re.compile(r"totals have a standard error (?:of|below) ([0-9.]+)%")


def note_of(profile: Profile) -> str:
    (note,) = (note for note in profile.metadata["notes"] if "CTAs were recorded" in note)
    return note


def test_a_note_says_how_far_off_the_totals_are() -> None:
    note = note_of(recorded(GRIDS[0], 16))
    assert note.startswith("columns_kernel: 64 of 1024 CTAs were recorded, spread over the grid; ")
    (error,) = _STANDARD_ERROR.findall(note)
    cycles = recorded(GRIDS[0], 16).df.query("kind == 'kernel'")["duration_cycles"]
    expected = cycles.std(ddof=1) / cycles.mean() * np.sqrt((1 - 64 / 1024) / 64)
    assert float(error) / 100 == pytest.approx(expected, rel=0.05)


@triton.jit
def one_heavy_kernel(out_ptr, heavy, steps, others, BLOCK: tl.constexpr):  # noqa: N803
    total = tl.zeros([BLOCK], dtype=tl.int32)
    for step in range(tl.where(tl.program_id(0) == heavy, steps, others)):
        total += step
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


def test_a_note_does_not_hide_the_one_heavy_cta_that_was_left_out() -> None:
    ctas, one_in, steps = 256, 16, 4000
    recorded = Selection().cta(np.arange(ctas // one_in), 4).tolist()
    heavy, out = min(set(range(ctas)) - set(recorded)), torch.zeros(ctas * 32, dtype=torch.int32)
    with session(ctas=one_in) as prof:
        one_heavy_kernel[(ctas,)](out, heavy, steps, 1, BLOCK=32, num_warps=1)
    note = note_of(prof.profile)
    (error,) = map(float, _STANDARD_ERROR.findall(note))
    assert (
        0.1 <= error < 2
    )  # a heavy CTA makes the launch's time many times as long; none that recorded knows
    assert "up to 18.0% of its CTAs may be unlike all of these (95% confidence)" in note


@given(grid=st.integers(2, 5000), part=st.floats(0, 1))
def test_no_more_ctas_than_said_are_missed_more_often_than_one_time_in_twenty(grid: int, part: float) -> None:
    recorded = max(1, int(part * (grid - 1)))
    most = most_unseen(recorded, grid)
    assert 0 <= most <= grid - recorded
    assert 20 * math.comb(grid - most - 1, recorded) <= math.comb(grid, recorded)  # drawn one after the other
    assert (1 - recorded / grid) ** most > 0.05 * (1 - 1e-9)  # each with the same chance
    assert most_unseen(grid, grid) == 0


@pytest.mark.parametrize(("ctas", "told"), [(16, "one CTA of a launch is"), (64, "4 CTAs of a launch are")])
def test_a_few_ctas_do_not_tell_how_far_off_the_totals_are(ctas: int, told: str) -> None:
    notes = " ".join(recorded((ctas,), 16).metadata["notes"])
    assert f"{ctas // 16} of {ctas} CTAs were recorded" in notes
    assert f"{told} too few to say how far its totals may be off" in notes
