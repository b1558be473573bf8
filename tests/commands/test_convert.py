"""Traces from one format to another, and several into one, on the command line."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest
from pandas.testing import assert_frame_equal

import profscope
from profscope.__main__ import main
from profscope.profiles import Profile
from profscope.traces.exporters import FORMATS, PACKED
from tests.support.profiles import regular_profile
from tests.support.round_trips import assert_same


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """Saved as t.json in the folder that the test stands in."""
    monkeypatch.chdir(tmp_path)
    profile = regular_profile(launches=2, ctas=2, warps=2, iterations=2)
    profile.save("t.json")
    return profile


def test_there_and_back_through_every_format_that_loads(profile: Profile) -> None:
    names = ["t.json", "a.parquet", "b.pftrace.gz", "d.json.gz", "e.pftrace"]
    for source, target in pairwise(names):
        assert main(["convert", source, target]) == 0
        assert_same(profscope.load(target), profile)
    assert sorted(os.listdir()) == sorted(names)


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


def test_a_report_is_what_report_returns(profile: Profile) -> None:
    assert main(["convert", "t.json", "t.report.json"]) == 0
    assert json.loads(Path("t.report.json").read_text()) == json.loads(json.dumps(profile.report()))


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
