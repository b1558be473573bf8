"""Two lowerings, one truth: what sums say of every warp and site is what its spans come to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.sessions import CASES, same_bits
from tests.support.two_lowerings import counting_clock, kept_spans, kept_sums, record


@pytest.mark.parametrize("name", CASES)
def test_sums_are_those_of_the_spans(name: str) -> None:
    """Nothing but records differs, and these cost nothing: counts, sums and the longest agree exactly."""
    with counting_clock():
        spans_out, with_spans = record(CASES[name], instrument="heavy")
        sums_out, with_sums = record(CASES[name], instrument="heavy", keep="sums")
    assert same_bits(spans_out, sums_out)
    assert len(with_spans) == len(with_sums) > 0
    for spans, sums in zip(with_spans, with_sums, strict=True):
        a, b = kept_spans(*spans), kept_sums(*sums)
        a={k:v for k,v in a.items() if k[2][0]!="async"}
        assert a == b
