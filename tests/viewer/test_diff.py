"""profscope diff as it is run, on a screen and as Markdown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import profscope
from profscope.profiles import Profile
from profscope.viewer.comparison import compare
from profscope.viewer.diff_command import make_parser
from profscope.viewer.diff_markdown import markdown
from tests.support.command_line import run
from tests.support.edited import run_of_matmul, slowed


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """By name: a run, another of the same, and one whose dot takes 1.5 times as long."""
    folder = tmp_path_factory.mktemp("diff")
    runs = {
        "before": run_of_matmul(0),
        "again": run_of_matmul(1),
        "slower": slowed(run_of_matmul(2), "dot", 1.5),
    }
    for name, profile in runs.items():
        profile.save(folder / f"{name}.json.gz")
    return {name: str(folder / f"{name}.json.gz") for name in runs}


def test_a_slower_kernel_is_told_first(traces: dict[str, str]) -> None:
    done = run("diff", traces["before"], traces["slower"])
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert re.match(r"Time  [\d.]+ us in A, [\d.]+ us in B \([+-][\d.]+%\); changed: 100.0% of A", lines[0])
    told = next(at for at, line in enumerate(lines) if line.startswith("A "))
    assert lines[told : told + 2] == [
        "A     before.json.gz: trust with care",
        "B     slower.json.gz: trust with care",
    ]
    told = next(at for at, line in enumerate(lines) if line.startswith("matmul_kernel: "))
    sentence = " ".join(lines[told : told + 2])
    assert "% slower (" in sentence
    assert "95% interval +" in sentence
    assert "significant" in sentence
    head = next(at for at, line in enumerate(lines) if line.startswith("scope "))
    assert lines[head + 1].startswith("dot ")
    assert lines[head + 1].endswith("changed")
    assert all(line.endswith("noise") for line in lines[head + 2 :])
    assert all(len(line) <= 80 for line in lines)
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("bound", "other", "status"),
    [("5%", "slower", 3), ("90%", "slower", 0), ("0%", "again", 0), (None, "slower", 0)],
)
def test_a_regression_above_the_bound_ends_with_3(
    traces: dict[str, str], bound: str | None, other: str, status: int
) -> None:
    gate = [] if bound is None else ["--fail-above", bound]
    done = run("diff", traces["before"], traces[other], *gate)
    assert done.returncode == status
    assert ("That is more than --fail-above 5%." in done.stdout) == (status == 3)


def test_a_gate_that_can_judge_nothing_fails(traces: dict[str, str], tmp_path: Path) -> None:
    profile = profscope.load(traces["again"])
    launches = profile.launches.assign(end_ns=profile.launches["start_ns"])
    replace(profile, launches=launches).save(tmp_path / "timeless.json")
    both = traces["before"], str(tmp_path / "timeless.json")
    assert run("diff", *both).returncode == 0
    done = run("diff", *both, "--fail-above", "5%")
    assert done.returncode == 1
    assert "--fail-above has nothing to judge" in done.stderr
    assert "matmul_kernel: the times of its launches are not known" in done.stdout
    assert "the second has no launch with a known time" in " ".join(done.stdout.split())


def test_json_has_what_diff_says(traces: dict[str, str]) -> None:
    done = run(
        "diff", traces["before"], traces["slower"], "--format", "json", "--fail-above", "7.5%", "--top", "3"
    )
    assert done.returncode == 3
    shown = json.loads(done.stdout)
    table = profscope.diff(traces["before"], traces["slower"])
    assert (shown["a"], shown["b"], shown["unit"]) == ("before.json.gz", "slower.json.gz", "ns")
    assert (shown["fail_above"], shown["emulated"]) == (7.5, False)
    assert shown["notes"] == table.attrs["notes"]
    (kernel,) = shown["kernels"]
    assert kernel["regressed"]
    assert (len(kernel["rows"]), kernel["omitted"]) == (3, len(table) - 4)
    for row, (_, expected) in zip([kernel["launch"], *kernel["rows"]], table.iterrows(), strict=False):
        assert {name: row[name] for name in row} == {name: expected[name] for name in row}


def test_bad_input_is_one_line(traces: dict[str, str], tmp_path: Path) -> None:
    text = tmp_path / "a.json"
    text.write_text("nothing")
    for arguments, status, says in (
        ((traces["before"], str(tmp_path / "none.json")), 1, "none.json"),
        ((traces["before"], str(text)), 1, "a.json is"),
        (
            (traces["before"], traces["again"], "--pair", "matmul_kernel=product"),
            1,
            "the second profile has no kernel product; it has matmul_kernel",
        ),
    ):
        done = run("diff", *arguments)
        assert (done.returncode, done.stdout) == (status, ""), arguments
        assert says in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_comment_has_no_code(traces: dict[str, str]) -> None:
    done = run("diff", traces["before"], traces["again"], "--format", "md", "--show", "code")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--format md has no code" in done.stderr


def test_a_side_that_is_not_to_be_trusted_is_named(traces: dict[str, str], tmp_path: Path) -> None:
    profile = profscope.load(traces["before"])
    takes = {"registers": 32, "spills": 0, "shared_bytes": 0, "instructions": 100}
    builds = [
        {"build": "bare", "ctas_per_sm": 8, **takes},
        {"build": "instrumented", "ctas_per_sm": 2, **takes},
    ]
    variants = {"matmul_kernel": [{"variant": 0, "key": "", "builds": builds}]}
    metadata = profile.metadata | {"variants": variants}
    profscope.Profile.of(replace(profile.tables, metadata=metadata)).save(tmp_path / "b.json")
    arguments = ("diff", traces["again"], str(tmp_path / "b.json"), "--fail-above", "5%")
    done = run(*arguments, "--width", "200")
    assert done.stdout.splitlines()[2].startswith("B     b.json: do not trust; matmul_kernel: ")
    assert 'The verdict of B is "do not trust"' in done.stdout.splitlines()[-1]
    told = json.loads(run(*arguments, "--format", "json").stdout)
    assert told["verdict_a"].startswith("trust with care")
    assert told["verdict_b"].startswith("do not trust")


# As the comment on a pull request.


def saved(profile: Profile, path: Path) -> str:
    profile.save(path)
    return str(path)


@pytest.fixture
def two_traces(tmp_path: Path) -> list[str]:
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
def test_the_verdict_comes_first(two_traces: list[str], bound: list[str], status: int, verdict: str) -> None:
    done = run("diff", *two_traces, "--format", "md", *bound)
    assert done.returncode == status
    lines = done.stdout.splitlines()
    assert lines[0] == f"### profscope: {verdict}"
    assert any(re.match(r"\| matmul\\_kernel \| [\d.]+% slower \(mean launch ", line) for line in lines)
    assert any(line.startswith("| dot | 27 | ") for line in lines)
    assert any(line.startswith("- verdict of A: ") for line in lines)


def test_no_comparison_is_longer_than_60_lines_and_says_what_is_left_out(two_traces: list[str]) -> None:
    options = make_parser().parse_args([*two_traces, "--top", "0", "--fail-above", "5%"])
    one = compare(options)
    (kernel,) = one.kernels
    rows = [{**kernel["rows"][0], "significant": True, "scope": f"scope {at}"} for at in range(30)]
    kernels = [{**kernel, "kernel": f"kernel_{at}", "rows": rows} for at in range(40)]
    lines = markdown(replace(one, kernels=kernels, notes=["a long note " * 200] * 50, emulated=True))
    assert len(lines) <= 60
    assert "25 kernels more" in lines
    assert max(map(len, lines)) < 1000


def test_names_are_no_markup(two_traces: list[str]) -> None:
    one = compare(make_parser().parse_args(two_traces))
    (kernel,) = one.kernels
    named = {**kernel, "configuration": "x=<b>|`@team`\n# y", "rows": []}
    text = "\n".join(markdown(replace(one, kernels=[named])))
    assert r"x=\<b\>\|\`\@team\` \# y" in text
