"""What the command line chooses is chosen of all that is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.analysis.model.labels import Group
from profscope.analysis.scopes.table import make_tables
from profscope.profiles import Profile
from profscope.traces.trace_filter import TraceFilter
from profscope.viewer.cli import main
from profscope.viewer.input import part_of
from tests.support.models import groups, kernels
from tests.support.profiles import profile_metadata, profiles, regular_profile
from tests.support.quick import quick
from tests.support.validation import validate

SPAN_CHOICES = ("launch", "cta", "sm", "warp")


@pytest.fixture(scope="module")
def profile() -> Profile:
    return regular_profile(launches=2, ctas=8, warps=4, iterations=6)


@given(profiles(), st.data())
def test_a_selection_is_a_sound_profile_of_just_the_spans_asked_for(
    profile: Profile, data: st.DataObject
) -> None:
    if profile.df.empty:
        return
    span = profile.df.iloc[data.draw(st.integers(0, len(profile.df) - 1), label="row")]
    names = data.draw(st.sets(st.sampled_from(SPAN_CHOICES)), label="choices")
    chosen = {name: int(span[name]) for name in names}
    part = part_of(profile, TraceFilter(**chosen))
    assert validate(part.tables) == []
    wanted = np.logical_and.reduce(
        [np.ones(len(profile.df), np.bool_)]
        + [(profile.df[name] == value).to_numpy() for name, value in chosen.items()]
    )
    columns = profile.df.columns.difference(["parent", "wait"])
    kept = profile.df[wanted].reset_index(drop=True)
    assert part.df[columns].equals(kept[columns])
    outer = np.flatnonzero(part.df["parent"] >= 0)
    above = profile.df["start_ns"].to_numpy()[kept["parent"].to_numpy()[outer]]
    assert (part.df["start_ns"].to_numpy()[part.df["parent"].to_numpy()[outer]] == above).all()


@pytest.mark.parametrize(
    ("chosen", "ctas", "warps"),
    [
        ({"cta": 3}, 2, 8),
        ({"sm": 2}, 4, 16),
        ({"warp": 1}, 16, 16),
        ({"launch": 0, "cta": 3, "warp": 1}, 1, 1),
    ],
)
def test_a_part_of_launches_restricts_counts_times_and_sums(
    profile: Profile, chosen: dict[str, int], ctas: int, warps: int
) -> None:
    part = part_of(profile, TraceFilter(**chosen))
    (kernel,) = kernels(part)
    assert kernel.ctas.recorded == ctas
    end = part.df["start_ns"] + part.df["duration_ns"]
    times = [rows.max() - part.df["start_ns"][rows.index].min() for _, rows in end.groupby(part.df["launch"])]
    assert kernel.time is not None
    assert kernel.time.total == sum(times)
    (table,) = make_tables(part.tables, "ns", 0, groups([kernel]))
    assert (table.ctas, table.warps) == (ctas, warps)
    roots = part.df[part.df["depth"] == 0]
    assert table.warp_time == roots["duration_ns"].sum(), "never scaled up to the grid"
    assert not table.scaled


def test_bytes_and_rates_of_all_launches_are_not_shown_for_some() -> None:
    profile = regular_profile(launches=2, ctas=4)
    op = profile.df[profile.df["scope"] == "load A"].iloc[0]
    place = {"scope": "load A", "kind": "op", "file": str(op["file"]), "line": int(op["line"])}
    work = {"launches": 2, "ns": 1000, "scopes": [{**place, "measures": "issue", "bytes": 4000, "flops": 0}]}
    about = {
        "measure": "issue",
        "work": [{"variant": 0, **work}],
    }
    metadata = profile_metadata(kernels={"matmul_kernel": about})
    profile = Profile(profile.df, profile.launches, metadata)

    def load(selection: TraceFilter) -> Any:
        (table,) = make_tables(part_of(profile, selection).tables, "ns", 0, [Group("matmul_kernel")])
        return next(row for row in table.rows if row.scope == "load A")

    assert (load(TraceFilter()).bytes_at_most, load(TraceFilter()).gb_per_s_at_most) == (4000, 4.0)
    assert (
        load(TraceFilter(kernels="matmul")).bytes_at_most,
        load(TraceFilter(kernels="matmul")).gb_per_s_at_most,
    ) == (4000, 4.0)
    for part in (TraceFilter(launch=0), TraceFilter(cta=1), TraceFilter(warp=0)):
        assert (load(part).bytes_at_most, load(part).gb_per_s_at_most) == (None, None)
        assert load(part).measures == "issue"


@pytest.mark.parametrize("flag", quick(["--cta", "--warp"], ["--cta"]))
def test_a_look_at_a_part_of_launches_changes_no_verdict(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its records are those of the whole launches: over the warps of the part they would be too many."""

    def shown(*words: str) -> Any:
        assert main([str(tmp_path / "trace.parquet"), *words]) == 0
        return json.loads(capsys.readouterr().out)

    costs = {"clock": {"read_cycles": 4, "row_cycles": 10, "basis": "measured"}}
    profile = regular_profile(launches=2, ctas=8, warps=4, iterations=6)
    Profile(profile.tables.df, profile.launches, profile.metadata | costs).save(tmp_path / "trace.parquet")
    number = str(int(profile.df[flag[2:]].iloc[0]))
    assert shown("--format", "json", flag, number)["verdict"] == (shown("--format", "json")["verdict"])
    (whole,), (part,) = (shown("--format", "report", *words)["kernels"] for words in ([], [flag, number]))
    assert whole["recorded_over_bare"]["basis"] == "estimated"
    for name in ("recorded_over_bare", "verdict", "findings", "overlap", "critical_path"):
        assert part[name] == whole[name], name
    assert part["records"]["per_warp"] == whole["records"]["per_warp"]
    assert part["lines"]["rows"][0]["self_time"] < whole["lines"]["rows"][0]["self_time"]
