"""Files that former versions of profscope wrote load as they were saved.

samples/schema1.* were saved by profscope 0.1.0, whose traces had schema 1 and whose spools had version 1.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import profscope
from profscope.profiles import Profile
from profscope.schema import spans_frame
from tests.support.profiles import launch_table, profile_metadata
from tests.support.round_trips import assert_same

SAMPLES = Path(__file__).with_name("samples")


def saved_profile() -> Profile:
    """What samples/schema1.json and its like were saved from."""
    columns: dict[str, list[object]] = {
        "kernel": ["add"] * 5 + ["C:\\"],
        "launch": [0, 0, 0, 0, 0, 3],
        "cta": [0, 0, 0, 0, 1, 7],
        "sm": [5, 5, 5, 5, 131, 5],
        "warp": [0, 0, 0, 0, 3, 0],
        "scope": ["add", "load x", "async copy", "wait", "add", "é </script>\n"],
        "kind": ["kernel", "op", "async", "op", "kernel", "mark"],
        "file": ["/src/add.py"] * 5 + [""],
        "line": [10, 12, 12, 14, 10, 0],
        "iteration": [-1, 0, 0, 0, -1, -1],
        "depth": [0, 1, 1, 1, 0, 0],
        "parent": [-1, 0, 0, 0, -1, -1],
        "wait": [-1, -1, 3, -1, -1, -1],
        "start_cycle": [2**62, 2**62 + 10, 2**62 + 12, 2**62 + 50, 100, -5],
        "duration_cycles": [100, 20, 48, 10, 80, 0],
        "start_ns": [1_790_000_000_000_000_000 + ns for ns in (0, 5, 6, 25, 3, 900)],
        "duration_ns": [50, 10, 24, 5, 40, 0],
    }
    df = spans_frame(columns)
    df["bytes"] = pd.array([None, 512, None, None, None, -1], "Int32")
    df["max"] = [np.nan, 0.1, np.nan, np.inf, np.nan, np.nan]
    df["stage"] = pd.Categorical([None, "load", None, "compute", None, None])
    launches = launch_table([0, 3], ["add", "C:\\"], clock_ghz=[1.98, float("nan")], replay=[-1, 2])
    about = profile_metadata(schema=1, notes=["a note", "é"], odd={"nan": [1e300, 0.1, None]})
    return Profile(df, launches, about)


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".pftrace", ".pftrace.gz"])
def test_a_trace_of_schema_1_loads(suffix: str) -> None:
    assert_same(profscope.load(SAMPLES / f"schema1{suffix}"), saved_profile())


def test_a_spool_of_version_1_loads() -> None:
    profile = profscope.load(SAMPLES / "version1.spool")
    assert profile.validate() == []
    assert profile.launches["launch"].tolist() == [0, 1, 2, 3]
    assert profile.launches["num_warps"].tolist() == [1, 2, 1, 1]
    assert profile.launches["stream"].tolist() == [0, 7, 14, 21]
    assert not profile.launches["cold"].any()  # nobody said so then
    loops = profile.df[profile.df["kind"] == "iteration"].groupby("launch")["iteration"].max() + 1
    assert loops.tolist() == [3, 7, 2, 9]
    assert profile.metadata["extra"] == 2
    assert profile.metadata["notes"][0] == "another note"
