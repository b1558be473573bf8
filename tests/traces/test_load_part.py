"""`profscope.load` of a part: the same of every format, sound, and said to be a part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import profscope
from profscope.errors import OptionError, TraceError
from profscope.profiles import Profile
from profscope.traces import trace_file
from profscope.traces.loading import load_part
from profscope.traces.trace_filter import TraceFilter
from tests.support.profiles import profile_metadata, regular_profile
from tests.support.validation import validate

NAMES = ("t.json", "t.parquet")
CLOCK = {"clock": {"read_cycles": 2.0, "row_cycles": 17.5, "basis": "measured"}}


@pytest.fixture(scope="module")
def whole() -> Profile:
    plain = regular_profile(launches=3, ctas=4, warps=2, iterations=3)
    df = plain.tables.df.assign(kernel=plain.tables.df["kernel"].cat.add_categories("other"))
    df.loc[df["launch"] == 2, "kernel"] = "other"
    launches = plain.launches.assign(kernel=["matmul_kernel", "matmul_kernel", "other"])
    return Profile(df, launches.astype(plain.launches.dtypes.to_dict()), profile_metadata(**CLOCK))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, whole: Profile) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    for name in NAMES:
        whole.save(folder / name)
    return folder


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("part", "launches"),
    [
        ({"kernels": "^oth"}, [2]),
        ({"launch": 1}, [1]),
        ({"launch": 1, "cta": 3}, [1]),
        ({"sm": 2, "warp": 1}, [0, 1, 2]),
    ],
    ids=str,
)
def test_what_is_asked_for_is_there_and_nothing_else(
    saved: Path, whole: Profile, name: str, part: dict[str, Any], launches: list[int]
) -> None:
    loaded = profscope.load(saved / name, **part)
    rows = whole.tables.df["launch"].isin(launches).to_numpy(copy=True)
    for column, number in part.items():
        rows &= column == "kernels" or (whole.tables.df[column] == number).to_numpy()
    columns = whole.tables.df.columns.difference(["parent", "wait"])
    wanted = whole.tables.df[rows].reset_index(drop=True)
    assert loaded.tables.df[columns].equals(wanted[columns])
    assert loaded.launches["launch"].tolist() == launches
    assert validate(loaded.tables) == []
    said = f"; {rows.sum():,} of its {len(rows):,} spans"
    assert [note for note in loaded.metadata["notes"] if said in note], loaded.metadata["notes"]


@pytest.mark.parametrize(
    ("part", "error", "said"),
    [
        ({"launch": 7}, TraceError, "no launch 7; there are: 0-2"),
        ({"launch": 1, "cta": 9}, TraceError, "no spans for cta 9; there are: 0-3"),
        ({"cta": 3, "sm": 1}, TraceError, "no spans for sm 1; there are: 3"),
        ({"kernels": "none"}, TraceError, "no kernel matches 'none'; there are: matmul_kernel, other"),
        ({"kernels": "("}, OptionError, "kernels='\\(' is not a regular expression"),
        ({"kernels": 3}, OptionError, "kernels=3 must be a regular expression as a str"),
        ({"cta": -1}, OptionError, "cta=-1 must be a number, 0 or more"),
        ({"launch": "1"}, OptionError, "launch='1' must be a number, 0 or more"),
    ],
    ids=str,
)
def test_a_part_that_is_not_there_or_cannot_be(
    saved: Path, part: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        profscope.load(saved / "t.parquet", **part)


# What does not fit into the free memory is refused before it is read.


@pytest.fixture(scope="module")
def small() -> Profile:
    return regular_profile(launches=3, ctas=2, warps=2, iterations=5)


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory, small: Profile) -> Path:
    folder = tmp_path_factory.mktemp("room")
    small.save(folder / "t.parquet")
    return folder


def free(patch: pytest.MonkeyPatch, spans: int) -> None:
    """Let there be memory for so many spans."""
    patch.setattr(trace_file, "free_bytes", lambda: spans * trace_file.PEAK_BYTES_A_SPAN)


def test_what_does_not_fit_is_refused_before_it_is_read(
    parquet: Path, small: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, spans = "t.parquet", len(small.tables.df)
    free(monkeypatch, spans - 1)
    with pytest.raises(
        TraceError, match=rf"{name} has {spans} spans: to read them takes up to .* are free; .*DuckDB"
    ):
        profscope.load(parquet / name)
    free(monkeypatch, spans)
    assert len(profscope.load(parquet / name).df) == spans


def test_a_launch_is_read_where_the_whole_does_not_fit(
    parquet: Path, small: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = small.tables.df["launch"] == 1
    free(monkeypatch, int(launch.sum()))
    assert len(load_part(parquet / "t.parquet", TraceFilter(launch=1)).tables.df) == launch.sum()
    with pytest.raises(TraceError, match="are free"):  # no launch has this number: all would be read
        load_part(parquet / "t.parquet", TraceFilter(launch=99))
