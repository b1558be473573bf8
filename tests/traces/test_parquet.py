"""Profiles in Parquet: exact, readable by SQL engines, and read in part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import profscope
from profscope.errors import OptionError, TraceError
from profscope.profiles import Profile
from profscope.traces import parquet as columns
from profscope.traces.loading import load_part
from profscope.traces.trace_filter import TraceFilter
from tests.support.profiles import regular_profile


@pytest.fixture(scope="module")
def profile() -> Profile:
    """Of two kernels, with payloads of each kind and a launch without spans."""
    profile = regular_profile(launches=4, ctas=8)
    df = profile.tables.df.copy()
    count = len(df)
    df["bytes"] = pd.array(np.arange(count), "Int32")
    df.loc[::3, "bytes"] = pd.NA
    df["value"] = np.where(np.arange(count) % 5, np.linspace(-1, 1, count), np.nan)
    df["stage"] = pd.Categorical.from_codes(np.arange(count) % 3 - 1, ["prologue", "steady"])
    df["kernel"] = pd.Categorical.from_codes(df["launch"] % 2, ["even", "odd"])
    launches = profile.launches.assign(kernel=["even", "odd"] * 2)
    empty = launches.iloc[:1].assign(launch=np.int32(7))
    return Profile(df, pd.concat([launches, empty], ignore_index=True), profile.metadata)


@pytest.fixture(scope="module")
def saved(profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`t.parquet`, of several row groups."""
    folder = tmp_path_factory.mktemp("parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "GROUP_ROWS", 200)
        profile.save(folder / "t.parquet")
    return folder


def test_the_rows_are_those_of_df(saved: Path, profile: Profile) -> None:
    read = duckdb.sql(f"select * from '{saved}/t.parquet'").df()
    for name in profile.tables.df:
        expected = profile.tables.df[name].astype(object).where(profile.tables.df[name].notna(), None)
        assert read[name].astype(object).where(read[name].notna(), None).tolist() == expected.tolist()
    group = pq.ParquetFile(saved / "t.parquet").metadata.row_group(1)
    assert group.num_rows == 200
    assert "BYTE_STREAM_SPLIT" in group.column(list(read).index("start_ns")).encodings


def test_a_part_of_one_cta_reads_few_row_groups(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[int] = set()
    all_groups = pq.ParquetFile(saved / "t.parquet").metadata.num_row_groups
    original = pq.ParquetFile.read_row_group

    def counted(self: pq.ParquetFile, group: int, **how: Any) -> object:
        read.add(group)
        return original(self, group, **how)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    load_part(saved / "t.parquet", TraceFilter(launch=2, cta=3))
    assert 1 <= len(read) <= all_groups // 4


def test_without_pyarrow_it_says_what_to_install(
    saved: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profscope.installed.find_spec", lambda name: None)
    how = r"needs pyarrow: pip install 'profscope\[parquet\]'$"
    with pytest.raises(OptionError, match=f"^cannot save .*new.*{how}"):
        profile.save(saved / "new.parquet")
    with pytest.raises(TraceError, match=f"is Parquet: to read it {how}"):
        profscope.load(saved / "t.parquet")


def test_other_peoples_files_are_named(saved: Path, tmp_path: Path) -> None:
    duckdb.sql(f"copy (select 1 a) to '{tmp_path}/other.parquet'")
    with pytest.raises(TraceError, match=r"a Parquet file without a profile in it$"):
        profscope.load(tmp_path / "other.parquet")
    (tmp_path / "cut.parquet").write_bytes((saved / "t.parquet").read_bytes()[:500])
    with pytest.raises(TraceError, match=r"cut\.parquet is damaged: cut\.parquet: "):
        profscope.load(tmp_path / "cut.parquet")


@pytest.mark.parametrize(
    ("written", "damaged", "what"),
    [
        (b"\x15\x12\x15\x06", b"\x15\x00\x15\x06", "its row group 0"),  # how a page is to be decoded
        (b"\x18\x04\0\0\0\0", b"\x18\x04\x09\0\0\0", "its footer"),  # which launches a row group has
    ],
)
def test_what_tells_how_to_read_is_checked(
    written: bytes, damaged: bytes, what: str, saved: Path, tmp_path: Path
) -> None:
    content = (saved / "t.parquet").read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    begin = len(content) - 8 - size if what == "its footer" else 0
    at = content.index(written, begin)
    (tmp_path / "t.parquet").write_bytes(content[:at] + damaged + content[at + len(written) :])
    with pytest.raises(TraceError, match=f"is damaged: {what} does not have the checksum that it states"):
        profscope.load(tmp_path / "t.parquet", launch=0)
