"""Traces from one format to another, several into one, and baselines, on the command line."""

from __future__ import annotations

import os
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
        ["merge", "t.json", "-o", "link.json"],
        ["convert", "t.json", "link.json"],
        ["merge", "t.json", "-o", "k.json"],
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
