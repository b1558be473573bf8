"""A folder of ranks whose spans do not fit: launches and sums of all, spans of one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pandas.testing import assert_frame_equal

import profscope
from profscope.errors import TraceError
from profscope.profiles import Profile
from profscope.traces.importers import ranks
from profscope.traces.jobs.manifest import write_manifest
from profscope.viewer.cli import main
from tests.support.profiles import regular_profile

RANKS, SLOWEST = 4, 2
CLOCK = {"clock": {"read_cycles": 2.0, "row_cycles": 17.5, "basis": "measured"}}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job") / "step"
    for rank in range(RANKS):
        write(folder, rank)
    return folder


def write(folder: Path, rank: int) -> None:
    tables = regular_profile(launches=3, ctas=4, warps=2, iterations=3, seed=rank).tables
    took = 50_000 if rank == SLOWEST else 0
    about = {"id": "a", "rank": rank, "world_size": RANKS, "host": "node", "boot": "b", "clock": []}
    host = {"devices": {"0": [{"timer_ns": 0, "unix_ns": 7, "perf_counter_ns": 0, "error_ns": 100.0}]}}
    launches = tables.launches.assign(end_ns=tables.launches["end_ns"] + took, ns_uncertainty=32.0)
    metadata = (
        tables.metadata | CLOCK | {"job": about, "host_clock": host, "notes": [f"{rank} launches ran bare"]}
    )
    part = replace(tables, launches=launches, metadata=metadata)
    Profile.of(part).save(folder / f"rank={rank}" / "trace.parquet")


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "MOST_SPANS", 10)


def known(summary: pd.DataFrame) -> pd.DataFrame:
    return summary[[name for name in summary if not name.startswith(("p50", "p90", "p99"))]]


def test_all_ranks_are_summed_and_one_is_there(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = profscope.load(job)
    monkeypatch.setattr(ranks, "MOST_SPANS", 10)
    large = profscope.load(job)
    assert_frame_equal(known(whole.summary()), known(large.summary()), check_categorical=False)
    assert large.summary()["p50_ns"].isna().all()
    assert_frame_equal(whole.launches, large.launches)
    assert_frame_equal(whole.ranks.skew(), large.ranks.skew())
    assert_frame_equal(whole.ranks.summary(), large.ranks.summary())
    own = whole.launches.loc[whole.launches["rank"] == SLOWEST, "launch"]
    spans = whole.df[whole.df["launch"].isin(own)].reset_index(drop=True)
    names = ["launch", "cta", "scope", "start_ns", "duration_ns"]
    assert_frame_equal(large.df[names], spans[names], check_categorical=False)
    records = [each.overhead()["records_per_warp"].tolist() for each in (whole, large)]
    assert records[0] == records[1]
    shares = [each.lines().set_index("line")["self_share"].to_dict() for each in (whole, large)]
    assert shares[0] == shares[1]
    said = "; ".join(large.metadata["notes"])
    assert (
        "spans, samples, findings are of rank 2 alone, the slowest: the 1,728 spans of all ranks are summed, "
        "not held in memory" in said
    )
    assert "each of 4 ranks: 0 to 3 launches ran bare" in said


@pytest.mark.usefixtures("large")
def test_a_rank_or_a_launch_is_read_alone(job: Path) -> None:
    one = profscope.load(job, rank=3)
    own = profscope.load(job / "rank=3" / "trace.parquet")
    assert_frame_equal(one.df.drop(columns="start_ns"), own.df.drop(columns="start_ns"))
    assert one.launches["rank"].tolist() == [3] * 3
    assert [note for note in one.metadata["notes"] if "bare" in note] == ["rank 3: 3 launches ran bare"]
    assert one.metadata["device"] == own.metadata["device"]
    assert [each["rank"] for each in one.metadata["ranks"]] == [3]
    assert one.metadata["ranks"][0]["clock"] == "aligned"
    assert "p50_ns" in one.summary()
    launch = profscope.load(job, launch=4)
    assert launch.launches[["launch", "rank"]].to_numpy().tolist() == [[4, 1]]
    assert set(launch.df["launch"]) == {4}
    with pytest.raises(TraceError, match=r"no launch 99; there are 12 launches"):
        profscope.load(job, launch=99)


@pytest.mark.usefixtures("large")
def test_the_first_screen_and_the_report(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(job), "--width", "100"]) == 0
    said = capsys.readouterr().out
    assert "matmul_kernel" in said
    assert "12 launches" in said
    assert "\nof rank 2:\n" in said
    report = profscope.load(job).report()
    assert report["kernels"][0]["launches"] == 12
    assert len(report["kernels"][0]["lines"]["rows"]) > 2
    assert report["header"]["notes"][0].startswith("spans, samples, findings are of rank 2 alone")


@pytest.mark.usefixtures("large")
def test_it_is_not_saved_as_if_it_were_whole(job: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"has the spans of rank 2 alone; .*rank=N"):
        profscope.load(job).save(tmp_path / "all.pftrace.gz")
    profscope.load(job).save(tmp_path / "all.html")
    assert not (tmp_path / "all.pftrace.gz").exists()


@pytest.mark.usefixtures("large")
def test_a_part_without_sums_is_named(job: Path, tmp_path: Path) -> None:
    shutil.copytree(job, tmp_path / "step")
    own = profscope.load(job / "rank=1" / "trace.parquet").tables
    alone = {name: value for name, value in own.metadata.items() if name != "job"}
    Profile.of(replace(own, metadata=alone)).save(tmp_path / "step" / "rank=1" / "trace.parquet")
    prof = profscope.load(tmp_path / "step")
    assert sorted(set(prof.launches["rank"])) == [0, 2, 3]
    said = "rank 1 is missing: rank=1/trace.parquet has no sums; rank=1 shows it"
    assert said in prof.metadata["notes"]
    assert len(profscope.load(tmp_path / "step", rank=1).df) == len(own.df)


@pytest.mark.usefixtures("large")
def test_a_part_of_another_format_is_named_and_read_alone(job: Path, tmp_path: Path) -> None:
    shutil.copytree(job, tmp_path / "step")
    part = tmp_path / "step" / "rank=1" / "trace.parquet"
    profscope.load(part).save(part.with_name("trace.pftrace.gz"))
    part.unlink()
    prof = profscope.load(tmp_path / "step")
    said = "rank 1 is missing: rank=1/trace.pftrace.gz has no sums; rank=1 shows it"
    assert said in prof.metadata["notes"]
    assert len(profscope.load(tmp_path / "step", rank=1).df) > 0


@pytest.mark.usefixtures("large")
def test_the_next_slowest_is_shown_where_the_slowest_is_damaged(job: Path, tmp_path: Path) -> None:
    shutil.copytree(job, tmp_path / "step")
    path = tmp_path / "step" / f"rank={SLOWEST}" / "trace.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes(byte ^ 1 for byte in content[100:400]) + content[400:])
    prof = profscope.load(tmp_path / "step")
    assert SLOWEST not in set(prof.launches["rank"])
    assert [note for note in prof.metadata["notes"] if note.startswith(f"rank {SLOWEST} is missing: ")]
    assert any("the 1,296 spans of all ranks are summed" in note for note in prof.metadata["notes"])
    with pytest.raises(TraceError, match="damaged"):
        profscope.load(tmp_path / "step", rank=SLOWEST)


@pytest.mark.usefixtures("large")
def test_a_kernel_that_the_shown_rank_lacks_is_said_to_be_of_another(job: Path, tmp_path: Path) -> None:
    shutil.copytree(job, tmp_path / "step")
    own = profscope.load(job / "rank=0" / "trace.parquet").tables
    frames = {
        name: getattr(own, name).assign(kernel=pd.Categorical(["other"] * len(getattr(own, name))))
        for name in ("df", "ctas")
    }
    launches = own.launches.assign(kernel="other")
    metadata = {name: value for name, value in own.metadata.items() if name not in ("variants", "kernels")}
    tables = replace(own, launches=launches, metadata=metadata, **frames)
    Profile.of(tables).save(tmp_path / "step" / "rank=0" / "trace.parquet")
    clean = profscope.load(tmp_path / "step").findings().attrs["clean"]
    assert "the rank whose spans are read did not record it; rank=0 did" in clean["other"]


@pytest.mark.usefixtures("large")
def test_a_cta_is_of_one_rank_and_the_note_says_so(job: Path) -> None:
    prof = profscope.load(job, cta=3)
    assert set(prof.launches["rank"]) == {SLOWEST}
    assert any(note.startswith("all figures are of rank 2 alone") for note in prof.metadata["notes"])


@pytest.mark.usefixtures("large")
def test_a_manifest_makes_no_other_format_large(tmp_path: Path) -> None:
    write(tmp_path, 0)
    profscope.load(tmp_path / "rank=0" / "trace.parquet").save(tmp_path / "rank=0" / "trace.pftrace.gz")
    (tmp_path / "rank=0" / "trace.parquet").unlink()
    write_manifest(tmp_path, {0: tmp_path / "rank=0" / "trace.pftrace.gz"}, {0: 10**9})
    prof = profscope.load(tmp_path)
    assert len(prof.df) > 0
    assert prof.sums.empty


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("damage", ["cut short", "foreign", "changed", "empty"])
def test_a_part_that_cannot_be_read_costs_itself_and_a_note(damage: str, tmp_path: Path) -> None:
    for rank in range(RANKS):
        write(tmp_path / "step", rank)
    path = tmp_path / "step" / "rank=1" / "trace.parquet"
    content = path.read_bytes()
    if damage == "cut short":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "foreign":
        pq.write_table(pa.table({"launch": np.arange(3)}), path)
    elif damage == "empty":
        path.unlink()
    else:
        at = content.rindex(b"profscope.launches") + 60
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    prof = profscope.load(tmp_path / "step")
    assert sorted(set(prof.launches["rank"])) == [0, 2, 3]
    assert sum(note.startswith("rank 1 is missing: ") for note in prof.metadata["notes"]) == 1
