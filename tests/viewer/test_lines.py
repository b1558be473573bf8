"""What is shown of samples: how many there are, and on request each line's share and what it waits for."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from profscope.analysis.model.entries import LineEntry, Lines
from profscope.profiles import Profile
from profscope.viewer.cli import main
from profscope.viewer.kernels import render_lines
from tests.support.models import kernels
from tests.support.profiles import regular_profile
from tests.support.samples import sample_rows

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
