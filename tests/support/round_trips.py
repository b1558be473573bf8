"""What must hold of a profile that was saved and loaded."""

import pandas as pd
from pandas.testing import assert_frame_equal

from profscope.profiles import Profile

SUFFIXES = [".json", ".json.gz", ".pftrace", ".pftrace.gz", ".parquet"]


def assert_same(loaded: Profile, saved: Profile) -> None:
    """Equal to the last dtype, category and order."""
    assert_frame_equal(loaded.df, saved.df, check_exact=True, check_column_type=True)
    for name in ("kernel", "scope", "kind", "file", "call_path"):
        pd.testing.assert_index_equal(
            loaded.df[name].cat.categories, saved.df[name].cat.categories, exact=True
        )
        assert loaded.df[name].cat.ordered == saved.df[name].cat.ordered
    for name in ("launches", "ctas", "samples", "counts", "counters", "experiments"):
        assert_frame_equal(getattr(loaded, name), getattr(saved, name), check_exact=True)
    assert loaded.metadata == saved.metadata
