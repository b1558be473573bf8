"""What is drawn above the spans, as Perfetto's trace processor sees it, and in recordings that are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import profscope
from profscope.profiles import Profile
from profscope.traces.tracks import drawn_name
from tests.support.processor import Processor
from tests.support.profiles import regular_profile
from tests.support.round_trips import assert_same

FINDINGS = Path(__file__).parents[2] / "data" / "findings"
PATHS = """
with recursive place(id, path) as (
    select id, name from track where parent_id is null
    union all select track.id, path || '/' || name from track join place on track.parent_id = place.id
)
"""
RANK = "cast(extract_arg(source_arg_set_id, 'sibling_order_rank') as int)"


@pytest.fixture(scope="module")
def specialised() -> Profile:
    """A warp-specialised matmul: one CTA of it, from an H200."""
    return profscope.load(FINDINGS / "starving-partition.json.gz")


@pytest.fixture(scope="module")
def shown(specialised: Profile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processor]:
    path = tmp_path_factory.mktemp("overview") / "trace.pftrace"
    specialised.save(path)
    assert_same(profscope.load(path), specialised)
    with Processor(path) as processor:
        assert processor.errors() == []
        yield processor


def test_levels_are_gpu_kernel_sm_cta_and_warp(shown: Processor) -> None:
    paths = [path for (path,) in shown.query(f"{PATHS} select path from place where path like '%warp %'")]
    above = "GPU 0/matmul_ws_kernel/SM 124/CTA 0"
    assert {f"{above}/warp 0", f"{above}/partition0, warp 4", f"{above}/partition1, warp 11"} <= set(paths)
    assert all(path.startswith(above) for path in paths)


def test_no_level_is_empty(shown: Processor) -> None:
    slices = f"""{PATHS} select path, slice.name from place join slice on track_id = place.id
        where category = 'summary' order by length(path)"""
    assert shown.query(slices) == [
        ("GPU 0", "matmul_ws_kernel"),
        ("GPU 0/matmul_ws_kernel", "launch 0"),
        ("GPU 0/matmul_ws_kernel/SM 124", "1 CTA"),
        ("GPU 0/matmul_ws_kernel/SM 124/CTA 0", "CTA 0"),
    ]


def test_launches_are_slices_of_the_gpu(shown: Processor, specialised: Profile) -> None:
    launch = specialised.launches.iloc[0]
    found = shown.query("select ts, dur, s.name, t.name from gpu_slice s join track t on s.track_id = t.id")
    took = int(launch["end_ns"] - launch["start_ns"])
    assert found == [(int(launch["start_ns"]), took, "matmul_ws_kernel", "stream 0")]


def test_variables_come_first(shown: Processor) -> None:
    names = {name for (name,) in shown.query("select distinct name from slice")}
    assert {"a: barrier wait", "acc: dot", "tma load in flight", "barrier init", "loop L64"} <= names
    assert drawn_name("async copy a in flight", "async") == "a: async copy in flight"
    assert drawn_name("dot wait (drain)", "op") == "dot wait (drain)"
    assert drawn_name("load x", "scope") == "load x"  # a name of the user's own


def test_chrome_traces_have_them_too(specialised: Profile, tmp_path: Path, processor: Processor) -> None:
    specialised.save(tmp_path / "trace.json")
    processor.load(tmp_path / "trace.json")
    assert processor.errors() == []
    slices = processor.query("select name from slice where category = 'summary'")
    assert slices == [("matmul_ws_kernel",)]
    assert_same(profscope.load(tmp_path / "trace.json"), specialised)


def test_sms_stand_in_the_order_of_their_numbers(tmp_path: Path, processor: Processor) -> None:
    profile = regular_profile(launches=1, ctas=12, warps=1, iterations=1, sms=12)
    profile.save(tmp_path / "trace.pftrace")
    processor.load(tmp_path / "trace.pftrace")
    named = processor.query(f"select name from track where name glob 'SM [0-9]*' order by {RANK}")
    assert [name for (name,) in named] == [f"SM {sm}" for sm in range(12)]
    profile.save(tmp_path / "trace.json")
    processor.load(tmp_path / "trace.json")  # where Perfetto sorts processes by their names
    named = processor.query("select name from process where name like 'SM %' order by name")
    assert [re.sub(" +", " ", name) for (name,) in named] == [f"SM {sm}" for sm in range(12)]


def test_each_kernel_has_its_own_sms(tmp_path: Path, processor: Processor) -> None:
    first = regular_profile(launches=2, ctas=2, warps=1, iterations=1, sms=1)
    df, launches = first.tables.df, first.tables.launches
    df["kernel"] = df["kernel"].cat.add_categories(["add_kernel"])
    df.loc[df["launch"] == 1, "kernel"] = "add_kernel"
    launches.loc[launches["launch"] == 1, "kernel"] = "add_kernel"
    Profile.of(replace(first.tables, df=df, launches=launches)).save(tmp_path / "trace.pftrace")
    processor.load(tmp_path / "trace.pftrace")
    paths = [path for (path,) in processor.query(f"{PATHS} select path from place where path like '%SM 0'")]
    assert paths == ["GPU 0/matmul_kernel/SM 0", "GPU 0/add_kernel/SM 0"]
    bars = processor.query(f"{PATHS} select name from slice join place on track_id = place.id "
                           "where path = 'GPU 0' order by ts")  # fmt: skip
    assert bars == [("matmul_kernel",), ("add_kernel",)]
