"""The order of the span table, whatever the order that spans come in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.decoding import decoded
from profscope.decoding.areas import CTA
from profscope.decoding.decoded import DecodedLaunch, time_order

# (CTA, warp, start, site), from few values each, so that there are ties.
rows = st.tuples(
    st.integers(0, 3), st.integers(0, 2), st.integers(0, 1 << 40) | st.integers(0, 3), st.integers(0, 3)
)


def launch(spans: list[tuple[int, int, int, int]]) -> DecodedLaunch:
    cta, warp, start, site = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    zeros = np.zeros(len(spans), np.int32)
    small = (column.astype(np.int32) for column in (site, cta, warp))
    columns = (*small, zeros, start, start + 1, zeros, zeros - 1, zeros)
    return DecodedLaunch(*columns, (), np.zeros(1, CTA), records=0, dropped=0, unmatched=0)


def by_time(span: tuple[int, int, int, int]) -> tuple[int, int, int]:
    return span[:3]


@given(spans=st.lists(rows, min_size=1, max_size=60), block=st.integers(1, 70), ordered=st.booleans())
def test_spans_are_ordered_by_cta_warp_time_and_site(
    spans: list[tuple[int, int, int, int]], block: int, ordered: bool
) -> None:
    found = sorted(spans, key=by_time) if ordered else spans
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoded, "BLOCK_SPANS", block)
        order = time_order(launch(found))
    positions = list(range(len(spans)))
    if found == sorted(found, key=by_time):  # ties stay as they are
        assert isinstance(order, slice)
        assert positions[order] == positions
    else:
        assert np.array(positions)[order].tolist() == sorted(positions, key=lambda at: found[at])


def test_times_too_far_apart_for_one_key_are_ordered_too() -> None:
    spans = [(3, 1, 1 << 62, 0), (3, 1, 5, 2), (3, 0, 1 << 61, 1), (0, 1, 7, 0)]
    order = time_order(launch(spans))
    assert np.arange(4)[order].tolist() == [3, 2, 1, 0]
