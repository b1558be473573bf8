"""Notes in whole sentences."""

from __future__ import annotations

import pytest

from profscope.decoding.about import kept_notes


@pytest.mark.parametrize(
    ("spans", "sums", "note"),
    [
        (0, 1, "k: its launch kept sums"),
        (0, 3, "k: all 3 launches kept sums"),
        (1, 1, "k: 1 of 2 launches kept spans, the other sums"),
        (1, 1000, "k: 1 of 1001 launches kept spans, the others sums"),
        (2, 0, ""),
    ],
)
def test_what_launches_kept(spans: int, sums: int, note: str) -> None:
    assert kept_notes({"k": {"spans": spans, "sums": sums}}) == [note] * bool(note)
