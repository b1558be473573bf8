"""Folded launches against `read_sums`, one launch at a time, in plain Python and pandas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instrument_passes.manifest import Manifest
from instrument_passes.selection import Selection
from profscope.decoding.alike import alike
from profscope.decoding.assemble import assemble
from profscope.decoding.folding import NEWEST, Folded
from profscope.decoding.raw import Mark, RawLaunch
from profscope.decoding.timebase import fit, readings
from profscope.profiles import Profile
from profscope.threads import worker_pool
from tests.support.examples import examples
from tests.support.synth.sums import site, sum_launch, sum_manifest
from tests.support.warp_sums import read_sums

# Line 3 stands at two sites; a warp runs the counted ones 0 to 2 times.
BODY = [site(line=1), site(0, 2, counted=True, times=3), site(0, 3), site(1, 4, counted=True), site(0, 3)]
PARTITION = [site(line=1, name="partition"), site(0, 3), site(0, 5, counted=True, longest=False)]
BOTH_KINDS = {"of_i32": "i32", "of_f32": "f32"}
PLAIN = sum_manifest([BODY])
WARP_SPECIALISED = sum_manifest([BODY, PARTITION, PARTITION[:2]], kernel="specialised")
WITH_NUMBERS = sum_manifest(
    [
        [site(line=1, payloads=BOTH_KINDS), site(0, 2, counted=True, times=3, payloads={"x": "f32"})],
        [site(line=1), site(0, 4, counted=True, payloads=BOTH_KINDS)],
    ]
)
KEY = ["scope", "kind", "line"]
ITEMS = {"cta": ["cta"], "warp": ["cta", "warp"], "sm": ["sm"]}


def profile(raws: Sequence[RawLaunch]) -> Profile:
    made = Profile.of(assemble(raws, {"backend": "gpu"}))
    assert made.validate() == []
    return made


def by_hand(raws: Sequence[RawLaunch]) -> pd.DataFrame:
    """A row per launch, warp and site, of CTAs that ended in time."""
    rows = []
    for raw in raws:
        read = read_sums(raw.buffer, raw.manifest)
        took_ns = read.headers["end_globaltimer"] - read.headers["start_globaltimer"]
        for section in read.sections:
            for at, span in enumerate(section.sites):
                for warp, area in enumerate(section.area.tolist()):
                    if took_ns[area] >= 1 << 30:
                        continue
                    place = {"cta": int(read.headers["cta"][area]), "sm": int(read.headers["sm"][area])}
                    figures = {
                        "count": section.count[warp, at],
                        "cycles": section.total_cycles[warp, at],
                        "longest": section.longest_cycles[warp, at],
                    }
                    who = {"launch": raw.index, "warp": int(section.warp[warp]), "site": at, **place}
                    names = {"scope": span.name, "kind": span.kind, "line": span.line}
                    rows.append({**who, **names, "section": section.sites, **figures})
    return pd.DataFrame(rows)


launches = st.builds(
    lambda manifest, ctas, unfinished, long, seed: [
        sum_launch(
            manifest, index, ctas + index % 2, seed=seed,
            unfinished=[unfinished] if unfinished < ctas and index == 1 else (),
            long=[long] if long < ctas and index == 2 else (),
        )
        for index in range(4)
    ],
    st.sampled_from([PLAIN, WARP_SPECIALISED, WITH_NUMBERS]), st.integers(1, 6), st.integers(0, 9),
    st.integers(0, 9), st.integers(0, 1000),
)  # fmt: skip


@settings(max_examples=examples(12))
@given(launches)
def test_sums_are_those_of_all_launches(raws: list[RawLaunch]) -> None:
    expected, sums = by_hand(raws), profile(raws).sums
    manifest = raws[0].manifest
    assert len(sums) == sum(len(section.spans) for section in manifest.sections)
    row = 0
    for section in manifest.sections:
        mine = (
            expected[[each is section.spans for each in expected["section"]]] if len(expected) else expected
        )
        for at, span in enumerate(section.spans):
            of_site = mine[mine["site"] == at] if len(mine) else mine
            told = sums.iloc[row + at]
            assert (told["scope"], told["line"]) == (span.name, span.line)
            assert told["parent"] == (-1 if span.parent < 0 else row + span.parent)
            assert told["warps"] == len(of_site)
            assert told["count"] == told["grid_count"] == (of_site["count"].sum() if len(of_site) else 0)
            assert told["total_cycles"] == (of_site["cycles"].sum() if len(of_site) else 0)
            if span.longest >= 0 and len(of_site):
                assert told["longest_cycles"] == of_site["longest"].max()
            elif span.longest < 0:
                assert told["longest_cycles"] == told["longest_ns"] == -1
        row += len(section.spans)


@settings(max_examples=examples(12))
@given(launches)
def test_numbers_are_those_of_all_warps(raws: list[RawLaunch]) -> None:
    """Of CTAs that ended in time: as `read_sums` has them, warp by warp."""
    kept: dict[tuple[int, int, str], list[tuple[float, ...]]] = {}
    for raw in raws:
        read = read_sums(raw.buffer, raw.manifest)
        in_time = read.headers["end_globaltimer"] - read.headers["start_globaltimer"] < 1 << 30
        for number, section in enumerate(read.sections):
            for each in section.numbers:
                columns = each.count, each.nans, each.total, each.least, each.greatest
                rows = zip(*(column[in_time[section.area]].tolist() for column in columns), strict=True)
                kept.setdefault((number, each.site, each.name), []).extend(rows)
    told = profile(raws).numbers
    assert len(told) == len(kept)
    for ((number, at, name), warps), row in zip(kept.items(), told.itertuples(), strict=True):
        span = raws[0].manifest.sections[number].spans[at]
        assert (row.scope, row.line, row.name, row.launches) == (span.name, span.line, name, 4)
        assert (row.count, row.nans) == (sum(each[0] for each in warps), sum(each[1] for each in warps))
        some = [each for each in warps if each[0]]
        np.testing.assert_allclose(row.total, sum(each[2] for each in some), rtol=1e-12)
        if name == "of_i32":
            assert row.total == sum(each[2] for each in some)
        expected = (min(each[3] for each in some), max(each[4] for each in some)) if some else (np.nan,) * 2
        np.testing.assert_array_equal((row.least, row.greatest), expected)
        np.testing.assert_array_equal(row.mean, row.total / row.count if row.count else np.nan)


@settings(max_examples=examples(12))
@given(launches)
def test_balance_is_that_of_a_groupby(raws: list[RawLaunch]) -> None:
    ran, balance = by_hand(raws), profile(raws).balance()
    if not len(ran):
        assert not len(balance)
        return
    ran = ran[ran["count"] > 0]
    parts = []
    for by, columns in ITEMS.items():
        items = ran.groupby(["launch", *KEY, *columns])["cycles"].sum().reset_index().assign(by=by)
        parts += [items, items.assign(launch=-1)]
    took = pd.concat(parts).groupby(["launch", *KEY, "by"])["cycles"]
    told = balance.set_index(["launch", *KEY, "by"]).sort_index()
    assert list(told.index) == list(took.size().index)
    for name, expected in (
        ("count", took.size()),
        ("least_cycles", took.min()),
        ("greatest_cycles", took.max()),
    ):
        assert told[name].tolist() == expected.tolist()
    np.testing.assert_allclose(told["mean_cycles"], took.mean())
    np.testing.assert_allclose(told["variation"], took.std(ddof=0) / took.mean(), atol=1e-7)


@settings(max_examples=examples(8))
@given(launches, st.permutations(range(4)), st.integers(0, 4))
def test_the_order_of_folding_does_not_matter(raws: list[RawLaunch], order: list[int], cut: int) -> None:
    folded = Folded()
    with worker_pool(2) as pool:
        for part in (order[:cut], order[cut:]):
            folded.add(alike(raws[at] for at in part), pool)
    other, one = Profile.of(assemble([], {"backend": "gpu"}, (), folded)), profile(raws)
    pd.testing.assert_frame_equal(other.launches, one.launches)
    pd.testing.assert_frame_equal(other.sums, one.sums)
    pd.testing.assert_frame_equal(other.numbers, one.numbers, rtol=1e-12)
    pd.testing.assert_frame_equal(other.balance(), one.balance(), rtol=1e-9)


def test_a_launch_keeps_its_row() -> None:
    raws = [sum_launch(PLAIN, index, 6, unfinished=[3] if index == 1 else ()) for index in range(3)]
    raws[2] = replace(raws[2], mark=Mark(graph=4, replay=2, cold=True), stream=9)
    rows = profile(raws).launches
    assert rows["keeps"].tolist() == ["sums"] * 3
    assert rows["ctas"].tolist() == [6, 5, 6]
    assert rows["unfinished"].tolist() == [0, 1, 0]
    assert rows[["graph", "replay", "cold", "stream"]].iloc[2].tolist() == [4, 2, True, 9]
    headers = [read_sums(raw.buffer, PLAIN).headers for raw in raws]
    for row, ctas, base in zip(rows.itertuples(), headers, fit([*map(readings, headers)]), strict=True):
        ran = ctas[ctas["end_clock"] != 0]
        assert row.clock_ghz == pytest.approx(base.clock_ghz[0])
        assert row.start_ns == ran["start_globaltimer"].min() + 16  # half a step of 32 ns
        assert row.end_ns == ran["end_globaltimer"].max() + 16
    assert profile(raws).metadata["notes"][0].startswith("made_up: launch 1: 1 of 6 CTAs wrote nothing")


def test_ns_are_cycles_by_the_launch_s_own_clock() -> None:
    made = profile([sum_launch(PLAIN, index, 40) for index in range(3)])
    rates = made.launches["clock_ghz"]
    assert rates.between(1.74, 1.76).all()
    for row in made.sums.itertuples():
        assert row.total_cycles / rates.max() - 1 <= row.total_ns <= row.total_cycles / rates.min() + 1
        assert row.longest_cycles / rates.max() - 1 <= row.longest_ns <= row.longest_cycles / rates.min() + 1


def test_ctas_that_ran_for_more_than_2_32_cycles_are_left_out() -> None:
    made = profile([sum_launch(PLAIN, index, 6, long=[1, 4]) for index in range(2)])
    assert made.metadata["notes"][0] == (
        "made_up: 4 CTAs may have run for more than 2^32 cycles, which sums have no room for; they are in no "
        "sum"
    )
    assert not any("2^32" in note for note in made.metadata["notes"][1:])
    assert made.sums["warps"].tolist() == [2 * 4 * 4] * len(BODY)
    assert made.launches["ctas"].tolist() == [6, 6]


def test_trials_and_variants_and_devices() -> None:
    raws = [sum_launch(PLAIN, 0), sum_launch(PLAIN, 1, mark=Mark(trial=True)), sum_launch(PLAIN, 2, device=1)]
    sums = profile(raws).sums
    assert sums.groupby("trial")["launches"].max().to_dict() == {False: 2, True: 1}
    assert len(sums) == 2 * len(BODY)
    alone = profile([raws[0], raws[2]]).sums
    pd.testing.assert_frame_equal(sums[~sums["trial"]].reset_index(drop=True), alone)


@pytest.mark.parametrize(
    ("selection", "stride_log2", "scale"),
    [
        (Selection(), 1, 2),
        (Selection("sms", (1,)), 2, 2),
        (Selection("list", (1, 3)), 0, 1),
        (Selection("first"), 3, 1),
        (Selection(warps=(0, 2)), 0, 1),
    ],
)
def test_selections(selection: Selection, stride_log2: int, scale: int) -> None:
    manifest = sum_manifest([BODY], selection=selection)
    raws = [sum_launch(manifest, index, 8, stride_log2=stride_log2) for index in range(2)]
    expected, made = by_hand(raws), profile(raws)
    assert made.sums["total_cycles"].sum() == expected["cycles"].sum()
    assert made.sums["grid_cycles"].sum() == expected["cycles"].sum() * scale
    assert made.launches["ctas"].sum() == expected.groupby(["launch"])["cta"].nunique().sum()
    summary = made.summary()
    assert summary["total_cycles"].sum() == made.sums["grid_cycles"].sum()
    assert made.metadata["kernels"]["made_up"]["recorded"]["sample"] == selection.is_sample


def test_damaged_launches_are_named_and_left_out() -> None:
    raws = [sum_launch(PLAIN, index) for index in range(5)]
    odd = raws[1].buffer.copy()
    odd[64 + 4] = 9  # the first CTA's id
    raws[1] = replace(raws[1], buffer=odd)
    raws[2] = replace(raws[2], buffer=raws[2].buffer[:-4])
    raws[3] = replace(raws[3], buffer=raws[3].buffer[:40])
    raws[4] = replace(raws[4], manifest=sum_manifest([BODY[:2]]))
    made = profile(raws)
    assert made.launches["launch"].tolist() == [0]
    said = made.metadata["notes"][:4]
    assert [note.split(":")[0] for note in said] == ["launch 1", "launch 2", "launch 3", "launch 4"]
    assert "holds CTA 9 where CTA 0 is due" in said[0]
    assert "truncated" in said[1]
    assert "hold no header" in said[2]
    assert "was not written by this build" in said[3]


def test_what_is_kept_does_not_grow_with_launches() -> None:
    made = profile([sum_launch(PLAIN, index, 2) for index in range(40)])
    assert len(made.sums) == len(BODY)
    assert made.sums["launches"].tolist() == [40] * len(BODY)
    assert sorted(made.spreads["launch"].unique()) == [-1, *range(40 - NEWEST, 40)]


def test_bytes_and_flops() -> None:
    sites = [site(line=1), site(0, 2, bytes=1024), site(0, 3, flops=512, counted=True)]
    manifest = sum_manifest([sites])
    raws = [sum_launch(manifest, index, 6) for index in range(2)]
    summary = profile(raws).summary().set_index("line")
    assert summary.loc[2, "bytes_at_most"] == 2 * 6 * 1024
    assert summary.loc[3, "flops"] == summary.loc[3, "count"] / 4 * 512
    assert summary.loc[2, "gb_per_s_at_most"] > 0
    cut_short = profile([raws[0], sum_launch(manifest, 1, 6, unfinished=[0])]).summary()
    assert cut_short["bytes_at_most"].isna().all()


def test_idle_executions_of_pipelined_loops_move_nothing() -> None:
    """A load that runs two iterations ahead has nothing to load in the last two."""
    steady = {"stage": "steady", "loop": 0, "bytes": 1024}
    sites = [
        site(line=1),
        site(0, 2, kind="loop", name="loop"),
        site(1, 3, times=8, ahead=2, **steady),
        site(1, 4, times=8, **steady),
    ]
    summary = profile([sum_launch(sum_manifest([sites]), 0, 6)]).summary().set_index("line")
    assert summary.loc[3, "bytes_at_most"] == 6 * 6 * 1024
    assert summary.loc[4, "bytes_at_most"] == 6 * 8 * 1024


def test_manifests_say_what_launches_keep() -> None:
    assert PLAIN.keeps == WARP_SPECIALISED.keeps == "sums"
    empty = Manifest("k", "cuda:90", 4, 0, 0, ())
    assert empty.keeps == "spans"
    assert np.all(profile([sum_launch(PLAIN)]).launches["records"] == 0)


def test_spans_of_less_than_nothing_last_no_time() -> None:
    """Where the clock at the end of a span was read by a quicker instruction than that at its begin."""
    raw = sum_launch(PLAIN, 0, 3, seed=1)
    (section,) = read_sums(raw.buffer, PLAIN).sections
    words = np.array(raw.buffer).view(np.uint32)
    took = section.total_cycles[0, 2]
    at = np.flatnonzero(words == took)
    assert len(at) == 2  # it ran once, so that is the longest, too
    words[at] = (1 << 32) - 40
    before, after = (profile([each]).sums for each in (raw, replace(raw, buffer=words.view(np.uint8))))
    assert after["total_cycles"][2] == before["total_cycles"][2] - took
    assert after["longest_cycles"][2] == -1
    assert after.drop(2)["total_cycles"].tolist() == before.drop(2)["total_cycles"].tolist()
