"""Tables by launch, SM, CTA and the like."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from profscope.analysis.scopes.by import make_rows
from profscope.analysis.scopes.table import RowFilter
from profscope.analysis.spans.corrections import are_corrected
from profscope.profiles import Profile, load
from tests.support.command_line import run
from tests.support.profiles import regular_profile

DATA = Path(__file__).parents[1] / "data"
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


def test_rows_of_whole_warps_are_without_what_recording_took_too() -> None:
    profile = load(DATA / "events" / "gpt.pftrace.gz")
    assert are_corrected(profile.tables)
    told = {by: make_rows(profile.tables, by, "ns", RowFilter(), None) for by in ("cta", "warp", "sm")}
    df = profile.df[(profile.df["depth"] == 0) & (profile.df["kind"] != "async")]
    for by, rows in told.items():
        assert sum(row.self for row in rows) == df["corrected_ns"].sum(), by
    assert df["corrected_ns"].sum() < df["duration_ns"].sum()
    slowest = told["cta"][0]
    own = df[(df["launch"] == slowest.launch) & (df["cta"] == int(slowest.key))]
    assert slowest.duration == (own["start_ns"] + own["duration_ns"]).max() - own["start_ns"].min()


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
