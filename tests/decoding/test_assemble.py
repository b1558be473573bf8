"""From decoded launches to the tables: rows, order, parents, launches, notes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.decoding.areas import packed_headers, read_buffer
from profscope.decoding.assemble import assemble
from profscope.decoding.build import Mark, RawLaunch
from profscope.instrument_passes.records import LAUNCH_HEADER
from profscope.profiles import Profile
from tests.support.programs import BODY, bodies, launches
from tests.support.synth import Launch, Loop, Program, Scope, Work, launch, write_headers
from tests.support.validation import validate

LOOPS = (Scope((Work(5), Loop((3, 0), (*BODY, Loop((2, 1), BODY))))), Work(9))
_NO_STAMPS = "made_up: prof.ctas has recorded CTAs only, because it was built without stamps"


def assembled(made: Sequence[Launch], ctas: int | None = None, notes: Sequence[str] = ()) -> Profile:
    raws = []
    for index, one in enumerate(made):
        areas = (len(one.buffer) - LAUNCH_HEADER.itemsize) // one.manifest.cta_bytes(4)
        raws.append(RawLaunch(index, one.manifest, 0, 7, ctas or areas, one.buffer))
    return Profile.of(assemble(raws, {"backend": "gpu"}, notes))


@given(body=bodies, options=launches)
def test_any_program_gives_sound_tables(body: tuple[object, ...], options: dict[str, int]) -> None:
    made = launch([Program(body, 2)], **options)  # type: ignore[arg-type]
    raw = RawLaunch(0, made.manifest, 0, 0, options["ctas"], made.buffer)
    profile = Profile.of(assemble([raw], {"backend": "gpu"}))
    assert validate(profile.tables) == []
    assert (profile.df["kind"] != "gap").sum() == len(made.spans)


def test_what_does_not_fit_the_model_is_noted_once() -> None:
    long = launch([Program((Scope((Work(1 << 32),)),))])
    notes = assembled([long, long]).metadata["notes"]
    assert len([note for note in notes if "may have run for more than 2^32 cycles" in note]) == 1


def test_every_span_is_a_row_under_its_parent() -> None:
    made = launch([Program(LOOPS, 2)], ctas=3)
    df = assembled([made]).df
    sites = {span.name: span for span in made.manifest.sections[0].spans}
    found = []
    rows = list(df.itertuples())
    for row in rows:
        chain = []
        at = row
        while True:
            chain.append(
                (sites[at.scope].id, at.start_cycle, at.start_cycle + at.duration_cycles, at.iteration)
            )
            if at.parent < 0:
                break
            at = rows[at.parent]
        found.append((row.cta, row.warp, row.sm, tuple(chain)))
    expected = []
    for seen in made.spans:
        chain, above = [], seen
        while above is not None:
            chain.append((above.span, above.start, above.end, above.iteration))
            above = above.parent  # type: ignore[assignment]
        expected.append((seen.cta, seen.warp, seen.sm, tuple(chain)))
    assert sorted(found) == sorted(expected)


def test_times_follow_the_fitted_clock() -> None:
    made = launch([Program((Work(2_000_000), *BODY))], ctas=20)
    profile = assembled([made])
    (row,) = profile.launches.itertuples()
    assert row.clock_ghz == pytest.approx(2.0, rel=1e-3)  # what the made-up headers say
    expected = profile.df["duration_cycles"] / 2
    assert np.abs(profile.df["duration_ns"] - expected).max() <= 2 * row.ns_uncertainty + 1
    assert profile.ctas["start_ns"].min() == row.start_ns <= profile.df["start_ns"].min()
    assert (profile.df["start_ns"] + profile.df["duration_ns"]).max() <= row.end_ns
    assert profile.ctas["end_ns"].max() == row.end_ns


def test_a_launch_row_says_what_ran_and_what_is_missing() -> None:
    made = launch([Program((Loop((100,), BODY),), 2)], ctas=4)
    profile = assembled([made], notes=["said before"])
    (row,) = profile.launches.itertuples()
    assert (row.kernel, row.grid_x, row.ctas, row.num_warps, row.stream) == ("made_up", 4, 4, 2, 7)
    assert (row.records, row.dropped) == (made.records, made.dropped)
    assert row.profile_bytes == made.buffer.nbytes
    said, dropped = profile.metadata["notes"]
    assert said == "said before"
    assert f"the oldest {made.dropped} of {made.records + made.dropped} records" in dropped


def test_a_cta_that_wrote_nothing_is_reported() -> None:
    made = launch([Program(BODY)], ctas=3)
    made.buffer[-made.manifest.cta_bytes(4) :] = 0
    profile = assembled([made])
    assert profile.launches["ctas"].tolist() == [2]
    (note,) = profile.metadata["notes"]
    assert note.startswith("made_up: launch 0: 1 of 3 CTAs ")


@given(strides=st.integers(0, 3))
def test_sampled_ctas_are_reported(strides: int) -> None:
    made = launch([Program(BODY)], ctas=9, stride_log2=strides)
    notes = assembled([made], ctas=9).metadata["notes"]
    recorded = len(read_buffer(made.buffer, made.manifest).ctas)
    assert recorded in (9 >> strides, 1 + (9 >> strides))  # the last area may be of no CTA
    said = [note.partition(";")[0] for note in notes]
    sampled = [f"made_up: {recorded} of 9 CTAs were recorded, spread over the grid", _NO_STAMPS]
    assert said == (sampled if strides else [])


def test_nothing_was_launched() -> None:
    profile = Profile.of(assemble([], {"backend": "gpu"}))
    assert validate(profile.tables) == []
    assert profile.df.empty
    assert profile.launches.empty


def test_devices_do_not_share_their_clocks() -> None:
    """A launch too short for a slope of its own takes its device's, not the mean over all devices."""
    made = [
        launch([Program((Work(length),))], ctas=6, seed=seed) for seed, length in ((1, 50), (2, 50_000_000))
    ]
    raws = [RawLaunch(i, one.manifest, i // 2, 0, 6, one.buffer.copy()) for i, one in enumerate(made * 2)]
    for raw in raws[2:]:  # the second device ticks half as fast
        packed = packed_headers(raw.buffer, 6, raw.manifest.cta_bytes(4))
        times = read_buffer(raw.buffer, raw.manifest).ctas
        clock, ns = (
            [times[f"{at}_{what}"].astype(np.int64) for at in ("start", "end")]
            for what in ("clock", "globaltimer")
        )
        write_headers(packed, times["cta"], times["sm"], clock, [2 * each for each in ns])
    both = assemble(raws, {"backend": "gpu"}).launches
    alone = [assemble(raws[at : at + 2], {"backend": "gpu"}).launches for at in (0, 2)]
    for name in ("clock_ghz", "start_ns", "end_ns", "ns_uncertainty"):
        assert both[name].tolist() == [value for each in alone for value in each[name]]
    assert both["clock_ghz"].round(2).tolist() == [2.0, 2.0, 1.0, 1.0]


def test_launches_that_began_cold_are_told_and_noted() -> None:
    made = launch([Program(BODY)])
    marks = [Mark(cold=True), Mark(), Mark(graph=0, cold=True)]
    raws = [RawLaunch(index, made.manifest, 0, 0, 1, made.buffer, mark) for index, mark in enumerate(marks)]
    tables = assemble(raws, {"backend": "gpu"})
    assert tables.launches["cold"].tolist() == [True, False, True]
    (note,) = [note for note in tables.metadata["notes"] if "cold" in note]
    assert note.startswith("2 launches began with colder caches than bare ones do (launches['cold'])")
    assert not any("cold" in note for note in assemble(raws[1:2], {"backend": "gpu"}).metadata["notes"])
