"""The order of the span table, whatever the order that spans come in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.decoding import decoded
from profscope.decoding.areas import CTA
from profscope.decoding.decoded import DecodedLaunch, time_order

# (CTA, warp, start), from few values each, so that there are ties.
rows = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 1 << 40) | st.integers(0, 3))


def launch(spans: list[tuple[int, int, int]]) -> DecodedLaunch:
    cta, warp, start = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    zeros = np.zeros(len(spans), np.int32)
    columns = (zeros, cta.astype(np.int32), warp.astype(np.int32), zeros, start, start + 1)
    return DecodedLaunch(*columns, zeros, zeros - 1, zeros, (), np.zeros(1, CTA), 0, 0, 0)


@given(spans=st.lists(rows, min_size=1, max_size=60), block=st.integers(1, 70), ordered=st.booleans())
def test_spans_are_ordered_by_cta_warp_and_time(
    spans: list[tuple[int, int, int]], block: int, ordered: bool
) -> None:
    found = sorted(spans) if ordered else spans
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoded, "BLOCK_SPANS", block)
        order = time_order(launch(found))
    assert isinstance(order, slice) == (found == sorted(found))
    positions = np.arange(len(found))  # ties stay as they are
    assert positions[order].tolist() == sorted(positions.tolist(), key=lambda at: found[at])


def test_times_too_far_apart_for_one_key_are_ordered_too() -> None:
    order = time_order(launch([(3, 1, 1 << 62), (3, 1, 5), (3, 0, 1 << 61), (0, 1, 7)]))
    assert np.arange(4)[order].tolist() == [3, 2, 1, 0]
