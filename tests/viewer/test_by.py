"""Tables by launch, SM, CTA and the like; what the command line chooses is chosen of all that is shown."""

from __future__ import annotations

import csv
import io
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
from profscope.viewer.input import part_of
from tests.support.command_line import run
from tests.support.models import groups, kernels
from tests.support.profiles import profile_metadata, profiles, regular_profile
from tests.support.validation import validate

PROFILE = regular_profile(launches=2, ctas=8, warps=4, iterations=3)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("by") / "trace.json"
    PROFILE.save(path)
    return str(path)


@pytest.mark.parametrize("by", ["launch", "cta", "line"])
def test_rows_add_up_to_all_warp_time(by: str, trace: str) -> None:
    rows = json.loads(run(trace, "--by", by, "--format", "json").stdout)
    roots = PROFILE.df[PROFILE.df["depth"] == 0]
    assert sum(row["self"] for row in rows) == roots["duration_ns"].sum()
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    shown = run(trace, "--by", by, "--top", "2", "--width", "60").stdout.splitlines()
    assert max(map(len, shown)) <= 60
    assert (f"{len(rows) - 2} more rows" in shown[-1]) == (len(rows) > 2)


def test_ctas_stand_from_the_slowest_to_the_fastest(trace: str) -> None:
    rows = list(csv.DictReader(io.StringIO(run(trace, "--by", "cta", "--format", "csv").stdout)))
    took = [int(row["duration"]) for row in rows]
    assert took == sorted(took, reverse=True)
    first = PROFILE.df[
        (PROFILE.df["launch"] == int(rows[0]["launch"])) & (PROFILE.df["cta"] == int(rows[0]["key"]))
    ]
    assert took[0] == (first["start_ns"] + first["duration_ns"]).max() - first["start_ns"].min()


def test_top_cuts_every_form_and_a_table_for_programs_has_all_without_it(trace: str) -> None:
    rows = list(csv.DictReader(io.StringIO(run(trace, "--by", "sm", "--format", "csv", "--top", "2").stdout)))
    assert len(rows) == 2
    assert [row["sm"] for row in rows] == [row["key"] for row in rows]
    assert len(json.loads(run(trace, "--by", "cta", "--format", "json", "--top", "3").stdout)) == 3
    assert len(run(trace, "--show", "scopes", "--format", "csv", "--top", "1").stdout.splitlines()) == 2


def test_markdown_escapes_what_names_have_of_marks(trace: str) -> None:
    head, rule, *rows = run(trace, "--show", "scopes", "--format", "md").stdout.splitlines()
    assert head.startswith("| kernel | variant | unit | scope |")
    assert set(rule) <= set("| -")
    assert rows[0].startswith("| matmul\\_kernel | 0 | ns | wait |")


def test_lines_and_scopes_can_be_chosen(trace: str) -> None:
    rows = json.loads(run(trace, "--by", "scope", "--line", "matmul.py:26", "--format", "json").stdout)
    assert [row["key"] for row in rows] == ["wait"]
    shown = run(trace, "--show", "tree", "--scope", "^dot$").stdout
    assert "└ dot" in shown
    assert "wait" not in shown
    failed = run(trace, "--scope", "nope")
    assert failed.stderr.startswith("profscope-view: no scope matches 'nope'; there are: wait, dot, ")
    assert run(trace, "--line", "5").stderr.startswith(
        "profscope-view: nothing was recorded at line 5; there are spans at lines "
    )
    assert run(trace, "--by", "sm", "--scope", "dot").returncode == 2


def test_sort_orders_scopes(trace: str) -> None:
    rows = json.loads(run(trace, "--sort", "max", "--format", "json").stdout)["tables"][0]["rows"]
    assert [row["max"] for row in rows] == sorted((row["max"] for row in rows), reverse=True)


def test_rows_that_nothing_is_known_of_are_refused(trace: str) -> None:
    """No row of rank -1."""
    failed = run(trace, "--by", "rank")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "--by rank: this trace does not have the rank of a launch" in failed.stderr


def test_csv_has_no_formulas(tmp_path: Path) -> None:
    """A spreadsheet runs what begins so; numbers stay numbers."""
    profile = regular_profile(launches=1, ctas=1)
    names = {"wait": "=HYPERLINK(1)", "dot": "+1", "store": "-2", "load A": "@SUM(1)"}
    df = profile.df.assign(scope=profile.df["scope"].cat.rename_categories(names))
    Profile(df, profile.launches, profile.metadata).save(tmp_path / "t.json")
    shown = run(str(tmp_path / "t.json"), "--by", "scope", "--format", "csv").stdout
    scopes = [row["key"] for row in csv.DictReader(io.StringIO(shown))]
    assert {"'" + name for name in names.values()} <= set(scopes)
    assert all(row["self"].isdecimal() for row in csv.DictReader(io.StringIO(shown)))


# What the command line chooses is chosen of all that is shown.

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
