"""The data each view computes, before anything is drawn."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from rich.cells import cell_len

from profscope.errors import OptionError, TraceError
from profscope.profiles import Profile
from tests.support.profiles import profile_metadata, profiles, regular_profile
from viewer.cells import fit, fit_end
from viewer.drawing import LABEL_WIDTH, render_timeline
from viewer.header import make_header, render_header
from viewer.kernels import make_kernels, render_kernels
from viewer.select import choose_cta
from viewer.source import source_lines
from viewer.table import make_tables, render_table
from viewer.timeline import make_timeline
from viewer.tree import make_trees, render_tree
from viewer.units import duration_text, parse_range, printable, source_text


def no_source(file: str, line: int) -> str:
    return ""


@pytest.fixture(scope="module")
def profile() -> Profile:
    return regular_profile(launches=2, ctas=8, warps=4, iterations=6)


def test_header_counts(profile: Profile) -> None:
    header = make_header(profile, "trace.json")
    assert (header.kernels, header.launches, header.ctas, header.spans) == (1, 2, 16, len(profile.df))
    assert header.clock_ghz == (1.98, 1.98)
    assert header.device == "NVIDIA H200, sm_90, 132 SMs"


def test_table_agrees_with_the_summary(profile: Profile) -> None:
    summary = profile.summary()
    for unit in ("ns", "cycles"):
        table = make_tables(profile, unit, top=0)[0]
        roots = profile.df[profile.df["depth"] == 0]
        assert table.warp_time == roots[f"duration_{unit}"].sum()
        assert (table.launches, table.ctas, table.warps) == (2, 16, 64)
        assert [row.scope for row in table.rows] == summary["scope"].tolist()
        assert [row.self for row in table.rows] == summary[f"self_{unit}"].tolist()
        assert sum(row.share or 0 for row in table.rows) == pytest.approx(1)


def test_top_leaves_out_the_lightest(profile: Profile) -> None:
    table = make_tables(profile, "ns", top=2)[0]
    assert [row.scope for row in table.rows] == ["wait", "dot"]
    assert table.omitted == 6
    assert "6 more scopes" in render_table(table, 80)[-1].plain


def test_tree_is_in_program_order_with_its_depths(profile: Profile) -> None:
    tree = make_trees(profile, ["matmul_kernel"], "ns", 0, no_source)[0]
    assert [(node.scope, node.depth) for node in tree.nodes] == [
        ("matmul_kernel", 0),
        ("loop L22", 1),
        ("iteration", 2),
        ("load A", 3),
        ("load B", 3),
        ("wait", 3),
        ("dot", 3),
        ("store", 1),
    ]
    assert tree.nodes[0].share == 1.0
    drawn = [line.plain.split("matmul.py")[0].rstrip() for line in render_tree(tree, 100)[1:]]
    assert drawn[1:4] == ["├ loop L22", "│ └ iteration", "│   ├ load A"]
    assert drawn[-2:] == ["│   └ dot", "└ store"]


@given(profiles(max_actions=8))
@settings(max_examples=40)
def test_tree_counts_every_row_once(profile: Profile) -> None:
    kernels = list(profile.df["kernel"].unique())
    trees = make_trees(profile, kernels, "cycles", 0, no_source)
    assert sum(node.count for tree in trees for node in tree.nodes) == len(profile.df)
    total = sum(node.total for tree in trees for node in tree.nodes)
    assert total == profile.df["duration_cycles"].sum()


def test_default_choice_is_the_median_cta_of_the_heaviest_kernel(profile: Profile) -> None:
    choice = choose_cta(profile.df, None, None, None, None)
    end = profile.df["start_ns"] + profile.df["duration_ns"]
    ctas = (
        profile.df.assign(end=end)
        .groupby(["launch", "cta"])
        .agg(start=("start_ns", "min"), end=("end", "max"))
    )
    duration = ctas["end"] - ctas["start"]
    assert duration[choice.launch, choice.cta] == np.quantile(duration, 0.5, method="inverted_cdf")
    assert choice.candidates == 16


def test_choices_narrow_down(profile: Profile) -> None:
    assert choose_cta(profile.df, 1, 3, None, None).candidates == 1
    by_sm = choose_cta(profile.df, 0, None, 2, None)
    assert by_sm.candidates == 2
    assert by_sm.cta in (2, 6)
    with pytest.raises(TraceError, match=r"no spans for launch 7; there are: 0-1"):
        choose_cta(profile.df, 7, None, None, None)


def story(rows: list[tuple[str, str, int, int, int, int]]) -> Profile:
    """One warp's profile from (scope, kind, depth, parent, start, end) in ns, at one cycle a ns."""
    from profscope.schema import spans_frame
    from tests.support.profiles import launch_table

    scope, kind, depth, parent, start, end = zip(*rows, strict=True)
    duration = [b - a for a, b in zip(start, end, strict=True)]
    constant = {
        "kernel": "k",
        "file": "/a/k.py",
        "launch": 0,
        "cta": 0,
        "sm": 5,
        "warp": 0,
        "line": 7,
        "iteration": -1,
    }
    columns = {name: [value] * len(rows) for name, value in constant.items()}
    columns |= {"scope": scope, "kind": kind, "depth": depth, "parent": parent}  # type: ignore[dict-item]
    columns |= {"start_cycle": start, "start_ns": start, "duration_cycles": duration, "duration_ns": duration}  # type: ignore[dict-item]
    return Profile(spans_frame(columns), launch_table([0], ["k"]), profile_metadata())


STORY = story(
    [
        ("k", "kernel", 0, -1, 100, 140),
        ("copy", "async", 1, 0, 102, 122),
        ("load", "op", 1, 0, 104, 120),
        ("go", "mark", 1, 0, 120, 120),
        ("loop", "loop", 1, 0, 120, 140),
        ("dot", "op", 2, 4, 124, 136),
    ]
)


def draw(
    profile: Profile, cells: int, zoom: tuple[int, int] | None = None, unit: str = "ns"
) -> list[tuple[str, str]]:
    timeline = make_timeline(profile, choose_cta(profile.df, None, None, None, None), unit, cells, None, zoom)
    return [(lane.scope, lane.cells) for lane in timeline.lanes]


def test_each_cell_shows_the_innermost_scope_of_its_time() -> None:
    assert STORY.validate() == []
    assert draw(STORY, 10) == [("", ".llll-ddd-"), ("copy", "cccccc    "), ("go", "     g    ")]
    assert draw(STORY, 20)[0] == ("", "..llllllll--dddddd--")


def test_zoom_draws_a_part() -> None:
    assert draw(STORY, 10, zoom=(20, 40))[0] == ("", "--dddddd--")
    assert draw(STORY, 8, zoom=(36, 44))[0] == ("", "----    ")


def test_the_legend_explains_every_symbol_with_shares() -> None:
    choice = choose_cta(STORY.df, None, None, None, None)
    timeline = make_timeline(STORY, choice, "ns", 40, None, None)
    assert (timeline.sm, timeline.duration, timeline.begin, timeline.end) == (5, 40, 0, 40)
    shares = {entry.symbol: (entry.scope, entry.share) for entry in timeline.legend}
    assert shares == {
        "l": ("load", 0.4),
        "d": ("dot", 0.3),
        "-": ("loop", 0.2),
        ".": ("k", 0.1),
        "c": ("copy", None),
        "g": ("go", None),
    }


@given(profiles(max_actions=10))
@settings(max_examples=60)
def test_any_profile_can_be_shown(profile: Profile) -> None:
    width = 80
    lines = render_header(make_header(profile, "t.json"), width)
    for unit in ("ns", "cycles"):
        tables = make_tables(profile, unit, 20)
        trees = make_trees(profile, [table.kernel for table in tables], unit, 20, no_source)
        lines += [line for table in tables for line in render_table(table, width)]
        lines += [line for tree in trees for line in render_tree(tree, width)]
        if not profile.df.empty:
            choice = choose_cta(profile.df, None, None, None, None)
            timeline = make_timeline(profile, choice, unit, width - LABEL_WIDTH, None, None)
            assert all(len(lane.cells) == width - LABEL_WIDTH for lane in timeline.lanes)
            drawn = {symbol for lane in timeline.lanes for symbol in lane.cells} - {" "}
            assert drawn <= {entry.symbol for entry in timeline.legend}
            lines += render_timeline(timeline, width)
    lines += render_kernels(make_kernels(profile, "ns"), width, 20)
    assert all("\n" not in line.plain and line.plain.isprintable() for line in lines)


def test_kernels_by_launch_time() -> None:
    profile = regular_profile(launches=3, ctas=2)
    launches = profile.launches.assign(kernel=["a", "b", "a"], start_ns=[0, 0, 100], end_ns=[10, 40, 130])
    rows = make_kernels(Profile(profile.df, launches), "ns")
    assert [(row.kernel, row.launches, row.total, row.mean, row.share) for row in rows] == [
        ("a", 2, 40, 20.0, 0.5),
        ("b", 1, 40, 40.0, 0.5),
    ]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "ns", "0ns"),
        (7, "ns", "7ns"),
        (12.3456, "ns", "12.3ns"),
        (999, "ns", "999ns"),
        (999.6, "ns", "1.00us"),
        (1000, "ns", "1.00us"),
        (12_345, "ns", "12.3us"),
        (999_500, "ns", "1.00ms"),
        (1.5e9, "ns", "1.50s"),
        (1.5e13, "ns", "15000s"),
        (3690, "cycles", "3.69k"),
        (250, "cycles", "250"),
    ],
)
def test_durations_have_three_digits_and_a_unit(value: float, unit: str, text: str) -> None:
    assert duration_text(value, unit) == text


def test_ranges_of_time() -> None:
    assert parse_range("1.5us:3us", "ns") == (1500, 3000)
    assert parse_range("100:2ms", "ns") == (100, 2_000_000)
    assert parse_range("900:2k", "cycles") == (900, 2000)
    for wrong in ("1us", "2us:1us", "1us:2us:3us", "a:b", "1k:2k", ":"):
        with pytest.raises(OptionError, match="not a range of time in ns"):
            parse_range(wrong, "ns")


def test_texts_are_fitted_in_terminal_cells() -> None:
    assert fit("abcdef", 6) == "abcdef"
    assert fit("abcdef", 4) == "abc…"
    assert cell_len(fit("中文中文", 5)) <= 5
    assert fit_end("abcdef", 4) == "…def"
    assert printable("a\x1b\n\u200bé") == "a\\x1b\\n\\u200bé"
    assert source_text("/a/b/k.py", 3) == "k.py:3"
    assert source_text("", 0) == ""


def test_kernels_of_several_names_are_kept_apart() -> None:
    one = regular_profile(launches=2, ctas=2)
    df = one.df.copy()
    df["kernel"] = pd.Categorical(np.where(df["launch"] == 0, "a", "b"))
    tables = make_tables(Profile(df, one.launches), "ns", 0)
    assert sorted(table.kernel for table in tables) == ["a", "b"]
    assert all(len(table.rows) == 8 for table in tables)


def test_source_lines_are_shown_while_they_are_those_that_ran(tmp_path: Path) -> None:
    source, trace = tmp_path / "kernel.py", tmp_path / "trace.json"
    source.write_text("first\n    x = tl.load(p)  # second\n")
    trace.write_text("")
    os.utime(source, (1000, 1000))
    look_up = source_lines(trace)
    assert look_up(str(source), 2) == "x = tl.load(p)  # second"
    assert look_up(str(source), 3) == look_up(str(source), 0) == look_up(str(tmp_path / "gone.py"), 1) == ""
    assert look_up(str(trace), 1) == look_up("kernel.py", 2) == "", "only absolute paths of Python files"
    os.utime(trace, (500, 500))
    assert source_lines(trace)(str(source), 2) == "", "changed since"


def test_the_tree_shows_source_lines() -> None:
    tree = make_trees(STORY, ["k"], "ns", 0, lambda file, line: f"{file} has {line}")[0]
    assert tree.nodes[0].text == "/a/k.py has 7"
    assert all(line.plain.endswith("/a/k.py has 7") for line in render_tree(tree, 100)[1:])
    assert all(len(line.plain) <= 60 for line in render_tree(tree, 60))
