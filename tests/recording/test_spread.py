"""Launches of which one CTA in many records: do their totals stand for a grid whose columns differ?"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

import profscope
from profscope import Profile
from profscope.analysis.spans.rows import self_times
from profscope.decoding.about import most_unseen
from profscope.instrument_passes.selection import ADDRESS_BITS, TURNS, Selection
from tests.kernels.cases import cases
from tests.support.quick import quick
from tests.support.sessions import session
from tests.support.validation import validate

GRIDS = [(16, 64), (128, 3)]


@triton.jit
def columns_kernel(out_ptr, columns, BLOCK: tl.constexpr):  # noqa: N803
    """Every eighth column has one step more than there are columns, the others as many as their number."""
    column = tl.program_id(0)
    steps = tl.where(column % 8 == 0, columns + 1, column)
    total = tl.zeros([BLOCK], dtype=tl.int32)
    for step in range(steps):
        total += step
        tl.store(out_ptr + column * BLOCK + tl.arange(0, BLOCK), total)


def steps_of(grid: tuple[int, ...]) -> int:
    """Of all CTAs together."""
    columns = np.arange(grid[0])
    each = np.where(columns % 8 == 0, grid[0] + 1, columns)
    return int(each.sum()) * int(np.prod(grid[1:]))


@functools.cache
def recorded(grid: tuple[int, ...], ctas: int) -> Profile:
    with session(instrument="heavy", ctas=ctas) as prof:
        columns_kernel[grid](torch.zeros(grid[0] * 32, dtype=torch.int32), grid[0], BLOCK=32, num_warps=1)
    assert validate(prof.profile.tables) == []
    return prof.profile


def figures(profile: Profile) -> pd.DataFrame:
    return profile.summary().set_index(["kind", "scope"])[["count", "total_cycles"]]


@pytest.mark.parametrize("grid", GRIDS)
def test_totals_of_one_cta_in_sixteen_stand_for_those_of_all(grid: tuple[int, ...]) -> None:
    every, some = (figures(recorded(grid, ctas)) for ctas in (1, 16))
    stores = every.index[[kind == "op" for kind, _ in every.index]]
    assert every.loc[stores, "count"].eq(steps_of(grid)).all()
    assert set(some.index) == set(every.index)  # some scopes take as long as others
    ratio = (some / every).drop("kernel", level="kind")  # whose span has its binary's prologue in it
    assert ratio.min().min() > 0.8
    assert ratio.max().max() < 1.25


def turn_flips(turn: int, stride_log2: int) -> int:
    """What the turn of a launch, as `TURNS` has it, flips: its upper s bits, as the kernel works them out."""
    return turn >> ADDRESS_BITS << ADDRESS_BITS - 32 >> 32 - stride_log2


@given(ctas=st.integers(1, 1 << 20), stride_log2=st.integers(0, 31), turn=st.sampled_from(TURNS))
def test_each_area_has_a_cta_of_its_own_and_only_the_last_may_have_none(
    ctas: int, stride_log2: int, turn: int
) -> None:
    chosen, flips = Selection(), turn_flips(turn, stride_log2)
    area = np.arange(chosen.areas(ctas, stride_log2))
    ids = chosen.cta(area, stride_log2, flips)
    assert (ids >> stride_log2 == area).all()
    assert (ids[:-1] < ctas).all()
    assert chosen.cta(len(area), stride_log2, flips) >= ctas
    assert (chosen.flips(area, ids, stride_log2) == flips).all()
    assert turn or chosen.cta(0, stride_log2, flips) == 0


@given(ctas=st.integers(1, 5000), stride_log2=st.integers(0, 7), first=st.integers(0, 127))
def test_each_cta_records_once_in_as_many_launches_as_it_is_one_of(
    ctas: int, stride_log2: int, first: int
) -> None:
    chosen, launches = Selection(), 1 << stride_log2
    times = np.zeros(ctas, np.int64)
    for launch in range(first, first + launches):
        flips = turn_flips(TURNS[launch % len(TURNS)], stride_log2)
        ids = chosen.cta(np.arange(chosen.areas(ctas, stride_log2)), stride_log2, flips)
        times[ids[ids < ctas]] += 1
    assert (times == 1).all()


@given(ctas=st.integers(1, 1 << 31), wanted=st.integers(0, 31))
def test_at_least_eight_ctas_record_or_all(ctas: int, wanted: int) -> None:
    stride_log2 = Selection().stride_log2(ctas, wanted)
    assert stride_log2 <= wanted
    assert ctas >> stride_log2 >= min(8, ctas)
    assert stride_log2 == wanted or ctas >> stride_log2 + 1 < 8  # and no more than it takes
    assert Selection((3,)).stride_log2(ctas, wanted) == wanted


@pytest.mark.parametrize(
    ("grid", "one_in", "stride"),
    [((1,), 64, 1), ((15,), 64, 1), ((101,), 4, 4), ((5, 3, 4), 64, 4)],
)
def test_other_ctas_record_in_each_launch(grid: tuple[int, ...], one_in: int, stride: int) -> None:
    total = int(np.prod(grid))
    with session(instrument="light", ctas=one_in) as prof:
        for _ in range(stride):
            one_heavy_kernel[grid](torch.zeros(total * 32, dtype=torch.int32), 0, 1, 1, BLOCK=32, num_warps=1)
    assert validate(prof.profile.tables) == []
    assert (prof.launches["unfinished"] == 0).all()
    assert set(prof.launches["ctas"]) <= {total // stride, -(-total // stride)}
    assert prof.ctas["cta"].tolist() == [*range(total)] * stride
    assert sorted(prof.ctas["cta"][prof.ctas["recorded"]]) == [*range(total)]
    assert (prof.summary().query("kind == 'kernel'")["count"] == stride * total).all()


@pytest.mark.parametrize("most", [64, 256])
@pytest.mark.parametrize("columns", [2, 3, 8, 12, 16, 64, 100, 256, 1024])
def test_ctas_are_spread_over_columns_as_over_rows(columns: int, most: int) -> None:
    for rows in (4096 // columns, 65536 // columns):
        stride_log2 = max(0, (-(-columns * rows // most) - 1).bit_length())
        chosen = Selection()
        ids = chosen.cta(np.arange(chosen.areas(columns * rows, stride_log2)), stride_log2)
        for place, count in ((ids % columns, columns), (ids // columns, rows)):
            assert place.mean() == pytest.approx((count - 1) / 2, abs=0.05 * count)


_STANDARD_ERROR = re.compile(r"totals have a standard error (?:of|below) ([0-9.]+)%")


def note_of(profile: Profile) -> str:
    (note,) = (note for note in profile.metadata["notes"] if "CTAs were recorded" in note)
    return note


def test_a_note_says_how_far_off_the_totals_are() -> None:
    profile = recorded((64, 16), 16)  # CTAs that last far longer than what their records do first
    note = note_of(profile)
    assert note.startswith("columns_kernel: 64 of 1024 CTAs were recorded, spread over the grid; ")
    (error,) = _STANDARD_ERROR.findall(note)
    cycles = profile.df.query("kind == 'kernel'")["duration_cycles"]
    expected = cycles.std(ddof=1) / cycles.mean() * np.sqrt((1 - 64 / 1024) / 64)
    assert float(error) / 100 == pytest.approx(expected, rel=0.1)


def expected_error(profile: Profile, of_cta: pd.Series[Any]) -> float:
    """The standard error of a sum over all CTAs of all launches. of_cta: by launch and CTA, what it adds."""
    variance = 0.0
    for row in profile.launches.itertuples():
        grid, some = row.grid_x * row.grid_y * row.grid_z, of_cta[row.launch]
        assert len(some) == row.ctas
        variance += grid**2 * (1 - row.ctas / grid) * some.var(ddof=1) / row.ctas
    return math.sqrt(variance)


def shifted(profile: Profile, spans: float, warps: float) -> float:
    """How far records may have shifted a sum of spans, as a standard deviation, in cycles of the emulator.
    warps: of these spans, those that are whole warps."""
    clock = profile.metadata["clock"]
    record = 2 * clock["read_cycles"] + clock["row_cycles"]
    return (spans + 5 * warps) * record / math.sqrt(12)


def test_the_summary_and_the_lines_say_the_standard_error() -> None:
    with session(instrument="heavy", ctas=16) as prof:
        for grid in ((16, 64), (128, 3), (16, 64)):
            out = torch.zeros(grid[0] * 32, dtype=torch.int32)
            columns_kernel[grid](out, grid[0], BLOCK=32, num_warps=1)
    table = prof.summary()
    df = prof.df.assign(own=self_times(prof.df, "corrected_cycles"))
    every = prof.ctas[prof.ctas["recorded"]].set_index(["launch", "cta"]).index
    for row in table.itertuples():
        spans = df[(df["scope"] == row.scope) & (df["kind"] == row.kind)]
        own = spans.groupby(["launch", "cta"])["own"].sum()
        error = expected_error(prof.profile, own.reindex(every, fill_value=0))
        error = math.hypot(error, shifted(prof.profile, row.count, row.count * (row.kind == "kernel")))
        assert row.self_error_pct == pytest.approx(100 * error / row.self_cycles, rel=1e-6)
    of_line = df.groupby(["line", "launch", "cta"])["own"].sum()
    lines = prof.lines()
    for row in lines[lines["self_share"] > 0].itertuples():  # of others instructions are counted alone
        error = expected_error(prof.profile, of_line[row.line].reindex(every, fill_value=0))
        own = table[table["line"] == row.line]
        took = own["self_cycles"].sum()
        warps = own.loc[own["kind"] == "kernel", "count"].sum()
        error = math.hypot(error, shifted(prof.profile, own["count"].sum(), warps))
        assert row.self_error_pct == pytest.approx(100 * error / took, rel=1e-6)


def four_times(profile: Profile, **told: list[int]) -> Profile:
    """A profile of one launch with three more like it. told: columns of the table of launches."""
    spans = len(profile.df)
    tables = {}
    for name in ("df", "launches", "ctas"):
        table = getattr(profile.tables, name)
        copies = [table.assign(launch=np.full(len(table), at, np.int32)) for at in range(4)]
        tables[name] = pd.concat(copies, ignore_index=True)
    for name in ("parent", "wait"):
        values = tables["df"][name]
        shift = np.repeat(np.arange(4) * spans, spans)
        tables["df"][name] = np.where(values < 0, -1, values + shift).astype(values.dtype)
    launches = tables["launches"].assign(**{name: np.array(each, np.int32) for name, each in told.items()})
    return Profile(tables["df"], launches, profile.metadata, ctas=tables["ctas"])


def test_replays_of_a_graph_are_as_far_off_as_one_launch() -> None:
    """The same CTAs record in each, so that more of them tell nothing new."""
    one = recorded(GRIDS[0], 16)
    free = one.metadata["clock"] | {"read_cycles": 0.0, "row_cycles": 0.0}  # what records shift is no chance
    one = replace(one, metadata={**one.metadata, "clock": free})
    replays = four_times(one, graph=[0] * 4, replay=[0, 1, 2, 3])
    of_two_each = four_times(one, graph=[0] * 4, replay=[0, 0, 1, 1])
    error = one.summary()["self_error_pct"]
    assert (error > 0).any()
    for profile, launches in ((four_times(one), 4), (of_two_each, 2), (replays, 1)):
        assert validate(profile.tables) == []
        found = profile.summary()["self_error_pct"]
        assert found.to_list() == pytest.approx((error / math.sqrt(launches)).to_list())


def beyond(every: Profile, some: Profile) -> list[str]:
    """The rows whose self time is off by more than three standard errors and 0.3 %."""
    rows = ["kind", "scope", "line", "call_path"]
    whole, told = (profile.summary().set_index(rows) for profile in (every, some))
    common = whole.index.intersection(told.index)
    own, found = whole["self_cycles"][common], told["self_cycles"][common]
    error = 3 * told["self_error_pct"][common].fillna(0) / 100 * found + 0.003 * own
    return [str(row) for row in common[(found - own).abs() > error]]


def test_totals_are_off_by_no_more_than_a_few_standard_errors() -> None:
    for grid in GRIDS:
        every, some = (recorded(grid, ctas) for ctas in (1, 16))
        assert beyond(every, some) == []
        own = every.summary()
        record = shifted(every, 1.0, 0.0)
        inside = own[own["kind"] == "op"]
        expected = 100 * record * inside["count"] / inside["self_cycles"]
        assert inside["self_error_pct"].to_list() == pytest.approx(expected.to_list())


SHIFTED: dict[str, dict[str, tuple[int, ...]]] = {
    "add": {"x": (128 * 1024,), "y": (128 * 1024,)},
    "softmax": {"x": (256, 512)},
    "noinline": {"x": (128,)},
    "call_paths": {"x": (128, 256)},
}


@pytest.mark.parametrize(
    ("name", "level"),
    quick(
        [(name, level) for name in SHIFTED for level in ("default", "heavy")],
        [("noinline", "heavy")],
    ),
)
def test_the_error_holds_what_another_binary_shifts(name: str, level: str) -> None:
    """A kernel of which only some CTAs record is another binary than one of which all do: its warps do more
    on entry, a quarter of the own time of a kernel that calls functions."""
    (case,) = (each for each in cases("small") if each.name == name)
    inputs = {each: torch.randn(shape) for each, shape in SHIFTED[name].items()}
    profiles = []
    for ctas in (1, 16):
        with session(instrument=level, ctas=ctas) as prof:
            case.launch(inputs)
        profiles.append(prof.profile)
    assert beyond(*profiles) == []


def test_other_ctas_are_no_change() -> None:
    profiles = []
    for launches in (2, 3):
        with session(instrument="heavy", ctas=16) as prof:
            for _ in range(launches):
                columns_kernel[(16, 64)](torch.zeros(512, dtype=torch.int32), 16, BLOCK=32, num_warps=1)
        profiles.append(prof)
    table = profscope.diff(*profiles)
    assert (table["change"] != 0).any()
    assert not table["significant"].any()


def test_no_standard_error_is_known_of_listed_ctas() -> None:
    with session(ctas=[1, 5]) as prof:
        columns_kernel[(16,)](torch.zeros(16 * 32, dtype=torch.int32), 16, BLOCK=32, num_warps=1)
    assert prof.summary()["self_error_pct"].isna().all()
    lines = prof.lines()
    assert lines["self_share"].sum() > 0
    assert lines.loc[lines["self_share"] > 0, "self_error_pct"].isna().all()


@triton.jit
def one_heavy_kernel(out_ptr, heavy, steps, others, BLOCK: tl.constexpr):  # noqa: N803
    total = tl.zeros([BLOCK], dtype=tl.int32)
    for step in range(tl.where(tl.program_id(0) == heavy, steps, others)):
        total += step
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


def test_a_note_does_not_hide_the_one_heavy_cta_that_was_left_out() -> None:
    ctas, one_in, steps = 256, 16, 4000
    recorded = Selection().cta(np.arange(ctas // one_in), 4).tolist()
    heavy, out = min(set(range(ctas)) - set(recorded)), torch.zeros(ctas * 32, dtype=torch.int32)
    with session(ctas=one_in) as prof:
        one_heavy_kernel[(ctas,)](out, heavy, steps, 1, BLOCK=32, num_warps=1)
    note = note_of(prof.profile)
    (error,) = map(float, _STANDARD_ERROR.findall(note))
    assert (
        0.1 <= error < 2
    )  # a heavy CTA makes the launch's time many times as long; none that recorded knows
    assert "up to 16.4% of its CTAs could be slower than any recorded (95% upper bound)" in note


@triton.jit
def segment_sum_kernel(x_ptr, lengths_ptr, out_ptr, BLOCK: tl.constexpr):  # noqa: N803
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for step in range(tl.load(lengths_ptr + tl.program_id(0))):
        total += tl.load(x_ptr + step * BLOCK + offsets)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + offsets, total)


@pytest.mark.parametrize("beside", [True, False], ids=["on an SM that records", "on another one"])
def test_a_heavy_cta_is_found_whichever_ctas_record(beside: bool) -> None:
    """By the times of all CTAs: those that do not record are stamped."""
    ctas, shares = 64, []
    lengths = torch.full((ctas,), 2, dtype=torch.int32)

    def recorded(one_in: int) -> profscope.Session:
        with session(ctas=one_in) as prof:
            segment_sum_kernel[(ctas,)](torch.ones(64, 32), lengths, torch.empty(ctas, 32), BLOCK=32)
        return prof

    alike = recorded(4).ctas
    is_beside = alike.groupby("sm")["recorded"].transform("any") & ~alike["recorded"]
    others = is_beside if beside else ~is_beside & ~alike["recorded"]
    lengths[int(alike.loc[others, "cta"].iloc[0])] = 64
    for one_in in (4, 1):
        prof = recorded(one_in)
        assert "load-imbalance" in prof.findings()["finding"].tolist()
        shares.append(prof.breakdown().groupby("part")["share"].sum()["imbalance"])
    assert shares[0] > 0.5
    assert shares[0] == pytest.approx(shares[1], abs=0.05)


@given(grid=st.integers(2, 5000), part=st.floats(0, 1))
def test_no_more_ctas_than_said_are_missed_more_often_than_one_time_in_twenty(grid: int, part: float) -> None:
    recorded = max(1, int(part * (grid - 1)))
    most = most_unseen(recorded, grid)
    assert 0 <= most <= grid - recorded
    ways = math.comb(grid, recorded)  # all of which are as likely
    of_rounding = ways // 10**6
    assert 20 * math.comb(grid - most - 1, recorded) <= ways + of_rounding
    assert 20 * math.comb(grid - most, recorded) >= ways - of_rounding
    assert most_unseen(grid, grid) == 0


def test_the_fewest_ctas_tell_how_far_off_the_totals_are() -> None:
    (note,) = recorded((64,), 16).metadata["notes"]
    assert note.startswith(
        "columns_kernel: 8 of 64 CTAs were recorded, spread over the grid; by how these differ"
    )
    assert recorded((15,), 16).metadata["notes"] == []
