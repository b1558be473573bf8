"""Ranges of time as --zoom takes them."""

from __future__ import annotations

import pytest

from profscope.errors import OptionError, TraceError
from profscope.viewer.option_types import parse_zoom

LONG = 10**10


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("1.5us:3us", "ns", (1500, 3000)),
        ("100:2ms", "ns", (100, 2_000_000)),
        (" 1us : 2us ", "ns", (1000, 2000)),
        ("900:2k", "cycles", (900, 2000)),
        (".5k:1M", "cycles", (500, 1_000_000)),
        ("900:", "ns", (900, LONG)),
        (":2us", "ns", (0, 2000)),
        ("1us:2us", "cycles", (2000, 4000)),
        ("1k:2k", "ns", (500, 1000)),
    ],
)
def test_ranges(text: str, unit: str, expected: tuple[int, int]) -> None:
    assert parse_zoom(text).within(LONG, unit, 2.0) == expected


@pytest.mark.parametrize("text", ["", ":", "1us", "1us:2us:3us", "a:b", "1kk:2k", "-1:2", "1x:"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(OptionError, match=r"not a range of time: .*; write it like 1us:2us"):
        parse_zoom(text)


@pytest.mark.parametrize("text", ["2us:1us", "5:5"])
def test_a_range_ends_after_its_start(text: str) -> None:
    with pytest.raises(OptionError, match="the end is before the start"):
        parse_zoom(text)


def test_a_range_behind_the_end() -> None:
    with pytest.raises(TraceError, match=r"--zoom begins at 90.0k cycles; the CTA takes 12.3k cycles"):
        parse_zoom("90k:").within(12_300, "cycles", 1.0)
