"""Perfetto's own trace processor reads our protobuf traces to the nanosecond, depth and arrow.

Needs node, as test_perfetto.py does.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import profscope.profile
from profscope.export.chrome import row_devices
from profscope.export.tracks import assign_tracks
from profscope.profile import Profile
from tests.export.profiles import profiles, regular_profile
from tests.perfetto.processor import Processor, unavailable

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

ARGS = ("debug.iter", "source.line_number", "source.file_name", "source.function_name")
SLICES = f"""
select slot.name, track.name, slice.ts, slice.dur, slice.depth, slice.name, slice.category,
    {", ".join(f"extract_arg(slice.arg_set_id, '{name}')" for name in ARGS)}
from slice join track on slice.track_id = track.id join track slot on track.parent_id = slot.id
"""
FLOWS = """
select begin.name, begin.category, begin.ts, begin.dur, finish.name, finish.category, finish.ts, finish.dur
from flow join slice begin on slice_out = begin.id join slice finish on slice_in = finish.id
"""
SAMPLES = Path(__file__).parents[1] / "export" / "samples"


def as_shown(text: str) -> str:
    """A text as SQL gives it: up to the first NUL; what UTF-8 cannot hold is a question mark."""
    return text.encode(errors="replace").decode().partition("\0")[0]


def expected_slices(profile: Profile) -> Counter[Any]:
    """What `SLICES` must find; the depth of a warp whose spans do not nest is not given (0)."""
    df = profile.df
    tracks = assign_tracks(df, row_devices(df, profile.launches))
    place = tracks.table.iloc[tracks.track[tracks.run]]
    found: Counter[Any] = Counter()
    spread = np.isin(tracks.run, tracks.spread)
    for row, slot, warp, lane, device, stray in zip(
        df.itertuples(), place["slot"], place["warp"], place["lane"], place["device"], spread, strict=True
    ):
        known = bool(row.file) or row.line != 0
        track = f"warp {warp}" if warp >= 0 else f"kernels {slot}"
        track += f" lane {lane}" if lane else ""
        in_flight = row.kind == "async"
        found[
            f"CTA slot {slot}" if warp >= 0 else f"GPU {device}",
            as_shown(f"{track}: {row.scope}" if in_flight else track),
            row.start_ns,
            row.duration_ns,
            0 if in_flight or stray else row.depth,
            as_shown(str(row.scope)),
            row.kind,
            row.iteration if row.iteration >= 0 else None,
            row.line if known else None,
            as_shown(str(row.file)).replace("\\", "/") if known else None,
            as_shown(str(row.kernel)) if known else None,
        ] += 1
    return found


def expected_flows(profile: Profile) -> Counter[Any]:
    """An arrow from every interval that began before its wait to that wait."""
    df = profile.df
    shown = list(zip(map(as_shown, df["scope"]), df["kind"], df["start_ns"], df["duration_ns"], strict=True))
    pairs = zip(range(len(df)), df["wait"].tolist(), strict=True)
    return Counter((*shown[row], *shown[by]) for row, by in pairs if by >= 0 and shown[row][2] < shown[by][2])


def assert_read_exactly(processor: Processor, path: Path, profile: Profile, *, nests: bool = True) -> None:
    profile.save(path)
    processor.load(path)
    assert processor.errors() == []
    found = processor.query(SLICES)
    if not nests:
        found = [(*row[:4], 0, *row[5:]) for row in found]
    assert Counter(found) == expected_slices(profile)
    assert Counter(processor.query(FLOWS)) == expected_flows(profile)
    counts = "select (select count(*) from slice), (select count(*) from flow)"
    assert processor.query(counts) == [(len(profile.df), expected_flows(profile).total())]


@pytest.fixture(scope="module")
def processor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processor]:
    nothing = tmp_path_factory.mktemp("perfetto") / "nothing.json"
    nothing.write_text('{"traceEvents":[]}')
    with Processor(nothing) as processor:
        yield processor


@pytest.mark.parametrize("suffix", [".pftrace", ".pftrace.gz"])
def test_regular_profile(suffix: str, tmp_path: Path, processor: Processor) -> None:
    profile = regular_profile(launches=2, ctas=60, warps=4, iterations=20)
    assert_read_exactly(processor, tmp_path / f"trace{suffix}", profile)


def test_random_profiles(tmp_path: Path, processor: Processor) -> None:
    @given(profiles())
    @settings(max_examples=60)
    def check(profile: Profile) -> None:
        assert_read_exactly(processor, tmp_path / "trace.pftrace", profile)

    check()


@pytest.mark.parametrize(
    "name", ["kineto.json", "proton_inside.chrome_trace", "proton_launches.chrome_trace"]
)
def test_imported_profiles(name: str, tmp_path: Path, processor: Processor) -> None:
    profile = profscope.profile.load(SAMPLES / name)
    assert_read_exactly(processor, tmp_path / "trace.pftrace", profile, nests=False)
