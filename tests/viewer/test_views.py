"""The data each view computes, the ranges of time that it draws, and how it is fitted into a terminal."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from profscope.analysis.findings import OF_THE_EMULATOR
from profscope.analysis.model.entries import FindingEntry, KernelFinding
from profscope.analysis.model.labels import Group
from profscope.analysis.scopes.table import make_tables
from profscope.analysis.scopes.tree import make_trees
from profscope.analysis.sources import source_lines
from profscope.errors import OptionError, TraceError
from profscope.profiles import Profile
from profscope.viewer.grid import Column, fit_middle, grid, heading, wrap
from profscope.viewer.header import render_header
from profscope.viewer.kernels import render_findings, render_kernels
from profscope.viewer.option_types import parse_zoom
from profscope.viewer.scopes import render_table, render_tree
from profscope.viewer.timeline import LABEL_WIDTH, Choice, choose_cta, make_timeline, render_timeline
from profscope.viewer.units import duration_text
from tests.support.examples import examples
from tests.support.models import groups, kernels, shown
from tests.support.one_warp import story
from tests.support.profiles import profiles, regular_profile
from tests.support.validation import validate

KERNELS = [Group("matmul_kernel")]


def chosen(profile: Profile) -> Choice:
    choice = choose_cta(profile.tables, groups(kernels(profile)))
    assert choice is not None
    return choice


def no_source(file: str, line: int) -> str:
    return ""


@pytest.fixture(scope="module")
def profile() -> Profile:
    return regular_profile(launches=2, ctas=8, warps=4, iterations=6)


def test_tree_is_in_program_order_with_its_depths(profile: Profile) -> None:
    tree = make_trees(profile.tables, KERNELS, "ns", 0, no_source)[0]
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
def test_tree_counts_every_row_once(profile: Profile) -> None:
    kernels = [Group(name) for name in profile.df["kernel"].unique()]
    trees = make_trees(profile.tables, kernels, "cycles", 0, no_source)
    assert sum(node.count for tree in trees for node in tree.nodes) == len(profile.df)
    total = sum(node.total for tree in trees for node in tree.nodes)
    assert total == profile.df["duration_cycles"].sum()


def test_default_choice_is_the_median_cta_of_the_heaviest_kernel(profile: Profile) -> None:
    choice = chosen(profile)
    end = profile.df["start_ns"] + profile.df["duration_ns"]
    ctas = (
        profile.df.assign(end=end)
        .groupby(["launch", "cta"])
        .agg(start=("start_ns", "min"), end=("end", "max"))
    )
    duration = ctas["end"] - ctas["start"]
    assert duration[choice.launch, choice.cta] == np.quantile(duration, 0.5, method="inverted_cdf")
    assert choice.candidates == 16


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


def draw(profile: Profile, cells: int, zoom: str | None = None, unit: str = "ns") -> list[tuple[str, str]]:
    timeline = make_timeline(profile, chosen(profile), unit, cells, parse_zoom(zoom) if zoom else None)
    return [(lane.scope, lane.cells) for lane in timeline.lanes]


def test_each_cell_shows_the_innermost_scope_of_its_time() -> None:
    assert validate(STORY.tables) == []
    assert draw(STORY, 10) == [("", ".llll-ddd-"), ("copy", "cccccc    "), ("go", "     g    ")]
    assert draw(STORY, 20)[0] == ("", "..llllllll--dddddd--")


def test_zoom_draws_a_part() -> None:
    assert draw(STORY, 10, zoom="20:40")[0] == ("", "--dddddd--")
    assert draw(STORY, 8, zoom="36:44")[0] == ("", "----    ")


def test_the_legend_explains_every_symbol_with_shares() -> None:
    timeline = make_timeline(STORY, chosen(STORY), "ns", 40, None)
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
@settings(max_examples=examples(15))
def test_any_profile_can_be_shown(profile: Profile) -> None:
    width = 80
    lines = render_header(shown(profile), width)
    for unit in ("ns", "cycles"):
        entries = kernels(profile)
        tables = make_tables(profile.tables, unit, 20, groups(entries))
        lines += render_kernels(entries, unit, width, 20)
        trees = make_trees(profile.tables, tables, unit, 20, no_source)
        lines += [line for table in tables for line in render_table(table, width)]
        lines += [line for tree in trees for line in render_tree(tree, width)]
        choice = choose_cta(profile.tables, groups(entries))
        assert (choice is None) == profile.df.empty
        if choice is not None:
            timeline = make_timeline(profile, choice, unit, width - LABEL_WIDTH, None)
            assert all(len(lane.cells) == width - LABEL_WIDTH for lane in timeline.lanes)
            drawn = {symbol for lane in timeline.lanes for symbol in lane.cells} - {" "}
            assert drawn <= {entry.symbol for entry in timeline.legend}
            lines += render_timeline(timeline, width)
    assert all("\n" not in line.plain and line.plain.isprintable() for line in lines)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "ns", "0ns"),
        (12.3456, "ns", "12.3ns"),
        (999.6, "ns", "1.00us"),
        (1.5e13, "ns", "15000s"),
        (3690, "cycles", "3.69k"),
        (250, "cycles", "250"),
    ],
)
def test_durations_have_three_digits_and_a_unit(value: float, unit: str, text: str) -> None:
    assert duration_text(value, unit) == text


def test_source_lines_are_shown_while_they_are_those_that_ran(tmp_path: Path) -> None:
    source, other = tmp_path / "kernel.py", tmp_path / "kernel.txt"
    source.write_text("first\n    x = tl.load(p)  # second\n")
    other.write_text("first\n")
    os.utime(source, (1000, 1000))
    os.utime(other, (1000, 1000))
    look_up = source_lines({}, 1001.0)
    assert look_up(str(source), 2) == "x = tl.load(p)  # second"
    assert look_up(str(source), 3) == look_up(str(source), 0) == look_up(str(tmp_path / "gone.py"), 1) == ""
    assert look_up(str(other), 1) == look_up("kernel.py", 2) == "", "only absolute paths of Python files"
    assert source_lines({}, 500.0)(str(source), 2) == "", "changed since"
    kept = {"sources": [{"name": "k", "file": str(source), "line": 2, "text": "    y = tl.load(p)"}]}
    look_up = source_lines(kept, 1001.0)
    assert look_up(str(source), 2) == "y = tl.load(p)", "what ran, whatever the file says today"
    assert look_up(str(source), 1) == "", "and nothing else of that file"


def test_loops_are_told_apart_without_colour() -> None:
    rows = [
        ("k", "kernel", 0, -1, 0, 80),
        ("loop L3", "loop", 1, 0, 10, 40),
        ("iteration", "iteration", 2, 1, 20, 40),
        ("loop L9", "loop", 1, 0, 40, 70),
        ("iteration", "iteration", 2, 3, 50, 60),
    ]
    profile = story(rows)
    assert draw(profile, 8) == [("", ".-::=:=.")]
    legend = make_timeline(profile, chosen(profile), "ns", 8, None).legend
    assert {entry.symbol: entry.scope for entry in legend if entry.kind == "loop"} == {
        "-": "loop L3",
        "=": "loop L9",
    }


def test_the_table_is_ordered_by_the_unit_shown() -> None:
    """On SMs of two clocks a scope may take more cycles than another and less time."""
    profile = story([("k", "kernel", 0, -1, 0, 70), ("a", "op", 1, 0, 0, 30), ("b", "op", 1, 0, 30, 70)])
    df = profile.df.assign(duration_cycles=[700, 600, 60])
    profile = Profile(df, profile.launches, profile.metadata)
    orders = {
        unit: [row.scope for row in make_tables(profile.tables, unit, 0, [Group("k")])[0].rows]
        for unit in ("ns", "cycles")
    }
    assert orders == {"ns": ["b", "a", "k"], "cycles": ["a", "b", "k"]}


def test_launches_without_a_time_are_counted() -> None:
    one = regular_profile(launches=1)
    launches = one.launches.assign(ctas=0, records=0, start_ns=0, end_ns=0)
    entries = kernels(Profile(one.df.iloc[:0], launches, one.metadata))
    lines = [line.plain for line in render_kernels(entries, "ns", 100, 0)]
    assert lines[2].split() == ["matmul_kernel", "1", "-", "0ns", *"----"]
    assert lines[-1] == "matmul_kernel: 1 launch without records or without an end: no time known."


def test_findings_say_what_is_alike_once() -> None:
    """The advice of several, and what the emulator's first line says of all."""
    told = [f"why {at}{OF_THE_EMULATOR}" for at in range(6)]
    (kernel,) = kernels(STORY)
    rows = [
        KernelFinding(
            kernel,
            FindingEntry(
                "id",
                "idle-sms",
                "k.py",
                at,
                why,
                {},
                "make more programs",
                80.0,
                64.0,
                88.0,
                50.0,
                "high",
                "modelled",
            ),
        )
        for at, why in enumerate(told)
    ]
    text = "\n".join(line.plain for line in render_findings(rows, 100))
    assert text.count("Try: make more programs.") == 1
    assert text.count("cost model") == 0
    assert "80%  idle-sms in 6 places (64 to 88 %, 50 % of all kernels' time, confidence: high)" in text
    assert [f"why {at}\n" in text for at in range(6)] == [True] * 3 + [False] * 3
    assert "3 more; --show findings --top 0 has them" in text
    whole = "\n".join(line.plain for line in render_findings(rows, 100, 0))
    assert all(f"why {at}\n" in whole for at in range(6))


# Ranges of time as --zoom takes them.

LONG = 10**10


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("1.5us:3us", "ns", (1500, 3000)),
        ("100:2ms", "ns", (100, 2_000_000)),
        (" 1us : 2us ", "ns", (1000, 2000)),
        ("900:2k", "cycles", (900, 2000)),
        (".5k:1M", "cycles", (500, 1_000_000)),
        ("900:", "ns", (900, LONG)),
        (":2us", "ns", (0, 2000)),
        ("1us:2us", "cycles", (2000, 4000)),
        ("1k:2k", "ns", (500, 1000)),
    ],
)
def test_ranges(text: str, unit: str, expected: tuple[int, int]) -> None:
    assert parse_zoom(text).within(LONG, unit, 2.0) == expected


@pytest.mark.parametrize("text", ["", ":", "1us", "1us:2us:3us", "a:b", "1kk:2k", "-1:2", "1x:"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(OptionError, match=r"not a range of time: .*; write it like 1us:2us"):
        parse_zoom(text)


@pytest.mark.parametrize("text", ["2us:1us", "5:5"])
def test_a_range_ends_after_its_start(text: str) -> None:
    with pytest.raises(OptionError, match="the end is before the start"):
        parse_zoom(text)


def test_a_range_behind_the_end() -> None:
    with pytest.raises(TraceError, match=r"--zoom begins at 90.0k cycles; the CTA takes 12.3k cycles"):
        parse_zoom("90k:").within(12_300, "cycles", 1.0)


# Text wrapped in terminal cells, and columns that give way.


def test_lines_end_between_parts() -> None:
    assert wrap(["a 1", "b 22", "c"], 11, ", ") == ["a 1, b 22,", "c"]
    assert wrap(["a 1", "b 22", "c"], 9, ", ") == ["a 1,", "b 22, c"]
    assert wrap(["name 1", "name 2"], 20, "  ") == ["name 1  name 2"]
    assert wrap(["abcdefg"], 3) == ["abc", "def", "g"]
    assert wrap([], 3) == []


@given(
    st.lists(st.text(alphabet="ab 中é", max_size=12), max_size=6),
    st.integers(2, 20),
    st.sampled_from([" ", ", ", "  "]),
)
def test_wrapped_lines_fit_and_lose_nothing(parts: list[str], width: int, separator: str) -> None:
    lines = wrap(parts, width, separator)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(separator.join(parts).split())


COLUMNS = [Column("name", "name"), Column("a", spare=2), Column("b"), Column("c", spare=1)]
ROW = ["kernel_of_a_long_name", "1234", "5678", "9012"]


def drawn(width: int) -> list[str]:
    return [line.plain for line in grid(COLUMNS, [ROW], [""], width)]


def test_columns_are_left_out_before_names_are_cut_short() -> None:
    assert drawn(60)[1] == "kernel_of_a_long_name  1234  5678  9012"
    assert drawn(39)[1] == "kernel_of_a_long_name  1234  5678  9012"
    assert drawn(38)[1] == "kernel_of_a_long_name 1234 5678 9012"
    assert drawn(34)[1] == "kernel_of_a_long_n… 1234 5678 9012"
    assert drawn(30)[1] == "kernel_of_a_long_na… 5678 9012"
    assert drawn(22)[1] == "kernel_of_a_long… 5678"
    assert drawn(16)[1] == "kernel_of_… 5678"
    assert [len(line.split()) for line in drawn(22)] == [2, 2], "the head as the rows"


def test_a_heading_goes_on_below_where_the_line_is_short() -> None:
    parts = ["1 launch", "16 CTAs", "3.5us of warp time"]
    assert [line.plain for line in heading("k", parts, 50)] == ["k  1 launch, 16 CTAs, 3.5us of warp time"]
    short = [line.plain for line in heading("k", parts, 24)]
    assert short == ["k", "  1 launch, 16 CTAs,", "  3.5us of warp time"]
    assert [line.plain for line in heading("k" * 50, ["x"], 20)] == ["k" * 19 + "…", "  x"]


def test_kernels_that_begin_alike_look_different() -> None:
    """As those of torch.compile do."""
    names = [f"triton_per_fused_add_native_layer_norm_{number}" for number in range(12)]
    columns = [Column("kernel", "kernel"), Column("line")]
    lines = grid(columns, [[name, "7"] for name in names], [""] * 12, 30)
    assert len({line.plain for line in lines}) == 13
    assert lines[2].plain == "triton_per_f…layer_norm_1    7"
    assert grid(columns, [[names[3], "7"]], [""], 30)[1].plain == "triton_per_fused_add_nat…    7"
    wide = fit_middle("矩阵乘法矩阵乘法kernel_1", 11)
    assert wide.endswith("el_1")
    assert cell_len(wide) <= 11
