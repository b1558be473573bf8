"""`profscope diff --format md`, the comment on a pull request."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from profscope.profiles import Profile
from profscope.viewer.comparison import compare
from profscope.viewer.diff_command import make_parser
from profscope.viewer.diff_markdown import markdown
from tests.support.command_line import run
from tests.support.edited import run_of_matmul, slowed


def saved(profile: Profile, path: Path) -> str:
    profile.save(path)
    return str(path)


@pytest.fixture
def traces(tmp_path: Path) -> list[str]:
    slower = slowed(run_of_matmul(1), "dot", 1.5)
    return [saved(run_of_matmul(0), tmp_path / "a.parquet"), saved(slower, tmp_path / "b.parquet")]


@pytest.mark.parametrize(
    ("bound", "status", "verdict"),
    [
        (["--fail-above", "5%"], 3, "failed, 1 kernel slower by more than 5%"),
        (["--fail-above", "90%"], 0, "passed, no kernel is slower by more than 90%"),
        ([], 0, "1 slower, 0 faster, 0 others"),
    ],
)
def test_the_verdict_comes_first(traces: list[str], bound: list[str], status: int, verdict: str) -> None:
    done = run("diff", *traces, "--format", "md", *bound)
    assert done.returncode == status
    lines = done.stdout.splitlines()
    assert lines[0] == f"### profscope: {verdict}"
    assert any(re.match(r"\| matmul\\_kernel \| [\d.]+% slower \(mean launch ", line) for line in lines)
    assert any(line.startswith("| dot | 27 | ") for line in lines)
    assert any(line.startswith("- verdict of A: ") for line in lines)


def test_no_comparison_is_longer_than_60_lines_and_says_what_is_left_out(traces: list[str]) -> None:
    options = make_parser().parse_args([*traces, "--top", "0", "--fail-above", "5%"])
    one = compare(options)
    (kernel,) = one.kernels
    rows = [{**kernel["rows"][0], "significant": True, "scope": f"scope {at}"} for at in range(30)]
    kernels = [{**kernel, "kernel": f"kernel_{at}", "rows": rows} for at in range(40)]
    lines = markdown(replace(one, kernels=kernels, notes=["a long note " * 200] * 50, emulated=True))
    assert len(lines) <= 60
    assert "25 kernels more" in lines
    assert max(map(len, lines)) < 1000


def test_names_are_no_markup(traces: list[str]) -> None:
    one = compare(make_parser().parse_args(traces))
    (kernel,) = one.kernels
    named = {**kernel, "configuration": "x=<b>|`@team`\n# y", "rows": []}
    text = "\n".join(markdown(replace(one, kernels=[named])))
    assert r"x=\<b\>\|\`\@team\` \# y" in text
