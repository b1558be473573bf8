"""What analyses ask of a span table: own times, and what launches have."""

import numpy as np

from profscope.analysis.span_rows import OfLaunches, own_times
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
