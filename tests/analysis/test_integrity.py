"""`Profile.validate` names what is wrong and where."""

from collections.abc import Callable

import pandas as pd
import pytest

from profscope.profiles import Profile
from profscope.schema import KINDS
from tests.support.profiles import profile_metadata, regular_profile
from tests.support.validation import validate


def test_a_sound_profile_has_no_problems() -> None:
    assert validate(regular_profile().tables) == []
    assert validate(Profile(metadata=profile_metadata()).tables) == []


def at(row: int, column: str, value: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(df: pd.DataFrame) -> pd.DataFrame:
        df.loc[row, column] = value
        return df

    return change


# Rows of a warp: 0 kernel, 1 loop, 2 iteration, 3 load A, 4 load B, 5 wait, 6 dot, 7 store.
FAULTS = {
    "df: no column 'line'": lambda df: df.drop(columns="line"),
    "df: unknown column 'colour'": lambda df: df.assign(colour=1),
    "df: unknown column 7": lambda df: df.assign(colour=1, number=1).rename(columns={"number": 7}),
    "df: column 'line' is int64, not int32": lambda df: df.astype({"line": "int64"}),
    "df: column 'scope' has missing values": at(3, "scope", None),
    "df: the index must be a RangeIndex from 0": lambda df: df.iloc[1:],
    "df: negative duration_ns (row 3, 1 in all)": at(3, "duration_ns", -1),
    "df: parent is not an earlier row (row 3, 1 in all)": at(3, "parent", 3),
    "df: a root that is not at depth 0, or depth 0 with a parent (row 3, 1 in all)": at(3, "parent", -1),
    "df: depth is not the parent's plus one (row 3, 1 in all)": at(3, "parent", 1),
    "df: launch not in the table of launches (row 0, 8 in all)": lambda df: df.assign(
        launch=df["launch"] + 9
    ),
    "df: outside its parent (start_ns) (row 3, 1 in all)": at(3, "duration_ns", 10**6),
    "df: outside its parent (start_cycle) (row 3, 1 in all)": at(3, "duration_cycles", 10**6),
    "df: overlaps the sibling before it (start_cycle) (row 4, 1 in all)": at(3, "duration_cycles", 60),
    "df: parent is of another warp (row 3, 1 in all)": at(3, "warp", 9),
    "df: rows are not ordered by launch, cta, warp, start_cycle (row 4, 1 in all)": at(3, "warp", 1),
    "df: a mark with a duration (row 3, 1 in all)": lambda df: at(3, "kind", "mark")(
        df.assign(kind=df["kind"].cat.add_categories("mark"))
    ),
    f"df: kind is none of {', '.join(KINDS)} (row 3, 1 in all)": lambda df: at(3, "kind", "strange")(
        df.assign(kind=df["kind"].cat.add_categories("strange"))
    ),
}


@pytest.mark.parametrize("problem", FAULTS)
def test_each_fault_is_named(problem: str) -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1, iterations=1)
    df = FAULTS[problem](profile.df.copy())
    assert problem in validate(Profile(df, profile.launches, profile.metadata).tables)
