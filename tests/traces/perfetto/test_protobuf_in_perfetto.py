"""Perfetto's own trace processor reads our protobuf traces to the nanosecond, depth and arrow."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profscope.profiles
from profscope.profiles import Profile
from profscope.schema import spans_frame
from profscope.traces.perfetto import packets
from profscope.traces.perfetto.protobuf import field
from profscope.traces.tracks import assign_tracks, drawn_name, root_spans, row_devices, warp_name
from tests.support.examples import examples
from tests.support.processor import SPAN_KINDS, Processor
from tests.support.profiles import launch_table, payloads, profiles, regular_profile

ARGS = ("debug.iter", "source.line_number", "source.file_name", "source.function_name")
SLICES = f"""
select slot.name, track.name, slice.ts, slice.dur, slice.depth, slice.name, slice.category,
    {", ".join(f"extract_arg(slice.arg_set_id, '{name}')" for name in ARGS)}
from slice join track on slice.track_id = track.id join track slot on track.parent_id = slot.id
where slice.category in {SPAN_KINDS}
"""
FLOWS = """
select begin.name, begin.category, begin.ts, begin.dur, finish.name, finish.category, finish.ts, finish.dur
from flow join slice begin on slice_out = begin.id join slice finish on slice_in = finish.id
"""
COUNTED = """
select name, value from stats where value > 0
    and name not in ('guess_trace_type_duration_ns', 'parse_trace_duration_ns', 'clock_sync_cache_miss')
"""
"""Whatever Perfetto counted but time and work: names it did not find are no error to it, but a mere count."""

SAMPLES = Path(__file__).parents[1] / "samples"


def as_shown(text: str) -> str:
    """A text as SQL gives it: up to the first NUL; what UTF-8 cannot hold is a question mark."""
    return text.encode(errors="replace").decode().partition("\0")[0]


def expected_slices(profile: Profile, *, nests: bool) -> Counter[Any]:
    """What `SLICES` must find; depth is 0 where spans do not nest, as in traces of other tools."""
    df = profile.df
    tracks = assign_tracks(df, row_devices(df, profile.launches))
    number = tracks.track[tracks.run]
    place = tracks.table.iloc[number].reset_index(drop=True)
    slots = place[["device", "kernel", "sm", "slot"]].assign(cta=df["cta"])
    alone = slots.groupby(["device", "kernel", "sm", "slot"])["cta"].transform("nunique") == 1
    roots = root_spans(df, tracks)
    found: Counter[Any] = Counter()
    for row, track_number, only, (slot, warp, lane, device) in zip(
        df.itertuples(), number, alone, place[["slot", "warp", "lane", "device"]].to_numpy(), strict=True
    ):
        known = bool(row.file) or row.line != 0
        track = warp_name(warp, *roots[track_number]) if warp >= 0 else f"kernels {slot}"
        track += f" lane {lane}" if lane else ""
        in_flight = row.kind == "async"
        found[
            (f"CTA {row.cta}" if only else f"CTA slot {slot}") if warp >= 0 else f"GPU {device}",
            as_shown(f"{track}: {drawn_name(str(row.scope), 'async')}" if in_flight else track),
            row.start_ns,
            row.duration_ns,
            row.depth if nests and not in_flight else 0,
            as_shown(drawn_name(str(row.scope), str(row.kind))),
            row.kind,
            row.iteration if row.iteration >= 0 else None,
            row.line if known else None,
            as_shown(str(row.file)).replace("\\", "/") if known else None,
            as_shown(str(row.call_path or row.kernel)) if known else None,
        ] += 1
    return found


def expected_flows(profile: Profile) -> Counter[Any]:
    """An arrow from every interval that began before its wait to that wait."""
    df = profile.df
    names = map(as_shown, map(drawn_name, df["scope"], df["kind"]))
    shown = list(zip(names, df["kind"], df["start_ns"], df["duration_ns"], strict=True))
    pairs = zip(range(len(df)), df["wait"].tolist(), strict=True)
    return Counter((*shown[row], *shown[by]) for row, by in pairs if by >= 0 and shown[row][2] < shown[by][2])


def assert_read_exactly(processor: Processor, path: Path, profile: Profile, *, nests: bool = True) -> None:
    profile.save(path)
    processor.load(path)
    assert processor.query(COUNTED) == processor.errors() == []
    found = processor.query(SLICES)
    if not nests:
        found = [(*row[:4], 0, *row[5:]) for row in found]
    assert Counter(found) == expected_slices(profile, nests=nests)
    assert Counter(processor.query(FLOWS)) == expected_flows(profile)
    counts = f"""select (select count(*) from slice where category in {SPAN_KINDS}),
        (select count(*) from flow)"""
    assert processor.query(counts) == [(len(profile.df), expected_flows(profile).total())]


@pytest.mark.hypothesis
def test_random_profiles(tmp_path: Path, processor: Processor, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one block, and cut everywhere."""

    @given(profiles(), st.sampled_from([packets.BLOCK_ROWS, 7, 1]))
    @settings(max_examples=examples(25))
    def check(profile: Profile, block_rows: int) -> None:
        monkeypatch.setattr(packets, "BLOCK_ROWS", block_rows)
        assert_read_exactly(processor, tmp_path / "trace.pftrace", profile)

    check()


def test_waits_in_another_order_than_their_copies(tmp_path: Path, processor: Processor) -> None:
    """The copy that began first is waited for last, and one wait ends two."""
    rows = [
        ("kernel", "kernel", 0, 100, 0, -1),
        ("copy a", "async", 10, 70, -1, 6),
        ("copy b", "async", 20, 40, -1, 5),
        ("copy c", "async", 25, 55, -1, 6),
        ("op", "op", 30, 5, 1, -1),
        ("wait b", "op", 50, 10, 1, -1),
        ("wait a and c", "op", 70, 10, 1, -1),
    ]
    scope, kind, start, took, depth, wait = (list(column) for column in zip(*rows, strict=True))
    columns = {"scope": scope, "kind": kind, "start_ns": start, "duration_ns": took, "wait": wait}
    columns |= {"start_cycle": start, "duration_cycles": took, "depth": [max(0, each) for each in depth]}
    columns["parent"] = [0 if each == 1 else -1 for each in depth]
    alike = {"kernel": "k", "launch": 0, "cta": 0, "sm": 0, "warp": 0, "file": "k.py", "line": 1}
    alike |= {"call_path": "", "iteration": -1}
    df = spans_frame(columns | {name: [value] * len(rows) for name, value in alike.items()})
    profile = Profile(df, launch_table([0], ["k"]))
    assert expected_flows(profile).total() == 3
    assert_read_exactly(processor, tmp_path / "trace.pftrace", profile)


@pytest.mark.hypothesis
def test_any_selection_of_rows_is_drawn(tmp_path: Path, processor: Processor) -> None:
    """Whatever parents, depths and waits then say."""

    @given(profiles(), st.data())
    @settings(max_examples=examples(12))
    def check(profile: Profile, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.booleans(), min_size=len(profile.df), max_size=len(profile.df)))
        df = profile.df[np.array(chosen, np.bool_)].reset_index(drop=True)
        part = Profile(df.assign(wait=df["wait"].where(df["wait"] < len(df), -1)), profile.launches)
        part.save(tmp_path / "trace.pftrace")
        processor.load(tmp_path / "trace.pftrace")
        assert processor.query(COUNTED) == processor.errors() == []
        found = [(*row[:4], 0, *row[5:]) for row in processor.query(SLICES)]
        assert Counter(found) == expected_slices(part, nests=False)

    check()


def test_many_names_and_values(tmp_path: Path, processor: Processor) -> None:
    """Numbers that no longer fit into a byte, or a packet's length into one."""
    profile = regular_profile(launches=1, ctas=1, warps=1, iterations=200)
    df = profile.tables.df
    df["scope"] = pd.Categorical([f"scope {row}" for row in range(len(df))])
    texts = [f"text {number}" for number in range(20_000)]
    df["stage"] = pd.Categorical(texts[-len(df) :], categories=texts)
    df["nothing"] = pd.Categorical([None] * len(df), categories=pd.Index([], dtype="str"))
    for number in range(140):
        df[f"value {number}"] = pd.array(np.arange(len(df)) * number, "Int32")
    assert_read_exactly(processor, tmp_path / "trace.pftrace", Profile(df, profile.launches))
    names = ("stage", *(f"value {number}" for number in (0, 1, 127, 128, 139)))
    args = ", ".join(f"extract_arg(arg_set_id, 'debug.{name}')" for name in names)
    found = processor.query(f"select name, {args} from slice where category in {SPAN_KINDS}")
    assert sorted(found) == sorted(zip(*(df[name] for name in ("scope", *names)), strict=True))


def test_an_imported_profile(tmp_path: Path, processor: Processor) -> None:
    profile = profscope.profiles.load(SAMPLES / "kineto.json")
    assert_read_exactly(processor, tmp_path / "trace.pftrace", profile, nests=False)


def test_values_launch_and_cta_are_args(tmp_path: Path, processor: Processor) -> None:
    profile = regular_profile(launches=1, ctas=2, warps=1, iterations=2)
    df = profile.df
    dots = np.flatnonzero(df["scope"] == "dot")
    small, large = payloads(df, dots, [3, -7, 0, 2**31 - 1], [0.1, -2.5, 1e300, -0.0])
    stage = pd.Categorical.from_codes([-1] * len(df), categories=["prologue", "\u00e9", "unused"])
    stage[dots[:3]] = ["\u00e9", "prologue", "\u00e9"]
    changed = Profile(df.assign(**{"trips": small, "\u00e9 x": large, "stage": stage}), profile.launches)
    assert_read_exactly(processor, tmp_path / "trace.pftrace", changed)
    names = ("trips", "\u00e9 x", "stage")
    args = ", ".join(f"extract_arg(arg_set_id, 'debug.{name}')" for name in names)
    found = processor.query(f"select {args} from slice where name = 'dot'")
    texts = ["\u00e9", "prologue", "\u00e9", None]
    values = zip(small[dots].tolist(), [0.1, -2.5, 1e300, -0.0], texts, strict=True)
    assert sorted(found, key=str) == sorted(values, key=str)
    assert processor.query(f"select {args} from slice where name = 'wait'") == [(None, None, None)] * 4
    args = ", ".join(f"extract_arg(arg_set_id, 'debug.{name}')" for name in ("launch", "cta"))
    assert sorted(
        processor.query(f"select {args} from slice where depth = 0 and category in {SPAN_KINDS}")
    ) == [(0, 0), (0, 1)]


def test_the_harness_finds_faults(tmp_path: Path, processor: Processor) -> None:
    """A clock and a name that nothing declares."""
    profile = regular_profile(launches=1, ctas=1, warps=1, iterations=1)
    profile.save(tmp_path / "trace.pftrace")
    content = (tmp_path / "trace.pftrace").read_bytes()
    for good, bad, count in (
        (field(58, 64), field(58, 65), "clock_sync_failure"),
        (field(9, 1) + field(10, 2), field(9, 1) + field(10, 99), "interned_data_tokenizer_errors"),
    ):
        assert good in content
        (tmp_path / "bad.pftrace").write_bytes(content.replace(good, bad))
        processor.load(tmp_path / "bad.pftrace")
        assert [name for name, _ in processor.query(COUNTED)] == [count]
