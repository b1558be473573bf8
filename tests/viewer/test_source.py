"""Annotated source: figures are those of lines() and summary(), lines are not cut, calls unfold."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from profscope.analysis.line_rows import placed
from profscope.analysis.model.entries import LineEntry, Lines
from profscope.analysis.source_code.annotated import Annotated, Line, annotate
from profscope.evidence.tables import evidence, with_evidence
from profscope.profiles import Profile, load
from profscope.viewer.cli import main
from profscope.viewer.kernels import render_lines
from profscope.viewer.source_view import render_annotated
from tests.support.captures import captured as sampled_launch
from tests.support.command_line import run
from tests.support.models import kernels
from tests.support.profiles import launch_table, regular_profile
from tests.support.samples import sample_rows
from tests.support.sessions import launch_add, session

DATA = Path(__file__).parents[1] / "data" / "findings"
CAPTURES = sorted(DATA.glob("*.json.gz"))
FILE = "/src/kernels/matmul.py"


@cache
def loaded(path: Path) -> Profile:
    return load(path)


@cache
def annotated_capture(path: Path) -> Annotated:
    (source,) = annotated(loaded(path))
    return source


def no_disk(file: str, line: int) -> str:
    return ""


def annotated(profile: Profile, form: str = "") -> list[Annotated]:
    return annotate(profile.tables, no_disk, form)[0]


def all_lines(source: Annotated) -> list[Line]:
    return [line for block in source.blocks for line in block.lines]


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_each_line_says_what_lines_and_summary_say(path: Path) -> None:
    profile = loaded(path)
    lines = profile.lines()
    source = annotated_capture(path)
    for name, column in (("spans", "self_share"), ("samples", "share_samples")):
        told = {line.line: line.shares[name] for line in all_lines(source) if line.shares[name] is not None}
        known = lines[lines[column].notna()].groupby("line")[column].sum() if column in lines else pd.Series()
        assert told == pytest.approx(known.astype(float).to_dict())
    assert sum(line.share or 0 for line in all_lines(source)) == pytest.approx(lines["self_share"].sum())
    summary = placed(profile.summary())
    for line in all_lines(source):
        own = summary[(summary["line"] == line.line) & ~summary["kind"].isin(["async", "gap"])]
        assert sum(scope.count for scope in line.scopes) == own["count"].sum()
        assert sum(scope.self for scope in line.scopes) == own["self_ns"].sum()
        if line.scopes:
            assert line.self_mean == line.scopes[0].self / line.scopes[0].count


@pytest.mark.parametrize("width", [60, 100])
def test_widths_are_kept_and_at_100_columns_60_characters_of_a_line_are_not_cut(width: int) -> None:
    for path in CAPTURES:
        source = annotated_capture(path)
        shown = [line.plain for line in render_annotated(source, width)]
        assert max(map(len, shown)) <= width
        for line in all_lines(source) if width >= 100 else []:
            assert any(line.text[:60].rstrip() in text for text in shown), line.text


def test_one_line_is_shown_with_those_around_it() -> None:
    (path,) = DATA.glob("uncoalesced*")
    shown = run(str(path), "--source", "planted_kernels.py:172", "--width", "100").stdout
    assert "load total (67,584)" in shown
    assert "share: 16.1% by spans" in shown
    assert "def strided_kernel" not in shown, "six lines above"
    assert run(str(path), "--source", "--line", "172", "--width", "100").stdout == shown
    failed = run(str(path), "--source", "other.py:1")
    assert failed.stderr.endswith("nothing is known of other.py:1; there are: planted_kernels.py:165-173\n")


def test_the_same_comes_as_json_and_as_csv() -> None:
    (path,) = DATA.glob("bank*")
    (source,) = json.loads(run(str(path), "--source", "--format", "json").stdout)
    rows = list(csv.DictReader(io.StringIO(run(str(path), "--source", "--format", "csv").stdout)))
    lines = source["blocks"][0]["lines"]
    assert [int(row["line"]) for row in rows] == [line["line"] for line in lines]
    assert [row["share"] for row in rows] == [
        "" if each["share"] is None else str(each["share"]) for each in lines
    ]


TEXT = "def matmul_kernel(x):\n    y = half(x)\n    return half(y)\n"
HALF = "def half(x):\n    return x / 2\n"


def with_calls() -> Profile:
    """The line of `half` has 3 of 10 samples by the first call and 7 by the second."""
    rows = [
        sample_rows(
            {31: {"long_scoreboard": count}},
            blamed={31: (10, "global load")},
            call_path=f"matmul_kernel matmul.py:{line} > half matmul.py:31",
        ).assign(pc=count)
        for line, count in ((11, 300), (12, 700))
    ]
    spans = regular_profile(launches=1, ctas=1, warps=1, iterations=1)
    texts = [("matmul_kernel", 10, TEXT), ("half", 30, HALF)]
    sources = [{"name": name, "file": FILE, "line": line, "text": text} for name, line, text in texts]
    tables = replace(spans.tables, samples=pd.concat(rows, ignore_index=True))
    return Profile.of(replace(tables, metadata={**spans.metadata, "sources": sources}))


def test_calls_are_folded_and_unfold(tmp_path: Path) -> None:
    (source,) = annotated(with_calls())
    lines = {(block.function, line.line): line for block in source.blocks for line in block.lines}
    assert (source.witness, source.samples) == ("samples", 1000)
    assert lines["half", 31].share == 1.0
    assert [lines["matmul_kernel", at].inside for at in (11, 12)] == [0.3, 0.7]
    (call,) = lines["matmul_kernel", 12].calls
    assert (call.function, [line.share for line in call.lines]) == ("half", [0.7])
    with_calls().save(tmp_path / "t.json")
    shown = run(str(tmp_path / "t.json"), "--source").stdout
    assert "70.0% in half, inlined here" in shown
    assert "waits for long_scoreboard on load" in shown
    assert "in half:" not in shown
    asked = run(str(tmp_path / "t.json"), "--source", "matmul.py:12").stdout
    unfolded = [line.split() for line in asked.splitlines()]
    assert ["70.0%", "in", "half:"] in unfolded
    assert ["30.0%", "in", "half:"] not in unfolded, "of the line that is asked for alone"


def test_sass_stands_behind_the_lines_with_its_samples(tmp_path: Path) -> None:
    launch = sampled_launch("chase")
    kernel = launch.subject.kernel
    bare = Profile(launches=launch_table([0], [kernel]), metadata={"tool": "profscope"})
    profile = Profile.of(with_evidence(bare.tables, evidence([], [launch], [])))
    (source,) = annotated(profile, "sass")
    assert source.samples == launch.taken
    code = [each for line in all_lines(source) for each in line.code]
    assert sum(each.samples for each in code) == launch.taken
    for line in all_lines(source):
        assert sum(each.samples for each in line.code) == line.samples
    assert any(each.text.startswith("LDG") for each in code)
    profile.save(tmp_path / "t.json")
    shown = run(str(tmp_path / "t.json"), "--source", "sass", "--width", "100").stdout
    assert f"SASS of the bare binary, with its {launch.taken:,} samples" in shown


def test_ttgir_and_ptx_of_what_recorded_stand_behind_the_lines(tmp_path: Path) -> None:
    with session() as prof:
        launch_add()
    prof.save(tmp_path / "t.json")
    profile = load(tmp_path / "t.json")
    for form, part in (("ttgir", "tt.load"), ("ptx", "ld.global")):
        (source,) = annotated(profile, form)
        lines = [line for line in all_lines(source) if any(part in each.text for each in line.code)]
        assert lines
        assert all("tl.load" in line.text for line in lines)
    with session(sources=False) as without:
        launch_add()
    assert without.metadata["code"] == []
    without.save(tmp_path / "w.json")
    failed = run(str(tmp_path / "w.json"), "--source", "ptx")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "this profile has no PTX" in failed.stderr


def test_a_text_that_is_nested_too_deeply_is_shown_as_it_is(tmp_path: Path) -> None:
    statement = "x = y" + " + y" * 300  # it parses, and is too deep for who walks it
    profile = regular_profile()
    source = {
        "file": FILE,
        "line": 10,
        "name": "matmul_kernel",
        "text": f"def matmul_kernel():\n    {statement}\n",
    }
    deep = Profile(profile.df, profile.launches, {**profile.metadata, "sources": [source]})
    deep.save(tmp_path / "t.json")
    for view in (["--source"], []):
        shown = run(str(tmp_path / "t.json"), *view)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert view != ["--source"] or statement[:20] in shown.stdout


# Lines and their samples.

SPANS = regular_profile(launches=2, ctas=2, warps=2, iterations=2)
TABLE = sample_rows(
    {26: {"long_scoreboard": 600, "selected": 200}, 27: {"math_pipe_throttle": 200}},
    blamed={26: (24, "global load")},
)
SAMPLED = Profile.of(replace(SPANS, samples=TABLE))


def shown(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    SAMPLED.save(folder / "t.json")
    assert main([str(folder / "t.json"), "--width", "160", *options]) == 0
    return capsys.readouterr().out


def test_samples_are_counted_and_lines_come_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "spans, 1,000 samples" in shown(tmp_path, capsys, "--show", "header")
    text = shown(tmp_path, capsys)
    assert "waits for" in text, "the first screen has the lines that take most"
    text = shown(tmp_path, capsys, "--show", "lines", "--top", "2")
    first = next(line for line in text.splitlines() if line.startswith("  26 "))
    assert first.split()[2:3] == ["80.0%"]
    assert first.endswith("long_scoreboard on load, line 24 (75 %)")
    assert "5 more lines; --top 0 shows them" in text
    (kernel,) = json.loads(shown(tmp_path, capsys, "--format", "json", "--show", "lines"))["kernels"]
    assert (kernel["kernel"], kernel["lines"]["samples"], kernel["left_out"]["lines"]) == (
        "matmul_kernel",
        1000,
        0,
    )
    assert kernel["lines"]["rows"][0]["share_samples"] == 0.8


def test_a_line_of_another_file_says_so() -> None:
    nothing = dict.fromkeys(field.name for field in fields(LineEntry))
    nothing |= {"self_share": 0.5, "source": "x", "stalls": (), "waits_for": ""}
    places = [("/a/kernel.py", 45, 0), ("/a/helpers.py", 45, 1)]
    rows = [
        LineEntry(**nothing | {"file": file, "line": line, "call_paths": paths})  # type: ignore[arg-type]
        for file, line, paths in places
    ]
    (kernel,) = kernels(SPANS)
    entry = replace(kernel, lines=Lines("spans", 0, tuple(rows), ()))
    text = [line.plain.split() for line in render_lines(entry, 80)[2:]]
    assert [words[0] for words in text] == ["45", "helpers.py:45"]
