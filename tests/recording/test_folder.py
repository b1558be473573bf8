"""Sessions that keep sums, on the emulator: the same figures as from spans, and memory that is let go of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import profscope
from instrument_passes.records import LaunchBits
from profscope.decoding.areas import launch_header
from profscope.decoding.assemble import assemble
from profscope.decoding.folding import Folded
from profscope.decoding.raw import ORDINARY, RawLaunch
from profscope.profiles import Profile
from profscope.recording.arrivals import Arrivals
from profscope.recording.buffers import HostBuffers
from profscope.recording.folder import Folder
from profscope.recording.host_memory import HeldRecords
from profscope.recording.journal import Journal
from profscope.recording.launch_log import LaunchLog, Plan, Route
from profscope.recording.programs import PROGRAMS
from tests.support.quick import quick
from tests.support.round_trips import SUFFIXES, assert_same
from tests.support.sessions import CASES, assert_equal, count, keeping, launch_add
from tests.support.synth import Program, Scope, Work, launch
from tests.support.synth.sums import site, sum_launch, sum_manifest

Bytes = npt.NDArray[np.uint8]
KEY = ["kernel", "scope", "kind", "line"]
# Of a span: the records in it, and the stores that they wait for, are no part of what sums measure.
CYCLES_PER_SPAN, PART = 60, 0.25


def launches() -> None:
    for name in ("branch_in_loop", "early_return"):
        CASES[name].launch(CASES[name].inputs("cpu"))
    launch_add()
    launch_add()


def recorded(prof: profscope.Session) -> list[RawLaunch]:
    """The launches of a session that is open, as they came."""
    raws, notes = prof._parts().recorder.arrivals.fetch()
    assert notes == []
    return raws


@pytest.fixture(scope="module")
def raws() -> dict[str, list[RawLaunch]]:
    """By what was kept."""
    kept = {}
    for keep in ("spans", "sums", "totals"):
        with keeping(keep) as prof:
            launches()
            kept[keep] = recorded(prof)
    return kept


@pytest.fixture(scope="module")
def profiles(raws: dict[str, list[RawLaunch]]) -> dict[str, Profile]:
    """By what was kept; of "mixed", the first four launches kept spans and the others sums."""
    later = [replace(raw, index=raw.index + 4) for raw in raws["sums"]]
    every = {**raws, "mixed": [*raws["spans"], *later]}
    return {name: Profile.of(assemble(of_keep, {"backend": "emulator"})) for name, of_keep in every.items()}


def by_scope(profile: Profile) -> pd.DataFrame:
    return (
        profile.summary().astype({"kernel": "str", "scope": "str", "kind": "str"}).set_index(KEY).sort_index()
    )


@pytest.mark.parametrize("keep", ["sums", "totals"])
def test_counts_are_equal_and_sums_differ_by_the_records_between(
    profiles: dict[str, Profile], keep: str
) -> None:
    spans, sums = by_scope(profiles["spans"]), by_scope(profiles[keep])
    assert profiles[keep].validate() == []
    assert list(sums.index) == list(spans.index)
    for name in ("count", "launches", "launches_seen", "bytes_at_most", "flops"):
        assert sums[name].equals(spans[name]), name
    for name in ("total_cycles", "self_cycles"):
        bound = PART * spans["total_cycles"] + CYCLES_PER_SPAN * spans["count"]
        assert ((sums[name] - spans[name]).abs() <= bound).all(), name
    assert set(sums["percentile_launches"]) == {0}
    assert sums["max_cycles"].isna().all() == (keep == "totals")


def test_balance_is_that_of_the_spans(profiles: dict[str, Profile]) -> None:
    key = ["launch", *KEY, "by"]
    spans, sums = (profiles[keep].balance().set_index(key).sort_index() for keep in ("spans", "sums"))
    assert list(sums.index) == list(spans.index)
    assert sums["count"].equals(spans["count"])
    each = PART * spans["greatest_cycles"] + 30 * CYCLES_PER_SPAN
    assert ((sums["greatest_cycles"] - spans["greatest_cycles"]).abs() <= each).all()


def test_launches_of_both_kinds_add_up(profiles: dict[str, Profile]) -> None:
    spans, sums, mixed = (by_scope(profiles[name]) for name in ("spans", "sums", "mixed"))
    for name in ("count", "total_cycles", "self_cycles", "launches", "bytes_at_most"):
        assert mixed[name].equals(spans[name] + sums[name]), name
    assert (mixed["max_cycles"] == np.maximum(spans["max_cycles"], sums["max_cycles"])).all()
    assert (mixed["p90_cycles"] == spans["p90_cycles"]).all()
    assert (mixed["percentile_launches"] * 2 == mixed["launches"]).all()
    profile = profiles["mixed"]
    assert profile.validate() == []
    assert profile.launches["keeps"].tolist() == ["spans"] * 4 + ["sums"] * 4
    assert repr(profile).startswith("<Profile: 3 kernels, 8 launches (4 kept spans, 4 sums), ")
    assert profile.metadata["kernels"].keys() == profiles["spans"].metadata["kernels"].keys()


@pytest.mark.parametrize("suffix", quick(SUFFIXES, (".json.gz", ".pftrace.gz", ".parquet")))
def test_a_trace_holds_sums(profiles: dict[str, Profile], suffix: str, tmp_path: Path) -> None:
    for name in ("mixed", "sums"):
        profiles[name].save(tmp_path / f"t{suffix}")
        loaded = profscope.load(tmp_path / f"t{suffix}")
        assert_same(loaded, profiles[name])
        pd.testing.assert_frame_equal(loaded.balance(), profiles[name].balance())
        pd.testing.assert_frame_equal(loaded.summary(), profiles[name].summary())


@pytest.mark.usefixtures("alone")
def test_where_folding_is_behind_launches_record_fewer_ctas(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no launch waits: one is left out, and the next ones take less memory."""
    place, launched = HostBuffers.place, iter(range(100))

    def behind(self: HostBuffers, *args: Any) -> Any:
        return None if next(launched) == 2 else place(self, *args)

    monkeypatch.setattr(HostBuffers, "place", behind)
    with keeping("sums", memory=1) as prof:
        for _ in range(12):
            count(3, ctas=2000)  # about 0.25 MB
    recorded = prof.launches["ctas"].tolist()
    assert len(recorded) == 11
    assert recorded == sorted(recorded, reverse=True)
    # Every eighth, which is less than 256.
    assert (recorded[0], recorded[-1]) == (2000, 250), prof.metadata["notes"]
    kernel = prof.summary().query("kind == 'kernel'").iloc[0]
    assert kernel[["launches", "launches_seen", "count"]].tolist() == [11, 12, 11 * 2000]
    assert "spread over the grid" in " ".join(prof.metadata["notes"])
    assert prof.profile.validate() == []


def test_launches_are_folded_as_their_memory_fills(tmp_path: Path) -> None:
    with keeping("sums", memory=1) as prof:
        recorder = prof._parts().recorder
        for _ in range(12):
            count(3, ctas=2000)  # about 0.25 MB
        assert recorder.folder is not None
        recorder.folder.fold()
        assert recorder.log.launches == []
        assert recorder.recorded() == {"count_kernel": 12}
        launch_add()
        assert len(prof.launches) == 13
        so_far = prof.profile
        launch_add()
    assert len(so_far.launches) == 13
    assert prof.profile.validate() == []
    sums = prof.sums.set_index("scope")
    ctas = int(prof.launches.query("kernel == 'count_kernel'")["ctas"].sum())
    if ctas < 24_000:  # some are left out where a program of this process that shares its tag needs more
        assert any(len(programs) > 1 for programs in PROGRAMS._by_tag.values())
    assert sums.loc["count_kernel", ["launches", "warps", "count"]].tolist() == [12, ctas, ctas]
    assert sums.loc["add_kernel", "launches"] == 2
    with keeping("sums", spool=tmp_path) as spooled:
        for _ in range(12):
            count(3, ctas=2000)
        launch_add()
        launch_add()
    loaded = profscope.load(tmp_path)
    assert_equal(loaded, spooled.profile)
    pd.testing.assert_frame_equal(loaded.sums[["scope", "grid_count"]], prof.sums[["scope", "grid_count"]])


def test_spans_between_sums_stay_and_hold_no_memory_of_others() -> None:
    """As on a GPU, where launches share the memory that they come to the host in."""
    sums, spans = sum_launch(sum_manifest([[site()]])), launch([Program((Scope((Work(100),)),))])
    whole = np.concatenate([sums.buffer, spans.buffer])
    log = LaunchLog()
    for manifest, buffer, offset, ctas in (
        (sums.manifest, sums.buffer, 0, 6), (spans.manifest, spans.buffer, len(sums.buffer), 1),
    ):  # fmt: skip
        plan = Plan(len(buffer), 0, LaunchBits.decode(int(launch_header(buffer)["launch_bits"])), ctas)
        route = Route.of(_Shared(), plan, 0, 0, (manifest,))  # type: ignore[arg-type]
        log.entries.append((PROGRAMS.with_manifest(manifest), route, whole, offset, ORDINARY))
    folder = Folder(log, Arrivals(log), HeldRecords(Journal()), Folded())
    folder.fold()
    (left,) = log.launches
    assert left.manifest is spans.manifest
    assert (left.slice.fetch() == spans.buffer).all()
    assert not np.shares_memory(left.slice.fetch(), whole)
    assert log.part() == len(spans.buffer)
    (program,) = folder.folded.programs()
    assert program.launches["launch"].tolist() == [0]
    folder.close()


class _Shared:
    """Buffers of launches in one memory."""

    place = None

    def claimant(self, stream: int) -> None: ...

    def slice(self, filling: Bytes, offset: int, size: int) -> _SharedSlice:
        return _SharedSlice(filling[offset : offset + size])

    def memory(self, filling: Bytes) -> Bytes:
        return filling

    def cold(self, filling: Bytes) -> tuple[int, ...]:
        return ()


@dataclass(frozen=True)
class _SharedSlice:
    bytes: Bytes
    shares: bool = True
    drained: bool = True
    cold: bool = False

    @property
    def extent(self) -> tuple[int, int]:
        return self.bytes.ctypes.data, self.bytes.nbytes

    def fetch(self) -> Bytes:
        return self.bytes
