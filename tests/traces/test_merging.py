"""Parts of several ranks as one profile: nothing is lost, and each launch has its rank and its time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import profscope
from profscope.analysis.overhead import timed_entry
from profscope.analysis.texts import kernel_of_note
from profscope.commands.convert import main as convert
from profscope.errors import TraceError
from profscope.profiles import Profile
from profscope.schema import Tables
from profscope.store.file_checks import misshapen
from profscope.traces.jobs.merging import merged
from profscope.traces.jobs.merging_metadata import merged_notes
from profscope.traces.jobs.stack import Part
from tests.support.profiles import profile_metadata, regular_profile
from tests.support.validation import validate


@pytest.fixture(scope="module")
def whole() -> Profile:
    profile = regular_profile(launches=4, ctas=4, warps=2, iterations=2)
    launches = profile.launches.assign(variant=np.array([0, 1, 1, 0], np.int32))
    variants = [{"variant": number, "key": key, "builds": []} for number, key in enumerate("ab")]
    return Profile(profile.tables.df, launches, profile.metadata | {"variants": {"matmul_kernel": variants}})


def part(whole: Profile, launches: list[int], **metadata: Any) -> Tables:
    """Some launches by themselves, with numbers from 0 on, as another process would have them."""
    df = whole.tables.df[whole.tables.df["launch"].isin(launches)]
    new = pd.Series(np.arange(len(launches), dtype=np.int32), launches)
    first = df.index[0]
    df = df.assign(launch=new[df["launch"]].to_numpy(), parent=np.maximum(df["parent"] - first, -1))
    table = whole.launches[whole.launches["launch"].isin(launches)]
    table = table.assign(launch=new[table["launch"]].to_numpy())
    return Tables(df.reset_index(drop=True), table.reset_index(drop=True), whole.metadata | metadata)


def own_variants(tables: Tables) -> Tables:
    """With the numbers that a process would have given that met the second configuration first."""
    (kernel,) = tables.metadata["variants"]
    described = tables.metadata["variants"][kernel]
    swapped = [described[1] | {"variant": 0}, described[0] | {"variant": 1}]
    launches = tables.launches.assign(variant=1 - tables.launches["variant"])
    launches["variant"] = launches["variant"].astype(np.int32)
    return replace(tables, launches=launches, metadata=tables.metadata | {"variants": {kernel: swapped}})


def test_two_parts_are_the_whole(whole: Profile) -> None:
    parts = [
        Part(own_variants(part(whole, [2, 3])), "b", 1),
        Part(part(whole, [0, 1], notes=["odd"]), "a", 0),
    ]
    together = merged(parts)
    assert validate(Profile.of(together).tables) == []
    assert_frame_equal(together.df, whole.tables.df)
    assert_frame_equal(
        together.launches, whole.launches.assign(rank=np.array([0, 0, 1, 1], np.int32)), check_exact=True
    )
    assert together.metadata["variants"] == whole.metadata["variants"]
    assert [each["rank"] for each in together.metadata["ranks"]] == [0, 1]
    assert together.metadata["notes"][1:] == ["rank 0: odd"]


@pytest.mark.parametrize(
    "odd",
    [
        dict.fromkeys(("sources", "code", "notes", "variants", "kernels", "job", "host_clock", "sampling")),
        {
            "baseline": {"pairs": 2},
            "kernels": {"matmul_kernel": dict.fromkeys(("work", "recorded", "in_flight", "unpaired"))},
            "sampler": {"launches": None, "binaries": None, "kernels": None},
        },
        {
            "baseline": {"kernels": None},
            "kernels": {"matmul_kernel": {"recorded": {"ctas": None, "sample": None}}},
            "evidence": {"added_s": None, "kernels": None, "not_measured": None},
        },
    ],
)
def test_entries_that_are_null_are_as_those_that_lack(odd: dict[str, Any], whole: Profile) -> None:
    parts = [Part(part(whole, [2 * rank, 2 * rank + 1], **odd), "", rank) for rank in range(2)]
    assert not list(misshapen(parts[0].tables.metadata))
    together = Profile.of(merged(parts))
    assert validate(together.tables) == []
    assert len(together.report()["kernels"]) == 2


def test_merge_refuses_one_part_twice(
    whole: Profile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, launches in (("a.json", [0, 1]), ("copy.pftrace", [0, 1]), ("b.json", [2, 3])):
        Profile.of(part(whole, launches)).save(tmp_path / name)
    (tmp_path / "link.json").symlink_to("a.json")
    for twice, why in (("a", "are one trace"), ("link", "are one trace"), ("copy", "hold one recording")):
        name = f"{twice}.pftrace" if twice == "copy" else f"{twice}.json"
        words = ["merge", str(tmp_path / "a.json"), str(tmp_path / name), "-o", str(tmp_path / "o.json")]
        assert convert(words) == 2
        assert why in capsys.readouterr().err
        assert not (tmp_path / "o.json").exists()
    assert convert([*words[:2], str(tmp_path / "b.json"), *words[3:]]) == 0


def test_payloads_that_one_part_has(whole: Profile) -> None:
    with_payloads = part(whole, [0, 1])
    df = with_payloads.df.assign(
        bytes=pd.array([1] * len(with_payloads.df), "Int32"),
        stage=pd.Categorical(["steady"] * len(with_payloads.df)),
    )
    others = part(whole, [2, 3])
    together = merged([Part(others, "", 0), Part(replace(with_payloads, df=df), "", 1)])
    assert validate(Profile.of(together).tables) == []
    assert together.df["bytes"].isna().sum() == together.df["stage"].isna().sum() == len(others.df)


def clocks(gpu_ahead_ns: int, host_ahead_ns: int, error_ns: int, rank: int, base_ns: int) -> dict[str, Any]:
    """Of a rank: its GPU's timer goes ahead of its host, and that ahead of rank 0's host."""
    moments = [
        {"timer_ns": at + gpu_ahead_ns, "unix_ns": at, "perf_counter_ns": 0, "error_ns": 100}
        for at in (base_ns, base_ns + 10**9)
    ]
    compared = [
        {"unix_ns": at, "offset_ns": -host_ahead_ns, "error_ns": error_ns}
        for at in (base_ns, base_ns + 10**9)
    ]
    job = {"id": "j", "rank": rank, "world_size": 2, "began_unix_ns": base_ns, "clock": compared}
    return {"host_clock": {"devices": {"0": moments}}, "job": job}


def shifted(tables: Tables, ns: int) -> Tables:
    launches = tables.launches.assign(
        start_ns=tables.launches["start_ns"] + ns, end_ns=tables.launches["end_ns"] + ns
    )
    return replace(tables, df=tables.df.assign(start_ns=tables.df["start_ns"] + ns), launches=launches)


def test_what_was_emulated_and_what_was_not_are_no_profile(whole: Profile) -> None:
    emulated = replace(whole.tables, metadata={**whole.metadata, "backend": "emulator"})
    on_gpu = replace(whole.tables, metadata={**whole.metadata, "backend": "gpu"})
    with pytest.raises(TraceError, match=r"a was emulated and b was not"):
        merged([Part(emulated, "a", 0), Part(on_gpu, "b", 1)])


def test_times_are_put_on_one_clock(whole: Profile) -> None:
    base_ns = int(whole.launches["start_ns"].min())
    told = [clocks(5_000, 0, 0, 0, base_ns), clocks(-7_000, 300_000, 20_000, 1, base_ns + 300_000)]
    parts = [
        shifted(part(whole, [0, 1], **told[0]), 5_000),
        shifted(part(whole, [2, 3], **told[1]), 300_000 - 7_000),
    ]
    together = merged([Part(each, "", rank) for rank, each in enumerate(parts)])
    assert_frame_equal(together.df, whole.tables.df)
    skew = Profile.of(together).ranks.skew()
    assert skew["ranks"].tolist() == [2, 2]
    assert skew["start_skew_ns"].tolist() == [
        int(whole.launches["start_ns"][late] - whole.launches["start_ns"][early])
        for early, late in ((0, 3), (1, 2))
    ]
    assert skew["first_rank"].tolist() == [0, 0]
    assert skew.attrs["clock_error_ns"] == pytest.approx(20_264, abs=60)
    ranks = Profile.of(together).ranks.summary().set_index("rank")
    durations = whole.launches["end_ns"] - whole.launches["start_ns"]
    assert ranks["common_ns"].to_dict() == {0: durations[:2].sum(), 1: durations[2:].sum()}
    assert ranks["busy_ns"].to_dict() == ranks["common_ns"].to_dict()
    assert ranks["slowest"].sum() == 2
    alike = together.launches.assign(end_ns=together.launches["start_ns"] + 1000)
    assert Profile.of(replace(together, launches=alike)).ranks.summary()["slowest"].tolist() == [0, 0]
    errors = [each["clock_error_ns"] for each in together.metadata["ranks"]]
    assert errors == [pytest.approx(100 + 32, abs=1), pytest.approx(20_000 + 100 + 32, abs=60)]
    assert together.metadata["notes"][0].startswith(
        "times of ranks are on the clock of rank 0's host, each to 20."
    )


def test_times_of_which_too_little_is_known_stay(whole: Profile) -> None:
    parts = [Part(part(whole, [0, 1]), "", 0), Part(part(whole, [2, 3], job={"rank": 1}), "", 1)]
    together = merged(parts)
    assert_frame_equal(together.df, whole.tables.df)
    assert "not aligned" in together.metadata["notes"][0]
    skew = Profile.of(together).ranks.skew()
    assert skew["start_skew_ns"].isna().all()
    assert (skew["longest_ns"] >= skew["shortest_ns"]).all()
    assert skew.attrs["not_measured"] == ["start and end skew: the ranks' times are not on one clock"]
    emulated = [
        replace(each, tables=replace(each.tables, metadata=profile_metadata("emulator"))) for each in parts
    ]
    assert "each with a clock of its own" in merged(emulated).metadata["notes"][0]


@pytest.fixture
def job(whole: Profile, tmp_path: Path) -> Path:
    """The parts of three ranks of four, in different formats."""
    for rank in range(3):
        about = {"id": "j", "rank": rank, "world_size": 4, "began_unix_ns": 5}
        profile = Profile.of(part(whole, [rank, rank + 1], job=about))
        profile.save(tmp_path / f"rank={rank}" / ("t.pftrace.gz", "t.parquet", "t.json")[rank])
    return tmp_path


def test_a_folder_of_parts_is_a_profile(job: Path) -> None:
    profile = profscope.load(job)
    assert validate(profile.tables) == []
    assert profile.launches["rank"].tolist() == [0, 0, 1, 1, 2, 2]
    assert profile.launches["launch"].tolist() == list(range(6))
    assert any(note.startswith("rank 3 of 4 is missing: ") for note in profile.metadata["notes"])
    parts = [each["part"] for each in profile.metadata["ranks"]]
    assert parts == ["rank=0/t.pftrace.gz", "rank=1/t.parquet", "rank=2/t.json"]


def test_what_cannot_be_read_is_named_and_the_rest_is_there(job: Path, whole: Profile) -> None:
    (job / "rank=0/t.pftrace.gz").write_bytes(b"\x1f\x8b cut")
    (job / "rank=3").mkdir()
    about = {"id": "before", "rank": 4, "world_size": 8, "began_unix_ns": 1}
    Profile.of(part(whole, [0], job=about)).save(job / "rank=4" / "t.parquet")
    profile = profscope.load(job)
    assert sorted(set(profile.launches["rank"])) == [1, 2]
    notes = profile.metadata["notes"]
    assert any(note.startswith("rank 0 is missing: ") and "gzip" in note for note in notes)
    assert any(note.startswith("rank 3 is missing: ") for note in notes)
    assert "rank=4/t.parquet is left out: it is of another run" in notes
    assert not any("of 8" in note for note in notes)


def test_a_part_of_another_rank_or_of_a_rank_too_many_is_not_counted(job: Path) -> None:
    for rank in (3, 7):
        (job / f"rank={rank}").mkdir()
        (job / f"rank={rank}" / "t.parquet").write_bytes((job / "rank=1" / "t.parquet").read_bytes())
    profile = profscope.load(job)
    assert profile.launches["rank"].tolist() == [0, 0, 1, 1, 2, 2]
    assert "rank=3/t.parquet is left out: it is of rank 1" in profile.metadata["notes"]
    assert "rank=7/t.parquet is left out: the run had 4 ranks" in profile.metadata["notes"]


def test_files_beside_a_trace_are_passed_over(job: Path) -> None:
    (job / "rank=1" / ".DS_Store").write_bytes(b"\0")
    (job / "rank=1" / "stdout.log").write_text("step 1\n")
    assert profscope.load(job).launches["rank"].tolist() == [0, 0, 1, 1, 2, 2]


def test_what_may_not_be_read_costs_itself_and_a_note(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    iterdir = Path.iterdir

    def refused(path: Path) -> Any:
        if path.name == "rank=1":
            raise PermissionError(13, "Permission denied", str(path))
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", refused)
    profile = profscope.load(job)
    assert profile.launches["rank"].tolist() == [0, 0, 2, 2]
    assert any(n.startswith("rank 1 is missing: ") and "denied" in n for n in profile.metadata["notes"])


def test_times_of_a_rank_alone_where_rank_0_is_missing(job: Path) -> None:
    (job / "rank=0/t.pftrace.gz").write_bytes(b"\x1f\x8b cut")
    said = profscope.load(job, rank=2).metadata["notes"]
    assert [note for note in said if note.startswith("times are of the clock of rank 2's own host: rank 0")]


def test_a_folder_without_a_part_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "rank=0").mkdir()
    with pytest.raises(TraceError, match="has no part that can be read: rank 0 is missing: it has written n"):
        profscope.load(tmp_path)


def timed(key: str, bare_ns: list[float]) -> dict[str, Any]:
    entry = {
        "key": key, "bare_ns": bare_ns, "instrumented_ns": [2 * ns for ns in bare_ns],
        "unrecorded": len(bare_ns), "waited": 1,
    }  # fmt: skip
    return {"pairs": 2, "kernels": {"matmul_kernel": [entry]}}


def test_each_configuration_keeps_its_bare_times(whole: Profile) -> None:
    parts = [
        Part(part(whole, launches, baseline=baseline), "", rank)
        for rank, (launches, baseline) in enumerate(
            [([0], timed("a", [9.0])), ([1, 2], timed("b", [5.0, 6.0])), ([3], {})]
        )
    ]
    together = merged(parts).metadata
    assert timed_entry(together, "matmul_kernel", 0)["bare_ns"] == [9.0]
    assert timed_entry(together, "matmul_kernel", 1)["bare_ns"] == [5.0, 6.0]


def test_ranks_have_tracks_of_their_own(job: Path) -> None:
    profile = profscope.load(job)
    profile.save(job.parent / "m.json")
    events = json.loads((job.parent / "m.json").read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert {"rank 0 SM 0", "rank 1 SM 0", "rank 2 SM 0"} <= names
    profile.save(job.parent / "m.pftrace")
    assert all(f"rank {rank}".encode() in (job.parent / "m.pftrace").read_bytes() for rank in range(3))


def test_bare_times_of_one_configuration_in_two_ranks_are_one_list(whole: Profile) -> None:
    parts = [
        Part(part(whole, [launch], baseline=timed("a", [ns])), "", rank)
        for rank, (launch, ns) in enumerate([(0, 9.0), (3, 8.0)])
    ]
    both = timed_entry(merged(parts).metadata, "matmul_kernel", 0)
    assert both == {
        "key": "a", "bare_ns": [9.0, 8.0], "instrumented_ns": [18.0, 16.0],
        "unrecorded": 2, "waited": 2,
    }  # fmt: skip


def sampled(
    binary: str, variant: int, samples: int, period: int, apart: list[float] | None
) -> dict[str, Any]:
    entry = {
        "kernel": "matmul_kernel", "variant": variant, "key": "ab"[variant], "binary": binary, "launches": 1,
        "samples": samples, "dropped": 0, "period_cycles": [period], "apart": apart,
    }  # fmt: skip
    counts = {"launches": 1, "samples": samples, "dropped": 0, "period_cycles": [period], "notes": ["cold"]}
    return {"kernels": {"matmul_kernel": {binary: 1}}, "binaries": [entry], **counts}


def test_what_is_known_of_samples_is_of_all_parts(whole: Profile) -> None:
    """In the numbers that configurations have in the whole, as the samples themselves."""
    other = own_variants(part(whole, [2, 3], sampler=sampled("bare", 0, 30, 64, [0.2, 0.1])))
    parts = [
        Part(part(whole, [0], sampler=sampled("bare", 0, 10, 32, None)), "", 0),
        Part(other, "", 1),  # its 0 is the whole's 1
        Part(part(whole, [1], sampler=sampled("bare", 1, 5, 64, [0.3, 0.3])), "", 2),
        Part(part(whole, [3]), "", 3),
    ]
    told = merged(parts).metadata["sampler"]
    assert (told["launches"], told["samples"], told["period_cycles"]) == (3, 45, [32, 64])
    assert (told["kernels"], told["notes"]) == ({"matmul_kernel": {"bare": 3}}, ["cold"])
    binaries = [
        (each["variant"], each["launches"], each["samples"], each["apart"]) for each in told["binaries"]
    ]
    assert binaries == [(0, 1, 10, None), (1, 2, 35, [0.2, 0.1])]


def test_equal_notes_are_one_with_how_many_ranks_say_so() -> None:
    ran = "k2: {} launches ran bare, see k.py:{}"
    notes = {
        0: [ran.format(7, 3), "k #1: odd", "everywhere"],
        2: ["everywhere", ran.format("1,000", 3)],
        3: [ran.format(7, 3), "k #2: odd", "k3: 2 launches", "k3: 3 launches", "everywhere"],
    }
    assert merged_notes(notes) == [
        "each of 3 ranks: k2: 7 to 1,000 launches ran bare, see k.py:3",
        "rank 0: k #1: odd",
        "each of 3 ranks: everywhere",
        "rank 3: k #2: odd",
        "rank 3: k3: 2 launches",
        "rank 3: k3: 3 launches",
    ]
    assert merged_notes({4: ["alone"]}) == ["alone"]
    listed = {0: ["lines 3, 4"], 1: ["lines 5, 4"]}  # a comma behind a number is none of its
    assert merged_notes(listed) == ["each of 2 ranks: lines 3 to 5, 4"]
    kernels = [kernel_of_note(note) for note in merged_notes(notes)]
    assert kernels == ["k2", "k", "everywhere", "k", "k3", "k3"]


def test_why_parts_were_not_sampled_is_said_of_each(whole: Profile) -> None:
    whys = [{"why": "no CUPTI", "kernels": {}}, {"why": "no CUPTI", "kernels": {}}, {"kernels": {}}]
    parts = [Part(part(whole, [at], sampler=why), "", at) for at, why in enumerate(whys)]
    assert merged(parts[:2]).metadata["sampler"]["why"] == "no CUPTI"
    assert merged(parts[1:]).metadata["sampler"]["why"] == "rank 1: no CUPTI"
