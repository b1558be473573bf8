"""Traces from one format to another, several into one, and baselines, on the command line."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from pandas.testing import assert_frame_equal

import profscope
from profscope.__main__ import main
from profscope.profiles import Profile
from profscope.traces.exporters import FORMATS, PACKED
from tests.support.edited import run_of_matmul, slowed
from tests.support.profiles import regular_profile


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """Saved as t.json in the folder that the test stands in."""
    monkeypatch.chdir(tmp_path)
    profile = regular_profile(launches=2, ctas=2, warps=2, iterations=2)
    profile.save("t.json")
    return profile


def test_what_profscope_wrote_and_what_is_empty_is_replaced(profile: Profile) -> None:
    suffixes = {name: f".{name.replace('_', '.')}" for name in FORMATS}
    suffixes |= {f"{name} gz": f"{suffixes[name]}.gz" for name in FORMATS if name not in PACKED}
    Path("a.json").touch()
    for suffix in suffixes.values():
        for _ in range(2):
            assert main(["convert", "t.json", f"a{suffix}"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["convert", "t.json", "k.py", "--format", "json"],
        ["convert", "t.json", "link.json"],
        ["merge", "t.json", "-o", "k.json"],
        ["diff", "t.json", "t.json", "--html", "k.py"],
        ["run", "-o", "k.json", "k.py"],
        ["run", "-o", "link.json", "k.py"],
    ],
)
def test_what_profscope_did_not_write_is_not_replaced(
    profile: Profile, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("k.py", "k.json"):
        Path(name).write_text("print('of the user')")
    Path("link.json").symlink_to("k.py")
    before = sorted(Path().iterdir())
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "profscope did not write the file that is there; move it, or choose another name\n" in error
    assert error.count("\n") == 1
    assert any(name in error for name in words[1:])
    assert Path("k.py").read_text() == Path("k.json").read_text() == "print('of the user')"
    assert sorted(Path().iterdir()) == before


def collapsed(path: str) -> dict[str, int]:
    lines = [line.rsplit(" ", 1) for line in Path(path).read_text().splitlines()]
    return {stack: int(weight) for stack, weight in lines}


def test_flame_graphs_have_all_warp_time(profile: Profile) -> None:
    profile.save("t.pftrace")
    assert main(["convert", "t.pftrace", "t.txt", "--format", "collapsed"]) == 0
    stacks = collapsed("t.txt")
    df = profile.df
    assert sum(stacks.values()) == df.loc[df["kind"] == "kernel", "duration_ns"].sum()
    place = "matmul_kernel (matmul.py:10);loop L22 (matmul.py:22);iteration (matmul.py:22);dot (matmul.py:27)"
    assert stacks[place] == df.loc[df["scope"] == "dot", "duration_ns"].sum()
    assert main(["convert", "t.pftrace", "t.speedscope.json"]) == 0
    document = json.loads(Path("t.speedscope.json").read_text())
    (shown,) = document["profiles"]
    assert (shown["name"], shown["endValue"]) == ("matmul_kernel", sum(stacks.values()))
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    named = {";".join(frames[at] for at in stack) for stack in shown["samples"]}
    assert "matmul_kernel;loop L22;iteration;dot" in named


def test_flame_graphs_are_of_what_the_summary_is_of(profile: Profile) -> None:
    """Cycles of what was emulated, and durations without what records took."""
    metadata = {**profile.metadata, "backend": "emulator", "clock": {"read_cycles": 1.0, "row_cycles": 2.0}}
    emulated = Profile.of(replace(profile.tables, metadata=metadata))
    emulated.save("e.json")
    assert main(["convert", "e.json", "e.txt", "--format", "collapsed"]) == 0
    summary = emulated.summary()
    assert sum(collapsed("e.txt").values()) == summary.loc[summary["kind"] != "async", "self_cycles"].sum()


def test_traces_are_merged_in_their_order(profile: Profile) -> None:
    regular_profile(launches=1, ctas=1).save("u.json")
    assert main(["merge", "t.json", "u.json", "-o", "both.parquet"]) == 0
    both = profscope.load("both.parquet")
    assert both.launches["rank"].tolist() == [0, 0, 1]
    assert_frame_equal(both.df[both.df["launch"] < 2], profile.df)
    assert [each["part"] for each in both.metadata["ranks"]] == ["t.json", "u.json"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["convert", "t.json", "t.json"], 2, "'t.json' is a trace that is read: name another file to write"),
        (["merge", "t.json", "u.json", "-o", "t.json"], 2, "'t.json' is a trace that is read: name another"),
        (["convert", "t.json", "u.txt"], 2, "cannot save 'u.txt': the suffix must be one of .json, "),
        (["convert", "t.json", "u", "--format", "svg"], 2, "there is no format 'svg'; there are: json, "),
        (["convert", "none.json", "u.json"], 1, "profscope convert: no such file: none.json\n"),
        (["convert", "t.json", "no/u.json"], 1, "cannot write no/u.json: there is no folder 'no'\n"),
        (["merge", "t.json", "none.json", "-o", "u.json"], 1, "profscope merge: no such file: none.json\n"),
    ],
)
def test_what_goes_wrong_is_one_line(
    profile: Profile, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert os.listdir() == ["t.json"]


# profscope baseline and profscope diff --against.


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current one, with two traces."""
    monkeypatch.chdir(tmp_path)
    run_of_matmul(0).save("before.parquet")
    slowed(run_of_matmul(1), "dot", 1.5).save("slower.json.gz")
    return tmp_path


def test_a_trace_is_kept_until_it_is_removed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["baseline", "save", "main", "before.parquet"]) == 0
    kept = folder / ".profscope" / "baselines" / "main.pftrace.gz"
    assert profscope.load(kept).df.equals(profscope.load("before.parquet").df)
    assert main(["diff", "--against", "main", "slower.json.gz", "--top", "1", "--fail-above", "5%"]) == 3
    assert main(["diff", "--top", "1", "slower.json.gz", "--against=main", "--fail-above", "5%"]) == 3
    assert main(["baseline", "save", "main", "slower.json.gz"]) == 0
    assert main(["diff", "--against", "main", "slower.json.gz", "--fail-above", "5%"]) == 0
    capsys.readouterr()
    assert main(["baseline", "list"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("main: ")
    assert "1 kernel, 8 launches" in line
    assert main(["baseline", "rm", "main"]) == 0
    assert not kept.exists()
    assert main(["baseline", "list"]) == 0
    assert capsys.readouterr().out == "no baselines in .profscope/baselines\n"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (
            ["baseline", "rm", "main"],
            1,
            "'main' in .profscope/baselines; there are: none",
        ),
        (["diff", "--against", "main", "slower.json.gz"], 1, "there is no baseline 'main'"),
        (["baseline", "save", "../main", "before.parquet"], 2, "'../main' is no name of a baseline"),
        (["baseline", "save", "main", "nowhere.json"], 1, "nowhere.json"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    words: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == status
    errors = capsys.readouterr().err
    assert said in errors
    assert errors.count("\n") == 1
