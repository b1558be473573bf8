"""profscope diff as it is run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import profscope
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
    ):
        done = run("diff", *arguments)
        assert (done.returncode, done.stdout) == (status, ""), arguments
        assert says in done.stderr
        assert done.stderr.count("\n") == 1


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
