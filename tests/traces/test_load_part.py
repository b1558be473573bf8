"""`profscope.load` of a part: the same of every format, sound, said to be a part, and as large as fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import profscope
from profscope.analysis.answers import EVIDENCE_LEFT_OUT
from profscope.errors import OptionError, TraceError
from profscope.profiles import Profile
from profscope.traces import trace_file
from profscope.traces.jobs.merging import merged
from profscope.traces.jobs.stack import Part
from profscope.traces.loading import load_part
from profscope.traces.trace_filter import TraceFilter
from profscope.viewer.cli import main
from tests.support.profiles import profile_metadata, regular_profile
from tests.support.sessions import launch_add, session
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


# Evidence is of all launches of a configuration together: a part is not judged without it.

EVIDENCE = Path(__file__).parents[1] / "data" / "evidence"
COLUMN = EVIDENCE / "column.pftrace.gz"
NOT_JUDGED = (
    "not judged: evidence is of whole launches, all of a kernel's together: the whole trace has it, not "
)


@pytest.fixture(scope="module")
def of_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One kernel of two ranks, another of one of them."""
    names = ("column", "column", "gather")
    parts = [
        Part(profscope.load(EVIDENCE / f"{name}.pftrace.gz").tables, name, at)
        for at, name in enumerate(names)
    ]
    path = tmp_path_factory.mktemp("ranks") / "t.pftrace.gz"
    Profile.of(merged(parts)).save(path)
    return path


@pytest.mark.parametrize(("part", "said"), [({"launch": 2}, "launch 2"), ({"cta": 0}, "cta 0")])
def test_a_part_is_not_judged(tmp_path: Path, part: dict[str, Any], said: str) -> None:
    whole = profscope.load(COLUMN)
    assert whole.findings()["gain_pct"].max() > 60
    chosen = profscope.load(COLUMN, **part)
    findings = chosen.findings()
    assert findings.empty
    assert findings.attrs["clean"] == {"transpose_kernel": f"{NOT_JUDGED}{said} alone"}
    assert repr(findings).splitlines()[1] == f"transpose_kernel: {NOT_JUDGED}{said} alone"
    told = [*findings.attrs["not_measured"], *chosen.lines().attrs["not_measured"]]
    told += [*chosen.limits().attrs["not_measured"], *chosen.breakdown().attrs["not_measured"]]
    told += chosen.report()["not_measured"]
    assert not [text for text in told if "evidence=True" in text]
    chosen.save(tmp_path / "part.pftrace")
    assert profscope.load(tmp_path / "part.pftrace").findings().attrs["clean"] == findings.attrs["clean"]


def test_a_rank_of_several_is_not_judged_and_the_only_rank_of_a_kernel_is(of_ranks: Path) -> None:
    first, last = (profscope.load(of_ranks, rank=rank) for rank in (0, 2))
    assert first.findings().attrs["clean"] == {"transpose_kernel": f"{NOT_JUDGED}rank 0 alone"}
    alone = profscope.load(EVIDENCE / "gather.pftrace.gz").findings()
    assert len(alone)
    assert last.findings()["gain_pct"].tolist() == alone["gain_pct"].tolist()
    assert EVIDENCE_LEFT_OUT not in last.metadata


def test_the_only_launch_of_a_configuration_is_judged(tmp_path: Path) -> None:
    with session() as prof:
        launch_add()
    prof.save(tmp_path / "t.pftrace")
    chosen = profscope.load(tmp_path / "t.pftrace", launch=0)
    assert len(chosen.counts) == len(prof.counts) > 0
    assert chosen.findings().attrs["clean"] == prof.findings().attrs["clean"]


def test_the_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(COLUMN), "--launch", "2", "--show", "findings", "--width", "200"]) == 0
    assert capsys.readouterr().out.strip() == f"transpose_kernel: {NOT_JUDGED}launch 2 alone"
    assert main([str(COLUMN), "--launch", "2", "--show", "limits"]) == 1
    assert "the whole trace has it, not launch 2 alone" in capsys.readouterr().err
    # Of a part of each launch the whole launches are at hand, and these are judged.
    assert main([str(COLUMN), "--cta", "0", "--show", "findings"]) == 0
    assert " 94%  bank-conflict" in capsys.readouterr().out
