"""A profile larger than the free memory is refused before it is read; parts of it are read all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import profscope
from profscope.errors import TraceError
from profscope.profiles import Profile
from profscope.traces import trace_file
from profscope.traces.loading import load_part
from profscope.traces.trace_filter import TraceFilter
from tests.support.profiles import regular_profile


@pytest.fixture(scope="module")
def profile() -> Profile:
    return regular_profile(launches=3, ctas=2, warps=2, iterations=5)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, profile: Profile) -> Path:
    folder = tmp_path_factory.mktemp("room")
    profile.save(folder / "t.parquet")
    return folder


def free(patch: pytest.MonkeyPatch, spans: int) -> None:
    """Let there be memory for so many spans."""
    patch.setattr(trace_file, "free_bytes", lambda: spans * trace_file.PEAK_BYTES_A_SPAN)


def test_what_does_not_fit_is_refused_before_it_is_read(
    saved: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, spans = "t.parquet", len(profile.tables.df)
    free(monkeypatch, spans - 1)
    with pytest.raises(
        TraceError, match=rf"{name} has {spans} spans: to read them takes up to .* are free; .*DuckDB"
    ):
        profscope.load(saved / name)
    free(monkeypatch, spans)
    assert len(profscope.load(saved / name).df) == spans


def test_a_launch_is_read_where_the_whole_does_not_fit(
    saved: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = profile.tables.df["launch"] == 1
    free(monkeypatch, int(launch.sum()))
    assert len(load_part(saved / "t.parquet", TraceFilter(launch=1)).tables.df) == launch.sum()
    with pytest.raises(TraceError, match="are free"):  # no launch has this number: all would be read
        load_part(saved / "t.parquet", TraceFilter(launch=99))


def test_any_trace_passes_where_free_memory_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "free_bytes", lambda: None)
    trace_file.check_room("t", 1 << 50)
