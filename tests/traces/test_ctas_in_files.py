"""The table of CTAs in traces and spools, of several ranks and of a part of a launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import profscope
from profscope.errors import TraceError
from profscope.profiles import Profile
from profscope.traces.merging import Part, merged
from profscope.traces.selecting import selected
from profscope.traces.trace_filter import TraceFilter
from tests.support.round_trips import assert_same
from tests.support.sessions import count, launch_add, session
from tests.support.trace_documents import changed


def recorded(**options: Any) -> Profile:
    with session(**options) as prof:
        for ctas in (1, 7, 40):
            count(3, ctas)
            launch_add(1024 * ctas)
    return prof.profile


@pytest.fixture(scope="module")
def profile() -> Profile:
    return recorded()


@pytest.fixture(scope="module")
def some() -> Profile:
    return recorded(ctas=4)


def test_ctas_that_did_not_record_come_back(some: Profile, tmp_path: Path) -> None:
    assert some.ctas["recorded"].value_counts().to_dict() == {False: 60, True: 36}
    some.save(tmp_path / "t.json")
    assert_same(profscope.load(tmp_path / "t.json"), some)


def test_the_table_comes_back_from_a_spool(profile: Profile, tmp_path: Path) -> None:
    assert len(profile.ctas) == 2 * (1 + 7 + 40)
    for at, options in enumerate(({}, {"ctas": 4})):
        spooled = recorded(spool=tmp_path / f"spool{at}", **options)
        pd.testing.assert_frame_equal(profscope.load(tmp_path / f"spool{at}").ctas, spooled.ctas)


def test_ctas_of_launches_that_are_gone_are_not_saved(profile: Profile, tmp_path: Path) -> None:
    first = profile.launches[:2]
    kept = profile.tables.df["launch"].isin(first["launch"])
    replace(profile, df=profile.tables.df[kept], launches=first).save(tmp_path / "t.json")
    assert profscope.load(tmp_path / "t.json").ctas["launch"].tolist() == [0, 1]


def test_ranks_keep_their_ctas(profile: Profile) -> None:
    tables = profile.tables
    launches = tables.launches.assign(variant=np.array([1, 0, 1, 0, 1, 0], np.int32))
    other = replace(tables, launches=launches, ctas=tables.ctas.assign(start_ns=tables.ctas["start_ns"] + 5))
    together = merged([Part(tables, "a", 0), Part(other, "b", 1)])
    ctas, count_ = together.ctas, len(tables.ctas)
    assert len(ctas) == 2 * count_
    row = together.launches.set_index("launch").loc[ctas["launch"]].reset_index()
    assert row["rank"].tolist() == [0] * count_ + [1] * count_
    for name in ("kernel", "variant"):
        assert (ctas[name].astype(str).to_numpy() == row[name].astype(str).to_numpy()).all()
    assert (ctas["start_ns"] >= row["start_ns"]).all()
    assert (ctas["end_ns"] <= row["end_ns"]).all()
    assert ctas["start_cycle"].tolist() == tables.ctas["start_cycle"].tolist() * 2


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (TraceFilter(launch=2), list(range(7))),
        (TraceFilter(kernels="add", cta=3), [3, 3]),
        (TraceFilter(launch=2, warp=0), []),
    ],
)
def test_a_part_has_its_ctas(profile: Profile, only: TraceFilter, expected: list[int]) -> None:
    assert selected(profile.tables, only).ctas["cta"].tolist() == expected


def _cut(ours: dict[str, Any]) -> None:
    ours["ctas"]["rows"] += 1


def _without_launches(ours: dict[str, Any]) -> None:
    ours["launches"] = {name: values[:-1] for name, values in ours["launches"].items()}


@pytest.mark.parametrize(
    ("change", "said"),
    [(_cut, "launch does not have 97 values"), (_without_launches, "not in its table of launches")],
)
def test_a_damaged_table_is_refused(
    profile: Profile, tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    profile.save(tmp_path / "t.json")
    (tmp_path / "t.json").write_bytes(changed(tmp_path / "t.json", change))
    with pytest.raises(TraceError, match=said):
        profscope.load(tmp_path / "t.json")
