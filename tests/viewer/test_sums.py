"""What is shown of profiles some of whose launches kept sums."""

from __future__ import annotations

import json
from math import inf, nan
from pathlib import Path

import pytest

from profscope.profiles import Profile
from profscope.schema import numbers_frame
from tests.support.folded import with_sums
from tests.support.profiles import regular_profile
from viewer.cli import main
from viewer.groups import Group
from viewer.select import Selection, select
from viewer.table import make_tables
from viewer.tree import make_trees

KERNELS = [Group("matmul_kernel")]
SPANS = regular_profile(launches=4, ctas=4, warps=2, iterations=3)
MIXED, ALL_SUMS = with_sums(SPANS, [1, 2, 3]), with_sums(SPANS, [0, 1, 2, 3])


def shown(profile: Profile, folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    profile.save(folder / "t.json")
    assert main([str(folder / "t.json"), "--width", "160", *options]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("profile", [MIXED, ALL_SUMS])
@pytest.mark.parametrize("unit", ["ns", "cycles"])
def test_table_and_tree_are_those_of_spans(profile: Profile, unit: str) -> None:
    told, expected = (make_tables(each, unit, 0, KERNELS)[0] for each in (profile, SPANS))
    for name in ("launches", "ctas", "warps", "warp_time", "uncovered"):
        assert getattr(told, name) == getattr(expected, name), name
    rows = [{(row.scope, row.line): row for row in table.rows} for table in (told, expected)]
    for key, row in rows[1].items():
        for name in ("count", "total", "self", "mean", "max", "share"):
            assert getattr(rows[0][key], name) == pytest.approx(getattr(row, name)), (key, name)
        assert (rows[0][key].p50 is None) == (profile is ALL_SUMS)
    trees = (make_trees(each, KERNELS, unit, 0, lambda file, line: "")[0] for each in (profile, SPANS))
    nodes = [
        [(node.scope, node.kind, node.line, node.depth, node.count, node.total) for node in tree.nodes]
        for tree in trees
    ]
    assert nodes[0] == nodes[1]


def test_the_first_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(MIXED, tmp_path, capsys)
    assert "matmul_kernel on NVIDIA H200: 4 launches (1 kept spans, 3 sums), 16 CTAs" in text
    assert "Drawn from the launch that kept spans; 3 kept sums." in text
    text = shown(ALL_SUMS, tmp_path, capsys)
    assert "4 launches (0 kept spans, 4 sums)" in text
    assert "These launches kept sums and no spans: there is no timeline to draw." in text
    assert "No spans were recorded" not in text
    document = json.loads(shown(ALL_SUMS, tmp_path, capsys, "--json"))
    assert document["timeline"] is None
    assert document["header"]["sums"] == 4
    assert document["tables"][0]["rows"][0]["p99"] is None


def test_sums_stay_where_whole_variants_are_chosen() -> None:
    chosen = select(MIXED, Selection(kernel="matmul"))
    assert chosen.validate() == []
    assert len(chosen.sums) == len(MIXED.sums)
    assert chosen.summary().equals(MIXED.summary())
    one = select(MIXED, Selection(launch=0))
    assert one.validate() == []
    assert not len(one.sums)
    assert not len(select(MIXED, Selection(cta=1)).spreads)


def with_numbers() -> Profile:
    """A scope's two payloads, one of which has no number, and one of another variant."""
    place = {
        "kernel": "matmul_kernel",
        "trial": False,
        "scope": "dot",
        "kind": "op",
        "file": "k.py",
        "line": 9,
    }
    place |= {"call_path": "", "launches": 3}
    figures = [
        {
            "name": "k",
            "count": 1200,
            "nans": 0,
            "total": 6e3,
            "mean": 5.0,
            "least": -3.0,
            "greatest": 12345.678,
        },
        {"name": "gain", "count": 2, "nans": 1, "total": inf, "mean": inf, "least": 0.5, "greatest": inf},
        {"name": "none", "count": 0, "nans": 4, "total": 0.0, "mean": nan, "least": nan, "greatest": nan},
        {"name": "never", "count": 0, "nans": 0, "total": 0.0, "mean": nan, "least": nan, "greatest": nan},
        {"name": "other", "count": 1, "nans": 0, "total": 1.0, "mean": 1.0, "least": 1.0, "greatest": 1.0},
    ]
    rows = [{**place, "variant": int(each["name"] == "other"), **each} for each in figures]
    numbers = numbers_frame({name: [row[name] for row in rows] for name in rows[0]})
    return Profile(MIXED.df, MIXED.launches, MIXED.metadata, MIXED.sums, MIXED.spreads, numbers)


def test_numbers_stand_below_their_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = with_numbers()
    lines = [line.split() for line in shown(profile, tmp_path, capsys).splitlines()]
    at = lines.index(["scope", "line", "number", "count", "mean", "least", "greatest", "NaNs"])
    assert lines[at - 1] == ["matmul_kernel", "numbers,", "3", "launches", "that", "kept", "sums"]
    assert lines[at + 1 : at + 5] == [
        ["dot", "9", "k", "1,200", "5", "-3", "1.235e+04", "0"],
        ["dot", "9", "gain", "2", "inf", "0.5", "inf", "1"],
        ["dot", "9", "none", "0", "-", "-", "-", "4"],
        [],
    ]
    assert max(map(len, shown(profile, tmp_path, capsys, "--width", "40").splitlines()[1:])) <= 40
    cut = json.loads(shown(profile, tmp_path, capsys, "--json", "--top", "2"), parse_constant=pytest.fail)
    assert [row["greatest"] for row in cut["numbers"][0]["rows"]] == [12345.678, "inf"]
    assert cut["numbers"][0]["omitted"] == 1
    assert "kept sums" not in shown(SPANS, tmp_path, capsys)


def test_numbers_stay_where_whole_variants_are_chosen() -> None:
    profile = with_numbers()
    assert select(profile, Selection(kernel="matmul")).numbers["name"].tolist() == [
        "k", "gain", "none", "never"
    ]  # fmt: skip
    assert not len(select(profile, Selection(launch=1)).numbers)
