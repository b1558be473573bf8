"""What analyses ask of a span table: own times, and what launches have."""

import numpy as np
import pandas as pd
import pytest

from profscope.analysis.spans import pieces
from profscope.analysis.spans.rows import SITE_COLUMNS, OfLaunches, narrow_sites, numbered, own_times
from profscope.schema import launches_frame, spans_frame
from tests.support.profiles import launch_table, regular_profile


def test_own_times_are_exact_however_long_spans_are() -> None:
    huge = (1 << 60) + 1
    duration = np.array([3 * huge, huge, huge - 2, 7], np.int64)
    parent = np.array([-1, 0, 0, 0])
    own = own_times(duration, parent, np.array([True, True, True, False]))
    assert own.tolist() == [huge + 2, huge, huge - 2, 0]


def test_each_span_has_what_its_launch_has() -> None:
    """Times of today in nanoseconds, too; in whatever order launches are, and where one is not known."""
    tables = regular_profile(3, 1, 1, 1).tables
    table = launch_table([2, 0], ["a", "b"])
    values = np.array([1_700_000_000_000_000_003, 1_700_000_000_000_000_001])
    told = OfLaunches(table, values, 0).of(tables.df["launch"].to_numpy())
    known = {2: int(values[0]), 0: int(values[1]), 1: 0}
    assert told.tolist() == [known[launch] for launch in tables.df["launch"]]
    none = spans_frame()["launch"].to_numpy()
    assert not len(OfLaunches(launches_frame(), np.zeros(0), 1.0).of(none))


@pytest.mark.parametrize("size", [1, 40, 5000, 1 << 22, 1 << 40])
def test_numbers_are_in_order_of_first_appearance(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all pieces, by a table of keys as by their hashes."""
    monkeypatch.setattr(pieces, "PIECE_ROWS", 100)
    key = np.random.default_rng(0).integers(0, size, 1050)
    number, first = numbered(key, size)
    expected, distinct = pd.factorize(key)
    assert number.tolist() == expected.tolist()
    assert key[first].tolist() == distinct.tolist()
    assert [at for at in range(len(key)) if expected[at] not in expected[:at]] == first.tolist()


def test_sites_are_told_apart_whatever_their_columns_could_hold() -> None:
    """More combinations of texts and lines than 64 bits number."""
    df = regular_profile(1, 2, 1, 3).tables.df
    many = pd.Index([f"scope {number}" for number in range(1 << 13)])
    wide = df.assign(line=df["line"].where(df.index != 1, 1 << 30).astype("int32"))
    for name in ("kernel", "scope", "file", "call_path"):
        wide[name] = wide[name].cat.add_categories(many)
    rows = list(zip(*(wide[name].tolist() for name in SITE_COLUMNS), strict=True))
    assert narrow_sites(wide)[0].tolist() == pd.factorize(pd.Index(rows, tupleize_cols=False))[0].tolist()
