"""Traces at addresses, and the manifest of a job's parts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest
from pandas.testing import assert_frame_equal
from upath import UPath

import profscope
from profscope import installed
from profscope.errors import TraceError
from profscope.profiles import Profile
from profscope.traces.importers import ranks
from profscope.traces.jobs.manifest import NAME, write_manifest
from profscope.viewer.cli import main
from tests.support.profiles import regular_profile
from tests.support.round_trips import assert_same

STEP = "memory://bucket/step"


@pytest.fixture
def memory() -> Iterator[None]:
    yield
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs[:] = [""]


def part(rank: int) -> Profile:
    tables = regular_profile(launches=2, ctas=2, warps=2, iterations=2, seed=rank).tables
    about = {"id": "a", "rank": rank, "world_size": 3, "clock": []}
    return Profile.of(replace(tables, metadata=tables.metadata | {"job": about}))


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("suffix", [".parquet", ".pftrace.gz", ".json"])
def test_a_trace_at_an_address_is_saved_loaded_and_shown(
    suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = part(0)
    saved.save(f"memory://bucket/t{suffix}")
    assert_same(profscope.load(f"memory://bucket/t{suffix}"), saved)
    assert set(profscope.load(f"memory://bucket/t{suffix}", launch=1).df["launch"]) == {1}
    assert main([f"memory://bucket/t{suffix}"]) == 0
    assert "matmul_kernel" in capsys.readouterr().out


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("most", [10**6, 10])
def test_the_folder_of_a_job_at_an_address(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "MOST_SPANS", most)
    for rank in range(3):
        for folder in (STEP, tmp_path / "step"):
            if folder != STEP or rank != 1:
                part(rank).save(f"{folder}/rank={rank}/trace.parquet")
    (tmp_path / "step" / "rank=1" / "trace.parquet").unlink()
    here, there = profscope.load(tmp_path / "step"), profscope.load(STEP)
    assert_frame_equal(here.df, there.df)
    assert_frame_equal(here.launches, there.launches)
    assert any(note.startswith("rank 1") for note in there.metadata["notes"])
    assert profscope.load(STEP, rank=2).launches["rank"].tolist() == [2, 2]


def test_what_cannot_be_reached_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TraceError, match=r"^no such file: memory://bucket/none.json$"):
        profscope.load("memory://bucket/none.json")
    with pytest.raises(TraceError, match=r"^cannot read nowhere://t.json: .*nowhere"):
        profscope.load("nowhere://t.json")
    monkeypatch.setitem(installed.EXTRAS, "remote", ("no_such_module",))
    with pytest.raises(TraceError, match=r"is an address: to read it needs .*'profscope\[remote\]'"):
        profscope.load("memory://t.json")


def test_what_can_only_be_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.open", refuse)
    with pytest.raises(TraceError, match=r"cannot write memory://bucket/t.json: .* can only be read"):
        part(0).save("memory://bucket/t.json")


@pytest.mark.usefixtures("memory")
def test_a_server_without_ranges_costs_no_traceback(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(3):
        name = f"rank={rank}/trace.parquet"
        UPath(f"{STEP}/{name}").parent.mkdir(parents=True, exist_ok=True)
        UPath(f"{STEP}/{name}").write_bytes((job / name).read_bytes())

    def refuse(*_: object, **__: object) -> None:
        raise ValueError("the server appears to support no range requests")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.open", refuse)
    with pytest.raises(TraceError, match="no range requests"):
        profscope.load(STEP)
    with pytest.raises(TraceError, match=r"cannot read memory://bucket/step/rank=0/trace.parquet: .*no ran"):
        profscope.load(f"{STEP}/rank=0/trace.parquet")


def test_nothing_is_left_of_a_save_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Iterator[bytes]:
        yield b"half"
        raise OSError("disk full")

    monkeypatch.setattr("profscope.traces.parquet.pieces", fails)
    with pytest.raises(TraceError, match=r"^cannot write memory://bucket/t.parquet: disk full$"):
        part(0).save("memory://bucket/t.parquet")
    assert not UPath("memory://bucket/t.parquet").exists()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    for rank in range(3):
        part(rank).save(tmp_path / f"rank={rank}" / "trace.parquet")
    return tmp_path


def test_a_manifest_stands_for_the_look_into_folders(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {rank: job / f"rank={rank}" / "trace.parquet" for rank in range(3)}
    write_manifest(job, paths, {0: 40, 1: 40, 2: 40})
    whole = profscope.load(job)
    monkeypatch.setattr(ranks, "rank_folders", lambda _: {})  # as where folders cannot be listed
    for trace in (job, job / NAME):
        assert_frame_equal(profscope.load(trace).df, whole.df)


def test_what_a_manifest_does_not_know_is_found(job: Path) -> None:
    moved = job / "rank=0" / "other.parquet"
    write_manifest(job, {0: moved, 1: job / "rank=1" / "trace.parquet"}, {})
    assert sorted(set(profscope.load(job).launches["rank"])) == [0, 1, 2]


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"schema": "other"}',
        '{"schema": "profscope-ranks/1", "parts": {"0": {"path": "../t.parquet"}}}',
        '{"schema": "profscope-ranks/1", "parts": {"x": {"path": "t.parquet"}}}',
        '{"schema": "profscope-ranks/1", "parts": {"-1": {"path": "t.parquet"}}}',
        '{"schema": "profscope-ranks/1", "parts": {"0": {"path": "t.parquet"}, "1": {"path": "t.parquet"}}}',
        '{"schema": "profscope-ranks/1", "parts": {"0": {"path": "_ranks.json"}}}',
        '{"schema": "profscope-ranks/1", "parts": {"0": {"path": "."}}}',
        '{"schema": "profscope-ranks/1", "parts": {"0": {"spans": 1}}}',
        '{"schema": "profscope-ranks/1", "parts": {"0": {"path": "t.parquet", "spans": true}}}',
        '{"schema": "profscope-ranks/1", "parts": {"0": {"path": "t.parquet", "spans": "many"}}}',
    ],
)
def test_a_manifest_that_is_none_costs_a_note(content: str, job: Path) -> None:
    (job / NAME).write_text(content)
    loaded = profscope.load(job)
    assert sorted(set(loaded.launches["rank"])) == [0, 1, 2]
    assert sum("_ranks.json is no list of ranks" in note for note in loaded.metadata["notes"]) == 1


def test_the_form_of_a_manifest(job: Path) -> None:
    write_manifest(job, {1: job / "rank=1" / "trace.parquet"}, {1: 7})
    assert json.loads((job / NAME).read_text()) == {
        "schema": "profscope-ranks/1",
        "parts": {"1": {"path": "rank=1/trace.parquet", "spans": 7}},
    }
