"""What is shown of profiles some of whose launches kept sums."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profscope.profiles import Profile
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
    assert "t.json: 4 launches (1 kept spans, 3 sums), 1 kernel" in text
    assert "Drawn from the 1 that kept spans; 3 kept sums." in text
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
