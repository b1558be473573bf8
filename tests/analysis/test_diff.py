"""profscope.diff: on the emulator, and on made-up sessions of a GPU."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope.analysis.comparing.differences import DTYPES
from profscope.errors import OptionError
from profscope.profiles import Profile
from tests.support.edited import SOURCE, run_of_matmul, slowed, with_source
from tests.support.profiles import launch_table, profile_metadata
from tests.support.sessions import launch_add, launch_matmul, session

DATA = Path(__file__).parents[1] / "data" / "diff"


def recorded(stages: int, launches: int = 2, **options: Any) -> Profile:
    with session(**options) as prof:
        launch_matmul(stages, launches)
    return prof.profile


@pytest.fixture(scope="module")
def one_stage() -> Profile:
    return recorded(1)


@pytest.fixture(scope="module")
def three_stages() -> Profile:
    return recorded(3)


@pytest.fixture(scope="module")
def gpu_runs() -> list[Profile]:
    return [run_of_matmul(seed) for seed in range(6)]


def row_of(difference: pd.DataFrame, scope: str) -> pd.Series[Any]:
    """The row of a scope; of a kernel's name that of whole launches."""
    rows = difference[difference["scope"] == scope]
    return rows.iloc[0]


# On the emulator.


def test_the_wait_for_copies_leads_one_stage_against_three(one_stage: Profile, three_stages: Profile) -> None:
    difference = profscope.diff(one_stage, three_stages)
    assert difference.dtypes.astype(str).to_dict() == DTYPES | {
        name: str(difference[name].dtype) for name, dtype in DTYPES.items() if dtype == "str"
    }
    launch, first = difference.iloc[0], difference.iloc[1]
    assert (launch["kind"], launch["scope"], launch["significant"]) == ("launch", "matmul_kernel", True)
    assert launch["percent"] < -10
    # Without stages the loop itself waits for what it has loaded.
    assert (first["scope"], first["status"]) == ("loop L33", "changed")
    assert first["change"] < 0
    summaries = [each.summary().set_index("scope") for each in (one_stage, three_stages)]
    for side, summary in zip("ab", summaries, strict=True):
        assert first[f"self_{side}"] == summary.loc["loop L33", "self_cycles"] / 2
        assert first[f"count_{side}"] == summary.loc["loop L33", "count"] / 2
    assert set(difference.loc[difference["status"] == "appeared", "scope"]) == {
        "async wait a",
        "async wait (drain)",
    }
    assert set(difference.loc[difference["status"] == "gone", "scope"]) == {"load a", "load b"}
    assert (difference.loc[difference["status"] == "gone", "line_b"] == 0).all()
    size = difference["change"].abs().to_numpy()[1:]
    assert np.all(np.diff(size) <= 0)
    assert difference.attrs["unit"] == "cycles"
    assert difference.attrs["emulated"]
    assert difference.attrs["notes"] == []
    assert set(difference["differs"]) == {"num_stages 1 -> 3"}


def test_emulated_figures_are_exact() -> None:
    """Cycles have no noise, however often a launch was recorded."""
    some, again = recorded(3, launches=1), recorded(3, launches=3)
    difference = profscope.diff(some, again)
    assert (difference[["change", "low", "high"]] == 0).to_numpy().all()
    assert set(difference["status"]) == {"same"}
    assert difference["launches_a"].tolist() == [1] * 7
    assert difference["launches_b"].tolist() == [3] * 7
    df = again.df.assign(duration_cycles=again.df["duration_cycles"] + (again.df["scope"] == "store"))
    row = row_of(profscope.diff(some, replace(again, df=df)), "store")
    assert row["low"] == row["change"] == row["high"] > 0
    assert row["significant"]


def test_launches_with_other_parts_recorded_are_not_compared(three_stages: Profile) -> None:
    with session(ctas=[0, 1]) as prof:
        launch_matmul(3)
        launch_add(1000)  # one CTA: all of it
    with session() as whole:
        launch_matmul(3)
        launch_add(1000)
    difference = profscope.diff(whole, prof)
    assert set(difference["kernel"]) == {"add_kernel"}
    (open_group,) = difference.attrs["program"]["not_judged"]
    assert open_group["name"] == "matmul_kernel"
    assert open_group["a"] > 0.5
    (said,) = difference.attrs["not_measured"]
    assert said.startswith("matmul_kernel: ")
    assert "ctas=[0, 1]" in said
    with pytest.raises(profscope.errors.DiffError, match=r"the second 2 of 4 CTAs \(ctas=\[0, 1\]\)"):
        profscope.diff(three_stages, recorded(3, ctas=[0, 1]))


@triton.jit
def strided_kernel(x, y, size, BLOCK: tl.constexpr):  # noqa: N803
    """Any grid computes all of y."""
    for start in range(tl.program_id(0) * BLOCK, size, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(y + at, tl.exp(tl.load(x + at)))


def recorded_strided(grid: int, block: int, size: int = 1 << 14, **options: Any) -> Profile:
    x = torch.rand(size)
    with session(**{"ctas": 64} | options) as prof:
        for _ in range(3):
            strided_kernel[(grid,)](x, torch.empty_like(x), size, BLOCK=block)
    return prof.profile


@pytest.mark.parametrize("grid", [16, 8], ids=["a part of the CTAs", "all CTAs"])
def test_a_grid_decides_how_many_ctas_record_and_is_compared(grid: int) -> None:
    """64 CTAs of 256 elements each, 8 of them recorded; then larger blocks by fewer CTAs."""
    a, b = recorded_strided(64, 256), recorded_strided(grid, 16384 // grid)
    assert [profile.launches["ctas"].tolist() for profile in (a, b)] == [[8] * 3] * 2
    difference = profscope.diff(a, b)
    launch = difference.iloc[0]
    assert (launch["kind"], launch["grid_a"], launch["grid_b"]) == ("launch", "64", str(grid))
    assert difference.attrs["not_measured"] == []
    stores = row_of(difference, "store")
    # Totals are of the grid: 4 warps of each CTA store once.
    assert (stores["count_a"], stores["count_b"]) == (4 * 64, 4 * grid)
    totals = [profile.summary().set_index("scope").loc["store", "self_cycles"] / 3 for profile in (a, b)]
    assert [stores["self_a"], stores["self_b"]] == pytest.approx(totals, rel=0.01)
    assert stores["low"] <= totals[1] - totals[0] <= stores["high"]


def test_moved_lines_are_the_same_lines(three_stages: Profile, tmp_path: Path) -> None:
    source = three_stages.metadata["sources"][0]
    lines = source["text"].splitlines()
    at = next(number for number, line in enumerate(lines) if "for k in" in line)
    edited = [*lines[:at], "    # one line more,", "    # and another", *lines[at:]]
    metadata = {**three_stages.metadata, "sources": [{**source, "text": "\n".join(edited)}]}
    df = three_stages.df.copy()
    below = (df["line"] >= 33).to_numpy()
    df.loc[below, "line"] += 2
    df["scope"] = df["scope"].cat.rename_categories({"loop L33": "loop L35"})
    path = tmp_path / "moved.json.gz"
    replace(three_stages, df=df, metadata=metadata).save(path)
    difference = profscope.diff(three_stages, path)
    assert set(difference["status"]) == {"same"}
    assert (difference.loc[difference["kind"] != "launch", ["line_a", "line_b"]] > 0).all(axis=None)
    moved = difference[difference["line_a"] >= 33]
    assert len(moved) == 5
    assert (moved["line_b"] == moved["line_a"] + 2).all()
    assert "loop L35" in set(difference["scope"])


# Bad input.


def test_different_kernels_are_one_line(three_stages: Profile) -> None:
    with session() as prof:
        launch_add()
    with pytest.raises(profscope.errors.DiffError) as caught:
        profscope.diff(three_stages, prof)
    assert re.search(r"first \w+ matmul_kernel, the second add_kernel", str(caught.value))
    with pytest.raises(profscope.errors.DiffError, match="the second none"):
        profscope.diff(prof, Profile(metadata={"backend": "emulator"}))


def test_emulated_cycles_are_not_compared_with_gpu_time(
    three_stages: Profile, gpu_runs: list[Profile]
) -> None:
    with pytest.raises(profscope.errors.DiffError, match="the second profile is EMULATED, the first is not"):
        profscope.diff(gpu_runs[0], three_stages)


def test_what_is_no_profile_is_named(three_stages: Profile) -> None:
    with pytest.raises(profscope.errors.DiffError, match="sessions and paths of files, no DataFrame"):
        profscope.diff(three_stages, three_stages.df)


def test_launches_without_spans_are_not_measured(gpu_runs: list[Profile]) -> None:
    a, b = gpu_runs[:2]
    empty = replace(b, df=b.df.iloc[:0])
    difference = profscope.diff(a, empty)
    assert difference[["kind", "status"]].to_numpy().tolist() == [["launch", "same"]]
    (said,) = difference.attrs["not_measured"]
    assert said.startswith("matmul_kernel: rows: ")


# On a GPU, made up.


def test_two_runs_are_the_same(gpu_runs: list[Profile]) -> None:
    for a, b in pairwise(gpu_runs):
        difference = profscope.diff(a, b)
        assert not difference["significant"].any()
        assert set(difference["status"]) == {"same"}
        assert difference.attrs["unit"] == "ns"


@pytest.mark.parametrize(("factor", "word"), [(1.25, "changed"), (0.75, "changed"), (1.001, "same")])
def test_a_slower_line_is_found_and_leads(gpu_runs: list[Profile], factor: float, word: str) -> None:
    difference = profscope.diff(gpu_runs[0], slowed(gpu_runs[1], "dot", factor))
    row = row_of(difference, "dot")
    assert row["status"] == word
    if word == "changed":
        assert difference["scope"].iloc[1] == "dot"
        assert row["low"] < row["self_a"] * (factor - 1) < row["high"]
        assert row["percent"] == pytest.approx(100 * (factor - 1), abs=3)
        assert difference.loc[difference["significant"], "scope"].isin(["dot", "matmul_kernel"]).all()


def test_another_build_needs_a_larger_change() -> None:
    """It may be where the code lies."""
    a, again = (run_of_matmul(seed, ctas=96) for seed in (0, 1))
    b = slowed(again, "wait", 1.06)
    assert row_of(profscope.diff(a, b), "wait")["significant"]
    edited = with_source(b, SOURCE.replace("rows = tl.arange(0, 64)", "rows = tl.arange(0, 128)"))
    difference = profscope.diff(a, edited)
    assert not difference["significant"].any()
    assert any("two binaries" in note for note in difference.attrs["notes"])
    assert row_of(profscope.diff(a, slowed(edited, "wait", 1.5)), "wait")["significant"]


def test_the_note_on_noise_names_versions_that_differ() -> None:
    """They make two binaries of one kernel."""
    a, b = (run_of_matmul(0, triton=version, torch="2.9.0") for version in ("3.6.0", "3.7.1"))
    assert profscope.diff(a, b).attrs["notes"][-1].endswith("(Triton 3.6.0 and 3.7.1)")


def test_first_and_cold_launches_are_left_out(gpu_runs: list[Profile]) -> None:
    a = gpu_runs[0]
    cold = a.launches.assign(cold=a.launches["launch"] == 3)
    slow_launches = a.df["launch"].isin([0, 3]).to_numpy()
    df = a.df.assign(duration_ns=np.where(slow_launches, 3 * a.df["duration_ns"], a.df["duration_ns"]))
    took = (cold["end_ns"] - cold["start_ns"]) * np.where(cold["launch"].isin([0, 3]), 3, 1)
    slow = replace(a, df=df, launches=cold.assign(end_ns=cold["start_ns"] + took))
    difference = profscope.diff(a, slow)
    assert not difference["significant"].any()
    assert set(difference["launches_a"]) == {7}
    assert set(difference["launches_b"]) == {6}


def test_single_launches_are_compared_by_their_ctas() -> None:
    a, b = (run_of_matmul(seed, launches=1, ctas=64) for seed in (1, 2))
    difference = profscope.diff(a, b)
    assert not difference["significant"].any()
    assert any("has only one" in missing for missing in difference.attrs["not_measured"])
    slow = profscope.diff(a, slowed(b, "dot", 1.6))
    assert row_of(slow, "dot")["significant"]
    assert slow["scope"].iloc[1] == "dot"


def test_clocks_that_differ_are_said_and_cycles_compared(gpu_runs: list[Profile]) -> None:
    slower = replace(gpu_runs[1], launches=gpu_runs[1].launches.assign(clock_ghz=1.5))
    difference = profscope.diff(gpu_runs[0], slower)
    assert difference.attrs["unit"] == "cycles"
    assert any("1.980 GHz and 1.500 GHz" in note for note in difference.attrs["notes"])
    assert not difference.loc[difference["kind"] != "launch", "significant"].any()


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("num_warps", 8, "have 2 and 8 warps"),
        ("dropped", 3, "the second lost 24 records"),
        ("unfinished", 1, "in the second, 8 CTAs did not finish"),
    ],
)
def test_what_else_differs_is_said(gpu_runs: list[Profile], column: str, value: int, says: str) -> None:
    other = replace(gpu_runs[0], launches=gpu_runs[0].launches.assign(**{column: value}))
    assert any(says in note for note in profscope.diff(gpu_runs[0], other).attrs["notes"])


def test_what_one_side_lost_is_no_change(gpu_runs: list[Profile]) -> None:
    """The launches still are compared: records were lost, not time."""
    slow = slowed(gpu_runs[1], "dot", 1.5)
    assert profscope.diff(gpu_runs[0], slow)["significant"].sum() > 1
    lossy = replace(slow, launches=slow.launches.assign(dropped=3))
    difference = profscope.diff(gpu_runs[0], lossy)
    launch = difference["kind"] == "launch"
    assert difference.loc[launch, "significant"].all()
    assert not difference.loc[~launch, "significant"].any()
    assert "changed" not in set(difference.loc[~launch, "status"])
    assert any("lost different numbers of records" in each for each in difference.attrs["not_measured"])
    alike = replace(gpu_runs[0], launches=gpu_runs[0].launches.assign(dropped=3))
    assert profscope.diff(alike, lossy).loc[~launch, "significant"].any()


def test_other_options_and_gpus_are_said() -> None:
    a = run_of_matmul(0, launches=3)
    options = {**a.metadata["options"], "instrument": "heavy"}
    b = run_of_matmul(1, launches=3, options=options, device={"name": "NVIDIA H100"})
    notes = profscope.diff(a, b).attrs["notes"]
    assert any("instrument='default' and instrument='heavy'" in note for note in notes)
    assert any("NVIDIA H200 and NVIDIA H100" in note for note in notes)


def test_without_texts_lines_are_matched_by_number(gpu_runs: list[Profile]) -> None:
    bare = replace(gpu_runs[0], metadata={**gpu_runs[0].metadata, "sources": []})
    difference = profscope.diff(bare, gpu_runs[1])
    assert set(difference["status"]) == {"same"}
    assert any("no source texts" in note for note in difference.attrs["notes"])


# Variants.


def several(profile: Profile, keys: list[str]) -> Profile:
    """Its launches are of these configurations, in turn."""
    variant = profile.launches["launch"].to_numpy() % len(keys)
    about = [{"variant": at, "key": key, "constexprs": {"BLOCK": key}} for at, key in enumerate(keys)]
    metadata = {**profile.metadata, "variants": {"matmul_kernel": about}}
    return replace(profile, launches=profile.launches.assign(variant=variant), metadata=metadata)


def test_variants_of_the_same_constexprs_are_compared_then_the_nearest(gpu_runs: list[Profile]) -> None:
    a, b = several(gpu_runs[0], ["x", "y"]), several(gpu_runs[1], ["z", "x"])
    difference = profscope.diff(a, b)
    pairs = difference[["variant_a", "variant_b", "configuration", "differs"]].drop_duplicates()
    assert sorted(pairs.to_numpy().tolist()) == [[0, 1, "BLOCK=x", ""], [1, 0, "", "BLOCK y -> z"]]
    other = profscope.diff(a, several(gpu_runs[1], ["z", "v", "w"]))
    launches = other[other["kind"] == "launch"].set_index("configuration")
    assert launches["status"].to_dict()["BLOCK=w"] == "appeared"
    assert sorted(launches["differs"]) == ["", "BLOCK x -> z", "BLOCK y -> v"]


def test_what_differs_tells_variants_apart_and_their_numbers_only_if_nothing_does(
    gpu_runs: list[Profile],
) -> None:
    apart = profscope.diff(several(gpu_runs[0], ["x", "y"]), several(gpu_runs[1], ["z", "v"]))
    named = set(apart[["configuration", "differs"]].itertuples(index=False, name=None))
    assert named == {("", "BLOCK x -> z"), ("", "BLOCK y -> v")}
    alike = profscope.diff(several(gpu_runs[0], ["x", "x"]), several(gpu_runs[1], ["x", "x"]))
    assert set(alike["configuration"]) == {
        "variant #0 of A, variant #0 of B",
        "variant #1 of A, variant #1 of B",
    }


def test_what_is_in_flight_is_compared_by_its_time_in_all(gpu_runs: list[Profile]) -> None:
    """Of one launch, too, where CTAs are compared."""
    for runs in (gpu_runs[:2], [run_of_matmul(seed, launches=1, ctas=64) for seed in (1, 2)]):
        a, b = (in_flight(each, "load A") for each in (runs[0], slowed(runs[1], "load A", 2)))
        difference = profscope.diff(a, b)
        row = difference.iloc[-1]
        assert (row["kind"], row["scope"], row["self_a"], row["self_b"]) == ("async", "load A", 0, 0)
        assert row["change"] == pytest.approx(row["total_b"] - row["total_a"])
        assert row["percent"] == pytest.approx(100, abs=3)
        assert row["significant"]


def in_flight(profile: Profile, scope: str) -> Profile:
    df = profile.df
    kinds = df["kind"].cat.add_categories("async")
    return replace(profile, df=df.assign(kind=kinds.where(df["scope"] != scope, "async")))


def test_profiles_of_samples_alone_are_refused_in_words() -> None:
    bare = Profile(launches=launch_table([0], ["kernel"]), metadata=profile_metadata())
    with pytest.raises(profscope.errors.DiffError, match="kernel: the times of its launches are not known"):
        profscope.diff(bare, bare)


# Of an H200: two of eight CTAs of a matmul of 1,024, eight warps each, in five launches.


def test_one_stage_against_three_on_an_h200() -> None:
    names = "matmul-1-stage", "matmul-3-stages-0"
    difference = profscope.diff(*(DATA / f"{name}.pftrace.gz" for name in names))
    first = difference.iloc[:3]
    assert first["scope"].tolist() == ["matmul_kernel", "loop L33", "dot wait acc"]
    assert first["significant"].all()
    assert first["percent"].tolist() == pytest.approx([-61.2, -56.1, -97.2], abs=0.1)
    gone = difference[difference["status"] == "gone"]
    assert gone["scope"].tolist() == ["load a", "load b"]
    assert gone["significant"].all()
    # Little waits that have come are no more than noise.
    come = difference[difference["status"] == "appeared"]
    assert set(come["scope"]) == {"async wait a", "async wait (drain)", "dot wait (drain)"}
    assert not come["significant"].any()
    assert difference["kind"].iloc[-1] == "async"  # takes no time of a warp
    notes = difference.attrs["notes"]
    assert any("1.785 GHz and 1.730 GHz: cycles are compared" in note for note in notes)
    assert set(difference["differs"]) == {"num_stages 1 -> 3"}
    assert any("median launch 17.8 us in A, 7.1 us in B" in note for note in notes)


def test_the_other_way_round_changes_have_the_other_sign() -> None:
    a, b = (profscope.load(DATA / f"{name}.pftrace.gz") for name in ("matmul-1-stage", "matmul-3-stages-0"))
    there, back = (each.set_index(["scope", "kind"]) for each in (profscope.diff(a, b), profscope.diff(b, a)))
    back = back.loc[there.index]
    assert back["change"].tolist() == pytest.approx((-there["change"]).tolist())
    assert back["low"].tolist() == pytest.approx((-there["high"]).tolist())
    assert back["significant"].tolist() == there["significant"].tolist()
    turned = {"appeared": "gone", "gone": "appeared"}
    assert back["status"].tolist() == [turned.get(status, status) for status in there["status"]]


# The gate's verdict on bare times of a GPU, with known noise.


def timed(mean_ns: float, spread_pct: float, seed: int, launches: int = 100) -> Profile:
    """A run of the matmul with bare times of this mean and standard deviation."""
    profile = run_of_matmul(seed)
    (about,) = profile.metadata["variants"]["matmul_kernel"]
    grid = [int(profile.launches[f"grid_{axis}"].iloc[0]) for axis in "xyz"]
    times = np.random.default_rng(seed).normal(mean_ns, spread_pct / 100 * mean_ns, launches)
    entry = {"key": about["key"], "grid": grid, "times": times.tolist()}
    return replace(profile, metadata=profile.metadata | {"bare_times": {"matmul_kernel": [entry]}})


def test_bare_times_are_compared_where_both_have_them() -> None:
    difference = profscope.diff(timed(20_000, 1, 0), timed(20_100, 1, 1))
    assert difference.iloc[0]["self_a"] == pytest.approx(20_000, rel=0.005)
    assert difference.iloc[0]["launches_b"] == 100
    assert "launches are compared by their bare times" in difference.attrs["notes"]
    assert difference.failed(above=5) == difference.too_noisy(above=5) == difference.not_judged == []
    recorded = profscope.diff(timed(20_000, 1, 0), run_of_matmul(1))
    assert recorded.iloc[0]["launches_b"] < 100


def test_ten_percent_are_a_reason() -> None:
    difference = profscope.diff(timed(20_000, 1, 0), timed(22_000, 1, 1))
    (reason,) = difference.failed(above="5%")
    assert reason.startswith("matmul_kernel: ")
    assert reason.endswith(", significant; the bound is 5%")
    assert "% slower (mean launch 20.0us to 22.0us" in reason
    assert difference.failed(above=15) == []
    assert profscope.diff(timed(22_000, 1, 1), timed(20_000, 1, 0)).failed(above=5) == []


def test_noise_above_the_bound_is_told_with_both_figures() -> None:
    """Two sessions of one binary differ by 3 %, however many launches each has."""
    quiet = profscope.diff(timed(20_000, 0.5, 0), timed(20_000, 0.5, 1))
    (text,) = quiet.too_noisy(above=2)
    assert text.startswith("matmul_kernel: too noisy to tell: 3.")
    assert text.endswith(" % against a bound of 2 %")
    noisy = profscope.diff(timed(20_000, 40, 0), timed(20_000, 40, 1))
    assert noisy.failed(above=5) == []
    assert len(noisy.too_noisy(above=5)) == 1
    assert noisy.too_noisy(above=90) == []
    faster = profscope.diff(timed(20_000, 30, 0), timed(8_000, 30, 1))
    assert faster.too_noisy(above=5) == []


@pytest.mark.parametrize("bound", ["much", "-1%", "", None, float("nan")])
def test_what_is_no_bound_is_refused(bound: object) -> None:
    with pytest.raises(OptionError, match="not a percentage, such as 5%"):
        profscope.diff(run_of_matmul(0), run_of_matmul(1)).failed(above=bound)  # type: ignore[arg-type]
