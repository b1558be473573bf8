"""The data each view computes, before anything is drawn."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from rich.cells import cell_len

from profscope.analysis.findings import OF_THE_EMULATOR
from profscope.analysis.model.entries import FindingEntry, KernelFinding
from profscope.analysis.model.labels import Group
from profscope.analysis.scopes.table import make_tables
from profscope.analysis.scopes.tree import make_trees
from profscope.analysis.sources import source_lines
from profscope.profiles import Profile
from profscope.traces.merging import Part, merged
from profscope.viewer.grid import fit, fit_end
from profscope.viewer.header import render_header
from profscope.viewer.kernels import render_findings, render_kernels
from profscope.viewer.option_types import parse_zoom
from profscope.viewer.scopes import render_table, render_tree, render_uncovered
from profscope.viewer.timeline import LABEL_WIDTH, Choice, choose_cta, make_timeline, render_timeline
from profscope.viewer.units import duration_text, printable, source_text
from tests.support.examples import examples
from tests.support.models import groups, kernels, shown
from tests.support.one_warp import story
from tests.support.profiles import profile_metadata, profiles, regular_profile
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


def test_table_agrees_with_the_summary(profile: Profile) -> None:
    summary = profile.summary()
    for unit in ("ns", "cycles"):
        table = make_tables(profile.tables, unit, 0, KERNELS)[0]
        roots = profile.df[profile.df["depth"] == 0]
        assert table.warp_time == roots[f"duration_{unit}"].sum()
        assert (table.launches, table.ctas, table.warps) == (2, 16, 64)
        assert {row.scope: row.self for row in table.rows} == dict(
            zip(summary["scope"], summary[f"self_{unit}"], strict=True)
        )
        assert sum(row.share or 0 for row in table.rows) == pytest.approx(1)


def test_top_leaves_out_the_lightest(profile: Profile) -> None:
    table = make_tables(profile.tables, "ns", 2, KERNELS)[0]
    assert [row.scope for row in table.rows] == ["wait", "dot"]
    assert table.omitted == 6
    assert "6 more scopes" in render_table(table, 80)[-1].plain


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


def test_kernels_by_launch_time() -> None:
    profile = regular_profile(launches=3, ctas=2)
    launches = profile.launches.assign(kernel=["a", "b", "a"], start_ns=[0, 0, 100], end_ns=[10, 40, 130])
    rows = kernels(Profile(profile.df, launches))
    times = [row.time for row in rows if row.time is not None]
    assert [(row.kernel, row.launches, row.share) for row in rows] == [("a", 2, 0.5), ("b", 1, 0.5)]
    assert [(time.total, time.median, time.p25) for time in times] == [(40, 20.0, 15.0), (40, 40.0, 40.0)]


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
    prof = Profile(df, one.launches.assign(kernel=["a", "b"]))
    tables = make_tables(prof.tables, "ns", 0, [Group("b"), Group("a"), Group("c")])
    assert [table.kernel for table in tables] == ["b", "a"]
    assert all(len(table.rows) == 8 for table in tables)


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


def test_the_tree_shows_source_lines() -> None:
    tree = make_trees(STORY.tables, [Group("k")], "ns", 0, lambda file, line: f"{file} has {line}")[0]
    assert tree.nodes[0].text == "/a/k.py has 7"
    lines = render_tree(tree, 100)
    assert all(line.plain.endswith("/a/k.py has 7") for line in lines[1 : len(tree.nodes) + 1])
    assert all(len(line.plain) <= 60 for line in render_tree(tree, 60))


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


def test_lanes_of_asynchronous_work_are_named_by_what_tells_them_apart() -> None:
    rows = [("k", "kernel", 0, -1, 0, 80), ("async copy k in flight", "async", 1, 0, 10, 40)]
    rows.append(("async copy v in flight", "async", 1, 0, 20, 60))
    profile = story(rows)
    timeline = make_timeline(profile, chosen(profile), "ns", 8, None)
    labels = [line.plain[:LABEL_WIDTH].rstrip() for line in render_timeline(timeline, 18)]
    assert labels[-6:-3] == ["warp 0", "  copy k", "  copy v"]


def test_more_frames_than_symbols_share_the_last() -> None:
    rows = [("k", "kernel", 0, -1, 0, 400)]
    rows += [(f"loop L{at}", "loop", 1, 0, 10 * at, 10 * at + 10) for at in range(40)]
    drawn = draw(story(rows), 40)[0][1]
    assert drawn == "-=~+*#%&@$" + "?" * 30


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


def test_shares_and_launches_of_an_emulated_profile_are_of_its_cycles() -> None:
    """Its ns are what a coarse timer makes of them."""
    profile = story([("k", "kernel", 0, -1, 0, 70), ("a", "op", 1, 0, 0, 30), ("b", "op", 1, 0, 30, 70)])
    df = profile.df.assign(duration_cycles=[700, 600, 60], line=[7, 8, 9])
    launches = profile.launches.assign(end_ns=profile.launches["start_ns"] + 64, clock_ghz=10.0)
    profile = Profile(df, launches, profile_metadata("emulator"))
    (entry,) = kernels(profile)
    assert entry.time is not None
    assert entry.time.total == 700
    shares = {"a": 600 / 700, "b": 60 / 700, "k": 40 / 700}
    summary = profile.summary()
    assert summary["scope"].tolist() == ["a", "b", "k"]
    assert dict(zip(summary["scope"], summary["share"], strict=True)) == pytest.approx(shares)
    assert sorted(profile.lines()["self_share"]) == pytest.approx(sorted(shares.values()))


def test_lines_have_their_kernels_in_the_order_of_all_views() -> None:
    """By the time of their launches, not of their warps."""
    one, several = regular_profile(launches=1, ctas=1), regular_profile(launches=1, ctas=8)
    tables = [
        replace(
            part.tables,
            df=part.df.assign(kernel=pd.Categorical([name] * len(part.df))),
            launches=part.launches.assign(kernel=name),
        )
        for part, name in ((one, "of long launches"), (several, "of many warps"))
    ]
    both = merged([Part(part, "", rank) for rank, part in enumerate(tables)])
    launches = both.launches.assign(end_ns=both.launches["start_ns"] + [10**9, 10**6])
    profile = Profile.of(replace(both, launches=launches))
    assert profile.summary()["kernel"].iloc[0] == "of many warps"
    order = ["of long launches", "of many warps"]
    assert list(dict.fromkeys(profile.lines()["kernel"])) == order
    assert [row.kernel for row in kernels(profile)] == order


def advised(options: dict[str, object], share: int) -> str:
    """What the table of a kernel says below its rows, of which an op takes so many percent."""
    rows = [("k", "kernel", 0, -1, 0, 100), ("load", "op", 1, 0, 0, share)]
    profile = story(rows)
    profile = Profile(profile.df, profile.launches, profile_metadata(options=options))
    lines = render_uncovered(make_tables(profile.tables, "ns", 0, [Group("k")])[0], 300)
    return " ".join(line.plain for line in lines)


def test_a_kernel_that_is_mostly_in_no_span_says_what_would_show_more() -> None:
    default = {"instrument": "default", "measure": "issue"}
    assert advised(default, 9) == (
        "91.0% of the warp time is in no op's span; `profscope run --instrument heavy` adds reductions, "
        "barriers, layout conversions, shared memory and copies, `profscope run --measure latency` ends "
        "spans on loads with the arrival of their data, "
        "`profscope run --instrument 'heavy,op-spans{classes=math;convert;elementwise}'` adds arithmetic."
    )
    assert "--instrument default` records loads" in advised({"instrument": "light", "measure": "issue"}, 9)
    assert "--instrument heavy`" not in advised({"instrument": "heavy", "measure": "issue"}, 9)
    latency = advised({"instrument": "heavy", "measure": "latency"}, 9)
    assert latency.endswith(
        "; `profscope run --instrument 'heavy,op-spans{classes=math;convert;elementwise}'` adds arithmetic."
    )
    assert "arithmetic has spans" in advised(
        {"instrument": ["op-spans{classes=elementwise}"], "measure": "latency"}, 9
    )
    assert advised(default, 60) == "", "most of it is in the op"
    assert advised({}, 9) == "", "another tool's trace, or a profile of unknown options"


def test_time_that_a_loop_keeps_for_itself_is_in_no_ops_span() -> None:
    table = make_tables(STORY.tables, "ns", 0, [Group("k")])[0]
    assert table.uncovered == pytest.approx(0.3), "4 of the kernel and 8 of the loop, of 40"


def test_ctas_that_are_no_sample_are_not_said_to_be_scaled_up() -> None:
    profile = regular_profile(launches=1, ctas=4)
    launches = profile.launches.assign(grid_x=16)
    titles = []
    for sample in (True, False):
        metadata = profile_metadata(kernels={"matmul_kernel": {"recorded": {"sample": sample}}})
        table = make_tables(Profile(profile.df, launches, metadata).tables, "ns", 0, KERNELS)[0]
        titles.append(" ".join(line.plain for line in render_table(table, 200)[:1]))
    assert titles[0].endswith(", scaled up from 25.0% of its CTAs")
    assert titles[1].endswith(" of warp time, 25.0% of its CTAs")


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
