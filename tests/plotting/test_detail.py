"""Bars as few rectangles: none is lost that is seen, and no row has more than there are dots."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from profscope.plotting.timeline import DOTS, drawn_bars


def bars(lengths: list[tuple[int, int]], paints: int) -> tuple[np.ndarray, ...]:
    """Bars one behind the other on one row: (gap, length) of each, in thousandths of a dot."""
    gaps, sizes = (np.array([pair[at] for pair in lengths], np.float64) / 1000 for at in (0, 1))
    end = np.cumsum(gaps + sizes)
    paint = np.arange(len(lengths)) * 7 % paints
    return np.zeros(len(lengths), np.int64), end - sizes, end, paint


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 5000)), min_size=1, max_size=60),
    st.integers(1, 5),
)
def test_each_dot_has_the_paint_that_takes_most_of_it(lengths: list[tuple[int, int]], paints: int) -> None:
    row, start, end, paint = bars(lengths, paints)
    drawn_row, begin, finish, drawn = drawn_bars(row, start, end, paint, (0.0, float(DOTS)))
    assert len(drawn_row) <= DOTS
    wide = end - start >= 2
    kept = set(zip(begin.tolist(), finish.tolist(), drawn.tolist(), strict=True))
    assert set(zip(start[wide].tolist(), end[wide].tolist(), paint[wide].tolist(), strict=True)) <= kept
    own = slice(int(wide.sum()), None)
    for dot in range(int(end.max()) + 1):
        cover = np.clip(np.minimum(end, dot + 1) - np.maximum(start, dot), 0, None) * ~wide
        of_paint = np.bincount(paint, cover, paints)
        at = (begin[own] <= dot) & (finish[own] >= dot + 1)
        if cover.sum() > 0.5 + 1e-9:
            assert at.sum() == 1
            assert of_paint[drawn[own][at][0]] >= of_paint.max() - 1e-9
        elif cover.sum() < 0.5 - 1e-9:
            assert at.sum() == 0


def test_many_bars_are_few_rectangles() -> None:
    count = 400_000
    row = np.repeat(np.arange(8), count // 8)
    start = np.tile(np.arange(count // 8, dtype=np.float64), 8)
    drawn_row, begin, end, paint = drawn_bars(row, start, start + 0.9, row % 3, (0.0, count / 8))
    assert np.bincount(drawn_row).tolist() == [1] * 8  # of one paint each
    assert (begin == 0).all()
    assert (end == count / 8).all()
    assert paint.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    mixed = drawn_bars(row, start, start + 0.9, np.arange(count) % 5, (0.0, count / 8))
    assert np.bincount(mixed[0]).max() <= DOTS


def test_what_is_outside_is_cut_off() -> None:
    row, start, end = np.zeros(3, np.int64), np.array([0.0, 10.0, 20.0]), np.array([10.0, 20.0, 30.0])
    _, begin, finish, paint = drawn_bars(row, start, end, np.arange(3), (12.0, 25.0))
    assert list(zip(begin, finish, paint, strict=True)) == [(12.0, 20.0, 1), (20.0, 25.0, 2)]
